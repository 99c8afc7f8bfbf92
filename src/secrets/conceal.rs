//! What keeps values out of our own words: `--dry-run`, `explain` and `-v` show what was typed, and a value may be in it.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

use serde_json::Value;
use zeroize::Zeroizing;

use super::forms;
use super::shapes::{has_known_prefix, looks_like_token};
use super::stream::{Noted, Table, What};
use super::whole;

/// What stands where a value was.
const HIDDEN: &str = "***";
/// A shorter value is a word that stands in many places, and too short to be a secret.
const SHORTEST: usize = 8;

/// What is known of the secrets of a launch when something is shown.
#[derive(Default)]
pub struct Concealed {
    table: Option<Table>,
    guess: Guess,
}

/// What becomes of words that only look like a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Guess {
    /// They are shown: every value is known.
    #[default]
    Shown,
    /// They are hidden: some value is not known yet, because a command that was not run prints it.
    Hidden,
}

impl Concealed {
    /// Hides `values`, in all forms in which texts hold them; those of fewer than 8 bytes are no secrets.
    pub fn new(values: &[&[u8]], guess: Guess) -> Self {
        let values: Vec<&[u8]> = values.iter().copied().filter(|value| value.len() >= SHORTEST).collect();
        // What is put does not matter but for its length.
        let forms = values.iter().map(|value| {
            let put: Zeroizing<Vec<u8>> = Zeroizing::new(value.iter().map(|byte| neutral(*byte)).collect());
            forms::all(value, &put)
        });
        let names = vec![String::new(); values.len()];
        Self { table: (!values.is_empty()).then(|| Table::new(names, forms.collect())), guess }
    }

    /// Whether a value is in `bytes`, or what is taken for one.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        !self.found(bytes).is_empty()
    }

    /// `text` with `***` for every value.
    pub fn text(&self, text: &str) -> String {
        let mut bytes = Vec::with_capacity(text.len());
        let mut from = 0;
        for span in self.found(text.as_bytes()) {
            bytes.extend_from_slice(&text.as_bytes()[from..span.start]);
            bytes.extend_from_slice(HIDDEN.as_bytes());
            from = span.end;
        }
        bytes.extend_from_slice(&text.as_bytes()[from..]);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The same for every string of a JSON value.
    pub fn json(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.json(value)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.json(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Where values are: in order, none in another.
    fn found(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let spans = RefCell::new(Vec::new());
        if let Some(table) = &self.table {
            let seen = |_, (start, end): (usize, usize)| {
                spans.borrow_mut().push(start..end);
                What::Leave
            };
            whole::replace(table, bytes, seen, &mut Noted::default());
        }
        let mut spans: Vec<Range<usize>> = spans.into_inner();
        if self.guess == Guess::Hidden {
            spans.extend(token_like(bytes));
        }
        spans.sort_by_key(|span| span.start);
        let mut merged: Vec<Range<usize>> = Vec::new();
        for span in spans {
            match merged.last_mut() {
                Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
                _ => merged.push(span),
            }
        }
        merged
    }
}

impl fmt::Debug for Concealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Concealed").field("guess", &self.guess).finish_non_exhaustive()
    }
}

/// `text` with `***` for every word that is more likely a token than anything else: for what cannot be understood, and so
/// may hold a value anywhere. Names of variables in capitals, however long, are none.
pub fn without_tokens(text: &str) -> String {
    Concealed::new(&[], Guess::Hidden).text(text)
}

/// The words of `bytes` that look like tokens, in order.
pub fn token_like(bytes: &[u8]) -> Vec<Range<usize>> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+.".contains(byte);
    let mut found = Vec::new();
    let mut from = 0;
    for word in bytes.split(|byte| !is_part(byte)) {
        let text = std::str::from_utf8(word).unwrap_or_default().trim_end_matches('.');
        // Names of variables and of keys have digits and underscores too, but seldom capitals beside small letters.
        let has = |test: fn(&u8) -> bool| text.as_bytes().iter().any(test);
        let mixed = has(u8::is_ascii_lowercase) && (has(u8::is_ascii_uppercase) || has_known_prefix(text));
        if looks_like_token(text) && has(u8::is_ascii_digit) && (mixed || !text.contains('_')) {
            found.push(from..from + text.len());
        }
        from += word.len() + 1;
    }
    found
}

