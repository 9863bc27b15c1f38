// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Requests to an io_uring, each awaited in io_uring_enter. `fsync FILE`: 20 blocks, each written and then synchronised by a request.
 * `read`: 5 reads of a socket whose other end, the process `answers`, writes 20 ms after each question.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static struct io_uring_sqe *entries;
static char *submitted, *completed;
static struct io_uring_params places;
static int ring;

static int begin(void)
{
	ring = syscall(SYS_io_uring_setup, 8, &places);
	if (ring < 0)
		return 0;
	submitted = mmap(NULL, places.sq_off.array + places.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			 ring, IORING_OFF_SQ_RING);
	entries = mmap(NULL, places.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
		       IORING_OFF_SQES);
	completed = mmap(NULL, places.cq_off.cqes + places.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
	return submitted != MAP_FAILED && entries != MAP_FAILED && completed != MAP_FAILED;
}

static void wait_for(struct io_uring_sqe request)
{
	unsigned *tail = (void *)(submitted + places.sq_off.tail), *mask = (void *)(submitted + places.sq_off.ring_mask);
	unsigned *array = (void *)(submitted + places.sq_off.array), *head = (void *)(completed + places.cq_off.head);
	unsigned place = *tail & *mask;

	entries[place] = request;
	array[place] = place;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
}

static int synchronise(const char *path)
{
	static char block[4096];
	int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);

	for (int i = 0; i < 20; i++) {
		if (write(file, block, sizeof(block)) != sizeof(block))
			return 1;
		wait_for((struct io_uring_sqe){ .opcode = IORING_OP_FSYNC, .fd = file });
	}
	return 0;
}

static int ask(void)
{
	char answer;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	if (!fork()) {
		close(ends[0]);
		prctl(PR_SET_NAME, "answers");
		while (read(ends[1], &answer, 1) == 1 && !usleep(20000) && write(ends[1], "x", 1) == 1)
			;
		_exit(0);
	}
	close(ends[1]);
	for (int i = 0; i < 5; i++) {
		if (write(ends[0], "?", 1) != 1)
			return 1;
		wait_for((struct io_uring_sqe){ .opcode = IORING_OP_READ, .fd = ends[0], .addr = (__u64)&answer, .len = 1 });
	}
	return 0;
}

int main(int count, char **words)
{
	if (!begin())
		return 2;
	return count > 2 && !strcmp(words[1], "fsync") ? synchronise(words[2]) : ask();
}
