//! A flight recorder's directory: its kept recordings, from which the oldest are deleted, and its process number.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use wakepath_caller::{Caller, Directory};

use crate::rotate::{delete, inspect};
use crate::write::{Budget, Space};
use crate::{ClockReading, HostIdentity, Options, WriteError, Writer};

/// The file with the recorder's process number.
const RECORDER: &str = "recorder";
/// The prefix of kept recordings' names; the UTC time follows, and a number, from a second's second recording on.
const KEPT: &str = "kept-";
/// The recorder file's largest size, bytes.
const MAX_RECORDER_BYTES: u64 = 64;

/// The limits for all kept recordings together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptLimits {
    /// The largest number of recordings, at least 1.
    pub recordings: usize,
    /// Their largest total size, bytes.
    pub bytes: u64,
}

/// A flight recorder's directory, locked.
#[derive(Debug)]
pub struct FlightDirectory {
    directory: Directory,
    limits: KeptLimits,
    options: Options,
    host: HostIdentity,
}

impl FlightDirectory {
    /// Opens the directory `path` for this process, or makes it, private, and writes this process's number into it.
    /// `options` are each kept recording's options.
    ///
    /// # Errors
    /// When the directory cannot be made, or another recorder has it.
    pub fn open(
        path: &Path,
        limits: KeptLimits,
        options: Options,
        host: HostIdentity,
    ) -> Result<Self, WriteError> {
        let io = |source| WriteError::from_io(path, source);
        let _acting = Caller::act(options.caller.as_ref()).map_err(io)?;
        let (parent, name) = Directory::of(path).map_err(io)?;
        let directory = match parent.kind_of(name).map_err(io)? {
            None => parent.create(name).map_err(io)?,
            Some(_) => parent.open(name).map_err(io)?,
        };
        if !directory.lock() {
            let text = "another flight recorder writes there: choose another directory with -o";
            return Err(io(io::Error::new(io::ErrorKind::ResourceBusy, text)));
        }
        // Beside a user's other files, deletions by name would be a surprise.
        let is_ours = |name: &OsStr| name == RECORDER || is_kept(name);
        if directory.names().map_err(io)?.iter().any(|(name, _)| !is_ours(name)) {
            return Err(WriteError::InTheWay(path.to_owned()));
        }
        if directory.kind_of(OsStr::new(RECORDER)).map_err(io)?.is_some() {
            directory.remove_file(OsStr::new(RECORDER)).map_err(io)?;
        }
        let mut file = directory.create_file(RECORDER).map_err(io)?;
        writeln!(file, "{}", std::process::id()).map_err(io)?;
        Ok(Self { directory, limits, options, host })
    }

    /// Begins a kept recording with about `bytes` bytes, whose window begins at `clock`. `word` ends its name. The
    /// oldest recordings are deleted as far as the limits require; all stay where even their deletion makes too
    /// little room.
    ///
    /// # Errors
    /// When the recording cannot be made.
    pub fn begin(&self, word: &str, clock: ClockReading, bytes: u64) -> Result<Writer, WriteError> {
        let acting = Caller::act(self.options.caller.as_ref()).map_err(|e| self.io(e))?;
        let name = self.free_name(word, clock).map_err(|e| self.io(e))?;
        self.make_room(bytes)?;
        drop(acting);
        let options = Options { clock, most_bytes: Some(self.limits.bytes), ..self.options.clone() };
        let path = self.directory.path.join(name);
        let writer = Writer::create(&path, &self.host, &options)?;
        if let Err(error) = writer.check_space() {
            drop(writer);
            self.take_back(&path);
            return Err(error);
        }
        Ok(writer)
    }

    /// Deletes a recording begun here that could not be written whole. Its writer must be dropped already.
    pub fn take_back(&self, path: &Path) {
        let Ok(_acting) = Caller::act(self.options.caller.as_ref()) else { return };
        if let Some(name) = path.file_name().filter(|name| is_kept(name))
            && let Ok(found) = inspect(&self.directory, name)
            && delete(&found).is_ok()
        {
            // Files that could not be deleted stay readable.
            let _ = self.directory.remove_directory(name);
        }
    }

