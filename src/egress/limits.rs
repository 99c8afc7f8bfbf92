//! The bounds of the doors (NET-10), each with its reason. Everything inside the jail is taken to be hostile.

use std::time::Duration;

/// Connections that are served at once over all doors. Further ones wait in the kernel's backlog. The requirement is
/// 10,000; the rest is headroom for those that are just closing.
pub const MAX_CONNECTIONS: usize = 10_240;

/// Connections at once that every machine should allow; fewer are told to the observer.
pub const ENOUGH: usize = 10_000;

/// Descriptors that the supervisor needs besides the doors' connections and the late listeners: its own, those of
/// lookups, and those of addresses that are tried side by side.
pub const RESERVED_DESCRIPTORS: u64 = 256;

/// Of sixteen descriptors for connections, those that clients may have; the rest is for hosts outside. A client that
/// sends its request, waits for its answer from us, or is between two requests has no host outside, so that its share
/// is the larger one. With 20,000 open files all of [`MAX_CONNECTIONS`] can be had.
pub const CLIENTS_IN_SIXTEEN: u64 = 9;

/// Bytes of a request's or a response's head.
pub const MAX_HEAD: usize = 64 * 1024;

/// Bytes of a head that every connection may hold; a larger one needs one of [`MAX_LARGE_HEADS`]. Heads of real clients
/// have one to four KiB. With the five KiB that a connection costs by itself this keeps all of them together below
/// 140 MiB, whatever they and the origins send.
pub const SMALL_HEAD: usize = 8 * 1024;

/// Heads beyond [`SMALL_HEAD`] at once, of requests and of responses, until they were passed on; further ones wait,
/// within the deadline for heads.
pub const MAX_LARGE_HEADS: usize = 128;

/// Bytes that one read takes for a head, and for the chunks of a body. They are kept until they were used, unlike those
/// of bodies whose length is known, so that a receiver that stands still holds twice as many.
pub const HEAD_READ: usize = 4 * 1024;
/// See [`HEAD_READ`].
pub const CHUNK_READ: usize = 4 * 1024;

/// Bytes of a method; the longest that is registered has 17. It is kept until the answer is there.
pub const MAX_METHOD: usize = 64;

/// Connections that end before freed memory is given back to the system: often enough that what a burst took does not
/// stay for the session, seldom enough not to be noticed.
pub const TRIM_EVERY: usize = 1024;
/// After so many of them it is given back as soon as none is open.
pub const TRIM_QUIET: usize = 64;

/// Header lines in a head. Large requests of real clients have about sixty.
pub const MAX_HEADERS: usize = 256;

/// Bytes of a chunk's size line with its extensions, and of all trailers together. Extensions are dropped;
/// trailers are kept until the body has ended.
pub const MAX_CHUNK_LINE: usize = 4 * 1024;

/// Bytes that one read takes from a socket. Shared by all connections of the thread, so that an idle one holds none. With
/// a quarter of it a stream is a third slower, and splice(2) is no faster (docs/performance.md).
pub const READ_SIZE: usize = 256 * 1024;

/// Bytes of a body that is read, that are taken at once: four records of TLS. Each connection on which a body moves holds
/// up to three times as many.
pub const INSPECT_READ: usize = 64 * 1024;

/// Connections at once whose traffic is read, from their ClientHello on; further ones wait. TLS on both sides costs an idle
/// one some 60 KiB, one on which bodies move up to 400 KiB, and one where they stand still both ways 1.1 MiB: what was read of the
/// socket waits there too.
pub const MAX_INSPECTED: usize = 2048;

/// Of these, the ones that speak HTTP/2; further ones wait. An idle one costs 100 KiB. When a client and a host work together
/// to stand still wherever they can, one holds up to 16 MiB, besides what it has of [`MAX_H2_HELD`]: [`H2_HEADS`] and
/// [`H2_OWN_HELD`] in each direction, [`MAX_TRAILERS`] and two frames for each request, [`H2_BACKLOG`] and two MiB of compressed headers'
/// tables for the client and for each of [`MAX_H2_HOSTS`] connections.
pub const MAX_INSPECTED_H2: usize = 128;

/// Connections to the host at once, for one connection of HTTP/2 from the jail: the one that takes requests, and those on
/// which the host said farewell and still answers.
pub const MAX_H2_HOSTS: usize = 3;

