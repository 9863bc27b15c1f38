/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Calls of Python functions: frames of an interpreter that a test makes, as bpf/drill_python.bpf.h finds them. Each function has its own code
 * object; a frame's number is its place, so that any may be above any.
 */
#include "thread.h"

enum { NONE = -1, FRAMES = 48, OTHER = D + 1, FUNCTIONS, PLACE = 10, COST = 4 };

static __u8 codes[FUNCTIONS][512];
static struct {
	__u8 before[PYTHON_FRAME];
	struct python_frame is;
} frames[FRAMES];
static struct {
	__u8 before[PYTHON_CURRENT_FRAME];
	void *frame;
} inner;
static struct {
	__u8 before[PYTHON_CFRAME];
	void *inner;
	__u8 between[PYTHON_THREAD - PYTHON_CFRAME - 8];
	__u64 thread;
} interpreter = { .thread = 77 };
static void *running = &interpreter;

static struct python_frame *frame(int number)
{
	return &frames[number].is;
}

static void is_current(int number)
{
	interpreter.inner = &inner;
	inner.frame = number == NONE ? NULL : &frames[number];
}

/* A frame of a function is made by another one, from this place of its caller's code. */
static void make(int number, int function, int caller, __u64 place)
{
	__u8 *code = codes[function];

	code[PYTHON_CODE_ADAPTIVE] = PYTHON_RESUME;
	*frame(number) = (struct python_frame){ .code = (__u64)code, .instruction = (__u64)code + PYTHON_CODE_ADAPTIVE };
	if (caller == NONE)
		return;
	frame(number)->previous = (__u64)&frames[caller];
	frame(caller)->instruction = frame(caller)->code + PYTHON_CODE_ADAPTIVE + place;
}

static void passes_resume(int number)
{
	struct pt_regs registers = { 0 };

	ns += STEP;
	is_current(number);
	drill_enter_python(&registers);
}

static void begins(int number, int function, int caller, __u64 place)
{
	make(number, function, caller, place);
	passes_resume(number);
}

static void ends(int number)
{
	struct pt_regs registers = { 0 };

	ns += STEP;
	is_current(number);
	drill_leave_python(&registers);
}

static void begin_python(void)
{
	for (int i = 0; i < FUNCTIONS; i++) {
		__u64 code = (__u64)codes[i];
		__u32 number = i;

		if (i != OTHER)
			bpf_map_update_elem(&python_functions, &code, &number, BPF_ANY);
	}
	python_thread = (__u64)&running;
	python_cost = python_entries = python_unbalanced = python_shortest = python_full = 0;
	in_phases = in_phase = phases = 0;
	is_child(A, FIRST, A, PLACE);
	is_child(B, A, B, PLACE);
}

static void a_call_belongs_to_the_node_whose_frame_makes_it_at_its_place(void)
{
	begins(0, FIRST, NONE, 0);
	begins(1, A, 0, PLACE);
	begins(2, B, 1, PLACE);
	ends(2);
	ends(1);
	/* From another place. */
	begins(3, A, 0, PLACE + 2);
	ends(3);
	begins(4, A, 0, PLACE);
	ends(4);
	ends(0);
	is(records, 1);
	is(record->latency, 9 * STEP);
	is(node(A)->count, 2);
	is(node(A)->max, 3 * STEP);
	is(node(A)->sum, 4 * STEP);
	is(node(B)->count, 1);
	is(node(B)->max, STEP);
	is(python_unbalanced, 0);
	is(python_entries, 5);
}

static void a_call_by_a_frame_that_is_none_of_the_nodes_own_is_nobodys(void)
{
	begins(0, FIRST, NONE, 0);
	begins(1, OTHER, 0, 40);
	begins(2, A, 1, PLACE);
	ends(2);
	ends(1);
	ends(0);
	is(records, 1);
	is(node(A)->count, 0);
	is(open_calls(), 0);
}

static void a_caller_that_is_entered_from_elsewhere_has_calls_of_its_own(void)
{
	__u32 one = 1, a = A;

	bpf_map_update_elem(&callers, &a, &one, BPF_ANY);
	begins(0, FIRST, NONE, 0);
	begins(1, A, 0, PLACE);
	/* By recursion: its call of B is not that of the node. */
	begins(2, A, 1, 60);
	is(open_calls(), 3);
	begins(3, B, 2, PLACE);
	ends(3);
	ends(2);
	ends(1);
	ends(0);
	is(node(A)->count, 1);
	is(node(B)->count, 0);
	is(records, 1);
}

static void the_cost_of_calls_that_belong_to_no_node_is_taken_off(void)
{
	python_cost = COST;
	begins(0, FIRST, NONE, 0);
	for (int i = 0; i < 3; i++) {
		begins(2, OTHER, 0, 40);
		ends(2);
	}
	begins(1, A, 0, PLACE);
	for (int i = 0; i < 2; i++) {
		begins(2, OTHER, 1, 40);
		ends(2);
	}
	ends(1);
	ends(0);
	/* That of A's own probes is taken off where its time is read. */
	is(node(A)->max, 5 * STEP - 2 * COST);
	is(record->latency, 13 * STEP - 5 * COST);
	/* Those of one call are not the next one's. */
	begins(0, FIRST, NONE, 0);
	ends(0);
	is(record->latency, STEP);
}

