//! The login of a URL, in which what is no letter or digit is percent-encoded (RFC 3986, 3.2.1).

use std::ops::Range;

use zeroize::Zeroizing;

/// Whether `range` of `content` is the end of a URL's login: `://`, no slash and no white space before it, and `@` behind.
pub(super) fn is_login(content: &[u8], range: &Range<usize>) -> bool {
    let before = content[..range.start].rsplit(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
    let scheme = before.windows(3).rposition(|sign| sign == b"://");
    content.get(range.end) == Some(&b'@') && scheme.is_some_and(|at| !before[at + 3..].contains(&b'/'))
}

/// What `raw` is without its escapes; `None` when it has none, or a percent sign that begins none.
pub(super) fn decoded(raw: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(byte) = raw.get(at) {
        at += 1;
        decoded.push(match byte {
            b'%' => {
                let digits = std::str::from_utf8(raw.get(at..at + 2)?).ok()?;
                at += 2;
                u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?
            }
            byte => *byte,
        });
    }
    (decoded.len() < raw.len()).then_some(decoded)
}

/// `put`, which is as long as `value`, with escapes where `raw` has them for `value`, and as they are written there where the
/// byte is the same.
pub(super) fn written_as(raw: &[u8], value: &[u8], put: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(raw.len()));
    let mut at = 0;
    for (real, fake) in value.iter().zip(put) {
        match raw.get(at) {
            Some(b'%') if real == fake => out.extend(raw.iter().skip(at).take(3)),
            Some(b'%') => out.extend(format!("%{fake:02X}").as_bytes()),
            _ => out.push(*fake),
        }
        at += if raw.get(at) == Some(&b'%') { 3 } else { 1 };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_stands_between_a_scheme_and_a_host() {
        for (text, part, want) in [
            ("https://me:secret@a.test", "secret", true),
            ("x https://secret@a.test", "secret", true),
            ("url = \"https://me:secret@a.test\"", "secret", true),
            ("https://a.test/secret@x", "secret", false),
            ("https://me:secret/@a.test", "secret", false),
            ("me:secret@a.test", "secret", false),
            ("https://x y:secret@a.test", "secret", false),
        ] {
            let at = text.find(part).unwrap();
            assert_eq!(is_login(text.as_bytes(), &(at..at + part.len())), want, "{text}");
        }
    }

    #[test]
    fn only_escapes_are_decoded() {
        for (raw, want) in [
            ("a%40b", Some("a@b")),
            ("%2F%2f", Some("//")),
            ("ab", None),
            ("a%4", None),
            ("a%zz%40", None),
            ("%+1", None),
        ] {
            assert_eq!(decoded(raw.as_bytes()).as_deref(), want.map(str::as_bytes), "{raw}");
        }
    }
}
