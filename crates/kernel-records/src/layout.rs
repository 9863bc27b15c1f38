//! The layout of `bpf/records.h` as data: a table of kinds and their fields.
//!
//! The decoder reads by hand for speed. The CTF metadata is written from this table, generic readers use it,
//! and a test compares it with the compiled C header.
//!
//! All integers are little endian. Every record is a multiple of 8 bytes and begins with [`HEADER`]. Records
//! that only user space writes ([`Kind::Loss`] and later) have no C struct; this table defines them. A
//! sequence at the end of such a record is padded with NUL bytes to a multiple of 8, and has two counts: the
//! meaningful bytes, and the bytes with padding.

mod choices;
mod forms;

use choices::{
    CONTEXT_STATES, DIRECTIONS, FUNCTION_ENDS, GOROUTINE_STEPS, OBJECT_KINDS, SENT_EFFECTS, SIGNAL_ACTIONS,
};
pub use choices::{CONTEXTS, COST_KINDS, LOST_RECORDS, MARKS, NAME_SPACES};
pub use forms::{Form, every_form, forms_of};

use crate::{Buffer, Kind};

/// The record header's size, bytes.
pub const HEADER_BYTES: usize = 16;

/// The longest record's size, bytes.
pub const MAX_RECORD_BYTES: usize = 64 * 1024;

/// A stack's maximum frame count: `WP_MAX_FRAMES`.
pub const MAX_FRAMES: usize = 127;

/// An unknown number, in records that only user space writes.
pub const NONE: u64 = u64::MAX;

/// `WP_CALL_NONE`: not in a system call.
pub const CALL_NONE: u32 = u32::MAX;
/// `WP_NOTHING_READY`: no descriptor is ready.
pub const NOTHING_READY: u32 = u32::MAX;

/// A record kind.
#[derive(Debug)]
pub struct Layout {
    /// The kind, with its number.
    pub kind: Kind,
    /// The name in the CTF metadata.
    pub name: &'static str,
    /// The struct in `bpf/records.h`; empty if only user space writes the kind.
    pub c_struct: &'static str,
    /// The fixed part's size, bytes, header included.
    pub bytes: usize,
    /// The fixed fields behind the header, in order, without gaps.
    pub fields: &'static [Field],
    /// The sequences behind the fixed part, in order.
    pub tail: &'static [Tail],
}

/// A field with a fixed size.
#[derive(Debug)]
pub struct Field {
    /// The field name.
    pub name: &'static str,
    /// The C expression for the field, from the record's struct; empty if only user space writes it.
    pub path: &'static str,
    /// Bytes from the record's beginning.
    pub offset: usize,
    /// The type.
    pub ty: FieldType,
}

/// A field's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    /// An unsigned integer with this size, bytes, printed in base 10.
    Number(usize),
    /// An unsigned integer with this size, bytes, printed in base 16.
    Bits(usize),
    /// An unsigned integer with this size, bytes, and named values.
    Choice(usize, &'static [(&'static str, u64)]),
    /// Text, NUL-padded to this many bytes.
    Text(usize),
    /// This many bytes.
    Octets(usize),
}

impl FieldType {
    /// The field's size, bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Number(n) | Self::Bits(n) | Self::Choice(n, _) | Self::Text(n) | Self::Octets(n) => n,
        }
    }
}

/// A sequence behind the fixed part.
#[derive(Debug)]
pub struct Tail {
    /// The sequence's name.
    pub name: &'static str,
    /// The name of the fixed field that counts the elements.
    pub count: &'static str,
    /// The element type.
    pub element: Element,
}

/// A sequence's element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// Addresses with eight bytes.
    Address,
    /// Text bytes.
    Text,
    /// Bytes.
    Octet,
}

impl Element {
    /// An element's size, bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Address => 8,
            Self::Text | Self::Octet => 1,
        }
    }
}

impl Layout {
    /// A kind's layout.
    pub fn of(kind: Kind) -> &'static Self {
        // A test checks the table's order; a search keeps this total.
        LAYOUTS.iter().find(|layout| layout.kind == kind).unwrap_or(&LAYOUTS[0])
    }

    /// The fixed field with this name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The buffers that may hold the kind.
    pub fn buffers(&self) -> impl Iterator<Item = Buffer> {
        Buffer::ALL.into_iter().filter(|buffer| buffer.holds(self.kind))
    }
}

