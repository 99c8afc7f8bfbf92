//! Bodies in HTTP/2 on their way: searched when there is something to search for, else passed as they are.

use std::borrow::Cow;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::egress::limits::{H2_FIELD, MAX_HEADERS};
use crate::egress::rewrite::is_trailer;
use crate::secrets::{Stream, Vault};

use self::incoming::{Cut, Part};
use super::Session;
use super::h2::{Backlog, Frames};

mod incoming;

pub(super) use self::incoming::{Held, Incoming};

/// Which way a body goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To the host.
    Up,
    /// To the jail.
    Down,
}

/// A body did not come to its end. Both sides know.
#[derive(Debug)]
pub(super) struct Broken;

/// Passes `from` on until its end, with its trailers. What is read is released when it was taken, so that a receiver that
/// stands still holds back the sender.
pub(super) async fn pass(
    session: &Session,
    way: Way,
    mut from: Incoming,
    to: &mut SendStream<Bytes>,
    backlog: &Backlog,
    mut search: Option<Stream>,
) -> Result<(), Broken> {
    let unsent = Arc::default();
    loop {
        let came = poll_fn(|context| match to.poll_reset(context) {
            Poll::Ready(_) => Poll::Ready(Err(Broken)),
            Poll::Pending => from.poll_part(context).map(Ok),
        });
        match came.await? {
            Ok(Part::Data(data, last)) => {
                let count = data.len();
                match way {
                    Way::Up => session.activity.sent_up(count),
                    Way::Down => session.activity.sent_down(count),
                }
                let out = match &mut search {
                    None => data,
                    Some(stream) => {
                        let mut out = Vec::with_capacity(count);
                        stream.push(&data, &mut out);
                        out.into()
                    }
                };
                let out = match last.then(|| rest(session, way, search.take())) {
                    Some(rest) if !rest.is_empty() => [out, rest].concat().into(),
                    _ => out,
                };
                let sent = put(to, backlog, out, last, &mut from, &unsent).await;
                if let Some(why) = from.cut_by_us() {
                    return Err(cut(session, way, to, why));
                }
                sent?;
                from.release(count);
                if last {
                    return Ok(());
                }
            }
            Ok(Part::End(trailers)) => {
                let trailers = trailers.map(|trailers| passed(session, way, trailers));
                let rest = rest(session, way, search.take());
                return match trailers.filter(|trailers| !trailers.is_empty()) {
                    Some(trailers) => {
                        put(to, backlog, rest, false, &mut from, &unsent).await?;
                        let gone = |context: &mut Context<'_>| to.poll_reset(context).is_ready();
                        let room = backlog.room_unless(weight(&trailers), gone).await.ok_or(Broken)?;
                        to.send_trailers(trailers).map_err(|_| Broken)?;
                        room.take();
                        Ok(())
                    }
                    None => put(to, backlog, rest, true, &mut from, &unsent).await,
                };
            }
            Err(Cut::Sender(error)) => {
                // A reset overtakes what is not sent yet, and the library forgets that: what came before it would be missing, and
                // after NO_ERROR nobody would know. A client that gives its request up is heard at once.
                if way == Way::Down {
                    let mut sent = pin!(unsent.none());
                    poll_fn(|context| match to.poll_reset(context) {
                        Poll::Ready(_) => Poll::Ready(()),
                        Poll::Pending => sent.as_mut().poll(context),
                    })
                    .await;
                }
                return Err(broke(to, &error));
            }
            Err(Cut::Ours(why)) => return Err(cut(session, way, to, why)),
        }
    }
}

/// The sender failed: the receiver must not take what it has for the whole.
fn broke(to: &mut SendStream<Bytes>, error: &h2::Error) -> Broken {
    // Some clients take CANCEL and NO_ERROR for the end of a body: only what the sender itself said of this stream goes on.
    let said = error.reason().filter(|_| error.is_reset() && error.is_remote());
    to.send_reset(said.unwrap_or(Reason::INTERNAL_ERROR));
    Broken
}

/// What is passed on is not to go on: neither side must take it for the whole.
fn cut(session: &Session, way: Way, to: &mut SendStream<Bytes>, why: &str) -> Broken {
    tell_cut(session, way, why);
    to.send_reset(Reason::INTERNAL_ERROR);
    Broken
}

/// Tells the observer that a body does not come to its end for a reason of ours.
pub(super) fn tell_cut(session: &Session, way: Way, why: &str) {
    let whose = if way == Way::Up { "a request to" } else { "an answer of" };
    session.tell_failed(format!("ai-jail: {whose} {} was cut: {why}", session.target));
}

