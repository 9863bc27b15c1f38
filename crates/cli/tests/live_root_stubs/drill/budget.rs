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
