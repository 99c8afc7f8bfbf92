//! Plain escape sequences that pass.

/// What a plain escape sequence changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscEffect {
    /// Nothing that outlives the command.
    Picture,
    /// Application keypad on.
    KeypadApplication,
    /// Application keypad off.
    KeypadNumeric,
    /// A character set is put in the slot with this number.
    Designate(u8),
    /// The cursor is saved, with the pen.
    SaveCursor,
    /// The cursor comes back, with the pen.
    RestoreCursor,
    /// What is on is switched off, and it is replaced by a soft reset.
    SoftReset,
}

impl EscEffect {
    /// Whether all that the sequence does is to change the picture: no mode is switched.
    pub fn is_picture(self) -> bool {
        matches!(self, Self::Picture | Self::SaveCursor | Self::RestoreCursor)
    }
}

/// A plain escape sequence: `ESC intermediate final`.
#[derive(Debug)]
pub struct EscRow {
    /// An intermediate byte, or 0.
    pub inter: u8,
    /// The final bytes.
    pub last: &'static [u8],
    /// What is tracked.
    pub effect: EscEffect,
    /// Why it is safe.
    pub safe: &'static str,
    /// Who needs it.
    pub used_by: &'static str,
}

/// The character sets that may be chosen: ASCII, British, line drawing.
const SETS: &[u8] = b"B0A";
const DRAWING: &str = "tracked and put back; none of these sets has control characters";

/// Escape sequences that pass.
pub static ESC: &[EscRow] = &[
    EscRow {
        inter: 0,
        last: b"7",
        effect: EscEffect::SaveCursor,
        safe: "saves the cursor; tracked",
        used_by: "claude",
    },
    EscRow {
        inter: 0,
        last: b"8",
        effect: EscEffect::RestoreCursor,
        safe: "restores the cursor; what comes with it is tracked and reset",
        used_by: "claude",
    },
    EscRow {
        inter: 0,
        last: b"DEM",
        effect: EscEffect::Picture,
        safe: "moves the cursor within the window",
        used_by: "editors, pagers",
    },
    EscRow {
        inter: 0,
        last: b"=",
        effect: EscEffect::KeypadApplication,
        safe: "tracked and reset",
        used_by: "pagers",
    },
    EscRow { inter: 0, last: b">", effect: EscEffect::KeypadNumeric, safe: "the default", used_by: "pagers" },
    EscRow {
        inter: 0,
        last: b"c",
        effect: EscEffect::SoftReset,
        safe: "a full reset would undo what others set up",
        used_by: "reset",
    },
    EscRow {
        inter: b'(',
        last: SETS,
        effect: EscEffect::Designate(0),
        safe: DRAWING,
        used_by: "claude, ncurses",
    },
    EscRow { inter: b')', last: SETS, effect: EscEffect::Designate(1), safe: DRAWING, used_by: "ncurses" },
    EscRow { inter: b'*', last: SETS, effect: EscEffect::Designate(2), safe: DRAWING, used_by: "ncurses" },
    EscRow { inter: b'+', last: SETS, effect: EscEffect::Designate(3), safe: DRAWING, used_by: "ncurses" },
];

const NO_ROW: u8 = u8::MAX;

/// For every final byte the row without intermediate.
static PLAIN: [u8; 128] = {
    let mut index = [NO_ROW; 128];
    let mut row = 0;
    while row < ESC.len() {
        let mut at = 0;
        while ESC[row].inter == 0 && at < ESC[row].last.len() {
            index[ESC[row].last[at] as usize] = row as u8;
            at += 1;
        }
        row += 1;
    }
    index
};

/// The row of an escape sequence, if it has one. `inter` is 0 when there is none.
pub fn find_esc(inter: u8, last: u8) -> Option<&'static EscRow> {
    if inter == 0 {
        return ESC.get(usize::from(*PLAIN.get(usize::from(last))?));
    }
    ESC.iter().find(|row| row.inter == inter && row.last.contains(&last))
}
