//! How the contents of a secrets file are recognised, from the beginning of it. Pure: bytes in, a verdict out.

use serde::Deserialize;

/// As much of a file is looked at (bytes). A private key of the longest kind in use, behind a chain of certificates, ends
/// before; a service account's file has 2,400.
pub const HEAD: usize = 16 << 10;

/// What a file has to hold to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// A private key: armoured, bare (PKCS #1, PKCS #8, SEC 1), or PuTTY's.
    PrivateKey,
    /// A Java key store.
    KeyStore,
    /// A key of a service account, as JSON.
    ServiceAccount,
    /// A cluster's login.
    Kubeconfig,
    /// `_authToken`, `_auth` or `_password` with a value that is not a variable's.
    NpmToken,
    /// `npmAuthToken` or `npmAuthIdent` with a value that is not a variable's.
    YarnToken,
    /// The word `password` with something behind it.
    Password,
    /// A secret access key or a token.
    CloudLogin,
}

impl Holds {
    /// Whether a file that begins with `head` holds it.
    pub fn is_in(self, head: &[u8]) -> bool {
        match self {
            Self::PrivateKey => private_key(head),
            // Of Java's two kinds, and of Bouncy Castle's.
            Self::KeyStore => {
                [&b"\xfe\xed\xfe\xed"[..], b"\xce\xce\xce\xce", b"\x00\x00\x00\x02\x00\x00\x00\x14"]
                    .iter()
                    .any(|magic| head.starts_with(magic))
                    || pkcs12(head)
            }
            Self::ServiceAccount => {
                has(head, b"\"service_account\"") && has(head, b"\"private_key\"") && has(head, PRIVATE_KEY)
            }
            Self::Kubeconfig => {
                has(head, b"clusters:")
                    && has(head, b"users:")
                    && ["client-key-data", "client-key", "token", "password", "auth-provider"]
                        .iter()
                        .any(|key| lines(head).any(|line| valued(line, key, b':')))
            }
            Self::NpmToken => lines(head).any(|line| {
                // The key may begin with the registry: `//registry.example/:_authToken=...`.
                let Some(at) = line.iter().position(|byte| *byte == b'=') else { return false };
                let key = line[..at].trim_ascii();
                ["_authToken", "_auth", "_password"].iter().any(|end| key.ends_with(end.as_bytes()))
                    && !line.starts_with(b"#")
                    && !line.starts_with(b";")
                    && literal(&line[at + 1..])
            }),
            Self::YarnToken => lines(head)
                .any(|line| ["npmAuthToken", "npmAuthIdent"].iter().any(|key| valued(line, key, b':'))),
            Self::Password => lines(head).any(|line| {
                let mut words = line
                    .split(|byte| byte.is_ascii_whitespace() || matches!(byte, b'=' | b':'))
                    .filter(|word| !word.is_empty());
                !line.starts_with(b"#")
                    && words.any(|word| word == b"password" || word == b"passwd")
                    && words.next().is_some_and(literal)
            }),
            Self::CloudLogin => lines(head).any(|line| {
                ["aws_secret_access_key", "aws_session_token", "token", "secret", "client_secret"]
                    .iter()
                    .any(|key| valued(line, key, b'='))
            }),
        }
    }
}

const PRIVATE_KEY: &[u8] = b"PRIVATE KEY";

fn private_key(head: &[u8]) -> bool {
    // `-----BEGIN ENCRYPTED PRIVATE KEY-----`, with OpenSSH's and PGP's kinds.
    let armoured = find(head, b"-----BEGIN ")
        .is_some_and(|_| lines(head).any(|line| line.starts_with(b"-----BEGIN ") && has(line, PRIVATE_KEY)));
    armoured || head.starts_with(b"PuTTY-User-Key-File-") || bare_key(head)
}

