/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The current thread, and its registers at its entry into the kernel, by loads instead of kernel calls: such a call costs 11 ns
 * if its return goes through a thunk, and both are needed at each wake-up and each wait.
 *
 * Their places are learned at the tick from the kernel's answers, and compared with them at each later tick: the address of
 * `curr` in each CPU's run queue, which changes only at a switch, and the registers' distance from a thread's stack, which is the
 * same for all user threads (not for idle threads). A place once found wrong is never used again. Until a place is known, and if
 * the kernel does not let us name types, the kernel is called each time.
 */
#ifndef WAKEPATH_CURRENT_H
#define WAKEPATH_CURRENT_H

#include "ring.bpf.h"

/*
 * Bytes from a CPU's run queue to KVM's count of the CPU's stolen time; 0: not known. Not every kernel's symbol table has data,
 * but its BTF has the distance between two per-CPU variables.
 */
__weak const volatile __s64 steal_behind_run_queue = 0;

struct places {
	__u64 current; /* 0: not known */
	__u64 registers; /* offset from `task_struct.stack`; 0: not known */
	__u64 is_wrong; /* a place turned out to be wrong */
	__u64 steal; /* address of the stolen time count; 0: not known */
	__u64 no_steal; /* the value there cannot be stolen time */
	__u64 one; /* scratch address: the verifier accepts arithmetic on loaded values, not on arguments */
};

/* By CPU; max_entries is set before loading. Only BPF programs write here, so it is trusted. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_RDONLY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct places);
} current_places SEC(".maps") __weak;

/*
 * 64 bits from kernel memory as a number, 0 if they cannot be read; only if the kernel lets us name types. A load needs a type,
 * and the verifier allows no arithmetic on a loaded pointer: this type has a number.
 */
static __always_inline __u64 word_at(const void *address)
{
	return bpf_core_cast(address, struct timespec64)->tv_sec;
}

/*
 * The same object, for loads alone. For each pointer loaded from a trusted object, the verifier searches all the kernel's types
 * by name, a millisecond each; loading took a third longer.
 */
#define FOR_LOADS(pointer, type) (bpf_ksym_exists(bpf_rdonly_cast) ? bpf_core_cast(pointer, type) : (pointer))

static __always_inline struct task_struct *for_loads(struct task_struct *task)
{
	return FOR_LOADS(task, struct task_struct);
}

static __always_inline struct places *places_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&current_places, &cpu);
}

/* No kernel stack is larger. */
#define MAX_STACK_BYTES 0x100000

/* The scheduler's own stolen time count lags behind, and is never ahead. */
#define MAX_BEHIND_NS 10000000000ull

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
	if (found < known || found - known > MAX_BEHIND_NS) {
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
	task = for_loads(bpf_get_current_task_btf());
	if (task->flags & PF_KTHREAD || !task->mm)
		return;
	*(volatile __u64 *)&places->one = (__u64)bpf_task_pt_regs(bpf_get_current_task_btf());
	registers = *(volatile __u64 *)&places->one - (__u64)task->stack;
	/* Absent in kernels without group scheduling. */
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
	if (registers >= MAX_STACK_BYTES || registers != places->registers)
		places->is_wrong = 1;
	if (places->current && (__u64)bpf_core_cast((void *)places->current, struct list_head)->next !=
				       (__u64)bpf_get_current_task())
		places->is_wrong = 1;
	if (places->is_wrong) {
		places->current = 0;
		places->registers = 0;
	}
}

/* The current thread's address as a number, for comparisons and for `bpf_core_cast`. */
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

/* `current_tid` without its call, which takes as long as reading the clock; with it if the kernel does not let us name types. */
static __always_inline __u32 current_tid_by_loads(void)
{
	if (bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_core_cast((void *)current_address(), struct task_struct)->pid;
	return current_tid();
}

/* The registers with which `task` entered the kernel. */
static __always_inline struct pt_regs *registers_of(struct task_struct *task)
{
	struct places *places = places_here();

	if (places && places->registers)
		return bpf_core_cast(task->stack + places->registers, struct pt_regs);
	return bpf_core_cast((void *)bpf_task_pt_regs(task), struct pt_regs);
}

#endif
