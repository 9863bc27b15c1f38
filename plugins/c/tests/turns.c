/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The text of a span's turns and the words for why they became ready, at each limit. Prints `right`, or what is wrong. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../wakepath_turns.h"

static struct wakepath_turns turns;
static char text[WAKEPATH_TURNS_BYTES], words[WAKEPATH_READY_BYTES];

static void note(uint64_t from, uint64_t to, int follows, char kind, int tid, uint64_t at)
{
	struct wakepath_ready ready = {at, tid, kind};

	wakepath_note_ready_turn(&turns, from, to, follows, &ready);
}

/* The written text and words; NULL: not written. */
static void check(uint64_t begun, const char *expected, const char *expected_words)
{
	int is_known = wakepath_write_turns(&turns, begun, text), has_words = wakepath_write_ready(&turns, begun, words);

	if (is_known != !!expected || (expected && strcmp(text, expected))) {
		printf("text %s, not %s\n", is_known ? text : "-", expected ? expected : "-");
		exit(1);
	}
	if (has_words != !!expected_words || (expected_words && strcmp(words, expected_words))) {
		printf("words %s, not %s\n", has_words ? words : "-", expected_words ? expected_words : "-");
		exit(1);
	}
	wakepath_begin_turns(&turns);
}

int main(void)
{
	wakepath_begin_turns(&turns);
	check(100, "100.", NULL);
	/* A word for each kind; a time ahead of the turn counts 0. */
	note(200000, 200001, 1, 't', 0, 150000);
	note(300000, 300001, 1, 'd', 0, 300000);
	note(400000, 400001, 1, 's', 0, 400001);
	note(500000, 500001, 1, 'w', 42, 499999);
	note(600000, 600001, 1, 'j', 0, 599000);
	note(700000, 700001, 1, 0, 7, 7);
	check(100000, "100000 100000 1 99999 1 99999 1 99999 1 99999 1 99999 1.", "t50000 d0 s0 w42:1 j1000 -.");
	/* No known word, by either function. */
	wakepath_note_turn(&turns, 200, 300, 0);
	note(400, 500, 0, 0, 0, 0);
	check(100, "100 100 100 100 100.", NULL);
	/* A turn behind a known one does not have its word: the ring's places are used again. */
	note(200, 300, 0, 't', 0, 100);
	wakepath_begin_turns(&turns);
	wakepath_note_turn(&turns, 200, 300, 0);
	note(400, 500, 0, 't', 0, 390);
	check(100, "100 100 100 100 100.", "- t10.");
	/* Joined at 10,000 ns, with the first one's word; not at 10,001, and not behind another span. */
	note(1000, 2000, 0, 't', 0, 900);
	note(12000, 13000, 1, 's', 0, 11000);
	check(1000, "1000 0 12000.", "t100.");
	note(1000, 2000, 0, 't', 0, 900);
	note(12001, 13000, 1, 's', 0, 11001);
	check(1000, "1000 0 1000 10001 999.", "t100 s1000.");
	note(1000, 2000, 0, 't', 0, 900);
	note(2000, 3000, 0, 's', 0, 1900);
	check(1000, "1000 0 1000 0 1000.", "t100 s100.");
	/* A span begins within its first turn, and behind a whole turn, which has no word either. */
	note(1000, 2000, 0, 't', 0, 900);
	check(1500, "1500 0 500.", "t600.");
	note(1000, 2000, 0, 't', 0, 900);
	note(3000, 4000, 0, 'd', 0, 2900);
	check(2000, "2000 1000 1000.", "d100.");
	/* 64 turns are kept, and the 65th drops the first. */
	for (unsigned number = 0; number < WAKEPATH_MAX_TURNS; number++)
		note(100 * number + 50, 100 * number + 90, 0, number ? 's' : 't', 0, 100 * number);
	wakepath_write_ready(&turns, 0, words);
	if (strncmp(words, "t50 s50 ", 8))
		return puts(words);
	note(100 * WAKEPATH_MAX_TURNS + 50, 100 * WAKEPATH_MAX_TURNS + 90, 0, 'd', 0, 100 * WAKEPATH_MAX_TURNS);
	wakepath_write_ready(&turns, 0, words);
	wakepath_write_turns(&turns, 0, text);
	if (strncmp(text, "90 60 40 60 40 ", 15))
		return puts(text);
	if (strncmp(words, "s50 s50 ", 8) || strcmp(words + strlen(words) - 9, " s50 d50."))
		return puts(words);
	wakepath_begin_turns(&turns);
	/* The longest words. */
	for (uint64_t number = 0; number < WAKEPATH_MAX_TURNS; number++)
		note(UINT64_MAX - 200 + 2 * number, UINT64_MAX - 199 + 2 * number, 0, 'w', INT_MIN, 0);
	wakepath_write_ready(&turns, 0, words);
	if (strlen(words) != WAKEPATH_READY_BYTES - 2 || words[WAKEPATH_READY_BYTES - 3] != '.')
		return puts(words);
	wakepath_begin_turns(&turns);
	/* Time ran backwards. */
	note(1000, 2000, 0, 't', 0, 900);
	note(1999, 3000, 0, 't', 0, 900);
	check(0, NULL, NULL);
	note(1000, 999, 0, 't', 0, 900);
	check(0, NULL, NULL);
	return puts("right") < 0;
}
