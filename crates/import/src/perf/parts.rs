//! The parts into which `perf record --switch-output` divides a recording.
//!
//! All parts have the same events with the same ids, which the kernel numbers anew for each run. On each CPU, a
//! part's records begin where the earlier part's end; perf empties the CPUs in turn, so two parts
//! overlap in time, and their records are merged by stamp. perf never restarts the zstd stream under `-z`: from the second
//! on, a part makes no sense without the parts before it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use wakepath_ctf::Source;

use super::compressed;
use super::container::{Container, FIRST_FORMAT, MAGIC, feature};
use crate::OpenError;

/// A part, with its head.
#[derive(Debug)]
pub(super) struct PartFile<S> {
    pub path: PathBuf,
    pub source: S,
    pub container: Container,
}

/// The sections with equal contents in all parts, if they are there: the host, its kernel, perf, its command line, and both
/// clocks' readings when the recording began.
const SAME: [u8; 5] = [
    feature::HOST_NAME,
    feature::KERNEL_RELEASE,
    feature::PERF_VERSION,
    feature::COMMAND_LINE,
    feature::CLOCK_DATA,
];

impl<S: Source> PartFile<S> {
    pub fn new(path: PathBuf, source: S) -> Result<Self, OpenError> {
        let container = Container::read(&source, &path)?;
        Ok(Self { path, source, container })
    }