    /// A name, sorted behind all others with this second ([`age`]).
    fn free_name(&self, word: &str, clock: ClockReading) -> io::Result<OsString> {
        let time = utc(clock.realtime_ns / 1_000_000_000);
        let names = self.directory.names()?;
        let ages = names.iter().filter(|(name, _)| is_kept(name)).map(|(name, _)| age(name));
        let last = ages.filter(|(_, other, _)| *other == time).map(|(.., number)| number).max();
        let more = last.map_or(String::new(), |last| format!("-{}", last.saturating_add(1)));
        Ok(OsString::from(format!("{KEPT}{time}{more}-{word}")))
    }

    /// Deletes the oldest recordings, so that another with `bytes` bytes fits into the limits and onto the disk.
    /// Deletes none if it cannot fit.
    fn make_room(&self, bytes: u64) -> Result<(), WriteError> {
        let io = |source| self.io(source);
        let limit = self.limits.bytes;
        if bytes > limit {
            return Err(WriteError::LargerThanAllKept { bytes, limit });
        }
        let mut kept = Vec::new();
        for (name, kind) in self.directory.names().map_err(io)? {
            // Any other directory, or another user's recording, stays and does not count.
            if is_kept(&name)
                && kind == FileType::Directory
                && let Ok(found) = inspect(&self.directory, &name)
            {
                let bytes = found.bytes().map_err(io)?;
                kept.push((name, found, bytes));
            }
        }
        kept.sort_by_key(|(name, ..)| age(name));
        let sizes: Vec<u64> = kept.iter().map(|(.., bytes)| *bytes).collect();
        let gone = oldest_that_go(&sizes, bytes, self.limits);
        self.check_disk(sizes[..gone].iter().sum(), bytes)?;
        for (name, found, _) in &kept[..gone] {
            delete(found).map_err(io)?;
            self.directory.remove_directory(name).map_err(io)?;
        }
        Ok(())
    }

    /// Whether the disk has room for another recording with `bytes` bytes after `freed` bytes are deleted.
    fn check_disk(&self, freed: u64, bytes: u64) -> Result<(), WriteError> {
        let path = &self.directory.path;
        let (free, total) = self.directory.space().map_err(|source| self.io(source))?;
        let free = free.saturating_add(freed);
        if free < bytes {
            return Err(WriteError::DiskFull(path.clone()));
        }
        let budget = Budget::new(None, 0, self.options.least_free_percent);
        budget.check(path, Space { free, total }).map(drop)
    }

    fn io(&self, source: io::Error) -> WriteError {
        WriteError::from_io(&self.directory.path, source)
    }
}

impl Drop for FlightDirectory {
    fn drop(&mut self) {
        if let Ok(_acting) = Caller::act(self.options.caller.as_ref()) {
            // Without the file, `trigger` reports that no recorder runs; with it, the lock shows so.
            let _ = self.directory.remove_file(OsStr::new(RECORDER));
        }
    }
}

