/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Network devices, made in the network namespace in which the calling thread is. Needs root. */
#ifndef WORKLOADS_DEVICE_H
#define WORKLOADS_DEVICE_H

#include <stdbool.h>

/* The name of each of them. */
#define DEVICE "wire0"

/* A TUN device's descriptor, which does not block. */
int device_tun(void);
/* A pair of devices, whose other end is in this namespace. */
void device_pair(int other_namespace);
/* Gives the device its address, in a network of 256, and switches it on. */
void device_up(const char *address);
/*
 * Sets the address's owner: the other end of the pair, or this end. Otherwise the first packet waits until the
 * kernel has asked, and leaves when the answer comes in, on the time of the interrupted thread.
 */
void device_neighbour(const char *address, bool other_end);
/* Holds back what it sends, by the kernel's token bucket filter. */
void device_limit(long mbit);

#endif
