//! HTTP/2 on both sides. Framing and flow control are the library's; every request is decided about by itself.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HOST, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::{Authority as UriAuthority, PathAndQuery, Scheme};
use http::{Method, Request, Response, StatusCode, Uri};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::egress::exchange::MAX_INTERIM;
use crate::egress::limits::{
    H2_BUFFER, H2_CONNECTION_WINDOW, H2_FRAMES, H2_HEADS, H2_STREAM_WINDOW, MAX_H2_STREAMS, MAX_HEAD,
    SMALL_HEAD,
};
use crate::policy::authority::Authority;
use crate::policy::http_rule::{HttpDecision, decide_request};
use crate::secrets::Stream;

pub(super) use self::backlog::{Backlog, Frames};
use self::host::{Host, Sent, Unsent};
use self::refusal::{Asked, PERMISSION_DENIED, UNAVAILABLE, refusal, say};
use super::body::{Held, Incoming, Way, copied, copied_name, is_too_large, pass, scrub, tell_cut, weight};
use super::head::{HTTPS_PORT, asks_for_part, codes_nothing, host_of, is_left_out};
use super::{Outside, Session, Unreachable};

mod backlog;
mod host;
mod paced;
mod refusal;
mod slots;
mod words;

/// The tasks of a connection, which end with it.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(future);
    }
}

/// Ends the tasks, which hold on to each other.
struct Ending(Tasks);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

/// One client's connection and what it is served by.
struct Served {
    session: Arc<Session>,
    host: Host,
    /// What is still to be sent to the client.
    backlog: Backlog,
    /// Bytes that heads of requests may take until they are sent, and those of answers.
    requests: Semaphore,
    answers: Semaphore,
    /// What bodies may hold in each direction.
    up: Arc<Held>,
    down: Arc<Held>,
}

/// Serves `client`.
pub(super) async fn serve<C>(session: &Arc<Session>, client: C, outside: Result<Outside, Unreachable>)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let deadline = session.gate.deadlines.head;
    let Ok(Ok(_permit)) = timeout(deadline, session.gate.inspected_h2.acquire()).await else {
        return session.tell_failed(format!(
            "ai-jail: a connection to {} was cut: too many connections of HTTP/2 are read at once",
            session.target
        ));
    };
    let backlog = Backlog::new();
    let handshake = Builder::new()
        .max_concurrent_streams(MAX_H2_STREAMS)
        .max_header_list_size(MAX_HEAD as u32)
        .initial_window_size(H2_STREAM_WINDOW)
        .initial_connection_window_size(H2_CONNECTION_WINDOW)
        .max_send_buffer_size(H2_BUFFER)
        .data_frame_budget(H2_FRAMES)
        .handshake::<_, Bytes>(backlog.below(client));
    // A client that says nothing, or something else, has its own reasons.
    let Ok(Ok(mut connection)) = timeout(deadline, handshake).await else { return };
    let tasks = Tasks::default();
    let _ending = Ending(tasks.clone());
    let host = Host::new(session, &tasks, outside).await;
    let served = Arc::new(Served {
        session: Arc::clone(session),
        host,
        backlog,
        requests: Semaphore::new(H2_HEADS),
        answers: Semaphore::new(H2_HEADS),
        up: Held::new(&session.gate.held),
        down: Held::new(&session.gate.held),
    });
    let mut leaves = false;
    loop {
        let accept = poll_fn(|context| served.backlog.around(|| connection.poll_accept(context)));
        tokio::select! {
            accepted = accept => match accepted {
                Some(Ok((request, respond))) => {
                    let served = Arc::clone(&served);
                    tasks.spawn(async move { served.answer(request, respond).await });
                }
                // However it ended, the client is gone.
                Some(Err(_)) | None => return,
            },
            // What is begun goes on; the client's next connection has connections to the host of its own.
            () = served.host.crowded(), if !leaves => {
                leaves = true;
                connection.graceful_shutdown();
            }
            () = session.activity.idle_for(session.idle(false)) => return,
        }
    }
}

