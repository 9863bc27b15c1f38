//! The parts that `perf record --switch-output` writes on this machine, given together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wakepath_event::{DamageKind, EventKind, EventSource};
use wakepath_harness::perf::{EVENTS, place, record};
use wakepath_import::{Fault, PerfData};

use super::perf::{ours, switches};

/// Records while perf begins a new part thrice. Returns the parts, oldest first.
fn parts(folder: &Path, arguments: &[&str]) -> Vec<PathBuf> {
    std::fs::create_dir(folder).expect("room");
    let script = "for n in 1 2 3; do for m in 1 2 3 4; do sleep 0.03; ls / >/dev/null; done; kill -USR2 $PPID; sleep 0.3; done";
    let arguments = [&["--switch-output=signal", "-e", EVENTS], arguments].concat();
    record(folder, "perf.data", &arguments, &["bash", "-c", script]);
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut parts: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    // Their names end with their times.
    parts.sort();
    assert!(parts.len() >= 3, "{parts:?}");
    parts
}

/// Each part's switches as perf prints them.
fn printed(parts: &[PathBuf]) -> Vec<Vec<String>> {
    let name = |part: &PathBuf| part.file_name().expect("a name").to_str().expect("UTF-8").to_owned();
    parts.iter().map(|part| switches(part.parent().expect("a folder"), &name(part))).collect()
}

/// The words of a printed switch: stamp, CPU, both threads.
fn words(line: &str) -> [u64; 4] {
    let words: Vec<_> = line.split(' ').collect();
    [0, 1, 2, 4].map(|word| words[word].parse().expect("a number"))
}

/// The parts before which records are missing: a CPU's first switch leaves another thread than came last.
fn behind_a_gap(printed: &[Vec<String>]) -> Vec<usize> {
    let mut came = BTreeMap::new();
    let mut found = Vec::new();
    for (nth, part) in printed.iter().enumerate() {
        let mut now = BTreeMap::new();
        let mut is_behind_a_gap = false;
        for [_, cpu, prev, next] in part.iter().map(|line| words(line)) {
            if now.insert(cpu, next).is_none() {
                is_behind_a_gap |= came.get(&cpu).is_some_and(|&came| came != prev);
            }
        }
        came.extend(now);
        found.extend(is_behind_a_gap.then_some(nth));
    }
    found
}

/// Compares parts read together with perf's own print of each. Returns each CPU's losses without a number, as stamps.
fn check(parts: &[PathBuf], is_behind_a_gap: &[usize]) -> BTreeMap<u16, Vec<(u64, u64)>> {
    let mut expected = printed(parts).concat();
    expected.sort_by_key(|line| words(line)[0]);
    let (mut found, mut losses) = (Vec::new(), BTreeMap::<u16, Vec<_>>::new());
    let damages = PerfData::open_parts(parts).expect("parts").for_each(|event| {
        found.extend(ours(event));
        // The kernel counts the records without room while perf holds a buffer still: these losses have a number.
        if let EventKind::Loss { from, count: 0, .. } = event.kind {
            losses.entry(event.cpu.0).or_default().push((from.ns(), event.at.ns()));
        }
    });
    let differ = found.iter().zip(&expected).find(|(ours, theirs)| ours != theirs);
    assert_eq!((found.len(), differ), (expected.len(), None));
    assert!(found.len() > 50, "{found:?}");
    let path = |nth: usize| parts[nth].display().to_string();
    let gaps: Vec<_> = is_behind_a_gap
        .iter()
        .map(|&nth| (path(nth), Fault::PartMissing(path(nth - 1)).to_string()))
        .collect();
    let said = damages.into_iter().map(|damage| match damage.kind {
        DamageKind::Fault(fault) => (damage.file, fault),
        other => panic!("{other:?}"),
    });
    let said: Vec<_> = said.collect();
    let only = |these: &[(String, String)], those: &[(String, String)]| -> Vec<_> {
        these.iter().filter(|it| !those.contains(it)).cloned().collect()
    };
    // The counts of each part's switches distinguish an empty part from a damaged part.
    let counts: Vec<_> = printed(parts).iter().map(Vec::len).collect();
    assert!(
        said == gaps,
        "too many: {:?}; too few: {:?}; {counts:?}",
        only(&said, &gaps),
        only(&gaps, &said)
    );
    losses
}

#[test]
fn the_parts_that_perf_writes_at_a_signal_are_one_recording_with_each_switch_once() {
    let Some(folder) = place("parts by perf record --switch-output are read as perf script prints each")
    else {
        return;
    };
    let parts = parts(&folder.join("parts"), &[]);
    let gaps = behind_a_gap(&printed(&parts));
    let losses = check(&parts, &gaps);
    assert!(losses.values().all(|losses| losses.len() == gaps.len()), "{losses:?}");
    // A part that is left out is noticed.
    let (first, third) = (parts[0].clone(), parts[2].clone());
    let left_out = [first, third];
    if behind_a_gap(&printed(&left_out)) == [1] {
        let losses = check(&left_out, &[1]);
        assert!(!losses.is_empty() && losses.values().all(|losses| losses.len() == 1), "{losses:?}");
    }
}

#[test]
fn between_parts_from_overwritten_buffers_each_cpu_is_unknown() {
    let Some(folder) = place("the time between parts by perf record --overwrite is not known") else {
        return;
    };
    let mut parts = parts(&folder.join("parts"), &["--overwrite", "-m", "64K"]);
    // On a busy machine perf writes two parts for signals close to each other, one of them without a record: between it
    // and its neighbours nothing is missing.
    let counts: Vec<_> = printed(&parts).iter().map(Vec::len).collect();
    let mut nth = 0..;
    parts.retain(|_| nth.next().is_some_and(|nth: usize| counts[nth] > 0));
    assert!(parts.len() >= 2, "{counts:?}");
    let losses = check(&parts, &(1..parts.len()).collect::<Vec<_>>());
    let switches: Vec<_> = printed(&parts).concat().iter().map(|line| words(line)).collect();
    for [_, cpu, ..] in &switches {
        let losses = losses.get(&(*cpu as u16)).map_or(&[][..], |losses| losses);
        assert_eq!(losses.len(), parts.len() - 1, "CPU {cpu}");
        // Nothing was recorded there meanwhile.
        let within = |at: u64| losses.iter().any(|&(from, to)| from < at && at < to);
        assert!(switches.iter().all(|&[at, on, ..]| on != *cpu || !within(at)), "CPU {cpu}: {losses:?}");
    }
}