const fn f(name: &'static str, path: &'static str, offset: usize, ty: FieldType) -> Field {
    Field { name, path, offset, ty }
}

use Element::{Address, Octet};
use FieldType::{Bits, Choice, Number, Octets, Text};

/// Every record's header, `struct wp_header`.
pub const HEADER: &[Field] = &[
    f("stamp", "stamp", 0, Number(8)),
    f("kind", "kind", 8, Number(1)),
    f("context", "context", 9, Choice(1, CONTEXTS)),
    f("seq", "seq", 10, Number(2)),
    f("tid", "tid", 12, Number(4)),
];

const WAKING: &[Field] = &[
    f("target_tid", "target_tid", 16, Number(4)),
    f("irq", "irq", 20, Number(2)),
    f("target_cpu", "target_cpu", 22, Number(2)),
];

const WAKING_SOCKET: &[Field] = &[
    f("target_tid", "w.target_tid", 16, Number(4)),
    f("irq", "w.irq", 20, Number(2)),
    f("target_cpu", "w.target_cpu", 22, Number(2)),
    f("flow", "flow", 24, Bits(8)),
];

const READY: &[Field] = &[f("target_tid", "target_tid", 16, Number(4)), f("fd", "fd", 20, Number(4))];

const MIGRATE: &[Field] = &[
    f("target_tid", "target_tid", 16, Number(4)),
    f("from_cpu", "from_cpu", 20, Number(2)),
    f("to_cpu", "to_cpu", 22, Number(2)),
];

const THREAD_CONTEXT: &[Field] = &[
    f("trace_id", "trace", 16, Octets(16)),
    f("span_id", "span", 32, Octets(8)),
    f("state", "state", 40, Choice(1, CONTEXT_STATES)),
    f("trace_flags", "trace_flags", 41, Bits(1)),
    f("spare", "spare", 42, Number(2)),
    f("spare2", "spare2", 44, Number(4)),
];

const THREAD_ATTRIBUTE: &[Field] = &[
    f("key", "key", 16, Number(1)),
    f("length", "length", 17, Number(1)),
    f("spare", "spare", 18, Number(2)),
    f("spare2", "spare2", 20, Number(4)),
    f("value", "value", 24, Text(104)),
];

const THREAD: &[Field] = &[
    f("thread_tid", "tid", 16, Number(4)),
    f("tgid", "tgid", 20, Number(4)),
    f("parent_tgid", "parent_tgid", 24, Number(4)),
    f("ns_tid", "ns_tid", 28, Number(4)),
    f("ns_tgid", "ns_tgid", 32, Number(4)),
    f("flags", "flags", 36, Bits(4)),
    f("start", "start", 40, Number(8)),
    f("cgroup", "cgroup", 48, Number(8)),
    f("cpu_cgroup", "cpu_cgroup", 56, Number(8)),
    f("state", "state", 64, Bits(4)),
    f("call", "call", 68, Number(4)),
    f("comm", "comm", 72, Text(16)),
];

const BLOCK: &[Field] = &[
    f("request", "request", 16, Bits(8)),
    f("sector", "sector", 24, Number(8)),
    f("start", "start", 32, Number(8)),
    f("issued", "issued", 40, Number(8)),
    f("device", "device", 48, Bits(4)),
    f("bytes", "bytes", 52, Number(4)),
    f("operation", "operation", 56, Number(4)),
    f("error", "error", 60, Number(4)),
];

const LOCK: &[Field] =
    &[f("lock", "lock", 16, Bits(8)), f("flags", "flags", 24, Bits(4)), f("owner", "owner", 28, Number(4))];

const SAMPLE: &[Field] = &[
    f("tgid", "tgid", 16, Number(4)),
    f("kernel_frames", "kernel_frames", 20, Number(2)),
    f("user_frames", "user_frames", 22, Number(2)),
    f("scanned", "scanned", 24, Number(2)),
    f("proved", "proved", 26, Number(2)),
    f("frames_len", "frames_len", 28, Number(4)),
];

const STACK_LATER: &[Field] = &[
    f("stack", "stack", 16, Bits(8)),
    f("tgid", "tgid", 24, Number(4)),
    f("kernel_frames", "kernel_frames", 28, Number(2)),
    f("user_frames", "user_frames", 30, Number(2)),
    f("scanned", "scanned", 32, Number(2)),
    f("proved", "proved", 34, Number(2)),
    f("frames_len", "frames_len", 36, Number(4)),
];

