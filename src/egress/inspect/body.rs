//! Bodies in HTTP/2 on their way: searched when there is something to search for, else passed as they are.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{HeaderName, HeaderValue};

use crate::egress::rewrite::is_trailer;
use crate::secrets::{Stream, Vault};

use super::Session;

/// Which way a body goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To the host.
    Up,
    /// To the jail.
    Down,
}

/// A body that is passed on.
pub(super) struct Passing {
    session: Arc<Session>,
    way: Way,
    inner: Incoming,
    search: Option<Stream>,
    /// What comes after the last bytes that were held back.
    late: Option<Frame<Bytes>>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fresh,
    Begun,
    Ended,
}

impl Passing {
    /// `inner`, searched by `search`.
    pub(super) fn new(session: &Arc<Session>, way: Way, inner: Incoming, search: Option<Stream>) -> Self {
        Self { session: Arc::clone(session), way, inner, search, late: None, state: State::Fresh }
    }

    fn count(&self, bytes: usize) {
        match self.way {
            Way::Up => self.session.activity.sent_up(bytes),
            Way::Down => self.session.activity.sent_down(bytes),
        }
    }

    /// What was held back; the body has ended.
    fn rest(&mut self) -> Option<Frame<Bytes>> {
        self.state = State::Ended;
        let mut search = self.search.take()?;
        let mut out = Vec::new();
        search.finish(&mut out);
        match self.way {
            Way::Up => self.session.tell_noted(search.noted()),
            Way::Down => self.session.tell_scrubbed(search.noted()),
        }
        (!out.is_empty()).then(|| Frame::data(out.into()))
    }

    fn trailers(&self, trailers: HeaderMap) -> HeaderMap {
        let mut outgoing = self.session.outgoing();
        let mut passed = HeaderMap::with_capacity(trailers.len());
        let mut last = None;
        for (name, mut value) in trailers {
            // The name stands with the first of its values.
            last = name.or(last);
            let Some(name) = last.as_ref().filter(|name| is_trailer(name.as_str())) else { continue };
            match self.way {
                Way::Down => {}
                Way::Up => match HeaderValue::from_bytes(&outgoing.header(name.as_str(), value.as_bytes())) {
                    Ok(with) => value = with,
                    Err(_) => continue,
                },
            }
            passed.append(name.clone(), value);
        }
        self.session.tell_noted(outgoing.noted());
        if self.way == Way::Down && self.session.bound {
            scrub(&self.session.inspector.vault, &mut passed);
        }
        passed
    }
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

impl Body for Passing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        loop {
            if this.state == State::Ended {
                return Poll::Ready(this.late.take().map(Ok));
            }
            match ready!(Pin::new(&mut this.inner).poll_frame(context)) {
                None => return Poll::Ready(this.rest().map(Ok)),
                Some(Err(error)) => {
                    this.state = State::Ended;
                    return Poll::Ready(Some(Err(error)));
                }
                Some(Ok(frame)) => {
                    this.state = State::Begun;
                    match frame.into_data() {
                        Ok(data) => {
                            this.count(data.len());
                            let Some(search) = &mut this.search else {
                                return Poll::Ready(Some(Ok(Frame::data(data))));
                            };
                            let mut out = Vec::with_capacity(data.len());
                            search.push(&data, &mut out);
                            if !out.is_empty() {
                                return Poll::Ready(Some(Ok(Frame::data(out.into()))));
                            }
                        }
                        Err(frame) => {
                            let trailers = frame.into_trailers().unwrap_or_default();
                            let frame = Frame::trailers(this.trailers(trailers));
                            return Poll::Ready(match this.rest() {
                                Some(rest) => {
                                    this.late = Some(frame);
                                    Some(Ok(rest))
                                }
                                None => Some(Ok(frame)),
                            });
                        }
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self.state {
            State::Fresh => self.inner.is_end_stream(),
            State::Begun => self.search.is_none() && self.inner.is_end_stream(),
            State::Ended => self.late.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self.state {
            State::Fresh => self.inner.size_hint(),
            _ => SizeHint::default(),
        }
    }
}

/// The body of an answer: the host's, or a line of ours.
pub(super) enum Answer {
    /// The host's.
    Passing(Box<Passing>),
    /// Ours.
    Line(Option<Bytes>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
            Self::Passing(passing) => Pin::new(passing.as_mut()).poll_frame(context),
            Self::Line(line) => Poll::Ready(line.take().map(|line| Ok(Frame::data(line)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Passing(passing) => passing.is_end_stream(),
            Self::Line(line) => line.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Passing(passing) => passing.size_hint(),
            Self::Line(line) => SizeHint::with_exact(line.as_ref().map_or(0, |line| line.len() as u64)),
        }
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
