//! All secrets of a session, and what becomes of their sentinels in a request and of their values in an answer.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use super::basic::Basic;
use super::forms;
use super::places::{Place, Places};
use super::sentinel::Sentinel;
use super::stream::{Noted, Stream, Table, What};
use super::value::SecretValue;
use super::whole;
use crate::policy::authority::Authority;
use crate::policy::host_rule::HostPattern;

/// One secret and where it may go.
#[derive(Debug)]
pub struct Secret {
    /// Its name: the variable's, or the file's path.
    pub name: String,
    /// What it is.
    pub value: SecretValue,
    /// What stands for it inside; made for this value.
    pub sentinel: Sentinel,
    /// Where it may go.
    pub hosts: Vec<HostPattern>,
    /// In which places of a request.
    pub places: Places,
}

/// What a request travels in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// TLS, to a server whose certificate was verified for the target.
    VerifiedTls,
    /// Anything else: nothing is put in.
    Plain,
}

/// The secrets of a session. Never changes.
pub struct Vault {
    secrets: Vec<Secret>,
    /// Sentinels, to become values.
    outward: Arc<Table>,
    /// Values, to become sentinels.
    inward: Arc<Table>,
}

impl Vault {
    /// A vault of `secrets`. Panics when a sentinel is not as long as its value, and so was not made for it.
    pub fn new(secrets: Vec<Secret>) -> Self {
        for secret in &secrets {
            let lengths = (secret.value.expose().len(), secret.sentinel.as_bytes().len());
            assert!(lengths.0 == lengths.1, "the sentinel of {} is not its own", secret.name);
        }
        let names: Vec<String> = secrets.iter().map(|secret| secret.name.clone()).collect();
        let outward =
            secrets.iter().map(|secret| forms::text(secret.sentinel.as_bytes(), secret.value.expose()));
        let inward =
            secrets.iter().map(|secret| forms::all(secret.value.expose(), secret.sentinel.as_bytes()));
        Self {
            outward: Arc::new(Table::new(names.clone(), outward.collect())),
            inward: Arc::new(Table::new(names, inward.collect())),
            secrets,
        }
    }

    /// Whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// Whether some secret may go to `target`.
    pub fn is_bound_to(&self, target: &Authority) -> bool {
        self.secrets.iter().any(|secret| secret.is_bound_to(target))
    }

    /// Whether the secret `name` belongs to the host of `target`, on whatever port and in whatever part of a request.
    pub fn belongs_to(&self, name: &str, target: &Authority) -> bool {
        let belongs = |secret: &Secret| secret.hosts.iter().any(|host| host.matches_host(&target.host));
        self.secrets.iter().any(|secret| secret.name == name && belongs(secret))
    }

    /// What becomes of a request to `target` that travels in `channel`.
    pub fn outgoing(&self, target: &Authority, channel: Channel) -> Outgoing<'_> {
        let places = |secret: &Secret| match channel {
            Channel::VerifiedTls if secret.is_bound_to(target) => secret.places,
            _ => Places::NONE,
        };
        Outgoing { vault: self, places: self.secrets.iter().map(places).collect(), noted: Noted::default() }
    }

    /// `text` with `*` for each sentinel, in whatever form: for what people read, and for rules, in which `*` stands for a
    /// part of a path's segment.
    pub fn starred(&self, text: &str) -> String {
        let spans = RefCell::new(Vec::new());
        let seen = |_, span| {
            spans.borrow_mut().push(span);
            What::Leave
        };
        whole::replace(&self.outward, text.as_bytes(), seen, &mut Noted::default());
        let mut spans: Vec<(usize, usize)> = spans.into_inner();
        spans.sort_unstable();
        let (mut starred, mut from) = (Vec::new(), 0);
        for (start, end) in spans {
            // One that lies in another, or overlaps it, is gone with it.
            if start >= from {
                starred.extend_from_slice(&text.as_bytes()[from..start]);
                starred.push(b'*');
            }
            from = from.max(end);
        }
        starred.extend_from_slice(&text.as_bytes()[from..]);
        // What is found begins and ends with whole characters.
        String::from_utf8_lossy(&starred).into_owned()
    }

    /// The value of an answer's header or trailer, with sentinels for values.
    pub fn scrub_value<'v>(&self, value: &'v [u8]) -> Cow<'v, [u8]> {
        whole::replace(&self.inward, value, |_, _| What::Put, &mut Noted::default())
    }

    /// What puts sentinels for values in an answer's body; None without secrets. What it notes as used came back.
    pub fn scrub(&self) -> Option<Stream> {
        let what = vec![What::Put; self.secrets.len()];
        (!self.is_empty()).then(|| Stream::new(Arc::clone(&self.inward), what))
    }
}

impl Secret {
    fn is_bound_to(&self, target: &Authority) -> bool {
        self.hosts.iter().any(|host| host.matches(target))
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vault").field(&self.secrets).finish()
    }
}

/// One request on its way out.
pub struct Outgoing<'v> {
    vault: &'v Vault,
    /// Where each secret may be put in this request.
    places: Vec<Places>,
    noted: Noted,
}

impl Outgoing<'_> {
    /// The value of the header or trailer `name`, as long as it was. Basic credentials are decoded and encoded again.
    pub fn header<'v>(&mut self, name: &str, value: &'v [u8]) -> Cow<'v, [u8]> {
        let replaced = self.replace(value, |_| Some(Place::Header));
        let carries =
            ["authorization", "proxy-authorization"].iter().any(|one| name.eq_ignore_ascii_case(one));
        let Some(basic) = carries.then(|| Basic::parse(&replaced)).flatten() else { return replaced };
        match self.replace(basic.credentials(), |_| Some(Place::Basic)) {
            Cow::Borrowed(_) => replaced,
            Cow::Owned(credentials) => Cow::Owned(basic.with(&credentials)),
        }
    }

    /// Path and query of the target, as long as they were.
    pub fn target<'t>(&mut self, path_and_query: &'t str) -> Cow<'t, str> {
        let question = path_and_query.find('?').unwrap_or(path_and_query.len());
        let place = |(start, end): (usize, usize)| match () {
            () if end <= question => Some(Place::Path),
            () if start > question => Some(Place::Query),
            () => None,
        };
        match self.replace(path_and_query.as_bytes(), place) {
            Cow::Borrowed(_) => Cow::Borrowed(path_and_query),
            // ASCII was put in for ASCII.
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// What puts values into the body, or only watches; None without secrets. What it notes is its own.
    pub fn body(&self) -> Option<Stream> {
        let what = self.places.iter().map(|places| what(*places, Some(Place::Body)));
        (!self.vault.is_empty()).then(|| Stream::new(Arc::clone(&self.vault.outward), what.collect()))
    }

    /// What was met in headers and target so far.
    pub fn noted(&self) -> &Noted {
        &self.noted
    }

    fn replace<'b>(
        &mut self,
        bytes: &'b [u8],
        place: impl Fn((usize, usize)) -> Option<Place>,
    ) -> Cow<'b, [u8]> {
        let places = &self.places;
        let what = |secret: usize, span| what(places[secret], place(span));
        whole::replace(&self.vault.outward, bytes, what, &mut self.noted)
    }
}

impl fmt::Debug for Outgoing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("noted", &self.noted).finish_non_exhaustive()
    }
}

fn what(places: Places, place: Option<Place>) -> What {
    if place.is_some_and(|place| places.contains(place)) { What::Put } else { What::Leave }
}

#[cfg(test)]
mod tests;
