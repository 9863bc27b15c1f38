//! `kill -9` at random moments of a recording's whole life.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use wakepath_drift::Chance;
use wakepath_harness::live::{adds_up, command, number, place, run, texts, wakepath};

/// For about a quarter of a second, threads start, wait and end; then a line says that it is done.
const COMMAND: &str = "for i in 1 2 3 4 5 6 7 8; do /bin/true; sleep 0.02; done; : >done";
/// Longer than anything here takes when nothing is wrong.
const PATIENCE: Duration = Duration::from_secs(20);

/// The event after which the random pause before a kill begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Nothing: any moment from its start to its end, most of them while it loads and attaches.
    Life,
    /// The new recording is about to take the place of the one before.
    Naming,
    /// The new recording is there, and is written to.
    Draining,
    /// The command has ended; the buffers are drained, and the answer is computed.
    Ending,
}

const PHASES: [Phase; 4] = [Phase::Life, Phase::Naming, Phase::Draining, Phase::Ending];

/// How long an undisturbed recording takes.
struct Times {
    life: Duration,
    command: Duration,
    ending: Duration,
}

/// A recording in a folder, recognised however it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    inode: u64,
    /// Events that it holds.
    events: u64,
    /// It was not ended properly.
    cut_off: bool,
}

#[test]
fn a_recording_killed_at_any_moment_can_be_read_and_the_one_before_is_kept() {
    let Some(folder) = place("what was flushed survives kill -9") else { return };
    let kills = variable("WAKEPATH_KILLS").unwrap_or(15);
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let seed = variable("WAKEPATH_SEED").unwrap_or_else(clock);
    println!("{kills} kills at random moments; WAKEPATH_SEED={seed} repeats them");
    let mut chance = Chance(seed);

    let times = undisturbed(&folder);
    let mut before = keep(&recording(&folder));
    assert!(before.events > 0 && !before.cut_off, "the first recording is whole");
    let mut outcomes: BTreeMap<(Phase, &str), u64> = BTreeMap::new();
    for round in 0..kills {
        let phase = PHASES[round as usize % PHASES.len()];
        let most = match phase {
            Phase::Life => times.life,
            Phase::Naming => Duration::from_millis(3),
            Phase::Draining => times.command,
            Phase::Ending => times.ending,
        };
        let pause = most.mul_f64(chance.share());
        let what = format!("round {round}, {phase:?} and {pause:?}");
        let command_ended = kill(&folder, phase, pause, before.inode);

        // The one before is whole, under its name or as the old one; the new one can be read.
        let there: Vec<(PathBuf, Kept)> = [recording(&folder), old(&folder)]
            .into_iter()
            .filter(|path| path.exists())
            .map(|path| (path.clone(), keep(&path)))
            .collect();
        assert!(there.iter().any(|(_, kept)| *kept == before), "{what}: {before:?} is not in {there:?}");
        let new = there.into_iter().find(|(path, kept)| *path == recording(&folder) && *kept != before);
        if let Some((path, kept)) = &new {
            every_verb_answers(&folder, path, kept, &what);
            assert!(kept.cut_off || command_ended, "{what}: it was killed, and is not marked as cut off");
        }
        let outcome = match &new {
            None => "before the recording took its name",
            Some((_, kept)) if kept.events == 0 => "before anything was written",
            Some((_, kept)) if kept.cut_off => "cut off and readable",
            Some(_) => "complete",
        };
        *outcomes.entry((phase, outcome)).or_default() += 1;
        before = new.map_or(before, |(_, kept)| kept);
    }
    for ((phase, outcome), count) in outcomes {
        println!("  {:<9} {count:>4}  {outcome}", format!("{phase:?}").to_lowercase());
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a whole number"))
}

fn recording(folder: &Path) -> PathBuf {
    folder.join("wakepath.rec")
}

fn old(folder: &Path) -> PathBuf {
    folder.join("wakepath.rec.old")
}

fn start(folder: &Path) -> Child {
    let _ = fs::remove_file(folder.join("done"));
    command(folder, &["record", "--no-calibration", "--", "sh", "-c", COMMAND])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("wakepath")
}

fn undisturbed(folder: &Path) -> Times {
    let began = Instant::now();
    let mut recorder = start(folder);
    until(&mut recorder, || recording(folder).exists());
    let named = began.elapsed();
    until(&mut recorder, || folder.join("done").exists());
    let done = began.elapsed();
    assert!(recorder.wait().expect("its end").success());
    let life = began.elapsed();
    Times { life, command: done.saturating_sub(named), ending: life.saturating_sub(done) }
}

/// Waits for something, or for the recorder's end.
fn until(recorder: &mut Child, happened: impl Fn() -> bool) {
    let began = Instant::now();
    while !happened() && recorder.try_wait().expect("a child").is_none() {
        assert!(began.elapsed() < PATIENCE, "the recorder hangs");
        sleep(Duration::from_micros(100));
    }
}

/// Records, and kills the recorder `pause` after `phase` has begun; no process of it remains. Returns whether the
/// command had ended by then.
fn kill(folder: &Path, phase: Phase, pause: Duration, before: u64) -> bool {
    let mut recorder = start(folder);
    let replaced = || recording(folder).metadata().map_or(true, |data| data.ino() != before);
    match phase {
        Phase::Life => {}
        Phase::Naming => {
            let unfinished = folder.join(".wakepath.rec.new");
            until(&mut recorder, || unfinished.exists() || replaced());
        }
        Phase::Draining => until(&mut recorder, replaced),
        Phase::Ending => until(&mut recorder, || folder.join("done").exists()),
    }
    sleep(pause);
    let command_ended = folder.join("done").exists();
    recorder.kill().expect("a signal");
    recorder.wait().expect("its end");
    // Without its recorder the command ends as it would have, and one that was still held does not begin.
    let group = recorder.id() as i32;
    let began = Instant::now();
    // SAFETY: a null signal to a group of our own making: it only asks whether anybody is in it.
    while unsafe { libc::kill(-group, 0) } == 0 {
        assert!(began.elapsed() < PATIENCE, "something of the recorder stayed behind");
        sleep(Duration::from_millis(1));
    }
    command_ended
}

fn keep(path: &Path) -> Kept {
    let (info, _) = run(Path::new("/"), &["info", "--json", path.to_str().expect("a path")], 0);
    let info: Value = serde_json::from_str(&info).expect("JSON");
    let events = info["events"].as_object().expect("events");
    let of = |(name, count): (&String, &Value)| {
        // A gap that the reader finds is reported as a loss, and is in no packet.
        if name == "loss" { 0 } else { number(count) }
    };
    Kept {
        inode: path.metadata().expect("a recording").ino(),
        events: events.iter().map(of).sum(),
        cut_off: info["cut_off"] == true,
    }
}

/// Each verb answers, or says that the recording has nothing to answer from.
fn every_verb_answers(folder: &Path, path: &Path, kept: &Kept, what: &str) {
    assert!(kept.events >= flushed(path), "{what}: {kept:?}, but {} are flushed", flushed(path));
    let exported = folder.join("exported");
    let exported = exported.to_str().expect("a path");
    let name = path.to_str().expect("a path");
    for arguments in [
        &["path", "--json", name][..],
        &["path", "--tree", name],
        &["export", "--format", "perfetto", "-o", exported, name],
    ] {
        let output = wakepath(folder, arguments);
        let (printed, said) = texts(&output);
        assert!(!said.contains("panicked"), "{what}: {arguments:?}: {said}");
        match output.status.code() {
            Some(0) if arguments[1] == "--json" => {
                let document: Value = serde_json::from_str(&printed).expect("JSON");
                if document["window"].is_object() {
                    adds_up(&document);
                }
            }
            Some(0) => {}
            code => {
                let nothing_yet = code == Some(3) && said.contains("holds no events");
                assert!(nothing_yet && kept.events == 0, "{what}: {arguments:?}: {code:?} {said}");
            }
        }
    }
}

/// Events in the packets that are there as a whole, by their own headers (docs/recording-format.md).
fn flushed(path: &Path) -> u64 {
    let mut events = 0;
    for entry in fs::read_dir(path.join("kernel")).expect("a recording").flatten() {
        if entry.file_name() == "metadata" {
            continue;
        }
        let bytes = fs::read(entry.path()).expect("a stream");
        let mut at = 0;
        while let Some(header) = bytes.get(at..at + 80) {
            let word = |from: usize| u64::from_le_bytes(header[from..from + 8].try_into().expect("8 bytes"));
            let end = at + (word(40) / 8) as usize;
            if end > bytes.len() {
                break;
            }
            events += word(72) & u64::from(u32::MAX);
            at = end;
        }
    }
    events
}
