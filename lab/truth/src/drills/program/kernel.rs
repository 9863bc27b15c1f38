//! C programs whose culprit makes a system call that is slow for a known reason in the kernel.

use super::{Language, Program, Random};

/// A system call, with the reason why it is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemCall {
    /// `clock_nanosleep`: a timer.
    Sleeps,
    /// `futex`: a lock held by another thread.
    Locks,
    /// `read` of a pipe into which another thread writes late.
    Reads,
    /// `fsync` of a written page.
    Syncs,
    /// `write` to the end of a file: another thread writes there, and holds the inode's lock.
    Appends,
    /// `openat` of a name with many components: it computes.
    Opens,
}

impl SystemCall {
    const ALL: [Self; 6] = [Self::Sleeps, Self::Locks, Self::Reads, Self::Syncs, Self::Appends, Self::Opens];

    /// Its name in the C source.
    pub const fn in_c(self) -> &'static str {
        match self {
            Self::Sleeps => "sleeps",
            Self::Locks => "locks",
            Self::Reads => "reads",
            Self::Syncs => "syncs",
            Self::Appends => "appends",
            Self::Opens => "opens",
        }
    }

    /// Kernel functions on its path in this order, on Linux 6.1 and 6.12 with files on ext4; others may be between.
    pub const fn path(self) -> &'static [&'static str] {
        match self {
            Self::Sleeps => &["__x64_sys_clock_nanosleep", "hrtimer_nanosleep", "do_nanosleep", "schedule"],
            Self::Locks => &["__x64_sys_futex", "do_futex", "futex_wait", "schedule"],
            Self::Reads => &["__x64_sys_read", "ksys_read", "vfs_read", "schedule"],
            Self::Syncs => &["__x64_sys_fsync", "vfs_fsync_range", "ext4_sync_file"],
            Self::Appends => &["__x64_sys_write", "ksys_write", "vfs_write", "down_write"],
            Self::Opens => &["__x64_sys_openat", "do_filp_open"],
        }
    }
}

impl Program {
    /// The program for a seed, with a culprit in the kernel: the same each time.
    pub fn from_seed_in_kernel(seed: u64) -> Self {
        let mut program = Self::from_seed(seed, Language::C);
        program.system_call = Some(Random(!seed).of(&SystemCall::ALL));
        // One thread at a time waits for the lock, the byte or the inode.
        program.threads = 1;
        program
    }

    /// The culprit's system call, if it was planted there.
    pub const fn system_call(&self) -> Option<SystemCall> {
        self.system_call
    }
}
