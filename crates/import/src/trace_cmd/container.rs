//! The layout of a `trace.dat` in either version, and its options' facts about the machine.

use std::collections::HashMap;
use std::path::Path;

use foldhash::fast::FixedState;
use wakepath_ctf::Source;
use wakepath_event::{Comm, Cpu, Tid};

use super::compression::{MAX_BYTES, METHODS};
use super::cut;
use super::head_reader::HeadReader;
use super::ring::{self, Layout};
use crate::OpenError;
use crate::formats::{self, DescriptionReader, MAGIC};
use crate::normalise::ReportedStates;
use crate::plan::Plan;

/// A file's layout, and its facts about the machine.
#[derive(Debug)]
pub(super) struct Container {
    pub layout: Layout,
    pub tracepoints: Tracepoints,
    /// The top buffer first.
    pub buffers: Vec<Buffer>,
    /// Thread names at the recording's end.
    pub comms: HashMap<Tid, Comm, FixedState>,
    /// The file's compression method; `none` without compression.
    pub compression: String,
    pub options: FileOptions,
    /// The names of buffers behind the file's end; empty for an unknown name.
    pub cut_buffers: Vec<String>,
    /// The option with the pages' places is behind the file's end.
    pub is_table_cut: bool,
}

/// The values from the file's options.
#[derive(Debug, Default)]
pub(super) struct FileOptions {
    /// The machine's `uname -a`.
    pub uname: String,
    /// trace-cmd's version.
    pub version: String,
    /// Realtime less the stamps' clock, µs.
    pub realtime_offset_us: Option<i64>,
    pub tsc: Option<Tsc>,
    /// By CPU, the number of events without room in the buffer, by the kernel's count.
    pub dropped: Vec<(u32, u64)>,
    /// By CPU with events, their number by the kernel's count.
    pub counted: Vec<(u32, u64)>,
    /// The clock. Version 6 files mostly have an empty name here, and the clock behind each CPU table.
    pub clock: Option<String>,
}

/// The conversion from time-stamp counter cycles to ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tsc {
    pub multiplier: u32,
    pub shift: u32,
    pub offset: u64,
}

/// A ring buffer: the top buffer, or an instance's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Buffer {
    /// Empty for the top buffer.
    pub name: String,
    /// Its stamps' clock.
    pub clock: String,
    /// Its page size, bytes.
    pub page_bytes: u32,
    pub compressed: bool,
    pub cpus: Vec<Pages>,
}

/// The place of a CPU's pages, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pages {
    pub cpu: u32,
    pub from: u64,
    pub to: u64,
    /// The place to which they should reach, where the file ends before it.
    pub cut_from: Option<u64>,
}

/// The tracepoints described in the file.
#[derive(Debug, Default)]
pub(super) struct Tracepoints {
    /// The tracepoints to read, by number.
    pub plans: HashMap<u16, Plan, FixedState>,
    /// All tracepoints' names, for errors that list them.
    pub names: HashMap<u16, Box<str>, FixedState>,
    pub states: Option<ReportedStates>,
}

/// The numbers of options, some of which lead to sections with the same number.
pub(super) mod option {
    pub const DONE: u16 = 0;
    pub const DATE: u16 = 1;
    pub const CPU_STAT: u16 = 2;
    pub const BUFFER: u16 = 3;
    pub const TRACE_CLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const VERSION: u16 = 9;
    pub const TSC_TO_NS: u16 = 14;
    pub const HEADER_INFO: u16 = 16;
    pub const EVENT_FORMATS: u16 = 18;
    pub const COMMAND_LINES: u16 = 21;
    pub const BUFFER_TEXT: u16 = 22;
}

const MAX_OPTIONS: usize = 1 << 16;
const MAX_BUFFERS: usize = 1 << 10;
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 64..=(1 << 22);
/// The ten-byte tags for kinds of content in version 6.
const FLYRECORD: &str = "flyrecord";
const LATENCY: &str = "latency  ";
const OPTIONS: &str = "options  ";

