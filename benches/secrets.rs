//! How fast secrets are looked for in a stream. Target: 1 GB/s for plain text with 5 secrets.

#![expect(missing_docs, reason = "the macro of criterion makes a function without any")]
#![expect(clippy::unwrap_used, reason = "a benchmark may fail by panicking")]

use std::hint::black_box;

use ai_jail::policy::authority::Authority;
use ai_jail::policy::host_rule::HostPattern;
use ai_jail::secrets::{Channel, Place, Secret, SecretValue, Seed, Vault, sentinel};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const SIZE: usize = 1 << 20;
/// What one read from a connection gives at most.
const PIECE: usize = 16 * 1024;

const VALUES: [&str; 5] = [
    "sk-ant-api03-Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OTAxMjM0NTY3ODlhYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5-_AA",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "550e8400-e29b-41d4-a716-446655440000",
];

fn vault(count: usize) -> Vault {
    let secret = |index: usize| {
        let name = format!("SECRET_{index}");
        // More than five differ in their beginnings too.
        let text = match index / VALUES.len() {
            0 => VALUES[index].to_owned(),
            turn => format!("{}{}", char::from(b'A' + turn as u8), VALUES[index % VALUES.len()]),
        };
        let value = SecretValue::new(text.into()).unwrap();
        let sentinel = sentinel(&Seed::new([1; 32]), &name, &value, &[]).unwrap();
        let hosts = vec![HostPattern::parse("example.com").unwrap()];
        Secret { name, value, sentinel, hosts, places: Place::ALL.into_iter().collect() }
    };
    Vault::new((0..count).map(secret).collect())
}

fn secrets(criterion: &mut Criterion) {
    let inputs = [
        (
            "plain",
            "The quick brown fox jumps over the lazy dog, and 0123456789 more times so.\r\n".as_bytes(),
        ),
        ("json", br#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a token, a task"}}"#),
        ("escaped json", br#""\u0412\u0441\u0435 \u0441\u0447\u0430\u0441\u0442\u043b\u0438\u0432\u044b\u0435""#),
        ("beginnings", b"sk-ant-api03-Z ghp_abc AKIAIOSFODNN6 %73%6B%2D%61 c2stYW50LWFwaTAz 550e8400-e29b-41d5 "),
        ("values", VALUES[0].as_bytes()),
    ];
    let target = Authority::parse(b"example.com:443").unwrap();
    let mut group = criterion.benchmark_group("secrets");
    group.throughput(Throughput::Bytes(SIZE as u64));
    for (name, unit) in inputs {
        let input: Vec<u8> = unit.iter().copied().cycle().take(SIZE).collect();
        let mut out = Vec::new();
        group.bench_function(format!("copy/{name}"), |bencher| {
            bencher.iter(|| {
                for piece in black_box(&input).chunks(PIECE) {
                    out.clear();
                    out.extend_from_slice(piece);
                    black_box(&out);
                }
            });
        });
        for count in [5, 20] {
            let vault = vault(count);
            let outgoing = vault.outgoing(&target, Channel::VerifiedTls);
            for (way, stream) in [("scrub", vault.scrub()), ("substitute", outgoing.body())] {
                let mut stream = stream.unwrap();
                group.bench_function(format!("{way} {count}/{name}"), |bencher| {
                    bencher.iter(|| {
                        for piece in black_box(&input).chunks(PIECE) {
                            out.clear();
                            stream.push(piece, &mut out);
                            black_box(&out);
                        }
                    });
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, secrets);
criterion_main!(benches);
