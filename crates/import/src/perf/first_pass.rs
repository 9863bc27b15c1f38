//! The first pass over a file's records: compressed or not, with the descriptions of the tracepoints or by proof.

use std::collections::HashMap;
use std::ops::Range;

use wakepath_ctf::Source;
use wakepath_event::{Damage, DamageKind};

use super::compressed::{self, Expanded};
use super::container::{End, feature, u32_at};
use super::contents::{Contents, Wanted};
use super::parts::PartFile;
use super::proof;
use super::records::Decoder;
use crate::formats::{self, Format};
use crate::normalise::ReportedStates;
use crate::{Fault, OpenError};

/// The first pass's result, for a file or for a zstd stream's parts.
#[derive(Debug)]
pub(super) struct FirstPass {
    pub contents: Contents,
    /// The records, if they are compressed in the source.
    pub expanded: Option<Vec<u8>>,
    /// The records prove the switches' fields; other tracepoints are not read.
    pub proved: bool,
    pub damages: Vec<Damage>,
}

/// The events' tracepoints, by number, from the first part with a description. The kernel's
/// description is the same in all parts, and a cut part has none.
pub(super) fn formats<S: Source>(
    parts: &[PartFile<S>],
    damages: &mut Vec<Damage>,
) -> Result<HashMap<u64, Format>, OpenError> {
    for PartFile { path, source, container } in parts {
        let tracepoints = container.attributes.iter().filter(|one| one.is_tracepoint());
        let wanted: Vec<_> = tracepoints.map(|one| one.config).collect();
        let section = container.section(source, feature::TRACING_DATA).map_err(OpenError::io(path))?;
        let (from, section) = section.unwrap_or_default();
        let (formats, fault) = formats::read(&section, |id| wanted.contains(&id));
        if let Some(at) = fault.filter(|_| !wanted.is_empty() && !section.is_empty()) {
            damages.push(Damage::at(path, from + at as u64, &Fault::Formats));
        }
        if !formats.is_empty() {
            return Ok(formats);
        }
    }
    Ok(HashMap::new())
}

impl FirstPass {
    /// Reads a file, or a zstd stream's parts; notes the edges between parts if it is `among` others.
    pub fn new<S: Source>(
        parts: &[PartFile<S>],
        formats: &mut HashMap<u64, Format>,
        among: bool,
    ) -> Result<Self, OpenError> {
        let first @ PartFile { path, source, container } = &parts[0];
        let mut damages = Vec::new();
        for PartFile { path, container, .. } in parts {
            if let End::SectionsCut(offset, fault) = &container.end {
                damages.push(Damage::at(path, *offset, fault));
            }
        }
        let range = (&container.data, &container.end);
        let mut contents = contents(source, range, first, formats, among)?;
        let (mut expanded, mut whole, mut end) = (None, container.data.clone(), &container.end);
        let cut;
        if contents.present.compressed {
            let Expanded { records, faults } = expand(parts)?;
            cut = faults.first().map_or(End::Whole, |(.., fault)| End::Cut(0, fault.clone()));
            (whole, end) = (0..records.len() as u64, &cut);
            contents = self::contents(&&records[..], (&whole, end), first, formats, among)?;
            let at = |(part, offset, fault): &(usize, u64, _)| Damage::at(&parts[*part].path, *offset, fault);
            damages.extend(faults.iter().map(at));
            expanded = Some(records);
        }
        let is_cut = parts.iter().any(|part| matches!(part.container.end, End::Cut(..)));
        let mut proved = false;
        // The descriptions stand behind the records; another part may have them.
        if is_cut && formats.is_empty() {
            let decoder = decoder(first)?;
            let attributes = &container.attributes;
            let switch = match &expanded {
                Some(records) => proof::switches(&&records[..], &whole, end, attributes, &decoder),
                None => proof::switches(source, &whole, end, attributes, &decoder),
            };
            if let Some(switch) = switch.map_err(OpenError::io(path))? {
                formats.insert(switch.number, switch.format);
                let proof = Fault::Proved { links: switch.links, broken: switch.broken };
                damages.push(Damage::in_file(path, DamageKind::Fault(proof.to_string())));
                contents = match &expanded {
                    Some(records) => self::contents(&&records[..], (&whole, end), first, formats, among),
                    None => self::contents(source, (&whole, end), first, formats, among),
                }?;
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
        for PartFile { path, source, container } in parts {
            let build_ids = container.section(source, feature::BUILD_ID).map_err(OpenError::io(path))?;
            build_ids.iter().for_each(|(_, section)| contents.add_build_ids(section));
        }
        Ok(Self { contents, expanded, proved, damages })
    }
}

fn decoder<S>(part: &PartFile<S>) -> Result<Decoder, OpenError> {
    Decoder::new(&part.container.attributes).ok_or_else(|| OpenError::Damaged {
        path: part.path.clone(),
        offset: 24,
        what: "the records carry no ids, so that the events of its records are not known".to_owned(),
    })
}

fn contents<S>(
    records: &impl Source,
    range: (&Range<u64>, &End),
    part: &PartFile<S>,
    formats: &HashMap<u64, Format>,
    among: bool,
) -> Result<Contents, OpenError> {
    let table = formats.values().find_map(|format| format.states);
    let wanted = Wanted { evidence: ReportedStates::needs_evidence(table.as_ref()), edges: among };
    let attributes = &part.container.attributes;
    let contents = Contents::read(records, range, attributes, decoder(part)?, formats, wanted);
    contents.map_err(OpenError::io(&part.path))
}

fn expand<S: Source>(parts: &[PartFile<S>]) -> Result<Expanded, OpenError> {
    let io = OpenError::io(&parts[0].path);
    let mut buffer = None;
    for PartFile { path, source, container } in parts {
        let section = container.section(source, feature::COMPRESSED).map_err(OpenError::io(path))?;
        // Version, method, level, ratio and the size of a CPU's buffer, 4 bytes each.
        let bytes = section.map(|(_, bytes)| u64::from(u32_at(&bytes, 16))).filter(|&bytes| bytes > 0);
        buffer = buffer.or(bytes);
    }
    compressed::expand(parts, &decoder(&parts[0])?, buffer).map_err(io)
}
