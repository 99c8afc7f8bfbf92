//! What terminals keep of the pen when the cursor is saved.

use super::attributes::Attributes;

/// Wrapping of long lines, beside the bits of [`Pen::changes`].
pub const WRAP: u8 = 1 << 6;

/// How text is written: attributes, the character sets G0 to G3, and which of G0 and G1 is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pen {
    pub attributes: Attributes,
    pub sets: [u8; 4],
    pub shifted: bool,
}

impl Default for Pen {
    fn default() -> Self {
        Self { attributes: Attributes::default(), sets: *b"BBBB", shifted: false }
    }
}

impl Pen {
    pub const ATTRIBUTES: u8 = 1 << 4;
    pub const SHIFT: u8 = 1 << 5;
    pub const ALL: u8 = 0x0f | Self::ATTRIBUTES | Self::SHIFT;

    /// The bit of a character set.
    pub fn slot(slot: u8) -> u8 {
        1 << slot
    }

    /// One bit for each part that is not the default.
    pub fn changes(&self) -> u8 {
        let mut bits = 0;
        for slot in (0..4).filter(|slot| self.sets[usize::from(*slot)] != b'B') {
            bits |= Self::slot(slot);
        }
        if self.attributes != Attributes::default() {
            bits |= Self::ATTRIBUTES;
        }
        if self.shifted {
            bits |= Self::SHIFT;
        }
        bits
    }

    /// Writes what brings the default back of the parts in `bits`.
    pub fn off(bits: u8, out: &mut Vec<u8>) {
        if bits & Self::ATTRIBUTES != 0 {
            out.extend_from_slice(b"\x1b[m");
        }
        if bits & Self::SHIFT != 0 {
            out.push(0x0f);
        }
        for slot in (0..4).filter(|slot| bits & Self::slot(*slot) != 0) {
            out.extend_from_slice(&[0x1b, b'(' + slot, b'B']);
        }
    }

    /// Writes what brings this pen about, starting from the default.
    pub fn on(&self, out: &mut Vec<u8>) {
        for slot in (0..4).filter(|slot| self.changes() & Self::slot(*slot) != 0) {
            out.extend_from_slice(&[0x1b, b'(' + slot, self.sets[usize::from(slot)]]);
        }
        if self.shifted {
            out.push(0x0e);
        }
        self.attributes.write(out);
    }
}

/// The ways to save a cursor. Some terminals have one place for all of them, others several, or one for each screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveKind {
    /// `ESC 7` and `ESC 8`.
    Escape,
    /// `CSI s` and `CSI u`.
    Control,
    /// Mode 1048.
    Mode,
    /// The alternate screen is shown and left.
    Screen,
}

/// The saved cursors, by kind and screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Saved {
    pens: [[Pen; 2]; 4],
    /// One bit for each place that was filled with all at its default, and not with anything else since.
    plain: u8,
}

impl Saved {
    /// `plain` says that nothing was changed, wrapping neither.
    pub fn save(&mut self, kind: SaveKind, screen: usize, pen: Pen, plain: bool) {
        self.pens[kind as usize][screen] = pen;
        // What is not plain may stand in every place then.
        self.plain = if plain { self.plain | place(kind, screen) } else { 0 };
    }

    /// Whether what a restore brings back is the default for certain. What was saved before the command began is unknown.
    pub fn is_plain(&self, kind: SaveKind, screen: usize) -> bool {
        self.plain & place(kind, screen) != 0
    }

    pub fn pen(&self, kind: SaveKind, screen: usize) -> Pen {
        self.pens[kind as usize][screen]
    }
}

fn place(kind: SaveKind, screen: usize) -> u8 {
    1 << (2 * kind as usize + screen)
}