/// A command to record the events that explain a delay.
pub(super) const RECORD_WITH: &str = "trace-cmd record -C mono -e sched_switch -e sched_waking \
                           -e sched_wakeup_new -e irq -e hrtimer_expire_entry -e hrtimer_expire_exit COMMAND";

impl Container {
    pub fn read(source: &impl Source, path: &Path) -> Result<Self, OpenError> {
        let mut head = HeadReader::new(source, path)?;
        if head.peek(MAGIC.len() as u64)? != MAGIC {
            let why = "is no trace.dat: it does not begin with 17 08 44 and `tracing`";
            return Err(OpenError::unsupported(path, why));
        }
        head.at += MAGIC.len() as u64;
        let version = head.text("its version")?;
        if version != "6" && version != "7" {
            let why = format!(
                "is a trace.dat of version {version}, and versions 6 and 7 are read: convert it \
                 (trace-cmd convert --file-version 7 --compression none -i FILE -o NEW)"
            );
            return Err(OpenError::unsupported(path, why));
        }
        match head.byte("its byte order")? {
            0 => {}
            1 => return Err(OpenError::big_endian(path)),
            other => return Err(head.damaged(head.at - 1, format!("{other} is no byte order"))),
        }
        // The size of user space's longs, which do not occur here.
        head.byte("the size of its longs")?;
        let page_bytes = head.u32("the size of its pages")?;
        let mut container = if version == "6" {
            version_6(&mut head, page_bytes)?
        } else {
            version_7(&mut head, page_bytes)?
        };
        container.check(&head)?;
        Ok(container)
    }

    /// Whether the file should go on behind its end.
    pub fn is_cut(&self) -> bool {
        let mut pages = self.buffers.iter().flat_map(|buffer| &buffer.cpus);
        self.is_table_cut || !self.cut_buffers.is_empty() || pages.any(|pages| pages.cut_from.is_some())
    }

    /// Checks that no byte belongs to two CPUs, and leaves out pages behind the file's end.
    fn check(&mut self, head: &HeadReader<'_, impl Source>) -> Result<(), OpenError> {
        let mut all = 0_u64;
        for buffer in &mut self.buffers {
            if !PAGE_SIZES.contains(&buffer.page_bytes) {
                return Err(head.damaged(0, format!("pages cannot be of {} bytes", buffer.page_bytes)));
            }
            for Pages { cpu, from, to, cut_from } in &mut buffer.cpus {
                if to < from {
                    return Err(head.damaged(*from, format!("the pages of CPU {cpu} end before they begin")));
                }
                if *to > head.size {
                    *cut_from = Some(*to);
                    let left = head.size.saturating_sub(*from);
                    // A page's part is not read.
                    let part = if buffer.compressed { 0 } else { left % u64::from(buffer.page_bytes) };
                    *to = *from + left - part;
                }
                all = all.saturating_add(*to - *from);
            }
        }
        if all > head.size {
            return Err(head.damaged(0, format!("its CPUs' pages should take {all} of {} bytes", head.size)));
        }
        Ok(())
    }
}

/// Reads the tracepoints' descriptions; `None` where they end early.
fn tracepoints(rest: &mut DescriptionReader<'_>) -> Option<Tracepoints> {
    let mut found = Tracepoints::default();
    rest.systems(&mut |id, format| {
        let Ok(id) = u16::try_from(id) else { return };
        found.states = found.states.or(format.states);
        found.names.insert(id, format!("{}:{}", format.system, format.name).into());
        found.plans.extend(Plan::new(&format).map(|plan| (id, plan)));
    })?;
    Some(found)
}

fn layout(head: &HeadReader<'_, impl Source>, [page, event]: [&[u8]; 2]) -> Result<Layout, OpenError> {
    let unknown = || head.damaged(head.at, "the kernel's buffers are not laid out as any that is known");
    if !ring::is_known(&String::from_utf8_lossy(event)) {
        return Err(unknown());
    }
    Layout::parse(&String::from_utf8_lossy(page)).ok_or_else(unknown)
}

