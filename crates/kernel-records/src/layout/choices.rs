//! Names for field values.

/// A CPU's context: `enum wp_context`.
pub const CONTEXTS: &[(&str, u64)] = &[
    ("TASK", 0),
    ("SOFTIRQ_HI", 1),
    ("SOFTIRQ_TIMER", 2),
    ("SOFTIRQ_NET_TX", 3),
    ("SOFTIRQ_NET_RX", 4),
    ("SOFTIRQ_BLOCK", 5),
    ("SOFTIRQ_IRQ_POLL", 6),
    ("SOFTIRQ_TASKLET", 7),
    ("SOFTIRQ_SCHED", 8),
    ("SOFTIRQ_HRTIMER", 9),
    ("SOFTIRQ_RCU", 10),
    ("LOCAL_TIMER", 32),
    ("RESCHEDULE", 33),
    ("CALL_FUNCTION", 34),
    ("IRQ_WORK", 35),
    ("DEVICE", 64),
    ("UNKNOWN", 255),
];

/// A packet's directions.
pub(super) const DIRECTIONS: &[(&str, u64)] = &[("OUT", 0), ("IN", 1)];

/// The states of a thread's context: `enum wp_context_state`.
pub(super) const CONTEXT_STATES: &[(&str, u64)] = &[("NONE", 0), ("SPAN", 1), ("UNKNOWN", 2)];

/// The meaning of a name's key: `event::NameSpace`.
pub const NAME_SPACES: &[(&str, u64)] = &[
    ("CGROUP", 1),
    ("INTERRUPT", 2),
    ("BLOCK_DEVICE", 3),
    ("INTERFACE", 4),
    ("CPU_LIMIT", 5),
    ("PROGRAM", 6),
    ("CPU_CGROUP", 7),
    ("TARGET", 8),
    ("GO_WAIT", 9),
    ("SERVICE", 10),
    ("SERVICE_INSTANCE", 11),
    ("THREAD_ATTRIBUTE", 12),
    ("SCRIPT", 13),
    ("FAR_END", 14),
    ("IO_CGROUP", 15),
    ("IO_LIMIT", 16),
    ("MEMORY_CGROUP", 17),
    ("REFAULTS", 18),
    ("SCHEDULING", 19),
    ("RECEIVER", 20),
    ("ARGUMENTS", 21),
];

/// A mark's meaning: `event::Mark`.
pub const MARKS: &[(&str, u64)] =
    &[("STARTED", 1), ("STOPPED", 2), ("COMMAND", 3), ("TARGET", 4), ("OBSERVER", 5), ("ENDED", 6)];

/// The recorder's kinds of work in the kernel: `event::CostKind`.
pub const COST_KINDS: &[(&str, u64)] = &[
    ("SWITCH", 1),
    ("WAKING", 2),
    ("PACKET", 3),
    ("SOFTIRQ", 4),
    ("INTERRUPT", 5),
    ("SAMPLE", 6),
    ("CALL", 7),
    ("OTHER", 8),
];

/// A signal's dispositions: `enum wp_signal_action`.
pub(super) const SIGNAL_ACTIONS: &[(&str, u64)] =
    &[("DEFAULT", 0), ("IGNORED", 1), ("HANDLED", 2), ("PROCESS_ENDS", 3)];

/// A sent signal's effects: `enum wp_sent_effect`.
pub(super) const SENT_EFFECTS: &[(&str, u64)] =
    &[("DEFAULT", 0), ("IGNORED", 1), ("HANDLED", 2), ("DROPPED", 3), ("NO_MEMORY", 4)];

/// A failed call's objects: `enum wp_object_kind`.
pub(super) const OBJECT_KINDS: &[(&str, u64)] = &[
    ("NONE", 0),
    ("PATH", 1),
    ("PATH_END", 2),
    ("INET", 3),
    ("INET6", 4),
    ("UNIX", 5),
    ("PROCESS", 6),
    ("FILE", 7),
    ("UNREADABLE", 8),
];

/// A call's ends: `enum wp_function_end`.
pub(super) const FUNCTION_ENDS: &[(&str, u64)] =
    &[("RETURNED", 0), ("LEFT", 1), ("OPEN", 2), ("MOVED", 3), ("STAYED", 4)];

/// The kinds of lost records: `LostRecords` in `crates/event/src/loss.rs`.
pub const LOST_RECORDS: &[(&str, u64)] = &[
    ("ANY", 0),
    ("SWITCHES", 1),
    ("WAKE_UPS", 2),
    ("MOVES", 3),
    ("INTERRUPTS", 4),
    ("PACKETS", 5),
    ("SOCKETS", 6),
    ("DISK_REQUESTS", 7),
    ("THREADS", 8),
    ("SIGNALS", 9),
    ("LIMITS", 10),
    ("SAMPLES", 11),
    ("CALLS", 12),
];

pub(super) const GOROUTINE_STEPS: &[(&str, u64)] =
    &[("PARKS", 0), ("READY", 1), ("RUNS", 2), ("YIELDS", 3), ("ENDS", 4), ("SPAN", 5)];
