//! The scripts that processes run.
//!
//! The BPF programs hand over each program's words at its exec (`bpf/arguments.h`). Here a script's name is found in
//! them by [`wakepath_process::script`], and they are dropped: only the name goes on. A reader of `/proc` behind the exec
//! would miss short processes, and BPF programs can hardly parse options. A forked process runs its parent's script
//! until its own exec, if its parent's first thread forked it: the record of a fork by another thread, with
//! `CLONE_PARENT`, names another parent.

use std::collections::HashMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use wakepath_clock::{Local, Stamp};
use wakepath_event::NameSpace;
use wakepath_kernel_records::{Header, Kind};
use wakepath_process::{Process, processes, script};

use crate::names::Name;

/// `WP_EXEC_ARGUMENTS`.
const ARGUMENTS: u8 = 62;
/// Offsets in `struct wp_exec_arguments`.
pub(crate) const TGID: usize = 16;
pub(crate) const LENGTH: usize = 20;
pub(crate) const UID: usize = 24;
pub(crate) const EUID: usize = 28;
const PROGRAM: usize = 32;
pub(crate) const WORDS: usize = 64;
/// Offsets in `struct wp_exec` and `struct wp_exit`.
const EXEC_TGID: usize = 20;
pub(crate) const EXIT_TGID: usize = 16;
/// Offsets in `struct wp_thread`.
pub(crate) const CHILD: usize = 16;
pub(crate) const CHILD_TGID: usize = 20;
pub(crate) const PARENT_TGID: usize = 24;
/// The most processes with scripts that are remembered, so that memory is bounded where records of ends are lost.
const MAX_RUNNING: usize = 65_536;
/// The longest time for reading the running processes' scripts. A process that hangs while its mappings change keeps a
/// reader of its words waiting.
const MAX_READING: Duration = Duration::from_millis(200);

/// Whether this record holds a program's words. It must not get onto a disk.
pub(crate) fn holds_arguments(record: &[u8]) -> bool {
    record.get(8) == Some(&ARGUMENTS)
}

/// Each process's script, by its number.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    running: HashMap<u32, Box<[u8]>>,
}

impl Scripts {
    /// The scripts of the processes that run already.
    pub(crate) fn begin(&mut self) -> Vec<Name> {
        let (found, scripts) = mpsc::channel();
        std::thread::spawn(move || {
            for tgid in processes() {
                let script = Process::open(tgid).and_then(|process| process.script()).ok().flatten();
                if let Some(script) = script
                    && found.send((tgid, script)).is_err()
                {
                    return;
                }
            }
        });
        let until = Instant::now() + MAX_READING;
        let left = || until.saturating_duration_since(Instant::now());
        while let Ok((tgid, script)) = scripts.recv_timeout(left()) {
            self.runs(tgid, script);
        }
        self.running.iter().map(|(tgid, script)| name(*tgid, script.clone())).collect()
    }

    /// A process's new name by this record, and its time.
    pub(crate) fn see(&mut self, record: &[u8]) -> Option<(Stamp<Local>, Name)> {
        let header = Header::read(record)?;
        let (tgid, script) = if holds_arguments(record) {
            self.starts(record)?
        } else {
            match Kind::from_number(header.kind)? {
                Kind::Exec => {
                    let tgid = word(record, EXEC_TGID)?;
                    self.running.remove(&tgid)?;
                    (tgid, Box::default())
                }
                Kind::Fork => self.forks(header.tid, record)?,
                Kind::Exit => {
                    let tgid = word(record, EXIT_TGID)?;
                    if header.tid == tgid {
                        self.running.remove(&tgid);
                    }
                    return None;
                }
                _ => return None,
            }
        };
        Some((Stamp::from_ns(header.stamp), name(tgid, script)))
    }

    fn starts(&mut self, record: &[u8]) -> Option<(u32, Box<[u8]>)> {
        let (tgid, length) = (word(record, TGID)?, word(record, LENGTH)? as usize);
        let program = record.get(PROGRAM..WORDS)?.split(|byte| *byte == 0).next()?;
        let words = record.get(WORDS..)?;
        let script = script(program, &words[..length.min(words.len())])?;
        self.runs(tgid, script.clone()).then_some((tgid, script))
    }

