//! A trace by Perfetto, from its first packet to its events' graph.

use std::io::Write as _;
use std::path::Path;

use wakepath_import::PerfettoTrace;
use wakepath_import::perfetto::synthetic::{bundle, bytes, event, number, packed};

use crate::traced;

/// Puts bytes through the reader of Perfetto's traces.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    // A switch in the short form takes three bytes, and a byte may unpack to a thousand.
    let name = "t.pftrace";
    traced::check(PerfettoTrace::from_source(input, Path::new(name)), name, input.len(), 1000);
}

/// The first inputs: short and long forms, clocks, threads from `/proc`, losses, compressed packets.
pub fn seeds() -> Vec<Vec<u8>> {
    let names = [bytes(5, b"here"), bytes(5, b"swapper")].concat();
    let switches =
        [packed(1, &[100, 200, 350]), packed(2, &[0, 1, 0]), packed(3, &[7, 0, 7]), packed(6, &[0, 1, 0])];
    let wakings = [
        packed(7, &[120, 30]),
        packed(8, &[8, 9]),
        packed(9, &[1, 0]),
        packed(11, &[0, 1]),
        packed(12, &[1, 0]),
    ];
    let short = bundle(0, &bytes(4, &[names, switches.concat(), wakings.concat()].concat()));
    let switch = [number(2, 0), number(4, 0), bytes(5, b"there"), number(6, 8)].concat();
    let waking = [bytes(1, b"here"), number(2, 7), number(5, 0)].concat();
    let long = bundle(1, &[event(200, 0, 4, &switch), event(400, 8, 20, &waking)].concat());
    let both = [short.clone(), long.clone()].concat();
    let with = |rest: &[u8]| [both.clone(), rest.to_vec()].concat();
    let clock = |id, at| bytes(1, &[number(1, id), number(2, at)].concat());
    let process = [number(1, 7), number(2, 1), bytes(3, b"here"), number(9, 1)].concat();
    let tree =
        [bytes(1, &process), bytes(2, &[number(1, 8), bytes(2, b"there"), number(3, 7)].concat())].concat();
    let uname = [bytes(1, b"Linux"), bytes(3, b"6.1.0"), bytes(4, b"x86_64")].concat();
    let info = [bytes(1, &uname), bytes(4, b"Perfetto v50")].concat();
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&both).expect("memory has no errors");
    let compressed = bytes(1, &bytes(50, &encoder.finish().expect("memory has no errors")));
    // Four million switches in some kilobytes.
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    let many = vec![0; 4 << 20];
    let many = bundle(0, &bytes(4, &[bytes(1, &many), bytes(2, &many), bytes(3, &many)].concat()));
    encoder.write_all(&many).expect("memory has no errors");
    let bomb = bytes(1, &bytes(50, &encoder.finish().expect("memory has no errors")));
    let forms = [(24, number(1, 1)), (36, [number(1, 36), bytes(2, b"disk")].concat()), (553, number(1, 9))];
    let mut seeds = vec![
        short,
        long,
        both.clone(),
        compressed,
        bomb,
        with(&bytes(1, &bytes(6, &[clock(1, 5_000), clock(6, 100)].concat()))),
        with(&bytes(1, &[number(8, 150), bytes(2, &tree)].concat())),
        with(&bytes(1, &bytes(45, &info))),
        with(&bytes(1, &[number(98, 3), bytes(2, &tree)].concat())),
        with(&bundle(0, &[number(3, 1), event(900, 7, 20, &number(2, 8))].concat())),
        with(&bundle(0, &[number(10, 800), number(5, 2), number(6, 900), number(7, 990)].concat())),
        with(&bundle(0, &bytes(8, &number(1, 700)))),
        with(&bundle(0, &[0x12, 0x7f])),
    ];
    seeds.extend(forms.map(|(field, what)| with(&bundle(1, &event(450, 8, field, &what)))));
    seeds
}
