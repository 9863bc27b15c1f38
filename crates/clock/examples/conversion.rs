//! The cost of a conversion, against arbitrary precision: `cargo run --release -p wakepath-clock --example conversion`.

use std::hint::black_box;

use num_bigint::BigInt;
use wakepath_clock::{ErrorBound, Line, Local, Piece, Reference, Stamp, Transform};

/// The number of stamps converted in Giraldeau 2015, section 5.4.6; they are 200 ns apart.
const STAMPS: u64 = 1 << 25;
const START: u64 = 1_000_000_000_000_000_000;

fn main() {
    let transform = transform();
    let mut cursor = transform.cursor();
    let fast = timed(STAMPS, |x| cursor.convert(Stamp::from_ns(x)).0.ns());
    let search = timed(STAMPS, |x| transform.convert(Stamp::from_ns(x)).0.ns());
    let numbers = |line: &Line| (BigInt::from(line.slope().0), BigInt::from(line.offset().0));
    let exact: Vec<_> = transform.pieces().iter().map(|piece| (piece.to, numbers(&piece.line))).collect();
    let half = BigInt::from(1_u64 << 59);
    let count = 1 << 20;
    let slow = timed(count, |x| {
        let (_, (slope, offset)) = &exact[exact.partition_point(|piece| piece.0 <= x)];
        let value: BigInt = (slope * x + offset + &half) >> 60;
        u64::try_from(value).unwrap_or(0)
    });
    // The same stamps must come out.
    let mut again = transform.cursor();
    let sum = timed(count, |x| again.convert(Stamp::from_ns(x)).0.ns()).1;
    println!(
        "CPU ns per stamp: in order {:.2}, searched {:.2}, arbitrary precision {:.1}",
        fast.0, search.0, slow.0
    );
    println!("checksums: {:x} and {:x}; {:x} and {:x}", fast.1, search.1, sum, slow.1);
    assert_eq!((fast.1, sum), (search.1, slow.1), "conversions differ");
}

fn timed(count: u64, mut convert: impl FnMut(u64) -> u64) -> (f64, u64) {
    let begin = cpu_ns();
    let mut sum = 0_u64;
    for i in 0..count {
        sum = sum.rotate_left(1) ^ convert(black_box(START + i * 200));
    }
    ((cpu_ns() - begin) as f64 / count as f64, sum)
}

/// This program's time on a CPU.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

/// Four seconds a piece, about 100 ppm fast.
fn transform() -> Transform<Local, Reference> {
    let (mut x, mut y) = (START, START / 7);
    let pieces = (0..4).map(|i| {
        let to = (x + 4_000_000_000, y + 4_000_400_000 + i * 1009);
        let line = Line::through((x, y), to).expect("in range");
        let piece = Piece { from: x, to: to.0, line, error: ErrorBound::Within(20_000) };
        (x, y) = to;
        piece
    });
    Transform::new(pieces.collect()).expect("sound")
}
