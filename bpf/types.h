/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The kernel's integer types, for headers that a test also compiles for the host.
 */
#ifndef WAKEPATH_TYPES_H
#define WAKEPATH_TYPES_H

#ifdef __bpf__
#include "kernel.h"
#else
#include <linux/types.h>
#endif

#endif
