//! Traces from fake programs: whole, refused, late and endless answers.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;

use wakepath_recording::{Options, Writer, this_host};

use super::*;

const HEAD: &str = "HTTP/1.0 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n";
const TRACE: &str = "go 1.26 trace\0\0\0and so on";

/// A fake program's last act.
enum End {
    /// Closes the connection.
    Closes,
    /// Waits for the other side's end, and then says so.
    Waits,
}

/// A program that answers one request with these parts, a little time between them.
fn program(parts: &[&str], end: End) -> (GoTraceUrl, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = listener.local_addr().expect("an address").to_string().parse().expect("a place");
    let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a request");
        let mut asked = vec![0; 4096];
        let length = stream.read(&mut asked).expect("a request");
        for part in parts {
            // The other side may be gone.
            let _ = stream.write_all(part.as_bytes());
            std::thread::sleep(Duration::from_millis(20));
        }
        if matches!(end, End::Waits) {
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).expect("the other side's end");
            stream.write_all(b", and the end").expect("the other side still reads");
        }
        String::from_utf8_lossy(&asked[..length]).into_owned()
    });
    (url, thread)
}

fn file(folder: &Path, most_bytes: Option<u64>) -> GoTraceWriter {
    let options = Options { most_bytes, ..Options::new("test", "") };
    let writer = Writer::create(&folder.join("a.rec"), &this_host(), &options).expect("a recording");
    writer.go_trace(0).expect("a file")
}

/// Reads a program's trace for a while: the bytes, and the reason why they are not all.
fn read(parts: &[&str], end: End, most_bytes: Option<u64>) -> (String, Option<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (url, thread) = program(parts, end);
    let trace = match GoTrace::begin(url) {
        Ok(trace) => trace,
        Err(error) => return (String::new(), Some(format!("at once: {error}"))),
    };
    let reading = trace.read_into(file(folder.path(), most_bytes));
    std::thread::sleep(Duration::from_millis(200));
    let [one] = end_all(vec![reading]).try_into().expect("one");
    thread.join().expect("the program");
    let bytes = std::fs::read_to_string(folder.path().join("a.rec/go_trace_0")).expect("a file");
    assert_eq!(one.bytes, bytes.len() as u64);
    (bytes, one.failed.map(|failed| failed.to_string()))
}

#[test]
fn the_end_of_a_recording_ends_the_trace_and_its_last_bytes_still_come() {
    let expected = (format!("{TRACE}, and the end"), None);
    assert_eq!(read(&[HEAD, TRACE], End::Waits, None), expected);
    // However the answer is split, and if its first byte comes late: the program keeps them for a while.
    let whole = format!("{HEAD}{TRACE}");
    assert_eq!(read(&[&whole], End::Waits, None), expected);
    let parts: Vec<String> =
        whole.as_bytes().chunks(9).map(|part| String::from_utf8_lossy(part).into_owned()).collect();
    let parts: Vec<&str> = [&[""; 15][..], &parts.iter().map(String::as_str).collect::<Vec<_>>()].concat();
    assert_eq!(read(&parts, End::Waits, None), expected);
    assert_eq!(read(&[HEAD, TRACE], End::Closes, None), (TRACE.to_owned(), None), "the program ended");
}

#[test]
fn a_trace_whose_file_is_nearly_full_is_ended_while_there_is_room() {
    let long = format!("{TRACE}{}", "x".repeat(60));
    let (bytes, failed) = read(&[HEAD, &long], End::Waits, Some(8 * 110));
    assert_eq!((bytes, failed), (format!("{long}, and the end"), None));
    let (bytes, failed) = read(&[HEAD, &long, &long], End::Closes, Some(8 * 110));
    assert_eq!(bytes, long);
    assert!(failed.as_ref().is_some_and(|failed| failed.contains("its limit of 110 bytes")), "{failed:?}");
}

#[test]
fn the_request_is_one_that_go_answers_without_a_frame() {
    let (url, thread) = program(&[HEAD, TRACE], End::Closes);
    let host = url.to_string().replace("http://", "").replace("/debug/pprof/trace", "");
    drop(GoTrace::begin(url).expect("an answer"));
    let expected = format!(
        "GET /debug/pprof/trace?seconds=604800 HTTP/1.0\r\nHost: {host}\r\nUser-Agent: wakepath\r\n\r\n"
    );
    assert_eq!(thread.join().expect("the program"), expected);
}

#[test]
fn a_program_that_gives_no_trace_is_named_with_its_reason() {
    let refused = "HTTP/1.0 500 Internal Server Error\r\n\r\nCould not enable tracing: tracing is already enabled\nmore";
    for (parts, expected) in [
        (
            &[refused][..],
            "at once: it answered `HTTP/1.0 500 Internal Server Error: Could not enable tracing: tracing is already enabled`",
        ),
        (&["HTTP/1.1 404 Not Found\r\n\r\n"], "at once: it answered `HTTP/1.1 404 Not Found`"),
        (&["SSH-2.0-OpenSSH\r\n\r\n"], "at once: its answer is not by HTTP"),
        (
            &["HTTP/1.1 200 OK\r\n\r\n<html><body>Welcome</body>"],
            "at once: its answer is no execution trace of Go",
        ),
        (&[], "at once: the program ended"),
        (&[HEAD, "go 1.26"], "its answer is no execution trace of Go"),
        (&[HEAD, ""], "the program ended"),
    ] {
        let (bytes, failed) = read(parts, End::Closes, None);
        assert!(bytes.is_empty(), "{parts:?}: {bytes}");
        assert!(failed.as_ref().is_some_and(|failed| failed.starts_with(expected)), "{parts:?}: {failed:?}");
    }
    let long = "HTTP/1.0 200 OK\r\n".to_owned() + &"A: b\r\n".repeat(4000);
    let (bytes, failed) = read(&[&long], End::Closes, None);
    assert_eq!((bytes.as_str(), failed.as_deref()), ("", Some("its answer is not by HTTP")));
}

#[test]
fn a_program_that_starts_with_the_recording_is_asked_until_it_listens() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let url: GoTraceUrl = free.to_string().parse().expect("a place");
    assert!(
        matches!(GoTrace::begin(url.clone()), Err(GoTraceError::Connect(error)) if error.kind() == ErrorKind::ConnectionRefused)
    );
    let folder = tempfile::tempdir().expect("a folder");
    let reading = GoTrace::when_started(url).read_into(file(folder.path(), None));
    std::thread::sleep(Duration::from_millis(50));
    let listener = TcpListener::bind(free).expect("the port is free");
    let (mut stream, _) = listener.accept().expect("a request");
    assert!(stream.read(&mut [0; 4096]).expect("a request") > 0);
    stream.write_all(format!("{HEAD}{TRACE}").as_bytes()).expect("it reads");
    drop(stream);
    let [one] = end_all(vec![reading]).try_into().expect("one");
    assert_eq!((one.bytes, one.failed.map(|failed| failed.to_string())), (TRACE.len() as u64, None));
}

#[test]
fn a_program_that_never_listened_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let folder = tempfile::tempdir().expect("a folder");
    let reading = GoTrace::when_started(free.to_string().parse().expect("a place"))
        .read_into(file(folder.path(), None));
    let [one] = end_all(vec![reading]).try_into().expect("one");
    assert!(matches!(one.failed, Some(GoTraceError::Never)), "{:?}", one.failed);
}
