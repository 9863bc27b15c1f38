//! The BPF programs' walk (`bpf/unwind_step.h`), compiled for the host, beside this crate's walk: the same frames, with
//! the same proved frames, for any rules and stack.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use wakepath_unwind::{Base, Place, Registers, Rule, SavedBp, Unwound, walk};

/// A program that reads walks and prints their frames: a line with rules (address, bits), a line with the stack's
/// words, and a line with the registers. The stack begins at `SP`.
const SOURCE: &str = r#"
    #include <stdbool.h>
    #include <stdio.h>
    #include <string.h>
    #include "unwind_step.h"
    #define SP 0x7000ull
    static __u64 rules[64][2], words[1 << 15], nrules, nwords;
    static __u32 rule_of(__u64 space, __u64 address, __u32 stands)
    {
        (void)space; (void)stands;
        for (__u64 i = 0; i < nrules; i++)
            if (rules[i][0] == address)
                return rules[i][1];
        return 0;
    }
    static bool read_user(void *to, __u32 bytes, __u64 address)
    {
        __u64 all = nwords * 8;
        memset(to, 0, bytes);
        if (address < SP || address - SP > all || bytes > all - (address - SP))
            return false;
        memcpy(to, (char *)words + (address - SP), bytes);
        return true;
    }
    int main(void)
    {
        unsigned long long a, b, ip, bp;
        while (scanf("%llu", &nrules) == 1) {
            for (__u64 i = 0; i < nrules; i++) {
                if (scanf("%llu %llu", &a, &b) != 2) return 1;
                rules[i][0] = a; rules[i][1] = b;
            }
            if (scanf("%llu", &nwords) != 1) return 1;
            for (__u64 i = 0; i < nwords; i++) {
                if (scanf("%llu", &a) != 1) return 1;
                words[i] = a;
            }
            if (scanf("%llu %llu", &ip, &bp) != 2) return 1;
            struct stack_room room = { .walk = { .ip = ip, .sp = SP, .bp = bp, .stands = 1, .certain = 1, .bp_own = 1 } };
            struct step all = { .room = &room, .at = 3 };
            for (int i = 0; i < WP_MAX_WALK && !step(i, &all); i++) {}
            printf("%u %u %u %u", room.walk.unknown, room.walk.proved, room.walk.bp_used, room.walk.places);
            for (__u32 i = 0; i < room.walk.places; i++)
                printf(" %llu", (unsigned long long)(room.walk.place[i] - SP) / 8);
            printf(" :");
            for (__u32 i = 0; i < room.walk.count; i++)
                printf(" %llu", (unsigned long long)room.copy.frames[3 + i]);
            printf("\n");
        }
        return 0;
    }
"#;

const SP: u64 = 0x7000;

/// A walk: the rules by address, with whether a call stands before it and whether it is in the C library, the stack's
/// words, and the registers.
#[derive(Debug, Clone, Default)]
struct Walk {
    rules: BTreeMap<u64, (Rule, bool, bool)>,
    words: Vec<u64>,
    ip: u64,
    bp: u64,
}

/// A walk's result in C.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    unknown: bool,
    proved: usize,
    bp_used: bool,
    places: Vec<u64>,
    frames: Vec<u64>,
}

/// All walks in C.
fn in_c(name: &str, walks: &[Walk]) -> Vec<Found> {
    let here = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (here.join(format!("{name}.c")), here.join(name));
    std::fs::write(&source, SOURCE).expect("a writable folder");
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-I"]).arg(bpf).arg("-o").args([&binary, &source]);
    assert!(compiler.status().expect("a C compiler named cc").success());
    let mut asked = String::new();
    for walk in walks {
        let _ = write!(asked, "{}", walk.rules.len());
        for (address, (rule, called, library)) in &walk.rules {
            let _ = write!(asked, " {address} {}", rule.bits(*library, *called));
        }
        let _ = write!(asked, "\n{}", walk.words.len());
        for word in &walk.words {
            let _ = write!(asked, " {word}");
        }
        let _ = writeln!(asked, "\n{} {}", walk.ip, walk.bp);
    }
    let mut child =
        Command::new(&binary).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program");
    let mut input = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || input.write_all(asked.as_bytes()));
    let output = child.wait_with_output().expect("its end");
    writer.join().expect("no panic").expect("it reads all");
    let lines = String::from_utf8(output.stdout).expect("text");
    let found = lines.lines().map(|line| {
        let (counts, frames) = line.split_once(':').expect("a colon");
        let numbers = |text: &str| -> Vec<u64> {
            text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
        };
        let [counts, frames] = [counts, frames].map(numbers);
        Found {
            unknown: counts[0] != 0,
            proved: counts[1] as usize,
            bp_used: counts[2] != 0,
            places: counts[4..].to_vec(),
            frames,
        }
    });
    let found: Vec<_> = found.collect();
    assert_eq!(found.len(), walks.len());
    found
}

/// The same walk by this crate; addresses without a rule have the rule `missing`.
fn here(it: &Walk, missing: Rule) -> Unwound {
    let memory: Vec<u8> = it.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let registers = Registers { ip: it.ip, sp: SP, bp: it.bp };
    walk(registers, true, true, &memory, 79, |address, stands| {
        let (rule, called, _) = it.rules.get(&address).copied().unwrap_or((missing, true, false));
        Place { rule, called: called || stands }
    })
}

fn from_sp(words: u16) -> Rule {
    Rule::frame(Base::Sp, words, SavedBp::Unchanged)
}

fn drawn(rules: &[(u64, Rule)], words: &[u64], bp: u64) -> Walk {
    let rules = rules.iter().map(|&(address, rule)| (address, (rule, true, false))).collect();
    Walk { rules, words: words.to_vec(), ip: 0x1000, bp }
}

