//! Waits for jobs in the runtime's pool.

use super::{path, short, span, wall};
use crate::testing::{made, ns, scaled};

/// `loop` has a turn for `a/a` from 1000 to 2000, `w` and `v` are its pool's idle threads, and `u` a third where a test says so. In the turn `loop` wakes `w`, which works until 8000 and
/// then wakes `loop`. A tick ended its wait at 4000. Times are in units, 100 us each.
const POOL: [&str; 16] = [
    "0 c0 idle started",
    "0 c0 idle switch loop",
    "0 c1 idle switch w",
    "0 c2 idle switch v",
    "0 c3 idle switch foreign",
    "100 c1 w switch idle blocked call=202:0x1000",
    "100 c2 v switch idle blocked call=202:0x1000",
    "1500 c0 loop waking w",
    "1500 c1 idle switch w",
    "2000 c0 loop switch idle blocked call=232:0x3",
    "4000 c0 idle/timer waking loop",
    "4000 c0 idle switch loop",
    "5000 c0 loop switch idle blocked call=232:0x3",
    "8000 c1 w waking loop",
    "8000 c0 idle switch loop",
    "8100 c1 w switch idle blocked call=202:0x1004",
];

/// The path over the wait by `a/a` for a job whose callback the loop called at 8500, with some events added and others taken away.
fn told(added: &[&str], taken: &[&str]) -> String {
    told_with(8500, added, taken, &[])
}

fn told_with(called: u64, added: &[&str], taken: &[&str], others: &[String]) -> String {
    let left = POOL.iter().filter(|line| !taken.contains(line));
    let mut events: Vec<&str> = left.chain(added).copied().collect();
    assert_eq!(events.len(), POOL.len() + added.len() - taken.len(), "each is there");
    let at = |line: &&str| line.split(' ').next().and_then(|at| ns(at, 100_000));
    events.sort_by_key(at);
    let threads = "host web3 realtime=1000000000
        thread loop tid=10
        thread u tid=13 tgid=10
        thread w tid=11 tgid=10
        thread v tid=12 tgid=10
        thread foreign tid=20\n";
    let machine = scaled(100_000, &format!("{threads}{}\n9600 c0 idle stopped", events.join("\n")));
    let word = format!("j{}", (9000 - called) * 100_000);
    let own = span("a/a", (1000, 9500), &[(1000, 2000, "d0"), (9000, 9500, &word)]);
    let spans = format!("service s\n{own}{}", others.concat());
    let path = short(&path(&made(&machine, &spans), "a/a").expect("an event loop"));
    let rest = path.strip_prefix("2000 loop running of a/a; ").expect("the turn");
    rest.replace(&format!("{called} loop running; "), "")
        .replace("9000 loop running; 9500 loop running of a/a; ", "")
}

const BY_W: &str = "8000 w running noted below 1; ";
const UNDECIDED: &str = "8500 loop unknown ? of a/a; ";

#[test]
fn a_job_is_the_work_of_the_thread_that_the_loop_woke_in_the_turn() {
    assert_eq!(told(&[], &[]), BY_W);
    // The loop's tick fires on the thread's CPU.
    assert_eq!(told(&["4000 c1 w/timer waking loop", POOL[11]], &[POOL[10], POOL[11]]), BY_W);
    // A futex elsewhere is a lock within the job.
    let locked = [
        "6000 c1 w switch idle blocked call=202:0x1008",
        "7000 c1 idle/timer waking w",
        "7000 c1 idle switch w",
    ];
    assert_eq!(
        told(&locked, &[]),
        "6000 w running noted below 1; 7000 w timer noted below 1; 8000 w running noted below 1; "
    );
}

#[test]
fn a_thread_that_the_loop_woke_for_other_jobs_explains_nothing() {
    // `v` works from the tick on, and ends the loop's last wait; `w` has done the job only then, while the loop is awake.
    let by_v = [
        "4500 c0 loop waking v",
        "4500 c2 idle switch v",
        "7500 c2 v waking loop",
        "7500 c0 idle switch loop",
    ];
    let taken = ["8000 c1 w waking loop", "8000 c0 idle switch loop"];
    assert_eq!(told(&by_v, &taken), "8100 w running noted below 1; ");
    // With other events between, as with another request's.
    let idle = [&by_v[..], &["7600 c2 v switch idle blocked call=202:0x1004"]].concat();
    assert_eq!(told(&idle, &taken), "8100 w running noted below 1; ");
}

