//! Where text goes: answers to stdout, warnings and errors to stderr; their width and colours.

use std::io::{self, BufWriter, IsTerminal, Write};

use clap::ValueEnum;
use wakepath_report::{Layout, Screen, escape};

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    Auto,
    Always,
    Never,
}

/// The destination for answers, warnings and errors.
#[derive(Debug, Clone)]
pub struct Output {
    stream: Stream,
    colour: Colour,
    layout: Layout,
}

/// The stream for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

/// Longer lines are hard to follow, however wide the terminal.
const MAX_WIDTH: usize = 120;

impl Output {
    /// Answers go to stdout.
    pub fn new(colour: Colour) -> Self {
        Self { stream: Stream::Stdout, colour, layout: layout(Stream::Stdout, colour) }
    }

    /// The output beside a command: answers go to stderr, since stdout belongs to the command.
    #[cfg(feature = "collect")]
    pub fn beside(&self, command: &[std::ffi::OsString]) -> Self {
        let stream = if command.is_empty() { self.stream } else { Stream::Stderr };
        Self { stream, colour: self.colour, layout: layout(stream, self.colour) }
    }

    /// The text's width and colours.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Writes text. A reader that has gone away, such as `head`, has read enough.
    pub fn text(&self, text: &str) -> io::Result<()> {
        self.write(|out| out.write_all(text.as_bytes()))
    }

    /// Writes a possibly large answer. A reader that has gone away has read enough.
    pub fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let stream: Box<dyn Write> = match self.stream {
            Stream::Stdout => Box::new(io::stdout().lock()),
            Stream::Stderr => Box::new(io::stderr().lock()),
        };
        let mut out = BufWriter::new(stream);
        match write(&mut out).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                // The rest of the buffer has no reader either.
                let _ = out.into_parts();
                Ok(())
            }
            result => result,
        }
    }

    /// Writes an answer, as JSON or as text.
    pub fn answer<A: ?Sized>(
        &self,
        answer: &A,
        as_json: bool,
        json: impl FnOnce(&A, &mut dyn Write) -> io::Result<()>,
        text: impl FnOnce(&A, Layout) -> String,
    ) -> io::Result<()> {
        if as_json { self.write(|out| json(answer, out)) } else { self.text(&text(answer, self.layout)) }
    }

    /// Prints a line to stderr: `error: cannot read ...`. The text may hold names from a recording.
    pub fn complain(&self, label: &str, text: &str) {
        let mut screen = Screen::new(layout(Stream::Stderr, self.colour));
        screen.complaint(label, &escape(text.as_bytes()));
        // Where stderr is closed, there is no reader.
        let _ = io::stderr().lock().write_all(screen.into_text().as_bytes());
    }

    /// Shows on stderr what the program does now, in place of the text before, if stderr is a terminal. An empty text
    /// clears the line. The text may hold names from other programs.
    pub fn passing(&self, text: &str) {
        if io::stderr().is_terminal() {
            let width = layout(Stream::Stderr, self.colour).width;
            let text: String = escape(text.as_bytes()).chars().take(width.saturating_sub(1)).collect();
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        }
    }

    /// Prints to stderr what the program does now, if stderr is a terminal.
    pub fn note(&self, text: &str) {
        if io::stderr().is_terminal() {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
}

/// The width and colours for a stream.
fn layout(stream: Stream, colour: Colour) -> Layout {
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
    Layout { width: columns.unwrap_or(Layout::PLAIN.width), colour }
}
