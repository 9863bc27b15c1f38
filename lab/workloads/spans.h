/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Spans of a workload: begun and ended by the realtime clock, sent as OTLP (HTTP, JSON) to where
 * OTEL_EXPORTER_OTLP_ENDPOINT says. The thread shows each span as its context while it works for it.
 */
#ifndef WORKLOADS_SPANS_H
#define WORKLOADS_SPANS_H

#include "../../plugins/c/wakepath_context.h"

#include <stdint.h>

enum span_kind { INTERNAL = 1, SERVER = 2, CLIENT = 3 };

struct span {
	uint64_t trace, id, parent, from, to, queued; /* `queued`: when it was queued, or 0; by the realtime clock */
	enum span_kind kind;
	const char *name;
	int tid;
	struct wakepath_attached attached;
};

/* This process's span ids are unlike other processes'. At most `most` spans. */
void spans_of(const char *service, int number, long most);

/* A span begins. No thread works for it yet. */
struct span *span_begins(const char *name, enum span_kind kind, uint64_t trace, uint64_t parent);
void span_ends(struct span *span);

/* The calling thread works for it from here on, until here. The calls nest. */
void span_attach(struct span *span);
void span_detach(struct span *span);

/* The ids as text: 32 digits and a zero. */
void trace_id_as_text(uint64_t trace, char text[33]);

/* Sends all ended spans. Where no address is given it does nothing. */
void spans_send(void);

#endif
