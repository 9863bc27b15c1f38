// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The target threads' failed system calls, only with `--failed-calls`: the tracepoint at system calls' ends puts every thread on the
 * machine on the kernel's slow path for them. Refused file locks are known without it: other tracepoints fire for locks alone.
 *
 * 1. Other threads return at once, and so does a 32-bit call.
 * 2. The last failed call is kept in the thread's storage, with its object. failed.bpf.h records it at the next sleep.
 *    Kept too: a success by which the caller learns only: a process still runs (kill with signal 0, wait4 without an ended child).
 * 3. It is forgotten where the same call succeeds, and where a time-out ends a wait. A failure that no wait mends is no try.
 * 4. Calls failing 1000 times a second are counted by number and error, and recorded each tenth of a second.
 */
#include "calls.bpf.h"
#include "failed.bpf.h"
#include "file.bpf.h"
#include "file_lock.bpf.h"

enum { EINTR = 4, EAGAIN = 11, EACCES = 13, ETIMEDOUT = 110, EALREADY = 114, EINPROGRESS = 115 };
/* The kernel's own errors: the call begins anew behind a signal. */
#define FIRST_RESTART 512

enum { SYS_connect = 42, SYS_bind = 49, SYS_getsockopt = 55, SYS_wait4 = 61, SYS_kill = 62, SYS_fcntl = 72, SYS_flock = 73,
       SYS_tgkill = 234 };
enum { SOL_SOCKET = 1, SO_ERROR = 4 };
enum { WNOHANG = 1 };

#define MAX_PATH 4096

struct path_room {
	char bytes[MAX_PATH + WP_OBJECT_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct path_room);
} path_rooms SEC(".maps");

/* The path is read a second time, since another thread may write it meanwhile. */
static __noinline void read_path(struct wp_failed_call *call, __u64 address)
{
	struct path_room *room;
	__u32 zero = 0;
	__u64 skipped;
	long length;

	call->object_kind = WP_OBJECT_UNREADABLE;
	room = bpf_map_lookup_elem(&path_rooms, &zero);
	if (!room)
		return;
	length = bpf_probe_read_user_str(room->bytes, MAX_PATH, (void *)address);
	if (length <= 0)
		return;
	if (length <= WP_OBJECT_BYTES) {
		length = bpf_probe_read_user_str(call->object, sizeof(call->object), (void *)address);
		if (length <= 0)
			return;
		call->object_kind = WP_OBJECT_PATH;
		call->object_len = length - 1;
		return;
	}
	skipped = (length - 1 - WP_OBJECT_BYTES) & (MAX_PATH - 1);
	bpf_probe_read_kernel(call->object, sizeof(call->object), room->bytes + skipped);
	call->object_kind = skipped ? WP_OBJECT_PATH_END : WP_OBJECT_PATH;
	call->object_len = WP_OBJECT_BYTES;
}

static __noinline void read_address(struct wp_failed_call *call, __u64 address, __u64 length)
{
	__u16 family = 0;
	long read;

	call->object_kind = WP_OBJECT_UNREADABLE;
	if (bpf_probe_read_user(&family, sizeof(family), (void *)address))
		return;
	if (family == AF_INET) {
		if (bpf_probe_read_user(call->object, 6, (void *)address + 2))
			return;
		call->object_kind = WP_OBJECT_INET;
		call->object_len = 6;
	} else if (family == AF_INET6) {
		if (bpf_probe_read_user(call->object, 2, (void *)address + 2) ||
		    bpf_probe_read_user(call->object + 2, 16, (void *)address + 8))
			return;
		call->object_kind = WP_OBJECT_INET6;
		call->object_len = 18;
	} else if (family == AF_UNIX && length > 3) {
		length -= 2;
		if (length > WP_OBJECT_BYTES)
			length = WP_OBJECT_BYTES;
		if (bpf_probe_read_user(call->object, length, (void *)address + 2))
			return;
		/* A name with a leading NUL has a length, a path ends with NUL. */
		if (call->object[0]) {
			__builtin_memset(call->object, 0, sizeof(call->object));
			read = bpf_probe_read_user_str(call->object, sizeof(call->object), (void *)address + 2);
			if (read <= 0)
				return;
			length = read - 1;
		}
		call->object_kind = WP_OBJECT_UNIX;
		call->object_len = length;
	} else {
		call->object_kind = WP_OBJECT_NONE;
	}
}

