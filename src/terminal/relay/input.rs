//! What the user's terminal sends: it passes unchanged, but answers and suspend keys are noticed on the way.

use crate::terminal::filter::params::{Fed, Sequence};

/// Something in the input that matters to the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// The answer to a query.
    Answer,
    /// The answer to DA1.
    FenceAnswer,
    /// The suspend character, or Ctrl-Z as a keyboard protocol writes it.
    SuspendKey,
}

/// Reads along; sequences may arrive in pieces.
#[derive(Debug)]
pub(super) struct Scanner {
    state: State,
    sequence: Sequence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ground,
    Escape,
    Control,
    String,
    StringEscape,
}

impl Scanner {
    pub(super) fn new() -> Self {
        Self { state: State::Ground, sequence: Sequence::new() }
    }

    /// Looks at `input`; `suspend` is the terminal's suspend character, 0 when there is none.
    pub(super) fn scan(&mut self, input: &[u8], suspend: u8, mut seen: impl FnMut(Seen)) {
        for byte in input {
            if *byte == suspend && suspend != 0 {
                seen(Seen::SuspendKey);
                self.state = State::Ground;
                continue;
            }
            self.state = match (self.state, *byte) {
                (State::String, 0x07) | (State::StringEscape, b'\\') => {
                    seen(Seen::Answer);
                    State::Ground
                }
                (State::String, 0x1b) => State::StringEscape,
                (State::String, _) => State::String,
                (_, 0x1b) => State::Escape,
                (State::Escape | State::StringEscape, b'[') => {
                    self.sequence.clear();
                    State::Control
                }
                (State::Escape | State::StringEscape, b']' | b'P' | b'_') => State::String,
                (State::Control, 0x20..=0x7e) => match self.sequence.feed(*byte) {
                    Fed::More => State::Control,
                    Fed::Final(last) => {
                        if let Some(what) = meaning(&self.sequence, last) {
                            seen(what);
                        }
                        State::Ground
                    }
                },
                _ => State::Ground,
            };
        }
    }
}

fn meaning(sequence: &Sequence, last: u8) -> Option<Seen> {
    match (sequence.prefix, last) {
        (b'?', b'c') => Some(Seen::FenceAnswer),
        (b'>' | b'=', b'c') | (0, b'R' | b'n' | b't') | (_, b'y') | (b'?', b'u' | b'R') | (b'>', b'm') => {
            Some(Seen::Answer)
        }
        (0, b'u') if is_control_z(sequence, 0, 1) => Some(Seen::SuspendKey),
        (0, b'~') if sequence.value(0) == Some(27) && is_control_z(sequence, 2, 1) => Some(Seen::SuspendKey),
        _ => None,
    }
}

/// Whether the parameters at these places, sub-parameters not counted, are the letter z and Control alone.
/// The lock keys are part of the modifiers and do not matter.
fn is_control_z(sequence: &Sequence, key: usize, modifiers: usize) -> bool {
    const CONTROL: u16 = 4;
    const SHIFT_TO_META: u16 = 63;
    let main: Vec<_> = (0..sequence.count())
        .filter(|index| !sequence.is_colon(*index))
        .map(|index| sequence.value(index))
        .collect();
    let at = |place: usize| main.get(place).copied().flatten().unwrap_or(1);
    at(key) == u16::from(b'z') && at(modifiers).saturating_sub(1) & SHIFT_TO_META == CONTROL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_suspend_keys_are_noticed_in_any_pieces() {
        let cases: &[(&str, &[Seen])] = &[
            ("\x1b", &[]),
            ("a\x1b[A\x1bOP", &[]),
            ("\x1a", &[Seen::SuspendKey]),
            ("\x1b[122;5u", &[Seen::SuspendKey]),
            ("\x1b[122:90;69:1u", &[Seen::SuspendKey]),
            ("\x1b[27;5;122~", &[Seen::SuspendKey]),
            ("\x1b[122;6u\x1b[122;3u\x1b[121;5u\x1b[27;5;99~\x1b[122u", &[]),
            ("\x1b[?62;4c", &[Seen::FenceAnswer]),
            ("\x1b[3;4R", &[Seen::Answer]),
            ("\x1b]11;rgb:0/0/0\x07", &[Seen::Answer]),
            ("\x1b]11;rgb:0/0/0\x1b\\x", &[Seen::Answer]),
            ("\x1bP>|xterm\x1b\\\x1b[?0u", &[Seen::Answer, Seen::Answer]),
            ("\x1bP\x1a", &[Seen::SuspendKey]),
            ("\x1b[<0;1;2M\x1b[I\x1b[200~x\x1b[201~", &[]),
        ];
        for (input, want) in cases {
            for size in [1, 2, 100] {
                let mut scanner = Scanner::new();
                let mut got = Vec::new();
                for piece in input.as_bytes().chunks(size) {
                    scanner.scan(piece, 0x1a, |seen| got.push(seen));
                }
                assert_eq!(got, *want, "{input:?} in pieces of {size}");
            }
        }
    }
}
