/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The lanes' memory layout: for lane.c, which fills them, and account.c, which adds them up. */
#ifndef WORKLOADS_LANE_H
#define WORKLOADS_LANE_H

#include "truth.h"

#include <stdatomic.h>
#include <sys/types.h>

#define MAX_LANES 1024
#define CHUNK 32 /* stretches added to a lane at a time */
#define MAX_CHUNKS 16384
#define CALL_LEN 20

enum what {
	WORK, /* wall = running + delayed */
	WAIT, /* wall = cpu + blocked + delayed, in this order */
};

/* A thread's time between two boundaries. */
struct stretch {
	uint64_t from, to;
	uint64_t cpu;     /* of a wait: spent on the way in and out */
	uint64_t delayed; /* runnable without a CPU, taken to be its last part */
	uint8_t what;
	uint8_t end; /* enum end, of a wait */
	int16_t by;  /* the lane that ended it, if any */
	int16_t sent_by; /* of a wait ended by a link: the lane that sent what ended it... */
	uint64_t sent;   /* ...and when */
	bool runs_last;  /* of a wait: its CPU time was spent on the way out, not on the way in */
	bool is_bounded; /* of a wait: it was not runnable before it was released, whatever the kernel counts */
	bool may_time_out; /* of a wait: by another reading, a timer ended it... */
	uint64_t delayed_by_timer; /* ...and it was runnable for so long */
	char call[CALL_LEN];
};

struct chunk {
	struct stretch stretches[CHUNK];
	int next; /* chunk of the same lane, or -1 */
};

struct lane {
	pid_t pid, tid;
	char comm[16];
	lane_t parent;
	uint64_t born;       /* when its creator made it */
	uint64_t born_delay; /* how long it was runnable before it opened its lane */
	_Atomic uint64_t forked; /* when it last made another */
	uint64_t cpu_at_open, opened;

	/* The boundary at which the stretch in progress began. */
	uint64_t at, at_cpu, at_delay;
	/* When the slow clocks were last read (a gap in work moves `at` alone), and how often it slept and lost its CPU so far. */
	uint64_t read_at, read_delay;
	long sleeps, losses;
	bool reaps; /* it buries a child in this stretch */
	uint64_t unawares; /* blocked where it believed to work: a page fault, a lock of the kernel's */
	uint64_t unordered; /* in no certain order, by the lane itself */
	char waiting_in[CALL_LEN]; /* empty unless waiting */
	_Atomic uint64_t released; /* when, by whom: the last time */
	_Atomic int released_by;
	_Atomic uint64_t was_released; /* when that was done for certain */
	_Atomic uint64_t sent; /* to it over a link, when, by whom: the last time */
	_Atomic int sent_by;

	uint64_t children_cpu; /* of those waited for */
	uint64_t end_delay; /* of a process that has been waited for: runnable on its way to its end */

	int first, last, used; /* chunks, and stretches used in the last */
};

/* A program's correction to its lanes. */
struct entry {
	lane_t lane;
	char from[16], to[16];
	uint64_t ns;
};

/* The shared memory. */
struct lanes {
	_Atomic int count;
	_Atomic int chunks;
	bool one_cpu; /* all lanes stay on the same */
	_Atomic int wire, far; /* of a link: its thread, and the lane at its far end; or NO_LANE */
	struct lane lane[MAX_LANES];
	struct chunk chunk[MAX_CHUNKS];
};

extern struct lanes *lanes;

extern const char *workload_name;

/* The network namespaces of a link's near and far end; 0 without a link. */
extern unsigned lane_namespaces[2];

/* Reads what is to be subtracted when the window closes. */
void account_begins(void);
/* From then to then, the waits of lane 0 that may have timed out either did so, all of them, or none. */
void account_either(uint64_t from, uint64_t to);

/* Ends the stretch in progress here and begins another. */
struct stretch *boundary(lane_t lane, enum what what, enum end end, lane_t by);
/* The same, for time in which the thread had been released and had not yet come to run. */
void boundary_runnable(lane_t lane);
/* Ends the wait that has begun: by the lane that said so, or, if none did, by `otherwise`. */
struct stretch *wait_released(lane_t lane, lane_t otherwise);
struct stretch *wait_interrupted(lane_t lane, uint64_t ns, lane_t awaited);
/* Adds a stretch as it stands. */
struct stretch *stretch_log(lane_t lane, const struct stretch *s);

/* The packets with data that TCP sent by its timers over the link, or again; NULL without a link. The programs do not see these waits. */
extern uint64_t (*sent_by_timers)(void);

#endif
