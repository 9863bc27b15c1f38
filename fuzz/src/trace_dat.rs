//! A `trace.dat`, from its head to its events' graph.

use std::path::Path;

use wakepath_import::TraceDat;
use wakepath_import::trace_cmd::synthetic::{EventType, File};

use crate::traced;

/// Puts bytes through the reader of `trace-cmd record` files.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    // An event takes eight bytes, and makes a few events: a switch, names, a thread. A byte may unpack
    // to a thousand.
    let name = "trace.dat";
    traced::check(TraceDat::from_source(input, Path::new(name)), name, input.len(), 1000);
}

/// The first inputs: either version, each kind of word in a page, damage and losses.
pub fn seeds() -> Vec<Vec<u8>> {
    let here = |at| (at, 0, 7, 7);
    let there = |at| (at, 1, 8, 8);
    // Short inputs lead further: only the types of their events are described.
    let only = |events: &[EventType]| {
        File::default().only(&[&[EventType::Switch, EventType::Waking][..], events].concat())
    };
    let with = |events: &[EventType]| {
        only(events).switch((90, 0, 0, 0), 0, 7, "here").switch(there(80), 1, 0, "swapper/1")
    };
    let base = || with(&[]);
    let tsc = [1, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    let forms = [
        base(),
        base().waking(here(100), 8).switch(here(110), 2, 0, "swapper/0").waking((120, 1, 0, 0), 7),
        base().page(0, Some(5)).waking(here(100), 8).page(1, Some(0)).waking(there(101), 7),
        base().words((100, 0), &[30 | 1 << 5, 5]).waking(here(5 << 27 | 200), 8),
        base().words((100, 0), &[31, 5]).waking(here(5 << 27 | 200), 8).words((0, 0), &[29, 0]),
        base().words((100, 0), &[29 | 1 << 5, 8, 0]).words((100, 0), &[7 << 5, 8, 300]).waking(here(101), 8),
        base().birth(here(100), 20, true, "worker").birth(here(101), 21, false, "date"),
        base().instance(),
        base().clock("x86-tsc").option(14, &tsc),
        base().clock("counter"),
        base().option(1, b"0x99\0").option(2, b"CPU: 1\ndropped events: 7\n\0"),
        with(&[EventType::IrqEntry, EventType::IrqExit])
            .tracepoint(EventType::IrqEntry, here(100), &[(8, &[16, 0, 4, 0]), (12, &[11]), (16, b"disk")])
            .waking(here(101), 8)
            .tracepoint(EventType::IrqExit, here(102), &[(12, &[11, 0, 0, 0])]),
        (0..20).fold(base(), |file, n| file.waking(here(100 + n), 8)),
        only(&[]).waking(here(100), 8),
    ];
    let of = |file: &File| {
        [(6, "none"), (7, "none"), (7, "zlib"), (7, "zstd")]
            .map(|(v, by)| file.clone().version(v).compressed(by).bytes())
    };
    forms.iter().flat_map(of).collect()
}
