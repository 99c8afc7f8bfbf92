//! The programs that `scripts/bench-network` measures with: a server that sends, takes and answers; a relay that does nothing
//! but splice(2); and a client that runs inside a jail and outside. The server and the client are one thread each.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a measurement that cannot go on must say so")]

mod client;
mod origin;
mod relay;

/// What a client asks of the server, as its first byte.
mod order {
    /// Send until the client has gone.
    pub const SEND: u8 = b'S';
    /// Take all bytes until the end, and answer with their number.
    pub const TAKE: u8 = b'T';
    /// Answer with one byte, and end: who ends first keeps the port for a while, and clients must not run out of ports.
    pub const ANSWER: u8 = b'A';
    /// Answer with one byte, and wait for the end.
    pub const STAY: u8 = b'W';
}

/// Bytes of a read or write of the client and of the server.
const BLOCK: usize = 64 * 1024;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match arguments.as_slice() {
        ["origin"] => runtime.block_on(origin::serve()),
        ["relay", to] => relay::serve(to.parse().expect("an address")),
        ["client"] => runtime.block_on(client::serve()),
        _ => panic!("origin, relay ADDRESS, or client"),
    }
}

fn raise_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}
