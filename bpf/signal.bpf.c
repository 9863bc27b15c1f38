// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Signals that cut system calls short, stop threads or end them. A wait ended by such a signal was not answered by the
 * signal's sender, although the sender woke the waiting thread.
 *
 * The sending's tracepoint comes after the wake-up, and the other threads of a process ended by a signal are woken
 * without it. So a record is made when a thread takes a signal, with the sending beside it if it was seen.
 *
 * A signal asking a process to end may have no effect: no thread takes it, or a handler does. So its sending has a record
 * too, and so has its first taking by a handler.
 */
#include "current.bpf.h"
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
#define SIGNAL_UNKILLABLE 0x40
/* Results of signal_generate: the signal was ignored, or was pending already. */
#define WAS_IGNORED 1
#define WAS_PENDING 2

/* In place of a signal's information: a process sent it without any, or the kernel did. */
#define NO_INFO 0
#define FROM_KERNEL 1
#define SI_USER 0
#define SI_KERNEL 0x80

struct sending_key {
	__u32 target; /* a thread, or a process by its leader's tid */
	__u32 signal;
};

struct sending {
	__u64 stamp;
	__u32 sender;
	__s32 code;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct sending_key);
	__type(value, struct sending);
} sendings SEC(".maps");

/* The last recorded sending of a signal asking a process to end. */
struct told {
	__u64 stamp;
	__u64 is_taken;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct sending_key);
	__type(value, struct told);
} told SEC(".maps");

/* A process may send such a signal in a loop. */
#define TOLD_APART_NS 10000000

/* HUP INT QUIT TERM */
static __always_inline bool asks_to_end(__u32 signal)
{
	return signal <= 15 && 1u << signal & (1u << 1 | 1u << 2 | 1u << 3 | 1u << 15);
}

static __always_inline unsigned long handler_of(struct task_struct *target, __u32 signal)
{
	void *actions = BPF_CORE_READ(target, sighand);
	unsigned long handler = SIG_DFL;

	actions += bpf_core_field_offset(struct sighand_struct, action);
	actions += (signal - 1) * bpf_core_type_size(struct k_sigaction);
	actions += bpf_core_field_offset(struct k_sigaction, sa.sa_handler);
	bpf_probe_read_kernel(&handler, sizeof(handler), actions);
	return handler;
}

/* Records what another process does with a signal asking it to end. */
static __always_inline void tell_sending(const struct sending *sending, const struct sending_key *key,
					 struct task_struct *target, int result)
{
	struct told *last = bpf_map_lookup_elem(&told, key), now = { .stamp = sending->stamp };
	__u32 flags = BPF_CORE_READ(target, signal, flags);
	unsigned long handler;
	struct wp_signal_sent *r;

