//! Complete control and escape sequences: which pass, and what they change.

use super::params::{Sequence, write_number};
use super::tracker::{Reach, Tracker};
use crate::terminal::class::Class;
use crate::terminal::saved::SaveKind;
use crate::terminal::table::{
    Args, CsiRow, Effect, EscEffect, WINDOW, WindowOp, find_csi, find_esc, find_mode,
};

/// Written in place of a full reset.
const SOFT_RESET: &[u8] = b"\x1b[!p";

impl Tracker {
    /// Writes a control sequence if it passes.
    pub(super) fn control_sequence(&mut self, sequence: &Sequence, last: u8, out: &mut Vec<u8>) {
        if sequence.is_malformed() {
            return self.dropped(Class::Malformed);
        }
        let Some(row) = find_csi(sequence.prefix, sequence.inter, last) else {
            return self.dropped(class_of(sequence, last));
        };
        if !fits(row, sequence) {
            return self.dropped(class_of(sequence, last));
        }
        if self.reach == Reach::PictureOnly && !row.effect.is_picture() {
            return self.dropped(class_of(sequence, last));
        }
        match row.effect {
            Effect::SetModes => return self.private_modes(sequence, b'h', out),
            Effect::ResetModes => return self.private_modes(sequence, b'l', out),
            Effect::Window => return self.window(sequence, out),
            Effect::KittyPop => return self.pop_keyboard(sequence, out),
            effect => self.apply(effect, sequence, out),
        }
        sequence.write(b'[', last, out);
    }

    /// Writes a plain escape sequence if it passes. `inter` is 0 when there is none.
    pub(super) fn escape_sequence(&mut self, inter: u8, last: u8, out: &mut Vec<u8>) {
        let Some(row) = find_esc(inter, last) else {
            return self.dropped(match (inter, last) {
                (b'%' | b' ' | b'('..=b'/', _) | (0, b'N' | b'O' | b'n' | b'o' | b'|'..=b'~') => {
                    Class::Charset
                }
                (0, b'Z') => Class::Query,
                _ => Class::Unlisted,
            });
        };
        if self.reach == Reach::PictureOnly && !row.effect.is_picture() {
            return self.dropped(Class::Unlisted);
        }
        match row.effect {
            EscEffect::Picture => {}
            EscEffect::KeypadApplication => self.modes.set_keypad(true),
            EscEffect::KeypadNumeric => self.modes.set_keypad(false),
            EscEffect::Designate(slot) => self.modes.designate(slot, last),
            EscEffect::SaveCursor => self.modes.save_cursor(SaveKind::Escape),
            EscEffect::RestoreCursor => self.modes.restore_cursor(SaveKind::Escape),
            EscEffect::SoftReset => {
                self.modes.full_reset(out);
                return out.extend_from_slice(SOFT_RESET);
            }
        }
        out.push(0x1b);
        if inter != 0 {
            out.push(inter);
        }
        out.push(last);
    }

    /// Tracks what a sequence changes. What has to stand before it is written.
    fn apply(&mut self, effect: Effect, sequence: &Sequence, out: &mut Vec<u8>) {
        let first = sequence.value(0);
        match effect {
            Effect::Picture | Effect::SetModes | Effect::ResetModes | Effect::Window | Effect::KittyPop => {}
            Effect::SaveCursor => self.modes.save_cursor(SaveKind::Control),
            Effect::RestoreCursor => self.modes.restore_cursor(SaveKind::Control),
            Effect::Query => self.queries.asked(),
            Effect::Fence => self.queries.fence_asked(),
            Effect::Attributes => {
                self.modes.set_attributes(sequence.values(), |index| sequence.is_colon(index));
            }
            Effect::Margins => self.modes.set_margins(first.unwrap_or(0), sequence.value(1).unwrap_or(0)),
            Effect::CursorShape => self.modes.set_cursor_shape(first.unwrap_or(0)),
            Effect::KittyPush => self.modes.push_keyboard(first.unwrap_or(0)),
            Effect::KittySet => {
                if self.classes.is_filtered() && self.modes.keyboard_is_foreign() {
                    self.modes.push_keyboard(0);
                    out.extend_from_slice(b"\x1b[>0u");
                }
                self.modes.set_keyboard(first.unwrap_or(0), sequence.value(1).unwrap_or(1));
            }
            Effect::ModifyOtherKeys => self.modes.set_modify_other_keys(sequence.value(1)),
            Effect::SoftReset if self.classes.is_filtered() => self.modes.soft_reset(out),
            // It passes alone then, and not every terminal knows it.
            Effect::SoftReset => {}
        }
    }

