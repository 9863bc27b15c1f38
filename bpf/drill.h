/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The records by drill.bpf.c, in user space's layout. */
#ifndef WAKEPATH_DRILL_H
#define WAKEPATH_DRILL_H

#include "types.h"

/* The maximum number of function tree nodes measured at once; a power of two. */
#define WP_DRILL_NODES 128
/* The maximum number of a thread's open calls to measured functions; a power of two. */
#define WP_DRILL_DEEPEST 32
/* At most this many functions, reached by jumps, return with a call. */
#define WP_DRILL_JUMPS 8
/* The maximum number of samples kept for a call of f0; a power of two. */
#define WP_DRILL_SAMPLES 64
/* The maximum number of indirect calls watched at once. */
#define WP_DRILL_OPERANDS 128

/* The functions with a place for their own hits; higher numbers share the last place. */
#define WP_DRILL_HITS 4096

/* In a function's cookie: its returns are seen behind its calls. */
#define WP_DRILL_BEHIND (1ull << 32)
/* The cookie for a probe behind a measured function's call: call_places counts its hits. */
#define WP_DRILL_CALL_PLACE 1

/* A frame without a node: a measured function was called from elsewhere. */
#define WP_DRILL_OUTSIDE 0xffffffffu

/* The maximum number of numbered Python functions: f0, and functions that a path may reach. */
#define WP_PYTHON_FUNCTIONS 4096
/* The maximum number of different Python calls seen below f0. */
#define WP_PYTHON_CALLS 16384

enum wp_drill_phase { WP_DRILL_IDLE, WP_DRILL_COUNT, WP_DRILL_MEASURE, WP_DRILL_LOOK };

/* A node's calls within a call of f0. */
struct wp_drill_node {
	__u64 call; /* the number of f0's call */
	__u64 max; /* the longest call, ns */
	__u64 sum; /* ns */
	__u64 count;
	/* While this node was the innermost open one, ns: */
	__u64 blocked; /* from a switch-out until the thread was woken */
	__u64 waited; /* ready to run, without a CPU */
	__u64 interrupted;
	__u64 stolen; /* the hypervisor had the CPU */
	__u64 longest; /* the longest interrupt, ns */
	__u32 interrupt; /* its number: the local timer's vector, or an interrupt line */
	__u32 spare;
};

struct wp_drill_frame {
	__u64 sp; /* at the function's entry, where the return address stands */
	__u64 at; /* ns */
	__u32 function;
	__u32 node; /* or WP_DRILL_OUTSIDE */
	__u32 around; /* the innermost node when the function was entered */
	__u32 spare;
	/* With stubs, the innermost call then in the process's memory; for Python, the number of calls then without a node. */
	__u64 around_call;
	__u64 returns_to; /* the return address, if the return is seen there; else 0 */
};

/* A node's calls within a call of f0, measured by stubs in the process (crates/inject/src/data.rs). */
struct wp_stub_node {
	__u64 call; /* the number of f0's call */
	__u64 max; /* the longest call, ticks of the time-stamp counter */
	__u64 sum; /* ticks */
	__u64 count;
};

/* A thread or goroutine; also the record for its call of f0, when the call returns. */
struct wp_drill_thread {
	__u64 plan; /* the call's measurement plan; 0: only its latency counts */
	__u64 latency; /* f0's call, ns */
	__u64 call; /* its number in this thread */
	__u64 off_at; /* when the thread left its CPU within the call, ns; 0: it has a CPU */
	__u64 ready_at; /* when it was woken, or preempted, ns; 0: it waits */
	__u64 interrupted_at;
	__u32 interrupt;
	__u32 depth;
	__u32 innermost; /* the innermost node */
	__u32 crowded; /* a call was too deep */
	__u32 left; /* calls that were unwound without a return */
	__u32 tid;
	struct wp_drill_frame frames[WP_DRILL_DEEPEST];
	struct wp_drill_node nodes[WP_DRILL_NODES];
	/* Code addresses at samples with the sampled node innermost; 0: in the kernel. */
	__u64 sampled[WP_DRILL_SAMPLES];
	__u32 samples; /* samples taken: perhaps more than are kept */
	__u32 off_node; /* the innermost node when the thread left its CPU */
	/* With stubs: the number of the thread's state, from 1 on, or 0; the call's number there; the stubs' times. */
	__u64 state;
	__u64 stub_call;
	struct wp_stub_node stubs[WP_DRILL_NODES];
	/* If f0 is a Python function: */
	__u64 python_calls; /* within f0's call, without a node */
	__s64 python_balance; /* begun frames within it, less ended frames */
	__u64 python_began_at; /* the last frame's beginning within it, ns */
	__u64 python_steps; /* ended frames since then: 1 for none, 2 for one; else 0 */
	__u64 stolen_ever; /* its CPU's total stolen time at the last look, ns; 0: not known */
	__u64 queued; /* from the request's hand-over to the call's beginning, ns */
	/* The last place behind a call at which calls ended, and the stack pointer there: a second probe at it ends none. */
	__u64 ended_at, ended_sp;
};