/// Reads a version 6 file, whose contents follow in a fixed order.
fn version_6(head: &mut HeadReader<'_, impl Source>, page_bytes: u32) -> Result<Container, OpenError> {
    let (layout, tracepoints) = descriptions(head)?;
    for what in ["the kernel's symbols", "the formats of trace_printk"] {
        let size = head.u32(what)?;
        head.skip(size.into(), what)?;
    }
    let comms = comms(head)?;
    let cpus = head.u32("the number of its CPUs")?;
    let mut options = FileOptions::default();
    let mut instances = Vec::new();
    let mut tag = head.text("what comes next")?;
    if tag == OPTIONS {
        read_options(head, &mut options, |head, id, content| {
            if id == option::BUFFER {
                let mut rest = DescriptionReader::new(content);
                let at = rest.u64().ok_or_else(|| head.damaged(head.at, "an instance is nowhere"))?;
                instances.push((at, String::from_utf8_lossy(rest.text().unwrap_or_default()).into_owned()));
            }
            Ok(())
        })?;
        tag = head.text("what comes next")?;
    }
    let clocks = options.clock.is_some();
    let mut buffers = vec![buffer_6(head, &tag, String::new(), page_bytes, cpus, clocks)?];
    let mut cut_buffers = Vec::new();
    for (at, name) in instances.into_iter().take(MAX_BUFFERS) {
        // Instances' tables stand behind the top buffer's pages.
        let is_table = |head: &HeadReader<'_, _>| {
            let table = u64::from(cpus) * 16 + FLYRECORD.len() as u64 + 1;
            at.checked_add(table).is_some_and(|end| end <= head.size)
        };
        if !is_table(head) {
            cut_buffers.push(name);
            continue;
        }
        head.at = at;
        let tag = head.text("what an instance holds")?;
        buffers.push(buffer_6(head, &tag, name, page_bytes, cpus, clocks)?);
    }
    let clock = options.clock.as_deref().unwrap_or_default();
    for buffer in buffers.iter_mut().filter(|buffer| buffer.clock.is_empty()) {
        clock.clone_into(&mut buffer.clock);
    }
    let compression = "none".to_owned();
    Ok(Container {
        layout,
        tracepoints,
        buffers,
        comms,
        compression,
        options,
        cut_buffers,
        is_table_cut: false,
    })
}

/// Reads the descriptions for pages and tracepoints, whose length is stored nowhere.
fn descriptions(head: &mut HeadReader<'_, impl Source>) -> Result<(Layout, Tracepoints), OpenError> {
    let mut limit = 1_u64 << 20;
    loop {
        let bytes = head.peek(limit)?;
        let mut rest = DescriptionReader::new(&bytes);
        let buffers = rest.buffers();
        let found =
            rest.skip_ftrace_formats().filter(|()| buffers.is_some()).and_then(|()| tracepoints(&mut rest));
        match (buffers, found) {
            (Some(buffers), Some(found)) => {
                let layout = layout(head, buffers)?;
                head.at += rest.at as u64;
                return Ok((layout, found));
            }
            // Perhaps the limit cut them.
            _ if bytes.len() as u64 == limit && limit < MAX_BYTES => limit *= 4,
            _ => {
                let what = "the description of the tracepoints makes no sense from here on";
                return Err(head.damaged(head.at + rest.at as u64, what));
            }
        }
    }
}

