//! HTTP/2 on both sides. Framing and flow control are hyper's; every request is decided about by itself.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder as ClientBuilder, SendRequest};
use hyper::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority as UriAuthority, PathAndQuery, Scheme};
use hyper::rt::Executor;
use hyper::server::conn::http2::Builder as ServerBuilder;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::egress::limits::{H2_BUFFER, H2_CONNECTION_WINDOW, H2_STREAM_WINDOW, MAX_H2_STREAMS, MAX_HEAD};
use crate::policy::authority::Authority;
use crate::policy::http_rule::{HttpDecision, decide_request};
use crate::tls::roots::Offer;

use super::body::{Answer, Passing, Way, scrub};
use super::head::{HTTPS_PORT, asks_for_part, host_of, is_left_out};
use super::{Outside, Session, Unreachable};

/// gRPC's code for what is not permitted, and for what cannot be reached.
const PERMISSION_DENIED: &str = "7";
const UNAVAILABLE: &str = "14";

/// The tasks of a connection, which end with it.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, future: F) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            future.await;
        });
    }
}

/// Ends the tasks, which hold on to each other.
struct Ending(Tasks);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

/// One client's connection and the one to the host that it is served by.
struct Served {
    session: Arc<Session>,
    tasks: Tasks,
    sender: tokio::sync::Mutex<Result<SendRequest<Passing>, Unreachable>>,
}

/// Serves `client`.
pub(super) async fn serve<C>(session: &Arc<Session>, client: C, outside: Result<Outside, Unreachable>)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let permit = timeout(session.gate.deadlines.head, session.gate.inspected_h2.acquire()).await;
    let Ok(Ok(_permit)) = permit else {
        return session.tell_failed(format!(
            "ai-jail: a connection to {} was cut: too many connections of HTTP/2 are read at once",
            session.target
        ));
    };
    let tasks = Tasks::default();
    let _ending = Ending(tasks.clone());
    let sender = match outside {
        Ok(outside) => begin(session, &tasks, outside).await,
        Err(error) => Err(error),
    };
    let served = Arc::new(Served {
        session: Arc::clone(session),
        tasks: tasks.clone(),
        sender: tokio::sync::Mutex::new(sender),
    });
    let service = service_fn(move |request| {
        let served = Arc::clone(&served);
        async move { Ok::<_, Infallible>(served.answer(request).await) }
    });
    let connection = ServerBuilder::new(tasks)
        .max_concurrent_streams(MAX_H2_STREAMS)
        .max_header_list_size(MAX_HEAD as u32)
        .initial_stream_window_size(H2_STREAM_WINDOW)
        .initial_connection_window_size(H2_CONNECTION_WINDOW)
        .max_send_buf_size(H2_BUFFER)
        .serve_connection(TokioIo::new(client), service);
    tokio::select! {
        // However it ended, the client is gone.
        _ = connection => {}
        () = session.activity.idle_for(session.idle(false)) => {}
    }
}

async fn begin(
    session: &Arc<Session>,
    tasks: &Tasks,
    outside: Outside,
) -> Result<SendRequest<Passing>, Unreachable> {
    let begun = ClientBuilder::new(tasks.clone())
        .max_header_list_size(MAX_HEAD as u32)
        .initial_stream_window_size(H2_STREAM_WINDOW)
        .initial_connection_window_size(H2_CONNECTION_WINDOW)
        .max_send_buf_size(H2_BUFFER)
        .handshake(TokioIo::new(outside))
        .await;
    match begun {
        Ok((sender, connection)) => {
            tasks.execute(async move {
                // Its end shows in the sender.
                let _ = connection.await;
            });
            Ok(sender)
        }
        Err(error) => Err(session.unreachable(&format!("it does not speak HTTP/2 ({error})"))),
    }
}