#[test]
fn a_thread_that_goes_on_with_another_job_had_done_this_one_as_it_woke_the_loop() {
    let idle = POOL[15];
    assert_eq!(told(&[], &[idle]), BY_W);
    // It is idle behind the callback.
    assert_eq!(told(&["8600 c1 w switch idle blocked call=202:0x1000"], &[idle]), BY_W);
    // The loop was awake: nothing shows the job's end.
    let awake = ["7500 c3 foreign waking loop", "7500 c0 idle switch loop"];
    let taken = ["8000 c1 w waking loop", "8000 c0 idle switch loop", idle];
    assert_eq!(told(&awake, &taken), UNDECIDED);
    // Idle up to 1 unit (100 us) behind the callback it has done the job at the callback.
    let soon = [&awake[..], &["8500 c1 w switch idle blocked call=202:0x1000"]].concat();
    assert_eq!(told(&soon, &taken), "8500 w running noted below 1; ");
    let behind = [&awake[..], &["8501 c1 w switch idle blocked call=202:0x1000"]].concat();
    assert_eq!(told(&behind, &taken), UNDECIDED);
}

#[test]
fn a_loop_that_waited_behind_the_job_had_no_callback_to_call() {
    // `w` was idle again while the loop waited, or was awake and then waited: it had another job.
    for at in ["3000", "4500"] {
        let idle = format!("{at} c1 w switch idle blocked call=202:0x1000");
        let again = "7000 c1 idle/timer waking w";
        let runs = "7000 c1 idle switch w";
        assert_eq!(told(&[&idle, again, runs], &[]), UNDECIDED, "{at}");
    }
    // It woke the loop twice: this job was done the second time, since the loop slept behind the first.
    let twice = [
        "4500 c1 w waking nobody",
        "3000 c1 w waking loop",
        "3000 c0 idle switch loop",
        "3500 c0 loop switch idle blocked call=232:0x3",
    ];
    assert_eq!(told(&[twice[1], twice[2], twice[3]], &[]), BY_W);
}

#[test]
fn a_loop_that_waits_for_a_lock_behind_the_job_may_have_its_callback_to_call() {
    // The pool's lock is taken as its thread wakes the loop.
    let locked = [
        "8010 c0 loop switch idle blocked call=202:0x2000",
        "8020 c1 w waking loop",
        "8020 c0 idle switch loop",
    ];
    assert_eq!(told(&locked, &[]), format!("{BY_W}8010 loop running; 8020 w running below 1; "));
    let idle = ["8010 c0 loop switch idle blocked call=232:0x3", locked[1], locked[2]];
    assert_eq!(told(&idle, &[]), "8020 w running noted below 1; ");
    // The end of a wait for a lock is no job's end.
    let at_lock = [
        "4100 c0 loop switch idle blocked call=202:0x1008",
        "4200 c1 w waking loop",
        "4200 c0 idle switch loop",
    ];
    assert_eq!(told(&at_lock, &[]), BY_W);
}

#[test]
fn the_job_done_among_two_explains_the_wait() {
    let woken = ["1600 c0 loop waking v", "1600 c2 idle switch v"];
    // `v` still works.
    assert_eq!(told(&woken, &[]), BY_W);
    // `v` was done before.
    let before = ["4500 c2 v switch idle blocked call=202:0x1000"];
    assert_eq!(told(&[&woken[..], &before].concat(), &[]), BY_W);
    // Both were done while the loop was awake.
    let both = ["8200 c2 v switch idle blocked call=202:0x1000"];
    let both = [&woken[..], &both].concat();
    assert_eq!(told(&both, &[]), UNDECIDED);
    // Unless the callback comes right behind the wait that `w` ended.
    assert_eq!(told_with(8300, &both, &[], &[]), BY_W);
    // Another thread or a timer woke `v`, or it is another process's.
    let by_timer = ["1600 c2 idle/timer waking v", woken[1], both[0]];
    assert_eq!(told(&by_timer, &[]), BY_W);
    let by_other = ["1600 c3 foreign waking v", woken[1], both[0]];
    assert_eq!(told(&by_other, &[]), BY_W);
    let foreign = [
        "100 c3 foreign switch idle blocked call=202:0x1000",
        "1600 c0 loop waking foreign",
        "1600 c3 idle switch foreign",
        "8200 c3 foreign switch idle blocked call=202:0x1000",
    ];
    assert_eq!(told(&foreign, &[]), BY_W);
}

