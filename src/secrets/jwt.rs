//! The sentinel for a JSON Web Token is one too (RFC 7519): a program that reads its claims finds what it expects.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use super::sentinel::{Sentinel, ShapeError, choose};
use super::shapes::{self, Slot};
use super::value::{SecretValue, Seed};

const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// The last character when four of its bits, or two, stand for nothing and have to be zero.
const LAST_OF_TWO: &[u8] = b"AQgw";
const LAST_OF_THREE: &[u8] = b"AEIMQUYcgkosw048";
/// How deep a masked claim may be.
const DEPTH: u32 = 16;

/// The sentinel for the token `value`, as long: header and claims are kept, but for the letters and digits of the claims
/// `mask_claims`; the signature is another. It has the properties of [`super::sentinel`].
pub fn jwt(
    seed: &Seed,
    name: &str,
    value: &SecretValue,
    mask_claims: &[String],
    taken: &[&Sentinel],
) -> Result<Sentinel, ShapeError> {
    let token = Token::parse(value.expose())?;
    let claims = token.slots(mask_claims)?;
    let signature = token.signature_slots();
    let all: Vec<Slot> = claims.iter().chain(&signature).copied().collect();
    shapes::enough(&all).map_err(ShapeError::TooFew)?;
    choose(seed, name, value, taken, |chance| {
        let mut text = Zeroizing::new(token.text.to_vec());
        chance.fill(&mut text, &signature);
        if !claims.is_empty() {
            let mut payload = token.payload.clone();
            chance.fill(&mut payload, &claims);
            let encoded = Zeroizing::new(BASE64_URL_SAFE_NO_PAD.encode(&*payload));
            text[token.payload_at..][..encoded.len()].copy_from_slice(encoded.as_bytes());
        }
        text
    })
}

/// Whether `value` is a token for which [`jwt`] has a sentinel.
pub(super) fn is_jwt(value: &SecretValue) -> bool {
    value.expose().starts_with(b"eyJ") && jwt(&Seed::new([0; 32]), "", value, &[], &[]).is_ok()
}

struct Token<'t> {
    text: &'t [u8],
    /// The payload, decoded: a JSON object.
    payload: Zeroizing<Vec<u8>>,
    payload_at: usize,
    signature_at: usize,
}

impl<'t> Token<'t> {
    fn parse(text: &'t [u8]) -> Result<Self, ShapeError> {
        let parts: Vec<&[u8]> = text.split(|byte| *byte == b'.').collect();
        let [header, payload, signature] = parts[..] else {
            return Err(ShapeError::NotJwt("it has not the three parts of a signed one"));
        };
        let decode = |part: &[u8], what| {
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(part).map(Zeroizing::new);
            bytes.map_err(|_| ShapeError::NotJwt(what))
        };
        members(&decode(header, "its header is not in base64url")?)
            .ok_or(ShapeError::NotJwt("its header is no JSON object"))?;
        decode(signature, "its signature is not in base64url")?;
        let payload_at = header.len() + 1;
        let signature_at = payload_at + payload.len() + 1;
        let payload = decode(payload, "its claims are not in base64url")?;
        members(&payload).ok_or(ShapeError::NotJwt("its claims are no JSON object"))?;
        Ok(Self { text, payload, payload_at, signature_at })
    }

    fn signature_slots(&self) -> Vec<Slot> {
        let count = self.text.len() - self.signature_at;
        let alphabet = |index| match (index + 1 == count, count % 4) {
            (true, 2) => LAST_OF_TWO,
            (true, 3) => LAST_OF_THREE,
            _ => BASE64,
        };
        (0..count).map(|index| Slot { at: self.signature_at + index, alphabet: alphabet(index) }).collect()
    }

    /// What is filled anew in the payload.
    fn slots(&self, claims: &[String]) -> Result<Vec<Slot>, ShapeError> {
        let members = members(&self.payload).unwrap_or_default();
        let mut slots: Vec<Slot> = Vec::new();
        for claim in claims {
            let before = slots.len();
            for (_, span) in members.iter().filter(|(name, _)| name == claim) {
                mask(&self.payload, span.clone(), DEPTH, &mut slots);
            }
            if slots.len() == before {
                return Err(ShapeError::NoClaim(claim.clone()));
            }
        }
        Ok(slots)
    }
}

/// Adds what is filled anew in the JSON value at `span`.
fn mask(json: &[u8], span: Range<usize>, depth: u32, slots: &mut Vec<Slot>) {
    let text = &json[span.clone()];
    let parts = match text.first() {
        Some(b'"') => {
            let inner = shapes::alike(&without_escapes(text));
            slots.extend(inner.iter().map(|slot| Slot { at: span.start + slot.at, ..*slot }));
            return;
        }
        Some(b'-' | b'0'..=b'9') => {
            number(text, span.start, slots);
            return;
        }
        Some(b'{') if depth > 0 => members(text).map(|list| list.into_iter().map(|(_, part)| part).collect()),
        Some(b'[') if depth > 0 => elements(text),
        _ => None,
    };
    for part in parts.unwrap_or_default() {
        mask(json, span.start + part.start..span.start + part.end, depth - 1, slots);
    }
}

