//! Operating system commands and terminfo queries that pass.

use crate::terminal::class::Class;

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
