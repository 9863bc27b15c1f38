//! No room: a disk that fills up while recording, is full from the start, or has a tenth left; a
//! recording that may only be so large. Whatever was written stays readable.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use wakepath_harness::live::{Place, command, list, number, place, run, skip, texts, wakepath, workload};

use crate::record;

/// Switches, as fast as they come.
const BUSY: &str = "i=0; while [ $i -lt 1500 ]; do echo $i | cat >/dev/null; i=$((i+1)); done; exit 7";

/// A small file system, mounted for one test.
struct Disk {
    at: PathBuf,
    _folder: Place,
}

impl Disk {
    /// tmpfs of `bytes`; `None`, with a line that says so, if it cannot be mounted.
    fn tmpfs(folder: Place, bytes: u64) -> Option<Self> {
        let size = format!("size={bytes}");
        Self::mount(folder, &["-t", "tmpfs", "-o", &size, "tmpfs"])
    }

    /// ext4 of `bytes` on a loop device: a disk with room set aside for root.
    fn ext4(folder: Place, bytes: u64) -> Option<Self> {
        let image = folder.join("image");
        fs::File::create(&image).expect("a file").set_len(bytes).expect("a sparse file");
        let made = Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image).status();
        if !made.is_ok_and(|status| status.success()) {
            skip("no mkfs.ext4", "a full ext4 leaves what was written readable");
            return None;
        }
        let image = image.to_str().expect("a path").to_owned();
        Self::mount(folder, &["-o", "loop", &image])
    }

    fn mount(folder: Place, what: &[&str]) -> Option<Self> {
        let at = folder.join("small");
        fs::create_dir(&at).expect("a folder");
        let mounted = Command::new("mount").args(what).arg(&at).output().expect("mount");
        if !mounted.status.success() {
            let (_, said) = texts(&mounted);
            skip(&format!("cannot mount ({})", said.trim()), "a recording survives a full disk");
            return None;
        }
        Some(Self { at, _folder: folder })
    }

    /// Stops all writing there for `time`, as a disk does that has too much to do.
    fn stand_still(&self, time: Duration) {
        let freeze =
            |way| Command::new("fsfreeze").args([way, "--"]).arg(&self.at).status().expect("fsfreeze");
        assert!(freeze("--freeze").success(), "what is on the disk can be frozen");
        std::thread::sleep(time);
        assert!(freeze("--unfreeze").success());
    }

    /// Takes all but about `left` bytes.
    fn fill(&self, left: u64) {
        let mut rest = self.free().saturating_sub(left);
        let block = vec![1; 64 << 10];
        let mut file = fs::File::create(self.at.join("filler")).expect("a file");
        while rest > 0 {
            let n = rest.min(block.len() as u64);
            if std::io::Write::write_all(&mut file, &block[..n as usize]).is_err() {
                break;
            }
            rest -= n;
        }
        file.sync_all().expect("on disk");
    }

    fn free(&self) -> u64 {
        let output = Command::new("stat").args(["-f", "-c", "%a %S"]).arg(&self.at).output().expect("stat");
        let text = String::from_utf8(output.stdout).expect("text");
        text.split_whitespace().map(|word| word.parse::<u64>().expect("a number")).product()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.at).status();
    }
}

/// Checks that every verb can read the recording; returns the document of `info`.
fn readable(folder: &Path) -> Value {
    let (info, _) = run(folder, &["info", "--json"], 0);
    let info: Value = serde_json::from_str(&info).expect("JSON");
    let output = wakepath(folder, &["path", "--json"]);
    let (_, said) = texts(&output);
    let nothing = output.status.code() == Some(3) && said.contains("holds no events");
    assert!(output.status.code() == Some(0) || nothing, "{said}");
    let damaged = |problem: &&Value| problem["text"].as_str().expect("text").contains("damaged");
    let damage = list(&info["problems"]).iter().filter(damaged).count();
    assert_eq!(damage, 0, "packets that did not fit are taken back: {}", info["problems"]);
    info
}

#[test]
fn a_disk_that_fills_up_ends_the_recording_and_not_the_command() {
    for kind in ["tmpfs", "ext4"] {
        let Some(folder) = place("a disk that fills up leaves what was written readable") else { return };
        let disk = match kind {
            "tmpfs" => Disk::tmpfs(folder, 16 << 20),
            _ => Disk::ext4(folder, 16 << 20),
        };
        let Some(disk) = disk else { continue };
        // It fills up at once, long before the remaining space is checked.
        let filler = format!("dd if=/dev/zero of=filler bs=64k status=none 2>/dev/null; {BUSY}");
        let (_, text) = record(&disk.at, &["--", "sh", "-c", &filler], 7);
        assert!(text.contains("warning: recording ended early: no space left to write"), "{kind}: {text}");
        let info = readable(&disk.at);
        assert!(info["threads"].as_u64() > Some(0), "{kind}: {info}");
        // Either not even its end found room, or what did not is counted.
        let counted = info["losses"].as_array().is_some_and(|losses| !losses.is_empty());
        assert!(info["cut_off"] == true || counted, "{kind}: {info}");
    }
}

