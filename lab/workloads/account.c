/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Adds up the window of lane 0 and writes it down. See truth.h. */
#define _GNU_SOURCE
#include "lane.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_SUMS 4096
#define MAX_NOTES 16
#define MAX_EITHERS 64

struct sum {
	lane_t lane;
	const char *kind;
	const char *call;
	int64_t ns;
};

static struct sum sums[MAX_SUMS];
static int sum_count;
static struct entry notes[MAX_NOTES];
static int note_count;
static const char *musts[MAX_NOTES], *nevers[MAX_NOTES];
static int must_count, never_count;

/* Where the account has two readings. */
static struct {
	uint64_t from, to;
} eithers[MAX_EITHERS];
static int either_count;
/* The reading in which they timed out is being added up. */
static bool as_timed_out;

static void add(lane_t lane, const char *kind, const char *call, int64_t ns)
{
	if (!ns)
		return;
	for (int i = 0; i < sum_count; i++) {
		struct sum *s = &sums[i];
		if (s->lane == lane && !strcmp(s->kind, kind) && !strcmp(s->call, call)) {
			s->ns += ns;
			return;
		}
	}
	if (sum_count == MAX_SUMS) {
		errno = ENOSPC;
		die("too many contributors");
	}
	sums[sum_count++] = (struct sum){ lane, kind, call, ns };
}

static void explain(lane_t lane, uint64_t from, uint64_t to);

/* Instead of a lane: a packet on its way. */
#define IN_FLIGHT (-2)

unsigned lane_namespaces[2];
/* The account covers two hosts, without the wire between them. */
static bool of_hosts;

/* Lanes with time being explained: each explains a wait of the lane before. */
static bool asked[MAX_LANES];

/* The part of [from, to) within [a, b) is the lane's `kind`. */
static void add_within(lane_t lane, const char *kind, const char *call, uint64_t a, uint64_t b, uint64_t from,
		       uint64_t to)
{
	if (a < from)
		a = from;
	if (b > to)
		b = to;
	if (a < b)
		add(lane, kind, call, (int64_t)(b - a));
}

/* The part [from, to) of a wait for a packet. */
static void explain_link(const struct stretch *s, uint64_t from, uint64_t to)
{
	if (!of_hosts && s->by != NO_LANE) { /* the wire */
		if (asked[s->by])
			add(s->by, "running", "", (int64_t)(to - from));
		else
			explain(s->by, from, to);
		return;
	}
	uint64_t sent = s->sent < to ? s->sent : to;
	if (s->sent_by != NO_LANE && sent > from && !asked[s->sent_by]) {
		explain(s->sent_by, from, sent);
		from = sent;
	}
	add(IN_FLIGHT, "network", "", (int64_t)(to - from));
}

static void explain_stretch(lane_t lane, const struct stretch *s, uint64_t from, uint64_t to)
{
	uint64_t length = s->to - s->from;
	bool timed_out = as_timed_out && lane == 0 && s->may_time_out;
	uint64_t delayed = timed_out ? s->delayed_by_timer : s->delayed;
	if (delayed > length)
		delayed = length;
	uint64_t runs_until = s->to - delayed;
	if (s->what == WAIT && s->cpu < length - delayed)
		runs_until = s->from + s->cpu;
	uint64_t blocked_until = s->to - delayed;
	uint64_t delayed_until = s->to;
	if (s->runs_last) {
		uint64_t cpu = runs_until - s->from;
		runs_until -= cpu;
		blocked_until -= cpu;
		delayed_until -= cpu;
	}

	add_within(lane, "running", "", s->from, runs_until, from, to);
	add_within(lane, "runnable", "", blocked_until, delayed_until, from, to);
	add_within(lane, "running", "", delayed_until, s->to, from, to);
	uint64_t a = runs_until > from ? runs_until : from, b = blocked_until < to ? blocked_until : to;
	if (a >= b)
		return;
	if (s->end == BY_TIMER || timed_out)
		add(lane, "timer", s->call, (int64_t)(b - a));
	else if (s->end == BY_DISK)
		add(lane, "block_device", s->call, (int64_t)(b - a));
	else if (s->end == BY_PEER)
		add(lane, "network", s->call, (int64_t)(b - a));
	else if (s->end == BY_LINK)
		explain_link(s, a, b);
	else if (s->end == BY_LANE && s->by != NO_LANE && !asked[s->by])
		explain(s->by, a, b);
	else /* it never slept, or two seem to wait for each other: the clocks' errors, below a microsecond */
		add(lane, "running", "", (int64_t)(b - a));
}

