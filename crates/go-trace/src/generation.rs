//! Splits a trace into generations, and a generation into its threads' batches and its tables.

use std::collections::HashMap;

use crate::UNIT_NS;
use crate::cursor::Cursor;

/// The record kinds outside threads' events.
mod kind {
    pub(super) const EVENT_BATCH: u8 = 1;
    pub(super) const STACKS: u8 = 2;
    pub(super) const STACK: u8 = 3;
    pub(super) const STRINGS: u8 = 4;
    pub(super) const STRING: u8 = 5;
    pub(super) const CPU_SAMPLES: u8 = 6;
    pub(super) const FREQUENCY: u8 = 8;
    pub(super) const EXPERIMENTAL_BATCH: u8 = 49;
    pub(super) const SYNC: u8 = 50;
    pub(super) const CLOCK_SNAPSHOT: u8 = 51;
    pub(super) const END_OF_GENERATION: u8 = 52;
}

/// The first version whose generations end with a mark.
const FIRST_WITH_MARK: u32 = 26;
/// The largest batch, bytes.
const MAX_BATCH_BYTES: u64 = 64 << 10;
/// The most frames in a stack.
const MAX_FRAMES: u64 = 128;
/// The stamps' units in a second.
const FREQUENCY: u64 = 1_000_000_000 / UNIT_NS;
/// The largest distance between a stamp and the clock's time read before it, ns: the thread may have lost its CPU in between.
const MAX_APART_NS: u64 = 1_000_000_000;

/// A damaged place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Fault {
    #[error("it ends within a generation, at byte {at}")]
    Cut { at: usize },
    #[error("byte {at} is no record of this version")]
    Record { at: usize },
    #[error("a batch at byte {at} says it has {claimed} bytes")]
    Batch { at: usize, claimed: u64 },
    #[error("at byte {at}, generation {is} stands in place of {should}")]
    Order { at: usize, is: u64, should: u64 },
    #[error("a generation that ends at byte {at} does not say the frequency of its stamps")]
    NoFrequency { at: usize },
    #[error("its stamps count {0} units a second: its clock is not the monotonic one")]
    Frequency(u64),
    #[error("its stamps differ by {0} ns from the monotonic clock")]
    Apart(u64),
}

/// A thread's events, or a part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch<'a> {
    /// The thread; `u64::MAX` for none.
    pub(crate) thread: u64,
    /// The stamp to which the first event's distance is added.
    pub(crate) stamp: u64,
    /// The events.
    pub(crate) bytes: &'a [u8],
    /// Its offset in the file.
    pub(crate) at: usize,
}

/// A generation.
#[derive(Debug, Default)]
pub(crate) struct Generation<'a> {
    pub(crate) batches: Vec<Batch<'a>>,
    pub(crate) strings: HashMap<u64, &'a [u8]>,
    /// By stack id, the frames' numbers as they are written, each frame with four.
    stacks: HashMap<u64, &'a [u8]>,
    frequency: Option<u64>,
}

/// A function in a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) address: u64,
    pub(crate) function: &'a [u8],
}

impl<'a> Generation<'a> {
    /// A stack's frames, the innermost first.
    pub(crate) fn stack(&self, id: u64) -> impl Iterator<Item = Frame<'a>> {
        let mut cursor = Cursor::new(self.stacks.get(&id).copied().unwrap_or_default(), 0);
        std::iter::from_fn(move || {
            let [address, function, ..] = frame(&mut cursor)?;
            Some(Frame { address, function: self.strings.get(&function).copied().unwrap_or_default() })
        })
    }
}

/// A frame's address, function, file and line.
fn frame(cursor: &mut Cursor<'_>) -> Option<[u64; 4]> {
    Some([cursor.number()?, cursor.number()?, cursor.number()?, cursor.number()?])
}

/// A trace's generations, one after the other.
pub(crate) struct Generations<'a> {
    bytes: &'a [u8],
    at: usize,
    version: u32,
    /// The last generation's number.
    last: Option<u64>,
    is_over: bool,
}

impl<'a> Generations<'a> {
    pub(crate) const fn new(bytes: &'a [u8], at: usize, version: u32) -> Self {
        Self { bytes, at, version, last: None, is_over: false }
    }

