//! Failures before sleeps, in traces drawn as text.

use wakepath_clock::Stamp;
use wakepath_critical_path::{Timeouts, Window, active_by};
use wakepath_loaded::Recorded;
use wakepath_loaded::testing::read;

use super::*;
use crate::{LastWaits, PathFindings};

const THREAD: &str = "thread app tid=7\n0 c0 idle switch app\n";

/// A sleep from `at` for `ns`, behind these words about a failed call.
fn sleep(at: u64, ns: u64, failed: &str) -> String {
    let failed = if failed.is_empty() { String::new() } else { format!("{at} c0 app failed {failed}\n") };
    let to = at + ns;
    format!(
        "{failed}{at} c0 app switch idle blocked call=230:0\n{to} c0 idle/timer waking app\n{to} c0 idle switch app\n"
    )
}

/// Sleeps of 100 ns with 10 ns between them, each behind a failed call, or behind none.
fn sleeps(failures: &[&str]) -> String {
    let sleeps = (0..).zip(failures).map(|(place, failed)| sleep(10 + 110 * place, 100, failed));
    THREAD.to_owned() + &sleeps.collect::<String>()
}

fn recorded(trace: &str) -> Recorded {
    read(&wakepath_scenario::text::parse(trace).expect("a trace").events)
}

const MS: u64 = 1_000_000;

/// The findings about a thread from `from` to `to`.
fn found<T>(trace: &str, thread: u32, (from, to): (u64, u64), take: impl FnOnce(&PathFindings) -> T) -> T {
    let recorded = recorded(trace);
    let [from, to] = [from, to].map(Stamp::from_ns);
    let window = Window { thread: ThreadIndex(thread), from, to };
    let path = active_by(recorded.graph(), window, Timeouts::AsTheyAre);
    let (stacks, sampled) = Default::default();
    let evidence = Evidence { recorded: &recorded, path: &path, stacks: &stacks, sampled: &sampled };
    take(&PathFindings::new(&evidence, LastWaits::default(), None))
}

/// The row of sleeps in a trace that ends at `to`.
fn row(trace: &str, window: (u64, u64)) -> Row {
    found(trace, 0, window, |found| {
        let row = found.rows.iter().find(|finding| finding.key == RowKey::Timer);
        row.expect("sleeps").row.clone()
    })
}

const ACCESS: &str = "21 2 path=/run/ready";
const OPEN: &str = "257 2 path=/etc/app.conf";

/// For each failed call, the sleeps behind it and whether it explains the row.
fn told(failures: &[&str]) -> Vec<(u32, u64, bool)> {
    let row = row(&sleeps(failures), (0, 110 * failures.len() as u64));
    assert_eq!(row.tried_for(), None, "it sleeps itself");
    row.polling.iter().map(|polling| (polling.attempt.call, polling.tried.sleeps, polling.explains)).collect()
}

#[test]
fn a_failure_explains_sleeps_if_it_came_before_two_thirds_of_them() {
    assert_eq!(told(&[ACCESS, ACCESS, ACCESS]), [(21, 3, true)]);
    assert_eq!(told(&[ACCESS, ACCESS, ""]), [(21, 2, true)]);
    assert_eq!(told(&[ACCESS, ACCESS, "", ""]), [(21, 2, false)]);
    assert_eq!(told(&["", "", ""]), []);
    assert_eq!(told(&[ACCESS, OPEN, ACCESS, OPEN]), [(21, 2, false), (257, 2, false)]);
}

