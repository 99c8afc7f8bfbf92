//! How fast the terminal filter is. Targets: 1 GB/s for plain text, 200 MB/s for dense sequences.

#![expect(missing_docs, reason = "the macro of criterion makes a function without any")]

use std::hint::black_box;

use ai_jail::terminal::Classes;
use ai_jail::terminal::filter::Filter;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const SIZE: usize = 1 << 20;
/// What one read from a master gives at most.
const PIECE: usize = 4096;

fn filter(criterion: &mut Criterion) {
    let inputs = [
        (
            "plain",
            "The quick brown fox jumps over the lazy dog, and 0123456789 more times so.\r\n".as_bytes(),
        ),
        ("utf8", "Zwölf Boxkämpfer ✳ ▐ 日本語のテキスト 👩 über den großen Sylter Deich.\r\n".as_bytes()),
        // What opencode painted in a session: colours, cursor, boxes.
        ("agent", include_bytes!("../tests/cases/terminal/agents/opencode.outside.raw")),
        ("sgr", b"\x1b[38;2;215;119;87mab\x1b[39m\x1b[1mc\x1b[22m\x1b[48;5;200md\x1b[0m"),
        ("cursor", b"\x1b[12;34Hx\x1b[K\x1b[2G\x1b[?25l\x1b[?25h\x1b7\x1b8y"),
        ("adversarial", b"\x1b]52;c;aGk=\x07\x1b[21t\x9b\xc2\x9d\x1b\x1b[\xff\x1bP$q\x1b\\\x1b]8;;x\x18\x05"),
    ];
    let mut group = criterion.benchmark_group("filter");
    group.throughput(Throughput::Bytes(SIZE as u64));
    for (name, unit) in inputs {
        let input: Vec<u8> = unit.iter().copied().cycle().take(SIZE).collect();
        let mut filter = Filter::new(Classes::default());
        let mut out = Vec::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for piece in black_box(&input).chunks(PIECE) {
                    out.clear();
                    filter.push(piece, &mut out);
                    black_box(&out);
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, filter);
criterion_main!(benches);
