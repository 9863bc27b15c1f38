//! Signals that asked for an end, in traces drawn as text. Times are in ms.

use wakepath_critical_path::{Timeouts, active_by};

use super::*;
use crate::deaths::tests::{in_ms, window_of};
use crate::{KilledBy, deaths};

/// A script asks a process to end, sleeps, and kills it at 900.
const STOP: &str = "
    thread stop tid=10
    thread entry tid=20
    0 c0 idle started
    0 c0 idle switch stop
    1 c1 idle switch entry
    10 c0 stop sends 15 entry ignored
    20 c0 stop switch idle blocked=interruptible call=35:0
    30 c1 entry switch idle blocked=interruptible call=0:3
    890 c0 idle/timer waking stop
    895 c0 idle switch stop
    900 c0 stop waking entry
    901 c1 idle switch entry
    902 c1 entry signal 9 cut=0 sent=900 by=stop
    903 c1 entry exit
    904 c1 entry switch idle dead
    1000 c0 stop exit
    1001 c0 stop switch idle dead
    1100 c1 idle stopped
";

fn told(trace: &str, tid: u32) -> Vec<String> {
    let recorded = in_ms(trace, &[]);
    let path = active_by(recorded.graph(), window_of(&recorded, tid), Timeouts::AsTheyAre);
    let one = |it: &Unheeded| {
        let end = match it.end {
            LivedUntil::Killed(death) => {
                let by = matches!(death.by, KilledBy::Thread(_));
                format!("killed by {}{}", death.signal, if by { " of a thread" } else { "" })
            }
            other => format!("{other:?}"),
        };
        let tid = recorded.graph().thread(it.target).tid();
        format!(
            "{} to {tid} at {}: {:?}, {end} after {}",
            it.signal,
            it.at.ns() / 1_000_000,
            it.why,
            it.lived_ns / 1_000_000
        )
    };
    unheeded(&recorded, &path, &deaths(&recorded)).iter().map(one).collect()
}

fn changed(changes: &[(&str, &str)]) -> Vec<String> {
    let mut trace = STOP.to_owned();
    for (from, to) in changes {
        assert!(trace.contains(from), "{from}");
        trace = trace.replacen(from, to, 1);
    }
    told(&trace, 10)
}

#[test]
fn a_signal_that_had_no_effect_until_a_kill_is_told_with_its_reason() {
    let killed = |why: &str| [format!("15 to 20 at 10: {why}, killed by 9 of a thread after 892")];
    assert_eq!(changed(&[]), killed("Ignores"));
    assert_eq!(changed(&[("entry ignored", "entry dropped")]), killed("FirstInNamespace"));
    assert_eq!(changed(&[("entry ignored", "entry handled")]), killed("NotTaken"));
    assert_eq!(changed(&[("entry ignored", "entry")]), killed("NotTaken"));
    let ran = ("20 c0", "15 c1 entry signal 15 handled\n20 c0");
    assert_eq!(changed(&[("entry ignored", "entry handled"), ran]), killed("HandlerRan"));
    let other = ("20 c0", "15 c1 entry signal 10 handled\n20 c0");
    assert_eq!(changed(&[("entry ignored", "entry handled"), other]), killed("NotTaken"), "another signal's");
    // The second of equal signals says no more.
    let again = ("900 c0 stop waking", "896 c0 stop sends 15 entry ignored\n900 c0 stop waking");
    assert_eq!(changed(&[again]), killed("Ignores"));
    assert_eq!(told(STOP, 20), killed("Ignores"), "for the process that was asked to end");
}

#[test]
fn a_signal_with_an_effect_or_without_a_wait_for_it_is_not_told() {
    for (what, changes) in [
        ("it obeyed", &[("10 c0 stop sends 15 entry ignored", "880 c0 stop sends 15 entry handled")][..]),
        (
            "somebody else killed it",
            &[
                ("thread entry", "thread other tid=30\nthread entry"),
                ("sent=900 by=stop", "sent=900 by=other"),
            ],
        ),
        (
            "a stranger sent it, and a stranger killed",
            &[
                ("thread entry", "thread other tid=30\nthread entry"),
                ("10 c0 stop sends", "10 c2 other sends"),
                ("by=stop", "by=other"),
            ],
        ),
        (
            "a stranger sent it",
            &[
                ("thread entry", "thread other tid=30\nthread entry"),
                ("10 c0 stop sends", "10 c2 other sends"),
            ],
        ),
        ("it is a kill for want of memory", &[("15 entry ignored", "9 entry oom")]),
    ] {
        assert_eq!(changed(changes), [""; 0], "{what}");
    }
}

#[test]
fn whoever_looks_whether_a_process_still_runs_waits_for_its_end() {
    let lives = [
        ("902 c1 entry signal 9 cut=0 sent=900 by=stop", ""),
        ("903 c1 entry exit", ""),
        ("904 c1 entry switch idle dead", ""),
    ];
    assert_eq!(changed(&lives), [""; 0]);
    let polls = |object: &str| ("20 c0", format!("20 c0 stop failed 62 0 {object}\n20 c0"));
    let (from, to) = polls("process=20");
    assert_eq!(changed(&[&lives[..], &[(from, &to)]].concat()), ["15 to 20 at 10: Ignores, Lives after 991"]);
    let (from, to) = polls("process=21");
    assert_eq!(changed(&[&lives[..], &[(from, &to)]].concat()), [""; 0], "another process");
}