static void no_more_is_taken_off_than_the_shortest_call_takes(void)
{
	python_cost = 100 * STEP;
	/* None of these ends alone between two beginnings. */
	begins(0, FIRST, NONE, 0);
	begins(1, OTHER, 0, 40);
	begins(2, OTHER, 1, 40);
	ends(2);
	ends(1);
	begins(1, OTHER, 0, 40);
	ends(0);
	begins(0, FIRST, NONE, 0);
	begins(1, OTHER, 0, 40);
	is(python_shortest, 0);
	ends(1);
	ends(0);
	begins(0, FIRST, NONE, 0);
	begins(1, OTHER, 0, 40);
	ends(1);
	is(python_shortest, 0);
	ns += 3 * STEP;
	begins(1, OTHER, 0, 40);
	is(python_shortest, 5 * STEP);
	ends(1);
	begins(1, OTHER, 0, 40);
	is(python_shortest, 2 * STEP);
	/* Two begin, and then one ends. */
	begins(2, OTHER, 1, 40);
	ends(2);
	ends(1);
	begins(1, OTHER, 0, 40);
	is(python_shortest, 2 * STEP);
	ns += 40 * STEP;
	ends(1);
	/* A longer one. */
	begins(1, OTHER, 0, 40);
	is(python_shortest, 2 * STEP);
	ends(1);
	ends(0);
	is(record->latency, 56 * STEP - 6 * 2 * STEP);
	/* Nothing is left of a call. */
	python_shortest = 0;
	begins(0, FIRST, NONE, 0);
	begins(1, OTHER, 0, 40);
	ends(1);
	ends(0);
	is(record->latency, 0);
}

static void where_no_plan_is_only_the_outermost_call_counts(void)
{
	phase = WP_DRILL_COUNT;
	begins(0, FIRST, NONE, 0);
	begins(1, A, 0, PLACE);
	is(open_calls(), 1);
	begins(2, FIRST, 1, PLACE);
	is(open_calls(), 2);
	ends(2);
	ends(1);
	is(counted(), 0);
	ends(0);
	is(counted(), 1);
	is(records, 0);
}

static void an_end_whose_beginning_was_not_seen_is_counted(void)
{
	begins(0, FIRST, NONE, 0);
	make(5, OTHER, 0, 40);
	ends(5);
	ends(0);
	is(python_unbalanced, 1);
	is(records, 1);
	begins(0, FIRST, NONE, 0);
	begins(5, OTHER, 0, 40);
	ends(5);
	ends(0);
	is(python_unbalanced, 1);
}

static void a_call_with_frames_left_above_it_is_not_measured(void)
{
	begins(0, FIRST, NONE, 0);
	begins(1, A, 0, PLACE);
	ends(0);
	is(records, 0);
	is(counted(), 1);
	is(left, 1);
	is(open_calls(), 0);
	begins(0, FIRST, NONE, 0);
	ends(0);
	is(records, 1);
}

static void other_instructions_and_processes_begin_no_call_and_one_beginning_is_one_call(void)
{
	make(0, FIRST, NONE, 0);
	codes[FIRST][PYTHON_CODE_ADAPTIVE] = 100;
	passes_resume(0);
	is(open_calls(), 0);
	is(python_entries, 0);
	current = &another;
	begins(0, FIRST, NONE, 0);
	is(open_calls(), 0);
	current = &thread;
	codes[FIRST][PYTHON_CODE_ADAPTIVE] = PYTHON_RESUME_QUICK;
	passes_resume(0);
	is(open_calls(), 1);
	/* It may pass two probes. */
	passes_resume(0);
	is(open_calls(), 1);
	current = &another;
	ends(0);
	is(open_calls(), 1);
	current = &thread;
	phase = WP_DRILL_IDLE;
	begins(1, A, 0, PLACE);
	is(open_calls(), 1);
	phase = WP_DRILL_MEASURE;
	/* A function that is no node there and calls none. */
	begins(1, C, 0, 40);
	is(open_calls(), 1);
	ends(1);
	ends(0);
	is(python_unbalanced, 0);
}

static void functions_are_looked_for_by_their_code_alone(void)
{
	struct wp_python_call wanted = { .callee = (__u64)codes[A] };

	phase = WP_DRILL_LOOK;
	begins(0, FIRST, NONE, 0);
	for (int i = 0; i < 3; i++) {
		begins(1, A, 0, PLACE + 2 * i);
		ends(1);
	}
	is(open_calls(), 0);
	is(*bpf_map_lookup_elem(&python_calls, &wanted), 3);
}

