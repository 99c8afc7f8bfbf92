//! What the jail has switched on in the user's terminal, and the bytes that switch it off and on again.

use std::collections::BTreeMap;

use super::keyboard::Keyboard;
use super::saved::{Pen, SaveKind, Saved, WRAP};
use super::table::{Initially, MODES, find_mode};

/// Keyboard modes and pushed titles that are remembered; terminals hold no more of them either.
const STACK: usize = 16;
/// The alternate screen by its three numbers.
const ALTERNATE: [u16; 3] = [47, 1047, 1049];

/// Everything that outlives the command unless it is switched off.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Modes {
    /// One bit for each row of [`MODES`] that is not as it was initially.
    changed: u32,
    /// Attributes and character sets.
    pen: Pen,
    /// What a restored cursor may have brought back: bits of what [`Pen::changes`] gives, and [`WRAP`].
    unsure: u8,
    saved: Saved,
    keypad: bool,
    margins: Option<(u16, u16)>,
    cursor_shape: u16,
    modify_other_keys: Option<u16>,
    /// The keyboard modes of the main and of the alternate screen.
    keyboard: [Keyboard; 2],
    pushed_titles: Vec<u16>,
    palette: BTreeMap<u16, Vec<u8>>,
    dynamic: BTreeMap<u16, Vec<u8>>,
    link: Option<Vec<u8>>,
    progress: Option<(u16, u16)>,
}

impl Modes {
    /// Whether anything is to be switched off.
    pub fn any(&self) -> bool {
        // A saved cursor does nothing by itself.
        *self != Self { saved: self.saved, ..Self::default() }
    }

    /// The bytes that switch off what is on, and nothing else.
    pub fn off(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.reset(&mut out);
        for kind in self.pushed_titles.iter().rev() {
            out.extend_from_slice(format!("\x1b[23;{kind}t").as_bytes());
        }
        out
    }

    /// All of [`Self::off`] that a full reset brings back: not the titles.
    fn reset(&self, out: &mut Vec<u8>) {
        if self.link.is_some() {
            out.extend_from_slice(b"\x1b]8;;\x1b\\");
        }
        if self.progress.is_some() {
            out.extend_from_slice(b"\x1b]9;4;0\x1b\\");
        }
        self.colours_off(out);
        // Leaving the alternate screen restores a cursor, and with it what is reset below.
        self.screens_off(out);
        self.modes_off(out, |_| true);
        self.pen_off(self.unsure_after_screens(), out);
        if self.cursor_shape != 0 {
            out.extend_from_slice(b"\x1b[0 q");
        }
        if self.keypad {
            out.extend_from_slice(b"\x1b>");
        }
        if self.modify_other_keys.is_some() {
            out.extend_from_slice(b"\x1b[>4m");
        }
    }

    /// Attributes, character sets, wrapping and the scroll region, with what is `unsure`.
    fn pen_off(&self, unsure: u8, out: &mut Vec<u8>) {
        Pen::off(self.pen.changes() | unsure, out);
        if unsure & WRAP != 0 {
            out.extend_from_slice(b"\x1b[?7h");
        }
        if self.margins.is_some() {
            // Setting the region moves the cursor, which the shell's prompt would show.
            out.extend_from_slice(b"\x1b7\x1b[r\x1b8");
        }
    }

    /// The bytes that switch on again what [`Self::off`] switched off.
    pub fn on(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for kind in &self.pushed_titles {
            out.extend_from_slice(format!("\x1b[22;{kind}t").as_bytes());
        }
        if let Some(level) = self.modify_other_keys {
            out.extend_from_slice(format!("\x1b[>4;{level}m").as_bytes());
        }
        if self.keypad {
            out.extend_from_slice(b"\x1b=");
        }
        if self.cursor_shape != 0 {
            out.extend_from_slice(format!("\x1b[{} q", self.cursor_shape).as_bytes());
        }
        self.screens_on(&mut out);
        if let Some((top, bottom)) = self.margins {
            out.extend_from_slice(format!("\x1b7\x1b[{top};{bottom}r\x1b8").as_bytes());
        }
        for (index, spec) in &self.palette {
            out.extend_from_slice(format!("\x1b]4;{index};").as_bytes());
            out.extend_from_slice(spec);
            out.extend_from_slice(b"\x1b\\");
        }
        for (number, spec) in &self.dynamic {
            out.extend_from_slice(format!("\x1b]{number};").as_bytes());
            out.extend_from_slice(spec);
            out.extend_from_slice(b"\x1b\\");
        }
        if let Some((state, percent)) = self.progress {
            out.extend_from_slice(format!("\x1b]9;4;{state};{percent}\x1b\\").as_bytes());
        }
        self.pen.on(&mut out);
        if let Some(link) = &self.link {
            out.extend_from_slice(b"\x1b]8;");
            out.extend_from_slice(link);
            out.extend_from_slice(b"\x1b\\");
        }
        out
    }

