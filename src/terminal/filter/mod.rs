//! The filter: what the jail writes goes in, what the user's terminal may see comes out.
//!
//! A byte state machine of bounded memory. Text is copied; everything else is taken apart and written anew in its
//! 7-bit form, so the terminal never sees a byte that was interpreted here and might mean something else there.
//! However the input is cut, the output is the same.

mod csi;
mod device;
mod osc;
pub(in crate::terminal) mod params;
mod queries;
#[cfg(test)]
mod tests;
mod text;
mod tracker;

pub use self::queries::Queries;

use self::device::Data;
use self::osc::{End, Fill};
use self::params::{Fed, Sequence};
use self::text::{Decoded, Decoder, plain_run};
use self::tracker::Tracker;
use super::class::{Class, Classes, Drops};
use super::modes::Modes;

/// Bytes of a string that are kept until its end decides.
const STRING: usize = 8 * 1024;
/// The same while clipboard writes pass.
const STRING_WITH_CLIPBOARD: usize = 128 * 1024;
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();
const ESC: u8 = 0x1b;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const ST: u8 = 0x9c;

/// The filter for one stream of output.
#[derive(Debug)]
pub struct Filter {
    state: State,
    sequence: Sequence,
    decoder: Decoder,
    string: Vec<u8>,
    fill: Fill,
    tracker: Tracker,
    /// Output that is not wanted, when only modes are tracked.
    scratch: Vec<u8>,
}

/// The place in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ground,
    Escape,
    EscapeInter {
        inter: u8,
        too_many: bool,
    },
    Control,
    DeviceHeader,
    Text(Kind),
    /// ESC inside a string: with `\` it ends the string, with anything else it breaks it off.
    TextEscape(Kind),
}

/// The string that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    SystemCommand,
    CapabilityQuery,
    /// An application program command, up to the end of its control data.
    Application,
    /// Passes as it comes.
    Streamed(Data),
    /// Swallowed and already counted.
    Swallowed,
}

impl Filter {
    /// A filter that lets `classes` pass, at the start of a stream.
    pub fn new(classes: Classes) -> Self {
        Self {
            state: State::Ground,
            sequence: Sequence::new(),
            decoder: Decoder::default(),
            string: Vec::new(),
            fill: Fill::Whole,
            tracker: Tracker {
                classes,
                drops: Drops::default(),
                modes: Modes::default(),
                queries: Queries::default(),
            },
            scratch: Vec::new(),
        }
    }

