//! Files of trace-cmd from this machine, read like our own recordings.
//!
//! trace-cmd itself starts on few kernels that a test may meet: here its file is put together from the same files
//! of tracefs; if trace-cmd is installed, its reading of that file is compared with ours.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use wakepath_event::{Event, EventKind, EventSource, RecordingFormat};
use wakepath_harness::live::{Place, left_as, not_possible, place, run, skip, texts};
use wakepath_import::TraceDat;

use super::alike::{is_explained_like_ours, is_read_as};

const TRACEFS: &str = "/sys/kernel/tracing";

/// The events that the documents name; some kernels lack some.
const EVENTS: [&str; 12] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup_new",
    "sched/sched_process_fork",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
    "task/task_newtask",
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "timer/hrtimer_expire_entry",
];

/// A buffer of our own in tracefs; removing it stops its events.
struct Instance(PathBuf);

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A folder where a buffer of the kernel may be recorded; `None`, with a line, where none may be.
fn tracefs_place(would_show: &str) -> Option<Place> {
    let folder = place(would_show)?;
    if Path::new(TRACEFS).join("instances").is_dir() && fs::read_dir(TRACEFS).is_ok() {
        return Some(folder);
    }
    skip("tracefs is not there", would_show);
    None
}

fn block(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

/// The block of a file of tracefs. For some files, the kernel returns only what fits into the first read, and then the
/// end.
fn block_of(file: &str) -> Vec<u8> {
    let path = Path::new(TRACEFS).join(file);
    let mut file = fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut bytes, mut part) = (Vec::new(), vec![0; 1 << 16]);
    while let Ok(read @ 1..) = file.read(&mut part) {
        bytes.extend(&part[..read]);
    }
    block(&bytes)
}

/// Records all CPUs while a command runs, and writes what trace-cmd would, in version 6 of its files.
fn record(file: &Path, name: &str, buffer_kib: u32, command: &mut Command) -> Vec<Buffer> {
    let instance =
        Instance(Path::new(TRACEFS).join(format!("instances/wakepath-{name}-{}", std::process::id())));
    fs::create_dir(&instance.0).expect("an instance");
    let write = |file: &str, text: &str| {
        fs::write(instance.0.join(file), text).unwrap_or_else(|error| panic!("{text} to {file}: {error}"));
    };
    write("trace_clock", "mono");
    write("buffer_size_kb", &buffer_kib.to_string());
    let there = EVENTS.iter().filter(|event| instance.0.join("events").join(event).is_dir());
    let events: Vec<_> = there.chain(&["timer/hrtimer_expire_exit"]).collect();
    events.iter().for_each(|event| write(&format!("events/{event}/enable"), "1"));
    let status = command.status().expect("a command");
    write("tracing_on", "0");
    assert!(status.success(), "{command:?}");

    let mut systems: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for event in events {
        let (system, name) = event.split_once('/').expect("a system");
        systems.entry(system).or_default().push(name);
    }
    let mut bytes = b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0".to_vec();
    for name in ["header_page", "header_event"] {
        bytes.extend([name.as_bytes(), b"\0", &block_of(&format!("events/{name}"))].concat());
    }
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend((systems.len() as u32).to_le_bytes());
    for (system, names) in systems {
        bytes.extend([system.as_bytes(), b"\0", &(names.len() as u32).to_le_bytes()].concat());
        for name in names {
            bytes.extend(block_of(&format!("events/{system}/{name}/format")));
        }
    }
    // No symbols, no formats of trace_printk.
    bytes.extend([0; 8]);
    bytes.extend(block_of("saved_cmdlines"));
    let buffers = buffers(&instance);
    bytes.extend((buffers.len() as u32).to_le_bytes());
    bytes.extend(b"options  \0\x04\0\0\0\0\0\0\0flyrecord\0");
    let mut at = (bytes.len() + buffers.len() * 16 + 12).next_multiple_of(4096);
    let from = at;
    for Buffer { pages, .. } in &buffers {
        bytes.extend([at as u64, pages.len() as u64].map(u64::to_le_bytes).concat());
        at += pages.len();
    }
    bytes.extend(block(b"mono"));
    bytes.resize(from, 0);
    buffers.iter().for_each(|buffer| bytes.extend(&buffer.pages));
    fs::write(file, bytes).expect("room");
    buffers
}

/// The buffer of one CPU.
struct Buffer {
    pages: Vec<u8>,
    /// How many events were overwritten, by the kernel's own count.
    overwritten: u64,
}