    /// The bytes that are held for colours, titles, keyboards and the link.
    pub(super) fn memory(&self) -> usize {
        let colours = self.palette.values().chain(self.dynamic.values());
        let numbers = self.pushed_titles.capacity()
            + self.keyboard.iter().map(|one| one.stack.capacity()).sum::<usize>();
        colours.chain(&self.link).map(Vec::capacity).sum::<usize>() + 2 * numbers
    }

    fn colours_off(&self, out: &mut Vec<u8>) {
        if !self.palette.is_empty() {
            out.extend_from_slice(b"\x1b]104");
            for index in self.palette.keys() {
                out.extend_from_slice(format!(";{index}").as_bytes());
            }
            out.extend_from_slice(b"\x1b\\");
        }
        for number in self.dynamic.keys() {
            out.extend_from_slice(format!("\x1b]{}\x1b\\", number + 100).as_bytes());
        }
    }

    /// Keyboard modes are kept per screen, so each is popped while its screen shows.
    fn screens_off(&self, out: &mut Vec<u8>) {
        let [main, alternate] = &self.keyboard;
        if self.in_alternate() {
            alternate.off(out);
        } else if *alternate != Keyboard::default() {
            out.extend_from_slice(b"\x1b[?47h");
            alternate.off(out);
            out.extend_from_slice(b"\x1b[?47l");
        }
        for row in self.changed_rows().rev().filter(|row| ALTERNATE.contains(&row.number)) {
            out.extend_from_slice(format!("\x1b[?{}l", row.number).as_bytes());
        }
        main.off(out);
    }

    /// The changed modes whose number is `chosen`, beside the screens.
    fn modes_off(&self, out: &mut Vec<u8>, chosen: impl Fn(u16) -> bool) {
        let rows = self.changed_rows().rev();
        for row in rows.filter(|row| !ALTERNATE.contains(&row.number) && chosen(row.number)) {
            let action = if row.initially == Initially::On { 'h' } else { 'l' };
            out.extend_from_slice(format!("\x1b[?{}{action}", row.number).as_bytes());
        }
    }

    /// What is unsure once [`Self::screens_off`] has left the alternate screen.
    fn unsure_after_screens(&self) -> u8 {
        let certain = if self.in_alternate() {
            self.saved.is_plain(SaveKind::Screen, 0)
        } else {
            self.keyboard[1] == Keyboard::default() || self.pen_changes() == 0
        };
        if certain { self.unsure } else { Pen::ALL | WRAP }
    }

    /// What of attributes, character sets and wrapping is not as it was, or may not be.
    fn pen_changes(&self) -> u8 {
        let wrap = if self.changed_rows().any(|row| row.number == 7) { WRAP } else { 0 };
        self.pen.changes() | wrap | self.unsure
    }

    fn screens_on(&self, out: &mut Vec<u8>) {
        let [main, alternate] = &self.keyboard;
        main.on(out);
        let (modes, screens): (Vec<_>, Vec<_>) =
            self.changed_rows().partition(|row| !ALTERNATE.contains(&row.number));
        for row in &screens {
            out.extend_from_slice(format!("\x1b[?{}h", row.number).as_bytes());
        }
        if screens.is_empty() && *alternate != Keyboard::default() {
            out.extend_from_slice(b"\x1b[?47h");
            alternate.on(out);
            out.extend_from_slice(b"\x1b[?47l");
        } else {
            alternate.on(out);
        }
        for row in modes {
            let action = if row.initially == Initially::On { 'l' } else { 'h' };
            out.extend_from_slice(format!("\x1b[?{}{action}", row.number).as_bytes());
        }
    }

