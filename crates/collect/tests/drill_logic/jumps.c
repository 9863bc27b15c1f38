/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Functions of the program that may leave by a jump: their calls end behind the call instruction. */
#include "thread.h"

enum { CALL_BYTES = 5 };

static struct pt_regs registers_at(__u64 distance, __u64 ip)
{
	ns += STEP;
	return (struct pt_regs){ .sp = (unsigned long)user_stack + distance, .ip = ip };
}

/* A function begins, with this return address on its stack; f0 at 9000, deeper ones below. */
static void enters(__u32 function, __u64 distance, __u64 returns_to, __u64 kind)
{
	struct pt_regs registers = registers_at(distance, 0);

	memcpy(user_stack + distance, &returns_to, sizeof(returns_to));
	cookie = function | kind;
	drill_enter(&registers);
}

/* Seen behind its calls, or at its return instructions. */
static void jumper(__u32 function, __u64 distance, __u64 returns_to)
{
	enters(function, distance, returns_to, WP_DRILL_BEHIND);
}

static void plain(__u32 function, __u64 distance, __u64 returns_to)
{
	enters(function, distance, returns_to, 0);
}

static void returns(__u32 function, __u64 distance)
{
	struct pt_regs registers = registers_at(distance, 0);

	cookie = function;
	drill_leave(&registers);
}

static void returns_to(__u64 behind, __u64 distance)
{
	struct pt_regs registers = registers_at(distance + 8, behind);

	cookie = WP_DRILL_CALL_PLACE;
	drill_returned(&registers);
}

/* The call instruction before a place; the called function's entry would be at this distance. */
static void call_before(__u64 behind, __u64 distance)
{
	struct pt_regs registers = registers_at(distance + 8, behind - CALL_BYTES);

	cookie = 0;
	drill_called(&registers);
}

static struct wp_call_place *place(__u64 address)
{
	return bpf_map_lookup_elem(&call_places, &address);
}

static void probe_place(__u64 behind)
{
	struct wp_call_place none = { 0 };
	__u64 call = behind - CALL_BYTES;

	bpf_map_update_elem(&call_places, &behind, &none, BPF_ANY);
	bpf_map_update_elem(&call_places, &call, &none, BPF_ANY);
}

static void is_caller(__u32 function)
{
	__u32 one = 1;

	bpf_map_update_elem(&callers, &function, &one, BPF_ANY);
}

/* f0 of the program calls A, which may leave by a jump. */
static void begin_call(void)
{
	begin_test();
	memset(user_stack, 0, sizeof(user_stack));
	is_child(A, FIRST, A, BEHIND(A));
	is_caller(FIRST);
	probe_place(BEHIND(A));
	plain(FIRST, 9000, BEHIND(FIRST));
}

static void a_call_ends_behind_its_place(void)
{
	jumper(A, 8000, BEHIND(A));
	ns += 5 * STEP;
	returns_to(BEHIND(A), 8000);
	is(open_calls(), 1);
	jumper(A, 8000, BEHIND(A));
	returns_to(BEHIND(A), 8000);
	/* Returns of other calls, from the same depth and below it. */
	call_before(BEHIND(A), 8000);
	returns_to(BEHIND(A), 8000);
	returns_to(BEHIND(A), 7000);
	returns(FIRST, 9000);
	is(node(A)->count, 2);
	is(node(A)->sum, 7 * STEP);
	is(node(A)->max, 6 * STEP);
	is(record->left, 0);
	is(place(BEHIND(A))->hits, 4);
	is(place(BEHIND(A))->strays, 2);
	/* Outside f0's calls. */
	returns_to(BEHIND(A), 8000);
	is(place(BEHIND(A))->strays, 3);
	/* In an unmeasured call, since enough were measured: nothing shows whose return this is. */
	wanted = 0;
	plain(FIRST, 9000, BEHIND(FIRST));
	call_before(BEHIND(A), 8000);
	jumper(A, 8000, BEHIND(A));
	returns_to(BEHIND(A), 8000);
	is(open_calls(), 1);
	is(place(BEHIND(A))->strays, 3);
	is(place(BEHIND(A))->hits, 6);
}

