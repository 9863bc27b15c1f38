/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "request_books.h"
#include "spans.h"
#include "truth.h"

#include <stdio.h>

const char *const plants[PLANTS] = { "lock",  "lock-disk", "lock-remote", "chain", "ledger",
				     "queue", "disk",	 "limit",	"remote" };

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * A thread may be woken to take a lock, find it taken, and sleep again: it was without a CPU more than once, and not all of that just before it got
 * the lock. It kept nobody waiting while another request had the lock.
 */
static void clip_turn(const struct books *books, struct turn *turn)
{
	for (long i = 0; i < books->count; i++)
		for (int t = 0; t < 2; t++) {
			const struct turn *had = &books->book[i].turns[t];
			if (had->is_taken && had->keeper == turn->keeper && had->had_to <= turn->got && turn->had_from < had->had_to)
				turn->had_from = turn->wait_to = had->had_to;
		}
}

static void clip_turns(struct books *books)
{
	for (long i = 0; i < books->count; i++)
		for (int t = 0; t < 2; t++) {
			struct turn *turn = &books->book[i].turns[t];
			if (turn->is_taken && turn->keeper <= LEDGERS)
				clip_turn(books, turn);
		}
}

/* The time from then to then in which no request had a keeper. */
static uint64_t free_ns(const struct books *books, int keeper, uint64_t from, uint64_t to)
{
	uint64_t ns = to - from;

	for (long i = 0; i < books->count; i++)
		for (int t = 0; t < 2; t++) {
			const struct turn *had = &books->book[i].turns[t];
			uint64_t at = later(from, had->had_from), until = sooner(to, had->had_to);
			if (had->is_taken && had->keeper == keeper && at < until)
				ns -= sooner(ns, until - at);
		}
	return ns;
}

static bool writes(const struct book *book)
{
	return book->plant == DISK || book->plant == LOCK_DISK;
}

/*
 * The time in which a request, or one that it waited for, waited for the disk together with another request. Files may share a block with their
 * inodes, or a journal: where two threads wait for its write, one of them has sent it, and the other waits for that one's. It is disk time of
 * the one or of the other.
 */
static uint64_t disk_ns(const struct books *books, const struct book *book, const struct book *by)
{
	uint64_t most_from = later(by->own_from, book->from), most_to = sooner(by->own_to, book->to), ns = 0;

	for (long i = 0; i < books->count; i++) {
		const struct book *writer = &books->book[i];
		uint64_t from = later(later(writer->own_from, by->own_from), book->from);
		uint64_t to = sooner(sooner(writer->own_to, by->own_to), book->to);
		if (writes(writer) && writer != by && from < to)
			ns += to - from;
	}
	return most_from < most_to ? sooner(ns, most_to - most_from) : 0;
}

static void write_id(FILE *f, const char *before, const struct book *book)
{
	char trace[33];

	trace_id_as_text(book->trace, trace);
	fprintf(f, "%s\"%s\"", before, trace);
}

static void write_part(FILE *f, const struct book *by, const struct book *through, uint64_t from, uint64_t to)
{
	write_id(f, ",{\"kind\":\"blocked\",\"by\":", by);
	if (through)
		write_id(f, ",\"through\":", through);
	fprintf(f, ",\"ns\":%llu}", (unsigned long long)(to - from));
}

/* The requests that had the keeper of a turn while it was waited for, from then to then. One that waited itself was held back by others. */
static void write_blockers(FILE *f, const struct books *books, const struct book *book, const struct turn *turn, uint64_t from, uint64_t to,
			   const struct book *through)
{
	for (long i = 0; i < books->count; i++) {
		const struct book *by = &books->book[i];
		for (int t = 0; t < 2 && by != book; t++) {
			const struct turn *had = &by->turns[t], *inner = &by->turns[1];
			uint64_t at = later(from, had->had_from), until = sooner(to, had->had_to);
			if (!had->is_taken || had->keeper != turn->keeper || at >= until)
				continue;
			bool waits = t == 0 && inner->is_taken && inner->keeper == LEDGERS;
			uint64_t wait_from = waits ? later(at, inner->wait_from) : until;
			uint64_t wait_to = waits ? sooner(until, inner->wait_to) : until;
			if (wait_from >= wait_to) {
				write_part(f, by, through, at, until);
				continue;
			}
			if (at < wait_from)
				write_part(f, by, through, at, wait_from);
			write_blockers(f, books, by, inner, wait_from, wait_to, by);
			if (wait_to < until)
				write_part(f, by, through, wait_to, until);
		}
	}
}

