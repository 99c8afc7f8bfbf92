//! The one cookie of an X authority file that belongs to the granted display.

/// Of any machine: the jail has another name than the host.
const WILD: u16 = 65535;
/// Of a machine, by its name, over local sockets.
const LOCAL: u16 = 256;

/// One entry of the file.
struct Entry<'a> {
    family: u16,
    number: &'a [u8],
    method: &'a [u8],
    cookie: &'a [u8],
}

/// A file with the first entry for the local display `number`, as the jail's display `inside`. `None` when there is none.
pub(super) fn cookie(file: &[u8], number: u32, inside: u32) -> Option<Vec<u8>> {
    let wanted = number.to_string();
    let mut rest = file;
    while let Some((entry, after)) = entry(rest) {
        rest = after;
        let local = entry.family == LOCAL || entry.family == WILD;
        // Without a number it is for every display.
        if local && (entry.number.is_empty() || entry.number == wanted.as_bytes()) {
            let mut out = WILD.to_be_bytes().to_vec();
            for field in [b"".as_slice(), inside.to_string().as_bytes(), entry.method, entry.cookie] {
                out.extend(u16::try_from(field.len()).ok()?.to_be_bytes());
                out.extend(field);
            }
            return Some(out);
        }
    }
    None
}

fn entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (family, rest) = number(bytes)?;
    let (_address, rest) = field(rest)?;
    let (number, rest) = field(rest)?;
    let (method, rest) = field(rest)?;
    let (cookie, rest) = field(rest)?;
    Some((Entry { family, number, method, cookie }, rest))
}

fn number(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u16::from_be_bytes(*number), rest))
}

fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = number(bytes)?;
    rest.split_at_checked(length.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry_bytes(family: u16, fields: [&[u8]; 4]) -> Vec<u8> {
        let mut out = family.to_be_bytes().to_vec();
        for field in fields {
            out.extend(u16::try_from(field.len()).unwrap().to_be_bytes());
            out.extend(field);
        }
        out
    }

    #[test]
    fn only_the_cookie_of_the_display_is_taken() {
        let method = b"MIT-MAGIC-COOKIE-1".as_slice();
        let file = [
            entry_bytes(0, [&[10, 0, 0, 1], b"3", method, b"network"]),
            entry_bytes(LOCAL, [b"host", b"2", method, b"other"]),
            entry_bytes(LOCAL, [b"host", b"3", method, b"mine"]),
            entry_bytes(WILD, [b"", b"", method, b"any"]),
        ]
        .concat();
        let want = |cookie: &[u8]| Some(entry_bytes(WILD, [b"", b"0", method, cookie]));
        assert_eq!(cookie(&file, 3, 0), want(b"mine"));
        assert_eq!(cookie(&file, 2, 0), want(b"other"));
        assert_eq!(cookie(&file, 9, 0), want(b"any"));
        assert_eq!(cookie(&file[..40], 9, 0), None);
        assert_eq!(cookie(b"", 0, 0), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            let _ = cookie(&bytes, 0, 0);
        }
    }
}
