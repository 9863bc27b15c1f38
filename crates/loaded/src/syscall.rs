//! Sets of system calls.

use std::sync::LazyLock;

use wakepath_event::Call;

/// A set of system calls, by number: some sets are looked up for every segment on a path.
pub struct CallSet(Vec<bool>);

impl CallSet {
    /// The calls with these names, which single blanks separate.
    pub fn named(names: &str) -> Self {
        let is_named = |name: &str| names.split(' ').any(|other| other == name);
        Self((0..Call::COUNT).map(|number| Call::name(number).is_some_and(is_named)).collect())
    }

    /// Whether the set has the call with this number.
    pub fn contains(&self, number: u32) -> bool {
        self.0.get(number as usize).copied().unwrap_or(false)
    }
}

/// System calls with a file descriptor as first argument.
pub static OF_DESCRIPTORS: LazyLock<CallSet> = LazyLock::new(|| {
    CallSet::named(
        "accept accept4 close connect copy_file_range epoll_pwait epoll_pwait2 epoll_wait fallocate fcntl \
         fdatasync flock fsync ftruncate getdents64 io_uring_enter ioctl pread64 preadv preadv2 pwrite64 \
         pwritev pwritev2 read readv recvfrom recvmmsg recvmsg sendfile sendmmsg sendmsg sendto shutdown \
         splice sync_file_range syncfs vmsplice write writev",
    )
});
