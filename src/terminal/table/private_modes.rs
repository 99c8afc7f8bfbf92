//! Private modes that may be set and reset.

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
