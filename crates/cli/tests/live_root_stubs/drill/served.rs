// SPDX-License-Identifier: MIT OR Apache-2.0

//! Calls `serve` repeatedly; one call in ten is slow by some ms:
//!
//!     served CULPRIT
//!
//! `serve` calls `look_up` and `answer`; `look_up` calls the method `fetch` of a store chosen at run time. The culprit `sleep` is
//! this method, in `std::thread::sleep`; `lock` is `answer`, by a mutex held by another thread; `loop` is
//! `parse`, which calls `digit` 400 times. Prints its process number first; ends with its input.

use std::arch::asm;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

const SLOW: Duration = Duration::from_millis(12);
static LOCK: Mutex<u64> = Mutex::new(0);
static WANTED: Barrier = Barrier::new(2);
static HELD: Barrier = Barrier::new(2);

/// A different value, as far as the compiler knows.
macro_rules! keep {
    ($value:ident) => {
        unsafe { asm!("/* {0} */", inout(reg) $value) }
    };
}

trait Store {
    fn fetch(&self, slow: bool) -> u64;
}

struct Disk(u64);

struct Memory(u64);

impl Store for Disk {
    #[inline(never)]
    fn fetch(&self, slow: bool) -> u64 {
        if slow {
            std::thread::sleep(SLOW);
        }
        self.0
    }
}

impl Store for Memory {
    #[inline(never)]
    fn fetch(&self, slow: bool) -> u64 {
        self.0 * u64::from(slow)
    }
}

#[inline(never)]
fn digit(mut x: u64) -> u64 {
    let mut left = 20_000;
    while left > 0 {
        keep!(x);
        left -= 1;
    }
    x & 15
}

#[inline(never)]
fn parse(slow: bool) -> u64 {
    let (mut x, mut left) = (0, if slow { 400 } else { 2 });
    while left > 0 {
        x ^= digit(left);
        left -= 1;
    }
    x
}

#[inline(never)]
fn look_up(store: &dyn Store, slow: bool) -> u64 {
    let mut x = store.fetch(slow);
    keep!(x);
    x
}

#[inline(never)]
fn answer(slow: bool) -> u64 {
    let mut x = 0;
    if slow {
        WANTED.wait();
        HELD.wait();
        x = *LOCK.lock().unwrap();
    }
    keep!(x);
    x
}

#[inline(never)]
fn serve(store: &dyn Store, slow: [bool; 3]) -> u64 {
    let mut x = parse(slow[2]);
    x ^= look_up(store, slow[0]);
    x ^= answer(slow[1]);
    keep!(x);
    x
}

fn hold() {
    loop {
        WANTED.wait();
        let mut held = LOCK.lock().unwrap();
        HELD.wait();
        std::thread::sleep(SLOW);
        *held += 1;
    }
}

fn main() {
    let culprit = std::env::args().nth(1).unwrap();
    let stores: [Box<dyn Store + Send>; 2] = [Box::new(Disk(3)), Box::new(Memory(4))];
    println!("{}", std::process::id());
    std::thread::spawn(hold);
    std::thread::spawn(move || {
        let culprits = ["sleep", "lock", "loop"].map(|name| name == culprit);
        for call in 0_u64.. {
            let slow = call % 10 == 9;
            serve(&*stores[usize::from(!slow)], culprits.map(|culprit| culprit && slow));
            std::thread::sleep(Duration::from_micros(300));
        }
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}
