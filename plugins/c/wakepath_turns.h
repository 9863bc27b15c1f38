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
	} ring[WAKEPATH_MAX_TURNS];
};

static inline void wakepath_begin_turns(struct wakepath_turns *turns)
{
	turns->is_lost = 0;
	turns->count = 0;
	turns->dropped_to = 0;
}

/* A turn has ended. `follows`: the thread has worked for no other span since its last turn. */
static inline void wakepath_note_turn(struct wakepath_turns *turns, uint64_t from, uint64_t to, int follows)
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
	turns->count++;
}

/* Writes the turns of a span with this beginning as text. Returns 0 if they are not known. */
static inline int wakepath_write_turns(const struct wakepath_turns *turns, uint64_t begun, char text[WAKEPATH_TURNS_BYTES])
{
	unsigned count = turns->count;
	uint64_t at = turns->dropped_to > begun ? turns->dropped_to : begun;
	size_t room = WAKEPATH_TURNS_BYTES, length;

	if (turns->is_lost)
		return 0;
	length = (size_t)snprintf(text, room, "%llu", (unsigned long long)at);
	for (unsigned number = count > WAKEPATH_MAX_TURNS ? count - WAKEPATH_MAX_TURNS : 0; number < count; number++) {
		uint64_t from = turns->ring[number % WAKEPATH_MAX_TURNS].from, to = turns->ring[number % WAKEPATH_MAX_TURNS].to;

		/* A span may begin behind its first turn's beginning. */
		if (from < at)
			from = at;
		if (to <= from)
			continue;
		length += (size_t)snprintf(text + length, room - length, " %llu %llu", (unsigned long long)(from - at),
					   (unsigned long long)(to - from));
		at = to;
	}
	snprintf(text + length, room - length, ".");
	return 1;
}
#endif
