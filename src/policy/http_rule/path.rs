//! Paths of requests as servers read them, and the globs of rules that match them.
//!
//! A rule is worth nothing when the server reads another path than we do. So what servers read alike is brought to one
//! form (RFC 3986, 6.2.2, and every sign that means the same when it is encoded), and what they are known to read in
//! different ways is an [`Ambiguity`].

use std::fmt;

use super::ambiguity::Ambiguity;
use crate::policy::wild;

/// The path of a request, without its query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPath {
    /// Its segments, without empty ones, with every `..` gone up.
    normal: Vec<String>,
    /// The same where a server takes `..` for a name, or an empty segment for one, or both.
    others: Vec<Vec<String>>,
}

impl RequestPath {
    /// Reads a path. `.` and a slash at the end do not count, empty segments do to some servers. Escapes are decoded once, but for those of
    /// space, `%`, `?`, `#` and what is beyond ASCII, which are written in capitals; so is a star, which stands for
    /// other things in a rule.
    ///
    /// Fails on what servers read in different ways.
    pub fn read(path: &str) -> Result<Self, Ambiguity> {
        let rest = path.strip_prefix('/').ok_or(Ambiguity::NoSlash)?;
        let mut segments = Vec::new();
        for raw in rest.strip_suffix('/').unwrap_or(rest).split('/') {
            let segment = segment(raw, Star::Sign)?;
            if segment != "." {
                segments.push(segment);
            }
        }
        let empty = segments.len() > 1 && segments.iter().any(String::is_empty);
        if empty && segments.iter().any(|segment| segment == "..") {
            return Err(Ambiguity::EmptyAndUp);
        }
        let full: Vec<String> = segments.iter().filter(|segment| !segment.is_empty()).cloned().collect();
        let normal = gone_up(&full);
        let mut others = Vec::new();
        for other in [full, segments] {
            // Nothing at all is the root, however it is written.
            if other != normal && other != [""] && !others.contains(&other) {
                others.push(other);
            }
        }
        Ok(Self { normal, others })
    }

    /// The segments in each way in which a server may read them; the first is the one that RFC 3986 has.
    pub fn readings(&self) -> impl Iterator<Item = &[String]> {
        std::iter::once(self.normal.as_slice()).chain(self.others.iter().map(Vec::as_slice))
    }

    /// Why it may be what a rule denies although it matches none: some servers know it by another name.
    pub fn doubt(&self) -> Option<Ambiguity> {
        let segments = || self.readings().flatten();
        if segments().any(|segment| segment != ".." && !segment.is_empty() && trimmed(segment).is_empty()) {
            return Some(Ambiguity::DotsAndSpaces);
        }
        let beyond = |pair: &[u8]| pair[0] == b'%' && matches!(pair[1], b'8' | b'9' | b'A'..=b'F');
        segments().any(|segment| segment.as_bytes().windows(2).any(beyond)).then_some(Ambiguity::BeyondAscii)
    }
}

/// `segments` with every `..` gone up.
fn gone_up(segments: &[String]) -> Vec<String> {
    let mut up = Vec::new();
    for segment in segments {
        match segment.as_str() {
            ".." => drop(up.pop()),
            _ => up.push(segment.clone()),
        }
    }
    up
}

impl fmt::Display for RequestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.normal.is_empty() {
            return f.write_str("/");
        }
        self.normal.iter().try_for_each(|segment| write!(f, "/{segment}"))
    }
}

/// What a star that is not encoded is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Star {
    Sign,
    Wildcard,
}