const FRAMES: &[Tail] = &[Tail { name: "frames", count: "frames_len", element: Address }];

const SWITCH: &[Field] = &[
    f("next_tid", "next_tid", 16, Number(4)),
    f("prev_state", "prev_state", 20, Bits(4)),
    f("interrupts_ns", "interrupts_ns", 24, Number(4)),
    f("flags", "flags", 28, Bits(4)),
];

const SWITCH_CALL: &[Field] = &[
    f("next_tid", "s.next_tid", 16, Number(4)),
    f("prev_state", "s.prev_state", 20, Bits(4)),
    f("interrupts_ns", "s.interrupts_ns", 24, Number(4)),
    f("flags", "s.flags", 28, Bits(4)),
    f("call", "call", 32, Number(4)),
    f("end", "end", 36, Number(4)),
    f("arg0", "arg0", 40, Bits(8)),
];

const SWITCH_LOCK: &[Field] = &[
    f("next_tid", "c.s.next_tid", 16, Number(4)),
    f("prev_state", "c.s.prev_state", 20, Bits(4)),
    f("interrupts_ns", "c.s.interrupts_ns", 24, Number(4)),
    f("flags", "c.s.flags", 28, Bits(4)),
    f("call", "c.call", 32, Number(4)),
    f("end", "c.end", 36, Number(4)),
    f("arg0", "c.arg0", 40, Bits(8)),
    f("op", "op", 48, Bits(4)),
    f("value", "value", 52, Bits(4)),
    f("claim", "claim", 56, Number(4)),
    f("valid", "valid", 60, Bits(4)),
];

const PACKET: &[Field] = &[
    f("flow", "flow", 16, Bits(8)),
    f("tcp_seq", "seq", 24, Number(4)),
    f("ack", "ack", 28, Number(4)),
    f("len", "len", 32, Number(4)),
    f("netns", "netns", 36, Number(4)),
    f("tcp_flags", "tcp_flags", 40, Bits(2)),
    f("direction", "direction", 42, Choice(1, DIRECTIONS)),
    f("spare", "spare", 43, Number(1)),
    f("ifindex", "ifindex", 44, Number(4)),
];

const FLOW: &[Field] = &[
    f("flow", "flow", 16, Bits(8)),
    f("source", "source", 24, Octets(16)),
    f("target", "target", 40, Octets(16)),
    f("source_port", "source_port", 56, Number(2)),
    f("target_port", "target_port", 58, Number(2)),
    f("family", "family", 60, Number(1)),
    f("protocol", "protocol", 61, Number(1)),
    f("spare", "spare", 62, Number(2)),
];

const EXEC: &[Field] = &[
    f("old_tid", "old_tid", 16, Number(4)),
    f("tgid", "tgid", 20, Number(4)),
    f("comm", "comm", 24, Text(16)),
    f("path", "path", 40, Text(128)),
];

const EXIT: &[Field] = &[f("tgid", "tgid", 16, Number(4)), f("group_dead", "group_dead", 20, Number(4))];

const RENAME: &[Field] = &[
    f("thread_tid", "tid", 16, Number(4)),
    f("spare", "spare", 20, Number(4)),
    f("comm", "comm", 24, Text(16)),
];

const MOVE: &[Field] = &[
    f("thread_tid", "tid", 16, Number(4)),
    f("tgid", "tgid", 20, Number(4)),
    f("cgroup", "cgroup", 24, Number(8)),
    f("cpu_cgroup", "cpu_cgroup", 32, Number(8)),
    f("whole", "whole", 40, Number(4)),
    f("spare", "spare", 44, Number(4)),
];

const BLOCKED: &[Field] = &[
    f("call", "call", 16, Number(4)),
    f("op", "op", 20, Bits(4)),
    f("arg0", "arg0", 24, Bits(8)),
    f("value", "value", 32, Bits(4)),
    f("claim", "claim", 36, Number(4)),
    f("valid", "valid", 40, Bits(4)),
    f("spare", "spare", 44, Number(4)),
];

