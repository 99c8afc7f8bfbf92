//! What a vault promises: tables first, then for anything.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::secrets::{Seed, sentinel};

const KEY: &str = "sk-ant-api03-Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OQ-_AA";
const PASSWORD: &str = "p/4+s=w0rd&with%all \"the\\\t\u{fc}rest<of>it'1234567890";

fn secret(name: &str, value: &str, host: &str, places: &[Place]) -> Secret {
    let value = SecretValue::new(value.into()).unwrap();
    Secret {
        name: name.into(),
        sentinel: sentinel(&Seed::new([7; 32]), name, &value, &[]).unwrap(),
        value,
        hosts: vec![HostPattern::parse(host).unwrap()],
        places: places.iter().copied().collect(),
    }
}

/// KEY has the default places at one host, PASSWORD all of them at others, EDGES, of which each character changes, none.
fn vault() -> Vault {
    Vault::new(vec![
        secret("KEY", KEY, "api.example.com", &Places::default().iter().collect::<Vec<_>>()),
        secret("PASSWORD", PASSWORD, "*.example.org", &Place::ALL),
        edges("a23456789012345678z", "Q98765432109876543A"),
    ])
}

fn edges(value: &str, fake: &str) -> Secret {
    Secret {
        sentinel: Sentinel::new(fake.to_owned()),
        ..secret("EDGES", value, "edges.example", &[Place::Basic])
    }
}

fn to(target: &str) -> Authority {
    Authority::parse(target.as_bytes()).unwrap()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn fake(vault: &Vault, index: usize) -> String {
    vault.secrets[index].sentinel.as_str().to_owned()
}

fn run<'p>(stream: Option<Stream>, pieces: impl IntoIterator<Item = &'p [u8]>) -> (Vec<u8>, Noted) {
    let mut stream = stream.unwrap();
    let (mut out, mut length) = (Vec::new(), 0);
    for piece in pieces {
        stream.push(piece, &mut out);
        length += piece.len();
    }
    stream.finish(&mut out);
    assert_eq!(out.len(), length);
    (out, stream.noted().clone())
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_value_goes_to_its_hosts_over_verified_tls_and_nowhere_else() {
    let vault = vault();
    let fake = fake(&vault, 0);
    // target, channel, whether KEY goes there, whether anything would
    let cases = [
        ("api.example.com:443", Channel::VerifiedTls, true, true),
        ("api.example.com:80", Channel::Plain, false, true),
        ("api.example.com:443", Channel::Plain, false, true),
        ("api.example.com:8443", Channel::VerifiedTls, false, false),
        ("example.com:443", Channel::VerifiedTls, false, false),
        ("x.api.example.com:443", Channel::VerifiedTls, false, false),
        ("www.example.org:443", Channel::VerifiedTls, false, true),
        ("192.0.2.1:443", Channel::VerifiedTls, false, false),
    ];
    for (target, channel, goes, bound) in cases {
        let target = to(target);
        let mut outgoing = vault.outgoing(&target, channel);
        let header = format!("Bearer {fake}");
        let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("u:{fake}")));
        let query = format!("/{fake}?key={fake}");
        let real = |text: &str| if goes { text.replace(&fake, KEY) } else { text.to_owned() };
        assert_eq!(
            String::from_utf8_lossy(&outgoing.header("X-Key", header.as_bytes())),
            real(&header),
            "{target}"
        );
        let out = outgoing.header("Authorization", basic.as_bytes()).into_owned();
        let credentials = BASE64_STANDARD.decode(&out[6..]).unwrap();
        assert_eq!(String::from_utf8_lossy(&credentials), real(&format!("u:{fake}")), "{target}");
        assert_eq!(outgoing.target(&query), real(&query), "{target}");
        let (used, stray): (&[&str], &[&str]) = if goes { (&["KEY"], &[]) } else { (&[], &["KEY"]) };
        assert_eq!(
            outgoing.noted(),
            &Noted { used: names(used), stray: names(stray) },
            "{target} {channel:?}"
        );
        // The body is no place of this one, wherever it goes.
        let (out, noted) = run(outgoing.body(), [header.as_bytes()]);
        assert_eq!(String::from_utf8_lossy(&out), header);
        assert_eq!(noted, Noted { used: names(&[]), stray: names(&["KEY"]) });
        assert_eq!(vault.is_bound_to(&target), bound, "{target}");
    }
}