#[test]
fn a_failure_before_a_single_sleep_of_a_thread_is_chance() {
    assert_eq!(told(&[ACCESS]), []);
    assert_eq!(told(&[ACCESS, OPEN]), []);
    // Two threads, each behind the same failure of its own, as programs that have just started.
    let trace = "thread app tid=7
        thread one tid=8
        thread two tid=9
        0 c0 idle switch app
        10 c0 app switch one blocked call=61:0
        10 c0 one failed 21 2 path=/etc/ld.so.preload
        10 c0 one switch idle blocked call=230:0
        110 c0 idle/timer waking one
        110 c0 idle switch one
        120 c0 one waking app
        120 c0 one switch app dead
        130 c0 app switch two blocked call=61:0
        130 c0 two failed 21 2 path=/etc/ld.so.preload
        130 c0 two switch idle blocked call=230:0
        230 c0 idle/timer waking two
        230 c0 idle switch two
        240 c0 two waking app
        240 c0 two switch app dead
        250 c0 app stopped";
    let all = found(trace, 0, (0, 250), |found| {
        let rows = found.rows.iter().map(|finding| (finding.row.waits(), finding.row.polling.len()));
        rows.collect::<Vec<_>>()
    });
    assert!(all.iter().any(|(waits, _)| *waits >= 1), "{all:?}");
    assert!(all.iter().all(|(_, polling)| *polling == 0), "{all:?}");
}

#[test]
fn equal_failures_are_one_whoever_holds_the_lock_and_whichever_object_makes_another() {
    const LOCK: &str = "72 11 op=6 file=lock";
    let held = |holder: &str| format!("{LOCK} holder={holder} tries=2");
    let (a, b) = (held("a"), held("b"));
    let trace = sleeps(&[&a, &b, &b, LOCK, "72 11 op=6 file=other"]);
    let trace = trace.replacen("0 c0 idle", "thread a tid=20\nthread b tid=21\n0 c0 idle", 1);
    let row = row(&trace, (0, 550));
    let [polling] = &row.polling[..] else { panic!("{:?}", row.polling) };
    assert_eq!(polling.tried, Tried { sleeps: 4, tries: 7, ns: 400 });
    assert_eq!(polling.holders, BTreeSet::from([Tid(20), Tid(21)]));
    assert!(polling.explains);
}

#[test]
fn the_main_failure_also_has_more_than_half_of_the_time() {
    let main = |last: u64| {
        let trace =
            THREAD.to_owned() + &sleep(10, 100, ACCESS) + &sleep(120, 100, ACCESS) + &sleep(230, last, "");
        let row = row(&trace, (0, 230 + last));
        assert!(row.polling[0].explains);
        row.main_polling().is_some()
    };
    assert!(main(199));
    assert!(!main(200));
}

#[test]
fn a_sleep_cut_by_the_window_keeps_its_failure() {
    let row = row(&sleeps(&[ACCESS, ACCESS]), (60, 220));
    assert_eq!(row.polling[0].tried, Tried { sleeps: 2, tries: 2, ns: 150 });
}

#[test]
fn time_that_no_timer_ended_has_no_failure() {
    let trace = "thread app tid=7
        thread other tid=8
        0 c1 idle switch other
        0 c0 idle switch app
        10 c0 app failed 21 2 path=/run/ready
        10 c0 app switch idle blocked call=7:0x1000
        50 c1 other waking app
        50 c0 idle switch app
        60 c0 app failed 21 2 path=/run/ready
        60 c0 app switch idle blocked call=7:0x1000
        90 c1 other waking app
        90 c0 idle switch app
        100 c0 app stopped";
    found(trace, 0, (0, 100), |found| {
        assert!(found.rows.iter().all(|finding| finding.row.polling.is_empty()));
    });
}