/// The path if the loop woke `v` behind the turn, at 2100, which worked from `runs` to 8000 and then woke `loop`, and `w` had these events.
fn told_beside(runs: u64, of_w: &[&str]) -> String {
    let runs = format!("{runs} c2 idle switch v");
    let of_v = [
        "2100 c0 loop waking v",
        &runs,
        "2500 c0 loop switch idle blocked call=232:0x3",
        "8000 c2 v waking loop",
        "8000 c0 idle switch loop",
        "8100 c2 v switch idle blocked call=202:0x1004",
    ];
    let taken = [POOL[8], POOL[9], POOL[13], POOL[14], POOL[15]];
    told(&[&of_v[..], of_w].concat(), &taken)
}

#[test]
fn a_worker_that_was_woken_for_a_later_job_takes_this_one_if_it_has_the_queue_first() {
    const BY_V: &str =
        "2100 loop running noted below 2; 2150 v runnable noted below 1; 8000 v running noted below 1; ";
    let is_by_v = |of_w: &[&str]| told_beside(2150, of_w).ends_with(BY_V);
    // `w` waits for the queue's lock, which lies right behind the condition, and then has another job.
    let locked_at = |lock: &str, runs: &str, idle: &str| {
        let lines = [
            format!("{runs} c1 w switch idle blocked call=202:{lock}"),
            String::from("2200 c0 loop waking w"),
            String::from("2300 c1 idle switch w"),
            format!("{idle} c1 w switch idle blocked call=202:0x1000"),
        ];
        told_beside(2150, &[&[POOL[8]], &lines.each_ref().map(String::as_str)[..]].concat())
    };
    let locked = |runs: &str, idle: &str| locked_at("0x1008", runs, idle);
    assert!(locked("1500", "2400").ends_with(BY_V) && locked("1500+20000", "2400").ends_with(BY_V));
    // It had no CPU.
    let no_cpu = ["2200 c1 idle switch w", "2400 c1 w switch idle blocked call=202:0x1000"];
    assert!(is_by_v(&no_cpu) && is_by_v(&["8600 c1 idle switch w"]));
    // Both have done a job while the loop is awake.
    assert_eq!(locked("1500", "8200"), UNDECIDED);
    // It ran first, for over 20 us, and took the job; it lost its CPU then, or waited for a lock in its job.
    assert!(locked_at("0x5000", "1500+20001", "8200").ends_with("8200 w running noted below 1; "));
    let preempted = ["1600 c1 w switch idle runnable", "2300 c1 idle switch w", no_cpu[1]];
    // Its job was another one, since the loop slept behind it.
    assert!(told_beside(2150, &[&[POOL[8]], &preempted[..]].concat()).ends_with(BY_V));
    // The turn woke a thread in another pool first, as Node's compiler has one.
    let of_u = [
        "0 c4 idle switch u",
        "100 c4 u switch idle blocked call=202:0x9000",
        "1400 c0 loop waking u",
        "1400 c4 idle switch u",
        "1450 c4 u switch idle blocked call=202:0x9004",
    ];
    assert!(is_by_v(&[&of_u[..], &no_cpu].concat()));
    assert!(is_by_v(&[&of_u[..], &[POOL[8]], &preempted].concat()));
    // Two workers in one pool.
    let second = [
        "0 c4 idle switch u",
        "100 c4 u switch idle blocked call=202:0x1000",
        "1400 c0 loop waking u",
        "2200+1 c4 idle switch u",
        "2400 c4 u switch idle blocked call=202:0x1000",
    ];
    assert!(is_by_v(&[&second[..], &no_cpu].concat()));
}

