//! Levels of keyboard modes: which of them are the jail's.

/// The modes of one screen's keyboard, as kitty's protocol has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keyboard {
    /// The flags of the user's own level, which only an unfiltered command can change.
    pub base: u16,
    /// The levels that the jail has pushed; those below are the user's own, and stay.
    pub stack: Vec<u16>,
}

impl Keyboard {
    /// Writes what takes back all of the jail's own.
    pub fn off(&self, out: &mut Vec<u8>) {
        if !self.stack.is_empty() {
            out.extend_from_slice(format!("\x1b[<{}u", self.stack.len()).as_bytes());
        }
        if self.base != 0 {
            out.extend_from_slice(b"\x1b[=0;1u");
        }
    }

    /// Writes what brings it about again.
    pub fn on(&self, out: &mut Vec<u8>) {
        if self.base != 0 {
            out.extend_from_slice(format!("\x1b[={};1u", self.base).as_bytes());
        }
        for flags in &self.stack {
            out.extend_from_slice(format!("\x1b[>{flags}u").as_bytes());
        }
    }
}
