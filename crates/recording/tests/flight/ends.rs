//! The ends of things before a window: the facts about a thread and a process go with it, at any kind of end, and
//! after a number's reuse no fact about its previous owner remains.

use wakepath_event::{GoStep, GoroutineStep, SetMember};
use wakepath_recording::Writer;

use super::restated::{
    FROM, OTHER, WORKER, attribute, context, file, kept, lock, machine, mapping, name, restated,
};
use super::*;

/// A fact of each kind about a process.
fn facts_of(tgid: Tid) -> Vec<EventKind> {
    let number = u64::from(tgid.0);
    let step =
        |step| EventKind::Goroutine(GoroutineStep { tgid, program: 1, goroutine: 1, began_in: 0, step });
    vec![
        file(tgid, 3, "data.db"),
        EventKind::SetMember(SetMember { set: 1 << 63 | 5, tgid, fd: 3, total: 2 }),
        EventKind::Mapping(mapping(tgid, 0x1000, "/bin/worker")),
        name(NameSpace::Program, number, "worker"),
        name(NameSpace::Service, number, "shop"),
        name(NameSpace::Script, number, "h.py"),
        name(NameSpace::ServiceInstance, number, "i-7"),
        name(NameSpace::ThreadAttribute, number << 8 | 3, "http.route"),
        step(GoStep::Parks(2)),
        step(GoStep::BeginsSpan([4; 16], [5; 8])),
    ]
}

/// The facts about a process at the beginning of a window, for a machine whose window begins at `begin`.
fn facts_there(mut machine: Machine, tgid: Tid, begin: u64) -> Vec<EventKind> {
    machine.drain(begin + 10 * SECOND);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("kept");
    let mut writer = Writer::create(&path, &host(), &Options::new("0", "")).expect("a place");
    machine.flight.write(&mut writer, begin + 10 * SECOND).expect("room");
    drop(writer);
    let mut kinds = Vec::new();
    Recording::open(&path).expect("a recording").read(|event| kinds.push(event.kind.clone()), |_| {});
    facts_of(tgid).into_iter().filter(|fact| kinds.contains(fact)).collect()
}

/// A machine with two processes, WORKER with a second thread, and the facts about both.
fn machine_with_facts() -> Machine {
    let limits = FlightLimits { window_ns: 10 * SECOND, bytes: usize::MAX };
    let mut machine = Machine::new(limits);
    for tid in [WORKER, OTHER] {
        machine.fork(BEGIN + u64::from(tid.0), tid);
    }
    machine.rare(BEGIN + 9, WORKER, EventKind::Fork { child: thread(SECOND_THREAD, WORKER, BEGIN + 9) });
    for tid in [WORKER, OTHER] {
        facts_of(tid).into_iter().for_each(|fact| machine.rare(BEGIN + 10, tid, fact));
    }
    machine
}

/// WORKER's second thread.
const SECOND_THREAD: Tid = Tid(70);

pub fn thread(tid: Tid, tgid: Tid, start: u64) -> ThreadIdentity {
    ThreadIdentity {
        tid,
        tgid,
        parent: Tid(1),
        ns_tid: tid,
        ns_tgid: tgid,
        start: Stamp::from_ns(start),
        cgroup: CgroupId(1),
        cpu_cgroup: CgroupId(1),
        kernel: false,
        comm: Comm::new(b"pool"),
    }
}

/// The thread has the CPU and ends there.
fn end(machine: &mut Machine, at: u64, tid: Tid) {
    machine.switch(at, Tid::IDLE, tid, SwitchOut::Runnable);
    machine.rare(at + 1, tid, EventKind::Exit);
    machine.switch(at + 2, tid, Tid::IDLE, SwitchOut::Dead);
}