    fn changed_rows(&self) -> impl DoubleEndedIterator<Item = &'static super::table::ModeRow> {
        let changed = self.changed;
        MODES.iter().enumerate().filter(move |(bit, _)| changed & (1 << bit) != 0).map(|(_, row)| row)
    }

    fn in_alternate(&self) -> bool {
        self.changed_rows().any(|row| ALTERNATE.contains(&row.number))
    }

    fn active_keyboard(&mut self) -> &mut Keyboard {
        let screen = usize::from(self.in_alternate());
        &mut self.keyboard[screen]
    }
}

/// Changes, made by the filter as it writes a sequence.
impl Modes {
    /// `row` is an index into [`MODES`].
    pub(super) fn set_mode(&mut self, row: usize, on: bool) {
        let number = MODES[row].number;
        match (number, on) {
            (1048, true) => self.save_cursor(SaveKind::Mode),
            (1048, false) => self.restore_cursor(SaveKind::Mode),
            (7, _) => self.unsure &= !WRAP,
            // Some terminals keep attributes for each screen, whatever the number says about the cursor.
            (number, true) if ALTERNATE.contains(&number) => self.save_cursor(SaveKind::Screen),
            (number, false) if ALTERNATE.contains(&number) => self.restore_cursor(SaveKind::Screen),
            _ => {}
        }
        if ALTERNATE.contains(&number) {
            for index in ALTERNATE.into_iter().filter_map(find_mode) {
                self.changed &= !(1 << index);
            }
        }
        let bit = 1 << row;
        match (MODES[row].initially, on) {
            (Initially::Action, _) => {}
            (Initially::Off, true) | (Initially::On, false) => self.changed |= bit,
            (Initially::Off, false) | (Initially::On, true) => self.changed &= !bit,
        }
    }

    /// The parameters of an SGR sequence, as [`super::attributes::Attributes::apply`] takes them.
    pub(super) fn set_attributes(&mut self, params: &[u16], colon: impl Fn(usize) -> bool) {
        self.pen.attributes.apply(params, &colon);
        // Only a reset makes all of them certain; that one was switched off does not.
        if params.first().is_none_or(|first| *first == 0 && !colon(1)) {
            self.unsure &= !Pen::ATTRIBUTES;
        }
    }

    pub(super) fn designate(&mut self, slot: u8, set: u8) {
        self.pen.sets[usize::from(slot & 3)] = set;
        self.unsure &= !Pen::slot(slot & 3);
    }

    pub(super) fn shift(&mut self, out: bool) {
        self.pen.shifted = out;
        self.unsure &= !Pen::SHIFT;
    }

    pub(super) fn save_cursor(&mut self, kind: SaveKind) {
        let screen = self.saved_on(kind);
        self.saved.save(kind, screen, self.pen, self.pen_changes() == 0);
    }

    /// The cursor comes back with attributes, character sets and wrapping as they were saved; terminals differ in how many
    /// places they have for that, and what they keep there.
    pub(super) fn restore_cursor(&mut self, kind: SaveKind) {
        let screen = self.saved_on(kind);
        self.unsure |= if self.saved.is_plain(kind, screen) { self.pen_changes() } else { Pen::ALL | WRAP };
        self.pen = self.saved.pen(kind, screen);
    }

    /// The screen whose cursor is saved.
    fn saved_on(&self, kind: SaveKind) -> usize {
        usize::from(kind != SaveKind::Screen && self.in_alternate())
    }

    pub(super) fn set_keypad(&mut self, application: bool) {
        self.keypad = application;
    }

    pub(super) fn set_margins(&mut self, top: u16, bottom: u16) {
        self.margins =
            (top > 1 || bottom > 0).then_some((top.max(1), bottom)).filter(|(_, bottom)| *bottom > 0);
        if top > 1 && bottom == 0 {
            // Up to the last line, whose number only the terminal knows; it takes any large one.
            self.margins = Some((top, 9999));
        }
    }

    pub(super) fn set_cursor_shape(&mut self, shape: u16) {
        self.cursor_shape = shape;
    }

    pub(super) fn set_modify_other_keys(&mut self, level: Option<u16>) {
        self.modify_other_keys = level.filter(|level| *level > 0);
    }

    pub(super) fn push_keyboard(&mut self, flags: u16) {
        let keyboard = self.active_keyboard();
        if keyboard.stack.len() == STACK {
            keyboard.stack.remove(0);
        }
        keyboard.stack.push(flags);
    }

