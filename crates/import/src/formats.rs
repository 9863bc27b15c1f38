//! The description of tracepoints and their fields in a file: `perf` and `trace-cmd` copy it from the kernel's
//! tracefs, in the same form.
//!
//! Sources: Linux's `tools/perf/util/trace-event-info.c` writes the section, trace-cmd's page trace-cmd.dat.v6(5)
//! describes it, and `Documentation/trace/events.rst` explains format files.

use std::collections::HashMap;

use crate::normalise::ReportedStates;

/// A tracepoint's name and fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Format {
    pub system: String,
    pub name: String,
    fields: Vec<(String, Field)>,
    /// The bits in a switch's `prev_state`.
    pub states: Option<ReportedStates>,
}

/// A field's place in a tracepoint's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub offset: u32,
    pub size: u32,
    signed: bool,
    /// The field holds the value's place and length.
    dynamic: bool,
}

impl Field {
    /// The field as a number; `None` for other sizes, or beyond the bytes.
    pub fn number(&self, raw: &[u8]) -> Option<i64> {
        let bytes = raw.get(self.offset as usize..)?;
        Some(match (self.size, self.signed) {
            (1, false) => (*bytes.first()?).into(),
            (1, true) => i64::from(*bytes.first()? as i8),
            (2, false) => u16::from_le_bytes(*bytes.first_chunk()?).into(),
            (2, true) => i16::from_le_bytes(*bytes.first_chunk()?).into(),
            (4, false) => u32::from_le_bytes(*bytes.first_chunk()?).into(),
            (4, true) => i32::from_le_bytes(*bytes.first_chunk()?).into(),
            // An array's first word.
            (size, _) if size >= 8 => u64::from_le_bytes(*bytes.first_chunk()?) as i64,
            _ => return None,
        })
    }

    /// All the field's bytes; `None` beyond the bytes.
    pub fn bytes<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        raw.get(self.offset as usize..)?.get(..self.size as usize)
    }

    /// A text up to its NUL; empty beyond the bytes.
    pub fn text<'a>(&self, raw: &'a [u8]) -> &'a [u8] {
        let (from, size) = if self.dynamic {
            let word = raw.get(self.offset as usize..).and_then(|rest| rest.first_chunk());
            let word = word.map_or(0, |&word| u32::from_le_bytes(word));
            (word & 0xffff, word >> 16)
        } else {
            (self.offset, self.size)
        };
        let text = raw.get(from as usize..).unwrap_or_default();
        let text = &text[..text.len().min(size as usize)];
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        &text[..end]
    }
}

impl Format {
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field)
    }

    /// The field behind the named field.
    pub fn field_behind(&self, name: &str) -> Option<Field> {
        let place = self.fields.iter().position(|(known, _)| known == name)?;
        self.fields.get(place + 1).map(|(_, field)| *field)
    }

    /// Parses a format file into the tracepoint's number and its fields.
    pub(crate) fn parse(system: &str, text: &str) -> Option<(u64, Self)> {
        let mut format = Self { system: system.to_owned(), ..Self::default() };
        let mut id = None;
        for line in text.lines() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().to_owned();
            } else if let Some(number) = line.strip_prefix("ID:") {
                id = number.trim().parse().ok();
            } else if let Some(field) = line.strip_prefix("field:") {
                format.fields.extend(parse_field(field));
            } else if let Some(print) = line.strip_prefix("print fmt:")
                && format.name == "sched_switch"
            {
                format.states = parse_states(print);
            }
        }
        Some((id?, format))
    }
}

/// `char prev_comm[16]; offset:8; size:16; signed:0;`
fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?;
    let number = |part: &str, key: &str| part.strip_prefix(key)?.trim().parse().ok();
    let offset = number(parts.next()?, "offset:")?;
    let size = number(parts.next()?, "size:")?;
    let signed = parts.next().and_then(|part| number(part, "signed:")) == Some(1);
    let name = declaration.split('[').next().filter(|it| !it.is_empty() && !it.starts_with("__data_loc"));
    let name = name.unwrap_or(declaration).rsplit([' ', '*', ']']).next()?;
    let dynamic = declaration.starts_with("__data_loc");
    Some((name.to_owned(), Field { offset, size, signed, dynamic }))
}

