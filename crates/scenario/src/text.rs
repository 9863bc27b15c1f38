//! Traces as text, for a person to write and read.
//!
//! ```text
//! # Who lives at the start: a snapshot. `blocked` threads say how and in which call if they like.
//! thread A tid=10
//! thread B tid=11 tgid=10 blocked=uninterruptible call=0:3
//! flow   request 127.0.0.1:40000 > 127.0.0.1:80
//!
//! # When (ns), CPU, current thread and context, what happened.
//!   0 c0 idle       started
//!   0 c0 idle       switch A
//! 100 c0 A          waking B
//! 150 c0 A          switch idle blocked call=202:0x1000
//! 150 c1 idle       switch B
//! 300 c1 B/net_rx   in request seq=1 len=32
//!
//! # What is asked.
//! ? active A 0..400
//! ```
//!
//! A thread has the name of its declaration; after a second declaration, the name means another thread.
//! `idle` is the idle thread, and `#77` a tid without a name. The verbs stand in a table in `event.rs`.
//! `soft_timer` is the TIMER softirq, `timer` the local timer. `private` behind a futex call: it has no time-out, and only
//! threads in the same process end it.

mod event;
mod words;

use std::collections::HashMap;

use wakepath_clock::Stamp;
use wakepath_event::{Context, Cpu, Event, EventKind, Flow, FlowId, ThreadIdentity, Tid};

use words::Words;

/// A trace and the questions about it.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// In line order.
    pub events: Vec<Event>,
    /// In line order.
    pub questions: Vec<Question>,
    /// The flows' names, by id minus 1.
    pub flows: Vec<String>,
}

/// A case's question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The line, without the question mark.
    pub text: String,
    /// The first word.
    pub verb: String,
    /// The tid of the thread in question, if any.
    pub tid: Option<Tid>,
    /// The name in this thread's declaration.
    pub name: String,
    /// The window, ns.
    pub window: (u64, u64),
}

/// A malformed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The line number, from 1.
    pub line: usize,
    /// The error.
    pub what: String,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for ParseError {}

/// Reads a trace.
///
/// # Errors
///
/// The first malformed line, and the reason.
pub fn parse(text: &str) -> Result<Script, ParseError> {
    let mut reader = Reader::default();
    for (number, line) in text.lines().enumerate() {
        let line = line.split_once('#').map_or(line, |(before, after)| {
            // `#77` is a tid.
            if after.starts_with(|c: char| c.is_ascii_digit()) { line } else { before }
        });
        reader.line(line).map_err(|what| ParseError { line: number + 1, what })?;
    }
    Ok(reader.script)
}

/// The declarations so far.
#[derive(Debug, Default)]
struct Reader {
    script: Script,
    threads: HashMap<String, Tid>,
    flows: HashMap<String, FlowId>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut words = Words::new(line)?;
        let Some(first) = words.next() else { return Ok(()) };
        match first {
            "thread" => self.thread(&mut words)?,
            "flow" => self.flow(&mut words)?,
            "?" => self.question(&mut words, line)?,
            stamp => {
                let ns = stamp.parse().map_err(|_| format!("neither a stamp nor a declaration: {stamp}"))?;
                self.event(ns, &mut words)?;
            }
        }
        words.end()
    }

    fn thread(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let name = words.need("a name")?.to_owned();
        let at = words.option("at")?.unwrap_or(0);
        let identity = identity(&name, words, 0)?;
        let blocked = match (words.flag("blocked"), words.text("blocked")) {
            (_, Some(state)) => Some(event::blocked_state(state)?),
            (true, None) => Some(wakepath_event::BlockedState::Interruptible),
            (false, None) => None,
        };
        let call = event::call(words)?;
        self.threads.insert(name, identity.tid);
        self.push(at, Cpu::UNKNOWN, Context::Task, Tid::IDLE, EventKind::Thread { identity, blocked, call });
        Ok(())
    }

    fn flow(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let name = words.need("a name")?.to_owned();
        let source = words.need("a source address")?.parse().map_err(|e| format!("source: {e}"))?;
        words.expect(">")?;
        let target = words.need("a target address")?.parse().map_err(|e| format!("target: {e}"))?;
        let protocol = if words.flag("udp") { 17 } else { 6 };
        self.script.flows.push(name.clone());
        let id = FlowId(self.script.flows.len() as u64);
        self.flows.insert(name, id);
        let flow = Flow { source, target, protocol };
        self.push(0, Cpu::UNKNOWN, Context::Task, Tid::IDLE, EventKind::Flow(id, flow));
        Ok(())
    }

    fn question(&mut self, words: &mut Words<'_>, line: &str) -> Result<(), String> {
        let text = line.trim().trim_start_matches('?').trim().to_owned();
        let verb = words.need("what is asked")?.to_owned();
        let (mut tid, mut name, mut window) = (None, String::new(), (0, 0));
        if let Some(thread) = words.next() {
            tid = Some(self.tid(thread)?);
            thread.clone_into(&mut name);
            let (from, to) = words.need("a window")?.split_once("..").ok_or("a window is FROM..TO")?;
            let ns = |text: &str| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
            window = (ns(from)?, ns(to)?);
        }
        self.script.questions.push(Question { text, verb, tid, name, window });
        Ok(())
    }

    fn event(&mut self, ns: u64, words: &mut Words<'_>) -> Result<(), String> {
        let cpu = cpu_named(words.need("a CPU")?)?;
        let current = words.need("the current thread")?;
        let (current, context) = self.current(current);
        let context = event::context(context)?;
        let current = self.tid(current)?;
        let what = self.what(ns, current, words)?;
        self.push(ns, cpu, context, current, what);
        Ok(())
    }

    /// `A` or `A/CONTEXT`, where A's own name may have slashes.
    fn current<'a>(&self, text: &'a str) -> (&'a str, &'a str) {
        if self.threads.contains_key(text) {
            return (text, "task");
        }
        text.rsplit_once('/').unwrap_or((text, "task"))
    }

    fn tid(&self, name: &str) -> Result<Tid, String> {
        if name == "idle" {
            return Ok(Tid::IDLE);
        }
        if let Some(number) = name.strip_prefix('#') {
            return number.parse().map(Tid).map_err(|e| format!("{name}: {e}"));
        }
        self.threads.get(name).copied().ok_or_else(|| format!("nobody is called {name}"))
    }

    fn push(&mut self, ns: u64, cpu: Cpu, context: Context, current: Tid, what: EventKind) {
        self.script.events.push(Event { at: Stamp::from_ns(ns), cpu, context, current, kind: what });
    }
}