/// Requests at once on one connection of HTTP/2. Browsers and gRPC open about a hundred.
pub const MAX_H2_STREAMS: u32 = 128;
/// Bytes on their way that a stream of HTTP/2 may have: enough for 100 MB/s over 10 ms.
pub const H2_STREAM_WINDOW: u32 = 1024 * 1024;
/// The same for a connection with all of its streams: one that nobody reads leaves room for others.
pub const H2_CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// Bytes of bodies that a connection of HTTP/2 may hold in each direction whatever others hold, until their receivers take them.
pub const H2_OWN_HELD: usize = 1024 * 1024;
/// Bytes of bodies that all connections may hold together beyond that. A stream that would need more is reset.
pub const MAX_H2_HELD: usize = 256 * 1024 * 1024;
/// Bytes of a body's frame that are copied, since the buffer that it was read with is kept as long as any part of it.
pub const H2_COPIED: usize = 8 * 1024;
/// Bytes of trailers with [`H2_FIELD`] for each.
pub const MAX_TRAILERS: usize = 16 * 1024;

/// Bytes that a stream of HTTP/2 may hold for a receiver that stands still. More was measured, and is not faster.
pub const H2_BUFFER: usize = 64 * 1024;

/// Bytes that a connection of HTTP/2 may hold in each direction of heads that wait to be passed on: sixteen KiB for each request.
pub const H2_HEADS: usize = 2 * 1024 * 1024;
/// Bytes that a field of such a head takes besides its name and its value, at most: its place in a table that may be half
/// empty, and two allocations.
pub const H2_FIELD: usize = 256;

/// Bytes that a connection of HTTP/2 was given to send, and could not send yet: enough for eight streams at once with all
/// of [`H2_BUFFER`].
pub const H2_BACKLOG: usize = 512 * 1024;
/// Bytes that a frame takes there besides what it carries.
pub const H2_FRAME: usize = 256;

/// Bytes that a connection of HTTP/2 reads before others work, such as those who take what was read.
pub const H2_READ: usize = 64 * 1024;
/// What small frames of bodies may cost that nobody has taken yet, as the library counts: 256 less its length for each, of which
/// one has ten bytes at least. It is what can come within two reads, with which the library holds some 3 MiB; more does not
/// gather, since what comes is taken.
pub const H2_FRAMES: usize = 2 * H2_READ / 10 * 256;
/// Bytes of a block in which a body is gathered while its receiver stands still.
pub const H2_BLOCK: usize = 16 * 1024;

/// Bytes of a body's first reads, and the least of those after the receiver could not take all. What it could not take is
/// kept, so this bounds what a connection that stands still holds.
pub const SMALL_READ: usize = 8 * 1024;

/// Connections that may hold more than [`SMALL_READ`] of what a receiver could not take, 16 MiB together; with so many
/// that do, all reads are small.
pub const MAX_LARGE_RESTS: usize = 64;

/// Names that the resolver hands out addresses for: all of the pool's block but its first, its last and our own one. An
/// address is never given to another name, which a program could still take for the old one. A session uses some
/// dozens; full, the pool takes about 40 MiB.
pub const MAX_NAMES: usize = (1 << 17) - 3;

/// Of these, the ones kept for names that rules spell out. Rules with a wildcard share the others evenly, so that a
/// flood of names below one domain takes nothing from another.
pub const NAMES_FOR_EXACT: usize = 4 * 1024;

/// Listeners that are made while the jail runs, for rules on single ports. Each is a descriptor, and none is ever
/// closed: the address that it listens on keeps its meaning.
pub const MAX_LATE_LISTENERS: usize = 1024;

/// Of these, the ones kept for names and addresses that rules spell out; rules with a wildcard share the others evenly.
pub const LISTENERS_FOR_EXACT: usize = 256;

/// Errors of the resolver's socket in a row after which it has failed for good; with the rest after each, five seconds.
pub const MAX_DNS_ERRORS: usize = 100;

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
    /// Without a byte once one side has finished sending: what is left is an answer, or nobody. A client that closed its
    /// connection looks the same as one that waits for the answer, so that this is how long it keeps its slot.
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
            half_closed: Duration::from_secs(60),
            lookup: Duration::from_secs(15),
            connect: Duration::from_secs(30),
            next_address: Duration::from_millis(250),
            linger: Duration::from_secs(2),
            dns: Duration::from_secs(10),
            late_bind: Duration::from_secs(3),
        }
    }
}
