//! Names as a directory without case compares them (FS-15).
//!
//! Whether a directory is one is not asked: a name that is folded counts only where the table's own spelling leads to
//! something, which it does on such a file system alone.

use std::ffi::{OsStr, OsString};

/// What file systems leave out of a comparison: Unicode's default ignorable characters.
const IGNORED: [(char, char); 14] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// The name in lower case, without what is ignored; `None` when that is the name itself, which it nearly always is.
pub fn folded(name: &OsStr) -> Option<OsString> {
    let bytes = name.as_encoded_bytes();
    if bytes.iter().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return None;
    }
    let folded: String = name.to_str()?.chars().filter(|c| !is_ignored(*c)).flat_map(lower).collect();
    (folded.as_bytes() != bytes).then(|| folded.into())
}

fn is_ignored(c: char) -> bool {
    IGNORED.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// The Kelvin sign becomes a k by itself; the long s folds to an s, and is in lower case already.
fn lower(c: char) -> impl Iterator<Item = char> {
    (if c == '\u{17f}' { 's' } else { c }).to_lowercase()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn names_that_such_a_directory_takes_for_one_of_the_table_are_recognised() {
        for (name, expected) in [
            (".GIT", Some(".git")),
            (".Git", Some(".git")),
            (".g\u{200c}it", Some(".git")),
            (".git\u{feff}", Some(".git")),
            (".v\u{17f}code", Some(".vscode")),
            (".hus\u{212a}y", Some(".husky")),
            ("HEAD", Some("head")),
            (".git", None),
            (".envrc", None),
            ("stra\u{df}e", None),
        ] {
            assert_eq!(folded(OsStr::new(name)).as_deref(), expected.map(OsStr::new), "{name:?}");
        }
        assert_eq!(folded(OsStr::from_bytes(b".GIT\xff")), None, "no text, and so none of the table's names");
    }
}
