//! The copy of a file that the jail has: sentinels stand where the secrets were (TLS-4).

use std::ops::Range;
use std::sync::Arc;

use regex::bytes::Regex;
use zeroize::Zeroizing;

use super::decode::Decode;
use super::forms::{self, Pair};
use super::group::Edges;
use super::jwt::{is_jwt, jwt};
use super::login::{self, is_login};
use super::sentinel::{Sentinel, ShapeError, sentinel};
use super::stream::{Stream, Table, What};
use super::structure::{Structure, structure};
use super::value::{SecretValue, Seed, ValueError};

/// How many different secrets one file may have.
const MOST: usize = 256;

/// What is secret in a file.
#[derive(Debug, Clone)]
pub struct FileMask {
    extract: Option<Regex>,
    decode: Option<Decode>,
    mask_claims: Vec<String>,
}

impl FileMask {
    /// The first group of every match of `extract`, or the whole content, in the form `decode`, which is plain when it is not said.
    /// Fails when `extract` cannot be read, or has no
    /// group.
    pub fn new(
        extract: Option<&str>,
        decode: Option<Decode>,
        mask_claims: Vec<String>,
    ) -> Result<Self, FileError> {
        let extract =
            extract.map(Regex::new).transpose().map_err(|error| FileError::Extract(summary(&error)))?;
        if extract.as_ref().is_some_and(|regex| regex.captures_len() < 2) {
            return Err(FileError::NoGroup);
        }
        Ok(Self { extract, decode, mask_claims })
    }

    fn values(&self, content: &[u8]) -> Result<Vec<Written>, FileError> {
        let Some(extract) = &self.extract else {
            let value = content.strip_suffix(b"\n").unwrap_or(content);
            let value = value.strip_suffix(b"\r").unwrap_or(value);
            if let Some(structure) = structure(value) {
                return Err(FileError::Structured(structure));
            }
            if value.contains(&b'\n') {
                return Err(FileError::Lines);
            }
            let value = SecretValue::new(value.to_vec())?;
            if self.decode.is_none() && is_jwt(&value) {
                return Err(FileError::Jwt);
            }
            return Ok(vec![Written { value, as_it_is: None }]);
        };
        let mut values: Vec<Written> = Vec::new();
        for captures in extract.captures_iter(content) {
            let group = captures.get(1).ok_or(FileError::Partly)?;
            let written = match self.decode {
                None => Written::new(content, group.range())?,
                Some(_) => Written { value: SecretValue::new(group.as_bytes().to_vec())?, as_it_is: None },
            };
            let is_same = |other: &Written| {
                other.value.expose() == written.value.expose() && other.as_it_is == written.as_it_is
            };
            if values.iter().any(is_same) {
                continue;
            }
            if values.len() == MOST {
                return Err(FileError::TooMany);
            }
            values.push(written);
        }
        if values.is_empty() { Err(FileError::NoMatch) } else { Ok(values) }
    }
}

/// A value as a file has it.
struct Written {
    value: SecretValue,
    /// How it is written, where that is not what it is.
    as_it_is: Option<Zeroizing<Vec<u8>>>,
}

impl Written {
    /// The value at `range`. In the login of a URL, as in `.git-credentials`, it is percent-encoded: programs send it decoded.
    fn new(content: &[u8], range: Range<usize>) -> Result<Self, ValueError> {
        let raw = &content[range.clone()];
        if is_login(content, &range)
            && let Some(decoded) = login::decoded(raw)
            && let Ok(value) = SecretValue::new(decoded)
        {
            return Ok(Self { value, as_it_is: Some(Zeroizing::new(raw.to_vec())) });
        }
        Ok(Self { value: SecretValue::new(raw.to_vec())?, as_it_is: None })
    }
}

/// A file with sentinels.
#[derive(Debug)]
pub struct MaskedFile {
    /// The content for the jail, as long as the real one.
    pub copy: Vec<u8>,
    /// What was found, with what stands for it.
    pub found: Vec<(SecretValue, Sentinel)>,
}

