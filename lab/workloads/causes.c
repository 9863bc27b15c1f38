/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A server whose calls of `handle` are slow for six known reasons, each in a known share of the calls.
 *
 *     causes-worker-1   |=|=c=====|=|                                            |=d~d~d~d~|
 *     causes-worker-2                 |=|=m.....|=t-----|=p.......|
 *     causes-holder                    =========^
 *     causes-peer                                           =====^
 *     causes-limited                                               |=lxxxxxxxxx|
 *
 *     `c` computes, `m` wants a mutex, `t` sleeps, `p` asks a peer over TCP, `l` exceeds its CPU limit,
 *     `d` writes and waits for the disk
 *
 * Most calls are fast: some tens of microseconds of CPU. Each slow call meets a single cause. The causes are
 * a factor of four apart, from the fast calls too: two log2 buckets, the second empty, so that each is a
 * peak of its own. Which call meets what is drawn by lot (--seed), how many do is exact.
 *
 * One call is under way at a time, whichever worker has it: calls that compute side by side would wait
 * for each other's CPU, and that would be a seventh cause. With the holder or the peer, who work while the
 * worker waits, a single thread at a time wants a CPU. Two workers share all causes but the CPU limit, so that
 * the thread does not identify the cause; the calls with that cause go to a third worker, which has the limit.
 *
 * Truth: a document of its own kind, with each call in it. `from_ns` and `to_ns` are read first and last
 * in `handle`, not around it: so they lie within the call as probes at its entry and its return see it
 * (they say which call it is), and half the cost of a probe is all that lies between, unless a neighbour
 * comes just there. So what is runnable is read around both: it is at most what else is left of the call as
 * probes see it. `planted_ns` is what the cause took, by the books of whoever it is:
 *
 *     compute   CPU time of the call              peer    the peer's work for it
 *     mutex     the holder's CPU time in it       limit   what the cgroup's cpu.stat gained meanwhile
 *                                                 fsync   the call less its time on a CPU or runnable
 *     timer     as long as it was set for
 *
 * The time for which the holder and the peer were runnable is left out of it: a neighbour causes that.
 *
 * Where each stands: the disk alone decides how long it takes. So a call writes and waits again and again
 * until it has taken long enough, which makes the least it takes known; and it stands last, where nothing
 * is that the most it takes could be mistaken for. A timer's interrupt can be 20 us late without any book
 * that says so: it is set for so long that this is no hundredth of it. The limited call begins where the
 * limit has just been lifted (its worker uses up what is left before it), so that it is kept off for a
 * whole period. On a machine that others use too the calls are what they should be only with --ahead;
 * without it, neighbours make any of them longer, and that is in `runnable_ns`.
 *
 * Assumes 2 CPUs; a disk under $TMPDIR or /var/tmp, and the right to make a cgroup (limit.h): a cause that
 * cannot be planted is left out, and said to be. Its calls are fast ones.
 */
#define _GNU_SOURCE
#include "disk.h"
#include "limit.h"
#include "truth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Neither folded into its callers nor taken to have no effect; it begins by pushing the frame pointer. */
#define PROBED __attribute__((noinline, noclone))
#define KEEP(value) __asm__ volatile("" : "+r"(value) : "r"(__builtin_frame_address(0)))

enum cause { NONE, COMPUTE, MUTEX, TIMER, PEER, LIMIT, FSYNC, CAUSES };

static struct planted {
	const char *name;
	long per_mille; /* of the calls */
	long us;        /* that it takes */
	const char *left_out; /* why, if it is */
} planted[CAUSES] = {
	[NONE] = { "none", 0, 22, NULL },
	[COMPUTE] = { "compute", 25, 370, NULL },
	[MUTEX] = { "mutex", 25, 1700, NULL },
	[TIMER] = { "timer", 20, 6800, NULL },
	[PEER] = { "peer", 15, 24000, NULL },
	[LIMIT] = { "limit", 10, 92000, NULL },
	[FSYNC] = { "fsync", 5, 300000, NULL },
};