#[test]
fn a_job_whose_worker_did_not_wake_the_loop_ends_as_the_worker_waits_at_the_queue_or_lets_the_loop_go() {
    let awake = ["7000 c3 foreign waking loop", "7000 c0 idle switch loop"];
    let taken = [POOL[13], POOL[14], POOL[15]];
    // It waits for the queue's lock, and is not idle again in time.
    let at_queue = |lock: &str| {
        let line = format!("8000 c1 w switch idle blocked call=202:{lock}");
        told(&[&awake[..], &[&line, "9300 c3 foreign waking w", "9300 c1 idle switch w"]].concat(), &taken)
    };
    assert_eq!(at_queue("0x1008"), BY_W);
    assert_eq!(at_queue("0x1100"), BY_W);
    for far in ["0x1108", "0xef8"] {
        assert_eq!(at_queue(far), UNDECIDED, "another lock, within its job");
    }
    assert_eq!(at_queue("0xf00"), BY_W);
    // It is idle again soon behind.
    let idle = [
        "8000 c1 w switch idle blocked call=202:0x1008",
        "8100 c3 foreign waking w",
        "8100 c1 idle switch w",
        "8200 c1 w switch idle blocked call=202:0x1004",
    ];
    assert_eq!(told(&[&awake[..], &idle].concat(), &taken), BY_W);
    // The loop waits for a lock up to 8000, which the worker has as its job ends.
    let let_go = |by: &str| {
        let wakes = format!("8000 {by} waking loop");
        told(
            &[&awake[..], &["7900 c0 loop switch idle blocked call=202:0x7000", &wakes, POOL[14]]].concat(),
            &taken,
        )
    };
    assert_eq!(let_go("c1 w"), BY_W);
    assert_eq!(let_go("c3 foreign"), UNDECIDED);
}

#[test]
fn a_worker_that_was_awake_takes_the_job_if_it_has_the_queue_first() {
    // `v` was woken for a job before the turn, wakes the loop as that is done, and has the queue before `w` has a CPU.
    let of_v = [
        "900 c0 loop waking v",
        "900 c2 idle switch v",
        "3000 c2 v waking loop",
        "3000 c0 idle switch loop",
        "3500 c0 loop switch idle blocked call=232:0x3",
        "8000 c2 v waking loop",
        "8000 c0 idle switch loop",
    ];
    let taken = [POOL[8], POOL[13], POOL[14], POOL[15]];
    let of_w = |runs: u64| {
        let runs = format!("{runs} c1 idle switch w");
        told(&[&of_v[..], &[&runs, "4100 c1 w switch idle blocked call=202:0x1000"]].concat(), &taken)
    };
    assert_eq!(of_w(3100), "8000 v running noted below 1; ");
    // It is idle again, and did not wake the loop, which was awake.
    let awake = [
        "3050 c1 idle switch w",
        "3060 c1 w switch idle blocked call=202:0x1000",
        "7000 c3 foreign waking loop",
        "7000 c0 idle switch loop",
        "8200 c2 v switch idle blocked call=202:0x1000",
    ];
    assert_eq!(told(&[&of_v[..5], &awake].concat(), &taken), "8200 v running noted below 1; ");
    // In another queue.
    let other =
        [&of_v[..], &["100 c2 v switch idle blocked call=202:0x2000", "3100 c1 idle switch w"]].concat();
    assert_eq!(told(&other, &[&taken[..], &[POOL[6]]].concat()), UNDECIDED);
    // `w` had the queue before `v` was done with that job.
    let first = [&of_v[..], &[POOL[8], "8200 c1 w switch idle blocked call=202:0x1000"]].concat();
    assert_eq!(told(&first, &taken), "8200 w running noted below 1; ");
}

#[test]
fn a_worker_woken_from_another_condition_takes_no_job_from_the_queue() {
    let other = ["100 c2 v switch idle blocked call=202:0x2000", "2200 c1 idle switch w"];
    let of_v = ["2100 c0 loop waking v", "2150 c2 idle switch v"];
    let told = told(&[&of_v[..], &other].concat(), &[POOL[6], POOL[8]]);
    assert!(told.ends_with("2200 w runnable noted below 1; 8000 w running noted below 1; "), "{told}");
}

#[test]
fn a_thread_that_waited_for_a_lock_is_handed_no_job() {
    // `v` was woken for another job before, and waits for the queue's lock, which `loop` has; it is still at work.
    let busy = "900 c0 loop waking v";
    let locked = [
        busy,
        "900 c2 idle switch v",
        "2100 c2 v switch idle blocked call=202:0x1008 op=0x80 value=2 claim=loop",
        "2200 c0 loop waking v",
        "2200 c2 idle switch v",
        "2500 c0 loop switch idle blocked call=232:0x3",
        "8000 c2 v waking loop",
        "8000 c0 idle switch loop",
    ];
    let taken = [POOL[7], POOL[8], POOL[9], POOL[13], POOL[14], POOL[15]];
    // No thread was woken for this request's job: `v` had work, and the job was in the queue.
    let by_v = "2200 loop running noted below 2; 8000 v running noted below 1; ";
    let told = told_with(8300, &locked, &taken, &[]);
    assert!(told.ends_with(by_v), "{told}");
    // The lock had no owner as its word was read.
    let mut unowned = locked;
    unowned[2] = "2100 c2 v switch idle blocked call=202:0x1008 op=0x80 value=2";
    let told = told_with(8300, &unowned, &taken, &[]);
    assert!(told.ends_with(by_v), "{told}");
    // At its condition, it was handed another job.
    unowned[2] = "2100 c2 v switch idle blocked call=202:0x1004";
    assert_eq!(told_with(8300, &unowned, &taken, &[]), "8300 loop unknown ? of a/a; ");
}

