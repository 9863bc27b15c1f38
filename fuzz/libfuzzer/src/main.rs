//! libFuzzer around a single decoder, named by `WAKEPATH_DECODER`.
//!
//! `packaging/fuzz` builds and runs it. There is only one program for all decoders, because
//! building it takes longer than libFuzzer needs to see that the other decoders' code is never
//! reached.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static DECODER: OnceLock<String> = OnceLock::new();

fuzz_target!(
    init: {
        let decoder = std::env::var("WAKEPATH_DECODER").expect("WAKEPATH_DECODER names a decoder");
        assert!(wakepath_fuzz::DECODERS.iter().any(|(name, _)| *name == decoder), "no decoder {decoder}");
        DECODER.get_or_init(|| decoder);
    },
    |input: &[u8]| {
        wakepath_fuzz::check(DECODER.get().expect("set before the first input"), input);
    }
);
