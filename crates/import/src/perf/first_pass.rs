//! The first pass over a file's records: compressed or not, with the descriptions of the tracepoints or by proof.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;

use wakepath_ctf::Source;
use wakepath_event::{Damage, DamageKind};

use super::compressed::{self, Expanded};
use super::container::{Container, End, feature, u32_at};
use super::contents::Contents;
use super::proof;
use super::records::Decoder;
use crate::formats::{self, Format};
use crate::normalise::ReportedStates;
use crate::{Fault, OpenError};

/// The first pass's result.
#[derive(Debug)]
pub(super) struct FirstPass {
    pub contents: Contents,
    /// The records, if they are compressed in the source.
    pub expanded: Option<Vec<u8>>,
    pub formats: HashMap<u64, Format>,
    /// The records prove the switches' fields; other tracepoints are not read.
    pub proved: bool,
    pub damages: Vec<Damage>,
}

/// A file's records: in the source, or decompressed from it.
#[derive(Debug)]
pub(super) struct Records<'a, S> {
    pub source: &'a S,
    pub expanded: Option<&'a [u8]>,
}

impl<S: Source> Source for Records<'_, S> {
    fn size(&self) -> io::Result<u64> {
        self.expanded.map_or_else(|| self.source.size(), |all| Ok(all.len() as u64))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        match self.expanded {
            Some(all) => all.read_at(offset, into),
            None => self.source.read_at(offset, into),
        }
    }
}

impl FirstPass {
    pub fn new(source: &impl Source, path: &Path, container: &Container) -> Result<Self, OpenError> {
        let io = OpenError::io(path);
        let mut damages = Vec::new();
        if let End::SectionsCut(offset, fault) = &container.end {
            damages.push(Damage::at(path, *offset, fault));
        }
        let tracepoints = container.attributes.iter().filter(|one| one.is_tracepoint());
        let wanted: Vec<_> = tracepoints.map(|one| one.config).collect();
        let section = container.section(source, feature::TRACING_DATA).map_err(&io)?;
        let (from, section) = section.unwrap_or_default();
        let (mut formats, fault) = formats::read(&section, |id| wanted.contains(&id));
        if let Some(at) = fault.filter(|_| !wanted.is_empty() && !section.is_empty()) {
            damages.push(Damage::at(path, from + at as u64, &Fault::Formats));
        }
        let mut contents = contents(source, (&container.data, &container.end), path, container, &formats)?;
        let (mut expanded, mut whole, mut end) = (None, container.data.clone(), &container.end);
        let cut;
        if contents.present.compressed {
            let Expanded { records, faults } = expand(source, path, container)?;
            cut = faults.first().map_or(End::Whole, |(_, fault)| End::Cut(0, fault.clone()));
            (whole, end) = (0..records.len() as u64, &cut);
            contents = self::contents(&&records[..], (&whole, end), path, container, &formats)?;
            damages.extend(faults.iter().map(|(offset, fault)| Damage::at(path, *offset, fault)));
            expanded = Some(records);
        }
        let records = Records { source, expanded: expanded.as_deref() };
        // They stand behind the records.
        let lacks_descriptions = matches!(container.end, End::Cut(..));
        let mut proved = false;
        if lacks_descriptions {
            let decoder = decoder(path, container)?;
            let switch =
                proof::switches(&records, &whole, end, &container.attributes, &decoder).map_err(&io)?;
            if let Some(switch) = switch {
                formats.insert(switch.number, switch.format);
                let proof = Fault::Proved { links: switch.links, broken: switch.broken };
                damages.push(Damage::in_file(path, DamageKind::Fault(proof.to_string())));
                contents = self::contents(&records, (&whole, end), path, container, &formats)?;
                proved = true;
            }
        }
        let faults = contents.index.faults.iter();
        damages.extend(faults.filter_map(|(offset, fault)| match (&expanded, end) {
            (None, _) => Some(Damage::at(path, *offset, fault)),
            // Its place in the file is among the damages.
            (Some(_), End::Cut(_, cut)) if cut == fault => None,
            (Some(_), _) => {
                let fault = Fault::Decompressed(*offset, fault.to_string());
                Some(Damage::in_file(path, DamageKind::Fault(fault.to_string())))
            }
        }));
        let build_ids = container.section(source, feature::BUILD_ID).map_err(&io)?;
        build_ids.iter().for_each(|(_, section)| contents.add_build_ids(section));
        Ok(Self { contents, expanded, formats, proved, damages })
    }
}

fn decoder(path: &Path, container: &Container) -> Result<Decoder, OpenError> {
    Decoder::new(&container.attributes).ok_or_else(|| OpenError::Damaged {
        path: path.to_owned(),
        offset: 24,
        what: "the records carry no ids, so that the events of its records are not known".to_owned(),
    })
}

fn contents(
    records: &impl Source,
    range: (&Range<u64>, &End),
    path: &Path,
    container: &Container,
    formats: &HashMap<u64, Format>,
) -> Result<Contents, OpenError> {
    let table = formats.values().find_map(|format| format.states);
    let undecided = ReportedStates::needs_evidence(table.as_ref());
    let decoder = decoder(path, container)?;
    let contents = Contents::read(records, range, &container.attributes, decoder, formats, undecided);
    contents.map_err(OpenError::io(path))
}

fn expand(source: &impl Source, path: &Path, container: &Container) -> Result<Expanded, OpenError> {
    let io = OpenError::io(path);
    let section = container.section(source, feature::COMPRESSED).map_err(&io)?;
    // Version, method, level, ratio and the size of a CPU's buffer, 4 bytes each.
    let buffer = section.map(|(_, bytes)| u64::from(u32_at(&bytes, 16))).filter(|&bytes| bytes > 0);
    let decoder = decoder(path, container)?;
    compressed::expand(source, &container.data, &container.end, &decoder, buffer).map_err(io)
}
