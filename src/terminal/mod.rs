//! The terminal: a PTY for the jail, a filter on what it writes, and everything put back at the end.
