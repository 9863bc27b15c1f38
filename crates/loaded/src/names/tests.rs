//! Names by number, and units and limits by cgroup.

use super::*;
use crate::testing::event;

const AT: Stamp<Local> = Stamp::from_ns(100);

/// The names of cgroups, then some limits, each with the time of its reading.
fn names(cgroups: &[(u64, &str)], limits: &[(u64, u64, &str)]) -> Names {
    let mut names = Names::default();
    let mut name = |at, space, id, name: &str| {
        names.observe(&event(at, 0, 0, EventKind::Name(space, id, name.as_bytes().into())));
    };
    cgroups.iter().for_each(|&(id, path)| name(0, NameSpace::CpuCgroup, id, path));
    limits.iter().for_each(|&(at, id, limit)| name(at, NameSpace::CpuLimit, id, limit));
    names
}

fn thread(cgroup: u64) -> ThreadInfo {
    ThreadInfo { cpu_cgroup: CgroupId(cgroup), ..ThreadInfo::default() }
}

#[test]
fn a_thread_is_under_the_innermost_limit_around_it() {
    let names = names(
        &[(1, "/"), (2, "/shop"), (3, "/shop/web"), (4, "/shopping"), (5, "/shop/web/a")],
        &[(0, 2, "50000 100000"), (0, 3, "20000 100000"), (0, 4, "1 2")],
    );
    let limit = |cgroup| {
        let limit = names.limit_over(&thread(cgroup), AT);
        limit.map(|(path, limit)| (path.clone(), limit.quota_ns))
    };
    assert_eq!(limit(5), Some(("/shop/web".into(), 20_000_000)));
    assert_eq!(limit(2), Some(("/shop".into(), 50_000_000)));
    assert_eq!(limit(1), None);
    assert_eq!(limit(9), None, "a cgroup without a name");
}

#[test]
fn a_limit_that_changes_is_the_one_that_was_read_last() {
    let names = names(&[(2, "/shop")], &[(200, 2, "1000 100000"), (500, 2, "50000 100000")]);
    let quota = |at| names.cpu_limit(CgroupId(2), Stamp::from_ns(at)).map(|limit| limit.quota_ns);
    // The limit was set some time before its reading.
    assert_eq!(quota(100), Some(1_000_000));
    assert_eq!(quota(200), Some(1_000_000));
    assert_eq!(quota(499), Some(1_000_000));
    assert_eq!(quota(500), Some(50_000_000));
}

#[test]
fn a_limit_that_was_not_read_is_that_of_the_cgroup_that_has_the_cpu_controller() {
    let mut names = names(&[(2, "/shop")], &[]);
    let v2 = EventKind::Name(NameSpace::Cgroup, 7, (*b"/user.slice").into());
    names.observe(&event(0, 0, 0, v2));
    let thread = ThreadInfo { cgroup: CgroupId(7), ..thread(2) };
    let unit = |thread: &ThreadInfo| names.limit_of(thread, AT).map(|limit| (limit.unit, limit.limit));
    assert_eq!(unit(&thread), Some((Unit::Cgroup("shop".into()), None)));
    let nowhere = ThreadInfo { cgroup: CgroupId(7), ..self::thread(9) };
    assert_eq!(unit(&nowhere), Some((Unit::Systemd("user.slice".into()), None)));
}

#[test]
fn a_limit_that_is_no_pair_of_numbers_is_no_limit() {
    let texts = ["50000 100000", "max 100000", "", "99999999999999999999 1"];
    let limits: Vec<_> = (1..).zip(texts).map(|(id, text)| (0, id, text)).collect();
    let names = names(&[], &limits);
    let limit = CpuLimit { quota_ns: 50_000_000, period_ns: 100_000_000 };
    assert_eq!(names.cpu_limit(CgroupId(1), AT), Some(limit));
    for id in 2..=5 {
        assert_eq!(names.cpu_limit(CgroupId(id), AT), None, "cgroup {id}");
    }
}