const FILE: &[Field] = &[
    f("tgid", "tgid", 16, Number(4)),
    f("fd", "fd", 20, Number(4)),
    f("mode", "mode", 24, Bits(4)),
    f("spare", "spare", 28, Number(4)),
    f("inode", "inode", 32, Number(8)),
    f("peer", "peer", 40, Bits(8)),
    f("name", "name", 48, Text(64)),
];

const SET_MEMBER: &[Field] = &[
    f("set", "set", 16, Bits(8)),
    f("tgid", "tgid", 24, Number(4)),
    f("fd", "fd", 28, Number(4)),
    f("total", "total", 32, Number(4)),
    f("spare", "spare", 36, Number(4)),
];

const FUNCTION: &[Field] = &[
    f("target", "target", 16, Number(4)),
    f("end", "end", 20, Choice(4, FUNCTION_ENDS)),
    f("from", "from", 24, Number(8)),
    f("thread", "thread", 32, Number(4)),
    f("spare", "spare", 36, Number(4)),
];

const GOROUTINE: &[Field] = &[
    f("tgid", "tgid", 16, Number(4)),
    f("step", "step", 20, Choice(1, GOROUTINE_STEPS)),
    f("reason", "reason", 21, Number(1)),
    f("program", "program", 22, Number(2)),
    f("goroutine", "goroutine", 24, Number(8)),
    f("by", "by", 32, Number(8)),
    f("trace_id", "trace", 40, Octets(16)),
    f("span_id", "span", 56, Octets(8)),
];

const SIGNAL: &[Field] = &[
    f("signal", "signal", 16, Number(4)),
    f("code", "code", 20, Number(4)),
    f("action", "action", 24, Choice(4, SIGNAL_ACTIONS)),
    f("call", "call", 28, Number(4)),
    f("sent", "sent", 32, Number(8)),
    f("sender", "sender", 40, Number(4)),
    f("spare", "spare", 44, Number(4)),
];

const SIGNAL_SENT: &[Field] = &[
    f("signal", "signal", 16, Number(4)),
    f("code", "code", 20, Number(4)),
    f("target", "target", 24, Number(4)),
    f("effect", "effect", 28, Choice(4, SENT_EFFECTS)),
    f("memory_cgroup", "memory_cgroup", 32, Number(8)),
    f("limit", "limit", 40, Number(8)),
];

const FAILED_CALL: &[Field] = &[
    f("call", "call", 16, Number(4)),
    f("error", "error", 20, Number(4)),
    f("operation", "operation", 24, Number(4)),
    f("holder", "holder", 28, Number(4)),
    f("tries", "tries", 32, Number(4)),
    f("later", "later", 36, Number(4)),
    f("object_kind", "object_kind", 40, Choice(1, OBJECT_KINDS)),
    f("object_len", "object_len", 41, Number(1)),
    f("spare", "spare", 42, Number(2)),
    f("spare2", "spare2", 44, Number(4)),
    f("object", "object", 48, Octets(64)),
];

const SPIN: &[Field] = &[
    f("call", "call", 16, Number(4)),
    f("error", "error", 20, Number(4)),
    f("from", "from", 24, Number(8)),
    f("count", "count", 32, Number(8)),
];

const LOSS: &[Field] = &[
    f("from", "", 16, Number(8)),
    f("count", "", 24, Number(8)),
    f("cpu", "", 32, Number(4)),
    f("records", "", 36, Choice(4, LOST_RECORDS)),
];

const CLOCKS: &[Field] =
    &[f("boottime", "", 16, Number(8)), f("realtime", "", 24, Number(8)), f("steal", "", 32, Number(8))];

const NAME: &[Field] = &[
    f("key", "", 16, Number(8)),
    f("space", "", 24, Choice(4, NAME_SPACES)),
    f("name_len", "", 28, Number(4)),
    f("name_padded", "", 32, Number(4)),
    f("spare", "", 36, Number(4)),
];

const NAME_TAIL: &[Tail] = &[Tail { name: "name", count: "name_padded", element: Element::Text }];

const MAPPING: &[Field] = &[
    f("from", "", 16, Bits(8)),
    f("to", "", 24, Bits(8)),
    f("offset", "", 32, Bits(8)),
    f("tgid", "", 40, Number(4)),
    f("build_id_len", "", 44, Number(4)),
    f("build_id_padded", "", 48, Number(4)),
    f("path_len", "", 52, Number(4)),
    f("path_padded", "", 56, Number(4)),
    f("spare", "", 60, Number(4)),
];

