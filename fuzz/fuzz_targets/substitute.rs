//! The target of this name, see `ai_jail_fuzz::secrets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| ai_jail_fuzz::secrets::substitute(input));
