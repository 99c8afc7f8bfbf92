//! Effects: the only room that starts, mounts and listens.