const MAPPING_TAIL: &[Tail] = &[
    Tail { name: "build_id", count: "build_id_padded", element: Octet },
    Tail { name: "path", count: "path_padded", element: Element::Text },
];

const MARK: &[Field] = &[
    f("mark", "", 16, Choice(4, MARKS)),
    f("value", "", 20, Number(4)),
    f("words_len", "", 24, Number(4)),
    f("words_padded", "", 28, Number(4)),
];

const MARK_TAIL: &[Tail] = &[Tail { name: "words", count: "words_padded", element: Element::Text }];

const STACK_COUNTS: &[Field] = &[
    f("taken", "", 16, Number(8)),
    f("repeated", "", 24, Number(8)),
    f("checked", "", 32, Number(8)),
    f("disagreed", "", 40, Number(8)),
    f("doubtful", "", 48, Number(8)),
];

const KERNEL_COST: &[Field] = &[
    f("cost_kind", "", 16, Choice(4, COST_KINDS)),
    f("spare", "", 20, Number(4)),
    f("runs", "", 24, Number(8)),
    f("from_ns", "", 32, Number(8)),
    f("to_ns", "", 40, Number(8)),
];

const UNWIND_COUNTS: &[Field] = &[
    f("taken_ns", "", 16, Number(8)),
    f("copied", "", 24, Number(8)),
    f("refused", "", 32, Number(8)),
    f("unwound_ns", "", 40, Number(8)),
];

const SOCKET_READY: &[Field] = &[f("flow", "flow", 16, Bits(8))];

const STACK_OF: &[Field] = &[f("stack", "stack", 16, Bits(8))];

const BLOCK_RELEASE: &[Field] = &[
    f("sector", "sector", 16, Number(8)),
    f("io_cgroup", "io_cgroup", 24, Number(8)),
    f("device", "device", 32, Number(4)),
    f("bytes", "bytes", 36, Number(4)),
    f("operation", "operation", 40, Number(4)),
    f("spare", "spare", 44, Number(4)),
];

/// `enum wp_memory_limit`.
pub(crate) const MEMORY_UNKNOWN: u32 = 0;
pub(crate) const MEMORY_MAX: u32 = 1;
pub(crate) const MEMORY_HIGH: u32 = 2;

const RECLAIM: &[Field] = &[
    f("from", "from", 16, Number(8)),
    f("memory_cgroup", "memory_cgroup", 24, Number(8)),
    f("limit", "limit", 32, Number(8)),
    f("pages", "pages", 40, Number(4)),
    f("by", "by", 44, Number(4)),
];

const REFILL: &[Field] = &[f("cpu_cgroup", "cpu_cgroup", 16, Number(8))];

const STOLEN: &[Field] = &[f("ns", "ns", 16, Number(8))];

/// A kind written by the BPF programs: it has a struct in `bpf/records.h`.
const fn bpf_record(
    kind: Kind,
    name: &'static str,
    c_struct: &'static str,
    bytes: usize,
    fields: &'static [Field],
) -> Layout {
    Layout { kind, name, c_struct, bytes, fields, tail: &[] }
}

/// A kind that only user space writes.
const fn user_record(
    kind: Kind,
    name: &'static str,
    bytes: usize,
    fields: &'static [Field],
    tail: &'static [Tail],
) -> Layout {
    Layout { kind, name, c_struct: "", bytes, fields, tail }
}