/* A call of a Python function, by both code objects. `place` is the caller's instruction, bytes from its first instruction. */
struct wp_python_call {
	__u64 caller;
	__u64 callee;
	__u64 place;
};

/* A call of `function` by `parent` that returns to `returns_to` belongs to the map's node; 0: called by a jump. */
struct wp_drill_edge {
	__u32 parent;
	__u32 function;
	__u64 returns_to;
};

/* A probe's hits, at a call or behind it. */
struct wp_call_place {
	__u64 hits;
	__u64 strays; /* those that ended no call */
};

/*
 * The called node. At its entry the caller's return address stands at `distance` from the stack pointer (`frame` 0) or the
 * frame pointer (1); 2: not known.
 */
struct wp_drill_child {
	__u32 node;
	__u32 frame;
	__s64 distance;
};

/* The memory shared with stubs in the process: crates/inject/src/data.rs, whose test compares both. */
#define WP_STUB_THREADS 256
#define WP_STUB_WAYS 8

/* An open call: a stub's, in the process's own memory, or a probe's, in the shared memory. Pointers are the process's. */
struct wp_stub_call {
	__u64 slot; /* where its return address stands */
	__u64 returns_to;
	__u64 began; /* ticks */
	__u64 around; /* the call around it, 0: none */
	__u64 state;
	__u64 of; /* the number of f0's call */
	__u32 node;
	__u32 spare;
	__u64 unused;
};

struct wp_stub_state {
	__u64 of; /* the number of f0's open call; 0: none */
	__u64 innermost; /* the innermost open call */
	__u64 thread; /* the thread pointer */
	__u64 left; /* open calls that were unwound */
	__u64 crowded; /* calls without room */
	__u64 spare[3];
	struct wp_stub_call frames[WP_DRILL_DEEPEST]; /* calls seen by probes, f0's first */
	__u64 unused[248];
	struct wp_stub_node nodes[WP_DRILL_NODES];
};

struct wp_stub_shared {
	__u64 threads[512]; /* thread pointers: the first 256 are used; 0: free */
	struct wp_stub_state states[WP_STUB_THREADS];
};

/* The place of an indirect call's target address. */
struct wp_drill_operand {
	__u8 base; /* the register, in x86's numbering; above 15: none */
	__u8 index;
	__u8 scale;
	__u8 in_memory;
	__u32 spare;
	__u64 displacement;
};

/* The roles of a probed place in kernel code. */
#define WP_DRILL_CLOSES 1 /* a call returns to it */
#define WP_DRILL_RETURNS 2 /* a return instruction */
#define WP_DRILL_ENTERS 4 /* the entry of `function` */
#define WP_DRILL_CALLED 8 /* the same, and its return address identifies the call */
#define WP_DRILL_OPENS 16 /* a call of `function`, or a jump instead */
#define WP_DRILL_INDIRECT 32 /* `operand` has the called function */
/* The maximum number of such places at once. */
#define WP_DRILL_PLACES 1024
/* A jump without a condition. */
#define WP_DRILL_ALWAYS 16

struct wp_drill_place {
	__u64 returns_to; /* the call's return address; 0: a jump */
	__u32 function;
	__u8 roles;
	__u8 condition; /* the jump's lower opcode half, or WP_DRILL_ALWAYS */
	__u16 spare;
	struct wp_drill_operand operand;
};

struct wp_drill_target {
	__u64 site; /* the operand's number */
	__u64 target;
};

#endif
