//! The globs of `deny` and `mask` (FS-8): what may be written, and what a path matches.
//!
//! A glob is a row of segments. `*`, `?` and classes stay within one; `**` stands for any number of directories and is a
//! segment of its own. What gitignore has beside that - braces, escapes, negation, a slash at the end - is refused, for
//! everyone reads it differently.

mod segment;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

pub use self::segment::Case;
use self::segment::Shape;

/// Bytes of one glob: more than a path can have.
const MAX_LENGTH: usize = 4096;
/// Segments of one glob: each is a bit in [`States`], and one bit is the end.
const MAX_SEGMENTS: usize = 120;

/// A glob that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    text: OsString,
    anchor: Anchor,
    segments: Vec<Segment>,
}

/// Where a glob starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// At the project.
    Project,
    /// At the root of the file system.
    Root,
}

/// One segment.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// This name.
    Literal(OsString),
    /// A name of this shape.
    Shape(Shape),
    /// Any number of directories, none too.
    Directories,
}

/// Why a glob cannot be used, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub why: String,
    /// What to write.
    pub fix: String,
}

fn refused<T>(why: impl Into<String>, fix: impl Into<String>) -> Result<T, Refused> {
    Err(Refused { why: why.into(), fix: fix.into() })
}

impl Glob {
    /// Reads a glob; `~` as its first segment is `home`.
    ///
    /// # Errors
    /// When it is one of the forms that are refused.
    pub fn parse(text: &OsStr, home: &Path) -> Result<Self, Refused> {
        let bytes = text.as_bytes();
        check(bytes)?;
        let (anchor, before, rest) = match bytes {
            b"~" => (Anchor::Root, home, &b""[..]),
            [b'~', b'/', rest @ ..] => (Anchor::Root, home, rest),
            [b'/', rest @ ..] => (Anchor::Root, Path::new("/"), rest),
            _ => (Anchor::Project, Path::new(""), bytes),
        };
        let mut segments: Vec<Segment> =
            names(before).map(|name| Segment::Literal(name.to_owned())).collect();
        if !rest.is_empty() {
            for name in rest.split(|byte| *byte == b'/') {
                let segment = Segment::parse(name)?;
                if segment != Segment::Directories || segments.last() != Some(&segment) {
                    segments.push(segment);
                }
            }
        }
        if segments.is_empty() {
            return refused("it is the root of the file system", "name what is to be hidden in it");
        }
        // `a/**` is what lies below `a`, not `a` itself.
        if segments.last() == Some(&Segment::Directories) {
            segments.push(Segment::Shape(Shape::any()));
        }
        if segments.len() > MAX_SEGMENTS {
            return refused(format!("it has more than {MAX_SEGMENTS} segments"), "write ** for some of them");
        }
        Ok(Self { text: text.to_owned(), anchor, segments })
    }

    /// The one path, which is absolute; every character of it means itself. `None` for a path with too many parts, or with
    /// `..` in it.
    pub fn of_path(path: &Path) -> Option<Self> {
        let plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
        let segments: Vec<Segment> = names(path).map(|name| Segment::Literal(name.to_owned())).collect();
        let fits = plain && (1..=MAX_SEGMENTS).contains(&segments.len());
        fits.then(|| Self { text: path.as_os_str().to_owned(), anchor: Anchor::Root, segments })
    }

    /// As it was written.
    pub fn text(&self) -> &OsStr {
        &self.text
    }

    /// Where it starts.
    pub fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// The path that it names, from its anchor, when it names exactly one.
    pub fn literal(&self) -> Option<PathBuf> {
        let (prefix, rest) = self.split();
        rest.is_empty().then_some(prefix)
    }

    /// The directory, from its anchor, in which the part begins that is no plain name. Of a literal it is the parent.
    pub fn prefix(&self) -> PathBuf {
        let (prefix, rest) = self.split();
        if rest.is_empty() { prefix.parent().map(Path::to_path_buf).unwrap_or_default() } else { prefix }
    }

    /// The glob as it counts in `directory`, which lies `depth` segments, all of them literal, behind the anchor.
    pub fn below(&self, directory: &Path, depth: usize) -> Below {
        let from = self.segments.len().min(depth);
        Below { directory: directory.to_path_buf(), segments: self.segments[from..].to_vec() }
    }

    fn split(&self) -> (PathBuf, &[Segment]) {
        let mut prefix = match self.anchor {
            Anchor::Project => PathBuf::new(),
            Anchor::Root => PathBuf::from("/"),
        };
        let mut rest = &self.segments[..];
        while let [Segment::Literal(name), after @ ..] = rest {
            prefix.push(name);
            rest = after;
        }
        (prefix, rest)
    }
}

/// What a glob says about the paths below one directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Below {
    directory: PathBuf,
    segments: Vec<Segment>,
}

/// How far a path has come in a glob: a bit for each segment that its next name may match, and one for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct States(u128);

impl States {
    /// Whether nothing below can match any more.
    pub fn is_dead(self) -> bool {
        self.0 == 0
    }
}

impl Below {
    /// The directory, free of symlinks.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// At the directory itself.
    pub fn start(&self) -> States {
        self.closure(1)
    }

