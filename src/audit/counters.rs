//! What the summary at exit says: denied hosts, stripped sequences, guarded paths. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::denials::{Denials, MAX_HOSTS, SHOWN, listed, target, times};
use super::event::{
    Event, Note, NoteKind, SecretUse, SecretWhat, TerminalDrops, Totals, Verdict, bounded, bounded_host,
};

/// Sums over a session.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    totals: Totals,
    denials: Denials,
    stripped: BTreeMap<String, u64>,
    /// Fakes that went astray, by name and target.
    strays: BTreeMap<(String, String), u64>,
    /// Those that were sent to their own host in another way than they are put in for.
    misplaced: BTreeMap<(String, String), u64>,
    guarded: Vec<String>,
    /// What is handed over.
    handed: Option<String>,
    /// What failed although it was allowed.
    failures: BTreeSet<String>,
}

impl Counters {
    /// Counts an event.
    pub fn count(&mut self, event: &Event) {
        match event {
            Event::Net(decision) if decision.verdict == Verdict::Allowed => {
                self.totals.allowed += decision.count
            }
            Event::Net(decision) => {
                self.totals.denied += decision.count;
                self.denials.count(decision);
            }
            Event::Secret(used) if used.what == SecretWhat::Misplaced => {
                let key = (bounded(&used.name), target(&bounded_host(&used.host), used.port));
                if self.misplaced.len() < MAX_HOSTS || self.misplaced.contains_key(&key) {
                    *self.misplaced.entry(key).or_default() += used.count;
                }
            }
            Event::Secret(used) if used.what == SecretWhat::Stray => {
                self.totals.strays += used.count;
                self.stray(used);
            }
            Event::Terminal(TerminalDrops { dropped }) => {
                for (class, count) in dropped {
                    self.totals.stripped += count;
                    *self.stripped.entry(class.clone()).or_default() += count;
                }
            }
            Event::Note(Note { kind: NoteKind::Guard, text, .. }) => {
                self.totals.guarded += 1;
                if self.guarded.len() < MAX_HOSTS {
                    self.guarded.push(bounded(text));
                }
            }
            Event::Note(Note { kind: NoteKind::Network, text, .. }) => {
                // Beyond the bound a new failure is in the log alone.
                if self.failures.len() < MAX_HOSTS || self.failures.contains(text) {
                    self.failures.insert(bounded(text));
                }
            }
            Event::Note(Note { kind: NoteKind::HandOver, path: None, text }) => {
                self.handed = Some(bounded(text));
            }
            Event::Start(_) | Event::Secret(_) | Event::Note(_) | Event::End(_) => {}
        }
    }

    fn stray(&mut self, used: &SecretUse) {
        let key = (bounded(&used.name), target(&bounded_host(&used.host), used.port));
        // Beyond the bound a new target is in the sum and in the log alone.
        if self.strays.len() < MAX_HOSTS || self.strays.contains_key(&key) {
            *self.strays.entry(key).or_default() += used.count;
        }
    }

    /// What alarms: something inside sent a fake where no request of the user's needs it.
    fn alarm(&self) -> Option<String> {
        let counts =
            self.strays.iter().map(|((name, target), count)| (format!("{name} to {target}"), *count));
        let counts = sorted(counts);
        if counts.is_empty() {
            return None;
        }
        Some(format!(
            "ALARM: fakes of secrets were sent where they do not belong: {}; the real ones were not sent there",
            shown(&counts)
        ))
    }

    /// Fakes that a host of their own got, which is no alarm and a request that fails.
    fn misplaced(&self) -> Option<String> {
        let counts =
            self.misplaced.iter().map(|((name, target), count)| (format!("{name} to {target}"), *count));
        let counts = sorted(counts);
        (!counts.is_empty()).then(|| {
            format!(
                "fakes of secrets stayed what they are on the way to their own host: {}; they are put in by HTTPS, and in \
                 the parts of a request that `in` of [secrets] names (by default all but the body)",
                shown(&counts)
            )
        })
    }

    /// The sums for the end record.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// What has to be said although the user wants no summary: where things of the user's went, and what is not safe.
    pub fn guarded(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.alarm().into_iter().collect();
        let before = lines.len();
        lines.extend(self.guarded.iter().take(GUARDED_SHOWN).cloned());
        let more = self.totals.guarded.saturating_sub(GUARDED_SHOWN as u64);
        if let (1.., Some(last)) = (more, lines[before..].last_mut()) {
            last.push_str(&format!("; and {more} more, see the log"));
        }
        lines
    }

    /// The lines of the summary, most important first; empty when nothing was denied, stripped or guarded.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = self.guarded();
        lines.extend(self.misplaced());
        lines.extend(self.handed.clone());
        lines.extend(self.denials.lines());
        if let Some(first) = self.failures.first() {
            let more = match self.failures.len() {
                1 => String::new(),
                2 => "; and 1 more failure, see the log".to_owned(),
                count => format!("; and {} more failures, see the log", count - 1),
            };
            lines.push(format!("{first}{more}"));
        }
        if self.totals.stripped > 0 {
            let classes = shown(&sorted(self.stripped.iter().map(|(class, count)| (class.clone(), *count))));
            lines.push(format!("stripped {}: {classes}", times(self.totals.stripped, "terminal sequence")));
        }
        lines
    }
}

/// The most frequent ones first.
fn sorted(counts: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> = counts.collect();
    counts.sort_by(|(a_name, a), (b_name, b)| b.cmp(a).then_with(|| a_name.cmp(b_name)));
    counts
}

/// The first ones with their counts, and how many there are besides.
fn shown(counts: &[(String, u64)]) -> String {
    match counts.len().saturating_sub(SHOWN) {
        0 => listed(counts),
        more => format!("{} and {more} more", listed(counts)),
    }
}

/// Lines about guarded paths in the summary: one for each sort, so that none hides another.
const GUARDED_SHOWN: usize = 10;

#[cfg(test)]
mod tests;
