//! The words for names, calls, objects and interrupts.

use wakepath_event::{Damage, DamageKind, EventKind, NameSpace, Softirq, Tid};
use wakepath_loaded::testing::{event, read};
use wakepath_loaded::{CpuLimit, Endpoint, Host, IoLimit, Names, ProblemKind};

use super::*;

#[test]
fn without_a_cpu_all_threads_are_not_the_whole_machine() {
    let at = Stamp::from_ns(0);
    let problem = |kind| Problem { kind, from: at, to: at, thread: None, other_calls: 0 };
    let cpus = DamageKind::CpusUnrecorded { cpus: vec![1], wakings: 3 };
    let lacking = problem(ProblemKind::Trace(Damage::in_file(Path::new("t"), cpus)));
    let suspended = problem(ProblemKind::Suspended(7));
    assert_eq!(all_threads(&[]), "the whole machine");
    assert_eq!(all_threads(std::slice::from_ref(&suspended)), "the whole machine");
    assert_eq!(all_threads(&[suspended, lacking]), "the recorded CPUs");
}

/// A recording with names for disk 8:0 and interrupt 9, which has two handlers.
fn names() -> Recorded {
    let name = |space, key, name: &str| event(1, 0, 0, EventKind::Name(space, key, name.as_bytes().into()));
    read(&[name(NameSpace::BlockDevice, 8 << 20, "sda"), name(NameSpace::Interrupt, 9, "acpi, i2c")])
}

fn endpoint() -> Endpoint {
    Endpoint { protocol: 6, address: "10.0.0.3:5432".parse().expect("an address") }
}

#[test]
fn a_list_names_the_first_and_counts_the_others() {
    let names = ["dd", "cat", "gzip", "tar"].map(String::from);
    for (count, most, expected) in [
        (1, 1, "dd"),
        (1, 3, "dd"),
        (2, 1, "dd and 1 more"),
        (2, 2, "dd and cat"),
        (3, 2, "dd, cat and 1 more"),
        (3, 3, "dd, cat and gzip"),
        (4, 2, "dd, cat and 2 more"),
        (4, 8, "dd, cat, gzip and tar"),
    ] {
        assert_eq!(list(&names[..count], most), expected, "{most} of {count}");
    }
}

#[test]
fn a_name_from_elsewhere_cannot_control_the_terminal() {
    assert_eq!(name(&Name::from("a\x1b[2J")), r"a\x1b[2J");
    assert_eq!(file(Path::new("a\nb")), r"a\nb");
    assert_eq!(comm(Comm::new(b"a\x07")), r"a\x07");
    assert_eq!(named(Comm::new(b"a\x07")), r"a\x07");
    assert_eq!(named(Comm::default()), "a thread without a name");
}

#[test]
fn an_io_limit_has_its_size_and_direction_and_says_if_an_outer_one_may_be_meant() {
    let names = Names::default();
    let shop = Some(Unit::Systemd("shop.service".into()));
    for (unit, reads, bytes, requests, alone, expected) in [
        (&shop, false, Some(1_000_000), None, true, "shop.service (1 MB/s of writes to 8:0)"),
        (&shop, true, None, Some(20), true, "shop.service (20 requests/s of reads from 8:0)"),
        (
            &shop,
            true,
            Some(1_500_000),
            Some(20),
            false,
            "shop.service (1.5 MB/s and 20 requests/s of reads from 8:0) or of an outer cgroup",
        ),
        (&shop, false, None, None, true, "shop.service"),
        (&None, false, None, None, true, "a cgroup"),
    ] {
        let limit = IoLimit { unit: unit.clone(), device: 8 << 20, reads, bytes, requests, alone };
        assert_eq!(io_limit(&names, &limit), expected);
    }
}

#[test]
fn a_limit_has_its_quota_and_its_period_if_they_were_read() {
    let shop = Unit::Systemd("shop.service".into());
    let read = Some(CpuLimit { quota_ns: 50_000_000, period_ns: 100_000_000 });
    assert_eq!(limit(&UnitLimit { unit: shop.clone(), limit: read }), "shop.service (50.0 ms per 100 ms)");
    assert_eq!(limit(&UnitLimit { unit: shop, limit: None }), "shop.service");
    let container = Unit::Container { runtime: "docker", id: String::from("3f2a9c1b04de") };
    assert_eq!(unit(&container), "docker 3f2a9c1b04de");
    assert_eq!(unit(&Unit::Cgroup("batch".into())), "batch");
}

#[test]
fn a_thread_has_its_number_and_its_machine_unless_that_is_the_first() {
    let mut recorded = read(&[]);
    recorded.others = vec![Host { name: "db1".into(), ..Host::default() }];
    let words = |tid, comm: &str, kernel| {
        let thread = ThreadInfo { tid, comm: Comm::new(comm.as_bytes()), kernel, ..ThreadInfo::default() };
        who(&recorded, &thread)
    };
    assert_eq!(words(Tid(912), "postgres", false), "postgres (912)");
    assert_eq!(words(Tid(912).on(HostIndex(1)), "postgres", false), "postgres (912) on db1");
    assert_eq!(words(Tid(912), "", false), "thread 912");
    assert_eq!(words(Tid(30), "jbd2/sda1-8", true), "kernel thread jbd2/sda1-8");
    assert_eq!(words(Tid(30).on(HostIndex(1)), "jbd2/sda1-8", true), "kernel thread jbd2/sda1-8 on db1");
}

