//! How text leaves: to a terminal, a pipe or a file, and complaints to stderr.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use wakepath_report::{Paper, Screen, escape};

use crate::arguments::Colour;

/// Where answers and complaints go.
#[derive(Debug, Clone)]
pub struct Output {
    stream: Stream,
    colour: Colour,
    paper: Paper,
}

/// Where answers go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

/// Lines longer than this are hard to follow, however wide the terminal.
const MAX_WIDTH: usize = 120;

impl Output {
    /// Answers go to stdout.
    pub fn new(colour: Colour) -> Self {
        Self { stream: Stream::Stdout, colour, paper: paper(Stream::Stdout, colour) }
    }

    /// Answers go to stderr: stdout belongs to the command that was recorded.
    #[cfg(feature = "collect")]
    pub fn on_stderr(&self) -> Self {
        Self { stream: Stream::Stderr, colour: self.colour, paper: paper(Stream::Stderr, self.colour) }
    }

    /// What text is written for.
    pub fn paper(&self) -> Paper {
        self.paper
    }

    /// Writes text. A reader that has gone away, as `head` does, has read enough.
    pub fn text(&self, text: &str) -> io::Result<()> {
        self.write(|out| out.write_all(text.as_bytes()))
    }

    /// Writes what may be large. A reader that has gone away has read enough.
    pub fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let stream: Box<dyn Write> = match self.stream {
            Stream::Stdout => Box::new(io::stdout().lock()),
            Stream::Stderr => Box::new(io::stderr().lock()),
        };
        let mut out = BufWriter::new(stream);
        match write(&mut out).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                // What is still buffered has no reader either.
                let _ = out.into_parts();
                Ok(())
            }
            result => result,
        }
    }

    /// Tells something on stderr: `error: cannot read ...`. Its text may hold names from elsewhere.
    pub fn complain(&self, what: &str, text: &str) {
        let mut screen = Screen::new(paper(Stream::Stderr, self.colour));
        screen.complaint(what, &escape(text.as_bytes()));
        // Nobody is left to be told.
        let _ = io::stderr().lock().write_all(screen.into_text().as_bytes());
    }

    /// Tells on a terminal what goes on.
    pub fn note(&self, text: &str) {
        if io::stderr().is_terminal() {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
}

/// What can be shown on a stream.
fn paper(stream: Stream, colour: Colour) -> Paper {
    let (terminal, size) = match stream {
        Stream::Stdout => (io::stdout().is_terminal(), terminal_size::terminal_size_of(io::stdout())),
        Stream::Stderr => (io::stderr().is_terminal(), terminal_size::terminal_size_of(io::stderr())),
    };
    let colour = match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => {
            let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
            terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
        }
    };
    let columns = size.filter(|_| terminal).map(|(width, _)| usize::from(width.0).min(MAX_WIDTH));
    Paper { width: columns.unwrap_or(Paper::PLAIN.width), colour }
}

/// The exit code of an answer: with `strict`, one that losses or doubts touch is not clean.
pub fn exit_code(doubtful: bool, strict: bool) -> ExitCode {
    if doubtful && strict { crate::failure::Code::Doubtful.into() } else { ExitCode::SUCCESS }
}
