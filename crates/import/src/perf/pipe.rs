//! The stream to a pipe (`perf record -o -`): the parts of a file's head are records in front.
//!
//! Source: Linux's `tools/perf/Documentation/perf.data-file-format.txt`.

use std::io;
use std::ops::Range;

use wakepath_ctf::{Source, Window};

use super::container::{Attribute, feature, u32_at, u64_at};
use super::records::{FEATURE, HEADER_ATTRIBUTE, RecordHead, TRACING_DATA};

/// A stream's attributes and sections.
type Head = (Vec<Attribute>, Vec<(u8, Range<u64>)>);

const BLOCK: usize = 1 << 18;

/// Reads the records in front of the first event, or of the first that makes no sense.
pub(super) fn read(source: &impl Source, data: Range<u64>) -> io::Result<Head> {
    let mut window = Window::default();
    window.set(data.start, data.end);
    let (mut attributes, mut sections) = (Vec::new(), Vec::new());
    loop {
        if window.bytes().len() < RecordHead::MAX_BYTES && window.left() > window.bytes().len() as u64 {
            window.fill(source, BLOCK)?;
        }
        let offset = window.offset();
        let head = RecordHead::read(window.bytes()).filter(|head| head.is_plausible());
        let body = head.and_then(|head| window.bytes().get(RecordHead::SIZE..head.size));
        let (Some(head), Some(body)) = (head, body) else { break };
        let end = offset + head.size as u64;
        match head.kind {
            HEADER_ATTRIBUTE => {
                // Its own size, in its second word, divides it from its ids.
                let own = body.split_at_checked(u32_at(body, 4) as usize);
                let Some(attribute) = own.and_then(|(own, ids)| Attribute::parse(own, ids)) else { break };
                attributes.push(attribute);
            }
            FEATURE => {
                let number = u8::try_from(u64_at(body, 0));
                sections.extend(number.ok().map(|number| (number, (offset + 16).min(end)..end)));
            }
            TRACING_DATA => {
                sections.push((feature::TRACING_DATA, end..data.end.min(end + u64::from(u32_at(body, 0)))))
            }
            _ if head.is_sample() || head.is_compressed() => break,
            _ => {}
        }
        let behind = head.bytes_behind(body);
        window.consume(head.size);
        if behind > 0 {
            window.set(window.offset().saturating_add(behind), data.end);
        }
    }
    Ok((attributes, sections))
}
