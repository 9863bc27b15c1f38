// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Requests to an io_uring, each awaited in io_uring_enter. `fsync FILE`: 20 blocks, each written and then synchronised by a request.
 * `direct FILE`: 20 reads of the disk, past the page cache. `read`: 5 reads of a socket whose other end, the process `answers`,
 * writes 20 ms after each question. With several requests in flight: `two FILE FILE`, where 20 times the blocks of both files are
 * synchronised at once; `polled FILE`, as `fsync`, while a request for a socket waits that nobody writes to; `early FILE`, the same
 * with a pause of 2 s behind that request; `twice FILE`, as `two` with a single file. `registered FILE`: as `fsync`, by a number
 * for the ring that is no descriptor.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <unistd.h>

static struct io_uring_sqe *entries;
static char *submitted, *completed;
static struct io_uring_params places;
static int ring, entered, ways;

static int begin(void)
{
	ring = syscall(SYS_io_uring_setup, 8, &places);
	if (ring < 0)
		return 0;
	entered = ring;
	submitted = mmap(NULL, places.sq_off.array + places.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			 ring, IORING_OFF_SQ_RING);
	entries = mmap(NULL, places.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
		       IORING_OFF_SQES);
	completed = mmap(NULL, places.cq_off.cqes + places.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
	return submitted != MAP_FAILED && entries != MAP_FAILED && completed != MAP_FAILED;
}

static void put(struct io_uring_sqe request)
{
	unsigned *tail = (void *)(submitted + places.sq_off.tail), *mask = (void *)(submitted + places.sq_off.ring_mask);
	unsigned *array = (void *)(submitted + places.sq_off.array), place = *tail & *mask;

	entries[place] = request;
	array[place] = place;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
}

static void wait_for(struct io_uring_sqe request, int beside)
{
	unsigned *head = (void *)(completed + places.cq_off.head);

	put(request);
	syscall(SYS_io_uring_enter, entered, 1 + beside, 1 + beside, IORING_ENTER_GETEVENTS | ways, NULL, 0);
	__atomic_store_n(head, *head + 1 + beside, __ATOMIC_RELEASE);
}

static struct io_uring_sqe synchronisation(int file)
{
	return (struct io_uring_sqe){ .opcode = IORING_OP_FSYNC, .fd = file };
}

static char block[1 << 16] __attribute__((aligned(4096)));

static int synchronise(const char *path, const char *beside)
{
	int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
	int other = beside ? open(beside, O_CREAT | O_WRONLY | (strcmp(beside, path) ? O_TRUNC : 0), 0644) : -1;

	for (int i = 0; i < 20; i++) {
		if (write(file, block, 4096) != 4096 || (beside && write(other, block, 4096) != 4096))
			return 1;
		if (beside)
			put(synchronisation(other));
		wait_for(synchronisation(file), beside ? 1 : 0);
	}
	return 0;
}

static int wait_for_socket(void)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	put((struct io_uring_sqe){ .opcode = IORING_OP_POLL_ADD, .fd = ends[0], .poll_events = POLLIN });
	return syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) != 1;
}

/* From now on the ring is entered by the number 0, which as a descriptor is a timer that the thread has waited for. */
static int register_ring(void)
{
	struct io_uring_rsrc_update place = { .offset = 0, .data = ring };
	struct itimerspec soon = { .it_value = { .tv_nsec = 20000000 } };
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	__u64 count;

	if (timerfd_settime(timer, 0, &soon, NULL) || dup2(timer, 0) || read(0, &count, sizeof(count)) != sizeof(count))
		return 1;
	if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_RING_FDS, &place, 1) != 1)
		return 1;
	entered = place.offset;
	ways = IORING_ENTER_REGISTERED_RING;
	return 0;
}

static int read_directly(const char *path)
{
	int file = open(path, O_CREAT | O_RDWR | O_TRUNC | O_DIRECT, 0644);

	for (int i = 0; i < 20; i++) {
		if (pwrite(file, block, sizeof(block), (off_t)i * sizeof(block)) != sizeof(block))
			return 1;
	}
	for (int i = 0; i < 20; i++)
		wait_for((struct io_uring_sqe){ .opcode = IORING_OP_READ, .fd = file, .addr = (__u64)block, .len = sizeof(block),
						.off = (__u64)i * sizeof(block) },
			 0);
	return 0;
}

static int ask(void)
{
	char answer;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	if (!fork()) {
		prctl(PR_SET_NAME, "answers");
		/* Else it would never read the end. */
		close(ends[0]);
		while (read(ends[1], &answer, 1) == 1 && !usleep(20000) && write(ends[1], "x", 1) == 1)
			;
		_exit(0);
	}
	close(ends[1]);
	for (int i = 0; i < 5; i++) {
		if (write(ends[0], "?", 1) != 1)
			return 1;
		wait_for((struct io_uring_sqe){ .opcode = IORING_OP_READ, .fd = ends[0], .addr = (__u64)&answer, .len = 1 }, 0);
	}
	return 0;
}

int main(int count, char **words)
{
	alarm(20);
	if (!begin())
		return 2;
	if (count < 3)
		return ask();
	if (!strcmp(words[1], "direct"))
		return read_directly(words[2]);
	if (!strcmp(words[1], "twice"))
		return synchronise(words[2], words[2]);
	if (!strcmp(words[1], "registered") && register_ring())
		return 3;
	if ((!strcmp(words[1], "polled") || !strcmp(words[1], "early")) && wait_for_socket())
		return 1;
	if (!strcmp(words[1], "early"))
		sleep(2);
	return synchronise(words[2], count > 3 ? words[3] : NULL);
}
