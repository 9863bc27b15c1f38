//! Rare events on a running kernel, which drawings only assume: a wake-up before the switch that it undoes, a thread
//! that takes its leader's number, an interrupt during wakepath's own programs.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use wakepath_event::{Context, Event, EventKind, EventSource, Flow, RecordingFormat, SwitchOut, Tid};
use wakepath_harness::live::{
    adds_up, contributed_ns, document, list, number, path, place, place_alone, program, record,
};
use wakepath_recording::Recording;

/// Compiles and records this program, which must succeed. Returns the printed numbers, one a line.
fn recorded(folder: &Path, source: &str) -> Vec<u64> {
    let program = program(folder, "program", source, &["-O1", "-pthread"]);
    let (said, _) = record(folder, &["--", &program], 0);
    said.lines().filter_map(|line| line.parse().ok()).collect()
}

/// All events in the recording, none of them lost or damaged.
fn events(folder: &Path) -> Vec<Event> {
    let recording = Recording::open(&folder.join("wakepath.rec")).expect("a recording");
    let mut events = Vec::new();
    let problems = recording.for_each(|event| events.push(event.clone()));
    assert!(problems.is_empty(), "{problems:?}");
    let info = document(folder, &["info"]);
    assert_eq!(info["recording"]["discarded"], 0, "{}", info["losses"]);
    events
}

/// An answer's unknown time although no record is missing.
fn unexplained(document: &Value) -> Vec<String> {
    let is_missing = |one: &Value| one["code"] == "lost" || one["code"] == "unrecorded";
    let contributors = list(&document["contributors"]).iter();
    let unknown = contributors.filter(|one| one["kind"] == "unknown" && !is_missing(one));
    unknown.map(Value::to_string).collect()
}

/// A thread that waits for another thread on the other CPU, which wakes it at any moment around its falling asleep.
/// Prints the number of its waits.
const RACE: &str = r#"
    #define _GNU_SOURCE
    #include <linux/futex.h>
    #include <pthread.h>
    #include <sched.h>
    #include <stdatomic.h>
    #include <stdio.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    enum { ROUNDS = 20000 };
    static atomic_int asked, word;
    static void on(int cpu)
    {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof(set), &set);
    }
    static void *waker(void *unused)
    {
        on(1);
        for (int round = 1; round <= ROUNDS; round++) {
            while (atomic_load(&asked) < round)
                ;
            for (volatile int i = 0; i < round % 2000; i++)
                ;
            atomic_store(&word, round);
            syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
        }
        return unused;
    }
    int main(void)
    {
        pthread_t thread;
        int waited = 0;
        on(0);
        pthread_create(&thread, 0, waker, 0);
        for (int round = 1; round <= ROUNDS; round++) {
            atomic_store(&asked, round);
            while (atomic_load(&word) < round)
                waited += !syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, round - 1, 0, 0, 0);
        }
        pthread_join(thread, 0);
        printf("%d\n", waited);
    }
"#;

#[test]
fn a_waking_before_the_switch_out_ends_the_wait_too() {
    let Some(folder) = place_alone("a waking before its switch-out ends the wait") else { return };
    let waited = recorded(&folder, RACE)[0];
    let document = path(&folder);
    adds_up(&document);
    let main = Tid(number(&document["window"]["tid"]) as u32);

    // The wake-ups of the main thread before the switch that they end.
    let (mut woken, mut out, mut early, mut waits) = (false, false, 0, 0);
    for event in events(&folder) {
        match event.kind {
            EventKind::Waking { target, .. } if target == main => woken = true,
            EventKind::Switch { out: SwitchOut::Blocked(_), .. } if event.current == main => {
                (waits, out) = (waits + 1, true);
                early += u64::from(woken);
            }
            EventKind::Switch { next, .. } if next == main => (woken, out) = (false, false),
            _ => {}
        }
    }
    assert!(!out, "its end was seen");
    println!(
        "  {early} of {waits} wakings came before the switch that they end; the program waited {waited} times"
    );
    assert!(early >= 20, "only {early} of {waits}: the race was not run");
    // A wake-up before the thread asks for the CPU's next thread saves the switch.
    assert!(waits <= waited + 100 && waits * 2 > waited, "{waits} switches for {waited} waits");
    // Each of these waits has an end. (A kernel that leaves switches unrecorded shows as lost records.)
    assert_eq!(unexplained(&document), Vec::<String>::new());
}