#[test]
fn a_value_goes_into_its_places_and_no_others() {
    for allowed in Place::ALL {
        let vault = Vault::new(vec![secret("KEY", KEY, "*", &[allowed])]);
        let fake = fake(&vault, 0);
        let encoded = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(format!("{text}:")));
        for place in Place::ALL {
            let target = to("example.com:443");
            let mut outgoing = vault.outgoing(&target, Channel::VerifiedTls);
            let mut noted = Noted::default();
            let (out, real) = match place {
                Place::Header => (outgoing.header("Cookie", fake.as_bytes()).into_owned(), KEY.to_owned()),
                Place::Basic => {
                    (outgoing.header("authorization", encoded(&fake).as_bytes()).into_owned(), encoded(KEY))
                }
                Place::Query => {
                    (outgoing.target(&format!("/?{fake}")).into_owned().into(), format!("/?{KEY}"))
                }
                Place::Path => {
                    (outgoing.target(&format!("/{fake}?x")).into_owned().into(), format!("/{KEY}?x"))
                }
                Place::Body => {
                    let (out, met) = run(outgoing.body(), [fake.as_bytes()]);
                    noted = met;
                    (out, KEY.to_owned())
                }
            };
            noted.add_all(outgoing.noted());
            let (used, stray): (&[&str], &[&str]) =
                if place == allowed { (&["KEY"], &[]) } else { (&[], &["KEY"]) };
            assert_eq!(noted, Noted { used: names(used), stray: names(stray) }, "{place:?} {allowed:?}");
            assert_eq!(has(&out, real.as_bytes()), place == allowed, "{place:?} {allowed:?}");
        }
    }
}

#[test]
fn basic_credentials_are_decoded_and_encoded_again() {
    let vault = vault();
    let fake = fake(&vault, 0);
    for engine in [&BASE64_STANDARD, &BASE64_STANDARD_NO_PAD, &BASE64_URL_SAFE] {
        for user in ["", "a", "ab", "\u{ff}\u{ff}\u{ff}"] {
            for (scheme, behind) in [("Basic ", ""), (" basic  ", " "), ("BASIC\t", "")] {
                let value = format!("{scheme}{}{behind}", engine.encode(format!("{user}:{fake}")));
                let want = format!("{scheme}{}{behind}", engine.encode(format!("{user}:{KEY}")));
                for (header, replaced) in
                    [("Authorization", true), ("proxy-authorization", true), ("X-Other", false)]
                {
                    let target = to("api.example.com:443");
                    let mut outgoing = vault.outgoing(&target, Channel::VerifiedTls);
                    let out = outgoing.header(header, value.as_bytes());
                    assert_eq!(String::from_utf8_lossy(&out), if replaced { &*want } else { &*value });
                    assert_eq!(outgoing.noted().used.contains("KEY"), replaced);
                }
            }
        }
    }
    // What is none, stays; and a sentinel that is the credentials as they stand is one of a header.
    let target = to("api.example.com:443");
    let mut outgoing = vault.outgoing(&target, Channel::VerifiedTls);
    for value in ["", "Basic", "Basic ", "Basicdead", "Basic a", "Basic !", "Bearer YTpi", "Basic YTpi"] {
        assert_eq!(outgoing.header("Authorization", value.as_bytes()), Cow::Borrowed(value.as_bytes()));
    }
    let out = outgoing.header("Authorization", format!("Basic {fake}").as_bytes()).into_owned();
    assert_eq!(String::from_utf8_lossy(&out), format!("Basic {KEY}"));
}

