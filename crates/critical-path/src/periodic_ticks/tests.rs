//! Which time-outs are ticks, at both sides of each limit.

use std::fmt::Write;
use std::time::{Duration, Instant};

use super::*;

/// A thread's waits in a row, each `30t`: its end, ms, and how it ended. Behind it the thread runs for 10 us, or, in `30t+4.5`, for 4.5 ms.
///
/// | end | meaning |
/// |---|---|
/// | `t`, `a`, `l` | a time-out; behind it the thread wakes another; behind it records are lost |
/// | `p` | a timer; the kernel does not say whether something was ready |
/// | `s` | a timer's signal |
/// | `u` | a time-out in another set |
/// | `e`, `o`, `r` | an event; in another set; in a read |
struct Waits {
    graph: Graph,
    ends: Vec<String>,
}

fn waits(drawn: &str) -> Waits {
    let mut trace = String::from(
        "thread A tid=10
         thread S tid=20
         0 c0 idle started
         0 c0 idle switch A
         0 c1 idle switch S\n",
    );
    let ns = |ms: &str| -> u64 {
        let (whole, part) = ms.split_once('.').unwrap_or((ms, ""));
        format!("{whole}{part:0<6}").parse().expect("ms")
    };
    let mut from = 1_000_000;
    let ends: Vec<_> = drawn.split_whitespace().map(str::to_owned).collect();
    for end in &ends {
        let (end, run) = end.split_once('+').unwrap_or((end, "0.01"));
        let (at, kind) = end.split_at(end.len() - 1);
        let at = ns(at);
        let call = match kind {
            "r" => "0:3",
            "o" | "u" => "232:5",
            _ => "232:4",
        };
        let _ = writeln!(trace, "{from} c0 A switch idle blocked call={call}");
        let _ = match kind {
            "t" | "a" | "l" | "s" | "u" => writeln!(
                trace,
                "{at} c0 idle/timer descriptor A none\n{at} c0 idle/timer waking A\n{at} c0 idle switch A"
            ),
            "p" => writeln!(trace, "{at} c0 idle/timer waking A\n{at} c0 idle switch A"),
            _ => writeln!(trace, "{at} c1 S waking A\n{at} c0 idle switch A"),
        };
        let us = |us: u64| at + us * 1000;
        let _ = match kind {
            "a" => writeln!(trace, "{} c0 A waking S", us(5)),
            "l" => writeln!(trace, "{0} c0 A loss from={1} count=2\n{0} c0 A sample", us(9), us(2)),
            "s" => writeln!(trace, "{} c0 A signal 14 handled cut=232 sent={at} by=idle", us(1)),
            _ => Ok(()),
        };
        from = at + ns(run);
    }
    let _ = writeln!(trace, "{from} c0 A stopped");
    let script = wakepath_scenario::text::parse(&trace).expect("a trace");
    Waits { graph: script.events.iter().collect(), ends }
}

impl Waits {
    fn ticks(&self) -> PeriodicTicks {
        let window = Window { thread: ThreadIndex(0), from: self.graph.from(), to: self.graph.to() };
        PeriodicTicks::of(&self.graph, ThreadIndex(0), &window)
    }

    /// The drawn waits, by state interval.
    fn drawn(&self) -> BTreeMap<usize, &str> {
        let intervals = self.graph.state_intervals(ThreadIndex(0));
        let all = (0..intervals.len()).filter(|&index| {
            intervals.get(index).is_some_and(|interval| self.graph.wait(&interval).is_some())
        });
        all.zip(self.ends.iter().map(String::as_str)).collect()
    }
}

/// The waits that ticks ended.
fn ticks(drawn: &str) -> String {
    let waits = waits(drawn);
    let drawn = waits.drawn();
    let ticks: Vec<_> = waits.ticks().ticks.iter().map(|tick| drawn[&tick.wait]).collect();
    ticks.join(" ")
}

