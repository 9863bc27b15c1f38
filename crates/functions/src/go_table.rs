//! The function names that Go's runtime keeps for its own tracebacks, and that stripping leaves: the table in
//! `.gopclntab` (Go's `src/runtime/symtab.go`).
//!
//! A header, then names, files and lines, then for each function in address order its distance from the beginning of
//! Go's code, and the place of its other data, its name among it. The beginning of Go's code is in the header up to Go
//! 1.25, later in another table; and in a program that may be loaded anywhere, in neither. So a beginning is believed
//! where functions are seen to stand behind it.

/// The table's form since Go 1.18, by its first word.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// The forms before: Go 1.16 and 1.17, and up to 1.15.
const OLD_MAGICS: [u32; 2] = [0xffff_fffa, 0xffff_fffb];

/// `cmp 0x10(%r14),%rsp`: the beginning of most Go functions, those with small frames.
pub(crate) const STACK_CHECK: [u8; 4] = [0x49, 0x3b, 0x66, 0x10];

/// Whether Go 1.17 or an older version made the table.
pub(crate) fn is_old(table: &[u8]) -> bool {
    word(table, 0).is_some_and(|magic| OLD_MAGICS.contains(&magic))
}

/// The part of the table with names.
#[derive(Debug)]
pub(crate) struct GoTable<'t> {
    /// Each ends with a NUL.
    pub names: &'t [u8],
    /// Each function's offset from the beginning of Go's code, and its name's offset in `names`; at least one function,
    /// in order.
    pub functions: Vec<(u32, u32)>,
    /// The end of the last function, from the beginning of Go's code.
    pub end: u32,
    /// The address of Go's code, if the header states it; 0 else.
    pub text: u64,
}

impl<'t> GoTable<'t> {
    /// `None` for another kind of table, or a contradictory one.
    pub fn of(table: &'t [u8]) -> Option<Self> {
        let made_for_64_bits = table.get(7) == Some(&8);
        if !MAGICS.contains(&word(table, 0)?) || !made_for_64_bits {
            return None;
        }
        let count = usize::try_from(long(table, 8)?).ok()?;
        let part = |at: usize| table.get(usize::try_from(long(table, at)?).ok()?..);
        let (text, names, rest) = (long(table, 24)?, part(32)?, part(64)?);
        let mut functions = Vec::new();
        for index in 0..count {
            let at = index.checked_mul(8)?;
            let (offset, more) = (word(rest, at)?, word(rest, at + 4)? as usize);
            let name = word(rest, more.checked_add(4)?)?;
            if functions.last().is_some_and(|&(before, _)| before > offset) {
                return None;
            }
            functions.push((offset, name));
        }
        let end = word(rest, count.checked_mul(8)?)?;
        let &(last, _) = functions.last()?;
        (last <= end).then_some(Self { names, functions, end, text })
    }

    /// The first of these places with functions behind it: there Go's code begins. `code` gives the four bytes at an
    /// address.
    pub fn text(
        &self,
        places: impl IntoIterator<Item = u64>,
        code: impl Fn(u64) -> Option<[u8; 4]>,
    ) -> Option<u64> {
        // Samples from all over. Two thirds of a program's functions begin so; at other places, next to none.
        let step = self.functions.len().div_ceil(256);
        let sample = || self.functions.iter().step_by(step);
        let begins = |text: u64| {
            sample()
                .filter(|(offset, _)| text.checked_add((*offset).into()).and_then(&code) == Some(STACK_CHECK))
                .count()
        };
        places.into_iter().filter(|&text| text != 0).find(|&text| begins(text) * 4 >= sample().count())
    }
}

