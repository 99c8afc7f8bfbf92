//! Control sequences and window operations that pass.

/// Which parameters a control sequence may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Args {
    /// At most this many plain numbers, each of which may be absent.
    Numbers(u8),
    /// At most one number, and it is one of these; absent counts as 0.
    OneOf(&'static [u16]),
    /// Any numbers, with colon sub-parameters.
    Sgr,
    /// Private modes; those without a row in [`MODES`](super::MODES) are left out.
    Modes,
    /// A window operation with a row in [`WINDOW`].
    Window,
    /// The resource 4 and a level from 0 to 3, or no level.
    ModifyOtherKeys,
    /// Keyboard flags below 32, then a way of setting them from 1 to 3.
    KittyFlags,
}

/// What a sequence changes, beside the picture, and is therefore tracked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing that outlives the command.
    Picture,
    /// The terminal answers.
    Query,
    /// The terminal answers, and every terminal does: earlier queries without an answer stay without one.
    Fence,
    /// Text attributes.
    Attributes,
    /// The cursor is saved, with the pen.
    SaveCursor,
    /// The cursor comes back, with the pen.
    RestoreCursor,
    /// Private modes are set.
    SetModes,
    /// Private modes are reset.
    ResetModes,
    /// The scroll region.
    Margins,
    /// The shape of the cursor.
    CursorShape,
    /// A keyboard mode is pushed.
    KittyPush,
    /// Keyboard modes are popped.
    KittyPop,
    /// The keyboard mode on top is changed.
    KittySet,
    /// xterm's modifyOtherKeys.
    ModifyOtherKeys,
    /// Most modes go back to their defaults.
    SoftReset,
    /// As the row in [`WINDOW`] says.
    Window,
}

impl Effect {
    /// Whether all that the sequence does is to change the picture: nothing is answered, no mode is switched.
    pub fn is_picture(self) -> bool {
        matches!(self, Self::Picture | Self::Attributes | Self::SaveCursor | Self::RestoreCursor)
    }
}

/// A control sequence: `ESC [ prefix parameters intermediate final`.
#[derive(Debug)]
pub struct CsiRow {
    /// One of `< = > ?`, or 0.
    pub prefix: u8,
    /// An intermediate byte, or 0.
    pub inter: u8,
    /// The final byte.
    pub last: u8,
    /// The parameters that pass.
    pub args: Args,
    /// What is tracked.
    pub effect: Effect,
    /// Why it is safe.
    pub safe: &'static str,
    /// Who needs it.
    pub used_by: &'static str,
}

/// `pattern` is the sequence without `ESC [` and parameters, for example `?u` or `$p`.
const fn csi(
    pattern: &'static str,
    args: Args,
    effect: Effect,
    safe: &'static str,
    used_by: &'static str,
) -> CsiRow {
    let bytes = pattern.as_bytes();
    let prefix = if bytes.len() > 1 && matches!(bytes[0], b'<'..=b'?') { bytes[0] } else { 0 };
    let inter = if bytes.len() > 1 && matches!(bytes[bytes.len() - 2], b' '..=b'/') {
        bytes[bytes.len() - 2]
    } else {
        0
    };
    CsiRow { prefix, inter, last: bytes[bytes.len() - 1], args, effect, safe, used_by }
}

const MOVES: &str = "moves the cursor within the window";
const EDITS: &str = "changes cells within the window";
const SCREEN: &str = "full-screen programs";