/// A DER sequence that begins with the version of PKCS #1, PKCS #8 or SEC 1, or with the algorithm of an encrypted PKCS #8.
fn bare_key(head: &[u8]) -> bool {
    let Some(inner) = sequence(head) else { return false };
    match inner {
        // A number of one byte, then an integer (PKCS #1), a sequence (PKCS #8) or a string (SEC 1).
        [0x02, 0x01, 0x00 | 0x01, 0x02 | 0x30 | 0x04, ..] => true,
        // PBES2, 1.2.840.113549.1.5.13.
        _ => sequence(inner)
            .is_some_and(|algorithm| algorithm.starts_with(b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05")),
    }
}

/// A DER sequence that begins with version 3.
fn pkcs12(head: &[u8]) -> bool {
    sequence(head).is_some_and(|inner| inner.starts_with(b"\x02\x01\x03\x30"))
}

/// What is in the sequence that `bytes` begin with, as far as it is there.
fn sequence(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [0x30, length, rest @ ..] if *length < 0x80 => Some(rest),
        [0x30, length, rest @ ..] if (0x81..=0x84).contains(length) => rest.get(usize::from(length - 0x80)..),
        _ => None,
    }
}

/// Whether `line` gives `key`, behind blanks, list marks and quotes, a value.
fn valued(line: &[u8], key: &str, mark: u8) -> bool {
    let start = line.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'-' | b'"' | b'\''));
    let Some(rest) = start.and_then(|start| line[start..].strip_prefix(key.as_bytes())) else { return false };
    let rest = rest.trim_ascii_start();
    let rest =
        rest.strip_prefix(b"\"").or_else(|| rest.strip_prefix(b"'")).unwrap_or(rest).trim_ascii_start();
    let Some([first, value @ ..]) = Some(rest) else { return false };
    // What a key of YAML has below it counts too: `auth-provider:`.
    *first == mark && (literal(value) || (mark == b':' && key == "auth-provider"))
}

/// Whether a value is there and is not a variable's.
fn literal(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    let value = value.strip_prefix(b"\"").or_else(|| value.strip_prefix(b"'")).unwrap_or(value);
    let empty = value.is_empty() || matches!(value, b"\"" | b"'" | b"null" | b"~");
    !empty && !value.starts_with(b"$")
}

fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start)
}

