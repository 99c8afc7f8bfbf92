//! A terminal's settings as plain numbers: to compare, to keep elsewhere, and to undo what was changed and no more.

use std::os::fd::AsFd;

use rustix::io;
use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, tcgetattr,
    tcsetattr,
};

/// Every special character that Linux knows, and the two numbers that share their place.
const CODES: [SpecialCodeIndex; 17] = [
    SpecialCodeIndex::VINTR,
    SpecialCodeIndex::VQUIT,
    SpecialCodeIndex::VERASE,
    SpecialCodeIndex::VKILL,
    SpecialCodeIndex::VEOF,
    SpecialCodeIndex::VTIME,
    SpecialCodeIndex::VMIN,
    SpecialCodeIndex::VSWTC,
    SpecialCodeIndex::VSTART,
    SpecialCodeIndex::VSTOP,
    SpecialCodeIndex::VSUSP,
    SpecialCodeIndex::VEOL,
    SpecialCodeIndex::VREPRINT,
    SpecialCodeIndex::VDISCARD,
    SpecialCodeIndex::VWERASE,
    SpecialCodeIndex::VLNEXT,
    SpecialCodeIndex::VEOL2,
];

/// The settings of one terminal. Speeds are not among them: nobody here changes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings {
    /// Input, output, control and local modes.
    pub(super) modes: [u32; 4],
    codes: [u8; CODES.len()],
}

/// What we changed: the settings as found, and as we set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) found: Settings,
    pub(super) ours: Settings,
}

impl Settings {
    /// Bytes of [`Self::encode`].
    const LENGTH: usize = 4 * 4 + CODES.len();

    pub(super) fn of(terminal: impl AsFd) -> io::Result<Self> {
        tcgetattr(terminal).map(|termios| Self::from(&termios))
    }

    /// These settings made raw.
    pub(super) fn raw(terminal: impl AsFd, found: &Self) -> io::Result<Self> {
        let mut termios = tcgetattr(terminal)?;
        found.write(&mut termios);
        termios.make_raw();
        Ok(Self::from(&termios))
    }

    pub(super) fn apply(&self, terminal: impl AsFd) -> io::Result<()> {
        let mut termios = tcgetattr(&terminal)?;
        self.write(&mut termios);
        tcsetattr(&terminal, OptionalActions::Now, &termios)
    }

    pub(super) fn local(&self) -> LocalModes {
        LocalModes::from_bits_retain(self.modes[3])
    }

    pub(super) fn output(&self) -> OutputModes {
        OutputModes::from_bits_retain(self.modes[1])
    }

    pub(super) fn set_local(&mut self, mode: LocalModes, on: bool) {
        set(&mut self.modes[3], mode.bits(), on);
    }

    pub(super) fn set_output(&mut self, mode: OutputModes, on: bool) {
        set(&mut self.modes[1], mode.bits(), on);
    }

    fn write(&self, termios: &mut Termios) {
        let [input, output, control, local] = self.modes;
        termios.input_modes = InputModes::from_bits_retain(input);
        termios.output_modes = OutputModes::from_bits_retain(output);
        termios.control_modes = ControlModes::from_bits_retain(control);
        termios.local_modes = LocalModes::from_bits_retain(local);
        for (index, code) in CODES.into_iter().zip(self.codes) {
            termios.special_codes[index] = code;
        }
    }

    fn encode(&self) -> Vec<u8> {
        self.modes.iter().flat_map(|mode| mode.to_le_bytes()).chain(self.codes).collect()
    }

    fn decode(bytes: &[u8; Self::LENGTH]) -> Self {
        let (modes, codes) = bytes.split_at(16);
        let mode = |at: usize| {
            modes.iter().skip(at * 4).take(4).rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
        };
        let mut settings = Self { modes: std::array::from_fn(mode), codes: [0; CODES.len()] };
        settings.codes.copy_from_slice(codes);
        settings
    }
}

impl From<&Termios> for Settings {
    fn from(termios: &Termios) -> Self {
        Self {
            modes: [
                termios.input_modes.bits(),
                termios.output_modes.bits(),
                termios.control_modes.bits(),
                termios.local_modes.bits(),
            ],
            codes: CODES.map(|index| termios.special_codes[index]),
        }
    }
}

impl Change {
    /// Bytes of [`Self::encode`].
    pub(super) const LENGTH: usize = 2 * Settings::LENGTH;

    /// Puts back what we changed and nobody changed after us; the rest stays as it is.
    pub(super) fn undo(&self, terminal: impl AsFd) -> io::Result<()> {
        let now = Settings::of(&terminal)?;
        self.undone(&now).apply(terminal)
    }

    fn undone(&self, now: &Settings) -> Settings {
        let mut undone = *now;
        for ((now, found), ours) in undone.modes.iter_mut().zip(self.found.modes).zip(self.ours.modes) {
            let changed = found ^ ours;
            *now = *now & !changed | found & changed;
        }
        for ((now, found), ours) in undone.codes.iter_mut().zip(self.found.codes).zip(self.ours.codes) {
            if found != ours && *now == ours {
                *now = found;
            }
        }
        undone
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        [self.found.encode(), self.ours.encode()].concat()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (found, rest) = bytes.split_first_chunk()?;
        let (ours, _) = rest.split_first_chunk()?;
        Some(Self { found: Settings::decode(found), ours: Settings::decode(ours) })
    }
}

fn set(modes: &mut u32, bits: u32, on: bool) {
    if on {
        *modes |= bits;
    } else {
        *modes &= !bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(local: u32, code: u8) -> Settings {
        Settings { modes: [1, 2, 3, local], codes: [code; CODES.len()] }
    }

    #[test]
    fn only_what_was_changed_is_undone() {
        let cases = [
            ("raw was made", (0b11, 1), (0b00, 2), (0b00, 2), (0b11, 1)),
            ("raw was found", (0b00, 2), (0b00, 2), (0b11, 1), (0b11, 1)),
            ("another changed other things too", (0b011, 1), (0b000, 2), (0b100, 7), (0b111, 7)),
            ("another has put it back already", (0b11, 1), (0b00, 2), (0b11, 1), (0b11, 1)),
        ];
        for (claim, found, ours, now, want) in cases {
            let make = |(local, code)| settings(local, code);
            let change = Change { found: make(found), ours: make(ours) };
            assert_eq!(change.undone(&make(now)), make(want), "{claim}");
        }
    }

    #[test]
    fn a_change_survives_its_encoding() {
        let change = Change { found: settings(0xdead_beef, 3), ours: settings(7, 9) };
        assert_eq!(change.encode().len(), Change::LENGTH);
        assert_eq!(Change::decode(&change.encode()), Some(change));
        assert_eq!(Change::decode(&change.encode()[1..]), None);
    }
}
