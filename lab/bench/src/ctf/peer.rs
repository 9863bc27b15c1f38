//! Compares babeltrace2's text value by value with the decoded values: every number with all its bits, every text,
//! every fraction with the text's precision.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};
use wakepath_ctf::plan::{FieldInfo, FieldKind, Visitor};
use wakepath_ctf::schema::{Base, Integer};
use wakepath_ctf::stream::{Head, Item, Plans, Reader, Selection};
use wakepath_ctf::trace::Trace;

use super::checksum::{Checksum, Sum};
use super::text::{self, Token, Tokens};

/// A trace's checksums, after all its values matched babeltrace2's text: over every field, and over the fields that
/// the graph needs.
pub fn checksums(path: &Path) -> Result<(Checksum, Checksum)> {
    let trace = Trace::open(path)?;
    let plans = Plans::new(trace.metadata, &Selection::All)?;
    let classes =
        (0..plans.len() as u32).map(|class| Class::new(&plans, class)).collect::<Result<Vec<_>>>()?;
    let files = trace.streams.iter().map(File::open).collect::<std::io::Result<Vec<_>>>()?;
    let mut streams = HashMap::new();
    for file in &files {
        let mut stream = Stream { reader: Reader::new(&plans, file)?, next: None, cpu: None };
        stream.advance()?;
        if let Some(cpu) = stream.cpu {
            ensure!(streams.insert(cpu, stream).is_none(), "two streams of CPU {cpu}");
        }
    }
    let mut child = Command::new("babeltrace2")
        .args(["run", "--component=in:source.ctf.fs"])
        .arg(format!("--params=inputs=[\"{}\"]", path.display()))
        .args(["--component=mux:filter.utils.muxer", "--component=out:sink.text.pretty"])
        .args(["--params=no-delta=yes,clock-cycles=yes,field-trace:hostname=no"])
        .args(["--connect=in:mux", "--connect=mux:out"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut printed = BufReader::with_capacity(1 << 20, child.stdout.take().context("no pipe")?);
    let (mut all, mut needed) = (Checksum::default(), Checksum::default());
    let mut line = Vec::new();
    while printed.read_until(b'\n', &mut line)? > 0 {
        let shown = || String::from_utf8_lossy(&line).into_owned();
        let event =
            text::Line::parse(&line).with_context(|| format!("not a line of an event: {}", shown()))?;
        let stream = streams.get_mut(&event.cpu).with_context(|| format!("no stream: {}", shown()))?;
        stream.compare(&event, &classes, (&mut all, &mut needed)).with_context(shown)?;
        line.clear();
    }
    ensure!(child.wait()?.success(), "babeltrace2 cannot read {} whole", path.display());
    for (cpu, stream) in &streams {
        ensure!(stream.next.is_none(), "CPU {cpu} has events that babeltrace2 does not print");
    }
    Ok((all, needed))
}

/// An event class: its name, and each field's properties.
struct Class {
    name: String,
    fields: Vec<FieldInfo>,
    /// Whether the graph needs the field; for an array element, whether it needs the array, as bytes.
    needed: Vec<bool>,
    is_needed: bool,
}

impl Class {
    fn new(plans: &Plans, class: u32) -> Result<Self> {
        let class = plans.class(class).context("a class without a plan")?;
        let wanted = wakepath_import::wanted(class.event);
        let fields = class.plan.fields().to_vec();
        let paths = (0..fields.len()).map(|field| class.plan.path(field as u16));
        let is_wanted = |path: &str| wanted.iter().flatten().any(|(name, _)| *name == path);
        let needed = paths.map(|path| is_wanted(&path)).collect();
        Ok(Self { name: class.event.name.clone(), fields, needed, is_needed: wanted.is_some() })
    }
}

/// A stream, at its next event.
struct Stream<'p> {
    reader: Reader<'p, &'p File>,
    next: Option<Head>,
    cpu: Option<u64>,
}

impl Stream<'_> {
    fn advance(&mut self) -> Result<()> {
        self.next = loop {
            match self.reader.next() {
                None => break None,
                Some(Item::Event(head)) => break Some(head),
                Some(Item::Packet(packet)) => self.cpu = packet.cpu,
                Some(Item::Lost(_)) => {}
                Some(Item::Fault(fault)) => bail!("{fault}"),
            }
        };
        Ok(())
    }

    fn compare(
        &mut self,
        line: &text::Line<'_>,
        classes: &[Class],
        (all, needed): (&mut Checksum, &mut Checksum),
    ) -> Result<()> {
        let head = self.next.context("no such event is left in its stream")?;
        let class = classes.get(head.class as usize).context("an event without a class")?;
        ensure!(head.stamp == line.stamp, "decoded with the stamp {}", head.stamp);
        ensure!(class.name.as_bytes() == line.name, "decoded as {}", class.name);
        let mut beside = Beside::new(class, line.fields);
        self.reader.fields(&mut beside).map_err(|fault| anyhow!("{fault}"))?;
        beside.close_array();
        ensure!(beside.tokens.next().is_none(), "the text has more values");
        if let Some(wrong) = beside.wrong {
            bail!("{wrong}");
        }
        all.count(head.stamp);
        all.values = all.values.plus(beside.all);
        if class.is_needed {
            needed.count(head.stamp);
            needed.values = needed.values.plus(beside.needed);
        }
        self.advance()
    }
}