static long call_count = 5000, seed = 1, ahead;
static const struct flag flags[] = {
	{ "calls", &call_count, false, "in all" },
	{ "seed", &seed, false, "of the lot that says which call meets what" },
	{ "compute", &planted[COMPUTE].per_mille, false, "calls in a thousand that compute for longer" },
	{ "mutex", &planted[MUTEX].per_mille, false, "in a thousand that want a mutex which causes-holder has" },
	{ "timer", &planted[TIMER].per_mille, false, "in a thousand that sleep" },
	{ "peer", &planted[PEER].per_mille, false, "in a thousand that ask causes-peer over TCP" },
	{ "limit", &planted[LIMIT].per_mille, false, "in a thousand that exceed a CPU limit" },
	{ "fsync", &planted[FSYNC].per_mille, false, "in a thousand that write and wait for the disk" },
	{ "fast-us", &planted[NONE].us, false, "that a call takes which meets nothing" },
	{ "compute-us", &planted[COMPUTE].us, false, "that computing takes" },
	{ "mutex-us", &planted[MUTEX].us, false, "that the holder computes" },
	{ "timer-us", &planted[TIMER].us, false, "of sleep" },
	{ "peer-us", &planted[PEER].us, false, "that the peer computes" },
	{ "limit-us", &planted[LIMIT].us, false, "that the limited call takes, at least 20000" },
	{ "fsync-us", &planted[FSYNC].us, false, "that writing takes at least" },
	{ "ahead", &ahead, true, "before all neighbours, by priority" },
	{ 0 },
};

enum { WORKERS = 2, LIMITED = WORKERS, THREADS };
static const char *const names[THREADS] = { "causes-worker-1", "causes-worker-2", "causes-limited" };

struct call {
	enum cause cause;
	int worker;
	pid_t tid, by; /* the thread for which the call waited; 0 for its own time, and without a thread */
	uint64_t from, to, planted, cpu, runnable;
};
static struct call *calls;

static uint64_t length_of(enum cause cause)
{
	return (uint64_t)planted[cause].us * US;
}

/* --- What a call meets ------------------------------------------------------------------------- */

/*
 * Until the thread has had so much more CPU time. Nearly all of it in its own code; the kernel's clock,
 * at which a limit that is used up is noticed, is read every 20 us.
 */
static PROBED void compute(uint64_t ns)
{
	const uint64_t step = 20 * US;
	uint64_t cpu, end = cpu_time() + ns;
	while ((cpu = cpu_time()) < end) {
		uint64_t until = now() + (end - cpu < step ? end - cpu : step);
		while (now() < until)
			;
	}
}

/* By the wall clock: the call is fast even if it is interrupted. */
static void compute_a_little(void)
{
	uint64_t until = now() + length_of(NONE);
	while (now() < until)
		;
}