#[test]
fn a_sentinel_is_known_in_a_target_however_it_is_encoded() {
    let vault = vault();
    let fake = fake(&vault, 1);
    let target = to("www.example.org:443");
    let hex = |text: &str, keep: &dyn Fn(u8) -> bool, upper: bool| -> String {
        let encode = |byte: u8| match () {
            () if keep(byte) => char::from(byte).to_string(),
            () if upper => format!("%{byte:02X}"),
            () => format!("%{byte:02x}"),
        };
        text.bytes().map(encode).collect()
    };
    let keeps: [&dyn Fn(u8) -> bool; 4] = [
        &|byte| byte.is_ascii_alphanumeric(),
        &|byte| byte.is_ascii_alphanumeric() || b"/=&'+".contains(&byte),
        &|byte| byte.is_ascii_lowercase(),
        &|_| false,
    ];
    for (keep, upper) in keeps.iter().flat_map(|keep| [(keep, true), (keep, false)]) {
        // Letters that are kept have to be so in both, or there is no telling which were.
        for template in ["/a/%?b=c", "/a?b=%&c", "/%", "/a?%"] {
            let sent = template.replace('%', &hex(&fake, keep, upper));
            let mut outgoing = vault.outgoing(&target, Channel::VerifiedTls);
            let out = outgoing.target(&sent).into_owned();
            assert_eq!(out.len(), sent.len());
            let decoded = whole::decoded(out.as_bytes());
            assert!(has(&decoded, PASSWORD.as_bytes()), "{sent} {out}");
            assert_eq!(outgoing.noted(), &Noted { used: names(&["PASSWORD"]), stray: names(&[]) });
        }
    }
    let form = hex(&fake, &|byte| byte.is_ascii_alphanumeric() || byte == b' ', true).replace(' ', "+");
    let mut outgoing = vault.outgoing(&target, Channel::VerifiedTls);
    let want = hex(PASSWORD, &|byte| byte.is_ascii_alphanumeric() || byte == b' ', true).replace(' ', "+");
    assert_eq!(outgoing.target(&format!("/?q={form}")), format!("/?q={want}"));
    // One that begins in the path and ends in the query is in neither.
    let vault = Vault::new(vec![secret("ODD", "abcdefghij?klmnopqrstuvwxyz", "*", &Place::ALL)]);
    let sent = format!("/{}", vault.secrets[0].sentinel.as_str());
    let mut outgoing = vault.outgoing(&target, Channel::VerifiedTls);
    assert_eq!(outgoing.target(&sent), sent);
    assert_eq!(outgoing.noted().stray, names(&["ODD"]));
}

#[test]
fn a_star_stands_for_a_sentinel_in_what_people_read() {
    let vault = vault();
    let key = fake(&vault, 0);
    let encoded: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let cases = [
        ("POST /a at b".to_owned(), "POST /a at b"),
        (format!("POST /bot{key}/send; \"POST /bot{key}/send\""), "POST /bot*/send; \"POST /bot*/send\""),
        (format!("/{key}{key}\u{fc}"), "/**\u{fc}"),
        (format!("/{encoded}/x"), "/*/x"),
        (format!("/{}", &key[..key.len() - 1]), &*format!("/{}", &key[..key.len() - 1])),
    ];
    for (text, want) in cases {
        assert_eq!(vault.starred(&text), want, "{text}");
    }
}

#[test]
fn a_body_gets_values_in_the_forms_of_text() {
    let vault = vault();
    let target = to("www.example.org:443");
    let (fake, value) = (fake(&vault, 1), PASSWORD);
    for pair in forms::text(fake.as_bytes(), value.as_bytes()) {
        let sent = [b"{\"a\":\"", &pair.find[..], b"\"}"].concat();
        let want = [b"{\"a\":\"", &pair.put[..], b"\"}"].concat();
        for size in [1, 7, sent.len()] {
            let outgoing = vault.outgoing(&target, Channel::VerifiedTls);
            let (out, noted) = run(outgoing.body(), sent.chunks(size));
            assert_eq!(out.escape_ascii().to_string(), want.escape_ascii().to_string());
            assert_eq!(noted.used, names(&["PASSWORD"]));
            let outgoing = vault.outgoing(&to("other.example:443"), Channel::VerifiedTls);
            assert_eq!(run(outgoing.body(), sent.chunks(size)).0, sent);
        }
    }
}

#[test]
fn no_form_of_a_value_comes_in_wherever_an_answer_is_cut() {
    let vault = vault();
    for secret in &vault.secrets {
        let (value, fake) = (secret.value.expose(), secret.sentinel.as_bytes());
        for pair in forms::all(value, fake) {
            // The same once more, since what follows a match is another beginning.
            let answer = [b"<p>", &pair.find[..], b", ", &pair.find[..], &pair.find[..], b"\n"].concat();
            let want = [b"<p>", &pair.put[..], b", ", &pair.put[..], &pair.put[..], b"\n"].concat();
            for cut in 0..=answer.len() {
                let (first, second) = answer.split_at(cut);
                let (out, noted) = run(vault.scrub(), [first, second]);
                assert_eq!(out.escape_ascii().to_string(), want.escape_ascii().to_string(), "{cut}");
                assert_eq!(noted.used, names(&[&secret.name]));
            }
            assert_eq!(vault.scrub_value(&answer), want);
        }
    }
}

