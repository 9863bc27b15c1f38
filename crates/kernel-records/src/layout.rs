//! The layout of `bpf/records.h` as data: one table of kinds and their fields.
//!
//! The decoder reads by hand for speed. The CTF metadata is written from this table,
//! generic readers use it, and a test compares it with the compiled C header.
//!
//! All integers are little endian. Every record is a multiple of 8 bytes and begins with [`HEADER`].
//! Records that only user space writes ([`Kind::Loss`] and later) have no C struct; this table
//! defines them. A sequence at the end of such a record is padded with NUL bytes to a multiple of 8,
//! and has two counts: the bytes that mean something, and the bytes that stand there.

mod choices;

pub use choices::{CONTEXTS, MARKS, NAME_SPACES};
use choices::{DIRECTIONS, FUNCTION_ENDS};

use crate::{Buffer, Kind};

/// Bytes of the header that every record begins with.
pub const HEADER_BYTES: usize = 16;

/// The bytes of the longest record.
pub const MAX_RECORD_BYTES: usize = 64 * 1024;

/// Most frames of one stack: `WP_MAX_FRAMES`.
pub const MAX_FRAMES: usize = 127;

/// `WP_CALL_NONE`: not in a system call.
pub const CALL_NONE: u32 = u32::MAX;

/// One kind of record.
#[derive(Debug)]
pub struct Layout {
    /// The number that stands for it.
    pub kind: Kind,
    /// Its name in the CTF metadata.
    pub name: &'static str,
    /// The struct in `bpf/records.h`; empty when only user space writes it.
    pub c_struct: &'static str,
    /// Bytes of its fixed part, header included.
    pub bytes: usize,
    /// Fixed fields behind the header, in order, without gaps.
    pub fields: &'static [Field],
    /// Sequences behind the fixed part, in order.
    pub tail: &'static [Tail],
}

/// A field of fixed size.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// How C reaches it from the record's struct; empty when only user space writes it.
    pub path: &'static str,
    /// Bytes from the record's beginning.
    pub offset: usize,
    /// How its bytes read.
    pub ty: FieldType,
}

/// How a field's bytes read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    /// An unsigned integer of this many bytes, for people in base 10.
    Number(usize),
    /// An unsigned integer of this many bytes, for people in base 16.
    Bits(usize),
    /// An unsigned integer of this many bytes whose values have names.
    Choice(usize, &'static [(&'static str, u64)]),
    /// Text, NUL-padded to this many bytes.
    Text(usize),
    /// This many bytes.
    Octets(usize),
}

impl FieldType {
    /// Bytes that it takes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Number(n) | Self::Bits(n) | Self::Choice(n, _) | Self::Text(n) | Self::Octets(n) => n,
        }
    }
}

/// A sequence behind the fixed part.
#[derive(Debug)]
pub struct Tail {
    /// Its name.
    pub name: &'static str,
    /// The name of the fixed field that counts its elements.
    pub count: &'static str,
    /// The type of its elements.
    pub element: Element,
}

/// The type of the elements of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// Addresses of eight bytes.
    Address,
    /// Bytes of a text.
    Text,
    /// Bytes.
    Octet,
}

impl Element {
    /// Bytes of one.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Address => 8,
            Self::Text | Self::Octet => 1,
        }
    }
}

impl Layout {
    /// The layout of a kind.
    pub fn of(kind: Kind) -> &'static Self {
        // The table's order is a test's to check; a search keeps this total.
        LAYOUTS.iter().find(|layout| layout.kind == kind).unwrap_or(&LAYOUTS[0])
    }

    /// The fixed field of this name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The buffers that may hold it.
    pub fn buffers(&self) -> impl Iterator<Item = Buffer> {
        Buffer::ALL.into_iter().filter(|buffer| buffer.holds(self.kind))
    }
}

const fn f(name: &'static str, path: &'static str, offset: usize, ty: FieldType) -> Field {
    Field { name, path, offset, ty }
}

use Element::{Address, Octet};
use FieldType::{Bits, Choice, Number, Octets, Text};

/// The header of every record, `struct wp_header`.
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
    f("scanned", "scanned", 24, Number(4)),
    f("frames_len", "frames_len", 28, Number(4)),
];