/// What comes next of an answer.
enum Next {
    /// Nothing that the client would hear.
    Gone,
    /// An answer before the answer.
    Interim(Response<()>),
    /// The answer itself.
    Answer(Response<RecvStream>),
    /// None.
    Failed(h2::Error),
}

/// The next of `response`, unless the client resets the stream.
async fn next(response: &mut ResponseFuture, respond: &mut SendResponse<Bytes>) -> Next {
    poll_fn(|context| {
        if respond.poll_reset(context).is_ready() {
            return Poll::Ready(Next::Gone);
        }
        if let Some(interim) = ready!(response.poll_informational(context)) {
            return Poll::Ready(interim.map_or_else(Next::Failed, Next::Interim));
        }
        pin!(&mut *response).poll(context).map(|answer| answer.map_or_else(Next::Failed, Next::Answer))
    })
    .await
}

impl Served {
    async fn answer(&self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let session = &self.session;
        let (parts, body) = request.into_parts();
        let mut body = Incoming::new(body, &self.up);
        let asked = Asked::of(&parts);
        let refused_with = |status: StatusCode, why: &str| {
            refusal(status, format!("ai-jail: the request is refused: {why}"), asked, UNAVAILABLE)
        };
        let refused = |why: &str| refused_with(StatusCode::BAD_REQUEST, why);
        if is_too_large(&parts.headers, MAX_HEAD) {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            return say(&mut respond, refused_with(status, "its head is too large"));
        }
        let path = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let size = weight(&parts.headers) + path.len();
        let Ok(waits) = self.requests.try_acquire_many(size as u32) else {
            // Nothing was done about it: the client may ask again.
            return respond.send_reset(Reason::REFUSED_STREAM);
        };
        if let Err(why) = check(&parts, &session.target) {
            return say(&mut respond, refused(why));
        }
        let fields = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let (policy, target) = (&session.gate.policy, &session.target);
        if let HttpDecision::Denied(denial) =
            decide_request(policy, target, parts.method.as_str(), path, fields)
        {
            session.gate.tell_http_denied(session.door, &denial);
            let mut answer = refusal(StatusCode::FORBIDDEN, denial.to_string(), asked, PERMISSION_DENIED);
            if let Ok(value) = HeaderValue::from_str(&session.target.to_string()) {
                answer.headers_mut().insert(HeaderName::from_static("x-ai-jail-denied"), value);
            }
            return say(&mut respond, answer);
        }
        let ends = body.is_end();
        let (outgoing, search) = match self.outgoing(parts, !ends) {
            Ok(outgoing) => outgoing,
            Err(why) => return say(&mut respond, refused(why)),
        };
        let no_answer = |error: &h2::Error| {
            let line = session.unreachable(&format!("it gave no answer ({})", words::why(error))).to_string();
            refusal(StatusCode::BAD_GATEWAY, line, asked, UNAVAILABLE)
        };
        let sent = {
            let mut send = pin!(self.host.send(outgoing, ends, size));
            poll_fn(|context| {
                if respond.poll_reset(context).is_ready() {
                    return Poll::Ready(None);
                }
                body.gather(context);
                if body.cut_by_us().is_some() {
                    return Poll::Ready(None);
                }
                send.as_mut().poll(context).map(Some)
            })
            .await
        };
        if let Some(why) = body.cut_by_us() {
            tell_cut(session, Way::Up, why);
            return respond.send_reset(Reason::INTERNAL_ERROR);
        }
        let Sent { mut response, mut up, slot } = match sent {
            // Nothing that the client would hear.
            None => return,
            Some(Ok(sent)) => sent,
            Some(Err(Unsent::Unreachable(line))) => {
                return say(&mut respond, refusal(StatusCode::BAD_GATEWAY, line, asked, UNAVAILABLE));
            }
            Some(Err(Unsent::Failed(error))) => return say(&mut respond, no_answer(&error)),
        };
        drop(waits);
        session.activity.touch();
        let upload = async {
            if !ends {
                // A host that wants no more of it has its reasons, and may answer all the same.
                let _ = pass(session, Way::Up, body, &mut up, slot.backlog(), search).await;
            }
        };
        let download = async {
            let mut room = SMALL_HEAD;
            for _ in 0..=MAX_INTERIM {
                match next(&mut response, &mut respond).await {
                    Next::Gone => return None,
                    // Nothing was done about it: the client may ask again.
                    Next::Failed(error) if is_refused(&error) => {
                        respond.send_reset(Reason::REFUSED_STREAM);
                        return None;
                    }
                    Next::Failed(error) => {
                        say(&mut respond, no_answer(&error));
                        return None;
                    }
                    Next::Interim(mut interim) => {
                        self.clean(interim.headers_mut());
                        let size = weight(interim.headers());
                        let Some(left) = room.checked_sub(size) else { break };
                        room = left;
                        *interim.headers_mut() = copied(interim.headers());
                        // Waiting for room would gather those that come after it.
                        respond.send_informational(interim).ok()?;
                        session.activity.touch();
                    }
                    Next::Answer(answer) => return self.pass(answer, &mut respond, asked).await,
                }
            }
            let line = session.unreachable("it sent nothing but interim responses").to_string();
            say(&mut respond, refusal(StatusCode::BAD_GATEWAY, line, asked, UNAVAILABLE));
            None
        };
        let whole = {
            let (mut upload, mut download) = (pin!(upload), pin!(download));
            tokio::select! {
                () = &mut upload => download.await.is_some(),
                answered = &mut download => match answered {
                    // What is not sent yet belongs to the request all the same, until either side ends the stream.
                    Some(mut down) => tokio::select! {
                        () = &mut upload => true,
                        _ = poll_fn(|context| down.poll_reset(context)) => false,
                    },
                    None => false,
                },
            }
        };
        if !whole {
            // The host hears that nobody waits for the answer, also when it takes no more of the request.
            up.send_reset(Reason::CANCEL);
        }
        drop(slot);
    }