    /// One name further.
    pub fn step(&self, states: States, name: &OsStr, case: Case) -> States {
        let mut next = 0;
        for (at, segment) in self.segments.iter().enumerate() {
            if states.0 & (1 << at) == 0 {
                continue;
            }
            match segment {
                Segment::Directories => next |= 1 << at,
                Segment::Literal(literal) if segment::same(literal.as_bytes(), name.as_bytes(), case) => {
                    next |= 1 << (at + 1);
                }
                Segment::Shape(shape) if shape.matches(name.as_bytes(), case) => next |= 1 << (at + 1),
                Segment::Literal(_) | Segment::Shape(_) => {}
            }
        }
        self.closure(next)
    }

    /// Whether the path that led to `states` is a match.
    pub fn matched(&self, states: States) -> bool {
        states.0 & (1 << self.segments.len()) != 0
    }

    /// Whether a path further down may be one.
    pub fn goes_on(&self, states: States) -> bool {
        states.0 & ((1 << self.segments.len()) - 1) != 0
    }

    /// Whether `path` matches; names are compared as they are.
    pub fn matches(&self, path: &Path) -> bool {
        let Ok(rest) = path.strip_prefix(&self.directory) else { return false };
        let step = |states, name| self.step(states, name, Case::Sensitive);
        self.matched(rest.iter().fold(self.start(), step))
    }

    /// Whether `path`, something above it or something below it may match.
    pub fn meets(&self, path: &Path) -> bool {
        let Ok(rest) = path.strip_prefix(&self.directory) else { return self.directory.starts_with(path) };
        let mut states = self.start();
        for name in rest {
            if self.matched(states) {
                return true;
            }
            states = self.step(states, name, Case::Sensitive);
        }
        !states.is_dead()
    }

    /// `**` may stand for nothing.
    fn closure(&self, mut states: u128) -> States {
        for (at, segment) in self.segments.iter().enumerate() {
            if states & (1 << at) != 0 && *segment == Segment::Directories {
                states |= 1 << (at + 1);
            }
        }
        States(states)
    }
}

/// Whether two names are the same where letters are told apart like this.
pub fn same_name(a: &OsStr, b: &OsStr, case: Case) -> bool {
    segment::same(a.as_bytes(), b.as_bytes(), case)
}

fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.iter().filter(|name| *name != "/")
}

/// What concerns the whole glob.
fn check(bytes: &[u8]) -> Result<(), Refused> {
    let blank = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_whitespace);
    if bytes.is_empty() {
        return refused("it is empty", "name a file or directory, or leave the entry out");
    }
    if bytes.len() > MAX_LENGTH {
        return refused(format!("it has more than {MAX_LENGTH} bytes"), "write * or ** for a part of it");
    }
    if bytes.contains(&0) {
        return refused("a path cannot hold a NUL byte", "leave it out");
    }
    if blank(bytes.first()) || blank(bytes.last()) {
        return refused(
            "it begins or ends with white space, which would be part of the name",
            "leave that out, or write ? in its place",
        );
    }
    if bytes.contains(&b'\\') {
        return refused(
            "backslashes are not understood",
            "write / between directories, and [*] or [?] for such a character itself",
        );
    }
    if bytes.iter().any(|byte| b"{}".contains(byte)) {
        return refused("braces are not understood", braces(bytes));
    }
    if bytes.len() > 1 && bytes.ends_with(b"/") {
        let shown = shown(&bytes[..bytes.len() - 1]);
        return refused("it ends with a slash", format!("write `{shown}`, which covers the whole directory"));
    }
    Ok(())
}

/// The same as several entries, where that can be said.
fn braces(bytes: &[u8]) -> String {
    const ONE_BY_ONE: &str =
        "write each alternative as an entry of its own, and ? for a brace that belongs to the name";
    let open = bytes.iter().position(|byte| *byte == b'{');
    let close = bytes.iter().position(|byte| *byte == b'}');
    let (Some(open), Some(close)) = (open, close) else { return ONE_BY_ONE.to_owned() };
    if close < open || bytes[open + 1..close].contains(&b'{') || bytes[close + 1..].contains(&b'{') {
        return ONE_BY_ONE.to_owned();
    }
    let alternatives: Vec<&[u8]> = bytes[open + 1..close].split(|byte| *byte == b',').collect();
    if !(2..=4).contains(&alternatives.len()) {
        return ONE_BY_ONE.to_owned();
    }
    let entries: Vec<String> = alternatives
        .iter()
        .map(|alternative| shown(&[&bytes[..open], alternative, &bytes[close + 1..]].concat()))
        .collect();
    let number = ["two", "three", "four"][entries.len() - 2];
    format!("write {} as {number} entries", entries.join(" and "))
}

fn shown(bytes: &[u8]) -> String {
    OsString::from_vec(bytes.to_vec()).display().to_string()
}

impl Segment {
    fn parse(name: &[u8]) -> Result<Self, Refused> {
        match name {
            b"" => refused("it has an empty segment (two slashes in a row)", "write one slash"),
            b"." | b".." => refused(
                format!("it has the segment `{}`", shown(name)),
                "write the path from the project without it, or the whole path from /",
            ),
            b"**" => Ok(Self::Directories),
            _ if name.windows(2).any(|two| two == b"**") => refused(
                "`**` stands for directories only as a whole segment",
                "write * for a part of a name, or ** between two slashes",
            ),
            _ if name.iter().any(|byte| b"*?[".contains(byte)) => Ok(Self::Shape(Shape::parse(name)?)),
            _ => Ok(Self::Literal(OsStr::from_bytes(name).to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