/// Sends `bytes`, and gathers what comes after them meanwhile.
async fn put(
    to: &mut SendStream<Bytes>,
    backlog: &Backlog,
    mut bytes: Bytes,
    last: bool,
    from: &mut Incoming,
    unsent: &Arc<Frames>,
) -> Result<(), Broken> {
    while !bytes.is_empty() {
        to.reserve_capacity(bytes.len());
        let room = match to.capacity() {
            0 => {
                let room = poll_fn(|context| {
                    from.gather(context);
                    if from.cut_by_us().is_some() {
                        return Poll::Ready(None);
                    }
                    to.poll_capacity(context)
                });
                room.await.ok_or(Broken)?.map_err(|_| Broken)?
            }
            room => room,
        };
        let part = bytes.split_to(room.min(bytes.len()));
        let ends = last && bytes.is_empty();
        if !part.is_empty() {
            let gone = |context: &mut Context<'_>| {
                from.gather(context);
                from.cut_by_us().is_some() || to.poll_reset(context).is_ready()
            };
            let room = backlog.room_unless(part.len(), gone).await.ok_or(Broken)?;
            to.send_data(room.keep(part, unsent), ends).map_err(|_| Broken)?;
        }
        if ends {
            return Ok(());
        }
    }
    if last { to.send_data(Bytes::new(), true).map_err(|_| Broken) } else { Ok(()) }
}

/// What was held back, at the end.
fn rest(session: &Session, way: Way, search: Option<Stream>) -> Bytes {
    let mut out = Vec::new();
    if let Some(mut search) = search {
        search.finish(&mut out);
        match way {
            Way::Up => session.tell_noted(search.noted()),
            Way::Down => session.tell_scrubbed(search.noted()),
        }
    }
    out.into()
}

/// The trailers that are passed on, with secrets as in headers.
fn passed(session: &Session, way: Way, trailers: HeaderMap) -> HeaderMap {
    let mut outgoing = session.outgoing();
    let mut passed = HeaderMap::with_capacity(trailers.len());
    let mut last = None;
    for (name, mut value) in trailers {
        // The name stands with the first of its values.
        last = name.or(last);
        let Some(name) = last.as_ref().filter(|name| is_trailer(name.as_str())) else { continue };
        if way == Way::Up {
            match HeaderValue::from_bytes(&outgoing.header(name.as_str(), value.as_bytes())) {
                Ok(with) => value = with,
                Err(_) => continue,
            }
        }
        passed.append(name.clone(), value);
    }
    session.tell_noted(outgoing.noted());
    if way == Way::Down && session.bound {
        scrub(&session.inspector.vault, &mut passed);
    }
    passed
}

/// Bytes that headers or trailers take, at most.
pub(super) fn weight(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + H2_FIELD).sum()
}

/// The same headers, which hold nothing of the buffers that they were read with.
pub(super) fn copied(headers: &HeaderMap) -> HeaderMap {
    let mut copy = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        // A value that was read is one.
        let Ok(mut with) = HeaderValue::from_bytes(value.as_bytes()) else { continue };
        with.set_sensitive(value.is_sensitive());
        copy.append(copied_name(name), with);
    }
    copy
}

/// The same name, likewise.
pub(super) fn copied_name(name: &HeaderName) -> HeaderName {
    HeaderName::from_bytes(name.as_str().as_bytes()).unwrap_or_else(|_| name.clone())
}

/// Whether there are more fields than in HTTP/1, or they are longer than `limit` as HTTP/2 counts it (RFC 9113, 6.5.2).
pub(super) fn is_too_large(headers: &HeaderMap, limit: usize) -> bool {
    let size = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 32;
    headers.len() > MAX_HEADERS || headers.iter().map(size).sum::<usize>() > limit
}

/// Takes secrets out of the headers or trailers of an answer.
pub(super) fn scrub(vault: &Vault, headers: &mut HeaderMap) {
    for value in headers.values_mut() {
        if let Cow::Owned(clean) = vault.scrub_value(value.as_bytes()) {
            // A sentinel has no bytes that its secret has not: it fits.
            *value = HeaderValue::from_bytes(&clean).unwrap_or_else(|_| HeaderValue::from_static(""));
        }
    }
    let is_secret = |name: &HeaderName| matches!(vault.scrub_value(name.as_str().as_bytes()), Cow::Owned(_));
    let named: Vec<HeaderName> = headers.keys().filter(|name| is_secret(name)).cloned().collect();
    for name in named {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::host_rule::HostPattern;
    use crate::secrets::{Places, Secret, SecretValue, Seed, sentinel};

    #[test]
    fn a_header_that_is_named_by_a_secret_goes() {
        let text = "f00f00f00f00f00ba12ba12ba12ba12";
        let value = SecretValue::new(text.into()).unwrap();
        let fake = sentinel(&Seed::new([7; 32]), "KEY", &value, &[]).unwrap();
        let shown = fake.as_str().to_owned();
        let hosts = vec![HostPattern::parse("api.test").unwrap()];
        let secret =
            Secret { name: "KEY".to_owned(), value, sentinel: fake, hosts, places: Places::default() };
        let vault = Vault::new(vec![secret]);
        let mut headers = HeaderMap::new();
        headers.append("a", HeaderValue::from_static("b"));
        headers.append("a", HeaderValue::from_str(&format!("<{text}>")).unwrap());
        headers.append(HeaderName::from_bytes(text.as_bytes()).unwrap(), HeaderValue::from_static("c"));
        scrub(&vault, &mut headers);
        let values: Vec<&str> = headers.get_all("a").iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(values, ["b", &format!("<{shown}>")]);
        assert_eq!(headers.len(), 2);
    }
}