	/* A process that ends ignores all. */
	if (flags & SIGNAL_GROUP_EXIT || (last && now.stamp - last->stamp < TOLD_APART_NS))
		return;
	bpf_map_update_elem(&told, key, &now, BPF_ANY);
	r = life_reserve(sizeof(*r), WP_SIGNAL_SENT, sending->sender);
	if (!r)
		return;
	handler = handler_of(target, key->signal);
	r->signal = key->signal;
	r->code = sending->code;
	r->target = target->pid;
	if (handler == SIG_IGN)
		r->effect = WP_SENT_IGNORED;
	else if (handler != SIG_DFL)
		r->effect = WP_SENT_HANDLED;
	else
		r->effect = result == WAS_IGNORED && flags & SIGNAL_UNKILLABLE ? WP_SENT_DROPPED : WP_SENT_DEFAULT;
	r->memory_cgroup = 0;
	r->limit = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* `info` is a number to us: the kernel passes 0 and 1 in place of a pointer. */
static __always_inline __s32 code_of(__u64 info)
{
	__s32 code = SI_USER;

	if (info == NO_INFO)
		return SI_USER;
	if (info == FROM_KERNEL)
		return SI_KERNEL;
	bpf_probe_read_kernel(&code, sizeof(code),
			      (void *)info + bpf_core_field_offset(struct kernel_siginfo, si_code));
	return code;
}

SEC("tp_btf/signal_generate")
int BPF_PROG(signal_generate, int signal, struct kernel_siginfo *info, struct task_struct *target, int group,
	     int result)
{
	TIME_RARE;
	struct sending sending = { .stamp = bpf_ktime_get_ns(), .sender = current_tid() };
	struct sending_key key = { .target = group ? target->tgid : target->pid, .signal = signal };
	__u64 number = 0;

	if (result == WAS_PENDING)
		return 0;
	bpf_probe_read_kernel(&number, sizeof(number), &ctx[1]);
	sending.code = code_of(number);
	if (result != WAS_IGNORED)
		bpf_map_update_elem(&sendings, &key, &sending, BPF_ANY);
	if (asks_to_end(signal) && bpf_get_current_pid_tgid() >> 32 != target->tgid)
		tell_sending(&sending, &key, target, result);
	return 0;
}

/* A dying process's descriptors up to this number are looked at. */
#define MAX_DYING_FILES 256
#define FMODE_WRITE 2

struct dying {
	struct file **files;
	__u32 count;
	__u32 tgid;
};

static long tell_pipe(__u32 fd, struct dying *dying)
{
	struct file *file = NULL;
	struct inode *inode;
	struct wp_file *r;

	if (fd >= dying->count)
		return 1;
	if (bpf_probe_read_kernel(&file, sizeof(file), dying->files + fd) || !file)
		return 0;
	inode = BPF_CORE_READ(file, f_inode);
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFIFO || !(BPF_CORE_READ(file, f_mode) & FMODE_WRITE))
		return 0;
	r = life_reserve(sizeof(*r), WP_FILE, dying->tgid);
	if (!r)
		return 1;
	r->tgid = dying->tgid;
	r->fd = fd;
	r->mode = S_IFIFO | WP_DYING_WRITER;
	r->spare = 0;
	r->inode = BPF_CORE_READ(inode, i_ino);
	r->peer = 0;
	__builtin_memset(r->name, 0, sizeof(r->name));
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The pipes into which a killed process could have written: a reader may wait for ever, where others could write too. */
static __always_inline void tell_pipes(struct task_struct *task)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct dying dying = { .tgid = task->tgid };

	if (!table || !bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop))
		return;
	dying.files = BPF_CORE_READ(table, fd);
	dying.count = BPF_CORE_READ(table, max_fds);
	bpf_loop(MAX_DYING_FILES, tell_pipe, &dying, 0);
}

/* Whether a signal that no handler takes ends the process: not STOP TSTP TTIN TTOU, CHLD CONT URG WINCH. */
static __always_inline bool kills(__u32 number)
{
	return number && number != 23 && number != 28 && (number < 17 || number > 22);
}

/* Whether a handler takes a recorded sending for the first time. */
static __always_inline bool takes_told(struct sending_key key, struct task_struct *task)
{
	struct told *last;

	if (!asks_to_end(key.signal))
		return false;
	last = bpf_map_lookup_elem(&told, &key);
	if (!last) {
		key.target = task->tgid;
		last = bpf_map_lookup_elem(&told, &key);
	}
	if (!last || last->is_taken)
		return false;
	last->is_taken = 1;
	return true;
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
		if (for_loads(task)->signal->flags & SIGNAL_GROUP_EXIT)
			number = for_loads(task)->signal->group_exit_code & 0x7f;
	} else if (handler != SIG_DFL) {
		how = handler == SIG_IGN ? WP_SIGNAL_IGNORED : WP_SIGNAL_HANDLED;
		key.signal = number;
		if (!takes_told(key, task) && !is_cut)
			return 0;
	}
	if (how != WP_SIGNAL_HANDLED && how != WP_SIGNAL_IGNORED && task->pid == task->tgid && kills(number))
		tell_pipes(task);
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
	r->code = has_info ? code_of(has_info) : sending ? sending->code : 0;
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

	if (!task || task->exit_state || !is_being_ended(for_loads(task)))
		return 0;
	start = task->start_time;
	bpf_seq_write(ctx->meta->seq, &start, sizeof(start));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