fn has(bytes: &[u8], what: &[u8]) -> bool {
    find(bytes, what).is_some()
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let first = *what.first()?;
    let mut from = 0;
    while let Some(at) = bytes.get(from..)?.iter().position(|byte| *byte == first) {
        let at = from + at;
        if bytes[at..].starts_with(what) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Holds; 8] = [
        Holds::PrivateKey,
        Holds::KeyStore,
        Holds::ServiceAccount,
        Holds::Kubeconfig,
        Holds::NpmToken,
        Holds::YarnToken,
        Holds::Password,
        Holds::CloudLogin,
    ];

    #[test]
    fn each_kind_is_recognised_and_what_looks_like_it_is_not() {
        use Holds::*;
        let cases: &[(Holds, &[u8], bool)] = &[
            (PrivateKey, b"-----BEGIN PRIVATE KEY-----\nMII", true),
            (PrivateKey, b"-----BEGIN RSA PRIVATE KEY-----\r\n", true),
            (PrivateKey, b"-----BEGIN OPENSSH PRIVATE KEY-----\n", true),
            (PrivateKey, b"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n-----BEGIN ENCRYPTED PRIVATE KEY-----\n", true),
            (PrivateKey, b"-----BEGIN CERTIFICATE-----\nMII", false),
            (PrivateKey, b"-----BEGIN PUBLIC KEY-----\n", false),
            (PrivateKey, b"how to make a PRIVATE KEY", false),
            (PrivateKey, b"PuTTY-User-Key-File-3: ssh-ed25519", true),
            (PrivateKey, b"\x30\x82\x04\xa4\x02\x01\x00\x02\x82\x01\x01", true),
            (PrivateKey, b"\x30\x82\x04\xbe\x02\x01\x00\x30\x0d", true),
            (PrivateKey, b"\x30\x77\x02\x01\x01\x04\x20", true),
            (PrivateKey, b"\x30\x82\x01\x00\x30\x40\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d", true),
            // A certificate.
            (PrivateKey, b"\x30\x82\x03\x00\x30\x82\x02\x00\xa0\x03\x02\x01\x02", false),
            (KeyStore, b"\xfe\xed\xfe\xed\x00", true),
            (KeyStore, b"\x30\x82\x0a\x00\x02\x01\x03\x30\x82", true),
            (KeyStore, b"a key store", false),
            (ServiceAccount, b"{\n \"type\": \"service_account\",\n \"private_key\": \"-----BEGIN PRIVATE KEY-----\\nMII\"}", true),
            (ServiceAccount, b"{\"type\":\"service_account\",\"client_email\":\"x\"}", false),
            (ServiceAccount, b"{\"type\": \"object\"}", false),
            (Kubeconfig, b"apiVersion: v1\nkind: Config\nclusters:\n- cluster:\nusers:\n- name: x\n  user:\n    client-key-data: LS0t\n", true),
            (Kubeconfig, b"clusters:\nusers:\n- user: {}\n  user:\n    token: abc\n", true),
            (Kubeconfig, b"clusters: []\nusers:\n- user:\n    auth-provider:\n      name: x\n", true),
            (Kubeconfig, b"clusters:\nusers:\n- user:\n    exec:\n      command: aws\n", false),
            (Kubeconfig, b"services:\n  web:\n    password: x\n", false),
            (NpmToken, b"//registry.npmjs.org/:_authToken=npm_abc\n", true),
            (NpmToken, b"_auth = YTpi\n", true),
            (NpmToken, b"//registry.npmjs.org/:_authToken=${NPM_TOKEN}\n", false),
            (NpmToken, b"# _authToken=abc\nregistry=https://r.example/\n", false),
            (YarnToken, b"npmScopes:\n  x:\n    npmAuthToken: \"abc\"\n", true),
            (YarnToken, b"npmAuthToken: \"${TOKEN}\"\nnodeLinker: pnp\n", false),
            (Password, b"[pypi]\nusername = __token__\npassword = pypi-abc\n", true),
            (Password, b"machine a.example login me password hunter2\n", true),
            (Password, b"machine a.example\n  login me\n  password\thunter2\n", true),
            (Password, b"[distutils]\nindex-servers = pypi\n[pypi]\nrepository = https://x\n", false),
            (Password, b"# password x\n", false),
            (CloudLogin, b"[default]\naws_access_key_id = AKIA\naws_secret_access_key = abc\n", true),
            (CloudLogin, b"[default]\nregion = eu\n", false),
        ];
        for (holds, head, expected) in cases {
            assert_eq!(holds.is_in(head), *expected, "{holds:?} {}", String::from_utf8_lossy(head));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_detector_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for holds in ALL {
                holds.is_in(&bytes);
            }
        }

        #[test]
        fn neither_do_parts_of_what_they_look_for(parts in proptest::collection::vec(prop_oneof![
            Just(&b"\x30\x82\x01"[..]), Just(&b"\x30\x84"[..]), Just(&b"\x02\x01\x00"[..]), Just(&b"\n"[..]), Just(&b"="[..]),
            Just(&b"-----BEGIN "[..]), Just(&b"PRIVATE KEY"[..]), Just(&b"password"[..]), Just(&b"_auth"[..]), Just(&b"\""[..]),
            Just(&b"token"[..]), Just(&b":"[..]), Just(&b"clusters:\nusers:\n"[..]), Just(&b"npmAuthToken"[..]), Just(&b"'"[..]),
        ], 0..12)) {
            let bytes = parts.concat();
            for holds in ALL {
                holds.is_in(&bytes);
            }
        }
    }
}
