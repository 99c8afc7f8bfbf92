//! What the substitution of secrets promises about any request and any answer. The forms of a value are made here once
//! more, by other code than in `ai_jail::secrets`. ai-jail's own test `secrets_corpus` has this room too.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use ai_jail::policy::authority::Authority;
use ai_jail::policy::host_rule::HostPattern;
use ai_jail::secrets::{
    Channel, Noted, Outgoing, Place, Places, Secret, SecretValue, Seed, Stream, Vault, sentinel,
};

/// In an input: what follows names a form and a part of it, three bytes. Everything else is itself.
const PART: u8 = 0xfe;
const HOSTS: [&str; 3] = ["api.example.com:443", "www.example.org:443", "other.example:443"];

struct World {
    vault: Vault,
    /// Values, as they stand and in every form.
    values: Vec<Vec<u8>>,
    /// Sentinels, the same.
    fakes: Vec<Vec<u8>>,
    /// Each name with its sentinel.
    plain: Vec<(String, Vec<u8>)>,
}

static WORLD: LazyLock<World> = LazyLock::new(World::new);

impl World {
    fn new() -> Self {
        let every: Places = Place::ALL.into_iter().collect();
        let body: Places = [Place::Body].into_iter().collect();
        let rows = [
            ("KEY", "sk-ant-api03-Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OQ-_AA", "api.example.com", Places::default()),
            ("PASSWORD", "p/4+s=w0rd&with%all \"the\\\t\u{fc}rest<of>it'1234567890", "*.example.org", every),
            ("ID", "550e8400-e29b-41d4-a716-446655440000", "api.example.com", body),
            ("ONE", "abcdefghijklmnop==", "*.example.org", every),
            ("TWO", "==qrstuvwxyz0123456", "*.example.org", every),
            ("BOTH", "abcdefghijklmnop==qrstuvwxyz0123456789", "*.example.org", every),
        ];
        let mut world =
            Self { vault: Vault::new(Vec::new()), values: Vec::new(), fakes: Vec::new(), plain: Vec::new() };
        let mut secrets = Vec::new();
        for (name, text, host, places) in rows {
            let value = SecretValue::new(text.into()).expect("a value");
            let sentinel = sentinel(&Seed::new([5; 32]), name, &value, &[]).expect("a sentinel");
            world.values.extend(forms(text));
            world.fakes.extend(forms(sentinel.as_str()));
            world.plain.push((name.to_owned(), sentinel.as_bytes().to_vec()));
            let hosts = vec![HostPattern::parse(host).expect("a pattern")];
            secrets.push(Secret { name: name.to_owned(), value, sentinel, hosts, places });
        }
        world.vault = Vault::new(secrets);
        world
    }

    /// The text that `input` describes.
    fn text(&self, input: &[u8]) -> Vec<u8> {
        let (mut text, mut rest) = (Vec::new(), input);
        loop {
            match rest {
                [PART, index, from, to, after @ ..] => {
                    let index = usize::from(*index) % (self.values.len() + self.fakes.len());
                    let form = self.values.iter().chain(&self.fakes).nth(index).expect("a form");
                    // 0 and 0 is the whole, which has to be likely.
                    let from = usize::from(*from) % form.len();
                    let to = form.len() - usize::from(*to) % form.len();
                    text.extend_from_slice(&form[from.min(to)..to.max(from)]);
                    rest = after;
                }
                [byte, after @ ..] => {
                    text.push(*byte);
                    rest = after;
                }
                [] => return text,
            }
        }
    }
}

/// A target of the fuzzer: its name, which is also that of its corpus, and what it checks.
pub struct Target {
    pub name: &'static str,
    check: fn(&[u8]),
}

pub const TARGETS: &[Target] =
    &[Target { name: "scrub", check: scrub }, Target { name: "substitute", check: substitute }];