    /// The request as the host gets it, and what its body is searched with.
    fn outgoing(&self, parts: Parts, has_body: bool) -> Result<(Request<()>, Option<Stream>), &'static str> {
        const UNFIT: &str = "with its secret it would be malformed";
        let session = &self.session;
        let mut outgoing = session.outgoing();
        let path = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let path = outgoing.target(path);
        let mut uri = Uri::builder().scheme(Scheme::HTTPS);
        let host = UriAuthority::try_from(host_of(&session.target)).map_err(|_| UNFIT)?;
        uri = uri.authority(host).path_and_query(PathAndQuery::try_from(path.as_ref()).map_err(|_| UNFIT)?);
        let mut headers = HeaderMap::with_capacity(parts.headers.len() + 1);
        for (name, value) in &parts.headers {
            if name == HOST || session.bound && is_left_out(name.as_str()) {
                continue;
            }
            let with = outgoing.header(name.as_str(), value.as_bytes());
            let mut with = HeaderValue::from_bytes(&with).map_err(|_| UNFIT)?;
            with.set_sensitive(value.is_sensitive());
            headers.append(copied_name(name), with);
        }
        let noted = outgoing.noted();
        if !noted.used.is_empty() || session.bound && has_body {
            let parts: Vec<_> = headers.keys().filter(|name| asks_for_part(name.as_str())).cloned().collect();
            for name in parts {
                headers.remove(name);
            }
        }
        if session.bound {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        session.tell_noted(noted);
        let search = if is_encoded(&headers) { None } else { outgoing.body() };
        let mut request = Request::new(());
        *request.method_mut() = parts.method;
        *request.uri_mut() = uri.build().map_err(|_| UNFIT)?;
        *request.headers_mut() = headers;
        Ok((request, search))
    }

