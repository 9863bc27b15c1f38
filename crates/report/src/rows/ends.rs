//! What a row's time went to at the end of the chain: who waits for `postgres` wants to know what that was at.

use std::collections::BTreeSet;

use wakepath_critical_path::{Responsible, SegmentKind};

use super::classes::Class;
use super::{Grouping, Party, limit, worker_family};
use crate::places::Sites;
use crate::wording;

/// What time went to, without the files that it concerned: there may be thousands of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// `waiting for disk sda`, `running`; of waits for a CPU, `that stress had`; nothing where the row says it.
    pub what: String,
    /// The system call.
    pub call: Option<String>,
    /// Somebody ran: samples tell where.
    pub runs: bool,
}

/// How much it was.
#[derive(Debug, Clone, Default)]
pub struct Spent {
    /// Its time, ns.
    pub ns: u64,
    /// What the system calls were about: `of orders.db`.
    pub objects: BTreeSet<String>,
    /// Where in the code the waits began.
    pub sites: Sites,
}

impl Grouping<'_> {
    /// What a class is at the end of the chain, and what its call was about; nothing where no more is known than
    /// its row says.
    pub(super) fn end(&self, party: &Party, class: &Class, by_kernel: bool) -> Option<(End, Option<String>)> {
        let answer = self.answer;
        let disk = |device: Option<u32>| match wording::disk(&answer.recorded.survey.names, device) {
            Some(disk) => format!("waiting for disk {disk}"),
            None => String::from("waiting for a disk"),
        };
        let what = match (party, class.responsible) {
            (Party::Process(..), _) if by_kernel => match class.user.and_then(|user| user.disk) {
                Some(device) => disk(device),
                None => {
                    format!("waiting for kernel thread {}", wording::comm(worker_family(class.comm)))
                }
            },
            (Party::Process(..), responsible) => match (class.kind, responsible) {
                (SegmentKind::BlockDevice, Responsible::Disk { device, .. }) => disk(device),
                (SegmentKind::Runnable, _) => String::from(wording::kind_phrase(class.kind)),
                (SegmentKind::Throttled, _) => {
                    let limit = class.thread.and_then(|thread| limit(answer, &answer.thread(thread)));
                    let of = limit.map_or(String::new(), |limit| format!(" of {limit}"));
                    format!("not allowed to run: CPU limit{of}")
                }
                (kind, responsible) => wording::doing(answer, kind, responsible),
            },
            (Party::Cpu, Responsible::Competitor(_)) => {
                format!("that {} had", self.part(party, class, by_kernel))
            }
            (Party::Cpu, Responsible::IdleCpu) => String::from("that was idle"),
            _ => String::new(),
        };
        let call = if by_kernel { class.user.and_then(|user| user.call) } else { class.call };
        let call = call.map(|call| answer.recorded.survey.names.spell(call));
        if what.is_empty() && call.is_none() {
            return None;
        }
        let object = call.as_ref().and_then(|call| call.object.as_ref()).map(wording::object);
        let runs = matches!(party, Party::Process(..)) && class.kind == SegmentKind::Running && !by_kernel;
        Some((End { what, call: call.map(|call| call.name.to_string()), runs }, object))
    }
}