impl Buffer {
    /// The loss that stands in front of the first page: with its count, or with 0 for "how many is not known" where
    /// that page has no room for the count, so that the kernel left it out.
    fn loss(&self) -> Option<u64> {
        let used = u64::from_le_bytes(self.pages.get(8..16)?.try_into().expect("8 bytes")) & 0xf_ffff;
        let has_room = 16 + used + 8 <= 4096;
        (self.overwritten > 0).then_some(if has_room { self.overwritten } else { 0 })
    }
}

/// The buffer of each CPU.
fn buffers(instance: &Instance) -> Vec<Buffer> {
    let cpus = (0..).map(|cpu| instance.0.join(format!("per_cpu/cpu{cpu}")));
    let cpus = cpus.take_while(|path| path.exists()).map(|path| {
        let stats = fs::read_to_string(path.join("stats")).expect("its statistics");
        let overwritten = stats.lines().find_map(|line| line.strip_prefix("overrun: ")?.parse().ok());
        let mut raw = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path.join("trace_pipe_raw"))
            .expect("a buffer");
        let (mut pages, mut page) = (Vec::new(), vec![0; 4096]);
        // EAGAIN behind the last.
        while let Ok(read @ 1..) = raw.read(&mut page) {
            pages.extend(&page[..read]);
            pages.resize(pages.len().next_multiple_of(4096), 0);
        }
        Buffer { pages, overwritten: overwritten.expect("an overrun") }
    });
    cpus.collect()
}

#[test]
fn a_file_of_ftrace_is_explained_like_our_recording_and_like_the_truth() {
    let Some(folder) = tracefs_place("a path over a trace.dat is that of our own recording, and the truth")
    else {
        return;
    };
    is_explained_like_ours(&folder, "trace.dat", |run| {
        let mut command = Command::new(run[0]);
        record(&folder.join("trace.dat"), "truth", 16384, command.args(&run[1..]).current_dir(&folder));
    });
}

/// The switches and wakings as trace-cmd itself prints them; `None`, with a line, if it is not installed.
fn reported(file: &Path) -> Option<Vec<String>> {
    let report = Command::new("trace-cmd").args(["report", "-t", "-R", "-i"]).arg(file).output();
    let Ok(report) = report else {
        skip(
            "trace-cmd is not installed",
            "stamps, CPUs, threads and states of a trace.dat are what it prints",
        );
        return None;
    };
    Some(texts(&report).0.lines().filter_map(line_of).collect())
}

/// `           sleep-3043  [000]  1437.105543210: sched_switch:  prev_comm=… prev_pid=… prev_state=0x1 … next_pid=…`
fn line_of(line: &str) -> Option<String> {
    let (head, tail) = ["sched_switch:", "sched_waking:"].iter().find_map(|name| {
        let at = line.find(&format!(": {name}"))?;
        Some((&line[..at], &line[at + 2..]))
    })?;
    let (head, at) = head.rsplit_once(' ')?;
    let (seconds, ns) = at.split_once('.')?;
    let at = seconds.parse::<u64>().ok()? * 1_000_000_000 + format!("{ns:0<9}").parse::<u64>().ok()?;
    let (who, cpu) = head.rsplit_once('[')?;
    let cpu: u16 = cpu.split(']').next()?.parse().ok()?;
    let current = who.trim().rsplit_once('-')?.1;
    let value = |key: &str| {
        let text = tail.rsplit_once(&format!(" {key}="))?.1.split(' ').next()?;
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    };
    Some(match tail.starts_with("sched_switch:") {
        true => format!(
            "{at} {cpu} {current} {} from {} to {}",
            match value("prev_state")? {
                _ if value("prev_pid")? == 0 => "runnable",
                0 => "runnable",
                1 => "interruptible",
                2 => "uninterruptible",
                4 => "stopped",
                16 | 32 => "dead",
                64 => "parked",
                128 => "idle",
                256.. => "runnable",
                _ => "another",
            },
            value("prev_pid")?,
            value("next_pid")?
        ),
        false => format!("{at} {cpu} {current} wakes {}", value("pid")?),
    })
}

fn ours(event: &Event) -> Option<String> {
    let what = match event.kind {
        EventKind::Switch { next, out, .. } => {
            let state = left_as(&out);
            format!("{state} from {} to {next}", event.current)
        }
        EventKind::Waking { target, newborn: false, .. } => format!("wakes {target}"),
        _ => return None,
    };
    Some(format!("{} {} {} {what}", event.at.ns(), event.cpu.0, event.current))
}