const FRAMES: &[Tail] = &[Tail { name: "frames", count: "frames_len", element: Address }];

/// Every kind, by number.
pub const LAYOUTS: &[Layout] = &[
    Layout {
        kind: Kind::Switch,
        name: "switch",
        c_struct: "wp_switch",
        bytes: 32,
        fields: &[
            f("next_tid", "next_tid", 16, Number(4)),
            f("prev_state", "prev_state", 20, Bits(4)),
            f("interrupts_ns", "interrupts_ns", 24, Number(4)),
            f("flags", "flags", 28, Bits(4)),
        ],
        tail: &[],
    },
    Layout {
        kind: Kind::SwitchCall,
        name: "switch_call",
        c_struct: "wp_switch_call",
        bytes: 48,
        fields: &[
            f("next_tid", "s.next_tid", 16, Number(4)),
            f("prev_state", "s.prev_state", 20, Bits(4)),
            f("interrupts_ns", "s.interrupts_ns", 24, Number(4)),
            f("flags", "s.flags", 28, Bits(4)),
            f("call", "call", 32, Number(4)),
            f("spare", "spare", 36, Number(4)),
            f("arg0", "arg0", 40, Bits(8)),
        ],
        tail: &[],
    },
    Layout {
        kind: Kind::SwitchLock,
        name: "switch_lock",
        c_struct: "wp_switch_lock",
        bytes: 64,
        fields: &[
            f("next_tid", "c.s.next_tid", 16, Number(4)),
            f("prev_state", "c.s.prev_state", 20, Bits(4)),
            f("interrupts_ns", "c.s.interrupts_ns", 24, Number(4)),
            f("flags", "c.s.flags", 28, Bits(4)),
            f("call", "c.call", 32, Number(4)),
            f("spare", "c.spare", 36, Number(4)),
            f("arg0", "c.arg0", 40, Bits(8)),
            f("op", "op", 48, Bits(4)),
            f("value", "value", 52, Bits(4)),
            f("claim", "claim", 56, Number(4)),
            f("valid", "valid", 60, Bits(4)),
        ],
        tail: &[],
    },
    Layout {
        kind: Kind::Waking,
        name: "waking",
        c_struct: "wp_waking",
        bytes: 24,
        fields: WAKING,
        tail: &[],
    },
    Layout {
        kind: Kind::WakingNew,
        name: "waking_new",
        c_struct: "wp_waking",
        bytes: 24,
        fields: WAKING,
        tail: &[],
    },
    Layout {
        kind: Kind::Current,
        name: "current",
        c_struct: "wp_current",
        bytes: 16,
        fields: &[],
        tail: &[],
    },
    Layout {
        kind: Kind::WakingSocket,
        name: "waking_socket",
        c_struct: "wp_waking_socket",
        bytes: 32,
        fields: WAKING_SOCKET,
        tail: &[],
    },
    Layout {
        kind: Kind::Packet,
        name: "packet",
        c_struct: "wp_packet",
        bytes: 48,
        fields: &[
            f("flow", "flow", 16, Bits(8)),
            f("tcp_seq", "seq", 24, Number(4)),
            f("ack", "ack", 28, Number(4)),
            f("len", "len", 32, Number(4)),
            f("netns", "netns", 36, Number(4)),
            f("tcp_flags", "tcp_flags", 40, Bits(2)),
            f("direction", "direction", 42, Choice(1, DIRECTIONS)),
            f("spare", "spare", 43, Number(1)),
            f("ifindex", "ifindex", 44, Number(4)),
        ],
        tail: &[],
    },
    Layout {
        kind: Kind::SocketReady,
        name: "socket_ready",
        c_struct: "wp_socket_ready",
        bytes: 24,
        fields: &[f("flow", "flow", 16, Bits(8))],
        tail: &[],
    },
    Layout {
        kind: Kind::Flow,
        name: "flow",
        c_struct: "wp_flow",
        bytes: 64,
        fields: &[
            f("flow", "flow", 16, Bits(8)),
            f("source", "source", 24, Octets(16)),
            f("target", "target", 40, Octets(16)),
            f("source_port", "source_port", 56, Number(2)),
            f("target_port", "target_port", 58, Number(2)),
            f("family", "family", 60, Number(1)),
            f("protocol", "protocol", 61, Number(1)),
            f("spare", "spare", 62, Number(2)),
        ],
        tail: &[],
    },
    Layout {
        kind: Kind::StackOf,
        name: "stack_of",
        c_struct: "wp_stack_of",
        bytes: 24,
        fields: &[f("stack", "stack", 16, Bits(8))],
        tail: &[],
    },
    Layout {
        kind: Kind::Thread,
        name: "thread",
        c_struct: "wp_thread",
        bytes: 88,
        fields: THREAD,
        tail: &[],
    },
    Layout { kind: Kind::Fork, name: "fork", c_struct: "wp_thread", bytes: 88, fields: THREAD, tail: &[] },
    Layout {
        kind: Kind::Exec,
        name: "exec",
        c_struct: "wp_exec",
        bytes: 168,
        fields: &[
            f("old_tid", "old_tid", 16, Number(4)),
            f("tgid", "tgid", 20, Number(4)),
            f("comm", "comm", 24, Text(16)),
            f("path", "path", 40, Text(128)),
        ],
        tail: &[],
    },
    Layout {
        kind: Kind::Exit,
        name: "exit",
        c_struct: "wp_exit",
        bytes: 24,
        fields: &[f("tgid", "tgid", 16, Number(4)), f("group_dead", "group_dead", 20, Number(4))],
        tail: &[],
    },
    Layout {
        kind: Kind::Rename,
        name: "rename",
        c_struct: "wp_rename",
        bytes: 40,
        fields: &[
            f("thread_tid", "tid", 16, Number(4)),
            f("spare", "spare", 20, Number(4)),
            f("comm", "comm", 24, Text(16)),
        ],
        tail: &[],
    },
    Layout {
        kind: Kind::Move,
        name: "move",
        c_struct: "wp_move",
        bytes: 48,
        fields: &[
            f("thread_tid", "tid", 16, Number(4)),
            f("tgid", "tgid", 20, Number(4)),
            f("cgroup", "cgroup", 24, Number(8)),
            f("cpu_cgroup", "cpu_cgroup", 32, Number(8)),
            f("whole", "whole", 40, Number(4)),
            f("spare", "spare", 44, Number(4)),
        ],
        tail: &[],
    },
    Layout {
        kind: Kind::Refill,
        name: "refill",
        c_struct: "wp_refill",
        bytes: 24,
        fields: &[f("cpu_cgroup", "cpu_cgroup", 16, Number(8))],
        tail: &[],
    },
    Layout {
        kind: Kind::Blocked,
        name: "blocked",
        c_struct: "wp_blocked",
        bytes: 48,
        fields: &[
            f("call", "call", 16, Number(4)),
            f("op", "op", 20, Bits(4)),
            f("arg0", "arg0", 24, Bits(8)),
            f("value", "value", 32, Bits(4)),
            f("claim", "claim", 36, Number(4)),
            f("valid", "valid", 40, Bits(4)),
            f("spare", "spare", 44, Number(4)),
        ],
        tail: &[],
    },
    Layout {
        kind: Kind::BlockIssue,
        name: "block_issue",
        c_struct: "wp_block",
        bytes: 64,
        fields: BLOCK,
        tail: &[],
    },
    Layout {
        kind: Kind::BlockComplete,
        name: "block_complete",
        c_struct: "wp_block",
        bytes: 64,
        fields: BLOCK,
        tail: &[],
    },
    Layout {
        kind: Kind::Stolen,
        name: "stolen",
        c_struct: "wp_stolen",
        bytes: 24,
        fields: &[f("ns", "ns", 16, Number(8))],
        tail: &[],
    },
    Layout {
        kind: Kind::LockBegin,
        name: "lock_begin",
        c_struct: "wp_lock",
        bytes: 32,
        fields: LOCK,
        tail: &[],
    },
    Layout { kind: Kind::LockEnd, name: "lock_end", c_struct: "wp_lock", bytes: 32, fields: LOCK, tail: &[] },
    Layout {
        kind: Kind::Sample,
        name: "sample",
        c_struct: "wp_sample",
        bytes: 32,
        fields: SAMPLE,
        tail: FRAMES,
    },
    Layout {
        kind: Kind::Stack,
        name: "stack",
        c_struct: "wp_sample",
        bytes: 32,
        fields: SAMPLE,
        tail: FRAMES,
    },
    Layout {
        kind: Kind::File,
        name: "file",
        c_struct: "wp_file",
        bytes: 112,
        fields: &[
            f("tgid", "tgid", 16, Number(4)),
            f("fd", "fd", 20, Number(4)),
            f("mode", "mode", 24, Bits(4)),
            f("spare", "spare", 28, Number(4)),
            f("inode", "inode", 32, Number(8)),
            f("peer", "peer", 40, Bits(8)),
            f("name", "name", 48, Text(64)),
        ],
        tail: &[],
    },
    Layout {
        kind: Kind::Function,
        name: "function",
        c_struct: "wp_function",
        bytes: 40,
        fields: &[
            f("target", "target", 16, Number(4)),
            f("end", "end", 20, Choice(4, FUNCTION_ENDS)),
            f("from", "from", 24, Number(8)),
            f("thread", "thread", 32, Number(4)),
            f("spare", "spare", 36, Number(4)),
        ],
        tail: &[],
    },
    Layout {
        kind: Kind::Loss,
        name: "loss",
        c_struct: "",
        bytes: 40,
        fields: &[
            f("from", "", 16, Number(8)),
            f("count", "", 24, Number(8)),
            f("cpu", "", 32, Number(4)),
            f("spare", "", 36, Number(4)),
        ],
        tail: &[],
    },
    Layout {
        kind: Kind::Clocks,
        name: "clocks",
        c_struct: "",
        bytes: 40,
        fields: &[
            f("boottime", "", 16, Number(8)),
            f("realtime", "", 24, Number(8)),
            f("steal", "", 32, Number(8)),
        ],
        tail: &[],
    },
    Layout {
        kind: Kind::Name,
        name: "name",
        c_struct: "",
        bytes: 40,
        fields: &[
            f("key", "", 16, Number(8)),
            f("space", "", 24, Choice(4, NAME_SPACES)),
            f("name_len", "", 28, Number(4)),
            f("name_padded", "", 32, Number(4)),
            f("spare", "", 36, Number(4)),
        ],
        tail: &[Tail { name: "name", count: "name_padded", element: Element::Text }],
    },
    Layout {
        kind: Kind::Mapping,
        name: "mapping",
        c_struct: "",
        bytes: 64,
        fields: &[
            f("from", "", 16, Bits(8)),
            f("to", "", 24, Bits(8)),
            f("offset", "", 32, Bits(8)),
            f("tgid", "", 40, Number(4)),
            f("build_id_len", "", 44, Number(4)),
            f("build_id_padded", "", 48, Number(4)),
            f("path_len", "", 52, Number(4)),
            f("path_padded", "", 56, Number(4)),
            f("spare", "", 60, Number(4)),
        ],
        tail: &[
            Tail { name: "build_id", count: "build_id_padded", element: Octet },
            Tail { name: "path", count: "path_padded", element: Element::Text },
        ],
    },
    Layout {
        kind: Kind::Mark,
        name: "mark",
        c_struct: "",
        bytes: 32,
        fields: &[
            f("mark", "", 16, Choice(4, MARKS)),
            f("value", "", 20, Number(4)),
            f("words_len", "", 24, Number(4)),
            f("words_padded", "", 28, Number(4)),
        ],
        tail: &[Tail { name: "words", count: "words_padded", element: Element::Text }],
    },
    Layout {
        kind: Kind::StackCounts,
        name: "stack_counts",
        c_struct: "",
        bytes: 56,
        fields: &[
            f("taken", "", 16, Number(8)),
            f("repeated", "", 24, Number(8)),
            f("checked", "", 32, Number(8)),
            f("disagreed", "", 40, Number(8)),
            f("doubtful", "", 48, Number(8)),
        ],
        tail: &[],
    },
];

#[cfg(test)]
mod tests;
