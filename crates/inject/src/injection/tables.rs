//! The tables by which the process's unwinders know the stubs.

use super::Injection;
use crate::data;
use crate::error::Error;
use crate::remote::{Work, with_thread};
use crate::unwinding;
use crate::{Unwinder, stub};

impl Injection {
    /// Registers the table for a region's stubs with the process's unwinders, if it is not registered.
    pub(super) fn register(&self, index: usize) -> Result<(), Error> {
        let known = self.memory.word(self.data + data::KNOWN_TABLES)?;
        if self.unwinders.is_empty() || known & 1 << index != 0 {
            return Ok(());
        }
        let region = self.regions[index];
        let table = self.data + data::TABLES + index as u64 * data::TABLE_BYTES;
        self.memory.write(table, &unwinding::table(region, data::MAX_SITES, self.data + data::CALLS))?;
        self.run(index, |unwinder| (unwinder.register, [table, table + data::TABLE_NOTE]))?;
        Ok(self.memory.set_word(self.data + data::KNOWN_TABLES, known | 1 << index)?)
    }

    /// Removes the tables from the process's unwinders.
    pub(super) fn deregister(&self) -> Result<(), Error> {
        for index in 0..self.regions.len() {
            let known = self.memory.word(self.data + data::KNOWN_TABLES)?;
            if known & 1 << index == 0 || self.unwinders.is_empty() {
                continue;
            }
            let table = self.data + data::TABLES + index as u64 * data::TABLE_BYTES;
            self.memory.set_word(self.data + data::KNOWN_TABLES, known & !(1 << index))?;
            self.run(index, |unwinder| (unwinder.deregister, [table, 0]))?;
        }
        Ok(())
    }

    /// A thread of the process calls a function of each unwinder, which returns to a break point behind a region's
    /// shared code.
    fn run(
        &self,
        index: usize,
        call: impl Fn(&Unwinder) -> (u64, [u64; 2]) + Send + Sync,
    ) -> Result<(), Error> {
        let maps = self.process.mappings()?;
        let trap = self.regions[index] + stub::STUBS_AT - 1;
        self.memory.write(trap, &[stub::BREAK_POINT])?;
        with_thread(&self.process, &self.memory, &maps, Work::Functions, |thread| {
            for unwinder in &self.unwinders {
                let (function, arguments) = call(unwinder);
                thread.run(&self.memory, function, arguments, trap)?;
            }
            Ok(())
        })
    }
}