/// One segment in its one form.
fn segment(raw: &str, star: Star) -> Result<String, Ambiguity> {
    let bytes = raw.as_bytes();
    let (mut text, mut decoded) = (String::with_capacity(raw.len()), Vec::with_capacity(raw.len()));
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'\\' => return Err(Ambiguity::Backslash),
            b';' => return Err(Ambiguity::Parameters),
            b'#' => return Err(Ambiguity::Fragment),
            b'%' => {
                let value = bytes.get(at..at + 2).and_then(hex).ok_or(Ambiguity::BadEscape)?;
                at += 2;
                decoded.push(value);
                match value {
                    b'/' | b'\\' => return Err(Ambiguity::EncodedSlash),
                    // A server may get it decoded from one before it.
                    b';' => return Err(Ambiguity::Parameters),
                    0..=0x1f | 0x7f => return Err(Ambiguity::EncodedControl),
                    _ if is_plain(value) => text.push(char::from(value)),
                    _ => text.push_str(&format!("%{value:02X}")),
                }
            }
            b'*' if star == Star::Sign => {
                text.push_str("%2A");
                decoded.push(byte);
            }
            0x21..=0x7e => {
                text.push(char::from(byte));
                decoded.push(byte);
            }
            _ => return Err(Ambiguity::Byte),
        }
    }
    if matches!(text.as_str(), "." | "..") && text != raw {
        return Err(Ambiguity::EncodedDots);
    }
    if text.contains('.') && text.contains(SPACE) && trimmed(&text).is_empty() {
        return Err(Ambiguity::DotsAndSpaces);
    }
    // Also when the digits were encoded themselves.
    if text.as_bytes().windows(5).any(|part| part.starts_with(b"%25") && hex(&part[3..]).is_some()) {
        return Err(Ambiguity::Twice);
    }
    if std::str::from_utf8(&decoded).is_err() {
        return Err(Ambiguity::NotUtf8);
    }
    Ok(text)
}

const SPACE: &str = "%20";

/// A segment, in its one form, without the dots and spaces at its end, which servers on Windows take no notice of.
fn trimmed(mut segment: &str) -> &str {
    while let Some(rest) = segment.strip_suffix('.').or_else(|| segment.strip_suffix(SPACE)) {
        segment = rest;
    }
    segment
}

fn hex(digits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u8::from_str_radix(text, 16).ok()
}

/// Whether a byte means the same encoded and not.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"%/\\?#*".contains(&byte)
}

/// Whether upper and lower case are different, and dots and spaces at the end of a segment count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// They are: for what is allowed.
    Counts,
    /// They are not: some servers ignore it, and what is denied to them is denied in every spelling.
    Ignored,
}

/// The path of a rule: segments, of which `**` stands for any number, none too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathGlob(Vec<String>);

const ANY: &str = "**";

impl PathGlob {
    /// Reads a glob. The error says why it is none, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, GlobError> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err(GlobError::NoSlash);
        };
        if text.contains('?') {
            return Err(GlobError::Query);
        }
        if let Some(found) = text.chars().find(|c| "[]{}".contains(*c)) {
            return Err(GlobError::Sign(found));
        }
        let mut segments = Vec::new();
        for raw in rest.split('/') {
            let segment = segment(raw, Star::Wildcard).map_err(GlobError::Ambiguous)?;
            match segment.as_str() {
                "" => {}
                "." | ".." => return Err(GlobError::Dots),
                // Two in a row say what one says.
                ANY if segments.last().is_some_and(|last| last == ANY) => {}
                ANY => segments.push(segment),
                _ if segment.contains(ANY) => return Err(GlobError::Stars),
                _ => segments.push(segment),
            }
        }
        Ok(Self(segments))
    }

    /// `/**`.
    pub fn every() -> Self {
        Self(vec![ANY.to_owned()])
    }

    /// Whether it matches every path there can be.
    pub fn is_any(&self) -> bool {
        self.0 == [ANY]
    }

    /// Whether it matches the path of these segments.
    pub fn matches(&self, path: &[String], case: Case) -> bool {
        wild::matches(&self.0, path, |part| part == ANY, |part, segment| segment_matches(part, segment, case))
    }
}

fn segment_matches(glob: &str, segment: &str, case: Case) -> bool {
    let equal = |part: &u8, byte: &u8| match case {
        Case::Counts => part == byte,
        Case::Ignored => part.eq_ignore_ascii_case(byte),
    };
    let matches = |glob: &str, segment: &str| {
        wild::matches(glob.as_bytes(), segment.as_bytes(), |part| *part == b'*', equal)
    };
    matches(glob, segment) || case == Case::Ignored && matches(trimmed(glob), trimmed(segment))
}

impl fmt::Display for PathGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|segment| write!(f, "/{segment}"))
    }
}

