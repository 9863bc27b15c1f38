// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Goroutines: where a Go program's scheduler parks a goroutine, makes it ready, lets a thread run it, and where a span of
 * OpenTelemetry's SDK begins in it.
 *
 * Each probe stands behind the stack size check at the beginning of a function, where the arguments are still in the Go ABI's
 * registers: ax, bx, cx, and r14 for the running `g`. The scheduler's functions run on the thread's own `g`, g0, so the acting
 * goroutine is another: `g0.m.curg`. A value that cannot be read is 0, which is no goroutine.
 */
#include "ring.bpf.h"

/* Field offsets in the runtime's structures, by program number: `GoOffsets` in crates/functions. */
struct go_offsets {
	__u64 goid;
	__u64 m;
	__u64 curg;
	__u64 parent; /* its creator's number; 0: the runtime has no such field */
	__u64 start_pc; /* the function in which it begins; with `parent` */
	__u64 pc; /* where it resumes */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct go_offsets);
} go_programs SEC(".maps");

static __always_inline __u64 read_word(__u64 address)
{
	__u64 word;

	return bpf_probe_read_user(&word, sizeof(word), (void *)address) ? 0 : word;
}

static __always_inline __u64 number_of(const struct go_offsets *offsets, __u64 g)
{
	return g ? read_word(g + offsets->goid) : 0;
}

/*
 * The address of the function in which a goroutine began. It is recorded as the goroutine leaves its thread: as it runs, the
 * record has its parent.
 */
static __always_inline __u64 began_in(const struct go_offsets *offsets, __u64 g)
{
	return offsets->parent && g ? read_word(g + offsets->start_pc) : 0;
}

/* A record for a step of the goroutine with its `g` at this address; the caller submits it. */
static __always_inline struct wp_goroutine *step_of(const struct go_offsets *offsets, __u32 program, __u8 step, __u64 g)
{
	__u64 self = bpf_get_current_pid_tgid();
	struct wp_goroutine *r = life_reserve(sizeof(*r), WP_GOROUTINE, (__u32)self);

	if (!r)
		return NULL;
	r->tgid = self >> 32;
	r->step = step;
	r->reason = 0;
	r->program = program;
	r->goroutine = number_of(offsets, g);
	r->by = 0;
	__builtin_memset(r->trace, 0, sizeof(r->trace));
	__builtin_memset(r->span, 0, sizeof(r->span));
	return r;
}

/*
 * A program for a step of the goroutine with its `g` at this address. Its body fills the rest of the record `r`; it has `ctx`,
 * the registers, and `offsets`, the Go program's offsets.
 */
#define GO_STEP(name, step, g)                                                                                        \
	static __always_inline void name##_body(struct pt_regs *ctx, const struct go_offsets *offsets,                \
						struct wp_goroutine *r);                                              \
	SEC("uprobe")                                                                                                 \
	int name(struct pt_regs *ctx)                                                                                 \
	{                                                                                                             \
		TIME_RARE;                                                                                            \
		__u32 program = (__u32)bpf_get_attach_cookie(ctx);                                                    \
		struct go_offsets *offsets = bpf_map_lookup_elem(&go_programs, &program);                             \
		/* 0: not all probes of the program are there. */                                                     \
		struct wp_goroutine *r = offsets && offsets->goid ? step_of(offsets, program, step, g) : NULL;        \
                                                                                                                      \
		if (!r)                                                                                               \
			return 0;                                                                                     \
		name##_body(ctx, offsets, r);                                                                         \
		bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);                                                              \
		return 0;                                                                                             \
	}                                                                                                             \
	static __always_inline void name##_body(struct pt_regs *ctx, const struct go_offsets *offsets,                \
						struct wp_goroutine *r)

/* gopark(unlockf, lock, reason, ...), in the goroutine. */
GO_STEP(go_park, WP_GO_PARKS, ctx->r14)
{
	r->reason = ctx->cx;
	r->by = began_in(offsets, ctx->r14);
}

/* ready(gp, ...), on g0. */
GO_STEP(go_ready, WP_GO_READY, ctx->ax)
{
	__u64 m = read_word(ctx->r14 + offsets->m);

	r->by = m ? number_of(offsets, read_word(m + offsets->curg)) : 0;
}

/* execute(gp, ...), on g0. */
GO_STEP(go_run, WP_GO_RUNS, ctx->ax)
{
	/* A goroutine that has run before resumes behind its last call. */
	if (offsets->parent && read_word(ctx->ax + offsets->pc) == read_word(ctx->ax + offsets->start_pc))
		r->by = read_word(ctx->ax + offsets->parent);
}

/* goschedImpl(gp, ...), goyield_m(gp), exitsyscall0(gp), exitsyscallNoP(gp), on g0. */
GO_STEP(go_yield, WP_GO_YIELDS, ctx->ax)
{
	r->by = began_in(offsets, ctx->ax);
}

/* goexit0(gp), on g0. */
GO_STEP(go_end, WP_GO_ENDS, ctx->ax)
{
	r->by = began_in(offsets, ctx->ax);
}

/* struct SpanContext: trace id, span id, flags, trace state, whether it is remote. */
#define SPAN_CONTEXT_BYTES 64

/*
 * (*tracer).newRecordingSpan(..., psc, sc SpanContext, ...), in the goroutine. Structures with arrays are passed on the stack,
 * behind the return address: the parent's context, then the span's.
 */
GO_STEP(go_span, WP_GO_SPAN, ctx->r14)
{
	/* If it cannot be read, the ids stay 0, unlike any span's. */
	bpf_probe_read_user(r->trace, sizeof(r->trace) + sizeof(r->span), (void *)(ctx->sp + 8 + SPAN_CONTEXT_BYTES));
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
