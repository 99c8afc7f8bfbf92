//! HTTP/1 from the jail: the proxy's requests, and those to an origin's port 80. Every request on a connection is
//! decided about by itself.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::egress::ask::{Ask, AskError, Forward, ask_origin, ask_proxy};
use crate::egress::decide::{Denial, Dial, stream_check};
use crate::egress::exchange::{self, Outgoing};
use crate::egress::gate::Gate;
use crate::egress::head::{Framing, HeadError, Request, head_length};
use crate::egress::limits::SMALL_HEAD;
use crate::egress::opening;
use crate::egress::reply::{ESTABLISHED, Status, reply};
use crate::egress::resolve::{self, DialError, Upstream};
use crate::egress::rewrite::{After, after_request, request_head, wants_websocket};
use crate::egress::wire::{Activity, Wire, write_within};
use crate::egress::{Door, Verdict, inspect, tunnel};
use crate::policy::authority::Authority;
use crate::policy::host_rule::StreamCheck;
use crate::policy::http_rule::{HttpDecision, decide_request};
use crate::secrets::Channel;

/// What the client takes us for.
pub(super) enum Role {
    /// A proxy.
    Proxy,
    /// The origin itself, at its port 80. `door` is the one that the connection came through.
    Origin { door: Door, origin: Authority },
}

/// Serves a connection until either side ends it.
pub(super) async fn serve(gate: &Arc<Gate>, mut wire: Wire, mut role: Role) {
    let mut first = true;
    loop {
        let (length, large) = match read_head(gate, &mut wire, first).await {
            Ok(head) => head,
            Err(NoHead::Gone) => return,
            Err(NoHead::Bad(error)) => return refuse(gate, wire, error.into()).await,
        };
        first = false;
        let step = match understand(gate, &wire.ahead[..length], &role) {
            Ok(step) => step,
            Err(error) => return refuse(gate, wire, error).await,
        };
        wire.consume(length);
        match step {
            Step::Forward(mut outgoing) => {
                outgoing.large = large;
                let door = role.door();
                match forward(gate, door, &mut wire, outgoing).await {
                    Next::Request => {}
                    Next::End => return,
                    Next::Linger => return wire.linger(gate.deadlines.linger).await,
                }
            }
            Step::Tunnel(target) => {
                // Behind a tunnel to port 80 every request is decided about, and told, by itself.
                if target.port == 80 && stream_check(&gate.policy, &target) == Some(StreamCheck::Protocol) {
                    if write_within(&wire.stream, ESTABLISHED, gate.deadlines.head).await.is_err() {
                        return;
                    }
                    role = Role::Origin { door: Door::Proxy, origin: target };
                    first = true;
                    continue;
                }
                let allowed = match gate.admit(Door::Proxy, &target) {
                    Ok(allowed) => allowed,
                    Err(denial) => {
                        return answer_last(gate, wire, &forbidden(&denial, "CONNECT", After::Close)).await;
                    }
                };
                let upstream = match dial(gate, Door::Proxy, &target, allowed.dial).await {
                    Ok(upstream) => upstream,
                    Err(error) => {
                        return answer_last(gate, wire, &unreachable(&error, "CONNECT", After::Close)).await;
                    }
                };
                if write_within(&wire.stream, ESTABLISHED, gate.deadlines.head).await.is_ok() {
                    tunnel(gate, Door::Proxy, &target, wire, upstream).await;
                }
                return;
            }
        }
    }
}

/// Connects to an allowed target and tells the observer when that fails.
pub(super) async fn dial(
    gate: &Gate,
    door: Door,
    target: &Authority,
    dial: Dial,
) -> Result<Upstream, DialError> {
    let connected = resolve::connect(gate, target, dial).await;
    match &connected {
        Ok(_) => {}
        Err(DialError::Denied(denial)) => gate.tell_denied(door, denial),
        Err(error) => gate.tell(door, target, Verdict::Failed { line: error.to_string() }),
    }
    connected
}