#[test]
fn running_time_has_the_calls_that_fail_again_and_again_in_it_once_each() {
    // Preempted amid the second stretch: its two halves are a single stretch. Another thread's spin is not the row's.
    let trace = "thread app tid=7
        thread other tid=8
        0 c0 idle switch app
        0 c1 idle switch other
        100000000 c0 app spin 3 9 from=10000000 count=500
        150000000 c0 app switch idle
        160000000 c0 idle switch app
        200000000 c0 app spin 3 9 from=100000000 count=700
        200000000 c1 other spin 3 9 from=100000000 count=9000
        250000000 c0 app spin 0 11 from=210000000 count=300
        300000000 c0 app stopped";
    let told = |window| {
        found(trace, 0, window, |found| {
            let rows = found.rows.iter().filter(|finding| matches!(finding.key, RowKey::Running(_)));
            rows.flat_map(|finding| &finding.spins)
                .map(|spin| (spin.call, spin.count, spin.ns / MS))
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(told((0, 300 * MS)), [(3, 1200, 190), (0, 300, 40)]);
    assert_eq!(told((0, 90 * MS)), [(3, 500, 90)]);
    assert_eq!(told((260 * MS, 300 * MS)), []);
}

#[test]
fn a_spin_has_a_hundredth_of_its_row_and_a_hundredth_of_a_second_and_some_hundred_calls_at_least() {
    let counted = |count: u64, ns: u64, end: u64| {
        let trace = format!(
            "thread app tid=7
             0 c0 idle switch app
             {} c0 app spin 257 2 from={} count={count}
             {end} c0 app stopped",
            100 * MS,
            100 * MS - ns,
        );
        found(&trace, 0, (0, end), |found| found.rows[0].spins.len())
    };
    let told = |ns, end| counted(300, ns, end);
    assert_eq!(counted(299, 10 * MS, 101 * MS), 0);
    assert_eq!([told(10 * MS, 1000 * MS), told(10 * MS, 1000 * MS + 100)], [1, 0]);
    assert_eq!([told(10 * MS, 101 * MS), told(10 * MS - 1, 101 * MS)], [1, 0]);
}

#[test]
fn sleep_of_another_process_is_a_part_of_its_row_without_a_failure() {
    let trace = "thread app tid=7
        thread other tid=8
        0 c0 idle switch app
        10 c0 app switch other blocked call=0:3
        10 c0 other failed 21 2 path=/run/ready
        10 c0 other switch idle blocked call=230:0
        110 c0 idle/timer waking other
        110 c0 idle switch other
        112 c0 other waking app
        112 c0 other switch app
        114 c0 app switch other blocked call=0:3
        114 c0 other failed 21 2 path=/run/ready
        114 c0 other switch idle blocked call=230:0
        220 c0 idle/timer waking other
        220 c0 idle switch other
        230 c0 other waking app
        230 c0 other switch app
        240 c0 app stopped";
    found(trace, 0, (0, 240), |found| {
        let others = found.rows.iter().filter(|finding| finding.key.is_of_others());
        assert_eq!(others.map(|finding| finding.row.polling.len()).collect::<Vec<_>>(), [0]);
    });
}

#[test]
fn a_spin_belongs_to_the_row_of_its_thread_under_the_name_that_the_thread_had() {
    let trace = "thread app tid=7
        thread other tid=8
        0 c1 idle switch other
        0 c1 other rename other app
        0 c0 idle switch app
        100000000 c0 app spin 3 9 from=10000000 count=500
        105000000 c0 app switch idle
        110000000 c0 idle switch app
        110000000 c0 app rename app late
        200000000 c0 app spin 0 11 from=120000000 count=700
        210000000 c0 app switch idle blocked call=0:3
        300000000 c1 other spin 21 2 from=220000000 count=900
        310000000 c1 other waking app
        310000000 c0 idle switch app
        320000000 c0 app stopped";
    let told = found(trace, 0, (0, 320 * MS), |found| {
        let spins = |finding: &crate::Finding| finding.spins.iter().map(|spin| spin.call).collect::<Vec<_>>();
        let rows = found.rows.iter().filter(|finding| matches!(finding.key, RowKey::Running(_)));
        rows.map(|finding| (finding.key.clone(), spins(finding))).collect::<BTreeMap<_, _>>()
    });
    let running = |name: &[u8]| RowKey::Running(Comm::new(name));
    assert_eq!(told, BTreeMap::from([(running(b"app"), vec![3]), (running(b"late"), vec![0])]));
}

#[test]
fn a_failed_call_as_a_rows_cause_is_inferred_though_the_sleeps_are_measured() {
    let certainty = |failures: &[&str]| {
        let trace = sleeps(failures);
        found(&trace, 0, (10, 10 + 110 * failures.len() as u64), |found| {
            let row = &found.rows[found.headline.largest.as_ref().expect("a part").row].row;
            (row.basis.certainty(), row.cause_certainty())
        })
    };
    let tried = "21 2 path=/run/ready";
    assert_eq!(certainty(&[tried; 3]), (Certainty::Measured, Certainty::Inferred));
    assert_eq!(certainty(&[""; 3]), (Certainty::Measured, Certainty::Measured));
    assert_eq!(certainty(&[tried, "", ""]), (Certainty::Measured, Certainty::Measured), "once is no reason");
}

/// A script's try before each of its waits, or none; each wait is for a child that sleeps for `sleeps` ns, and runs for the rest of
/// 120 ns. `late`: the script waits after the child has fallen asleep.
fn script(tries: &[&str], sleeps: u64, late: bool) -> String {
    let mut trace = String::from(
        "thread app tid=7\nthread script tid=9 parent=7\n0 c0 idle switch script\n0 c1 idle started\n",
    );
    let mut at = 10;
    for (tid, failed) in (20..).zip(tries) {
        let (blocked, end) = (at + 10, at + 120);
        let [asleep, awake] = [at + 20, at + 20 + sleeps];
        let waits = if late { at + 25 } else { blocked };
        let failed =
            if failed.is_empty() { String::new() } else { format!("{waits} c0 script failed {failed}\n") };
        let waits = format!("{failed}{waits} c0 script switch idle blocked call=61:0\n");
        let sleeps = format!("{asleep} c1 P{tid} switch idle blocked call=230:0\n");
        let both = if late { sleeps + &waits } else { waits + &sleeps };
        trace += &format!(
            "{at} c0 script fork P{tid} tid={tid} parent=9\n{at} c0 script waking P{tid} newborn\n\
             {at} c1 idle switch P{tid}\n{at} c1 P{tid} exec sleep\n{both}\
             {awake} c1 idle/timer waking P{tid}\n{awake} c1 idle switch P{tid}\n\
             {end} c1 P{tid} waking script\n{end} c1 P{tid} exit\n{end} c0 idle switch script\n{} c1 P{tid} switch idle dead\n",
            end + 1,
        );
        at = end + 10;
    }
    trace + &format!("{at} c0 script stopped\n")
}

/// For each failed call behind the script's sleeps: the sleeps, the tries, and the headline's blame.
fn told_of_script(tries: &[&str], sleeps: u64, late: bool) -> Vec<(u64, u64)> {
    found(&script(tries, sleeps, late), 1, (0, 130 * tries.len() as u64 + 10), |found| {
        let row = &found.rows.iter().find(|finding| finding.key == RowKey::Timer).expect("sleeps").row;
        let by = BTreeSet::from([ThreadIndex(1)]);
        assert!(row.polling.iter().all(|polling| polling.by == by), "{:?}", row.polling);
        let largest = found.headline.largest.as_ref().expect("a part");
        assert_eq!(row.tried_for(), row.main_polling().map(|_| &by));
        assert_eq!(largest.blames == crate::Blames::Key, row.main_polling().is_some(), "{largest:?}");
        row.polling.iter().map(|polling| (polling.tried.sleeps, polling.tried.tries)).collect()
    })
}

#[test]
fn a_scripts_tries_explain_its_sleeps_in_other_processes() {
    let tried = |tries| format!("{ACCESS} tries={tries}");
    let [one, two, three, five] = [1, 2, 3, 5].map(tried);
    for late in [false, true] {
        // The script counts on, since no sleep of its own ended.
        assert_eq!(told_of_script(&[&one, &two, &three], 90, late), [(3, 3)]);
        assert_eq!(told_of_script(&[&one, &three, &five], 90, late), [(3, 5)]);
        // A count beginning anew has new tries.
        assert_eq!(told_of_script(&[&three, &one, &two], 90, late), [(3, 5)]);
        assert_eq!(told_of_script(&["", "", ""], 90, late), []);
    }
}

#[test]
fn without_another_try_since_the_last_sleep_a_script_sleeps_for_another_reason() {
    let once = format!("{ACCESS} tries=1");
    assert_eq!(told_of_script(&[&once, &once, &once, &once], 90, false), []);
    let twice = format!("{ACCESS} tries=2");
    assert_eq!(told_of_script(&[&once, &once, &twice, &twice], 90, false), [(2, 2)]);
}

#[test]
fn a_child_that_does_more_than_sleep_is_no_sleep_of_its_parent() {
    let tries: Vec<String> = (1..=3).map(|tries| format!("{ACCESS} tries={tries}")).collect();
    let tries: Vec<&str> = tries.iter().map(String::as_str).collect();
    // The script waits for 110 ns.
    assert_eq!(told_of_script(&tries, 74, false), [(3, 3)]);
    assert_eq!(told_of_script(&tries, 73, false), []);
}

#[test]
fn a_script_that_tries_is_named_in_place_of_its_sleeping_processes() {
    let trace = script(&[&format!("{ACCESS} tries=1"), &format!("{ACCESS} tries=2")], 90, false)
        .replacen(
            "0 c0 idle switch script\n",
            "0 c0 idle switch app\n0 c0 app switch script blocked call=61:0\n",
            1,
        )
        .replace(
            "270 c0 script stopped",
            "270 c0 script waking app\n270 c0 script exit\n270 c0 script switch app dead\n280 c0 app stopped",
        );
    found(&trace, 0, (0, 280), |found| {
        let crate::Blames::Doers(doers) = &found.headline.largest.as_ref().expect("a part").blames else {
            panic!()
        };
        assert_eq!(
            (&doers.names[..], &doers.processes),
            (&[Comm::new(b"script")][..], &BTreeSet::from([Tid(9)]))
        );
        assert_eq!(found.headline.through, None, "the sentence has the script");
    });
}

#[test]
fn a_parents_own_sleep_and_the_same_sleep_twice_are_no_other_sleeps_of_a_child() {
    let tries: Vec<String> = (1..=3).map(|tries| format!("{ACCESS} tries={tries}")).collect();
    let tries: Vec<&str> = tries.iter().map(String::as_str).collect();
    let before = |trace: &str| {
        let once = before_sleeps(trace, 400, 1);
        assert_eq!(before_sleeps(trace, 400, 2), once);
        once.iter().flatten().count()
    };
    let trace = script(&tries, 90, false);
    assert_eq!(before(&trace), 3);
    // A parent with a time-out of its own sleeps itself.
    let itself =
        trace.replace("script switch idle blocked call=61:0", "script switch idle blocked call=7:0x1000");
    assert_eq!(before(&itself), 0);
}

#[test]
fn a_spin_before_a_programs_start_is_the_old_programs() {
    let trace = "thread app tid=7
        0 c0 idle switch app
        90000000 c0 app spin 3 9 from=10000000 count=500
        100000000 c0 app rename app late
        200000000 c0 app stopped";
    let told = found(trace, 0, (0, 200 * MS), |found| {
        let rows = found.rows.iter().filter(|finding| finding.key == RowKey::Running(Comm::new(b"app")));
        rows.flat_map(|finding| &finding.spins).map(|spin| spin.count).collect::<Vec<_>>()
    });
    assert_eq!(told, [500]);
}

/// The failed call before each sleep on the script's path, where each sleep is looked up this often.
fn before_sleeps(trace: &str, to: u64, times: usize) -> Vec<Option<crate::attempts::AttemptBefore>> {
    let recorded = recorded(trace);
    let window = Window { thread: ThreadIndex(1), from: Stamp::from_ns(0), to: Stamp::from_ns(to) };
    let path = active_by(recorded.graph(), window, Timeouts::AsTheyAre);
    let (stacks, sampled) = Default::default();
    let evidence = Evidence { recorded: &recorded, path: &path, stacks: &stacks, sampled: &sampled };
    let mut attempts = crate::attempts::Attempts::new(&evidence);
    let sleeps = path.segments().filter(|segment| segment.kind == SegmentKind::Timer);
    sleeps.filter_map(|sleep| (0..times).map(|_| attempts.before(sleep)).last()).collect()
}

/// A script that before each of its sleeps runs programs; each ends behind a failed call, or behind none. For each failed call:
/// the sleeps behind it and the tries.
fn told_of_children(turns: &[&[&str]]) -> Vec<(u32, u64, u64)> {
    let mut trace = String::from(
        "thread app tid=7\nthread script tid=9 parent=7\n0 c0 idle switch script\n0 c1 idle started\n",
    );
    let (mut at, mut tid) = (10, 20);
    for failures in turns {
        for (program, failed) in failures.iter().map(|it| ("mkdir", *it)).chain([("sleep", "")]) {
            let [begun, end, dead] =
                [at + 2, at + if program == "sleep" { 92 } else { 5 }, at + 95].map(u64::from);
            let dead = if program == "sleep" { dead } else { end + 1 };
            let slept = match program {
                "sleep" => format!(
                    "{begun} c1 P{tid} switch idle blocked call=230:0\n{end} c1 idle/timer waking P{tid}\n\
                     {end} c1 idle switch P{tid}\n"
                ),
                _ => String::new(),
            };
            let failed =
                if failed.is_empty() { String::new() } else { format!("{dead} c1 P{tid} failed {failed}\n") };
            trace += &format!(
                "{at} c0 script fork P{tid} tid={tid} parent=9\n{at} c0 script waking P{tid} newborn\n\
                 {at} c1 idle switch P{tid}\n{at} c1 P{tid} exec {program}\n{begun} c0 script switch idle blocked call=61:0\n\
                 {slept}{end} c1 P{tid} waking script\n{end} c1 P{tid} exit\n{end} c0 idle switch script\n\
                 {failed}{dead} c1 P{tid} switch idle dead\n",
            );
            (at, tid) = (dead as u32 + 5, tid + 1);
        }
    }
    trace += &format!("{at} c0 script stopped\n");
    let once = before_sleeps(&trace, at.into(), 1);
    assert_eq!(before_sleeps(&trace, at.into(), 2), once, "a sleep may be in several segments");
    found(&trace, 1, (0, at.into()), |found| {
        let row = &found.rows.iter().find(|finding| finding.key == RowKey::Timer).expect("sleeps").row;
        let by = BTreeSet::from([ThreadIndex(1)]);
        assert!(row.polling.iter().all(|polling| polling.by == by), "{:?}", row.polling);
        let tried = row.polling.iter().map(|it| (it.attempt.call, it.tried.sleeps, it.tried.tries));
        tried.collect()
    })
}

#[test]
fn the_tries_with_which_a_scripts_children_ended_explain_its_sleeps() {
    let (lock, other) = ("83 17 path=deploy.lock", "42 111 address=127.0.0.1:80");
    assert_eq!(told_of_children(&[&[lock], &[lock], &[lock]]), [(83, 3, 3)]);
    assert_eq!(told_of_children(&[&[lock, lock], &[lock]]), [(83, 2, 3)]);
    // The last try before a sleep counts, with the equal tries.
    assert_eq!(told_of_children(&[&[lock, other], &[other], &[lock, ""]]), [(42, 2, 2)]);
    assert_eq!(told_of_children(&[&[lock], &[""], &[]]), [], "an earlier try is no reason for a later sleep");
    assert_eq!(told_of_children(&[&[lock], &[""], &[lock]]), [(83, 2, 2)]);
}
