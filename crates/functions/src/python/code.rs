//! Python functions, read from their process's memory: their names, files and lines.

use wakepath_process::Memory;

use super::layout;

/// The maximum number of characters in a name, of bytes in a line table, and of instructions in a function.
const MAX_TEXT: u64 = 4096;
const MAX_LINES: u64 = 1 << 20;
const MAX_INSTRUCTIONS: u64 = 1 << 24;

/// A code object: a function, or another part of a module with its own code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonCode {
    /// Its address in the process.
    pub address: u64,
    /// Its name, such as `handle` or `<listcomp>`.
    pub name: String,
    /// The name with its class or the function around it: `Server.handle`.
    pub qualified_name: String,
    /// The source file, as the interpreter was given it.
    pub file: String,
    /// The line of its definition.
    pub line: u32,
    /// The size of its instructions, bytes.
    pub length: u64,
    /// Whether it is a generator or a coroutine: then each step is a call.
    pub suspends: bool,
    lines: Vec<u8>,
}

impl PythonCode {
    /// Reads a code object; `None` if there is none.
    pub fn read(memory: &Memory, address: u64) -> Option<Self> {
        let of = |offset| memory.word(address.checked_add(offset)?).ok();
        let text_at = |offset| text(memory, of(offset)?);
        let length = of(layout::LENGTH).filter(|length| *length <= MAX_INSTRUCTIONS)? * 2;
        let flags = of(layout::FLAGS)? as u32;
        Some(Self {
            address,
            name: text_at(layout::NAME)?,
            qualified_name: text_at(layout::QUALIFIED_NAME)?,
            file: text_at(layout::FILE)?,
            line: of(layout::FIRST_LINE)? as u32,
            length,
            suspends: flags & layout::SUSPENDS != 0,
            lines: of(layout::LINES).and_then(|at| bytes(memory, at)).unwrap_or_default(),
        })
    }

    /// Its first instruction's address.
    pub fn begin(&self) -> u64 {
        self.address.saturating_add(layout::INSTRUCTIONS)
    }

    /// Whether an address is inside its instructions.
    pub fn has(&self, instruction: u64) -> bool {
        instruction.checked_sub(self.begin()).is_some_and(|place| place < self.length)
    }

    /// The line of the instruction at this distance behind the first, bytes; `None` if it has none.
    pub fn line_at(&self, place: u64) -> Option<u32> {
        line_of(&self.lines, self.line, place / 2)
    }
}

/// An instruction's line, by its number, in a location table (CPython 3.11, `Objects/locations.md`).
fn line_of(table: &[u8], first: u32, instruction: u64) -> Option<u32> {
    let (mut line, mut at) = (i64::from(first), 0_u64);
    let mut rest = table.iter().copied().peekable();
    while let Some(head) = rest.next() {
        let (code, length) = (head >> 3 & 15, u64::from(head & 7) + 1);
        match code {
            15 => {}
            13 | 14 => line += signed(&mut rest)?,
            10..=12 => line += i64::from(code) - 10,
            _ => {}
        }
        at += length;
        if instruction < at {
            return u32::try_from(line).ok().filter(|_| code != 15);
        }
        // The columns. An entry begins with the highest bit.
        while rest.next_if(|byte| byte & 0x80 == 0).is_some() {}
    }
    None
}

/// A number with 6 bits a byte, lowest first, the sign in its lowest bit.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let (mut number, mut shift) = (0_u64, 0);
    loop {
        let byte = bytes.next()?;
        number |= u64::from(byte & 63) << shift;
        shift += 6;
        if byte & 64 == 0 {
            break;
        }
        if shift > 42 {
            return None;
        }
    }
    let size = (number >> 1) as i64;
    Some(if number & 1 == 1 { -size } else { size })
}

/// The content of a `bytes` object.
fn bytes(memory: &Memory, at: u64) -> Option<Vec<u8>> {
    let length = memory.word(at.checked_add(layout::LENGTH)?).ok().filter(|length| *length <= MAX_LINES)?;
    memory.bytes(at.checked_add(layout::BYTES)?, length).ok()
}

/// The content of a `str` object, in each form of names and paths.
fn text(memory: &Memory, at: u64) -> Option<String> {
    let length = memory.word(at.checked_add(layout::LENGTH)?).ok().filter(|length| *length <= MAX_TEXT)?;
    let state = memory.word(at.checked_add(layout::STATE)?).ok()?;
    // `interned:2, kind:3, compact:1, ascii:1`.
    let (kind, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
    if !is_compact || !matches!(kind, 1 | 2 | 4) {
        return None;
    }
    let text = at.checked_add(if is_ascii { layout::ASCII_TEXT } else { layout::TEXT })?;
    let bytes = memory.bytes(text, length * kind).ok()?;
    let character = |bytes: &[u8]| {
        let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
        char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER)
    };
    Some(bytes.chunks_exact(kind as usize).map(character).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_an_instruction_is_found_in_each_form_of_an_entry() {
        // Two instructions on the first line with columns; one on the next; one 3 back, without columns; one without a
        // line; one over several lines, 70 further down.
        let table = [0x81, 0x12, 0xd8, 0x04, 0x09, 0xe8, 0x07, 0xf8, 0xf0, 0x4c, 0x02, 0x01, 0x05, 0x06];
        let lines: Vec<_> = (0..7).map(|number| line_of(&table, 10, number)).collect();
        assert_eq!(lines, [Some(10), Some(10), Some(11), Some(8), None, Some(78), None]);
    }

    #[test]
    fn a_broken_table_has_no_lines_and_does_no_harm() {
        for table in
            [&[][..], &[0xf0], &[0xf0, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f], &[0xe8]]
        {
            assert_eq!(line_of(table, 1, 0), None, "{table:?}");
        }
        assert_eq!(line_of(&[0xe8, 0x07], 1, 0), None, "below the first line of a file");
        for byte in 0..=255 {
            let _ = line_of(&[byte; 64], 1, 1000);
        }
    }
}
