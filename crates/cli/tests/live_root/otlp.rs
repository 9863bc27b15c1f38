//! `wakepath record --otlp`: a live program's spans are in the recording and in the user's own backend; unlisted
//! attribute values are not recorded; no sender costs a record or unbounded memory.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::{Span, TracesData};
use prost::Message as _;
use wakepath_event::RecordingFormat as _;
use wakepath_harness::live::{Beside, command, document, list, number, place, record, texts};
use wakepath_harness::spans::{GZIP, JSON, PROTOBUF, attribute, export, gzip, post, raw, request, span};
use wakepath_otlp::{Options, Receiver};
use wakepath_recording::Recording;

const SECRET: &str = "s3cretive";
const VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The longest delay on a busy machine for an action that is immediate on an idle machine.
const MAX_PATIENCE: Duration = Duration::from_secs(60);
/// Makes this program the sender.
const SENDS: &str = "WAKEPATH_TEST_SENDS";

/// A span with kept and dropped attributes.
fn traced(id: u8, name: &str) -> Span {
    let attributes = vec![attribute("http.route", "/cart"), attribute("db.statement", SECRET)];
    Span { attributes, trace_state: format!("a={SECRET}"), ..span(id, name) }
}

/// A small program with tracing, not a test: the command in the tests below.
#[test]
fn the_instrumented_program() {
    let Some(sends) = std::env::var_os(SENDS) else { return };
    let endpoint = std::env::var(VARIABLE).expect("where to send");
    let address: SocketAddr = endpoint.strip_prefix("http://").expect("a URL").parse().expect("an address");
    if sends == "much" {
        let batch = request("shop", (0..1000).map(|_| span(9, &"x".repeat(1000))).collect()).encode_to_vec();
        for _ in 0..6 {
            assert_eq!(post(address, "/v1/traces", &[PROTOBUF], &batch).status, 200);
        }
        return;
    }
    // One test's backend answers with an error, which does not concern this program.
    let _ = export(address, false, request("grpc", vec![traced(1, "a"), traced(2, "b")]));
    let _ = export(address, true, request("grpc", vec![traced(3, "c")]));
    post(
        address,
        "/v1/traces",
        &[PROTOBUF, GZIP],
        &gzip(&request("http", vec![traced(4, "d")]).encode_to_vec()),
    );
    let json = serde_json::json!({"resourceSpans": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "json"}},
            {"key": "process.command_line", "value": {"stringValue": SECRET}}]},
        "scopeSpans": [{"spans": [{"traceId": "05".repeat(16), "spanId": "05".repeat(8), "name": "e",
            "attributes": [{"key": "user.name", "value": {"stringValue": SECRET}}],
            "events": [{"name": SECRET}], "status": {"code": 2, "message": SECRET}}]}]
    }]});
    post(address, "/v1/traces", &[JSON], json.to_string().as_bytes());
    post(address, "/v1/metrics", &[PROTOBUF], b"");
    if sends == "and shows threads" {
        let tasks = format!("/proc/{}/task", std::os::unix::process::parent_id());
        for task in std::fs::read_dir(tasks).expect("the recorder's threads").flatten() {
            let stat = std::fs::read_to_string(task.path().join("stat")).expect("a thread");
            let (name, rest) = stat.rsplit_once(") ").expect("a name");
            let name = name.split_once('(').expect("a name").1;
            println!("thread {name} nice {}", rest.split(' ').nth(16).expect("a nice value"));
        }
    }
}