#[test]
fn a_service_is_the_one_that_its_process_said_last_and_none_behind_its_end() {
    let mut names = Names::default();
    for (at, tgid, service) in [(50, 7, "teller"), (60, 8, "shop"), (70, 7, "bank"), (90, 7, "")] {
        let kind = EventKind::Name(NameSpace::Service, tgid, service.as_bytes().into());
        names.observe(&event(at, 0, 0, kind));
    }
    let service = |tgid, at| names.service(Tid(tgid), Stamp::from_ns(at)).map(|name| name.bytes().to_vec());
    // The service was read some time after its beginning.
    for (at, expected) in [(10, "teller"), (69, "teller"), (70, "bank"), (89, "bank")] {
        assert_eq!(service(7, at).as_deref(), Some(expected.as_bytes()), "{at}");
    }
    assert_eq!((service(7, 90), service(9, 60)), (None, None));
}

#[test]
fn the_instance_and_the_names_of_attributes_are_those_of_the_process_in_the_same_way() {
    let mut names = Names::default();
    let key = |tgid: u64, key: u64| (NameSpace::ThreadAttribute, tgid << 8 | key);
    for (at, (space, key), name) in [
        (50, (NameSpace::Service, 7), "bank"),
        (50, (NameSpace::ServiceInstance, 7), "i-1"),
        (50, key(7, 255), "http.route"),
        (50, key(8, 0), "db.system"),
        (90, (NameSpace::ServiceInstance, 7), "i-2"),
        (90, key(7, 255), "rpc.method"),
    ] {
        names.observe(&event(at, 0, 0, EventKind::Name(space, key, name.as_bytes().into())));
    }
    let text = |name: Option<&Name>| name.map(|name| String::from_utf8_lossy(name.bytes()).into_owned());
    let instance = |at| text(names.service_instance(Tid(7), Stamp::from_ns(at)));
    assert_eq!([instance(10), instance(89), instance(90)], ["i-1", "i-1", "i-2"].map(|i| Some(i.into())));
    let attribute = |tgid, key, at| text(names.thread_attribute(Tid(tgid), key, Stamp::from_ns(at)));
    assert_eq!(attribute(7, 255, 10).as_deref(), Some("http.route"));
    assert_eq!(attribute(7, 255, 95).as_deref(), Some("rpc.method"));
    assert_eq!(attribute(8, 0, 10).as_deref(), Some("db.system"));
    assert_eq!((attribute(8, 255, 10), attribute(7, 0, 10)), (None, None));
}

/// Cgroups' names in the v2 hierarchy and in the hierarchy with the CPU controller.
fn hierarchies(v2: &[(u64, &str)], cpu: &[(u64, &str)]) -> Names {
    let mut names = names(cpu, &[]);
    for &(id, path) in v2 {
        let kind = EventKind::Name(NameSpace::Cgroup, id, path.as_bytes().into());
        names.observe(&event(0, 0, 0, kind));
    }
    names
}

#[test]
fn the_unit_of_a_thread_is_that_of_the_v2_hierarchy_and_where_this_says_nothing_that_of_the_cpu_controller() {
    let v2 = [(7, "/shop.service"), (8, "/"), (9, "//")];
    let names = hierarchies(&v2, &[(2, "/system.slice/cpu.service"), (3, "/")]);
    for (cgroup, cpu_cgroup, path, unit) in [
        (7, 2, Some("/shop.service"), Some("shop.service")),
        (7, 3, Some("/shop.service"), Some("shop.service")),
        (8, 2, Some("/system.slice/cpu.service"), Some("cpu.service")),
        (9, 2, Some("/system.slice/cpu.service"), Some("cpu.service")),
        (1, 2, Some("/system.slice/cpu.service"), Some("cpu.service")),
        (8, 3, None, None),
        (1, 1, None, None),
    ] {
        let thread = ThreadInfo { cgroup: CgroupId(cgroup), ..thread(cpu_cgroup) };
        assert_eq!(names.cgroup_of(&thread), path.map(Name::from).as_ref(), "{cgroup} {cpu_cgroup}");
        let unit = unit.map(|unit| Unit::Systemd(unit.into()));
        assert_eq!(names.unit(&thread), unit, "{cgroup} {cpu_cgroup}");
    }
    assert_eq!(names.cgroup(CgroupId(7)), Some(&"/shop.service".into()));
    assert_eq!(names.cpu_cgroup(CgroupId(2)), Some(&"/system.slice/cpu.service".into()));
    assert_eq!((names.cgroup(CgroupId(2)), names.cpu_cgroup(CgroupId(7))), (None, None));
}

