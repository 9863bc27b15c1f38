//! Traces from text, for tests: a line for each event, `THREAD STAMP EVENT ARGUMENT...`.
//!
//! Arguments are numbers, or words that become strings. A line `stack ID FUNCTION@ADDRESS...` defines a stack.

use std::collections::BTreeMap;

use crate::generation::Fault;
use crate::{Error, StepKind, Trace, UNIT_NS, read};

/// The stamps' usual frequency.
pub(crate) const FREQUENCY: u64 = 1_000_000_000 / UNIT_NS;

/// The events' names and numbers.
const EVENTS: [(&str, u8); 19] = [
    ("proc_start", 10),
    ("create", 14),
    ("enter", 15),
    ("start", 16),
    ("destroy", 17),
    ("leave", 18),
    ("stop", 19),
    ("block", 20),
    ("unblock", 21),
    ("syscall", 22),
    ("syscall_end", 23),
    ("syscall_end_blocked", 24),
    ("status", 25),
    ("heap", 37),
    ("switch", 45),
    ("switch_destroy", 46),
    ("create_blocked", 47),
    ("status_stack", 48),
    ("unknown", 53),
];

pub(crate) fn number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

pub(crate) fn header(version: u32) -> Vec<u8> {
    format!("go 1.{version} trace\0\0\0").into_bytes()
}

/// A generation's batch.
pub(crate) fn batch(bytes: &mut Vec<u8>, generation: u64, thread: u64, stamp: u64, events: &[u8]) {
    bytes.push(1);
    [generation, thread, stamp, events.len() as u64].into_iter().for_each(|one| number(bytes, one));
    bytes.extend_from_slice(events);
}

/// The batch with the frequency, as this version writes it.
pub(crate) fn frequency(bytes: &mut Vec<u8>, version: u32, generation: u64, frequency: u64) {
    let mut events = if version >= 25 { vec![50, 8] } else { vec![8] };
    number(&mut events, frequency);
    batch(bytes, generation, u64::MAX, 0, &events);
}

/// Adds a generation with these events, and with its end's mark where the version has it.
pub(crate) fn generation(bytes: &mut Vec<u8>, version: u32, of: u64, text: &str) {
    let mut strings: Vec<String> = Vec::new();
    let mut id = |word: &str| match strings.iter().position(|one| one == word) {
        Some(place) => place as u64 + 1,
        None => {
            strings.push(word.to_owned());
            strings.len() as u64
        }
    };
    // By thread, its first and last stamp, and its events.
    let mut threads: BTreeMap<u64, (u64, u64, Vec<u8>)> = BTreeMap::new();
    let mut stacks = vec![2];
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "stack" {
            stacks.push(3);
            [words[1].parse().expect("an id"), words.len() as u64 - 2]
                .into_iter()
                .for_each(|one| number(&mut stacks, one));
            for frame in &words[2..] {
                let (function, address) = frame.split_once('@').expect("a frame");
                let frame = [address.parse().expect("an address"), id(function), id("file.go"), 1];
                frame.into_iter().for_each(|one| number(&mut stacks, one));
            }
            continue;
        }
        let [thread, stamp] = [words[0], words[1]].map(|word| word.parse::<u64>().expect("a number"));
        let event = EVENTS.iter().find(|(name, _)| *name == words[2]).expect("an event").1;
        let (_, last, events) = threads.entry(thread).or_insert((stamp, stamp, Vec::new()));
        events.push(event);
        number(events, stamp - *last);
        *last = stamp;
        for word in &words[3..] {
            number(events, word.parse().unwrap_or_else(|_| id(&word.replace('_', " "))));
        }
    }
    for (thread, (stamp, _, events)) in &threads {
        batch(bytes, of, *thread, *stamp, events);
    }
    let mut table = vec![4];
    for (place, string) in (1..).zip(&strings) {
        table.push(5);
        [place, string.len() as u64].into_iter().for_each(|one| number(&mut table, one));
        table.extend_from_slice(string.as_bytes());
    }
    batch(bytes, of, u64::MAX, 0, &table);
    batch(bytes, of, u64::MAX, 0, &stacks);
    frequency(bytes, version, of, FREQUENCY);
    if version >= 26 {
        bytes.push(52);
    }
}

/// A trace with these generations.
pub(crate) fn trace(version: u32, generations: &[&str]) -> Vec<u8> {
    let mut bytes = header(version);
    for (of, text) in (1..).zip(generations) {
        generation(&mut bytes, version, of, text);
    }
    bytes
}

/// A trace's steps, a line each: stamp, thread, goroutine and step.
pub(crate) fn steps(trace: &Trace) -> Vec<String> {
    let line = |step: &crate::Step| {
        let what = match step.kind {
            StepKind::Found => "found".to_owned(),
            StepKind::Runs(0) => "runs".to_owned(),
            StepKind::Runs(parent) => format!("runs, by {parent}"),
            StepKind::Parks(reason) => format!("parks: {}", trace.reasons[usize::from(reason)]),
            StepKind::Ready(0) => "ready".to_owned(),
            StepKind::Ready(by) => format!("ready, by {by}"),
            StepKind::Yields => "yields".to_owned(),
            StepKind::Ends => "ends".to_owned(),
        };
        format!("{} {} {} {what}", step.at_ns / UNIT_NS, step.thread, step.goroutine)
    };
    trace.steps.iter().map(line).collect()
}

/// Checks the steps in a trace by Go 1.26.
#[track_caller]
pub(crate) fn check(generations: &[&str], expected: &[&str]) {
    let trace = read(&trace(26, generations)).expect("a trace");
    assert_eq!(trace.fault, None);
    assert_eq!(steps(&trace), expected);
}

/// A trace's fault, without a whole generation.
#[track_caller]
pub(crate) fn damage(bytes: &[u8]) -> Fault {
    match read(bytes) {
        Err(Error::Damaged(fault)) => fault,
        other => panic!("{other:?}"),
    }
}
