/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The records of drill.bpf.c in the layout that user space reads. */
#ifndef WAKEPATH_DRILL_H
#define WAKEPATH_DRILL_H

#include "types.h"

/* Nodes of the function tree that are measured at once, at most; a power of two. */
#define WP_DRILL_NODES 128
/* Open calls of measured functions in a thread, at most; a power of two. */
#define WP_DRILL_DEEPEST 32
/* Samples of one call of f0 that are kept; a power of two. */
#define WP_DRILL_SAMPLES 64
/* Indirect calls that are watched at once, at most. */
#define WP_DRILL_OPERANDS 128

/* A frame that belongs to no node: a measured function that was called from elsewhere. */
#define WP_DRILL_OUTSIDE 0xffffffffu

/* Python functions that are known by a number, at most: f0, and those that a path may go to. */
#define WP_PYTHON_FUNCTIONS 4096
/* Different calls of Python functions that are seen below f0, at most. */
#define WP_PYTHON_CALLS 16384

enum wp_drill_phase { WP_DRILL_IDLE, WP_DRILL_COUNT, WP_DRILL_MEASURE, WP_DRILL_LOOK };

/* The calls of a node within one call of f0. */
struct wp_drill_node {
	__u64 call; /* the number of the call of f0 that the rest is of */
	__u64 max; /* ns, of one call */
	__u64 sum; /* ns */
	__u64 count;
	/* While this node was the innermost open one, ns: */
	__u64 blocked; /* from a switch-out until the thread was woken */
	__u64 waited; /* ready to run, without a CPU */
	__u64 interrupted;
	__u64 stolen; /* the hypervisor had the CPU */
	__u64 longest; /* the longest interrupt, ns */
	__u32 interrupt; /* its number: that of the vector of the local timer, or an interrupt line */
	__u32 spare;
};

struct wp_drill_frame {
	__u64 sp; /* at the function's entry, where the return address stands */
	__u64 at; /* ns */
	__u32 function;
	__u32 node; /* or WP_DRILL_OUTSIDE */
	__u32 around; /* the innermost node when the function was entered */
	__u32 spare;
	/* The innermost call in the process's memory then, where stubs measure; for Python, the calls then that belong to no node. */
	__u64 around_call;
};

/* The calls of a node within one call of f0, as stubs in the process measured them (crates/inject/src/data.rs). */
struct wp_stub_node {
	__u64 call; /* the number of the call of f0 that the rest is of */
	__u64 max; /* ticks of the time stamp counter, of one call */
	__u64 sum; /* ticks */
	__u64 count;
};

/* A thread or goroutine, and the record of its call of f0 when that returns. */
struct wp_drill_thread {
	__u64 plan; /* the plan by which the call is measured; 0: only its latency counts */
	__u64 latency; /* of the call, ns */
	__u64 call; /* its number in this thread */
	__u64 off_at; /* when the thread left its CPU within the call, ns; 0: it has it */
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
	/* Where the thread was in its code at the samples that found the sampled node innermost; 0: in the kernel. */
	__u64 sampled[WP_DRILL_SAMPLES];
	__u32 samples; /* those that there were: more than are kept, perhaps */
	__u32 off_node; /* the innermost node when the thread left its CPU */
	/* Where stubs in the process measure: the number of the thread's state, from 1 on, or 0; that of the call there; their times. */
	__u64 state;
	__u64 stub_call;
	struct wp_stub_node stubs[WP_DRILL_NODES];
	/* Where f0 is a function of Python: */
	__u64 python_calls; /* within the call of f0, that belong to no node */
	__s64 python_balance; /* frames within it that began, less those that ended */
	__u64 python_began_at; /* the last frame within it, ns */
	__u64 python_steps; /* 1: none has ended since then; 2: one has; else 0 */
	__u64 stolen_ever; /* from its CPU, when the call was last looked at; 0: not known */
	__u64 queued; /* from the hand-over of the call's request to its beginning, ns */
};

/* A call of a Python function, by the code objects of both. `place` is that of the caller's instruction, bytes from its first one. */
struct wp_python_call {
	__u64 caller;
	__u64 callee;
	__u64 place;
};

/* A call of `function` by `parent` that returns to `returns_to` is a child of that node; 0: called by a jump. */
struct wp_drill_edge {
	__u32 parent;
	__u32 function;
	__u64 returns_to;
};

/* The node that is called. `distance` from the stack pointer (0) or the frame pointer (1) at the entry the return address of
   the caller stands, where that is known; 2: it is not. */
struct wp_drill_child {
	__u32 node;
	__u32 frame;
	__s64 distance;
};

/* The memory that is shared with stubs in the process: crates/inject/src/data.rs, which a test holds against this. */
#define WP_STUB_THREADS 256
#define WP_STUB_WAYS 8

/* An open call: of a stub, in memory of the process alone; or of a probe, in the shared memory. Pointers are the process's. */
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
	__u64 of; /* the number of f0's call that is open; 0: none */
	__u64 innermost; /* the innermost open call */
	__u64 thread; /* the thread pointer */
	__u64 left; /* open calls that were left without a return */
	__u64 crowded; /* calls that found no room */
	__u64 spare[3];
	struct wp_stub_call frames[WP_DRILL_DEEPEST]; /* those that probes see, f0's the first */
	__u64 unused[248];
	struct wp_stub_node nodes[WP_DRILL_NODES];
};

struct wp_stub_shared {
	__u64 threads[512]; /* thread pointers, of which the first 256 are used; 0: free */
	struct wp_stub_state states[WP_STUB_THREADS];
};

/* The place of the address that an indirect call takes. */
struct wp_drill_operand {
	__u8 base; /* the register, as x86 numbers them; above 15: none */
	__u8 index;
	__u8 scale;
	__u8 in_memory;
	__u32 spare;
	__u64 displacement;
};

/* The roles of a place in the kernel's code that has a probe. */
#define WP_DRILL_CLOSES 1 /* a call returns to it */
#define WP_DRILL_RETURNS 2 /* a return instruction */
#define WP_DRILL_ENTERS 4 /* the entry of `function` */
#define WP_DRILL_CALLED 8 /* the same, and calls are known by their return address */
#define WP_DRILL_OPENS 16 /* a call of `function`, or a jump in place of one */
#define WP_DRILL_INDIRECT 32 /* the function that is called stands at `operand` */
/* Such places at once, at most. */
#define WP_DRILL_PLACES 1024
/* A jump without a condition. */
#define WP_DRILL_ALWAYS 16

struct wp_drill_place {
	__u64 returns_to; /* of the call there; 0: a jump */
	__u32 function;
	__u8 roles;
	__u8 condition; /* of the jump, the lower half of its opcode; or WP_DRILL_ALWAYS */
	__u16 spare;
	struct wp_drill_operand operand;
};

struct wp_drill_target {
	__u64 site; /* the number of the operand */
	__u64 target;
};

#endif
