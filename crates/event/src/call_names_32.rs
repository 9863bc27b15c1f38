//! 32-bit programs' system calls on x86, by the equal 64-bit calls' names (the kernel's `syscall_32.tbl`).
//!
//! Up to 423 their numbers are different, and a call has several: with 16-bit and 32-bit ids, with 32-bit and 64-bit
//! offsets or times. Old libraries make socket calls through `socketcall` and System V IPC calls through `ipc`, with the
//! call's number as first argument.

use crate::Call;

impl Call {
    /// Above all numbers named by [`Call::from_32_bit`].
    pub const COUNT_32_BIT: u32 = Self::COUNT;
    /// The 32-bit number for `socketcall`.
    pub const SOCKETCALL_32_BIT: u32 = 102;
    /// The 32-bit number for `ipc`.
    pub const IPC_32_BIT: u32 = 117;

    /// The 64-bit number for a 32-bit program's number; `None` where there is no such call.
    pub fn from_32_bit(number: u32) -> Option<u32> {
        if number >= SAME_FROM {
            return Self::name(number).map(|_| number);
        }
        named(NAMES, number)
    }

    /// The 64-bit number for a call through `socketcall`.
    pub fn from_socketcall(first_argument: u32) -> Option<u32> {
        named(SOCKET_CALLS, first_argument)
    }

    /// The 64-bit number for a call through `ipc`. The argument's upper half is a version.
    pub fn from_ipc(first_argument: u32) -> Option<u32> {
        named(IPC_CALLS, first_argument & 0xffff)
    }
}

fn named(names: &[&str], number: u32) -> Option<u32> {
    Call::number(names.get(usize::try_from(number).ok()?)?)
}

/// From here on, 32-bit and 64-bit calls have the same numbers.
const SAME_FROM: u32 = 424;

#[rustfmt::skip]
const SOCKET_CALLS: &[&str] = &[
    "", "socket", "bind", "connect", "listen", "accept", "getsockname", "getpeername", "socketpair", "sendto",
    "recvfrom", "sendto", "recvfrom", "shutdown", "setsockopt", "getsockopt", "sendmsg", "recvmsg", "accept4",
    "recvmmsg", "sendmmsg",
];

#[rustfmt::skip]
const IPC_CALLS: &[&str] = &[
    "", "semop", "semget", "semctl", "semtimedop", "", "", "", "", "", "", "msgsnd", "msgrcv", "msgget", "msgctl",
    "", "", "", "", "", "", "shmat", "shmdt", "shmget", "shmctl",
];