#[test]
fn a_disk_that_is_full_at_the_start_is_an_error_before_the_command_runs() {
    let Some(folder) = place("a full disk is told at once") else { return };
    let Some(disk) = Disk::tmpfs(folder, 8 << 20) else { return };
    // The previous recording is kept, whatever the outcome of the next.
    record(&disk.at, &["--", "true"], 0);
    let before = readable(&disk.at);
    for (left, expected) in [(0, "no space left to write"), (512 << 10, "are to stay so")] {
        let _ = fs::remove_file(disk.at.join("filler"));
        disk.fill(left);
        for (question, code) in [(&["-a", "-d", "0.1"][..], 3), (&["--", "touch", "ran"], 125)] {
            let (_, text) = record(&disk.at, question, code);
            assert!(text.contains(expected) && text.contains("hint: choose another place with -o"), "{text}");
        }
        assert!(!disk.at.join("ran").exists(), "what cannot be recorded is not run");
        assert_eq!(readable(&disk.at), before, "the one before is still there");
    }
}

#[test]
fn a_disk_that_stands_still_for_seconds_costs_no_record() {
    let Some(folder) = place("a disk that stands still costs no record") else { return };
    let Some(disk) = Disk::ext4(folder, 128 << 20) else { return };
    // A fraction of a second fills such buffers, and a disk with much to do lets one wait for more.
    let busy = "while :; do echo $i | cat >/dev/null; done";
    let recorder = begun(&disk.at, &["--buffer", "128K", "--", "timeout", "4", "sh", "-c", busy]);
    disk.stand_still(Duration::from_secs(2));
    let output = recorder.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(124), "{:?}", texts(&output));
    let info = readable(&disk.at);
    assert_eq!(info["recording"]["discarded"], 0, "{}", info["losses"]);
    let bytes = number(&info["recording"]["bytes"]);
    assert!(bytes > 4 * (128 << 10), "{bytes} bytes do not even fill the buffers twice");
}

/// A recorder with these arguments in a folder, whose recording has begun.
fn begun(folder: &Path, arguments: &[&str]) -> Child {
    let mut recorder = command(folder, &[&["record", "--no-calibration"], arguments].concat());
    let recorder = recorder.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("wakepath");
    let began = Instant::now();
    while fs::read_dir(folder.join("wakepath.rec/kernel")).map_or(0, Iterator::count) < 2 {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    recorder
}

#[test]
fn a_tenth_of_the_disk_stays_free() {
    let Some(folder) = place("a tenth of the disk stays free") else { return };
    let Some(disk) = Disk::tmpfs(folder, 32 << 20) else { return };
    // Another process fills the disk while we record; the space is checked once a second.
    let mut recorder = begun(&disk.at, &["-a", "-d", "20"]);
    disk.fill(2 << 20);
    let began = Instant::now();
    while recorder.try_wait().expect("a child").is_none() {
        assert!(began.elapsed() < Duration::from_secs(10), "it goes on and on");
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = recorder.wait_with_output().expect("its end");
    let (_, text) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("warning: recording ended early: the disk of ") && text.contains("are to stay so"),
        "{text}"
    );
    let info = readable(&disk.at);
    assert_eq!(info["cut_off"], false, "there was room to end it properly");
    assert!(disk.free() > 1 << 20, "it did not take what was to stay free");
}

#[test]
fn a_recording_grows_no_larger_than_was_said_and_still_knows_its_threads() {
    let Some(folder) = place("--max-size is kept") else { return };
    for (size, most) in [("200K", 200 << 10), ("800K", 800 << 10)] {
        let (_, text) = record(&folder, &["--max-size", size, "--", "sh", "-c", BUSY], 7);
        let limit =
            format!("warning: recording ended early: the recording has reached its limit of {most} bytes");
        assert!(text.contains(&limit), "{text}");
        let streams = fs::read_dir(folder.join("wakepath.rec/kernel")).expect("streams").flatten();
        let bytes: u64 = streams
            .filter(|entry| entry.file_name() != "metadata")
            .map(|entry| entry.metadata().expect("a file").len())
            .sum();
        assert!(bytes <= most && bytes > most / 2, "{bytes} of {most}");
        let info = readable(&folder);
        assert_eq!(info["command"]["words"][0], "sh", "what was asked is known");
        // Names come first, and the end has room set aside.
        assert_eq!(info["cut_off"], false, "{size}");
        let own = number(&info["threads"]);
        assert!(own >= 20, "only {own} threads");
    }
}

#[test]
fn however_much_waits_to_be_written_how_the_recording_ended_is() {
    let Some(folder) = place("a recording without room is ended all the same") else { return };
    let storm = workload(&folder, "forkstorm");
    // More births and deaths wait, held back to be written in order, than the room that is kept has place
    // for. How much it is when the limit is met differs from run to run.
    let storms = format!("{storm} >/dev/null & {storm} >/dev/null; wait; exit 7");
    for run in 0..6 {
        let (_, text) = record(&folder, &["--max-size", "64K", "--", "sh", "-c", &storms], 7);
        assert!(text.contains("the recording has reached its limit"), "{text}");
        assert_eq!(readable(&folder)["cut_off"], false, "run {run}");
    }
}
