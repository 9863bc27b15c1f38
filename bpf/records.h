/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The records that cross from BPF to user space, and nothing else.
 *
 * A record has the same form in the per-CPU buffers and on disk: a recording's streams are CTF with exactly this event layout, so
 * the consumer copies bytes and touches no field. The table in crates/kernel-records/src/layout.rs is the same in Rust (and
 * writes the CTF metadata); a test compiles this header and compares the two.
 *
 * Rules: little endian, every record a multiple of 8 bytes, no hidden padding, header first.
 */
#ifndef WAKEPATH_RECORDS_H
#define WAKEPATH_RECORDS_H

#include "types.h"

#define WP_COMM_LEN 16
#define WP_PATH_LEN 128
#define WP_MAX_FRAMES 127 /* in a whole stack */
#define WP_MAX_KERNEL_FRAMES 47 /* in its kernel part */

enum wp_kind {
	WP_SWITCH = 1,
	WP_SWITCH_CALL = 2,
	WP_SWITCH_LOCK = 3,
	WP_WAKING = 4,
	WP_WAKING_NEW = 5,
	WP_CURRENT = 6,
	WP_WAKING_SOCKET = 7,
	WP_PACKET = 8,
	WP_SOCKET_READY = 9,
	WP_FLOW = 10,
	WP_STACK_OF = 11,
	WP_READY = 12,
	WP_MIGRATE = 13,
	WP_THREAD_CONTEXT = 14,
	WP_GOROUTINE = 15,
	WP_THREAD = 16,
	WP_FORK = 17,
	WP_EXEC = 18,
	WP_EXIT = 19,
	WP_RENAME = 20,
	WP_MOVE = 21,
	WP_REFILL = 22,
	WP_BLOCKED = 23,
	WP_BLOCK_ISSUE = 24,
	WP_BLOCK_COMPLETE = 25,
	WP_STOLEN = 26,
	WP_THREAD_ATTRIBUTE = 27,
	WP_LOCK_BEGIN = 28,
	WP_LOCK_END = 29,
	WP_BLOCK_RELEASE = 30,
	WP_RECLAIM = 31,
	WP_SAMPLE = 32,
	WP_STACK = 33,
	WP_FILE = 34,
	WP_FUNCTION = 35,
	WP_SIGNAL = 36,
	WP_SET_MEMBER = 37,
	WP_STACK_LATER = 38,
	WP_FAILED_CALL = 39,
	WP_SPIN = 40,
	WP_SIGNAL_SENT = 43,
	/* Only user space writes these. */
	WP_LOSS = 48,
	WP_CLOCKS = 49,
	WP_NAME = 50,
	WP_MAPPING = 51,
	WP_MARK = 52,
	WP_STACK_COUNTS = 53,
	WP_KERNEL_COST = 54,
	WP_UNWIND_COUNTS = 55,
};

/* The CPU context when a record was made. Softirq vectors have the kernel's numbers. */
enum wp_context {
	WP_CTX_TASK = 0,
	WP_CTX_SOFTIRQ = 1, /* 1 + vector: HI TIMER NET_TX NET_RX BLOCK IRQ_POLL TASKLET SCHED HRTIMER RCU */
	WP_CTX_SOFTIRQ_LAST = 10,
	WP_CTX_LOCAL_TIMER = 32, /* the local timer interrupt: ticks and high-resolution timers */
	WP_CTX_RESCHEDULE = 33,
	WP_CTX_CALL_FUNCTION = 34,
	WP_CTX_IRQ_WORK = 35,
	WP_CTX_DEVICE = 64, /* a device's interrupt; records with room have its number */
	/* 96 to 98: interrupts that another tracer did not record; our programs see them all. */
	WP_CTX_UNKNOWN = 255,
};

/* First in every record; in CTF terms the event header (stamp, kind) and the event context (the rest). */
struct wp_header {
	__u64 stamp;   /* CLOCK_MONOTONIC, ns */
	__u8 kind;     /* enum wp_kind */
	__u8 context;  /* enum wp_context */
	__u16 seq;     /* per-CPU rings: the record's number, lost records included, so that a gap
			* shows a loss. The buffer for all CPUs: the CPU number. Records written
			* by user space: 0xffff, no CPU. */
	__u32 tid;     /* the thread current on that CPU (0: idle), in interrupts too */
};
_Static_assert(sizeof(struct wp_header) == 16, "header");

