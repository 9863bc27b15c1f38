//! Newly mapped code and forked processes, as the kernel reports them to perf events that count nothing.

use std::io;

use crate::mapped_code::{self, Made, Ring};
use crate::sampling;

/// A change that may bring a context.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A process mapped a file's code.
    Mapped(Made),
    /// A process has a copy of another's memory.
    Forked {
        /// The forking process.
        parent: u32,
        /// The new process.
        child: u32,
    },
}

/// `PERF_RECORD_FORK`.
const FORK: u32 = 7;

/// The changes that were not taken yet.
pub(crate) struct Changes {
    rings: Vec<Ring>,
}

impl Changes {
    /// From now on the kernel reports changes.
    ///
    /// # Errors
    /// When perf events are not allowed, or a CPU has none.
    pub(crate) fn watch() -> io::Result<Self> {
        let mut attributes = mapped_code::attributes();
        attributes.set_task(1);
        let ring = |cpu| Ring::new(sampling::event(cpu, &attributes)?);
        Ok(Self { rings: sampling::online_cpus()?.into_iter().map(ring).collect::<io::Result<_>>()? })
    }

    /// Takes the changes since the last call.
    pub(crate) fn take(&mut self, mut each: impl FnMut(Change)) {
        for ring in &mut self.rings {
            ring.drain(|record| {
                if let Some(change) = change(record) {
                    each(change);
                }
            });
        }
    }
}

/// A record's change.
fn change(record: &[u8]) -> Option<Change> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(*record.get(at..)?.first_chunk()?));
    if u32_at(0)? != FORK {
        return mapped_code::decode(record).map(Change::Mapped);
    }
    let (child, parent) = (u32_at(8)?, u32_at(12)?);
    // A thread in the same process has the same words.
    (child != parent).then_some(Change::Forked { parent, child })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_process_is_a_change_and_a_new_thread_is_none() {
        let record = |kind: u32, child: u32, parent: u32| {
            [kind, 0, child, parent, child, parent, 0, 0].map(u32::to_le_bytes).concat()
        };
        assert_eq!(change(&record(FORK, 8, 7)), Some(Change::Forked { parent: 7, child: 8 }));
        assert_eq!(change(&record(FORK, 7, 7)), None);
        assert_eq!(change(&record(4, 8, 7)), None);
        assert_eq!(change(&record(FORK, 8, 7)[..12]), None);
    }

    #[test]
    fn needs_root_a_forked_process_is_reported() {
        let Ok(mut changes) = Changes::watch() else {
            eprintln!("skipped: perf events need root; would show that a fork is reported");
            return;
        };
        let mut child = std::process::Command::new("true").spawn().expect("a program");
        child.wait().expect("its end");
        let (mut forked, mut mapped) = (0, 0);
        changes.take(|change| match change {
            Change::Forked { parent, child: it } => {
                forked += u32::from((parent, it) == (std::process::id(), child.id()));
            }
            Change::Mapped(made) => mapped += u32::from(made.mapping.tgid.0 == child.id()),
        });
        assert_eq!(forked, 1);
        assert!(mapped >= 2);
    }
}
