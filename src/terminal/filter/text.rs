//! Text: which bytes are plain, and a UTF-8 decoder that takes one byte at a time.

const BLOCK: usize = 32;

/// The length of the longest start of `input` that is complete, valid text: printable characters and the
/// controls that pass and change no state (BEL, BS, TAB, LF, CR). C1 controls in UTF-8 are not text.
pub(super) fn plain_run(input: &[u8]) -> usize {
    let mut at = 0;
    if input.first() == Some(&0x1b) {
        return 0;
    }
    loop {
        while let Some(block) = input.get(at..at + BLOCK)
            && block.iter().fold(true, |plain, byte| plain & is_plain(*byte))
        {
            at += BLOCK;
        }
        let Some(byte) = input.get(at).copied() else { return at };
        if is_plain(byte) {
            at += 1;
            // The block above was not plain to its end, so going on byte by byte is short.
            while input.get(at).copied().is_some_and(is_plain) {
                at += 1;
            }
            continue;
        }
        let before = at;
        while let Some(length) = character(&input[at..]) {
            at += length;
        }
        if at == before {
            return at;
        }
    }
}

fn is_plain(byte: u8) -> bool {
    (byte.wrapping_sub(0x20) < 0x5f) | (byte.wrapping_sub(0x07) < 4) | (byte == b'\r')
}

/// The length of the complete character of two bytes or more that `input` starts with.
fn character(input: &[u8]) -> Option<usize> {
    let continues = |byte: &u8| byte & 0xc0 == 0x80;
    match *input {
        // C2 80 to C2 9F are the C1 controls.
        [0xc2, second, ..] if second >= 0xa0 && continues(&second) => Some(2),
        [0xc3..=0xdf, second, ..] if continues(&second) => Some(2),
        [first @ 0xe0..=0xef, second, third, ..] if second_fits(first, second) && continues(&third) => {
            Some(3)
        }
        [first @ 0xf0..=0xf4, second, third, fourth, ..]
            if second_fits(first, second) && continues(&third) && continues(&fourth) =>
        {
            Some(4)
        }
        _ => None,
    }
}

/// Whether `second` may follow `first`: neither overlong forms, nor surrogates, nor beyond U+10FFFF.
fn second_fits(first: u8, second: u8) -> bool {
    let (low, high) = match first {
        0xe0 => (0xa0, 0xbf),
        0xed => (0x80, 0x9f),
        0xf0 => (0x90, 0xbf),
        0xf4 => (0x80, 0x8f),
        _ => (0x80, 0xbf),
    };
    (low..=high).contains(&second)
}

/// A decoder for characters that may arrive in pieces.
#[derive(Debug, Clone, Default)]
pub(super) struct Decoder {
    bytes: [u8; 4],
    length: u8,
    needed: u8,
}

/// What a byte means to the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoded {
    /// More bytes are needed.
    Partial,
    /// A character is complete.
    Character([u8; 4], usize),
    /// A C1 control, as a single byte or in UTF-8.
    C1(u8),
    /// The byte cannot be part of a character.
    Invalid,
    /// What came before is invalid; the byte itself was not looked at.
    InvalidBefore,
}

impl Decoder {
    /// Whether bytes of an incomplete character are held.
    pub(super) fn is_partial(&self) -> bool {
        self.length > 0
    }

    /// Forgets the bytes that are held.
    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Takes a byte: any byte while a character is incomplete, otherwise one from 0x80.
    pub(super) fn feed(&mut self, byte: u8) -> Decoded {
        if self.length == 0 {
            self.needed = match byte {
                0x80..=0x9f => return Decoded::C1(byte),
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => return Decoded::Invalid,
            };
            self.bytes = [byte, 0, 0, 0];
            self.length = 1;
            return Decoded::Partial;
        }
        let fits = if self.length == 1 { second_fits(self.bytes[0], byte) } else { byte & 0xc0 == 0x80 };
        if !fits {
            self.length = 0;
            return Decoded::InvalidBefore;
        }
        self.bytes[usize::from(self.length)] = byte;
        self.length += 1;
        if self.length < self.needed {
            return Decoded::Partial;
        }
        self.length = 0;
        match self.bytes {
            [0xc2, second @ 0x80..=0x9f, ..] => Decoded::C1(second),
            bytes => Decoded::Character(bytes, usize::from(self.needed)),
        }
    }
}
