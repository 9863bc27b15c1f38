//! A session's first records, before its command begins.

use std::path::Path;

use wakepath_event::{Comm, Cpu, EventKind, Mark, NameSpace, Tid};

use super::Session;
use crate::child::Held;
use crate::error::Error;
use crate::limits::AllLimits;
use crate::options::Options;
use crate::raw_records::{BLOCKED_BYTES, THREAD_BYTES, softirq_threads};
use crate::write_behind::WriteCommand;
use crate::{clocks, names};

impl Session<'_, '_> {
    /// Records the beginning: clocks, threads, names, and the question.
    pub(super) fn begin(&mut self, options: &Options, held: Option<&Held>) -> Result<(), Error> {
        self.add_clocks();
        let snapshot = self.programs.threads()?;
        // Without calls (`--path-only`), blocked calls are not recorded either.
        let blocked = if options.calls { self.programs.blocked()? } else { Vec::new() };
        let existing = snapshot.chunks_exact(THREAD_BYTES).chain(blocked.chunks_exact(BLOCKED_BYTES));
        self.commands.extend(existing.map(|record| WriteCommand::Record(record.into())));
        for (cpu, tid) in softirq_threads(&snapshot) {
            if cpu < self.sched.cpus() {
                self.sched.set_ksoftirqd(cpu, tid);
            }
        }
        let functions = options.functions.iter().map(|(name, _)| name);
        let names = functions.chain(options.kernel_functions.iter().map(|(name, _)| name));
        for (target, name) in names.enumerate() {
            self.add_event(EventKind::Name(NameSpace::Target, target as u64, name.as_bytes().into()));
        }
        let scripts = self.scripts.begin();
        self.add_names(scripts);
        self.look_at_scheduling();
        let names = names::all();
        self.limits = AllLimits::new(&names);
        self.add_names(names);
        self.add_event(EventKind::Mark(Mark::Observer(Tid(std::process::id()))));
        for &target in &options.targets {
            self.add_event(EventKind::Mark(Mark::Target(Tid(target))));
            self.unwinder.asks_about(target);
        }
        if let Some(held) = held {
            self.unwinder.asks_about(held.pid as u32);
            use std::os::unix::ffi::OsStrExt;
            let words: Vec<&[u8]> = options.command.iter().map(|word| word.as_bytes()).collect();
            let words = words.join(&0).into();
            let tid = Tid(held.pid as u32);
            self.add_event(EventKind::Mark(Mark::Command { tgid: tid, words }));
            // The command has our name until its exec, whose record may come after an early end.
            if let Some(name) = options.command.first().and_then(|word| Path::new(word).file_name()) {
                self.add_event(EventKind::Rename { tid, comm: Comm::new(name.as_bytes()) });
            }
        }
        self.add_costs();
        let started = clocks::now();
        self.add_event_at(started, Cpu::UNKNOWN, EventKind::Mark(Mark::Started));
        self.drain()?;
        // The threads and the question are written at once, so that even a recording cut off at its very beginning
        // has them.
        self.commands.push(WriteCommand::Flush { until: started, lost: 0 });
        self.hand_over()
    }
}
