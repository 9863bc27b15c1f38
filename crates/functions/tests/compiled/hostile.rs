//! Files whose numbers lie.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::programs::{Programs, find, function};

/// A program with everything that a search reads: symbols, versions, debug information, a debug link, notes.
fn rich(programs: &Programs) -> Vec<u8> {
    let source = "
        #include <stdio.h>
        static inline __attribute__((always_inline)) int inlined(int x) { return x * x; }
        __attribute__((noinline)) int handle(int x) { printf(\"%d\", x); return inlined(x); }
        int main(int argc, char **argv) { return handle(argc); }
    ";
    std::fs::read(programs.compile("app.c", source, &["-O2", "-g", "-gz=zlib"])).unwrap()
}

/// Searches for an existing name, for a missing name, and for all names, in a file with these bytes.
fn search(path: &PathBuf, bytes: &[u8]) -> usize {
    std::fs::write(path, bytes).unwrap();
    ["handle", "inlined", "nowhere", "*"].iter().filter(|name| find(path, name).is_ok()).count()
}

#[test]
fn a_file_cut_anywhere_gives_answers_or_errors() {
    let programs = Programs::new();
    let whole = rich(&programs);
    let path = programs.path("cut");
    assert_eq!(search(&path, &whole), 2);
    let lengths = (0..1024).chain((1024..whole.len()).step_by(97));
    let found: usize = lengths.map(|length| search(&path, &whole[..length])).sum();
    assert_eq!(found, 0, "the table of sections stands at the end");
}

/// Arbitrary numbers, the same in each run.
fn numbers() -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
}

#[test]
fn a_file_with_any_byte_changed_gives_answers_or_errors() {
    let programs = Programs::new();
    let whole = rich(&programs);
    let path = programs.path("flipped");
    let mut numbers = numbers();
    let mut next = || numbers.next().unwrap() as usize;
    for round in 0..600 {
        let mut bytes = whole.clone();
        for _ in 0..1 + round % 8 {
            // Numbers stand in headers and tables, at both ends.
            let at = match next() % 3 {
                0 => next() % 1024,
                1 => whole.len() - 1 - next() % 2048,
                _ => next() % whole.len(),
            };
            bytes[at] = [0, 0xff, 0x7f, 0x80, next() as u8][next() % 5];
        }
        search(&path, &bytes);
    }
}

#[test]
fn sizes_that_overlap_do_not_multiply_the_time() {
    let programs = Programs::new();
    // Each second function states that it reaches beyond the file's end; a small function before it keeps it from
    // seeming to be inside the previous one.
    let one = |n: usize| {
        let name = format!("big{n}");
        let big = function(&name, "nop\nnop\nret").replace(&format!(".-{name}"), "0x7fffffffffffff00");
        function(&format!("small{n}"), "ret") + &big
    };
    let source: String = (0..600).map(one).collect::<String>() + ".skip 2000000, 0x90\n";
    let library = programs.assemble("overlap.s", &source);
    let begun = Instant::now();
    let found = find(&library, "big*").unwrap();
    assert_eq!(found.functions.len(), 600);
    // Decoding each to the end of the code, or a megabyte, would be 600 million instructions; the limit is 4 million.
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}