/* The lane's work from..to: G15 Algorithm 5 on the lanes. The depth is the workload's own chain's. */
static void explain(lane_t lane, uint64_t from, uint64_t to)
{
	const struct lane *l = &lanes->lane[lane];
	if (from < l->born) {
		uint64_t until = to < l->born ? to : l->born;
		if (l->parent != NO_LANE && !asked[l->parent])
			explain(l->parent, from, until);
		else
			add(lane, "running", "", (int64_t)(until - from));
		from = until;
	}
	if (from >= to)
		return;
	asked[lane] = true;
	add_within(lane, "runnable", "", l->born, l->born + l->born_delay, from, to);
	add_within(lane, "running", "", l->born + l->born_delay, l->opened, from, to);
	for (int c = l->first; c >= 0; c = lanes->chunk[c].next) {
		const struct chunk *chunk = &lanes->chunk[c];
		int used = c == l->last ? l->used : CHUNK;
		if (chunk->stretches[used - 1].to <= from)
			continue;
		if (chunk->stretches[0].from >= to)
			break;
		for (int i = 0; i < used; i++) {
			const struct stretch *s = &chunk->stretches[i];
			if (s->to > from && s->from < to)
				explain_stretch(lane, s, from, to);
		}
	}
	/* After its last word it runs towards its end. */
	add_within(lane, "runnable", "", l->at, l->at + l->end_delay, from, to);
	add_within(lane, "running", "", l->at + l->end_delay, UINT64_MAX, from, to);
	asked[lane] = false;
}

void account_either(uint64_t from, uint64_t to)
{
	if (either_count < MAX_EITHERS) {
		eithers[either_count].from = from;
		eithers[either_count++].to = to;
	} else {
		order_unknown(0, to - from);
	}
}

void must(const char *assertion)
{
	if (must_count < MAX_NOTES)
		musts[must_count++] = assertion;
}

void never(const char *assertion)
{
	if (never_count < MAX_NOTES)
		nevers[never_count++] = assertion;
}

void account_moves(lane_t lane, const char *from, const char *to, uint64_t ns)
{
	struct entry *e = &notes[note_count++ % MAX_NOTES];
	*e = (struct entry){ .lane = lane, .ns = ns };
	snprintf(e->from, sizeof e->from, "%s", from);
	snprintf(e->to, sizeof e->to, "%s", to);
}

static void write_strings(FILE *out, const char *name, const char **strings, int count)
{
	fprintf(out, "  \"%s\": [", name);
	for (int i = 0; i < count; i++)
		fprintf(out, "%s\n    \"%s\"", i ? "," : "", strings[i]);
	fprintf(out, "%s],\n", count ? "\n  " : "");
}

/* A lane's host on a link: 0 near, 1 far, 2 neither. */
static int host_of(lane_t lane)
{
	int far = atomic_load(&lanes->far);
	if (lane == atomic_load(&lanes->wire))
		return 2;
	return far != NO_LANE && lanes->lane[lane].pid == lanes->lane[far].pid;
}

static void write_hosts(FILE *out)
{
	static const char *const names[2] = { "near", "far" };
	fprintf(out, "  \"hosts\": [");
	for (int host = 0; host < 2; host++) {
		fprintf(out, "%s\n    {\"name\": \"%s\", \"netns\": %u, \"pids\": [", host ? "," : "", names[host],
			lane_namespaces[host]);
		int count = atomic_load(&lanes->count);
		for (int i = 0, said = 0; i < count; i++)
			if (host_of(i) == host)
				fprintf(out, "%s%d", said++ ? ", " : "", lanes->lane[i].pid);
		fprintf(out, "]}");
	}
	int wire = atomic_load(&lanes->wire);
	fprintf(out, "\n  ],\n  \"wire\": [");
	if (wire != NO_LANE)
		fprintf(out, "%d", lanes->lane[wire].pid);
	fprintf(out, "],\n");
}