enum wp_switch_flags {
	WP_SWITCH_PREEMPT = 1,   /* runnable, whatever prev_state is */
	WP_SWITCH_THROTTLED = 2, /* a cgroup's CPU limit took it off the CPU */
};

/* header.tid is the thread switched out. */
struct wp_switch {
	struct wp_header h;
	__u32 next_tid;
	__u32 prev_state;    /* the kernel's task state bits, as the tracepoint passed them */
	__u32 interrupts_ns; /* hard and soft interrupts since it was switched in */
	__u32 flags;
};
_Static_assert(sizeof(struct wp_switch) == 32, "switch");

#define WP_CALL_NONE 0xffffffffu /* a kernel thread, or user code interrupted outside a system call */
#define WP_CALL_FAULT 0xfffffffeu /* user code outside a system call, in a page fault */

#define WP_CALL_REQUEST 0x40000000u /* set in a call's number: an io_uring worker does the same for a request */
#define WP_REQUEST_FILE 0x80000000u /* set in the number of such a request's file */

/* A blocking switch-out, with the system call it blocks in. */
struct wp_switch_call {
	struct wp_switch s;
	__u32 call; /* x86-64 system call number, WP_CALL_FAULT or WP_CALL_NONE */
	__u32 end; /* futex: 1 if only threads of its process end the wait, no time-out; epoll_wait, epoll_pwait: ms, -1 never, 0 unknown */
	__u64 arg0; /* its first argument (-1 without a call); for poll, ppoll, select and pselect6 the descriptor set's id */
};
_Static_assert(sizeof(struct wp_switch_call) == 48, "switch_call");

enum wp_lock_valid { WP_LOCK_VALUE = 1, WP_LOCK_CLAIM = 2 };

/* A blocking switch-out inside a futex wait, perhaps for a lock with an owner; arg0 is the lock word's address. */
struct wp_switch_lock {
	struct wp_switch_call c;
	__u32 op;    /* the futex operation, with its flags */
	__u32 value; /* the lock word at block time */
	__u32 claim; /* the word 8 bytes on, where a glibc mutex has its owner: it may be another futex */
	__u32 valid; /* enum wp_lock_valid */
};
_Static_assert(sizeof(struct wp_switch_lock) == 64, "switch_lock");

/* WP_WAKING and WP_WAKING_NEW. header.tid is the thread current on the waking CPU. */
struct wp_waking {
	struct wp_header h;
	__u32 target_tid;
	__u16 irq;        /* the device interrupt's number, if context is WP_CTX_DEVICE */
	__u16 target_cpu; /* where the target last ran */
};
_Static_assert(sizeof(struct wp_waking) == 24, "waking");

/* A wake-up by the softirq, which has just made this socket ready. */
struct wp_waking_socket {
	struct wp_waking w;
	__u64 flow; /* the incoming flow's id */
};
_Static_assert(sizeof(struct wp_waking_socket) == 32, "waking_socket");

#define WP_NOTHING_READY 0xffffffffull
#define WP_READY_UNKNOWN 0x100000000ull /* never in a record */

/* Directly before a wake-up from epoll_wait, with the same stamp: the newest ready descriptor in its set. */
struct wp_ready {
	struct wp_header h;
	__u32 target_tid;
	__u32 fd; /* or WP_NOTHING_READY: a time-out or a signal ends the wait */
};
_Static_assert(sizeof(struct wp_ready) == 24, "ready");

/* A runnable thread was moved to another CPU's queue. A thread in the middle of its wake-up has no such record. */
struct wp_migrate {
	struct wp_header h;
	__u32 target_tid;
	__u16 from_cpu;
	__u16 to_cpu;
};
_Static_assert(sizeof(struct wp_migrate) == 24, "migrate");

enum wp_context_state {
	WP_CONTEXT_NONE = 0,	/* the thread works for no span */
	WP_CONTEXT_SPAN = 1,
	WP_CONTEXT_UNKNOWN = 2, /* it could not be read, or was being written */
};

/*
 * Directly before a switch-out, a wake-up or a packet of header.tid: the span that the thread's own memory names. Only if it
 * differs from the thread's last record of this kind.
 */
