//! Wakepath's order for a file's records against the order by the crate `linux-perf-data`, which follows the marks
//! between rounds.
//!
//! This crate reads well-formed files only: it trusts and allocates the sizes that a file claims, keeps a whole round
//! in memory, and ends with an error without an offset. So it is an oracle here and not the reader.

use std::io::Cursor;
use std::path::Path;

use linux_perf_data::{PerfFileReader, PerfFileRecord};

use super::container::{Container, End};
use super::records::Decoder;
use super::runs;
use super::synthetic::File;

/// Stamp, kind and body of the kernel's records with a stamp.
type Records = Vec<(u64, u32, Vec<u8>)>;

fn by_us(file: &[u8]) -> Records {
    let container = Container::read(&file, Path::new("perf.data")).expect("a header");
    let decoder = Decoder::new(&container.attributes).expect("numbered");
    let index = runs::index(&file, &container.data, &End::Whole, &decoder, |_, _, _, _| ()).expect("bytes");
    assert_eq!(index.faults, []);
    let mut records = Records::new();
    runs::merge(&file, &index.runs, &decoder, |at, head, body| {
        if head.kind < 64 && decoder.order_key(head, body).at.is_some() {
            records.push((at, head.kind, body.to_vec()));
        }
    });
    records
}

fn by_linux_perf_data(file: &[u8]) -> Records {
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(Cursor::new(file)).expect("a file");
    let mut records = Records::new();
    while let Some(record) = record_iter.next_record(&mut perf_file).expect("a record") {
        if let PerfFileRecord::EventRecord { record, .. } = record
            && let Some(at) = record.timestamp().filter(|&at| at != 0)
        {
            records.push((at, record.record_type.0, record.data.as_slice().into_owned()));
        }
    }
    records
}

/// Pseudo-random numbers.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    *seed >> 33
}

#[test]
fn records_come_in_the_order_of_another_reader_that_goes_by_rounds() {
    for seed in 0..50 {
        let mut seed = seed;
        let mut file = File::default().plain(3, 0, b"\x07\0\0\0\x07\0\0\0own\0", (0, 0, 0, 0));
        let mut clocks = [1000, 1000];
        for _ in 0..random(&mut seed) % 12 {
            let end = clocks[0].max(clocks[1]) + 100 + random(&mut seed) % 200;
            for (cpu, clock) in clocks.iter_mut().enumerate() {
                while *clock < end && !random(&mut seed).is_multiple_of(8) {
                    let tid = 7 + random(&mut seed) as u32 % 3;
                    let place = (*clock, cpu as u32, tid, tid);
                    // An interrupt may come between a record's stamp and its place.
                    if random(&mut seed).is_multiple_of(9) {
                        file = file.waking((*clock + 2, cpu as u32, tid, tid), 8);
                    }
                    file = file.switch(place, 1, 9, "x");
                    *clock += 3 + random(&mut seed) % 40;
                }
                // Its buffer was empty then.
                *clock = end.max(*clock);
            }
            file = file.round();
        }
        let bytes = file.bytes();
        let (by_us, by_linux_perf_data) = (by_us(&bytes), by_linux_perf_data(&bytes));
        assert!(by_us.is_sorted_by_key(|records| records.0));
        let differ = by_us
            .iter()
            .zip(&by_linux_perf_data)
            .position(|(by_us, by_linux_perf_data)| by_us != by_linux_perf_data);
        assert_eq!((by_us.len(), differ), (by_linux_perf_data.len(), None));
    }
}
