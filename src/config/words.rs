//! Values that are words of a fixed list, and the nearest word to one that is not on it.

use super::settings::{CacheMode, Ech, HomeMode, Inherit, Inspect, NetworkMode, Profile, StateMode, Thing};
use crate::policy::bindings::SecretMode;
use crate::secrets::{Decode, Place};

/// A value that is written as one of a few words, the same ones in files, flags and the environment.
pub trait Word: Copy + Send + Sync + Sized + 'static {
    /// What such a word is called in an error, for example "profile".
    const NOUN: &'static str;
    /// Each word with its value.
    const WORDS: &'static [(&'static str, Self)];

    /// The value of `text`, or the reason why there is none.
    fn from_word(text: &str) -> Result<Self, Problem> {
        if let Some((_, value)) = Self::WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(*value);
        }
        let words: Vec<&str> = Self::WORDS.iter().map(|(word, _)| *word).collect();
        let problem = Problem::new(format!("a {} is one of {}", Self::NOUN, words.join(", ")));
        Err(match nearest(text, words.iter().copied()) {
            Some(word) => problem.hint(format!("did you mean `{word}`?")),
            None => problem,
        })
    }

    /// The word for `self`.
    fn word(self) -> &'static str
    where
        Self: PartialEq,
    {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| word)
    }
}

impl Word for Profile {
    const NOUN: &'static str = "profile";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("workspace", Self::Workspace),
        ("read-only", Self::ReadOnly),
        ("strict", Self::Strict),
        ("lockdown", Self::Lockdown),
        ("devbox", Self::Devbox),
    ];
}

impl Word for HomeMode {
    const NOUN: &'static str = "home mode";
    const WORDS: &'static [(&'static str, Self)] =
        &[("persistent", Self::Persistent), ("ephemeral", Self::Ephemeral)];
}

impl Word for StateMode {
    const NOUN: &'static str = "state mode";
    const WORDS: &'static [(&'static str, Self)] =
        &[("jail", Self::Jail), ("shared", Self::Shared), ("none", Self::None)];
}

impl Word for CacheMode {
    const NOUN: &'static str = "cache mode";
    const WORDS: &'static [(&'static str, Self)] = &[("project", Self::Project), ("shared", Self::Shared)];
}

impl Word for NetworkMode {
    const NOUN: &'static str = "network mode";
    const WORDS: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("filtered", Self::Filtered), ("open", Self::Open)];
}

impl Word for Inspect {
    const NOUN: &'static str = "choice of what is inspected";
    const WORDS: &'static [(&'static str, Self)] = &[("needed", Self::Needed), ("all", Self::All)];
}

impl Word for Ech {
    const NOUN: &'static str = "word for encrypted ClientHello";
    const WORDS: &'static [(&'static str, Self)] = &[("refuse", Self::Refuse), ("allow", Self::Allow)];
}

impl Word for SecretMode {
    const NOUN: &'static str = "mode of a secret";
    const WORDS: &'static [(&'static str, Self)] = &[("mask", Self::Mask), ("deny", Self::Deny)];
}

impl Word for Place {
    const NOUN: &'static str = "place in a request";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("header", Self::Header),
        ("basic", Self::Basic),
        ("query", Self::Query),
        ("path", Self::Path),
        ("body", Self::Body),
    ];
}

impl Word for Decode {
    const NOUN: &'static str = "form of a secret";
    const WORDS: &'static [(&'static str, Self)] = &[("plain", Self::Plain), ("jwt", Self::Jwt)];
}

impl Word for Inherit {
    const NOUN: &'static str = "base of the environment";
    const WORDS: &'static [(&'static str, Self)] =
        &[("core", Self::Core), ("all", Self::All), ("none", Self::None)];
}

impl Word for Thing {
    const NOUN: &'static str = "thing of the host";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("ssh-agent", Self::SshAgent),
        ("docker", Self::Docker),
        ("dbus", Self::Dbus),
        ("wayland", Self::Wayland),
        ("x11", Self::X11),
        ("audio", Self::Audio),
        ("gpu", Self::Gpu),
        ("kvm", Self::Kvm),
    ];
}

/// Why a value is no good, and what to write instead: half of an error, without the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The reason.
    pub why: String,
    /// The way out, when there is an obvious one.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem with a reason and no hint.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), hint: None }
    }

    /// Adds the way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The candidate that `word` is most likely a misspelling of, if any is near: at most one edit in three letters.
///
/// Hyphens count as underscores, so that a flag's spelling finds the key. Equally near ones: the first wins.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST_WORD {
        return None;
    }
    let normal = |text: &str| text.to_ascii_lowercase().replace('-', "_");
    let wanted = normal(word);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&wanted, &normal(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().div_ceil(4).min(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The distance takes quadratic time, so long words of a hostile file are not measured.
const LONGEST_WORD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_when_one_is_near() {
        let keys = ["allow", "allow_private", "agent_hosts", "deny", "mode", "resolve"];
        let cases = [
            ("alow", Some("allow")),
            ("Allow", Some("allow")),
            ("allow-private", Some("allow_private")),
            ("alow_privat", Some("allow_private")),
            ("agent_host", Some("agent_hosts")),
            ("dney", Some("deny")),
            ("moed", Some("mode")),
            ("zzz", None),
            ("", None),
            ("x", None),
        ];
        for (word, want) in cases {
            assert_eq!(nearest(word, keys), want, "{word}");
        }
        assert_eq!(nearest(&"a".repeat(100_000), keys), None);
    }

    #[test]
    fn a_wrong_word_names_the_right_ones() {
        let problem = NetworkMode::from_word("filterd").unwrap_err();
        assert_eq!(problem.why, "a network mode is one of off, filtered, open");
        assert_eq!(problem.hint.as_deref(), Some("did you mean `filtered`?"));
    }

    #[test]
    fn every_word_reads_back() {
        for (word, value) in Profile::WORDS {
            assert_eq!(value.word(), *word);
            assert_eq!(Profile::from_word(word), Ok(*value));
        }
    }
}
