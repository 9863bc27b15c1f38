/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The request for which a thread works, readable from outside the process: OpenTelemetry's thread-context record (OTEP 4947). C11
 * and C++11, gcc and clang, Linux.
 *
 *   struct wakepath_attached span;
 *   wakepath_attach(&span, trace_id, span_id, trace_flags);
 *   ...
 *   wakepath_detach(&span);
 *
 * Each thread's variable `otel_thread_ctx_v1` points to the innermost span's record, and is null without a span. A reader finds
 * the variable by its name among the dynamic symbols. A shared library has it there; a program has to be linked with
 *
 *   -Wl,--export-dynamic-symbol=otel_thread_ctx_v1
 *
 * Why no reader sees half a record: a reader looks at a thread while it is stopped at any instruction, as in a signal handler. So
 * only the order of instructions matters, and no processor fence: a processor shows its own stores in program order, and a switch
 * to another processor orders them all. A record is written whole before the single store that publishes it, and another single
 * store takes the pointer off it before its memory is used again. The compiler keeps this order, since it moves no access over
 * `wakepath_in_order()`, and does not leave out or split a volatile store.
 *
 * Nothing is allocated and no function is called, unless a library has to look up its thread's variable. Only the thread itself
 * may attach and detach.
 */
#ifndef WAKEPATH_CONTEXT_H
#define WAKEPATH_CONTEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#define WAKEPATH_ASSERT static_assert
#else
#define WAKEPATH_ASSERT _Static_assert
#endif

/* The record, as OTEP 4947 lays it out; attributes may follow it, see `wakepath_add`. */
struct __attribute__((packed, aligned(4))) wakepath_record {
	uint8_t trace_id[16];
	uint8_t span_id[8];
	uint8_t valid;
	uint8_t trace_flags;
	uint16_t attributes_bytes;
};
WAKEPATH_ASSERT(sizeof(struct wakepath_record) == 28, "the record is 28 bytes");
WAKEPATH_ASSERT(offsetof(struct wakepath_record, valid) == 24, "`valid` follows the ids");

/* Weak: each including file defines it, and the linker keeps a single copy. */
extern __thread struct wakepath_record *otel_thread_ctx_v1;
__attribute__((weak, visibility("default"))) __thread struct wakepath_record *otel_thread_ctx_v1;

/* A thread's span, and the record that it replaces. It stays at its address until it is detached. */
struct wakepath_attached {
	struct wakepath_record record;
	struct wakepath_record *outer;
};

/* The compiler moves no memory access over this. It makes no instruction. */
static inline void wakepath_in_order(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__asm__ volatile("" ::: "memory");
}

/* Writes a record that no thread shows. */
static inline void wakepath_fill(struct wakepath_record *record, const uint8_t trace_id[16], const uint8_t span_id[8],
				 uint8_t trace_flags)
{
	memcpy(record->trace_id, trace_id, sizeof record->trace_id);
	memcpy(record->span_id, span_id, sizeof record->span_id);
	record->trace_flags = trace_flags;
	record->attributes_bytes = 0;
	record->valid = 1;
}

/*
 * Adds an attribute to a record that no thread shows, with `room` bytes right behind it. `key` is its place among the process's
 * published names (`wakepath_process.h`). Returns 1; or 0, and adds nothing, without room or with a value above 255 bytes.
 */
static inline int wakepath_add(struct wakepath_record *record, size_t room, uint8_t key, const char *value, size_t bytes)
{
	uint8_t *to = (uint8_t *)(record + 1) + record->attributes_bytes;

	if (bytes > 255 || room > UINT16_MAX || record->attributes_bytes + 2 + bytes > room)
		return 0;
	to[0] = key;
	to[1] = (uint8_t)bytes;
	memcpy(to + 2, value, bytes);
	record->attributes_bytes = (uint16_t)(record->attributes_bytes + 2 + bytes);
	return 1;
}

/*
 * Shows this record, or none if it is null, from here on; returns the record shown before. For programs that turn between
 * requests without nesting, like event loops: they keep a record per request.
 */
static inline struct wakepath_record *wakepath_show(struct wakepath_record *record)
{
	struct wakepath_record *before = otel_thread_ctx_v1;

	/* The record is whole before it is shown, and the earlier record is not touched while it is shown. */
	wakepath_in_order();
	*(struct wakepath_record *volatile *)&otel_thread_ctx_v1 = record;
	wakepath_in_order();
	return before;
}

/* The calling thread works for this span from here on. */
static inline void wakepath_attach(struct wakepath_attached *span, const uint8_t trace_id[16], const uint8_t span_id[8],
				   uint8_t trace_flags)
{
	wakepath_fill(&span->record, trace_id, span_id, trace_flags);
	span->outer = otel_thread_ctx_v1;
	wakepath_show(&span->record);
}

/*
 * The calling thread works for the outer span again, or for none. Returns 1; or 0, and changes nothing, if the thread shows
 * another span, because it attached another span meanwhile or is another thread: then this span has to stay at its address.
 */
static inline int wakepath_detach(struct wakepath_attached *span)
{
	if (otel_thread_ctx_v1 != &span->record)
		return 0;
	wakepath_show(span->outer);
	return 1;
}

#ifdef __cplusplus
}

namespace wakepath {
/* The creating thread works for the span until the end of the block. */
class Attached {
public:
	Attached(const uint8_t trace_id[16], const uint8_t span_id[8], uint8_t trace_flags)
	{
		wakepath_attach(&span, trace_id, span_id, trace_flags);
	}
	~Attached() { wakepath_detach(&span); }
	Attached(const Attached &) = delete;
	Attached &operator=(const Attached &) = delete;

private:
	wakepath_attached span;
};
} // namespace wakepath
#endif

#undef WAKEPATH_ASSERT
#endif