static void sleep_for(uint64_t ns)
{
	struct timespec time = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t wanted, taken;
static _Atomic bool entered, over;
static struct {
	pid_t tid;
	uint64_t let_go, computed; /* CPU time, from just before it saw that the call had begun */
} holder; /* under the mutex */

/*
 * Has the mutex before its call begins, and for so long after it has begun. Until then it stays on
 * its CPU: a yielding thread gives up a whole slice each time, and would be behind all neighbours when it matters.
 * Ahead of them it has to: with equal priority, the other thread would never run.
 */
static void *hold(void *unused)
{
	lane_open("causes-holder", 0);
	while (!sem_wait(&wanted) && !atomic_load(&over)) {
		pthread_mutex_lock(&mutex);
		sem_post(&taken);
		uint64_t before, cpu = cpu_time();
		do {
			if (ahead)
				sched_yield();
			before = cpu;
			cpu = cpu_time();
		} while (!atomic_load(&entered));
		compute(length_of(MUTEX));
		holder.computed = cpu_time() - before;
		holder.tid = gettid();
		holder.let_go = now();
		pthread_mutex_unlock(&mutex);
	}
	return unused;
}

static void take_the_mutex(void)
{
	atomic_store(&entered, true);
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

struct message {
	pid_t tid;
	uint64_t took, runnable;
};
static int peer;
static struct message answer;

/* The longest run of this program, s: twice the expected time, even where neighbours take most of the CPUs. */
static long longest_life;

static void answer_requests(int listener)
{
	struct message message;
	lane_open("causes-peer", 0);
	live_for(longest_life);
	uint64_t delay = delay_time();
	int fd = accept(listener, NULL, NULL), on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	while (recv(fd, &message, sizeof message, MSG_WAITALL) == sizeof message) {
		uint64_t from = now(), woken = delay_time();
		compute(length_of(PEER));
		uint64_t done = delay_time();
		message = (struct message){ gettid(), now() - from - (done - woken), done - delay };
		delay = done;
		if (send(fd, &message, sizeof message, 0) != sizeof message)
			break;
	}
	_exit(0);
}

static void ask_the_peer(void)
{
	answer = (struct message){ 0 };
	if (send(peer, &answer, sizeof answer, 0) != sizeof answer ||
	    recv(peer, &answer, sizeof answer, MSG_WAITALL) != sizeof answer)
		die("the peer is gone");
}

/* The least that can be asked for; and the whole period less that is what the call waits. */
#define QUOTA MS

/* The quota, what is over it in the next period, and the period in between. */
static void exceed_the_limit(void)
{
	compute(QUOTA + QUOTA / 2);
}

static uint64_t limit_period(void)
{
	return length_of(LIMIT) - QUOTA / 2;
}

/* Uses up the rest of the quota, so that the limit is lifted when it returns. Returns the throttled time so far. */
static uint64_t spend_the_quota(void)
{
	uint64_t before = limit_throttled(), after;
	do
		compute(50 * US);
	while ((after = limit_throttled()) == before);
	return after;
}

/*
 * At a time, past the page cache and from huge pages: on a fast disk, copying and sending off less at a
 * time or by small pages takes the CPU a third of the call, not a thirtieth.
 */
#define WRITTEN ((size_t)16 << 20)
#define HUGE_PAGE ((size_t)2 << 20)
static int file;
static char *memory;

static void write_to_disk(void)
{
	uint64_t until = now() + length_of(FSYNC);
	do
		if (pwrite(file, memory, WRITTEN, 0) != (ssize_t)WRITTEN || fdatasync(file))
			die("cannot write the scratch file");
	while (now() < until);
}

PROBED void handle(struct call *call)
{
	KEEP(call);
	call->from = now();
	uint64_t cpu = cpu_time();
	switch (call->cause) {
	case COMPUTE:
		compute(length_of(COMPUTE));
		break;
	case TIMER:
		sleep_for(length_of(TIMER));
		break;
	case MUTEX:
		take_the_mutex();
		break;
	case PEER:
		ask_the_peer();
		break;
	case LIMIT:
		exceed_the_limit();
		break;
	case FSYNC:
		write_to_disk();
		break;
	default:
		compute_a_little();
	}
	call->cpu = cpu_time() - cpu;
	call->to = now();
}

/* --- Who makes the calls ----------------------------------------------------------------------- */

static uint64_t less(uint64_t all, uint64_t part)
{
	return all > part ? all - part : 0;
}

static void serve(struct call *call)
{
	uint64_t throttled = 0;
	call->tid = gettid();
	if (call->cause == MUTEX) {
		atomic_store(&entered, false);
		sem_post(&wanted);
		while (sem_wait(&taken))
			;
	}
	if (call->cause == LIMIT)
		throttled = spend_the_quota();
	uint64_t begun = now(), delay = delay_time();
	handle(call);
	call->runnable = delay_time() - delay;
	uint64_t around = now() - begun;
	uint64_t took = call->to - call->from, cpu_besides = call->cpu;
	switch (call->cause) {
	case TIMER:
		call->planted = length_of(TIMER);
		break;
	case MUTEX:
		pthread_mutex_lock(&mutex);
		uint64_t held = less(holder.let_go, call->from);
		call->by = holder.tid;
		call->planted = holder.computed < held ? holder.computed : held;
		/* A thread that preempts at its wake-up had the CPU since the wake-up, by the kernel's count: not by this program's. */
		call->runnable = held - call->planted + less(call->to, holder.let_go);
		pthread_mutex_unlock(&mutex);
		break;
	case PEER:
		call->by = answer.tid;
		call->planted = answer.took;
		call->runnable += answer.runnable;
		break;
	case LIMIT:
		call->planted = less(limit_throttled(), throttled);
		/* It never sleeps; and kernels differ in whether they count the one as the other. */
		call->runnable = around;
		break;
	case FSYNC:
		call->planted = less(took, call->cpu + call->runnable);
		break;
	default:
		call->planted = call->cpu;
		cpu_besides = 0;
		/* It never waits: otherwise another thread or the hypervisor had the CPU. */
		call->runnable = less(took, call->cpu);
	}
	/* The times of two threads may overlap. */
	uint64_t most = less(around, call->planted + cpu_besides);
	call->runnable = call->runnable < most ? call->runnable : most;
}

static sem_t turns[THREADS];
static pid_t tids[THREADS];

static void *work_off(void *argument)
{
	int rank = (int)(intptr_t)argument;
	const char *failed;
	lane_open(names[rank], 0);
	tids[rank] = gettid();
	/* Threads ahead of all neighbours are bound by no limit. */
	if (rank == LIMITED && sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 }))
		die("cannot be bound by a limit");
	if (rank == LIMITED && (failed = limit_enter()))
		die(failed);
	for (long i = 0; i < call_count; i++) {
		if (calls[i].worker != rank)
			continue;
		if (!i || calls[i - 1].worker != rank)
			while (sem_wait(&turns[rank]))
				;
		serve(&calls[i]);
		if (i + 1 < call_count && calls[i + 1].worker != rank)
			sem_post(&turns[calls[i + 1].worker]);
	}
	if (rank == LIMITED && (failed = limit_leave()))
		die(failed);
	return NULL;
}

