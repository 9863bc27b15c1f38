//! Collections in samples of HotSpot's VM thread.

use wakepath_clock::Stamp;
use wakepath_critical_path::{Window, active};
use wakepath_event::{Event, EventKind, HostIndex, Stack, Tid};
use wakepath_symbols::Function;

use super::*;
use crate::Recorded;
use crate::testing::{event, mapping, trace};

const FILE: &str = "/jvm/libjvm.so";

/// The functions in the library, by their offsets.
const FUNCTIONS: [(u64, &str); 8] = [
    (0x100, "MarkSweep::follow_stack()"),
    (0x200, "VM_GenCollectFull::doit()"),
    (0x300, "VM_Operation::evaluate()"),
    (0x400, "VM_ThreadDump::doit()"),
    (0x500, "VM_GC_HeapInspection::doit()"),
    (0x600, "VM_GenCollectFull::doit_prologue()"),
    (0x700, "VM_G1CollectForAllocation::doit()"),
    (0x800, "VM_CollectForMetadataAllocation::doit()"),
];

/// `app` waits twice: for a thread with this name from 20 to 60, and from 70 to 90.
fn recorded(name: &str, samples: &[Event]) -> Recorded {
    let text = format!(
        "thread app tid=7
        thread vm tid=8 tgid=7
        0 c0 idle switch app
        0 c1 idle switch vm
        1 c1 vm rename vm {name}
        20 c0 app switch idle blocked call=202:0x1000
        60 c1 vm waking app
        60 c0 idle switch app
        70 c0 app switch idle blocked call=202:0x1000
        90 c1 vm waking app
        90 c0 idle switch app
        100 c0 app switch idle blocked"
    );
    trace(&text, &[samples, &[mapping(0x1000, FILE)]].concat())
}

/// A sample of the thread, with return addresses behind calls at these offsets; the first `proved` are proved.
fn sample(at: u64, tid: u32, offsets: &[u64], proved: usize) -> Event {
    let user = offsets.iter().map(|offset| 0x1001 + offset).collect();
    let stack = Stack { tgid: Tid(7), kernel: Box::default(), user, scanned: 0, proved: proved as u16 };
    event(at, 1, tid, EventKind::Sample(stack))
}

/// The waits for a collection by the beginnings of their times, where the file has this name.
fn found(recorded: &Recorded, module: &str) -> Vec<u64> {
    let mut names = CodeNames::new(recorded, false);
    for (offset, name) in FUNCTIONS {
        let function =
            Function { name: name.to_owned(), module: Some(module.as_bytes().to_vec()), line: None };
        let path = recorded.survey.mappings.first().map(|(_, mapping)| &*mapping.path).expect("a mapping");
        names.user.insert((HostIndex::default(), path, None, offset), Found::Function(function));
    }
    let thread = recorded.with_tid(Tid(7))[0];
    let path = active(&recorded.graph, Window { thread, from: Stamp::from_ns(5), to: Stamp::from_ns(95) });
    collections(&path, &mut names).iter().map(|id| path.waits[id.0 as usize].from.ns()).collect()
}

const COLLECTS: [u64; 3] = [0x100, 0x200, 0x300];

#[test]
fn a_wait_in_which_the_vm_thread_was_sampled_in_a_collection_was_for_it() {
    let told = |name: &str, samples: &[Event]| found(&recorded(name, samples), "libjvm.so");
    assert_eq!(told("VM Thread", &[sample(40, 8, &COLLECTS, 3)]), [20]);
    assert_eq!(told("VM Thread", &[sample(20, 8, &COLLECTS, 3), sample(89, 8, &COLLECTS, 3)]), [20, 70]);
    // Between the waits, of another thread, and by another thread.
    assert!(told("VM Thread", &[sample(65, 8, &COLLECTS, 3)]).is_empty());
    assert!(told("VM Thread", &[sample(40, 7, &COLLECTS, 3)]).is_empty());
    assert!(told("VM Threads", &[sample(40, 8, &COLLECTS, 3)]).is_empty());
    // A word that may be left from another operation.
    assert!(told("VM Thread", &[sample(40, 8, &COLLECTS, 1)]).is_empty());
    let other = recorded("VM Thread", &[sample(40, 8, &COLLECTS, 3)]);
    assert!(found(&other, "libother.so").is_empty(), "another file's function");
}

#[test]
fn an_operations_class_says_whether_it_collects() {
    for (offset, collects) in
        [(0x400, false), (0x500, false), (0x600, false), (0x300, false), (0x700, true), (0x800, true)]
    {
        let found = found(&recorded("VM Thread", &[sample(40, 8, &[0x100, offset], 2)]), "libjvm.so");
        assert_eq!(!found.is_empty(), collects, "{offset:x}");
    }
}
