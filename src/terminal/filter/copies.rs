//! Writes to the clipboard that pass when configuration says so: checked, and remembered to be told.

/// Bytes of the text that is remembered of the last copy.
const EXCERPT: usize = 96;

/// What was copied in a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copies {
    count: u64,
    length: usize,
    excerpt: Vec<u8>,
}

impl Copies {
    /// How many copies passed.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The bytes of the last text.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The start of the last text, foreign bytes: at most 96 of [`Self::length`].
    pub fn excerpt(&self) -> &[u8] {
        &self.excerpt
    }

    /// Takes those of another stream of the same session in.
    pub(in crate::terminal) fn add_all(&mut self, others: &Self) {
        let count = self.count + others.count;
        if others.count > 0 {
            self.clone_from(others);
        }
        self.count = count;
    }

    /// Checks `rest`, what follows `52;`: names of clipboards, then base64 of at least one byte. A query (`?`), which the
    /// terminal would answer, and nothing at all, which would clear, do not pass.
    pub(super) fn of(&mut self, rest: &[u8]) -> Option<Vec<u8>> {
        let at = rest.iter().position(|byte| *byte == b';')?;
        let (names, data) = (&rest[..at], &rest[at + 1..]);
        if !names.iter().all(|name| b"cpqs01234567".contains(name)) {
            return None;
        }
        let digits = digits_of(data)?;
        self.count += 1;
        self.length = digits.len() * 6 / 8;
        self.excerpt = decode(&digits[..digits.len().min(EXCERPT / 3 * 4)]);
        Some(rest.to_vec())
    }
}

/// The digits of well-formed base64, padded or not, of at least one byte.
fn digits_of(data: &[u8]) -> Option<&[u8]> {
    let end = data.iter().position(|byte| *byte == b'=').unwrap_or(data.len());
    let (digits, padding) = data.split_at(end);
    let whole = padding.is_empty() || data.len().is_multiple_of(4);
    let fits = digits.len() >= 2 && digits.len() % 4 != 1 && matches!(padding, b"" | b"=" | b"==");
    (whole && fits && digits.iter().all(|byte| digit(*byte).is_some())).then_some(digits)
}

/// The whole bytes that `digits` stand for.
fn decode(digits: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(digits.len() * 6 / 8);
    let (mut bits, mut held) = (0_u32, 0);
    for value in digits.iter().filter_map(|byte| digit(*byte)) {
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
            bits &= (1 << held) - 1;
        }
    }
    bytes
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};

    use super::*;

    #[test]
    fn a_copy_is_a_name_and_whole_base64() {
        let passes = ["c;aGk=", ";aGk=", "c;aGk", "cp;QUJD", "s0;QQ==", "c;+/+/"];
        let refused = [
            "c;?", "c;", "c", "", "c;!", "x;aGk=", "c;a", "c;=", "c;aGk==", "c;a=Gk", "c;QUJD=", "c;QUJDR",
            "c;aG k", "c;aGk=;x", "c;QQ=", "c;Q===",
        ];
        for rest in passes {
            let mut copies = Copies::default();
            assert_eq!(copies.of(rest.as_bytes()).as_deref(), Some(rest.as_bytes()), "{rest}");
            assert_eq!(copies.count(), 1);
        }
        for rest in refused {
            let mut copies = Copies::default();
            assert_eq!(copies.of(rest.as_bytes()), None, "{rest}");
            assert_eq!(copies, Copies::default());
        }
    }

    #[test]
    fn the_last_copy_is_remembered_by_its_start() {
        let mut copies = Copies::default();
        for length in 1..300 {
            let text: Vec<u8> = (0..length).map(|at| (at * 7 + length) as u8).collect();
            for data in [BASE64_STANDARD.encode(&text), BASE64_STANDARD_NO_PAD.encode(&text)] {
                assert!(copies.of(format!("c;{data}").as_bytes()).is_some());
                assert_eq!((copies.length(), copies.excerpt()), (length, &text[..length.min(EXCERPT)]));
            }
        }
        assert_eq!(copies.count(), 598);
    }

    #[test]
    fn copies_of_several_streams_are_counted_together() {
        let (mut one, mut other) = (Copies::default(), Copies::default());
        one.of(b"c;QQ==");
        one.add_all(&other);
        assert_eq!((one.count(), one.excerpt()), (1, &b"A"[..]));
        other.of(b"c;Qg==");
        one.add_all(&other);
        assert_eq!((one.count(), one.excerpt()), (2, &b"B"[..]));
    }
}
