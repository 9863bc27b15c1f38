//! The first pass over a text: its program, its extent, and which tracepoints are there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use wakepath_ctf::Source;

use super::fields::{self, What};
use super::head::{Form, Head, Line};
use super::lines::Lines;
use crate::kind::Kind;
use crate::tracepoint::Tracepoint;

/// A text's contents.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Its readable tracepoints' kinds.
    pub kinds: Vec<Kind>,
    pub wakings: bool,
    /// The CPUs with lines.
    pub cpus: BTreeSet<u32>,
    /// The first and the last stamp, ns.
    pub extent: Option<(u64, u64)>,
    /// How many lines have tracepoints.
    pub events: u64,
    /// How many are older than the line before.
    pub back: u64,
    /// How many name no CPU.
    pub without_cpu: u64,
    /// How many have stamps in microseconds.
    pub rounded: u64,
    /// A state's letters had two meanings.
    pub doubtful: bool,
    pub unreadable: Unreadable,
    /// How often each tracepoint is there.
    pub names: BTreeMap<Box<[u8]>, u64>,
    pub form: Option<Form>,
    /// The program, by the text's own head.
    pub program: Option<&'static str>,
    pub host_name: String,
    pub kernel_release: String,
}

/// A number and a place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub count: u64,
    /// The first line's number.
    pub first: u64,
}

/// The limit on tracepoint names: a name is untrusted.
const MAX_NAMES: usize = 256;

impl Unreadable {
    pub fn note(&mut self, number: u64) {
        self.count += 1;
        if self.first == 0 {
            self.first = number;
        }
    }
}

impl Survey {
    /// Reads a whole text.
    pub fn new(source: &impl Source) -> io::Result<Self> {
        let (mut survey, mut lines) = (Self::default(), Lines::new(source));
        let (mut in_stack, mut last) = (false, 0);
        while let Some(line) = lines.next()? {
            let Some(text) = line.text else {
                survey.unreadable.note(line.number);
                continue;
            };
            match Line::read(text, in_stack) {
                Line::Event(head) => {
                    in_stack = head.form == Form::Perf;
                    if !survey.event(&head) {
                        survey.unreadable.note(line.number);
                    }
                    if !head.is_made_up() {
                        survey.back += u64::from(head.at < last);
                        last = head.at;
                    }
                }
                Line::Unreadable => survey.unreadable.note(line.number),
                Line::Note => {
                    in_stack &= !text.trim_ascii().is_empty();
                    survey.note(text);
                }
                Line::Frame | Line::Lost { .. } | Line::Started { .. } => {}
            }
        }
        Ok(survey)
    }

    /// Notes a tracepoint; whether it is readable, or not used.
    fn event(&mut self, head: &Head<'_>) -> bool {
        self.form.get_or_insert(head.form);
        if head.is_made_up() {
            return true;
        }
        self.events += 1;
        self.rounded += u64::from(head.rounded);
        let (from, to) = self.extent.unwrap_or((head.at, head.at));
        self.extent = Some((from.min(head.at), to.max(head.at)));
        let Some(cpu) = head.cpu else {
            self.without_cpu += 1;
            return true;
        };
        self.cpus.insert(cpu);
        if let Some(count) = self.names.get_mut(head.name) {
            *count += 1;
        } else if self.names.len() < MAX_NAMES {
            self.names.insert(head.name.into(), 1);
        }
        let Some((kind, call)) = Kind::from_line(head) else { return true };
        let Some(fields) = fields::read(kind, call, head) else { return false };
        self.doubtful |= fields.doubtful;
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
        self.wakings |= matches!(fields.what, What::Tracepoint(Tracepoint::Waking { .. }));
        true
    }

    fn note(&mut self, text: &[u8]) {
        let text = text.trim_ascii();
        let value = |key: &[u8]| {
            let value = text.strip_prefix(key)?.strip_prefix(b" : ")?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        if text.starts_with(b"# tracer: ") {
            self.program.get_or_insert("ftrace");
        } else if text.starts_with(b"cpus=") {
            self.program.get_or_insert("trace-cmd");
        } else if let Some(name) = value(b"# hostname") {
            self.host_name = name;
        } else if let Some(release) = value(b"# os release") {
            self.kernel_release = release;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_fill_memory() {
        let line = |n: u32| format!("here-7 [000] d..3. 1.{n:06}: event_{n}: x\n");
        let text: String = (0..600).map(line).collect();
        let survey = Survey::new(&text.as_bytes()).expect("memory has no errors");
        assert_eq!((survey.names.len(), survey.events), (MAX_NAMES, 600));
    }
}
