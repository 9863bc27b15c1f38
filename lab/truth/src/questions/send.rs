//! Sends the requests of all questions, one question after another, and notes what came back.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::head::{Sending, Service};

/// A request that was sent, and its answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sent {
    /// The question's index.
    pub question: usize,
    /// Whether this is the twin's.
    pub is_twin: bool,
    /// The request's index in the question.
    pub request: usize,
    /// Its trace id, which the client chose.
    pub trace_id: String,
    /// The time until the answer, ns.
    pub took_ns: f64,
    /// The number in the answer's body.
    pub body: Option<f64>,
}

/// The time for the recorder to look at the programs, and for the last spans to be exported.
const BEFORE: Duration = Duration::from_millis(2500);
const BEHIND: Duration = Duration::from_millis(2500);
/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(150);
/// The longest time for an answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Sends the requests of all questions and their twins, beside a recorder that has just been started.
pub(super) fn send(service: &Service) -> Result<Vec<Sent>> {
    thread::sleep(BEFORE);
    let all = send_all(service, 1)?;
    thread::sleep(BEHIND);
    Ok(all)
}

/// Sends everything without waiting before and behind; each turn has its own trace ids.
pub(super) fn send_all(service: &Service, turn: u32) -> Result<Vec<Sent>> {
    let port = service.programs.first().context("no service")?.port;
    let mut all = Vec::new();
    for (index, question) in service.questions.iter().enumerate() {
        for (is_twin, requests) in [(false, &question.send), (true, &question.twin)] {
            let answers = play(port, requests, turn, index * 2 + usize::from(is_twin))
                .with_context(|| format!("the question `{}`", question.name))?;
            all.extend(answers.into_iter().enumerate().map(|(request, (trace_id, took, body))| Sent {
                question: index,
                is_twin,
                request,
                trace_id,
                took_ns: took.as_nanos() as f64,
                body,
            }));
            thread::sleep(PAUSE);
        }
    }
    Ok(all)
}

type Reply = (String, Duration, Option<f64>);

fn play(port: u16, requests: &[Sending], turn: u32, number: usize) -> Result<Vec<Reply>> {
    let began = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = requests
            .iter()
            .enumerate()
            .map(|(index, request)| {
                thread::sleep(request.at.saturating_sub(began.elapsed()));
                scope.spawn(move || reply(port, &request.path, &trace_id(turn, number, index)))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect()
    })
}

/// A trace id that shows its turn, question and request.
fn trace_id(turn: u32, number: usize, request: usize) -> String {
    let pid = std::process::id();
    format!("{pid:08x}{turn:04x}{number:08x}{:012x}", request + 1)
}

fn reply(port: u16, path: &str, trace_id: &str) -> Result<Reply> {
    let began = Instant::now();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("no connection")?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\ntraceparent: 00-{trace_id}-00000000000000aa-01\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text).with_context(|| format!("no answer to `{path}`"))?;
    let took = began.elapsed();
    ensure!(text.starts_with("HTTP/1.1 200") || text.starts_with("HTTP/1.0 200"), "`{path}`: {text}");
    Ok((trace_id.to_owned(), took, number(&text)))
}

/// The number in an answer's body, which may be in chunks.
fn number(text: &str) -> Option<f64> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { body.split("\r\n").nth(1)? } else { body };
    body.trim().trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_s_number_is_read_whole_or_in_chunks() {
        assert_eq!(number("HTTP/1.1 200 OK\r\nA: b\r\n\r\n300.5\n"), Some(300.5));
        assert_eq!(
            number("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n\"12.5\"\r\n0\r\n\r\n"),
            Some(12.5)
        );
        assert_eq!(number("HTTP/1.1 200 OK\r\n\r\npong"), None);
        assert_eq!(number("HTTP/1.1 200 OK\r\n"), None);
    }

    #[test]
    fn each_request_has_its_own_trace() {
        let ids = [trace_id(0, 0, 0), trace_id(0, 0, 1), trace_id(0, 1, 0), trace_id(1, 0, 0)];
        assert!(ids.iter().all(|id| id.len() == 32));
        assert!((1..ids.len()).all(|index| !ids[..index].contains(&ids[index])));
    }
}
