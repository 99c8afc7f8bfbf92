//! A relay that only splices, what any other is compared with: accept, connect, and for each way a thread and a pipe.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

/// Bytes of a pipe, and so of one splice at most: an ordinary user may have 64 MiB in pipes, and 64 tunnels have 128.
const MOST: usize = 256 * 1024;

/// Relays to `to` from a port of the loopback that it prints.
pub fn serve(to: SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    rustix::net::listen(&listener, 4096).expect("listen");
    println!("{}", listener.local_addr().unwrap());
    for client in listener.incoming() {
        let client = client.expect("accept");
        // Either side may go away at any time.
        thread::spawn(move || relay(&client, to).is_ok());
    }
}

fn relay(client: &TcpStream, to: SocketAddr) -> io::Result<()> {
    let server = TcpStream::connect(to)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    thread::scope(|scope| {
        let up = scope.spawn(|| pump(client, &server));
        let down = pump(&server, client);
        up.join().expect("a thread").and(down)
    })
}

fn pump(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    // Larger than by default: pieces that are smaller than a page take the place of one.
    rustix::pipe::fcntl_setpipe_size(&writer, MOST)?;
    let carried = loop {
        let mut left = match splice(from, None, &writer, None, MOST, SpliceFlags::empty()) {
            Ok(0) => break Ok(()),
            Ok(count) => count,
            Err(error) => break Err(error),
        };
        while left > 0 {
            match splice(&reader, None, to, None, left, SpliceFlags::empty()) {
                Ok(count) => left -= count,
                Err(error) => {
                    // The other way may be waiting for the sender.
                    let _ = from.shutdown(Shutdown::Read);
                    return Err(error.into());
                }
            }
        }
    };
    let _ = to.shutdown(Shutdown::Write);
    Ok(carried?)
}