/// Parses the meaning of `prev_state`: the flags and letters in its `__print_flags`, and the bit printed as `+`,
/// which marks a preempted thread.
fn parse_states(print: &str) -> Option<ReportedStates> {
    let (_, flags) = print.split_once("__print_flags(REC->prev_state")?;
    let (table, rest) = flags.split_once("})")?;
    let mut letters = Vec::new();
    for entry in table.split('{').skip(1) {
        let (value, letter) = entry.split_once(',')?;
        let letter = letter.trim().trim_matches(|c| matches!(c, '"' | ',' | '}' | ' '));
        letters.push((number(value.trim())?, letter.chars().next()?));
    }
    let highest = letters.iter().map(|&(value, _)| value).max()?;
    let preempted = rest
        .split_once("REC->prev_state &")
        .and_then(|(_, mask)| evaluate(mask.split_once('?')?.0))
        .filter(|&mask| mask > highest)
        .or_else(|| highest.checked_mul(2))?;
    Some(ReportedStates::from_flags(&letters, preempted))
}

/// A number in base 10, or 16 behind `0x`.
pub(crate) fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Evaluates `(((0x0 | 0x1 | 0x2) + 1) << 1)`. Every operator has its own brackets, so operators apply from left to
/// right.
fn evaluate(expression: &str) -> Option<i64> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ");
    // For each open bracket, the value in front and the operator behind that value.
    let mut open: Vec<(Option<i64>, &str)> = Vec::new();
    let (mut now, mut operator): (Option<i64>, &str) = (None, "");
    let apply = |left: Option<i64>, operator: &str, right: i64| match (left, operator) {
        (None, "") => Some(right),
        (Some(left), "|") => Some(left | right),
        (Some(left), "&") => Some(left & right),
        (Some(left), "+") => left.checked_add(right),
        (Some(left), "-") => left.checked_sub(right),
        (Some(left), "<<") if (0..63).contains(&right) => left.checked_mul(1 << right),
        _ => None,
    };
    for token in spaced.split_whitespace() {
        match token {
            "(" => open.push((now.take(), std::mem::take(&mut operator))),
            ")" => {
                let (left, before) = open.pop()?;
                now = Some(apply(left, before, now?)?);
                operator = "";
            }
            "|" | "&" | "+" | "-" | "<<" => operator = token,
            digits => {
                now = Some(apply(now, operator, number(digits)?)?);
                operator = "";
            }
        }
    }
    open.is_empty().then_some(now)?
}

/// The wanted tracepoints' formats, by number, up to the first unreadable place; and this place.
pub(crate) fn read(section: &[u8], wanted: impl Fn(u64) -> bool) -> (HashMap<u64, Format>, Option<usize>) {
    let mut formats = HashMap::new();
    let mut rest = DescriptionReader::new(section);
    let fault = read_all(&mut rest, &mut |id, format| {
        if wanted(id) {
            formats.insert(id, format);
        }
    });
    let fault = fault.is_none();
    (formats, fault.then_some(rest.at))
}

fn read_all(rest: &mut DescriptionReader<'_>, visit: &mut impl FnMut(u64, Format)) -> Option<()> {
    (rest.take(MAGIC.len())? == MAGIC).then_some(())?;
    let _version = rest.text()?;
    // The byte order (little-endian), a long's size, and a page's size.
    (rest.take(1)? == [0]).then_some(())?;
    rest.take(5)?;
    rest.buffers()?;
    rest.skip_ftrace_formats()?;
    rest.systems(visit)
}

/// The first bytes in the section, and in a trace-cmd file.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The fields in a format's lines, by name.
pub(crate) fn fields(text: &str) -> impl Iterator<Item = (String, Field)> {
    text.lines().filter_map(|line| parse_field(line.trim().strip_prefix("field:")?))
}