/* The file behind the descriptor, and a lock's holder. */
static __noinline void read_file(struct wp_failed_call *call, struct task_struct *task, __u64 fd, __u64 argument)
{
	struct fdtable *table = task->files ? task->files->fdt : NULL;
	struct descriptor d = {};
	struct inode *inode;
	struct file *file;
	long length;

	if (!table || fd >= table->max_fds)
		return;
	find_file(&d, table, fd);
	file = d.file;
	inode = d.inode;
	if (!file || !inode || (BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFSOCK)
		return;
	length = bpf_probe_read_kernel_str(call->object, sizeof(call->object),
					   BPF_CORE_READ(file, f_path.dentry, d_name.name));
	if (length > 1) {
		call->object_kind = WP_OBJECT_FILE;
		call->object_len = length - 1;
	}
	if (call->error != EAGAIN && call->error != EACCES)
		return;
	if (call->call == SYS_flock)
		call->holder = flock_holder(inode, task->tgid, call->operation);
	else if (call->call == SYS_fcntl && is_set_lock(call->operation))
		call->holder = range_holder(inode, task->tgid, argument);
}

/* A path's place among a call's arguments, 0 if there is no path. For a link, its new name: lock files are made so. */
static __always_inline __u32 path_argument(__u32 call)
{
	switch (call) {
	case 2: case 4: case 6: case 21: /* open stat lstat access */
	case 59: case 76: case 80: /* execve truncate chdir */
	case 82 ... 85: case 87: case 89: case 90: /* rename mkdir rmdir creat unlink readlink chmod */
	case 133: case 137: /* mknod statfs */
		return 1;
	case 86: case 88: /* link symlink */
	case 257 ... 258: case 262 ... 264: /* openat mkdirat newfstatat unlinkat renameat */
	case 267: case 269: case 280: case 316: case 322: /* readlinkat faccessat utimensat renameat2 execveat */
	case 332: case 437: case 439: /* statx openat2 faccessat2 */
		return 2;
	case 266: /* symlinkat */
		return 3;
	case 265: /* linkat */
		return 4;
	}
	return 0;
}

static __always_inline __u64 path_address(const struct pt_regs *regs, __u32 argument)
{
	switch (argument) {
	case 1:
		return regs->di;
	case 2:
		return regs->si;
	case 3:
		return regs->dx;
	}
	return regs->r10;
}

static __always_inline __u32 operation_of(const struct pt_regs *regs, __u32 call)
{
	switch (call) {
	case SYS_fcntl: case SYS_flock: case SYS_kill:
		return regs->si;
	case SYS_tgkill:
		return regs->dx;
	}
	return 0;
}

/* Whether a call with a path took its descriptor alone, as fstat does: it is no other try of a call with a path. */
static __noinline bool asks_for_descriptor(const struct pt_regs *regs, __u32 call)
{
	__u32 argument = path_argument(call);
	char first = 0;

	if (!argument)
		return false;
	return bpf_probe_read_user(&first, 1, (void *)path_address(regs, argument)) || !first;
}

static __always_inline enum rank rank_of(__u32 call, __u32 operation, __u32 error)
{
	switch (call) {
	case SYS_connect: case SYS_bind: case SYS_kill: case SYS_tgkill: case SYS_flock: case SYS_wait4:
		return RANK_TRY;
	case SYS_fcntl:
		return is_set_lock(operation) ? RANK_TRY : RANK_OTHER;
	}
	if (!path_argument(call))
		return RANK_OTHER;
	/* A file made for the first time is a lock. */
	return error == EEXIST ? RANK_TRY : RANK_PATH;
}

/* Makes a failure the thread's last, without an object. */
static __always_inline bool keep(struct failures *kept, __u32 call, __u32 operation, __u32 error, enum rank rank)
{
	struct wp_failed_call *last = &kept->last;

	if (rank < kept->rank) {
		last->later++;
		return false;
	}
	kept->rank = rank;
	last->call = call;
	last->error = error;
	last->operation = operation;
	last->holder = 0;
	last->later = 0;
	last->object_kind = WP_OBJECT_NONE;
	last->object_len = 0;
	__builtin_memset(last->object, 0, sizeof(last->object));
	return true;
}

/* Counts the last failure, which is whole now: equal failures are tries. `had` is the content before it, 0 without a failure. */
static __always_inline void count_try(struct failures *kept, __u64 had)
{
	struct wp_failed_call *last = &kept->last;
	__u64 h = mix(mix(0, (__u64)last->call << 32 | last->error), (__u64)last->operation << 32 | last->object_len);
	__u64 words[WP_OBJECT_BYTES / 8];

	__builtin_memcpy(words, last->object, sizeof(words));
	for (__u32 i = 0; i < WP_OBJECT_BYTES / 8; i++)
		h = mix(h, words[i]);
	kept->content = h | 1;
	last->tries = kept->content == had ? last->tries + 1 : 1;
}

static __always_inline void keep_with_object(struct failures *kept, struct pt_regs *regs, struct task_struct *task,
					     __u32 number, __u32 error)
{
	__u64 had = kept->rank ? kept->content : 0;
	struct wp_failed_call *last = &kept->last;
	__u32 path = path_argument(number), operation = operation_of(regs, number);

	if (!keep(kept, number, operation, error, rank_of(number, operation, error)))
		return;
	if (path) {
		read_path(last, path_address(regs, path));
	} else if (number == SYS_connect || number == SYS_bind) {
		read_address(last, regs->si, regs->dx);
	} else if (number == SYS_kill || number == SYS_tgkill || number == SYS_wait4) {
		__s32 pid = regs->di;

		last->object_kind = WP_OBJECT_PROCESS;
		last->object_len = sizeof(pid);
		__builtin_memcpy(last->object, &pid, sizeof(pid));
	} else if (takes_descriptor(number)) {
		read_file(last, task, regs->di, regs->dx);
	}
	count_try(kept, had);
}

/* A connection attempt goes on: its address is kept until its end is asked for. */
static __always_inline void begin_connecting(struct failures *kept, struct pt_regs *regs)
{
	struct wp_failed_call attempt = {};

	read_address(&attempt, regs->si, regs->dx);
	kept->connecting.fd = regs->di;
	kept->connecting.is_open = 1;
	kept->connecting.object_kind = attempt.object_kind;
	kept->connecting.object_len = attempt.object_len;
	__builtin_memcpy(kept->connecting.object, attempt.object, sizeof(attempt.object));
}

static __always_inline void end_connecting(struct failures *kept, struct pt_regs *regs)
{
	__u64 had = kept->rank ? kept->content : 0;
	struct connecting *attempt = &kept->connecting;
	__s32 error = 0;

	if (regs->si != SOL_SOCKET || regs->dx != SO_ERROR || !attempt->is_open || attempt->fd != (__s32)regs->di)
		return;
	if (bpf_probe_read_user(&error, sizeof(error), (void *)regs->r10))
		return;
	attempt->is_open = 0;
	if (error <= 0) {
		if (kept->last.call == SYS_connect)
			kept->rank = RANK_NONE;
		return;
	}
	keep(kept, SYS_connect, 0, error, RANK_TRY);
	kept->last.object_kind = attempt->object_kind;
	kept->last.object_len = attempt->object_len;
	__builtin_memcpy(kept->last.object, attempt->object, sizeof(attempt->object));
	count_try(kept, had);
}

/* Whether a success means a vain try: the process still runs, or no child has ended. */
static __always_inline bool is_awaiting(const struct pt_regs *regs, long result)
{
	if (result)
		return false;
	return (regs->orig_ax == SYS_kill && !regs->si) || (regs->orig_ax == SYS_wait4 && regs->dx & WNOHANG);
}

/* Whether a time-out ended a call. */
static __always_inline bool is_time_out(const struct pt_regs *regs, long result)
{
	switch (regs->orig_ax) {
	case 202: /* futex */
		return result == -ETIMEDOUT;
	case 128: case 220: /* rt_sigtimedwait semtimedop */
		return result == -EAGAIN;
	}
	return result == 0;
}

#define SPIN_NS 100000000
#define MIN_SPIN 100 /* in SPIN_NS: 1000 a second */

static __always_inline void write_spin(struct failing *spin, __u32 tid)
{
	struct wp_spin *r;

	if (spin->count < MIN_SPIN || spin->count * (SPIN_NS / MIN_SPIN) < spin->to - spin->from)
		return;
	r = life_reserve(sizeof(*r), WP_SPIN, tid);
	if (!r)
		return;
	r->h.stamp = spin->to;
	r->call = spin->call;
	r->error = spin->error;
	r->from = spin->from;
	r->count = spin->count;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

static __always_inline void count_failure(struct failures *kept, __u32 call, __u32 error, __u32 tid)
{
	struct failing *oldest = &kept->spins[0], *spin;
	__u64 now = bpf_ktime_get_ns();
	int i;

	for (i = 0; i < SPINS; i++) {
		spin = &kept->spins[i];
		if (spin->count && spin->call == call && spin->error == error)
			break;
		if (spin->to < oldest->to)
			oldest = spin;
	}
	if (i == SPINS) {
		spin = oldest;
		write_spin(spin, tid);
		spin->count = 0;
	} else if (now - spin->from >= SPIN_NS) {
		write_spin(spin, tid);
		spin->count = 0;
	}
	if (!spin->count) {
		spin->from = now;
		spin->call = call;
		spin->error = error;
	}
	spin->to = now;
	spin->count++;
}

static __always_inline bool is_lock_call(__u32 call, __u32 operation)
{
	return call == SYS_flock || (call == SYS_fcntl && is_set_lock(operation));
}

/*
 * A try for a file lock, `lock`. A refused lock is forgotten once the thread has the same bytes; SQLite locks and unlocks others between its
 * tries.
 */
static __always_inline int lock_tried(struct inode *inode, __u64 lock, int result)
{
	TIME_RARE;
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	bool is_refused = result == -EAGAIN;
	__u32 number = regs->orig_ax;
	struct lock_read asked = {};
	struct failures *kept;
	__u64 had;

	/* A file's end lets its locks go, in any call. */
	if (is_32_bit(task) || !is_lock_call(number, operation_of(regs, number)))
		return 0;
	kept = bpf_task_storage_get(&failures, task, NULL, is_refused ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
	if (!kept)
		return 0;
	kept->is_seen = 1;
	read_lock(&asked, lock);
	if (!is_refused) {
		if (kept->rank == RANK_TRY && is_lock_call(kept->last.call, kept->last.operation) && !result &&
		    asked.type != F_UNLCK && kept->inode == (__u64)inode && kept->from == asked.range.from &&
		    kept->to == asked.range.to)
			kept->rank = RANK_NONE;
		return 0;
	}
	had = kept->rank ? kept->content : 0;
	kept->refused = bpf_ktime_get_ns();
	kept->inode = (__u64)inode;
	kept->from = asked.range.from;
	kept->to = asked.range.to;
	if (!keep(kept, number, operation_of(regs, number), EAGAIN, RANK_TRY))
		return 0;
	read_file(&kept->last, task, regs->di, regs->dx);
	count_try(kept, had);
	return 0;
}

static __always_inline int call_returned(struct pt_regs *regs, long result)
{
	TIME_RARE;
	struct task_struct *task = bpf_get_current_task_btf();
	bool is_error = result < 0 && result > -FIRST_RESTART && result != -EINTR;
	__u32 number = regs->orig_ax, error = is_error ? -result : 0;
	struct failures *kept;
	bool is_try;

	if (is_32_bit(task))
		return 0;
	is_try = is_error || is_awaiting(regs, result);
	kept = bpf_task_storage_get(&failures, task, NULL, is_try ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
	if (!kept)
		return 0;
	kept->is_counted = 1;
	if (kept->is_seen && is_lock_call(number, operation_of(regs, number))) {
		kept->is_seen = 0;
		if (is_error)
			count_failure(kept, number, error, task->pid);
		else
			kept->last.later++;
		return 0;
	}
	/* With a time-out of 0, or with a ready descriptor, such a call is like any other. */
	if (kept->is_asleep && has_timeout(regs)) {
		kept->is_asleep = 0;
		if (is_time_out(regs, result))
			kept->rank = RANK_NONE;
		return 0;
	}
	if (has_timeout(regs)) {
		kept->last.later++;
		return 0;
	}
	if (is_awaiting(regs, result)) {
		keep_with_object(kept, regs, task, number, 0);
		return 0;
	}
	if (!is_error) {
		if (number == kept->last.call && operation_of(regs, number) == kept->last.operation &&
		    !asks_for_descriptor(regs, number))
			kept->rank = RANK_NONE;
		kept->last.later++;
		if (number == SYS_getsockopt)
			end_connecting(kept, regs);
		return 0;
	}
	if (number == SYS_connect && (error == EINPROGRESS || error == EALREADY)) {
		begin_connecting(kept, regs);
		kept->last.later++;
		return 0;
	}
	count_failure(kept, number, error, task->pid);
	if (fails_for_good(error)) {
		kept->last.later++;
		return 0;
	}
	keep_with_object(kept, regs, task, number, error);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(failed_call, struct pt_regs *regs, long result)
{
	if (!is_followed(bpf_get_current_pid_tgid() >> 32))
		return 0;
	return call_returned(regs, result);
}

SEC("tp_btf/posix_lock_inode")
int BPF_PROG(posix_lock_inode, struct inode *inode, void *lock, int result)
{
	return lock ? lock_tried(inode, (__u64)lock, result) : 0;
}

SEC("tp_btf/flock_lock_inode")
int BPF_PROG(flock_lock_inode, struct inode *inode, void *lock, int result)
{
	return lock ? lock_tried(inode, (__u64)lock, result) : 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(failed_exit, struct task_struct *task)
{
	struct failures *kept = bpf_task_storage_get(&failures, task, NULL, 0);

	for (int i = 0; kept && i < SPINS; i++)
		write_spin(&kept->spins[i], task->pid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