/// Reads a buffer's CPU table, and the clock behind it.
fn buffer_6(
    head: &mut HeadReader<'_, impl Source>,
    tag: &str,
    name: String,
    page_bytes: u32,
    cpus: u32,
    clocks: bool,
) -> Result<Buffer, OpenError> {
    match tag {
        FLYRECORD => {}
        LATENCY => return Err(latency_tracer(head)),
        _ => return Err(head.damaged(head.at, "neither events nor text begin here")),
    }
    let table = head.take(u64::from(cpus) * 16, "the table of its CPUs")?;
    let cpus = table.chunks_exact(16).enumerate().map(|(cpu, entry)| {
        let mut entry = DescriptionReader::new(entry);
        let (from, size) = (entry.u64().unwrap_or(0), entry.u64().unwrap_or(0));
        Pages { cpu: cpu as u32, from, to: from.saturating_add(size), cut_from: None }
    });
    let cpus = cpus.filter(|pages| pages.to > pages.from).collect();
    let mut clock = String::new();
    if clocks {
        let size = head.u64("the clock")?;
        clock = selected_clock(&String::from_utf8_lossy(&head.take(size, "the clock")?));
    }
    Ok(Buffer { name, clock, page_bytes, compressed: false, cpus })
}

fn latency_tracer(head: &HeadReader<'_, impl Source>) -> OpenError {
    let why = format!(
        "holds the text that a latency tracer printed, and no events: record events with {}",
        RECORD_WITH
    );
    OpenError::unsupported(head.path, why)
}

/// Reads a version 7 file, whose options lead to its sections.
fn version_7(head: &mut HeadReader<'_, impl Source>, page_bytes: u32) -> Result<Container, OpenError> {
    let compression = head.text("its compression method")?;
    head.text("the version of that")?;
    let mut next = head.u64("the place of its options")?;
    let mut options = FileOptions::default();
    let (mut sections, mut buffers, mut is_text) = (HashMap::new(), Vec::new(), false);
    // Each block of options leads to the next; a limit on blocks ends a loop.
    let (mut blocks, mut cut_buffers) = (0, Vec::new());
    // The top buffer's section, if its option is cut off.
    let mut cut_top = None;
    while next != 0 {
        if next >= head.size && !buffers.is_empty() {
            // Another buffer's options stand behind its pages.
            cut_buffers.push(String::new());
            break;
        }
        if blocks > 0 && buffers.is_empty() && head.is_section_cut(next)? {
            cut_top = Some(head.at);
            break;
        }
        head.at = next;
        let (at, content) = head.section(option::DONE, "a section of options", &compression)?;
        let mut inner = OptionReader { rest: DescriptionReader::new(&content), at };
        next = 0;
        while let Some((id, content)) = inner.next(head)? {
            let mut rest = DescriptionReader::new(content);
            match id {
                option::DONE => {
                    next = rest.u64().unwrap_or(0);
                    break;
                }
                option::HEADER_INFO | option::EVENT_FORMATS | option::COMMAND_LINES => {
                    sections.extend(rest.u64().map(|at| (id, at)));
                }
                option::BUFFER if buffers.len() < MAX_BUFFERS => {
                    let buffer = buffer_7(&mut rest);
                    buffers.push(buffer.ok_or_else(|| {
                        head.damaged(inner.at, "the option that leads to a buffer makes no sense")
                    })?);
                }
                option::BUFFER_TEXT => is_text = true,
                _ => options.note(id, content),
            }
        }
        blocks += 1;
        if blocks > 1000 {
            return Err(head.damaged(next, "options lead to options without an end"));
        }
    }
    if buffers.is_empty() && is_text {
        return Err(latency_tracer(head));
    }
    let mut section = |id: u16, what: &str| {
        let at = sections.get(&id).copied();
        head.at = at.ok_or_else(|| head.damaged(0, format!("no option leads to {what}")))?;
        head.section(id, what, &compression)
    };
    let (_, info) = section(option::HEADER_INFO, "what describes the buffers")?;
    let (at, formats) = section(option::EVENT_FORMATS, "what describes the tracepoints")?;
    let names = section(option::COMMAND_LINES, "the names of threads").ok();
    let info = DescriptionReader::new(&info).buffers();
    let layout =
        layout(head, info.ok_or_else(|| head.damaged(head.at, "the buffers are not descriptions"))?)?;
    let mut rest = DescriptionReader::new(&formats);
    let found = tracepoints(&mut rest);
    let tracepoints = found.ok_or_else(|| {
        let what = "the description of the tracepoints makes no sense from here on";
        head.damaged(at + rest.at as u64, what)
    })?;
    let comms = names.map(|(_, names)| parse_comms(names.get(8..).unwrap_or_default())).unwrap_or_default();
    let mut all = Vec::new();
    if let Some(at) = cut_top {
        all.push(cut::buffer(head, at, page_bytes, &compression, &options)?);
    }
    for (at, buffer) in buffers {
        head.at = at;
        let (compressed, _) = head.section_head(option::BUFFER, "the section of a buffer")?;
        if compressed && !METHODS.contains(&compression.as_str()) {
            return Err(head.unknown_method(&compression));
        }
        let mut buffer = Buffer { compressed, ..buffer };
        if compressed {
            // The number of chunks in front of them is not part of the size.
            buffer.cpus.iter_mut().for_each(|pages| pages.to = pages.to.saturating_add(4));
        }
        all.push(buffer);
    }
    all.sort_by_key(|buffer| !buffer.name.is_empty());
    let is_table_cut = cut_top.is_some();
    Ok(Container {
        layout,
        tracepoints,
        buffers: all,
        comms,
        compression,
        options,
        cut_buffers,
        is_table_cut,
    })
}