/// Two threads on one CPU contend for the lock of their memory; then the first reads from a pipe, into which the other
/// writes after a sleep.
const CONTEND: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <sched.h>
    #include <stdio.h>
    #include <sys/mman.h>
    #include <time.h>
    #include <unistd.h>
    enum { SIZE = 16 << 20, ROUNDS = 100 };
    static int ends[2];
    static void fight(void)
    {
        char *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        for (int round = 0; round < ROUNDS; round++)
            mprotect(memory, SIZE, round % 2 ? PROT_READ | PROT_WRITE : PROT_READ);
    }
    static void *other(void *unused)
    {
        struct timespec time = { 0, 100000000 };
        fight();
        nanosleep(&time, 0);
        write(ends[1], "", 1);
        return unused;
    }
    int main(void)
    {
        pthread_t thread;
        cpu_set_t set;
        char byte;
        CPU_ZERO(&set);
        CPU_SET(0, &set);
        sched_setaffinity(0, sizeof(set), &set);
        pipe(ends);
        pthread_create(&thread, 0, other, 0);
        fight();
        read(ends[0], &byte, 1);
        pthread_join(thread, 0);
    }
"#;

#[test]
fn a_thread_that_got_a_kernel_lock_waits_for_it_no_longer() {
    let Some(folder) = place("the end of a wait for a kernel lock is seen") else { return };
    recorded(&folder, CONTEND);
    let document = path(&folder);
    adds_up(&document);
    let main = Tid(number(&document["window"]["tid"]) as u32);
    let (mut waits, mut waited) = (0, None);
    for event in events(&folder) {
        match event.kind {
            EventKind::LockBegin(lock) if event.current == main => {
                (waits, waited) = (waits + 1, Some(lock.address))
            }
            EventKind::LockEnd(lock) if event.current == main => {
                assert_eq!(waited.take(), Some(lock.address), "a wait ends that began");
            }
            _ => {}
        }
    }
    assert!(waits > 0, "no lock was contended: nothing was shown");
    assert_eq!(waited, None, "the last one of {waits} never ended");
    // Others may be on the path: `ps` waits in a read for the lock of the memory that it inspects.
    let is_its_own = |wait: &&Value| wait["call"] == "read" && wait["tid"] == main.0;
    for read in list(&document["waits"]).iter().filter(is_its_own) {
        assert!(read["lock"].is_null(), "a pipe is no lock: {read}");
    }
}

/// A thread other than the first executes another program, which continues as the first thread.
const EXEC: &str = r#"
    #include <pthread.h>
    #include <time.h>
    #include <unistd.h>
    static void *other(void *unused)
    {
        struct timespec time = { 0, 50000000 };
        nanosleep(&time, 0);
        execlp("sleep", "sleep", "0.2", (char *)0);
        return unused;
    }
    int main(void)
    {
        pthread_t thread;
        pthread_create(&thread, 0, other, 0);
        for (;;)
            pause();
    }
"#;

#[test]
fn a_thread_that_executes_a_program_continues_as_the_first_one() {
    let Some(folder) = place("an exec by a thread that is not the first one is followed") else { return };
    for last in [false, false, true] {
        let _ = std::fs::remove_dir_all(folder.join("wakepath.rec"));
        if exec_is_followed(&folder) {
            return;
        }
        assert!(!last, "three times the sleeps were not as long as was asked for");
    }
}

/// Whether the sleeps had the requested length: when others have the CPUs, they begin late.
fn exec_is_followed(folder: &Path) -> bool {
    recorded(folder, EXEC);
    let document = path(folder);
    let window = adds_up(&document);
    let pid = number(&document["window"]["pid"]);
    assert_eq!(document["window"]["tid"], pid, "the window is the first thread's, to the end");
    let moved = events(folder).into_iter().any(|event| match event.kind {
        EventKind::Exec { old, .. } => event.current == Tid(pid as u32) && old != event.current,
        _ => false,
    });
    assert!(moved, "the kernel told which thread it was");
    // Both sleeps: by the thread for which the first waited, and by the program that it became. The first thread may have waited for a CPU, or
    // run, while the first sleep went on.
    let timer = contributed_ns(&document, "timer");
    let kinds = ["running", "runnable", "interrupted", "stolen"];
    let before: i64 = kinds.iter().map(|kind| contributed_ns(&document, kind)).sum();
    if timer + before < 250_000_000 || timer >= 270_000_000 {
        println!("  slept for {timer} of {window} ns: {}", document["contributors"]);
        return false;
    }
    let last = list(&document["segments"]).last();
    assert_eq!(last.expect("one")["comm"], "sleep", "it ends as the new program");
    assert_eq!(unexplained(&document), Vec::<String>::new());
    true
}

