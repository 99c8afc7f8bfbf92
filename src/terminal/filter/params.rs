//! The parameters of a control sequence: read with bounds, written in one form.

/// As many as xterm and vte take.
const MAX: usize = 32;
/// Larger numbers count as this one, which fits what terminals store.
const LARGEST: u16 = 32767;
/// Marks a parameter that was left out.
const ABSENT: u16 = u16::MAX;

/// A control sequence (or the start of a device control string) as far as it was read.
#[derive(Debug, Clone)]
pub(in crate::terminal) struct Sequence {
    pub(in crate::terminal) prefix: u8,
    pub(in crate::terminal) inter: u8,
    values: [u16; MAX],
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
        Self { prefix: 0, inter: 0, values: [0; MAX], count: 0, colons: 0, malformed: false }
    }

    /// Starts anew, without touching values that cannot be seen.
    pub(in crate::terminal) fn clear(&mut self) {
        self.prefix = 0;
        self.inter = 0;
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

    fn digit(&mut self, digit: u16) {
        if self.inter != 0 {
            self.malformed = true;
            return;
        }
        if self.count == 0 {
            self.count = 1;
            self.values[0] = ABSENT;
        }
        let value = &mut self.values[self.count - 1];
        let before = if *value == ABSENT { 0 } else { *value };
        *value = before.saturating_mul(10).saturating_add(digit).min(LARGEST);
    }

    fn separator(&mut self, colon: u32) {
        if self.count == 0 {
            self.count = 1;
            self.values[0] = ABSENT;
        }
        if self.inter != 0 || self.count == MAX {
            self.malformed = true;
            return;
        }
        self.values[self.count] = ABSENT;
        self.colons |= colon << self.count;
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
        self.values[..self.count].get(index).copied().filter(|value| *value != ABSENT)
    }

    /// All parameters, with 0 for those that are absent.
    pub(in crate::terminal) fn zeroed(&self) -> ([u16; MAX], usize) {
        let mut values = self.values;
        for value in &mut values[..self.count] {
            if *value == ABSENT {
                *value = 0;
            }
        }
        (values, self.count)
    }

    /// Writes the sequence after `introducer` (`[` or `P`) with its final byte.
    pub(in crate::terminal) fn write(&self, introducer: u8, last: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0x1b, introducer]);
        if self.prefix != 0 {
            out.push(self.prefix);
        }
        for (index, value) in self.values[..self.count].iter().enumerate() {
            if index > 0 {
                out.push(if self.is_colon(index) { b':' } else { b';' });
            }
            if *value != ABSENT {
                write_number(*value, out);
            }
        }
        if self.inter != 0 {
            out.push(self.inter);
        }
        out.push(last);
    }
}

/// Writes a number in decimal.
pub(in crate::terminal) fn write_number(number: u16, out: &mut Vec<u8>) {
    let mut digits = [0; 5];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        // A remainder by ten always fits.
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Reads a whole text as a number of at most five digits.
pub(in crate::terminal) fn parse_number(text: &[u8]) -> Option<u16> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    text.iter().try_fold(0_u16, |value, digit| value.checked_mul(10)?.checked_add(u16::from(digit - b'0')))
}