    /// The next generation, if it is whole; `None` at the trace's end.
    ///
    /// # Errors
    /// Where it is damaged. Nothing behind that place is read.
    pub(crate) fn next(&mut self) -> Result<Option<Generation<'a>>, Fault> {
        if self.is_over {
            return Ok(None);
        }
        let found = self.generation();
        if !matches!(found, Ok(Some(_))) {
            self.is_over = true;
        }
        found
    }

    fn generation(&mut self) -> Result<Option<Generation<'a>>, Fault> {
        let mut generation = Generation::default();
        let mut number = None;
        let has_mark = self.version >= FIRST_WITH_MARK;
        loop {
            let begin = self.at;
            let mut cursor = Cursor::new(self.bytes, begin);
            let Some(kind) = cursor.byte() else {
                // Before the mark there was, each generation but the last ends where the next begins.
                return match number {
                    None => Ok(None),
                    Some(_) if has_mark => Err(Fault::Cut { at: begin }),
                    Some(_) => generation.finished(begin).map(Some),
                };
            };
            if kind == kind::END_OF_GENERATION && has_mark {
                self.at = cursor.offset();
                match number {
                    // Two marks in succession end nothing.
                    None => continue,
                    Some(_) => return generation.finished(begin).map(Some),
                }
            }
            let is_experiment = kind == kind::EXPERIMENTAL_BATCH;
            if kind != kind::EVENT_BATCH && !is_experiment {
                return Err(Fault::Record { at: begin });
            }
            let (of, batch) = match self.batch(&mut cursor, begin, is_experiment) {
                // The cut batch may be the next generation's.
                Err(Fault::Cut { .. }) if number.is_some() && generation.is_whole() && !has_mark => {
                    return Ok(Some(generation));
                }
                read => read?,
            };
            match number {
                Some(now) if of == now => {}
                Some(now) if of == now.wrapping_add(1) && !has_mark => {
                    return generation.finished(begin).map(Some);
                }
                Some(should) => return Err(Fault::Order { at: begin, is: of, should }),
                None => match self.last {
                    Some(last) if of <= last => {
                        return Err(Fault::Order { at: begin, is: of, should: last.wrapping_add(1) });
                    }
                    _ => (number, self.last) = (Some(of), Some(of)),
                },
            }
            self.at = cursor.offset();
            if !is_experiment {
                generation.add(batch)?;
            }
        }
    }

    /// Reads a batch behind its kind, and its generation's number.
    fn batch(
        &self,
        cursor: &mut Cursor<'a>,
        begin: usize,
        is_experiment: bool,
    ) -> Result<(u64, Batch<'a>), Fault> {
        let cut = || Fault::Cut { at: begin };
        if is_experiment {
            cursor.byte().ok_or_else(cut)?;
        }
        let mut next = || cursor.number().ok_or_else(cut);
        let (of, thread, stamp, claimed) = (next()?, next()?, next()?, next()?);
        if claimed > MAX_BATCH_BYTES {
            return Err(Fault::Batch { at: begin, claimed });
        }
        let at = cursor.offset();
        let bytes = cursor.take(claimed).ok_or_else(cut)?;
        Ok((of, Batch { thread, stamp, bytes, at }))
    }
}

impl<'a> Generation<'a> {
    fn add(&mut self, batch: Batch<'a>) -> Result<(), Fault> {
        let mut cursor = Cursor::new(batch.bytes, 0);
        match batch.bytes.first() {
            None | Some(&kind::CPU_SAMPLES) => Ok(()),
            Some(&kind::STRINGS) => {
                cursor.byte();
                self.table(batch, cursor, Self::string)
            }
            Some(&kind::STACKS) => {
                cursor.byte();
                self.table(batch, cursor, Self::one_stack)
            }
            Some(&kind::SYNC) => {
                cursor.byte();
                self.sync(batch, cursor)
            }
            // Before Go 1.25 it stands alone.
            Some(&kind::FREQUENCY) => self.sync(batch, cursor),
            Some(_) => {
                self.batches.push(batch);
                Ok(())
            }
        }
    }

    fn table(
        &mut self,
        batch: Batch<'a>,
        mut cursor: Cursor<'a>,
        one: impl Fn(&mut Self, &mut Cursor<'a>, &'a [u8]) -> Option<()>,
    ) -> Result<(), Fault> {
        while !cursor.is_at_end() {
            let at = batch.at + cursor.offset();
            one(self, &mut cursor, batch.bytes).ok_or(Fault::Record { at })?;
        }
        Ok(())
    }

    fn string(&mut self, cursor: &mut Cursor<'a>, _: &'a [u8]) -> Option<()> {
        if cursor.byte()? != kind::STRING {
            return None;
        }
        let (id, length) = (cursor.number()?, cursor.number()?);
        self.strings.insert(id, cursor.take(length)?);
        Some(())
    }

    fn one_stack(&mut self, cursor: &mut Cursor<'a>, bytes: &'a [u8]) -> Option<()> {
        if cursor.byte()? != kind::STACK {
            return None;
        }
        let (id, count) = (cursor.number()?, cursor.number()?);
        if count > MAX_FRAMES {
            return None;
        }
        let begin = cursor.offset();
        for _ in 0..count {
            frame(cursor)?;
        }
        self.stacks.insert(id, bytes.get(begin..cursor.offset())?);
        Some(())
    }

    fn sync(&mut self, batch: Batch<'a>, mut cursor: Cursor<'a>) -> Result<(), Fault> {
        while !cursor.is_at_end() {
            let fault = Fault::Record { at: batch.at + cursor.offset() };
            let mut next = |count| -> Option<[u64; 4]> {
                let mut numbers = [0; 4];
                for number in &mut numbers[..count] {
                    *number = cursor.number()?;
                }
                Some(numbers)
            };
            let Some([kind, ..]) = next(1) else { return Err(fault) };
            match u8::try_from(kind) {
                Ok(kind::FREQUENCY) => {
                    let [frequency, ..] = next(1).ok_or(fault)?;
                    if frequency != FREQUENCY {
                        return Err(Fault::Frequency(frequency));
                    }
                    self.frequency = Some(frequency);
                }
                Ok(kind::CLOCK_SNAPSHOT) => {
                    let [after, clock_ns, ..] = next(4).ok_or(fault)?;
                    let stamp_ns = batch.stamp.saturating_add(after).saturating_mul(UNIT_NS);
                    let apart = stamp_ns.abs_diff(clock_ns);
                    if apart > MAX_APART_NS {
                        return Err(Fault::Apart(apart));
                    }
                }
                _ => return Err(fault),
            }
        }
        Ok(())
    }

    /// Whether it says its stamps' frequency, which comes last before Go 1.25.
    const fn is_whole(&self) -> bool {
        self.frequency.is_some()
    }

    fn finished(self, at: usize) -> Result<Self, Fault> {
        if self.is_whole() { Ok(self) } else { Err(Fault::NoFrequency { at }) }
    }
}
