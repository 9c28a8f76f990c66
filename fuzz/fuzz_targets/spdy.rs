#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| flyball_fuzz::run("spdy", data));
