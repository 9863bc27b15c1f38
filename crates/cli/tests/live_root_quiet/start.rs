//! The time from the command line to the command's begin, and that of `wakepath doctor`: each the median of some runs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wakepath_harness::live::{Beside, WAKEPATH, place, place_alone, program, record};

/// Prints the time at which it began, ns.
const BEGAN: &str = r#"
    #include <stdio.h>
    #include <time.h>
    int main(void)
    {
        struct timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        printf("%lld\n", (long long)time.tv_sec * 1000000000 + time.tv_nsec);
    }
"#;

/// Starts a number of processes that compute (`b`) or sleep (`s`), which end with it. Prints a line once all are there.
const MANY: &str = r#"
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/prctl.h>
    #include <unistd.h>
    int main(int argc, char **argv)
    {
        for (int left = atoi(argv[1]); left > 0; left--) {
            pid_t child = fork();
            if (child < 0)
                return 1;
            if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (volatile long n = 0; argv[2][0] == 'b'; n++)
                    ;
                for (;;)
                    pause();
            }
        }
        puts("ready");
        fflush(stdout);
        for (;;)
            pause();
    }
"#;

/// The same clock here.
fn now_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    println!("{times:?}");
    times[times.len() / 2]
}

/// The median time from the command line to the command's begin.
fn start(folder: &Path, runs: usize) -> Duration {
    let began = program(folder, "began", BEGAN, &["-O1"]);
    // The first recording of a boot measures its cost, as one in an hour does.
    record(folder, &["--", &began], 0);
    let run = |_| {
        let now = now_ns();
        let (printed, _) = record(folder, &["--", &began], 0);
        let begin: i64 = printed.trim().parse().expect("a time");
        Duration::from_nanos((begin - now) as u64)
    };
    median((0..runs).map(run).collect())
}

/// Processes of a kind, all there.
fn many(folder: &Path, number: usize, kind: &str) -> Beside {
    let many = program(folder, "many", MANY, &["-O1"]);
    let mut many = Command::new(many)
        .args([&number.to_string(), kind])
        .stdout(Stdio::piped())
        .spawn()
        .expect("processes");
    let mut line = String::new();
    BufReader::new(many.stdout.take().expect("stdout")).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    std::thread::sleep(Duration::from_secs(1));
    Beside(many)
}

#[test]
fn a_command_begins_within_a_quarter_of_a_second() {
    let Some(folder) = place_alone("recording begins at once") else { return };
    let took = start(&folder, 7);
    assert!(took <= Duration::from_millis(250), "{took:?}");
}

#[test]
fn a_command_begins_within_a_second_beside_ten_busy_threads_a_cpu() {
    let Some(folder) = place_alone("a busy machine does not keep the command waiting") else { return };
    let cpus = std::thread::available_parallelism().expect("CPUs").get();
    let _busy = many(&folder, 10 * cpus, "b");
    let took = start(&folder, 5);
    assert!(took <= Duration::from_secs(1), "{took:?}");
}

#[test]
fn a_command_begins_within_a_second_with_5000_processes() {
    let Some(folder) = place_alone("many processes do not keep the command waiting") else { return };
    let _asleep = many(&folder, 5000, "s");
    let took = start(&folder, 5);
    assert!(took <= Duration::from_secs(1), "{took:?}");
}

#[test]
fn doctor_answers_within_two_seconds() {
    let Some(_folder) = place("doctor answers at once") else { return };
    let run = |_| {
        let began = Instant::now();
        assert!(Command::new(*WAKEPATH).arg("doctor").output().expect("wakepath").status.success());
        began.elapsed()
    };
    let took = median((0..3).map(run).collect());
    assert!(took <= Duration::from_secs(2), "{took:?}");
}
