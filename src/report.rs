//! The only writer to the terminal of the user (standard error), beside the relay.
//!
//! Everything is escaped once more here, so that a string which slipped through unescaped still cannot act on the
//! terminal. A standard error that is closed or full never stops or panics the program.

use std::io::{self, Write as _};
use std::sync::LazyLock;

use crate::error::{Error, Kind, Result};
use crate::host::environment::{credentials, named_in};
use crate::sanitize::{escape, json};
use crate::secrets::Concealed;

/// What keeps the credentials of the launcher's environment out of errors and warnings, which repeat what was typed: a shell puts
/// a value where `$NAME` stands for NAME. It is made when the first is said.
static CREDENTIALS: LazyLock<Concealed> = LazyLock::new(credentials);

/// The number of lines that the exit summary may have (LOG-3).
pub const SUMMARY_LINES: usize = 6;

/// How much is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// `-q`: errors, warnings and the summary only.
    Quiet,
    /// The start line too.
    #[default]
    Normal,
    /// `-v`: details too.
    Verbose,
}

/// Writes our own words to standard error, each message prefixed with `ai-jail:`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reporter {
    verbosity: Verbosity,
}

impl Reporter {
    /// A reporter that says as much as `verbosity` asks for.
    pub fn new(verbosity: Verbosity) -> Self {
        Self { verbosity }
    }

    /// Says an error. It is shown at every verbosity. A citation of a file follows on lines without the prefix.
    pub fn error(&self, error: &Error) {
        put(&concealed(&error_text(error)));
    }

    /// Says a warning. It is shown at every verbosity: a warning is about what is weaker than it looks.
    pub fn warn(&self, text: &str) {
        put(&concealed(&line(&format!("warning: {text}"))));
    }

    /// Says what is in force, at start. `-q` drops it.
    pub fn start_line(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            put(&line(text));
        }
    }

    /// Whether details are said.
    pub fn has_details(&self) -> bool {
        self.verbosity >= Verbosity::Verbose
    }

    /// Says a detail, with `-v` only.
    pub fn detail(&self, text: &str) {
        if self.verbosity >= Verbosity::Verbose {
            put(&line(text));
        }
    }

    /// Says the lines of a text that is made for it, with `-v` only.
    pub fn details(&self, text: impl FnOnce() -> String) {
        if self.verbosity >= Verbosity::Verbose {
            text().lines().for_each(|text| put(&line(text)));
        }
    }

    /// Begins a new line, after a command's output that ended within one.
    pub fn new_line(&self) {
        put("\n");
    }

    /// Says what was denied, stripped or held back, at exit: each line prefixed, at most [`SUMMARY_LINES`] in all.
    /// When there are more, the last line says how many were left out.
    pub fn summary(&self, lines: &[String]) {
        put(&summary_text(lines));
    }
}

/// Writes what was asked for to standard output; the exit status is 0, also when nobody reads it to its end.
pub fn output(bytes: &[u8]) -> Result<u8> {
    match io::stdout().lock().write_all(bytes).and_then(|()| io::stdout().lock().flush()) {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(error) => Err(Error::new(Kind::Setup, "cannot write to standard output").because(error)),
    }
}

/// Writes a JSON text to standard output, with a line's end. Foreign strings in it cannot act on a terminal.
pub fn output_json(text: &str) -> Result<u8> {
    output(format!("{}\n", json(text)).as_bytes())
}

/// `text` without the credentials of the environment, and without the values of the variables that it names.
fn concealed(text: &str) -> String {
    let text = CREDENTIALS.text(text);
    match named_in(&text) {
        Some(named) => named.text(&text),
        None => text,
    }
}

fn put(text: &str) {
    // There is nobody left to tell when standard error is closed.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

fn error_text(error: &Error) -> String {
    let text = error.to_string();
    let (first, citation) = text.split_once('\n').unwrap_or((&text, ""));
    let mut out = line(first);
    for cited in citation.lines() {
        out.push_str(&format!("{}\n", escape(cited)));
    }
    out
}

/// One message is one line: a line break in it is shown, not made.
fn line(text: &str) -> String {
    format!("ai-jail: {}\n", escape(text))
}

fn summary_text(lines: &[String]) -> String {
    let shown = if lines.len() > SUMMARY_LINES { SUMMARY_LINES - 1 } else { lines.len() };
    let mut out: String = lines[..shown].iter().map(|text| line(text)).collect();
    if shown < lines.len() {
        out.push_str(&line(&format!("and {} more lines, see the log", lines.len() - shown)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn an_error_has_the_prefix_on_its_first_line_only() {
        let error = Error::new(Kind::Config, "/c.toml:1:1: unknown key `x`")
            .hint("fix it")
            .citing("  1 | x\n    | ^");
        assert_eq!(error_text(&error), "ai-jail: /c.toml:1:1: unknown key `x`; fix it\n  1 | x\n    | ^\n");
    }

    #[test]
    fn an_escape_sequence_in_any_text_does_not_reach_the_terminal() {
        assert_eq!(line("a\x1b[2Jb"), "ai-jail: a\\x1b[2Jb\n");
        assert_eq!(summary_text(&["a\nb\x07".to_owned()]), "ai-jail: a\\nb\\x07\n");
    }

    #[test]
    fn a_line_break_in_a_name_does_not_forge_a_line() {
        assert_eq!(line("cannot read /p/a\nb"), "ai-jail: cannot read /p/a\\nb\n");
        let error = Error::new(Kind::Setup, "a\nb").because("c\r\nd").hint("e\u{2028}f");
        assert_eq!(error_text(&error), "ai-jail: a\\nb; c\\r\\nd; e\\u{2028}f\n");
    }

    #[test]
    fn the_summary_never_has_more_than_its_lines() {
        for (given, shown) in [(0, 0), (1, 1), (6, 6), (7, 6), (100, 6)] {
            let lines: Vec<String> = (0..given).map(|n| format!("line {n}")).collect();
            assert_eq!(summary_text(&lines).lines().count(), shown, "{given}");
        }
        let lines: Vec<String> = (0..8).map(|n| format!("line {n}")).collect();
        assert!(summary_text(&lines).ends_with("line 4\nai-jail: and 3 more lines, see the log\n"));
    }
}
