//! HTTP/1 on both sides, by the parsers of the plain doors: every request is decided about by itself, nothing is gathered.

mod carry;
mod down;
mod up;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::egress::ask::{AskError, ask_secure};
use crate::egress::exchange::{Failure, check_ahead};
use crate::egress::head::{Framing, HeadError, Request, Version, head_length};
use crate::egress::limits::{HEAD_READ, SMALL_HEAD};
use crate::egress::reply::{Status, reply};
use crate::egress::rewrite::{After, after_request, request_head, wants_websocket};
use crate::egress::wire::{MAX_LINGER, consume, is_idle};
use crate::policy::http_rule::{HttpDecision, decide_request};
use crate::tls::roots::Offer;

use self::carry::{Search, fill, relay};
use self::down::Down;
use self::up::{Up, UploadError};
use super::{Outside, Session, Unreachable, head};

/// One side of the exchange.
struct Side<S> {
    read: ReadHalf<S>,
    write: WriteHalf<S>,
    ahead: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite> Side<S> {
    fn new(stream: S) -> Self {
        let (read, write) = tokio::io::split(stream);
        Self { read, write, ahead: Vec::new() }
    }
}

/// A request that was understood and allowed.
struct Asked {
    head: Vec<u8>,
    _large: Option<OwnedSemaphorePermit>,
    method: String,
    version: Version,
    framing: Framing,
    after: After,
    websocket: bool,
    search: Option<Search>,
}

/// What becomes of a request.
enum Understood {
    /// It goes on.
    Asked(Box<Asked>),
    /// It gets this answer of ours, and the connection goes on so.
    Answered(Vec<u8>, After),
}

/// What becomes of the client's connection.
enum Next {
    /// The next request.
    Request,
    /// It ends.
    End,
    /// It breaks off.
    Cut,
}

/// How far an exchange has come.
#[derive(Default)]
struct Progress {
    uploaded: AtomicBool,
    answered: AtomicBool,
}

/// What the answer was.
enum Downloaded {
    /// Whole; and whether the host's connection can be used again.
    Response(After, Reuse),
    /// The host speaks WebSocket from here on.
    Upgraded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reuse {
    Yes,
    No,
}

/// Serves `client`.
pub(super) async fn serve<C>(session: &Arc<Session>, client: C, outside: Result<Outside, Unreachable>)
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let mut client = Side::new(client);
    let mut outside = outside.map(|outside| Some(Side::new(outside)));
    let mut first = true;
    loop {
        match next(session, &mut client, &mut outside, first).await {
            Next::Request => first = false,
            Next::End => break,
            // A client that finds the end by it must not take what it has for the whole.
            Next::Cut => return,
        }
    }
    // A client that is gone has no use for the end, and one that still sends would not read it if what it sends were refused.
    let end = async {
        client.write.shutdown().await?;
        let mut taken = 0;
        while taken < MAX_LINGER {
            client.ahead.clear();
            if !fill(&mut client.read, &mut client.ahead, HEAD_READ).await {
                break;
            }
            taken += client.ahead.len();
        }
        std::io::Result::Ok(())
    };
    let _ = timeout(session.gate.deadlines.linger, end).await;
}

async fn next<C>(
    session: &Session,
    client: &mut Side<C>,
    outside: &mut Result<Option<Side<Outside>>, Unreachable>,
    first: bool,
) -> Next
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let (length, large) = match read_head(session, client, first).await {
        Ok(Some(head)) => head,
        Ok(None) => return Next::End,
        Err(error) => return refuse(session, client, error.into()).await,
    };
    let mut asked = match understand(session, &client.ahead[..length], large) {
        Ok(Understood::Asked(asked)) => *asked,
        Ok(Understood::Answered(answer, after)) => {
            consume(&mut client.ahead, length);
            return say(session, client, &answer, after).await;
        }
        Err(error) => return refuse(session, client, error).await,
    };
    consume(&mut client.ahead, length);
    session.activity.touch();
    if check_ahead(asked.framing, &client.ahead).is_err() {
        let line = "ai-jail: the request is refused: the body's chunks are malformed";
        let answer = reply(Status::BadRequest, line, None, &asked.method, After::Close);
        return say(session, client, &answer, After::Close).await;
    }
    // Without a body the next request begins right behind this head; with one, an answer of ours ends the connection.
    let after = if asked.framing == Framing::Unstated { asked.after } else { After::Close };
    let (mut side, used) = match open(session, outside).await {
        Ok(side) => side,
        Err(line) => {
            let answer = reply(Status::BadGateway, &line, None, &asked.method, after);
            return say(session, client, &answer, after).await;
        }
    };
    let again = match (used, asked.framing, asked.method.as_str()) {
        (Reuse::Yes, Framing::Unstated, "GET" | "HEAD" | "OPTIONS") => Some(asked.head.clone()),
        _ => None,
    };
    let mut ended = exchange(session, client, &mut side, &mut asked).await;
    if used == Reuse::Yes && matches!(ended, Err(Failure::Closed(_))) {
        // The host closed the connection when the request was on its way. What cannot be asked twice is left to the
        // client, which sees what it would have seen without us.
        match again {
            Some(head) => {
                if let Ok(fresh) = anew(session).await {
                    (side, asked.head) = (fresh, head);
                    ended = exchange(session, client, &mut side, &mut asked).await;
                }
            }
            None if first => {}
            None => return Next::End,
        }
    }
    match ended {
        Ok(Downloaded::Response(after, reuse)) => {
            if reuse == Reuse::Yes {
                *outside = Ok(Some(side));
            }
            match after {
                After::KeepAlive => Next::Request,
                After::Close => Next::End,
            }
        }
        Ok(Downloaded::Upgraded) => {
            websocket(session, client, &mut side).await;
            Next::End
        }
        Err(Failure::Cut) => Next::Cut,
        Err(Failure::Request(why)) => {
            let line = format!("ai-jail: the request is refused: {why}");
            let answer = reply(Status::BadRequest, &line, None, &asked.method, After::Close);
            say(session, client, &answer, After::Close).await
        }
        Err(Failure::Origin(why) | Failure::Closed(why)) => {
            let line = session.unreachable(&why).to_string();
            let answer = reply(Status::BadGateway, &line, None, &asked.method, After::Close);
            say(session, client, &answer, After::Close).await
        }
    }
}