#[test]
fn every_switch_and_waking_is_read_as_trace_cmd_itself_prints_it() {
    let Some(folder) =
        tracefs_place("stamps, CPUs, threads and states of a trace.dat are what trace-cmd prints")
    else {
        return;
    };
    let file = folder.join("trace.dat");
    // Short-lived processes, sleeps, and the name of one that looks like a field.
    let script =
        "for n in 1 2 3 4 5; do sleep 0.02; ls / >/dev/null; done; exec -a 'a prev_pid=7 b' sleep 0.05";
    record(&file, "every", 16384, Command::new("bash").args(["-c", script]));
    let Some(lines) = compared(&file) else { return };
    assert!(lines > 50, "{lines}");
    // The file in trace-cmd's newer version, which is compressed unless an option says otherwise.
    let newer = folder.join("newer.dat");
    assert!(convert(&file, &newer, "7", "none"));
    assert_eq!(compared(&newer), Some(lines));
    // Where it was built with a compression.
    for by in ["zstd", "zlib"] {
        if convert(&file, &newer, "7", by) {
            println!("compressed by {by}");
            assert_eq!(compared(&newer), Some(lines), "{by}");
        }
    }
}

/// Whether trace-cmd could write a file anew, in this version and compressed so.
fn convert(from: &Path, to: &Path, version: &str, compression: &str) -> bool {
    let arguments = ["convert", "--compression", compression, "--file-version", version, "-i"];
    let done = Command::new("trace-cmd").args(arguments).arg(from).arg("-o").arg(to).output();
    done.is_ok_and(|output| output.status.success())
}

/// Holds what we read of a file against what trace-cmd prints of it: how many lines; `None` where it is not
/// installed.
#[track_caller]
fn compared(file: &Path) -> Option<usize> {
    let expected = reported(file)?;
    Some(is_read_as(&TraceDat::open(file).expect("a trace.dat"), ours, &expected))
}

#[test]
fn real_files_of_trace_cmd_are_read_as_it_prints_them_in_either_version() {
    let Some(folder) = std::env::var_os("WAKEPATH_TRACES").map(PathBuf::from) else {
        return not_possible(
            "WAKEPATH_TRACES names no folder",
            "files that trace-cmd wrote are read as it prints them",
        );
    };
    let made = tempfile::tempdir().expect("a folder");
    let folders = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files: Vec<_> =
        folders.map(|folder| folder.join("trace.dat")).filter(|file| file.is_file()).collect();
    if files.is_empty() {
        not_possible(
            "WAKEPATH_TRACES has no trace.dat",
            "files that trace-cmd wrote are read as it prints them",
        );
    }
    for file in files {
        for (version, by) in [("6", "none"), ("7", "none"), ("7", "zstd")] {
            let converted = made.path().join(version);
            if convert(&file, &converted, version, by) {
                let lines = compared(&converted);
                assert!(lines.is_none_or(|lines| lines > 10), "{}: {lines:?}", file.display());
            } else {
                let why = format!("trace-cmd is not installed, or cannot write version {version} with {by}");
                skip(&why, &format!("{} is read as it prints it", file.display()));
            }
        }
    }
}

#[test]
fn events_that_a_full_buffer_overwrote_are_reported_as_lost() {
    let Some(folder) = tracefs_place("what found no room in the kernel's buffer is told as lost") else {
        return;
    };
    let file = folder.join("trace.dat");
    // Some thousand switches in a buffer of a few hundred.
    let script = "for n in $(seq 300); do true | cat; done";
    let buffers = record(&file, "full", 64, Command::new("sh").args(["-c", script]));
    let mut lost = Vec::new();
    TraceDat::open(&file).expect("a trace.dat").for_each(|event| {
        if let EventKind::Loss { count, .. } = event.kind {
            lost.push(count);
        }
    });
    let mut expected: Vec<_> = buffers.iter().filter_map(Buffer::loss).collect();
    println!("lost by the kernel's own count, and as read: {expected:?} {lost:?}");
    assert!(!expected.is_empty(), "no buffer was full");
    expected.sort_unstable();
    lost.sort_unstable();
    assert_eq!(lost, expected);
    let (said, _) = run(&folder, &["info", "trace.dat"], 0);
    assert!(said.contains("lost"), "{said}");
}
