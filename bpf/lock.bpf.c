// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Which kernel lock a thread waits for, and who had it when the wait began. Only locks that put
 * the waiter to sleep: a spinning waiter is running, and its time is its own.
 */
#include "ring.bpf.h"

enum { LCB_F_SPIN = 1, LCB_F_READ = 2, LCB_F_WRITE = 4, LCB_F_RT = 8, LCB_F_PERCPU = 16, LCB_F_MUTEX = 32 };

/* The low bits of an owner word are flags of the lock. */
static __always_inline __u32 owner_tid(__u64 owner)
{
	struct task_struct *task = (struct task_struct *)(owner & ~7ULL);

	return task ? BPF_CORE_READ(task, pid) : 0;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(contention_begin, void *lock, unsigned int flags)
{
	struct wp_lock *r;

	if (flags & (LCB_F_SPIN | LCB_F_PERCPU))
		return 0;
	r = life_reserve(sizeof(*r), WP_LOCK_BEGIN, current_tid());
	if (!r)
		return 0;
	r->lock = (__u64)lock;
	r->flags = flags;
	r->owner = 0;
	if (flags & LCB_F_MUTEX)
		r->owner = owner_tid(BPF_CORE_READ((struct mutex *)lock, owner.counter));
	else if ((flags & (LCB_F_READ | LCB_F_WRITE)) && !(flags & LCB_F_RT)) {
		__u64 owner = BPF_CORE_READ((struct rw_semaphore *)lock, owner.counter);

		/* Bit 0: readers hold it; the word then names the last to come, not the one to leave. */
		r->owner = owner & 1 ? 0 : owner_tid(owner);
	}
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}


char LICENSE[] SEC("license") = "Dual BSD/GPL";
