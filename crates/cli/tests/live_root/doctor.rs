//! `wakepath doctor`, as root without each capability in turn, and as the user nobody.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use wakepath_harness::live::{WAKEPATH, skip};

/// The output and exit code of `wakepath doctor` under `setpriv` with these options; `None` if the test lacks the
/// privileges for this.
fn doctor(setpriv: &[&str]) -> Option<(String, i32)> {
    // SAFETY: takes nothing, changes nothing.
    if unsafe { libc::geteuid() } != 0 {
        skip("dropping capabilities needs root", "doctor names exactly the missing one");
        return None;
    }
    // The user nobody may not read the build folder.
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("wakepath");
    std::fs::copy(*WAKEPATH, &program).expect("a copy");
    for path in [folder.path(), &program] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("its mode");
    }
    // A child just forked by another test may still hold the copy open for writing, up to its exec.
    const BUSY: i32 = 126;
    let mut tries = (0..50).map(|_| {
        Command::new("setpriv").args(setpriv).arg(&program).arg("doctor").output().expect("setpriv")
    });
    let is_there = |output: &std::process::Output| output.status.code() != Some(BUSY);
    let output = tries.find(is_there).expect("a program that can be run");
    let text = String::from_utf8(output.stdout).expect("text");
    Some((text, output.status.code().expect("an exit code")))
}

#[test]
fn with_all_privileges_recording_is_possible() {
    let Some((text, code)) = doctor(&["--"]) else { return };
    assert_eq!(code, 0, "{text}");
    assert!(!text.contains("nothing can be recorded"), "{text}");
}

#[test]
fn each_missing_capability_is_named_and_no_other() {
    // CAP_SYS_ADMIN includes the newer capabilities, so it is dropped with them. Where nothing can be recorded, only the
    // blocking capability is named.
    let cases = [
        ("-bpf,-sys_admin", &["CAP_BPF"][..], 4),
        ("-perfmon,-sys_admin", &["CAP_PERFMON"], 4),
        ("-syslog,-sys_admin", &["CAP_SYSLOG", "CAP_SYS_ADMIN"], 0),
        ("-sys_admin", &["CAP_SYS_ADMIN"], 0),
        ("-kill", &[], 0),
    ];
    for (taken, missing, exit) in cases {
        let Some((text, code)) = doctor(&["--bounding-set", taken, "--inh-caps", "-all"]) else { return };
        assert_eq!(code, exit, "without {taken}:\n{text}");
        for name in ["CAP_BPF", "CAP_PERFMON", "CAP_SYSLOG", "CAP_SYS_ADMIN"] {
            assert_eq!(text.contains(name), missing.contains(&name), "without {taken}:\n{text}");
        }
        let cost = "how much longer threads ran for a recording is not measured";
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text.contains(cost), missing.contains(&"CAP_SYS_ADMIN"), "without {taken}:\n{text}");
    }
}

#[test]
fn the_user_nobody_sees_which_privilege_is_missing() {
    let Some((text, code)) = doctor(&["--reuid", "65534", "--regid", "65534", "--clear-groups"]) else {
        return;
    };
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("grant CAP_BPF") && text.contains("wakepath cannot record here."), "{text}");
}

/// The stolen time of all CPUs since boot in `/proc/stat`, s.
fn stolen() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("/proc/stat");
    let ticks: f64 = stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok()).expect("a number");
    ticks / 100.0
}

#[test]
fn the_stolen_time_is_that_of_proc_stat_and_works_where_its_moments_are_known() {
    let before = stolen();
    let Some((text, code)) = doctor(&["--"]) else { return };
    let after = stolen();
    let line = text.lines().find(|line| line.contains("steal time")).expect("a line");
    if after == 0.0 {
        assert!(line.starts_with("yes") && line.contains("none since boot"), "{line}");
        return;
    }
    // If time is stolen during the test, the printed number lies between the two readings.
    let words: Vec<_> = text.split_once(line).map_or("", |(_, rest)| rest).split_whitespace().collect();
    let printed = line.split_whitespace().chain(words).filter_map(|word| word.parse::<f64>().ok()).next();
    let printed = printed.unwrap_or_default();
    assert!((before - 0.01..=after + 0.01).contains(&printed), "{before} to {after}: {text}");
    let kernel_6_2 =
        std::fs::read_to_string("/proc/kallsyms").is_ok_and(|all| all.contains(" bpf_rdonly_cast"));
    assert_eq!(line.starts_with("yes"), kernel_6_2, "{text}");
    assert_eq!(code, 0, "{text}");
}