/// Why a path of a rule is refused, and what to write instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// It does not begin with a slash.
    #[error("the path does not begin with a slash; write /PATH, or /** for every path")]
    NoSlash,
    /// It has a query.
    #[error("a rule is about the path; write it without `?` and what follows")]
    Query,
    /// A sign of other globs.
    #[error(
        "`{0}` is not understood; * stands for a part of a segment and ** for any number of segments (write the sign itself as an escape)"
    )]
    Sign(char),
    /// `.` or `..`.
    #[error("the path holds `.` or `..`; write it without")]
    Dots,
    /// `**` as a part of a segment.
    #[error("** stands for whole segments, as in /a/**; write * for a part of one")]
    Stars,
    /// What no request could match.
    #[error("the path can be read in more than one way: {0}; write it plainly")]
    Ambiguous(Ambiguity),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_servers_read_alike_has_one_form_and_what_they_do_not_is_refused() {
        use Ambiguity::*;
        let cases = [
            ("/", Ok("/")),
            ("//", Ok("/")),
            ("/a/b", Ok("/a/b")),
            ("/a//b/", Ok("/a/b")),
            ("/a/./b", Ok("/a/b")),
            ("/a/../b", Ok("/b")),
            ("/../../a", Ok("/a")),
            ("/a/b/..", Ok("/a")),
            ("/a/...", Ok("/a/...")),
            ("/pkg.v1.Service/Method", Ok("/pkg.v1.Service/Method")),
            ("/%7euser/%41%2D%5f", Ok("/~user/A-_")),
            ("/a%20b/%c3%a9", Ok("/a%20b/%C3%A9")),
            ("/100%25", Ok("/100%25")),
            ("/100%25z", Ok("/100%25z")),
            ("/a%2eb", Ok("/a.b")),
            ("/@scope%40x:y=z,$!*'()+&", Ok("/@scope@x:y=z,$!%2A'()+&")),
            ("/%3F%23%2a%7B", Ok("/%3F%23%2A{")),
            ("/a%3bb", Err(Parameters)),
            ("/a/..//b", Err(EmptyAndUp)),
            ("", Err(NoSlash)),
            ("*", Err(NoSlash)),
            ("a/b", Err(NoSlash)),
            ("http://h/a", Err(NoSlash)),
            ("/@scope%2fname", Err(EncodedSlash)),
            ("/a%2F..%2fb", Err(EncodedSlash)),
            ("/a%5cb", Err(EncodedSlash)),
            ("/a\\b", Err(Backslash)),
            ("/%2e%2e/a", Err(EncodedDots)),
            ("/.%2E/a", Err(EncodedDots)),
            ("/%2e/a", Err(EncodedDots)),
            ("/a%00", Err(EncodedControl)),
            ("/a%0d%0aX", Err(EncodedControl)),
            ("/%252e%252e/a", Err(Twice)),
            ("/%252f", Err(Twice)),
            ("/%25%32%66", Err(Twice)),
            ("/%", Err(BadEscape)),
            ("/%4", Err(BadEscape)),
            ("/%zz", Err(BadEscape)),
            ("/%+4", Err(BadEscape)),
            ("/%u002f", Err(BadEscape)),
            ("/a;x=1/b", Err(Parameters)),
            ("/..;/a", Err(Parameters)),
            ("/a#b", Err(Fragment)),
            ("/a b", Err(Byte)),
            ("/a\tb", Err(Byte)),
            ("/a\0b", Err(Byte)),
            ("/é", Err(Byte)),
            ("/%c0%af", Err(NotUtf8)),
            ("/%ff", Err(NotUtf8)),
        ];
        for (text, want) in cases {
            let read = RequestPath::read(text).map(|path| path.to_string());
            assert_eq!(read.as_deref().map_err(|error| *error), want, "{text:?}");
        }
    }

    #[test]
    fn a_server_that_does_not_go_up_is_a_second_reading() {
        let path = RequestPath::read("/b/../a").unwrap();
        let readings: Vec<String> = path.readings().map(|segments| segments.join("/")).collect();
        assert_eq!(readings, ["a", "b/../a"]);
        assert_eq!(RequestPath::read("/b/./a/.").unwrap().readings().count(), 1);
        let path = RequestPath::read("//b/c//a/").unwrap();
        let readings: Vec<String> = path.readings().map(|segments| segments.join("/")).collect();
        assert_eq!(readings, ["b/c/a", "/b/c//a"]);
        for path in ["/", "//", "///", "/./"] {
            assert_eq!(RequestPath::read(path).unwrap().to_string(), "/", "{path}");
        }
    }

    #[test]
    fn globs_match_whole_segments() {
        let cases = [
            ("/**", "/", true),
            ("/**", "/a/b", true),
            ("/", "/", true),
            ("/", "/a", false),
            ("/repos/**", "/repos", true),
            ("/repos/**", "/repos/", true),
            ("/repos/**", "/repos/a/b", true),
            ("/repos/**", "/reposx", false),
            ("/repos/*", "/repos", false),
            ("/repos/*", "/repos/a", true),
            ("/repos/*", "/repos/a/b", false),
            ("/repos/*/issues", "/repos/a/issues/", true),
            ("/repos/*/*/issues/**", "/repos/a/b/issues/7", true),
            ("/**/issues", "/repos/a/b/issues", true),
            ("/**/issues/**/x", "/issues/a/issues/b/x", true),
            ("/**/issues", "/repos/issues/x", false),
            ("/v*/a-*.json", "/v12/a-.json", true),
            ("/v*/a-*.json", "/v12/b.json", false),
            ("/graphql", "/GraphQL", false),
            ("/a%20b", "/a%20b", true),
            ("/%41", "/A", true),
            ("/pkg.Service/*", "/pkg.Service/Method", true),
            ("/pkg.Service/*", "/pkgxService/Method", false),
            ("/%2a", "/x", false),
            ("/%2a", "/%2A", true),
        ];
        for (glob, path, want) in cases {
            let path = RequestPath::read(path).unwrap();
            let glob = PathGlob::parse(glob).unwrap();
            assert_eq!(glob.matches(path.readings().next().unwrap(), Case::Counts), want, "{glob} {path}");
        }
        let path = RequestPath::read("/Admin/X").unwrap();
        let admin = PathGlob::parse("/admin/x*").unwrap();
        assert!(admin.matches(path.readings().next().unwrap(), Case::Ignored));
        assert!(!admin.matches(path.readings().next().unwrap(), Case::Counts));
    }

    #[test]
    fn a_bad_glob_is_refused_with_its_reason() {
        let cases = [
            ("", GlobError::NoSlash),
            ("**", GlobError::NoSlash),
            ("repos/**", GlobError::NoSlash),
            ("/a?b=c", GlobError::Query),
            ("/{a,b}", GlobError::Sign('{')),
            ("/[ab]", GlobError::Sign('[')),
            ("/a/../b", GlobError::Dots),
            ("/a**", GlobError::Stars),
            ("/***", GlobError::Stars),
            ("/a%2fb", GlobError::Ambiguous(Ambiguity::EncodedSlash)),
            ("/a b", GlobError::Ambiguous(Ambiguity::Byte)),
        ];
        for (text, want) in cases {
            assert_eq!(PathGlob::parse(text), Err(want), "{text:?}");
        }
        assert!(PathGlob::parse("/**/**").unwrap().is_any());
    }

    proptest! {
        #[test]
        fn reading_is_idempotent_and_never_panics(text in "(/|\\.|%2[0-9a-fA-F]|%[0-9a-fA-F]{2}|%25|[a-z;*~]|\\PC){0,12}") {
            for text in [text.clone(), format!("/{text}")] {
                if let Ok(path) = RequestPath::read(&text) {
                    let shown = path.to_string();
                    let again = RequestPath::read(&shown);
                    prop_assert_eq!(again.as_ref().map(ToString::to_string), Ok(shown));
                    prop_assert!(again.unwrap().readings().count() == 1);
                }
            }
        }

        #[test]
        fn what_is_read_leads_nowhere_else(text in "/[a-z./%2eEfF5cC;\\\\]{0,16}") {
            if let Ok(path) = RequestPath::read(&text) {
                let normal = path.readings().next().unwrap();
                prop_assert!(normal.iter().all(|segment| !segment.is_empty() && segment != "." && segment != ".."));
                prop_assert!(normal.iter().all(|segment| !segment.contains(['/', '\\', ';'])));
            }
        }

        #[test]
        fn a_plain_path_matches_itself_and_what_is_below(segments in proptest::collection::vec("[a-zA-Z0-9._~-]{1,6}", 1..5)) {
            let text = format!("/{}", segments.join("/"));
            if let Ok(glob) = PathGlob::parse(&text) {
                let matches = |glob: &PathGlob, path: &str| {
                    RequestPath::read(path).unwrap().readings().all(|reading| glob.matches(reading, Case::Counts))
                };
                prop_assert!(matches(&glob, &text));
                prop_assert!(!matches(&glob, &(text.clone() + "/x")), "{}", text);
                let below = PathGlob::parse(&format!("{text}/**")).unwrap();
                prop_assert!(matches(&below, &(text.clone() + "/x/y")), "{}", text);
            }
        }
    }
}
