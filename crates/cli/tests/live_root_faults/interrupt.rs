//! Recordings that a signal or a limit ends before their command, and the fate of the command.

use std::fs;
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use wakepath_harness::live::{WAKEPATH, command, document, length, place, texts};

use crate::record;

/// Ends with 5 when it is terminated, and with 0 by itself, before any test gives up.
const WAITS: &str = "trap 'exit 5' TERM; : >began; while [ $((i=i+1)) -lt 1000 ]; do sleep 0.01; done";
const PATIENCE: Duration = Duration::from_secs(20);

fn start(folder: &Path, arguments: &[&str]) -> Child {
    let _ = fs::remove_file(folder.join("began"));
    let mut record = command(folder, &[&["record", "--no-calibration"], arguments].concat());
    record.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    in_the_foreground(&mut record).spawn().expect("wakepath")
}

/// Without the signals that were ignored where the tests were started: in the background, under nohup.
fn in_the_foreground(command: &mut Command) -> &mut Command {
    // SAFETY: the child calls only async-signal-safe functions.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        })
    }
}

fn until(what: &str, happened: impl Fn() -> bool) {
    let since = Instant::now();
    while !happened() {
        assert!(since.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(5));
    }
}

fn send(child: &Child, signal: i32) {
    // SAFETY: plain numbers; the process is our child and was not waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

fn said(output: &Output) -> String {
    texts(output).1
}

fn is_group_gone(group: u32) -> bool {
    // SAFETY: a null signal to a group of our own making: it only asks whether anybody is in it.
    unsafe { libc::kill(-(group as i32), 0) != 0 }
}

#[test]
fn a_signal_that_is_sent_to_us_reaches_the_command_once_and_its_end_is_recorded() {
    let Some(folder) = place("a signal is passed on to the command") else { return };
    for (signal, name) in [(libc::SIGTERM, "TERM"), (libc::SIGINT, "INT"), (libc::SIGHUP, "HUP")] {
        let script = format!(
            "trap 'echo {name} >>got; ended=1' {name}; : >began; \
             while [ -z \"$ended\" ] && [ $((i=i+1)) -lt 1000 ]; do sleep 0.01; done; sleep 0.2; exit 5"
        );
        let _ = fs::remove_file(folder.join("got"));
        let recorder = start(&folder, &["--", "sh", "-c", &script]);
        until("it does not begin", || folder.join("began").exists());
        send(&recorder, signal);
        let output = recorder.wait_with_output().expect("its end");
        assert_eq!(output.status.code(), Some(5), "the command's own code: {}", said(&output));
        assert_eq!(fs::read_to_string(folder.join("got")).expect("it got one"), format!("{name}\n"));
        assert!(said(&output).contains("sh took "), "it answers: {}", said(&output));
        let info = document(&folder, &["info"]);
        assert_eq!(info["command"]["status"], 5 << 8, "the command's end belongs to the recording");
        assert_eq!(info["cut_off"], false);
    }
}

#[test]
fn under_sudo_a_signal_reaches_the_command_as_root_and_as_the_caller() {
    let Some(folder) = place("a signal is passed on under sudo") else { return };
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("its mode");
    for flags in [&[][..], &["--as-root"]] {
        let _ = fs::remove_file(folder.join("began"));
        let mut record =
            command(&folder, &[&["record", "--no-calibration"], flags, &["--", "sh", "-c", WAITS]].concat());
        record.env("SUDO_UID", "65534").env("SUDO_GID", "65534").env("SUDO_USER", "nobody");
        let recorder = in_the_foreground(record.stderr(Stdio::piped())).spawn().expect("wakepath");
        until("it does not begin", || folder.join("began").exists());
        // The recorder becomes the user who called sudo right after the command began.
        sleep(Duration::from_millis(100));
        send(&recorder, libc::SIGTERM);
        let output = recorder.wait_with_output().expect("its end");
        assert_eq!(output.status.code(), Some(5), "{flags:?}: {}", said(&output));
    }
}

#[test]
fn at_the_highest_rate_of_samples_busy_cpus_still_obey_a_signal() {
    let Some(folder) = place("no rate of samples takes the CPUs from their programs") else { return };
    let cpus = std::thread::available_parallelism().expect("their number").get();
    let busy = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a busy CPU");
    let mut others: Vec<Child> = (0..cpus).map(|_| busy()).collect();
    let recorder = start(&folder, &["--samples", "10000", "--", "sh", "-c", WAITS]);
    until("it does not begin", || folder.join("began").exists());
    sleep(Duration::from_millis(500));
    send(&recorder, libc::SIGTERM);
    let sent = Instant::now();
    let output = recorder.wait_with_output().expect("its end");
    for other in &mut others {
        let _ = other.kill();
        let _ = other.wait();
    }
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(sent.elapsed() < PATIENCE, "{:?}", sent.elapsed());
}

#[test]
fn the_terminals_interrupt_reaches_the_command_once() {
    let Some(folder) = place("Ctrl-C ends and answers") else { return };
    let (mut ours, mut theirs) = (0, 0);
    // SAFETY: both descriptors are written by the call; no name, modes or size are asked for.
    let opened = unsafe {
        let none = std::ptr::null_mut();
        libc::openpty(&raw mut ours, &raw mut theirs, none, none.cast(), none.cast())
    };
    assert_eq!(opened, 0, "a terminal");
    // SAFETY: both were just opened for us alone.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let script = "trap 'echo INT >>got; ended=1' INT; : >began; \
                  while [ -z \"$ended\" ] && [ $((i=i+1)) -lt 1000 ]; do sleep 0.01; done; sleep 0.2; exit 5";
    let mut command = command(&folder, &["record", "--", "sh", "-c", script]);
    command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::piped());
    // SAFETY: the child calls only async-signal-safe functions.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
            Ok(())
        })
    };
    let recorder = in_the_foreground(&mut command).spawn().expect("wakepath");
    until("it does not begin", || folder.join("began").exists());
    let mut terminal = fs::File::from(ours);
    terminal.write_all(b"\x03").expect("a key");
    let output = recorder.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(said(&output).contains("sh took "), "it answers: {}", said(&output));
    assert_eq!(fs::read_to_string(folder.join("got")).expect("it got one"), "INT\n");
}