    /// Takes back at most `count` levels, and none that the jail has not pushed. Returns how many.
    pub(super) fn pop_keyboard(&mut self, count: u16) -> usize {
        let stack = &mut self.active_keyboard().stack;
        let popped = stack.len().min(usize::from(count.max(1)));
        stack.truncate(stack.len() - popped);
        popped
    }

    /// Whether the keyboard's level is the user's own, which a change would overwrite.
    pub(super) fn keyboard_is_foreign(&mut self) -> bool {
        self.active_keyboard().stack.is_empty()
    }

    /// `how` is 1 to replace the flags, 2 to add to them, 3 to remove from them.
    pub(super) fn set_keyboard(&mut self, flags: u16, how: u16) {
        let keyboard = self.active_keyboard();
        let top = keyboard.stack.last_mut().unwrap_or(&mut keyboard.base);
        match how {
            2 => *top |= flags,
            3 => *top &= !flags,
            _ => *top = flags,
        }
    }

    pub(super) fn push_title(&mut self, kind: u16) {
        if self.pushed_titles.len() == STACK {
            self.pushed_titles.remove(0);
        }
        self.pushed_titles.push(kind);
    }

    pub(super) fn pop_title(&mut self) {
        self.pushed_titles.pop();
    }

    pub(super) fn set_palette(&mut self, index: u16, spec: &[u8]) {
        self.palette.insert(index, spec.to_vec());
    }

    pub(super) fn reset_palette(&mut self, index: Option<u16>) {
        match index {
            Some(index) => drop(self.palette.remove(&index)),
            None => self.palette.clear(),
        }
    }

    pub(super) fn set_dynamic(&mut self, number: u16, spec: &[u8]) {
        self.dynamic.insert(number, spec.to_vec());
    }

    pub(super) fn reset_dynamic(&mut self, number: u16) {
        self.dynamic.remove(&number);
    }

    /// `link` is what follows `8;`, or `None` when the link ends.
    pub(super) fn set_link(&mut self, link: Option<&[u8]>) {
        self.link = link.map(<[u8]>::to_vec);
    }

    pub(super) fn set_progress(&mut self, state: u16, percent: u16) {
        self.progress = (state > 0).then_some((state, percent));
    }

    /// What DECSTR brings back; screens, mouse, keyboards and colours stay as they are. Not every terminal knows it, so what
    /// it would bring back is written to `out` first.
    pub(super) fn soft_reset(&mut self, out: &mut Vec<u8>) {
        self.modes_off(out, |number| matches!(number, 1 | 7 | 25));
        self.pen_off(self.unsure, out);
        if self.keypad {
            out.extend_from_slice(b"\x1b>");
        }
        self.pen = Pen::default();
        self.unsure = 0;
        self.keypad = false;
        let region = self.margins.take().is_some();
        for (number, on) in [(1, false), (7, true), (25, true)] {
            if let Some(row) = find_mode(number) {
                self.set_mode(row, on);
            }
        }
        if region {
            // As was written when the region was reset.
            self.save_cursor(SaveKind::Escape);
        }
    }

