//! A `perf.data`, from its header to its events' graph.

use std::path::Path;

use wakepath_import::PerfData;
use wakepath_import::perf::synthetic::{EventType, File};

use crate::traced;

/// Puts bytes through the reader of `perf record` files.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    // A record is no shorter than its head, and makes a few events: a switch, a name, a thread, a stack.
    let name = "perf.data";
    traced::check(PerfData::from_source(input, Path::new(name)), name, input.len(), 1);
}

/// The first inputs: each kind of record, some together, damage and losses.
pub fn seeds() -> Vec<Vec<u8>> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let longs = |longs: &[u64]| longs.iter().flat_map(|long| long.to_le_bytes()).collect::<Vec<u8>>();
    let here = |at| (at, 0, 7, 7);
    let there = |at| (at, 1, 8, 8);
    // Short inputs lead further: only the types of their records are described.
    let only = |events: &[EventType]| {
        File::default().only(&[&[EventType::Switch, EventType::Waking, EventType::Own][..], events].concat())
    };
    let some = || only(&[]).switch((90, 0, 0, 0), 0, 7, "here").switch(there(80), 1, 0, "swapper/1");
    let base = || File::default().switch((90, 0, 0, 0), 0, 7, "here").switch(there(80), 1, 0, "swapper/1");
    let chain = longs(&[4, (-128_i64) as u64, 0x9000, (-512_i64) as u64, 0x4010]);
    let process = |of: [u32; 4]| [words(&of), vec![0; 8]].concat();
    let map = |id: bool| {
        let own = if id { [&[20, 0, 0, 0][..], &[7; 20]].concat() } else { vec![0; 24] };
        [words(&[7, 7]), longs(&[0x4000, 0x1000, 0]), own, words(&[5, 2]), b"/bin/here\0".to_vec()].concat()
    };
    let with_earlier_threads = |file: File| {
        let (comm, fork) = ([&words(&[7, 8])[..], b"here\0"].concat(), process([7, 1, 8, 1]));
        file.plain(3, 0, &comm, (0, 0, 0, 0)).plain(7, 0, &fork, (0, 0, 0, 0))
    };
    let files = [
        base(),
        some().clock(None),
        some().round().waking(here(100), 8).round().switch(here(110), 2, 0, "swapper/0").round(),
        with_earlier_threads(only(&[])).waking(there(100), 7).switch(there(110), 512, 7, "here"),
        some()
            .plain(7, 0, &process([20, 7, 20, 7]), here(100))
            .plain(3, 1 << 13, &[&words(&[20, 20])[..], b"date\0"].concat(), here(101))
            .plain(3, 0, &[&words(&[20, 20])[..], b"clock\0"].concat(), here(102))
            .plain(4, 0, &process([20, 20, 20, 20]), here(103)),
        some().plain(10, 0, &map(false), here(100)).plain(10, 1 << 14, &map(true), here(101)),
        only(&[EventType::CpuClock])
            .switch(here(90), 1, 0, "x")
            .sample(EventType::CpuClock, 1, here(100), 0x9000, &chain)
            .sample(EventType::CpuClock, 2, here(101), 0x4010, &longs(&[0])),
        some()
            .record(69, 0, &longs(&[1, EventType::Switch as u64 * 16 + 1, 0, 0, u64::MAX]))
            .plain(2, 0, &longs(&[7, 5]), here(100))
            .record(13, 0, &longs(&[9, 0, 0, 0, EventType::Switch as u64 * 16 + 1])),
        only(&[EventType::IrqEntry, EventType::IrqExit])
            .tracepoint(
                EventType::IrqEntry,
                here(100),
                &[(8, &words(&[16 | 4 << 16])), (12, &[11]), (16, b"disk")],
            )
            .waking(here(101), 8)
            .tracepoint(EventType::IrqExit, here(102), &[(12, &[11, 0, 0, 0])]),
        only(&[EventType::Exec, EventType::WakeupNew, EventType::Wakeup, EventType::CallEntry])
            .tracepoint(
                EventType::Exec,
                here(100),
                &[(8, &words(&[16 | 9 << 16])), (12, &[7, 0, 0, 0]), (16, b"/bin/date")],
            )
            .tracepoint(EventType::WakeupNew, here(101), &[(20, &words(&[30]))])
            .tracepoint(EventType::Wakeup, here(102), &[(12, &words(&[8]))])
            .tracepoint(
                EventType::CallEntry,
                here(103),
                &[(8, &longs(&[202])), (16, &longs(&[1, 2, 3, 4, 5, 6]))],
            ),
        some().record(71, 0, &longs(&[16])).record(68, 0, &longs(&[1])).waking(here(100), 8),
        some().record(9, 1, &[1; 6]).record(200, 0, &[]).waking(here(100), 8).waking(there(70), 7),
        some().only(&[EventType::Switch]),
        some().section(
            2,
            &[&words(&[67, 0x34_0000])[..], &words(&[7]), &[7; 24], b"/bin/here\0\0\0\0\0\0\0"].concat(),
        ),
        File::default().waking(here(100), 8),
        some().section(27, &[1; 20]),
    ];
    files.iter().map(File::bytes).collect()
}
