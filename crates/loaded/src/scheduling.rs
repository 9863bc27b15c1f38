//! How the scheduler treated a thread: its nice value, class and allowed CPUs.
//!
//! Threads were looked at now and then, and what a look found is known for no other time. Two equal looks show what was
//! between them; two that differ leave it open. Ordinary threads have no looks: looks at all threads stand for them.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_event::{Cpu, HostIndex, Tid};
use wakepath_wait_graph::ThreadIndex;

use crate::{Name, Recorded, Unit};

/// How the scheduler treated a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scheduling {
    /// Its nice value, -20 to 19.
    pub nice: i8,
    /// Its class.
    pub class: SchedulingClass,
    /// Its real-time priority, 1 to 99; 0 in other classes.
    pub priority: u8,
    /// The threads with which it shares CPU time, beside its cgroup.
    pub sharing: Sharing,
    /// The CPUs on which it might run, if not on all.
    pub cpus: Option<AllowedCpus>,
}

/// A scheduling class, as `sched_setscheduler` has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SchedulingClass {
    /// `SCHED_OTHER`.
    #[default]
    Other,
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    RoundRobin,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_DEADLINE`.
    Deadline,
    /// Another class, by the kernel's number.
    Numbered(u8),
}

/// The threads among which nice values count: a cgroup's, or a session's in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sharing {
    /// Not looked at.
    #[default]
    Unknown,
    /// Its whole cgroup.
    Cgroup,
    /// Its session (autogroup), by number.
    Session(u64),
}

/// The CPUs on which a thread might run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AllowedCpus {
    /// Ranges, first and last.
    pub ranges: Vec<(u16, u16)>,
    /// Why on no others, if known.
    pub by: Option<AllowedBy>,
}

/// The reason why a thread might not run on some CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AllowedBy {
    /// `sched_setaffinity`, as `taskset` does.
    Affinity,
    /// A cgroup's cpuset; `None` is the outermost.
    Cpuset(Option<Unit>),
}

impl SchedulingClass {
    /// The kernel's name.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Other => "SCHED_OTHER",
            Self::Fifo => "SCHED_FIFO",
            Self::RoundRobin => "SCHED_RR",
            Self::Batch => "SCHED_BATCH",
            Self::Idle => "SCHED_IDLE",
            Self::Deadline => "SCHED_DEADLINE",
            Self::Numbered(_) => return None,
        })
    }

    /// Whether its threads run before all threads of fair classes.
    pub const fn is_real_time(self) -> bool {
        matches!(self, Self::Fifo | Self::RoundRobin | Self::Deadline)
    }
}

impl From<u8> for SchedulingClass {
    fn from(policy: u8) -> Self {
        match policy {
            0 => Self::Other,
            1 => Self::Fifo,
            2 => Self::RoundRobin,
            3 => Self::Batch,
            5 => Self::Idle,
            6 => Self::Deadline,
            other => Self::Numbered(other),
        }
    }
}

impl AllowedCpus {
    /// Whether a thread might run on this CPU.
    pub fn has(&self, cpu: Cpu) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&cpu.0))
    }

    /// Ranges as the kernel writes them: `0-2,5`.
    fn parse(text: &str) -> Option<Vec<(u16, u16)>> {
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last).then_some((first, last))
        };
        text.split(',').map(range).collect()
    }
}

impl Scheduling {
    /// An ordinary thread's.
    const ORDINARY: Self =
        Self { nice: 0, class: SchedulingClass::Other, priority: 0, sharing: Sharing::Unknown, cpus: None };

    /// Whether threads that are scheduled so compete alike, on whatever CPUs.
    fn has_equal_precedence(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.nice, it.class, it.priority, it.sharing);
        of(self) == of(other)
    }

    /// From a recorded text, such as `nice 19 policy 0 priority 0 autogroup 10 cpus 1 by affinity`.
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (text, by) = match text.split_once(" by ") {
            Some((text, "affinity")) => (text, Some(AllowedBy::Affinity)),
            Some((text, by)) => {
                let path = by.strip_prefix("cpuset ")?;
                (text, Some(AllowedBy::Cpuset(Unit::from_cgroup_path(path.as_bytes()))))
            }
            None => (text, None),
        };
        let mut words = text.split(' ');
        let mut found = Self { sharing: Sharing::Cgroup, ..Self::default() };
        while let Some(key) = words.next() {
            let value = words.next()?;
            match key {
                "nice" => found.nice = value.parse().ok().filter(|nice| (-20..=19).contains(nice))?,
                "policy" => found.class = value.parse::<u8>().ok()?.into(),
                "priority" => found.priority = value.parse().ok()?,
                "autogroup" => found.sharing = Sharing::Session(value.parse().ok()?),
                "cpus" => {
                    found.cpus = Some(AllowedCpus { ranges: AllowedCpus::parse(value)?, by: by.clone() });
                }
                _ => return None,
            }
        }
        Some(found)
    }
}

/// Whether a thread was scheduled alike at two looks, but for its session, which a thread leaves before the look at its exit.
fn has_left_session(before: &Scheduling, at_exit: &Scheduling) -> bool {
    Scheduling { sharing: Sharing::Cgroup, ..before.clone() } == *at_exit
}

/// The longest time from the look at an exiting thread to its end, ns.
const EXIT_NS: u64 = 1_000_000;

/// A look's time, and what it found; `None` where that makes no sense.
type Look = (Stamp<Local>, Option<Scheduling>);

/// The looks at threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schedulings {
    by_tid: BTreeMap<Tid, Vec<Look>>,
    /// The looks at all of a host's threads.
    at_all: BTreeMap<HostIndex, Vec<Stamp<Local>>>,
    /// The hosts where sessions share CPU time.
    with_sessions: BTreeSet<HostIndex>,
}

impl Schedulings {
    /// Notes a look by its name. Looks come in time order.
    pub(crate) fn observe(&mut self, at: Stamp<Local>, host: HostIndex, key: u64, text: &Name) {
        if key == 0 {
            self.at_all.entry(host).or_default().push(at);
            return;
        }
        let Ok(tid) = u32::try_from(key) else { return };
        let found = Scheduling::parse(text.bytes());
        if matches!(found, Some(Scheduling { sharing: Sharing::Session(_), .. })) {
            self.with_sessions.insert(host);
        }
        self.by_tid.entry(Tid(tid)).or_default().push((at, found));
    }

    /// How a thread was scheduled at `at`, and since when; `is_alike` says which looks show the same.
    fn at(
        &self,
        tid: Tid,
        [since, until]: [Stamp<Local>; 2],
        at: Stamp<Local>,
        is_alike: impl Fn(&Scheduling, &Scheduling) -> bool,
    ) -> Option<(Stamp<Local>, &Scheduling)> {
        let looks = self.by_tid.get(&tid).map_or(&[][..], Vec::as_slice);
        let first = looks.partition_point(|(when, _)| *when < since);
        let last = looks.partition_point(|(when, _)| *when <= until);
        let own = looks.get(first..last).unwrap_or_default();
        let next = own.partition_point(|(when, _)| *when <= at);
        if own.is_empty() {
            let all = self.at_all.get(&tid.host())?;
            let begin = *all.first()?;
            return (begin <= at && at <= *all.last()?).then_some((begin, &Scheduling::ORDINARY));
        }
        let (seen, before) = own.get(next.checked_sub(1)?)?;
        let before = before.as_ref()?;
        let is_last = next + 1 == own.len() && until != Stamp::from_ns(u64::MAX);
        let is_known = match own.get(next) {
            Some((_, Some(after))) => is_alike(before, after) || is_last && has_left_session(before, after),
            Some((_, None)) => false,
            // A thread is looked at as it exits, and then leaves its CPU for the last time.
            None => until.ns().saturating_sub(seen.ns()) <= EXIT_NS,
        };
        let equal = own[..next].iter().rev();
        let mut equal =
            equal.take_while(|(_, look)| look.as_ref().is_some_and(|look| is_alike(look, before)));
        is_known.then_some((equal.by_ref().last()?.0, before))
    }
}

impl Recorded {
    /// Whether how threads were scheduled was recorded.
    pub fn has_scheduling(&self) -> bool {
        !self.names().schedulings.at_all.is_empty()
    }

    /// Whether CPU time on a thread's host is shared by sessions before threads.
    pub fn has_sessions(&self, thread: ThreadIndex) -> bool {
        self.names().schedulings.with_sessions.contains(&self.graph.thread(thread).tid().host())
    }

    /// How a thread was scheduled at `at`, and since when at least; `None` where that is not known.
    pub fn scheduling(
        &self,
        index: ThreadIndex,
        at: Stamp<Reference>,
    ) -> Option<(Stamp<Reference>, &Scheduling)> {
        self.scheduled(index, at, Scheduling::eq)
    }

    /// The same, whatever CPUs the thread might run on: its nice value, class and session.
    pub fn precedence(
        &self,
        index: ThreadIndex,
        at: Stamp<Reference>,
    ) -> Option<(Stamp<Reference>, &Scheduling)> {
        self.scheduled(index, at, Scheduling::has_equal_precedence)
    }

    fn scheduled(
        &self,
        index: ThreadIndex,
        at: Stamp<Reference>,
        is_alike: impl Fn(&Scheduling, &Scheduling) -> bool,
    ) -> Option<(Stamp<Reference>, &Scheduling)> {
        let thread = self.graph.thread(index);
        // Names are read at the events' stamps, which are the graph's.
        let local = |at: Stamp<Reference>| Stamp::<Local>::from_ns(at.ns());
        let begin = thread.identity.as_ref().map_or(local(thread.first), |identity| identity.start);
        let until = match self.graph.has_died(index) {
            true => local(thread.last),
            false => Stamp::from_ns(u64::MAX),
        };
        let (since, found) =
            self.names().schedulings.at(thread.tid_at(at), [begin, until], local(at), is_alike)?;
        Some((Stamp::from_ns(since.ns()), found))
    }

    /// The host of a CPU, and the CPU's number there.
    pub fn own_cpu(&self, cpu: Cpu) -> (HostIndex, Cpu) {
        let of_other = self.numbering.as_ref().and_then(|numbering| numbering.cpu_of(cpu));
        of_other.unwrap_or((HostIndex::default(), cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_nice_value_the_class_the_group_and_the_cpus() {
        let of = |text: &str| Scheduling::parse(text.as_bytes());
        let fair = Scheduling { nice: 19, sharing: Sharing::Cgroup, ..Scheduling::default() };
        assert_eq!(of("nice 19 policy 0 priority 0"), Some(fair.clone()));
        let session = Scheduling { sharing: Sharing::Session(10), ..fair.clone() };
        assert_eq!(of("nice 19 policy 0 priority 0 autogroup 10"), Some(session));
        let with = |by| {
            Some(Scheduling { cpus: Some(AllowedCpus { ranges: vec![(0, 2), (5, 5)], by }), ..fair.clone() })
        };
        assert_eq!(of("nice 19 policy 0 priority 0 cpus 0-2,5"), with(None));
        assert_eq!(of("nice 19 policy 0 priority 0 cpus 0-2,5 by affinity"), with(Some(AllowedBy::Affinity)));
        let cpuset = |unit: Option<&str>| Some(AllowedBy::Cpuset(unit.map(|unit| Unit::Cgroup(unit.into()))));
        let text = "nice 19 policy 0 priority 0 cpus 0-2,5 by cpuset ";
        assert_eq!(of(&format!("{text}/a/b by c")), with(cpuset(Some("b by c"))));
        assert_eq!(of(&format!("{text}/")), with(cpuset(None)));
        for class in [1, 2, 3, 5, 6, 7, 4] {
            let found = of(&format!("nice 0 policy {class} priority 50")).expect("a class");
            assert_eq!((found.class, found.priority), (SchedulingClass::from(class), 50));
        }
    }

    #[test]
    fn threads_on_other_cpus_may_compete_alike_and_those_with_another_value_do_not() {
        let of = |text: &str| Scheduling::parse(text.as_bytes()).expect("a text");
        let one = of("nice 1 policy 1 priority 10 autogroup 3 cpus 1");
        assert!(one.has_equal_precedence(&of("nice 1 policy 1 priority 10 autogroup 3")));
        for other in [
            "nice 2 policy 1 priority 10 autogroup 3 cpus 1",
            "nice 1 policy 2 priority 10 autogroup 3 cpus 1",
            "nice 1 policy 1 priority 11 autogroup 3 cpus 1",
            "nice 1 policy 1 priority 10 autogroup 4 cpus 1",
        ] {
            assert!(!one.has_equal_precedence(&of(other)), "{other}");
        }
    }

    #[test]
    fn a_senseless_text_is_nothing() {
        for text in [
            "",
            "nice",
            "nice x",
            "nice 20",
            "nice -21",
            "nice 19 policy",
            "policy 256",
            "priority 300",
            "autogroup -1",
            "cpus ",
            "cpus 3-1",
            "cpus 1,,2",
            "cpus 70000",
            "cpus 1 by taskset",
            "colour 3",
            "nice  1",
        ] {
            assert_eq!(Scheduling::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Scheduling::parse(b"nice \xff"), None);
    }

    #[test]
    fn an_allowed_cpu_is_in_one_of_the_ranges() {
        let cpus = AllowedCpus { ranges: vec![(1, 2), (5, 5)], by: None };
        let allowed: Vec<u16> = (0..8).filter(|cpu| cpus.has(Cpu(*cpu))).collect();
        assert_eq!(allowed, [1, 2, 5]);
    }

    /// Thread 7's nice value at `at`, by looks at it (time, text), and at all threads; it lives from 10 to 90.
    fn nice(looks: &[(u64, &str)], at_all: &[u64], at: u64) -> Option<i8> {
        let mut schedulings = Schedulings::default();
        let stamp = Stamp::from_ns;
        let host = HostIndex::default();
        looks.iter().for_each(|(at, text)| schedulings.observe(stamp(*at), host, 7, &Name::from(*text)));
        at_all.iter().for_each(|at| schedulings.observe(stamp(*at), host, 0, &Name::from("")));
        let found = schedulings.at(Tid(7), [stamp(10), stamp(90)], stamp(at), Scheduling::eq);
        found.map(|(_, scheduling)| scheduling.nice)
    }

    #[test]
    fn two_equal_looks_show_what_was_between_them_and_two_that_differ_do_not() {
        let looks = [(20, "nice 19"), (30, "nice 19"), (50, "nice 5"), (70, "nice 5")];
        let at = |at| nice(&looks, &[0, 100], at);
        assert_eq!([20, 29, 50, 69].map(at), [Some(19), Some(19), Some(5), Some(5)]);
        assert_eq!([10, 19, 30, 49].map(at), [None; 4]);
        assert_eq!([70, 90].map(at), [Some(5); 2], "it ended right behind its last look");
        assert_eq!(nice(&[(20, "nice x"), (70, "nice x")], &[0, 100], 50), None);
    }

    #[test]
    fn a_look_long_before_a_threads_end_shows_nothing_behind_it() {
        let stamp = Stamp::from_ns;
        let mut schedulings = Schedulings::default();
        [20, 70]
            .iter()
            .for_each(|at| schedulings.observe(stamp(*at), HostIndex::default(), 7, &Name::from("nice 5")));
        let known =
            |until| schedulings.at(Tid(7), [stamp(10), stamp(until)], stamp(75), Scheduling::eq).is_some();
        assert!(known(70 + EXIT_NS) && !known(71 + EXIT_NS) && !known(u64::MAX));
    }

    #[test]
    fn a_thread_leaves_its_session_before_the_look_at_its_exit() {
        let known = |looks: &[(u64, &str)]| nice(looks, &[0, 100], 50);
        let session = "nice 5 policy 0 priority 0 autogroup 3";
        let [left, other, changed] =
            [session.replace(" autogroup 3", ""), session.replace('3', "4"), String::from("nice 6")];
        assert_eq!(known(&[(20, session), (80, &left)]), Some(5));
        assert_eq!(known(&[(20, session), (80, &left), (85, &left)]), None, "a later look: it moved");
        assert_eq!(known(&[(20, session), (80, &other)]), None);
        assert_eq!(known(&[(20, session), (80, &changed)]), None);
        assert_eq!(known(&[(20, &left), (80, session)]), None);
    }

    #[test]
    fn it_was_so_since_the_first_of_the_equal_looks_before() {
        let looks = [
            (20, "nice 5"),
            (30, "nice 19"),
            (40, "nice 19"),
            (50, "nice 19"),
            (60, "nice x"),
            (70, "nice 19"),
        ];
        let mut schedulings = Schedulings::default();
        let stamp = Stamp::from_ns;
        let host = HostIndex::default();
        looks.iter().for_each(|(at, text)| schedulings.observe(stamp(*at), host, 7, &Name::from(*text)));
        [1, 100].iter().for_each(|at| schedulings.observe(stamp(*at), host, 0, &Name::from("")));
        let since = |tid, at| {
            schedulings
                .at(Tid(tid), [stamp(10), stamp(90)], stamp(at), Scheduling::eq)
                .map(|(since, _)| since.ns())
        };
        assert_eq!([30, 45, 49].map(|at| since(7, at)), [Some(30); 3]);
        assert_eq!([29, 50, 65].map(|at| since(7, at)), [None; 3]);
        assert_eq!(since(8, 50), Some(1), "an ordinary thread, since the first look at all");
    }

    #[test]
    fn a_thread_without_looks_is_ordinary_between_looks_at_all() {
        let at = |at| nice(&[], &[5, 100], at);
        assert_eq!([5, 50, 100].map(at), [Some(0); 3]);
        assert_eq!([4, 101].map(at), [None; 2]);
        assert_eq!([nice(&[], &[], 50), nice(&[], &[5], 50)], [None; 2]);
    }

    #[test]
    fn the_looks_at_an_earlier_or_later_thread_with_the_same_number_are_not_its_own() {
        let looks = [(2, "nice 19"), (8, "nice 19"), (95, "nice 19")];
        assert_eq!(nice(&looks, &[0, 100], 50), Some(0));
        assert_eq!(nice(&[(8, "nice 19"), (60, "nice 19"), (80, "nice 19")], &[0, 100], 50), None);
        assert_eq!(nice(&[(20, "nice 19"), (95, "nice 5")], &[0, 100], 50), Some(19), "right before its end");
    }

    #[test]
    fn looks_at_all_threads_of_one_host_say_nothing_of_another() {
        let mut schedulings = Schedulings::default();
        for at in [0, 100] {
            schedulings.observe(Stamp::from_ns(at), HostIndex(1), 0, &Name::from(""));
        }
        let at = |tid| {
            schedulings.at(tid, [Stamp::from_ns(10), Stamp::from_ns(90)], Stamp::from_ns(50), Scheduling::eq)
        };
        assert_eq!(at(Tid(7)), None);
        assert_eq!(at(Tid(7).on(HostIndex(1))), Some((Stamp::from_ns(0), &Scheduling::default())));
    }
}