static void write_thread(FILE *out, const struct lane *l)
{
	fprintf(out, "\"pid\": %d, \"tid\": %d, \"comm\": \"%s\"", l->pid, l->tid, l->comm);
}

/* Each wait of lane 0 for a peer, so that what the peer did can be laid beside it. */
static void write_waits(FILE *out)
{
	const struct lane *first = &lanes->lane[0];
	const char *separator = "";
	fprintf(out, "  \"waits\": [");
	for (int c = first->first; c >= 0; c = lanes->chunk[c].next) {
		int used = c == first->last ? first->used : CHUNK;
		for (int i = 0; i < used; i++) {
			const struct stretch *s = &lanes->chunk[c].stretches[i];
			if (s->what != WAIT || s->end != BY_PEER)
				continue;
			fprintf(out, "%s\n    {\"call\": \"%s\", \"from_ns\": %llu, \"to_ns\": %llu, "
				"\"cpu_ns\": %llu, \"delayed_ns\": %llu}", separator, s->call,
				(unsigned long long)s->from, (unsigned long long)s->to,
				(unsigned long long)s->cpu, (unsigned long long)s->delayed);
			separator = ",";
		}
	}
	fprintf(out, "%s],\n", separator[0] ? "\n  " : "");
}

/* The shortest time worth a correction. */
#define MIN_COUNTED 1000000

/* The time of waits that is runnable by the kernel's count alone, which may have sleep in it. */
static void write_counted(FILE *out)
{
	int count = atomic_load(&lanes->count);
	const char *separator = "";
	fprintf(out, "  \"counted\": [");
	for (int i = 0; i < count; i++) {
		const struct lane *l = &lanes->lane[i];
		for (int c = l->first; c >= 0; c = lanes->chunk[c].next) {
			int used = c == l->last ? l->used : CHUNK;
			for (int j = 0; j < used; j++) {
				const struct stretch *s = &lanes->chunk[c].stretches[j];
				if (s->what != WAIT || s->is_bounded || s->delayed < MIN_COUNTED)
					continue;
				uint64_t delayed = s->delayed < s->to - s->from ? s->delayed : s->to - s->from;
				fprintf(out, "%s\n    {\"tid\": %d, \"from_ns\": %llu, \"to_ns\": %llu}", separator,
					l->tid, (unsigned long long)(s->to - delayed), (unsigned long long)s->to);
				separator = ",";
			}
		}
	}
	fprintf(out, "%s],\n", separator[0] ? "\n  " : "");
}

/*
 * All CPUs' stolen time so far, in the kernel's steps of 10 ms. No thread's clock contains it: during work it counts as
 * running, like everywhere else, but during a wait without own stamps, for a disk, as the wait.
 */
static uint64_t stolen(void)
{
	unsigned long long ticks = 0;
	FILE *stat = fopen("/proc/stat", "re");
	if (!stat || fscanf(stat, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1)
		ticks = 0;
	if (stat)
		fclose(stat);
	return ticks * (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK));
}

static uint64_t stolen_before;

uint64_t (*sent_by_timers)(void);

void account_begins(void)
{
	stolen_before = stolen();
}

static void write_sums(FILE *out, const char *indent)
{
	static const struct lane in_flight;
	for (int i = 0; i < sum_count; i++) {
		fprintf(out, "%s\n%s  {", i ? "," : "", indent);
		write_thread(out, sums[i].lane == IN_FLIGHT ? &in_flight : &lanes->lane[sums[i].lane]);
		fprintf(out, ", \"kind\": \"%s\", \"what\": null, \"call\": ", sums[i].kind);
		fprintf(out, sums[i].call[0] ? "\"%s\"" : "null%s", sums[i].call);
		if (sums[i].ns == INT64_MAX)
			fprintf(out, ", \"total_ns\": null}");
		else
			fprintf(out, ", \"total_ns\": %lld}", (long long)sums[i].ns);
	}
	fprintf(out, "\n%s]", indent);
}

