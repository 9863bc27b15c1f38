//! A simulated machine's tracepoints, for tests of their readers.
//!
//! Their fields lie at places unlike any kernel's, so that a reader with fixed places reads nonsense, and the thread
//! states' letters differ from those in the kernel release that files name.

/// A field: type and name, offset, size, and whether it is signed.
pub(crate) type Field = (&'static str, u32, u32, u8);

/// The tracepoints' systems, names and fields, in event order.
const TRACEPOINTS: [(&str, &str, &[Field]); 11] = [
    (
        "sched",
        "sched_switch",
        &[
            ("pid_t next_pid", 8, 4, 1),
            ("long prev_state", 16, 8, 1),
            ("pid_t prev_pid", 24, 4, 1),
            ("char next_comm[16]", 32, 16, 0),
        ],
    ),
    ("sched", "sched_waking", &[("pid_t pid", 12, 4, 1), ("int target_cpu", 20, 4, 1)]),
    ("irq", "irq_handler_entry", &[("__data_loc char[] name", 8, 4, 0), ("int irq", 12, 4, 1)]),
    ("irq", "irq_handler_exit", &[("int irq", 12, 4, 1)]),
    ("sched", "sched_process_exec", &[("__data_loc char[] filename", 8, 4, 0), ("pid_t pid", 12, 4, 1)]),
    ("sched", "sched_wakeup_new", &[("pid_t pid", 20, 4, 1)]),
    ("raw_syscalls", "sys_enter", &[("long id", 8, 8, 1), ("unsigned long args[6]", 16, 48, 0)]),
    ("sched", "sched_wakeup", &[("pid_t pid", 12, 4, 1)]),
    ("net", "net_dev_queue", &[("__data_loc char[] name", 8, 4, 0), ("void * skbaddr", 16, 8, 0)]),
    ("net", "netif_receive_skb", &[("__data_loc char[] name", 8, 4, 0), ("void * skbaddr", 16, 8, 0)]),
    (
        "tcp",
        "tcp_probe",
        &[("const void * skbaddr", 8, 8, 0), ("__u8 saddr[28]", 16, 28, 0), ("__u8 daddr[28]", 44, 28, 0)],
    ),
];

/// The format of `prev_state` in kernels before 4.14.
const STATES: &str = r#""%s", __print_flags(REC->prev_state & (2048-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K" }, { 256, "W" }, { 512, "P" }, { 1024, "N" }) : "R", REC->prev_state & 2048 ? "+" : """#;

/// The first tracepoint number.
pub(crate) const FIRST: u64 = 300;

/// The events' indices: tracepoints, the CPU's clock with call chains, perf's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the kernel's names")]
#[repr(u64)]
pub enum EventType {
    Switch,
    Waking,
    IrqEntry,
    IrqExit,
    Exec,
    WakeupNew,
    CallEntry,
    Wakeup,
    PacketOut,
    PacketIn,
    Received,
    CpuClock,
    Own,
}

/// A record's origin: a stamp in ns, 0 for records made up by perf; a CPU, a process and its thread.
pub type Origin = (u64, u32, u32, u32);

/// The systems and formats of the tracepoints among these events, given as bits.
pub(crate) fn formats(asks: u64) -> Vec<(&'static str, String)> {
    let asked = TRACEPOINTS.iter().enumerate().filter(|(origin, _)| asks >> origin & 1 != 0);
    asked
        .map(|(origin, (system, name, fields))| (*system, format(name, FIRST + origin as u64, fields)))
        .collect()
}

/// A tracepoint's format, as the kernel describes it.
pub(crate) fn format(name: &str, id: u64, fields: &[Field]) -> String {
    let flags = ("unsigned char common_flags", 2, 1, 0);
    let common = [("unsigned short common_type", 0, 2, 0), flags, ("int common_pid", 4, 4, 1)]
        .into_iter()
        .chain(fields.iter().copied());
    let lines = common.map(|(declaration, offset, size, signed)| {
        format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
    });
    let print = if name == "sched_switch" { STATES } else { "\"\"" };
    format!("name: {name}\nID: {id}\nformat:\n{}\nprint fmt: {print}\n", lines.collect::<String>())
}

/// A tracepoint with these bytes at these offsets: its number and the current thread in front, and padding up to four
/// bytes before a word's end.
pub(crate) fn raw(id: u64, tid: u32, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let end = fields.iter().map(|(offset, bytes)| offset + bytes.len()).max().unwrap_or(8).max(8);
    let mut raw = vec![0; (end + 4).next_multiple_of(8) - 4];
    raw[..2].copy_from_slice(&(id as u16).to_le_bytes());
    raw[4..8].copy_from_slice(&tid.to_le_bytes());
    for (offset, bytes) in fields {
        raw[*offset..*offset + bytes.len()].copy_from_slice(bytes);
    }
    raw
}

/// A switch's fields: the thread in `origin` leaves its CPU to another.
pub(crate) fn switch<T>(
    origin: Origin,
    state: i64,
    next: u32,
    comm: &str,
    with: impl FnOnce(&[(usize, &[u8])]) -> T,
) -> T {
    let (next, state, prev) = (next.to_le_bytes(), state.to_le_bytes(), origin.3.to_le_bytes());
    let comm: Vec<u8> = comm.bytes().chain([0; 16]).take(16).collect();
    with(&[(8, &next), (16, &state), (24, &prev), (32, &comm)])
}
