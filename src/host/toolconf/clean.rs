//! Values without their credentials.

use std::path::Path;

use super::Gather;
use super::rows::Value;

/// No value that is longer is carried (bytes).
const MAX_VALUE: usize = 4096;

impl Gather<'_> {
    /// A value without credentials; notes the hosts and paths that it names. `None` when it must not be carried.
    pub(super) fn clean(&mut self, kind: Value, text: &str) -> Option<String> {
        if text.len() > MAX_VALUE || text.chars().any(|c| c.is_control() && c != '\n') {
            return None;
        }
        match kind {
            Value::Plain => (!text.contains("://")).then(|| text.to_owned()),
            Value::Path => self.visible(Path::new(text)).then(|| text.to_owned()),
            Value::Sources => {
                let mut clean = String::new();
                for part in text.split_inclusive([' ', '\t', '\n', ',', '|']) {
                    let source = part.trim_end_matches([' ', '\t', '\n', ',', '|']);
                    clean.push_str(&self.source(source)?);
                    clean.push_str(part.get(source.len()..)?);
                }
                Some(clean)
            }
        }
    }

    /// One URL, path or word.
    fn source(&mut self, source: &str) -> Option<String> {
        let Some((scheme, rest)) = source.split_once("://") else {
            return (!source.starts_with('/') || self.visible(Path::new(source))).then(|| source.to_owned());
        };
        if scheme.ends_with("file") {
            return self.visible(Path::new(rest)).then(|| source.to_owned());
        }
        // The path ends where a query or a fragment begins: either may hold a token.
        let rest = rest.split(['?', '#']).next()?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = authority.rsplit('@').next()?;
        if host.is_empty() || host.contains(['$', '{', '\\']) {
            return None;
        }
        self.config.registries.push(host.to_ascii_lowercase());
        Some(format!("{scheme}://{host}{path}"))
    }

    /// Whether a path will be there inside; if so, and no jail shows it anyway, it is noted.
    fn visible(&mut self, path: &Path) -> bool {
        let Ok(real) = path.canonicalize() else { return false };
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
        if !may || real != path {
            return false;
        }
        self.config.mounts.push(real);
        true
    }
}
