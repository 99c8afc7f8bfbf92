//! The credentials of Basic authentication, which are in base64 (RFC 7617).

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroizing;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_encode_padding(false)
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent);
static ENGINES: [GeneralPurpose; 2] =
    [GeneralPurpose::new(&STANDARD, LENIENT), GeneralPurpose::new(&URL_SAFE, LENIENT)];

/// The value of an `Authorization` header of the scheme Basic.
pub(super) struct Basic<'h> {
    value: &'h [u8],
    /// Where base64 begins in it.
    start: usize,
    engine: &'static GeneralPurpose,
    credentials: Zeroizing<Vec<u8>>,
}

impl<'h> Basic<'h> {
    /// Reads a header's value; None when it is none of Basic or no base64.
    pub(super) fn parse(value: &'h [u8]) -> Option<Self> {
        const SCHEME: &[u8] = b"basic";
        let trimmed = value.trim_ascii();
        let (scheme, rest) = trimmed.split_at_checked(SCHEME.len())?;
        if !scheme.eq_ignore_ascii_case(SCHEME) || !rest.first()?.is_ascii_whitespace() {
            return None;
        }
        let encoded = rest.trim_ascii_start();
        let start = value.trim_ascii_end().len() - encoded.len();
        ENGINES.iter().find_map(|engine| {
            let credentials = Zeroizing::new(engine.decode(encoded).ok()?);
            Some(Self { value, start, engine, credentials })
        })
    }

    /// User and password, decoded.
    pub(super) fn credentials(&self) -> &[u8] {
        &self.credentials
    }

    /// The header's value with other credentials, which are as long, in the same spelling.
    pub(super) fn with(&self, credentials: &[u8]) -> Vec<u8> {
        let mut value = self.value.to_vec();
        let encoded = Zeroizing::new(self.engine.encode(credentials));
        value[self.start..][..encoded.len()].copy_from_slice(encoded.as_bytes());
        value
    }
}
