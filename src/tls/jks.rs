//! A trust store for Java: the key store format that every version reads, with certificates alone.
//!
//! The format is that of `sun.security.provider.JavaKeyStore`: a header, the entries, and a SHA-1 over the password, a fixed
//! phrase and all of that. It protects nothing here: the certificates are public, and the file is read-only in the jail.

use sha1::{Digest, Sha1};

/// The password under which Java opens its own store of roots.
pub const PASSWORD: &str = "changeit";

const MAGIC: u32 = 0xfeed_feed;
const VERSION: u32 = 2;
/// The tag of an entry that is a certificate.
const CERTIFICATE: u32 = 2;
const PHRASE: &[u8] = b"Mighty Aphrodite";

/// A store with these certificates, DER, each made at `time` (milliseconds since 1970).
pub fn trust_store<'a>(certificates: impl IntoIterator<Item = &'a [u8]>, time: u64) -> Vec<u8> {
    let mut entries = Vec::new();
    let mut count = 0_u32;
    for certificate in certificates {
        // None is of 4 GiB, and there are not as many.
        let Ok(length) = u32::try_from(certificate.len()) else { continue };
        entries.extend(CERTIFICATE.to_be_bytes());
        text(&mut entries, &format!("root-{count}"));
        entries.extend(time.to_be_bytes());
        text(&mut entries, "X.509");
        entries.extend(length.to_be_bytes());
        entries.extend(certificate);
        count += 1;
    }
    let mut store = [MAGIC, VERSION, count].map(u32::to_be_bytes).concat();
    store.append(&mut entries);
    let digest = digest(&store);
    store.extend(digest);
    store
}

fn digest(store: &[u8]) -> [u8; 20] {
    let mut sha1 = Sha1::new();
    for unit in PASSWORD.encode_utf16() {
        sha1.update(unit.to_be_bytes());
    }
    sha1.update(PHRASE);
    sha1.update(store);
    sha1.finalize().into()
}

/// A string of ASCII with its length, which is short.
fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_be_bytes());
    out.extend(text.bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries of a store, read by the format's description; panics where it is not kept.
    fn read(store: &[u8]) -> Vec<(String, u64, String, Vec<u8>)> {
        let (body, sum) = store.split_at(store.len() - 20);
        let mut hashed: Vec<u8> = "changeit".bytes().flat_map(|byte| [0, byte]).collect();
        hashed.extend(b"Mighty Aphrodite");
        hashed.extend(body);
        assert_eq!(sum, Sha1::digest(&hashed).as_slice());
        let mut at = 0;
        let mut take = |length: usize| {
            at += length;
            body[at - length..at].to_vec()
        };
        let number = |bytes: Vec<u8>| bytes.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        assert_eq!(take(4), [0xfe, 0xed, 0xfe, 0xed]);
        assert_eq!(number(take(4)), 2);
        let count = number(take(4));
        let mut entries = Vec::new();
        for _ in 0..count {
            assert_eq!(number(take(4)), 2);
            let length = number(take(2)) as usize;
            let alias = String::from_utf8(take(length)).unwrap();
            let time = number(take(8));
            let length = number(take(2)) as usize;
            let kind = String::from_utf8(take(length)).unwrap();
            let length = number(take(4)) as usize;
            entries.push((alias, time, kind, take(length)));
        }
        assert_eq!(at, body.len());
        entries
    }

    #[test]
    fn a_reader_of_the_format_finds_every_certificate_and_the_right_sum() {
        let certificates: [&[u8]; 3] = [b"first", b"", &[7; 70_000]];
        let entries = read(&trust_store(certificates, 1_700_000_000_000));
        let want: Vec<_> = certificates
            .iter()
            .enumerate()
            .map(|(n, bytes)| (format!("root-{n}"), 1_700_000_000_000, "X.509".to_owned(), bytes.to_vec()))
            .collect();
        assert_eq!(entries, want);
        assert_eq!(read(&trust_store([], 0)), []);
    }
}