#[test]
fn a_process_lives_until_its_last_thread_has_ended() {
    // The ending threads, and whether the facts about their process go.
    for (ends, go) in [
        (&[][..], false),
        (&[WORKER], false),
        (&[SECOND_THREAD], false),
        (&[WORKER, SECOND_THREAD], true),
        (&[SECOND_THREAD, WORKER], true),
    ] {
        let mut machine = machine_with_facts();
        for (place, tid) in ends.iter().enumerate() {
            end(&mut machine, BEGIN + 20 + 10 * place as u64, *tid);
        }
        let expected = if go { Vec::new() } else { facts_of(WORKER) };
        assert_eq!(facts_there(machine, WORKER, BEGIN + 100 * SECOND), expected, "{ends:?} ended");
    }
    let mut machine = machine_with_facts();
    [WORKER, SECOND_THREAD].iter().for_each(|tid| end(&mut machine, BEGIN + u64::from(tid.0) * 10, *tid));
    assert_eq!(facts_there(machine, OTHER, BEGIN + 100 * SECOND), facts_of(OTHER), "another process");
}

#[test]
fn a_process_has_no_fact_about_one_that_had_its_number_before() {
    const WORKERS: [Tid; 2] = [WORKER, SECOND_THREAD];
    // The threads whose end has a record before the reuse, whether a sweep comes after the first end, the newborn
    // thread with its process, and whether the facts about WORKER go.
    for (ends, is_swept, child, go) in [
        (&WORKERS[..], false, (WORKER, WORKER), true),
        (&WORKERS, true, (WORKER, WORKER), true),
        (&[SECOND_THREAD, WORKER], false, (WORKER, WORKER), true),
        (&[SECOND_THREAD, WORKER], true, (WORKER, WORKER), true),
        // The end's record is lost.
        (&[SECOND_THREAD], false, (WORKER, WORKER), true),
        (&[WORKER], true, (OTHER, OTHER), false),
        // A thread has the number of another process's thread, or of its own process's.
        (&[SECOND_THREAD], false, (SECOND_THREAD, OTHER), false),
        (&[SECOND_THREAD], true, (SECOND_THREAD, WORKER), false),
    ] {
        let mut machine = machine_with_facts();
        for (place, tid) in (0..).zip(ends) {
            end(&mut machine, BEGIN + 20 + place * 60 * SECOND, *tid);
            if place == 0 && is_swept {
                machine.drain(BEGIN + 30 * SECOND);
            }
        }
        let at = BEGIN + 80 * SECOND;
        machine.rare(at, OTHER, EventKind::Fork { child: thread(child.0, child.1, at) });
        let expected = if go { Vec::new() } else { facts_of(WORKER) };
        let there = facts_there(machine, WORKER, at + SECOND);
        assert_eq!(there, expected, "{ends:?} ended, {child:?} is new, swept: {is_swept}");
    }
}

#[test]
fn the_work_of_a_program_ends_with_it_and_the_files_and_the_code_of_its_process_stay() {
    let exec =
        || EventKind::Exec { old: WORKER, comm: Comm::new(b"other"), path: b"/bin/other".as_slice().into() };
    let mut machine = machine();
    machine.sched(BEGIN + 100, WORKER, EventKind::ThreadContext(context(3)));
    machine.sched(BEGIN + 101, WORKER, attribute(1, "/cart"));
    for tid in [WORKER, OTHER] {
        facts_of(tid).into_iter().for_each(|fact| machine.rare(BEGIN + 110, tid, fact));
    }
    // The kernel reports the new program's mappings before its execution.
    let code = EventKind::Mapping(mapping(WORKER, 0x9000, "/bin/other"));
    machine.rare(BEGIN + 299, WORKER, code.clone());
    machine.rare(BEGIN + 300, WORKER, exec());
    let restated: Vec<_> = restated(machine).into_iter().map(|(_, kind)| kind).collect();
    assert!(restated.contains(&code));
    assert!(facts_of(OTHER).iter().all(|fact| restated.contains(fact)), "another process");
    for fact in
        facts_of(WORKER).into_iter().chain([EventKind::ThreadContext(context(3)), attribute(1, "/cart")])
    {
        let ends = matches!(
            fact,
            EventKind::Goroutine(_) | EventKind::ThreadContext(_) | EventKind::ThreadAttribute(_)
        );
        assert_eq!(restated.contains(&fact), !ends, "{fact:?}");
    }
}