/// The beginning of Go's code in a module's table: the address of the function table, six slices, a table for finding
/// functions, the least and the greatest code address, and the beginning.
pub(crate) fn text_of_module(module: &[u8]) -> Option<u64> {
    long(module, 8 + 6 * 24 + 3 * 8)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::{GoTable, STACK_CHECK, is_old, text_of_module};
    use crate::testing::go_table;

    /// Two functions, `main.f` at 0 and `main.g` at 32, up to 64; as Go 1.20 writes them.
    fn table() -> Vec<u8> {
        let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        let names = b"main.f\0main.g\0\0\0";
        let rest = 72 + names.len() as u64;
        for long in [2, 0, 0x40_1000, 72, 0, 0, 0, rest] {
            table.extend(u64::to_le_bytes(long));
        }
        table.extend(names);
        for word in [0, 20, 32, 28, 64, 0, 0, 32, 7] {
            table.extend(u32::to_le_bytes(word));
        }
        table
    }

    #[test]
    fn functions_are_read_with_their_names() {
        let table = table();
        let found = GoTable::of(&table).expect("a table");
        assert_eq!((found.functions, found.end, found.text), (vec![(0, 0), (32, 7)], 64, 0x40_1000));
        assert!(found.names.starts_with(b"main.f\0main.g\0"));
        assert!(!is_old(&table));
        let mut old = table.clone();
        old[0] = 0xfa;
        assert!(is_old(&old) && GoTable::of(&old).is_none());
    }

    #[test]
    fn a_beginning_is_believed_where_functions_stand_behind_it() {
        let table = table();
        let found = GoTable::of(&table).expect("a table");
        let code = |at: u64| [0x40_1000, 0x40_1020].contains(&at).then_some(STACK_CHECK);
        assert_eq!(found.text([0, 0x40_0000, 0x40_1000], code), Some(0x40_1000));
        assert_eq!(found.text([0, 0x40_0000, u64::MAX], code), None);
    }

    #[test]
    fn a_beginning_is_believed_where_a_quarter_of_the_functions_begin_with_a_check() {
        let names: Vec<String> = (0..600).map(|n| format!("main.f{n}")).collect();
        for count in [1, 8, 9, 256, 600] {
            let functions: Vec<_> = (0..count).map(|n| (n * 16, names[n as usize].as_str())).collect();
            let table = go_table(0x1000, &functions, count * 16);
            let found = GoTable::of(&table).expect("a table");
            assert_eq!((found.functions.len(), found.end), (count as usize, count * 16));
            // Every third function out of 600 is tried.
            let tried = if count == 600 { 200 } else { count as usize };
            for checks in [0, tried.div_ceil(4) - 1, tried.div_ceil(4), tried] {
                let left = std::cell::Cell::new(checks);
                let code = |_| left.get().checked_sub(1).map(|rest| (left.set(rest), STACK_CHECK).1);
                let believed = checks * 4 >= tried;
                assert_eq!(found.text([0x1000], code), believed.then_some(0x1000), "{checks} of {count}");
            }
        }
    }

    #[test]
    fn a_table_for_another_machine_or_of_another_form_is_none() {
        for (at, byte, is_table) in [
            (0, 0xf1, true),
            (0, 0xf0, true),
            (0, 0xf2, false),
            (0, 0xfb, false),
            (7, 4, false),
            (7, 8, true),
        ] {
            let mut table = table();
            table[at] = byte;
            assert_eq!(GoTable::of(&table).is_some(), is_table, "{byte:#x} at {at}");
            assert_eq!(is_old(&table), byte == 0xfb);
        }
    }

    #[test]
    fn a_table_that_is_cut_off_or_lies_gives_nothing_and_no_panic() {
        let whole = table();
        for length in 0..whole.len() {
            assert!(GoTable::of(&whole[..length]).is_none(), "{length}");
        }
        for at in 0..whole.len() {
            for byte in [0xff, 0x7f, 0] {
                let mut broken = whole.clone();
                broken[at] = byte;
                if let Some(found) = GoTable::of(&broken) {
                    found.text([found.text], |_| None);
                }
            }
        }
    }

    #[test]
    fn functions_come_in_order() {
        let offsets = |first: u32, second: u32| {
            let mut table = table();
            let rest = table.len() - 36;
            table[rest..rest + 4].copy_from_slice(&first.to_le_bytes());
            table[rest + 8..rest + 12].copy_from_slice(&second.to_le_bytes());
            GoTable::of(&table)
                .map(|found| found.functions.iter().map(|&(offset, _)| offset).collect::<Vec<_>>())
        };
        assert_eq!(offsets(0, 32), Some(vec![0, 32]));
        assert_eq!(offsets(32, 32), Some(vec![32, 32]), "one of no length");
        assert_eq!(offsets(33, 32), None);
        assert_eq!(offsets(0, 64), Some(vec![0, 64]), "the last one may have no length");
        assert_eq!(offsets(0, 65), None, "behind the end");
    }

    #[test]
    fn the_table_of_a_module_has_the_beginning_of_the_code_behind_six_slices() {
        let module: Vec<u8> = (0..30_u64).flat_map(u64::to_le_bytes).collect();
        assert_eq!(text_of_module(&module), Some(22));
        assert_eq!(text_of_module(&module[..183]), None);
    }
}
