//! The names of scripts in a live recording, and no other word of any command line.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use wakepath_harness::live::{document, list, place, program, record};

const SECRET: &str = "xyzzy-SECRET";

/// Stands for an interpreter: its file's name decides, not what it does.
const SLEEPS: &str = "#include <unistd.h>\nint main(void) { return usleep(100000); }";

/// Whether any file below has these bytes.
fn holds(folder: &Path, bytes: &[u8]) -> bool {
    fs::read_dir(folder).expect("a folder").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return holds(&path, bytes);
        }
        fs::read(&path).expect("a file").windows(bytes.len()).any(|part| part == bytes)
    })
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).expect("room");
    fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).expect("its owner");
}

/// Each name with its script in a path's waits and segments; without a script in an empty one.
fn names(path: &Value) -> BTreeSet<(String, String)> {
    let both = list(&path["waits"]).iter().chain(list(&path["segments"]));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    both.map(|one| (text(&one["comm"]), text(&one["script"]))).collect()
}

#[test]
fn scripts_are_named_and_no_other_word_of_a_command_line_is_in_any_byte_of_a_recording() {
    let Some(folder) = place("a recording holds no password of a command line") else { return };
    for name in ["python3", "java", "mysql", "perl"] {
        program(&folder, name, SLEEPS, &[]);
    }
    write(&folder, "mon.sh", "#!/bin/sh -e\nsleep 0.1; sleep 0.1\n");
    let path = format!("/lib/{SECRET}.jar:").repeat(100);
    let run = format!(
        "./python3 -u -W {SECRET} /opt/{SECRET}/h.py --token {SECRET}
        ./python3 -c {SECRET}
        ./python3 --unknown {SECRET} x.py
        ./java -Dpassword={SECRET} -cp {SECRET} M {SECRET}
        ./java -Dpassword={SECRET} -jar /opt/shop.jar
        ./java -cp {path} com.shop.Long
        ./mysql -p{SECRET}
        ./perl -lane {SECRET}
        ./mon.sh {SECRET}
        bash -c 'sleep 0.1; true {SECRET}'
        exec ./python3 -m last {SECRET}"
    );
    fs::write(folder.join("run.sh"), run).expect("room");
    let (_, screen) = record(&folder, &["--", "sh", "run.sh"], 0);
    assert!(screen.starts_with("python3 last took "), "{screen}");
    let recording = folder.join("wakepath.rec");
    assert!(!holds(&recording, SECRET.as_bytes()), "a word is in the recording");
    assert!(holds(&recording, b"shop.jar"), "the search finds the names that are there");
    let path = document(&folder, &["path"]);
    // A record that the writer refuses counts as lost. Switches without a record are no such loss.
    let lost = list(&path["losses"]).iter().filter(|loss| loss["reported"] == true);
    assert_eq!(lost.collect::<Vec<_>>(), Vec::<&Value>::new());
    let names = names(&path);
    let expect = |name: &str, script: &str| {
        assert!(names.contains(&(name.to_owned(), script.to_owned())), "{name} {script}: {names:?}");
    };
    for script in ["h.py", "", "last"] {
        expect("python3", script);
    }
    for (name, script) in [
        ("sh", "run.sh"),
        ("java", "M"),
        ("java", "shop.jar"),
        ("java", "com.shop.Long"),
        ("mon.sh", "mon.sh"),
    ] {
        expect(name, script);
    }
    let scripts = |wanted: &str| {
        let of_name = names.iter().filter(|(name, _)| name == wanted);
        of_name.map(|(_, script)| script.as_str()).collect::<Vec<_>>()
    };
    for name in ["mysql", "perl", "sleep"] {
        assert_eq!(scripts(name), [""], "{name}");
    }
}

#[test]
fn a_process_that_ran_before_is_named_too() {
    let Some(folder) = place("scripts that ran before the recording are named") else { return };
    program(&folder, "python3", "#include <unistd.h>\nint main(void) { while (1) usleep(10000); }", &[]);
    let mut command = Command::new(folder.join("python3"));
    let mut earlier = command.args(["-W", SECRET, "/opt/old.py", SECRET]).spawn().expect("a program");
    std::thread::sleep(Duration::from_millis(300));
    let pid = earlier.id().to_string();
    record(&folder, &["-p", &pid, "-d", "0.5"], 0);
    let path = document(&folder, &["path", "--pid", &pid]);
    earlier.kill().expect("a process");
    earlier.wait().expect("its end");
    assert_eq!(path["window"]["script"], "old.py");
    assert!(!holds(&folder.join("wakepath.rec"), SECRET.as_bytes()));
}

