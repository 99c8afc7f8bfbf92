//! The name under which OpenSSL finds a certificate in a directory: a hash of its subject.

use sha1::{Digest, Sha1};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
const IA5: u8 = 0x16;

/// The hash of the subject of a certificate, DER, as eight digits: `X509_NAME_hash` of OpenSSL since 1.0. `None` when it is
/// none that can be read, or its subject has strings of another kind than UTF-8 and ASCII.
pub fn hash(certificate: &[u8]) -> Option<String> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut rest, _) = element(certificate, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        (_, rest) = element(rest, VERSION)?;
    }
    // The serial number, the algorithm, the issuer, the validity.
    for _ in 0..4 {
        (_, _, rest) = any(rest)?;
    }
    let (subject, _) = element(rest, SEQUENCE)?;
    let digest = Sha1::digest(canonical(subject)?);
    let first: [u8; 4] = digest.as_slice().get(..4)?.try_into().ok()?;
    Some(format!("{:08x}", u32::from_le_bytes(first)))
}

/// The sets of a name one after another, their strings as UTF-8 in lower case, with single spaces and none at the ends.
fn canonical(mut subject: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while !subject.is_empty() {
        let (mut set, rest) = element(subject, SET)?;
        subject = rest;
        let mut parts = Vec::new();
        while !set.is_empty() {
            let (pair, rest) = element(set, SEQUENCE)?;
            set = rest;
            let (_, _, value) = any(pair)?;
            let mut part = pair.get(..pair.len() - value.len())?.to_vec();
            let (tag, text, _) = any(value)?;
            if ![UTF8, PRINTABLE, IA5].contains(&tag) {
                return None;
            }
            let text = std::str::from_utf8(text).ok()?;
            let words: Vec<&str> = text.split([' ', '\t', '\n', '\r', '\x0b', '\x0c']).collect();
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            part.extend(written(UTF8, words.join(" ").to_ascii_lowercase().as_bytes())?);
            parts.extend(written(SEQUENCE, &part)?);
        }
        out.extend(written(SET, &parts)?);
    }
    Some(out)
}

/// The contents of the first element, which has this tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    any(der).filter(|(found, ..)| *found == tag).map(|(_, contents, rest)| (contents, rest))
}

/// Tag and contents of the first element, and what follows it.
fn any(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        ..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

/// An element; `None` for one that is longer than a name has any use for.
fn written(tag: u8, contents: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(contents.len()).ok()?;
    let [high, low] = length.to_be_bytes();
    let mut out = vec![tag];
    match length {
        0..0x80 => out.push(low),
        0x80..0x100 => out.extend([0x81, low]),
        _ => out.extend([0x82, high, low]),
    }
    out.extend(contents);
    Some(out)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    /// Certificates and what `openssl x509 -subject_hash` says of each.
    const KNOWN: [(&str, &str); 2] = [
        (
            "MIIBzzCCAXWgAwIBAgIUXGmE7u8RiA2dAS5ftU3OXX8TERQwCgYIKoZIzj0EAwIwPDELMAkGA1UEBhMCREUxGDAWBgNVBAoMD1Nv\
             bWUgIE9sZCAgT1JHIDETMBEGA1UEAwwKw5xuw68gQ29kZTAgFw0yNjExMzAyMDQ5NDBaGA8yMDUxMDcyMjIwNDk0MFowPDELMAkG\
             A1UEBhMCREUxGDAWBgNVBAoMD1NvbWUgIE9sZCAgT1JHIDETMBEGA1UEAwwKw5xuw68gQ29kZTBZMBMGByqGSM49AgEGCCqGSM49\
             AwEHA0IABBLc4NoLwCruVlDxcgtswsT0L0tJ9fbRWbKyIuunlLiq823MWlX+GcaJgEyCV2+imPH6D/aAn2eByhmX0sr4wSGjUzBR\
             MB0GA1UdDgQWBBQbrkHbYZCfk0SyiOzPOuN2BvmxxTAfBgNVHSMEGDAWgBQbrkHbYZCfk0SyiOzPOuN2BvmxxTAPBgNVHRMBAf8E\
             BTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQCPkTiOPVpL+xtyX4WRULfUFwlEJZPuNZpmtztjqNi0xQIgR34s9KAaIIB19zMd7Y1W\
             4Xl3OPiE7NZ6Fre/S5liVP0=",
            "02a47923",
        ),
        (
            "MIIBnTCCAUOgAwIBAgIUB2+vNK40r0YVIT9Cb+U4P3aZqikwCgYIKoZIzj0EAwIwIzEhMB8GA1UEAwwYYWktamFpbCBzZXNzaW9u\
             IDBhMWIyYzNkMCAXDTI2MTEzMDIwNDk0MFoYDzIwNTEwNzIyMjA0OTQwWjAjMSEwHwYDVQQDDBhhaS1qYWlsIHNlc3Npb24gMGEx\
             YjJjM2QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATZz1smw5G9LmgDmQDNqgfQR2GpZkqH01mP8wR8gCj/UrBPKxRFaduQYAjg\
             Lylmj+utotFpadPrVmv8XAUThodCo1MwUTAdBgNVHQ4EFgQUH0XM9UnzOuJ2n3A3iz5iuPkfQj0wHwYDVR0jBBgwFoAUH0XM9Unz\
             OuJ2n3A3iz5iuPkfQj0wDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiBmuKiKGbzmD5KQI/vjEjybydxyaSBgweX+\
             othYRzCbxQIhAMUpQ5uEDnFOkZ3wCimAhTRgEU0Pol7/uWaUZVz/9CjI",
            "1d104844",
        ),
    ];

    #[test]
    fn a_subject_has_the_hash_that_openssl_gives_it() {
        for (certificate, want) in KNOWN {
            let der = BASE64_STANDARD.decode(certificate).unwrap();
            assert_eq!(hash(&der).as_deref(), Some(want));
            for length in 0..der.len() {
                // What is cut short is none, and no panic.
                let _ = hash(&der[..length]);
            }
            assert_eq!(hash(&der[..40]), None);
        }
    }
}
