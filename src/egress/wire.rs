//! A client's connection with what was read and not yet used, and the reads and writes that all doors use. An idle
//! connection holds no buffer: bytes are read into one that the thread's connections share.

use std::cell::RefCell;
use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::net::Shutdown;
use tokio::io::{AsyncRead, AsyncReadExt, Interest};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::egress::limits::{HEAD_READ, MAX_LARGE_RESTS, READ_SIZE, SMALL_HEAD, SMALL_READ};

/// Bytes that are taken from a refused client before it is cut off.
pub(super) const MAX_LINGER: usize = 64 * 1024 * 1024;

/// How often a client that has sent ahead is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

thread_local! {
    static SHARED: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_SIZE]);
}

/// A connection and the bytes that were read ahead.
pub(super) struct Wire {
    pub(super) stream: TcpStream,
    pub(super) ahead: Vec<u8>,
}

impl Wire {
    /// A fresh connection.
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, ahead: Vec::new() }
    }

    /// Reads a little more; 0 is the end.
    pub(super) async fn fill(&mut self) -> io::Result<usize> {
        read_head_part(&self.stream, &mut self.ahead).await
    }

    /// Forgets the first `count` bytes.
    pub(super) fn consume(&mut self, count: usize) {
        consume(&mut self.ahead, count);
    }

    /// Ends the connection so that what was written arrives even though the client may still be sending: says so, and
    /// takes what comes for a moment.
    pub(super) async fn linger(mut self, patience: Duration) {
        if shutdown_write(&self.stream).is_err() {
            return;
        }
        let drain = async {
            let mut taken = 0;
            while taken < MAX_LINGER {
                self.ahead.clear();
                match self.fill().await {
                    Ok(count) if count > 0 => taken += count,
                    _ => return,
                }
            }
        };
        // Either way the connection is dropped now.
        let _ = timeout(patience, drain).await;
    }
}

/// Reads a little more of a head into `ahead`, and not over [`SMALL_HEAD`] in passing: what lies beyond needs a permit.
pub(super) async fn read_head_part(stream: &TcpStream, ahead: &mut Vec<u8>) -> io::Result<usize> {
    let size = match SMALL_HEAD.saturating_sub(ahead.len()) {
        0 => HEAD_READ,
        left => left.min(HEAD_READ),
    };
    read_into(stream, ahead, size).await
}

/// Returns once the other side has finished sending, whether or not bytes of it are still unread.
pub(super) async fn finished_sending(stream: &TcpStream) {
    loop {
        match stream.ready(Interest::READABLE).await {
            Ok(ready) if !ready.is_read_closed() => {}
            _ => return,
        }
        // Its next request lies there and keeps the socket ready: the end behind it is seen by looking again.
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Returns once the connection is broken: reset, or given up by the kernel.
pub(super) async fn broken(stream: &TcpStream) {
    // An error means that the runtime is going, and all connections with it.
    let _ = stream.ready(Interest::ERROR).await;
}

/// Reads up to `size` bytes into `out`; 0 is the end.
pub(super) async fn read_into(stream: &TcpStream, out: &mut Vec<u8>, size: usize) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        let read = SHARED.with_borrow_mut(|shared| {
            let count = stream.try_read(&mut shared[..size.min(READ_SIZE)])?;
            out.extend_from_slice(&shared[..count]);
            Ok(count)
        });
        match read {
            Err(error) if is_early(&error) => {}
            read => return read,
        }
    }
}

/// Forgets the first `count` bytes of `ahead`, and the memory with the last of them.
pub(super) fn consume(ahead: &mut Vec<u8>, count: usize) {
    if count >= ahead.len() {
        *ahead = Vec::new();
    } else {
        ahead.drain(..count);
        // What a large head took must not stay for a few bytes behind it.
        if ahead.capacity() > 2 * SMALL_HEAD {
            ahead.shrink_to_fit();
        }
    }
}

/// Writes all of `bytes`.
pub(super) async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_early(&error) => stream.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `bytes`, or gives up after `limit`.
pub(super) async fn write_within(stream: &TcpStream, bytes: &[u8], limit: Duration) -> io::Result<()> {
    timeout(limit, write_all(stream, bytes)).await.map_err(io::Error::other)?
}

/// Bytes that a receiver could not take yet.
pub(super) struct Rest(Vec<u8>);

/// How many of them are large.
static LARGE_RESTS: AtomicUsize = AtomicUsize::new(0);

