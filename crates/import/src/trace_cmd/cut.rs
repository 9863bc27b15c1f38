//! A version 7 file's pages, where the option with their places is cut off.
//!
//! trace-cmd writes the facts about the machine first, then the section with the pages, and its place last. The CPUs' pages
//! follow each other, each CPU's from a page's begin in the file on. Compressed pages say themselves where they end;
//! uncompressed pages do not. The kernel's buffer counters, among the facts, say which CPUs have pages.

use wakepath_ctf::Source;

use super::compression::METHODS;
use super::container::{Buffer, FileOptions, Pages, option};
use super::head_reader::HeadReader;
use crate::OpenError;

/// The buffer whose section begins at `at`.
///
/// # Errors
/// When its pages' places are not known.
pub(super) fn buffer(
    head: &mut HeadReader<'_, impl Source>,
    at: u64,
    page_bytes: u32,
    compression: &str,
    options: &FileOptions,
) -> Result<Buffer, OpenError> {
    head.at = at;
    let Ok((compressed, _)) = head.section_head(option::BUFFER, "the section of a buffer") else {
        return Err(unknown(head, "no pages are in it"));
    };
    if !compressed {
        return Err(unknown(head, "its pages are not compressed, so that their CPU is not known"));
    }
    if !METHODS.contains(&compression) {
        return Err(head.unknown_method(compression));
    }
    let Some(clock) = options.clock.clone().filter(|_| !options.counted.is_empty()) else {
        return Err(unknown(head, "it does not say which CPUs have events"));
    };
    let (mut cpus, mut at) = (Vec::new(), head.at);
    for &(cpu, _) in &options.counted {
        let from = at.checked_next_multiple_of(page_bytes.max(1).into()).unwrap_or(u64::MAX);
        let pages = pages(head, cpu, from)?;
        at = pages.cut_from.unwrap_or(pages.to);
        cpus.push(pages);
    }
    Ok(Buffer { name: String::new(), clock, page_bytes, compressed, cpus })
}

fn unknown(head: &HeadReader<'_, impl Source>, why: &str) -> OpenError {
    let what = format!(
        "the option that says where each CPU's pages are should follow, and the file ends before: it was cut short, and {why}: \
         copy the whole file"
    );
    head.damaged(head.size, what)
}

/// A CPU's whole chunks from this place on.
fn pages(head: &mut HeadReader<'_, impl Source>, cpu: u32, from: u64) -> Result<Pages, OpenError> {
    let missing = |at: u64, to: u64| Pages {
        cpu,
        from: from.min(head.size),
        // Without a whole chunk there is no page.
        to: if at > from + 4 { at } else { from.min(head.size) },
        cut_from: Some(to),
    };
    let there = |at: u64, bytes: u64| at.checked_add(bytes).is_some_and(|end| end <= head.size);
    if !there(from, 4) {
        return Ok(missing(from, from.saturating_add(4)));
    }
    let word = |at: u64| {
        let mut bytes = [0; 4];
        let read = head.read_at(at, &mut bytes)?;
        Ok::<_, OpenError>(if read == bytes.len() { u32::from_le_bytes(bytes) } else { 0 })
    };
    let (count, mut at) = (word(from)?, from + 4);
    for _ in 0..count {
        // A chunk's size stands in front, with that of its content.
        if !there(at, 8) {
            return Ok(missing(at, at.saturating_add(8)));
        }
        let size = u64::from(word(at)?);
        if !there(at + 8, size) {
            return Ok(missing(at, at.saturating_add(8 + size)));
        }
        at += 8 + size;
    }
    Ok(Pages { cpu, from, to: at, cut_from: None })
}
