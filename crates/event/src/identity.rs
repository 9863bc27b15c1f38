use std::borrow::Cow;
use std::fmt;

use wakepath_clock::{Local, Stamp};

/// A thread id of the initial pid namespace. Reused after a thread's death.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Tid(pub u32);

impl Tid {
    /// What every CPU's idle thread is called.
    pub const IDLE: Self = Self(0);
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A CPU's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Cpu(pub u16);

impl Cpu {
    /// Nobody noted which.
    pub const UNKNOWN: Self = Self(u16::MAX);
}

/// A cgroup's id: the number of its directory's inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CgroupId(pub u64);

/// A thread's name: up to 15 bytes of anything but NUL. It is input from elsewhere: neither valid
/// UTF-8 nor printable; whoever shows it escapes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Comm([u8; 16]);

impl Comm {
    /// The name in `bytes` up to the first NUL, cut after 15 bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let mut comm = [0; 16];
        let len = bytes.iter().take(15).take_while(|&&b| b != 0).count();
        comm[..len].copy_from_slice(&bytes[..len]);
        Self(comm)
    }

    /// The name's bytes, without padding.
    pub fn bytes(&self) -> &[u8] {
        let len = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        &self.0[..len]
    }

    /// All sixteen bytes, NUL-padded.
    pub const fn padded(&self) -> &[u8; 16] {
        &self.0
    }

    /// The name with invalid UTF-8 replaced; control characters are still in it.
    pub fn lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes())
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.lossy())
    }
}

/// Who a thread is. Tids are reused: (tid, start) is the thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadIdentity {
    /// Its id.
    pub tid: Tid,
    /// Its process: the id of the leader.
    pub tgid: Tid,
    /// Its parent process.
    pub parent: Tid,
    /// Its id in its own pid namespace.
    pub ns_tid: Tid,
    /// Its process's id in its own pid namespace.
    pub ns_tgid: Tid,
    /// When it was born.
    pub start: Stamp<Local>,
    /// Its cgroup in the v2 hierarchy.
    pub cgroup: CgroupId,
    /// Its cgroup in the hierarchy that has the CPU controller.
    pub cpu_cgroup: CgroupId,
    /// It belongs to the kernel.
    pub kernel: bool,
    /// Its name.
    pub comm: Comm,
}
