//! What the fuzzer found worth keeping of requests and answers with secrets is tried each time.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../fuzz/src/secrets.rs"]
mod secrets;

use std::path::Path;

#[test]
fn every_input_of_the_corpora_keeps_the_promises() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    for target in secrets::TARGETS {
        assert!(target.replay(&root) > 40, "{}", target.name);
    }
}
