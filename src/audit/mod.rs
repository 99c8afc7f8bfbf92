//! The audit log: typed events, one JSON line each, chained by hash.