/// The connection to the host: the one that is there, unless the host has closed it.
async fn open(
    session: &Session,
    outside: &mut Result<Option<Side<Outside>>, Unreachable>,
) -> Result<(Side<Outside>, Reuse), String> {
    match outside {
        Ok(kept) => {
            if let Some(mut side) = kept.take()
                && side.ahead.is_empty()
                && is_idle(&mut side.read, &mut side.ahead).await
            {
                return Ok((side, Reuse::Yes));
            }
        }
        // It was asked for once for this connection: the client asks anew by connecting.
        Err(error) => return Err(error.to_string()),
    }
    anew(session).await.map(|side| (side, Reuse::No))
}

async fn anew(session: &Session) -> Result<Side<Outside>, String> {
    session.connect(Offer::Http1).await.map(Side::new).map_err(|error| error.to_string())
}

/// The length of the head, and the permit that a large one has; `None` when the client is gone.
async fn read_head<C: AsyncRead>(
    session: &Session,
    client: &mut Side<C>,
    first: bool,
) -> Result<Option<(usize, Option<OwnedSemaphorePermit>)>, HeadError> {
    let deadlines = &session.gate.deadlines;
    if client.ahead.is_empty() && !first {
        let Ok(true) =
            timeout(deadlines.keep_alive, fill(&mut client.read, &mut client.ahead, HEAD_READ)).await
        else {
            return Ok(None);
        };
    }
    let read = async {
        let (mut seen, mut large) = (0, None);
        loop {
            if let Some(length) = head_length(&client.ahead, seen)? {
                return Ok(Some((length, large)));
            }
            seen = client.ahead.len();
            if seen >= SMALL_HEAD && large.is_none() {
                large = Arc::clone(&session.gate.large_heads).acquire_owned().await.ok();
            }
            if !fill(&mut client.read, &mut client.ahead, HEAD_READ).await {
                return Ok(None);
            }
        }
    };
    timeout(deadlines.head, read).await.unwrap_or(Ok(None))
}

/// The request as it goes on, or the answer that it gets from us.
fn understand(
    session: &Session,
    bytes: &[u8],
    large: Option<OwnedSemaphorePermit>,
) -> Result<Understood, AskError> {
    let request = Request::parse(bytes)?;
    let forward = ask_secure(&request, &session.target)?;
    let after = after_request(&request);
    let fields = request.fields.iter();
    let decision =
        decide_request(&session.gate.policy, &session.target, request.method, &forward.path, fields);
    if let HttpDecision::Denied(denial) = decision {
        session.gate.tell_http_denied(session.door, &denial);
        let after = if forward.framing == Framing::Unstated { after } else { After::Close };
        let line = denial.to_string();
        return Ok(Understood::Answered(
            reply(Status::Forbidden, &line, Some(&session.target), request.method, after),
            after,
        ));
    }
    let encoded = request.fields.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case("content-encoding") && !value.eq_ignore_ascii_case(b"identity")
    });
    let mut outgoing = session.outgoing();
    let head = head::request(
        &request_head(&request, &forward),
        forward.framing,
        &session.target,
        session.bound,
        &mut outgoing,
    );
    session.tell_noted(outgoing.noted());
    Ok(Understood::Asked(Box::new(Asked {
        head,
        _large: large,
        method: request.method.to_owned(),
        version: request.version,
        framing: forward.framing,
        after,
        websocket: wants_websocket(&request),
        search: if encoded { None } else { outgoing.body().map(Search::new) },
    })))
}