/// A buffer as its option describes it, and its section's place.
fn buffer_7(rest: &mut DescriptionReader<'_>) -> Option<(u64, Buffer)> {
    let at = rest.u64()?;
    let name = String::from_utf8_lossy(rest.text()?).into_owned();
    let clock = selected_clock(&String::from_utf8_lossy(rest.text()?));
    let (page_bytes, count) = (rest.count()?, rest.count()?);
    let mut cpus = Vec::new();
    for _ in 0..count {
        let (cpu, from, size) = (rest.count()?, rest.u64()?, rest.u64()?);
        if size > 0 {
            cpus.push(Pages { cpu, from, to: from.checked_add(size)?, cut_from: None });
        }
    }
    Some((at, Buffer { name, clock, page_bytes, compressed: false, cpus }))
}

/// Reads version 7 options.
struct OptionReader<'a> {
    rest: DescriptionReader<'a>,
    /// The options' place in the file.
    at: u64,
}

impl<'a> OptionReader<'a> {
    fn next(&mut self, head: &HeadReader<'_, impl Source>) -> Result<Option<(u16, &'a [u8])>, OpenError> {
        let cut = || head.damaged(self.at, "an option goes beyond the end of its section");
        let Some(id) = self.rest.u16() else { return Ok(None) };
        let size = self.rest.count().ok_or_else(cut)?;
        Ok(Some((id, self.rest.take(size as usize).ok_or_else(cut)?)))
    }
}

/// Reads version 6 options, up to the final option.
fn read_options<S: Source>(
    head: &mut HeadReader<'_, S>,
    options: &mut FileOptions,
    mut other: impl FnMut(&HeadReader<'_, S>, u16, &[u8]) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    for _ in 0..MAX_OPTIONS {
        let id = head.u16("an option")?;
        if id == option::DONE {
            return Ok(());
        }
        let size = head.u32("an option")?;
        let content = head.take(size.into(), "an option")?;
        options.note(id, &content);
        other(head, id, &content)?;
    }
    Err(head.damaged(head.at, "options without an end"))
}

impl FileOptions {
    fn note(&mut self, id: u16, content: &[u8]) {
        let text = || {
            let end = content.iter().position(|&byte| byte == 0).unwrap_or(content.len());
            String::from_utf8_lossy(&content[..end]).trim().to_owned()
        };
        match id {
            option::UNAME => self.uname = text(),
            option::VERSION => self.version = text(),
            option::TRACE_CLOCK => self.clock = Some(selected_clock(&text())),
            option::DATE => self.realtime_offset_us = number(&text()),
            option::CPU_STAT => {
                self.dropped.extend(parse_dropped(&text()));
                self.counted.extend(parse_counted(&text()));
            }
            option::TSC_TO_NS => {
                let mut rest = DescriptionReader::new(content);
                let mut tsc =
                    || Some(Tsc { multiplier: rest.count()?, shift: rest.count()?, offset: rest.u64()? });
                self.tsc = tsc().filter(|tsc| tsc.shift < 64 && tsc.multiplier > 0);
            }
            _ => {}
        }
    }
}

