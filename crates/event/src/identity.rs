//! Identities: hosts, threads, CPUs, cgroups, names.

use std::borrow::Cow;
use std::fmt;

use wakepath_clock::{Local, Stamp};

/// The index of a host among several with a common event stream; 0 for a single host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct HostIndex(pub u16);

/// A thread id in the initial pid namespace. Reused after a thread's death.
///
/// If several hosts' events are in the same stream, the bits above any kernel's id bits contain the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Tid(pub u32);

impl Tid {
    /// The id of every CPU's idle thread, on every host.
    pub const IDLE: Self = Self(0);
    /// `PID_MAX_LIMIT` on 64-bit kernels: ids are below.
    pub const LIMIT: u32 = 1 << Self::BITS;
    /// The number of hosts whose ids can be distinguished.
    pub const HOSTS: usize = 1 << (u32::BITS - Self::BITS);
    const BITS: u32 = 22;

    /// This id, from `host`, as an id among several hosts. An id that no kernel gives out becomes a valid id;
    /// the idle thread's is the same everywhere.
    pub const fn on(self, host: HostIndex) -> Self {
        if self.0 == Self::IDLE.0 {
            return self;
        }
        let number = self.0 % Self::LIMIT;
        Self((host.0 as u32) << Self::BITS | if number == 0 { Self::LIMIT - 1 } else { number })
    }

    /// The host in an id made by [`Tid::on`].
    pub const fn host(self) -> HostIndex {
        HostIndex((self.0 >> Self::BITS) as u16)
    }

    /// The id as its own host knows it.
    pub const fn number(self) -> u32 {
        self.0 % Self::LIMIT
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

/// A CPU's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Cpu(pub u16);

impl Cpu {
    /// No x86-64 kernel is built for more (`NR_CPUS`).
    pub const LIMIT: u16 = 8192;
    /// Not known.
    pub const UNKNOWN: Self = Self(u16::MAX);

    /// The CPU with a recording's number; unknown if no kernel has the number.
    pub const fn numbered(number: u32) -> Self {
        if number < Self::LIMIT as u32 { Self(number as u16) } else { Self::UNKNOWN }
    }
}

/// A cgroup's id: its directory's inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CgroupId(pub u64);

/// A thread's name: up to 15 bytes of anything but NUL. It is untrusted input, perhaps neither valid UTF-8
/// nor printable, and has to be escaped before it is printed.
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

/// A thread's identity. Tids are reused: (tid, start) identifies the thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadIdentity {
    /// The thread id.
    pub tid: Tid,
    /// The process: the leader's id.
    pub tgid: Tid,
    /// The parent process.
    pub parent: Tid,
    /// The id in the thread's own pid namespace.
    pub ns_tid: Tid,
    /// The process's id in its own pid namespace.
    pub ns_tgid: Tid,
    /// The start time.
    pub start: Stamp<Local>,
    /// The cgroup in the v2 hierarchy.
    pub cgroup: CgroupId,
    /// The cgroup in the hierarchy with the CPU controller.
    pub cpu_cgroup: CgroupId,
    /// The thread belongs to the kernel.
    pub kernel: bool,
    /// The name.
    pub comm: Comm,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_among_several_hosts_is_still_the_hosts_own() {
        let last = HostIndex(Tid::HOSTS as u16 - 1);
        for host in [HostIndex(0), HostIndex(1), last] {
            for number in [1, 7, Tid::LIMIT - 1] {
                let tid = Tid(number).on(host);
                assert_eq!((tid.host(), tid.number()), (host, number));
            }
            assert_eq!(Tid::IDLE.on(host), Tid::IDLE);
            // No kernel gives out these ids, but input may hold any.
            for number in [Tid::LIMIT, u32::MAX] {
                assert_eq!(Tid(number).on(host).host(), host);
                assert_ne!(Tid(number).on(host), Tid::IDLE);
            }
        }
    }
}