/// The digits of a number before its exponent; the first stays other than 0, and a 0 before the point stays.
fn number(text: &[u8], start: usize, slots: &mut Vec<Slot>) {
    let first = usize::from(text[0] == b'-');
    let mantissa = text.iter().take_while(|byte| !matches!(byte, b'e' | b'E')).enumerate();
    for (at, byte) in mantissa.filter(|(_, byte)| byte.is_ascii_digit()) {
        let alphabet: &[u8] = match (at == first, byte) {
            (true, b'0') => continue,
            (true, _) => b"123456789",
            (false, _) => b"0123456789",
        };
        slots.push(Slot { at: start + at, alphabet });
    }
}

/// The string with its escapes blanked out.
fn without_escapes(string: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(string.to_vec());
    let mut at = 0;
    while at < out.len() {
        let length = match (out[at], out.get(at + 1)) {
            (b'\\', Some(b'u')) => 6,
            (b'\\', _) => 2,
            _ => {
                at += 1;
                continue;
            }
        };
        let end = out.len().min(at + length);
        out[at..end].fill(b' ');
        at = end;
    }
    out
}

/// The members of a JSON object, each with where its value stands in `json`; of one name there may be several.
fn members(json: &[u8]) -> Option<Vec<(String, Range<usize>)>> {
    let Members(members) = serde_json::from_slice(json).ok()?;
    members.into_iter().map(|(name, value)| Some((name.into_owned(), span(json, value)?))).collect()
}

fn elements(json: &[u8]) -> Option<Vec<Range<usize>>> {
    let elements: Vec<&RawValue> = serde_json::from_slice(json).ok()?;
    elements.into_iter().map(|value| span(json, value)).collect()
}

/// Where `value`, which was read from `json`, stands in it.
fn span(json: &[u8], value: &RawValue) -> Option<Range<usize>> {
    let start = value.get().as_ptr().addr().checked_sub(json.as_ptr().addr())?;
    let end = start + value.get().len();
    (end <= json.len()).then_some(start..end)
}

/// All members of an object: a map would keep one of each name.
struct Members<'j>(Vec<(Cow<'j, str>, &'j RawValue)>);

impl<'j> Deserialize<'j> for Members<'j> {
    fn deserialize<D: Deserializer<'j>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'j> Visitor<'j> for Each {
            type Value = Members<'j>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIMS: &str = r#"{"iss":"https://login.example","sub":"550e8400-e29b-41d4-a716-446655440000","email":"Jane.Doe+1\u00e9\n@example.com","exp":1764547200,"rate":-0.25e10,"nested":{"ids":["A1",[77]],"ok":true},"email":"second"}"#;

    fn token(claims: &str, signature: usize) -> String {
        let signature: Vec<u8> = (0..signature).map(|at| (at * 7) as u8).collect();
        let parts = [br#"{"alg":"HS256","typ":"JWT"}"#, claims.as_bytes(), &signature];
        parts.map(|part| BASE64_URL_SAFE_NO_PAD.encode(part)).join(".")
    }

    fn fake(token: &str, claims: &[&str]) -> Result<String, ShapeError> {
        let value = SecretValue::new(token.into()).unwrap();
        let claims: Vec<String> = claims.iter().map(|claim| (*claim).to_owned()).collect();
        jwt(&Seed::new([3; 32]), "TOKEN", &value, &claims, &[]).map(|sentinel| sentinel.as_str().to_owned())
    }

    fn payload(token: &str) -> String {
        let part = token.split('.').nth(1).unwrap();
        String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn without_claims_only_the_signature_is_another_and_decodes_strictly() {
        for length in [8, 9, 10, 32, 64, 256] {
            let token = token(CLAIMS, length);
            let fake = fake(&token, &[]).unwrap();
            let (kept, signature) = fake.rsplit_once('.').unwrap();
            assert_eq!(fake.len(), token.len());
            assert!(token.starts_with(kept) && fake != token);
            assert_eq!(BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap().len(), length);
        }
    }

    #[test]
    fn a_masked_claim_keeps_its_form_and_the_others_their_text() {
        let token = token(CLAIMS, 32);
        let claims = ["sub", "email", "exp", "rate", "nested"];
        let fake = fake(&token, &claims).unwrap();
        assert_eq!(fake.len(), token.len());
        let (was, is) = (payload(&token), payload(&fake));
        let json: serde_json::Value = serde_json::from_str(&is).unwrap();
        assert_eq!(json["iss"], "https://login.example");
        assert!(json["nested"]["ok"].as_bool().unwrap());
        for value in ["550e8400-", "Jane", "Doe", "1764547200", "0.25e", "\"A1\"", "77", "second"] {
            assert!(was.contains(value) && !is.contains(value), "{value} in {is}");
        }
        for value in [r"\u00e9\n@", "e10", "\"email\":", "\"nested\":{\"ids\":["] {
            assert!(is.contains(value), "{value} in {is}");
        }
    }

    #[test]
    fn what_is_no_token_or_has_nothing_to_mask_is_refused() {
        let good = token(CLAIMS, 32);
        let none = token(CLAIMS, 0);
        let cases = [
            ("a.b".to_owned(), &[][..], "three parts"),
            (format!("{good}.x"), &[], "three parts"),
            (format!("x{good}"), &[], "header"),
            (token("[1]", 32), &[], "claims are no JSON object"),
            (format!("{good}*"), &[], "signature"),
            (good.clone(), &["nbf"], "no claim"),
            (token(r#"{"ok":true}"#, 32), &["ok"], "no claim"),
            (none, &[], "bits"),
        ];
        for (token, claims, want) in cases {
            let error = fake(&token, claims).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
        assert!(fake(&token(CLAIMS, 0), &["sub"]).is_ok());
    }
}
