//! The forms in which a text is written elsewhere: percent-encoded, escaped for JSON or HTML, in base64. A value and its sentinel
//! differ in bytes that all of them treat alike, so each form of the one is as long as the same form of the other.

use zeroize::Zeroizing;

use super::group::{Edges, Letters, core};

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
    (b"", Space::Encoded, "all but letters and digits"),
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
    (
        Escaped { slash: false, also: PUNCTUATION, beyond_ascii: true, quote: true, all: false },
        "all but letters and digits",
    ),
    (Escaped { slash: false, also: b"", beyond_ascii: true, quote: true, all: true }, "every character"),
];

/// The signs of ASCII that are neither letters nor digits; JSON has a short form of the backslash.
const PUNCTUATION: &[u8] = b" !\"#$%&'()*+,-./:;<=>?@[]^_`{|}~";

/// The names that HTML has for signs of ASCII, where a library writes all that it knows (the first of several).
const NAMED: &[(char, &str)] = &[
    ('!', "excl"),
    ('"', "quot"),
    ('#', "num"),
    ('$', "dollar"),
    ('%', "percnt"),
    ('&', "amp"),
    ('\'', "apos"),
    ('(', "lpar"),
    (')', "rpar"),
    ('*', "ast"),
    ('+', "plus"),
    (',', "comma"),
    ('.', "period"),
    ('/', "sol"),
    (':', "colon"),
    (';', "semi"),
    ('<', "lt"),
    ('=', "equals"),
    ('>', "gt"),
    ('?', "quest"),
    ('@', "commat"),
    ('[', "lsqb"),
    ('\\', "bsol"),
    (']', "rsqb"),
    ('^', "Hat"),
    ('_', "lowbar"),
    ('`', "grave"),
    ('{', "lcub"),
    ('|', "vert"),
    ('}', "rcub"),
];

