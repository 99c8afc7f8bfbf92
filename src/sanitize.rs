//! Foreign strings are escaped before they are shown: file names, hosts, arguments, lines of a configuration file.
//!
//! What is escaped can move the cursor, hide text, reorder it or carry text that nobody sees. The visible form is
//! `\n`, `\t`, `\r`, `\x1b` for a byte and `\u{202e}` for a code point. A backslash is not doubled, so escaping an
//! escaped string changes nothing.

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Shows `input` with everything that could deceive a reader or command a terminal escaped.
///
/// Bytes that are not UTF-8 are shown one by one as `\xNN`. Nothing is shortened.
pub fn escape(input: &(impl Foreign + ?Sized)) -> Escaped<'_> {
    Escaped { bytes: input.foreign_bytes() }
}

/// The same for a whole JSON text: what deceives is written as `\u` and four digits, which means the same to a program.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // Beyond ASCII nothing stands outside of a string, and controls in strings are escaped already.
        if c == '\u{7f}' || deceives(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// A string from outside: its bytes may be anything.
pub trait Foreign {
    /// The bytes as they are.
    fn foreign_bytes(&self) -> &[u8];
}

/// The escaped form of a foreign string, by `Display`.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'a> {
    bytes: &'a [u8],
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\n' => f.write_str("\\n")?,
                    '\t' => f.write_str("\\t")?,
                    '\r' => f.write_str("\\r")?,
                    '\0'..='\u{1f}' | '\u{7f}' => write!(f, "\\x{:02x}", u32::from(c))?,
                    c if deceives(c) => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                    c => f.write_char(c)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl Foreign for str {
    fn foreign_bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Foreign for String {
    fn foreign_bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Foreign for [u8] {
    fn foreign_bytes(&self) -> &[u8] {
        self
    }
}

impl Foreign for OsStr {
    fn foreign_bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Foreign for OsString {
    fn foreign_bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Foreign for Path {
    fn foreign_bytes(&self) -> &[u8] {
        self.as_os_str().as_bytes()
    }
}

impl Foreign for PathBuf {
    fn foreign_bytes(&self) -> &[u8] {
        self.as_os_str().as_bytes()
    }
}

/// Code points (first, last, reason) that are invisible, reorder text or act on a terminal.
const DECEIVING: &[(char, char, &str)] = &[
    ('\u{80}', '\u{9f}', "C1 controls: some terminals obey them"),
    ('\u{ad}', '\u{ad}', "soft hyphen: invisible"),
    ('\u{34f}', '\u{34f}', "grapheme joiner: invisible"),
    ('\u{61c}', '\u{61c}', "Arabic letter mark: reorders"),
    ('\u{115f}', '\u{1160}', "Hangul fillers: blank letters"),
    ('\u{17b4}', '\u{17b5}', "Khmer inherent vowels: invisible"),
    ('\u{180b}', '\u{180f}', "Mongolian selectors and vowel separator: invisible"),
    ('\u{200b}', '\u{200f}', "zero-width characters and direction marks"),
    ('\u{2028}', '\u{202e}', "line separators, embeddings and overrides"),
    ('\u{2060}', '\u{206f}', "word joiner, invisible operators, isolates"),
    ('\u{3164}', '\u{3164}', "Hangul filler: a blank letter"),
    ('\u{fe00}', '\u{fe0f}', "variation selectors: carry hidden text"),
    ('\u{feff}', '\u{feff}', "byte order mark: invisible"),
    ('\u{ffa0}', '\u{ffa0}', "half-width Hangul filler: a blank letter"),
    ('\u{fff0}', '\u{fffb}', "interlinear annotation: hides text"),
    ('\u{1d173}', '\u{1d17a}', "musical controls: invisible"),
    ('\u{e0000}', '\u{e0fff}', "tags and selectors: carry hidden text"),
];

/// Whether a character is invisible, reorders text or acts on a terminal; C0 controls and DEL aside.
pub fn deceives(c: char) -> bool {
    DECEIVING.iter().any(|(first, last, _)| (*first..=*last).contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(input: &(impl Foreign + ?Sized)) -> String {
        escape(input).to_string()
    }

    #[test]
    fn ordinary_text_of_any_language_is_untouched() {
        for text in ["plain ascii ~!@#", "größe", "日本語", "naïve café", "😀", "עברית", "a\\b"]
        {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn clipboard_write_in_a_file_name() {
        assert_eq!(shown("a\x1b]52;c;ZXZpbA==\x07b"), "a\\x1b]52;c;ZXZpbA==\\x07b");
    }

    #[test]
    fn c1_csi_raw_and_utf8_encoded() {
        assert_eq!(shown(&b"a\x9b31mb"[..]), "a\\x9b31mb");
        assert_eq!(shown("a\u{9b}31mb"), "a\\u{9b}31mb");
    }

    #[test]
    fn trojan_source_bidi_override() {
        assert_eq!(shown("user\u{202e}txt.exe"), "user\\u{202e}txt.exe");
        assert_eq!(shown("\u{2066}x\u{2069}"), "\\u{2066}x\\u{2069}");
        assert_eq!(shown("\u{61c}\u{200e}\u{200f}"), "\\u{61c}\\u{200e}\\u{200f}");
    }

    #[test]
    fn zero_width_lookalike_of_an_allowed_host() {
        assert_eq!(shown("api.exa\u{200b}mple.com"), "api.exa\\u{200b}mple.com");
        assert_eq!(shown("\u{feff}a\u{200d}b\u{2060}"), "\\u{feff}a\\u{200d}b\\u{2060}");
    }

    #[test]
    fn hidden_prompt_in_tag_characters() {
        assert_eq!(shown("hi\u{e0069}\u{e0067}"), "hi\\u{e0069}\\u{e0067}");
        assert_eq!(shown("x\u{e0100}\u{fe00}"), "x\\u{e0100}\\u{fe00}");
    }

    #[test]
    fn forged_line_and_overwritten_line() {
        assert_eq!(shown("x\nai-jail: all is well"), "x\\nai-jail: all is well");
        assert_eq!(shown("denied\rallowed"), "denied\\rallowed");
        assert_eq!(shown("denied\u{2028}allowed\u{85}"), "denied\\u{2028}allowed\\u{85}");
        assert_eq!(shown("evil\x08\x08\x08\x08"), "evil\\x08\\x08\\x08\\x08");
    }

    #[test]
    fn bytes_that_are_not_utf8() {
        assert_eq!(shown(OsStr::from_bytes(b"a\xff\xc3(")), "a\\xff\\xc3(");
        assert_eq!(shown(Path::new("/p/\u{1b}c")), "/p/\\x1bc");
        assert_eq!(shown(&b"\xe2\x80"[..]), "\\xe2\\x80", "a cut-off character");
    }

    #[test]
    fn json_keeps_its_meaning_and_deceives_nobody() {
        let names = [
            "größe 日本語 😀",
            "a\u{9b}31mb\u{7f}",
            "user\u{202e}txt",
            "hi\u{e0069}\u{200b}",
            "\u{1b}]52;c;x\u{7}\n",
        ];
        let value = serde_json::json!({ "names": names, "x\u{202e}y": [1, 2.5, null, true] });
        for text in [value.to_string(), format!("{value:#}\n")] {
            let shown = json(&text);
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
            assert!(!shown.chars().any(|c| deceives(c) || (c.is_control() && c != '\n')), "{shown}");
            assert!(shown.contains("größe 日本語 😀"));
        }
    }

    #[test]
    fn nothing_that_is_shown_needs_escaping_again() {
        for code in 0..=0x11_0000_u32 {
            let Some(c) = char::from_u32(code) else { continue };
            let once = shown(c.encode_utf8(&mut [0; 4]) as &str);
            assert!(!once.chars().any(char::is_control), "{code:x}");
            assert_eq!(shown(&once), once);
        }
    }

    #[test]
    fn every_row_of_the_table_is_escaped_at_both_ends() {
        for (first, last, reason) in DECEIVING {
            assert!(first <= last && !reason.is_empty());
            for c in [first, last] {
                assert_eq!(shown(&c.to_string()), format!("\\u{{{:x}}}", u32::from(*c)), "{reason}");
            }
        }
    }
}
