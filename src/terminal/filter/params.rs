//! The parameters of a control sequence: read with bounds, written in one form.

/// As many as xterm and vte take.
const MAX: usize = 32;
/// Larger numbers count as this one, which fits what terminals store.
const LARGEST: u16 = 32767;
/// Most sequences have no more parameters.
const FEW: usize = 5;
/// Bytes of a written number.
const DIGITS: usize = 5;

/// A control sequence (or the start of a device control string) as far as it was read.
#[derive(Debug, Clone)]
pub(in crate::terminal) struct Sequence {
    pub(in crate::terminal) prefix: u8,
    pub(in crate::terminal) inter: u8,
    /// The parameters, 0 for those that are absent.
    values: [u16; MAX],
    /// Bit i: parameter i is present.
    present: u32,
    /// How many parameters have begun.
    count: usize,
    /// Bit i: a colon stands before parameter i.
    colons: u32,
    malformed: bool,
}

/// What a byte did to the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::terminal) enum Fed {
    More,
    Final(u8),
}

impl Sequence {
    pub(in crate::terminal) fn new() -> Self {
        Self { prefix: 0, inter: 0, values: [0; MAX], present: 0, count: 0, colons: 0, malformed: false }
    }

    /// Starts anew, without touching values that cannot be seen.
    pub(in crate::terminal) fn clear(&mut self) {
        self.prefix = 0;
        self.inter = 0;
        self.present = 0;
        self.count = 0;
        self.colons = 0;
        self.malformed = false;
    }

    /// Takes a byte from 0x20 to 0x7E.
    pub(in crate::terminal) fn feed(&mut self, byte: u8) -> Fed {
        match byte {
            b'0'..=b'9' => self.digit(u16::from(byte - b'0')),
            b';' => self.separator(0),
            b':' => self.separator(1),
            b'<'..=b'?' if self.count == 0 && self.prefix == 0 && self.inter == 0 => self.prefix = byte,
            b' '..=b'/' if self.inter == 0 => self.inter = byte,
            b'@'..=b'~' => return Fed::Final(byte),
            _ => self.malformed = true,
        }
        Fed::More
    }

    /// Takes the digits and separators that `input` starts with. Returns how many bytes they are.
    pub(in crate::terminal) fn feed_numbers(&mut self, input: &[u8]) -> usize {
        let is_number = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b';' | b':');
        let mut length = 0;
        for byte in input.iter().take_while(is_number) {
            self.feed(*byte);
            length += 1;
        }
        length
    }

    #[inline]
    fn digit(&mut self, digit: u16) {
        if self.count == 0 {
            self.begin();
        }
        if self.inter != 0 {
            self.malformed = true;
            return;
        }
        self.present |= 1 << (self.count - 1);
        let value = &mut self.values[self.count - 1];
        *value = value.saturating_mul(10).saturating_add(digit).min(LARGEST);
    }

    #[inline]
    fn separator(&mut self, colon: u32) {
        if self.count == 0 {
            self.begin();
        }
        if self.inter != 0 || self.count == MAX {
            self.malformed = true;
            return;
        }
        self.colons |= colon << self.count;
        self.begin();
    }

    fn begin(&mut self) {
        self.values[self.count] = 0;
        self.count += 1;
    }

    pub(in crate::terminal) fn is_malformed(&self) -> bool {
        self.malformed
    }

    pub(in crate::terminal) fn count(&self) -> usize {
        self.count
    }

    pub(in crate::terminal) fn has_colons(&self) -> bool {
        self.colons != 0
    }

    pub(in crate::terminal) fn is_colon(&self, index: usize) -> bool {
        self.colons & (1 << index) != 0
    }

    /// The parameter at `index`, if it is present.
    pub(in crate::terminal) fn value(&self, index: usize) -> Option<u16> {
        (index < self.count && self.present & (1 << index) != 0).then(|| self.values[index])
    }

    /// All parameters, with 0 for those that are absent.
    pub(in crate::terminal) fn values(&self) -> &[u16] {
        &self.values[..self.count]
    }

    /// Writes the sequence after `introducer` (`[` or `P`) with its final byte.
    pub(in crate::terminal) fn write(&self, introducer: u8, last: u8, out: &mut Vec<u8>) {
        if self.count <= FEW {
            self.write_by::<{ 8 + FEW * (DIGITS + 1) }>(introducer, last, out);
        } else {
            self.write_by::<{ 8 + MAX * (DIGITS + 1) }>(introducer, last, out);
        }
    }

    /// One append of a short array is several times faster than many of single bytes.
    fn write_by<const ROOM: usize>(&self, introducer: u8, last: u8, out: &mut Vec<u8>) {
        let mut bytes = [0; ROOM];
        bytes[0] = 0x1b;
        bytes[1] = introducer;
        let mut at = 2;
        let mut put = |at: &mut usize, byte: u8| {
            bytes[*at] = byte;
            *at += 1;
        };
        if self.prefix != 0 {
            put(&mut at, self.prefix);
        }
        for (index, value) in self.values().iter().enumerate() {
            if index > 0 {
                put(&mut at, if self.is_colon(index) { b':' } else { b';' });
            }
            if self.present & (1 << index) != 0 {
                let (digits, first) = decimal(*value);
                for digit in &digits[first..] {
                    put(&mut at, *digit);
                }
            }
        }
        if self.inter != 0 {
            put(&mut at, self.inter);
        }
        put(&mut at, last);
        out.extend_from_slice(&bytes[..at]);
    }
}

/// Writes a number in decimal.
pub(in crate::terminal) fn write_number(number: u16, out: &mut Vec<u8>) {
    let (digits, first) = decimal(number);
    out.extend_from_slice(&digits[first..]);
}

/// The digits of a number, and where they begin.
#[inline]
fn decimal(number: u16) -> ([u8; DIGITS], usize) {
    let mut digits = [b'0'; DIGITS];
    let mut first = DIGITS;
    let mut rest = number;
    while rest > 0 || first == DIGITS {
        first -= 1;
        // A remainder by ten always fits.
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    (digits, first)
}

/// Reads a whole text as a number of at most five digits.
pub(in crate::terminal) fn parse_number(text: &[u8]) -> Option<u16> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    text.iter().try_fold(0_u16, |value, digit| value.checked_mul(10)?.checked_add(u16::from(digit - b'0')))
}
