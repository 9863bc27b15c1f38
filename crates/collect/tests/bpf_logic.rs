//! BPF programs' decisions that a live test cannot bring about at will, compiled for the host: which descriptor ended
//! a wait in `epoll_wait`, which waits are page faults, and which failed calls are tries.

use std::path::Path;
use std::process::Command;

/// The kernel's answers for `bpf/epoll.bpf.h`, from this program's memory. Its types are those in `bpf/kernel.h`,
/// with the layout they have there.
const KERNEL: &str = r#"
    #include <assert.h>
    #define __always_inline inline __attribute__((always_inline))
    #define __noinline __attribute__((noinline))
    #define __bpf__
    #include "kernel.h"
    #include "records.h"
    #include "ring.h"
    #define WAKEPATH_FILE_H
    #define for_loads(task) (task)
    #define bpf_core_cast(address, type) ((type *)(address))
    #define bpf_core_field_offset(type, field) __builtin_offsetof(type, field)
    #define bpf_core_type_exists(type) 1
    #define bpf_core_field_exists(...) 1
    #define bpf_ksym_exists(symbol) 1
    static struct pt_regs registers;
    static struct { struct wp_ready record; int count; } told;
    static int file_told = -1;
    static const __u64 sched_ring_mask = 0xfff;
    static __u64 word_at(const void *address) { return *(const __u64 *)address; }
    static void tell_file(struct task_struct *task, __u64 fd) { file_told = fd; }
    static struct pt_regs *registers_of(struct task_struct *task) { return &registers; }
    static __u8 context_of(const struct wp_ring *ring) { return 7; }
    static void *ring_reserve(struct wp_ring *ring, __u64 mask) { return &told.record; }
    static void ring_commit(struct wp_ring *ring, __u64 length) { told.count++; }
    #include "epoll.bpf.h"
    #include "fault.h"
"#;

/// Descriptor 3 is a set, with entries for descriptors 4 and 5. A task waits in it.
const EPOLL: &str = r#"
    static struct file files[6];
    static struct file *open_files[6] = {0, 0, 0, &files[3], &files[4], &files[5]};
    static struct fdtable table = {6, open_files};
    static struct files_struct descriptors = {&table};
    static struct eventpoll set;
    static struct epitem four, five;
    static struct wait_queue_entry first;
    static struct task_struct task, another;

    /* `entries`: the ready ones, from the oldest to the newest. */
    static void make(struct epitem *oldest, struct epitem *newest)
    {
        struct list_head *list = &set.rdllist;

        open_files[4] = &files[4];
        open_files[5] = &files[5];
        files[3].private_data = &set;
        set.file = &files[3];
        set.ovflist = (void *)-1;
        set.wq.head.next = &first.entry;
        first.private = &task;
        four = (struct epitem){.ffd = {&files[4], 4}, .ep = &set};
        five = (struct epitem){.ffd = {&files[5], 5}, .ep = &set};
        list->next = oldest ? &oldest->rdllink : list;
        list->prev = newest ? &newest->rdllink : list;
        task.files = &descriptors;
        task.flags = 0;
        registers = (struct pt_regs){.orig_ax = SYS_epoll_wait, .di = 3};
        file_told = -1;
    }

    static __u64 found(void)
    {
        return ready_descriptor(&task, &registers);
    }

    static int records(void)
    {
        struct wp_ring ring = {.seq = 9};

        told.count = 0;
        tell_ready(&ring, &task, 77, 12);
        return told.count;
    }

    int main(void)
    {
        make(&four, &five);
        assert(found() == 5 && file_told == 5);
        make(&five, &four);
        assert(found() == 4 && file_told == 4);
        make(0, 0);
        assert(found() == WP_NOTHING_READY && file_told == -1);

        /* Another thread is the first in the queue: this one sleeps elsewhere in the call. */
        make(&four, &five);
        first.private = &another;
        assert(found() == WP_READY_UNKNOWN && file_told == -1);

        /* While a thread takes entries out, the newest is the first of the second list. */
        make(&four, &four);
        set.ovflist = &five;
        assert(found() == 5);
        set.ovflist = 0;
        assert(found() == WP_READY_UNKNOWN);
        make(0, 0);
        set.ovflist = &five;
        assert(found() == 5);
        set.ovflist = 0;
        assert(found() == WP_READY_UNKNOWN);

        /* The descriptor means another file by now, or none; the entry is of another set; the file is no set. */
        make(&four, &five);
        open_files[5] = &files[4];
        assert(found() == WP_READY_UNKNOWN && file_told == -1);
        open_files[5] = 0;
        assert(found() == WP_READY_UNKNOWN);
        make(&four, &five);
        five.ep = 0;
        assert(found() == WP_READY_UNKNOWN);
        make(&four, &five);
        set.file = &files[4];
        assert(found() == WP_READY_UNKNOWN);
        make(&four, &five);
        registers.di = 6;
        assert(found() == WP_READY_UNKNOWN);
        registers.di = 2;
        assert(found() == WP_READY_UNKNOWN);
        task.files = 0;
        registers.di = 3;
        assert(found() == WP_READY_UNKNOWN);

        make(&four, &five);
        task.pid = 10;
        assert(records() == 1 && told.record.fd == 5 && told.record.target_tid == 10);
        assert(told.record.h.stamp == 77 && told.record.h.tid == 12 && told.record.h.seq == 9);
        assert(told.record.h.kind == WP_READY && told.record.h.context == 7);
        registers.orig_ax = SYS_epoll_pwait2;
        assert(records() == 1);
        registers.orig_ax = 7;
        assert(records() == 0);
        make(&four, &five);
        task.flags = PF_KTHREAD;
        assert(records() == 0);
        make(&four, &five);
        first.private = &another;
        assert(records() == 0);
    }