struct wp_thread_context {
	struct wp_header h;
	__u8 trace[16]; /* zeros except with WP_CONTEXT_SPAN */
	__u8 span[8];
	__u8 state; /* enum wp_context_state */
	__u8 trace_flags; /* 1: the trace is sampled */
	__u16 spare;
	__u32 spare2;
};
_Static_assert(sizeof(struct wp_thread_context) == 48, "thread_context");

#define WP_ATTRIBUTE_BYTES 104

/*
 * Behind a span's WP_THREAD_CONTEXT, with the same stamp or a later one: an attribute that the thread gives for the span. Only
 * keys that user space allows.
 */
struct wp_thread_attribute {
	struct wp_header h;
	__u8 key;    /* its place among the process's published keys */
	__u8 length; /* of the value, bytes */
	__u16 spare;
	__u32 spare2;
	__u8 value[WP_ATTRIBUTE_BYTES]; /* its first bytes, then zeros */
};
_Static_assert(sizeof(struct wp_thread_attribute) == 128, "thread_attribute");

/* At a tick: header.tid runs here, but no switch to it was recorded. Some kernels leave switches untraced. */
struct wp_current {
	struct wp_header h;
};
_Static_assert(sizeof(struct wp_current) == 16, "current");

enum wp_direction { WP_OUT = 0, WP_IN = 1 };

/* In tcp_flags, which has 12 bits. */
#define WP_WINDOW_CLOSED 0x8000 /* the sender takes no more data */
#define WP_HELD_BACK 0x4000	/* Nagle's algorithm held back this data, which left in an interrupt */

struct wp_packet {
	struct wp_header h;
	__u64 flow; /* a struct wp_flow's id; the same for sender and receiver */
	__u32 seq;  /* TCP sequence number, else the IP id */
	__u32 ack;
	__u32 len;  /* payload bytes, computed from the buffer and the header offsets */
	__u32 netns;
	__u16 tcp_flags;
	__u8 direction;
	__u8 spare;
	__u32 ifindex;
};
_Static_assert(sizeof(struct wp_packet) == 48, "packet");

/* A socket with ready data, in process context, where no wake-up can carry it. */
struct wp_socket_ready {
	struct wp_header h;
	__u64 flow; /* the incoming flow's id */
};
_Static_assert(sizeof(struct wp_socket_ready) == 24, "socket_ready");

struct wp_flow {
	struct wp_header h;
	__u64 flow;
	__u8 source[16]; /* IPv4 in the first four bytes */
	__u8 target[16];
	__u16 source_port; /* host byte order */
	__u16 target_port;
	__u8 family; /* 4 or 6 */
	__u8 protocol;
	__u16 spare;
};
_Static_assert(sizeof(struct wp_flow) == 64, "flow");

enum wp_thread_flags { WP_THREAD_KERNEL = 1, WP_THREAD_RUNNING = 2 };

/* A thread. WP_THREAD in the snapshot at the start, WP_FORK at its fork (by header.tid). */
struct wp_thread {
	struct wp_header h;
	__u32 tid;
	__u32 tgid;
	__u32 parent_tgid;
	__u32 ns_tid; /* its number in its own pid namespace */
	__u32 ns_tgid;
	__u32 flags;
	__u64 start;      /* ns, CLOCK_MONOTONIC */
	__u64 cgroup;     /* id in the v2 hierarchy */
	__u64 cpu_cgroup; /* id in the hierarchy with the cpu controller */
	__u32 state;      /* task state bits at the snapshot */
	__u32 call;       /* its blocking system call at the snapshot, or WP_CALL_NONE */
	__u8 comm[WP_COMM_LEN];
};
_Static_assert(sizeof(struct wp_thread) == 88, "thread");

/* header.tid is from now on the leader of its process. */
struct wp_exec {
	struct wp_header h;
	__u32 old_tid; /* differs from header.tid when the caller was not the leader */
	__u32 tgid;
	__u8 comm[WP_COMM_LEN];
	__u8 path[WP_PATH_LEN];
};
_Static_assert(sizeof(struct wp_exec) == 168, "exec");

struct wp_exit {
	struct wp_header h;
	__u32 tgid;
	__u32 group_dead; /* not determined: always 0 */
};
_Static_assert(sizeof(struct wp_exit) == 24, "exit");

struct wp_rename {
	struct wp_header h;
	__u32 tid;
	__u32 spare;
	__u8 comm[WP_COMM_LEN];
};
_Static_assert(sizeof(struct wp_rename) == 40, "rename");