#[test]
fn three_time_outs_with_a_phase_are_ticks_and_two_are_none() {
    assert_eq!(ticks("30t 70e 130.01t 180e 230.02t 300e"), "30t 130.01t 230.02t");
    assert_eq!(ticks("30t 70e 130.01t 180e"), "");
    assert_eq!(ticks("70e 180e"), "");
    // The last time-out without a wait behind it counts for nothing.
    assert_eq!(ticks("30t 70e 130.01t 180e 230.02t"), "");
}

#[test]
fn a_tick_may_come_two_percent_and_a_millisecond_early_or_late() {
    let with = |end: &str| ticks(&format!("30t 70e 130.01t 180e {end} 300e"));
    assert_eq!(with("227.01t"), "30t 130.01t 227.01t");
    assert_eq!(with("227.009999t"), "");
    assert_eq!(with("233.02t"), "30t 130.01t 233.02t");
    assert_eq!(with("233.020001t"), "");
}

#[test]
fn a_tick_is_due_a_period_behind_its_last_run() {
    // It runs for 20 ms, and may set its timer again at any time meanwhile.
    let with = |end: &str| ticks(&format!("30t 70e 130.01t+20 180e {end} 300e"));
    assert_eq!(with("227.01t"), "30t 130.01t+20 227.01t");
    assert_eq!(with("227.009999t"), "");
    assert_eq!(with("253.01t"), "30t 130.01t+20 253.01t");
    assert_eq!(with("253.010001t"), "");
}

#[test]
fn a_thread_that_runs_for_more_than_a_quarter_of_the_period_works() {
    let with = |run: &str| ticks(&format!("30t 70e 130.01t+{run} 180e 240t 300e"));
    assert_eq!(with("25"), "30t 130.01t+25 240t");
    assert_eq!(with("25.000001"), "");
}

#[test]
fn shorter_periods_need_four_ticks_and_below_ten_milliseconds_there_are_none() {
    // Ends a period and 10 us apart, with an event in the second and the fourth period.
    let many = |us: u64, count: u64| {
        let at = |tick: u64| 1_000 + tick * (us + 10);
        let drawn = (1..=count).fold(String::new(), |drawn, tick| {
            let end = at(tick);
            let event = if tick % 2 == 0 {
                format!("{}.{:03}e ", (end - us / 2) / 1000, (end - us / 2) % 1000)
            } else {
                String::new()
            };
            drawn + &event + &format!("{}.{:03}t ", end / 1000, end % 1000)
        });
        let found = ticks(&format!("{drawn} 9999e"));
        found.split_whitespace().count()
    };
    assert_eq!([many(88_889, 2), many(88_889, 3)], [0, 3]);
    assert_eq!([many(88_888, 3), many(88_888, 4)], [0, 4]);
    assert_eq!([many(9_524, 3), many(9_524, 4)], [0, 4]);
    assert_eq!([many(9_523, 4), many(9_515, 9)], [0, 0]);
}

#[test]
fn with_a_missed_point_or_another_time_out_five_ticks_are_needed() {
    // At 230 ms an event ends the wait.
    assert_eq!(ticks("30t 70e 130t 180e 230e 330t 430t 500e"), "");
    assert_eq!(ticks("30t 70e 130t 180e 230e 330t 430t 530t 600e"), "30t 130t 330t 430t 530t");
    assert_eq!(ticks("30t 70e 130t 180e 230t 270t 330t 400e"), "");
    assert_eq!(ticks("30t 70e 130t 180e 230t 270t 330t 430t 500e"), "30t 130t 230t 330t 430t");
    // The missed point may be the first.
    assert_eq!(ticks("30t 70e 130e 230t 300e 330t 430t 530t 600e"), "30t 230t 330t 430t 530t");
}