static void write_other(FILE *f, const char *kind, const struct book *by, uint64_t ns)
{
	if (!ns)
		return;
	fprintf(f, ",{\"kind\":\"%s\"", kind);
	write_id(f, ",\"by\":", by);
	fprintf(f, ",\"ns\":%llu}", (unsigned long long)ns);
}

/*
 * The time for which the reader had the pool's mutex to put a request into its queue, while a worker may have waited for it to
 * take another request out: some microseconds, unless the reader lost its CPU there.
 */
static uint64_t pool_ns(const struct book *book, const struct book *by)
{
	uint64_t from = later(book->asked, by->pool_from), to = sooner(book->turns[1].had_from, by->pool_to);

	return book->plant == QUEUE && by->plant == QUEUE && from < to ? to - from : 0;
}

/*
 * Time in which the program does not know for whom a request waited, only that it can have been for some: while the lock was
 * free, it was promised to another waiting request.
 */
static void write_possible(FILE *f, const struct books *books, const struct book *book)
{
	for (long i = 0; i < books->count; i++) {
		const struct book *by = &books->book[i];
		uint64_t ns = 0;
		if (by == book)
			continue;
		for (int t = 0; t < 2; t++)
			for (int u = 0; u < 2; u++) {
				const struct turn *mine = &book->turns[t], *its = &by->turns[u];
				uint64_t from = later(mine->wait_from, its->wait_from), to = sooner(mine->wait_to, its->wait_to);
				if (mine->is_taken && its->is_taken && mine->keeper == its->keeper && mine->keeper <= LEDGERS && from < to)
					ns += free_ns(books, mine->keeper, from, to);
			}
		write_other(f, "possible", by, ns + pool_ns(book, by));
		/* Its own disk time, or the disk time of requests for which it waited. */
		if (writes(by))
			write_other(f, "shared", by, disk_ns(books, book, by));
	}
}

/* The part of its own planted time for which the front waited. */
static uint64_t own_ns(const struct book *book)
{
	uint64_t from = later(book->own_from, later(book->asked, book->called)), to = book->own_from + book->ns;

	/* fsync and a limit begin when the front waits for them. */
	if (writes(book) || book->plant == LIMIT)
		return book->ns;
	return from < to ? to - from : 0;
}

void books_write(struct books *books, const pid_t services[3])
{
	FILE *f = fopen(truth_file, "we");

	if (!f)
		die(truth_file);
	clip_turns(books);
	fprintf(f, "{\"schema\":\"wakepath.requests-truth/1\",\"pids\":[%d,%d,%d],\"requests\":[", services[0], services[1],
		services[2]);
	for (long i = 0; i < books->count; i++) {
		const struct book *book = &books->book[i];
		const char *kind = book->plant == DISK || book->plant == LOCK_DISK ? "block_device" :
				   book->plant == LIMIT				   ? "throttled" :
										     "timer";
		write_id(f, i ? ",\n{\"trace_id\":" : "\n{\"trace_id\":", book);
		fprintf(f, ",\"planted\":\"%s\",\"window_ns\":%llu,\"parts\":[{\"kind\":\"%s\",\"ns\":%llu}", plants[book->plant],
			(unsigned long long)(book->to - book->from), kind, (unsigned long long)own_ns(book));
		for (int t = 0; t < 2; t++) {
			const struct turn *turn = &book->turns[t];
			if (turn->is_taken)
				write_blockers(f, books, book, turn, later(turn->wait_from, book->asked), turn->wait_to, NULL);
		}
		write_possible(f, books, book);
		fprintf(f, "],\"stamps\":{\"from\":%llu,\"asked\":%llu", (unsigned long long)book->from,
			(unsigned long long)book->asked);
		for (int t = 0; t < 2; t++) {
			const struct turn *turn = &book->turns[t];
			fprintf(f, ",\"wait_from%d\":%llu,\"wait_to%d\":%llu,\"had_from%d\":%llu,\"had_to%d\":%llu", t,
				(unsigned long long)turn->wait_from, t, (unsigned long long)turn->wait_to, t,
				(unsigned long long)turn->had_from, t, (unsigned long long)turn->had_to);
		}
		fputs("}}", f);
	}
	fputs("]}\n", f);
	if (fclose(f))
		die("cannot write the truth");
}
