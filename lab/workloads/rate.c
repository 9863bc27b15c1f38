/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cuts a run into slices and finds the quiet ones. See rate.h. */
#include "rate.h"
#include "truth.h"

#include <stdio.h>
#include <stdlib.h>

void rate_begin(struct rate *rate, long trips_per_slice)
{
	rate->trips_per_slice = trips_per_slice;
	rate->trips = rate->slices = 0;
	rate->since = rate->slice_since = now();
}

void rate_slice_ends(struct rate *rate)
{
	uint64_t at = now();
	if (rate->slices < SLICES_MAX)
		rate->slice_ns[rate->slices++] = at - rate->slice_since;
	rate->slice_since = at;
}

static int by_length(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

void rate_print(struct rate *rate, const char *name)
{
	double seconds = (double)(now() - rate->since) / 1e9;
	double per_second = (double)rate->trips / seconds, quiet = per_second;
	if (rate->slices) {
		qsort(rate->slice_ns, (size_t)rate->slices, sizeof rate->slice_ns[0], by_length);
		quiet = (double)rate->trips_per_slice * 1e9 / (double)rate->slice_ns[rate->slices / 10];
	}
	printf("%s: round_trips %ld seconds %.3f per_second %.1f quiet_per_second %.1f\n", name, rate->trips,
	       seconds, per_second, quiet);
}