    /// Whether both are parts of the same recording, as far as they say. A cut part has no sections.
    pub fn is_same_run(&self, other: &Self) -> io::Result<bool> {
        if self.container.attributes != other.container.attributes {
            return Ok(false);
        }
        for feature in SAME {
            let [a, b] = [self, other].map(|part| part.container.section(&part.source, feature));
            if let (Some((_, a)), Some((_, b))) = (a?, b?)
                && a != b
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether its compressed records go on from the part before.
    fn goes_on(&self) -> io::Result<bool> {
        let first = compressed::first_piece(&self.source, &self.container.data)?;
        Ok(first.is_some_and(|piece| !compressed::begins_stream(&piece)))
    }
}

/// The parts in order, grouped by their zstd streams; parts without such a stream stand alone.
///
/// # Errors
/// When two belong to different recordings.
pub(super) fn by_stream<S: Source>(
    mut parts: Vec<PartFile<S>>,
    path: &Path,
) -> Result<Vec<Vec<PartFile<S>>>, OpenError> {
    let io = OpenError::io(path);
    if let [first, others @ ..] = &parts[..] {
        for other in others {
            if !first.is_same_run(other).map_err(&io)? {
                let why = format!(
                    "is of another run of perf record than {}: give the parts of one run",
                    first.path.display()
                );
                return Err(OpenError::unsupported(&other.path, why));
            }
        }
    }
    if parts.iter().all(|part| written_at(&part.path).is_some()) {
        parts.sort_by(|a, b| written_at(&a.path).cmp(&written_at(&b.path)));
    }
    let mut streams: Vec<Vec<PartFile<S>>> = Vec::new();
    for part in parts {
        match streams.last_mut() {
            Some(stream) if part.goes_on().map_err(&io)? => stream.push(part),
            _ => streams.push(vec![part]),
        }
    }
    Ok(streams)
}

/// The time in a part's name, as perf writes it: 14 digits and hundredths behind the last dot.
fn written_at(path: &Path) -> Option<&OsStr> {
    let time = path.extension()?;
    (time.len() == 16 && time.as_encoded_bytes().iter().all(u8::is_ascii_digit)).then_some(time)
}

/// The files by perf in a folder, ordered by name.
pub(super) fn in_folder(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if is_file(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a folder has a part with its time in the name.
pub(super) fn is_folder(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    folder.is_dir()
        && entries.map(|entry| entry.path()).any(|path| written_at(&path).is_some() && is_file(&path))
}

/// Whether a file begins like perf's files.
pub(super) fn is_file(path: &Path) -> bool {
    MAGIC.iter().chain([&FIRST_FORMAT]).any(|magic| crate::file_begins_with(path, magic))
}

/// Groups recordings: files by the same run of `perf record` come together, all others stand alone. The order is kept.
///
/// # Errors
/// When a file by perf cannot be read.
pub fn by_run(paths: &[PathBuf]) -> Result<Vec<Vec<PathBuf>>, OpenError> {
    let mut runs: Vec<(Option<PartFile<File>>, Vec<PathBuf>)> = Vec::new();
    for path in paths {
        let part = (paths.len() > 1 && is_file(path)).then(|| {
            let file = File::open(path).map_err(OpenError::io(path))?;
            PartFile::new(path.clone(), file)
        });
        let part = part.transpose()?;
        let mut run = None;
        if let Some(part) = &part {
            for (place, (first, _)) in runs.iter().enumerate() {
                if let Some(first) = first
                    && first.is_same_run(part).map_err(OpenError::io(path))?
                {
                    run = Some(place);
                }
            }
        }
        match run {
            Some(run) => runs[run].1.push(path.clone()),
            None => runs.push((part, vec![path.clone()])),
        }
    }
    Ok(runs.into_iter().map(|(_, paths)| paths).collect())
}

/// All parts' records as a single sequence, bytes.
#[derive(Debug)]
pub(super) struct Sequence<S>(Vec<Stretch<S>>);

/// A part's bytes, or a zstd stream's parts, decompressed.
#[derive(Debug)]
struct Stretch<S> {
    /// The place in the sequence.
    from: u64,
    path: PathBuf,
    source: S,
    expanded: Option<Vec<u8>>,
}

impl<S: Source> Sequence<S> {
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds bytes: the source's, or these. Returns their place.
    pub fn push(&mut self, path: PathBuf, source: S, expanded: Option<Vec<u8>>) -> io::Result<u64> {
        let from = self.size()?;
        self.0.push(Stretch { from, path, source, expanded });
        Ok(from)
    }

    /// The file for a place, and the place in it.
    pub fn place(&self, offset: u64) -> (&Path, u64) {
        let stretch = self.stretch(offset);
        stretch.map_or((Path::new(""), offset), |stretch| (&stretch.path, offset - stretch.from))
    }

    fn stretch(&self, offset: u64) -> Option<&Stretch<S>> {
        self.0[..self.0.partition_point(|stretch| stretch.from <= offset)].last()
    }
}

impl<S: Source> Source for Stretch<S> {
    fn size(&self) -> io::Result<u64> {
        self.expanded.as_ref().map_or_else(|| self.source.size(), |all| Ok(all.len() as u64))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        match &self.expanded {
            Some(all) => (&all[..]).read_at(offset, into),
            None => self.source.read_at(offset, into),
        }
    }
}

impl<S: Source> Source for Sequence<S> {
    fn size(&self) -> io::Result<u64> {
        self.0.last().map_or(Ok(0), |last| Ok(last.from.saturating_add(last.size()?)))
    }

    /// Reads within a part.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.stretch(offset).map_or(Ok(0), |stretch| stretch.read_at(offset - stretch.from, into))
    }
}

/// The parts' first such section, as text; cut parts have none.
pub(super) fn text<S: Source>(parts: &[PartFile<S>], feature: u8) -> String {
    let mut texts = parts.iter().map(|part| part.container.text(&part.source, feature));
    texts.find(|text| !text.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_in_the_last_part_that_begins_before_it() {
        let mut sequence = Sequence::new();
        assert_eq!(sequence.place(4), (Path::new(""), 4));
        // The second part's records are decompressed.
        let parts = [("a", 10, None), ("b", 5, Some(vec![0; 7])), ("c", 3, None)];
        let from: Vec<_> = parts
            .into_iter()
            .map(|(name, size, expanded)| {
                sequence
                    .push(name.into(), vec![1_u8; size].leak() as &[u8], expanded)
                    .expect("memory has no errors")
            })
            .collect();
        assert_eq!((from, sequence.size().expect("known")), (vec![0, 10, 17], 20));
        for (offset, name, place) in
            [(0, "a", 0), (9, "a", 9), (10, "b", 0), (16, "b", 6), (17, "c", 0), (30, "c", 13)]
        {
            assert_eq!(sequence.place(offset), (Path::new(name), place), "{offset}");
        }
    }
}