impl Target {
    /// Checks what is kept of inputs below `root`, the fuzzer's directory. How many there were.
    pub fn replay(&self, root: &Path) -> usize {
        let mut count = 0;
        for directory in ["corpus", "regressions"] {
            let Ok(entries) = fs::read_dir(root.join(directory).join(self.name)) else { continue };
            for entry in entries {
                (self.check)(&fs::read(entry.expect("an entry").path()).expect("an input"));
                count += 1;
            }
        }
        count
    }
}

/// An answer: nothing that is a value in some form comes in, however it is cut.
pub fn scrub(input: &[u8]) {
    let world = &*WORLD;
    let Some((cut, input)) = input.split_first() else { return };
    let text = world.text(input);
    let stream = || world.vault.scrub().expect("there are secrets");
    let (out, noted) = same_however_cut(stream, &text, *cut);
    assert!(noted.stray.is_empty());
    assert!(noted.used.is_empty() == (out == text), "what was replaced is noted, and nothing else");
    no_value(world, &text, &out);
    let header = world.vault.scrub_value(&text);
    assert!(header.len() == text.len());
    no_value(world, &text, &header);
    assert!(Vault::new(Vec::new()).scrub().is_none());
}

/// A request: values go to their hosts over TLS and nowhere else, and no length changes.
pub fn substitute(input: &[u8]) {
    let world = &*WORLD;
    let [cut, host, input @ ..] = input else { return };
    let text = world.text(input);
    let lossy = String::from_utf8_lossy(&text);
    for (index, host) in HOSTS.iter().cycle().skip(usize::from(*host) % HOSTS.len()).take(2).enumerate() {
        let target = Authority::parse(host.as_bytes()).expect("an authority");
        let channel = if index == 0 { Channel::VerifiedTls } else { Channel::Plain };
        let goes = index == 0 && world.vault.is_bound_to(&target);
        let mut outgoing = world.vault.outgoing(&target, channel);
        let header = outgoing.header("Authorization", &text).into_owned();
        let path = outgoing.target(&lossy).into_owned();
        let basic = [b"Basic ", &base64(&text, STANDARD)[..]].concat();
        let credentials = outgoing.header("Authorization", &basic).into_owned();
        let (body, noted) = same_however_cut(|| outgoing.body().expect("there are secrets"), &text, *cut);
        assert!(header.len() == text.len() && path.len() == lossy.len() && credentials.len() == basic.len());
        let unchanged = header == text && path == lossy && credentials == basic;
        assert!(outgoing.noted().used.is_empty() == unchanged, "{:?}", outgoing.noted());
        assert!(noted.used.is_empty() == (body == text), "{noted:?}");
        if !goes {
            assert!(unchanged && body == text, "toward another host, or in the clear, every byte stays");
        }
        for (name, _) in world.plain.iter().filter(|(_, fake)| has(&text, fake)) {
            assert!(noted.used.contains(name) || noted.stray.contains(name), "{name} was not seen");
            let noted: &Noted = outgoing.noted();
            assert!(noted.used.contains(name) || noted.stray.contains(name), "{name} was not seen");
        }
        // What was put in is what comes back as it was, when nothing else stands there.
        if let Some(at) = world.fakes.iter().position(|fake| *fake == text) {
            assert!(body == text || body == world.values[at], "{}", body.escape_ascii());
        }
        without_secrets(&target, &text, &lossy);
    }
}

fn without_secrets(target: &Authority, text: &[u8], path: &str) {
    let empty = Vault::new(Vec::new());
    let mut outgoing: Outgoing<'_> = empty.outgoing(target, Channel::VerifiedTls);
    assert!(matches!(outgoing.header("Authorization", text), Cow::Borrowed(same) if same == text));
    assert!(matches!(outgoing.target(path), Cow::Borrowed(same) if same == path));
    assert!(outgoing.body().is_none());
}

