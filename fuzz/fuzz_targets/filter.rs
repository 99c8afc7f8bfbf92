//! The terminal filter with everything that it promises. See `ai_jail_fuzz::check`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| ai_jail_fuzz::check(input));
