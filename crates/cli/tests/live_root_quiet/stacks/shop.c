/*
 * Two functions wait in different ways: save_order() for a disk, take_lock() for a lock
 * held by another thread's hold_lock(). one() and two() are twins: the same frames, the same
 * call, called by the same function.
 */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline)) static
/* Prevents a tail call, which would be a jump. */
#define END __asm__ volatile("")

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t held, asked;

FUNCTION void save_order(int file, int n)
{
	char text[32];

	memset(text, 'a' + n, sizeof(text));
	if (pwrite(file, text, sizeof(text), n) < 0 || fdatasync(file) < 0)
		abort();
}

FUNCTION void take_lock(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	END;
}

FUNCTION void hold_lock(void)
{
	pthread_mutex_lock(&lock);
	sem_post(&held);
	usleep(100000);
	pthread_mutex_unlock(&lock);
	END;
}

static void *holder(void *unused)
{
	for (int i = 0; i < 5; i++) {
		sem_wait(&asked);
		hold_lock();
	}
	return unused;
}

FUNCTION void one(void)
{
	usleep(50);
	END;
}

FUNCTION void two(void)
{
	usleep(50);
	END;
}

FUNCTION void twins(void)
{
	for (int i = 0; i < 300; i++)
		one();
	for (int i = 0; i < 300; i++)
		two();
}

FUNCTION void shop(int file)
{
	pthread_t thread;

	for (int i = 0; i < 14; i++)
		save_order(file, i);
	pthread_create(&thread, NULL, holder, NULL);
	for (int i = 0; i < 5; i++) {
		sem_post(&asked);
		sem_wait(&held);
		take_lock();
	}
	pthread_join(thread, NULL);
	END;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		shop(open(argv[1], O_CREAT | O_RDWR | O_TRUNC, 0600));
	else
		twins();
	/* On a busy machine it takes a while until the recorder reads this process's mappings. */
	usleep(700000);
	return 0;
}