/* --- Before and after -------------------------------------------------------------------------- */

/* xorshift64* */
static uint64_t random_below(uint64_t limit)
{
	static uint64_t state;
	if (!state)
		state = (uint64_t)(seed + 1) * 0x9e3779b97f4a7c15ull;
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1dull % limit;
}

static void draw_lots(void)
{
	long next = 0;
	calls = calloc((size_t)call_count + 1, sizeof *calls);
	if (!calls)
		die("cannot get memory");
	for (enum cause cause = COMPUTE; cause < CAUSES; cause++)
		for (long n = call_count * planted[cause].per_mille / 1000; n > 0 && next < call_count; n--)
			calls[next++].cause = planted[cause].left_out ? NONE : cause;
	for (long i = call_count - 1; i > 0; i--) {
		long other = (long)random_below((uint64_t)i + 1);
		enum cause cause = calls[i].cause;
		calls[i].cause = calls[other].cause;
		calls[other].cause = cause;
	}
	for (long i = 0; i < call_count; i++)
		calls[i].worker = calls[i].cause == LIMIT ? LIMITED : (int)random_below(WORKERS);
}

static pid_t start_peer(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || peer < 0 || bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		die("cannot listen on the loopback interface");
	pid_t child = fork();
	if (child < 0)
		die("cannot fork");
	if (!child) {
		close(peer);
		answer_requests(listener);
	}
	if (connect(peer, (struct sockaddr *)&address, length))
		die("cannot connect");
	close(listener);
	setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return child;
}

static void prepare_disk(void)
{
	struct statfs on;
	file = scratch_file(0);
	memory = aligned_alloc(HUGE_PAGE, WRITTEN);
	if (!memory)
		die("cannot get memory");
	madvise(memory, WRITTEN, MADV_HUGEPAGE);
	madvise(memory, WRITTEN, MADV_DONTFORK); /* shared with the peer they would be split, to be copied */
	memset(memory, 'w', WRITTEN);
	if (!fstatfs(file, &on) && (on.f_type == TMPFS_MAGIC || on.f_type == RAMFS_MAGIC))
		planted[FSYNC].left_out = "there is no disk under $TMPDIR or /var/tmp";
	/* The file's blocks are found now: later it is data alone that is waited for. */
	else if (pwrite(file, memory, WRITTEN, 0) != (ssize_t)WRITTEN || fsync(file))
		die("cannot write the scratch file");
	int direct = scratch_file_again(file, O_DIRECT);
	if (direct >= 0)
		file = direct;
}

static void prepare_limit(void)
{
	static char why[256];
	const char *failed = limit_make("causes", A_THREAD, QUOTA, limit_period());
	if (!failed && ahead && (failed = limit_comes_first()))
		die(failed);
	if (!failed)
		return;
	snprintf(why, sizeof why, "cannot make a cgroup with a CPU limit: %s: %s", failed, strerror(errno));
	planted[LIMIT].left_out = why;
}

struct sum {
	unsigned long calls;
	uint64_t total, planted, shortest, longest;
};

static void add_up(struct sum sums[CAUSES])
{
	for (long i = 0; i < call_count; i++) {
		struct sum *sum = &sums[calls[i].cause];
		uint64_t took = calls[i].to - calls[i].from;
		if (!sum->calls++ || took < sum->shortest)
			sum->shortest = took;
		if (took > sum->longest)
			sum->longest = took;
		sum->total += took;
		sum->planted += calls[i].planted;
	}
}

#define N(value) ((unsigned long long)(value))

