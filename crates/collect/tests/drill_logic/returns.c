/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Returns that nobody saw, and f0 within f0. */
#include "thread.h"

static void a_return_that_nobody_saw_is_seen_by_the_next_call_above(void)
{
	__u32 call_a = call_of(A), call_b = call_of(B), call_c = call_of(C), behind = behind_call();

	is_child(A, FIRST, A, BEHIND(A));
	is_child(B, A, B, BEHIND(B));
	is_child(C, A, C, BEHIND(C));
	at(ENTRY_OF_FIRST, 1000);
	at(call_a, 900);
	at(call_b, 800);
	/* At the same place: the first one is over. */
	at(call_c, 800);
	is(open_calls(), 3);
	at(behind, 800);
	at(call_b, 700);
	/* Above it, but below its caller. */
	at(call_c, 800);
	is(open_calls(), 3);
	at(behind, 800);
	at(call_b, 800);
	/* The return of its caller. */
	at(behind, 900);
	is(open_calls(), 1);
	at(EXIT_OF_FIRST, 1000);
	is(node(A)->count, 1);
	is(node(B)->count, 0);
	is(node(C)->count, 2);
	is(record->left, 3);
}

static void a_jump_is_made_by_the_call_at_its_place(void)
{
	__u32 call = call_of(A), call_b = call_of(B), jump = jump_to(C), behind = behind_call();

	is_child(A, FIRST, A, BEHIND(A));
	is_child(B, A, B, BEHIND(B));
	is_child(C, A, C, 0);
	at(ENTRY_OF_FIRST, 1000);
	at(call, 900);
	/* Its return was not seen; the jump is at the place of A. */
	at(call_b, 800);
	at(jump, 892);
	is(open_calls(), 3);
	at(behind, 900);
	at(EXIT_OF_FIRST, 1000);
	is(node(A)->count, 1);
	is(node(C)->count, 1);
	is(record->left, 1);
}

static void a_return_above_all_open_calls_ends_none(void)
{
	__u32 call = call_of(A), behind = behind_call();

	is_child(A, FIRST, A, BEHIND(A));
	at(ENTRY_OF_FIRST, 1000);
	at(call, 900);
	/* A call that began before its probe did, deeper. */
	at(behind, 500);
	is(open_calls(), 2);
	at(EXIT_OF_FIRST, 500);
	is(open_calls(), 2);
	at(behind, 900);
	at(EXIT_OF_FIRST, 1000);
	is(node(A)->count, 1);
	is(record->left, 0);
}

static void f0_within_f0_is_part_of_the_outer_call(void)
{
	for (int measured = 0; measured < 2; measured++) {
		phase = measured ? WP_DRILL_MEASURE : WP_DRILL_COUNT;
		counts[log2_of(5 * STEP)] = 0;
		at(ENTRY_OF_FIRST, 1000);
		at(ENTRY_OF_FIRST, 500);
		is(open_calls(), 2);
		at(ENTRY_OF_FIRST, 300);
		at(EXIT_OF_FIRST, 300);
		at(EXIT_OF_FIRST, 500);
		is(open_calls(), 1);
		is(counted(), 0);
		at(EXIT_OF_FIRST, 1000);
		is(counted(), 1);
		is(counts[log2_of(5 * STEP)], 1);
		is(records, measured);
	}
	is(node(FIRST)->count, 1);
	is(record->latency, 5 * STEP);
}

static void f0_at_the_place_of_its_last_call_has_returned_unseen(void)
{
	__u32 call = call_of(A);

	is_child(A, FIRST, A, BEHIND(A));
	at(ENTRY_OF_FIRST, 1000);
	at(ENTRY_OF_FIRST, 1000);
	is(left, 1);
	at(EXIT_OF_FIRST, 1000);
	is(record->latency, STEP);
	/* A call of it was open too. */
	at(ENTRY_OF_FIRST, 1000);
	at(call, 900);
	at(ENTRY_OF_FIRST, 1000);
	is(open_calls(), 1);
	is(left, 2);
	at(EXIT_OF_FIRST, 1000);
	is(record->latency, STEP);
	/* From a place above. */
	at(ENTRY_OF_FIRST, 1000);
	at(call, 900);
	at(ENTRY_OF_FIRST, 1100);
	is(left, 3);
	at(EXIT_OF_FIRST, 1100);
	is(record->latency, STEP);
	is(records, 3);
	is(counted(), 3);
	/* Another return ends it. */
	at(ENTRY_OF_FIRST, 1000);
	at(EXIT_OF_FIRST, 1200);
	is(left, 4);
	is(open_calls(), 0);
	is(counted(), 3);
	/* A call above it as well. */
	at(ENTRY_OF_FIRST, 1000);
	at(call, 1200);
	is(left, 5);
	is(open_calls(), 0);
}

static void f0_may_be_reached_by_a_jump_of_a_node(void)
{
	__u32 call = call_of(A), behind = behind_call(), to_b = jump_to(B), entry_b = entry_of(B);

	is_child(A, FIRST, A, BEHIND(A));
	at(ENTRY_OF_FIRST, 1000);
	at(call, 900);
	at(ENTRY_OF_FIRST, 892);
	is(left, 0);
	at(EXIT_OF_FIRST, 892);
	/* The probe behind the call finds that it is over. */
	at(behind, 900);
	at(EXIT_OF_FIRST, 1000);
	is(node(A)->count, 1);
	is(record->left, 0);
	is(counted(), 1);
	/* From f0 by two jumps to f0. */
	is_child(B, FIRST, B, 0);
	at(ENTRY_OF_FIRST, 1000);
	at(to_b, 1000);
	at(ENTRY_OF_FIRST, 1000);
	at(EXIT_OF_FIRST, 1000);
	is(left, 0);
	is(record->latency, 3 * STEP);
	is(node(B)->sum, 2 * STEP);
	/* To another function whose jump has no probe. */
	at(ENTRY_OF_FIRST, 1000);
	at(entry_b, 1000);
	is(open_calls(), 1);
	at(EXIT_OF_FIRST, 1000);
	is(left, 0);
	is(record->latency, 2 * STEP);
	/* No other function begins a call of f0. */
	at(entry_b, 1000);
	is(open_calls(), 0);
}

static void a_return_probe_sees_the_return_of_f0(void)
{
	struct pt_regs returned = { .sp = (unsigned long)kernel_stack + 1008 };
	__u32 call = call_of(A);

	is_child(A, FIRST, A, BEHIND(A));
	at(ENTRY_OF_FIRST, 1000);
	ns += STEP;
	drill_kernel_return(&returned);
	is(open_calls(), 0);
	is(records, 1);
	is(record->latency, STEP);
	/* No call is open. */
	drill_kernel_return(&returned);
	is(records, 1);
	/* That of another call, deeper. */
	at(ENTRY_OF_FIRST, 1000);
	returned.sp = (unsigned long)kernel_stack + 508;
	drill_kernel_return(&returned);
	is(open_calls(), 1);
}

int main(void)
{
	void (*const tests[])(void) = {
		a_return_that_nobody_saw_is_seen_by_the_next_call_above,
		a_jump_is_made_by_the_call_at_its_place,
		a_return_above_all_open_calls_ends_none,
		f0_within_f0_is_part_of_the_outer_call,
		f0_at_the_place_of_its_last_call_has_returned_unseen,
		f0_may_be_reached_by_a_jump_of_a_node,
		a_return_probe_sees_the_return_of_f0,
	};

	for (int i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		begin_test();
		tests[i]();
	}
	return 0;
}
