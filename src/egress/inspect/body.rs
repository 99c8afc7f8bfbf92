//! Bodies in HTTP/2 on their way: searched when there is something to search for, else passed as they are.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::HeaderValue;

use crate::secrets::Stream;

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

    fn trailers(&self, mut trailers: HeaderMap) -> HeaderMap {
        if self.way == Way::Down && self.session.bound {
            for value in trailers.values_mut() {
                scrub(&self.session, value);
            }
        }
        trailers
    }
}

/// Takes secrets out of the value of a header.
pub(super) fn scrub(session: &Session, value: &mut HeaderValue) {
    if let std::borrow::Cow::Owned(clean) = session.inspector.vault.scrub_value(value.as_bytes()) {
        // A sentinel has no bytes that its secret has not: it fits.
        *value = HeaderValue::from_bytes(&clean).unwrap_or_else(|_| HeaderValue::from_static(""));
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