    /// Writes a pop of keyboard levels, of as many as the jail has pushed: those below are the user's own.
    fn pop_keyboard(&mut self, sequence: &Sequence, out: &mut Vec<u8>) {
        let count = sequence.value(0).unwrap_or(1).max(1);
        let popped = self.modes.pop_keyboard(count);
        if popped == 0 {
            // Nothing is lost, so it does not count as dropped: claude and codex do so at every start or end.
            return;
        }
        if popped == usize::from(count) {
            return sequence.write(b'[', b'u', out);
        }
        out.extend_from_slice(format!("\x1b[<{popped}u").as_bytes());
    }

    /// Writes the listed modes of a sequence, in one sequence.
    fn private_modes(&mut self, sequence: &Sequence, action: u8, out: &mut Vec<u8>) {
        let mut passed = false;
        for index in 0..sequence.count().max(1) {
            let Some((mode, row)) = sequence.value(index).and_then(|mode| Some((mode, find_mode(mode)?)))
            else {
                self.dropped(Class::Mode);
                continue;
            };
            out.extend_from_slice(if passed { b";" } else { b"\x1b[?" });
            write_number(mode, out);
            self.modes.set_mode(row, action == b'h');
            passed = true;
        }
        if passed {
            out.push(action);
        }
    }

    fn window(&mut self, sequence: &Sequence, out: &mut Vec<u8>) {
        let kind = sequence.value(1).unwrap_or(0);
        let row = WINDOW.iter().find(|row| Some(row.number) == sequence.value(0));
        match row.map(|row| row.op) {
            Some(WindowOp::Size) if sequence.count() == 1 => self.queries.asked(),
            Some(WindowOp::PushTitle) if is_title(sequence) && self.classes.allows(Class::Title) => {
                self.modes.push_title(kind);
            }
            Some(WindowOp::PopTitle) if is_title(sequence) && self.classes.allows(Class::Title) => {
                self.modes.pop_title();
            }
            _ => return self.dropped(Class::Window),
        }
        sequence.write(b'[', b't', out);
    }
}

/// Whether a title operation is about the icon title, the window title, or both. terminfo's smcup has a third
/// parameter, the place in the stack; 0 is the top.
fn is_title(sequence: &Sequence) -> bool {
    sequence.count() <= 3 && sequence.value(1).unwrap_or(0) <= 2 && sequence.value(2).unwrap_or(0) == 0
}

fn fits(row: &CsiRow, sequence: &Sequence) -> bool {
    if sequence.has_colons() && row.args != Args::Sgr {
        return false;
    }
    let count = sequence.count();
    let first = sequence.value(0).unwrap_or(0);
    match row.args {
        Args::Numbers(most) => count <= usize::from(most),
        Args::OneOf(numbers) => count <= 1 && numbers.contains(&first),
        Args::Sgr | Args::Modes | Args::Window => true,
        Args::ModifyOtherKeys => count <= 2 && first == 4 && sequence.value(1).unwrap_or(0) <= 3,
        Args::KittyFlags => count <= 2 && first < 32 && matches!(sequence.value(1), None | Some(1..=3)),
    }
}

/// The class of a control sequence that does not pass.
fn class_of(sequence: &Sequence, last: u8) -> Class {
    match (sequence.prefix, sequence.inter, last) {
        (_, _, b't') => Class::Window,
        (_, 0, b'h' | b'l') | (b'?', 0, b'r' | b's') => Class::Mode,
        (_, 0, b'i') => Class::Media,
        (_, _, b'c' | b'n' | b'x' | b'y') | (_, b'$', b'p' | b'u' | b'w') | (_, b'*', _) => Class::Query,
        _ => Class::Unlisted,
    }
}