"#;

const FAULTS: &str = r#"
    int main(void)
    {
        const unsigned other = 0x00400000;

        assert(is_page_fault(0, TASK_UNINTERRUPTIBLE));
        /* Killable, or without a share of the load. */
        assert(is_page_fault(other, TASK_UNINTERRUPTIBLE | 0x100));
        assert(is_page_fault(0, TASK_UNINTERRUPTIBLE | 0x400));
        /* Interruptible, stopped, runnable. */
        assert(!is_page_fault(0, 1) && !is_page_fault(0, 4) && !is_page_fault(0, 0));
        /* It ends, writes a core dump, or was killed. */
        assert(!is_page_fault(0x4, TASK_UNINTERRUPTIBLE));
        assert(!is_page_fault(0x200, TASK_UNINTERRUPTIBLE));
        assert(!is_page_fault(0x400, TASK_UNINTERRUPTIBLE));
        assert(!is_page_fault(other | 0x4, TASK_UNINTERRUPTIBLE | 0x100));
    }
"#;

const ATTEMPTS: &str = r#"
    #include "attempt.h"

    int main(void)
    {
        const unsigned tries[] = {1, 2, 3, 4, 6, 11, 13, 16, 17, 20, 28, 91, 98, 99, 105, 107, 110, 111};
        const unsigned for_good[] = {9, 10, 14, 22, 25, 29, 34, 36, 38, 61, 88, 92, 93, 94, 95, 96, 97, 106};

        for (int i = 0; i < sizeof(tries) / sizeof(*tries); i++)
            assert(!fails_for_good(tries[i]));
        for (int i = 0; i < sizeof(for_good) / sizeof(*for_good); i++)
            assert(fails_for_good(for_good[i]));
        /* wait4 has its options in the third argument, waitid in the fourth; WNOHANG is 1. */
        assert(waits_for_child(61, 0, 1) && waits_for_child(61, 2, 1) && !waits_for_child(61, 3, 0));
        assert(waits_for_child(247, 1, 4) && !waits_for_child(247, 0, 5));
        assert(!waits_for_child(230, 0, 0) && !waits_for_child(0, 0, 0));
    }
"#;

/// Compiles and runs a program whose assertions must hold.
fn check(name: &str, main: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join(format!("{name}.c")), folder.path().join(name));
    std::fs::write(&source, format!("{KERNEL}{main}")).expect("room");
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-w", "-I"])
        .arg(bpf)
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .status();
    assert!(compiled.expect("a C compiler").success(), "{name}.c does not build");
    let output = Command::new(&program).output().expect("a program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_newest_ready_descriptor_is_found_for_the_first_thread_in_the_queue_alone() {
    check("epoll", EPOLL);
}

#[test]
fn a_failure_that_no_wait_mends_is_no_try_and_a_parent_waits_for_a_child() {
    check("attempts", ATTEMPTS);
}

#[test]
fn a_wait_at_the_end_of_a_thread_is_no_page_fault() {
    check("fault", FAULTS);
}