/// `wakepath record` with these options and this program as its command.
fn recorded(folder: &Path, options: &[&str], sends: &str) -> Command {
    let program = std::env::current_exe().expect("this program");
    let mut record = command(folder, &[&["record"], options, &["--"]].concat());
    record.arg(program).args(["--exact", "otlp::the_instrumented_program", "--nocapture"]);
    record.env(SENDS, sends).env_remove(VARIABLE).env_remove("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    record
}

/// The sorted span names in a recording, and the attributes of its resources and spans.
fn spans(recording: &Path) -> (Vec<String>, Vec<String>) {
    let mut frames =
        Recording::open(recording).expect("a recording").spans().expect("readable").expect("its spans");
    let (mut names, mut attributes) = (Vec::new(), Vec::new());
    for message in frames.by_ref() {
        for of_resource in TracesData::decode(&message[..]).expect("spans").resource_spans {
            attributes
                .extend(of_resource.resource.unwrap_or_default().attributes.into_iter().map(|it| it.key));
            for span in of_resource.scope_spans.into_iter().flat_map(|it| it.spans) {
                names.push(span.name);
                attributes.extend(span.attributes.into_iter().map(|it| it.key));
            }
        }
    }
    assert!(!frames.torn(), "{:?}", frames.end());
    names.sort();
    attributes.sort();
    attributes.dedup();
    (names, attributes)
}

/// Whether a file below a directory contains these bytes.
fn holds(folder: &Path, bytes: &[u8]) -> bool {
    let entries = std::fs::read_dir(folder).expect("a directory").flatten();
    entries.map(|entry| entry.path()).any(|path| {
        if path.is_dir() {
            return holds(&path, bytes);
        }
        std::fs::read(&path).expect("a file").windows(bytes.len()).any(|window| window == bytes)
    })
}

const ALL: [&str; 5] = ["a", "b", "c", "d", "e"];

#[test]
fn one_command_is_enough_for_an_instrumented_program() {
    let Some(folder) = place("spans of each protocol get into the recording") else { return };
    let output = recorded(&folder, &["--otlp", "0"], "and shows threads").output().expect("wakepath");
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let recording = folder.join("wakepath.rec");
    assert_eq!(
        spans(&recording),
        (ALL.map(str::to_owned).to_vec(), vec!["http.route".into(), "service.name".into()])
    );
    assert!(!holds(&folder, SECRET.as_bytes()), "no other attribute and no text is on the disk");
    assert!(err.contains("note: 5 spans of 3 services received on 127.0.0.1:"), "{err}");
    assert!(err.contains(&format!("the command got {VARIABLE}=http://127.0.0.1:")), "{err}");
    assert!(err.contains("1 request with metrics, logs or profiles was dropped"), "{err}");
    assert!(!err.contains("warning: no spans"), "{err}");
    let info = document(&folder, &["info"]);
    let file = recording.join("spans").metadata().expect("a file").len();
    assert_eq!(number(&info["recording"]["span_bytes"]), file);
    // After the recorder and the recorded program, by their priority.
    let nice = |name: &str| out.lines().find_map(|line| line.strip_prefix(&format!("thread {name} nice ")));
    assert_eq!((nice("otlp"), nice("spans")), (Some("10"), Some("10")), "{out}");
}

#[test]
fn the_list_of_attributes_can_be_widened() {
    let Some(folder) = place("an attribute that the user names is kept") else { return };
    let options = ["--otlp", "0", "--otlp-attribute", "db.statement", "--otlp-attribute", "user.*"];
    let output = recorded(&folder, &options, "spans").output().expect("wakepath");
    assert!(output.status.success(), "{:?}", texts(&output));
    let (_, attributes) = spans(&folder.join("wakepath.rec"));
    assert_eq!(attributes, ["db.statement", "http.route", "service.name", "user.name"]);
}

#[test]
fn a_command_that_knows_where_to_send_keeps_its_own_address() {
    let Some(folder) = place("no variable of the command is changed") else { return };
    for name in [VARIABLE, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
        let mut record = command(&folder, &["record", "--otlp", "0", "--", "sh", "-c"]);
        record
            .arg(format!("echo \"is ${VARIABLE} ${name}\""))
            .env_remove(VARIABLE)
            .env(name, "http://mine:1");
        let (out, err) = texts(&record.output().expect("wakepath"));
        let own = if name == VARIABLE { "http://mine:1" } else { "" };
        assert_eq!(out, format!("is {own} http://mine:1\n"), "{err}");
        assert!(
            err.contains("warning: no spans came to 127.0.0.1:") && !err.contains("the command got"),
            "{err}"
        );
        assert!(err.contains(&format!("after: export {VARIABLE}=http://127.0.0.1:")), "{err}");
    }
    // Without --otlp there is neither a variable nor a file.
    let mut record = command(&folder, &["record", "--", "sh", "-c"]);
    record.arg(format!("echo \"is ${VARIABLE}\"")).env_remove(VARIABLE);
    assert_eq!(texts(&record.output().expect("wakepath")).0, "is \n");
    assert!(!folder.join("wakepath.rec/spans").exists());
    assert_eq!(document(&folder, &["info"])["recording"]["span_bytes"], serde_json::Value::Null);
}

/// A backend: another receiver. Returns its address, and a function that stops it and returns its spans.
fn backend() -> (SocketAddr, impl FnOnce() -> Vec<u8>) {
    let options = Options {
        listen: "0".parse().expect("a port"),
        attributes: vec!["*".to_owned()],
        ..Options::default()
    };
    let receiver = Receiver::open(options).expect("a free port");
    let address = receiver.addresses()[0];
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&bytes);
    let sink = move |message: &[u8]| {
        kept.lock().expect("no panic").extend_from_slice(message);
        Ok(())
    };
    let running = receiver.start(Box::new(sink)).expect("threads");
    (address, move || {
        running.stop();
        std::mem::take(&mut bytes.lock().expect("no panic"))
    })
}