#[test]
fn the_headline_names_the_way_to_the_last_process() {
    let Some(folder) = place("the chain of a wait is named") else { return };
    write(&folder, "mon.sh", "#!/bin/sh\nsleep 0.6\ntrue\n");
    write(&folder, "asked.sh", "x=$(./mon.sh)\ntrue\n");
    let (_, screen) = record(&folder, &["--", "sh", "asked.sh"], 0);
    let text = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    let path = document(&folder, &["path"]);
    let through = &path["headline"]["through"];
    let [link] = list(&through["threads"]) else { panic!("{through}") };
    assert_eq!((&link["comm"], &link["script"]), (&"mon.sh".into(), &"mon.sh".into()));
    assert_eq!(through["more"], 0);
    let expected = format!("measured), through mon.sh ({})", link["pid"]);
    assert!(text.starts_with("sh asked.sh took ") && text.contains(&expected), "{expected}: {screen}");
    // A direct wait goes through nothing.
    write(&folder, "direct.sh", "sleep 0.4\ntrue\n");
    let (_, screen) = record(&folder, &["--", "sh", "direct.sh"], 0);
    assert!(!screen.split("\n2").next().expect("a sentence").contains("through"), "{screen}");
    assert_eq!(document(&folder, &["path"])["headline"].get("through"), None);
}

#[test]
fn a_loop_says_what_ran_between_its_sleeps() {
    let Some(folder) = place("what a script polls with is named") else { return };
    write(&folder, "wait.sh", "for i in 1 2 3 4 5 6; do test -e ready || env false; sleep 0.2; done\ntrue\n");
    // The twin: as many sleeps, and nothing between them; programs run before and behind them.
    write(
        &folder,
        "idle.sh",
        "for i in 1 2 3 4 5 6; do env false; done\nfor i in 1 2 3 4 5 6; do sleep 0.2; done\nenv false\n",
    );
    for (script, between) in [("wait.sh", json!(["false"])), ("idle.sh", json!([]))] {
        let (_, screen) = record(&folder, &["--", "sh", script], i32::from(script == "idle.sh"));
        let path = document(&folder, &["path"]);
        let row = list(&path["rows"]).iter().find(|row| row["code"] == "timer").unwrap_or(&Value::Null);
        assert_eq!(row["between"], between, "{script}: {screen}");
        let sentence = screen.split("\n2").next().expect("a sentence").replace('\n', " ");
        let says = "sleeping until a timer between runs of false";
        assert_eq!(sentence.contains(says), script == "wait.sh", "{screen}");
        assert!(sentence.contains("sleeping until a timer"), "{screen}");
    }
}

#[test]
fn command_lines_are_recorded_only_where_they_were_asked_for_and_only_the_callers_own() {
    const CALLER: &str = "54322";
    let Some(folder) = place("--arguments records the caller's own command lines alone") else { return };
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("its mode");
    for name in ["own", "roots", "raised"] {
        program(&folder, name, SLEEPS, &[]);
    }
    fs::set_permissions(folder.join("raised"), fs::Permissions::from_mode(0o4755)).expect("its mode");
    fs::write(
        folder.join("run.sh"),
        format!("./own {SECRET}-own; ./raised {SECRET}-raised; (./own {SECRET}-deep)"),
    )
    .expect("room");
    for (option, is_kept) in [(None, false), (Some("--arguments"), true)] {
        // Another user's process starts all the time.
        let others = format!("while [ ! -e done ]; do ./roots {SECRET}-roots; done");
        let mut others =
            Command::new("sh").args(["-c", &others]).current_dir(&folder).spawn().expect("a shell");
        let arguments = ["record"].into_iter().chain(option).chain(["--", "sh", "run.sh"]);
        let mut sudo = wakepath_harness::live::command(&folder, &arguments.collect::<Vec<_>>());
        sudo.env("SUDO_UID", CALLER).env("SUDO_GID", CALLER).env("SUDO_USER", "made-up");
        let output = sudo.output().expect("wakepath");
        fs::write(folder.join("done"), "").expect("room");
        others.wait().expect("its end");
        fs::remove_file(folder.join("done")).expect("it is there");
        assert!(output.status.success(), "{output:?}");
        let recording = folder.join("wakepath.rec");
        let kept = |word: &str| holds(&recording, format!("{SECRET}-{word}").as_bytes());
        assert_eq!([kept("own"), kept("deep")], [is_kept; 2], "{option:?}");
        assert_eq!([kept("raised"), kept("roots")], [false; 2], "{option:?}");
        let info = document(&folder, &["info"]);
        let lines = list(&info["command_lines"]).iter().map(|line| line["words"].clone()).collect::<Vec<_>>();
        let own = |word: &str| json!(["./own", format!("{SECRET}-{word}")]);
        let expected = [json!(["sh", "run.sh"]), own("own"), own("deep")];
        assert_eq!(lines, if is_kept { &expected[..] } else { &[] }, "{option:?}");
    }
}
