//! The only writer to the terminal of the user (standard error), beside the relay.
