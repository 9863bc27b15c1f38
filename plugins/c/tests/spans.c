/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Spans that begin, nest and end, with the two spans a reader may see at each instruction. In a program, or in a library.
 */
#include "../wakepath_context.h"

/* The span before and behind the thread's current step, 0 for none; equal between steps. */
struct allowed {
	volatile uint8_t before, after;
};

#ifdef __cplusplus
extern "C" {
#endif
__attribute__((visibility("default"))) void act(struct allowed *allowed);
__attribute__((visibility("default"))) void *where(void);
#ifdef __cplusplus
}
#endif

/* Keeps the optimiser from joining all functions into a single frame, as in a program with many files. */
#define APART __attribute__((noinline))

APART static void use_stack(void)
{
	volatile uint8_t bytes[256];

	for (size_t at = 0; at < sizeof bytes; at++)
		bytes[at] = 0xee;
}

APART static void span(struct allowed *allowed, uint8_t id, uint8_t inner)
{
	uint8_t outer = allowed->before, ids[16];

	memset(ids, id, sizeof ids);
	allowed->after = id;
#ifdef __cplusplus
	{
		wakepath::Attached attached(ids, ids, id);
		allowed->before = id;
		if (inner)
			span(allowed, inner, 0);
		use_stack();
		allowed->after = outer;
	}
#else
	struct wakepath_attached attached;

	wakepath_attach(&attached, ids, ids, id);
	allowed->before = id;
	if (inner)
		span(allowed, inner, 0);
	use_stack();
	allowed->after = outer;
	wakepath_detach(&attached);
#endif
	allowed->before = outer;
}

/* An event loop that turns between two requests. */
APART static void turns(struct allowed *allowed)
{
	static struct wakepath_record records[2];
	uint8_t ids[16];

	for (uint8_t id = 0x71; id <= 0x72; id++) {
		memset(ids, id, sizeof ids);
		wakepath_fill(&records[id - 0x71], ids, ids, id);
	}
	for (uint8_t at = 0; at < 4; at++) {
		allowed->after = (uint8_t)(0x71 + at % 2);
		wakepath_show(&records[at % 2]);
		allowed->before = allowed->after;
	}
	allowed->after = 0;
	wakepath_show(NULL);
	allowed->before = 0;
}

void act(struct allowed *allowed)
{
	for (uint8_t round = 1; round < 3; round++) {
		span(allowed, round, (uint8_t)(round + 0x10));
		use_stack();
	}
	turns(allowed);

	/* Detached in the wrong order, a span changes nothing. */
	struct wakepath_attached outer, inner;
	uint8_t ids[16];

	memset(ids, 0x51, sizeof ids);
	allowed->after = 0x51;
	wakepath_attach(&outer, ids, ids, 0x51);
	allowed->before = 0x51;
	memset(ids, 0x52, sizeof ids);
	allowed->after = 0x52;
	wakepath_attach(&inner, ids, ids, 0x52);
	allowed->before = 0x52;
	if (wakepath_detach(&outer))
		allowed->before = allowed->after = 0xff;
	allowed->after = 0x51;
	if (!wakepath_detach(&inner))
		allowed->before = allowed->after = 0xff;
	allowed->before = 0x51;
	allowed->after = 0;
	wakepath_detach(&outer);
	allowed->before = 0;
}

void *where(void)
{
	return &otel_thread_ctx_v1;
}
