//! One plain request and its response: the body goes up while the answer comes down, neither is gathered.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::egress::chunk::{CHUNK_END, ChunkError, ChunkReader, Piece, chunk_start};
use crate::egress::gate::Gate;
use crate::egress::head::{Framing, HeadError, Response, Version, head_length};
use crate::egress::limits::{CHUNK_READ, MAX_HEAD, SMALL_HEAD};
use crate::egress::rewrite::{After, Body, body_end, response_body, response_head};
use crate::egress::tunnel::{self, PumpError, pump, pump_exactly};
use crate::egress::wire::{
    Activity, Wire, broken, consume, finished_sending, read_head_part, read_into, shutdown_write, write_all,
    write_within,
};
use crate::policy::authority::Authority;
use crate::policy::http_rule::HttpDenial;

/// Interim responses (100, 103) before the real one; servers send one or two.
pub(super) const MAX_INTERIM: usize = 16;

/// A request that was understood and allowed.
pub(super) struct Outgoing {
    pub(super) target: Authority,
    /// Why rules for its host deny it.
    pub(super) denied: Option<Box<HttpDenial>>,
    /// The head as the origin gets it. Taken out when it is sent.
    pub(super) head: Vec<u8>,
    /// Held as long as a large head is.
    pub(super) large: Option<OwnedSemaphorePermit>,
    pub(super) method: String,
    /// The client's version.
    pub(super) version: Version,
    pub(super) framing: Framing,
    /// What the client wants to become of its connection.
    pub(super) after: After,
    pub(super) websocket: bool,
}

/// How an exchange failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The client's body is malformed and nothing was answered yet.
    Request(String),
    /// The origin gave no answer that can be passed on, and nothing was.
    Origin(String),
    /// The same, since it closed the connection before the first byte of an answer.
    Closed(String),
    /// The answer has begun, or there is nobody to answer.
    Cut,
}

/// Says whether what was read ahead of a body can be its beginning, so that a request that is plainly malformed never
/// reaches the origin.
pub(super) fn check_ahead(framing: Framing, ahead: &[u8]) -> Result<(), ChunkError> {
    if framing != Framing::Chunked {
        return Ok(());
    }
    let (mut reader, mut rest) = (ChunkReader::default(), ahead);
    loop {
        let (used, piece) = reader.next(rest)?;
        if !matches!(piece, Piece::Data(_)) {
            return Ok(());
        }
        rest = &rest[used..];
    }
}

/// Sends `outgoing` with its body and passes the response back. Returns what becomes of the client's connection.
pub(super) async fn run(
    gate: &Gate,
    wire: &mut Wire,
    upstream: &TcpStream,
    outgoing: &mut Outgoing,
    activity: &Activity,
) -> Result<After, Failure> {
    let head = LargeHead { bytes: std::mem::take(&mut outgoing.head), _permit: outgoing.large.take() };
    let progress = Progress::default();
    let Wire { stream: client, ahead } = wire;
    let exchange = Exchange { gate, client, upstream, outgoing, activity, progress: &progress };
    let downloaded = {
        let upload = exchange.upload(head, ahead);
        let download = exchange.download();
        tokio::pin!(upload, download);
        let (mut uploading, mut half_closed) = (true, false);
        loop {
            let limit = if half_closed { gate.deadlines.half_closed } else { gate.deadlines.idle };
            tokio::select! {
                ended = &mut upload, if uploading => match ended {
                    Ok(()) => uploading = false,
                    // The origin may have answered before it read everything, and must not wait for the rest.
                    Err(UploadError::Origin) => {
                        uploading = false;
                        let _ = shutdown_write(upstream);
                    }
                    Err(UploadError::Client) => break Err(Failure::Cut),
                    Err(UploadError::Chunks(_)) if progress.answered() => break Err(Failure::Cut),
                    Err(UploadError::Chunks(error)) => break Err(Failure::Request(error.to_string())),
                },
                ended = &mut download => {
                    if uploading && matches!(ended, Ok(Downloaded::Response(_))) {
                        // What is not sent yet belongs to the request all the same, as long as it comes.
                        tokio::select! {
                            _ = &mut upload => {}
                            () = broken(client) => {}
                            () = activity.idle_for(gate.deadlines.linger) => {}
                        }
                    }
                    break ended;
                }
                // Nobody reads from a client that has sent all: that it is gone is seen here alone.
                () = broken(client) => break Err(Failure::Cut),
                () = finished_sending(client), if !uploading && !half_closed => half_closed = true,
                () = activity.idle_for(limit) => break Err(match progress.answered() {
                    true => Failure::Cut,
                    false => Failure::Origin("it did not answer".to_owned()),
                }),
            }
        }
    };
    if matches!(downloaded, Err(Failure::Cut)) && progress.open_ended.load(Ordering::Relaxed) {
        // An orderly end would be the end of the answer.
        let _ = client.set_zero_linger();
    }
    match downloaded? {
        Downloaded::Response(after) => Ok(after),
        Downloaded::Upgraded(early) => {
            let late = std::mem::take(ahead);
            activity.sent_up(late.len());
            activity.sent_down(early.len());
            let limit = gate.deadlines.half_closed;
            let sent = write_within(client, &early, limit).await.is_ok()
                && write_within(upstream, &late, limit).await.is_ok();
            if sent {
                tunnel::run(client, upstream, activity, &gate.deadlines).await;
            }
            Err(Failure::Cut)
        }
    }
}