/// Control sequences that pass.
pub static CSI: &[CsiRow] = &[
    csi("m", Args::Sgr, Effect::Attributes, "changes how text looks; tracked and reset", "everybody"),
    csi("A", Args::Numbers(1), Effect::Picture, MOVES, "everybody"),
    csi("B", Args::Numbers(1), Effect::Picture, MOVES, "everybody"),
    csi("C", Args::Numbers(1), Effect::Picture, MOVES, "everybody"),
    csi("D", Args::Numbers(1), Effect::Picture, MOVES, "everybody"),
    csi("E", Args::Numbers(1), Effect::Picture, MOVES, SCREEN),
    csi("F", Args::Numbers(1), Effect::Picture, MOVES, SCREEN),
    csi("G", Args::Numbers(1), Effect::Picture, MOVES, "claude, gemini"),
    csi("H", Args::Numbers(2), Effect::Picture, MOVES, "everybody"),
    csi("I", Args::Numbers(1), Effect::Picture, MOVES, SCREEN),
    csi("Z", Args::Numbers(1), Effect::Picture, MOVES, SCREEN),
    csi("`", Args::Numbers(1), Effect::Picture, MOVES, SCREEN),
    csi("a", Args::Numbers(1), Effect::Picture, MOVES, SCREEN),
    csi("d", Args::Numbers(1), Effect::Picture, MOVES, SCREEN),
    csi("e", Args::Numbers(1), Effect::Picture, MOVES, SCREEN),
    csi("f", Args::Numbers(2), Effect::Picture, MOVES, SCREEN),
    csi(
        "s",
        Args::Numbers(0),
        Effect::SaveCursor,
        "saves the cursor; with parameters it would set margins",
        SCREEN,
    ),
    csi(
        "u",
        Args::Numbers(0),
        Effect::RestoreCursor,
        "restores the cursor; what comes with it is tracked and reset",
        SCREEN,
    ),
    csi("J", Args::OneOf(&[0, 1, 2, 3]), Effect::Picture, EDITS, "everybody"),
    csi("K", Args::OneOf(&[0, 1, 2]), Effect::Picture, EDITS, "everybody"),
    csi("@", Args::Numbers(1), Effect::Picture, EDITS, "readline"),
    csi("L", Args::Numbers(1), Effect::Picture, EDITS, SCREEN),
    csi("M", Args::Numbers(1), Effect::Picture, EDITS, SCREEN),
    csi("P", Args::Numbers(1), Effect::Picture, EDITS, "readline"),
    csi("X", Args::Numbers(1), Effect::Picture, EDITS, SCREEN),
    csi(
        "b",
        Args::Numbers(1),
        Effect::Picture,
        "repeats a printed character, at most a screenful in terminals",
        SCREEN,
    ),
    csi("S", Args::Numbers(1), Effect::Picture, "scrolls within the window", SCREEN),
    csi(
        "T",
        Args::Numbers(1),
        Effect::Picture,
        "scrolls; with five parameters it would start highlight tracking",
        SCREEN,
    ),
    csi(
        "r",
        Args::Numbers(2),
        Effect::Margins,
        "scroll region; tracked and reset",
        "claude, editors, pagers",
    ),
    csi(
        "c",
        Args::OneOf(&[0]),
        Effect::Fence,
        "the answer names the terminal type in numbers",
        "claude, codex, gemini, grok",
    ),
    csi(
        ">c",
        Args::OneOf(&[0]),
        Effect::Query,
        "the answer names the terminal version in numbers",
        "editors",
    ),
    csi(
        "n",
        Args::OneOf(&[5, 6]),
        Effect::Query,
        "the answer is a status or the cursor's position",
        "codex, opencode, readline",
    ),
    csi(
        ">q",
        Args::OneOf(&[0]),
        Effect::Query,
        "the answer is the terminal's own name",
        "claude, gemini, opencode, grok",
    ),
    csi("$p", Args::Numbers(1), Effect::Query, "the answer is a mode's number and state", SCREEN),
    csi(
        "?$p",
        Args::Numbers(1),
        Effect::Query,
        "the answer is a mode's number and state",
        "claude, codex, opencode",
    ),
    csi(
        "?u",
        // With a number it is the form of an answer.
        Args::Numbers(0),
        Effect::Query,
        "the answer is a number of keyboard flags",
        "codex, gemini, opencode, grok",
    ),
    csi(
        "?m",
        Args::OneOf(&[4]),
        Effect::Query,
        "the answer is the level of modifyOtherKeys",
        "gemini, editors",
    ),
    csi("t", Args::Window, Effect::Window, "only sizes and the title stack, see WINDOW", "opencode, editors"),
    csi("?h", Args::Modes, Effect::SetModes, "only listed modes, see MODES", "everybody"),
    csi("?l", Args::Modes, Effect::ResetModes, "only listed modes, see MODES", "everybody"),
    csi(
        " q",
        Args::OneOf(&[0, 1, 2, 3, 4, 5, 6]),
        Effect::CursorShape,
        "cursor shape; tracked and reset",
        "codex, editors",
    ),
    csi(
        ">u",
        Args::KittyFlags,
        Effect::KittyPush,
        "keyboard encoding; tracked and popped",
        "claude, codex, gemini, opencode",
    ),
    csi(
        "<u",
        Args::Numbers(1),
        Effect::KittyPop,
        "takes back a keyboard encoding, of those that the jail has pushed",
        "claude, codex, gemini, opencode",
    ),
    csi(
        "=u",
        Args::KittyFlags,
        Effect::KittySet,
        "keyboard encoding; on a level of its own, tracked and popped",
        "editors",
    ),
    csi(
        ">m",
        Args::ModifyOtherKeys,
        Effect::ModifyOtherKeys,
        "keyboard encoding; tracked and reset",
        "claude, codex, gemini, opencode",
    ),
    csi("!p", Args::Numbers(0), Effect::SoftReset, "only brings defaults back", "reset, tput"),
];

