//! Go's execution traces, from programs with `net/http/pprof`.
//!
//! A request for a trace lasts as long as the recording. It asks for many seconds, and ends when this side of the connection is closed: Go's server
//! then stops the trace and sends its end through the other side. By HTTP/1.0 the trace is the rest of the connection, without a frame.

mod address;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wakepath_go_trace::{HEADER_BYTES, is_trace};
use wakepath_recording::GoTraceWriter;

pub use address::{GoTraceUrl, NotAUrl};
pub use wakepath_recording::MAX_GO_TRACES;

/// The longest requested trace, seconds: a week. The program adds its own limit for an answer (`WriteTimeout`).
const MAX_SECONDS: u32 = 7 * 24 * 3600;
/// The time for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The time in which a program refuses, if it does.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(200);
/// The time between two attempts to connect to a program starting meanwhile.
const RETRY: Duration = Duration::from_millis(10);
/// The time for a trace's end, behind the recording's.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between a reader's looks whether the recording is over.
const POLL: Duration = Duration::from_millis(50);
/// The largest head of an answer, and the largest repeated part of an error, bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
const MAX_ERROR_BYTES: usize = 300;

/// Why a program gave no trace, or not all of it.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum GoTraceError {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("its answer is not by HTTP")]
    NoHttp,
    #[error("it answered `{0}`")]
    Refused(String),
    #[error("its answer is no execution trace of Go")]
    NoTrace,
    #[error(
        "the program ended, or closed the connection, before it wrote any of it; it writes about once a second"
    )]
    Ended,
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    #[error("it did not end the trace within {} s", END_TIMEOUT.as_secs())]
    NoEnd,
    #[error("{0}")]
    Written(String),
    #[error("it had not answered when the recording ended")]
    Never,
}

/// A requested trace.
#[derive(Debug)]
pub struct GoTrace {
    url: GoTraceUrl,
    /// The connection with the answer; `None` while the program has not started.
    answer: Option<Answer>,
}

impl GoTrace {
    /// Asks a program for its trace, which begins now.
    ///
    /// # Errors
    /// When nothing listens there, or refuses at once. A program that begins a trace keeps the first bytes to itself for up to a second.
    pub fn begin(url: GoTraceUrl) -> Result<Self, GoTraceError> {
        let mut answer = Answer::ask(&url)?;
        answer.stream.set_read_timeout(Some(REFUSAL_TIMEOUT)).map_err(GoTraceError::Broken)?;
        let mut part = [0; 4096];
        match answer.stream.read(&mut part) {
            Ok(0) => return Err(GoTraceError::Ended),
            Ok(length) => answer.take(&part[..length])?,
            Err(error) if is_no_byte(&error) => {}
            Err(error) => return Err(GoTraceError::Broken(error)),
        }
        Ok(Self { url, answer: Some(answer) })
    }

    /// The trace by a program starting with the recording: it is asked again and again.
    pub const fn when_started(url: GoTraceUrl) -> Self {
        Self { url, answer: None }
    }

    /// Reads the trace into a file, in a thread of its own.
    pub(crate) fn read_into(self, file: GoTraceWriter) -> ReadingGoTrace {
        let is_over = Arc::new(AtomicBool::new(false));
        let (url, seen) = (self.url.clone(), Arc::clone(&is_over));
        let thread =
            std::thread::Builder::new().name("go-trace".into()).spawn(move || self.read(file, &seen));
        ReadingGoTrace { url, is_over, thread }
    }

    fn read(self, mut file: GoTraceWriter, is_over: &AtomicBool) -> (u64, Option<GoTraceError>) {
        let answer = match self.answer {
            Some(answer) => Ok(answer),
            None => ask_until(&self.url, is_over),
        };
        let failed = answer.and_then(|answer| answer.copy(&mut file, is_over)).err();
        (file.bytes(), failed)
    }
}

/// A trace under way.
#[derive(Debug)]
pub(crate) struct ReadingGoTrace {
    url: GoTraceUrl,
    is_over: Arc<AtomicBool>,
    thread: io::Result<JoinHandle<(u64, Option<GoTraceError>)>>,
}

/// A trace at its end.
#[derive(Debug)]
pub struct ReadGoTrace {
    /// The place at which the program served it.
    pub url: GoTraceUrl,
    /// Its size, bytes.
    pub bytes: u64,
    /// The reason why it is not whole.
    pub failed: Option<GoTraceError>,
}

/// Ends all traces, and waits for their ends.
pub(crate) fn end_all(reading: Vec<ReadingGoTrace>) -> Vec<ReadGoTrace> {
    for one in &reading {
        one.is_over.store(true, Ordering::Relaxed);
    }
    let end = |one: ReadingGoTrace| {
        let (bytes, failed) = match one.thread {
            Ok(thread) => thread.join().unwrap_or((0, Some(GoTraceError::NoTrace))),
            Err(error) => (0, Some(GoTraceError::Written(format!("cannot start a thread: {error}")))),
        };
        ReadGoTrace { url: one.url, bytes, failed }
    };
    reading.into_iter().map(end).collect()
}