/// Takes an event's decoded values, and compares each with the text's next value.
struct Beside<'a> {
    class: &'a Class,
    text: &'a [u8],
    tokens: Tokens<'a>,
    wrong: Option<String>,
    all: Sum,
    needed: Sum,
    /// The bytes of a number array that the graph needs unchanged.
    array: Option<Vec<u8>>,
}

impl<'a> Beside<'a> {
    fn new(class: &'a Class, text: &'a [u8]) -> Self {
        let (all, needed) = (Sum::default(), Sum::default());
        Self { class, text, tokens: Tokens(text), wrong: None, all, needed, array: None }
    }

    fn is_needed(&self, field: u16) -> bool {
        self.class.needed.get(usize::from(field)).copied().unwrap_or(false)
    }

    fn integer(&self, field: u16) -> Option<&'a Integer> {
        match &self.class.fields.get(usize::from(field))?.kind {
            FieldKind::Integer(integer) | FieldKind::Enumeration(integer, _) => Some(integer),
            _ => None,
        }
    }

    fn expect(&mut self, found: bool, what: impl FnOnce() -> String) {
        if !found && self.wrong.is_none() {
            self.wrong = Some(format!("decoded as {}", what()));
        }
    }

    fn number(&mut self, field: u16, value: u64) {
        let integer = self.integer(field);
        // A negative number is cut to its width unless it is shown in base 10.
        let cut = integer.filter(|it| it.signed && it.base != Base::Decimal && it.bits < 64);
        let shown = cut.map_or(value, |it| value & ((1 << it.bits) - 1));
        let found =
            matches!(self.tokens.next(), Some(Token::Word(word)) if text::number(word) == Some(shown));
        self.expect(found, || format!("{} (field {field})", value as i64));
        if !self.is_needed(field) {
            return;
        }
        match (&mut self.array, integer) {
            (Some(array), Some(it)) => {
                array.extend_from_slice(&value.to_le_bytes()[..(it.bits as usize / 8).min(8)]);
            }
            _ => self.needed.unsigned(field, value),
        }
    }

    fn close_array(&mut self) {
        if let Some(array) = self.array.take() {
            self.needed.bytes(0, &array);
        }
    }
}

impl Visitor for Beside<'_> {
    fn begin(&mut self) {
        *self = Self::new(self.class, self.text);
    }

    fn unsigned(&mut self, field: u16, value: u64) {
        self.all.unsigned(field, value);
        self.number(field, value);
    }

    fn signed(&mut self, field: u16, value: i64) {
        self.all.signed(field, value);
        self.number(field, value as u64);
    }

    fn float(&mut self, field: u16, value: f64) {
        self.all.float(field, value);
        if self.is_needed(field) {
            self.needed.float(field, value);
        }
        let shown = text::six_digits(value);
        let found = matches!(self.tokens.next(), Some(Token::Word(word)) if word == shown.as_bytes());
        self.expect(found, || format!("{shown} (field {field})"));
    }

    fn bytes(&mut self, field: u16, value: &[u8]) {
        self.all.bytes(field, value);
        if self.is_needed(field) {
            self.needed.bytes(field, value);
        }
        let token = self.tokens.next();
        // babeltrace2 2.0 shows another text in place of an empty text.
        let found = matches!(&token, Some(Token::Text(text)) if value.is_empty() || **text == *value);
        self.expect(found, || format!("{:?} (field {field})", String::from_utf8_lossy(value)));
    }

    fn open(&mut self, field: u16) {
        let kind = self.class.fields.get(usize::from(field)).map(|field| &field.kind);
        if self.is_needed(field) && kind == Some(&FieldKind::Array) {
            self.array = Some(Vec::new());
        }
    }

    fn close(&mut self, field: u16) {
        let kind = self.class.fields.get(usize::from(field)).map(|field| &field.kind);
        if self.is_needed(field) && kind == Some(&FieldKind::Array) {
            self.close_array();
        }
    }
}