const NO_ROW: u8 = u8::MAX;

/// For every final byte the row without intermediate, by prefix: none, or `?`. Nearly all sequences are these.
static PLAIN: [u8; 64] = index_of(0);
static PRIVATE: [u8; 64] = index_of(b'?');

const fn index_of(prefix: u8) -> [u8; 64] {
    let mut index = [NO_ROW; 64];
    let mut row = 0;
    while row < CSI.len() {
        if CSI[row].prefix == prefix && CSI[row].inter == 0 {
            index[(CSI[row].last - b'@') as usize] = row as u8;
        }
        row += 1;
    }
    index
}

/// The row of a control sequence, if it has one. `prefix` and `inter` are 0 when there is none.
pub fn find_csi(prefix: u8, inter: u8, last: u8) -> Option<&'static CsiRow> {
    if inter == 0 && matches!(prefix, 0 | b'?') {
        let index = if prefix == 0 { &PLAIN } else { &PRIVATE };
        return CSI.get(usize::from(*index.get(usize::from(last.checked_sub(b'@')?))?));
    }
    CSI.iter().find(|row| row.last == last && row.prefix == prefix && row.inter == inter)
}

/// What a passing window operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowOp {
    /// The terminal answers with a size.
    Size,
    /// The title is pushed.
    PushTitle,
    /// The title is popped.
    PopTitle,
}

/// A window operation: `CSI n t`.
#[derive(Debug)]
pub struct WindowRow {
    /// The first parameter.
    pub number: u16,
    /// What it does.
    pub op: WindowOp,
    /// Why it is safe.
    pub safe: &'static str,
    /// Who needs it.
    pub used_by: &'static str,
}

/// Window operations that pass. 20 and 21 are missing: they report the title, which the jail chose.
pub static WINDOW: &[WindowRow] = &[
    WindowRow { number: 14, op: WindowOp::Size, safe: "the answer is a size in pixels", used_by: "opencode" },
    WindowRow {
        number: 16,
        op: WindowOp::Size,
        safe: "the answer is a cell's size",
        used_by: "image viewers",
    },
    WindowRow { number: 18, op: WindowOp::Size, safe: "the answer is a size in cells", used_by: "resize" },
    WindowRow {
        number: 22,
        op: WindowOp::PushTitle,
        safe: "nothing is reported; tracked and popped",
        used_by: "vim",
    },
    WindowRow { number: 23, op: WindowOp::PopTitle, safe: "nothing is reported", used_by: "vim" },
];
