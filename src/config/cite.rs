//! Errors that cite a file: the place, the line, and the offending part underlined.

use std::ops::Range;
use std::path::Path;

use super::redact::redacted;
use super::words::Problem;
use crate::error::{Error, Kind};
use crate::policy::origin::{Layer, Origin};
use crate::sanitize::escape;
use crate::secrets::without_tokens;

/// A configuration file's text, with its name for errors and origins.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    path: &'a Path,
    text: &'a str,
    layer: Layer,
}

impl<'a> Source<'a> {
    /// The file at `path`, which was read as `text` for `layer`.
    pub fn new(path: &'a Path, text: &'a str, layer: Layer) -> Self {
        Self { path, text, layer }
    }

    /// An error about the bytes `span` of the text: "FILE:LINE:COL: what; why; hint", and the line underlined.
    pub fn error(&self, span: Range<usize>, what: &str, problem: Problem) -> Error {
        let position = self.position(span.start);
        let place = format!("{}:{}:{}", escape(self.path), position.line, position.column);
        let mut error = Error::new(Kind::Config, format!("{place}: {}", without_tokens(what)));
        if !problem.why.is_empty() {
            error = error.because(without_tokens(&problem.why));
        }
        if let Some(hint) = problem.hint {
            error = error.hint(hint);
        }
        error.citing(self.underlined(&position, span))
    }

    /// The origin of the value at byte `offset`, set by `key` (dotted).
    pub fn origin(&self, key: &str, offset: usize) -> Origin {
        let place = Some((self.path.to_path_buf(), self.position(offset).line));
        Origin { layer: self.layer, what: key.to_owned(), place }
    }

    fn position(&self, offset: usize) -> Position {
        // The end of the text, too, is a place: where a value is missing.
        let offset = self.text.floor_char_boundary(offset.min(self.text.len()));
        let before = &self.text[..offset];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Position {
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
            line_start: start,
        }
    }

    fn underlined(&self, position: &Position, span: Range<usize>) -> String {
        let line = self.text[position.line_start..].lines().next().unwrap_or("");
        // As long as the line, so that the underline fits.
        let line = &redacted(line);
        let relative = |offset: usize| {
            line.floor_char_boundary(offset.saturating_sub(position.line_start).min(line.len()))
        };
        let (start, end) = (relative(span.start), relative(span.end));
        // A line of a hostile file may be a megabyte long: a window around the place is enough.
        let from = line.floor_char_boundary(start.saturating_sub(MARGIN));
        let to = line.floor_char_boundary(end.min(start + MARGIN).saturating_add(MARGIN).min(line.len()));
        let end = end.min(to);
        let width = |text: &str| shown(text).chars().count();
        let number = position.line.to_string();
        let gutter = " ".repeat(number.len());
        format!(
            "  {number} | {}\n  {gutter} | {}{}",
            shown(&line[from..to]),
            " ".repeat(width(&line[from..start])),
            "^".repeat(width(&line[start..end]).max(1)),
        )
    }
}

/// How much of a line is shown before and after the place, in bytes.
const MARGIN: usize = 60;

/// Tabs are shown as one blank, so that the underline fits; the rest is escaped.
fn shown(text: &str) -> String {
    escape(&text.replace('\t', " ")).to_string()
}

#[derive(Debug)]
struct Position {
    line: usize,
    column: usize,
    line_start: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cited(text: &str, span: Range<usize>) -> String {
        Source::new(Path::new("/c.toml"), text, Layer::User)
            .error(span, "bad", Problem::new("why").hint("hint"))
            .to_string()
    }

    #[test]
    fn the_place_is_counted_in_lines_and_characters() {
        let cases = [
            ("a = 1", 0..1, "/c.toml:1:1: bad; why; hint\n  1 | a = 1\n    | ^"),
            ("a = 1\nbc = 2\n", 6..8, "/c.toml:2:1: bad; why; hint\n  2 | bc = 2\n    | ^^"),
            ("é = 1", 5..6, "/c.toml:1:5: bad; why; hint\n  1 | é = 1\n    |     ^"),
            ("\ta = 1\r\n", 1..2, "/c.toml:1:2: bad; why; hint\n  1 |  a = 1\n    |  ^"),
            ("", 0..0, "/c.toml:1:1: bad; why; hint\n  1 | \n    | ^"),
            ("a =", 3..3, "/c.toml:1:4: bad; why; hint\n  1 | a =\n    |    ^"),
            ("a = [\n1,\n2]", 4..11, "/c.toml:1:5: bad; why; hint\n  1 | a = [\n    |     ^"),
        ];
        for (text, span, want) in cases {
            assert_eq!(cited(text, span), want, "{text:?}");
        }
    }

    #[test]
    fn the_underline_fits_a_line_that_had_to_be_escaped() {
        assert_eq!(cited("\"\x1b\" = 1", 6..7).lines().nth(2), Some("    |          ^"));
    }

    #[test]
    fn a_place_outside_the_text_or_within_a_character_does_not_panic() {
        for span in [100..200, 1..1, 0..100] {
            cited("é", span);
        }
    }

    #[test]
    fn a_very_long_line_is_shown_in_part() {
        let text = format!("{}x{}", "a".repeat(1000), "b".repeat(1000));
        let message = cited(&text, 1000..1001);
        assert!(message.starts_with("/c.toml:1:1001: bad"));
        assert!(message.len() < 400, "{}", message.len());
    }
}
