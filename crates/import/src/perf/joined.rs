//! A recording's parts, brought together after the first pass over each.

use std::collections::HashMap;
use std::path::Path;

use wakepath_ctf::Source;
use wakepath_event::{Damage, DamageKind};

use super::container::Container;
use super::contents::Contents;
use super::edges::Seam;
use super::first_pass::FirstPass;
use super::parts::{self, PartFile, Sequence};
use crate::formats::Format;
use crate::{Fault, OpenError};

/// The parts, as a single recording.
#[derive(Debug)]
pub(super) struct Joined<S> {
    /// The first part's head.
    pub head: Container,
    pub records: Sequence<S>,
    pub contents: Contents,
    pub proved: bool,
    pub damages: Vec<Damage>,
}

impl<S: Source> Joined<S> {
    /// Walks through all parts' records. There is at least a part.
    ///
    /// # Errors
    /// When parts belong to different runs or hold records from the same time, or a part cannot be read.
    pub fn read(
        parts: Vec<PartFile<S>>,
        path: &Path,
        formats: &mut HashMap<u64, Format>,
    ) -> Result<Self, OpenError> {
        let among = parts.len() > 1;
        let mut passes = Vec::new();
        for stream in parts::by_stream(parts, path)? {
            let pass = FirstPass::new(&stream, formats, among)?;
            passes.extend(stream.into_iter().next().map(|first| (first, pass)));
        }
        passes.sort_by_key(|(_, pass)| pass.contents.index.first);
        let mut passes = passes.into_iter();
        let Some((first, pass)) = passes.next() else {
            return Err(OpenError::unsupported(path, "holds no file by perf"));
        };
        let PartFile { path: mut before, source, container: head } = first;
        let FirstPass { mut contents, expanded, mut proved, mut damages } = pass;
        let mut records = Sequence::new();
        records.push(before.clone(), source, expanded).map_err(OpenError::io(&before))?;
        let overwritten = head.attributes.iter().any(|one| one.is_overwritten());
        for (PartFile { path, source, .. }, pass) in passes {
            let from = records.push(path.clone(), source, pass.expanded).map_err(OpenError::io(&path))?;
            damages.extend(pass.damages);
            proved |= pass.proved;
            match contents.follow(pass.contents, from, overwritten) {
                Seam::Follows => {}
                Seam::Overlaps => {
                    let why = format!(
                        "holds records of the same time as {}: give each part of a recording once",
                        before.display()
                    );
                    return Err(OpenError::unsupported(&path, why));
                }
                Seam::Missing(_) => {
                    let fault = Fault::PartMissing(before.display().to_string());
                    damages.push(Damage::in_file(&path, DamageKind::Fault(fault.to_string())));
                }
            }
            before = path;
        }
        Ok(Self { head, records, contents, proved, damages })
    }
}
