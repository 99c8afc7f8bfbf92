//! Replaces in what is there as a whole: a header's value, a target. Beside the forms of a stream it knows every mixture of
//! percent-encoded and plain characters.

use std::borrow::Cow;

use super::stream::{Noted, Table, What, fix};

/// `bytes` with everything replaced for which `what` says so, by the index of the secret and the span where it stands;
/// as long as before. Borrowed when nothing was.
pub(super) fn replace<'b>(
    table: &Table,
    bytes: &'b [u8],
    what: impl Fn(usize, (usize, usize)) -> What,
    noted: &mut Noted,
) -> Cow<'b, [u8]> {
    let mut out = Cow::Borrowed(bytes);
    for found in table.find_all(bytes) {
        let what = what(table.secret(found), (found.start, found.end));
        noted.note(table.name(found), what);
        if what == What::Put {
            let (out, edges) = (out.to_mut(), table.edges(found));
            out[found.start..found.end].copy_from_slice(table.put(found));
            fix(edges.first, out[..found.start].last_mut());
            fix(edges.last, out.get_mut(found.end));
        }
    }
    if !bytes.contains(&b'%') {
        return out;
    }
    let decoded = Decoded::of(bytes);
    for found in table.find_all(&decoded.bytes) {
        let what = what(table.secret(found), (decoded.at[found.start], decoded.at[found.end]));
        noted.note(table.name(found), what);
        if what == What::Put {
            let out = out.to_mut();
            for (index, byte) in (found.start..found.end).zip(table.put(found)) {
                write(&mut out[decoded.at[index]..decoded.at[index + 1]], *byte);
            }
            let edges = table.edges(found);
            for (shared, index) in [(edges.first, found.start.checked_sub(1)), (edges.last, Some(found.end))]
            {
                let (Some(shared), Some(index)) = (shared, index) else { continue };
                let Some(end) = decoded.at.get(index + 1) else { continue };
                let place = &mut out[decoded.at[index]..*end];
                if let Some(byte) = shared.fixed(decode(place).unwrap_or(place[0])) {
                    write(place, byte);
                }
            }
        }
    }
    out
}

/// Bytes without their percent-encoding.
struct Decoded {
    bytes: Vec<u8>,
    /// Where each stands, and where the last one ends.
    at: Vec<usize>,
}

impl Decoded {
    fn of(source: &[u8]) -> Self {
        let (mut bytes, mut at, mut next) = (Vec::with_capacity(source.len()), vec![0], 0);
        while let Some(byte) = source.get(next) {
            match source.get(next..next + 3).and_then(decode) {
                Some(decoded) => {
                    bytes.push(decoded);
                    next += 3;
                }
                None => {
                    bytes.push(*byte);
                    next += 1;
                }
            }
            at.push(next);
        }
        Self { bytes, at }
    }
}

fn decode(escape: &[u8]) -> Option<u8> {
    let [b'%', high, low] = escape else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// Writes `byte` where one stood, plain or encoded as that was.
fn write(place: &mut [u8], byte: u8) {
    match place {
        [plain] => *plain = byte,
        [_, high, low] => {
            let lower = high.is_ascii_lowercase() || low.is_ascii_lowercase();
            let digits = if lower { b"0123456789abcdef" } else { b"0123456789ABCDEF" };
            (*high, *low) = (digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]);
        }
        _ => {}
    }
}

/// `source` without its percent-encoding.
#[cfg(test)]
pub(super) fn decoded(source: &[u8]) -> Vec<u8> {
    Decoded::of(source).bytes
}