    /// Takes the next bytes of the stream and appends what passes to `out`: at most three bytes for each of
    /// `input`, and a string that was kept.
    pub fn push(&mut self, input: &[u8], out: &mut Vec<u8>) {
        if self.tracker.classes.is_filtered() {
            return self.run(input, out);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        self.run(input, &mut scratch);
        scratch.clear();
        self.scratch = scratch;
        out.extend_from_slice(input);
    }

    /// Ends the stream: an incomplete character becomes U+FFFD, an incomplete sequence is dropped, an image
    /// that was streaming is closed.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.tracker.classes.is_filtered() {
            return;
        }
        match self.state {
            State::Ground => self.replace_partial(out),
            State::Text(Kind::Swallowed) | State::TextEscape(Kind::Swallowed) => {}
            _ => self.tracker.dropped(Class::Unterminated),
        }
        self.leave_string(out);
        self.state = State::Ground;
    }

    /// Makes it safe to write other sequences between this output and the next: an image that was streaming
    /// is closed, and its rest is swallowed.
    pub fn interrupt(&mut self, out: &mut Vec<u8>) {
        let next = match self.state {
            State::Text(Kind::Streamed(_)) => State::Text(Kind::Swallowed),
            State::TextEscape(Kind::Streamed(_)) => State::TextEscape(Kind::Swallowed),
            _ => return,
        };
        self.leave_string(out);
        self.state = next;
    }

    /// What was dropped so far.
    pub fn drops(&self) -> &Drops {
        &self.tracker.drops
    }

    /// What is switched on in the terminal.
    pub fn modes(&self) -> &Modes {
        &self.tracker.modes
    }

    /// The queries that passed and have no answer yet.
    pub fn queries(&mut self) -> &mut Queries {
        &mut self.tracker.queries
    }

    fn run(&mut self, input: &[u8], out: &mut Vec<u8>) {
        let mut rest = input;
        while !rest.is_empty() {
            // What can be taken in one piece is; a character that came in part cannot.
            if !self.decoder.is_partial() {
                rest = self.take_run(rest, out);
            }
            let Some((first, after)) = rest.split_first() else { return };
            self.step(*first, out);
            rest = after;
        }
    }

    /// Takes as much as is sure to be text, image data or parameters, and returns the rest.
    #[inline]
    fn take_run<'a>(&mut self, input: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let mut rest = input;
        let run = match self.state {
            State::Ground => plain_run(rest),
            State::Text(Kind::Streamed(data)) => rest.iter().take_while(|byte| data.admits(**byte)).count(),
            _ => 0,
        };
        if run > 0 {
            out.extend_from_slice(&rest[..run]);
            rest = &rest[run..];
        }
        if self.state == State::Ground
            && let [ESC, b'[', parameters @ ..] = rest
        {
            self.sequence.clear();
            self.state = State::Control;
            rest = parameters;
        }
        if self.state == State::Control {
            rest = &rest[self.sequence.feed_numbers(rest)..];
        }
        rest
    }

    fn step(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.state {
            State::Ground => self.ground(byte, out),
            State::Escape => self.escape(byte, out),
            State::EscapeInter { inter, too_many } => self.escape_inter(inter, too_many, byte, out),
            State::Control => self.control_byte(byte, out),
            State::DeviceHeader => self.device_header(byte, out),
            State::Text(kind) => self.text(kind, byte, out),
            State::TextEscape(kind) => {
                if byte == b'\\' {
                    self.end_string(kind, End::StringTerminator, out);
                } else {
                    self.break_string(kind, out);
                    self.state = State::Escape;
                    self.escape(byte, out);
                }
            }
        }
    }

    fn ground(&mut self, byte: u8, out: &mut Vec<u8>) {
        if byte < 0x80 {
            self.replace_partial(out);
            return match byte {
                ESC => self.state = State::Escape,
                0x20..=0x7e => out.push(byte),
                _ => self.c0(byte, out),
            };
        }
        match self.decoder.feed(byte) {
            Decoded::Partial => {}
            Decoded::Character(bytes, length) => out.extend_from_slice(&bytes[..length]),
            Decoded::C1(_) => self.tracker.dropped(Class::C1),
            Decoded::Invalid => out.extend_from_slice(REPLACEMENT),
            Decoded::InvalidBefore => {
                out.extend_from_slice(REPLACEMENT);
                self.ground(byte, out);
            }
        }
    }

    /// A control character, at once, wherever it stands.
    fn c0(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            0x07..=0x0a | b'\r' => out.push(byte),
            0x0e | 0x0f => {
                self.tracker.modes.shift(byte == 0x0e);
                out.push(byte);
            }
            0x05 => self.tracker.dropped(Class::Query),
            _ => self.tracker.dropped(Class::Control),
        }
    }

    /// What control characters and bytes from 0x80 do inside an escape or control sequence: whether that was
    /// all there is to do about `byte`.
    fn interrupts(&mut self, byte: u8, out: &mut Vec<u8>) -> bool {
        match byte {
            ESC => {
                if self.state != State::Escape {
                    self.tracker.dropped(Class::Malformed);
                }
                self.state = State::Escape;
            }
            CAN | SUB => {
                self.tracker.dropped(Class::Malformed);
                self.state = State::Ground;
            }
            0x00..=0x1f | 0x7f => self.c0(byte, out),
            0x80.. => {
                self.tracker.dropped(Class::Malformed);
                self.state = State::Ground;
                self.ground(byte, out);
            }
            _ => return false,
        }
        true
    }

    fn escape(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.interrupts(byte, out) {
            return;
        }
        self.state = match byte {
            b'[' => {
                self.sequence.clear();
                State::Control
            }
            b'P' => {
                self.sequence.clear();
                State::DeviceHeader
            }
            b']' => self.string(Kind::SystemCommand),
            b'_' => self.string(Kind::Application),
            b'X' | b'^' | b'k' => {
                self.tracker.dropped(if byte == b'k' { Class::Title } else { Class::Unlisted });
                self.string(Kind::Swallowed)
            }
            b'\\' => State::Ground,
            b' '..=b'/' => State::EscapeInter { inter: byte, too_many: false },
            _ => {
                self.tracker.escape_sequence(0, byte, out);
                State::Ground
            }
        };
    }

    fn escape_inter(&mut self, inter: u8, too_many: bool, byte: u8, out: &mut Vec<u8>) {
        if self.interrupts(byte, out) {
            return;
        }
        match byte {
            b' '..=b'/' => self.state = State::EscapeInter { inter, too_many: true },
            _ => {
                if too_many {
                    self.tracker.dropped(Class::Malformed);
                } else {
                    self.tracker.escape_sequence(inter, byte, out);
                }
                self.state = State::Ground;
            }
        }
    }

    fn control_byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.interrupts(byte, out) {
            return;
        }
        if let Fed::Final(last) = self.sequence.feed(byte) {
            self.tracker.control_sequence(&self.sequence, last, out);
            self.state = State::Ground;
        }
    }

    /// Unlike in a control sequence, control characters have no effect, and bytes from 0x80 spoil the string
    /// rather than end it.
    fn device_header(&mut self, byte: u8, out: &mut Vec<u8>) {
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

    fn string(&mut self, kind: Kind) -> State {
        self.string.clear();
        self.fill = Fill::Whole;
        self.decoder.clear();
        State::Text(kind)
    }

    fn text(&mut self, kind: Kind, byte: u8, out: &mut Vec<u8>) {
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

    fn text_high(&mut self, kind: Kind, byte: u8, out: &mut Vec<u8>) {
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

    fn end_string(&mut self, kind: Kind, end: End, out: &mut Vec<u8>) {
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
    fn break_string(&mut self, kind: Kind, out: &mut Vec<u8>) {
        if kind != Kind::Swallowed {
            self.tracker.dropped(Class::Malformed);
        }
        self.leave_string(out);
    }

    /// Closes what the terminal has already seen of a string, and forgets the rest.
    fn leave_string(&mut self, out: &mut Vec<u8>) {
        if let State::Text(Kind::Streamed(_)) | State::TextEscape(Kind::Streamed(_)) = self.state {
            out.extend_from_slice(b"\x1b\\");
        }
        self.string.clear();
        self.decoder.clear();
    }

    fn replace_partial(&mut self, out: &mut Vec<u8>) {
        if self.decoder.is_partial() {
            self.decoder.clear();
            out.extend_from_slice(REPLACEMENT);
        }
    }
}