/// A byte that a form writes as it writes `byte`.
fn neutral(byte: u8) -> u8 {
    match byte {
        b'0' => b'1',
        b'1'..=b'9' => b'0',
        b'A' => b'B',
        b'B'..=b'Z' => b'A',
        b'a' => b'b',
        b'b'..=b'z' => b'a',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

    #[test]
    fn a_value_is_hidden_in_every_form_that_a_text_has_it_in() {
        let value = "p\u{e9}ss w\"rd/4Kq9zT7x";
        let concealed = Concealed::new(&[value.as_bytes(), TOKEN.as_bytes(), b"short"], Guess::Shown);
        for (text, want) in [
            (format!("curl -H Bearer {TOKEN} https://a.test"), "curl -H Bearer *** https://a.test"),
            (format!("{TOKEN}{TOKEN} {value}."), "*** ***."),
            ("a=p%C3%A9ss%20w%22rd%2F4Kq9zT7x&b".to_owned(), "a=***&b"),
            ("{\"p\": \"p\u{e9}ss w\\\"rd/4Kq9zT7x\"}".to_owned(), "{\"p\": \"***\"}"),
            ("a short word and \u{e9}".to_owned(), "a short word and \u{e9}"),
        ] {
            assert_eq!(concealed.text(&text), want, "{text}");
            assert_eq!(concealed.is_in(text.as_bytes()), want.contains(HIDDEN), "{text}");
        }
        // base64 of "me:TOKEN"
        let basic = "bWU6Z2hwX0FCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaMDEyMzQ1Njc4OQ==";
        let shown = concealed.text(basic);
        assert!(shown.starts_with("bWU6") && shown.contains(HIDDEN) && !shown.contains("hwX0FC"), "{shown}");
        assert_eq!(Concealed::default().text(TOKEN), TOKEN);
    }

    #[test]
    fn json_is_hidden_in_its_strings_alone() {
        let mut json = serde_json::json!({ "command": ["echo", TOKEN], "n": 1, "deep": { "x": [format!("a {TOKEN}")] } });
        Concealed::new(&[TOKEN.as_bytes()], Guess::Shown).json(&mut json);
        assert_eq!(
            json,
            serde_json::json!({ "command": ["echo", "***"], "n": 1, "deep": { "x": ["a ***"] } })
        );
    }

    #[test]
    fn what_looks_like_a_token_is_hidden_and_names_are_not() {
        for (text, want) in [
            ("x = \"ghp_R3aLvAlUe0123456789abcdef\"", "x = \"***\""),
            ("sk-ant-api03-AAAABBBBCCCCDDDDEEEEFFFF", "***"),
            ("AKIAIOSFODNN7EXAMPLE", "***"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqYW5lIn0.AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "***"),
            ("0123456789abcdef0123456789abcdef", "***"),
            ("secrets.GITHUB_TOKEN_2024_SECOND", "secrets.GITHUB_TOKEN_2024_SECOND"),
            ("npm_config_registry npm_config_audit", "npm_config_registry npm_config_audit"),
            (
                "api.some-long-host-name-2024.example.com:8443",
                "api.some-long-host-name-2024.example.com:8443",
            ),
            ("/home/me/.config/tool/auth.json", "/home/me/.config/tool/auth.json"),
            ("my_long_variable_name_no_2", "my_long_variable_name_no_2"),
            ("\u{e9} and words", "\u{e9} and words"),
        ] {
            assert_eq!(without_tokens(text), want, "{text}");
        }
    }
}
