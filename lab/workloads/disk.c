/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "disk.h"
#include "truth.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_CPUS 256
#define PROBES 12

int scratch_file(int flags)
{
	const char *directory = getenv("TMPDIR");
	char path[256];
	snprintf(path, sizeof path, "%s/workload.XXXXXX", directory && *directory ? directory : "/var/tmp");
	int file = mkostemp(path, O_CLOEXEC);
	if (file < 0)
		die(path);
	int again = flags ? open(path, O_RDWR | O_CLOEXEC | flags) : file;
	if (again < 0)
		die(path);
	unlink(path);
	if (again != file)
		close(file);
	return again;
}

int scratch_file_again(int file, int flags)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	return open(path, O_RDWR | O_CLOEXEC | flags);
}

char *scratch_memory(size_t bytes)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die("cannot get memory");
	memset(memory, 'w', bytes);
	return memory;
}

/* Adds up what each CPU has taken from devices: the lines of /proc/interrupts that begin with a number. */
static void count_interrupts(unsigned long counts[MAX_CPUS])
{
	char line[8192];
	int cpus = 0, cpu_of[MAX_CPUS];
	memset(counts, 0, MAX_CPUS * sizeof *counts);
	FILE *in = fopen("/proc/interrupts", "re");
	if (!in || !fgets(line, sizeof line, in))
		die("cannot read /proc/interrupts");
	for (char *at = line; (at = strstr(at, "CPU")) && cpus < MAX_CPUS;) {
		at += 3;
		cpu_of[cpus++] = (int)strtol(at, &at, 10);
	}
	while (fgets(line, sizeof line, in)) {
		char *at;
		strtol(line, &at, 10);
		if (at == line || *at++ != ':')
			continue;
		for (int i = 0; i < cpus; i++)
			if (cpu_of[i] >= 0 && cpu_of[i] < MAX_CPUS)
				counts[cpu_of[i]] += strtoul(at, &at, 10);
	}
	fclose(in);
}

int interrupts_of(int file)
{
	unsigned long before[MAX_CPUS], after[MAX_CPUS];
	int direct = scratch_file_again(file, O_DIRECT | O_DSYNC), best = -1;
	if (direct < 0)
		return -1; /* no disk under it, for example tmpfs: no interrupts either */
	char *page = scratch_memory(4096);
	count_interrupts(before);
	for (int i = 0; i < PROBES; i++)
		if (pwrite(direct, page, 4096, 0) != 4096)
			break;
	count_interrupts(after);
	close(direct);
	munmap(page, 4096);
	cpu_set_t allowed;
	sched_getaffinity(0, sizeof allowed, &allowed);
	for (int cpu = 0; cpu < MAX_CPUS; cpu++)
		if (CPU_ISSET(cpu, &allowed) && after[cpu] - before[cpu] >= PROBES &&
		    (best < 0 || after[cpu] - before[cpu] > after[best] - before[best]))
			best = cpu;
	return best;
}

void pin_to_interrupts_of(int file)
{
	int best = interrupts_of(file);
	cpu_set_t one;

	if (best < 0)
		return;
	CPU_ZERO(&one);
	CPU_SET(best, &one);
	if (sched_setaffinity(0, sizeof one, &one))
		die("cannot stay on one CPU");
}