/// The number of the flight recorder's process for the directory `path`; `None` if no recorder runs.
///
/// # Errors
/// When the directory cannot be read.
pub fn recorder(path: &Path) -> io::Result<Option<i32>> {
    let directory = Directory::at(path)?;
    let text = match directory.read_text(RECORDER, MAX_RECORDER_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    // A killed recorder leaves its file, and its number may be another process's by now.
    if directory.lock() {
        return Ok(None);
    }
    Ok(text.trim().parse::<i32>().ok().filter(|&pid| pid > 1))
}

/// The kept recordings in the directory `path`, the oldest first.
///
/// # Errors
/// When the directory cannot be read.
pub fn kept_recordings(path: &Path) -> io::Result<Vec<PathBuf>> {
    let names = Directory::at(path)?.names()?;
    let is_whole = |name: &OsStr| is_kept(name) && !name.as_encoded_bytes().starts_with(b".");
    let mut kept: Vec<_> =
        names.into_iter().filter(|(name, kind)| is_whole(name) && *kind == FileType::Directory).collect();
    kept.sort_by_key(|(name, _)| age(name));
    Ok(kept.into_iter().map(|(name, _)| path.join(name)).collect())
}

/// Whether the recording `path` is complete: its writer has released the lock.
pub fn is_written(path: &Path) -> bool {
    Directory::at(path).is_ok_and(|directory| directory.lock())
}

/// The number of recordings to delete before another with `bytes` bytes fits. `kept` has the sizes, the oldest first.
fn oldest_that_go(kept: &[u64], bytes: u64, limits: KeptLimits) -> usize {
    let mut sum = kept.iter().fold(bytes, |sum, size| sum.saturating_add(*size));
    let goes = |(gone, size): &(usize, &u64)| {
        let goes = kept.len() - gone >= limits.recordings || sum > limits.bytes;
        sum = sum.saturating_sub(**size);
        goes
    };
    kept.iter().enumerate().take_while(goes).count()
}

fn is_kept(name: &OsStr) -> bool {
    // An unfinished recording has a dot before its name, and `.new` behind it.
    name.to_str().is_some_and(|name| name.strip_prefix('.').unwrap_or(name).starts_with(KEPT))
}

/// A recording's age in its name, for sorting: whether it is finished, its UTC time, and its number within that second.
/// Unfinished ones count as the oldest.
fn age(name: &OsStr) -> (bool, String, u32) {
    let name = name.to_str().unwrap_or_default();
    let (is_finished, name) = name.strip_prefix('.').map_or((true, name), |name| (false, name));
    let mut parts = name.strip_prefix(KEPT).unwrap_or(name).split('-');
    let time = parts.next().unwrap_or_default().to_owned();
    let number = parts.next().and_then(|number| number.parse().ok()).unwrap_or(1);
    (is_finished, time, number)
}

/// A UTC time as part of a file name, from seconds since 1970. Days become a date as in H. Hinnant's
/// "chrono-compatible low-level date algorithms" (`civil_from_days`).
fn utc(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}{month:02}{date:02}T{:02}{:02}{:02}Z", time / 3600, time / 60 % 60, time % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_recordings_go_until_one_more_is_within_the_limits() {
        // The largest number and size, the kept recordings' sizes, the new size, and the number to delete.
        for (recordings, most, kept, bytes, gone) in [
            (3, 100, &[][..], 100, 0),
            (3, 100, &[10, 10], 80, 0),
            (3, 100, &[10, 10], 81, 1),
            (3, 100, &[10, 10], 91, 2),
            (3, 100, &[90, 1, 1], 10, 1),
            (3, 100, &[1, 1, 1], 1, 1),
            (3, 100, &[1, 1, 1, 1, 1], 1, 3),
            (1, 100, &[1], 1, 1),
            (0, 100, &[1, 1], 1, 2),
            (9, 100, &[50, 1, 50], 50, 2),
            (9, 100, &[1, 50, 50], 50, 2),
            (9, u64::MAX, &[u64::MAX, 1], 1, 0),
        ] {
            let limits = KeptLimits { recordings, bytes: most };
            assert_eq!(oldest_that_go(kept, bytes, limits), gone, "{kept:?} and {bytes} in {limits:?}");
        }
    }

    #[test]
    fn a_time_sorts_as_its_name_does() {
        for (seconds, name) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (1_764_038_801, "20251125T024641Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
            (5_097_659, "19700301T000059Z"),
            (31_535_999, "19701231T235959Z"),
            (68_214_896, "19720229T123456Z"),
            (94_611_723, "19721231T010203Z"),
            (94_694_400, "19730101T000000Z"),
            (946_634_948, "19991231T100908Z"),
            (1_709_190_489, "20240229T070809Z"),
            (1_709_324_482, "20240301T202122Z"),
            (1_740_740_400, "20250228T110000Z"),
            (1_753_978_638, "20250731T161718Z"),
            (3_981_312_060, "20960229T000100Z"),
            (4_107_491_999, "21000228T095959Z"),
            (7_263_216_000, "22000301T000000Z"),
            (13_574_610_855, "24000229T131415Z"),
            (13_574_649_600, "24000301T000000Z"),
            (13_601_088_001, "24010101T000001Z"),
        ] {
            assert_eq!(utc(seconds), name);
        }
    }
}
