//! The filter: what the jail writes goes in, what the user's terminal may see comes out.
//!
//! A byte state machine of bounded memory. Text is copied; everything else is taken apart and written anew in its
//! 7-bit form, so the terminal never sees a byte that was interpreted here and might mean something else there.
//! However the input is cut, the output is the same.

mod copies;
mod csi;
mod device;
mod osc;
pub(in crate::terminal) mod params;
mod queries;
mod string;
#[cfg(test)]
mod tests;
mod text;
mod tracker;

pub use self::copies::Copies;
pub use self::queries::Queries;

use self::device::Data;
use self::osc::{End, Fill};
use self::params::{Fed, Sequence};
use self::text::{Decoded, Decoder, plain_run};
use self::tracker::{Reach, Tracker};
use super::class::{Class, Classes, Drops};
use super::modes::Modes;

const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();
const ESC: u8 = 0x1b;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;

/// The filter for one stream of output.
#[derive(Debug)]
pub struct Filter {
    state: State,
    sequence: Sequence,
    decoder: Decoder,
    string: Vec<u8>,
    fill: Fill,
    tracker: Tracker,
    /// Whether text stands on the last line, so that what is said next would follow it there.
    in_line: bool,
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
                reach: Reach::Listed,
                classes,
                drops: Drops::default(),
                modes: Modes::default(),
                queries: Queries::default(),
                copies: Copies::default(),
            },
            in_line: false,
            scratch: Vec::new(),
        }
    }

    /// A filter of the same classes for what this one let pass, while the terminal is somebody else's: no query passes, and
    /// nothing that switches a mode.
    pub fn picture_only(&self) -> Self {
        let classes = self.tracker.classes;
        let mut filter = Self::new(if classes.is_filtered() { classes } else { Classes::default() });
        filter.tracker.reach = Reach::PictureOnly;
        filter
    }

    /// Takes the next bytes of the stream and appends what passes to `out`: at most three bytes for each of
    /// `input`, a string that was kept, and what a reset switches off.
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

    /// Whether the output ended within a line.
    pub fn is_in_line(&self) -> bool {
        self.in_line
    }

    /// What was copied to the clipboard.
    pub fn copies(&self) -> &Copies {
        &self.tracker.copies
    }

    /// The bytes that are held between two calls: bounded, whatever the input was.
    pub fn memory(&self) -> usize {
        self.string.capacity() + self.scratch.capacity() + self.tracker.modes.memory()
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
            if self.state == State::Ground {
                self.in_line = !matches!(rest[run - 1], b'\n' | b'\r');
            }
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
            Decoded::Character(bytes, length) => {
                self.in_line = true;
                out.extend_from_slice(&bytes[..length]);
            }
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

    fn replace_partial(&mut self, out: &mut Vec<u8>) {
        if self.decoder.is_partial() {
            self.decoder.clear();
            out.extend_from_slice(REPLACEMENT);
        }
    }
}
