//! What passes to the user's terminal. Whatever has no row here is dropped.
//!
//! The behaviour behind the rows is that of ECMA-48, of xterm's "Control Sequences" and of kitty's protocol
//! documents. Every answer that a passing query provokes has a form fixed by the terminal, without bytes of the
//! jail's choice.

use super::class::Class;

/// Which parameters a control sequence may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Args {
    /// At most this many plain numbers, each of which may be absent.
    Numbers(u8),
    /// At most one number, and it is one of these; absent counts as 0.
    OneOf(&'static [u16]),
    /// Any numbers, with colon sub-parameters.
    Sgr,
    /// Private modes; those without a row in [`MODES`] are left out.
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
        Effect::Picture,
        "saves the cursor; with parameters it would set margins",
        SCREEN,
    ),
    csi("u", Args::Numbers(0), Effect::Picture, "restores the cursor", SCREEN),
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
    csi("g", Args::OneOf(&[0, 3]), Effect::Picture, "clears tab stops", "tabs"),
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
        Args::OneOf(&[0]),
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
        "takes back a keyboard encoding",
        "claude, codex, gemini, opencode",
    ),
    csi("=u", Args::KittyFlags, Effect::KittySet, "keyboard encoding; tracked and reset", "editors"),
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

/// For every final byte the row without prefix and intermediate: the way of nearly all sequences.
static PLAIN: [u8; 64] = {
    let mut index = [NO_ROW; 64];
    let mut row = 0;
    while row < CSI.len() {
        if CSI[row].prefix == 0 && CSI[row].inter == 0 {
            index[(CSI[row].last - b'@') as usize] = row as u8;
        }
        row += 1;
    }
    index
};

/// The row of a control sequence, if it has one. `prefix` and `inter` are 0 when there is none.
pub fn find_csi(prefix: u8, inter: u8, last: u8) -> Option<&'static CsiRow> {
    if prefix == 0 && inter == 0 {
        let row = PLAIN.get(usize::from(last.checked_sub(b'@')?))?;
        return CSI.get(usize::from(*row));
    }
    CSI.iter().find(|row| row.last == last && row.prefix == prefix && row.inter == inter)
}

/// The state of a mode before anybody changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initially {
    /// Reset, so setting it is tracked.
    Off,
    /// Set, so resetting it is tracked.
    On,
    /// It is an action rather than a state.
    Action,
}

/// A private mode.
#[derive(Debug)]
pub struct ModeRow {
    /// Its number in `CSI ? n h`.
    pub number: u16,
    /// Its state before.
    pub initially: Initially,
    /// Why it is safe.
    pub safe: &'static str,
    /// Who needs it.
    pub used_by: &'static str,
}

const fn mode(number: u16, initially: Initially, safe: &'static str, used_by: &'static str) -> ModeRow {
    ModeRow { number, initially, safe, used_by }
}

const MOUSE: &str = "reports the mouse as input; tracked and switched off";

/// Private modes that pass. Their order is the order in which they are switched on again.
pub static MODES: &[ModeRow] = &[
    mode(47, Initially::Off, "alternate screen; tracked and left", "old editors"),
    mode(1047, Initially::Off, "alternate screen; tracked and left", "old editors"),
    mode(1049, Initially::Off, "alternate screen; tracked and left", "codex, opencode, editors, pagers"),
    mode(1048, Initially::Action, "saves or restores the cursor", "old editors"),
    mode(1, Initially::Off, "form of the cursor keys; tracked and reset", "readline, editors"),
    mode(7, Initially::On, "wrapping of long lines; tracked and set", "full-screen programs"),
    mode(12, Initially::Off, "blinking cursor; tracked and reset", "terminfo's cnorm and cvvis"),
    mode(25, Initially::On, "visibility of the cursor; tracked and shown", "everybody"),
    mode(1000, Initially::Off, MOUSE, "codex, grok"),
    mode(1001, Initially::Off, MOUSE, "old editors"),
    mode(1002, Initially::Off, MOUSE, "codex, grok"),
    mode(1003, Initially::Off, MOUSE, "codex, grok"),
    mode(
        1004,
        Initially::Off,
        "reports focus as input; tracked and switched off",
        "claude, codex, gemini, opencode",
    ),
    mode(1005, Initially::Off, MOUSE, "old editors"),
    mode(1006, Initially::Off, MOUSE, "codex, grok"),
    mode(1007, Initially::Off, "wheel as cursor keys; tracked and switched off", "codex"),
    mode(1015, Initially::Off, MOUSE, "grok"),
    mode(1016, Initially::Off, MOUSE, "opencode"),
    mode(
        2004,
        Initially::Off,
        "marks pasted text in the input; tracked and switched off",
        "every agent, readline",
    ),
    mode(
        2026,
        Initially::Off,
        "holds the picture back, with a time limit in terminals; tracked",
        "claude, codex, opencode",
    ),
    mode(2027, Initially::Off, "width of grapheme clusters; tracked and switched off", "opencode"),
    mode(
        2031,
        Initially::Off,
        "reports changes of the colour theme; tracked and switched off",
        "claude, opencode",
    ),
];