/// The clock in brackets of `local [mono] boot`; a single word is the clock.
fn selected_clock(text: &str) -> String {
    let within = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name);
    within.unwrap_or(text).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
}

fn number(text: &str) -> Option<i64> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    formats::number(text).map(|number| sign * number)
}

/// A number in a `stats` file.
fn figure(stats: &str, name: &str) -> Option<u64> {
    let line = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|figure| figure.trim().parse().ok())
}

fn cpu_in(stats: &str) -> Option<u32> {
    figure(stats, "CPU").and_then(|cpu| u32::try_from(cpu).ok()).filter(|&cpu| cpu < Cpu::LIMIT.into())
}

/// The CPU in a `stats` file, and its number of lost events; `None` without losses.
fn parse_dropped(stats: &str) -> Option<(u32, u64)> {
    let figure = |name| figure(stats, name).unwrap_or(0);
    let count = figure("dropped events").saturating_add(figure("commit overrun"));
    cpu_in(stats).filter(|_| count > 0).map(|cpu| (cpu, count))
}

/// The CPU in a `stats` file, and its number of events: in the buffer then, or read before; `None` without events.
fn parse_counted(stats: &str) -> Option<(u32, u64)> {
    let figure = |name| figure(stats, name).unwrap_or(0);
    let count = figure("entries").saturating_add(figure("read events"));
    cpu_in(stats).filter(|_| count > 0).map(|cpu| (cpu, count))
}

fn comms(head: &mut HeadReader<'_, impl Source>) -> Result<HashMap<Tid, Comm, FixedState>, OpenError> {
    const WHAT: &str = "the names of threads";
    let size = head.u64(WHAT)?;
    head.take(size, WHAT).map(|text| parse_comms(&text))
}

/// Reads a line for each thread: its number, and its name, which may hold any byte but a line end.
fn parse_comms(text: &[u8]) -> HashMap<Tid, Comm, FixedState> {
    let lines = text.split(|&byte| byte == b'\n');
    let parsed = lines.filter_map(|line| {
        let blank = line.iter().position(|&byte| byte == b' ')?;
        let tid = std::str::from_utf8(&line[..blank]).ok()?.parse().ok()?;
        Some((Tid(tid), Comm::new(&line[blank + 1..])))
    });
    parsed.filter(|(tid, _)| tid.0 < Tid::LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_tracefs_writes_them() {
        for (text, clock) in
            [("local [mono] boot", "mono"), ("mono", "mono"), ("[local] global\n", "local"), ("", "")]
        {
            assert_eq!(selected_clock(text), clock);
        }
        for (text, value) in [("0x1f", Some(31)), ("-5", Some(-5)), ("0x", None), ("-", None), ("9", Some(9))]
        {
            assert_eq!(number(text), value, "{text}");
        }
        let stats = |dropped: &str| format!("CPU: 1\nentries: 5\noverrun: 3\ncommit overrun: 2\n{dropped}");
        assert_eq!(parse_dropped(&stats("dropped events: 7\n")), Some((1, 9)));
        assert_eq!(parse_dropped("CPU: 0\ncommit overrun: 0\ndropped events: 0\n"), None);
        assert_eq!(parse_dropped("dropped events: 7"), None);
        assert_eq!(parse_counted(&stats("read events: 4\n")), Some((1, 9)));
        assert_eq!(parse_counted("CPU: 2\nentries: 0\nread events: 9\n"), Some((2, 9)));
        assert_eq!(parse_counted("CPU: 2\nentries: 0\nread events: 0\n"), None);
        let comms = parse_comms(b"7 a b\n8 \xff\nnonsense\n99999999 far\n9");
        assert_eq!(comms.len(), 2);
        assert_eq!(comms[&Tid(7)], Comm::new(b"a b"));
    }
}
