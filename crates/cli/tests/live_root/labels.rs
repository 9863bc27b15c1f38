//! Names in a live recording: page faults, code without a file on disk, programs behind links, names readable only by
//! the recorder, and CPU limits that come and go.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use serde_json::Value;
use wakepath_harness::live::{command, document, list, not_possible, number, place, program, record, texts};

/// Writes a file, then touches every fourth page, which the disk has to read. Prints how often this gave up the CPU.
const FAULTS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	static char page[4096];
	struct rusage before, behind;
	int fd = open("pages", O_RDWR | O_CREAT, 0600);
	long pages = 4096, sum = 0;

	if (argc > 1) {
		for (long at = 0; at < pages; at++) {
			page[at % 4096] = at;
			if (write(fd, page, sizeof(page)) != sizeof(page))
				return 1;
		}
		fsync(fd);
		return posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	}
	volatile char *bytes = mmap(NULL, pages * 4096, PROT_READ, MAP_SHARED, fd, 0);
	madvise((void *)bytes, pages * 4096, MADV_RANDOM);
	getrusage(RUSAGE_SELF, &before);
	for (long at = 0; at < pages; at += 4)
		sum += bytes[at * 4096];
	getrusage(RUSAGE_SELF, &behind);
	printf("%ld\n", behind.ru_nvcsw - before.ru_nvcsw);
	return sum == 1;
}
"#;

/// The number before ` in page faults` in a row of the first screen.
fn page_faults(screen: &str) -> Option<u64> {
    let text = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    let before = text.split(" in page faults").next().filter(|before| before.len() < text.len())?;
    before.trim_end_matches(" waits").rsplit(' ').next()?.parse().ok()
}

#[test]
fn waits_for_a_disk_in_page_faults_are_counted_as_such() {
    const WOULD_SHOW: &str = "a page fault is no system call";
    let Some(folder) = place(WOULD_SHOW) else { return };
    let device = fs::metadata(&folder).expect("a folder").dev();
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
    if !Path::new(&format!("/sys/dev/block/{major}:{minor}")).exists() {
        return not_possible("temporary files are not on a disk", WOULD_SHOW);
    }
    let faults = program(&folder, "faults", FAULTS, &["-O1"]);
    let written = std::process::Command::new(&faults).arg("write").current_dir(&folder).status();
    assert!(written.expect("a program").success());
    let (printed, screen) = record(&folder, &["--", &faults], 0);
    // 1024 pages are touched; some may be in memory, be read along with others, or be there before the thread has left its CPU.
    let gave_up: u64 = printed.trim().parse().expect("a number");
    assert!(gave_up >= 100, "only {gave_up} waits: {screen}");
    // The program's own pages may be on the disk too.
    let waits = page_faults(&screen).unwrap_or(0);
    assert!(waits.abs_diff(gave_up) <= gave_up / 20, "{gave_up} waits: {screen}");
    assert!(!screen.contains("wait in execve") && !screen.contains("in unknown calls"), "{screen}");
    let answer = document(&folder, &["path"]);
    let in_faults: u64 = list(&answer["segments"])
        .iter()
        .filter(|segment| segment["call"] == "page fault" && segment["kind"] == "block_device")
        .map(|segment| number(&segment["to_ns"]) - number(&segment["from_ns"]))
        .sum();
    assert!(in_faults > 0, "{screen}");
}

/// Runs in the `[vdso]` and in the kernel for most of a second.
const CLOCKS: &str = r#"
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
	struct timespec now, until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec++;
	do {
		for (int i = 0; i < 1000; i++)
			clock_gettime(CLOCK_MONOTONIC, &now);
		for (int i = 0; i < 300; i++)
			syscall(SYS_getppid);
	} while (now.tv_sec < until.tv_sec || now.tv_nsec < until.tv_nsec);
	return 0;
}
"#;

/// The places where a path's threads were seen running.
fn places(answer: &Value) -> Vec<&Value> {
    list(&answer["samples"]).iter().flat_map(|thread| list(&thread["places"])).collect()
}

#[test]
fn code_of_the_kernel_and_the_code_that_it_maps_have_the_names_that_path_prints() {
    let Some(folder) = place("names that need rights are read before these are dropped") else { return };
    let clocks = program(&folder, "clocks", CLOCKS, &["-O1"]);
    let (printed, _) = record(&folder, &["--json", "--samples", "997", "--", &clocks], 0);
    let recorded: Value = serde_json::from_str(&printed).expect("JSON");
    let later = document(&folder, &["path"]);
    assert_eq!(recorded["samples"], later["samples"], "record has the rights that path has");
    let named = |is: &dyn Fn(&Value) -> bool| {
        let of = places(&later).into_iter().filter(|place| place["found"] == "named" && is(place));
        of.map(|place| number(&place["count"])).sum::<u64>()
    };
    assert!(named(&|place| place["in_kernel"] == true) > 10, "{:?}", places(&later));
    assert!(named(&|place| place["module"] == "[vdso]") > 10, "{:?}", places(&later));
    for place in places(&later) {
        let found = place["found"].as_str().unwrap_or_default();
        assert!(!["kernel", "unreadable", "unmapped"].contains(&found), "{place}");
    }
}

/// Runs for a while in its own function.
const WORK: &str = r#"
#include <time.h>
__attribute__((noinline)) void work(void)
{
	for (volatile long i = 0; i < 1000000; i++)
		;
}
int main(void)
{
	clock_t until = clock() + CLOCKS_PER_SEC / 2;

	while (clock() < until)
		work();
	return 0;
}
"#;

