//! What of a value its sentinel keeps, so that a client's checks of the form pass: known prefixes, the kind of each
//! character, and every byte that is neither letter nor digit.

/// Bits of chance that a sentinel has where its shape allows: as many as a random UUID.
const WISHED: f64 = 122.0;
/// The fewest.
const NEEDED: f64 = 64.0;

const DIGITS: &[u8] = b"0123456789";
const LOWER: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
const UPPER: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const LOWER_DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const UPPER_DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ALL: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LOWER_HEX: &[u8] = b"0123456789abcdef";
const UPPER_HEX: &[u8] = b"0123456789ABCDEF";
const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// A prefix that is kept.
struct Known {
    prefix: &'static str,
    /// What stands behind the prefix, where a client may check it although it gives less than [`WISHED`] bits.
    rest: Option<&'static [u8]>,
}

/// A row: the prefix, and who gives such values out.
const fn known(prefix: &'static str, _whose: &'static str) -> Known {
    Known { prefix, rest: None }
}

const fn checked(prefix: &'static str, _whose: &'static str, rest: &'static [u8]) -> Known {
    Known { prefix, rest: Some(rest) }
}

/// The longest that fits counts.
const KNOWN: &[Known] = &[
    known("sk-ant-", "Anthropic"),
    known("sk-ant-api03-", "Anthropic, a key"),
    known("sk-ant-admin01-", "Anthropic, an administrator's key"),
    known("sk-ant-oat01-", "Anthropic, a token of a subscription"),
    known("sk-ant-ort01-", "Anthropic, a refresh token"),
    known("sk-", "OpenAI and those that speak its language"),
    known("sk-proj-", "OpenAI, a project's key"),
    known("sk-svcacct-", "OpenAI, a service's key"),
    known("sk-admin-", "OpenAI, an administrator's key"),
    known("sk-or-v1-", "OpenRouter"),
    known("xai-", "xAI"),
    known("gsk_", "Groq"),
    known("pplx-", "Perplexity"),
    known("nvapi-", "NVIDIA"),
    known("r8_", "Replicate"),
    known("hf_", "Hugging Face"),
    known("tvly-", "Tavily"),
    known("AIza", "Google, a key"),
    known("ya29.", "Google, an access token"),
    known("GOCSPX-", "Google, a client's secret"),
    known("ghp_", "GitHub, a personal token"),
    known("gho_", "GitHub, a token of an OAuth app"),
    known("ghu_", "GitHub, a user's token of an app"),
    known("ghs_", "GitHub, an installation's token"),
    known("ghr_", "GitHub, a refresh token"),
    known("github_pat_", "GitHub, a fine-grained token"),
    known("glpat-", "GitLab, a personal token"),
    known("gloas-", "GitLab, an OAuth application's secret"),
    known("gldt-", "GitLab, a deploy token"),
    known("glrt-", "GitLab, a runner's token"),
    known("glcbt-", "GitLab, a job's token"),
    known("glptt-", "GitLab, a trigger's token"),
    checked("AKIA", "AWS, a key's id", BASE32),
    checked("ASIA", "AWS, a temporary key's id", BASE32),
    known("xoxa-", "Slack"),
    known("xoxb-", "Slack, a bot"),
    known("xoxc-", "Slack, a browser"),
    known("xoxd-", "Slack, a cookie"),
    known("xoxe-", "Slack, a refresh token"),
    known("xoxp-", "Slack, a user"),
    known("xoxr-", "Slack"),
    known("xoxs-", "Slack"),
    known("xapp-", "Slack, an app"),
    known("npm_", "npm"),
    known("pypi-", "PyPI"),
    known("dop_v1_", "DigitalOcean, a personal token"),
    known("doo_v1_", "DigitalOcean, an OAuth token"),
    known("sk_live_", "Stripe"),
    known("sk_test_", "Stripe, for tests"),
    known("rk_live_", "Stripe, a restricted key"),
    known("rk_test_", "Stripe, a restricted key for tests"),
    known("whsec_", "Stripe, a webhook's secret"),
    known("SG.", "SendGrid"),
    known("shpat_", "Shopify"),
    known("lin_api_", "Linear"),
    known("ntn_", "Notion"),
    known("sntrys_", "Sentry, an organisation"),
    known("sntryu_", "Sentry, a user"),
    known("dapi", "Databricks"),
    known("tskey-", "Tailscale"),
    known("hvs.", "Vault"),
    known("sbp_", "Supabase"),
    known("figd_", "Figma"),
    known("PMAK-", "Postman"),
    known("glsa_", "Grafana, a service account"),
    known("glc_", "Grafana Cloud"),
    known("dckr_pat_", "Docker Hub"),
];