#[test]
fn both_walks_find_the_same_frames_and_prove_the_same() {
    let mut seed = 5_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut walks = Vec::new();
    for _ in 0..10_000 {
        let mut walk = Walk { ip: 0x1000, ..Walk::default() };
        for n in 1..=8_u64 {
            let saved = match random(5) {
                0 | 1 => SavedBp::Unchanged,
                2 => SavedBp::At(2),
                3 => SavedBp::At(1 + random(5) as u16),
                _ => SavedBp::Lost,
            };
            let base = if random(3) == 0 { Base::Bp } else { Base::Sp };
            let rule = match random(16) {
                0 => Rule::NoTable,
                1 => Rule::Outermost,
                2 => Rule::Unsupported,
                3 => Rule::NoCode,
                _ => Rule::frame(base, 1 + random(4) as u16, saved),
            };
            walk.rules.insert(n * 0x1000, (rule, random(8) != 0, random(3) == 0));
        }
        for _ in 0..random(60) {
            let word = match random(8) {
                0 | 1 => SP + random(50) * 8,
                2 => random(0x2000),
                _ => (1 + random(8)) * 0x1000,
            };
            walk.words.push(word);
        }
        // Also a pointer within a word, below the stack or beyond all memory.
        walk.bp = match random(8) {
            0 => u64::MAX - random(20),
            1 => random(SP),
            2 => SP + random(300),
            _ => SP + random(40) * 8,
        };
        walks.push(walk);
    }
    let (mut frames, mut proved) = (0, 0);
    for (walk, in_c) in walks.iter().zip(in_c("both_walks", &walks)) {
        let expected = here(walk, Rule::NoTable);
        // Where C lacks a rule it stops, and the frames up to there are the same.
        if in_c.unknown {
            assert!(expected.frames.starts_with(&in_c.frames), "{walk:x?} {in_c:x?} {expected:x?}");
            assert_eq!(
                in_c.proved,
                expected.proved.min(in_c.frames.len()),
                "{walk:x?} {in_c:x?} {expected:x?}"
            );
        } else {
            assert_eq!(in_c.frames, expected.frames, "{walk:x?}");
            assert_eq!(in_c.proved, expected.proved, "{walk:x?}");
        }
        frames += in_c.frames.len();
        proved += in_c.proved;
    }
    assert!(frames > 4000 && proved > 2000 && frames > proved + 800, "{proved} of {frames}");
}

#[test]
fn the_places_are_those_of_the_first_return_addresses_outside_of_the_c_library() {
    let mut walk = drawn(
        &[(0x1000, from_sp(2)), (0x2000, from_sp(3)), (0x3000, from_sp(1)), (0x4000, Rule::Outermost)],
        &[9, 0x2000, 9, 9, 0x3000, 0x4000],
        0,
    );
    let mut other = walk.clone();
    for address in [0x1000, 0x2000] {
        other.rules.get_mut(&address).expect("a rule").2 = true;
    }
    // The thread's frame pointer counts where a frame is measured from it, not where a frame pointer was saved before.
    let with_frame = Rule::frame(Base::Bp, 2, SavedBp::At(2));
    let used = drawn(&[(0x1000, with_frame), (0x2000, Rule::Outermost)], &[9, SP + 8, 0x2000], SP + 8);
    let saved_before = drawn(
        &[
            (0x1000, Rule::frame(Base::Sp, 2, SavedBp::At(2))),
            (0x2000, with_frame),
            (0x3000, Rule::Outermost),
        ],
        &[SP + 16, 0x2000, 9, 0x3000],
        SP,
    );
    let found = in_c("places", &[walk.clone(), other, used, saved_before]);
    let shown: Vec<_> =
        found.iter().map(|found| (found.places.clone(), found.bp_used, found.frames.len())).collect();
    assert_eq!(
        shown,
        [(vec![1, 4], false, 3), (vec![4, 5], false, 3), (vec![2], true, 1), (vec![1, 3], false, 2)]
    );
    // A missing rule ends a walk, and the result shows it; the address itself is not a frame yet.
    walk.rules.remove(&0x3000);
    let found = in_c("missing", &[walk]);
    let expected =
        Found { unknown: true, proved: 1, places: vec![1], frames: vec![0x2000], ..Found::default() };
    assert_eq!(found, [expected]);
}

#[test]
fn a_frame_pointer_that_is_lost_is_not_looked_for_in_a_large_frame() {
    let lost = Rule::frame(Base::Bp, 2, SavedBp::Lost);
    // Each word but the return addresses would be a frame pointer.
    let mut words = vec![SP + 8 * 0x6800; 0x7000];
    (words[0x6001], words[0x6801]) = (0x2000, 0x3000);
    let with_frame = Rule::frame(Base::Bp, 2, SavedBp::At(2));
    let rules = [(0x1000, lost), (0x2000, with_frame), (0x3000, Rule::Outermost)];
    let walk = drawn(&rules, &words, SP + 8 * 0x6000);
    let found = in_c("lost", std::slice::from_ref(&walk));
    assert_eq!(found[0].frames, [0x2000]);
    assert_eq!(here(&walk, Rule::NoTable).frames, [0x2000]);
}

#[test]
fn no_walk_in_c_is_longer_than_what_has_room() {
    let walk = drawn(&[(0x1000, from_sp(1))], &[0x1000; 64], 0);
    let found = in_c("longest", std::slice::from_ref(&walk));
    assert_eq!(found[0].frames.len(), 64);
    assert_eq!(here(&walk, Rule::NoTable).frames, found[0].frames);
}