/// Reads a description, item by item.
pub(crate) struct DescriptionReader<'a> {
    bytes: &'a [u8],
    pub at: usize,
}

impl<'a> DescriptionReader<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The layouts in the kernel's buffers: for a page and for an event.
    pub fn buffers(&mut self) -> Option<[&'a [u8]; 2]> {
        let mut named = |name: &str| {
            (self.text()? == name.as_bytes()).then_some(())?;
            self.block()
        };
        Some([named("header_page")?, named("header_event")?])
    }

    /// Skips the formats for ftrace's own events, which are not used here.
    pub fn skip_ftrace_formats(&mut self) -> Option<()> {
        for _ in 0..self.count()? {
            self.block()?;
        }
        Some(())
    }

    /// Visits all tracepoints' formats, with their numbers.
    pub fn systems(&mut self, visit: &mut impl FnMut(u64, Format)) -> Option<()> {
        for _ in 0..self.count()? {
            let system = String::from_utf8_lossy(self.text()?);
            for _ in 0..self.count()? {
                let text = String::from_utf8_lossy(self.block()?);
                if let Some((id, format)) = Format::parse(&system, &text) {
                    visit(id, format);
                }
            }
        }
        Some(())
    }

    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.take(2)?.first_chunk().map(|&bytes| u16::from_le_bytes(bytes))
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take(8)?.first_chunk().map(|&bytes| u64::from_le_bytes(bytes))
    }

    pub fn count(&mut self) -> Option<u32> {
        self.take(4)?.first_chunk().map(|&bytes| u32::from_le_bytes(bytes))
    }

    /// Bytes behind their length.
    fn block(&mut self) -> Option<&'a [u8]> {
        let size = self.u64()?;
        self.take(usize::try_from(size).ok()?)
    }

    pub fn text(&mut self) -> Option<&'a [u8]> {
        let end = self.bytes.get(self.at..)?.iter().position(|&byte| byte == 0)?;
        let text = self.take(end)?;
        self.take(1)?;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_event::{BlockedState::*, SwitchOut};

    const BLOCKED: fn(wakepath_event::BlockedState) -> SwitchOut = SwitchOut::Blocked;

    /// The switch tracepoint's print format in two kernels.
    const OF_6_1: &str = r#""prev_state=%s%s", (REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000004, "T" }, { 0x00000008, "t" }, { 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }, { 0x00000080, "I" }) : "R", REC->prev_state & (((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) ? "+" : "", REC->next_comm"#;
    const OF_4_4: &str = r#""prev_state=%s%s", REC->prev_state & (2048-1) ? __print_flags(REC->prev_state & (2048-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K" }, { 256, "W" }, { 512, "P" }, { 1024, "N" }) : "R", REC->prev_state & 2048 ? "+" : "", REC->next_comm"#;

    #[test]
    fn a_state_means_what_its_letter_in_the_file_means() {
        for (print, state, meaning) in [
            (OF_6_1, 0, SwitchOut::Runnable),
            (OF_6_1, 0x100, SwitchOut::Runnable),
            (OF_6_1, 1, BLOCKED(Interruptible)),
            (OF_6_1, 2, BLOCKED(Uninterruptible)),
            (OF_6_1, 4, BLOCKED(Stopped)),
            (OF_6_1, 8, BLOCKED(Traced)),
            (OF_6_1, 0x10, SwitchOut::Dead),
            (OF_6_1, 0x20, SwitchOut::Dead),
            (OF_6_1, 0x40, BLOCKED(Parked)),
            (OF_6_1, 0x80, BLOCKED(Idle)),
            (OF_6_1, 3, BLOCKED(Other(3))),
            (OF_4_4, 64, SwitchOut::Dead),
            (OF_4_4, 512, BLOCKED(Parked)),
            (OF_4_4, 0x402, BLOCKED(Idle)),
            (OF_4_4, 0x82, BLOCKED(Uninterruptible)),
            (OF_4_4, 0x800, SwitchOut::Runnable),
            // A kernel with other numbers: only the table defines them.
            (&OF_4_4.replace("{ 512, \"P\" }", "{ 512, \"I\" }"), 512, BLOCKED(Idle)),
            (&OF_4_4.replace("& 2048 ?", "& 4096 ?"), 0x800, BLOCKED(Other(0x800))),
        ] {
            let states = parse_states(print).expect("a table");
            assert_eq!(states.switch_out(state), meaning, "{state:#x} of {print}");
        }
        for nonsense in
            ["", "__print_flags(REC->prev_state, {})", r#"__print_flags(REC->prev_state, { 1, "S" "#]
        {
            assert_eq!(parse_states(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_mask_is_evaluated() {
        for (expression, expected) in [
            ("2048", Some(2048)),
            ("(((0x0 | 0x40 | 0x3f) + 1) << 1)", Some(0x100)),
            ("(2048-1)", None),
            ("(2048 - 1)", Some(2047)),
            ("((1)", None),
            ("1 << 64", None),
            ("", None),
            ("| 3", None),
        ] {
            assert_eq!(evaluate(expression), expected, "{expression}");
        }
        let deep = "(".repeat(1 << 16);
        assert_eq!(evaluate(&deep), None);
    }

    const FORMAT: &str = "name: sched_waking\nID: 319\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:const char * file;\toffset:32;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned long args[6];\toffset:40;\tsize:48;\tsigned:0;\n";

    #[test]
    fn a_field_is_where_the_format_says() {
        let (id, format) = Format::parse("sched", FORMAT).expect("a format");
        assert_eq!((id, format.system.as_str(), format.name.as_str()), (319, "sched", "sched_waking"));
        let mut raw = vec![0_u8; 90];
        raw[4..8].copy_from_slice(&(-7_i32).to_le_bytes());
        raw[8..12].copy_from_slice(b"own\0");
        raw[24..28].copy_from_slice(&(88_u32 | 2 << 16).to_le_bytes());
        raw[40] = 9;
        raw[88..].copy_from_slice(b"ab");
        let field = |name| format.field(name).expect("a field");
        assert_eq!(field("common_pid").number(&raw), Some(-7));
        assert_eq!(field("comm").text(&raw), b"own");
        assert_eq!(field("name").text(&raw), b"ab");
        assert_eq!(field("args").number(&raw), Some(9));
        assert_eq!(format.field_behind("comm"), format.field("name"));
        assert_eq!(format.field("file").map(|field| field.offset), Some(32));
        // The bytes end before the field.
        assert_eq!(field("common_pid").number(&raw[..7]), None);
        assert_eq!(field("name").text(&raw[..89]), b"a");
        assert_eq!(field("name").text(&raw[..20]), b"");
    }

    fn section(systems: u32, count: u32) -> Vec<u8> {
        let mut section = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec();
        let block = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
        section.extend([&b"header_page\0"[..], &block("x"), b"header_event\0", &block("y")].concat());
        section.extend(1_u32.to_le_bytes());
        section.extend(block("name: own\nID: 1\n"));
        section.extend(systems.to_le_bytes());
        section.extend(b"sched\0");
        section.extend(count.to_le_bytes());
        section.extend(block(FORMAT));
        section
    }

    #[test]
    fn wanted_formats_are_kept_and_no_count_is_trusted() {
        let (formats, fault) = read(&section(1, 1), |id| id == 319);
        assert_eq!((formats.len(), formats[&319].name.as_str(), fault), (1, "sched_waking", None));
        assert_eq!(read(&section(1, 1), |_| false).0.len(), 0);
        for (systems, count) in [(1, u32::MAX), (u32::MAX, 1)] {
            let (formats, fault) = read(&section(systems, count), |_| true);
            assert_eq!((formats.len(), fault), (1, Some(section(1, 1).len())));
        }
        let whole = section(1, 1);
        for len in 0..whole.len() {
            assert!(read(&whole[..len], |_| true).1.is_some(), "{len} bytes");
        }
    }
}
