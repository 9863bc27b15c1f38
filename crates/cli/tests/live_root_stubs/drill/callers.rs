//! Functions that leave by a jump: their returns are seen behind the calls of them. Where no probe shows calls, stacks answer.

use wakepath_harness::live::counts;

use super::{Drilled, alone, document, list, number, only_path, program_cxx, run};

/// `serve` leaves by a jump to a virtual function. One call in 20 computes, in the function `crunch`, or with `quick` does not; `twice` calls it from
/// another place. At most `argv[2]` calls, if given; without a `-`, the program prints its number and runs until its input ends.
const PROGRAM: &str = r#"
#include <poll.h>
#include <stdexcept>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define PROBED __attribute__((noinline, noclone))
volatile unsigned long sum;
PROBED static unsigned long crunch(unsigned long n) { for (int i = 0; i < 3000000; i++) sum = sum * 31 + n; return sum; }
struct Handler { virtual unsigned long handle(unsigned long) = 0; virtual ~Handler() {} };
struct Fast : Handler { unsigned long handle(unsigned long n) override { return n; } };
struct Slow : Handler { unsigned long handle(unsigned long n) override { return crunch(n) + 1; } };
Handler *handlers[2] = { new Fast, new Slow };
extern "C" PROBED unsigned long serve(unsigned long i)
{
	Handler *handler = handlers[i % 20 == 0];
	if (i == -1ul)
		throw std::runtime_error("none");
	return handler->handle(i);
}
extern "C" PROBED unsigned long twice(unsigned long i) { return serve(i) + 1; }
extern "C" PROBED unsigned long other(unsigned long i) { return i + sum; }
unsigned long (*volatile often)(unsigned long) = other;
/* Nearly all calls from this place go elsewhere. */
extern "C" PROBED unsigned long mixed(unsigned long i) { often = i % 1000000 ? other : serve; return often(i) + 1; }
extern "C" PROBED unsigned long idle(unsigned long i) { return crunch(i) + 1; }
int main(int argc, char **argv)
{
	struct pollfd input = { 0, POLLIN, 0 };
	unsigned long most = argc > 2 ? strtoul(argv[2], NULL, 10) : -1ul;

	if (!strcmp(argv[1], "quick"))
		handlers[1] = handlers[0];
	printf("%d\n", getpid());
	fflush(stdout);
	for (unsigned long i = 1; !strcmp(argv[1], "mixed"); i++) {
		sum += mixed(i);
		if (i % 1000 == 0 && poll(&input, 1, 0)) {
			FILE *file = fopen(argv[2], "w");

			fprintf(file, "%lu", i);
			return fclose(file);
		}
	}
	for (unsigned long i = 1; i <= most; i++) {
		sum += i % 3 ? serve(i) : twice(i);
		usleep(1000);
		if (argc > 9)
			idle(i);
		if (argc == 2 && i % 100 == 0 && poll(&input, 1, 0))
			break;
	}
}
"#;

fn built(folder: &super::Place) -> String {
    program_cxx(folder, "jumps", PROGRAM)
}

#[test]
fn a_function_that_leaves_by_a_jump_is_followed_from_its_callers() {
    let Some(folder) = alone("calls of functions that leave by a jump are measured") else { return };
    let built = built(&folder);
    let target = format!("{built}:serve");
    let process = Drilled::start_program(&built, &["slow"]);
    let answer = document(&folder, &["drill", &target, "-p", &process.1, "--start-ops", "400"]);
    let (path, cause) = only_path(&answer);
    assert_eq!(path, ["serve", "Slow::handle(unsigned long)", "crunch(unsigned long)"], "{answer}");
    assert_eq!(cause["cause"], "itself", "{answer}");
    // The first calls from both places, of some thousand.
    let notes = answer["notes"].to_string();
    assert!(notes.contains("a place that calls the function is learned at its first call"), "{notes}");
    // A measured function behind the jump is no sign that the call was unwound.
    assert!(!notes.contains("unwound"), "{notes}");
    // Samples and waits of the calls came first.
    let look = &answer["explained_by"];
    assert!(!list(&look["calls"]).is_empty(), "{look}");
    assert!(look["causes"].to_string().contains("crunch"), "{}", look["causes"]);
    // Behind the jump it is in no stack: no function is ranked.
    assert!(list(&look["functions"]["path"]).is_empty(), "{}", look["functions"]);
    drop(process);

    // Without the slow handler, there is no such path.
    let process = Drilled::start_program(&built, &["quick"]);
    let answer = document(&folder, &["drill", &target, "-p", &process.1, "--start-ops", "400", "-d", "5s"]);
    assert!(!answer.to_string().contains("crunch"), "{answer}");
}