#[test]
fn a_thread_that_executes_a_program_has_the_leaders_tid_and_no_context_and_the_others_keep_theirs() {
    // Whether the old leader has already left its CPU at the execution.
    for is_gone in [true, false] {
        let mut machine = machine();
        machine.rare(
            BEGIN + 20,
            WORKER,
            EventKind::Fork { child: thread(SECOND_THREAD, WORKER, BEGIN + 20) },
        );
        machine.sched(BEGIN + 30, WORKER, EventKind::ThreadContext(context(3)));
        machine.switch(BEGIN + 31, WORKER, OTHER, SwitchOut::Runnable);
        machine.sched(BEGIN + 32, OTHER, EventKind::ThreadContext(context(5)));
        machine.switch(BEGIN + 33, OTHER, WORKER, SwitchOut::Runnable);
        machine.rare(BEGIN + 34, WORKER, EventKind::Exit);
        let out = if is_gone { SwitchOut::Dead } else { SwitchOut::Runnable };
        machine.switch(BEGIN + 35, WORKER, SECOND_THREAD, out);
        machine.sched(BEGIN + 36, SECOND_THREAD, EventKind::ThreadContext(context(4)));
        let exec = EventKind::Exec {
            old: SECOND_THREAD,
            comm: Comm::new(b"other"),
            path: b"/bin/other".as_slice().into(),
        };
        machine.rare(BEGIN + 40, WORKER, exec);
        let restated = restated(machine);
        let has_context = |tid, id| restated.contains(&(tid, EventKind::ThreadContext(context(id))));
        let contexts = [has_context(WORKER, 3), has_context(WORKER, 4), has_context(OTHER, 5)];
        assert_eq!(contexts, [false, false, true], "{is_gone}: {restated:?}");
        let threads = restated.iter().filter_map(|(current, kind)| match kind {
            EventKind::Thread { identity, .. } => {
                assert_eq!(*current, identity.tid);
                Some((identity.tid, identity.ns_tid, identity.comm))
            }
            _ => None,
        });
        let mut expected = vec![
            (WORKER, WORKER, Comm::new(b"other")),
            (OTHER, OTHER, Comm::new(b"worker")),
            (SECOND_THREAD, SECOND_THREAD, Comm::new(b"worker")),
        ];
        expected.truncate(if is_gone { 2 } else { 3 });
        assert_eq!(threads.collect::<Vec<_>>(), expected, "{is_gone}");
    }
}

#[test]
fn a_thread_has_one_cpu_and_a_switch_to_itself_is_none() {
    let mut machine = machine();
    machine.switch(BEGIN + 100, WORKER, WORKER, SwitchOut::Dead);
    // The thread shows up on another CPU: its switch-out from the first has no record.
    let mut record = Vec::new();
    let out = SwitchOut::Runnable;
    let kind = EventKind::Switch { next: WORKER, out, interrupts_ns: 0, call: None };
    let switch = Event { cpu: Cpu(1), ..Machine::event(BEGIN + 200, Tid::IDLE, kind) };
    machine.encoder.encode(&switch, 0, &mut record).expect("an event");
    machine.flight.packet(Buffer::Sched, Cpu(1), &record, 0);
    let kept = kept(machine);
    let before = kept.iter().filter(|event| event.at.ns() < FROM);
    let on_cpus = before.clone().filter(|event| event.kind == EventKind::Current);
    assert_eq!(on_cpus.map(|event| (event.cpu, event.current)).collect::<Vec<_>>(), [(Cpu(1), WORKER)]);
    let is_thread =
        |event: &&Event| matches!(&event.kind, EventKind::Thread { identity, .. } if identity.tid == WORKER);
    assert_eq!(before.filter(is_thread).count(), 1, "it has not ended");
}