/// Carries bytes both ways, those that were read ahead first, and tells the observer how many.
pub(super) async fn tunnel(
    gate: &Arc<Gate>,
    door: Door,
    target: &Authority,
    mut wire: Wire,
    upstream: Upstream,
) {
    if gate.policy.inspects(target) {
        // On the heap, since what reading takes would be held by every connection otherwise.
        return Box::pin(inspect(gate, door, target, wire, upstream)).await;
    }
    let activity = Activity::new();
    if let Err(cut) = opening::check(gate, &mut wire, target).await {
        if let Some(objection) = cut {
            gate.tell(door, target, opening::denied(target, &objection));
        }
        return gate.tell(door, target, Verdict::Closed { up: 0, down: 0 });
    }
    let ahead = std::mem::take(&mut wire.ahead);
    if write_within(&upstream, &ahead, gate.deadlines.half_closed).await.is_ok() {
        activity.sent_up(ahead.len());
        drop(ahead);
        tunnel::run(&wire.stream, &upstream, &activity, &gate.deadlines).await;
    }
    let (up, down) = activity.totals();
    gate.tell(door, target, Verdict::Closed { up, down });
}

/// Reads the traffic with a host that has secrets or rules. What cannot be read is cut.
async fn inspect(gate: &Arc<Gate>, door: Door, target: &Authority, wire: Wire, upstream: Upstream) {
    let Some(inspector) = &gate.inspector else {
        let line = format!("ai-jail: the connection to {target} was cut: nothing is there to read it with");
        gate.tell(door, target, Verdict::Failed { line });
        return gate.tell(door, target, Verdict::Closed { up: 0, down: 0 });
    };
    inspect::serve(gate, inspector, door, target, wire, upstream).await;
}

impl Role {
    fn door(&self) -> Door {
        match self {
            Self::Proxy => Door::Proxy,
            Self::Origin { door, .. } => *door,
        }
    }
}

enum Step {
    Tunnel(Authority),
    Forward(Outgoing),
}

enum Next {
    Request,
    End,
    Linger,
}

enum NoHead {
    Gone,
    Bad(HeadError),
}

/// The length of the head, and the permit that a large one has.
async fn read_head(
    gate: &Gate,
    wire: &mut Wire,
    first: bool,
) -> Result<(usize, Option<OwnedSemaphorePermit>), NoHead> {
    if wire.ahead.is_empty() && !first {
        let Ok(Ok(1..)) = timeout(gate.deadlines.keep_alive, wire.fill()).await else {
            return Err(NoHead::Gone);
        };
    }
    let read = async {
        let (mut seen, mut large) = (0, None);
        loop {
            if let Some(length) = head_length(&wire.ahead, seen).map_err(NoHead::Bad)? {
                return Ok((length, large));
            }
            seen = wire.ahead.len();
            if seen >= SMALL_HEAD && large.is_none() {
                large = Arc::clone(&gate.large_heads).acquire_owned().await.ok();
            }
            match wire.fill().await {
                Ok(1..) => {}
                _ => return Err(NoHead::Gone),
            }
        }
    };
    timeout(gate.deadlines.head, read).await.unwrap_or(Err(NoHead::Gone))
}

fn understand(gate: &Gate, head: &[u8], role: &Role) -> Result<Step, AskError> {
    let request = Request::parse(head)?;
    let forward = match role {
        Role::Origin { origin, .. } => ask_origin(&request, origin)?,
        Role::Proxy => match ask_proxy(&request)? {
            Ask::Tunnel(target) => return Ok(Step::Tunnel(target)),
            Ask::Forward(forward) => forward,
        },
    };
    Ok(Step::Forward(outgoing(gate, &request, forward)))
}

fn outgoing(gate: &Gate, request: &Request<'_>, forward: Forward<'_>) -> Outgoing {
    tell_stray(gate, request, &forward);
    let fields = request.fields.iter();
    let denied = match decide_request(&gate.policy, &forward.target, request.method, &forward.path, fields) {
        HttpDecision::Denied(denial) => Some(Box::new(denial)),
        HttpDecision::Free | HttpDecision::Allowed(_) => None,
    };
    Outgoing {
        denied,
        head: request_head(request, &forward),
        large: None,
        method: request.method.to_owned(),
        version: request.version,
        framing: forward.framing,
        after: after_request(request),
        websocket: wants_websocket(request),
        target: forward.target,
    }
}

