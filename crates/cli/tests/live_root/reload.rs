//! A thread's span in the word of a library that was unloaded and loaded again, also in another program executed by the same process: the
//! word then has another address.

use std::path::Path;
use std::process::Command;

use wakepath_event::{EventKind, EventSource, RecordingFormat, ThreadContext};
use wakepath_harness::live::{not_possible, place, record};
use wakepath_recording::Recording;

#[test]
fn a_library_that_is_loaded_again_is_read_where_it_is_then_also_in_the_next_program() {
    let shows = "contexts are read where a library is loaded again";
    let Some(folder) = place(shows) else { return };
    if Command::new("cc").arg("--version").output().is_err() {
        not_possible("no C compiler is here", shows);
        return;
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compile = |options: &[&str]| {
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror"]);
        compile.arg("-I").arg(tests.join("../../plugins/c")).args(options);
        compile.arg(tests.join("tests/live_root/reload/reload.c"));
        assert!(compile.current_dir(&folder).status().expect("a C compiler").success(), "{options:?}");
    };
    let library = ["-shared", "-fPIC", "-mtls-dialect=gnu", "-o"];
    compile(&[&library[..], &["word.so", "-DWORD_ONLY"]].concat());
    compile(&[&library[..], &["other.so", "-DOTHER_ONLY", "-fvisibility=hidden"]].concat());
    compile(&["-o", "reload"]);
    let paths = ["reload", "word.so", "other.so"].map(|name| folder.join(name));
    let [program, library, other] = paths.each_ref().map(|path| path.to_str().expect("UTF-8"));
    let (out, _) = record(&folder, &["--", program, library, other, "again"], 0);
    let times = |line: &str| {
        let times: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [from, to] = times[..] else { panic!("{line}") };
        from..to
    };
    let all: Vec<_> = out.lines().filter(|line| line.ends_with(" moved")).map(times).collect();
    assert_eq!(all.len(), 2, "it moved in both programs: {out}");

    let (mut context, mut read, mut wrong) = (None, [0; 2], Vec::new());
    let recording = Recording::open(&folder.join("wakepath.rec")).expect("a recording");
    let command = recording_command(&recording);
    let problems = recording.for_each(|event| {
        if event.current.0 != command {
            return;
        }
        match &event.kind {
            EventKind::ThreadContext(said) => context = Some(*said),
            EventKind::Switch { .. } => {
                let Some(program) = all.iter().position(|times| times.contains(&event.at.ns())) else {
                    return;
                };
                read[program] += 1;
                let second = ThreadContext::Span { trace: [2; 16], span: [2; 8], flags: 1 };
                if context != Some(second) {
                    wrong.push(context);
                }
            }
            _ => {}
        }
    });
    assert!(problems.is_empty(), "{problems:?}");
    assert!(read.iter().all(|&read| read >= 40), "{read:?}");
    assert!(wrong.is_empty(), "{} of {read:?} are wrong: {wrong:?}", wrong.len());
}

/// The process id of the command.
fn recording_command(recording: &Recording) -> u32 {
    let mut command = None;
    let problems = recording.for_each(|event| {
        if let EventKind::Mark(wakepath_event::Mark::Command { tgid, .. }) = event.kind {
            command = Some(tgid.0);
        }
    });
    assert!(problems.is_empty(), "{problems:?}");
    command.expect("the command")
}
