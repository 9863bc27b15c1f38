//! The workloads: programs, arguments, and error limits.

/// A program with its arguments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// Its name in tables and folders.
    pub name: &'static str,
    /// The file in `lab/workloads/bin`.
    pub program: &'static str,
    /// Its arguments, except `--truth`.
    pub arguments: &'static [&'static str],
    /// Its error limit, as a fraction of the window.
    pub limit: f64,
    /// The recording's length, s, if it ends while the program still runs.
    pub record_for: Option<u32>,
    /// The view in which its path is judged.
    pub view: View,
    /// Whether each timed-out wait is read as a wait for its timer.
    pub as_timed_out: bool,
}

/// The view of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// A single host.
    Host,
    /// Two hosts with different clocks: the ends of the program's link.
    TwoHosts,
}

/// The limit for all workloads but three.
const ONE_PERCENT: f64 = 0.01;

/// The limit for three workloads:
///
/// - *fsync* and *ioburst*: within a call that waits for a disk the program has no stamps, only the kernel's sums,
///   which are wrong by some µs a call. Stolen time counts as the disk's there, and shows only from 10 ms on (2% of
///   these windows). A thread woken during a long interrupt on its own CPU counts as running from its wake-up on, since
///   the run queue's clock stands still until then: 1 ms at the end of a 24 MiB write. If a kernel thread on another
///   CPU ends the wait, the interrupt between the CPUs takes up to 0.1 ms.
/// - *tcpping*: turns of 0.2 ms. The program stamps its turns in user space, 1 to 10 µs (a TCP send) before the wake-up
///   or the switch that ends them; every turn has two such boundaries.
const THREE_PERCENT: f64 = 0.03;

const fn workload(name: &'static str, limit: f64) -> Workload {
    Workload {
        name,
        program: name,
        arguments: &[],
        limit,
        record_for: None,
        view: View::Host,
        as_timed_out: false,
    }
}

const fn variant(name: &'static str, program: &'static str, arguments: &'static [&'static str]) -> Workload {
    Workload { arguments, program, ..workload(name, ONE_PERCENT) }
}

/// For an event loop: each time-out is a wait for its timer, in the truth and on the path.
const fn as_timed_out(
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
) -> Workload {
    Workload { as_timed_out: true, ..variant(name, program, arguments) }
}

const fn two_hosts(
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
) -> Workload {
    Workload { view: View::TwoHosts, ..variant(name, program, arguments) }
}

/// The workloads that run by default.
pub const ALL: &[Workload] = &[
    // The ten in G15 table 3.1.
    workload("cpm", ONE_PERCENT),
    workload("imbalance", ONE_PERCENT),
    Workload { record_for: Some(1), ..workload("deadlock", ONE_PERCENT) },
    workload("ioburst", THREE_PERCENT),
    workload("lockfight", ONE_PERCENT),
    workload("pipeline", ONE_PERCENT),
    workload("pulse", ONE_PERCENT),
    workload("reparent", ONE_PERCENT),
    workload("rpc", ONE_PERCENT),
    workload("schedfreq", ONE_PERCENT),
    // The others.
    variant("rpc-async", "rpc", &["--async", "50"]),
    variant("rpc-async-100", "rpc", &["--async", "100"]),
    variant("rpc-event-loop", "rpc", &["--event-loop"]),
    as_timed_out("rpc-timers", "rpc", &["--event-loop", "--as-timed-out"]),
    workload("quota", ONE_PERCENT),
    variant("quota-beside", "quota", &["--beside"]),
    workload("timers", ONE_PERCENT),
    workload("eventloop", ONE_PERCENT),
    as_timed_out("eventloop-timers", "eventloop", &["--as-timed-out"]),
    workload("forkstorm", ONE_PERCENT),
    workload("pipechain", ONE_PERCENT),
    workload("unixchain", ONE_PERCENT),
    workload("futexowner", ONE_PERCENT),
    workload("retry", ONE_PERCENT),
    workload("condvar", ONE_PERCENT),
    workload("semaphore", ONE_PERCENT),
    workload("barrier", ONE_PERCENT),
    workload("fsync", THREE_PERCENT),
    workload("tcpping", THREE_PERCENT),
    // Over a link. In a single host's view the wire is a thread like others; two hosts have no record of it.
    variant("rpc-wire", "rpc", &["--delay-ms", "10"]),
    two_hosts("rpc-10ms", "rpc", &["--delay-ms", "10"]),
    two_hosts("rpc-100ms", "rpc", &["--delay-ms", "100", "--rounds", "4"]),
    two_hosts("rpc-10ms-async", "rpc", &["--delay-ms", "10", "--async", "50"]),
    two_hosts("rpc-10ms-a100", "rpc", &["--delay-ms", "10", "--async", "100"]),
    // The answer takes 80 ms. With time-outs of 16 ms it would come as the fifth expires, and no event says whether
    // that poll found it.
    two_hosts("rpc-10ms-loop", "rpc", &["--delay-ms", "10", "--event-loop", "--timeout-ms", "18"]),
    two_hosts("rpc-narrow", "rpc", &["--rate-mbit", "100", "--answer-kib", "1024"]),
    variant("bulk-shaped", "bulk", &["--rate-mbit", "200"]),
    two_hosts("bulk-narrow", "bulk", &["--rate-mbit", "200"]),
    two_hosts("bulk-sender", "bulk", &["--far-ms", "20"]),
    two_hosts("bulk-receiver", "bulk", &["--send", "--far-ms", "20"]),
];

