//! The words for the reasons why others had the CPU.

use wakepath_findings::{Behind, Confined, CpuReasons, Evidence, Standing};
use wakepath_loaded::{AllowedBy, AllowedCpus, SchedulingClass};

use super::finding::thread_name;
use super::{list, named, unit};
use crate::units::duration;

/// The most threads named on each side.
const MAX_NAMED: usize = 2;

/// The reasons, a line each.
pub fn cpu_reasons(evidence: &Evidence<'_>, reasons: &CpuReasons) -> impl Iterator<Item = String> + use<> {
    let behind = reasons.behind.as_ref().map(|behind| self::behind(evidence, behind));
    behind.into_iter().chain(reasons.confined.as_ref().map(confined))
}

/// `python3 has nice 19, stress-ng-cpu (2 processes) nice 0`.
fn behind(evidence: &Evidence<'_>, behind: &Behind) -> String {
    let waiters: Vec<String> = behind.waiters.iter().map(|name| named(*name)).collect();
    let had = behind.had.iter().map(|(name, processes)| {
        let more =
            if processes.len() > 1 { format!(" ({} processes)", processes.len()) } else { String::new() };
        thread_name(evidence, name) + &more
    });
    let had: Vec<String> = had.collect();
    let is_fair =
        |standing: Standing| matches!(standing.class, SchedulingClass::Other | SchedulingClass::Batch);
    let standing = match is_fair(behind.own) && is_fair(behind.others) {
        true => |standing: Standing| format!("nice {}", standing.nice),
        false => by_class,
    };
    let verb = if waiters.len() > 1 { "have" } else { "has" };
    let [own, others] = [behind.own, behind.others].map(standing);
    format!("{} {verb} {own}, {} {others}", list(&waiters, MAX_NAMED), list(&had, MAX_NAMED))
}

/// A standing by its class: `SCHED_FIFO with priority 50`.
fn by_class(Standing { class, priority, .. }: Standing) -> String {
    let name = class.name().unwrap_or("another class");
    match class {
        SchedulingClass::Fifo | SchedulingClass::RoundRobin => format!("{name} with priority {priority}"),
        _ => String::from(name),
    }
}

/// `python3 may run on CPU 1 only (affinity); another CPU was idle for 1.20 s meanwhile`.
fn confined(Confined { cpus, ns, idle_ns, waiters }: &Confined) -> String {
    let waiters: Vec<String> = waiters.iter().map(|name| named(*name)).collect();
    let by = match &cpus.by {
        None => String::new(),
        Some(AllowedBy::Affinity) => String::from(" (affinity)"),
        Some(AllowedBy::Cpuset(None)) => String::from(" (cpuset)"),
        Some(AllowedBy::Cpuset(Some(of))) => format!(" (cpuset of {})", unit(of)),
    };
    let plural = if matches!(cpus.ranges[..], [(first, last)] if first == last) { "" } else { "s" };
    let mut text =
        format!("{} may run on CPU{plural} {} only{by}", list(&waiters, MAX_NAMED), cpu_ranges(cpus));
    // A moment between two others is no room for the thread.
    if *idle_ns >= ns / 100 && *idle_ns > 0 {
        text += &format!("; another CPU was idle for {} meanwhile", duration(*idle_ns));
    }
    text
}

/// `0-2,5`.
pub fn cpu_ranges(cpus: &AllowedCpus) -> String {
    let range = |&(first, last): &(u16, u16)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let ranges: Vec<String> = cpus.ranges.iter().map(range).collect();
    ranges.join(",")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use wakepath_event::{Comm, Tid};
    use wakepath_findings::ThreadName;
    use wakepath_findings::testing::checkout;
    use wakepath_loaded::Unit;

    use super::*;

    const fn standing(class: SchedulingClass, nice: i8, priority: u8) -> Standing {
        Standing { class, nice, priority }
    }

    fn names(names: &[&str]) -> BTreeSet<Comm> {
        names.iter().map(|name| Comm::new(name.as_bytes())).collect()
    }

    #[test]
    fn others_that_had_precedence_are_said_beside_the_waiting_threads() {
        use SchedulingClass::{Batch, Deadline, Fifo, Idle, Other};
        let story = checkout();
        let words = |own, others, waiters: &[&str], had: &[(&str, u32)]| {
            let thread = |name: &str| ThreadName {
                comm: Comm::new(name.as_bytes()),
                kernel: name == "irq",
                host: None,
            };
            let had: BTreeMap<_, _> =
                had.iter().map(|(name, of)| (thread(name), (0..*of).map(Tid).collect())).collect();
            behind(&story.evidence(), &Behind { own, others, ns: 1, waiters: names(waiters), had })
        };
        let nice = |nice| standing(Other, nice, 0);
        for (own, others, waiters, had, expected) in [
            (
                nice(19),
                nice(0),
                &["python3"][..],
                &[("stress", 2)][..],
                "python3 has nice 19, stress (2 processes) nice 0",
            ),
            (nice(0), nice(-5), &["a", "b"], &[("c", 1), ("d", 1)], "a and b have nice 0, c and d nice -5"),
            (nice(0), nice(-5), &["a", "b", "c"], &[("d", 0)], "a, b and 1 more have nice 0, d nice -5"),
            (standing(Batch, 5, 0), nice(0), &["a"], &[("b", 1)], "a has nice 5, b nice 0"),
            (
                nice(0),
                standing(Fifo, 0, 50),
                &["a"],
                &[("irq", 1)],
                "a has SCHED_OTHER, kernel thread irq SCHED_FIFO with priority 50",
            ),
            (standing(Idle, 0, 0), nice(7), &["a"], &[("b", 1)], "a has SCHED_IDLE, b SCHED_OTHER"),
            (nice(0), standing(Deadline, 0, 0), &["a"], &[("b", 1)], "a has SCHED_OTHER, b SCHED_DEADLINE"),
        ] {
            assert_eq!(words(own, others, waiters, had), expected);
        }
    }

    #[test]
    fn allowed_cpus_are_said_with_the_reason_and_the_idle_time_of_others() {
        let words = |ranges: &[(u16, u16)], by, idle_ns| {
            let cpus = AllowedCpus { ranges: ranges.to_vec(), by };
            confined(&Confined { cpus, ns: 1000, idle_ns, waiters: names(&["app"]) })
        };
        let unit = Unit::Cgroup("shop".into());
        assert_eq!(words(&[(1, 1)], Some(AllowedBy::Affinity), 0), "app may run on CPU 1 only (affinity)");
        assert_eq!(
            words(&[(0, 2), (5, 5)], Some(AllowedBy::Cpuset(Some(unit))), 9),
            "app may run on CPUs 0-2,5 only (cpuset of shop)"
        );
        assert_eq!(
            words(&[(0, 1)], Some(AllowedBy::Cpuset(None)), 10),
            "app may run on CPUs 0-1 only (cpuset); another CPU was idle for 10 ns meanwhile"
        );
        assert_eq!(words(&[(3, 3)], None, 0), "app may run on CPU 3 only");
    }
}