/* Each wait that may have ended in two ways, added up in both; the contributors have the first reading. */
static void write_eithers(FILE *out)
{
	fprintf(out, "  \"either\": [");
	for (int i = 0; i < either_count; i++) {
		uint64_t from = eithers[i].from, to = eithers[i].to;
		fprintf(out, "%s\n    {\"from_ns\": %llu, \"to_ns\": %llu", i ? "," : "", (unsigned long long)from,
			(unsigned long long)to);
		for (int reading = 0; reading < 2; reading++) {
			sum_count = 0;
			as_timed_out = reading;
			explain(0, from, to);
			as_timed_out = false;
			fprintf(out, ", \"%s\": [", reading ? "timed_out" : "ended");
			write_sums(out, "    ");
		}
		fprintf(out, "}");
	}
	fprintf(out, "\n  ]");
}

/* `closed` is 0 for an open window. */
static void write_truth(const char *file, uint64_t from, uint64_t closed)
{
	const struct lane *first = &lanes->lane[0];
	FILE *out = fopen(file, "w");
	if (!out)
		die(file);
	fprintf(out, "{\n  \"schema\": \"wakepath.truth/1\",\n  \"workload\": \"%s\",\n  \"window\": {", workload_name);
	write_thread(out, first);
	fprintf(out, ", \"from_ns\": %llu, \"to_ns\": ", (unsigned long long)from);
	if (closed)
		fprintf(out, "%llu},\n", (unsigned long long)closed);
	else
		fprintf(out, "null},\n");
	/* So that the books can be audited: lane 0's CPU time by its own clock alone, and what any lane missed. */
	uint64_t unawares = 0, unordered = 0;
	for (int i = 0; i < atomic_load(&lanes->count); i++) {
		unawares += lanes->lane[i].unawares;
		unordered += lanes->lane[i].unordered;
	}
	fprintf(out, "  \"clocks\": {\"running_ns\": %llu, \"before_ns\": %llu, \"unawares_ns\": %llu, \"unordered_ns\": %llu, "
		"\"sent_by_timers\": %llu, \"stolen_ns\": %llu},\n",
		(unsigned long long)(first->at_cpu - first->cpu_at_open), (unsigned long long)first->cpu_at_open,
		(unsigned long long)unawares,
		(unsigned long long)unordered, (unsigned long long)(sent_by_timers ? sent_by_timers() : 0),
		(unsigned long long)(stolen() - stolen_before));
	if (of_hosts)
		write_hosts(out);
	write_strings(out, "must", musts, must_count);
	write_strings(out, "never", nevers, never_count);
	write_waits(out);
	write_counted(out);
	fprintf(out, "  \"threads\": [");
	int count = atomic_load(&lanes->count);
	for (int i = 0, said = 0; i < count; i++) {
		if (of_hosts && host_of(i) == 2)
			continue;
		fprintf(out, "%s\n    {", said++ ? "," : "");
		write_thread(out, &lanes->lane[i]);
		fprintf(out, "}");
	}
	fprintf(out, "\n  ],\n  \"contributors\": [");
	write_sums(out, "  ");
	fprintf(out, ",\n");
	write_eithers(out);
	fprintf(out, "\n}\n");
	if (fclose(out))
		die(file);
}

static void account(const char *file, uint64_t from, uint64_t to)
{
	sum_count = 0;
	explain(0, from, to);
	for (int i = 0; i < note_count && i < MAX_NOTES; i++) {
		add(notes[i].lane, notes[i].from, "", -(int64_t)notes[i].ns);
		add(notes[i].lane, notes[i].to, "", (int64_t)notes[i].ns);
	}
	write_truth(file, from, to);
}

void window_close(void)
{
	boundary(0, WORK, BY_LANE, NO_LANE);
	uint64_t from = lanes->lane[0].born, to = lanes->lane[0].at;
	if (truth_file)
		account(truth_file, from, to);
	of_hosts = true;
	if (truth_of_hosts_file)
		account(truth_of_hosts_file, from, to);
}

/*
 * Another process writes: writing takes a while, 60 ms in an emulated guest, and the wait has begun by then. It does not
 * end with the program.
 */
void window_stays_open(const char *call)
{
	if (!truth_file)
		return;
	pid_t writer = fork();
	if (writer < 0)
		die("cannot fork");
	if (writer)
		return;
	struct lane *first = &lanes->lane[0];
	while (!*(volatile char *)first->waiting_in)
		usleep(1000);
	/* The stamp of its beginning is there before its name. */
	explain(0, first->born, first->at);
	add(0, "still_waiting", call, INT64_MAX);
	write_truth(truth_file, first->born, 0);
	_exit(0);
}