static void calls_below_the_first_function_are_kept_with_their_places(void)
{
	struct wp_python_call wanted = { .caller = (__u64)codes[OTHER], .callee = (__u64)codes[C], .place = 40 };

	/* Not below it, nor the first function itself. */
	begins(1, A, NONE, 0);
	is(open_calls(), 0);
	ends(1);
	begins(1, OTHER, NONE, 0);
	begins(2, C, 1, 40);
	ends(2);
	is(bpf_map_lookup_elem(&python_calls, &wanted), 0);
	begins(0, FIRST, 1, 20);
	begins(3, OTHER, 0, 30);
	begins(4, C, 3, 40);
	ends(4);
	begins(4, C, 3, 40);
	is(*bpf_map_lookup_elem(&python_calls, &wanted), 2);
}

static void deeper_calls_than_there_is_room_for_are_not_measured(void)
{
	__u32 one = 1, a = A;

	bpf_map_update_elem(&callers, &a, &one, BPF_ANY);
	begins(0, FIRST, NONE, 0);
	for (int i = 1; i < FRAMES; i++)
		begins(i, A, i - 1, 60);
	is(open_calls(), WP_DRILL_DEEPEST);
	for (int i = FRAMES - 1; i >= 0; i--)
		ends(i);
	is(records, 0);
	is(crowded, 1);
	is(open_calls(), 0);
}

static void samples_are_places_in_pythons_code_of_the_thread_that_has_the_lock(void)
{
	struct bpf_perf_event_data tick = { .regs = { .ip = 5, .cs = 3 } };

	sampled_node = FIRST;
	begins(0, FIRST, NONE, 0);
	frame(0)->instruction = (__u64)codes[FIRST] + 300;
	thread.thread.fsbase = 77;
	drill_sample(&tick);
	is(state()->sampled[0], codes[FIRST] + 300);
	thread.thread.fsbase = 78;
	drill_sample(&tick);
	is(state()->sampled[1], 0);
	thread.thread.fsbase = 0;
	drill_sample(&tick);
	is(state()->sampled[2], 0);
	begins(1, A, 0, PLACE);
	drill_sample(&tick);
	is(state()->samples, 3);
	ends(1);
	drill_sample(&tick);
	is(state()->samples, 4);
}

static void time_that_was_stolen_is_that_of_the_innermost_function(void)
{
	static struct { struct rq queue; __u64 stolen; } cpu = { .stolen = 100 };
	static struct cfs_rq queue = { .rq = &cpu.queue };

	thread.se.cfs_rq = &queue;
	steal_behind_run_queue = (__u64)&cpu.stolen - (__u64)&cpu.queue;
	begins(0, FIRST, NONE, 0);
	cpu.stolen += 2 * STEP;
	begins(1, A, 0, PLACE);
	cpu.stolen += 3 * STEP;
	ends(1);
	cpu.stolen += 4 * STEP;
	ends(0);
	steal_behind_run_queue = 0;
	is(node(FIRST)->stolen, 6 * STEP);
	is(node(A)->stolen, 3 * STEP);
}

/* Phases are the same for functions of all kinds. */
static void only_calls_that_begin_in_a_phase_count(void)
{
	struct pt_regs registers = { 0 };

	in_phases = 1;
	begins(0, FIRST, NONE, 0);
	is(open_calls(), 0);
	ends(0);
	cookie = 1;
	current = &another;
	drill_mark(&registers);
	is(in_phase, 0);
	current = &thread;
	drill_mark(&registers);
	drill_mark(&registers);
	is(phases, 1);
	begins(0, FIRST, NONE, 0);
	cookie = 0;
	drill_mark(&registers);
	is(open_calls(), 1);
	ends(0);
	is(counted(), 1);
	begins(0, FIRST, NONE, 0);
	ends(0);
	is(counted(), 1);
}

int main(void)
{
	void (*const tests[])(void) = {
		a_call_belongs_to_the_node_whose_frame_makes_it_at_its_place,
		a_call_by_a_frame_that_is_none_of_the_nodes_own_is_nobodys,
		a_caller_that_is_entered_from_elsewhere_has_calls_of_its_own,
		the_cost_of_calls_that_belong_to_no_node_is_taken_off,
		no_more_is_taken_off_than_the_shortest_call_takes,
		where_no_plan_is_only_the_outermost_call_counts,
		an_end_whose_beginning_was_not_seen_is_counted,
		a_call_with_frames_left_above_it_is_not_measured,
		other_instructions_and_processes_begin_no_call_and_one_beginning_is_one_call,
		functions_are_looked_for_by_their_code_alone,
		calls_below_the_first_function_are_kept_with_their_places,
		deeper_calls_than_there_is_room_for_are_not_measured,
		samples_are_places_in_pythons_code_of_the_thread_that_has_the_lock,
		time_that_was_stolen_is_that_of_the_innermost_function,
		only_calls_that_begin_in_a_phase_count,
	};

	for (int i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		begin_test();
		begin_python();
		tests[i]();
	}
	return 0;
}
