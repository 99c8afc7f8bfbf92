//! The forms in which a text is written elsewhere: percent-encoded, escaped for JSON, in base64. A value and its sentinel
//! differ in bytes that all of them treat alike, so each form of the one is as long as the same form of the other.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

/// The shortest part of base64 that is looked for: less may be there by chance.
const SHORTEST_CORE: usize = 8;

const HEX: [[u8; 16]; 2] = [*b"0123456789ABCDEF", *b"0123456789abcdef"];

/// Percent-encoding: what stays beside letters and digits, what a space becomes, and who writes so.
const PERCENT: &[(&[u8], Space, &str)] = &[
    (b"-._~", Space::Encoded, "the unreserved of RFC 3986"),
    (b"-._~/", Space::Encoded, "urllib.parse.quote, a path"),
    (b"-._~!'()*", Space::Encoded, "encodeURIComponent"),
    (b"-._~!$&'()*+,;=:@", Space::Encoded, "a segment of a path"),
    (b"-._~!$&'()*+,;=:@/?", Space::Encoded, "a query"),
    (b"-._~!*'();:@&=+$,/?#", Space::Encoded, "encodeURI"),
    (b"-._*", Space::Plus, "a form, by the URL standard"),
    (b"-._~", Space::Plus, "a form, by Go and Python"),
    (b"-._", Space::Plus, "a form, by PHP and Java"),
];

/// JSON: what is escaped beside quote, backslash and controls, how, and who writes so.
const JSON: &[(Escaped, &str)] = &[
    (
        Escaped { slash: false, also: b"", beyond_ascii: false, quote: false, all: false },
        "what JSON asks for",
    ),
    (
        Escaped { slash: true, also: b"", beyond_ascii: false, quote: false, all: false },
        "PHP, unescaped Unicode",
    ),
    (Escaped { slash: false, also: b"", beyond_ascii: true, quote: false, all: false }, "Python"),
    (Escaped { slash: true, also: b"", beyond_ascii: true, quote: false, all: false }, "PHP"),
    (Escaped { slash: false, also: b"<>&", beyond_ascii: false, quote: false, all: false }, "Go"),
    (Escaped { slash: false, also: b"<>&'=", beyond_ascii: false, quote: false, all: false }, "Gson"),
    (Escaped { slash: false, also: b"<>&'+`", beyond_ascii: true, quote: true, all: false }, ".NET"),
    (Escaped { slash: false, also: b"", beyond_ascii: true, quote: true, all: true }, "every character"),
];

#[derive(Clone, Copy)]
enum Space {
    Encoded,
    Plus,
}

#[derive(Clone, Copy)]
struct Escaped {
    /// `/` as `\/`.
    slash: bool,
    /// What is written as `\u00XX`.
    also: &'static [u8],
    /// What is not ASCII as `\uXXXX`.
    beyond_ascii: bool,
    /// `"` as `\u0022`.
    quote: bool,
    /// Everything as `\uXXXX`.
    all: bool,
}

/// One form of a text and the same form of what stands for it; both are as long.
pub(super) struct Pair {
    pub(super) find: Zeroizing<Vec<u8>>,
    pub(super) put: Zeroizing<Vec<u8>>,
}

/// The forms of `find` that are text, itself first, each once, with those of `put`.
pub(super) fn text(find: &[u8], put: &[u8]) -> Vec<Pair> {
    let mut pairs = Pairs::default();
    pairs.add(find, put, |text| text.to_vec());
    for hex in &HEX {
        for (kept, space, _) in PERCENT {
            pairs.add(find, put, |text| percent(text, kept, *space, hex));
        }
        pairs.add(find, put, |text| text.iter().flat_map(|byte| percent_byte(*byte, hex)).collect());
        for (escaped, _) in JSON {
            pairs.add(find, put, |text| json(text, *escaped, hex));
        }
    }
    pairs.list
}

/// Those of [`text`], and of base64 what does not depend on what stands before and behind.
pub(super) fn all(find: &[u8], put: &[u8]) -> Vec<Pair> {
    let mut pairs = Pairs { list: text(find, put) };
    for engine in [BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD] {
        for before in 0..3 {
            pairs.add(find, put, |text| core(text, before, &engine));
        }
    }
    pairs.list.retain(|pair| !pair.find.is_empty());
    pairs.list
}

#[derive(Default)]
struct Pairs {
    list: Vec<Pair>,
}

impl Pairs {
    fn add(&mut self, find: &[u8], put: &[u8], form: impl Fn(&[u8]) -> Vec<u8>) {
        self.push(Pair { find: Zeroizing::new(form(find)), put: Zeroizing::new(form(put)) });
    }

    fn push(&mut self, pair: Pair) {
        if !self.list.iter().any(|other| other.find == pair.find) {
            self.list.push(pair);
        }
    }
}

fn percent(text: &[u8], kept: &[u8], space: Space, hex: &[u8; 16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(3 * text.len());
    for byte in text {
        match (byte, space) {
            (b' ', Space::Plus) => out.push(b'+'),
            _ if byte.is_ascii_alphanumeric() || kept.contains(byte) => out.push(*byte),
            _ => out.extend(percent_byte(*byte, hex)),
        }
    }
    out
}

fn percent_byte(byte: u8, hex: &[u8; 16]) -> [u8; 3] {
    [b'%', hex[usize::from(byte >> 4)], hex[usize::from(byte & 15)]]
}

fn json(text: &[u8], escaped: Escaped, hex: &[u8; 16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(6 * text.len());
    for character in String::from_utf8_lossy(text).chars() {
        let short = match character {
            _ if escaped.all => None,
            '"' if !escaped.quote => Some(b'"'),
            '\\' => Some(b'\\'),
            '\t' => Some(b't'),
            '/' if escaped.slash => Some(b'/'),
            _ => None,
        };
        let long = escaped.all
            || character.is_ascii_control()
            || character == '"'
            || (escaped.beyond_ascii && !character.is_ascii())
            || u8::try_from(character).is_ok_and(|byte| escaped.also.contains(&byte));
        match short {
            Some(letter) => out.extend([b'\\', letter]),
            None if long => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.extend(b"\\u");
                    out.extend([12, 8, 4, 0].map(|shift| hex[usize::from(*unit >> shift & 15)]));
                }
            }
            None => out.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out
}

/// The characters of base64 that `text` alone decides when `before` bytes of its group of three stand before it.
fn core(text: &[u8], before: usize, engine: &impl Engine) -> Vec<u8> {
    let mut bytes = Zeroizing::new(vec![0; before]);
    bytes.extend_from_slice(text);
    let whole = Zeroizing::new(engine.encode(&*bytes));
    let (start, end) = ((8 * before).div_ceil(6), 8 * bytes.len() / 6);
    let core = whole.as_bytes().get(start..end).unwrap_or_default();
    if core.len() < SHORTEST_CORE { Vec::new() } else { core.to_vec() }
}
