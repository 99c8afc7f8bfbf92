//! Real values, and the seed that their sentinels are made from. Neither can be shown, copied or written down.

use std::fmt;

use zeroize::Zeroizing;

/// The longest value, in bytes.
pub const MAX_VALUE: usize = 64 * 1024;

/// A real value. Overwritten when it is dropped; its debug form says nothing of it.
pub struct SecretValue(Zeroizing<Vec<u8>>);

impl SecretValue {
    /// Takes a value. Fails on one that cannot stand in a header, or that is no text; the bytes are overwritten then too.
    pub fn new(bytes: Vec<u8>) -> Result<Self, ValueError> {
        let bytes = Zeroizing::new(bytes);
        if bytes.is_empty() {
            return Err(ValueError::Empty);
        }
        if bytes.len() > MAX_VALUE {
            return Err(ValueError::TooLong);
        }
        let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
        if bytes.iter().any(is_break) {
            let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            let one = !text.is_empty() && !text.iter().any(is_break);
            return Err(if one { ValueError::Break } else { ValueError::Lines });
        }
        if bytes.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return Err(ValueError::Control);
        }
        if std::str::from_utf8(&bytes).is_err() {
            return Err(ValueError::NotText);
        }
        Ok(Self(bytes))
    }

    /// The bytes, which are UTF-8. Whoever asks for them puts them in, or searches for them, and keeps them nowhere else.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Why a value is refused. The texts quote nothing of it; each begins with what the value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// There is none.
    #[error("it is empty, and nothing can stand in for nothing; give it a value, or do not name it")]
    Empty,
    /// More than [`MAX_VALUE`] bytes.
    #[error("it is longer than 64 KiB, which no header carries; name a part of it with `extract`")]
    TooLong,
    /// It has a CR or an LF, or both, at its end alone.
    #[error(
        "it ends in a line break, which no header carries; give it without, as NAME=\"$(cat FILE)\" does in a shell, or `printf %s` \
         in place of `echo`"
    )]
    Break,
    /// It has a CR or an LF.
    #[error("it has more than one line, which could begin a header of its own; give it without line breaks")]
    Lines,
    /// It has another control character than TAB.
    #[error("it has a control character, which no header carries; give it without")]
    Control,
    /// It is not UTF-8.
    #[error("it is not UTF-8, so what has to be encoded in it is not known; give it as text")]
    NotText,
}

/// What the sentinels of one private home are made from: 32 random bytes that stay outside. Overwritten when dropped.
pub struct Seed(Zeroizing<[u8; 32]>);

impl Seed {
    /// A seed of `bytes`.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    pub(super) fn expose(&self) -> &[u8] {
        &*self.0
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[seed]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_header_carries_is_no_value() {
        let cases = [
            (b"".to_vec(), Some(ValueError::Empty)),
            (b"a\r".to_vec(), Some(ValueError::Break)),
            (b"a\n".to_vec(), Some(ValueError::Break)),
            (b"a\r\n".to_vec(), Some(ValueError::Break)),
            (b"a\n\n".to_vec(), Some(ValueError::Lines)),
            (b"\n".to_vec(), Some(ValueError::Lines)),
            (b"a\nX-Header: b".to_vec(), Some(ValueError::Lines)),
            (b"a\0".to_vec(), Some(ValueError::Control)),
            (b"\x1b[0m".to_vec(), Some(ValueError::Control)),
            (b"\x7f".to_vec(), Some(ValueError::Control)),
            (b"\xff".to_vec(), Some(ValueError::NotText)),
            (vec![b'a'; MAX_VALUE + 1], Some(ValueError::TooLong)),
            (vec![b'a'; MAX_VALUE], None),
            (b"a\tb c".to_vec(), None),
            ("gr\u{fc}n".into(), None),
        ];
        for (bytes, want) in cases {
            let start = bytes[..bytes.len().min(20)].to_vec();
            assert_eq!(SecretValue::new(bytes).err(), want, "{}", start.escape_ascii());
        }
    }

    #[test]
    fn debug_shows_nothing() {
        let value = SecretValue::new(b"hunter2hunter2".to_vec()).unwrap();
        assert_eq!(format!("{value:?} {:?}", Seed::new([65; 32])), "[secret] [seed]");
    }
}