#[test]
fn a_thread_has_no_state_of_one_that_had_its_tid_before() {
    let young = |at| thread(SECOND_THREAD, OTHER, at);
    let birth = |at| EventKind::Fork { child: young(at) };
    let waking = EventKind::Waking { target: SECOND_THREAD, irq: 0, newborn: true, socket: None };
    // The earlier thread's state at its tid's reuse, and whether the fork has a record.
    for (out, has_birth) in [
        (Some(SwitchOut::Dead), true),
        (Some(SwitchOut::Dead), false),
        (Some(BLOCKED), true),
        (Some(BLOCKED), false),
        (Some(SwitchOut::Runnable), true),
        (Some(SwitchOut::Runnable), false),
        (Some(SwitchOut::Throttled), true),
        (Some(SwitchOut::Throttled), false),
        (None, true),
        (None, false),
    ] {
        let mut machine = machine();
        machine.rare(BEGIN + 20, WORKER, birth(BEGIN + 20));
        machine.switch(BEGIN + 21, WORKER, SECOND_THREAD, SwitchOut::Runnable);
        machine.sched(BEGIN + 22, SECOND_THREAD, EventKind::ThreadContext(context(3)));
        machine.rare(BEGIN + 23, SECOND_THREAD, EventKind::LockBegin(lock(0x100)));
        if let Some(out) = out {
            machine.switch(BEGIN + 30, SECOND_THREAD, WORKER, out);
        }
        if has_birth {
            machine.rare(BEGIN + 40, WORKER, birth(BEGIN + 40));
        }
        // On another CPU: this record shows its own thread and no other.
        let mut record = Vec::new();
        let waking = Event { cpu: Cpu(1), ..Machine::event(BEGIN + 41, OTHER, waking.clone()) };
        machine.encoder.encode(&waking, 0, &mut record).expect("an event");
        machine.flight.packet(Buffer::Sched, Cpu(1), &record, 0);
        let kept = kept(machine);
        let of_it: Vec<_> =
            kept.iter().filter(|event| event.at.ns() < FROM && event.current == SECOND_THREAD).collect();
        let what = format!("{out:?}, birth: {has_birth}: {of_it:?}");
        let identities: Vec<_> = of_it
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::Thread { identity, .. } => Some(identity.clone()),
                _ => None,
            })
            .collect();
        // Without a fork, nothing is known about the thread.
        assert_eq!(identities, if has_birth { vec![young(BEGIN + 40)] } else { Vec::new() }, "{what}");
        assert_eq!(of_it.len(), usize::from(has_birth), "{what}");
    }
}

#[test]
fn what_a_process_had_goes_with_it() {
    let limits = FlightLimits { window_ns: 10 * SECOND, bytes: usize::MAX };
    let mut machine = Machine::new(limits);
    let facts = |tgid: Tid| {
        let number = u64::from(tgid.0);
        [
            file(tgid, 3, "data.db"),
            name(NameSpace::Program, number, "worker"),
            name(NameSpace::ServiceInstance, number, "i-7"),
            name(NameSpace::ThreadAttribute, number << 8 | 3, "http.route"),
        ]
    };
    for tid in [WORKER, OTHER] {
        machine.fork(BEGIN + u64::from(tid.0), tid);
        facts(tid).into_iter().for_each(|fact| machine.rare(BEGIN + 10, tid, fact));
    }
    machine.switch(BEGIN + 20, Tid::IDLE, WORKER, SwitchOut::Runnable);
    machine.rare(BEGIN + 21, WORKER, EventKind::Exit);
    machine.switch(BEGIN + 22, WORKER, Tid::IDLE, SwitchOut::Dead);
    machine.switch(BEGIN + 23, Tid::IDLE, OTHER, SwitchOut::Runnable);
    machine.drain(BEGIN + 100 * SECOND);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("kept");
    let mut writer = Writer::create(&path, &host(), &Options::new("0", "")).expect("a place");
    machine.flight.write(&mut writer, BEGIN + 100 * SECOND).expect("room");
    drop(writer);
    let mut kinds = Vec::new();
    Recording::open(&path).expect("a recording").read(|event| kinds.push(event.kind.clone()), |_| {});
    for (tid, stays) in [(WORKER, false), (OTHER, true)] {
        for fact in facts(tid) {
            assert_eq!(kinds.contains(&fact), stays, "{fact:?}");
        }
    }
}