static void a_chain_of_jumps_returns_at_one_place(void)
{
	is_child(B, A, B, 0);
	is_child(C, B, C, 0);
	is_child(D, FIRST, D, BEHIND(D));
	jumper(A, 8000, BEHIND(A));
	jumper(B, 8000, BEHIND(A));
	jumper(C, 8000, BEHIND(A));
	is(open_calls(), 4);
	is(state()->innermost, C);
	returns_to(BEHIND(A), 8000);
	is(open_calls(), 1);
	/* The innermost node is f0's again, not a returned call's. */
	is(state()->innermost, FIRST);
	is(place(BEHIND(A))->strays, 0);
	plain(D, 8000, BEHIND(D));
	returns(D, 8000);
	returns(FIRST, 9000);
	is(node(A)->sum, 3 * STEP);
	is(node(B)->sum, 2 * STEP);
	is(node(C)->sum, STEP);
	is(node(C)->count, 1);
	is(node(D)->count, 1);
	is(record->left, 0);
}

static void a_function_behind_a_jump_returns_itself_before(void)
{
	is_child(B, A, B, 0);
	jumper(A, 8000, BEHIND(A));
	plain(B, 8000, BEHIND(A));
	returns(B, 8000);
	is(open_calls(), 2);
	returns_to(BEHIND(A), 8000);
	returns(FIRST, 9000);
	is(node(A)->sum, 3 * STEP);
	is(node(B)->sum, STEP);
	is(record->left, 0);
}

static void a_function_without_a_frame_behind_a_jump_ends_no_other(void)
{
	jumper(A, 8000, BEHIND(A));
	/* A function with probes for another caller's sake. */
	plain(D, 8000, BEHIND(A));
	returns(D, 8000);
	is(open_calls(), 2);
	returns_to(BEHIND(A), 8000);
	returns(FIRST, 9000);
	is(node(A)->count, 1);
	is(node(A)->sum, 3 * STEP);
}

/* The return probe of the function that jumped has replaced the return address. */
static void a_call_ends_with_the_function_that_jumped_to_it(void)
{
	trampoline_from = 0x7000;
	trampoline_to = 0x8000;
	is_child(B, FIRST, B, BEHIND(B));
	is_child(C, B, C, 0);
	is_child(D, C, D, 0);
	plain(B, 8000, BEHIND(B));
	jumper(C, 8000, 0x7000);
	jumper(D, 8000, 0x7000);
	is(open_calls(), 4);
	returns(B, 8000);
	is(open_calls(), 1);
	returns(FIRST, 9000);
	is(node(B)->sum, 3 * STEP);
	is(node(C)->sum, 2 * STEP);
	is(node(D)->sum, STEP);
	is(record->left, 0);
}

static void f0_takes_its_jumps_with_it(void)
{
	is_child(B, FIRST, B, 0);
	jumper(B, 9000, BEHIND(FIRST));
	returns(FIRST, 9000);
	is(node(B)->count, 1);
	is(node(B)->sum, STEP);
	is(record->left, 0);
	is(records, 1);
}

static void f0_and_what_it_went_to_return_behind_the_call_of_f0(void)
{
	struct wp_caller caller = { BEHIND(FIRST), PROCESS, F0 };
	struct wp_caller_state probed = { 1 };

	probe_place(BEHIND(FIRST));
	returns(FIRST, 9000);
	is_child(B, FIRST, B, 0);
	/* Its place is new: it is learned. */
	jumper(F0, 9000, BEHIND(FIRST));
	is(unseen, 1);
	is(open_calls(), 0);
	bpf_map_update_elem(&callers_seen, &caller, &probed, BPF_ANY);
	jumper(F0, 9000, BEHIND(FIRST));
	jumper(B, 9000, BEHIND(FIRST));
	is(open_calls(), 2);
	/* A place behind another call, at the same place on the stack, and two probes at the right place. */
	{
		struct pt_regs registers = registers_at(9008, BEHIND(FIRST));

		cookie = F0;
		drill_returned(&registers);
		is(open_calls(), 0);
		cookie = WP_DRILL_CALL_PLACE;
		drill_returned(&registers);
	}
	is(records, 2);
	is(node(B)->count, 1);
	is(node(B)->sum, STEP);
	is(node(FIRST)->sum, 2 * STEP);
	is(record->left, 0);
	is(((struct wp_caller_state *)bpf_map_lookup_elem(&callers_seen, &caller))->strays, 0);
	/* The next hit ends none. */
	{
		struct pt_regs registers = registers_at(9008, BEHIND(FIRST));

		cookie = F0;
		drill_returned(&registers);
	}
	is(((struct wp_caller_state *)bpf_map_lookup_elem(&callers_seen, &caller))->strays, 1);
	is(place(BEHIND(FIRST))->strays, 0);
	/* At the same place again, without a probe at the call: the first call was unwound. */
	jumper(F0, 9000, BEHIND(FIRST));
	is(left, 0);
	jumper(F0, 9000, BEHIND(FIRST));
	is(left, 1);
	is(open_calls(), 1);
}