/// Whether `text` is more likely a token than the name of a host or of a key: it has no dot and begins like a known one, or is
/// long, with digits. A JWT, and tokens whose prefix has a dot, are told by their capitals.
pub fn looks_like_token(text: &str) -> bool {
    let has = |test: fn(&u8) -> bool| text.as_bytes().iter().any(test);
    let digits = has(u8::is_ascii_digit);
    let known = has_known_prefix(text);
    if text.contains('.') {
        let jwt = text.starts_with("eyJ") && text.len() > 40;
        let dotted = KNOWN.iter().any(|known| known.prefix.ends_with('.') && text.starts_with(known.prefix));
        return jwt || dotted && text.len() > 15 && digits && has(u8::is_ascii_uppercase);
    }
    if text.bytes().any(|byte| !byte.is_ascii_alphanumeric() && !b"_-+/=".contains(&byte)) {
        return false;
    }
    let underscore = text.contains('_');
    let whole = text.len() >= 32 && !text.contains('-');
    known && underscore || digits && text.len() > 15 && (known || underscore) || digits && whole
}

/// Whether `text` begins like a known token.
pub(super) fn has_known_prefix(text: &str) -> bool {
    KNOWN.iter().any(|known| text.starts_with(known.prefix))
}

/// One byte of a value that its sentinel does not keep, and what may stand there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) at: usize,
    pub(super) alphabet: &'static [u8],
}

/// The places of `value` that are filled anew. Fails with the bits that there are, when they are too few.
pub(super) fn slots(value: &[u8]) -> Result<Vec<Slot>, u32> {
    let known = KNOWN
        .iter()
        .filter(|known| value.starts_with(known.prefix.as_bytes()))
        .max_by_key(|known| known.prefix.len());
    let kept = known.map_or(0, |known| known.prefix.len());
    let free = Free::of(value, kept);
    if let Some(alphabet) = known.and_then(|known| known.rest)
        && free.bytes().all(|byte| alphabet.contains(&byte))
    {
        let slots = free.fill(|_| alphabet);
        if enough(&slots).is_ok() {
            return Ok(slots);
        }
    }
    let narrow = [free.uuid(), free.hex(), Some(free.fill(kind)), free.union()];
    if let Some(slots) = narrow.into_iter().flatten().find(|slots| bits(slots) >= WISHED) {
        return Ok(slots);
    }
    let wide = free.fill(|_| ALL);
    enough(&wide)?;
    Ok(wide)
}

/// Fails with the bits of `slots` when they are too few.
pub(super) fn enough(slots: &[Slot]) -> Result<(), u32> {
    let bits = bits(slots);
    if bits < NEEDED { Err(bits as u32) } else { Ok(()) }
}

fn bits(slots: &[Slot]) -> f64 {
    slots.iter().map(|slot| (slot.alphabet.len() as f64).log2()).sum()
}

/// The places of `value` that are filled anew when its form is all that counts: hex with hex, else each kind with its own.
pub(super) fn alike(value: &[u8]) -> Vec<Slot> {
    let free = Free::of(value, 0);
    free.uuid().or_else(|| free.hex()).unwrap_or_else(|| free.fill(kind))
}

/// What may stand for `byte`, a letter or a digit, when the kind of each character is kept.
fn kind(byte: u8) -> &'static [u8] {
    match byte {
        b'0'..=b'9' => DIGITS,
        b'a'..=b'z' => LOWER,
        _ => UPPER,
    }
}

/// The letters and digits of a value behind its prefix.
struct Free<'v> {
    value: &'v [u8],
    at: Vec<usize>,
}

impl<'v> Free<'v> {
    fn of(value: &'v [u8], kept: usize) -> Self {
        Self { value, at: (kept..value.len()).filter(|at| value[*at].is_ascii_alphanumeric()).collect() }
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        self.at.iter().map(|at| self.value[*at])
    }

    fn fill(&self, alphabet: impl Fn(u8) -> &'static [u8]) -> Vec<Slot> {
        self.at.iter().map(|at| Slot { at: *at, alphabet: alphabet(self.value[*at]) }).collect()
    }

    fn all_in(&self, alphabet: &'static [u8]) -> Option<Vec<Slot>> {
        self.bytes().all(|byte| alphabet.contains(&byte)).then(|| self.fill(|_| alphabet))
    }

    fn hex(&self) -> Option<Vec<Slot>> {
        // Digits alone are a number.
        if self.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        self.all_in(LOWER_HEX).or_else(|| self.all_in(UPPER_HEX))
    }

