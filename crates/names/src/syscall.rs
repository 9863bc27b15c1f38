//! The purpose of system calls.

use std::sync::LazyLock;

use wakepath_event::Call;

/// Whether the call's first argument is a file descriptor.
pub fn takes_descriptor(number: u32) -> bool {
    // Asked of every segment of a path: by number, not by name.
    static BY_NUMBER: LazyLock<Vec<bool>> =
        LazyLock::new(|| (0..Call::COUNT).map(is_of_descriptor).collect());
    BY_NUMBER.get(number as usize).copied().unwrap_or(false)
}

fn is_of_descriptor(number: u32) -> bool {
    matches!(
        Call::name(number),
        Some(
            "accept"
                | "accept4"
                | "close"
                | "connect"
                | "copy_file_range"
                | "epoll_pwait"
                | "epoll_pwait2"
                | "epoll_wait"
                | "fallocate"
                | "fcntl"
                | "fdatasync"
                | "flock"
                | "fsync"
                | "ftruncate"
                | "getdents64"
                | "io_uring_enter"
                | "ioctl"
                | "pread64"
                | "preadv"
                | "preadv2"
                | "pwrite64"
                | "pwritev"
                | "pwritev2"
                | "read"
                | "readv"
                | "recvfrom"
                | "recvmmsg"
                | "recvmsg"
                | "sendfile"
                | "sendmmsg"
                | "sendmsg"
                | "sendto"
                | "shutdown"
                | "splice"
                | "sync_file_range"
                | "syncfs"
                | "vmsplice"
                | "write"
                | "writev"
        )
    )
}