/// Why a file is not masked; it must not be shown then. The texts quote nothing of it but names; each begins with what the
/// file is.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// `extract` is no regular expression.
    #[error("its `extract` is no regular expression: {0}")]
    Extract(String),
    /// `extract` has no group.
    #[error("its `extract` has no group to say what is secret; put parentheses around that part")]
    NoGroup,
    /// `extract` matches nothing.
    #[error(
        "its `extract` matches nothing in it, so all of it would be shown; correct `extract`, or deny the file"
    )]
    NoMatch,
    /// In some match the group is not there.
    #[error("its `extract` matches without its first group; let every alternative have the same one")]
    Partly,
    /// More different values than [`MOST`].
    #[error("its `extract` finds more than 256 different secrets; make it narrower, or deny the file")]
    TooMany,
    /// Without `extract`, more than one line.
    #[error("it has more than one line; name the secret in it with `extract`, or deny the file")]
    Lines,
    /// Without `extract`, more than a secret.
    #[error("{0}")]
    Structured(Structure),
    /// Without `extract` and `decode`, a JSON Web Token.
    #[error(
        "it is a JSON Web Token, and a fake of it as plain text could be read by no program that looks into it; say so in \
         [[secrets.files]] of your configuration: decode = \"jwt\", and its claims stay readable; or \"plain\" for programs that \
         only send it"
    )]
    Jwt,
    /// What was found is no value.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// What was found has no sentinel.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// The copy of the file `path_name` with this `content`. Each value is replaced wherever it stands, in every form that is
/// known, and not only where it was found. No sentinel is part of one of `taken`, or the other way round.
pub fn mask_file(
    seed: &Seed,
    path_name: &str,
    content: &[u8],
    spec: &FileMask,
    taken: &[&Sentinel],
) -> Result<MaskedFile, FileError> {
    let mut found: Vec<(SecretValue, Sentinel)> = Vec::new();
    let mut forms = Vec::new();
    for Written { value, as_it_is } in spec.values(content)? {
        let taken: Vec<&Sentinel> = taken.iter().copied().chain(found.iter().map(|(_, one)| one)).collect();
        let sentinel = match spec.decode {
            None | Some(Decode::Plain) => sentinel(seed, path_name, &value, &taken)?,
            Some(Decode::Jwt) => jwt(seed, path_name, &value, &spec.mask_claims, &taken)?,
        };
        let written = as_it_is.map(|raw| {
            let put = login::written_as(&raw, value.expose(), sentinel.as_bytes());
            Pair { find: raw, put, edges: Edges::default() }
        });
        forms.push(forms::all_and(value.expose(), sentinel.as_bytes(), written));
        found.push((value, sentinel));
    }
    let names = vec![path_name.to_owned(); found.len()];
    let table = Arc::new(Table::new(names, forms));
    let mut stream = Stream::new(table, vec![What::Put; found.len()]);
    let mut copy = Vec::with_capacity(content.len());
    stream.push(content, &mut copy);
    stream.finish(&mut copy);
    Ok(MaskedFile { copy, found })
}