/// Every kind, by number.
pub const LAYOUTS: &[Layout] = &[
    bpf_record(Kind::Switch, "switch", "wp_switch", 32, SWITCH),
    bpf_record(Kind::SwitchCall, "switch_call", "wp_switch_call", 48, SWITCH_CALL),
    bpf_record(Kind::SwitchLock, "switch_lock", "wp_switch_lock", 64, SWITCH_LOCK),
    bpf_record(Kind::Waking, "waking", "wp_waking", 24, WAKING),
    bpf_record(Kind::WakingNew, "waking_new", "wp_waking", 24, WAKING),
    bpf_record(Kind::Current, "current", "wp_current", 16, &[]),
    bpf_record(Kind::WakingSocket, "waking_socket", "wp_waking_socket", 32, WAKING_SOCKET),
    bpf_record(Kind::Packet, "packet", "wp_packet", 48, PACKET),
    bpf_record(Kind::SocketReady, "socket_ready", "wp_socket_ready", 24, SOCKET_READY),
    bpf_record(Kind::Flow, "flow", "wp_flow", 64, FLOW),
    bpf_record(Kind::StackOf, "stack_of", "wp_stack_of", 24, STACK_OF),
    bpf_record(Kind::Ready, "ready", "wp_ready", 24, READY),
    bpf_record(Kind::Migrate, "migrate", "wp_migrate", 24, MIGRATE),
    bpf_record(Kind::ThreadContext, "thread_context", "wp_thread_context", 48, THREAD_CONTEXT),
    bpf_record(Kind::Goroutine, "goroutine", "wp_goroutine", 64, GOROUTINE),
    bpf_record(Kind::Thread, "thread", "wp_thread", 88, THREAD),
    bpf_record(Kind::Fork, "fork", "wp_thread", 88, THREAD),
    bpf_record(Kind::Exec, "exec", "wp_exec", 168, EXEC),
    bpf_record(Kind::Exit, "exit", "wp_exit", 24, EXIT),
    bpf_record(Kind::Rename, "rename", "wp_rename", 40, RENAME),
    bpf_record(Kind::Move, "move", "wp_move", 48, MOVE),
    bpf_record(Kind::Refill, "refill", "wp_refill", 24, REFILL),
    bpf_record(Kind::Blocked, "blocked", "wp_blocked", 48, BLOCKED),
    bpf_record(Kind::BlockIssue, "block_issue", "wp_block", 64, BLOCK),
    bpf_record(Kind::BlockComplete, "block_complete", "wp_block", 64, BLOCK),
    bpf_record(Kind::Stolen, "stolen", "wp_stolen", 24, STOLEN),
    bpf_record(Kind::ThreadAttribute, "thread_attribute", "wp_thread_attribute", 128, THREAD_ATTRIBUTE),
    bpf_record(Kind::LockBegin, "lock_begin", "wp_lock", 32, LOCK),
    bpf_record(Kind::LockEnd, "lock_end", "wp_lock", 32, LOCK),
    bpf_record(Kind::BlockRelease, "block_release", "wp_block_release", 48, BLOCK_RELEASE),
    bpf_record(Kind::Reclaim, "reclaim", "wp_reclaim", 48, RECLAIM),
    Layout { tail: FRAMES, ..bpf_record(Kind::Sample, "sample", "wp_sample", 32, SAMPLE) },
    Layout { tail: FRAMES, ..bpf_record(Kind::Stack, "stack", "wp_sample", 32, SAMPLE) },
    bpf_record(Kind::File, "file", "wp_file", 112, FILE),
    bpf_record(Kind::Function, "function", "wp_function", 40, FUNCTION),
    bpf_record(Kind::Signal, "signal", "wp_signal", 48, SIGNAL),
    bpf_record(Kind::SetMember, "set_member", "wp_set_member", 40, SET_MEMBER),
    Layout { tail: FRAMES, ..bpf_record(Kind::StackLater, "stack_later", "wp_stack_later", 40, STACK_LATER) },
    bpf_record(Kind::FailedCall, "failed_call", "wp_failed_call", 112, FAILED_CALL),
    bpf_record(Kind::Spin, "spin", "wp_spin", 40, SPIN),
    bpf_record(Kind::SignalSent, "signal_sent", "wp_signal_sent", 48, SIGNAL_SENT),
    user_record(Kind::Loss, "loss", 40, LOSS, &[]),
    user_record(Kind::Clocks, "clocks", 40, CLOCKS, &[]),
    user_record(Kind::Name, "name", 40, NAME, NAME_TAIL),
    user_record(Kind::Mapping, "mapping", 64, MAPPING, MAPPING_TAIL),
    user_record(Kind::Mark, "mark", 32, MARK, MARK_TAIL),
    user_record(Kind::StackCounts, "stack_counts", 56, STACK_COUNTS, &[]),
    user_record(Kind::KernelCost, "kernel_cost", 48, KERNEL_COST, &[]),
    user_record(Kind::UnwindCounts, "unwind_counts", 48, UNWIND_COUNTS, &[]),
];

#[cfg(test)]
mod tests;