/* A thread, or a process with all its threads, moved to other cgroups. */
struct wp_move {
	struct wp_header h;
	__u32 tid;
	__u32 tgid;
	__u64 cgroup;
	__u64 cpu_cgroup;
	__u32 whole; /* all threads of the process moved */
	__u32 spare;
};
_Static_assert(sizeof(struct wp_move) == 48, "move");

/* A cgroup's CPU limit hands out time again: its throttled threads may run from now on. */
struct wp_refill {
	struct wp_header h;
	__u64 cpu_cgroup;
};
_Static_assert(sizeof(struct wp_refill) == 24, "refill");

/* In the snapshot at the start, after all threads: a thread's blocking system call. */
struct wp_blocked {
	struct wp_header h; /* tid is the thread's */
	__u32 call;
	__u32 op; /* these four as in struct wp_switch_lock */
	__u64 arg0;
	__u32 value;
	__u32 claim;
	__u32 valid;
	__u32 spare;
};
_Static_assert(sizeof(struct wp_blocked) == 48, "blocked");

/* WP_BLOCK_ISSUE and WP_BLOCK_COMPLETE. */
struct wp_block {
	struct wp_header h;
	__u64 request; /* identifies it until completion */
	__u64 sector;
	__u64 start;  /* ns, when the request was allocated; 0 without iostats */
	__u64 issued; /* ns, when it went to the device; 0 without iostats */
	__u32 device; /* major << 20 | minor */
	__u32 bytes;
	__u32 operation; /* low 8 bits of cmd_flags: 0 read, 1 write, 2 flush, 3 discard */
	__u32 error;
};
_Static_assert(sizeof(struct wp_block) == 64, "block");

/* A cgroup's I/O limit releases a request; the device's queue comes next. */
struct wp_block_release {
	struct wp_header h;
	__u64 sector;
	__u64 io_cgroup; /* the request's, by id in the hierarchy with the I/O controller; 0: not known */
	__u32 device; /* these three as in struct wp_block */
	__u32 bytes;
	__u32 operation;
	__u32 spare;
};
_Static_assert(sizeof(struct wp_block_release) == 48, "block_release");

enum wp_memory_limit {
	WP_MEMORY_UNKNOWN = 0,
	WP_MEMORY_MAX = 1,
	WP_MEMORY_HIGH = 2, /* memory.high: exceeding it is allowed, and slow */
};

/* header.tid reclaimed memory for a cgroup's memory limit; the stamp is the end. */
struct wp_reclaim {
	struct wp_header h;
	__u64 from;          /* its beginning, ns */
	__u64 memory_cgroup; /* the one whose limit was reached, by id in the hierarchy with the memory controller; 0: not known */
	__u64 limit;         /* bytes; 0: not known */
	__u32 pages;         /* reclaimed */
	__u32 by;            /* enum wp_memory_limit */
};
_Static_assert(sizeof(struct wp_reclaim) == 48, "reclaim");

/* The hypervisor stole time from this CPU since the last check. */
struct wp_stolen {
	struct wp_header h;
	__u64 ns;
};
_Static_assert(sizeof(struct wp_stolen) == 24, "stolen");

struct wp_lock {
	struct wp_header h;
	__u64 lock;  /* address */
	__u32 flags; /* LCB_F_*: 1 spin, 2 read, 4 write, 8 rt, 16 percpu, 32 mutex */
	__u32 owner; /* the tid that owns a mutex or rwsem, if it can be read; else 0 */
};
_Static_assert(sizeof(struct wp_lock) == 32, "lock");

/* WP_SAMPLE: header.tid was running. WP_STACK: the target of a WP_STACK_OF, recorded once or a few times. */
struct wp_sample {
	struct wp_header h;
	__u32 tgid;
	__u16 kernel_frames; /* first in frames, innermost first */
	__u16 user_frames;   /* behind them */
	__u16 scanned; /* the number of user_frames after the first that were found as return addresses on
			* the stack, outside the chain of frame pointers */
	__u16 proved;  /* the number of user_frames, from the first on, found by the files' tables */
	__u32 frames_len; /* kernel_frames + user_frames */
	__u64 frames[];
};
_Static_assert(sizeof(struct wp_sample) == 32, "sample");

