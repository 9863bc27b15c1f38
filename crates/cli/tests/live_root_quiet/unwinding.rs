//! Stacks by the files' tables: the callers of functions without a frame pointer are the planted ones, and no function
//! is named that was never there.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wakepath_harness::live::{
    document, list, not_possible, number, path, place, place_alone, program, record,
};

/// The program's own functions in each stack of waits in `call`, innermost first, each chain with its number of waits.
/// An unproved frame has a question mark.
fn chains(document: &Value, call: &str, file: &str) -> BTreeMap<String, u64> {
    let mut chains = BTreeMap::new();
    for wait in list(&document["waits"]).iter().chain(list(&document["segments"])) {
        if wait["call"] != call || wait["stack"].is_null() {
            continue;
        }
        let proved = number(&wait["stack_proved"]) as usize;
        let frames = list(&wait["stack"]).iter().enumerate().filter_map(|(n, frame)| {
            let (function, rest) = frame.as_str()?.split_once(' ')?;
            let mark = if n < proved { "" } else { "?" };
            rest.contains(file).then(|| format!("{function}{mark}"))
        });
        *chains.entry(frames.collect::<Vec<_>>().join(" ")).or_default() += 1;
    }
    chains
}

/// The number of switches that the kernel left unrecorded: a wait ended by such a switch is unknown.
fn unrecorded(folder: &Path) -> u64 {
    let info = document(folder, &["info"]);
    list(&info["losses"]).iter().filter(|loss| loss["reported"] == false).count() as u64
}

/// Checks that at least `least` waits have this chain, and that the proved part of the others is its beginning.
fn is_chain(found: &BTreeMap<String, u64>, expected: &str, least: u64) {
    assert!(found.get(expected).is_some_and(|&count| count >= least), "{expected}: {found:#?}");
    // If the process was not inspected in time, a guess remains, marked as such.
    for chain in found.keys() {
        let proved = chain.split(' ').take_while(|frame| !frame.ends_with('?'));
        assert!(proved.zip(expected.split(' ')).all(|(frame, expected)| frame == expected), "{found:#?}");
    }
}

/// A library whose function waits in a frame with a given size.
const LIBRARY: &str = "
    #include <time.h>
    void wait_in_library(void)
    {
        volatile char room[ROOM];
        struct timespec time = { 0, 1000000 };
        room[0] = 1;
        nanosleep(&time, 0);
        room[1] = 2;
    }
";

