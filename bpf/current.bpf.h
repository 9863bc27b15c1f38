/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The current thread, and the registers it entered the kernel with, by loads instead of calls: a call
 * of the kernel costs 11 ns where its return goes through a thunk, and these are asked for at each
 * waking and each wait.
 *
 * Where the kernel keeps them is learned at the tick from its own answers, which each later tick is held
 * against: the address of `curr` in each CPU's run queue, which changes only between two threads' times,
 * and how far from a thread's stack its registers lie. That is the same for all threads that have a user
 * side (not for those that idle). What was wrong once is not believed again. Until something is known, and
 * where the kernel does not let us name types, it is asked each time.
 */
#ifndef WAKEPATH_CURRENT_H
#define WAKEPATH_CURRENT_H

#include "ring.bpf.h"

/*
 * From a CPU's run queue to where KVM counts what it takes of that CPU, bytes; 0: nobody says. Symbols of data
 * are not in every kernel's table, but how far two variables of a CPU are apart is in its BTF.
 */
__weak const volatile __s64 steal_behind_run_queue = 0;

struct places {
	__u64 current; /* 0: not known */
	__u64 registers; /* from `task_struct.stack` on; 0: not known */
	__u64 is_wrong; /* of what was learned something turned out to be so */
	__u64 steal; /* where the hypervisor counts what it takes; 0: not known */
	__u64 no_steal; /* what was found there cannot be it */
	__u64 one; /* of some thread: the verifier calculates with what it loads, not with what it is given */
};

/* By CPU; max_entries is set before loading. Nobody but programs writes here: it is trusted. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_RDONLY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct places);
} current_places SEC(".maps") __weak;

static __always_inline struct places *places_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&current_places, &cpu);
}

/* More than any kernel's stack has. */
#define MOST_STACK 0x100000

/* The scheduler's own account of what was taken is a look behind, and never ahead. */
#define MOST_BEHIND 10000000000ull

static __always_inline void learn_where_steal_is(struct places *places, struct rq *rq)
{
	__u64 found, known;

	if (!steal_behind_run_queue || places->no_steal)
		return;
	if (!bpf_core_field_exists(rq->prev_steal_time_rq))
		return;
	*(volatile __u64 *)&places->one = (__u64)rq + steal_behind_run_queue;
	found = bpf_core_cast((void *)places->one, struct kvm_steal_time)->steal;
	known = rq->prev_steal_time_rq;
	places->steal = places->one;
	if (found < known || found - known > MOST_BEHIND) {
		places->no_steal = 1;
		places->steal = 0;
	}
}

static __always_inline void learn_places(void)
{
	struct places *places = places_here();
	struct task_struct *task;
	struct cfs_rq *queue;
	__u64 registers;

	if (!bpf_ksym_exists(bpf_rdonly_cast) || !places || places->is_wrong)
		return;
	task = bpf_get_current_task_btf();
	if (task->flags & PF_KTHREAD || !task->mm)
		return;
	*(volatile __u64 *)&places->one = (__u64)bpf_task_pt_regs(task);
	registers = *(volatile __u64 *)&places->one - (__u64)task->stack;
	/* Absent where the scheduler knows no groups. */
	queue = task->se.cfs_rq;
	*(volatile __u64 *)&places->one = 0;
	if (bpf_core_field_exists(queue->rq) && queue) {
		learn_where_steal_is(places, queue->rq);
		*(volatile __u64 *)&places->one = (__u64)&queue->rq->curr;
	}
	if (!places->registers) {
		places->current = places->one;
		places->registers = registers;
	}
	if (registers >= MOST_STACK || registers != places->registers)
		places->is_wrong = 1;
	if (places->current && (__u64)bpf_core_cast((void *)places->current, struct list_head)->next !=
				       (__u64)bpf_get_current_task())
		places->is_wrong = 1;
	if (places->is_wrong) {
		places->current = 0;
		places->registers = 0;
	}
}

/* The current thread, as a number: for comparing, and for `bpf_core_cast`. */
static __always_inline __u64 current_address(void)
{
	struct places *places;

	if (bpf_ksym_exists(bpf_rdonly_cast)) {
		places = places_here();
		if (places && places->current)
			return (__u64)bpf_core_cast((void *)places->current, struct list_head)->next;
	}
	return (__u64)bpf_get_current_task();
}

/* `task`'s registers at its entry into the kernel. */
static __always_inline struct pt_regs *registers_of(struct task_struct *task)
{
	struct places *places = places_here();

	if (places && places->registers)
		return bpf_core_cast(task->stack + places->registers, struct pt_regs);
	return bpf_core_cast((void *)bpf_task_pt_regs(task), struct pt_regs);
}

#endif
