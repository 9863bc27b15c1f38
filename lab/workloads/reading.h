/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The clocks of the calling thread, for services.c. */
#ifndef WORKLOADS_READING_H
#define WORKLOADS_READING_H

#include "truth.h"

#include <stdint.h>

struct reading {
	uint64_t wall, cpu, delay;
};

/* All read together: a thread that loses its CPU in between reads them again. */
static inline struct reading read_clocks(void)
{
	struct reading at;
	int tries = 0;

	do
		at = (struct reading){ now(), cpu_time(), delay_time() };
	while (now() - at.wall > 50 * US && ++tries < 10);
	return at;
}

/* The time since then that the thread neither ran nor was runnable. */
static inline uint64_t blocked_since(struct reading then)
{
	struct reading at = read_clocks();
	uint64_t wall = at.wall - then.wall, other = at.cpu - then.cpu + at.delay - then.delay;

	return wall > other ? wall - other : 0;
}

static inline void compute(uint64_t ns)
{
	for (uint64_t end = cpu_time() + ns; cpu_time() < end;)
		;
}

#endif
