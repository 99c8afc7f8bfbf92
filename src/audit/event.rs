//! The records of the log. Strings that the jail chose are escaped and bounded when they are written.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::config::settings::{HomeMode, NetworkMode, Profile, StateMode};
use crate::sanitize::escape;

/// One record. In the file its `event` field names the variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A session begins.
    Start(Start),
    /// A connection or a request was allowed or denied.
    Net(NetDecision),
    /// A secret was put in, sent astray or taken out.
    Secret(SecretUse),
    /// Terminal sequences were taken out.
    Terminal(TerminalDrops),
    /// Something else that a reader of the log should know.
    Note(Note),
    /// The session is over.
    End(End),
}

/// What was in force when a session began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The version of ai-jail.
    pub version: String,
    /// The profile.
    pub profile: Profile,
    /// The project's path, escaped.
    #[serde(serialize_with = "foreign")]
    pub project: String,
    /// The command's name. Its arguments may hold secrets, so they are not recorded.
    #[serde(serialize_with = "foreign")]
    pub command: String,
    /// The network mode.
    pub network: NetworkMode,
    /// The number of allowed host patterns.
    pub hosts: usize,
    /// Whether the home is kept.
    pub home: HomeMode,
    /// Where the agent's state is kept.
    pub state: StateMode,
    /// The names of the secrets that the jail has fakes for.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "foreign_list", default)]
    pub secrets: Vec<String>,
    /// What the kernel enforces.
    pub protections: Protections,
}

/// What the kernel enforces in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protections {
    /// The Landlock ABI that the domain was built for; `None` when the kernel has none.
    pub landlock_abi: Option<i32>,
    /// Whether system calls are filtered.
    pub seccomp: bool,
    /// Whether further user namespaces are disabled in the jail.
    pub userns_disabled: bool,
    /// The version of bubblewrap.
    pub bwrap: String,
}

/// A decision about the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetDecision {
    /// Where it came in.
    pub door: Door,
    /// The host that was asked for, canonical where it could be read; `*` in a record that stands for many.
    #[serde(serialize_with = "foreign_host")]
    pub host: String,
    /// The port that was asked for.
    pub port: u16,
    /// What was decided.
    pub verdict: Verdict,
    /// The deciding rule, as it was written; `None` when no rule matched.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "foreign_option", default)]
    pub rule: Option<String>,
    /// Where the rule came from, or the HTTP rules of which none allows the request.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "foreign_option", default)]
    pub origin: Option<String>,
    /// Why, in a word, for a denial.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "foreign_option", default)]
    pub code: Option<String>,
    /// Why, in words, for a denial.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "foreign_option", default)]
    pub reason: Option<String>,
    /// The allowed host that was perhaps meant, for a denied one.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "foreign_option", default)]
    pub meant: Option<String>,
    /// Method and path, when HTTP rules deny the request and not its host.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "foreign_option", default)]
    pub request: Option<String>,
    /// The HTTP rule that would allow the request.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "foreign_option", default)]
    pub allow: Option<String>,
    /// How many equal decisions the record stands for, 1 for the first of a minute.
    pub count: u64,
    /// Whether it is a question for another record than the address. The log counts every question; whoever wanted to connect
    /// asked several at once, which the summary counts as one.
    #[serde(skip)]
    pub is_beside: bool,
}

impl NetDecision {
    /// One about `host` and `port`: allowed, without a rule.
    pub fn allowed(door: Door, host: String, port: u16) -> Self {
        Self {
            door,
            host,
            port,
            verdict: Verdict::Allowed,
            rule: None,
            origin: None,
            code: None,
            reason: None,
            meant: None,
            request: None,
            allow: None,
            count: 1,
            is_beside: false,
        }
    }
}

/// Where a connection came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Door {
    /// The HTTP proxy.
    Http,
    /// The SOCKS proxy.
    Socks,
    /// A connection to a name's own address.
    Transparent,
    /// A question for a name.
    Dns,
    /// A port of this machine's loopback, from the jail.
    Forward,
    /// A port of the jail's loopback, from this machine.
    Publish,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It passed.
    Allowed,
    /// It did not.
    Denied,
}

/// What became of a secret in an inspected exchange. The value is nowhere in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretUse {
    /// The secret's name; `*` in a record that stands for many.
    #[serde(serialize_with = "foreign")]
    pub name: String,
    /// The host, canonical; `*` in a record that stands for many.
    #[serde(serialize_with = "foreign_host")]
    pub host: String,
    /// The port.
    pub port: u16,
    /// What became of it.
    pub what: SecretWhat,
    /// How many equal uses the record stands for, 1 for the first of a minute.
    pub count: u64,
}

/// What became of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecretWhat {
    /// The value was put in for its fake.
    Used,
    /// The fake was sent to a host that it is not bound to, and stayed as it is.
    Stray,
    /// The fake was sent to its host in a part of a request that it is not put in for, or by plain HTTP, and stayed as it is.
    Misplaced,
    /// An answer carried the value, and got the fake in its place.
    Scrubbed,
}

/// Terminal sequences that were taken out, by class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalDrops {
    /// The class of a sequence, for example `clipboard`, and how many there were.
    pub dropped: BTreeMap<String, u64>,
}

/// Something that has no record of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// What it is about.
    pub kind: NoteKind,
    /// The path it is about, escaped.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "foreign_option", default)]
    pub path: Option<String>,
    /// One sentence.
    #[serde(serialize_with = "foreign")]
    pub text: String,
}