impl Rest {
    fn new(bytes: &[u8]) -> Self {
        if bytes.len() > SMALL_READ {
            LARGE_RESTS.fetch_add(1, Ordering::Relaxed);
        }
        Self(bytes.to_vec())
    }
}

impl Deref for Rest {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        if self.0.len() > SMALL_READ {
            LARGE_RESTS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What one [`move_once`] did.
pub(super) enum Moved {
    /// This many bytes were read, and those that could not be written yet are returned.
    Bytes(usize, Rest),
    /// The sender has finished.
    End,
}

/// Moves up to `size` bytes from one socket to another without keeping them. Waits until some can be read and the
/// receiver takes some, so that a receiver that stands still holds the sender and not memory.
pub(super) async fn move_once(from: &TcpStream, to: &TcpStream, size: usize) -> io::Result<Moved> {
    loop {
        from.readable().await?;
        to.writable().await?;
        let moved = SHARED.with_borrow_mut(|shared| {
            let most =
                if LARGE_RESTS.load(Ordering::Relaxed) < MAX_LARGE_RESTS { READ_SIZE } else { SMALL_READ };
            let count = from.try_read(&mut shared[..size.min(most)])?;
            if count == 0 {
                return Ok(Moved::End);
            }
            let written = match to.try_write(&shared[..count]) {
                Err(error) if is_early(&error) => 0,
                written => written?,
            };
            Ok(Moved::Bytes(count, Rest::new(&shared[written..count])))
        });
        match moved {
            Err(error) if is_early(&error) => {}
            moved => return moved,
        }
    }
}

/// Whether a connection on which nothing is expected is quiet and open.
pub(super) async fn is_idle<R: AsyncRead + Unpin>(read: &mut R, ahead: &mut Vec<u8>) -> bool {
    let mut byte = [0; 1];
    tokio::select! {
        biased;
        read = read.read(&mut byte) => {
            // Bytes that nobody asked for are no answer to what is asked next.
            ahead.extend_from_slice(&byte[..read.unwrap_or(0)]);
            false
        }
        () = std::future::ready(()) => true,
    }
}

/// Says that nothing more will be written.
pub(super) fn shutdown_write(stream: &TcpStream) -> io::Result<()> {
    Ok(rustix::net::shutdown(stream, Shutdown::Write)?)
}

fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// When bytes last moved, and how many.
pub(super) struct Activity {
    start: Instant,
    last_millis: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
}

impl Activity {
    /// Starts now.
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self { start: Instant::now(), last_millis: zero(), up: zero(), down: zero() }
    }

    /// Counts bytes from the jail.
    pub(super) fn sent_up(&self, count: usize) {
        self.up.fetch_add(count as u64, Ordering::Relaxed);
        self.touch();
    }

    /// Counts bytes to the jail.
    pub(super) fn sent_down(&self, count: usize) {
        self.down.fetch_add(count as u64, Ordering::Relaxed);
        self.touch();
    }

    /// Returns once nothing has moved for `limit`.
    pub(super) async fn idle_for(&self, limit: Duration) {
        loop {
            let last = Duration::from_millis(self.last_millis.load(Ordering::Relaxed));
            let due = self.start + last + limit;
            if due <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(due.into()).await;
        }
    }

    /// Bytes from and to the jail.
    pub(super) fn totals(&self) -> (u64, u64) {
        (self.up.load(Ordering::Relaxed), self.down.load(Ordering::Relaxed))
    }

    /// Something moved that is no body.
    pub(super) fn touch(&self) {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_millis.store(millis, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn many_receivers_that_stand_still_hold_little_each() {
        let (mut sender, from) = pair().await;
        let (to, _receiver) = pair().await;
        sender.write_all(&vec![0; READ_SIZE]).await.unwrap();
        let held = (0..MAX_LARGE_RESTS).map(|_| Rest::new(&[0; READ_SIZE])).collect::<Vec<_>>();
        let Moved::Bytes(count, _) = move_once(&from, &to, READ_SIZE).await.unwrap() else { panic!() };
        assert!(count <= SMALL_READ, "{count}");
        drop(held);
    }

    #[test]
    fn a_few_bytes_behind_a_large_head_free_its_memory() {
        let mut ahead = vec![0; 64 * 1024];
        consume(&mut ahead, 64 * 1024 - 10);
        assert!(ahead.len() == 10 && ahead.capacity() <= 2 * SMALL_HEAD, "{}", ahead.capacity());
    }
}
