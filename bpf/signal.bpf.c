// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Signals that cut system calls short, stop threads or end them. A wait ended by such a signal was not answered by the
 * signal's sender, although the sender woke the waiting thread.
 *
 * The sending's tracepoint comes after the wake-up, and the other threads of a process ended by a signal are woken
 * without it. So a record is made when a thread takes a signal, with the sending beside it if it was seen.
 */
#include "ring.bpf.h"

/* The errors of an interrupted system call; all but the first are the kernel's own. */
#define EINTR 4
#define ERESTARTSYS 512
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516

#define SIG_DFL 0
#define SIG_IGN 1
#define SIGKILL 9
#define SIGNAL_GROUP_EXIT 4
/* Results of signal_generate: the signal was ignored, or was pending already. */
#define WAS_IGNORED 1
#define WAS_PENDING 2

struct sending_key {
	__u32 target; /* a thread, or a process by its leader's tid */
	__u32 signal;
};

struct sending {
	__u64 stamp;
	__u64 sender;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct sending_key);
	__type(value, struct sending);
} sendings SEC(".maps");

SEC("tp_btf/signal_generate")
int BPF_PROG(signal_generate, int signal, struct kernel_siginfo *info, struct task_struct *target, int group,
	     int result)
{
	TIME_RARE;
	struct sending sending = { .stamp = bpf_ktime_get_ns(), .sender = current_tid() };
	struct sending_key key = { .target = group ? target->tgid : target->pid, .signal = signal };

	if (result != WAS_IGNORED && result != WAS_PENDING)
		bpf_map_update_elem(&sendings, &key, &sending, BPF_ANY);
	return 0;
}

static __always_inline bool is_cut_short(long result)
{
	return result == -EINTR || (result <= -ERESTARTSYS && result >= -ERESTARTNOHAND) ||
	       result == -ERESTART_RESTARTBLOCK;
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(signal_deliver, int number, struct kernel_siginfo *info, struct k_sigaction *action)
{
	TIME_RARE;
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct sending_key key = { .target = task->pid };
	unsigned long handler = (unsigned long)BPF_CORE_READ(action, sa.sa_handler);
	bool is_cut = (long)regs->orig_ax >= 0 && is_cut_short((long)regs->ax);
	__u32 how = WP_SIGNAL_DEFAULT;
	__u64 has_info = 0;
	struct sending *sending;
	struct wp_signal *r;

	/* Read as a number: to the verifier the pointer is never NULL, and it drops a check. */
	bpf_probe_read_kernel(&has_info, sizeof(has_info), &ctx[1]);
	if (!has_info) {
		how = WP_SIGNAL_PROCESS_ENDS;
		number = 0;
		if (task->signal->flags & SIGNAL_GROUP_EXIT)
			number = task->signal->group_exit_code & 0x7f;
	} else if (handler != SIG_DFL) {
		how = handler == SIG_IGN ? WP_SIGNAL_IGNORED : WP_SIGNAL_HANDLED;
		if (!is_cut)
			return 0;
	}
	key.signal = number;
	sending = bpf_map_lookup_elem(&sendings, &key);
	if (!sending) {
		key.target = task->tgid;
		sending = bpf_map_lookup_elem(&sendings, &key);
	}
	r = life_reserve(sizeof(*r), WP_SIGNAL, task->pid);
	if (!r)
		return 0;
	r->signal = number;
	r->code = has_info ? BPF_CORE_READ(info, si_code) : 0;
	r->action = how;
	r->call = is_cut ? (__u32)regs->orig_ax : WP_CALL_NONE;
	r->sent = sending ? sending->stamp : 0;
	r->sender = sending ? sending->sender : 0;
	r->spare = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The signals that by default end a process with a core dump: QUIT ILL TRAP ABRT BUS FPE SEGV XCPU XFSZ SYS. */
#define BIT(signal) (1UL << ((signal) - 1))
#define DUMPS_CORE                                                                                          \
	(BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(8) | BIT(11) | BIT(24) | BIT(25) | BIT(31))

/*
 * Whether a signal not taken yet will end this thread. The kernel marks a process at the sending of a fatal signal: each
 * thread then has SIGKILL pending. A core-dumping signal marks nothing until a thread takes it.
 */
static __always_inline bool is_being_ended(const struct task_struct *task)
{
	unsigned long pending = task->pending.signal.sig[0], dumps;

	if (pending & BIT(SIGKILL) || task->signal->flags & SIGNAL_GROUP_EXIT)
		return true;
	dumps = (pending | task->signal->shared_pending.signal.sig[0]) & ~task->blocked.sig[0] & DUMPS_CORE;
	for (int signal = 3; dumps && signal <= 31; signal++)
		if (dumps & BIT(signal) && task->sighand->action[signal - 1].sa.sa_handler == (void *)SIG_DFL)
			return true;
	return false;
}

/* The start stamps of all threads that a signal is ending, before their end. */
SEC("iter/task")
int dying(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u64 start;

	if (!task || task->exit_state || !is_being_ended(task))
		return 0;
	start = task->start_time;
	bpf_seq_write(ctx->meta->seq, &start, sizeof(start));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
