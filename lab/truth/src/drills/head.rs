//! The part shared by all Rust programs: how a culprit takes its time, and the threads. Constants and functions follow.
#![allow(warnings)]

use std::arch::asm;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, OnceLock};
use std::time::{Duration, Instant};

enum Culprit {
    Computes,
    Sleeps,
    Locks,
    Reads,
}

type Function = fn(&mut Call, bool) -> u64;

struct Call {
    number: u64,
    is_slow: bool,
    /// At each level, the place at which a callee goes on: the random way, then the ways to culprits.
    ways: [[usize; DEPTH]; NUMBER_OF_WAYS + 1],
    /// This call's way; 0 is the random way, to no culprit.
    way: usize,
    sum: u64,
    indirect: &'static Indirect,
}

static STEPS_PER_MS: AtomicU64 = AtomicU64::new(0);
static LOCK: Mutex<u64> = Mutex::new(0);
static WANTED: Barrier = Barrier::new(2);
static HELD: Barrier = Barrier::new(2);
static PIPE: OnceLock<(PipeReader, PipeWriter)> = OnceLock::new();

/// For all that a compiler knows, the value changes here; and no two functions have the same code.
macro_rules! keep {
    ($value:ident, $name:literal) => {
        unsafe { asm!(concat!("/* ", $name, " {0} */"), inout(reg) $value) }
    };
}

#[inline(always)]
fn work(steps: u64) -> u64 {
    let (mut x, mut left) = (steps, steps);
    while left > 0 {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        keep!(x, "step");
        left -= 1;
    }
    x
}

/// Whether the callee at this place in f0 goes on; sets the way.
#[inline(always)]
fn enters(c: &mut Call, place: usize) -> bool {
    let mut way = if c.is_slow { 1 } else { 0 };
    let end = if c.is_slow { NUMBER_OF_WAYS + 1 } else { 1 };
    while way < end {
        if c.ways[way][0] == place {
            c.way = way;
            return true;
        }
        way += 1;
    }
    false
}

/// Part of the culprit function.
#[inline(always)]
fn take_time() -> u64 {
    match CULPRIT {
        Culprit::Computes => work(STEPS_PER_MS.load(Ordering::Relaxed) * MS),
        Culprit::Sleeps => {
            std::thread::sleep(Duration::from_millis(MS));
            0
        }
        Culprit::Locks => {
            WANTED.wait();
            HELD.wait();
            *LOCK.lock().unwrap()
        }
        Culprit::Reads => {
            WANTED.wait();
            let mut byte = [0];
            let (reader, _) = PIPE.get().unwrap();
            (&*reader).read(&mut byte).unwrap() as u64
        }
    }
}

/// Holds the lock, or writes the byte, when a culprit wants it.
fn serve_culprit() {
    loop {
        WANTED.wait();
        if let Culprit::Reads = CULPRIT {
            std::thread::sleep(Duration::from_millis(MS));
            let (_, writer) = PIPE.get().unwrap();
            (&*writer).write_all(&[1]).unwrap();
            continue;
        }
        let mut held = LOCK.lock().unwrap();
        HELD.wait();
        std::thread::sleep(Duration::from_millis(MS));
        *held += 1;
    }
}

/// The fastest of several runs: the machine's other work makes a run slower.
fn calibrate() {
    for _ in 0..20 {
        let (began, steps) = (Instant::now(), 1_000_000);
        let mut x = work(steps);
        keep!(x, "calibrated");
        let ns = began.elapsed().as_nanos() as u64;
        STEPS_PER_MS.fetch_max(steps * 1_000_000 / ns, Ordering::Relaxed);
    }
}

fn work_on(seed: u64, indirect: &'static Indirect) {
    let ways = std::array::from_fn(|way| if way == 0 { [0; DEPTH] } else { WAYS[way - 1] });
    let mut c = Call { number: 0, is_slow: false, ways, way: 0, sum: 0, indirect };
    let mut x = seed;
    loop {
        for place in &mut c.ways[0] {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *place = (x >> 33) as usize % FAN_OUT;
        }
        c.is_slow = c.number % 8 == 7;
        f0(&mut c, true);
        std::thread::sleep(Duration::from_micros(100));
        c.number += 1;
    }
}

fn main() {
    calibrate();
    PIPE.set(std::io::pipe().unwrap()).unwrap();
    println!("{}", std::process::id());
    let indirect: &'static Indirect = Box::leak(std::hint::black_box(Box::new(Indirect::new())));
    std::thread::spawn(serve_culprit);
    for seed in 1..=THREADS {
        std::thread::spawn(move || work_on(seed, indirect));
    }
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}