    /// Passes the host's answer to the jail. When it came to its end, the stream by which the client is heard of.
    async fn pass(
        &self,
        response: Response<RecvStream>,
        respond: &mut SendResponse<Bytes>,
        asked: Asked,
    ) -> Option<SendStream<Bytes>> {
        let session = &self.session;
        let (mut parts, body) = response.into_parts();
        let ends = body.is_end_stream();
        let size = weight(&parts.headers);
        let held = self.answers.try_acquire_many(size as u32);
        if held.is_err() || is_too_large(&parts.headers, MAX_HEAD) {
            let why = match held {
                Ok(_) => "the head of its answer is too large",
                Err(_) => "its answer is not passed on, since many others wait for the client to read them",
            };
            let line = session.unreachable(why).to_string();
            say(respond, refusal(StatusCode::BAD_GATEWAY, line, asked, UNAVAILABLE));
            return None;
        }
        let mut codings = parts.headers.get_all(CONTENT_ENCODING).iter();
        if session.bound && !ends && codings.any(|coding| !codes_nothing(coding.as_bytes())) {
            let line = session.unreachable(super::COMPRESSED).to_string();
            say(respond, refusal(StatusCode::BAD_GATEWAY, line, asked, UNAVAILABLE));
            return None;
        }
        self.clean(&mut parts.headers);
        // What waits holds no more than it weighs.
        parts.headers = copied(&parts.headers);
        session.activity.touch();
        let search = if session.bound { session.inspector.vault.scrub() } else { None };
        let mut body = Incoming::new(body, &self.down);
        let gone = |context: &mut Context<'_>| {
            body.gather(context);
            body.cut_by_us().is_some() || respond.poll_reset(context).is_ready()
        };
        let room = self.backlog.room_unless(size, gone).await;
        if let Some(why) = body.cut_by_us() {
            tell_cut(session, Way::Down, why);
            respond.send_reset(Reason::INTERNAL_ERROR);
        }
        let room = room?;
        drop(held);
        let Ok(mut down) = respond.send_response(Response::from_parts(parts, ()), ends) else {
            // What a client may not be told, such as headers about a connection.
            respond.send_reset(Reason::INTERNAL_ERROR);
            return None;
        };
        room.take();
        if !ends {
            // Both sides know how it ended.
            pass(session, Way::Down, body, &mut down, &self.backlog, search).await.ok()?;
        }
        Some(down)
    }

    /// Takes out of an answer's headers what the jail must not see.
    fn clean(&self, headers: &mut HeaderMap) {
        if self.session.bound {
            scrub(&self.session.inspector.vault, headers);
        }
        headers.remove("x-ai-jail-denied");
    }
}

/// Whether the request is for the host that its connection was allowed to.
fn check(parts: &Parts, target: &Authority) -> Result<(), &'static str> {
    const OTHER: &str = "it is for another host than its connection";
    if parts.method == Method::CONNECT {
        return Err("CONNECT is for proxies");
    }
    let same =
        |text: &[u8]| Authority::parse_with_default(text, HTTPS_PORT).is_ok_and(|named| named == *target);
    let mut named = 0;
    if let Some(authority) = parts.uri.authority() {
        named += 1;
        if !same(authority.as_str().as_bytes()) {
            return Err(OTHER);
        }
    }
    for host in parts.headers.get_all(HOST) {
        named += 1;
        if !same(host.as_bytes()) {
            return Err(OTHER);
        }
    }
    if named == 0 { Err("it names no host") } else { Ok(()) }
}

/// Whether the host did nothing about a request (RFC 9113, 8.7).
fn is_refused(error: &h2::Error) -> bool {
    let reason = error.reason();
    reason == Some(Reason::REFUSED_STREAM) || error.is_go_away() && reason == Some(Reason::NO_ERROR)
}

fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}