#[test]
fn no_base64_that_comes_in_has_the_value_in_it() {
    let vault = vault();
    for value in [KEY, PASSWORD] {
        for (before, behind) in [("", ""), ("a", ""), ("ab", "c"), ("abc:", "de"), ("\u{ff}\u{ff}", "\u{ff}")]
        {
            let text = format!("{before}{value}{behind}");
            for engine in [&BASE64_STANDARD, &BASE64_URL_SAFE] {
                let answer = engine.encode(&text);
                let (out, _) = run(vault.scrub(), [answer.as_bytes()]);
                let decoded = engine.decode(&out).unwrap();
                let fake = vault.secrets.iter().find(|one| one.value.expose() == value.as_bytes()).unwrap();
                let want = format!("{before}{}{behind}", fake.sentinel.as_str());
                assert_eq!(decoded.escape_ascii().to_string(), want.as_bytes().escape_ascii().to_string());
            }
        }
    }
}

#[test]
fn base64_that_comes_in_is_that_of_the_sentinel_and_known_as_it() {
    // First and last characters differ in all their bits, or in some, for every length of the last group.
    for (value, fake) in [
        ("a23456789012345678z", "Q98765432109876543A"),
        ("Z234567890123456785p", "598765432109876543aC"),
        ("3234567890123456785px", "k98765432109876543aCQ"),
    ] {
        let vault = Vault::new(vec![edges(value, fake)]);
        let befores = [
            "",
            ":",
            "u:",
            "me:",
            "Bearer ",
            "Basic me:",
            "a",
            "ab",
            "\u{fc}",
            "a\u{fc}",
            "a=",
            "x/",
            "xy\n",
        ];
        let behinds = ["", "a", "ab", "abc", " ", "\n", ":", "\u{fc}"];
        for (before, behind) in befores.iter().flat_map(|before| behinds.map(|behind| (before, behind))) {
            for engine in [&BASE64_STANDARD, &BASE64_STANDARD_NO_PAD, &BASE64_URL_SAFE] {
                let encoded = |text: &str| engine.encode(format!("{before}{text}{behind}"));
                let echo = |text: &str| format!("{{\"a\":\"Basic {0}\"}}\n{0}", encoded(text));
                let (answer, want) = (echo(value), echo(fake));
                for cut in 0..=answer.len() {
                    let (first, second) = answer.as_bytes().split_at(cut);
                    let (out, _) = run(vault.scrub(), [first, second]);
                    assert_eq!(String::from_utf8_lossy(&out), want, "{before:?} {value} {behind:?} {cut}");
                }
                assert_eq!(run(vault.scrub(), answer.as_bytes().chunks(1)).0, want.as_bytes());
                for escape in [
                    |text: &str| text.to_owned(),
                    |text: &str| {
                        text.replace('+', "%2B").replace('/', "%2f").replace('=', "%3D").replace('p', "%70")
                    },
                ] {
                    let out = vault.scrub_value(escape(&answer).as_bytes()).into_owned();
                    // What stands for a character that was not escaped is not either, and the other way round.
                    assert_eq!(whole::decoded(&out), whole::decoded(want.as_bytes()));
                }
                let target = to("edges.example:443");
                let mut outgoing = vault.outgoing(&target, Channel::VerifiedTls);
                let again = format!("Basic {}", encoded(fake));
                let out = outgoing.header("Authorization", again.as_bytes()).into_owned();
                assert_eq!(String::from_utf8_lossy(&out), format!("Basic {}", encoded(value)));
            }
        }
    }
}

#[test]
fn an_event_is_not_held_back() {
    let vault = vault();
    let mut stream = vault.scrub().unwrap();
    for event in ["data: {\"text\":\"sk-ant-\"}\n\n", "data: c2stYW50LW\r\n\r\n", ": sk\n\n"] {
        let mut out = Vec::new();
        stream.push(event.as_bytes(), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), event);
    }
}

