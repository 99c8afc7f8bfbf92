//! What the parsers behind the doors to the network promise about any input. Each room checks one parser, against a
//! witness that shares no code with it where there is one, and panics when a promise is broken. The test
//! `every_input_of_the_corpora_keeps_the_promises` of ai-jail has these rooms too.

pub mod answer;
pub mod authority;
pub mod chunk;
pub mod dns;
pub mod head;
pub mod hello;
mod message;
pub mod path;
pub mod rule;
pub mod socks;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::cuts::cuts;

/// A target of the fuzzer: its name, which is also that of its corpus, and what it checks.
pub struct Target {
    pub name: &'static str,
    pub check: fn(&[u8]),
}

pub const TARGETS: &[Target] = &[
    Target { name: "answer", check: answer::check },
    Target { name: "authority", check: authority::check },
    Target { name: "chunk", check: chunk::check },
    Target { name: "dns", check: dns::check },
    Target { name: "head", check: head::check },
    Target { name: "hello", check: hello::check },
    Target { name: "path", check: path::check },
    Target { name: "rule", check: rule::check },
    Target { name: "socks", check: socks::check },
];

/// An input of more bytes is looked at no more than [`LOOKS`] times.
const CUT_EVERYWHERE: usize = 1024;
const LOOKS: usize = 16;

/// The lengths at which an input that is cut by `cut` is looked at, the whole last.
fn growing(input: &[u8], cut: u8) -> impl Iterator<Item = usize> {
    let pieces = match input.len() {
        0..=CUT_EVERYWHERE => cuts(input, cut),
        length => input.chunks(length / LOOKS + usize::from(cut)).collect(),
    };
    pieces.into_iter().scan(0, |length, piece| {
        *length += piece.len();
        Some(*length)
    })
}

/// The inputs of a target's corpus, and those that failed once, with their paths. `fuzz` is the fuzzer's directory.
pub fn inputs(fuzz: &Path, target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directories = ["corpus", "regressions"].map(|kind| fuzz.join(kind).join(target));
    let mut inputs = Vec::new();
    for directory in directories {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            // Most targets never failed.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => panic!("{}: {error}", directory.display()),
        };
        for entry in entries {
            let path = entry.unwrap_or_else(|error| panic!("{}: {error}", directory.display())).path();
            let input = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            inputs.push((path, input));
        }
    }
    inputs
}
