//! The clock of a program in Rust, put before it: a line for each 0.1 s into the file DRILLED_CLOCK, as clock.py has it.

// SPDX-License-Identifier: MIT OR Apache-2.0
mod drilled {
    use std::io::Write;
    pub struct Clock { file: std::fs::File, window: i64, calls: u64, sum: i64, longest: i64 }
    extern "C" { fn clock_gettime(clock: i32, at: *mut [i64; 2]) -> i32; }
    pub fn now() -> i64 {
        let mut at = [0i64; 2];
        // SAFETY: a timespec is two i64 on this architecture. 1 is CLOCK_MONOTONIC.
        unsafe { clock_gettime(1, &mut at) };
        at[0] * 1_000_000_000 + at[1]
    }
    impl Clock {
        pub fn new() -> Clock {
            let path = std::env::var("DRILLED_CLOCK").expect("DRILLED_CLOCK");
            let file = std::fs::OpenOptions::new().append(true).create(true).open(path).expect("the clock's file");
            Clock { file, window: now(), calls: 0, sum: 0, longest: 0 }
        }
        pub fn lap(&mut self, began: i64) {
            let at = now();
            self.calls += 1;
            self.sum += at - began;
            self.longest = self.longest.max(at - began);
            if at - self.window >= 100_000_000 {
                writeln!(self.file, "{at} {} {} {}", self.calls, self.sum, self.longest).expect("a line");
                (self.window, self.calls, self.sum, self.longest) = (at, 0, 0, 0);
            }
        }
    }
}