/// Asks until the program listens, or the recording is over.
fn ask_until(url: &GoTraceUrl, is_over: &AtomicBool) -> Result<Answer, GoTraceError> {
    loop {
        match Answer::ask(url) {
            Err(GoTraceError::Connect(_)) if !is_over.load(Ordering::Relaxed) => std::thread::sleep(RETRY),
            Err(GoTraceError::Connect(_)) => return Err(GoTraceError::Never),
            asked => return asked,
        }
    }
}

/// A program's answer.
#[derive(Debug)]
struct Answer {
    stream: TcpStream,
    /// The bytes not written yet.
    bytes: Vec<u8>,
    part: Part,
}

/// The next part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    /// The trace's first bytes, which say whether it is one.
    Beginning,
    Rest,
}

impl Answer {
    fn ask(url: &GoTraceUrl) -> Result<Self, GoTraceError> {
        let mut stream = url.connect(CONNECT_TIMEOUT).map_err(GoTraceError::Connect)?;
        stream.set_write_timeout(Some(CONNECT_TIMEOUT)).map_err(GoTraceError::Connect)?;
        let question = format!(
            "GET {}?seconds={MAX_SECONDS} HTTP/1.0\r\nHost: {}\r\nUser-Agent: wakepath\r\n\r\n",
            url.path(),
            url.host()
        );
        stream.write_all(question.as_bytes()).map_err(GoTraceError::Broken)?;
        Ok(Self { stream, bytes: Vec::new(), part: Part::Head })
    }

    /// Takes the next bytes, and looks at the head and the trace's beginning.
    fn take(&mut self, bytes: &[u8]) -> Result<(), GoTraceError> {
        const END: &[u8] = b"\r\n\r\n";
        self.bytes.extend_from_slice(bytes);
        if self.part == Part::Head {
            let Some(end) = self.bytes.windows(END.len()).position(|window| window == END) else {
                return if self.bytes.len() > MAX_HEAD_BYTES { Err(GoTraceError::NoHttp) } else { Ok(()) };
            };
            let behind = self.bytes.split_off(end + END.len());
            let head = std::mem::replace(&mut self.bytes, behind);
            let (line, status) = status(&head).ok_or(GoTraceError::NoHttp)?;
            if status != 200 {
                return Err(GoTraceError::Refused(self.refusal(line)));
            }
            self.part = Part::Beginning;
        }
        if self.part == Part::Beginning && self.bytes.len() >= HEADER_BYTES {
            if !is_trace(&self.bytes) {
                return Err(GoTraceError::NoTrace);
            }
            self.part = Part::Rest;
        }
        Ok(())
    }

    /// An answer's first line, with its text's first line.
    fn refusal(&mut self, line: String) -> String {
        let mut text = std::mem::take(&mut self.bytes);
        // An error of the connection only cuts the text.
        let _ = (&mut self.stream).take(MAX_ERROR_BYTES as u64).read_to_end(&mut text);
        text.truncate(MAX_ERROR_BYTES);
        let text = String::from_utf8_lossy(&text);
        let text = text.lines().next().unwrap_or_default().trim();
        if text.is_empty() { line } else { format!("{line}: {text}") }
    }

    /// Copies the trace until its end. When the recording is over or the file is nearly full, the program is asked to end it.
    fn copy(mut self, file: &mut GoTraceWriter, is_over: &AtomicBool) -> Result<(), GoTraceError> {
        self.stream.set_read_timeout(Some(POLL)).map_err(GoTraceError::Broken)?;
        let mut ended: Option<Instant> = None;
        let mut part = vec![0; 64 << 10];
        loop {
            if self.part == Part::Rest && !self.bytes.is_empty() {
                file.append(&self.bytes).map_err(|error| GoTraceError::Written(error.to_string()))?;
                self.bytes.clear();
            }
            if ended.is_none() && (is_over.load(Ordering::Relaxed) || file.is_nearly_full()) {
                // It fails where the program closed the connection: the next read says how.
                let _ = self.stream.shutdown(Shutdown::Write);
                ended = Some(Instant::now());
            }
            match self.stream.read(&mut part) {
                Ok(0) if self.part == Part::Rest => return Ok(()),
                Ok(0) if self.bytes.is_empty() => return Err(GoTraceError::Ended),
                Ok(0) => return Err(GoTraceError::NoTrace),
                Ok(length) => self.take(&part[..length])?,
                Err(error) if is_no_byte(&error) => {}
                Err(error) => return Err(GoTraceError::Broken(error)),
            }
            if ended.is_some_and(|ended| ended.elapsed() > END_TIMEOUT) {
                return Err(GoTraceError::NoEnd);
            }
        }
    }
}

/// Whether a time-out or a signal ended a read.
fn is_no_byte(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// An answer's first line and its status.
fn status(head: &[u8]) -> Option<(String, u16)> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split(' ');
    let is_http = words.next()?.starts_with("HTTP/1.");
    let status = words.next()?.parse().ok()?;
    is_http.then_some((line, status))
}

#[cfg(test)]
mod tests;
