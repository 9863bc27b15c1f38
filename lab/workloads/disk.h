/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A scratch file on a disk, and the CPU for its interrupts. */
#ifndef WORKLOADS_DISK_H
#define WORKLOADS_DISK_H

#include <stddef.h>

/* A nameless file in $TMPDIR or /var/tmp; `flags` as for open(), O_RDWR is added. */
int scratch_file(int flags);

/* Another descriptor for the file, opened with other flags. */
int scratch_file_again(int file, int flags);

/* Memory for direct I/O, filled with something. */
char *scratch_memory(size_t bytes);

/*
 * Keeps the calling thread on the CPU for the disk's interrupts. There a wake-up is
 * heard when it is made; a CPU asleep elsewhere hears of it up to 0.1 ms later, and in between no
 * clock of the program shows whether it still waited for the disk.
 */
void pin_to_interrupts_of(int file);

/* The CPU; -1 if no single CPU takes them all. */
int interrupts_of(int file);

#endif
