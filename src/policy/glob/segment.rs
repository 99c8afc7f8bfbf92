//! One segment of a glob against one name.

use super::{Refused, refused};

/// Whether letters differ by their case: in a directory that ignores it they do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// They do.
    Sensitive,
    /// They do not.
    Ignored,
}

/// What a name has to look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    tokens: Vec<Token>,
    /// The bytes that every match ends with, but for the case of letters.
    ending: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// `*`.
    Any,
    /// `?`.
    One,
    /// This character.
    This(u32),
    /// One of these, or none of them.
    Class { negated: bool, ranges: Vec<(u32, u32)> },
}

/// A byte that is no part of a character is beyond all of them.
const NO_CHARACTER: u32 = 0x11_0000;

impl Shape {
    /// Every name.
    pub(super) fn any() -> Self {
        Self { tokens: vec![Token::Any], ending: Vec::new() }
    }

    pub(super) fn parse(name: &[u8]) -> Result<Self, Refused> {
        let mut tokens = Vec::new();
        let mut ending = Vec::new();
        let mut rest = name;
        while let Some((unit, after)) = next(rest) {
            let used = &rest[..rest.len() - after.len()];
            rest = after;
            let token = match used {
                b"*" => Token::Any,
                b"?" => Token::One,
                b"[" => {
                    let (class, after) = class(rest)?;
                    rest = after;
                    class
                }
                _ => Token::This(unit),
            };
            match token {
                Token::This(_) => ending.extend_from_slice(used),
                _ => ending.clear(),
            }
            tokens.push(token);
        }
        Ok(Self { tokens, ending })
    }

    /// Whether a whole name has this shape. Takes at most the product of both lengths.
    pub(super) fn matches(&self, name: &[u8], case: Case) -> bool {
        if case == Case::Sensitive && !name.ends_with(&self.ending) {
            return false;
        }
        let (mut tokens, mut rest) = (&self.tokens[..], name);
        // The last `*` and what is left if it takes one character more.
        let mut again: Option<(&[Token], &[u8])> = None;
        loop {
            match tokens {
                [Token::Any] => return true,
                [Token::Any, after @ ..] => {
                    tokens = after;
                    again = Some((after, rest));
                    continue;
                }
                [] if rest.is_empty() => return true,
                [token, after @ ..] => {
                    if let Some((unit, behind)) = next(rest)
                        && token.takes(unit, case)
                    {
                        (tokens, rest) = (after, behind);
                        continue;
                    }
                }
                [] => {}
            }
            let Some((after, from)) = again else { return false };
            let Some((_, behind)) = next(from) else { return false };
            (tokens, rest, again) = (after, behind, Some((after, behind)));
        }
    }
}

impl Token {
    fn takes(&self, unit: u32, case: Case) -> bool {
        match self {
            Self::Any | Self::One => true,
            Self::This(this) => *this == unit || (case == Case::Ignored && folded(*this) == folded(unit)),
            Self::Class { negated, ranges } => {
                let within = |unit: u32| ranges.iter().any(|(from, to)| (*from..=*to).contains(&unit));
                let in_class = match case {
                    Case::Sensitive => within(unit),
                    Case::Ignored => variants(unit).into_iter().any(within),
                };
                in_class != *negated
            }
        }
    }
}

/// Reads a class behind its `[`. Returns it and what follows.
fn class(mut rest: &[u8]) -> Result<(Token, &[u8]), Refused> {
    let negated = matches!(rest, [b'!' | b'^', ..]);
    if negated {
        rest = &rest[1..];
    }
    if let [b']', ..] = rest {
        return refused(
            "a class that begins with `]` is read in different ways",
            "write the bracket last in a segment of its own, or ? in its place",
        );
    }
    let mut ranges = Vec::new();
    loop {
        if let [b'[', kind @ (b':' | b'.' | b'='), ..] = rest {
            return refused(
                format!("`[{0}...{0}]` in a class is not understood", char::from(*kind)),
                "write a range, for example [0-9] or [A-Za-z]",
            );
        }
        let Some((from, after)) = next(rest) else {
            return refused("a class is not closed", "write `]` at its end, or [[] for a bracket itself");
        };
        rest = after;
        if from == u32::from(b']') {
            return Ok((Token::Class { negated, ranges }, rest));
        }
        let to = match rest {
            [b'-', behind @ ..] if !behind.starts_with(b"]") => {
                let Some((to, after)) = next(behind) else {
                    return refused(
                        "a class is not closed",
                        "write `]` at its end, or [[] for a bracket itself",
                    );
                };
                rest = after;
                to
            }
            _ => from,
        };
        if to < from {
            return refused("a range in a class runs backwards", "write the smaller character first");
        }
        ranges.push((from, to));
    }
}

/// Whether two names are the same.
pub(super) fn same(a: &[u8], b: &[u8], case: Case) -> bool {
    if a == b || case == Case::Sensitive {
        return a == b;
    }
    let (mut a, mut b) = (a, b);
    loop {
        match (next(a), next(b)) {
            (None, None) => return true,
            (Some((left, rest_a)), Some((right, rest_b))) if folded(left) == folded(right) => {
                (a, b) = (rest_a, rest_b);
            }
            _ => return false,
        }
    }
}

/// The first character and what follows it; a byte that is no part of one counts as one.
fn next(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((first.into(), &bytes[1..]));
    }
    let length = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let character = bytes.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok()?.chars().next());
    match character {
        Some(character) => Some((character.into(), &bytes[length..])),
        None => Some((NO_CHARACTER + u32::from(first), &bytes[1..])),
    }
}

fn folded(unit: u32) -> u32 {
    let Some(character) = char::from_u32(unit) else { return unit };
    // By way of the capital: some letters have two small forms.
    let capital = character.to_uppercase().next().unwrap_or(character);
    capital.to_lowercase().next().unwrap_or(capital).into()
}

fn variants(unit: u32) -> [u32; 3] {
    let Some(character) = char::from_u32(unit) else { return [unit; 3] };
    let lower = character.to_lowercase().next().unwrap_or(character);
    let upper = character.to_uppercase().next().unwrap_or(character);
    [unit, lower.into(), upper.into()]
}
