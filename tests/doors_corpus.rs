//! The inputs that fuzzing the parsers of the doors found worth keeping, each with everything that the fuzzer checks but
//! for the witnesses that only it has. See fuzz/README.md.

#[path = "../fuzz/src/cuts.rs"]
mod cuts;
#[path = "../fuzz/src/doors/mod.rs"]
mod doors;

use std::panic::catch_unwind;
use std::path::Path;

#[test]
fn every_input_of_the_corpora_keeps_the_promises() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    for target in doors::TARGETS {
        let inputs = doors::inputs(&fuzz, target.name);
        assert!(inputs.len() > 40, "{}: {} inputs", target.name, inputs.len());
        let broken = inputs.iter().filter(|(_, input)| catch_unwind(|| (target.check)(input)).is_err());
        let broken = broken.map(|(path, _)| path).collect::<Vec<_>>();
        assert!(broken.is_empty(), "{broken:?}");
    }
}