    fn forks(&mut self, by: u32, record: &[u8]) -> Option<(u32, Box<[u8]>)> {
        let (child, tgid, parent) =
            (word(record, CHILD)?, word(record, CHILD_TGID)?, word(record, PARENT_TGID)?);
        if child != tgid {
            return None;
        }
        // The number may have belonged to an earlier process.
        self.running.remove(&tgid);
        let script = self.running.get(&parent).filter(|_| by == parent)?.clone();
        self.runs(tgid, script.clone()).then_some((tgid, script))
    }

    /// Notes a process's script, if there is room.
    fn runs(&mut self, tgid: u32, script: Box<[u8]>) -> bool {
        let has_room = self.running.len() < MAX_RUNNING;
        if has_room {
            self.running.insert(tgid, script);
        }
        has_room
    }
}

fn name(tgid: u32, script: Box<[u8]>) -> Name {
    (NameSpace::Script, tgid.into(), script)
}

pub(crate) fn word(record: &[u8], at: usize) -> Option<u32> {
    record.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
pub(crate) mod tests {
    use wakepath_kernel_records::layout::Layout;

    use super::*;

    /// A record of a kind with this stamp and thread, and these 32-bit fields.
    fn record(kind: Kind, at: u64, tid: u32, fields: &[(&str, u32)]) -> Vec<u8> {
        let layout = Layout::of(kind);
        let mut record = vec![0; layout.bytes];
        record[..8].copy_from_slice(&at.to_le_bytes());
        record[8] = kind.number();
        record[12..16].copy_from_slice(&tid.to_le_bytes());
        for (field, word) in fields {
            let place = layout.field(field).expect("a field").offset;
            record[place..][..4].copy_from_slice(&word.to_le_bytes());
        }
        record
    }

    pub(crate) fn forked(at: u64, by: u32, parent: u32, child: (u32, u32)) -> Vec<u8> {
        let fields = [("thread_tid", child.0), ("tgid", child.1), ("parent_tgid", parent)];
        record(Kind::Fork, at, by, &fields)
    }

    fn executed(at: u64, tgid: u32) -> Vec<u8> {
        record(Kind::Exec, at, tgid, &[("old_tid", tgid), ("tgid", tgid)])
    }

    pub(crate) fn ended(at: u64, tid: u32, tgid: u32) -> Vec<u8> {
        record(Kind::Exit, at, tid, &[("tgid", tgid)])
    }

    pub(crate) fn arguments(at: u64, tgid: u32, program: &str, words: &str) -> Vec<u8> {
        let mut record = vec![0; WORDS + 512];
        record[..8].copy_from_slice(&at.to_le_bytes());
        record[8] = ARGUMENTS;
        record[12..16].copy_from_slice(&tgid.to_le_bytes());
        record[TGID..][..4].copy_from_slice(&tgid.to_le_bytes());
        let words = words.replace(' ', "\0");
        record[LENGTH..][..4].copy_from_slice(&(words.len() as u32).to_le_bytes());
        record[PROGRAM..][..program.len()].copy_from_slice(program.as_bytes());
        record[WORDS..][..words.len()].copy_from_slice(words.as_bytes());
        record
    }

    fn told(records: &[Vec<u8>]) -> Vec<(u64, u64, String)> {
        let mut scripts = Scripts::default();
        let names = records.iter().filter_map(|record| scripts.see(record));
        names.map(|(at, (_, tgid, name))| (at.ns(), tgid, String::from_utf8_lossy(&name).into())).collect()
    }

    fn expect(names: &[(u64, u64, &str)]) -> Vec<(u64, u64, String)> {
        names.iter().map(|&(at, tgid, name)| (at, tgid, name.to_owned())).collect()
    }

    #[test]
    fn a_process_has_its_script_from_its_exec_on_until_the_next_one() {
        let names = told(&[
            executed(10, 7),
            arguments(11, 7, "bash", "bash /opt/entry.sh SECRET "),
            executed(20, 7),
            arguments(21, 7, "python3.11", "python3 -u h.py "),
            executed(30, 7),
            arguments(31, 7, "sleep", "sleep 5 "),
            executed(40, 7),
        ]);
        assert_eq!(names, expect(&[(11, 7, "entry.sh"), (20, 7, ""), (21, 7, "h.py"), (30, 7, "")]));
    }

    #[test]
    fn a_forked_process_runs_the_script_of_its_parent_and_a_new_thread_or_number_runs_none() {
        let names = told(&[
            arguments(1, 7, "bash", "bash a.sh "),
            forked(2, 7, 7, (8, 8)),
            // A thread of the same process, and a fork by a thread that the record does not prove to be the parent's.
            forked(3, 7, 1, (9, 7)),
            forked(4, 9, 7, (10, 10)),
            forked(4, 7, 7, (13, 13)),
            forked(5, 8, 8, (11, 11)),
            // Another process gets a number.
            ended(6, 11, 11),
            forked(7, 1, 1, (8, 8)),
            forked(8, 8, 8, (12, 12)),
        ]);
        assert_eq!(names, expect(&[(1, 7, "a.sh"), (2, 8, "a.sh"), (4, 13, "a.sh"), (5, 11, "a.sh")]));
    }

    #[test]
    fn an_ended_process_is_forgotten_but_not_for_the_end_of_its_other_threads() {
        let first =
            [arguments(1, 7, "sh", "sh a.sh "), ended(2, 9, 7), forked(3, 7, 7, (8, 8)), ended(4, 7, 7)];
        let mut scripts = Scripts::default();
        let names: Vec<_> = first.iter().filter_map(|record| scripts.see(record)).collect();
        assert_eq!((names.len(), scripts.running.len()), (2, 1));
        assert!(scripts.running.contains_key(&8));
    }

    #[test]
    fn only_so_many_processes_are_remembered() {
        let mut scripts = Scripts::default();
        for tgid in 0..=MAX_RUNNING as u32 {
            let is_named = scripts.see(&arguments(1, tgid, "sh", "sh a.sh ")).is_some();
            assert_eq!(is_named, (tgid as usize) < MAX_RUNNING);
        }
    }

    #[test]
    fn cut_and_unproved_records_of_words_name_nothing_and_are_known_as_such() {
        let whole = arguments(1, 7, "sh", "sh a.sh ");
        for length in 0..whole.len() {
            let mut scripts = Scripts::default();
            let _ = scripts.see(&whole[..length]);
            assert!(length <= 8 || holds_arguments(&whole[..length]));
        }
        let mut long = whole.clone();
        long[LENGTH..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Scripts::default().see(&long).is_some(), "no length is believed");
        let mut cut = whole;
        cut[LENGTH..][..4].copy_from_slice(&7_u32.to_le_bytes());
        assert_eq!(Scripts::default().see(&cut), None);
        assert!(!holds_arguments(&executed(1, 7)));
    }

    #[test]
    fn the_record_is_as_the_c_header_says() {
        let source = r#"
            #include <stddef.h>
            #include <stdio.h>
            #include "arguments.h"
            int main(void) {
                printf("%d %zu %zu %zu %zu %zu %zu", WP_EXEC_ARGUMENTS, offsetof(struct wp_exec_arguments, tgid),
                       offsetof(struct wp_exec_arguments, length), offsetof(struct wp_exec_arguments, uid),
                       offsetof(struct wp_exec_arguments, euid), offsetof(struct wp_exec_arguments, program),
                       offsetof(struct wp_exec_arguments, words));
            }"#;
        let folder = tempfile::tempdir().expect("a folder");
        let (c, program) = (folder.path().join("arguments.c"), folder.path().join("arguments"));
        std::fs::write(&c, source).expect("room");
        let bpf = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf");
        let compiled =
            std::process::Command::new("cc").arg("-I").arg(bpf).arg("-o").arg(&program).arg(&c).status();
        assert!(compiled.expect("a compiler").success(), "the C compiler refused bpf/arguments.h");
        let printed = std::process::Command::new(&program).output().expect("its output").stdout;
        let expected = format!("{ARGUMENTS} {TGID} {LENGTH} {UID} {EUID} {PROGRAM} {WORDS}");
        assert_eq!(String::from_utf8(printed).expect("text"), expected);
    }

    #[test]
    fn the_running_processes_are_named_by_their_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("wakepath_waits.sh");
        std::fs::write(&script, "read -r x\n").expect("room");
        let mut child = std::process::Command::new("sh")
            .arg(&script)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        let is_named = |names: Vec<Name>, tgid: u32| {
            names.contains(&(NameSpace::Script, tgid.into(), (*b"wakepath_waits.sh").into()))
        };
        // The child has our words until its exec.
        let named = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            is_named(Scripts::default().begin(), child.id())
        });
        drop(child.stdin.take());
        child.wait().expect("its end");
        assert!(named);
    }
}
