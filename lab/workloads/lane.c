/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Each thread's account of its own time. See truth.h. */
#define _GNU_SOURCE
#include "lane.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIFETIME_S 60
/* Two readings of the clock further apart than this had something in between. */
#define GAP (10 * US)

struct lanes *lanes;
const char *workload_name;
static int memory = -1;
static _Thread_local int schedstat = -1;

void die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", workload_name ? workload_name : "workload", what, strerror(errno));
	_exit(2);
}

static uint64_t read_clock(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t cpu_time(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t delay_time(void)
{
	char text[96];
	if (schedstat < 0)
		schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	if (schedstat < 0)
		die("cannot open /proc/thread-self/schedstat");
	ssize_t n = pread(schedstat, text, sizeof text - 1, 0);
	if (n <= 0)
		die("cannot read /proc/thread-self/schedstat");
	text[n] = 0;
	unsigned long long ran, delayed, times;
	if (sscanf(text, "%llu %llu %llu", &ran, &delayed, &times) != 3 || times == 0) {
		errno = ENOTSUP;
		die("this kernel does not count how long threads are runnable (CONFIG_SCHED_INFO)");
	}
	return delayed;
}

/* When this process ends, whatever it does. */
static timer_t lifetime;

void live_for(long seconds)
{
	struct itimerspec when = { .it_value.tv_sec = seconds };
	if (timer_settime(lifetime, 0, &when, NULL))
		die("cannot set the timer that would end this program");
}

/* A program that hangs must not hang whoever measures it: not even the mask of its threads helps. */
static void end_in_time(void)
{
	struct sigevent kill = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
	if (timer_create(CLOCK_MONOTONIC, &kill, &lifetime))
		die("cannot make the timer that would end this program");
	live_for(LIFETIME_S);
}

static void map_lanes(void)
{
	lanes = mmap(NULL, sizeof *lanes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (lanes == MAP_FAILED)
		die("cannot map the lanes");
}

/* Reading the clocks takes 2 µs, or 20 with a cold cache; longer, and something came between. */
#define READING (300 * US)

/*
 * The three clocks at the moment of the call: the wall's is read first, and what reading the others
 * takes is subtracted. If the CPU was lost meanwhile, that was after the moment only if it shows.
 */
static void look(uint64_t *wall, uint64_t *cpu, uint64_t *delay)
{
	uint64_t first = now(), again = delay_time(), last;
	do {
		*delay = again;
		*cpu = cpu_time();
		last = now();
		again = delay_time();
	} while (again != *delay && (first = 0, true));
	bool undisturbed = first && last - first < READING;
	*wall = undisturbed ? first : last;
	if (undisturbed && *cpu > last - first)
		*cpu -= last - first;
}

/* Counts how often the calling thread went to sleep, and how often it lost its CPU. */
static void count_switches(struct lane *l)
{
	struct rusage used;
	getrusage(RUSAGE_THREAD, &used);
	l->sleeps = used.ru_nvcsw;
	l->losses = used.ru_nivcsw;
}

/* From here on the stretch in progress is counted. */
static void begin_at(struct lane *l, uint64_t wall, uint64_t cpu, uint64_t delay)
{
	l->at = l->read_at = wall;
	l->at_cpu = cpu;
	l->at_delay = l->read_delay = delay;
	count_switches(l);
}

static lane_t lane_add(const char *comm, lane_t parent)
{
	lane_t index = atomic_fetch_add(&lanes->count, 1);
	if (index >= MAX_LANES) {
		errno = ENOSPC;
		die("too many lanes");
	}
	struct lane *l = &lanes->lane[index];
	l->pid = getpid();
	l->tid = (pid_t)syscall(SYS_gettid);
	l->parent = parent;
	l->first = l->last = -1;
	atomic_store(&l->sent_by, NO_LANE);
	snprintf(l->comm, sizeof l->comm, "%s", comm);
	prctl(PR_SET_NAME, l->comm);
	/* A sleep ends when it was asked to, not up to 50 µs later. */
	prctl(PR_SET_TIMERSLACK, 1ul);
	uint64_t wall, cpu, delay;
	look(&wall, &cpu, &delay);
	begin_at(l, wall, cpu, delay);
	l->opened = wall;
	l->cpu_at_open = cpu;
	return index;
}

lane_t window_open(const char *workload)
{
	uint64_t from, cpu, delay;
	workload_name = workload;
	look(&from, &cpu, &delay);
	memory = memfd_create("lanes", 0);
	if (memory < 0 || ftruncate(memory, sizeof *lanes))
		die("cannot make the memory of the lanes");
	map_lanes();
	atomic_store(&lanes->wire, NO_LANE);
	atomic_store(&lanes->far, NO_LANE);
	lane_t lane = lane_add(workload, NO_LANE);
	/* The time before belongs to exec and the loader. */
	struct lane *l = &lanes->lane[lane];
	l->born = l->opened = from;
	l->cpu_at_open = cpu;
	begin_at(l, from, cpu, delay);
	account_begins();
	end_in_time();
	return lane;
}

lane_t lane_open(const char *comm, lane_t parent)
{
	schedstat = -1; /* after fork() it is still the parent's */
	lane_t lane = lane_add(comm, parent);
	struct lane *l = &lanes->lane[lane];
	if (l->pid != lanes->lane[parent].pid)
		end_in_time();
	/*
	 * A new thread's clocks began at zero when it was made, or, like any wake-up, when its CPU had
	 * heard of it. Its creator may have gone on to make others since.
	 */
	uint64_t forked = atomic_load(&lanes->lane[parent].forked);
	uint64_t counted = l->at - l->at_cpu - l->at_delay, earliest = counted;
	if (forked && forked < counted)
		earliest = forked;
	/* On a single CPU the kernel's count is exact: before it the creator was still making this thread. */
	l->born = lanes->one_cpu ? counted : earliest;
	/* Stolen time is in neither clock. By the guest's knowledge the thread ran. */
	l->born_delay = lanes->one_cpu ? l->at_delay : l->at - l->at_cpu - l->born;
	if (l->sleeps)
		l->unawares = counted - earliest;
	return lane;
}

void lane_rename(lane_t lane, const char *comm)
{
	struct lane *l = &lanes->lane[lane];
	snprintf(l->comm, sizeof l->comm, "%s", comm);
	prctl(PR_SET_NAME, l->comm);
}

int lanes_descriptor(void)
{
	return memory;
}

void lanes_adopt(int descriptor)
{
	memory = descriptor;
	map_lanes();
}

struct stretch *stretch_log(lane_t lane, const struct stretch *s)
{
	struct lane *l = &lanes->lane[lane];
	if (l->last < 0 || l->used == CHUNK) {
		int chunk = atomic_fetch_add(&lanes->chunks, 1);
		if (chunk >= MAX_CHUNKS) {
			errno = ENOSPC;
			die("too many stretches");
		}
		lanes->chunk[chunk].next = -1;
		if (l->last < 0)
			l->first = chunk;
		else
			lanes->chunk[l->last].next = chunk;
		l->last = chunk;
		l->used = 0;
	}
	struct stretch *logged = &lanes->chunk[l->last].stretches[l->used++];
	*logged = *s;
	return logged;
}

struct stretch *boundary(lane_t lane, enum what what, enum end end, lane_t by)
{
	struct lane *l = &lanes->lane[lane];
	uint64_t wall, cpu, delay;
	look(&wall, &cpu, &delay);
	if (cpu < l->at_cpu) /* stolen while it was read, and subtracted for it */
		cpu = l->at_cpu;
	struct stretch s = {
		.from = l->at, .to = wall, .cpu = cpu - l->at_cpu, .delayed = delay - l->at_delay,
		.delayed_by_timer = delay - l->at_delay, .what = what, .end = end, .by = (int16_t)by,
	};
	memcpy(s.call, l->waiting_in, sizeof s.call);
	int64_t missing = (int64_t)(wall - l->read_at - (cpu - l->at_cpu) - (delay - l->read_delay));
	long sleeps = l->sleeps, losses = l->losses;
	begin_at(l, wall, cpu, delay);
	if (what == WORK && l->sleeps != sleeps && missing > 0)
		l->unawares += (uint64_t)missing;
	/*
	 * The kernel does not count a thread as runnable that lost its CPU between its decision to sleep and its
	 * sleep (6.18: `sched_info_depart` looks at the state), and it is there that wait4 buries a child.
	 * Elsewhere such time was stolen.
	 */
	else if (what == WORK && l->reaps && l->losses != losses && missing > (int64_t)GAP)
		s.delayed += (uint64_t)missing;
	l->reaps = false;
	return stretch_log(lane, &s);
}

void boundary_runnable(lane_t lane)
{
	struct stretch *s = boundary(lane, WAIT, BY_NOBODY, NO_LANE);
	s->delayed = s->to - s->from;
}

void lane_goes_on(lane_t lane)
{
	prctl(PR_SET_NAME, lanes->lane[lane].comm); /* exec has named it after the file */
	end_in_time();
	boundary(lane, WORK, BY_LANE, NO_LANE);
}

void lane_ends(lane_t lane)
{
	boundary(lane, WORK, BY_LANE, NO_LANE);
}

/*
 * The CPU was lost between `last` and `t`, for which the thread was runnable; if for longer than
 * that, it had been lost before already, on the way into work().
 */
static void log_gap(lane_t lane, uint64_t last, uint64_t t)
{
	struct lane *l = &lanes->lane[lane];
	uint64_t lost = delay_time() - l->at_delay, gap = t - last;
	if (!lost)
		return;
	struct stretch before = { .from = l->at, .to = last, .delayed = lost > gap ? lost - gap : 0, .what = WORK };
	stretch_log(lane, &before);
	l->at = last;
	l->at_delay += before.delayed;
	boundary(lane, WORK, BY_LANE, NO_LANE);
}

void work(lane_t lane, uint64_t ns)
{
	/* A CPU lost before this began must not be taken for a CPU lost in it. */
	if (delay_time() != lanes->lane[lane].at_delay)
		boundary(lane, WORK, BY_LANE, NO_LANE);
	uint64_t end = cpu_time() + ns, last = now(), look_at = last + ns, cpu;
	for (;;) {
		uint64_t t = now();
		if (t - last > GAP) {
			log_gap(lane, last, t);
			t = now();
		}
		last = t;
		if (t < look_at)
			continue;
		/* CPU time cannot pass faster than the wall's. */
		if ((cpu = cpu_time()) >= end)
			return;
		look_at = t + (end - cpu);
	}
}

void forks(lane_t lane)
{
	atomic_store(&lanes->lane[lane].forked, now());
}

lane_t lane_named(const char *comm, long n)
{
	for (lane_t i = 0; i < atomic_load(&lanes->count); i++)
		if (!strcmp(lanes->lane[i].comm, comm) && n-- == 0)
			return i;
	return NO_LANE;
}

void pin_to_one_cpu(void)
{
	cpu_set_t allowed, one;
	if (sched_getaffinity(0, sizeof allowed, &allowed))
		die("cannot read which CPUs may be used");
	int cpu = CPU_SETSIZE - 1;
	while (cpu > 0 && !CPU_ISSET(cpu, &allowed))
		cpu--;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof one, &one))
		die("cannot stay on one CPU");
	lanes->one_cpu = true;
}