impl Served {
    async fn answer(&self, request: Request<Incoming>) -> Response<Answer> {
        let session = &self.session;
        let (parts, body) = request.into_parts();
        let grpc = is_grpc(&parts.headers);
        if let Err(why) = check(&parts, &session.target) {
            let line = format!("ai-jail: the request is refused: {why}");
            return refusal(StatusCode::BAD_REQUEST, line, grpc, UNAVAILABLE);
        }
        let path = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let fields = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let (policy, target) = (&session.gate.policy, &session.target);
        if let HttpDecision::Denied(denial) =
            decide_request(policy, target, parts.method.as_str(), path, fields)
        {
            session.gate.tell_http_denied(session.door, &denial);
            let mut answer = refusal(StatusCode::FORBIDDEN, denial.to_string(), grpc, PERMISSION_DENIED);
            if let Ok(value) = HeaderValue::from_str(&session.target.to_string()) {
                answer.headers_mut().insert(HeaderName::from_static("x-ai-jail-denied"), value);
            }
            return answer;
        }
        let outgoing = match self.outgoing(parts, body) {
            Ok(outgoing) => outgoing,
            Err(why) => {
                let line = format!("ai-jail: the request is refused: {why}");
                return refusal(StatusCode::BAD_REQUEST, line, grpc, UNAVAILABLE);
            }
        };
        let sent = match self.sender().await {
            Ok(mut sender) => match sender.ready().await {
                Ok(()) => sender.send_request(outgoing).await,
                Err(error) => Err(error),
            },
            Err(line) => return refusal(StatusCode::BAD_GATEWAY, line, grpc, UNAVAILABLE),
        };
        match sent {
            Ok(response) => self.pass(response, grpc),
            Err(error) => {
                let line = session.unreachable(&format!("it gave no answer ({error})")).to_string();
                refusal(StatusCode::BAD_GATEWAY, line, grpc, UNAVAILABLE)
            }
        }
    }

    /// The connection to the host, made anew when the host closed it.
    async fn sender(&self) -> Result<SendRequest<Passing>, String> {
        let mut sender = self.sender.lock().await;
        if let Ok(open) = &*sender
            && open.is_closed()
        {
            *sender = match self.session.connect(Offer::Http2).await {
                Ok(outside) => begin(&self.session, &self.tasks, outside).await,
                Err(error) => Err(error),
            };
        }
        match &*sender {
            Ok(sender) => Ok(sender.clone()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The request as the host gets it.
    fn outgoing(&self, parts: Parts, body: Incoming) -> Result<Request<Passing>, &'static str> {
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
            headers.append(name, with);
        }
        let noted = outgoing.noted();
        if !noted.used.is_empty() {
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
        let mut request = Request::new(Passing::new(session, Way::Up, body, search));
        *request.method_mut() = parts.method;
        *request.uri_mut() = uri.build().map_err(|_| UNFIT)?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// The host's answer as the jail gets it.
    fn pass(&self, response: Response<Incoming>, grpc: bool) -> Response<Answer> {
        let session = &self.session;
        let (mut parts, body) = response.into_parts();
        let mut search = None;
        if session.bound {
            if is_encoded(&parts.headers) && !hyper::body::Body::is_end_stream(&body) {
                let line = session.unreachable(super::COMPRESSED).to_string();
                return refusal(StatusCode::BAD_GATEWAY, line, grpc, UNAVAILABLE);
            }
            scrub(&session.inspector.vault, &mut parts.headers);
            search = session.inspector.vault.scrub();
        }
        parts.headers.remove("x-ai-jail-denied");
        let body = Passing::new(session, Way::Down, body, search);
        Response::from_parts(parts, Answer::Passing(Box::new(body)))
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

fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// An answer of ours: a line of text, or what gRPC has for it.
fn refusal(status: StatusCode, line: String, grpc: bool, code: &'static str) -> Response<Answer> {
    let mut headers = HeaderMap::new();
    let (status, body) = if grpc {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-status", HeaderValue::from_static(code));
        // Percent signs begin escapes in messages of gRPC.
        if let Ok(message) = HeaderValue::from_str(&line.replace('%', "%25")) {
            headers.insert("grpc-message", message);
        }
        (StatusCode::OK, None)
    } else {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        (status, Some(Bytes::from(line + "\n")))
    };
    let mut response = Response::new(Answer::Line(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