static void a_place_above_f0_ends_its_call_unseen(void)
{
	returns(FIRST, 9100);
	is(left, 1);
	plain(FIRST, 9000, BEHIND(FIRST));
	returns_to(BEHIND(A), 9100);
	is(left, 2);
	is(open_calls(), 0);
	plain(FIRST, 9000, BEHIND(FIRST));
	/* The stack of f0 is empty up to its return address. */
	call_before(BEHIND(A), 8992);
	is(left, 2);
	call_before(BEHIND(A), 9000);
	is(left, 3);
	is(records, 0);
}

static void a_deeper_call_from_the_same_code_does_not_return_there(void)
{
	is_child(C, A, A, BEHIND(A));
	jumper(A, 8000, BEHIND(A));
	jumper(A, 7000, BEHIND(A));
	is(open_calls(), 3);
	returns_to(BEHIND(A), 8000);
	returns(FIRST, 9000);
	is(node(A)->count, 1);
	is(node(C)->count, 0);
	is(record->left, 1);
}

/* Return probes alone: the second call of A has no frame, and its return comes first. */
static void a_plain_function_behind_a_jump_keeps_its_call(void)
{
	trampoline_from = 0x7000;
	trampoline_to = 0x8000;
	is_child(B, A, B, 0);
	plain(A, 8000, BEHIND(A));
	plain(B, 8000, 0x7000);
	plain(A, 8000, 0x7000);
	returns(A, 8000);
	is(open_calls(), 3);
	returns(B, 8000);
	returns(A, 8000);
	returns(FIRST, 9000);
	is(node(A)->count, 1);
	is(node(B)->count, 1);
	is(record->left, 0);
}

/* The return probe of a function that it jumped to has replaced its return address. */
static void a_call_whose_return_address_is_replaced_goes_on(void)
{
	__u64 replaced = 0x7000;

	trampoline_from = 0x7000;
	trampoline_to = 0x8000;
	is_child(D, A, D, BEHIND(D));
	jumper(A, 8000, BEHIND(A));
	memcpy(user_stack + 8000, &replaced, sizeof(replaced));
	plain(D, 7900, BEHIND(D));
	is(open_calls(), 3);
	returns(D, 7900);
	returns_to(BEHIND(A), 8000);
	returns(FIRST, 9000);
	is(node(A)->count, 1);
	is(node(D)->count, 1);
}

static void a_call_that_an_exception_ended_is_not_the_next_one(void)
{
	jumper(A, 8000, BEHIND(A));
	/* Caught by f0, which calls it again. */
	call_before(BEHIND(A), 8000);
	is(open_calls(), 1);
	jumper(A, 8000, BEHIND(A));
	is(open_calls(), 2);
	returns_to(BEHIND(A), 8000);
	returns(FIRST, 9000);
	is(node(A)->count, 1);
	is(node(A)->sum, STEP);
	is(record->left, 1);
	is(place(BEHIND(A) - CALL_BYTES)->hits, 1);
}

static void a_jump_past_the_place_ends_the_call_unseen(void)
{
	is_child(D, FIRST, D, BEHIND(D));
	jumper(A, 8000, BEHIND(A));
	/* To another place of f0, which calls another function, at the same place on the stack: another return address. */
	plain(D, 8000, BEHIND(D));
	is(open_calls(), 2);
	returns(D, 8000);
	jumper(A, 8000, BEHIND(A));
	/* Out of f0. */
	returns(FIRST, 9000);
	is(node(A)->count, 0);
	is(node(D)->count, 1);
	is(record->left, 2);
	/* The next call of f0 begins anew. */
	plain(FIRST, 9000, BEHIND(FIRST));
	jumper(A, 8000, BEHIND(A));
	returns_to(BEHIND(A), 8000);
	returns(FIRST, 9000);
	is(node(A)->count, 1);
}

static void a_return_at_another_place_of_the_same_depth_ends_none(void)
{
	probe_place(BEHIND(B));
	jumper(A, 8000, BEHIND(A));
	/* An exception ended it; another function returns at its own place. */
	returns_to(BEHIND(B), 8000);
	is(open_calls(), 1);
	is(place(BEHIND(B))->strays, 1);
	returns(FIRST, 9000);
	is(node(A)->count, 0);
	is(record->left, 1);
}

