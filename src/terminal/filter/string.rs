//! Strings: operating system commands, device control strings, application program commands, and those that
//! are swallowed.

use super::device::{self, Data};
use super::osc::{End, Fill};
use super::params::Fed;
use super::text::Decoded;
use super::{CAN, ESC, Filter, Kind, REPLACEMENT, SUB, State};
use crate::terminal::class::Class;

/// Bytes of a string that are kept until its end decides.
const STRING: usize = 8 * 1024;
/// The same while clipboard writes pass.
pub(super) const STRING_WITH_CLIPBOARD: usize = 128 * 1024;
/// The string terminator as a C1 control.
const ST: u8 = 0x9c;

impl Filter {
    /// Unlike in a control sequence, control characters have no effect, and bytes from 0x80 spoil the string
    /// rather than end it.
    pub(super) fn device_header(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            ESC | CAN | SUB => drop(self.interrupts(byte, out)),
            0x00..=0x1f | 0x7f => {}
            0x80.. => {
                self.tracker.dropped(Class::Malformed);
                self.state = self.string(Kind::Swallowed);
                self.text_high(Kind::Swallowed, byte, out);
            }
            _ => {
                if let Fed::Final(last) = self.sequence.feed(byte) {
                    self.state = self.device_string(last, out);
                }
            }
        }
    }

    fn device_string(&mut self, last: u8, out: &mut Vec<u8>) -> State {
        let (prefix, inter) = (self.sequence.prefix, self.sequence.inter);
        let well_formed = !self.sequence.is_malformed() && !self.sequence.has_colons() && prefix == 0;
        match (inter, last) {
            (0, b'q')
                if well_formed && self.sequence.count() <= 3 && self.tracker.classes.allows(Class::Image) =>
            {
                self.sequence.write(b'P', b'q', out);
                self.string(Kind::Streamed(Data::Sixel))
            }
            (b'+', b'q') if well_formed && self.sequence.count() == 0 => self.string(Kind::CapabilityQuery),
            _ => {
                self.tracker.dropped(device::class_of(prefix, inter, last));
                self.string(Kind::Swallowed)
            }
        }
    }

    pub(super) fn string(&mut self, kind: Kind) -> State {
        self.string.clear();
        self.fill = Fill::Whole;
        self.decoder.clear();
        State::Text(kind)
    }

    pub(super) fn text(&mut self, kind: Kind, byte: u8, out: &mut Vec<u8>) {
        if byte >= 0x80 {
            return self.text_high(kind, byte, out);
        }
        self.decoder.clear();
        match byte {
            ESC => self.state = State::TextEscape(kind),
            CAN | SUB => {
                self.break_string(kind, out);
                self.state = State::Ground;
            }
            0x07 if kind == Kind::SystemCommand => self.end_string(kind, End::Bell, out),
            0x20..=0x7e => self.text_bytes(kind, &[byte], out),
            _ => {}
        }
    }

    pub(super) fn text_high(&mut self, kind: Kind, byte: u8, out: &mut Vec<u8>) {
        match self.decoder.feed(byte) {
            Decoded::Partial => {}
            Decoded::Character(bytes, length) => self.text_bytes(kind, &bytes[..length], out),
            Decoded::C1(ST) => self.end_string(kind, End::StringTerminator, out),
            Decoded::C1(_) => self.tracker.dropped(Class::C1),
            Decoded::Invalid => self.text_bytes(kind, REPLACEMENT, out),
            Decoded::InvalidBefore => {
                self.text_bytes(kind, REPLACEMENT, out);
                self.text_high(kind, byte, out);
            }
        }
    }

    /// One character of a string.
    fn text_bytes(&mut self, kind: Kind, bytes: &[u8], out: &mut Vec<u8>) {
        match kind {
            Kind::Swallowed => {}
            Kind::Streamed(data) => {
                if let [byte] = *bytes
                    && data.admits(byte)
                {
                    out.push(byte);
                }
            }
            Kind::Application if bytes == b";" => {
                self.state = State::Text(self.begin_graphics(out));
            }
            Kind::SystemCommand | Kind::CapabilityQuery | Kind::Application => {
                let most = if self.tracker.classes.allows(Class::ClipboardWrite) {
                    STRING_WITH_CLIPBOARD
                } else {
                    STRING
                };
                if self.fill == Fill::Overflowed || self.string.len() + bytes.len() > most {
                    self.fill = Fill::Overflowed;
                } else {
                    self.string.extend_from_slice(bytes);
                }
            }
        }
    }

    /// Decides about a graphics command, writes its start, and says what its payload is.
    fn begin_graphics(&mut self, out: &mut Vec<u8>) -> Kind {
        if self.fill == Fill::Overflowed {
            self.tracker.dropped(Class::Malformed);
            return Kind::Swallowed;
        }
        if !self.tracker.admits_graphics(&self.string) {
            return Kind::Swallowed;
        }
        out.extend_from_slice(b"\x1b_");
        out.extend_from_slice(&self.string);
        out.push(b';');
        Kind::Streamed(Data::Base64)
    }

    pub(super) fn end_string(&mut self, kind: Kind, end: End, out: &mut Vec<u8>) {
        match kind {
            Kind::SystemCommand => self.tracker.system_command(&self.string, self.fill, end, out),
            Kind::CapabilityQuery if self.fill == Fill::Overflowed => self.tracker.dropped(Class::Malformed),
            Kind::CapabilityQuery => self.tracker.capability_query(&self.string, out),
            Kind::Application if self.fill == Fill::Overflowed => self.tracker.dropped(Class::Malformed),
            Kind::Application => {
                if self.tracker.admits_graphics(&self.string) {
                    out.extend_from_slice(b"\x1b_");
                    out.extend_from_slice(&self.string);
                    out.extend_from_slice(b"\x1b\\");
                }
            }
            Kind::Streamed(_) => out.extend_from_slice(b"\x1b\\"),
            Kind::Swallowed => {}
        }
        self.string.clear();
        self.state = State::Ground;
    }

    /// A string that was cancelled or broken off: nothing of it passes.
    pub(super) fn break_string(&mut self, kind: Kind, out: &mut Vec<u8>) {
        if kind != Kind::Swallowed {
            self.tracker.dropped(Class::Malformed);
        }
        self.leave_string(out);
    }

    /// Closes what the terminal has already seen of a string, and forgets the rest.
    pub(super) fn leave_string(&mut self, out: &mut Vec<u8>) {
        if let State::Text(Kind::Streamed(_)) | State::TextEscape(Kind::Streamed(_)) = self.state {
            out.extend_from_slice(b"\x1b\\");
        }
        self.string.clear();
        self.decoder.clear();
    }
}
