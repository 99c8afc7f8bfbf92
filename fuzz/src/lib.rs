//! What the terminal filter promises about any input ([`check`]), what the parsers behind the doors
//! do ([`run`]), and what the substitution of [`secrets`] does.

mod cuts;
pub mod doors;
mod getaddrinfo;
pub mod secrets;
mod simple_dns_oracle;

#[path = "../../src/terminal/filter/tests/oracle.rs"]
mod oracle;
mod termwiz_oracle;

use ai_jail::terminal::filter::Filter;
use ai_jail::terminal::{Class, Classes, Drops};

use crate::cuts::cuts;

/// Checks `input` against what the parser behind `target` promises. Panics when a promise is broken.
pub fn run(target: &str, input: &[u8]) {
    let Some(target) = doors::TARGETS.iter().find(|known| known.name == target) else {
        panic!("{target} is no target");
    };
    (target.check)(input);
    // The witnesses that ai-jail's own test does without.
    match target.name {
        "authority" => getaddrinfo::check(input),
        "dns" => simple_dns_oracle::check(input),
        _ => {}
    }
}

/// Bytes that a filter may hold whatever comes: two strings of the longest kind, and what it remembers of modes.
const MEMORY: usize = 512 * 1024;

/// Panics when a promise is broken.
///
/// The first byte chooses where the input is cut for the second reading.
pub fn check(input: &[u8]) {
    let Some((cut, input)) = input.split_first() else { return };
    for classes in [Classes::default(), everything()] {
        let (whole, drops) = filtered(classes, [input]);
        let pieces = cuts(input, *cut);
        assert!(
            filtered(classes, pieces.iter().copied()) == (whole.clone(), drops.clone()),
            "cut in {pieces:?}"
        );
        // A replacement character has three bytes, and a mode that is written alone three more than in its list.
        assert!(whole.len() <= 4 * input.len() + 64, "{} of {}", whole.len(), input.len());
        assert!(std::str::from_utf8(&whole).is_ok(), "{}", whole.escape_ascii());
    }
    let (out, _) = filtered(Classes::default(), [input]);
    forbidden(&out);
    let (again, _) = filtered(Classes::default(), [&out[..]]);
    assert!(again == out, "what passed passes again: {} {}", out.escape_ascii(), again.escape_ascii());
    restored(input);
}

fn forbidden(out: &[u8]) {
    let seen = oracle::forbidden(out);
    assert!(seen.is_empty(), "{seen:?} in {}", out.escape_ascii());
    let seen = termwiz_oracle::forbidden(out);
    assert!(seen.is_empty(), "termwiz: {seen:?} in {}", out.escape_ascii());
}

/// What is switched on is switched off by [`ai_jail::terminal::modes::Modes::off`], and nothing forbidden is in that.
fn restored(input: &[u8]) {
    let mut filter = Filter::new(Classes::default());
    let mut out = Vec::new();
    filter.push(input, &mut out);
    let (off, on) = (filter.modes().off(), filter.modes().on());
    forbidden(&off);
    forbidden(&on);
    let mut again = Filter::new(Classes::default());
    again.push(&out, &mut Vec::new());
    again.push(&off, &mut Vec::new());
    assert!(!again.modes().any(), "{:?} after {}", again.modes(), off.escape_ascii());
    again.push(&on, &mut Vec::new());
    // What a restored cursor may have brought back is switched off, but nobody can tell whether it is to come again.
    let back = again.modes().on();
    assert!(back == on, "{} is not {}", back.escape_ascii(), on.escape_ascii());
}

fn filtered<'a>(classes: Classes, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Drops) {
    let mut filter = Filter::new(classes);
    let mut out = Vec::new();
    for piece in pieces {
        filter.push(piece, &mut out);
        assert!(filter.memory() <= MEMORY, "{} bytes are held", filter.memory());
    }
    filter.finish(&mut out);
    (out, filter.drops().clone())
}

fn everything() -> Classes {
    Class::ALL.into_iter().fold(Classes::default(), Classes::allow)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::panic::catch_unwind;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_corpus_keeps_the_promises() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut inputs = 0;
        for directory in ["corpus/filter", "regressions/filter"] {
            for entry in fs::read_dir(root.join(directory)).expect("inputs") {
                check(&fs::read(entry.expect("an entry").path()).expect("an input"));
                inputs += 1;
            }
        }
        assert!(inputs > 100, "{inputs} inputs");
    }

    #[test]
    fn the_corpora_of_the_doors_keep_the_promises() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for target in doors::TARGETS {
            let inputs = doors::inputs(root, target.name);
            assert!(inputs.len() > 40, "{}: {} inputs", target.name, inputs.len());
            let broken = inputs.iter().filter(|(_, input)| catch_unwind(|| run(target.name, input)).is_err());
            let broken = broken.map(|(path, _)| path).collect::<Vec<_>>();
            assert!(broken.is_empty(), "{broken:?}");
        }
    }

    #[test]
    fn the_corpora_of_the_secrets_keep_the_promises() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for target in secrets::TARGETS {
            assert!(target.replay(root) > 40, "{}", target.name);
        }
    }

    #[test]
    fn the_oracle_sees_what_is_forbidden() {
        for text in [
            "\x1b]52;c;aGk=\x07",
            "\x1b]52;c;?\x07",
            "\x1b]l title\x1b\\",
            "\x1b]9;mail\x07",
            "\x1b]777;notify;a;b\x07",
            "\x1b]7;file:///\x07",
            "\x1b]1337;Copy=:aGk=\x07",
            "\x1b[21t",
            "\x1b[8;9;9t",
            "\x1b[?69h",
            "\x1b[4h",
            "\x1b[=c",
            "\x1bPq#0~\x1b\\",
            "\x1bP$qm\x1b\\",
            "\x1b_Ga=q,i=1;AAAA\x1b\\",
            "\x1bc",
            "\x1bZ",
            "\x05",
        ] {
            assert!(!termwiz_oracle::forbidden(text.as_bytes()).is_empty(), "{text:?}");
        }
    }
}
