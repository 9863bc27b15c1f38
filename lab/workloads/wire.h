/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The wire between two TUN devices. */
#ifndef WORKLOADS_WIRE_H
#define WORKLOADS_WIRE_H

#include "truth.h"

enum end_of_link { NEAR, FAR };

struct wire {
	int tun[2]; /* by enum end_of_link; -1 without a wire */
	uint64_t delay_ns;
};

/* Carries packets from either end to the other for ever, as this lane. */
void wire_carry(lane_t lane, const struct wire *wire) __attribute__((noreturn));

#endif
