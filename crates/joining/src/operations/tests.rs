//! Operations by HotSpot's VM thread.

use wakepath_spans::WorksFor;

use crate::testing::{Made, at, made};

/// `asker` wakes the VM thread at 200, waits for it from 210 on, and is woken at 700. `inner` is what the VM thread does meanwhile.
fn host(inner: &str) -> String {
    let mut lines: Vec<String> = "
        200 c0 asker waking VM_Thread
        205 c1 idle switch VM_Thread
        210 c0 asker switch idle blocked call=202:0x1000
        700 c1 VM_Thread waking asker
        710 c0 idle switch asker
        720 c1 VM_Thread switch idle blocked call=202:0x2000
        900 c0 asker switch idle blocked call=232:0x3
        1000 c0 idle stopped"
        .lines()
        .chain(inner.lines())
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    lines.sort_by_key(|line| line.split(' ').next().and_then(|at| at.parse::<u64>().ok()));
    format!(
        "host web3 realtime=1000000
        thread asker tid=11 tgid=10
        thread VM_Thread tid=12 tgid=10 blocked=interruptible call=202:0x2000
        thread gc tid=13 tgid=10
        thread other tid=14 tgid=10
        thread stranger tid=50
        0 c0 idle started
        0 c0 idle switch asker
        1 c0 asker rename VM_Thread VM Thread
        {}",
        lines.join("\n")
    )
}

/// The VM thread's work between these times.
fn works(host: &str, from: u64, to: u64) -> String {
    let made = made(host, "service s\na/a 1000100..1000800 tid=11");
    let joined = made.joined();
    let vm = made.thread("VM Thread");
    let all = joined.work_of(vm, at(from), at(to)).into_iter();
    let told = all.map(|worked| {
        let request = match worked.works_for {
            WorksFor::Span(span) => made.ids(span),
            _ => "-",
        };
        assert!(!worked.measured);
        format!("{} {request}; ", worked.to.ns())
    });
    let told: String = told.collect();
    let first = matches!(joined.works_for(vm, at(from)), WorksFor::Span(_));
    assert_eq!(first, told.split(' ').nth(1) == Some("a/a;"), "{told}");
    told
}

#[test]
fn the_vm_thread_works_for_the_request_that_asked_for_its_operation_until_this_is_done() {
    assert_eq!(works(&host(""), 205, 700), "700 a/a; ");
    assert_eq!(works(&host(""), 300, 710), "700 a/a; 710 -; ");
    assert_eq!(works(&host(""), 100, 150), "150 -; ");
    assert_eq!(works(&host(""), 700, 710), "710 -; ");
    assert_eq!(works(&host(""), 730, 740), "740 -; ");
}

#[test]
fn within_an_operation_the_vm_thread_sleeps_and_waits_for_its_collectors() {
    // It sleeps until all threads have stopped, then it waits for a collector.
    let inner = |woken: &str, call: &str| {
        format!(
            "250 c1 VM_Thread switch idle blocked call={call}
            300 c1 idle/timer waking VM_Thread
            300 c1 idle switch VM_Thread
            350 c1 VM_Thread switch gc blocked call=202:0x3000
            450 c1 {woken} waking VM_Thread
            460 c1 gc switch VM_Thread
            1 c1 idle rename gc GC Thread#0
            "
        )
    };
    for at in [240, 260, 320, 400, 455, 500] {
        assert_eq!(works(&host(&inner("gc", "230:0")), at, 650), "650 a/a; ", "{at}");
    }
    // Another time-out, and another thread: it was idle, and another operation began.
    assert_eq!(works(&host(&inner("gc", "202:0x9")), 320, 340), "340 -; ");
    assert_eq!(works(&host(&inner("gc", "202:0x9")), 260, 270), "270 -; ");
    assert_eq!(works(&host(&inner("gc", "202:0x9")), 240, 245), "245 a/a; ");
    assert_eq!(
        works(&host(&inner("gc", "230:0").replace("GC Thread#0", "C2 CompilerThre")), 500, 650),
        "650 -; "
    );
}

#[test]
fn an_asker_that_does_not_wait_for_the_vm_thread_asked_for_nothing() {
    let by_other = host("").replace("700 c1 VM_Thread waking asker", "700 c0 idle/timer waking asker");
    assert_eq!(works(&by_other, 300, 650), "650 -; ");
    // Another process's thread, another thread's name, and an asker without a request.
    assert_eq!(works(&host("").replace("asker tid=11 tgid=10", "asker tid=11 tgid=50"), 300, 650), "650 -; ");
    let made = made(&host("").replace("VM Thread", "VM Threads"), "service s\na/a 1000100..1000800 tid=11");
    let vm = made.thread("VM Threads");
    assert_eq!(made.joined().works_for(vm, at(300)), WorksFor::Unknown);
    let made = made_without_request();
    assert_eq!(made.joined().works_for(made.thread("VM Thread"), at(300)), WorksFor::Unknown);
}

fn made_without_request() -> Made {
    made(&host(""), "service s\na/a 1000300..1000800 tid=11")
}
