/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The descriptor that ends a wait in epoll_wait. The kernel's descriptor set is a tree and cannot be walked here, but
 * each ready descriptor is appended to a list before a thread is woken for it:
 *
 * 1. At a wake-up, the woken thread's registers show whether it is in such a call, and on which descriptor.
 * 2. The thread must be the first in the set's queue: it may sleep elsewhere in the same call.
 * 3. Then it is woken for the newest entry in the list of ready descriptors; an empty list means a time-out or a signal.
 *    While another thread takes entries out, new entries go to a second list, newest first.
 *
 * The list's lock is not taken: each entry points to its set, the set to its file, and these must agree. Without types by
 * name (before 6.2), or with other kernel structures, nothing is recorded.
 */
#ifndef WAKEPATH_EPOLL_H
#define WAKEPATH_EPOLL_H

#include "file.bpf.h"

enum { SYS_epoll_wait = 232, SYS_epoll_pwait = 281, SYS_epoll_pwait2 = 441 };

static __always_inline bool is_epoll(__u64 call)
{
	return call == SYS_epoll_wait || call == SYS_epoll_pwait || call == SYS_epoll_pwait2;
}

/* The file open as `fd`; 0 for none. */
static __always_inline __u64 open_file(struct fdtable *table, __u64 fd)
{
	return fd < table->max_fds ? word_at(table->fd + fd) : 0;
}

/* The newest entry in the ready lists, NO_ENTRY or NOT_KNOWN. */
enum { NO_ENTRY = 0, NOT_KNOWN = 1 };

static __always_inline __u64 newest_entry(struct eventpoll *ep)
{
	__u64 list = (__u64)ep + bpf_core_field_offset(struct eventpoll, rdllist);
	__u64 newest, inactive = -1;

	if ((__u64)ep->ovflist != inactive)
		return ep->ovflist ? (__u64)ep->ovflist : NOT_KNOWN;
	newest = word_at((void *)list + bpf_core_field_offset(struct list_head, prev));
	if (!newest)
		return NOT_KNOWN;
	return newest == list ? NO_ENTRY : newest - bpf_core_field_offset(struct epitem, rdllink);
}

/*
 * The descriptor for which `task` is woken in a call with these registers: its number, WP_NOTHING_READY, or
 * WP_READY_UNKNOWN.
 */
static __noinline __u64 ready_descriptor(struct task_struct *task, struct pt_regs *regs)
{
	struct fdtable *table = task->files ? task->files->fdt : NULL;
	struct wait_queue_entry *first;
	struct eventpoll *ep;
	struct epitem *entry;
	__u64 file, item;

	if (!table)
		return WP_READY_UNKNOWN;
	file = open_file(table, (__u32)regs->di);
	if (!file)
		return WP_READY_UNKNOWN;
	ep = bpf_core_cast(bpf_core_cast((void *)file, struct file)->private_data, struct eventpoll);
	if ((__u64)ep->file != file)
		return WP_READY_UNKNOWN;
	item = (__u64)ep + bpf_core_field_offset(struct eventpoll, wq) +
	       bpf_core_field_offset(struct wait_queue_head, head);
	item = word_at((void *)item) - bpf_core_field_offset(struct wait_queue_entry, entry);
	first = bpf_core_cast((void *)item, struct wait_queue_entry);
	if ((__u64)first->private != (__u64)task)
		return WP_READY_UNKNOWN;
	item = newest_entry(ep);
	if (item == NO_ENTRY)
		return WP_NOTHING_READY;
	entry = bpf_core_cast((void *)item, struct epitem);
	/* The set outlives the descriptor, whose number may mean another file by now. */
	if (item == NOT_KNOWN || (__u64)entry->ep != (__u64)ep ||
	    open_file(table, (__u32)entry->ffd.fd) != (__u64)entry->ffd.file)
		return WP_READY_UNKNOWN;
	tell_file(task, (__u32)entry->ffd.fd);
	return (__u32)entry->ffd.fd;
}

/* Records the descriptor for which `task` is about to be woken, if it waits in epoll_wait. */
static __always_inline void tell_ready(struct wp_ring *ring, struct task_struct *task, __u64 now, __u32 tid)
{
	struct wp_ready *r;
	struct pt_regs *regs;
	__u64 fd;

	if (!bpf_ksym_exists(bpf_rdonly_cast) || !bpf_core_type_exists(struct eventpoll) ||
	    !bpf_core_field_exists(struct eventpoll, file) || !bpf_core_field_exists(struct epitem, ep) ||
	    !bpf_core_type_exists(struct wait_queue_entry))
		return;
	if (task->flags & PF_KTHREAD)
		return;
	regs = registers_of(task);
	if (!is_epoll(regs->orig_ax))
		return;
	fd = ready_descriptor(for_loads(task), regs);
	if (fd == WP_READY_UNKNOWN)
		return;
	r = ring_reserve(ring, sched_ring_mask);
	if (!r)
		return;
	r->h.stamp = now;
	r->h.seq = ring->seq;
	r->h.kind = WP_READY;
	r->h.context = context_of(ring);
	r->h.tid = tid;
	r->target_tid = task->pid;
	r->fd = fd;
	ring_commit(ring, sizeof(*r));
}

#endif
