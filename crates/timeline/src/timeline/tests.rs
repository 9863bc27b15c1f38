//! The start of a host's complete recording, as threads see it.

use super::*;

fn at(ns: u64) -> Stamp<Reference> {
    Stamp::from_ns(ns)
}

/// Hosts whose recordings are complete from these times on, ns.
fn started(hosts: &[(u16, u64)]) -> Timeline {
    let complete_since = hosts.iter().map(|&(host, ns)| (HostIndex(host), at(ns))).collect();
    Timeline { complete_since, ..Timeline::default() }
}

#[test]
fn a_recording_is_complete_from_the_last_mark_of_the_threads_own_host() {
    let timeline = started(&[(0, 5), (1, 7), (0, 9), (1, 11)]);
    assert_eq!(timeline.complete_since(Tid(7)), Some(at(9)));
    assert_eq!(timeline.complete_since(Tid(7).on(HostIndex(1))), Some(at(11)));
    assert_eq!(timeline.complete_since(Tid(7).on(HostIndex(2))), None);
}

#[test]
fn the_idle_thread_of_one_host_has_that_host_and_of_several_none() {
    assert_eq!(started(&[(0, 5)]).complete_since(Tid::IDLE), Some(at(5)));
    assert_eq!(started(&[(0, 5), (1, 7)]).complete_since(Tid::IDLE), None);
    assert_eq!(started(&[]).complete_since(Tid::IDLE), None);
}

#[test]
fn a_cpu_without_records_hides_woken_threads_of_its_own_host_alone() {
    let unrecorded_cpus = vec![(HostIndex(1), Cpu(3))];
    let timeline = Timeline { unrecorded_cpus, ..Timeline::default() };
    let woken = |host| timeline.woken_state(Tid(7).on(HostIndex(host)));
    assert!(matches!(woken(0), CurrentState::Runnable(None)));
    assert!(matches!(woken(1), CurrentState::Unknown { lost_until: Some(_) }));
}