fn same_however_cut(stream: impl Fn() -> Stream, text: &[u8], cut: u8) -> (Vec<u8>, Noted) {
    let whole = run(stream(), [text]);
    assert!(whole.0.len() == text.len());
    let size = usize::from(cut % 61) + 1;
    let (head, tail) = text.split_at(text.len().min(usize::from(cut)));
    assert!(run(stream(), text.chunks(size)) == whole, "in pieces of {size}");
    assert!(run(stream(), [head, &[], tail]) == whole, "cut at {cut}");
    assert!(run(stream(), text.chunks(1)) == whole, "byte by byte");
    whole
}

fn run<'p>(mut stream: Stream, pieces: impl IntoIterator<Item = &'p [u8]>) -> (Vec<u8>, Noted) {
    let (mut out, mut length) = (Vec::new(), 0);
    for piece in pieces {
        stream.push(piece, &mut out);
        length += piece.len();
        let held = length - out.len();
        // What is held back ends where the input ends, and an end of a line is in no secret.
        assert!(!piece.ends_with(b"\n") || held == 0, "{held} bytes are held back at an end of a line");
    }
    stream.finish(&mut out);
    (out, stream.noted().clone())
}

/// No value stands in `out` where one stood in `text`. One that stands there and did not in `text` was there but for what
/// its neighbour, which was replaced, happens to end or begin with now.
fn no_value(world: &World, text: &[u8], out: &[u8]) {
    for value in &world.values {
        let mut same = out.windows(value.len()).zip(text.windows(value.len()));
        assert!(!same.any(|(is, was)| is == value && was == value), "{}", value.escape_ascii());
    }
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The forms in which `text` may be written. As many for each text.
fn forms(text: &str) -> Vec<Vec<u8>> {
    let bytes = text.as_bytes();
    let unreserved = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let percent = |kept: &dyn Fn(&u8) -> bool, upper: bool| -> Vec<u8> {
        let encode = |byte: &u8| match (kept(byte), upper) {
            (true, _) => vec![*byte],
            (false, true) => format!("%{byte:02X}").into_bytes(),
            (false, false) => format!("%{byte:02x}").into_bytes(),
        };
        bytes.iter().flat_map(encode).collect()
    };
    let units = |upper: bool| -> Vec<u8> {
        let encode = |unit| if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
        text.encode_utf16().flat_map(|unit| encode(unit).into_bytes()).collect()
    };
    let json = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\t', "\\t");
    let mut forms =
        vec![bytes.to_vec(), json.replace('/', "\\/").into(), json.into(), units(true), units(false)];
    forms.extend(
        [true, false].into_iter().flat_map(|upper| [percent(&unreserved, upper), percent(&|_| false, upper)]),
    );
    let references = |kept: fn(&char) -> bool, write: fn(u32) -> String| -> Vec<u8> {
        let encode = |sign: char| if kept(&sign) { sign.to_string() } else { write(sign as u32) };
        text.chars().map(encode).collect::<String>().into()
    };
    forms.extend([
        references(char::is_ascii_alphanumeric, |code| format!("&#{code};")),
        references(char::is_ascii_alphanumeric, |code| format!("&#x{code:x};")),
        references(|_| false, |code| format!("&#x{code:X};")),
    ]);
    for alphabet in [STANDARD, URL] {
        forms.extend((0..3).map(|before| core(bytes, before, alphabet)));
    }
    forms
}

/// What every encoding has in common, whatever stands before and behind.
fn core(bytes: &[u8], before: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let around = |byte: u8| base64(&[&vec![byte; before][..], bytes, &[byte; 3]].concat(), alphabet);
    let (zeros, ones) = (around(0), around(0xff));
    zeros
        .iter()
        .zip(&ones)
        .skip_while(|(a, b)| a != b)
        .take_while(|(a, b)| a == b)
        .map(|(byte, _)| *byte)
        .collect()
}

/// Base64 without padding.
fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> Vec<u8> {
    let mut out = Vec::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().enumerate().fold(0, |bits, (at, byte)| bits | u32::from(*byte) << (16 - 8 * at));
        let digits = (0..=group.len()).map(|at| alphabet[(bits >> (18 - 6 * at) & 63) as usize]);
        out.extend(digits);
    }
    out
}
