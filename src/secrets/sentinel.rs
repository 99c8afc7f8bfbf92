//! The fake that stands for a value inside the jail.

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::shapes::{self, Slot};
use super::value::{SecretValue, Seed};

/// How often another sentinel is tried when one is part of another.
const TRIES: u32 = 64;

/// What stands for a value inside: as long as the value, and differing from it in letters and digits only (of a JSON Web
/// Token: in characters of base64url). No secret; its debug form shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Sentinel(String);

impl Sentinel {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub(super) fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Sentinel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sentinel({:?})", self.0)
    }
}

/// Why there is no sentinel for a value. The texts quote nothing of the value; each begins with what the value is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// There are too few letters and digits.
    #[error(
        "what can be replaced in it has {0} bits, and a fake that nobody can guess, or meet by chance, needs 64; \
         use a value with at least 11 letters and digits behind its prefix"
    )]
    TooFew(u32),
    /// Every sentinel that was tried is part of another, or the other way round.
    #[error("every fake for it is part of another secret's; give another value")]
    Taken,
    /// It is no JSON Web Token.
    #[error("it is no JSON Web Token ({0}); leave `decode` out, or name the token with `extract`")]
    NotJwt(&'static str),
    /// A claim of `mask_claims` is not in the token.
    #[error("its token has no claim {0:?} that could be masked; correct `mask_claims`")]
    NoClaim(String),
}

/// The sentinel for `value` under the name `name`: always the same for one seed, name and value. It is neither part of one
/// of `taken`, nor has one of them in it. Fails when the value's shape leaves fewer than 64 bits.
pub fn sentinel(
    seed: &Seed,
    name: &str,
    value: &SecretValue,
    taken: &[&Sentinel],
) -> Result<Sentinel, ShapeError> {
    let slots = shapes::slots(value.expose()).map_err(ShapeError::TooFew)?;
    choose(seed, name, value, taken, |chance| {
        let mut text = Zeroizing::new(value.expose().to_vec());
        chance.fill(&mut text, &slots);
        text
    })
}

/// The first of what `make` makes that is free.
pub(super) fn choose(
    seed: &Seed,
    name: &str,
    value: &SecretValue,
    taken: &[&Sentinel],
    make: impl Fn(&mut Chance) -> Zeroizing<Vec<u8>>,
) -> Result<Sentinel, ShapeError> {
    for attempt in 0..TRIES {
        let text = make(&mut Chance::new(seed, name, value, attempt));
        let clashes = taken.iter().any(|other| has(other.as_bytes(), &text) || has(&text, other.as_bytes()));
        if clashes || *text == value.expose() {
            continue;
        }
        // Only ASCII was replaced, by ASCII, in what is UTF-8.
        if let Ok(text) = std::str::from_utf8(&text) {
            return Ok(Sentinel::new(text.to_owned()));
        }
    }
    Err(ShapeError::Taken)
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Bytes by chance that are the same every time: HMAC-SHA256 under the seed, in counter mode.
pub(super) struct Chance {
    mac: Hmac<Sha256>,
    counter: u64,
    block: Zeroizing<Vec<u8>>,
}

impl Chance {
    fn new(seed: &Seed, name: &str, value: &SecretValue, attempt: u32) -> Self {
        #[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
        let mut mac = Hmac::<Sha256>::new_from_slice(seed.expose()).expect("a key");
        mac.update(b"ai-jail sentinel 1\0");
        for part in [name.as_bytes(), value.expose()] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.update(&attempt.to_be_bytes());
        Self { mac, counter: 0, block: Zeroizing::new(Vec::new()) }
    }

    fn byte(&mut self) -> u8 {
        loop {
            if let Some(byte) = self.block.pop() {
                return byte;
            }
            let mut mac = self.mac.clone();
            mac.update(&self.counter.to_be_bytes());
            self.counter += 1;
            self.block.extend_from_slice(&mac.finalize().into_bytes());
        }
    }

    /// One of `alphabet`, each as likely as the others.
    pub(super) fn pick(&mut self, alphabet: &[u8]) -> u8 {
        loop {
            let byte = usize::from(self.byte());
            if byte < 256 / alphabet.len() * alphabet.len() {
                return alphabet[byte % alphabet.len()];
            }
        }
    }

    /// Fills the `slots` of `text`.
    pub(super) fn fill(&mut self, text: &mut [u8], slots: &[Slot]) {
        for slot in slots {
            text[slot.at] = self.pick(slot.alphabet);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> SecretValue {
        SecretValue::new(text.into()).unwrap()
    }

    fn fake(seed: u8, name: &str, text: &str) -> Sentinel {
        sentinel(&Seed::new([seed; 32]), name, &value(text), &[]).unwrap()
    }

    #[test]
    fn it_is_the_same_for_one_seed_name_and_value_and_another_otherwise() {
        let text = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
        let first = fake(1, "TOKEN", text);
        assert_eq!(first, fake(1, "TOKEN", text));
        // Agents remember what they were told of a key: this must not change from one version to the next.
        assert_eq!(first.as_str(), "ghp_yrwqsdygyyswwmdruwbwomtmbs8369112344");
        for other in
            [fake(2, "TOKEN", text), fake(1, "TOKEM", text), fake(1, "TOKEN", &text.replace("abc", "abd"))]
        {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn what_is_taken_is_neither_part_nor_whole() {
        let text = "abcdefghijklmnopqrstuvwxyz0123456789";
        let first = fake(1, "A", text);
        let part = Sentinel::new(first.as_str()[3..20].to_owned());
        let whole = Sentinel::new(format!("x{}x", first.as_str()));
        for taken in [&first, &part, &whole] {
            let second = sentinel(&Seed::new([1; 32]), "A", &value(text), &[taken]).unwrap();
            assert!(!has(second.as_bytes(), taken.as_bytes()) && !has(taken.as_bytes(), second.as_bytes()));
        }
        let any = Sentinel::new("-".to_owned());
        let clash = sentinel(&Seed::new([1; 32]), "A", &value("a-bcdefghijklmnopqrstuvwxyz0123"), &[&any]);
        assert_eq!(clash, Err(ShapeError::Taken));
    }

    #[test]
    fn chance_is_even() {
        let mut chance = Chance::new(&Seed::new([9; 32]), "A", &value("b"), 0);
        let mut counts = [0_u32; 10];
        for _ in 0..20_000 {
            counts[usize::from(chance.pick(b"0123456789") - b'0')] += 1;
        }
        // Seven standard deviations.
        assert!(counts.iter().all(|count| count.abs_diff(2000) < 300), "{counts:?}");
    }

    proptest! {
        #[test]
        fn it_differs_in_letters_and_digits_alone(text in "(sk-ant-|ghp_|AKIA|)[ -~\u{fc}]{16,60}") {
            let value = value(&text);
            match sentinel(&Seed::new([1; 32]), "A", &value, &[]) {
                Ok(sentinel) => {
                    prop_assert_eq!(sentinel.as_bytes().len(), text.len());
                    prop_assert_ne!(sentinel.as_str(), &text);
                    for (is, was) in sentinel.as_bytes().iter().zip(text.as_bytes()) {
                        prop_assert!(is == was || (is.is_ascii_alphanumeric() && was.is_ascii_alphanumeric()));
                    }
                }
                Err(error) => {
                    prop_assert!(text.bytes().filter(u8::is_ascii_alphanumeric).count() < 18, "{error} {text}");
                }
            }
        }
    }
}