/// HTML: what a quote and an apostrophe become beside `&`, `<` and `>`, and who writes so.
const HTML: &[(&str, &str, &str)] = &[
    ("\"", "'", "text between tags"),
    ("&quot;", "'", "an attribute in double quotes"),
    ("&quot;", "&#39;", "most templates"),
    ("&quot;", "&#x27;", "Python, Django, React"),
    ("&quot;", "&#039;", "PHP"),
    ("&#34;", "&#39;", "Go, Jinja"),
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
    /// What has to change beside it.
    pub(super) edges: Edges,
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

/// Those of [`text`], those of HTML, and of base64 what does not depend on what stands before and behind, with its edges.
pub(super) fn all(find: &[u8], put: &[u8]) -> Vec<Pair> {
    let mut pairs = Pairs { list: text(find, put) };
    for (quote, apostrophe, _) in HTML {
        pairs.add(find, put, |text| html(text, quote, apostrophe));
    }
    pairs.add(find, put, |text| {
        let name = |sign| NAMED.iter().find(|(known, _)| *known == sign).map(|(_, name)| format!("&{name};"));
        numbered(text, |sign| name(sign).unwrap_or_else(|| sign.to_string()))
    });
    // All but letters and digits, as the encoders of OWASP do.
    pairs.add(find, put, |text| numbered(text, |sign| format!("&#{};", sign as u32)));
    pairs.add(find, put, |text| numbered(text, |sign| format!("&#x{:x};", sign as u32)));
    pairs.add(find, put, |text| numbered(text, |sign| format!("&#x{:X};", sign as u32)));
    pairs.add(find, put, |text| numbered(text, |sign| format!("\\x{:02x}", sign as u32)));
    pairs.add(find, put, |text| numbered(text, |sign| format!("\\x{:02X}", sign as u32)));
    // Every character.
    pairs.add(find, put, |text| each(text, |sign| format!("&#x{:x};", sign as u32)));
    pairs.add(find, put, |text| each(text, |sign| format!("&#x{:X};", sign as u32)));
    pairs.push(decimal(find, put));
    for letters in Letters::ALL {
        for before in 0..3 {
            let edges = Edges::new(find, put, before, letters);
            pairs.push(Pair { edges, ..Pair::new(find, put, |text| core(text, before, letters)) });
        }
    }
    pairs.list.retain(|pair| !pair.find.is_empty());
    pairs.list
}

/// Those of [`all`], and one more way in which the two are `written` somewhere.
pub(super) fn all_and(find: &[u8], put: &[u8], written: Option<Pair>) -> Vec<Pair> {
    let mut pairs = Pairs { list: all(find, put) };
    written.into_iter().for_each(|written| pairs.push(written));
    pairs.list
}

impl Pair {
    fn new(find: &[u8], put: &[u8], form: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        Self { find: Zeroizing::new(form(find)), put: Zeroizing::new(form(put)), edges: Edges::default() }
    }
}

#[derive(Default)]
struct Pairs {
    list: Vec<Pair>,
}

impl Pairs {
    fn add(&mut self, find: &[u8], put: &[u8], form: impl Fn(&[u8]) -> Vec<u8>) {
        self.push(Pair::new(find, put, form));
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

fn html(text: &[u8], quote: &str, apostrophe: &str) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b'&' => b"&amp;".to_vec(),
        b'<' => b"&lt;".to_vec(),
        b'>' => b"&gt;".to_vec(),
        b'"' => quote.as_bytes().to_vec(),
        b'\'' => apostrophe.as_bytes().to_vec(),
        _ => vec![*byte],
    };
    text.iter().flat_map(escape).collect()
}

/// `text` with all but ASCII's letters and digits as `write` has them.
fn numbered(text: &[u8], write: impl Fn(char) -> String) -> Vec<u8> {
    each(text, |sign| if sign.is_ascii_alphanumeric() { sign.to_string() } else { write(sign) })
}

fn each(text: &[u8], write: impl Fn(char) -> String) -> Vec<u8> {
    String::from_utf8_lossy(text).chars().flat_map(|sign| write(sign).into_bytes()).collect()
}

/// Every character as `&#NN;`. Of the letters some have two digits and some have three: where the other text's has more, another
/// sign of as many stands there, for the form has to be as long.
fn decimal(find: &[u8], put: &[u8]) -> Pair {
    let (found, other) = (String::from_utf8_lossy(find), String::from_utf8_lossy(put));
    let instead = found.chars().zip(other.chars()).flat_map(|(found, put)| {
        let length = (found as u32).to_string().len();
        let number = match (put as u32).to_string().len() <= length {
            true => put as u32,
            false => u32::from(b'A') + put as u32 % 26,
        };
        format!("&#{number:0length$};").into_bytes()
    });
    Pair {
        put: Zeroizing::new(instead.collect()),
        find: Zeroizing::new(each(find, |sign| format!("&#{};", sign as u32))),
        edges: Edges::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms_of(text: &str) -> Vec<String> {
        let pairs = all(text.as_bytes(), text.as_bytes());
        pairs.iter().map(|pair| String::from_utf8(pair.find.to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_token_of_letters_and_digits_has_few_forms() {
        let forms = forms_of("kT0kT0kT0kT0");
        let want = [
            "kT0kT0kT0kT0".to_owned(),
            "%6B%54%30".repeat(4),
            r"\u006B\u0054\u0030".repeat(4),
            "%6b%54%30".repeat(4),
            r"\u006b\u0054\u0030".repeat(4),
            "&#x6b;&#x54;&#x30;".repeat(4),
            "&#x6B;&#x54;&#x30;".repeat(4),
            "&#107;&#84;&#48;".repeat(4),
            "a1Qwa1Qwa1Qwa1Qw".to_owned(),
            "tUMGtUMGtUMGtUM".to_owned(),
            "rVDBrVDBrVDBrVD".to_owned(),
        ];
        assert_eq!(forms, want);
    }

    #[test]
    fn every_way_of_writing_is_a_form() {
        let forms = forms_of("a/b+c=d\"e&f<g>h'i~j k\u{fc}");
        for form in [
            "a%2Fb%2Bc%3Dd%22e%26f%3Cg%3Eh%27i~j%20k%C3%BC",
            "a%2fb%2bc%3dd%22e%26f%3cg%3eh%27i~j%20k%c3%bc",
            "a/b%2Bc%3Dd%22e%26f%3Cg%3Eh%27i~j%20k%C3%BC",
            "a%2Fb%2Bc%3Dd%22e%26f%3Cg%3Eh'i~j%20k%C3%BC",
            "a%2Fb+c=d%22e&f%3Cg%3Eh'i~j%20k%C3%BC",
            "a/b+c=d%22e&f%3Cg%3Eh'i~j%20k%C3%BC",
            "a%2Fb%2Bc%3Dd%22e%26f%3Cg%3Eh%27i%7Ej+k%C3%BC",
            "a%2Fb%2Bc%3Dd%22e%26f%3Cg%3Eh%27i~j+k%C3%BC",
            "%61%2F%62%2B%63%3D%64%22%65%26%66%3C%67%3E%68%27%69%7E%6A%20%6B%C3%BC",
            r#"a/b+c=d\"e&f<g>h'i~j k\u{fc}"#,
            r#"a\/b+c=d\"e&f<g>h'i~j k\u{fc}"#,
            r#"a/b+c=d\"e&f<g>h'i~j k\u00fc"#,
            r#"a\/b+c=d\"e&f<g>h'i~j k\u00FC"#,
            r#"a/b+c=d\"e\u0026f\u003cg\u003eh'i~j k\u{fc}"#,
            r#"a/b+c\u003dd\"e\u0026f\u003cg\u003eh\u0027i~j k\u{fc}"#,
            r#"a/b\u002Bc=d\u0022e\u0026f\u003Cg\u003Eh\u0027i~j k\u00FC"#,
            r"a\u002fb\u002bc\u003dd\u0022e\u0026f\u003cg\u003eh\u0027i\u007ej\u0020k\u00fc",
            "a%2Fb%2Bc%3Dd%22e%26f%3Cg%3Eh%27i%7Ej%20k%C3%BC",
            "a&sol;b&plus;c&equals;d&quot;e&amp;f&lt;g&gt;h&apos;i~j k\u{fc}",
            "a&#47;b&#43;c&#61;d&#34;e&#38;f&#60;g&#62;h&#39;i&#126;j&#32;k&#252;",
            "a&#x2f;b&#x2b;c&#x3d;d&#x22;e&#x26;f&#x3c;g&#x3e;h&#x27;i&#x7e;j&#x20;k&#xfc;",
            r"a\x2Fb\x2Bc\x3Dd\x22e\x26f\x3Cg\x3Eh\x27i\x7Ej\x20k\xFC",
            "a/b+c=d&#34;e&amp;f&lt;g&gt;h&#39;i~j k\u{fc}",
            "a/b+c=d&quot;e&amp;f&lt;g&gt;h&#x27;i~j k\u{fc}",
        ] {
            let form = form.replace(r"\u{fc}", "\u{fc}");
            assert!(forms.contains(&form), "{form}");
        }
    }

    #[test]
    fn a_form_is_as_long_as_the_same_of_its_sentinel() {
        let value = "a/b+c=d\"e&f<g>h'i~j k\u{fc}\u{1f600}\\ZZZZ0\t";
        let fake = "x/y+z=q\"R&0<S>t'9~k u\u{fc}\u{1f600}\\a7B2x\t";
        let (pairs, back) = (all(value.as_bytes(), fake.as_bytes()), all(fake.as_bytes(), value.as_bytes()));
        assert!(pairs.len() > 30 && pairs.len() == back.len());
        for pair in pairs {
            assert_eq!(pair.find.len(), pair.put.len(), "{}", pair.find.escape_ascii());
            assert!(pair.find != pair.put);
        }
    }
}