/// Sends itself datagrams as fast as it can, on a CPU where a timer expires every 100 µs for a thread with higher
/// priority. Prints the number of datagrams, its port, and the other thread's number of sleeps.
const STORM: &str = r#"
    #define _GNU_SOURCE
    #include <arpa/inet.h>
    #include <pthread.h>
    #include <sched.h>
    #include <stdatomic.h>
    #include <stdio.h>
    #include <sys/socket.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>
    static atomic_int ended;
    static long slept;
    static int sleeper_tid;
    static void *sleeper(void *unused)
    {
        struct sched_param first = { .sched_priority = 10 };
        struct timespec at;
        sleeper_tid = syscall(SYS_gettid);
        sched_setscheduler(0, SCHED_FIFO, &first);
        clock_gettime(CLOCK_MONOTONIC, &at);
        while (!atomic_load(&ended)) {
            at.tv_nsec += 100000;
            if (at.tv_nsec >= 1000000000)
                at.tv_nsec -= 1000000000, at.tv_sec++;
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, 0);
            slept++;
        }
        return unused;
    }
    int main(void)
    {
        struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t length = sizeof(to);
        long sent = 0;
        char byte = 0;
        pthread_t thread;
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(0, &set);
        sched_setaffinity(0, sizeof(set), &set);
        int fd = socket(AF_INET, SOCK_DGRAM, 0);
        bind(fd, (struct sockaddr *)&to, length);
        getsockname(fd, (struct sockaddr *)&to, &length);
        pthread_create(&thread, 0, sleeper, 0);
        for (; sent < 200000; sent++) {
            sendto(fd, &byte, 1, 0, (struct sockaddr *)&to, length);
            recv(fd, &byte, 1, MSG_DONTWAIT);
        }
        atomic_store(&ended, 1);
        pthread_join(thread, 0);
        printf("%ld\n%d\n%d\n%ld\n", sent, ntohs(to.sin_port), sleeper_tid, slept);
    }
"#;

#[test]
fn interrupts_during_our_own_programs_lose_no_record() {
    let Some(folder) = place("an interrupt amid our own programs costs no record") else { return };
    let [sent, port, sleeper, slept] = recorded(&folder, STORM)[..] else { panic!("four numbers") };
    let sleeper = Tid(sleeper as u32);
    let (mut wakings, mut flows) = (0, HashMap::new());
    let (mut packets, mut last) = (HashMap::<_, u64>::new(), HashMap::new());
    for event in events(&folder) {
        match event.kind {
            EventKind::Waking { target, .. } if target == sleeper => {
                wakings += u64::from(event.context == Context::LocalTimer);
            }
            EventKind::Flow(id, flow) => {
                flows.insert(id, flow);
            }
            EventKind::Packet(packet) => {
                *packets.entry((packet.flow, packet.direction)).or_default() += 1;
            }
            _ => {}
        }
        let before = last.insert(event.cpu, event.at);
        assert!(before <= Some(event.at), "in order on each CPU");
    }
    // A BPF program runs for some 100 ns at each packet, out and in: hundreds of interrupts hit it.
    println!("  {slept} sleeps beside {sent} packets");
    assert!(slept >= 1000, "only {slept} sleeps: nothing was in the way of anything");
    // A timer that expires before the thread sleeps wakes no thread.
    assert!(wakings <= slept + 1 && wakings * 100 >= slept * 99, "{wakings} wakings for {slept} sleeps");
    let is_ours = |flow: &Flow| [flow.source, flow.target].iter().all(|end| u64::from(end.port()) == port);
    let ours = packets.iter().filter(|((flow, _), _)| flows.get(flow).is_some_and(is_ours));
    let counts: Vec<u64> = ours.map(|(_, &count)| count).collect();
    assert_eq!(counts, [sent, sent], "each packet, out and in");
}
