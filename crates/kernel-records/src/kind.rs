//! Record kinds, `enum wp_kind`.

use crate::layout::LAYOUTS;

/// A record's kind: the second field in its header, `enum wp_kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "bpf/records.h says it")]
#[repr(u8)]
pub enum Kind {
    Switch = 1,
    SwitchCall = 2,
    SwitchLock = 3,
    Waking = 4,
    WakingNew = 5,
    Current = 6,
    WakingSocket = 7,
    Packet = 8,
    SocketReady = 9,
    Flow = 10,
    StackOf = 11,
    Ready = 12,
    Migrate = 13,
    ThreadContext = 14,
    Goroutine = 15,
    Thread = 16,
    Fork = 17,
    Exec = 18,
    Exit = 19,
    Rename = 20,
    Move = 21,
    Refill = 22,
    Blocked = 23,
    BlockIssue = 24,
    BlockComplete = 25,
    Stolen = 26,
    ThreadAttribute = 27,
    LockBegin = 28,
    LockEnd = 29,
    BlockRelease = 30,
    Reclaim = 31,
    Sample = 32,
    Stack = 33,
    File = 34,
    Function = 35,
    Signal = 36,
    SetMember = 37,
    StackLater = 38,
    FailedCall = 39,
    Spin = 40,
    SignalSent = 43,
    Loss = 48,
    Clocks = 49,
    Name = 50,
    Mapping = 51,
    Mark = 52,
    StackCounts = 53,
    KernelCost = 54,
    UnwindCounts = 55,
}

impl Kind {
    /// Every kind, by number.
    pub const ALL: [Self; LAYOUTS.len()] = {
        let mut all = [Self::Switch; LAYOUTS.len()];
        let mut i = 0;
        while i < LAYOUTS.len() {
            all[i] = LAYOUTS[i].kind;
            i += 1;
        }
        all
    };

    /// The kind with this number; `None` if no kind has it.
    pub fn from_number(number: u8) -> Option<Self> {
        // A single indexed load: every record needs it.
        const BY_NUMBER: [Option<Kind>; 256] = {
            let mut table = [None; 256];
            let mut i = 0;
            while i < Kind::ALL.len() {
                table[Kind::ALL[i] as usize] = Some(Kind::ALL[i]);
                i += 1;
            }
            table
        };
        BY_NUMBER[usize::from(number)]
    }

    /// The kind's number in a record's header.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// The buffer kinds, which are also the stream kinds on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Buffer {
    /// A buffer per CPU: switches and wake-ups, written with interrupts off. Header's `seq` counts.
    Sched,
    /// A buffer per CPU: packets and their effects on sockets. Header's `seq` counts.
    Net,
    /// A buffer for all CPUs: everything rarer, and user space's records. Header's `seq` is the CPU.
    Life,
}

impl Buffer {
    /// Every buffer.
    pub const ALL: [Self; 3] = [Self::Sched, Self::Net, Self::Life];

    /// Whether this buffer may hold such records.
    pub const fn holds(self, kind: Kind) -> bool {
        use Kind::*;
        // Records that only a CPU's switch ring may hold.
        let is_of_ring = matches!(
            kind,
            Switch
                | SwitchCall
                | SwitchLock
                | WakingNew
                | WakingSocket
                | Current
                | StackOf
                | Ready
                | Migrate
                | FailedCall
        );
        match self {
            Self::Sched => is_of_ring || matches!(kind, Waking | Stolen | ThreadContext | ThreadAttribute),
            Self::Net => matches!(kind, Packet | SocketReady | Flow),
            // A thread that wakes itself may do so with interrupts on; a ring is not safe then.
            Self::Life => !is_of_ring && !matches!(kind, Packet),
        }
    }

    /// Whether the header's `seq` counts the buffer's records; otherwise it is the CPU number.
    pub const fn counts(self) -> bool {
        !matches!(self, Self::Life)
    }
}
