//! One replacer for everything that flows: sentinels to values on the way out, values to sentinels on the way back.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use super::automaton::{Automaton, Found, START};
use super::forms::Pair;
use super::group::{Edges, Shared};

/// What was met, by the names of the secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Noted {
    /// What was put in; of answers: values that came back and were replaced.
    pub used: BTreeSet<String>,
    /// What was seen where it is not bound, or in a place that is none of its own: an alarm.
    pub stray: BTreeSet<String>,
}

impl Noted {
    /// Whether nothing was met.
    pub fn is_empty(&self) -> bool {
        self.used.is_empty() && self.stray.is_empty()
    }

    /// Takes what was met elsewhere in.
    pub fn add_all(&mut self, others: &Self) {
        self.used.extend(others.used.iter().cloned());
        self.stray.extend(others.stray.iter().cloned());
    }

    pub(super) fn note(&mut self, name: &str, what: What) {
        let names = match what {
            What::Put => &mut self.used,
            What::Leave => &mut self.stray,
        };
        if !names.contains(name) {
            names.insert(name.to_owned());
        }
    }
}

/// What becomes of something that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// It is replaced.
    Put,
    /// It stays and is noted.
    Leave,
}

/// What is looked for, and what is put there.
pub(super) struct Table {
    names: Vec<String>,
    automaton: Automaton,
    rows: Vec<Row>,
    /// Which bytes may have to change because of what follows.
    shared: [bool; 256],
    /// How many of the last bytes may have to change, by the automaton's state.
    changing: Vec<u32>,
}

struct Row {
    /// The index of the secret.
    secret: usize,
    put: Zeroizing<Vec<u8>>,
    edges: Edges,
}

impl Table {
    /// A table of the forms of each secret, in the order of `names`.
    pub(super) fn new(names: Vec<String>, forms: Vec<Vec<Pair>>) -> Self {
        let automaton = Automaton::new(forms.iter().flatten().map(|pair| pair.find.as_slice()));
        // What stands before it may have to change too.
        let alike = |pair: &Pair| match pair.edges.first {
            Some(_) => 0,
            None => pair.find.iter().zip(pair.put.iter()).take_while(|(find, put)| find == put).count(),
        };
        let changing = automaton.changing(&forms.iter().flatten().map(alike).collect::<Vec<_>>());
        let row = |secret, pair: Pair| Row { secret, put: pair.put, edges: pair.edges };
        let rows: Vec<Row> = forms
            .into_iter()
            .enumerate()
            .flat_map(|(secret, pairs)| pairs.into_iter().map(move |pair| row(secret, pair)))
            .collect();
        let firsts: Vec<Shared> = rows.iter().filter_map(|row| row.edges.first).collect();
        let shared = std::array::from_fn(|byte| firsts.iter().any(|first| first.fixed(byte as u8).is_some()));
        Self { names, automaton, rows, shared, changing }
    }

    /// All that is in `bytes`, those that end first first; what is part of another comes before it.
    pub(super) fn find_all(&self, bytes: &[u8]) -> Vec<Found> {
        self.automaton.find_all(bytes)
    }

    /// The index of the secret that `found` is of.
    pub(super) fn secret(&self, found: Found) -> usize {
        self.rows[found.text].secret
    }

    /// The name of the secret that `found` is of.
    pub(super) fn name(&self, found: Found) -> &str {
        &self.names[self.secret(found)]
    }

    /// What belongs where `found` is: as long.
    pub(super) fn put(&self, found: Found) -> &[u8] {
        &self.rows[found.text].put
    }

    /// What has to change beside it.
    pub(super) fn edges(&self, found: Found) -> Edges {
        self.rows[found.text].edges
    }
}

/// Replaces, or only watches, in a stream. However the stream is cut, what comes out is the same, and as long as what went
/// in. It holds back only what may be within something that is looked for and is another there, or the character before it: a
/// known prefix that a value and its sentinel share goes on, so that a message that ends in its first letter is not waited with.
pub struct Stream {
    table: Arc<Table>,
    /// What becomes of each secret.
    what: Vec<What>,
    state: u32,
    /// What the next byte has to do with what was put before it. The state is not [`START`] then.
    last: Option<Shared>,
    held: Zeroizing<Vec<u8>>,
    /// Bytes since something was put in.
    since: usize,
    noted: Noted,
}

impl Stream {
    pub(super) fn new(table: Arc<Table>, what: Vec<What>) -> Self {
        let (held, noted) = (Zeroizing::new(Vec::new()), Noted::default());
        Self { table, what, state: START, last: None, held, since: usize::MAX, noted }
    }

    /// Takes the next `bytes` and appends what is certain to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        // What is found begins in what was held back or later, so it can be replaced where it stands in `out`.
        out.reserve(self.held.len() + bytes.len());
        let begin = out.len();
        out.extend_from_slice(&self.held);
        let base = out.len();
        out.extend_from_slice(bytes);
        let table = Arc::clone(&self.table);
        let automaton = &table.automaton;
        let (mut at, mut replaced) = (0, None);
        while at < bytes.len() {
            if self.state == START {
                at = automaton.skip(bytes, at);
            }
            let Some(byte) = bytes.get(at) else { break };
            self.state = automaton.step(self.state, *byte);
            fix(self.last.take(), out.get_mut(base + at));
            at += 1;
            if self.replace(&table, &mut out[begin..base + at]) {
                replaced = Some(at);
            }
        }
        self.since = match replaced {
            Some(at) => bytes.len() - at,
            None => self.since.saturating_add(bytes.len()),
        };
        if self.what.iter().all(|what| *what == What::Leave) {
            return;
        }
        // What was put into something that is open is undone by its end.
        let open = automaton.open(self.state);
        let back = if self.since <= open { open } else { table.changing[self.state as usize] as usize };
        let mut held = out.len() - back;
        if held > begin && table.shared[usize::from(out[held - 1])] {
            held -= 1;
        }
        self.held.clear();
        self.held.extend_from_slice(&out[held..]);
        out.truncate(held);
    }

    /// The stream has ended: appends what was held back. The next byte begins another stream.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.held);
        self.held.clear();
        self.state = START;
        self.last = None;
        self.since = usize::MAX;
    }

    /// What was met so far.
    pub fn noted(&self) -> &Noted {
        &self.noted
    }

    /// Replaces what ends where `out` ends, and says whether there was something. Of what began before, the beginning stays.
    fn replace(&mut self, table: &Table, out: &mut [u8]) -> bool {
        let mut covered = 0;
        for (text, length) in table.automaton.ends(self.state) {
            let row = &table.rows[text];
            let what = self.what[row.secret];
            self.noted.note(&table.names[row.secret], what);
            // The longest comes first, and what is part of it is gone with it.
            if what == What::Put && length > covered {
                covered = length;
                let gone = length.saturating_sub(out.len());
                let start = out.len() - (length - gone);
                out[start..].copy_from_slice(&row.put[gone..]);
                fix(row.edges.first, out[..start].last_mut());
                self.last = row.edges.last;
            }
        }
        covered > 0
    }
}

/// Sets a character beside what was put right.
pub(super) fn fix(shared: Option<Shared>, place: Option<&mut u8>) {
    let (Some(shared), Some(place)) = (shared, place) else { return };
    *place = shared.fixed(*place).unwrap_or(*place);
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("noted", &self.noted).finish_non_exhaustive()
    }
}
