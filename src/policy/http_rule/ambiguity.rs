//! What servers are known to read in different ways.

/// What makes a path ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ambiguity {
    /// It does not begin with a slash.
    #[error("it does not begin with a slash")]
    NoSlash,
    /// A control, a space or something beyond ASCII.
    #[error("it holds a byte that no path has")]
    Byte,
    /// A backslash, which some servers take for a slash.
    #[error("it holds a backslash")]
    Backslash,
    /// `;`, encoded or not, behind which some servers see parameters.
    #[error("it holds a `;`")]
    Parameters,
    /// `#`, behind which some programs see a fragment.
    #[error("it holds a `#`")]
    Fragment,
    /// A percent sign without two hexadecimal digits.
    #[error("it holds a `%` that is no escape")]
    BadEscape,
    /// An encoded slash or backslash.
    #[error("it holds an encoded slash or backslash")]
    EncodedSlash,
    /// An encoded control, NUL among them.
    #[error("it holds an encoded control character")]
    EncodedControl,
    /// `.` or `..` with an encoded dot.
    #[error("it holds an encoded dot segment")]
    EncodedDots,
    /// `..` and empty segments: how far up it leads depends on which of them count.
    #[error("it holds `..` beside an empty segment")]
    EmptyAndUp,
    /// What would be an escape again after it was decoded.
    #[error("it is encoded twice")]
    Twice,
    /// A segment of dots and spaces, or more dots than two: some servers take it for `.` or `..`, or for none.
    #[error("it holds a segment of dots or spaces alone")]
    DotsAndSpaces,
    /// Encoded characters beyond ASCII, where rules deny.
    #[error("it holds characters beyond ASCII, some of which servers take for others")]
    BeyondAscii,
    /// Encoded bytes that are not UTF-8.
    #[error("it holds encoded bytes that are not UTF-8")]
    NotUtf8,
    /// More in headers than any client sends, which some servers take for the path or the method.
    #[error("its headers name more than eight other methods and paths")]
    Overridden,
}

impl Ambiguity {
    /// Whether no program has to write a path so: another way to write it means the same, or nothing sensible is meant.
    pub fn is_slip(self) -> bool {
        matches!(
            self,
            Self::NoSlash
                | Self::Byte
                | Self::Backslash
                | Self::BadEscape
                | Self::EncodedDots
                | Self::EmptyAndUp
        )
    }
}