#[test]
fn each_call_of_a_function_that_leaves_by_a_jump_is_counted_or_said_to_be_unseen() {
    let Some(folder) = alone("calls of functions that leave by a jump are counted") else { return };
    let built = built(&folder);
    let target = format!("{built}:serve");
    let asked = ["latency", &target, "--json", "--", &built, "quick", "2000"];
    let (targets, _) = counts(&run(&folder, &asked, 0).0);
    let answer = &targets[0];
    let (calls, unseen) = (number(&answer["count"]), number(&answer["unseen"]));
    assert_eq!((calls + unseen, number(&answer["left"]), number(&answer["open"])), (2000, 0, 0), "{answer}");
    // A tenth of a second may pass before a place has its probe.
    assert!(unseen > 1 && unseen < 1000, "{unseen}");
}

#[test]
fn a_place_from_which_others_are_called_loses_its_probe() {
    let Some(folder) = alone("a place with few calls of the function keeps no probe") else { return };
    let built = built(&folder);
    let file = folder.join("calls");
    let calls_a_second = |then: &dyn Fn(&str)| {
        let process = Drilled::start_program(&built, &["mixed", file.to_str().expect("a path")]);
        let began = std::time::Instant::now();
        then(&process.1);
        std::thread::sleep(std::time::Duration::from_secs(5).saturating_sub(began.elapsed()));
        drop(process);
        let calls = std::fs::read_to_string(&file).expect("a file").parse::<u64>().expect("a number");
        calls as f64 / began.elapsed().as_secs_f64()
    };
    let alone = calls_a_second(&|_| ());
    let counted = calls_a_second(&|pid| {
        let target = format!("{built}:serve");
        run(&folder, &["latency", &target, "-p", pid, "-d", "3s"], 0);
    });
    // A single step for each of them would make them a thousand times slower.
    assert!(counted * 2.0 > alone, "{counted} of {alone}");
    let searched = calls_a_second(&|pid| {
        let target = format!("{built}:serve");
        let (_, err) = run(&folder, &["drill", &target, "-p", pid, "-d", "3s", "--no-samples"], 2);
        assert!(err.contains("no probe shows when it returns"), "{err}");
    });
    assert!(searched * 2.0 > alone, "{searched} of {alone}");
}

#[test]
fn the_stacks_that_hold_a_function_answer_where_no_probe_shows_its_calls() {
    let Some(folder) = alone("stacks answer where calls are not seen") else { return };
    let built = built(&folder);
    let process = Drilled::start_program(&built, &["slow"]);
    // It does not return.
    let (out, err) = run(&folder, &["drill", &format!("{built}:main"), "-p", &process.1], 0);
    assert!(err.contains("samples and waits answer") && out.contains("not call by call"), "{out}{err}");
    assert!(out.contains("in clock_nanosleep") || out.contains("in nanosleep"), "{out}");
    let document = document(&folder, &["drill", &format!("{built}:main"), "-p", &process.1]);
    assert_eq!(document["schema"], "wakepath.function_stacks/1", "{document}");
    assert!(number(&document["functions"]["waits"]) > 100, "{document}");
    // Nothing calls this function, so that nothing answers.
    let (_, err) = run(&folder, &["drill", &format!("{built}:idle"), "-p", &process.1], 2);
    assert!(err.contains("was not called") && err.contains("no sample and no wait"), "{err}");
}