#[test]
fn a_backend_gets_everything_and_without_one_the_spans_are_recorded_all_the_same() {
    let Some(folder) = place("the user's own backend loses nothing") else { return };
    let (address, stop) = backend();
    let to = |address: SocketAddr| format!("http://{address}");
    let url = to(address);
    let output =
        recorded(&folder, &["--otlp", "0", "--otlp-forward", &url], "spans").output().expect("wakepath");
    let (_, err) = texts(&output);
    assert!(err.contains(&format!("note: 5 requests sent on to {url}\n")), "{err}");
    let came = String::from_utf8_lossy(&stop()).into_owned();
    // Includes unrecorded values: the statements of four spans, the user's name, and the command line.
    assert_eq!(came.matches(SECRET).count(), 6, "{came:?}");
    assert_eq!(spans(&folder.join("wakepath.rec")).0, ALL);
    assert!(!holds(&folder, SECRET.as_bytes()));

    let output =
        recorded(&folder, &["--otlp", "0", "--otlp-forward", &url], "spans").output().expect("wakepath");
    let (_, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    assert!(
        err.contains(&format!("warning: 5 requests were not sent on to {url}: Connection refused")),
        "{err}"
    );
    assert_eq!(spans(&folder.join("wakepath.rec")).0, ALL);
}

#[test]
fn an_address_in_use_ends_the_recording_before_its_beginning() {
    let Some(folder) = place("a port in use is named") else { return };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let held = std::net::TcpListener::bind(taken).expect("it");
    let port = taken.port().to_string();
    for (arguments, code) in
        [(&["--otlp", &port, "--", "touch", "ran"][..], 125), (&["--otlp", &port, "-a"], 2)]
    {
        let (_, err) = record(&folder, arguments, code);
        assert!(
            err.contains(&format!("error: cannot receive spans on {taken}: another program listens there")),
            "{err}"
        );
        assert!(
            err.contains(&format!(
                "hint: --otlp PORT chooses another port; with --otlp-forward http://{taken}"
            )),
            "{err}"
        );
    }
    drop(held);
    let url = format!("http://{taken}");
    let (_, err) = record(&folder, &["--otlp", &port, "--otlp-forward", &url, "--", "true"], 125);
    assert!(err.contains("that is this receiver"), "{err}");
    for wrong in [
        &["--otlp", "x", "-a"][..],
        &["--otlp", "0", "--otlp-forward", "https://h", "-a"],
        &["--otlp-attribute", "a", "-a"],
    ] {
        record(&folder, wrong, 2);
    }
    assert_eq!(
        std::fs::read_dir(&*folder).expect("the folder").count(),
        0,
        "nothing ran and nothing was written"
    );
}

#[test]
fn spans_beyond_a_quarter_of_the_size_are_refused_and_the_recording_goes_on() {
    let Some(folder) = place("spans leave room for the events of the kernel") else { return };
    let output = recorded(&folder, &["--otlp", "0", "--max-size", "16M"], "much").output().expect("wakepath");
    let (_, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    assert!(
        err.contains("not written: the spans have reached a quarter of the recording's largest size"),
        "{err}"
    );
    assert!(!err.contains("recording ended early"), "{err}");
    let file = folder.join("wakepath.rec/spans").metadata().expect("a file").len();
    assert!((3 << 20..=4 << 20).contains(&file), "{file}");
    assert_eq!(spans(&folder.join("wakepath.rec")).0.len(), 3000);
}

/// A recorder for the whole machine, and its address for spans. On a busy machine senders are slow, so the test itself ends
/// the recording.
fn recorder(folder: &Path) -> (Beside, SocketAddr) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    // Without stacks, whose tables take memory as well.
    let arguments = ["record", "--path-only", "-a", "-d", "600", "--otlp", &port.port().to_string()];
    let recorder =
        command(folder, &arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("wakepath");
    let recorder = Beside(recorder);
    let began = Instant::now();
    let body = request("shop", vec![span(1, "first")]).encode_to_vec();
    while std::net::TcpStream::connect(port).is_err() {
        assert!(began.elapsed() < MAX_PATIENCE, "it listens");
        std::thread::sleep(Duration::from_millis(50));
    }
    takes(port, &body);
    (recorder, port)
}

/// Sends a request until it is accepted, as an exporter does: while others are served, it may be refused.
fn takes(address: SocketAddr, body: &[u8]) {
    let began = Instant::now();
    while post(address, "/v1/traces", &[PROTOBUF], body).status != 200 {
        assert!(began.elapsed() < MAX_PATIENCE, "it receives");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The largest memory of a process so far, bytes.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn a_recording_of_processes_with_spans_ends_with_the_requests() {
    let Some(folder) = place("the answer to a recording with spans is about requests") else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let own = std::process::id().to_string();
    let ends = |sends: bool| {
        let arguments = ["record", "-p", &own, "-d", "3", "--otlp", &port.port().to_string()];
        let recorder = command(&folder, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let recorder = recorder.expect("wakepath");
        if sends {
            let began = Instant::now();
            while std::net::TcpStream::connect(port).is_err() {
                assert!(began.elapsed() < MAX_PATIENCE, "it listens");
                std::thread::sleep(Duration::from_millis(20));
            }
            takes(port, &request("shop", vec![span(1, "GET /cart")]).encode_to_vec());
        }
        texts(&recorder.wait_with_output().expect("its answer")).0
    };
    let out = ends(true);
    assert!(out.starts_with("1 request of 1 operation") && out.contains("shop GET /cart"), "{out}");
    // Without spans it is about the threads.
    let out = ends(false);
    assert!(!out.contains("operation") && out.contains("threads"), "{out}");
}

#[test]
fn floods_garbage_and_bombs_cost_no_record_and_a_bounded_part_of_memory() {
    /// The bound in docs/security.md: a little above the largest of four measurements, 141 MiB.
    const MAX_RECEIVER_BYTES: u64 = 160 << 20;
    let Some(folder) = place("the receiver is bounded") else { return };
    let (mut recorder, address) = recorder(&folder);
    let before = peak_memory(recorder.0.id());
    let json_of_spans =
        format!("{{\"resourceSpans\":[{{\"scopeSpans\":[{{\"spans\":[{}{{}}]}}]}}]}}", "{},".repeat(131_000));
    let empty_spans = [0x12_u8, 0].repeat((4 << 20) / 2 - 10);
    let bomb = gzip(&vec![b'{'; 64 << 20]);
    let batch = request("shop", (0..200).map(|_| span(1, &"x".repeat(1000))).collect()).encode_to_vec();
    let head = "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: 4194304\r\nconnection: close\r\n\r\n";
    let endless = [head.as_bytes(), &vec![0; (4 << 20) - 1]].concat();
    let until = Instant::now() + Duration::from_secs(12);
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| raw(address, &endless));
        }
        for (headers, body) in [
            (&[JSON][..], json_of_spans.as_bytes()),
            (&[PROTOBUF], &empty_spans[..]),
            (&[JSON, GZIP], &bomb),
            (&[PROTOBUF], &batch),
            (&[PROTOBUF], &batch),
            (&[PROTOBUF], b"garbage"),
        ] {
            scope.spawn(move || {
                while Instant::now() < until {
                    post(address, "/v1/traces", headers, body);
                }
            });
        }
    });
    let grown = peak_memory(recorder.0.id()) - before;
    let body = request("shop", vec![span(2, "last")]).encode_to_vec();
    // The recorder still serves others.
    takes(address, &body);
    // SAFETY: sends a signal to a process that this process has not waited for.
    assert_eq!(unsafe { libc::kill(recorder.0.id() as i32, libc::SIGINT) }, 0);
    assert!(recorder.0.wait().expect("its end").success());
    // Includes the memory in which the recorder's own packets wait for the disk.
    assert!(grown < MAX_RECEIVER_BYTES, "{} MiB", grown >> 20);
    let info = document(&folder, &["info"]);
    // Count only losses in buffers. If an interrupt meets the same tracepoint while a program runs there, the kernel skips it: a
    // loss without a CPU, whatever memory and time the receiver takes. The flood makes many interrupts.
    let of_buffer = |loss: &&serde_json::Value| loss["reported"] == true && !loss["cpu"].is_null();
    let losses: Vec<_> = list(&info["losses"]).iter().filter(of_buffer).collect();
    assert!(losses.is_empty() && number(&info["recording"]["discarded"]) == 0, "{losses:?}");
    let (names, _) = spans(&folder.join("wakepath.rec"));
    assert!(names.iter().any(|name| name == "last") && names.len() > 200);
    eprintln!("memory grew by {} MiB", grown >> 20);
}

#[test]
fn a_recorder_that_is_killed_leaves_the_spans_that_it_accepted() {
    let Some(folder) = place("spans survive the recorder") else { return };
    let (mut recorder, address) = recorder(&folder);
    let body = request("shop", vec![span(2, "second")]).encode_to_vec();
    assert_eq!(post(address, "/v1/traces", &[PROTOBUF], &body).status, 200);
    std::thread::sleep(Duration::from_millis(300));
    recorder.0.kill().and_then(|()| recorder.0.wait()).expect("its end");
    let (names, _) = spans(&folder.join("wakepath.rec"));
    assert!(names.contains(&"second".to_owned()), "{names:?}");
}