    /// A random UUID: its version stays, and its variant is one of four digits.
    fn uuid(&self) -> Option<Vec<Slot>> {
        let start = self.value.len().checked_sub(36)?;
        let text = &self.value[start..];
        if self.at.first() != Some(&start) || text[14] != b'4' || !b"89abAB".contains(&text[19]) {
            return None;
        }
        let dashes =
            text.iter().enumerate().all(|(at, byte)| matches!(at, 8 | 13 | 18 | 23) == (*byte == b'-'));
        let mut slots = self.hex().filter(|slots| dashes && slots.len() == 32)?;
        slots.retain(|slot| slot.at != start + 14);
        for slot in slots.iter_mut().filter(|slot| slot.at == start + 19) {
            slot.alphabet = if slot.alphabet == UPPER_HEX { b"89AB" } else { b"89ab" };
        }
        Some(slots)
    }

    /// The kinds that are there, mixed.
    fn union(&self) -> Option<Vec<Slot>> {
        [LOWER_DIGITS, UPPER_DIGITS, LETTERS].into_iter().find_map(|alphabet| self.all_in(alphabet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_keeps_what_it_can_and_has_the_bits_that_it_can() {
        // value, an alphabet of its first slot, bits at least
        let cases: [(&str, &[u8], f64); 12] = [
            ("550e8400-e29b-41d4-a716-446655440000", LOWER_HEX, 122.0),
            ("0123456789abcdef0123456789abcdef", LOWER_HEX, 128.0),
            ("0123456789ABCDEF0123456789ABCDEF", UPPER_HEX, 128.0),
            ("0123456789abcdef0123", ALL, 119.0),
            ("12345678901234567890123456789012345678", DIGITS, 122.0),
            ("1234567890123456", ALL, 95.0),
            ("AKIAIOSFODNN7EXAMPLE", BASE32, 80.0),
            ("abcdefghijklmnopqrstuvwxyz", LOWER, 122.0),
            ("a1b2c3d4e5f6g7h8i9j0k1l2m3", LOWER_DIGITS, 122.0),
            ("sk-ant-api03-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", LOWER, 122.0),
            ("correct-horse-battery", ALL, 110.0),
            ("hunter2hunt", ALL, 65.0),
        ];
        for (value, alphabet, at_least) in cases {
            let slots = slots(value.as_bytes()).unwrap_or_else(|bits| panic!("{value}: {bits}"));
            assert_eq!(
                slots[0].alphabet.escape_ascii().to_string(),
                alphabet.escape_ascii().to_string(),
                "{value}"
            );
            assert!(bits(&slots) >= at_least, "{value}: {}", bits(&slots));
        }
        for value in [
            "hunter2",
            "ghp_hunter2",
            "----------------------",
            "\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}",
        ] {
            assert!(slots(value.as_bytes()).is_err(), "{value}");
        }
    }

    #[test]
    fn every_known_prefix_is_kept() {
        for known in KNOWN {
            let value = format!("{}{}", known.prefix, "A".repeat(30));
            let slots = slots(value.as_bytes()).unwrap();
            assert_eq!(slots[0].at, known.prefix.len(), "{}", known.prefix);
        }
    }

    #[test]
    fn a_token_is_told_from_a_name() {
        let (dotted, jwt) = ("SG.abcDEF0123456789.x", format!("eyJhbGciOiJIUzI1NiJ9.{}.x", "a".repeat(30)));
        let hex = "0123456789abcdef".repeat(2);
        for token in [
            "ghp_xyz123",
            "sk-ant-api03-abcdef",
            "AKIAIOSFODNN7EXAMPLE",
            "my_own_token_123",
            dotted,
            &jwt,
            &hex,
        ] {
            assert!(looks_like_token(token), "{token}");
        }
        for name in [
            "api.example.com",
            "localhost",
            "db-1",
            "sk-web",
            "sk-a.example.com",
            "access_token",
            "my-own-long-host-name-1",
            "hvs.internal.example1",
            "xn--bcher-kva",
            "*",
            "",
            "2001:db8:0:0:0:0:0:1",
            "10.0.0.1",
        ] {
            assert!(!looks_like_token(name), "{name}");
        }
    }

    #[test]
    fn a_version_of_a_uuid_is_no_slot() {
        let slots = slots(b"550e8400-e29b-41d4-a716-446655440000").unwrap();
        assert!(!slots.iter().any(|slot| slot.at == 14));
        assert_eq!(slots.iter().find(|slot| slot.at == 19).map(|slot| slot.alphabet), Some(&b"89ab"[..]));
        assert!((bits(&slots) - 122.0).abs() < 1e-9);
    }
}
