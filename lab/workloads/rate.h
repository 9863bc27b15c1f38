/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A load's speed, for benchmarks: over the whole run, and in its quiet tenth.
 *
 * On a virtual machine a neighbour on the same core slows everything by a third for tens of
 * milliseconds at a time. So the run is cut into slices of a fixed number of round trips (some 25 ms
 * each, longer than a recorder's occasional work), and the figure is the slice that a tenth of them
 * beat: it is as slow as the machine makes it, and no slower.
 */
#ifndef RATE_H
#define RATE_H

#include <stdint.h>

#define SLICES_MAX 4096

struct rate {
	long trips_per_slice, trips, slices;
	uint64_t since, slice_since;
	uint64_t slice_ns[SLICES_MAX];
};

void rate_begin(struct rate *rate, long trips_per_slice);
void rate_slice_ends(struct rate *rate);

/* After each round trip. */
static inline void rate_trip(struct rate *rate)
{
	if (++rate->trips % rate->trips_per_slice == 0)
		rate_slice_ends(rate);
}

/* Prints `NAME: round_trips N seconds S per_second R quiet_per_second Q`. */
void rate_print(struct rate *rate, const char *name);

#endif