#[test]
fn a_message_that_may_begin_a_known_prefix_is_not_waited_with() {
    let vault = Vault::new(vec![secret("KEY", KEY, "api.example.com", &Place::ALL)]);
    let key = fake(&vault, 0);
    let up = || vault.outgoing(&to("api.example.com:443"), Channel::VerifiedTls);
    for (mut stream, value, fake) in
        [(vault.scrub().unwrap(), KEY, key.as_str()), (up().body().unwrap(), key.as_str(), KEY)]
    {
        // In base64 at each place too, and where it goes on otherwise.
        for message in
            ["yes", "100%", "\\", "sk-ant-api03-", "c2stYW50", "NrLWFudC", "zay1h", "as", "&", "sk-a nt"]
        {
            let mut out = Vec::new();
            stream.push(message.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), message);
        }
        stream.finish(&mut Vec::new());
        for cut in 1..value.len() {
            let mut out = Vec::new();
            stream.push(&value.as_bytes()[..cut], &mut out);
            assert_eq!(out, &value.as_bytes()[..cut.min(out.len())], "no byte is another yet");
            stream.push(&value.as_bytes()[cut..], &mut out);
            stream.finish(&mut out);
            assert_eq!(String::from_utf8_lossy(&out), fake, "{cut}");
        }
    }
    // Where nothing is put in, nothing is waited with.
    let outgoing = vault.outgoing(&to("other.example:443"), Channel::VerifiedTls);
    let mut out = Vec::new();
    let mut stream = outgoing.body().unwrap();
    stream.push(&key.as_bytes()[..key.len() - 1], &mut out);
    assert_eq!(out, &key.as_bytes()[..key.len() - 1]);
    stream.push(&key.as_bytes()[key.len() - 1..], &mut out);
    assert!(stream.noted().stray.contains("KEY") && out == key.as_bytes());
}

#[test]
fn values_that_overlap_are_both_gone() {
    let (first, second) = ("abcdefghijklmnop==", "==qrstuvwxyz0123456");
    let whole = "abcdefghijklmnop==qrstuvwxyz0123456789";
    let places = Place::ALL;
    let vault = Vault::new(vec![
        secret("A", first, "*", &places),
        secret("B", second, "*", &places),
        secret("C", whole, "*", &places),
        secret("D", "efghijklmnop==q", "*", &places),
    ]);
    for text in [
        "abcdefghijklmnop==qrstuvwxyz0123456",
        whole,
        "abcdefghijklmnop==qrstuvwxyz012345x",
        "efghijklmnop==qrstuvwxyz0123456",
    ] {
        for size in 1..text.len() {
            let (out, _) = run(vault.scrub(), text.as_bytes().chunks(size));
            for secret in &vault.secrets {
                assert!(!has(&out, secret.value.expose()), "{} in {}", secret.name, out.escape_ascii());
            }
            assert_eq!(out, &*vault.scrub_value(text.as_bytes()));
        }
    }
    assert_eq!(run(vault.scrub(), [whole.as_bytes()]).0, vault.secrets[2].sentinel.as_bytes());
}

#[test]
fn without_secrets_nothing_is_looked_at() {
    let vault = Vault::new(Vec::new());
    let target = to("example.com:443");
    let mut outgoing = vault.outgoing(&target, Channel::VerifiedTls);
    assert!(vault.is_empty() && !vault.is_bound_to(&target));
    assert!(vault.scrub().is_none() && outgoing.body().is_none());
    assert!(matches!(vault.scrub_value(b"a%20b"), Cow::Borrowed(b"a%20b")));
    assert!(matches!(outgoing.target("/a%20b?c"), Cow::Borrowed("/a%20b?c")));
    assert!(matches!(outgoing.header("Authorization", b"Basic YTpi"), Cow::Borrowed(b"Basic YTpi")));
}

#[test]
fn debug_shows_no_value() {
    let vault = vault();
    let target = to("api.example.com:443");
    let text = format!("{vault:?} {:?} {:?}", vault.scrub(), vault.outgoing(&target, Channel::VerifiedTls));
    assert!(text.contains("KEY") && !text.contains(KEY) && !text.contains("w0rd"), "{text}");
}