/// Loads successive libraries, and waits in each.
const LOADS: &str = "
    #include <dlfcn.h>
    #include <stdlib.h>
    #include <unistd.h>
    __attribute__((noinline)) static void call_it(void (*wait)(void))
    {
        volatile char room[64];
        room[0] = 1;
        wait();
        room[1] = 2;
    }
    int main(int argc, char **argv)
    {
        void *first = 0;

        for (int i = 1; i < argc; i++) {
            void *library = dlopen(argv[i], RTLD_NOW), *wait = library ? dlsym(library, \"wait_in_library\") : 0;
            if (!first)
                first = wait;
            /* Each takes the place of the one before. */
            if (!wait || wait != first)
                abort();
            /* The recorder looks at what was mapped ten times a second. */
            usleep(300000);
            for (int n = 0; n < 40; n++)
                call_it(wait);
            dlclose(library);
        }
        usleep(500000);
        return 0;
    }
";

#[test]
fn functions_without_frame_pointers_are_the_planted_chain() {
    let Some(folder) = place("callers are found by the tables of the files") else { return };
    // With the tables in a file that lists them, and in a file that does not.
    for more in [&[][..], &["-Wl,--no-eh-frame-hdr"], &["-static-pie"]] {
        let options = ["-g", "-O2", "-fomit-frame-pointer"];
        program(&folder, "chain", include_str!("unwinding/chain.c"), &[&options[..], more].concat());
        for (how, call) in [("sleep", "clock_nanosleep"), ("recv", "recvfrom"), ("read", "read")] {
            record(&folder, &["--stacks", "--", "./chain", how], 0);
            let document = path(&folder);
            let mut found = chains(&document, call, "(chain) chain.c");
            // The last sleep.
            found.remove("main");
            is_chain(&found, "wait_here inner middle outer main", 55_u64.saturating_sub(unrecorded(&folder)));
        }
    }
}

#[test]
fn by_frame_pointers_no_memory_is_copied_and_callers_are_a_guess() {
    let Some(folder) = place("with --frame-pointers nothing is copied") else { return };
    program(&folder, "chain", include_str!("unwinding/chain.c"), &["-g", "-O2", "-fomit-frame-pointer"]);
    record(&folder, &["--stacks", "--frame-pointers", "--", "./chain", "sleep"], 0);
    let info = document(&folder, &["info"]);
    let count = |key: &str| number(&info["frames"][key]);
    assert_eq!((count("copied"), count("unwound_ns")), (0, 0), "{info}");
    assert!(info["events"]["stack_later"].is_null() && number(&info["stacks"]["repeated"]) > 0, "{info}");
    let found = chains(&path(&folder), "clock_nanosleep", "(chain) chain.c");
    assert!(!found.contains_key("wait_here inner middle outer main"), "{found:#?}");
    // The innermost function is the thread's place in the C library; nothing of the program is proved.
    assert!(found.values().sum::<u64>() >= 50, "{found:#?}");
    assert!(
        found.keys().flat_map(|chain| chain.split_whitespace()).all(|frame| frame.ends_with('?')),
        "{found:#?}"
    );
}

#[test]
fn code_that_takes_the_place_of_other_code_is_walked_by_its_own_table() {
    let Some(folder) = place("libraries that take each other's place are walked by their own tables") else {
        return;
    };
    // The same code with another frame size.
    for (name, room) in [("one.so", "200"), ("two.so", "400")] {
        let size = format!("-DROOM={room}");
        program(&folder, name, LIBRARY, &["-O2", "-fomit-frame-pointer", "-shared", "-fPIC", &size]);
    }
    program(&folder, "loads", LOADS, &["-g", "-O2", "-fomit-frame-pointer", "-ldl"]);
    record(&folder, &["--stacks", "--", "./loads", "./one.so", "./two.so", "./one.so"], 0);
    let found = chains(&path(&folder), "clock_nanosleep", "(loads) loads.c");
    // All waits except main's own pauses come through a library; a walk by the other library's table leads nowhere.
    assert!(found.keys().all(|chain| matches!(chain.as_str(), "call_it main" | "main")), "{found:#?}");
    let least = 120_u64.saturating_sub(unrecorded(&folder) + 6);
    assert!(found.get("call_it main").is_some_and(|&waits| waits >= least), "{found:#?}");
}

#[test]
fn a_stack_longer_than_what_is_copied_is_walked_to_its_end() {
    let Some(folder) = place("long stacks are walked to their end") else { return };
    program(&folder, "chain", include_str!("unwinding/chain.c"), &["-g", "-O2", "-fomit-frame-pointer"]);
    record(&folder, &["--stacks", "--", "./chain", "deep", "600"], 0);
    let mut found = chains(&path(&folder), "clock_nanosleep", "(chain) chain.c");
    // The last sleep.
    found.remove("main");
    let deep = format!("wait_here inner middle outer {}main", "deep ".repeat(41));
    is_chain(&found, &deep, 200_u64.saturating_sub(unrecorded(&folder)));
}

#[test]
fn a_recv_of_python_is_charged_to_the_function_that_calls_it() {
    let Some(folder) = place("waits in Python's libraries are charged to the functions that wait") else {
        return;
    };
    std::fs::write(folder.join("waits.py"), include_str!("unwinding/waits.py")).expect("a file");
    if Command::new("python3").arg("--version").output().is_err() {
        return not_possible("no python3 here", "waits of Python are charged to the functions that wait");
    }
    record(&folder, &["--stacks", "--", "python3", "waits.py"], 0);
    let document = path(&folder);
    let waits: Vec<&Value> =
        list(&document["waits"]).iter().filter(|wait| wait["call"] == "recvfrom").collect();
    let mut proved = 0;
    for wait in &waits {
        let frames: Vec<&str> = list(&wait["stack"]).iter().filter_map(Value::as_str).collect();
        let known = number(&wait["stack_proved"]) as usize;
        // From the C library's recv to the program's first function, without a gap.
        if known == frames.len() && frames.last().is_some_and(|last| last.starts_with("_start ")) {
            proved += 1;
        }
        assert!(!frames[..known].iter().any(|frame| frame.starts_with("_PyType_Lookup")), "{frames:?}");
    }
    assert!(waits.len() >= 150 && proved * 10 >= waits.len() * 9, "{proved} of {} are proved", waits.len());
}

/// The callers of a leaf in a Go program's samples, each with whether it is proved, and the number of samples; `None` without Go.
fn callers_of_a_leaf(folder: &Path) -> Option<BTreeMap<(String, bool), u64>> {
    let Some(program) = go_program(folder) else {
        not_possible("no Go here", "samples in a leaf of a Go program name its caller");
        return None;
    };
    record(folder, &["--", &program], 0);
    let document = path(folder);
    let mut callers = BTreeMap::new();
    for place in list(&document["samples"]).iter().flat_map(|thread| list(&thread["places"])) {
        if place["function"] == "main.innerLoop" {
            let caller = &place["caller"];
            let function = caller["function"].as_str().unwrap_or("none").to_owned();
            *callers.entry((function, caller["proved"] == true)).or_default() += number(&place["count"]);
        }
    }
    Some(callers)
}

#[test]
fn a_proved_caller_of_a_leaf_of_a_go_program_is_its_caller() {
    let Some(folder) = place("what is proved of samples in a leaf is right") else { return };
    let Some(callers) = callers_of_a_leaf(&folder) else { return };
    assert!(callers.values().sum::<u64>() > 0, "{callers:?}");
    for (caller, is_proved) in callers.keys() {
        assert!(!is_proved || caller == "main.outerLoop", "{callers:?}");
    }
}

#[test]
fn the_caller_of_a_leaf_is_not_skipped_in_the_samples_of_a_go_program() {
    let Some(folder) = place_alone("samples in a leaf name its caller") else { return };
    let Some(callers) = callers_of_a_leaf(&folder) else { return };
    let right = callers.get(&("main.outerLoop".to_owned(), true)).copied().unwrap_or(0);
    let all: u64 = callers.values().sum();
    assert!(right >= 10 && right * 20 >= all * 19, "{callers:?}");
}

/// Builds `loops.go`; `None` without Go.
fn go_program(folder: &Path) -> Option<String> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live_root_quiet/unwinding/loops.go");
    let program = folder.join("loops");
    let go = ["go", "/usr/local/go/bin/go"]
        .into_iter()
        .find(|go| Command::new(go).arg("version").output().is_ok())?;
    let mut compiler = Command::new(go);
    compiler.args(["build", "-o"]).arg(&program).arg(source);
    compiler.envs([("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("GOFLAGS", "")]);
    if std::env::var_os("HOME").is_none() && std::env::var_os("GOCACHE").is_none() {
        compiler.env("GOCACHE", folder.join("cache"));
    }
    assert!(compiler.status().expect("go").success(), "loops.go does not build");
    Some(program.to_str().expect("a path").to_owned())
}

#[test]
fn the_share_of_proved_frames_and_the_time_of_a_stack_are_shown() {
    let Some(folder) = place("the cost of stacks is shown") else { return };
    program(&folder, "chain", include_str!("unwinding/chain.c"), &["-g", "-O2", "-fomit-frame-pointer"]);
    record(&folder, &["--stacks", "--", "./chain", "sleep"], 0);
    let info = document(&folder, &["info"]);
    let [frames, proved] = ["of_stacks", "of_stacks_proved"].map(|key| number(&info["frames"][key]));
    assert!(proved <= frames && proved * 2 > frames, "{info}");
    for key in ["taken_ns", "copied", "unwound_ns"] {
        assert!(number(&info["frames"][key]) > 0, "{key}: {info}");
    }
    let text = wakepath_harness::live::run(&folder, &["info"], 0).0;
    assert!(text.contains("of those of waits") && text.contains("ns to read a stack"), "{text}");
}