#[test]
fn a_limit_has_the_unit_of_its_own_cgroup_which_may_be_an_outer_one() {
    let cgroups = [(2, "/shop.service"), (3, "/shop.service/a"), (4, "/"), (5, "/batch")];
    let limits = [(0, 2, "50000 100000"), (0, 4, "1000 2000")];
    let names = names(&cgroups, &limits);
    let limit = |quota_ns, period_ns| Some(CpuLimit { quota_ns, period_ns });
    let (shop, root) = (limit(50_000_000, 100_000_000), limit(1_000_000, 2_000_000));
    for (cgroup, unit, limit) in [
        (3, Unit::Systemd("shop.service".into()), shop),
        (2, Unit::Systemd("shop.service".into()), shop),
        // The root has no unit: its path stands for it.
        (5, Unit::Cgroup("/".into()), root),
    ] {
        assert_eq!(names.limit_of(&thread(cgroup), AT), Some(UnitLimit { unit, limit }), "{cgroup}");
    }
    assert_eq!(names.limit_of(&thread(9), AT), None, "a cgroup without a name");
}

#[test]
fn interrupts_disks_and_functions_have_the_name_that_was_recorded_last_for_their_number() {
    let mut names = Names::default();
    for (space, key, name) in [
        (NameSpace::Interrupt, 8, "rtc0"),
        (NameSpace::BlockDevice, 8 << 20 | 16, "sdb"),
        (NameSpace::BlockDevice, 8 << 20, "old"),
        (NameSpace::BlockDevice, 8 << 20, "sda"),
        (NameSpace::Target, 1, "libc.so.6:read"),
        (NameSpace::Target, 0, "./app:serve"),
        (NameSpace::GoWait, 3 << 8 | 14, "select"),
        // No device and no function has such a number.
        (NameSpace::BlockDevice, 1 << 32, "none"),
        (NameSpace::Target, 1 << 32, "none"),
    ] {
        names.observe(&event(0, 0, 0, EventKind::Name(space, key, name.as_bytes().into())));
    }
    let name = |name: &str| Name::from(name);
    assert_eq!([8, 9].map(|irq| names.interrupt(irq).cloned()), [Some(name("rtc0")), None]);
    let disk = |device| names.block_device(device).cloned();
    assert_eq!([8 << 20, 9 << 20].map(disk), [Some(name("sda")), None]);
    let disks: Vec<_> = names.block_devices().map(|(device, name)| (device, name.clone())).collect();
    assert_eq!(disks, [(8 << 20, name("sda")), (8 << 20 | 16, name("sdb"))]);
    let targets: Vec<_> = names.targets().map(|(number, name)| (number, name.clone())).collect();
    assert_eq!(targets, [(0, name("./app:serve")), (1, name("libc.so.6:read"))]);
    let wait = |program, reason| names.go_wait(program, reason).cloned();
    assert_eq!([wait(3, 14), wait(3, 15), wait(0, 14)], [Some(name("select")), None, None]);
}

#[test]
fn a_script_is_the_last_one_of_the_process_that_had_the_number_then() {
    let mut names = Names::default();
    for (at, script) in [(50, "entry.sh"), (60, "h.py"), (70, ""), (80, "other.pl")] {
        names.observe(&event(at, 0, 0, EventKind::Name(NameSpace::Script, 7, script.as_bytes().into())));
    }
    let script = |start, at| {
        let script = names.script(Tid(7), Stamp::from_ns(start), Stamp::from_ns(at));
        let script = script.map(|(_, script)| script);
        script.map(|script| String::from_utf8_lossy(script.bytes()).into_owned())
    };
    for (at, expected) in [(49, None), (50, Some("entry.sh")), (69, Some("h.py")), (75, None)] {
        assert_eq!(script(10, at).as_deref(), expected, "{at}");
    }
    assert_eq!((script(61, 69), script(80, 90).as_deref()), (None, Some("other.pl")));
    assert!(names.has_script(Tid(7)) && !names.has_script(Tid(8)));
}
