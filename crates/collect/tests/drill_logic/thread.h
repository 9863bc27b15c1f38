/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A thread whose calls a test makes one by one. Each step takes 10 ns, so that latencies are counts of steps. A distance is one from the
 * lowest address of the thread's stack: the deeper a call, the smaller.
 */
#include "machine.h"

enum { STEP = 10 };

/* Functions, and the nodes of the same number unless a test says otherwise. */
enum { FIRST, A, B, C, D };

/* Where a call of each returns to. */
#define BEHIND(function) (0xa0000 + (function))

/* A place's last field of its roles: a jump or return without a condition. */
#define ALWAYS .condition = WP_DRILL_ALWAYS

/* Places in the code of the kernel. */
enum { ENTRY_OF_FIRST, EXIT_OF_FIRST, FREE };

static const struct wp_drill_thread *const record = (void *)kept;
static __u32 used;

static __u32 put(struct wp_drill_place place)
{
	__u32 number = used++;

	bpf_map_update_elem(&places, &number, &place, BPF_ANY);
	return number;
}

static void is_child(__u32 node, __u32 parent, __u32 function, __u64 returns_to)
{
	struct wp_drill_edge edge = { parent, function, returns_to };
	struct wp_drill_child child = { node };

	bpf_map_update_elem(&edges, &edge, &child, BPF_ANY);
}

/* The same state at the beginning of each test, with f0 of the kernel, which is measured. */
static void begin_test(void)
{
	for (int i = 0; i < MAX_ENTRIES; i++) {
		free(entries[i].value);
		entries[i] = (struct entry){ 0 };
	}
	memset(kept, 0, sizeof(kept));
	memset(counts, 0, sizeof(counts));
	memset(sums, 0, sizeof(sums));
	current = &thread;
	process = PROCESS;
	of_go = in_kernel = used = records = is_full = 0;
	left = crowded = lost = unseen = trampoline_from = trampoline_to = 0;
	phase = WP_DRILL_MEASURE;
	plan = 1;
	low = 0;
	high = 1 << 20;
	wanted = 1000;
	put((struct wp_drill_place){ .roles = WP_DRILL_ENTERS, .function = FIRST, ALWAYS });
	put((struct wp_drill_place){ .roles = WP_DRILL_RETURNS, ALWAYS });
}

/* The thread comes to a place in the kernel's code, with this content of its registers. */
static void comes(__u32 place, __u64 distance, struct pt_regs registers)
{
	ns += STEP;
	cookie = place;
	registers.sp = (unsigned long)kernel_stack + distance;
	drill_kernel(&registers);
}

static void at(__u32 place, __u64 distance)
{
	comes(place, distance, (struct pt_regs){ 0 });
}

/* A call instruction of a known function, whose stack pointer is at `distance` around the call. */
static __u32 call_of(__u32 function)
{
	return put((struct wp_drill_place){ .roles = WP_DRILL_OPENS, .function = function, .returns_to = BEHIND(function), ALWAYS });
}

static __u32 jump_to(__u32 function)
{
	return put((struct wp_drill_place){ .roles = WP_DRILL_OPENS, .function = function, ALWAYS });
}

static __u32 behind_call(void)
{
	return put((struct wp_drill_place){ .roles = WP_DRILL_CLOSES, ALWAYS });
}

static __u32 entry_of(__u32 function)
{
	return put((struct wp_drill_place){ .roles = WP_DRILL_ENTERS, .function = function, ALWAYS });
}

static struct wp_drill_thread *state(void)
{
	__u64 who = THREAD;

	return bpf_map_lookup_elem(&drilled, &who);
}

static __u32 open_calls(void)
{
	return state() ? state()->depth : 0;
}

static __u64 counted(void)
{
	__u64 sum = 0;

	for (int i = 0; i < 64; i++)
		sum += counts[i];
	return sum;
}

/* The calls of a node in the last record; 0 if it has none of this call of f0. */
static const struct wp_drill_node *node(__u32 number)
{
	static const struct wp_drill_node none;
	const struct wp_drill_node *found = &record->nodes[number];

	return found->call == record->call ? found : &none;
}

#define is(found, expected)                                                                                       \
	do {                                                                                                      \
		long long is_ = (long long)(found), wanted_ = (long long)(expected);                              \
		if (is_ != wanted_) {                                                                             \
			fprintf(stderr, "%s, line %d: %s is %lld, not %lld\n", __func__, __LINE__, #found, is_,  \
				wanted_);                                                                         \
			exit(1);                                                                                  \
		}                                                                                                 \
	} while (0)
