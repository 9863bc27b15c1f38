// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Known numbers of calls, as many for each function as the argument says: `throws`, which throws every other time,
// through `passed`, caught in `catches`; and `calm`, which calls a function that throws nothing. At the end it
// prints its counts, a line `NAME COUNT` each.
#include <cstdio>
#include <cstdlib>

#define PROBED extern "C" __attribute__((noinline, noclone))

static long thrown, caught, kept;

PROBED long quiet(long value)
{
	asm volatile("" : "+r"(value));
	return value + 1;
}

PROBED long throws(long value)
{
	if (value % 2) {
		thrown++;
		throw value;
	}
	asm volatile("" : "+r"(value));
	return value + 1;
}

PROBED long passed(long value)
{
	long found = throws(value);

	asm volatile("" : "+r"(found));
	return found + 1;
}

PROBED long catches(long value)
{
	try {
		return passed(value) + 1;
	} catch (long found) {
		caught++;
		return found;
	}
}

PROBED long calm(long value)
{
	long found = quiet(value);

	asm volatile("" : "+r"(found));
	return found + 1;
}

int main(int argc, char **argv)
{
	const long calls = argc > 1 ? atol(argv[1]) : 0;

	for (long i = 0; i < calls; i++)
		kept += catches(i) + calm(i);
	printf("calls %ld\nthrown %ld\ncaught %ld\n", calls, thrown, caught);
	return kept == 0 && calls > 0;
}