static void write_truth(const struct sum sums[CAUSES], pid_t peer_process)
{
	FILE *out = fopen(truth_file, "we");
	if (!out)
		die(truth_file);
	fprintf(out, "{\n  \"schema\": \"wakepath.truth-of-calls/1\",\n  \"workload\": \"causes\",\n"
		"  \"function\": \"handle\",\n  \"pid\": %d,\n  \"threads\": [", getpid());
	for (int i = 0; i < THREADS; i++)
		if (tids[i])
			fprintf(out, "%s{\"tid\": %d, \"comm\": \"%s\"}", i ? ", " : "", tids[i], names[i]);
	if (holder.tid)
		fprintf(out, ", {\"tid\": %d, \"comm\": \"causes-holder\"}", holder.tid);
	fprintf(out, ", {\"tid\": %d, \"comm\": \"causes-peer\"}],\n  \"left_out\": {", peer_process);
	const char *separator = "";
	for (enum cause cause = COMPUTE; cause < CAUSES; cause++) {
		if (!planted[cause].left_out)
			continue;
		fprintf(out, "%s\"%s\": \"%s\"", separator, planted[cause].name, planted[cause].left_out);
		separator = ", ";
	}
	fprintf(out, "},\n  \"summary\": {");
	for (enum cause cause = NONE; cause < CAUSES; cause++)
		fprintf(out, "%s\n    \"%s\": {\"calls\": %lu, \"total_ns\": %llu, \"planted_ns\": %llu, "
			"\"shortest_ns\": %llu, \"longest_ns\": %llu}", cause ? "," : "", planted[cause].name,
			sums[cause].calls, N(sums[cause].total), N(sums[cause].planted), N(sums[cause].shortest),
			N(sums[cause].longest));
	fprintf(out, "\n  },\n  \"calls\": [");
	for (long i = 0; i < call_count; i++) {
		const struct call *call = &calls[i];
		fprintf(out, "%s\n    {\"tid\": %d, \"from_ns\": %llu, \"to_ns\": %llu, \"cause\": \"%s\", "
			"\"planted_ns\": %llu, \"by_tid\": %d, \"cpu_ns\": %llu, \"runnable_ns\": %llu}", i ? "," : "",
			call->tid, N(call->from), N(call->to), planted[call->cause].name, N(call->planted),
			call->by ? call->by : call->tid, N(call->cpu), N(call->runnable));
	}
	fprintf(out, "\n  ]\n}\n");
	if (fclose(out))
		die(truth_file);
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS], holding;
	static struct sum sums[CAUSES];
	window_open("causes");
	flags_read(argc, argv, flags, "a server that is slow for six reasons");
	errno = EINVAL;
	if (planted[LIMIT].us < 20000)
		die("--limit-us");
	if (ahead && sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 }))
		die("cannot come before all neighbours");
	prepare_disk();
	prepare_limit();
	draw_lots();
	uint64_t all = 0;
	for (long i = 0; i < call_count; i++)
		all += (calls[i].cause == LIMIT ? 2 : 1) * length_of(calls[i].cause);
	longest_life = 60 + 4 * (long)(all / (1000 * MS));
	live_for(longest_life);
	pid_t child = start_peer();
	sem_init(&wanted, 0, 0);
	sem_init(&taken, 0, 0);
	for (int i = 0; i < THREADS; i++)
		sem_init(&turns[i], 0, 0);
	if (pthread_create(&holding, NULL, hold, NULL))
		die("cannot start a thread");
	for (int i = 0; i < THREADS; i++)
		if ((i != LIMITED || !planted[LIMIT].left_out) &&
		    pthread_create(&threads[i], NULL, work_off, (void *)(intptr_t)i))
			die("cannot start a thread");
	if (call_count)
		sem_post(&turns[calls[0].worker]);
	for (int i = 0; i < THREADS; i++)
		if (i != LIMITED || !planted[LIMIT].left_out)
			pthread_join(threads[i], NULL);
	atomic_store(&over, true);
	sem_post(&wanted);
	pthread_join(holding, NULL);
	close(peer);
	waitpid(child, NULL, 0);
	if (!planted[LIMIT].left_out)
		limit_remove();
	add_up(sums);
	for (enum cause cause = NONE; cause < CAUSES; cause++)
		printf("%s %lu\n", planted[cause].name, sums[cause].calls);
	if (truth_file)
		write_truth(sums, child);
	return 0;
}
