/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Each thread's last failed call, kept in the thread's storage by failed.bpf.c. It is recorded where a call with a time-out takes the
 * thread off its CPU: a sleep between two tries has no cause, the failed try has. It is also recorded where the thread waits for
 * a child: a script sleeps in another process. And where a process ends in vain after a try: a script tries in another process.
 *
 * Without `--failed-calls` only refused file locks are kept, for all threads: nothing counts their other calls, so that a try counts for the
 * first sleep behind it, soon behind it.
 */
#ifndef WAKEPATH_FAILED_H
#define WAKEPATH_FAILED_H

#include "attempt.h"
#include "compat.bpf.h"
#include "current.bpf.h"

__weak const volatile bool record_failed_calls = false;
__weak const volatile bool keep_refused_locks = false;

/* A failure behind which more calls returned is not taken for a sleep's reason. */
#define MAX_LATER 32

/* Behind a refused lock, a program may print and count before it sleeps. */
#define REFUSED_NS 10000000

#define SPINS 4

/* A failing connection attempt returns at once, and its error comes by getsockopt. */
struct connecting {
	__s32 fd;
	__u8 is_open;
	__u8 object_kind;
	__u8 object_len;
	__u8 spare;
	__u8 object[WP_OBJECT_BYTES];
};

struct failing {
	__u64 from; /* ns: the first failure */
	__u64 to;
	__u32 call;
	__u32 error;
	__u64 count; /* 0: free */
};

/* Strength as evidence. A weaker failure does not replace a stronger: behind its try a thread also prints, or reads a file. */
enum rank { RANK_NONE = 0, RANK_OTHER = 1, RANK_PATH = 2, RANK_TRY = 3 };

struct failures {
	struct wp_failed_call last; /* without its header */
	__u32 rank; /* last's, enum rank */
	__u32 is_asleep; /* it left its CPU in a call with a time-out, which has not returned */
	__u32 is_seen; /* lock_tried saw the present call */
	__u32 is_counted; /* with `--failed-calls`, a target thread: its calls behind a failure count */
	__u64 refused; /* ns: when a lock was refused */
	__u64 inode; /* the refused lock's file, and bytes */
	__s64 from;
	__s64 to;
	__u64 content; /* last's: a hash */
	struct connecting connecting;
	struct failing spins[SPINS];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct failures);
} failures SEC(".maps") __weak;

/* Whether a call waits at most for a time given by its caller. */
static __always_inline bool has_timeout(const struct pt_regs *regs)
{
	switch (regs->orig_ax) {
	case 35: case 230: /* nanosleep clock_nanosleep */
		return true;
	case 7: /* poll */
		return (__s32)regs->dx >= 0;
	case 232: case 281: /* epoll_wait epoll_pwait */
		return (__s32)regs->r10 >= 0;
	case 128: case 271: /* rt_sigtimedwait ppoll */
		return regs->dx;
	case 23: case 270: /* select pselect6 */
		return regs->r8;
	case 220: case 441: /* semtimedop epoll_pwait2 */
		return regs->r10;
	case 202: /* futex: FUTEX_WAIT and FUTEX_WAIT_BITSET */
		return regs->r10 && ((regs->si & 0x7f) == 0 || (regs->si & 0x7f) == 9);
	}
	return false;
}

/*
 * Whether a process that ends has failed by its status, behind a try. Long before, a path that exists already is no try: a program
 * makes sure of its folders.
 */
static __always_inline bool ends_in_vain(const struct failures *kept, const struct task_struct *task)
{
	if (task->pid != task->tgid || !(task->exit_code & 0xff00) || kept->rank != RANK_TRY)
		return false;
	return kept->last.error != EEXIST || kept->last.later <= MAX_LATER;
}

/* Whether a thread leaves its CPU to sleep or to wait for a child, not long behind its last failure. */
static __always_inline bool sleeps_behind(struct failures *kept, struct task_struct *task)
{
	const struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	if (has_timeout(regs))
		kept->is_asleep = 1;
	else if (!waits_for_child(regs->orig_ax, regs->dx, regs->r10))
		return false;
	return kept->last.later <= MAX_LATER;
}

/* Directly before the switch-out's record, with its stamp. */
static __always_inline void write_failed_call(struct wp_ring *ring, struct task_struct *prev, unsigned int state, __u64 now)
{
	struct failures *kept = bpf_task_storage_get(&failures, prev, NULL, 0);
	struct wp_failed_call *r;

	if (!kept || !kept->rank || is_32_bit(prev))
		return;
	if (!kept->is_counted && now - kept->refused > REFUSED_NS)
		return;
	if (!(state & TASK_DEAD ? ends_in_vain(kept, prev) : sleeps_behind(kept, prev)))
		return;
	r = ring_reserve(ring, sched_ring_mask);
	if (!r)
		return;
	*r = kept->last;
	r->h.stamp = now;
	r->h.seq = ring->seq;
	r->h.kind = WP_FAILED_CALL;
	r->h.context = WP_CTX_TASK;
	r->h.tid = prev->pid;
	ring_commit(ring, sizeof(*r));
	if (!kept->is_counted && kept->is_asleep)
		kept->is_asleep = kept->rank = RANK_NONE;
}

#endif
