/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A span's turns: the times in which its first thread worked for it. For programs whose threads turn between open spans, like
 * event loops. C11 and C++11, gcc and clang.
 *
 *   struct wakepath_turns turns;                              one for each span
 *   wakepath_begin_turns(&turns);
 *   wakepath_note_turn(&turns, from, to, follows);            behind each turn
 *   char text[WAKEPATH_TURNS_BYTES];
 *   if (wakepath_write_turns(&turns, begin_of_span, text))    where the span ends
 *           set the attribute `wakepath.turns` to the text
 *
 * Why the turns became ready goes into `wakepath.ready`, if it is known:
 *
 *   wakepath_note_ready_turn(&turns, from, to, follows, &ready);
 *   char words[WAKEPATH_READY_BYTES];
 *   if (wakepath_write_ready(&turns, begin_of_span, words))
 *           set the attribute `wakepath.ready` to the words
 *
 * Times are ns since 1970, by the clock of the span's own beginning and end. Memory is bounded: the last WAKEPATH_MAX_TURNS turns
 * are kept, and the time from which they are whole.
 */
#ifndef WAKEPATH_TURNS_H
#define WAKEPATH_TURNS_H

#include <stdint.h>
#include <stdio.h>

#define WAKEPATH_MAX_TURNS 64
/* Turns no further apart are joined, ns: callbacks of a loop follow each other. */
#define WAKEPATH_MAX_GAP_NS 10000
/* 20 digits and a space for the first time, and for each turn's gap and length; a full stop and a 0. */
#define WAKEPATH_TURNS_BYTES ((2 * WAKEPATH_MAX_TURNS + 1) * 21 + 2)
/* For each turn a letter, a thread in 11 characters, a colon, 20 digits and a space; a full stop and a 0. */
#define WAKEPATH_READY_BYTES (WAKEPATH_MAX_TURNS * 34 + 2)

/* Why a turn became ready. */
struct wakepath_ready {
	/* ns since 1970: a timer was due, a descriptor's callback was called, or the turn was scheduled. */
	uint64_t at;
	/* For `w`: the scheduling thread. */
	int tid;
	/* A word's letter (t, d, s, w, j), or 0: not known. */
	char kind;
};

struct wakepath_turns {
	/* A time ran backwards: nothing is known. */
	int is_lost;
	/* The total number of turns. */
	unsigned count;
	/* The end of the last dropped turn, or 0. */
	uint64_t dropped_to;
	/* The last turns, in a ring. */
	struct {
		uint64_t from, to;
		struct wakepath_ready ready;
	} ring[WAKEPATH_MAX_TURNS];
};

static inline void wakepath_begin_turns(struct wakepath_turns *turns)
{
	turns->is_lost = 0;
	turns->count = 0;
	turns->dropped_to = 0;
}

/*
 * A turn has ended. `follows`: the thread has worked for no other span since its last turn. `ready` may be null: not known. Joined
 * turns keep the first reason.
 */
static inline void wakepath_note_ready_turn(struct wakepath_turns *turns, uint64_t from, uint64_t to, int follows,
					    const struct wakepath_ready *ready)
{
	unsigned last = (turns->count - 1) % WAKEPATH_MAX_TURNS, next = turns->count % WAKEPATH_MAX_TURNS;
	uint64_t before = turns->count ? turns->ring[last].to : 0;

	if (from > to || from < before) {
		turns->is_lost = 1;
		return;
	}
	if (follows && turns->count && from - before <= WAKEPATH_MAX_GAP_NS) {
		turns->ring[last].to = to;
		return;
	}
	if (turns->count >= WAKEPATH_MAX_TURNS)
		turns->dropped_to = turns->ring[next].to;
	turns->ring[next].from = from;
	turns->ring[next].to = to;
	turns->ring[next].ready.kind = 0;
	if (ready)
		turns->ring[next].ready = *ready;
	turns->count++;
}

static inline void wakepath_note_turn(struct wakepath_turns *turns, uint64_t from, uint64_t to, int follows)
{
	wakepath_note_ready_turn(turns, from, to, follows, NULL);
}

/* The time from which the turns of a span with this beginning are whole. */
static inline uint64_t wakepath_turns_since(const struct wakepath_turns *turns, uint64_t begun)
{
	return turns->dropped_to > begun ? turns->dropped_to : begun;
}

/* The number of the first kept turn. */
static inline unsigned wakepath_first_turn(const struct wakepath_turns *turns)
{
	return turns->count > WAKEPATH_MAX_TURNS ? turns->count - WAKEPATH_MAX_TURNS : 0;
}

/* A kept turn behind `at`: a span may begin behind its first turn's beginning. Returns 0 if nothing is left of the turn. */
static inline int wakepath_turn_behind(const struct wakepath_turns *turns, unsigned number, uint64_t at, uint64_t *from,
				       uint64_t *to)
{
	unsigned place = number % WAKEPATH_MAX_TURNS;

	*from = turns->ring[place].from < at ? at : turns->ring[place].from;
	*to = turns->ring[place].to;
	return *to > *from;
}

/* Writes the turns of a span with this beginning as text. Returns 0 if they are not known. */
static inline int wakepath_write_turns(const struct wakepath_turns *turns, uint64_t begun, char text[WAKEPATH_TURNS_BYTES])
{
	uint64_t at = wakepath_turns_since(turns, begun), from, to;
	size_t room = WAKEPATH_TURNS_BYTES, length;

	if (turns->is_lost)
		return 0;
	length = (size_t)snprintf(text, room, "%llu", (unsigned long long)at);
	for (unsigned number = wakepath_first_turn(turns); number < turns->count; number++) {
		if (!wakepath_turn_behind(turns, number, at, &from, &to))
			continue;
		length += (size_t)snprintf(text + length, room - length, " %llu %llu", (unsigned long long)(from - at),
					   (unsigned long long)(to - from));
		at = to;
	}
	snprintf(text + length, room - length, ".");
	return 1;
}

/* Writes a word for each turn in the text. Returns 0 if no word is known. */
static inline int wakepath_write_ready(const struct wakepath_turns *turns, uint64_t begun, char words[WAKEPATH_READY_BYTES])
{
	uint64_t at = wakepath_turns_since(turns, begun), from, to;
	size_t room = WAKEPATH_READY_BYTES, length = 0;
	int is_known = 0;

	if (turns->is_lost)
		return 0;
	for (unsigned number = wakepath_first_turn(turns); number < turns->count; number++) {
		const struct wakepath_ready *ready = &turns->ring[number % WAKEPATH_MAX_TURNS].ready;
		unsigned long long ns;

		if (!wakepath_turn_behind(turns, number, at, &from, &to))
			continue;
		/* A timer may come early. */
		ns = from > ready->at ? from - ready->at : 0;
		if (length)
			words[length++] = ' ';
		if (!ready->kind)
			words[length++] = '-';
		else if (ready->kind == 'w')
			length += (size_t)snprintf(words + length, room - length, "w%d:%llu", ready->tid, ns);
		else
			length += (size_t)snprintf(words + length, room - length, "%c%llu", ready->kind, ns);
		is_known |= ready->kind != 0;
	}
	snprintf(words + length, room - length, ".");
	return is_known;
}
#endif
