//! What the filter tells apart: the classes that configuration switches and that drops are counted by.

use std::fmt;

/// A kind of terminal sequence. The first nine can be switched by trusted configuration, see [`Class::SWITCHES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Window and icon titles: OSC 0, 1, 2 and the title stack.
    Title,
    /// OSC 8 hyperlinks.
    Hyperlink,
    /// Palette and dynamic colours: OSC 4, 10 to 12, 104, 110 to 112.
    Colour,
    /// OSC 9;4 progress.
    Progress,
    /// OSC 133 shell marks.
    ShellMark,
    /// OSC 9, 99 and 777 desktop notifications.
    Notification,
    /// Sixel and inline kitty graphics.
    Image,
    /// OSC 7 working directory.
    Cwd,
    /// Writing to the clipboard with OSC 52. Reading it and the other clipboard doors never pass.
    ClipboardWrite,
    /// Every clipboard door but an OSC 52 write.
    Clipboard,
    /// A mode that is not on the list.
    Mode,
    /// Window operations: move, resize, iconify, title report.
    Window,
    /// Queries whose answer could carry bytes of the jail's choice, and those that nobody needs.
    Query,
    /// Pass-through to the terminal behind a multiplexer.
    Passthrough,
    /// Remote control of the terminal program, file transfer, graphics from files or shared memory.
    RemoteControl,
    /// Printing and user-defined keys.
    Media,
    /// Character sets and coding systems that are not on the list.
    Charset,
    /// 8-bit control characters, raw or in UTF-8.
    C1,
    /// C0 control characters that are not on the list.
    Control,
    /// Sequences with a wrong shape, too long, or cancelled.
    Malformed,
    /// A sequence that had no end when the output ended.
    Unterminated,
    /// Everything else that is not on the list.
    Unlisted,
}

impl Class {
    /// All classes, in the order of their declaration.
    pub const ALL: [Self; 22] = [
        Self::Title,
        Self::Hyperlink,
        Self::Colour,
        Self::Progress,
        Self::ShellMark,
        Self::Notification,
        Self::Image,
        Self::Cwd,
        Self::ClipboardWrite,
        Self::Clipboard,
        Self::Mode,
        Self::Window,
        Self::Query,
        Self::Passthrough,
        Self::RemoteControl,
        Self::Media,
        Self::Charset,
        Self::C1,
        Self::Control,
        Self::Malformed,
        Self::Unterminated,
        Self::Unlisted,
    ];

    /// The classes that configuration switches, by the keys of its table `[terminal]`.
    pub const SWITCHES: [(&str, Self); 9] = [
        ("title", Self::Title),
        ("hyperlinks", Self::Hyperlink),
        ("colours", Self::Colour),
        ("progress", Self::Progress),
        ("shell_marks", Self::ShellMark),
        ("notifications", Self::Notification),
        ("images", Self::Image),
        ("cwd", Self::Cwd),
        ("clipboard_write", Self::ClipboardWrite),
    ];

    /// The class that `key` of the table `[terminal]` switches.
    pub fn of_key(key: &str) -> Option<Self> {
        Self::SWITCHES.iter().find(|(known, _)| *known == key).map(|(_, class)| *class)
    }

    /// A short lower-case name for logs and the summary, such as `clipboard-write`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Hyperlink => "hyperlink",
            Self::Colour => "colour",
            Self::Progress => "progress",
            Self::ShellMark => "shell-mark",
            Self::Notification => "notification",
            Self::Image => "image",
            Self::Cwd => "cwd",
            Self::ClipboardWrite => "clipboard-write",
            Self::Clipboard => "clipboard",
            Self::Mode => "mode",
            Self::Window => "window",
            Self::Query => "query",
            Self::Passthrough => "passthrough",
            Self::RemoteControl => "remote-control",
            Self::Media => "media",
            Self::Charset => "charset",
            Self::C1 => "c1",
            Self::Control => "control",
            Self::Malformed => "malformed",
            Self::Unterminated => "unterminated",
            Self::Unlisted => "unlisted",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether output is filtered at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filtering {
    On,
    DangerOff,
}

/// Which of the switchable classes pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classes {
    passing: u32,
    filtering: Filtering,
}

impl Default for Classes {
    /// Titles, hyperlinks, colours, progress and shell marks pass; the rest does not.
    fn default() -> Self {
        Self { passing: 0, filtering: Filtering::On }
            .allow(Class::Title)
            .allow(Class::Hyperlink)
            .allow(Class::Colour)
            .allow(Class::Progress)
            .allow(Class::ShellMark)
    }
}

impl Classes {
    /// No filter: every byte passes as it is. Modes are still tracked, for the terminal to be put back.
    pub fn danger_unfiltered() -> Self {
        Self { filtering: Filtering::DangerOff, ..Self::default() }
    }

    /// Lets `class` pass. A class that is not switchable stays dropped, since no rule of the table asks for it.
    #[must_use]
    pub fn allow(mut self, class: Class) -> Self {
        self.passing |= 1 << class as u8;
        self
    }

    /// Drops `class`.
    #[must_use]
    pub fn deny(mut self, class: Class) -> Self {
        self.passing &= !(1 << class as u8);
        self
    }

    /// Whether sequences of `class` pass.
    pub fn allows(self, class: Class) -> bool {
        self.passing & (1 << class as u8) != 0
    }

    /// Whether output is filtered, which only [`Self::danger_unfiltered`] changes.
    pub fn is_filtered(self) -> bool {
        self.filtering == Filtering::On
    }
}

/// How many sequences (for control characters: bytes) of each class were dropped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Drops([u64; Class::ALL.len()]);

impl Drops {
    /// The count of one class.
    pub fn count(&self, class: Class) -> u64 {
        self.0[class as usize]
    }

    /// The sum over all classes.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The classes of which something was dropped, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Class, u64)> + '_ {
        Class::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }

    pub(super) fn add_all(&mut self, others: &Self) {
        for (count, other) in self.0.iter_mut().zip(others.0) {
            *count += other;
        }
    }

    pub(super) fn add(&mut self, class: Class) {
        self.0[class as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_all_classes_follows_their_numbers() {
        for (index, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, index, "{class}");
        }
    }

    #[test]
    fn the_switchable_classes_come_first_and_each_has_one_key() {
        for (index, (key, class)) in Class::SWITCHES.into_iter().enumerate() {
            assert_eq!(class as usize, index, "{key}");
            assert_eq!(Class::of_key(key), Some(class));
        }
        assert_eq!(Class::of_key("clipboard"), None);
    }

    #[test]
    fn only_the_harmless_classes_pass_by_default() {
        let passing: Vec<_> =
            Class::ALL.into_iter().filter(|class| Classes::default().allows(*class)).collect();
        assert_eq!(
            passing,
            [Class::Title, Class::Hyperlink, Class::Colour, Class::Progress, Class::ShellMark]
        );
    }
}