/// `tid=10 [tgid=10] [parent=1] [ns=1/1] [start=5] [kernel]`
fn identity(name: &str, words: &mut Words<'_>, born: u64) -> Result<ThreadIdentity, String> {
    let tid = Tid(words.option("tid")?.ok_or("a thread needs tid=")?);
    let tgid = words.option("tgid")?.map_or(tid, Tid);
    let ns = match words.text("ns") {
        None => (tid, tgid),
        Some(pair) => {
            let (tid, tgid) = pair.split_once('/').ok_or("ns=TID/TGID")?;
            let number = |text: &str| text.parse().map(Tid).map_err(|e| format!("{text}: {e}"));
            (number(tid)?, number(tgid)?)
        }
    };
    let unnamed = crate::identity(tid.0, name);
    Ok(ThreadIdentity {
        tgid,
        parent: words.option("parent")?.map_or(unnamed.parent, Tid),
        ns_tid: ns.0,
        ns_tgid: ns.1,
        start: Stamp::from_ns(words.option("start")?.unwrap_or(born)),
        kernel: words.flag("kernel"),
        ..unnamed
    })
}

/// The CPU for `c0`, `c1` and so on; `c?` is an unknown CPU.
fn cpu_named(text: &str) -> Result<Cpu, String> {
    const BAD: &str = "a CPU is c0, c1, … or c?";
    match text.strip_prefix('c').ok_or(BAD)? {
        "?" => Ok(Cpu::UNKNOWN),
        number => Ok(Cpu(number.parse().map_err(|_| BAD)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_cannot_be_read_says_why() {
        for (text, line, what) in [
            ("thread A", 1, "a thread needs tid="),
            ("thread A tid=1\n\n5 c0 B sample", 3, "nobody is called B"),
            ("thread A tid=1\n5 c0 A dance", 2, "no such verb: dance"),
            ("thread A tid=1\n5 c0 A waking A colour=red", 2, "not understood: colour=red"),
            ("5 x A", 1, "a CPU is c0, c1, … or c?"),
            ("now", 1, "neither a stamp nor a declaration: now"),
        ] {
            let mistake = parse(text).expect_err(text);
            assert_eq!((mistake.line, mistake.what.as_str()), (line, what));
        }
    }

    #[test]
    fn a_trace_is_read_line_by_line() {
        let script = parse(
            "thread A tid=10 blocked=stopped call=202:0x10 # asleep
             flow f 127.0.0.1:1 > 127.0.0.1:2
             5 c1 #77/net_rx  in f seq=1 len=2
             ? active A 0..9",
        )
        .expect("readable");
        assert_eq!(script.events.len(), 3);
        assert_eq!((script.events[2].current, script.events[2].cpu), (Tid(77), Cpu(1)));
        assert_eq!(script.questions[0].window, (0, 9));
        assert_eq!(script.questions[0].tid, Some(Tid(10)));
    }
}