    /// All goes back but the pushed titles; what brings it back is written to `out`.
    pub(super) fn full_reset(&mut self, out: &mut Vec<u8>) {
        self.reset(out);
        let region = self.margins.is_some();
        *self = Self {
            saved: self.saved,
            pushed_titles: std::mem::take(&mut self.pushed_titles),
            ..Self::default()
        };
        if region {
            self.save_cursor(SaveKind::Escape);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::terminal::class::Classes;
    use crate::terminal::filter::Filter;

    /// All that a saved cursor may bring back, switched off.
    const PEN: &str = "\x1b[m\x0f\x1b(B\x1b)B\x1b*B\x1b+B\x1b[?7h";

    #[test]
    fn only_what_is_on_is_switched_off_and_on_again() {
        let cases = [
            ("plain text\x1b[2J\x1b[?7h\x1b[?25h\x1b[?1000l", "", ""),
            ("\x1b[?25l\x1b[?7l", "\x1b[?25h\x1b[?7h", "\x1b[?7l\x1b[?25l"),
            ("\x1b[?1049h\x1b[?1003h", "\x1b[?1049l\x1b[?1003l", "\x1b[?1049h\x1b[?1003h"),
            ("\x1b[?1049h\x1b[?47l", "", ""),
            ("\x1b[>1u\x1b[>5u\x1b[<u", "\x1b[<1u", "\x1b[>1u"),
            ("\x1b[>1u\x1b[?1049h\x1b[>5u", "\x1b[<1u\x1b[?1049l\x1b[<1u", "\x1b[>1u\x1b[?1049h\x1b[>5u"),
            ("\x1b[?1049h\x1b[>5u\x1b[?1049l", "\x1b[?47h\x1b[<1u\x1b[?47l", "\x1b[?47h\x1b[>5u\x1b[?47l"),
            ("\x1b[=3u\x1b[=1;3u", "\x1b[<1u", "\x1b[>2u"),
            ("\x1b[>1u\x1b[=3u\x1b[<9u\x1b[<u", "", ""),
            ("\x1b[>4;2m", "\x1b[>4m", "\x1b[>4;2m"),
            ("\x1b[>4;2m\x1b[>4m", "", ""),
            ("\x1b(0\x0e", "\x0f\x1b(B", "\x1b(0\x0e"),
            ("\x1b[5;9r", "\x1b7\x1b[r\x1b8", "\x1b7\x1b[5;9r\x1b8"),
            ("\x1b[5;9r\x1b[r", "", ""),
            ("\x1b[4 q\x1b=", "\x1b[0 q\x1b>", "\x1b=\x1b[4 q"),
            ("\x1b[1;4:3;31m", "\x1b[m", "\x1b[1;4:3;31m"),
            (
                "\x1b]4;7;red\x07\x1b]11;#fff\x07",
                "\x1b]104;7\x1b\\\x1b]111\x1b\\",
                "\x1b]4;7;red\x1b\\\x1b]11;#fff\x1b\\",
            ),
            ("\x1b]4;7;red\x07\x1b]11;#fff\x07\x1b]104\x07\x1b]111\x07", "", ""),
            ("\x1b]8;id=a;http://a\x07", "\x1b]8;;\x1b\\", "\x1b]8;id=a;http://a\x1b\\"),
            ("\x1b]9;4;1;30\x07", "\x1b]9;4;0\x1b\\", "\x1b]9;4;1;30\x1b\\"),
            ("\x1b[22;0t\x1b[22;2t\x1b[23;0t", "\x1b[23;0t", "\x1b[22;0t"),
            ("\x1b[1m\x1b(0\x1b[?1h\x1b[?25l\x1b=\x1b[2;3r\x1bc", "", ""),
            // A restored cursor brings back what was saved, and of what was saved before nobody knows.
            ("\x1b7\x1b[31m\x1b8", "\x1b[m", ""),
            ("\x1b7\x1b[31m\x1b8\x1b[m", "", ""),
            ("\x1b(0\x1b[31;8m\x1b7\x1b(B\x1b[m\x1b8", PEN, "\x1b(0\x1b[8;31m"),
            ("\x1b[31m\x1b[s\x1b[m\x1b[u", PEN, "\x1b[31m"),
            ("\x1b[31m\x1b[?1048h\x1b[m\x1b[?1048l", PEN, "\x1b[31m"),
            ("\x1b[31m\x1b[?1049h\x1b[m\x1b[?1049l", PEN, "\x1b[31m"),
            ("\x1b7\x1b[31m\x1b[s\x1b[m\x1b8", PEN, ""),
            ("\x1b8", PEN, ""),
            ("\x1b[u\x1b[1m", PEN, "\x1b[1m"),
            ("\x1b8\x1b[m\x0f\x1b(B\x1b)B\x1b*B\x1b+B\x1b[?7h", "", ""),
            ("\x1b8\x1b[22m\x0f\x1b(B\x1b)B\x1b*B\x1b+B\x1b[?7h", "\x1b[m", ""),
            ("\x1b7\x1b[?1049h\x1b8", &format!("\x1b[?1049l{PEN}"), "\x1b[?1049h"),
            ("\x1b[?1049h\x1b[31m", "\x1b[?1049l\x1b[m", "\x1b[?1049h\x1b[31m"),
            ("\x1b[31;8m\x1b[?1049hX", &format!("\x1b[?1049l{PEN}"), "\x1b[?1049h\x1b[8;31m"),
            ("\x1b[?7l\x1b7\x1b[?7h\x1b8", PEN, ""),
        ];
        for (written, off, on) in cases {
            let mut filter = Filter::new(Classes::default());
            filter.push(written.as_bytes(), &mut Vec::new());
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
            assert_eq!(
                (text(filter.modes().off()).as_str(), text(filter.modes().on()).as_str()),
                (off, on),
                "{written:?}"
            );
        }
    }
}