/// The workloads that run in guests only. There every switch is recorded, so that a whole transfer can be judged. An
/// emulated CPU is some four times slower, and the link is slower too, because the truth leaves out the copying time.
pub const IN_GUESTS: &[Workload] = &[
    variant("reparent-one-cpu", "reparent", &["--one-cpu"]),
    variant("bulk-shaped-50", "bulk", &["--rate-mbit", "50"]),
    two_hosts("bulk-narrow-50", "bulk", &["--rate-mbit", "50"]),
];

/// The workloads whose limit does not grow on a slower machine. In an emulated guest a boundary between two threads, or
/// between a wait and running, costs some tenths of a millisecond; these workloads have few boundaries, or a limit that
/// allows for them. lab/results/truth.md has the reason why each other workload needs more there.
const AS_EVERYWHERE: &[&str] = &[
    "imbalance",
    "deadlock",
    "pulse",
    "reparent",
    "reparent-one-cpu",
    "quota-beside",
    "condvar",
    "barrier",
    "ioburst",
    "fsync",
    "tcpping",
];

impl Workload {
    /// Its error limit on a machine slower by this factor.
    pub fn limit_on(&self, slowness: f64) -> f64 {
        if AS_EVERYWHERE.contains(&self.name) { self.limit } else { self.limit * slowness }
    }
}

/// The workload with this name.
pub fn by_name(name: &str) -> Option<Workload> {
    ALL.iter().chain(IN_GUESTS).find(|workload| workload.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_three_workloads_have_more_than_one_percent_and_none_more_than_three() {
        assert!(ALL.iter().filter(|workload| workload.limit > ONE_PERCENT).count() <= 3);
        assert!(ALL.iter().all(|workload| workload.limit <= THREE_PERCENT));
    }

    #[test]
    fn on_a_slower_machine_only_workloads_with_many_boundaries_have_a_wider_limit() {
        let limit = |name| by_name(name).map(|workload| (workload.limit_on(1.0), workload.limit_on(4.0)));
        assert_eq!(limit("rpc"), Some((ONE_PERCENT, 4.0 * ONE_PERCENT)));
        assert_eq!(limit("imbalance"), Some((ONE_PERCENT, ONE_PERCENT)));
        assert_eq!(limit("fsync"), Some((THREE_PERCENT, THREE_PERCENT)));
        assert!(ALL.iter().chain(IN_GUESTS).all(|workload| workload.limit_on(4.0) <= 4.0 * ONE_PERCENT));
        assert!(AS_EVERYWHERE.iter().all(|name| by_name(name).is_some()));
    }

    #[test]
    fn every_workload_has_its_source_and_every_source_is_run() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads");
        let no_workload = "account asked below calls locks causes chain clocknote contexts device disk diskreads drilled epolls flags getpid handover items joins joins_tcp lane limit link meet \
                           noise rate request_books rpcpair services spanfreq spans wait wire";
        let mut sources: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder of the workloads")
            .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".c")?.to_owned()))
            .filter(|name| !no_workload.split(' ').any(|other| other == name))
            .collect();
        sources.sort_unstable();
        let mut run: Vec<&str> = ALL.iter().map(|workload| workload.program).collect();
        run.sort_unstable();
        run.dedup();
        assert_eq!(sources, run);
    }
}