#[test]
fn the_last_job_before_the_callback_is_this_one_if_the_loop_slept_behind_the_jobs_before() {
    let again = [
        "2200 c1 idle switch w",
        "2400 c1 w switch idle blocked call=202:0x1000",
        "6000 c2 v waking loop",
        "6000 c0 idle switch loop",
        "6500 c0 loop switch idle blocked call=232:0x3",
    ];
    assert!(told_beside(2150, &again).ends_with("8000 v running noted below 1; "));
}

#[test]
fn a_worker_woken_behind_an_idle_one_has_no_job_from_before() {
    let lines = [
        "0 c3 idle switch u",
        "100 c3 u switch idle blocked call=202:0x1000",
        "2400 c1 w switch idle blocked call=202:0x1000",
        "4100 c0 loop waking u",
        "4100 c3 idle switch u",
        "8000 c3 u waking loop",
        "8000 c0 idle switch loop",
    ];
    assert_eq!(told(&lines, &[POOL[4], POOL[13], POOL[14], POOL[15]]), UNDECIDED);
}

#[test]
fn the_jobs_of_a_turn_are_taken_as_the_last_worker_has_the_queue() {
    // `v` is woken in the turn too, and has no CPU until `u`, woken behind the turn, has taken the second job.
    let lines = [
        "0 c3 idle switch u",
        "100 c3 u switch idle blocked call=202:0x1000",
        "1600 c0 loop waking v",
        "2100 c0 loop waking u",
        "2150 c3 idle switch u",
        "2500 c0 loop switch idle blocked call=232:0x3",
        "3000 c2 idle switch v",
        "3100 c2 v switch idle blocked call=202:0x1000",
        "4100 c1 w switch idle blocked call=202:0x1000",
        "8000 c3 u waking loop",
        "8000 c0 idle switch loop",
    ];
    let told = told(&lines, &[POOL[4], POOL[9], POOL[13], POOL[14], POOL[15]]);
    assert!(told.ends_with("8000 u running noted below 1; "), "{told}");
}

#[test]
fn a_job_handed_over_in_an_earlier_turn_is_waited_for_too() {
    let between = span("a/b < a", (4000, 5000), &[(4000, 5000, "t0")]);
    let told = told_with(8500, &[], &[], &[between]);
    assert_eq!(told, format!("4000 loop timer noted of a/a; 5000 loop running of a/a; {BY_W}"));
}

#[test]
fn a_job_in_the_queue_is_done_by_the_thread_that_woke_the_loop() {
    // `w` has worked since before the turn.
    let busy = [POOL[5], POOL[7], POOL[8]];
    let queued = |added: &[&str], taken: &[&str]| told_with(8300, added, taken, &[]);
    let undecided = "8300 loop unknown ? of a/a; ";
    assert_eq!(queued(&[], &busy), BY_W);
    // A wait for a lock hands no job back.
    let at_lock = [
        "8050 c0 loop switch idle blocked call=202:0x1008",
        "8060 c2 v waking loop",
        "8060 c0 idle switch loop",
    ];
    assert!(queued(&at_lock, &busy).starts_with(BY_W));
    // The loop ran for over a twentieth since.
    assert!(told_with(8301, &[], &busy, &[]).starts_with("8301 loop unknown ? of a/a; "));
    // For another request the loop had worked since.
    let other = span("b/b", (8000, 8300), &[(8100, 8200, "d0")]);
    assert_eq!(told_with(8300, &[], &busy, &[other]), undecided);
    // It waited for the loop meanwhile: then it had no work.
    let waited =
        ["4100 c1 w switch idle blocked call=202:0x1000", "4200 c0 loop waking w", "4200 c1 idle switch w"];
    assert_eq!(queued(&waited, &busy), undecided);
    // Another process's thread.
    let foreign = ["8000 c3 foreign waking loop", "8000 c0 idle switch loop"];
    assert_eq!(
        queued(&foreign, &[&busy[..], &["8000 c1 w waking loop", "8000 c0 idle switch loop"]].concat()),
        undecided
    );
    // The callback was called within the loop's wait, by the program's clock.
    let told = told_with(7900, &[], &busy, &[]);
    assert!(told.starts_with("7900 loop unknown ? of a/a; "), "{told}");
    // A thread woken by a message is no worker.
    let message = ["1600 c0 loop waking v", "1600 c2 idle switch v"];
    let idle = "100 c2 v switch idle blocked call=232:0x5";
    assert_eq!(queued(&[&message[..], &[idle]].concat(), &[&busy[..], &[POOL[6]]].concat()), BY_W);
    // Woken before the turn, and not in it.
    let before = ["900 c0 loop waking w", "900 c1 idle switch w"];
    assert_eq!(queued(&before, &[POOL[7], POOL[8]]), BY_W);
}