/// Makes a numbered fact about a process.
type MakeFact<'a> = &'a dyn Fn(Tid, u64) -> EventKind;

#[test]
fn facts_about_dead_processes_go_before_any_about_a_living_one() {
    // More facts than are kept of each kind: `MAX_FILES` and the others.
    const MANY: u64 = 1 << 15;
    let step = |tgid, goroutine, step| {
        EventKind::Goroutine(GoroutineStep { tgid, program: 1, goroutine, began_in: 0, step })
    };
    let kinds: [(&str, MakeFact<'_>); 6] = [
        ("files", &|tgid, fd| file(tgid, fd as u32, "data.db")),
        ("members of sets", &|tgid, fd| {
            EventKind::SetMember(SetMember { set: 5, tgid, fd: fd as u32, total: 2 })
        }),
        ("names", &|tgid, key| name(NameSpace::ThreadAttribute, u64::from(tgid.0) << 8 | key, "shop")),
        ("mappings", &|tgid, from| EventKind::Mapping(mapping(tgid, from << 12, "/bin/worker"))),
        ("goroutines", &|tgid, number| step(tgid, number, GoStep::Parks(2))),
        ("spans of goroutines", &|tgid, number| step(tgid, number, GoStep::BeginsSpan([4; 16], [5; 8]))),
    ];
    for (what, fact) in kinds {
        let mut machine = machine();
        let mut at = BEGIN + 20;
        let mut state = |machine: &mut Machine, tgid, number| {
            at += 1;
            machine.rare(at, tgid, fact(tgid, number));
        };
        // A process has few attribute names.
        let numbers = if what == "names" { 128 } else { MANY / 2 };
        (0..numbers).for_each(|number| state(&mut machine, WORKER, number));
        // Processes that have ended, or whose ends and forks have no records.
        for number in 0..MANY - numbers {
            state(&mut machine, Tid(1000 + (number / 128) as u32), number % 128);
        }
        (0..128).for_each(|number| state(&mut machine, OTHER, number));
        machine.flight.cut(BEGIN + 10 * SECOND);
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("kept");
        let mut writer = Writer::create(&path, &host(), &Options::new("0", "")).expect("a place");
        machine.flight.write(&mut writer, BEGIN + 10 * SECOND).expect("room");
        drop(writer);
        let (mut living, mut dead) = (0, 0);
        let is_of = |kind: &EventKind, tgids: &[Tid]| {
            tgids.iter().any(|tgid| match (kind, fact(*tgid, 0)) {
                (EventKind::File(a), EventKind::File(b)) => a.tgid == b.tgid,
                (EventKind::SetMember(a), EventKind::SetMember(b)) => a.tgid == b.tgid,
                (EventKind::Mapping(a), EventKind::Mapping(b)) => a.tgid == b.tgid,
                (EventKind::Goroutine(a), EventKind::Goroutine(b)) => a.tgid == b.tgid,
                (EventKind::Name(space, a, _), EventKind::Name(_, b, _)) => {
                    *space == NameSpace::ThreadAttribute && a >> 8 == b >> 8
                }
                _ => false,
            })
        };
        Recording::open(&path).expect("a recording").read(
            |event| {
                living += u64::from(is_of(&event.kind, &[WORKER, OTHER]));
                dead += u64::from(is_of(&event.kind, &[Tid(1000), Tid(1001)]));
            },
            |_| {},
        );
        assert_eq!((living, dead), (numbers + 128, 0), "{what}");
    }
}
