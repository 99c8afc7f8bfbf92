//! The launcher's environment and its standard streams, as they were at the start.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::policy::env::{looks_secret, own_reason};
use crate::secrets::{Concealed, Guess, looks_like_token};

/// What a standard stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// A terminal.
    Terminal,
    /// A pipe, a file, a socket or `/dev/null`. (The runtime puts `/dev/null` in the place of a stream that was closed at
    /// the start, so those are counted here.)
    Other,
    /// Closed since.
    Closed,
}

/// A snapshot of the launcher's variables and streams.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Every variable, raw.
    pub vars: BTreeMap<OsString, OsString>,
    /// Standard input, output and error.
    pub streams: [Stream; 3],
}

/// What keeps the credentials of this process's environment out of what is shown: those that are called like one, those that
/// look like one, and those that the command line binds, before it is known whether it can be read.
pub fn credentials() -> Concealed {
    let bound = bound_by(std::env::args_os());
    let is_secret = |name: &str, value: &OsStr| {
        let looks = || own_reason(name).is_none() && value.to_str().is_some_and(looks_like_token);
        looks_secret(name) || bound.contains(name) || looks()
    };
    let secret =
        std::env::vars_os().filter(|(name, value)| name.to_str().is_some_and(|name| is_secret(name, value)));
    let values = hidden(secret.map(|(_, value)| value));
    let values: Vec<&[u8]> = values.iter().map(|value| value.as_slice()).collect();
    Concealed::new(&values, Guess::Shown)
}

/// The names in `--secret NAME=...` and `--secret=NAME=...`.
fn bound_by(arguments: impl Iterator<Item = OsString>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_bound = false;
    for argument in arguments.map(|argument| argument.to_string_lossy().into_owned()) {
        let binding = argument.strip_prefix("--secret=").or_else(|| is_bound.then_some(argument.as_str()));
        if let Some((name, _)) = binding.and_then(|binding| binding.split_once('=')) {
            names.insert(name.to_owned());
        }
        is_bound = argument == "--secret";
    }
    names
}

/// What keeps the values of the variables that `text` names out of it: what is said of `--secret NAME=...` does not repeat the
/// value of NAME, however it is called. `None` when it names none; those that the jail or its programs need are no secrets.
pub fn named_in(text: &str) -> Option<Concealed> {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    let words: BTreeSet<&str> = text.split(|sign| !is_part(sign)).collect();
    let named = std::env::vars_os().filter(|(name, _)| {
        name.to_str().is_some_and(|name| words.contains(name) && own_reason(name).is_none())
    });
    let values = hidden(named.map(|(_, value)| value));
    let values: Vec<&[u8]> = values.iter().map(|value| value.as_slice()).collect();
    (!values.is_empty()).then(|| Concealed::new(&values, Guess::Shown))
}

/// The credentials among `vars`, each also in small letters, in which hosts are shown. What names a place is none.
pub fn values_of_credentials(
    vars: impl Iterator<Item = (impl AsRef<OsStr>, OsString)>,
) -> Vec<Zeroizing<Vec<u8>>> {
    let secret = vars.filter(|(name, _)| name.as_ref().to_str().is_some_and(looks_secret));
    hidden(secret.map(|(_, value)| value))
}

fn hidden(values: impl Iterator<Item = OsString>) -> Vec<Zeroizing<Vec<u8>>> {
    let values = values.map(|value| Zeroizing::new(value.into_encoded_bytes()));
    let values: Vec<_> = values.filter(|value| !value.starts_with(b"/")).collect();
    let lower = values.iter().map(|value| Zeroizing::new(value.to_ascii_lowercase())).collect::<Vec<_>>();
    values.into_iter().chain(lower).collect()
}

/// Whether a variable of this name is one of credentials, and not of the place where they are had.
pub fn is_named_like_credential(name: &str) -> bool {
    const PLACES: [&str; 7] = ["HOST", "HOSTNAME", "DOMAIN", "ENDPOINT", "SERVER", "URL", "ISSUER"];
    let last = name.rsplit('_').next().unwrap_or(name).to_ascii_uppercase();
    looks_secret(name) && !PLACES.contains(&last.as_str())
}

impl Environment {
    /// Reads this process's environment and looks at descriptors 0 to 2.
    pub fn read() -> Self {
        let vars = std::env::vars_os().collect();
        let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        Self { vars, streams: streams.map(|fd| Stream::of(&fd)) }
    }

    /// The value of `name`, unless it is unset or empty.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// The value of `name` as text, unless it is unset, empty or not UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.var(name).and_then(OsStr::to_str)
    }

    /// The entries of `PATH` that are absolute, in order, each once. Relative and empty ones mean "here" and are left out.
    pub fn path_entries(&self) -> Vec<PathBuf> {
        let mut entries: Vec<PathBuf> = Vec::new();
        for entry in self.var("PATH").unwrap_or_default().as_bytes().split(|&byte| byte == b':') {
            let entry = Path::new(OsStr::from_bytes(entry));
            if entry.is_absolute() && !entries.iter().any(|known| known == entry) {
                entries.push(entry.to_path_buf());
            }
        }
        entries
    }
}

impl Stream {
    fn of(fd: &std::os::fd::BorrowedFd<'_>) -> Self {
        match rustix::io::fcntl_getfd(fd) {
            Err(Errno::BADF) => Self::Closed,
            _ if rustix::termios::isatty(fd) => Self::Terminal,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_entries_are_absolute_and_unique() {
        for (path, want) in [
            ("/usr/bin:/bin", vec!["/usr/bin", "/bin"]),
            (":/usr/bin:", vec!["/usr/bin"]),
            (".:bin:../x:/bin", vec!["/bin"]),
            ("/bin:/usr/bin:/bin", vec!["/bin", "/usr/bin"]),
            ("", vec![]),
        ] {
            let vars = BTreeMap::from([("PATH".into(), path.into())]);
            let environment = Environment { vars, streams: [Stream::Other; 3] };
            let want: Vec<PathBuf> = want.into_iter().map(PathBuf::from).collect();
            assert_eq!(environment.path_entries(), want, "PATH={path}");
        }
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let vars = BTreeMap::from([("A".into(), "".into()), ("B".into(), "x".into())]);
        let environment = Environment { vars, streams: [Stream::Other; 3] };
        assert_eq!(environment.var("A"), None);
        assert_eq!(environment.text("B"), Some("x"));
    }

    #[test]
    fn what_a_variable_of_credentials_holds_is_known_in_either_case_and_places_are_not() {
        let vars = [
            ("MY_TOKEN", "Hunter2Hunter2"),
            ("GNOME_KEYRING_CONTROL", "/run/user/1000/keyring"),
            ("EDITOR", "some-editor"),
        ];
        let values = values_of_credentials(vars.map(|(name, value)| (name, value.into())).into_iter());
        let values: Vec<&[u8]> = values.iter().map(|value| value.as_slice()).collect();
        assert_eq!(values, [&b"Hunter2Hunter2"[..], b"hunter2hunter2"]);
    }
}