async fn exchange<C>(
    session: &Session,
    client: &mut Side<C>,
    side: &mut Side<Outside>,
    asked: &mut Asked,
) -> Result<Downloaded, Failure>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let progress = Progress::default();
    let (head, search) = (std::mem::take(&mut asked.head), asked.search.take());
    let mut up = Up {
        session,
        read: &mut client.read,
        ahead: &mut client.ahead,
        write: &mut side.write,
        search,
        progress: &progress,
    };
    let mut down = Down {
        session,
        read: &mut side.read,
        ahead: &mut side.ahead,
        write: &mut client.write,
        asked,
        progress: &progress,
    };
    let upload = up.run(head, asked.framing);
    let download = down.run();
    tokio::pin!(upload, download);
    let (mut uploading, mut half_closed) = (true, false);
    loop {
        tokio::select! {
            ended = &mut upload, if uploading => {
                uploading = false;
                match ended {
                    // All was sent, and the client will send no more.
                    Ok(()) => half_closed = true,
                    // The host may have answered before it read everything.
                    Err(UploadError::Host) => {}
                    Err(UploadError::Client) => return Err(Failure::Cut),
                    Err(UploadError::Chunks(_)) if progress.answered.load(Ordering::Relaxed) => return Err(Failure::Cut),
                    Err(UploadError::Chunks(error)) => return Err(Failure::Request(error.to_string())),
                }
            }
            ended = &mut download => {
                if uploading && matches!(ended, Ok(Downloaded::Response(..))) {
                    // What is not sent yet belongs to the request all the same, as long as it comes, and clients that send all before
                    // they read would take a broken connection for the answer.
                    tokio::select! {
                        () = uploaded(upload, &progress) => {}
                        () = session.activity.idle_for(session.gate.deadlines.linger) => {}
                    }
                }
                return ended;
            }
            () = session.activity.idle_for(session.idle(half_closed)) => {
                return Err(match progress.answered.load(Ordering::Relaxed) {
                    true => Failure::Cut,
                    false => Failure::Origin("it did not answer".to_owned()),
                });
            }
        }
    }
}

/// Until the request was sent, or does not go on.
async fn uploaded(mut upload: Pin<&mut impl Future<Output = Result<(), UploadError>>>, progress: &Progress) {
    poll_fn(|context| match upload.as_mut().poll(context) {
        Poll::Pending if !progress.uploaded.load(Ordering::Relaxed) => Poll::Pending,
        _ => Poll::Ready(()),
    })
    .await;
}

/// Carries a WebSocket. What the client sends is masked and cannot be read; what the host sends is searched.
async fn websocket<C>(session: &Session, client: &mut Side<C>, side: &mut Side<Outside>)
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let search = if session.bound { session.inspector.vault.scrub().map(Search::new) } else { None };
    let activity = &session.activity;
    let up =
        relay(&mut client.read, &mut client.ahead, &mut side.write, None, |count| activity.sent_up(count));
    let down =
        relay(&mut side.read, &mut side.ahead, &mut client.write, search, |count| activity.sent_down(count));
    tokio::pin!(up, down);
    let (mut up_runs, mut down_runs) = (true, true);
    while up_runs || down_runs {
        tokio::select! {
            _ = &mut up, if up_runs => up_runs = false,
            noted = &mut down, if down_runs => {
                down_runs = false;
                if let Some(noted) = noted {
                    session.tell_scrubbed(&noted);
                }
            }
            () = activity.idle_for(session.idle(!(up_runs && down_runs))) => return,
        }
    }
}

async fn refuse<C: AsyncRead + AsyncWrite + Unpin>(
    session: &Session,
    client: &mut Side<C>,
    error: AskError,
) -> Next {
    let status = match error {
        AskError::Head(HeadError::TooLarge) => Status::HeadTooLarge,
        _ => Status::BadRequest,
    };
    let line = format!("ai-jail: the request is refused: {error}");
    say(session, client, &reply(status, &line, None, "", After::Close), After::Close).await
}

/// Writes an answer of ours. A client that does not read it is given up.
async fn say<C: AsyncRead + AsyncWrite + Unpin>(
    session: &Session,
    client: &mut Side<C>,
    answer: &[u8],
    after: After,
) -> Next {
    let said = async {
        client.write.write_all(answer).await?;
        client.write.flush().await
    };
    match (timeout(session.gate.deadlines.head, said).await, after) {
        (Ok(Ok(())), After::KeepAlive) => Next::Request,
        _ => Next::End,
    }
}
