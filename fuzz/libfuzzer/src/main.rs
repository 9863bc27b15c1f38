//! libFuzzer around one decoder: the one that `WAKEPATH_DECODER` names.
//!
//! `packaging/fuzz` builds and runs it. One program for all decoders: building it takes longer than
//! libFuzzer needs to see that the others' code is never reached.
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
