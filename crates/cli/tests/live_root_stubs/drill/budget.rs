//! A search keeps to its budget, by the program's own clock.

use super::{Drilled, alone, document, program, run};

/// `serve` calls `cheap` 200,000 times by a pointer in one call of twenty; with `hot` it is called without a pause. At its end the program writes its
/// longest call, ns, into the named file.
const PROGRAM: &str = r#"
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define PROBED __attribute__((noinline, noclone))
volatile uint64_t sum;
PROBED uint64_t cheap(uint64_t x) { __asm__ volatile("push %%rbx; pop %%rbx" ::: "memory"); return x + 1; }
uint64_t (*volatile pointer)(uint64_t) = cheap;
PROBED uint64_t visit(uint64_t n) { __asm__ volatile("" ::: "rbx"); for (uint64_t i = 0; i < n; i++) sum += pointer(i); return sum; }
PROBED uint64_t serve(uint64_t i, int hot) { if (i % 20 == 0 && !hot) visit(200000); sum += i; return sum; }
static uint64_t now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
int main(int argc, char **argv)
{
	struct pollfd input = { 0, POLLIN, 0 };
	int hot = argc > 2 && !strcmp(argv[2], "hot");
	uint64_t longest = 0;
	FILE *file;

	printf("%d\n", getpid());
	fflush(stdout);
	for (uint64_t i = 1; ; i++) {
		uint64_t from = now();

		serve(i, hot);
		if (now() - from > longest)
			longest = now() - from;
		if (!hot)
			usleep(200);
		if (i % 1000 == 0 && poll(&input, 1, 0))
			break;
	}
	file = fopen(argv[1], "w");
	fprintf(file, "%lu", longest);
	return fclose(file);
}
"#;

#[test]
fn probes_and_watched_calls_beyond_the_budget_go_before_a_call_is_much_longer() {
    let Some(folder) = alone("a search keeps to its budget") else { return };
    let built = program(&folder, "often", PROGRAM, &["-O1", "-g"]);
    let file = folder.join("longest");
    let process = Drilled::start_program(&built, &[file.to_str().expect("a path")]);
    let target = format!("{built}:serve");
    let answer = document(&folder, &["drill", &target, "-p", &process.1, "--start-ops", "400", "-d", "20s"]);
    drop(process);
    let removed = answer["notes"].to_string();
    assert!(removed.contains("were removed (--budget)") && removed.contains("cheap ("), "{removed}");
    let causes = answer["causes"].to_string();
    assert!(causes.contains(r#""function":"cheap","reason":"budget","why":"dear""#), "{causes}");
    // A tenth of a second, and as much for the probes' removal, twice: 200,000 single steps take 2 s and more.
    let longest: u64 = std::fs::read_to_string(&file).expect("a file").parse().expect("a number");
    assert!(longest < 400_000_000, "{longest} ns: {causes}");
}

#[test]
fn calls_that_come_too_often_are_not_recorded() {
    let Some(folder) = alone("calls that come too often are not recorded") else { return };
    let built = program(&folder, "often", PROGRAM, &["-O1", "-g"]);
    let file = folder.join("longest");
    let process = Drilled::start_program(&built, &[file.to_str().expect("a path"), "hot"]);
    let target = format!("{built}:serve");
    let (out, err) = run(&folder, &["drill", &target, "-p", &process.1, "--samples-only"], 0);
    let err = err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        err.contains("it is called so often that a record of each call would take more than --budget"),
        "{err}"
    );
    // The stacks that hold it answer instead: all of its time is its own.
    assert!(out.contains("not call by call") && out.contains("is in serve itself"), "{out}");
}

/// In each 20th call, `serve` calls `level_0`, and each level the next, beside 200,000 calls to its own small function. The last level
/// computes.
const LEVELS: &str = r#"
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#define PROBED __attribute__((noinline, noclone))
volatile uint64_t sum;
PROBED uint64_t compute(uint64_t n) { for (uint64_t i = 0; i < 3000000; i++) sum = sum * 31 + n; return sum; }
#define LEVEL(this, next) \
	PROBED uint64_t often_##this(uint64_t x) { __asm__ volatile("push %%rbx; pop %%rbx" ::: "memory"); return x + 1; } \
	PROBED uint64_t this(uint64_t n) \
	{ __asm__ volatile("" ::: "rbx"); for (uint64_t i = 0; i < 200000; i++) sum += often_##this(i); return next(n) + 1; }
LEVEL(level_5, compute) LEVEL(level_4, level_5) LEVEL(level_3, level_4) LEVEL(level_2, level_3) LEVEL(level_1, level_2) LEVEL(level_0, level_1)
PROBED uint64_t serve(uint64_t i) { if (i % 20 == 0) level_0(i); sum += i; return sum; }
int main(void)
{
	struct pollfd input = { 0, POLLIN, 0 };

	printf("%d\n", getpid());
	fflush(stdout);
	for (uint64_t i = 1; ; i++) {
		serve(i);
		usleep(100);
		if (i % 100 == 0 && poll(&input, 1, 0))
			return 0;
	}
}
"#;

#[test]
fn a_whole_search_keeps_to_its_budget_and_not_each_level_for_itself() {
    let Some(folder) = alone("a search with many levels keeps to its budget") else { return };
    let built = program(&folder, "levels", LEVELS, &["-O1", "-g"]);
    let process = Drilled::start_program(&built, &[]);
    let target = format!("{built}:serve");
    let answer = document(
        &folder,
        &["drill", &target, "-p", &process.1, "--no-samples", "--start-ops", "400", "-d", "50s"],
    );
    drop(process);
    let causes = answer["causes"].to_string();
    assert!(causes.contains("level_5"), "all levels were measured: {answer}");
    let cost = |key: &str| answer["cost"][key].as_u64().expect("a number") as f64;
    let cpus = std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
    // 5%, and for the last level a tenth of a second and as much for the probes' removal.
    let allowed = 0.05 * cpus * cost("elapsed_ns") + 200e6;
    assert!(cost("probes_ns") < allowed, "{} of {allowed} ns: {}", cost("probes_ns"), answer["cost"]);
}