/* A stack whose id was recorded before its frames were known: user space found them. */
struct wp_stack_later {
	struct wp_header h;
	__u64 stack; /* the id in struct wp_stack_of */
	__u32 tgid;  /* from here on as in struct wp_sample */
	__u16 kernel_frames;
	__u16 user_frames;
	__u16 scanned;
	__u16 proved;
	__u32 frames_len;
	__u64 frames[];
};
_Static_assert(sizeof(struct wp_stack_later) == 40, "stack_later");

/* Directly after a switch-out or a wake-up, with the same stamp: its stack. */
struct wp_stack_of {
	struct wp_header h;
	__u64 stack; /* its id: a hash of the WP_STACK behind its header (bpf/stack.h), or a WP_STACK_LATER's id */
};
_Static_assert(sizeof(struct wp_stack_of) == 24, "stack_of");

/* In a file's mode: a pipe's end for writing, in a process that a signal kills. */
#define WP_DYING_WRITER 0x10000

/*
 * The file behind a descriptor, once for each pair. Recorded when a call blocks on the descriptor. Also, with WP_DYING_WRITER, a
 * killed process's pipes.
 */
struct wp_file {
	struct wp_header h;
	__u32 tgid;
	__u32 fd;
	__u32 mode;    /* the inode's S_IFMT bits; WP_DYING_WRITER */
	__u32 spare;
	__u64 inode;
	__u64 peer;    /* a socket's outgoing flow id, else 0 */
	__u8 name[64]; /* last component, NUL-padded */
};
_Static_assert(sizeof(struct wp_file) == 112, "file");

/* Descriptor sets: ids have the highest bit set, unlike any address in user memory. */
#define WP_EMPTY_SET 0x8000000000000000ull
#define WP_NO_SET 0xffffffffffffffffull /* it could not be read */

/* A descriptor in a set that a thread polls, once for each content; at most the first 16. */
struct wp_set_member {
	struct wp_header h;
	__u64 set;   /* the id in struct wp_switch_call */
	__u32 tgid;
	__u32 fd;
	__u32 total; /* descriptors in the set; for select at most 17, which means more than 16 */
	__u32 spare;
};
_Static_assert(sizeof(struct wp_set_member) == 40, "set_member");

enum wp_function_end {
	WP_FUNCTION_RETURNED = 0,
	WP_FUNCTION_LEFT = 1, /* unwound by an exception, longjmp or the thread's end, at some time up to the stamp */
	WP_FUNCTION_OPEN = 2, /* it had not ended when the recording ended */
	WP_FUNCTION_MOVED = 3, /* a goroutine's call that returned in this thread and began in another */
	WP_FUNCTION_STAYED = 4, /* a goroutine's call that returned in the thread where it began */
};

/* A call of a chosen function; the stamp is its end. */
struct wp_function {
	struct wp_header h;
	__u32 target; /* the function's number: the key of its name */
	__u32 end;    /* enum wp_function_end */
	__u64 from;   /* its beginning, ns */
	__u32 thread; /* the thread of the call */
	__u32 spare;
};
_Static_assert(sizeof(struct wp_function) == 40, "function");

enum wp_goroutine_step {
	WP_GO_PARKS = 0,  /* it waits from here on */
	WP_GO_READY = 1,  /* it may run again */
	WP_GO_RUNS = 2,   /* header.tid runs it from here on */
	WP_GO_YIELDS = 3, /* header.tid ran it; it goes back into a queue */
	WP_GO_ENDS = 4,   /* header.tid ran it; it ended */
	WP_GO_SPAN = 5,   /* a span begins in it */
};

/* A goroutine's step, taken by a Go program's runtime or by OpenTelemetry's SDK in it. */
struct wp_goroutine {
	struct wp_header h;
	__u32 tgid;
	__u8 step;      /* enum wp_goroutine_step */
	__u8 reason;    /* for WP_GO_PARKS, in the runtime's numbering: with `program` the key of its name */
	__u16 program;  /* the program's number */
	__u64 goroutine; /* its number in its process; 0: it could not be read */
	__u64 by;       /* WP_GO_READY: the goroutine that made it ready. WP_GO_RUNS: at its first run, the
			 * goroutine that started it. WP_GO_PARKS, WP_GO_YIELDS and WP_GO_ENDS: the address
			 * of the function in which it began. 0: none, or it could not be read */
	__u8 trace[16]; /* for WP_GO_SPAN */
	__u8 span[8];
};
_Static_assert(sizeof(struct wp_goroutine) == 64, "goroutine");