/// Empty for numbers without a 64-bit call.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "restart_syscall", "exit", "fork", "read", "write", "open", "close", "wait4", "creat", "link", "unlink",
    "execve", "chdir", "time", "mknod", "chmod", "lchown", "", "stat", "lseek", "getpid", "mount", "umount2",
    "setuid", "getuid", "", "ptrace", "alarm", "fstat", "pause", "utime", "", "", "access", "", "", "sync",
    "kill", "rename", "mkdir", "rmdir", "dup", "pipe", "times", "", "brk", "setgid", "getgid",
    "rt_sigaction", "geteuid", "getegid", "acct", "umount2", "", "ioctl", "fcntl", "", "setpgid", "",
    "uname", "umask", "chroot", "ustat", "dup2", "getppid", "getpgrp", "setsid", "rt_sigaction", "", "",
    "setreuid", "setregid", "rt_sigsuspend", "rt_sigpending", "sethostname", "setrlimit", "getrlimit",
    "getrusage", "gettimeofday", "settimeofday", "getgroups", "setgroups", "select", "symlink", "lstat",
    "readlink", "uselib", "swapon", "reboot", "getdents", "mmap", "munmap", "truncate", "ftruncate",
    "fchmod", "fchown", "getpriority", "setpriority", "", "statfs", "fstatfs", "ioperm", "", "syslog",
    "setitimer", "getitimer", "stat", "lstat", "fstat", "uname", "iopl", "vhangup", "", "", "wait4",
    "swapoff", "sysinfo", "", "fsync", "rt_sigreturn", "clone", "setdomainname", "uname", "modify_ldt",
    "adjtimex", "mprotect", "rt_sigprocmask", "create_module", "init_module", "delete_module",
    "get_kernel_syms", "quotactl", "getpgid", "fchdir", "", "sysfs", "personality", "afs_syscall",
    "setfsuid", "setfsgid", "lseek", "getdents", "select", "flock", "msync", "readv", "writev", "getsid",
    "fdatasync", "_sysctl", "mlock", "munlock", "mlockall", "munlockall", "sched_setparam", "sched_getparam",
    "sched_setscheduler", "sched_getscheduler", "sched_yield", "sched_get_priority_max",
    "sched_get_priority_min", "sched_rr_get_interval", "nanosleep", "mremap", "setresuid", "getresuid", "",
    "query_module", "poll", "nfsservctl", "setresgid", "getresgid", "prctl", "rt_sigreturn", "rt_sigaction",
    "rt_sigprocmask", "rt_sigpending", "rt_sigtimedwait", "rt_sigqueueinfo", "rt_sigsuspend", "pread64",
    "pwrite64", "chown", "getcwd", "capget", "capset", "sigaltstack", "sendfile", "getpmsg", "putpmsg",
    "vfork", "getrlimit", "mmap", "truncate", "ftruncate", "stat", "lstat", "fstat", "lchown", "getuid",
    "getgid", "geteuid", "getegid", "setreuid", "setregid", "getgroups", "setgroups", "fchown", "setresuid",
    "getresuid", "setresgid", "getresgid", "chown", "setuid", "setgid", "setfsuid", "setfsgid", "pivot_root",
    "mincore", "madvise", "getdents64", "fcntl", "", "", "gettid", "readahead", "setxattr", "lsetxattr",
    "fsetxattr", "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr",
    "removexattr", "lremovexattr", "fremovexattr", "tkill", "sendfile", "futex", "sched_setaffinity",
    "sched_getaffinity", "set_thread_area", "get_thread_area", "io_setup", "io_destroy", "io_getevents",
    "io_submit", "io_cancel", "fadvise64", "", "exit_group", "lookup_dcookie", "epoll_create", "epoll_ctl",
    "epoll_wait", "remap_file_pages", "set_tid_address", "timer_create", "timer_settime", "timer_gettime",
    "timer_getoverrun", "timer_delete", "clock_settime", "clock_gettime", "clock_getres", "clock_nanosleep",
    "statfs", "fstatfs", "tgkill", "utimes", "fadvise64", "vserver", "mbind", "get_mempolicy",
    "set_mempolicy", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr",
    "kexec_load", "waitid", "", "add_key", "request_key", "keyctl", "ioprio_set", "ioprio_get",
    "inotify_init", "inotify_add_watch", "inotify_rm_watch", "migrate_pages", "openat", "mkdirat", "mknodat",
    "fchownat", "futimesat", "newfstatat", "unlinkat", "renameat", "linkat", "symlinkat", "readlinkat",
    "fchmodat", "faccessat", "pselect6", "ppoll", "unshare", "set_robust_list", "get_robust_list", "splice",
    "sync_file_range", "tee", "vmsplice", "move_pages", "getcpu", "epoll_pwait", "utimensat", "signalfd",
    "timerfd_create", "eventfd", "fallocate", "timerfd_settime", "timerfd_gettime", "signalfd4", "eventfd2",
    "epoll_create1", "dup3", "pipe2", "inotify_init1", "preadv", "pwritev", "rt_tgsigqueueinfo",
    "perf_event_open", "recvmmsg", "fanotify_init", "fanotify_mark", "prlimit64", "name_to_handle_at",
    "open_by_handle_at", "clock_adjtime", "syncfs", "sendmmsg", "setns", "process_vm_readv",
    "process_vm_writev", "kcmp", "finit_module", "sched_setattr", "sched_getattr", "renameat2", "seccomp",
    "getrandom", "memfd_create", "bpf", "execveat", "socket", "socketpair", "bind", "connect", "listen",
    "accept4", "getsockopt", "setsockopt", "getsockname", "getpeername", "sendto", "sendmsg", "recvfrom",
    "recvmsg", "shutdown", "userfaultfd", "membarrier", "mlock2", "copy_file_range", "preadv2", "pwritev2",
    "pkey_mprotect", "pkey_alloc", "pkey_free", "statx", "arch_prctl", "io_pgetevents", "rseq", "", "", "",
    "", "", "", "semget", "semctl", "shmget", "shmctl", "shmat", "shmdt", "msgget", "msgsnd", "msgrcv",
    "msgctl", "clock_gettime", "clock_settime", "clock_adjtime", "clock_getres", "clock_nanosleep",
    "timer_gettime", "timer_settime", "timerfd_gettime", "timerfd_settime", "utimensat", "pselect6", "ppoll",
    "", "io_pgetevents", "recvmmsg", "mq_timedsend", "mq_timedreceive", "semtimedop", "rt_sigtimedwait",
    "futex", "sched_rr_get_interval",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u32) -> Option<&'static str> {
        Call::from_32_bit(number).and_then(Call::name)
    }

    #[test]
    fn well_known_numbers_mean_the_calls_of_the_same_kind() {
        for (number, expected) in [
            (0, "restart_syscall"),
            (1, "exit"),
            (3, "read"),
            (4, "write"),
            (5, "open"),
            (7, "wait4"),
            (11, "execve"),
            (82, "select"),
            (90, "mmap"),
            (118, "fsync"),
            (120, "clone"),
            (140, "lseek"),
            (142, "select"),
            (148, "fdatasync"),
            (162, "nanosleep"),
            (168, "poll"),
            (180, "pread64"),
            (192, "mmap"),
            (195, "stat"),
            (201, "geteuid"),
            (221, "fcntl"),
            (240, "futex"),
            (252, "exit_group"),
            (256, "epoll_wait"),
            (265, "clock_gettime"),
            (267, "clock_nanosleep"),
            (300, "newfstatat"),
            (319, "epoll_pwait"),
            (386, "rseq"),
            (407, "clock_nanosleep"),
            (422, "futex"),
            (424, "pidfd_send_signal"),
            (441, "epoll_pwait2"),
        ] {
            assert_eq!(name(number), Some(expected), "{number}");
        }
        for number in [17, Call::SOCKETCALL_32_BIT, Call::IPC_32_BIT, 222, 415, Call::COUNT_32_BIT, u32::MAX]
        {
            assert_eq!(name(number), None, "{number}");
        }
        assert!(name(Call::COUNT_32_BIT - 1).is_some());
    }

    #[test]
    fn every_name_in_the_tables_is_a_call() {
        for name in [NAMES, SOCKET_CALLS, IPC_CALLS].concat() {
            assert!(name.is_empty() || Call::number(name).is_some(), "{name}");
        }
        assert_eq!(NAMES.len(), SAME_FROM as usize);
    }

    #[test]
    fn calls_made_through_one_call_are_found_by_its_argument() {
        let socket = |argument| Call::from_socketcall(argument).and_then(Call::name);
        assert_eq!([0, 1, 3, 5, 9, 20, 21].map(socket), {
            [None, Some("socket"), Some("connect"), Some("accept"), Some("sendto"), Some("sendmmsg"), None]
        });
        let ipc = |argument| Call::from_ipc(argument).and_then(Call::name);
        assert_eq!([1, 0x1_0004, 11, 24, 25, 5].map(ipc), {
            [Some("semop"), Some("semtimedop"), Some("msgsnd"), Some("shmctl"), None, None]
        });
    }

    /// The kernel's own header, where it is installed: each call named in both tables.
    #[test]
    fn numbers_are_those_of_the_kernels_header() {
        let header = "/usr/include/x86_64-linux-gnu/asm/unistd_32.h";
        let Ok(header) = std::fs::read_to_string(header) else {
            println!("skipped: {header} is not installed");
            return;
        };
        let (mut same, mut unnamed) = (0, Vec::new());
        for line in header.lines() {
            let Some((call, number)) =
                line.strip_prefix("#define __NR_").and_then(|rest| rest.split_once(' '))
            else {
                continue;
            };
            let number: u32 = number.trim().parse().expect(line);
            if let Some(known) = Call::number(call) {
                assert_eq!(Call::from_32_bit(number), Some(known), "{line}");
                same += 1;
            } else if let Some(found) = name(number) {
                // Another form, or an older form.
                let forms = |name: &str| {
                    [
                        name.to_owned(),
                        format!("{name}64"),
                        format!("{name}32"),
                        format!("{name}_time64"),
                        format!("old{name}"),
                        format!("oldold{name}"),
                        format!("_l{name}"),
                        format!("_new{name}"),
                        format!("{name}2"),
                        format!("u{name}"),
                        format!("{name}_64"),
                        name.replace("rt_", ""),
                        name.replace("newfstatat", "fstatat64"),
                        name.replace('2', ""),
                    ]
                };
                let others = [
                    ("readdir", "getdents"),
                    ("signal", "rt_sigaction"),
                    ("waitpid", "wait4"),
                    ("_llseek", "lseek"),
                ];
                assert!(
                    forms(found).iter().any(|form| form == call) || others.contains(&(call, found)),
                    "{call} is {found}"
                );
            } else {
                unnamed.push(call);
            }
        }
        assert!(same > 300, "{same}");
        let expected = "break stime stty gtty nice ftime prof lock mpx ulimit sgetmask ssetmask profil socketcall idle \
             vm86old ipc bdflush vm86";
        assert_eq!(unnamed.join(" "), expected);
    }
}