#[test]
fn without_a_command_a_signal_ends_the_recording_and_it_answers() {
    let Some(folder) = place("a signal ends and answers") else { return };
    let own = std::process::id().to_string();
    for (question, signal) in [
        (&["-a"][..], libc::SIGINT),
        (&["-a"], libc::SIGTERM),
        (&["-p", &own], libc::SIGHUP),
        (&["-a", "-d", "60"], libc::SIGINT),
    ] {
        let _ = fs::remove_dir_all(folder.join("wakepath.rec"));
        let recorder = start(&folder, question);
        until("it does not begin", || folder.join("wakepath.rec/kernel/sched_0").exists());
        sleep(Duration::from_millis(100));
        send(&recorder, signal);
        let output = recorder.wait_with_output().expect("its end");
        assert_eq!(output.status.code(), Some(0), "{question:?}: {}", said(&output));
        assert!(texts(&output).0.contains("next: wakepath path"), "it answers");
        assert_eq!(document(&folder, &["info"])["cut_off"], false);
    }
}

#[test]
fn a_command_that_outlives_its_time_goes_on_and_its_exit_code_is_passed_on() {
    let Some(folder) = place("a recording's end is not its command's") else { return };
    let began = Instant::now();
    let script = "sleep 1.5; echo mine; exit 9";
    let (printed, text) = record(&folder, &["-d", "0.3", "--", "sh", "-c", script], 9);
    assert!(began.elapsed() > Duration::from_millis(1500), "it was waited for");
    assert_eq!(printed, "mine\n");
    assert!(text.contains("still runs and is no longer recorded; waiting for its exit code"), "{text}");
    assert!(text.starts_with("sh is still waiting after "), "the answer comes first: {text}");
    let ns = length(&document(&folder, &["info"]));
    assert!((250_000_000..1_200_000_000).contains(&ns), "{ns} ns were recorded");
}

#[test]
fn a_command_that_does_not_end_is_left_alone_and_that_is_said() {
    let Some(folder) = place("a command that ignores signals is left alone") else { return };
    let script = "trap '' TERM; : >began; echo $$ >pid; exec sleep 60 >pid.out 2>&1";
    let recorder = start(&folder, &["--", "sh", "-c", script]);
    let pid = || fs::read_to_string(folder.join("pid"));
    until("it does not begin", || pid().is_ok_and(|text| text.ends_with('\n')));
    let pid: i32 = pid().expect("a pid").trim().parse().expect("a number");
    let asked = Instant::now();
    send(&recorder, libc::SIGTERM);
    // It answers, waits for the command, and is asked again.
    sleep(Duration::from_millis(4500));
    send(&recorder, libc::SIGTERM);
    let group = recorder.id();
    let output = recorder.wait_with_output().expect("its end");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(asked.elapsed() < PATIENCE);
    let left = format!("error: sh ({pid}) did not end and still runs");
    assert!(text.contains(&left) && text.contains(&format!("hint: kill -KILL {pid} ends it")), "{text}");
    assert!(!is_group_gone(group), "it lives");
    // SAFETY: plain numbers; the process is the command of our own recorder.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let Some(folder) = place("nohup works") else { return };
    let wakepath = *WAKEPATH;
    let script = format!(
        "trap '' HUP; exec {wakepath} record -- sh -c ': >began; while [ ! -e go ]; do sleep 0.01; done; kill -HUP $$; exit 4'"
    );
    let recorder = Command::new("sh")
        .args(["-c", &script])
        .current_dir(&folder)
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    until("it does not begin", || folder.join("began").exists());
    send(&recorder, libc::SIGHUP);
    fs::write(folder.join("go"), "").expect("a file");
    let output = recorder.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("sh took "));
}

#[test]
fn a_signal_at_any_moment_of_the_start_ends_both() {
    let Some(folder) = place("a signal while it loads is not lost") else { return };
    for pause in (0..12).map(|step| Duration::from_millis(step * 50)) {
        let recorder = start(&folder, &["--", "sleep", "20"]);
        sleep(pause);
        let since = Instant::now();
        send(&recorder, libc::SIGTERM);
        let group = recorder.id();
        let output = recorder.wait_with_output().expect("its end");
        // Before wakepath watches for signals, the signal ends it; from then on its code is the command's.
        let ended = output.status.signal() == Some(15) || output.status.code() == Some(128 + 15);
        assert!(ended, "after {pause:?}: {:?} {}", output.status, said(&output));
        assert!(since.elapsed() < Duration::from_secs(10), "after {pause:?} it took {:?}", since.elapsed());
        until("the command stayed behind", || is_group_gone(group));
    }
}
