//! The inputs that fuzzing found worth keeping, each with everything that the fuzzer checks but for termwiz.

use std::fs;
use std::path::Path;

use super::oracle::forbidden;
use super::*;

/// Runs the fuzzer's checks on every file of its corpus, and of the crashes that it found in the past.
#[test]
fn every_input_of_the_corpus_keeps_the_promises() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let mut inputs = 0;
    for directory in ["corpus/filter", "regressions/filter"] {
        let entries = fs::read_dir(fuzz.join(directory)).expect("the fuzzer's inputs");
        for entry in entries {
            let path = entry.expect("an entry").path();
            let input = fs::read(&path).expect("an input");
            let name = path.display();
            let out = whole(&input);
            assert_eq!(forbidden(&out), Vec::<String>::new(), "{name}: {}", out.escape_ascii());
            assert!(whole(&out) == out, "{name}: what passed passes again");
            for classes in [Classes::default(), everything()] {
                let want = filtered(classes, [&input[..]]);
                for size in [1, 2, 3, 7, 64] {
                    assert!(filtered(classes, input.chunks(size)) == want, "{name}: pieces of {size}");
                }
            }
            inputs += 1;
        }
    }
    assert!(inputs > 100, "{inputs} inputs");
}