#[test]
fn the_shortest_periods_need_nine_ticks_if_a_point_is_missed() {
    let with = |count: u64| {
        let ends: Vec<_> = (1..=count).map(|tick| format!("{}t", 30 + 10 * tick)).collect();
        ticks(&format!("10t 15e 20t 28e 30e {} 9999e", ends.join(" "))).split_whitespace().count()
    };
    assert_eq!([with(6), with(7)], [0, 9]);
}

#[test]
fn two_points_in_a_row_are_not_missed() {
    assert_eq!(ticks("30t 70e 130t 180e 230t 330e 430t 530t 600e"), "30t 130t 230t 430t 530t");
    assert_eq!(ticks("30t 70e 130t 180e 230t 330e 430e 530t 630t 700e"), "30t 130t 230t");
    assert_eq!(ticks("30t 70e 130t 180e 230e 330t 430e 530t 630t 700e"), "30t 130t 330t 530t 630t");
}

#[test]
fn a_wait_that_lasts_past_a_point_ends_a_grid() {
    // The point is at 230.01 ms, at most 233.02 ms.
    let with = |wait: &str| ticks(&format!("30t 70e 130.01t 180e {wait} 330t 430t 530t 600e"));
    let (all, behind) = ("30t 130.01t 330t 430t 530t", "330t 430t 530t");
    assert_eq!(with("233.02e"), all);
    assert_eq!(with("233.020001e"), behind);
    // The wait begins before the first moment at which the tick was due, or not.
    assert_eq!(with("226.999e 250e"), behind);
    assert_eq!(with("227.001e 250e"), all);
    // A wait for something else hides the tick.
    assert_eq!([with("250r"), with("250o")], [all, all]);
}

#[test]
fn the_lengths_of_the_waits_differ() {
    // Each wait lasts 100 ms, but the second.
    let with = |event: &str| ticks(&format!("101t {event}e 201.01t 301.02t 400e"));
    assert_eq!(with("104.01"), "101t 201.01t 301.02t");
    assert_eq!(with("104"), "");
    // An own timer's waits have equal lengths, whatever the phase.
    assert_eq!(ticks("101t 131e 231.01t 261e 361.01t 391e 491.01t 521e"), "");
}

#[test]
fn a_wait_that_began_before_the_recording_has_no_length() {
    let snapshot = |blocked: &str, at: u64| {
        let trace = format!(
            "thread A tid=10 {blocked} call=232:4
             thread S tid=20
             0 c0 idle started
             0 c1 idle switch S
             {at} c0 idle/timer descriptor A none
             {at} c0 idle/timer waking A
             {at} c0 idle switch A
             60010000 c0 A switch idle blocked call=232:4
             160010000 c0 idle/timer descriptor A none
             160010000 c0 idle/timer waking A
             160010000 c0 idle switch A
             160020000 c0 A switch idle blocked call=232:4
             260020000 c0 idle/timer descriptor A none
             260020000 c0 idle/timer waking A
             260020000 c0 idle switch A
             260030000 c0 A switch idle blocked call=232:4
             300000000 c1 S waking A
             300000000 c0 idle switch A
             300010000 c0 A stopped"
        );
        let script = wakepath_scenario::text::parse(&trace).expect("a trace");
        Waits { graph: script.events.iter().collect(), ends: Vec::new() }.ticks().ticks.len()
    };
    assert_eq!(snapshot("blocked", 60_000_000), 0);
}

#[test]
fn a_program_that_acts_behind_half_of_the_time_outs_polls() {
    assert_eq!(ticks("30t 70e 130t 180e 230a 300e 330a 400e"), "");
    assert_eq!(ticks("30t 70e 130t 180e 230t 300e 330a 400e"), "30t 130t 230t");
}

