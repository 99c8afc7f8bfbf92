//! Bytes both ways between the jail and an allowed host, until both sides have finished.

use std::io;

use tokio::net::TcpStream;

use crate::egress::limits::{Deadlines, READ_SIZE, SMALL_READ};
use crate::egress::wire::{Activity, Moved, broken, move_once, shutdown_write, write_all};

/// Carries bytes between `client` and `upstream` until both have finished, one fails, or nothing moves for too long.
/// The end of one side's bytes is passed on while the other side goes on.
pub(super) async fn run(
    client: &TcpStream,
    upstream: &TcpStream,
    activity: &Activity,
    deadlines: &Deadlines,
) {
    let up = pump(client, upstream, |count| activity.sent_up(count));
    let down = pump(upstream, client, |count| activity.sent_down(count));
    tokio::pin!(up, down);
    let (mut up_runs, mut down_runs) = (true, true);
    while up_runs || down_runs {
        let limit = if up_runs && down_runs { deadlines.idle } else { deadlines.half_closed };
        let ended = tokio::select! {
            ended = &mut up, if up_runs => { up_runs = false; ended }
            ended = &mut down, if down_runs => { down_runs = false; ended }
            () = activity.idle_for(limit) => return,
            // Nobody reads from a side that has finished, so a reset of it is seen here alone.
            () = broken(client), if !up_runs => return,
            () = broken(upstream), if !down_runs => return,
        };
        if ended.is_err() {
            return;
        }
    }
}

/// Carries bytes one way and passes the end on.
pub(super) async fn pump(from: &TcpStream, to: &TcpStream, count: impl Fn(usize)) -> io::Result<()> {
    let mut size = SMALL_READ;
    loop {
        match move_once(from, to, size).await? {
            Moved::End => break,
            Moved::Bytes(moved, rest) => {
                count(moved);
                // Not much more than the receiver takes at once: the rest is copied a second time.
                let taken = moved - rest.len();
                size = if rest.is_empty() { (size * 2).min(READ_SIZE) } else { taken.max(SMALL_READ) };
                write_all(to, &rest).await?;
            }
        }
        // A fast pair must not keep the thread from all others.
        tokio::task::coop::consume_budget().await;
    }
    // A receiver that is gone already has no use for the end.
    let _ = shutdown_write(to);
    Ok(())
}

/// Why [`pump_exactly`] stopped early.
pub(super) enum PumpError {
    /// The sender finished before everything was there.
    Sender,
    /// Either connection broke.
    Other,
}

/// Carries `left` bytes one way.
pub(super) async fn pump_exactly(
    from: &TcpStream,
    to: &TcpStream,
    mut left: u64,
    count: impl Fn(usize),
) -> Result<(), PumpError> {
    while left > 0 {
        let size = usize::try_from(left).unwrap_or(READ_SIZE).min(READ_SIZE);
        match move_once(from, to, size).await.map_err(|_| PumpError::Other)? {
            Moved::End => return Err(PumpError::Sender),
            Moved::Bytes(moved, rest) => {
                count(moved);
                left -= moved as u64;
                write_all(to, &rest).await.map_err(|_| PumpError::Other)?;
            }
        }
        tokio::task::coop::consume_budget().await;
    }
    Ok(())
}
