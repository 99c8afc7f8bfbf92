//! What this machine can enforce.
