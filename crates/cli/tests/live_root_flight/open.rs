//! A span triggers while it is open, by its thread's memory, before any span arrives.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use wakepath_harness::live::{Beside, document, list, number, place};

use crate::recorder::{Recorder, window};

fn compile(to: &Path) {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-std=gnu11", "-pthread", "-Wl,--export-dynamic-symbol=otel_thread_ctx_v1"]);
    compiler.arg("-I").arg(tree.join("../../plugins/c")).arg("-o").arg(to);
    compiler.arg(tree.join("tests/live_root_flight/open_span.c"));
    assert!(compiler.status().expect("a C compiler").success(), "open_span.c does not build");
}

#[test]
fn a_thread_that_works_for_one_span_too_long_triggers_while_it_does() {
    let Some(folder) = place("a span that goes on keeps its window") else { return };
    let program = folder.join("serves");
    compile(&program);
    let options =
        ["--flight", "5s", "--flight-after", "1s", "--flight-rest", "1s", "--trigger-open", "400ms"];
    let mut recorder = Recorder::start(&folder, &folder.join("flight"), &options);
    let mut command = Command::new(&program);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program");
    let mut input = process.stdin.take().expect("its input");
    let mut output = BufReader::new(process.stdout.take().expect("its output"));
    let _process = Beside(process);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(recorder.kept().len(), 0, "short spans trigger nothing: {}", recorder.said());
    for nth in 1..=2 {
        input.write_all(b"slow\n").expect("the program");
        let mut line = String::new();
        output.read_line(&mut line).expect("text");
        let words: Vec<u64> =
            line.split_whitespace().skip(1).map(|word| word.parse().expect("a number")).collect();
        let [tid, from, to] = words[..] else { panic!("{line}") };
        let (said, kept) = recorder.nth(nth);
        assert!(said.contains(&format!("serves ({tid}) works for one span for more than 400 ms")), "{said}");
        assert!(kept.to_string_lossy().ends_with("-open"), "{said}");
        let (begin, end) = window(&kept);
        assert!(begin <= from && to <= end, "{begin}..{end} has not all of {from}..{to}");
        // The window ends a second after the trigger, which came before the span ended, and not before its time.
        let came = end - 1_000_000_000;
        assert!(
            (from + 400_000_000..to).contains(&came),
            "it triggered {} ms behind the beginning",
            (came - from) / 1_000_000
        );
        let tid = tid.to_string();
        let kept = kept.to_str().expect("a path").to_owned();
        let document = document(&folder, &["path", &kept, "--tid", &tid]);
        let of_timer = list(&document["segments"]).iter().filter(|segment| segment["kind"] == "timer");
        let longest = of_timer.map(|segment| number(&segment["to_ns"]) - number(&segment["from_ns"])).max();
        assert!(longest.is_some_and(|ns| ns >= 690_000_000), "the wait is in it: {longest:?}");
        std::thread::sleep(Duration::from_millis(1200));
    }
    assert_eq!(recorder.kept().len(), 2, "each once: {:?}", recorder.kept());
    recorder.stop();
}