#[test]
#[should_panic(expected = "not its own")]
fn a_sentinel_of_another_length_is_a_mistake() {
    let mut one = secret("A", KEY, "*", &[]);
    one.value = SecretValue::new(b"abc".to_vec()).unwrap();
    Vault::new(vec![one]);
}

/// Text that has beginnings, ends and whole forms of values and sentinels in it.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let vault = vault();
    let all: Vec<Vec<u8>> = vault
        .secrets
        .iter()
        .flat_map(|secret| {
            let (value, fake) = (secret.value.expose(), secret.sentinel.as_bytes());
            let forms = forms::all(value, fake).into_iter().chain(forms::all(fake, value));
            let base64 =
                ["", "u", "u:"].map(|user| BASE64_STANDARD.encode([user.as_bytes(), value, b"."].concat()));
            forms.map(|pair| pair.find.to_vec()).chain(base64.map(String::into_bytes)).collect::<Vec<_>>()
        })
        .collect();
    let count = all.len();
    let part = (0..count, any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4).prop_map(
        move |(index, from, to, kind)| {
            let form = &all[index];
            let (from, to) = (from.index(form.len()), to.index(form.len()));
            match kind {
                0 => form.clone(),
                1 => form[from..].to_vec(),
                2 => form[..to].to_vec(),
                _ => form[from.min(to)..from.max(to)].to_vec(),
            }
        },
    );
    let piece = prop_oneof![3 => part, 1 => vec(any::<u8>(), 0..12), 1 => Just(b"\n".to_vec())];
    vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn however_a_stream_is_cut_it_is_the_same(text in text(), cuts in vec(1..40_usize, 1..8)) {
        let vault = vault();
        let target = to("www.example.org:443");
        let outgoing = vault.outgoing(&target, Channel::VerifiedTls);
        let mut pieces = Vec::new();
        let (mut rest, mut cuts) = (&text[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
            pieces.push(piece);
            rest = after;
        }
        for stream in [|outgoing: &Outgoing<'_>| outgoing.vault.scrub(), |outgoing: &Outgoing<'_>| outgoing.body()] {
            let whole = run(stream(&outgoing), [&text[..]]);
            prop_assert_eq!(&run(stream(&outgoing), pieces.iter().copied()), &whole);
            prop_assert_eq!(&run(stream(&outgoing), text.chunks(1)), &whole);
        }
        // One that was not there before was there but for what its neighbour happens to end or begin with now.
        let (out, _) = run(vault.scrub(), pieces);
        for pair in vault.secrets.iter().flat_map(|one| forms::all(one.value.expose(), one.sentinel.as_bytes())) {
            let mut same = out.windows(pair.find.len()).zip(text.windows(pair.find.len()));
            let stays = same.any(|(is, was)| is == &pair.find[..] && was == is);
            prop_assert!(!stays, "{} in {}", pair.find.escape_ascii(), out.escape_ascii());
        }
    }

    #[test]
    fn toward_another_host_every_byte_stays(text in text()) {
        let vault = vault();
        for (target, channel) in [("evil.example:443", Channel::VerifiedTls), ("www.example.org:80", Channel::Plain)] {
            let target = to(target);
            let mut outgoing = vault.outgoing(&target, channel);
            prop_assert_eq!(outgoing.header("Authorization", &text), &text[..]);
            prop_assert_eq!(run(outgoing.body(), [&text[..]]).0, text.clone());
            let path = String::from_utf8_lossy(&text);
            prop_assert_eq!(outgoing.target(&path), path.as_ref());
            prop_assert!(outgoing.noted().used.is_empty());
        }
    }

    #[test]
    fn a_header_and_a_target_keep_their_lengths(text in text()) {
        let vault = vault();
        let target = to("www.example.org:443");
        let mut outgoing = vault.outgoing(&target, Channel::VerifiedTls);
        prop_assert_eq!(outgoing.header("Authorization", &text).len(), text.len());
        let basic = format!("Basic {}", BASE64_STANDARD.encode(&text));
        prop_assert_eq!(outgoing.header("Authorization", basic.as_bytes()).len(), basic.len());
        let path = String::from_utf8_lossy(&text);
        prop_assert_eq!(outgoing.target(&path).len(), path.len());
        prop_assert_eq!(vault.scrub_value(&text).len(), text.len());
    }
}
