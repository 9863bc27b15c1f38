//! Two recordings at the same time in one folder: each answers for itself, and reports the other.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use wakepath_harness::live::{command, document, place, record, texts};

fn begin(folder: &Path, shell: &str) -> Child {
    let mut record = command(folder, &["record", "--json", "--", "sh", "-c", shell]);
    record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakepath")
}

fn wait_for(path: &Path) {
    for _ in 0..1000 {
        if path.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} does not appear", path.display());
}

/// The answer's command, and the lines on stderr.
fn ended(child: Child) -> (String, String) {
    let output = child.wait_with_output().expect("wakepath");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    let window = &answer["window"];
    (format!("{} {}", window["comm"].as_str().expect("a name"), window["pid"]), err)
}

/// Two recordings; the first to begin ends first, or last.
#[test]
fn each_of_two_recordings_answers_for_itself_and_says_that_there_was_another() {
    for first_ends_first in [true, false] {
        let Some(folder) = place("two recordings in one folder do not swap answers") else { return };
        let wait = |file: &str| {
            format!("echo $$ > pid.{file}; touch {file}; until [ -e {file}.end ]; do sleep 0.02; done")
        };
        let one = begin(&folder, &wait("one"));
        wait_for(&folder.join("one"));
        let two = begin(&folder, &wait("two"));
        wait_for(&folder.join("two"));
        // A third recording would delete the first, which is still being recorded.
        let (_, said) = record(&folder, &["--", "true"], 125);
        assert!(said.contains("wakepath.rec.old is still being recorded"), "{said}");

        let end = |name: &str| std::fs::write(folder.join(format!("{name}.end")), "").expect("a file");
        let pid = |name: &str| {
            let pid = std::fs::read_to_string(folder.join(format!("pid.{name}"))).expect("a number");
            format!("sh {}", pid.trim())
        };
        let (of_one, of_two) = if first_ends_first {
            end("one");
            let of_one = ended(one);
            end("two");
            (of_one, ended(two))
        } else {
            end("two");
            let of_two = ended(two);
            end("one");
            (ended(one), of_two)
        };
        assert_eq!((of_one.0, of_two.0), (pid("one"), pid("two")));
        let took_name = "another recording took the name ./wakepath.rec: this one is ./wakepath.rec.old";
        assert!(of_one.1.contains(took_name), "{}", of_one.1);
        let moved = "./wakepath.rec was still being recorded: it is now ./wakepath.rec.old";
        assert!(of_two.1.contains(moved), "{}", of_two.1);
        for (path, name) in [("wakepath.rec.old", "one"), ("wakepath.rec", "two")] {
            let window = &document(&folder, &["path", path])["window"];
            assert_eq!(format!("sh {}", window["pid"]), pid(name));
        }
        // Both have ended: the next recording moves one, deletes the other, and says nothing.
        let (_, said) = record(&folder, &["--", "true"], 0);
        assert!(!said.contains("recorded:") && !said.contains("took the name"), "{said}");
    }
}

/// No recording fails because another begins in the same moment, and none answers for another.
#[test]
fn recordings_that_begin_in_the_same_moment_do_not_take_each_others_files() {
    let Some(folder) = place("two recordings may begin at once") else { return };
    for round in 0..5 {
        let both = [0.3, 0.4].map(|seconds| begin(&folder, &format!("echo $$ >&2; sleep {seconds}")));
        for child in both {
            let (name, said) = ended(child);
            let pid = said.lines().next().expect("a number");
            assert_eq!(name, format!("sh {pid}"), "round {round}: {said}");
        }
    }
}