/// What a note is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteKind {
    /// A protected path: held, uncovered for a moment, or moved out of reach.
    Guard,
    /// What the guard did while the jail ran, or at the launch after a session that was killed; what the user must know of
    /// it at the end is said by `Guard`.
    Live,
    /// A secrets file: masked, or not.
    Secret,
    /// What other tools run, load or obey and is new or changed: each with its path, and all in one sentence without.
    HandOver,
    /// A mount that was made, or could not be.
    Mount,
    /// An allowed host that could not be reached, or a door that could not be made.
    Network,
    /// A limit that ended or held something.
    Limit,
    /// The log itself.
    Log,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// How the command ended.
    pub exit: Exit,
    /// Milliseconds from the start record to the end.
    pub duration_ms: u64,
    /// Sums over the session.
    pub totals: Totals,
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// By itself, with this status.
    Status(u8),
    /// By this signal.
    Signal(i32),
    /// The jail was not set up, or was ended by us.
    Failed,
}

/// Sums over a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Allowed connections and requests.
    pub allowed: u64,
    /// Denied ones.
    pub denied: u64,
    /// Terminal sequences that were taken out.
    pub stripped: u64,
    /// Notes about guarded paths.
    pub guarded: u64,
    /// Fakes for secrets that were sent where they are not bound.
    #[serde(default)]
    pub strays: u64,
}

/// The longest foreign string in a record, in characters of its escaped form.
pub(super) const MAX_FOREIGN: usize = 1024;

/// The longest host in a record: a name has at most 253 characters.
pub(super) const MAX_HOST: usize = 255;

/// `text` escaped and cut to [`MAX_FOREIGN`]; a cut is marked with `...`.
pub(super) fn bounded(text: &str) -> String {
    cut(text, MAX_FOREIGN)
}

/// `host` escaped and cut to [`MAX_HOST`].
pub(super) fn bounded_host(host: &str) -> String {
    cut(host, MAX_HOST)
}

fn cut(text: &str, left: usize) -> String {
    let mut shown = Cut { text: String::new(), left };
    if fmt::write(&mut shown, format_args!("{}", escape(text))).is_err() {
        shown.text.push_str("...");
    }
    shown.text
}

fn foreign<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&bounded(text))
}

fn foreign_list<S: Serializer>(texts: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(texts.iter().map(|text| bounded(text)))
}

fn foreign_host<S: Serializer>(host: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&bounded_host(host))
}

fn foreign_option<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    match text {
        Some(text) => foreign(text, serializer),
        None => serializer.serialize_none(),
    }
}

/// A text that stops growing: the work for an oversized string ends with it.
struct Cut {
    text: String,
    left: usize,
}

impl fmt::Write for Cut {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for c in part.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(c);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(host: &str) -> Event {
        Event::Net(NetDecision {
            verdict: Verdict::Denied,
            code: Some("no-rule".to_owned()),
            reason: Some("no rule allows it".to_owned()),
            ..NetDecision::allowed(Door::Http, host.to_owned(), 443)
        })
    }

    #[test]
    fn the_event_field_names_the_record() {
        assert_eq!(
            serde_json::to_string(&denied("evil.example")).unwrap(),
            r#"{"event":"net","door":"http","host":"evil.example","port":443,"verdict":"denied","code":"no-rule","reason":"no rule allows it","count":1}"#
        );
        let end = Event::End(End { exit: Exit::Signal(9), duration_ms: 5, totals: Totals::default() });
        assert_eq!(
            serde_json::to_string(&end).unwrap(),
            r#"{"event":"end","exit":{"signal":9},"duration_ms":5,"totals":{"allowed":0,"denied":0,"stripped":0,"guarded":0,"strays":0}}"#
        );
    }

    #[test]
    fn every_record_reads_back() {
        let events = [
            denied("a.example"),
            Event::Start(Start {
                version: "0.1.0".to_owned(),
                profile: Profile::ReadOnly,
                project: "/p".to_owned(),
                command: "claude".to_owned(),
                network: NetworkMode::Filtered,
                hosts: 3,
                home: HomeMode::Persistent,
                state: StateMode::Jail,
                secrets: vec!["GITHUB_TOKEN".to_owned()],
                protections: Protections {
                    landlock_abi: Some(7),
                    seccomp: true,
                    userns_disabled: true,
                    bwrap: "0.8.0".to_owned(),
                },
            }),
            Event::Secret(SecretUse {
                name: "GITHUB_TOKEN".to_owned(),
                host: "api.github.com".to_owned(),
                port: 443,
                what: SecretWhat::Scrubbed,
                count: 2,
            }),
            Event::Terminal(TerminalDrops { dropped: BTreeMap::from([("clipboard".to_owned(), 2)]) }),
            Event::Note(Note {
                kind: NoteKind::Guard,
                path: Some("/p/.git".to_owned()),
                text: "held".to_owned(),
            }),
            Event::End(End { exit: Exit::Status(3), duration_ms: 1, totals: Totals::default() }),
        ];
        for event in events {
            let json = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event, "{json}");
        }
    }

    #[test]
    fn a_host_cannot_forge_a_line_or_act_on_a_terminal() {
        let json = serde_json::to_string(&denied("a\n{\"event\":\"end\"}\x1b]52;c;x\x07\u{202e}")).unwrap();
        assert!(json.is_ascii() && !json.contains('\n') && !json.contains('\x1b'), "{json}");
        let Event::Net(decision) = serde_json::from_str(&json).unwrap() else { panic!() };
        assert_eq!(decision.host, "a\\n{\"event\":\"end\"}\\x1b]52;c;x\\x07\\u{202e}");
    }

    #[test]
    fn a_host_of_any_length_makes_a_short_record() {
        for host in ["h".repeat(10_000_000), "\x1b".repeat(1_000_000)] {
            let json = serde_json::to_string(&denied(&host)).unwrap();
            assert!(json.len() < 3 * MAX_HOST && json.contains("..."), "{}", json.len());
        }
    }
}