#[test]
fn a_call_is_its_name_with_the_object_that_it_waited_for() {
    let words = |number, object| call(&CallName { number, object });
    assert_eq!(words(0, None), "read");
    assert_eq!(words(75, Some(Object::File("orders.db".into()))), "fdatasync of orders.db");
    assert_eq!(words(45, Some(Object::Socket(Some(endpoint())))), "recvfrom on tcp 10.0.0.3:5432");
    assert_eq!(words(Call::PAGE_FAULT, None), "a page fault");
    assert_eq!(words(74 | Call::REQUEST, Some(Object::File("wal".into()))), "io_uring fsync of wal");
    assert_eq!(words(Call::IO_URING_ENTER, None), "io_uring_enter (which request is not recorded)");
    assert_eq!(words(9999, None), "system call 9999");
}

#[test]
fn an_object_has_its_words_in_a_sentence_and_its_kind_in_a_document() {
    let known = |objects: &[Object], size| Object::AnyOf(objects.to_vec(), size);
    let (pipe, socket) = (Object::Pipe, Object::Socket(None));
    let (orders, end) = (Object::File("orders.db".into()), Object::Socket(Some(endpoint())));
    let three = [orders.clone(), pipe.clone(), end.clone()];
    let four = [&three[..], std::slice::from_ref(&socket)].concat();
    let all = "any of 3 descriptors (orders.db, a pipe, tcp 10.0.0.3:5432)";
    let more = "any of more than 16 descriptors (orders.db, a pipe, tcp 10.0.0.3:5432, …)";
    for (object, words, kind, name) in [
        (orders, "of orders.db", "file", Some("orders.db")),
        (pipe, "on a pipe", "pipe", None),
        (socket, "on a socket", "socket", None),
        (end, "on tcp 10.0.0.3:5432", "socket", Some("tcp 10.0.0.3:5432")),
        (Object::Anonymous("[timerfd]".into()), "on [timerfd]", "anonymous", Some("[timerfd]")),
        (known(&three, SetSize::Known(3)), &format!("on {all}"), "any_of", Some(all)),
        (known(&four, SetSize::MoreThan(16)), &format!("on {more}"), "any_of", Some(more)),
        (known(&[], SetSize::Known(2)), "on any of 2 descriptors", "any_of", Some("any of 2 descriptors")),
    ] {
        assert_eq!(super::object(&object), words);
        assert_eq!(object_kind(&object), (kind, name.map(String::from)), "{words}");
    }
}

#[test]
fn a_disk_without_a_name_has_its_two_numbers() {
    let recorded = names();
    let words = |device| disk(recorded.names(), device);
    assert_eq!(words(8 << 20), "sda");
    assert_eq!([259 << 20 | 3, 8 << 20 | 0xf_ffff].map(words), ["259:3", "8:1048575"]);
}

#[test]
fn an_interrupt_has_its_handlers_if_it_is_a_devices_and_its_kind_if_not() {
    let recorded = names();
    let words = |context, irq| interrupt(recorded.names(), context, irq);
    assert_eq!(words(Context::Device, Some(9)), "interrupt 9 (acpi, i2c)");
    assert_eq!(words(Context::Device, Some(10)), "interrupt 10");
    assert_eq!(words(Context::Device, None), "a device's interrupt");
    for (context, expected) in [
        (Context::Softirq(Softirq::NetRx), "softirq NET_RX"),
        (Context::LocalTimer, "the timer interrupt"),
        (Context::Reschedule, "the reschedule interrupt"),
        (Context::CallFunction, "the call-function interrupt"),
        (Context::IrqWork, "deferred interrupt work"),
        (Context::Task, "a thread"),
        (Context::Unrecorded, "an interrupt that was not recorded"),
        (Context::UnrecordedTimer, "a timer interrupt that was not recorded"),
        (Context::TaskOrUnrecorded, "a thread, or an interrupt that was not recorded"),
        (Context::UnknownInterrupt, "an interrupt"),
    ] {
        // The number 9 is a device's: it says nothing about these.
        assert_eq!([None, Some(9)].map(|irq| words(context, irq)), [expected, expected]);
    }
}

#[test]
fn a_lock_is_its_address() {
    assert_eq!([false, true].map(|kernel| lock(0x2000, kernel)), ["futex 0x2000", "kernel lock 0x2000"]);
}

#[test]
fn an_io_uring_worker_is_said_to_be_one() {
    let words = |name: &str| named(Comm::new(name.as_bytes()));
    assert_eq!(words("iou-wrk-812"), "io_uring worker iou-wrk-812");
    assert_eq!((&*words("app"), &*words("")), ("app", "a thread without a name"));
}