#[test]
fn a_tick_leads_back_to_its_set() {
    assert_eq!(ticks("30t 70e 130t 180e 230t 250r 300e 330t 400e"), "30t 130t 330t");
    assert_eq!(ticks("30t 70e 130t 180e 230t 250o 300e 330t 400e"), "30t 130t 330t");
    // Time-outs in two sets make no grid.
    assert_eq!(ticks("30t 70e 130u 180e 230t 300e 330u 400e"), "");
    assert_eq!(ticks("30t 70e 130p 180e 230t 300e 330t 400e"), "");
    // A timer's signal is no time-out, though nothing was ready.
    assert_eq!(ticks("30t 70e 130t 180e 230s 300e"), "");
}

#[test]
fn most_time_outs_of_a_loop_are_on_grids() {
    let grid = "30t 70e 130t 180e 230t";
    assert_eq!(ticks(&format!("{grid} 246t 309t 400e")), "30t 130t 230t");
    assert_eq!(ticks(&format!("{grid} 246t 309t 316t 400e")), "");
}

#[test]
fn the_next_tick_is_among_the_next_four_time_outs() {
    let rest =
        "150e 200t 250e 300t 350e 400t 450e 500t 550e 600t 650e 700t 750e 800t 850e 900t 950e 1000t 1100e";
    let after = "200t 300t 400t 500t 600t 700t 800t 900t 1000t";
    assert_eq!(ticks(&format!("100t 113t 131t 157t {rest}")), format!("100t {after}"));
    assert_eq!(ticks(&format!("100t 113t 131t 157t 176t {}", rest.replace("150e ", ""))), after);
}

#[test]
fn a_row_of_ticks_leads_to_the_wait_behind_the_last() {
    let waits = waits("30t 70e 130.01t 180e 230.02t 330.03t 400e");
    let (drawn, ticks) = (waits.drawn(), waits.ticks());
    let leads: Vec<_> = ticks.ticks.iter().map(|tick| (drawn[&tick.wait], drawn[&tick.next])).collect();
    let expected = [("30t", "70e"), ("130.01t", "180e"), ("230.02t", "400e"), ("330.03t", "400e")];
    assert_eq!(leads, expected);
    let (wait, _) = drawn.iter().find(|(_, end)| **end == "230.02t").expect("a wait");
    assert_eq!(ticks.at(*wait).map(|tick| drawn[&tick.next]), Some("400e"));
    assert_eq!(ticks.at(wait + 1), None);
}

#[test]
fn a_tick_behind_which_records_are_lost_leads_to_a_doubtful_wait() {
    let waits = waits("30t 70e 130.01t 180e 230.02t 330.03l 400e");
    let (drawn, ticks) = (waits.drawn(), waits.ticks());
    let lost: Vec<_> = ticks.ticks.iter().filter(|tick| tick.lost).map(|tick| drawn[&tick.wait]).collect();
    assert_eq!(lost, ["230.02t", "330.03l"]);
}

#[test]
fn ticks_are_looked_for_around_the_window() {
    // This number of events lies between two ticks.
    let with = |events: usize| {
        let between = |from: usize| {
            (0..events).fold(String::new(), |mut drawn, event| {
                let us = from + 20 + event * 99_000 / events;
                let _ = write!(drawn, "{}.{:03}e ", us / 1000, us % 1000);
                drawn
            })
        };
        let waits = waits(&format!("30t {}130t {}230t 300e", between(30_000), between(130_000)));
        let at = Stamp::from_ns(129_999_000);
        let window = Window { thread: ThreadIndex(0), from: at, to: at };
        PeriodicTicks::of(&waits.graph, ThreadIndex(0), &window).ticks.len()
    };
    // Each event has two intervals.
    assert_eq!([with(1000), with(1100)], [3, 0]);
}

#[test]
fn an_idle_loop_costs_a_look_at_each_time_out() {
    let mut drawn = String::new();
    for tick in 1..=20_000 {
        let _ = write!(drawn, "{}.{:02}t ", tick * 100, tick % 100);
    }
    let waits = waits(&drawn);
    let began = Instant::now();
    assert_eq!(waits.ticks().ticks.len(), 0);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