enum wp_signal_action {
	WP_SIGNAL_DEFAULT = 0, /* the kernel's own action for this signal */
	WP_SIGNAL_IGNORED = 1,
	WP_SIGNAL_HANDLED = 2, /* a handler of the process runs */
	WP_SIGNAL_PROCESS_ENDS = 3, /* the process is ending, and this thread with it */
};

/*
 * A thread takes a signal that cuts a system call short, or that no handler takes. Also a WP_SIGNAL_SENT's first taking by a
 * handler.
 */
struct wp_signal {
	struct wp_header h;
	__u32 signal; /* its number; for WP_SIGNAL_PROCESS_ENDS the fatal signal, 0 for an exit or exec */
	__s32 code;   /* si_code; 0: not known, or from a process by kill */
	__u32 action; /* enum wp_signal_action */
	__u32 call;   /* the interrupted system call, or WP_CALL_NONE */
	__u64 sent;   /* ns, just after its target was woken; 0: not known */
	__u32 sender; /* the current thread when it was sent; for a timer, the interrupted thread */
	__u32 spare;
};
_Static_assert(sizeof(struct wp_signal) == 48, "signal");

enum wp_sent_effect {
	WP_SENT_DEFAULT = 0, /* the process ends when a thread takes it */
	WP_SENT_IGNORED = 1,
	WP_SENT_HANDLED = 2,
	WP_SENT_DROPPED = 3, /* the first process in a PID namespace has no handler for it */
	WP_SENT_NO_MEMORY = 4, /* SIGKILL by the kernel, for want of memory */
};

/*
 * A signal asking another process to end (HUP, INT, QUIT, TERM), sent by header.tid; at most one in 10 ms for each target
 * and signal. WP_SENT_NO_MEMORY: header.tid asked for the memory.
 */
struct wp_signal_sent {
	struct wp_header h;
	__u32 signal;
	__s32 code;	     /* si_code */
	__u32 target;	     /* a thread in the process */
	__u32 effect;	     /* enum wp_sent_effect */
	__u64 memory_cgroup; /* these two as in struct wp_reclaim; 0 except for want of memory */
	__u64 limit;
};
_Static_assert(sizeof(struct wp_signal_sent) == 48, "signal_sent");

enum wp_object_kind {
	WP_OBJECT_NONE = 0,
	WP_OBJECT_PATH = 1,
	WP_OBJECT_PATH_END = 2, /* the end of a longer path */
	WP_OBJECT_INET = 3,	/* a port in network order, and 4 bytes of address */
	WP_OBJECT_INET6 = 4,	/* the same with 16 bytes */
	WP_OBJECT_UNIX = 5,	/* a socket's path; an abstract name begins with NUL */
	WP_OBJECT_PROCESS = 6,	/* 4 bytes: the pid given by the caller, in its own namespace */
	WP_OBJECT_FILE = 7,	/* last component in a descriptor's path */
	WP_OBJECT_UNREADABLE = 8,
};

#define WP_OBJECT_BYTES 64

/*
 * Directly before a switch-out by header.tid in a call with a time-out, or in a wait for a child, or as its process ends with a
 * status other than 0, with the same stamp: the thread's last failed call since a time-out ended a wait; at the end, only a try for
 * a lock, a connection or a process. Without `--failed-calls` only a refused file lock, less than 10 ms before.
 */
struct wp_failed_call {
	struct wp_header h;
	__u32 call;	 /* x86-64 system call number */
	__u32 error;	 /* errno; 0: a success by which a process still runs */
	__u32 operation; /* fcntl's command, flock's operation, kill's signal; else 0 */
	__u32 holder;	 /* the process holding the lock just after the call; 0: not known */
	__u32 tries;	 /* equal failures since that wait */
	__u32 later;	 /* calls returned since the last try */
	__u8 object_kind; /* enum wp_object_kind */
	__u8 object_len;
	__u16 spare;
	__u32 spare2;
	__u8 object[WP_OBJECT_BYTES];
};
_Static_assert(sizeof(struct wp_failed_call) == 112, "failed_call");

/* The stamp ends a stretch in which a call by header.tid failed at least 1000 times a second. Only with `--failed-calls`. */
struct wp_spin {
	struct wp_header h;
	__u32 call;
	__u32 error;
	__u64 from; /* ns: the first call's return */
	__u64 count;
};
_Static_assert(sizeof(struct wp_spin) == 40, "spin");

#endif