/// Tells of fakes that go out by plain HTTP, where nothing is put in for them.
fn tell_stray(gate: &Gate, request: &Request<'_>, forward: &Forward<'_>) {
    let Some(inspector) = &gate.inspector else { return };
    let mut outgoing = inspector.vault.outgoing(&forward.target, Channel::Plain);
    outgoing.target(&forward.path);
    for (name, value) in request.fields.iter() {
        outgoing.header(name, value);
    }
    for name in &outgoing.noted().stray {
        gate.tell_stray(&inspector.vault, &forward.target, name);
    }
}

async fn forward(gate: &Gate, door: Door, wire: &mut Wire, mut outgoing: Outgoing) -> Next {
    // Without a body the next request begins right behind this head; with one, an answer of ours ends the connection.
    let after = if outgoing.framing == Framing::Unstated { outgoing.after } else { After::Close };
    if exchange::check_ahead(outgoing.framing, &wire.ahead).is_err() {
        let line = "ai-jail: the request is refused: the body's chunks are malformed";
        let bytes = reply(Status::BadRequest, line, None, &outgoing.method, After::Close);
        return answer(gate, wire, &bytes, After::Close).await;
    }
    let allowed = match gate.admit(door, &outgoing.target) {
        Ok(allowed) => allowed,
        Err(denial) => return answer(gate, wire, &forbidden(&denial, &outgoing.method, after), after).await,
    };
    if let Some(denial) = &outgoing.denied {
        gate.tell_http_denied(door, denial);
        gate.tell(door, &outgoing.target, Verdict::Closed { up: 0, down: 0 });
        let (line, target) = (denial.to_string(), Some(&outgoing.target));
        let bytes = reply(Status::Forbidden, &line, target, &outgoing.method, after);
        return answer(gate, wire, &bytes, after).await;
    }
    let upstream = match dial(gate, door, &outgoing.target, allowed.dial).await {
        Ok(upstream) => upstream,
        Err(error) => return answer(gate, wire, &unreachable(&error, &outgoing.method, after), after).await,
    };
    let activity = Activity::new();
    let ended = exchange::run(gate, wire, &upstream, &mut outgoing, &activity).await;
    let (up, down) = activity.totals();
    gate.tell(door, &outgoing.target, Verdict::Closed { up, down });
    let (status, line) = match ended {
        Ok(After::KeepAlive) => return Next::Request,
        // What a client sends behind the end of its connection must not turn the answer into a reset.
        Ok(After::Close) => return Next::Linger,
        Err(exchange::Failure::Cut) => return Next::End,
        Err(exchange::Failure::Request(why)) => {
            (Status::BadRequest, format!("ai-jail: the request is refused: {why}"))
        }
        Err(exchange::Failure::Origin(why) | exchange::Failure::Closed(why)) => {
            (Status::BadGateway, format!("ai-jail: {} is allowed, but {why}", outgoing.target))
        }
    };
    let bytes = reply(status, &line, None, &outgoing.method, After::Close);
    answer(gate, wire, &bytes, After::Close).await
}

/// A client that asks on and on and reads no answer is given up like one that sends no head.
async fn answer(gate: &Gate, wire: &Wire, answer: &[u8], after: After) -> Next {
    match (write_within(&wire.stream, answer, gate.deadlines.head).await, after) {
        (Err(_), _) => Next::End,
        (Ok(()), After::KeepAlive) => Next::Request,
        (Ok(()), After::Close) => Next::Linger,
    }
}

async fn refuse(gate: &Gate, wire: Wire, error: AskError) {
    let status = match error {
        AskError::Head(HeadError::TooLarge) => Status::HeadTooLarge,
        _ => Status::BadRequest,
    };
    let line = format!("ai-jail: the request is refused: {error}");
    answer_last(gate, wire, &reply(status, &line, None, "", After::Close)).await;
}

async fn answer_last(gate: &Gate, wire: Wire, answer: &[u8]) {
    if write_within(&wire.stream, answer, gate.deadlines.head).await.is_ok() {
        wire.linger(gate.deadlines.linger).await;
    }
}

fn forbidden(denial: &Denial, method: &str, after: After) -> Vec<u8> {
    reply(Status::Forbidden, &denial.to_string(), Some(&denial.target), method, after)
}

fn unreachable(error: &DialError, method: &str, after: After) -> Vec<u8> {
    match error {
        DialError::Denied(denial) => forbidden(denial, method, after),
        error => reply(Status::BadGateway, &error.to_string(), None, method, after),
    }
}
