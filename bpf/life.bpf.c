// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Forks, names, programs and ends of threads, and snapshots of all threads. */
#include "arguments.h"
#include "file.bpf.h"
#include "futex.h"
#include "scheduling.bpf.h"
#include "thread.bpf.h"

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	TIME_RARE;
	struct wp_thread *r = life_reserve(sizeof(*r), WP_FORK, parent->pid);

	if (!r)
		return 0;
	fill_thread(r, child);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	look_at_scheduling(child, LOOK_FIRST);
	return 0;
}

/*
 * Hands the program's words to user space, at most `room` bytes. They are in memory, since the kernel has just written
 * them. Without room in the buffer the script has no name, and no record of the machine is lost: nothing is counted.
 */
static __always_inline void hand_over_words(struct task_struct *task, __u64 from, __u64 length, const __u64 room)
{
	struct wp_exec_arguments *r = bpf_ringbuf_reserve(&life, sizeof(*r) + room, 0);

	if (!r)
		return;
	fill_header(&r->h, WP_EXEC_ARGUMENTS, task->pid, WP_CTX_TASK);
	r->tgid = task->tgid;
	r->uid = BPF_CORE_READ(task, cred, uid.val);
	r->euid = BPF_CORE_READ(task, cred, euid.val);
	__builtin_memset(r->program, 0, sizeof(r->program));
	bpf_probe_read_kernel_str(r->program, sizeof(r->program),
				  BPF_CORE_READ(task, mm, exe_file, f_path.dentry, d_name.name));
	if (length > room)
		length = room;
	asm volatile("" : "+r"(length));
	if (length > room || bpf_probe_read_user(r->words, length, (void *)from))
		length = 0;
	r->length = length;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

static __always_inline void hand_over_arguments(struct task_struct *task)
{
	__u64 from = BPF_CORE_READ(task, mm, arg_start);
	__u64 length = BPF_CORE_READ(task, mm, arg_end) - from;

	if (length <= WP_FEW_ARGUMENT_BYTES)
		hand_over_words(task, from, length, WP_FEW_ARGUMENT_BYTES);
	else
		hand_over_words(task, from, length, WP_ARGUMENT_BYTES);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	TIME_RARE;
	struct wp_exec *r = life_reserve(sizeof(*r), WP_EXEC, task->pid);

	if (!r)
		return 0;
	r->old_tid = old_pid;
	r->tgid = task->tgid;
	BPF_CORE_READ_INTO(&r->comm, task, comm);
	__builtin_memset(r->path, 0, sizeof(r->path));
	bpf_probe_read_kernel_str(r->path, sizeof(r->path), BPF_CORE_READ(bprm, filename));
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	hand_over_arguments(task);
	look_at_scheduling(task, LOOK_FIRST);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	TIME_RARE;
	struct wp_exit *r;

	look_at_scheduling(task, LOOK_LAST);
	r = life_reserve(sizeof(*r), WP_EXIT, task->pid);
	if (!r)
		return 0;
	r->tgid = task->tgid;
	r->group_dead = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(task_rename, struct task_struct *task, const char *comm)
{
	TIME_RARE;
	struct wp_rename *r = life_reserve(sizeof(*r), WP_RENAME, current_tid());

	if (!r)
		return 0;
	r->tid = task->pid;
	r->spare = 0;
	__builtin_memset(r->comm, 0, sizeof(r->comm));
	bpf_probe_read_kernel_str(r->comm, sizeof(r->comm), comm);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(cgroup_attach_task, struct cgroup *to, const char *path, struct task_struct *task,
	     bool threadgroup)
{
	TIME_RARE;
	struct wp_move *r = life_reserve(sizeof(*r), WP_MOVE, current_tid());

	if (!r)
		return 0;
	r->tid = task->pid;
	r->tgid = task->tgid;
	r->cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	r->cpu_cgroup = cpu_cgroup(task);
	r->whole = threadgroup;
	r->spare = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("iter/task")
int threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct wp_thread r = {};
	struct pt_regs *regs;

	if (!task)
		return 0;
	fill_header(&r.h, WP_THREAD, task->pid, WP_CTX_TASK);
	r.h.seq = task->thread_info.cpu;
	fill_thread(&r, task);
	if (task->on_cpu)
		r.flags |= WP_THREAD_RUNNING;
	if (r.state && !(r.flags & WP_THREAD_KERNEL) && !(task->flags & PF_IO_WORKER)) {
		regs = (struct pt_regs *)bpf_task_pt_regs(task);
		if ((long)regs->orig_ax >= 0)
			r.call = regs->orig_ax;
	}
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	return 0;
}

SEC("iter/task")
int schedulings(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct wp_scheduling r;

	if (!task)
		return 0;
	fill_header(&r.h, WP_SCHEDULING, task->pid, WP_CTX_TASK);
	r.h.seq = task->thread_info.cpu;
	fill_scheduling(&r, task);
	if (is_news(&r, LOOK_FIRST))
		bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	return 0;
}

/*
 * Whether a read from a process's memory may block: a thread writes to its mappings, or waits to do so, and may itself
 * hang. Then we would hang too.
 */
static __always_inline bool is_mapping_held(struct task_struct *task)
{
	enum { WRITER = 1, WAITERS = 2 };

	if (!task->mm || !bpf_core_field_exists(task->mm->mmap_lock.count))
		return true;
	return task->mm->mmap_lock.count.counter & (WRITER | WAITERS);
}

/*
 * The system calls in which threads were blocked when recording began: a hanging process is examined while it hangs.
 * Sleepable, since a lock word's page may not be in memory.
 */
SEC("iter.s/task")
int blocked(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct wp_blocked r = {};
	struct pt_regs *regs;
	__u32 words[3] = {};
	__u64 length = 0;

	if (!task || !task->__state || task->flags & (PF_KTHREAD | PF_IO_WORKER))
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if ((long)regs->orig_ax < 0)
		return 0;
	fill_header(&r.h, WP_BLOCKED, task->pid, WP_CTX_TASK);
	r.h.seq = task->thread_info.cpu;
	r.call = regs->orig_ax;
	r.arg0 = regs->di;
	if (takes_descriptor(r.call))
		tell_file(for_loads(task), regs->di);
	if (r.call == SYS_futex) {
		r.op = regs->si;
		switch (lock_shape(r.op, regs->dx, regs->r10)) {
		case NO_LOCK:
			break;
		case OWNER_BESIDE:
			length = sizeof(words);
			r.valid = WP_LOCK_VALUE | WP_LOCK_CLAIM;
			break;
		case OWNER_IN_WORD:
			length = sizeof(words[0]);
			r.valid = WP_LOCK_VALUE;
			break;
		}
		if (length && (is_mapping_held(for_loads(task)) ||
			       bpf_copy_from_user_task(words, length, (void *)regs->di, task, 0)))
			r.valid = 0;
		if (r.valid) {
			r.value = words[0];
			r.claim = words[2];
		}
	}
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