#[derive(Default)]
struct Progress {
    uploaded: AtomicBool,
    answered: AtomicBool,
    /// The answer ends where the connection does.
    open_ended: AtomicBool,
}

impl Progress {
    fn answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }
}

/// A head that is sent on, with its permit when it is large; both go when it was sent.
struct LargeHead {
    bytes: Vec<u8>,
    _permit: Option<OwnedSemaphorePermit>,
}

struct Exchange<'e> {
    gate: &'e Gate,
    client: &'e TcpStream,
    upstream: &'e TcpStream,
    outgoing: &'e Outgoing,
    activity: &'e Activity,
    progress: &'e Progress,
}

enum UploadError {
    Client,
    Origin,
    Chunks(ChunkError),
}

enum Downloaded {
    Response(After),
    /// The origin speaks WebSocket from here on; these bytes of it came already.
    Upgraded(Vec<u8>),
}

impl Exchange<'_> {
    async fn upload(&self, head: LargeHead, ahead: &mut Vec<u8>) -> Result<(), UploadError> {
        self.send_up(&head.bytes).await?;
        drop(head);
        match self.outgoing.framing {
            Framing::Unstated => {}
            Framing::Length(length) => self.upload_length(ahead, length).await?,
            Framing::Chunked => self.upload_chunks(ahead).await?,
        }
        self.progress.uploaded.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn upload_length(&self, ahead: &mut Vec<u8>, length: u64) -> Result<(), UploadError> {
        let early = ahead.len().min(usize::try_from(length).unwrap_or(usize::MAX));
        self.send_up(&ahead[..early]).await?;
        self.activity.sent_up(early);
        consume(ahead, early);
        let count = |count| self.activity.sent_up(count);
        match pump_exactly(self.client, self.upstream, length - early as u64, count).await {
            Ok(()) => Ok(()),
            Err(PumpError::Sender) => Err(UploadError::Client),
            Err(PumpError::Other) => Err(UploadError::Origin),
        }
    }

    async fn upload_chunks(&self, ahead: &mut Vec<u8>) -> Result<(), UploadError> {
        let mut reader = ChunkReader::default();
        loop {
            let (used, piece) = reader.next(ahead).map_err(UploadError::Chunks)?;
            match piece {
                Piece::More => {}
                Piece::End => self.send_up(&end_of(&reader)).await?,
                Piece::Data(count) => {
                    self.send_up(&[&chunk_start(count), &ahead[used - count..used], CHUNK_END].concat())
                        .await?;
                    self.activity.sent_up(count);
                }
            }
            consume(ahead, used);
            match piece {
                Piece::End => return Ok(()),
                Piece::More => self.more_from_client(ahead).await?,
                Piece::Data(_) => {}
            }
        }
    }

    async fn more_from_client(&self, ahead: &mut Vec<u8>) -> Result<(), UploadError> {
        match read_into(self.client, ahead, CHUNK_READ).await {
            Ok(1..) => Ok(()),
            _ => Err(UploadError::Client),
        }
    }

    async fn send_up(&self, bytes: &[u8]) -> Result<(), UploadError> {
        write_all(self.upstream, bytes).await.map_err(|_| UploadError::Origin)
    }

    async fn download(&self) -> Result<Downloaded, Failure> {
        let mut ahead = Vec::new();
        for _ in 0..MAX_INTERIM {
            let (length, large) = self.read_head(&mut ahead).await?;
            let response = Response::parse(&ahead[..length]).map_err(not_http)?;
            match response.status {
                101 if self.outgoing.websocket => {
                    self.answer(&response_head(&response, Body::None(None), After::Close)).await?;
                    return Ok(Downloaded::Upgraded(ahead.split_off(length)));
                }
                101 => {
                    return Err(Failure::Origin(
                        "it changed to a protocol that was not asked for".to_owned(),
                    ));
                }
                100..200 => {
                    if self.outgoing.version == Version::Http11 {
                        self.send_down(&response_head(&response, Body::None(None), After::Close)).await?;
                    }
                    consume(&mut ahead, length);
                }
                _ => {
                    let found = response_body(
                        &response,
                        response.framing().map_err(not_http)?,
                        &self.outgoing.method,
                    );
                    // HTTP/1.0 has no chunks.
                    let shown = match (found, self.outgoing.version) {
                        (Body::Chunked, Version::Http10) => Body::UntilClose,
                        _ => found,
                    };
                    let uploaded = self.progress.uploaded.load(Ordering::Relaxed);
                    let after = match shown {
                        Body::UntilClose => After::Close,
                        _ if uploaded => self.outgoing.after,
                        _ => After::Close,
                    };
                    self.progress.open_ended.store(shown == Body::UntilClose, Ordering::Relaxed);
                    self.answer(&response_head(&response, shown, after)).await?;
                    consume(&mut ahead, length);
                    drop(large);
                    self.download_body(ahead, found, shown).await?;
                    return Ok(Downloaded::Response(after));
                }
            }
        }
        Err(Failure::Origin("it sent nothing but interim responses".to_owned()))
    }

    async fn download_body(&self, ahead: Vec<u8>, found: Body, shown: Body) -> Result<(), Failure> {
        match found {
            Body::None(_) => Ok(()),
            Body::Length(length) => self.download_length(ahead, length).await,
            Body::Chunked => self.download_chunks(ahead, shown).await,
            Body::UntilClose => {
                self.send_down(&ahead).await?;
                self.activity.sent_down(ahead.len());
                let count = |count| self.activity.sent_down(count);
                pump(self.upstream, self.client, count).await.map_err(|_| Failure::Cut)
            }
        }
    }

    async fn download_length(&self, ahead: Vec<u8>, length: u64) -> Result<(), Failure> {
        let early = ahead.len().min(usize::try_from(length).unwrap_or(usize::MAX));
        self.send_down(&ahead[..early]).await?;
        self.activity.sent_down(early);
        drop(ahead);
        let count = |count| self.activity.sent_down(count);
        pump_exactly(self.upstream, self.client, length - early as u64, count).await.map_err(|_| Failure::Cut)
    }

    async fn download_chunks(&self, mut ahead: Vec<u8>, shown: Body) -> Result<(), Failure> {
        let mut reader = ChunkReader::default();
        loop {
            let (used, piece) = reader.next(&ahead).map_err(|_| Failure::Cut)?;
            match (piece, shown) {
                (Piece::More, _) | (Piece::End, Body::UntilClose) => {}
                (Piece::End, _) => self.send_down(&end_of(&reader)).await?,
                (Piece::Data(count), _) => {
                    let data = &ahead[used - count..used];
                    match shown {
                        Body::Chunked => {
                            self.send_down(&[&chunk_start(count), data, CHUNK_END].concat()).await?
                        }
                        _ => self.send_down(data).await?,
                    }
                    self.activity.sent_down(count);
                }
            }
            consume(&mut ahead, used);
            match piece {
                Piece::End => return Ok(()),
                Piece::More => self.more_from_origin(&mut ahead).await?,
                Piece::Data(_) => {}
            }
        }
    }

    /// The length of the head, and the permit that a large one has. From where it grows large it must be there in time:
    /// an origin that never ends it would keep the permit.
    async fn read_head(&self, ahead: &mut Vec<u8>) -> Result<(usize, Option<OwnedSemaphorePermit>), Failure> {
        if let Some(length) = self.read_head_within(ahead, SMALL_HEAD).await? {
            return Ok((length, None));
        }
        let large = async {
            let permits = Arc::clone(&self.gate.large_heads);
            let permit = permits.acquire_owned().await.map_err(|_| Failure::Cut)?;
            let length =
                self.read_head_within(ahead, MAX_HEAD).await?.ok_or_else(|| not_http(HeadError::TooLarge))?;
            Ok((length, Some(permit)))
        };
        timeout(self.gate.deadlines.head, large).await.unwrap_or_else(|_| {
            Err(Failure::Origin("the head of its answer is large and took too long".to_owned()))
        })
    }

    /// The length of the head; `None` when it has not ended within `most` bytes.
    async fn read_head_within(&self, ahead: &mut Vec<u8>, most: usize) -> Result<Option<usize>, Failure> {
        let mut seen = 0;
        loop {
            if let Some(length) = head_length(ahead, seen).map_err(not_http)? {
                return Ok(Some(length));
            }
            seen = ahead.len();
            if seen >= most {
                return Ok(None);
            }
            match read_head_part(self.upstream, ahead).await {
                Ok(0) => {
                    return Err(Failure::Origin("it closed the connection without an answer".to_owned()));
                }
                Ok(_) => {}
                Err(error) => {
                    return Err(Failure::Origin(format!("the connection broke before an answer ({error})")));
                }
            }
        }
    }

    async fn more_from_origin(&self, ahead: &mut Vec<u8>) -> Result<(), Failure> {
        match read_into(self.upstream, ahead, CHUNK_READ).await {
            Ok(1..) => Ok(()),
            _ => Err(Failure::Cut),
        }
    }

    async fn answer(&self, head: &[u8]) -> Result<(), Failure> {
        self.progress.answered.store(true, Ordering::Relaxed);
        self.send_down(head).await
    }

    async fn send_down(&self, bytes: &[u8]) -> Result<(), Failure> {
        write_all(self.client, bytes).await.map_err(|_| Failure::Cut)
    }
}

/// What ends a chunked body that ended so.
fn end_of(reader: &ChunkReader) -> Vec<u8> {
    body_end(reader.trailers(), |name, value| (Cow::Borrowed(name.as_bytes()), Cow::Borrowed(value)))
}

fn not_http(error: HeadError) -> Failure {
    Failure::Origin(format!("its answer is refused: {error}"))
}