static void a_function_may_come_back_to_itself_by_jumps(void)
{
	is_caller(A);
	call_before(BEHIND(A), 8000);
	jumper(A, 8000, BEHIND(A));
	/* By way of functions without probes: more often than calls have room. */
	for (int i = 0; i < 3 * WP_DRILL_DEEPEST; i++)
		jumper(A, 8000, BEHIND(A));
	is(open_calls(), 3);
	returns_to(BEHIND(A), 8000);
	is(open_calls(), 1);
	returns(FIRST, 9000);
	is(records, 1);
	is(node(A)->count, 1);
	is(node(A)->sum, (3 * WP_DRILL_DEEPEST + 1) * STEP);
	is(record->left, 0);
}

/* Within its own call, from elsewhere: what it calls belongs to no node. */
static void recursion_by_calls_has_no_node(void)
{
	is_caller(A);
	is_child(B, A, B, BEHIND(B));
	jumper(A, 8000, BEHIND(A));
	plain(B, 7000, BEHIND(B));
	jumper(A, 6000, BEHIND(C));
	is(open_calls(), 4);
	plain(B, 5000, BEHIND(B));
	is(open_calls(), 4);
	returns(B, 5000);
	/* Its return has no probe. */
	returns(B, 7000);
	returns_to(BEHIND(A), 8000);
	returns(FIRST, 9000);
	is(node(A)->count, 1);
	is(node(B)->count, 1);
	is(record->left, 0);
}

/* A frame whose return had no probe lies above the arguments of a later call. */
static void a_call_with_many_arguments_belongs_to_its_caller(void)
{
	__u64 argument = 7;

	trampoline_from = 0x7000;
	trampoline_to = 0x8000;
	is_caller(A);
	is_child(D, FIRST, D, BEHIND(D));
	/* A function without probes calls it. */
	jumper(A, 7900, BEHIND(C));
	is(open_calls(), 2);
	memcpy(user_stack + 7900, &argument, sizeof(argument));
	plain(D, 7800, BEHIND(D));
	is(open_calls(), 2);
	returns(D, 7800);
	returns(FIRST, 9000);
	is(node(D)->count, 1);
	is(record->left, 0);
}

static void a_place_lets_calls_on_another_stack_be(void)
{
	jumper(A, 800, BEHIND(A));
	/* A signal's stack is far away. */
	{
		struct pt_regs registers = registers_at(800, BEHIND(A));

		registers.sp += 9 << 20;
		cookie = WP_DRILL_CALL_PLACE;
		drill_returned(&registers);
		registers.ip -= CALL_BYTES;
		drill_called(&registers);
	}
	is(open_calls(), 2);
	returns_to(BEHIND(A), 800);
	returns(FIRST, 9000);
	is(node(A)->count, 1);
}

static void another_process_ends_none(void)
{
	jumper(A, 8000, BEHIND(A));
	current = &another;
	returns_to(BEHIND(A), 8000);
	call_before(BEHIND(A), 8000);
	current = &thread;
	is(open_calls(), 2);
	is(place(BEHIND(A))->hits, 0);
}

int main(void)
{
	void (*const tests[])(void) = {
		a_call_ends_behind_its_place,
		a_chain_of_jumps_returns_at_one_place,
		a_function_behind_a_jump_returns_itself_before,
		a_function_without_a_frame_behind_a_jump_ends_no_other,
		a_call_ends_with_the_function_that_jumped_to_it,
		f0_takes_its_jumps_with_it,
		f0_and_what_it_went_to_return_behind_the_call_of_f0,
		a_place_above_f0_ends_its_call_unseen,
		a_deeper_call_from_the_same_code_does_not_return_there,
		a_plain_function_behind_a_jump_keeps_its_call,
		a_call_whose_return_address_is_replaced_goes_on,
		a_call_that_an_exception_ended_is_not_the_next_one,
		a_jump_past_the_place_ends_the_call_unseen,
		a_return_at_another_place_of_the_same_depth_ends_none,
		a_function_may_come_back_to_itself_by_jumps,
		recursion_by_calls_has_no_node,
		a_call_with_many_arguments_belongs_to_its_caller,
		a_place_lets_calls_on_another_stack_be,
		another_process_ends_none,
	};

	for (int i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		begin_call();
		tests[i]();
	}
	return 0;
}