#[test]
fn a_busy_worker_works_for_the_request_for_which_it_was_woken_until_it_goes_on() {
    // `b/b` handed a job over at 900; `w` wakes the loop as it is done, at 6000, and goes on with the job in the queue.
    let other = |to| [span("b/b", (700, to), &[(800, 950, "d0")])];
    let woken = ["900 c0 loop waking w", "900 c1 idle switch w"];
    let next = [
        "6000 c1 w waking loop",
        "6000 c0 idle switch loop",
        "6100 c0 loop switch idle blocked call=232:0x3",
    ];
    let added = [&woken[..], &next].concat();
    let taken = [POOL[7], POOL[8]];
    assert_eq!(
        told_with(8300, &added, &taken, &other(7000)),
        "6000 w running noted below 1 of b/b; 8000 w running noted below 1; "
    );
    // The loop waits for the lock of the jobs done, which `w` has as its job ends.
    let at_lock = [
        "4500 c0 loop switch idle blocked call=202:0x1100",
        "4600 c1 w waking loop",
        "4600 c0 idle switch loop",
    ];
    let with_lock = [&woken[..], &at_lock].concat();
    assert!(
        told_with(8300, &with_lock, &taken, &other(7000))
            .starts_with("4600 w running noted below 1 of b/b; ")
    );
    // It had ended before; and the loop was not woken.
    assert_eq!(
        told_with(8300, &added, &taken, &other(1900)),
        "6000 w running noted below 1; 8000 w running noted below 1; "
            .replace("6000 w running noted below 1; ", "")
    );
    assert_eq!(told_with(8300, &woken, &taken, &other(7000)), BY_W);
    // No request had the loop as it woke `w`.
    let none = [span("b/b", (700, 7000), &[(700, 850, "d0")])];
    assert_eq!(told_with(8300, &added, &taken, &none), BY_W);
}

#[test]
fn some_jobs_handed_over_together_wait_in_the_queue() {
    // `v` was woken too, and has not done its job; `w` went on with the next.
    let both = ["1600 c0 loop waking v", "1600 c2 idle switch v"];
    let first = [
        "3000 c1 w waking loop",
        "3000 c0 idle switch loop",
        "3500 c0 loop switch idle blocked call=232:0x3",
    ];
    assert_eq!(told_with(8300, &[&both[..], &first].concat(), &[POOL[15]], &[]), BY_W);
}

#[test]
fn a_wake_up_right_behind_the_turns_end_is_within_the_turn() {
    let taken = [POOL[7], POOL[8], POOL[9]];
    let added = |at: &str, sleeps: &str| {
        let lines = [
            format!("{at} c0 loop waking w"),
            format!("{at} c1 idle switch w"),
            format!("{sleeps} c0 loop switch idle blocked call=232:0x3"),
        ];
        told(&lines.each_ref().map(String::as_str), &taken)
    };
    assert_eq!(added("2000", "2002"), BY_W);
    assert_eq!(added("2001", "2002"), UNDECIDED);
}

#[test]
fn a_call_of_another_service_explains_the_wait_before_any_job() {
    let call = format!("a/c < a {}..{} client tid=10\n", wall(1500), wall(8900));
    let called = format!("service other\na/d < c {}..{} tid=20\n", wall(2000), wall(8000));
    let told = told_with(8500, &[], &[], &[call, called]);
    assert!(told.contains("foreign running called below 1"), "{told}");
}