/// The modules in which a recording has samples of `work`.
fn modules_of_work(folder: &Path) -> Vec<String> {
    let answer = document(folder, &["path"]);
    let of_work = places(&answer).into_iter().filter(|place| place["function"] == "work");
    of_work.map(|place| place["module"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_program_that_runs_under_a_links_name_has_that_name() {
    let Some(folder) = place("a program is named after its link") else { return };
    let target = program(&folder, "check-rdb", WORK, &["-O1"]);
    let link = folder.join("server");
    symlink("check-rdb", &link).expect("a link");
    for (run, name) in [(link.to_str().expect("UTF-8"), "server"), (target.as_str(), "check-rdb")] {
        let (_, screen) = record(&folder, &["--samples", "499", "--", run], 0);
        assert!(screen.contains(&format!("samples in work ({name})")), "{screen}");
        assert_eq!(modules_of_work(&folder), [name]);
    }
}

#[test]
fn a_program_behind_a_directory_that_the_caller_may_not_enter_has_its_names() {
    let Some(folder) = place("files are opened through their mappings while recording") else { return };
    const OTHER: u32 = 54321;
    let home = folder.join("home");
    fs::create_dir(&home).expect("a folder");
    let work = program(&home, "work", WORK, &["-O1"]);
    let owned = |path: &Path| std::os::unix::fs::chown(path, Some(OTHER), Some(OTHER)).expect("its owner");
    owned(&home);
    owned(Path::new(&work));
    fs::set_permissions(&home, PermissionsExt::from_mode(0o700)).expect("its mode");
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).expect("its mode");
    // The command runs as root, and may enter; the recorder gives up this right before it begins.
    let (_, screen) = record(&folder, &["--samples", "499", "--", &work], 0);
    assert!(screen.contains("samples in work (work)"), "{screen}");
    let modules = modules_of_work(&folder);
    assert_eq!(modules, ["work"]);
}

#[test]
fn a_recording_that_ends_at_once_names_its_command() {
    let Some(folder) = place("the record of a command's exec may be lost") else { return };
    let mut ended_early = 0;
    // The size of the initial facts depends on the machine: try from too little room to enough.
    for kib in 16.. {
        let size = format!("{kib}K");
        let arguments = ["record", "--max-size", &size, "--", "sh", "-c", "sleep 0.1"];
        let output = command(&folder, &arguments).output().expect("wakepath");
        let (_, screen) = texts(&output);
        // With less room there is no recording.
        if screen.contains("error: the recording has reached its limit") {
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{size}: {screen}");
        let first = screen.lines().find(|line| !line.starts_with("warning: ")).unwrap_or_default();
        assert!(first.starts_with("sh "), "{size}: {screen}");
        if !screen.contains("recording ended early") {
            break;
        }
        ended_early += 1;
    }
    assert!(ended_early > 0, "one of them ends early");
}

#[test]
fn a_program_that_ends_at_once_has_run_in_files_of_known_names() {
    let Some(folder) = place("what a process mapped is known after its end") else { return };
    let mut named = 0;
    for _ in 0..10 {
        record(&folder, &["--samples", "5000", "--", "true"], 0);
        for place in places(&document(&folder, &["path"])) {
            assert!(
                !["unmapped", "kernel"].contains(&place["found"].as_str().unwrap_or_default()),
                "{place}"
            );
            assert!(place["found"] != "unnamed" || place["module"] != Value::Null, "{place}");
            named += u32::from(place["in_kernel"] == false);
        }
    }
    assert!(named > 0, "no sample is in the program or its loader");
}

/// Makes a cgroup with a CPU limit, computes in it, and lifts the limit.
const LIMITED: &str = r#"
set -e
mkdir "$1"
set_limit() {
    if [ -e "$1/cpu.max" ]; then echo "$2 100000" >"$1/cpu.max"; else echo "${2#max}" | sed 's/^$/-1/' >"$1/cpu.cfs_quota_us"; fi
}
echo $$ >"$1/cgroup.procs"
set_limit "$1" 5000
i=0
while [ $i -lt 100000 ]; do i=$((i + 1)); done
set_limit "$1" max
"#;

#[test]
fn a_cpu_limit_that_comes_and_goes_while_recording_is_named_with_its_size() {
    const WOULD_SHOW: &str = "a CPU limit is named that is there neither at the beginning nor at the end";
    let Some(folder) = place(WOULD_SHOW) else { return };
    let v1 = Path::new("/sys/fs/cgroup/cpu");
    let root = if v1.join("cpu.shares").exists() { v1 } else { Path::new("/sys/fs/cgroup") };
    let name = format!("wakepath-comes-and-goes-{}", std::process::id());
    let group = root.join(&name);
    if root != v1
        && !fs::read_to_string(root.join("cgroup.subtree_control")).is_ok_and(|it| it.contains("cpu"))
    {
        return not_possible("cgroups have no CPU controller here", WOULD_SHOW);
    }
    let group = group.to_str().expect("a path");
    record(&folder, &["--", "sh", "-c", LIMITED, "limited", group], 0);
    fs::remove_dir(group).expect("a cgroup without processes");
    let document = document(&folder, &["path"]);
    let limits: Vec<_> =
        list(&document["contributors"]).iter().filter(|it| it["code"] == "cpu_limit").collect();
    let what = format!("{name} (5.00 ms per 100 ms)");
    assert!(limits.iter().all(|limit| limit["what"] == *what), "{limits:?}");
    // The loop takes at least 20 ms: four shares of 5 ms, with up to 95 ms before the next.
    let total: u64 = limits.iter().map(|limit| number(&limit["total_ns"])).sum();
    assert!(total > 150_000_000, "{total} ns: {limits:?}");
}
