//! Traces this machine's scheduler in the kernel's own ring buffers (ftrace), into a trace-cmd file.
//!
//! trace-cmd itself starts on few kernels that a test may meet: here its file is built from the same tracefs files.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::live::{self, Place, skip};

const TRACEFS: &str = "/sys/kernel/tracing";

/// The events in the documents; some kernels lack some.
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

/// Our own buffer in tracefs; removing it stops its events.
struct Instance(PathBuf);

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A folder for recording a kernel buffer; `None`, with a printed reason, if this is not possible.
pub fn place(would_show: &str) -> Option<Place> {
    let folder = live::place(would_show)?;
    if Path::new(TRACEFS).join("instances").is_dir() && fs::read_dir(TRACEFS).is_ok() {
        return Some(folder);
    }
    skip("tracefs is not there", would_show);
    None
}

fn block(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

/// A tracefs file's block. For some files, the kernel returns only the part that fits into the first read, and then
/// the end.
fn block_of(file: &str) -> Vec<u8> {
    let path = Path::new(TRACEFS).join(file);
    let mut file = fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut bytes, mut part) = (Vec::new(), vec![0; 1 << 16]);
    while let Ok(read @ 1..) = file.read(&mut part) {
        bytes.extend(&part[..read]);
    }
    block(&bytes)
}

/// Records all CPUs while a command runs, and writes the same file as trace-cmd, in file version 6; beside it, with the
/// ending `txt`, the text that the kernel prints of the same events.
pub fn record(file: &Path, name: &str, buffer_kib: u32, command: &mut Command) -> Vec<Buffer> {
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
    // No symbols, no `trace_printk` formats.
    bytes.extend([0; 8]);
    bytes.extend(block_of("saved_cmdlines"));
    let text = fs::read(instance.0.join("trace")).expect("a text");
    print_counts(&text);
    fs::write(file.with_extension("txt"), text).expect("room");
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

fn print_counts(text: &[u8]) {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let text = String::from_utf8_lossy(text);
    for line in text.lines() {
        let mut words = line.split_whitespace().skip_while(|word| !word.starts_with('['));
        let (cpu, what) =
            (words.next(), words.find(|word| word.ends_with("entry:") || word.ends_with("exit:")));
        if let (Some(cpu), Some(what)) = (cpu, what) {
            *counts.entry((cpu, what)).or_default() += 1;
        }
    }
    println!("interrupts: {counts:?}");
}

/// A CPU's buffer.
#[derive(Debug)]
pub struct Buffer {
    /// The pages, in the kernel's layout.
    pages: Vec<u8>,
    /// The number of overwritten events, by the kernel's own count.
    overwritten: u64,
}

impl Buffer {
    /// The loss in front of the first page: its count, or 0 for an unknown count if this page had no room for the
    /// count, so that the kernel left it out.
    pub fn loss(&self) -> Option<u64> {
        let used = u64::from_le_bytes(self.pages.get(8..16)?.try_into().expect("8 bytes")) & 0xf_ffff;
        let has_room = 16 + used + 8 <= 4096;
        (self.overwritten > 0).then_some(if has_room { self.overwritten } else { 0 })
    }
}

/// Each CPU's buffer.
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
        // EAGAIN follows the last page.
        while let Ok(read @ 1..) = raw.read(&mut page) {
            pages.extend(&page[..read]);
            pages.resize(pages.len().next_multiple_of(4096), 0);
        }
        Buffer { pages, overwritten: overwritten.expect("an overrun") }
    });
    cpus.collect()
}