/// The index of a mode in [`MODES`], if it passes.
pub fn find_mode(number: u16) -> Option<usize> {
    MODES.iter().position(|row| row.number == number)
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
    /// It is replaced by a soft reset.
    SoftReset,
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
        last: b"78",
        effect: EscEffect::Picture,
        safe: "saves or restores the cursor",
        used_by: "claude",
    },
    EscRow { inter: 0, last: b"DEM", effect: EscEffect::Picture, safe: MOVES, used_by: "editors, pagers" },
    EscRow { inter: 0, last: b"H", effect: EscEffect::Picture, safe: "sets a tab stop", used_by: "tabs" },
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

/// How an operating system command is checked and rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OscForm {
    /// Printable text of at most 256 characters.
    Title,
    /// Pairs of a palette index and a colour or `?`.
    Palette,
    /// Colours or `?` for this command and its successors up to 12.
    Dynamic,
    /// Palette indices to reset, or none for all.
    ResetPalette,
    /// No argument.
    ResetDynamic,
    /// `id=...` and a target of a listed scheme.
    Link,
    /// `4;state;percent`; any other text is a notification.
    ProgressOrNotification,
    /// kitty's notifications.
    KittyNotification,
    /// `notify;title;body`.
    UrxvtNotification,
    /// A mark's letter with few options.
    ShellMark,
    /// A file URL.
    Cwd,
    /// Clipboard names and base64.
    Clipboard,
}

/// An operating system command: `ESC ] n ; text ESC \`.
#[derive(Debug)]
pub struct OscRow {
    /// Its number.
    pub number: u16,
    /// The class that must be allowed.
    pub class: Class,
    /// How it is checked.
    pub form: OscForm,
    /// Why it is safe, or what it takes to make it so.
    pub safe: &'static str,
    /// Who needs it.
    pub used_by: &'static str,
}

const fn osc(number: u16, class: Class, form: OscForm, safe: &'static str, used_by: &'static str) -> OscRow {
    OscRow { number, class, form, safe, used_by }
}

const TITLE: &str = "cannot be read back: title reports are dropped";
const COLOUR: &str = "tracked and reset; the answer is a colour in hexadecimal";

/// Operating system commands that pass when their class does.
pub static OSC: &[OscRow] = &[
    osc(0, Class::Title, OscForm::Title, TITLE, "claude, gemini, opencode, grok"),
    osc(1, Class::Title, OscForm::Title, TITLE, "shells"),
    osc(2, Class::Title, OscForm::Title, TITLE, "shells, editors"),
    osc(4, Class::Colour, OscForm::Palette, COLOUR, "opencode"),
    osc(7, Class::Cwd, OscForm::Cwd, "off unless asked for: new tabs start in that directory", "shells"),
    osc(8, Class::Hyperlink, OscForm::Link, "opened by the user only; listed schemes", "claude, codex"),
    osc(
        9,
        Class::Progress,
        OscForm::ProgressOrNotification,
        "numbers only; tracked and removed",
        "claude, grok",
    ),
    osc(10, Class::Colour, OscForm::Dynamic, COLOUR, "codex, opencode"),
    osc(11, Class::Colour, OscForm::Dynamic, COLOUR, "codex, gemini, opencode"),
    osc(12, Class::Colour, OscForm::Dynamic, COLOUR, "opencode, grok"),
    osc(
        52,
        Class::ClipboardWrite,
        OscForm::Clipboard,
        "off unless asked for; reading never passes",
        "claude, editors",
    ),
    osc(
        99,
        Class::Notification,
        OscForm::KittyNotification,
        "off unless asked for; names the jail",
        "claude",
    ),
    osc(104, Class::Colour, OscForm::ResetPalette, "only brings defaults back", "opencode"),
    osc(110, Class::Colour, OscForm::ResetDynamic, "only brings defaults back", "opencode"),
    osc(111, Class::Colour, OscForm::ResetDynamic, "only brings defaults back", "opencode"),
    osc(112, Class::Colour, OscForm::ResetDynamic, "only brings defaults back", "opencode, grok"),
    osc(133, Class::ShellMark, OscForm::ShellMark, "marks without a command line or click actions", "shells"),
    osc(
        777,
        Class::Notification,
        OscForm::UrxvtNotification,
        "off unless asked for; names the jail",
        "claude",
    ),
];

