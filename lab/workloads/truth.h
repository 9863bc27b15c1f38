/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How a program whose truth is known keeps its books.
 *
 * Each thread (in a process or several) owns a *lane*: the account of its own time, as stretches
 * that it stamps itself while it runs. It says in its own words what a kernel trace must find out:
 * "from here I wait", "who releases me is lane 3", "a timer ended this". When all is done the first
 * thread adds up its window: its waits are replaced by what the lane that ended each of them did
 * meanwhile, as the active path is defined (G15 Algorithm 5), and the sums are written as JSON.
 *
 *     main     ====|..............|====        lane 0: works, waits, works
 *     worker       =====|....|====^            lane 1: works, sleeps, works, releases lane 0
 *
 *     truth: main running 8, worker running 9, worker timer 5
 *
 * Everything is measured, nothing is nominal. Three clocks are read together at each boundary:
 *
 *     CLOCK_MONOTONIC            the wall, the clock of the trace
 *     CLOCK_THREAD_CPUTIME_ID    time on a CPU
 *     /proc/thread-self/schedstat, second figure: time runnable without a CPU, by the kernel's count
 *
 * so that a neighbour who takes the CPU shows in the truth as `runnable`, where it happened, and no
 * figure needs an idle machine. A stretch of work is wall less runnable; a wait is wall less CPU
 * less runnable.
 *
 * This does not see the microsecond or two between a stamp and the switch that follows it, and
 * the time that an interrupt takes to reach a sleeping CPU. Waits are therefore made long (5 to 50 ms).
 *
 * Lanes lie in memory shared with the children of fork(), and with an exec'ed child that is given
 * the descriptor. The memory holds indexes, no pointers.
 */
#ifndef WORKLOADS_TRUTH_H
#define WORKLOADS_TRUTH_H

#include <stdbool.h>
#include <stdint.h>

#define MS 1000000ull /* in ns, like every duration here */
#define US 1000ull

/* An index into the shared table of lanes. */
typedef int lane_t;
#define NO_LANE (-1)

/* The end of a wait, if it was no lane. */
enum end {
	BY_LANE,
	BY_TIMER,
	BY_DISK, /* a device, and its kernel threads */
	BY_PEER, /* a packet of another machine, whose own books say what it did meanwhile */
	BY_LINK, /* a packet over a link: see link.h */
	BY_NOBODY, /* it never slept */
};

/* --- flags.c ---------------------------------------------------------------------------------- */

/* The argument of a flag; most tables give it as a bool: whether it is a switch. */
enum takes {
	A_NUMBER = false,
	NOTHING = true,
	A_TEXT,
};

/* One command-line flag. */
struct flag {
	const char *name; /* without the dashes */
	void *value; /* a long, or the const char * of a text */
	enum takes takes;
	const char *help;
};

/* NULL, or where --truth wants the truth to go, and --truth-hosts that of a link's two ends as two hosts. */
extern const char *truth_file, *truth_of_hosts_file;

/* Reads flags up to a nameless flag; knows --truth FILE, --truth-hosts FILE and --help by itself. Ends the program on misuse. */
void flags_read(int argc, char **argv, const struct flag *flags, const char *summary);

/* --- lane.c ----------------------------------------------------------------------------------- */

/*
 * The window opens: the calling thread's time is to be explained, and its lane is 0.
 * To be called first in main. Ends the whole program by SIGKILL after a minute, whatever it does.
 */
lane_t window_open(const char *workload);
/* Not after a minute but so long from now, for a program that waits until another machine is ready. */
void live_for(long seconds);

/* The calling thread, which is new, opens its lane and takes that name. `parent` created it. */
lane_t lane_open(const char *comm, lane_t parent);

/* `lane` is about to make a thread or a process, which will open its lane as its child. */
void forks(lane_t lane);
/* The n-th lane of that name, counted from 0. */
lane_t lane_named(const char *comm, long n);

/* The lane of the calling thread, and the thread, take another name. */
void lane_rename(lane_t lane, const char *comm);

