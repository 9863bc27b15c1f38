/* Holds the lock, or writes the byte, when a culprit wants it. */
static void *serve_culprit(void *unused)
{
	/* Threads that write by one open file wait for its position, before they come to the lock of the inode. */
	int other = CULPRIT == appends ? open("written", O_RDWR | O_APPEND) : -1;

	for (;;) {
		pthread_barrier_wait(&wanted);
		if (CULPRIT == reads) {
			pause_for(MS * 1000000l);
			if (write(pipe_of[1], "", 1) != 1)
				abort();
			continue;
		}
		if (CULPRIT == appends) {
			pthread_barrier_wait(&held);
			if (write(other, much, MANY) != MANY || ftruncate(other, 0))
				abort();
			continue;
		}
		pthread_mutex_lock(&lock);
		pthread_barrier_wait(&held);
		pause_for(MS * 1000000l);
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

/* The fastest of several: what else the machine does makes it slower. */
static void calibrate(void)
{
	for (int i = 0; i < 20; i++) {
		struct timespec from, to;
		long steps = 1000000, ns, x;

		clock_gettime(CLOCK_MONOTONIC, &from);
		x = work(steps);
		clock_gettime(CLOCK_MONOTONIC, &to);
		KEEP(x);
		ns = (to.tv_sec - from.tv_sec) * 1000000000l + to.tv_nsec - from.tv_nsec;
		if (steps * 1000000 / ns > steps_per_ms)
			steps_per_ms = steps * 1000000 / ns;
	}
}

static void *work_on(void *seed)
{
	struct call c = { 0 };
	unsigned long x = (unsigned long)seed;

	for (;; c.number++) {
		for (int level = 0; level < DEPTH; level++) {
			x = x * 6364136223846793005ul + 1442695040888963407ul;
			c.at_random[level] = (x >> 33) % FAN_OUT;
		}
		c.is_slow = c.number % 8 == 7;
		f0(&c, 1);
		pause_for(100000);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS + 1];

	calibrate();
	if (pipe(pipe_of))
		return 1;
	if (CULPRIT == syncs || CULPRIT == appends) {
		file = open("written", O_RDWR | O_CREAT | (CULPRIT == appends ? O_APPEND : 0), 0600);
		if (file < 0)
			return 1;
	}
	mkdir("a", 0700);
	while (strlen(long_name) + 6 < sizeof(long_name))
		strcat(long_name, "a/../");
	strcat(long_name, ".");
	pthread_barrier_init(&wanted, NULL, 2);
	pthread_barrier_init(&held, NULL, 2);
	printf("%d\n", getpid());
	fflush(stdout);
	pthread_create(&threads[THREADS], NULL, serve_culprit, NULL);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work_on, (void *)(i + 1));
	while (getchar() != EOF)
		;
	return 0;
}
