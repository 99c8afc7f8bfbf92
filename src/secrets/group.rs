//! A text in base64, where three bytes are a group of four characters. Unless the text begins and ends with a group, its first
//! and its last character are shared with what stands beside it: their bits are set right where they stand.

use base64::Engine;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

/// The shortest part of base64 that is looked for: less may be there by chance.
const SHORTEST_CORE: usize = 8;

/// How three bytes become four characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Letters {
    /// With `+` and `/`.
    Standard,
    /// With `-` and `_`.
    Url,
}

impl Letters {
    pub(super) const ALL: [Self; 2] = [Self::Standard, Self::Url];

    fn alphabet(self) -> &'static [u8] {
        static ALPHABETS: [Alphabet; 2] = [STANDARD, URL_SAFE];
        ALPHABETS[self as usize].as_str().as_bytes()
    }
}

/// The characters of base64 that `text` alone decides when `before` bytes of its group of three stand before it; none when
/// they are few.
pub(super) fn core(text: &[u8], before: usize, letters: Letters) -> Vec<u8> {
    let mut bytes = Zeroizing::new(vec![0; before]);
    bytes.extend_from_slice(text);
    let whole = Zeroizing::new(match letters {
        Letters::Standard => BASE64_STANDARD_NO_PAD.encode(&*bytes),
        Letters::Url => BASE64_URL_SAFE_NO_PAD.encode(&*bytes),
    });
    let (start, end) = ((8 * before).div_ceil(6), 8 * bytes.len() / 6);
    let core = whole.as_bytes().get(start..end).unwrap_or_default();
    if core.len() < SHORTEST_CORE { Vec::new() } else { core.to_vec() }
}

/// The characters beside a [`core`], where those of a value and of its sentinel differ.
#[derive(Clone, Copy, Default)]
pub(super) struct Edges {
    /// The one before it.
    pub(super) first: Option<Shared>,
    /// The one behind it.
    pub(super) last: Option<Shared>,
}

impl Edges {
    /// Those of `find`, which becomes the `put` of the same length.
    pub(super) fn new(find: &[u8], put: &[u8], before: usize, letters: Letters) -> Self {
        let [Some(first), Some(last)] = [find.first().zip(put.first()), find.last().zip(put.last())] else {
            return Self::default();
        };
        let shared = |mask: u8, (find, put): (u8, u8)| {
            (find & mask != put & mask).then_some(Shared {
                mask,
                find: find & mask,
                put: put & mask,
                letters,
            })
        };
        let both = |(find, put): (&u8, &u8), bits: fn(u8) -> u8| (bits(*find), bits(*put));
        Self {
            first: match before {
                1 => shared(0b00_1111, both(first, |byte| byte >> 4)),
                2 => shared(0b00_0011, both(first, |byte| byte >> 6)),
                _ => None,
            },
            last: match (before + find.len()) % 3 {
                1 => shared(0b11_0000, both(last, |byte| byte << 4)),
                2 => shared(0b11_1100, both(last, |byte| byte << 2)),
                _ => None,
            },
        }
    }
}

/// Some bits of a character, as the value has them and as its sentinel.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    mask: u8,
    find: u8,
    put: u8,
    /// What a character is written in that is the same in all.
    letters: Letters,
}

impl Shared {
    /// `character` with the bits of the sentinel; None when it has not those of the value.
    pub(super) fn fixed(self, character: u8) -> Option<u8> {
        let letters = match character {
            b'+' | b'/' => Letters::Standard,
            b'-' | b'_' => Letters::Url,
            _ => self.letters,
        };
        let bits = letters.alphabet().iter().position(|letter| *letter == character)? as u8;
        let fixed = bits & !self.mask | self.put;
        (bits & self.mask == self.find).then(|| letters.alphabet()[usize::from(fixed)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_of_base64_is_what_every_encoding_has() {
        let text = b"The value itself, of some length";
        for length in 12..text.len() {
            for (before, behind) in (0..7).flat_map(|before| (0..4).map(move |behind| (before, behind))) {
                let whole = [&vec![0xff; before][..], &text[..length], &vec![0xfe; behind][..]].concat();
                for letters in Letters::ALL {
                    let core = core(&text[..length], before % 3, letters);
                    let encoded = match letters {
                        Letters::Standard => BASE64_STANDARD_NO_PAD.encode(&whole),
                        Letters::Url => BASE64_URL_SAFE_NO_PAD.encode(&whole),
                    };
                    let at = encoded.find(std::str::from_utf8(&core).unwrap());
                    // At most one character at each side is mixed.
                    assert_eq!(at, Some((8 * before).div_ceil(6)), "{before} {length} {behind}");
                    assert!(6 * core.len() + 10 >= 8 * length);
                }
            }
        }
    }

    #[test]
    fn a_character_is_shared_by_bits() {
        let edges = Edges::new(b"a234567890az", b"Q234567890aA", 1, Letters::Standard);
        let (first, last) = (edges.first.unwrap(), edges.last.unwrap());
        // `a` begins with 0110 and `Q` with 0101, whatever stands before; what is not of the value stays.
        for (character, want) in
            [(b'G', Some(b'F')), (b'm', Some(b'l')), (b'2', Some(b'1')), (b'H', None), (b'=', None)]
        {
            assert_eq!(first.fixed(character), want, "{}", character.escape_ascii());
        }
        // `z` ends with 10, `A` with 01.
        for (character, want) in [(b'g', Some(b'Q')), (b'v', Some(b'f')), (b'w', None), (b'-', None)] {
            assert_eq!(last.fixed(character), want, "{}", character.escape_ascii());
        }
        let same = Edges::new(b"abc", b"abc", 2, Letters::Url);
        assert!(same.first.is_none() && same.last.is_none());
    }

    #[test]
    fn a_character_keeps_its_alphabet() {
        let edge = |find, put, letters| Edges::new(find, put, 0, letters).last.unwrap();
        // The last two bits: 11 becomes 01, and back.
        for letters in Letters::ALL {
            assert_eq!(edge(b"3", b"1", letters).fixed(b'/'), Some(b'f'));
            assert_eq!(edge(b"3", b"1", letters).fixed(b'_'), Some(b'f'));
        }
        assert_eq!(edge(b"1", b"3", Letters::Standard).fixed(b'f'), Some(b'/'));
        assert_eq!(edge(b"1", b"3", Letters::Url).fixed(b'f'), Some(b'_'));
    }
}