/* The descriptor by which an exec'ed child can reach the lanes, and how it does. */
int lanes_descriptor(void);
void lanes_adopt(int descriptor);
/* The calling thread, after exec, goes on with the lane that it opened before. */
void lane_goes_on(lane_t lane);
/* The calling thread has done its work. Nothing but its end is left, of which it has no stamp. */
void lane_ends(lane_t lane);

/* CLOCK_MONOTONIC; how long this thread ran, and how long it was runnable. */
uint64_t now(void);
uint64_t cpu_time(void);
uint64_t delay_time(void);

/* Runs until the thread has had that much more CPU time. Notices and logs each loss of the CPU. */
void work(lane_t lane, uint64_t ns);

/* Says what and why on stderr and ends the program with code 2. */
void die(const char *what) __attribute__((noreturn));
/* Keeps the calling thread, and what it will create, on the last CPU allowed to it. */
void pin_to_one_cpu(void);

/* --- wait.c ----------------------------------------------------------------------------------- */

/* From here the thread waits in that system call... */
void wait_begins(lane_t lane, const char *call);
/* ...until here: ended by the lane that said it releases us, or, if none did, by `otherwise`... */
void wait_ends(lane_t lane, lane_t otherwise);
/* ...or ended by a timer that was set for so long when it began... */
void wait_times_out(lane_t lane, uint64_t ns);
/* ...or only interrupted by such a timer: from here it goes on with the wait for that lane... */
void wait_is_interrupted(lane_t lane, uint64_t ns, lane_t awaited);
/*
 * ...or by whichever of these two came first. `since` is when the first of the interrupted waits began that this wait goes
 * on with, 0 if it stands alone. Only the kernel knows whether the last of them slept until the event: it may have found
 * the event as it timed out, or without sleeping, and then all were time-outs for a trace. Where it is not certain that it
 * slept until the event, the account has both readings. Returns whether it is certain. For lane 0.
 */
bool wait_ends_or_times_out(lane_t lane, uint64_t ns, uint64_t since);
/* ...or, if no lane said that it releases us, by this... */
void wait_ends_or_by(lane_t lane, enum end end);
/* ...or ended by anything else without a lane. */
void wait_ends_by(lane_t lane, enum end end);

/* `lane` is about to end the wait of `waiter`... */
void releases(lane_t lane, lane_t waiter);
/* ...and has done so. */
void has_released(lane_t waiter);

/* So much of what the lane has logged may have been in another order, or by another end. */
void order_unknown(lane_t lane, uint64_t ns);

/* Waits until a child process with a lane has ended. */
void wait_for_child(lane_t lane, int process);

/* Sleeps that long, as a wait ended by a timer. */
void rest(lane_t lane, uint64_t ns);

/* --- meet.c ----------------------------------------------------------------------------------- */

/* A mutex with every hold logged, since the holder decides the meaning of a wait for it. */
struct lock;
struct lock *lock_create(void);
void lock_acquire(struct lock *lock, lane_t lane);
/* The same with a time-out, and again until it is had: still a single wait, for the holders. */
void lock_acquire_by_tries(struct lock *lock, lane_t lane, uint64_t try_ns);
void lock_release(struct lock *lock, lane_t lane);

/* A barrier at which the last to arrive releases all others. */
struct gate;
struct gate *gate_create(int lanes);
void gate_pass(struct gate *gate, lane_t lane);

/* --- account.c -------------------------------------------------------------------------------- */

/*
 * A sentence that the path must (or must never) bear out, in the form that the comparer reads:
 *     segments kind=timer call=poll          some segment with both
 *     waits via=lock lock.owner.comm=x*      fields with dots, a trailing star matches the rest
 */
void must(const char *assertion);
void never(const char *assertion);

/* Corrects the lanes: `ns` of a lane's `from` kind become `to`. */
void account_moves(lane_t lane, const char *from, const char *to, uint64_t ns);

/* The window closes: what is written after this is no part of it. */
void window_close(void);
/* It stays open: the next wait of lane 0, in that system call, never ends. */
void window_stays_open(const char *call);

#endif
