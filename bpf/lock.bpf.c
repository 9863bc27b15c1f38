// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The kernel lock for which a thread waits, and its owner when the wait began. Only sleeping locks: a spinning waiter
 * is running.
 */
#include "ring.bpf.h"

enum { LCB_F_SPIN = 1, LCB_F_READ = 2, LCB_F_WRITE = 4, LCB_F_RT = 8, LCB_F_PERCPU = 16, LCB_F_MUTEX = 32 };

/* An owner word's low bits are the lock's flags. */
static __always_inline __u32 owner_tid(__u64 owner)
{
	struct task_struct *task = (struct task_struct *)(owner & ~7ULL);

	return task ? BPF_CORE_READ(task, pid) : 0;
}

/*
 * The threads with a recorded wait, each with its lock. The end of a wait has no flags, so only this map
 * distinguishes it from the end of a spinning wait for another lock, such as the lock of the first lock's wait queue.
 * Without its end, all the thread's later waits would count as waits for this lock.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} contended SEC(".maps");

SEC("tp_btf/contention_begin")
int BPF_PROG(contention_begin, void *lock, unsigned int flags)
{
	TIME_RARE;
	__u64 address = (__u64)lock;
	__u32 tid = current_tid();
	struct wp_lock *r;

	if (flags & (LCB_F_SPIN | LCB_F_PERCPU))
		return 0;
	if (bpf_map_update_elem(&contended, &tid, &address, BPF_ANY))
		return 0;
	r = life_reserve(sizeof(*r), WP_LOCK_BEGIN, tid);
	if (!r)
		return 0;
	r->lock = (__u64)lock;
	r->flags = flags;
	r->owner = 0;
	if (flags & LCB_F_MUTEX)
		r->owner = owner_tid(BPF_CORE_READ((struct mutex *)lock, owner.counter));
	else if ((flags & (LCB_F_READ | LCB_F_WRITE)) && !(flags & LCB_F_RT)) {
		__u64 owner = BPF_CORE_READ((struct rw_semaphore *)lock, owner.counter);

		/*
		 * Bit 0: readers hold it; then the word names the reader that came last, not the reader that leaves
		 * last.
		 */
		r->owner = owner & 1 ? 0 : owner_tid(owner);
	}
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(contention_end, void *lock, int error)
{
	TIME_RARE;
	__u32 tid = current_tid();
	__u64 *waited = bpf_map_lookup_elem(&contended, &tid);
	struct wp_lock *r;

	if (!waited || *waited != (__u64)lock)
		return 0;
	bpf_map_delete_elem(&contended, &tid);
	r = life_reserve(sizeof(*r), WP_LOCK_END, tid);
	if (!r)
		return 0;
	r->lock = (__u64)lock;
	r->flags = 0;
	r->owner = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
