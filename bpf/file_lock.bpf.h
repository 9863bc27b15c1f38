/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The process holding a file lock for which a call asked in vain. The file's locks are read without their spin lock just after the
 * call: a list changed meanwhile ends the search, and the holder is then not known.
 *
 * A lock by flock names the process by which it was taken, though a child may have inherited it. An open file description's lock
 * names nobody.
 */
#ifndef WAKEPATH_FILE_LOCK_H
#define WAKEPATH_FILE_LOCK_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

enum { F_SETLK = 6, F_OFD_SETLK = 37 };
enum { F_RDLCK = 0, F_WRLCK = 1, F_UNLCK = 2 };
enum { LOCK_SH = 1 };

#define MAX_LOCKS 16
#define TO_END_OF_FILE 0x7fffffffffffffffll

/* The bytes asked for. */
struct lock_range {
	__s64 from;
	__s64 to; /* inclusive */
	bool is_read;
};

/* In user memory, for fcntl. */
struct user_flock {
	__s16 type;
	__s16 whence;
	__s32 spare;
	__s64 start;
	__s64 len;
};

static __always_inline bool is_set_lock(__u32 command)
{
	return command == F_SETLK || command == F_OFD_SETLK;
}

/* A lock of the kernel's. */
struct lock_read {
	struct lock_range range;
	__u32 type;
	__s32 pid;
};

static __always_inline void read_lock(struct lock_read *read, __u64 address)
{
	if (!bpf_core_type_exists(struct file_lock_core)) {
		struct file_lock___flat *lock = (void *)address;

		read->pid = BPF_CORE_READ(lock, fl_pid);
		read->type = BPF_CORE_READ(lock, fl_type);
		read->range.from = BPF_CORE_READ(lock, fl_start);
		read->range.to = BPF_CORE_READ(lock, fl_end);
	} else {
		struct file_lock *lock = (void *)address;

		read->pid = BPF_CORE_READ(lock, c.flc_pid);
		read->type = BPF_CORE_READ(lock, c.flc_type);
		read->range.from = BPF_CORE_READ(lock, fl_start);
		read->range.to = BPF_CORE_READ(lock, fl_end);
	}
}

/* Not static: the kernel verifies it once, and not for each way to its calls. */
__noinline __u32 lock_holder(__u64 head, __u32 own, __s64 from, __s64 to, bool is_read)
{
	bool is_flat = !bpf_core_type_exists(struct file_lock_core);
	__u64 at = 0, list = 0;

	if (!is_flat)
		list = bpf_core_field_offset(struct file_lock, c) + bpf_core_field_offset(struct file_lock_core, flc_list);
	else
		list = bpf_core_field_offset(struct file_lock___flat, fl_list);
	bpf_probe_read_kernel(&at, sizeof(at), (void *)head);
	for (int i = 0; i < MAX_LOCKS; i++) {
		struct lock_read lock = {};

		if (!at || at == head)
			return 0;
		read_lock(&lock, at - list);
		if (lock.pid > 0 && lock.pid != (__s32)own && lock.range.from <= to && lock.range.to >= from &&
		    !(is_read && lock.type == F_RDLCK))
			return lock.pid;
		if (bpf_probe_read_kernel(&at, sizeof(at), (void *)at))
			return 0;
	}
	return 0;
}

static __always_inline __u32 flock_holder(struct inode *inode, __u32 own, __u32 operation)
{
	struct file_lock_context *locks = BPF_CORE_READ(inode, i_flctx);

	if (!locks)
		return 0;
	return lock_holder((__u64)locks + bpf_core_field_offset(struct file_lock_context, flc_flock), own, 0,
			   TO_END_OF_FILE, operation & LOCK_SH);
}

static __always_inline __u32 range_holder(struct inode *inode, __u32 own, __u64 argument)
{
	struct file_lock_context *locks = BPF_CORE_READ(inode, i_flctx);
	struct lock_range asked = { .to = TO_END_OF_FILE };
	struct user_flock flock = {};

	if (!locks || bpf_probe_read_user(&flock, sizeof(flock), (void *)argument))
		return 0;
	asked.is_read = flock.type == F_RDLCK;
	/* Only a range from the file's beginning is known here; any other may be any range. */
	if (flock.whence == 0 && flock.start >= 0) {
		asked.from = flock.start;
		if (flock.len > 0 && flock.len <= TO_END_OF_FILE - flock.start)
			asked.to = flock.start + flock.len - 1;
		else if (flock.len < 0) {
			asked.from = flock.start + flock.len;
			asked.to = flock.start - 1;
		}
	}
	return lock_holder((__u64)locks + bpf_core_field_offset(struct file_lock_context, flc_posix), own, asked.from, asked.to,
			   asked.is_read);
}

#endif