/// The last line of what the regex says, which names the fault; the others quote the expression.
fn summary(error: &regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "npm_abcdefghijklmnopqrstuvwxyz0123456789";
    const B: &str = "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

    fn masked(content: &str, extract: Option<&str>) -> Result<MaskedFile, FileError> {
        let mask = FileMask::new(extract, None, Vec::new())?;
        mask_file(&Seed::new([1; 32]), "/home/u/.npmrc", content.as_bytes(), &mask, &[])
    }

    #[test]
    fn a_copy_differs_in_its_secrets_alone() {
        let quoted = A.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        let cases = [
            (format!("{A}\n"), None, 1),
            (A.to_owned(), None, 1),
            (format!("{A}\r\n"), None, 1),
            (format!("//a/:_authToken={A}\n//b/:_authToken={B}\n"), Some("_authToken=(.*)"), 2),
            (format!("t={A}\nu={A}\n# was {A} or {quoted}\n"), Some("t=(.*)"), 1),
            (format!("\u{e9}\ntoken: \"{B}\"\n"), Some("(?i)TOKEN: \"([^\"]+)\""), 1),
        ];
        for (content, extract, count) in cases {
            let masked = masked(&content, extract).unwrap();
            assert_eq!(masked.found.len(), count, "{content}");
            let mut want = content.replace(&quoted, "");
            for (value, sentinel) in &masked.found {
                want = want.replace(std::str::from_utf8(value.expose()).unwrap(), sentinel.as_str());
            }
            let copy = String::from_utf8(masked.copy).unwrap();
            assert_eq!(copy.len(), content.len());
            assert!(!copy.contains(&quoted) && !copy.contains(A));
            assert!(content.contains(&quoted) || copy == want, "{copy}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_masked_as_it_is_sent() {
        // Decoded it is `pa/ss@W0rd~1234567890aB`; the last is written oddly.
        for raw in [
            "pa%2fss%40W0rd~1234567890aB",
            "pa%2Fss%40W0rd%7E1234567890aB",
            "p%61%2Fss@W0rd~1234567890aB".replace('@', "%40").as_str(),
        ] {
            let content = format!("https://me:{raw}@a.test\nhttps://me:{A}@b.test\n");
            let masked = masked(&content, Some(r"://[^:@/\s]*:([^@/\s]+)@")).unwrap();
            let (value, sentinel) = &masked.found[0];
            assert_eq!(value.expose(), b"pa/ss@W0rd~1234567890aB", "{raw}");
            let copy = String::from_utf8(masked.copy).unwrap();
            let fake = copy.split([':', '@']).nth(2).unwrap();
            assert_eq!(fake.len(), raw.len(), "{copy}");
            assert_eq!(login::decoded(fake.as_bytes()).unwrap(), sentinel.as_bytes(), "{copy}");
            assert!(!copy.contains("W0rd") && !copy.contains(A), "{copy}");
        }
        // Elsewhere a percent sign is one.
        let plain = masked("t=50%25offW0rd1234567890aB\n", Some("t=(.*)")).unwrap();
        assert_eq!(plain.found[0].0.expose(), b"50%25offW0rd1234567890aB");
    }

    #[test]
    fn what_cannot_be_masked_is_refused() {
        let cases = [
            (format!("{A}\n{B}\n"), None, FileError::Lines),
            ("\n".to_owned(), None, FileError::Value(ValueError::Empty)),
            (format!("x={A}"), Some("y=(.*)"), FileError::NoMatch),
            (format!("x={A}"), Some("x=.*"), FileError::NoGroup),
            (format!("x={A} y"), Some("x=(.*) |y"), FileError::Partly),
            ("x=".to_owned(), Some("x=(.*)"), FileError::Value(ValueError::Empty)),
            (format!("x={A}\n{B}"), Some("(?s)x=(.*)"), FileError::Value(ValueError::Lines)),
            ("x=short".to_owned(), Some("x=(.*)"), FileError::Shape(ShapeError::TooFew(29))),
            (format!("x={A}"), Some("x=("), FileError::Extract("unclosed group".to_owned())),
        ];
        for (content, extract, want) in cases {
            assert_eq!(masked(&content, extract).unwrap_err(), want, "{content}");
        }
        let many: String = (0..300).map(|at| format!("{A}{at:04}\n")).collect();
        assert_eq!(masked(&many, Some("(.+)")).unwrap_err(), FileError::TooMany);
    }

    #[test]
    fn all_of_a_file_is_a_secret_only_when_it_has_no_structure() {
        let content = format!("{{\"token\": \"{A}\"}}\n");
        let refused = masked(&content, None).unwrap_err();
        assert!(matches!(refused, FileError::Structured(_)), "{refused}");
        let said = refused.to_string();
        let extract = said.split('\'').nth(1).expect("an example");
        assert_eq!(masked(&content, Some(extract)).unwrap().found.len(), 1, "{said}");
    }

    const TOKEN: &str =
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqYW5lIn0.AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

    #[test]
    fn a_file_that_is_a_token_says_how_its_fake_is_one() {
        let said = masked(&format!("{TOKEN}\n"), None).unwrap_err();
        assert_eq!(said, FileError::Jwt);
        assert!(said.to_string().contains("decode = \"jwt\"") && !said.to_string().contains("eyJ"), "{said}");
        let copy = |decode| {
            let mask = FileMask::new(None, Some(decode), Vec::new()).unwrap();
            let masked = mask_file(&Seed::new([1; 32]), "/f", TOKEN.as_bytes(), &mask, &[]).unwrap();
            String::from_utf8(masked.copy).unwrap()
        };
        let fake = copy(Decode::Jwt);
        assert!(fake.starts_with("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqYW5lIn0.") && fake != TOKEN, "{fake}");
        assert!(!copy(Decode::Plain).contains("eyJzdWIiOiJqYW5lIn0"));
    }

    #[test]
    fn what_is_proposed_for_a_file_leaves_all_but_its_secrets() {
        for (content, kept, is_jwt) in [
            (
                format!("https://longusername1234:{A}@github.test\n"),
                vec!["longusername1234", "@github.test"],
                false,
            ),
            (
                format!("https://me:{A}@github.test\nhttps://longusername1234:{B}@a.test/x\n"),
                vec!["https://me:", "longusername1234", "@a.test/x"],
                false,
            ),
            (
                format!("machine registry.long-name-2024.test login longusername1234 password {A}\n"),
                vec!["machine registry.long-name-2024.test login longusername1234 password "],
                false,
            ),
            (
                format!(
                    "machine a.test\n  login longusername1234\n  password {A}\n\ndefault password \"{B}\" login me\n"
                ),
                vec!["login longusername1234", "default password \"", "login me"],
                false,
            ),
            (
                format!("[global]\nindex-url = https://longusername1234:{A}@pypi.test/simple\n"),
                vec!["longusername1234"],
                false,
            ),
            (format!("{{\"id\": \"1\", \"token\": \"{TOKEN}\"}}"), vec!["\"id\": \"1\""], true),
            (
                format!("//npm.test/:_auth={A}\nregistry=https://npm.test/\n"),
                vec!["registry=https://npm.test/"],
                false,
            ),
        ] {
            let said = masked(&content, None).unwrap_err().to_string();
            let extract = said.split('\'').nth(1).unwrap_or_else(|| panic!("{content}: {said}"));
            let decode = said.contains("decode = \"jwt\"").then_some(Decode::Jwt);
            assert_eq!(decode.is_some(), is_jwt, "{content}: {said}");
            let mask = FileMask::new(Some(extract), decode, Vec::new()).unwrap();
            let masked = mask_file(&Seed::new([1; 32]), "/f", content.as_bytes(), &mask, &[]);
            let masked = masked.unwrap_or_else(|error| panic!("{content}: {said}: {error}"));
            let copy = String::from_utf8(masked.copy).unwrap();
            for part in kept {
                assert!(copy.contains(part), "{content}: {said}: {copy}");
            }
            for secret in [A, B, TOKEN] {
                assert!(!copy.contains(secret) && !said.contains(secret), "{content}: {said}: {copy}");
            }
            assert!(!said.contains("longusername"), "{said}");
        }
    }

    #[test]
    fn a_token_in_a_file_becomes_a_token() {
        let token = TOKEN;
        let mask =
            FileMask::new(Some("\"access\":\"([^\"]+)\""), Some(Decode::Jwt), vec!["sub".into()]).unwrap();
        let content = format!("{{\"access\":\"{token}\"}}");
        let masked = mask_file(&Seed::new([1; 32]), "/f", content.as_bytes(), &mask, &[]).unwrap();
        let copy = String::from_utf8(masked.copy).unwrap();
        assert!(
            copy.starts_with("{\"access\":\"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOi")
                && !copy.contains("eyJzdWIiOiJqYW5lIn0")
        );
        assert_eq!(copy.len(), content.len());
    }
}