/// Schemes that a hyperlink may have.
pub static LINK_SCHEMES: &[(&str, &str)] = &[
    ("http:", "opened in a browser, by the user"),
    ("https:", "opened in a browser, by the user"),
    ("mailto:", "opens a draft"),
    ("file:", "what compilers and listings link to; the user sees the name before opening"),
];

/// Terminfo capabilities that may be asked for with XTGETTCAP, in hexadecimal as they are on the wire.
pub static CAPABILITIES: &[(&str, &str)] = &[
    ("544e", "TN: the terminal's name"),
    ("6e616d65", "name: the terminal's name"),
    ("436f", "Co: number of colours"),
    ("636f6c6f7273", "colors: number of colours"),
    ("524742", "RGB: bits of direct colour"),
    ("5463", "Tc: direct colour"),
    ("5375", "Su: styled underlines"),
    ("536d756c78", "Smulx: styled underlines"),
    ("736574756c63", "setulc: colour of underlines"),
    ("7375", "su: styled underlines"),
    ("7365747266", "setrf: foreground in direct colour"),
    ("7365747262", "setrb: background in direct colour"),
    ("7369746d", "sitm: italics"),
    ("7269746d", "ritm: italics"),
    ("536574756c63", "Setulc: colour of underlines"),
    ("66756c6c6b6264", "fullkbd: kitty's keyboard protocol"),
];

/// Names of operating system commands that never pass, for the counters.
pub static OSC_CLASSES: &[(u16, Class)] = &[
    (5522, Class::Clipboard),
    (1337, Class::RemoteControl),
    (5113, Class::RemoteControl),
    (21, Class::Colour),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_gives_its_reasons() {
        let reasons = CSI
            .iter()
            .map(|row| (row.safe, row.used_by))
            .chain(MODES.iter().map(|row| (row.safe, row.used_by)))
            .chain(WINDOW.iter().map(|row| (row.safe, row.used_by)))
            .chain(ESC.iter().map(|row| (row.safe, row.used_by)))
            .chain(OSC.iter().map(|row| (row.safe, row.used_by)))
            .chain(LINK_SCHEMES.iter().copied())
            .chain(CAPABILITIES.iter().copied());
        for (safe, used_by) in reasons {
            assert!(!safe.is_empty() && !used_by.is_empty());
        }
    }

    #[test]
    fn no_sequence_has_two_rows() {
        for (index, row) in CSI.iter().enumerate() {
            let found = find_csi(row.prefix, row.inter, row.last).expect("a row");
            assert!(std::ptr::eq(found, &CSI[index]), "{row:?}");
        }
        for (index, row) in MODES.iter().enumerate() {
            assert_eq!(find_mode(row.number), Some(index));
        }
    }

    #[test]
    fn what_reports_bytes_of_the_jail_has_no_row() {
        for number in [20, 21, 1, 2, 3, 4, 8, 9, 10] {
            assert!(WINDOW.iter().all(|row| row.number != number), "{number}");
        }
        for (prefix, inter, last) in
            [(0, 0, b'i'), (b'?', 0, b'i'), (0, b'*', b'y'), (0, 0, b'x'), (0, 0, b'h'), (b'=', 0, b'c')]
        {
            assert!(find_csi(prefix, inter, last).is_none());
        }
        for mode in [2, 3, 5, 40, 66, 69, 80, 95, 1034, 1070, 9001, 5522, 2048] {
            assert!(find_mode(mode).is_none(), "{mode}");
        }
    }
}
