//! The bounds of the doors (NET-10), each with its reason. Everything inside the jail is taken to be hostile.

use std::time::Duration;

/// Connections that are served at once over all doors. Further ones wait in the kernel's backlog. The requirement is
/// 10,000; the rest is headroom for those that are just closing.
pub const MAX_CONNECTIONS: usize = 10_240;

/// Descriptors that the supervisor needs besides the doors' connections, each of which takes up to two.
pub const RESERVED_DESCRIPTORS: u64 = 256;

/// Bytes of a request's or a response's head.
pub const MAX_HEAD: usize = 64 * 1024;

/// Bytes of a head that every connection may hold; a larger one needs one of [`MAX_LARGE_HEADS`]. Heads of real clients
/// have one to four KiB, so that this keeps all connections together below 120 MiB whatever they send.
pub const SMALL_HEAD: usize = 8 * 1024;

/// Connections whose heads grow beyond [`SMALL_HEAD`] at once; further ones wait, within the deadline for heads.
pub const MAX_LARGE_HEADS: usize = 128;

/// Bytes that one read takes for a head, and for the chunks of a body. They are kept until they were used, unlike those
/// of tunnels and of bodies whose length is known.
pub const HEAD_READ: usize = 4 * 1024;
/// See [`HEAD_READ`].
pub const CHUNK_READ: usize = 16 * 1024;

/// Header lines in a head. Large requests of real clients have about sixty.
pub const MAX_HEADERS: usize = 256;

/// Bytes of a chunk's size line with its extensions, and of all trailers together. Both are dropped, so this only
/// bounds how much of them is read.
pub const MAX_CHUNK_LINE: usize = 4 * 1024;

/// Bytes that one read takes from a socket. Shared by all connections of the thread, so that an idle one holds none.
pub const READ_SIZE: usize = 64 * 1024;

/// Names that the resolver hands out addresses for. A session uses some dozens; full, the pool takes about 4 MiB.
pub const MAX_NAMES: usize = 16 * 1024;

/// Listeners that are made while the jail runs, for rules on single ports of names. Each is a descriptor.
pub const MAX_LATE_LISTENERS: usize = 1024;

/// Lookups outside that run at once, each of which occupies a thread while it waits. Abandoned ones count too.
pub const MAX_LOOKUPS: usize = 32;

/// Addresses of one name that are tried. Real names have at most a dozen.
pub const MAX_ADDRESSES: usize = 16;

/// Connections to the resolver over TCP at once, and late listeners being made at once.
pub const MAX_DNS_WORK: usize = 64;

/// The deadlines, apart from the sizes so that tests can shorten them.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// From the first byte of a head, or from accept, to its end.
    pub head: Duration,
    /// Between two requests on a connection that is kept open.
    pub keep_alive: Duration,
    /// Without a byte in either direction. Model APIs stream with pauses of minutes, editors keep sockets for hours.
    pub idle: Duration,
    /// Without a byte once one side has finished sending: what is left is an answer, or nobody.
    pub half_closed: Duration,
    /// For the lookup of a name outside.
    pub lookup: Duration,
    /// For a connection to one host over all its addresses.
    pub connect: Duration,
    /// Before the next address is tried as well (RFC 8305 recommends a quarter of a second).
    pub next_address: Duration,
    /// For the rest of what a refused client still sends, so that the answer is not lost in a reset.
    pub linger: Duration,
    /// Between two queries over TCP, and for each of them.
    pub dns: Duration,
    /// For a late listener.
    pub late_bind: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(30),
            keep_alive: Duration::from_secs(120),
            idle: Duration::from_secs(2 * 3600),
            half_closed: Duration::from_secs(600),
            lookup: Duration::from_secs(15),
            connect: Duration::from_secs(30),
            next_address: Duration::from_millis(250),
            linger: Duration::from_secs(2),
            dns: Duration::from_secs(10),
            late_bind: Duration::from_secs(3),
        }
    }
}
