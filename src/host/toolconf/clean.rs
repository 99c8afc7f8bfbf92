//! Values without their credentials.

use std::path::Path;

use super::super::read_bytes;
use super::Gather;
use super::rows::Value;

/// No value that is longer is carried (bytes).
const MAX_VALUE: usize = 4096;
/// No file of certificates is longer (bytes).
const MAX_PEM: u64 = 8 << 20;
/// What is between the parts of a list.
const SEPARATORS: [char; 5] = [' ', '\t', '\n', ',', '|'];

impl Gather<'_> {
    /// A value without credentials; notes the hosts and paths that it names. `None` when it must not be carried.
    pub(super) fn clean(&mut self, kind: Value, text: &str) -> Option<String> {
        if text.len() > MAX_VALUE || text.chars().any(|c| c.is_control() && c != '\n') {
            return None;
        }
        match kind {
            Value::Plain => (!text.contains("://") && !text.contains('@')).then(|| text.to_owned()),
            Value::Path => self.visible(Path::new(text)).then(|| text.to_owned()),
            Value::Roots => {
                let path = Path::new(text);
                self.visible(path).then(|| {
                    self.config.roots.push(path.to_path_buf());
                    text.to_owned()
                })
            }
            Value::Sources => {
                let mut clean = String::new();
                for part in parts(text) {
                    let source = part.trim_end_matches(SEPARATORS);
                    clean.push_str(&self.source(source)?);
                    clean.push_str(part.get(source.len()..)?);
                }
                // What still looks like a login was cut apart wrongly: nothing of the value goes in.
                (!clean.contains('@')).then_some(clean)
            }
        }
    }

    /// One URL, path or word.
    fn source(&mut self, source: &str) -> Option<String> {
        let Some((scheme, rest)) = source.split_once("://") else {
            // Without a scheme, `@` and `:` are a login's as well as a name's.
            let plain =
                !source.contains('@') && (!source.starts_with('/') || self.visible(Path::new(source)));
            return plain.then(|| source.to_owned());
        };
        if scheme.ends_with("file") {
            return self.visible(Path::new(rest)).then(|| source.to_owned());
        }
        if scheme.contains('@') || rest.contains("://") {
            return None;
        }
        // The authority ends at the first slash, its login at the last `@`: passwords hold `?`, `#`, commas and bars.
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = authority.rsplit('@').next()?;
        // The path ends where a query or a fragment begins: either may hold a token.
        let path = path.split(['?', '#']).next()?;
        if !is_host(host) || path.contains('@') {
            return None;
        }
        self.config.registries.push(host.to_ascii_lowercase());
        Some(format!("{scheme}://{host}{path}"))
    }

    /// Whether a path will be there inside; if so, and no jail shows it anyway, it is noted.
    fn visible(&mut self, path: &Path) -> bool {
        let Some(real) = self.bounds.host().real(path) else { return false };
        if !path.is_absolute() || self.bounds.holds_home(&real) {
            return false;
        }
        if !self.bounds.foreign(&real) {
            return true;
        }
        let may = if real.is_dir() {
            self.bounds.may_show(&real)
        } else {
            real.is_file() && !self.bounds.credential(&real)
        };
        // A link on the way would lead nowhere inside.
        if !may || real != path || (real.is_file() && holds_key(&real)) {
            return false;
        }
        self.config.mounts.push(real);
        true
    }
}

/// The parts of a list, each with the separators behind it. A comma or a bar separates only where it cannot be part of a
/// login: behind a word without a scheme, or before another URL, path or word and behind a URL that has no login.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for word in text.split_inclusive([' ', '\t', '\n']) {
        let login = word.rsplit_once('@').map_or(0, |(login, _)| login.len());
        let mut begin = 0;
        for (position, _) in word.match_indices([',', '|']) {
            let next = word.get(position + 1..).unwrap_or_default();
            // Behind the last `@` nothing is of a login; before it only another URL is surely something new.
            if position >= login || begins_url(next) {
                parts.extend(word.get(begin..=position));
                begin = position + 1;
            }
        }
        parts.extend(word.get(begin..).filter(|rest| !rest.is_empty()));
    }
    parts
}

fn begins_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-._=".contains(c))
    })
}

/// A name or an address, with a port or without.
fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, port),
        _ => (host, ""),
    };
    let address = name.starts_with('[') && name.ends_with(']');
    let letters = if address { ":.[]" } else { ".-_" };
    !name.is_empty()
        && name.chars().all(|c| c.is_alphanumeric() || letters.contains(c))
        && port.chars().all(|c| c.is_ascii_digit())
}

/// Whether a file holds a private key beside what it is named for.
fn holds_key(file: &Path) -> bool {
    let marker = b"PRIVATE KEY-----";
    // One that is too long to be looked through is not shown either.
    read_bytes(file, MAX_PEM).is_none_or(|bytes| bytes.windows(marker.len()).any(|window| window == marker))
}
