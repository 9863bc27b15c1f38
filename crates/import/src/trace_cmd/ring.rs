//! A page of the kernel's ring buffer.
//!
//! It begins with its first stamp and a word with the number of used bytes, and whether events were lost before it.
//! Events follow, in whole words: five bits hold the kind or the length, 27 the time since the previous event.

use std::ops::Range;

use crate::{Fault, formats};

/// The places of a page's fields, from `events/header_page`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    stamp: usize,
    commit: usize,
    /// The size of the kernel's longs, bytes.
    long: usize,
    data: usize,
}

/// A page's head, in front of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageHead {
    /// The first event's stamp.
    pub at: u64,
    /// The events' place.
    pub data: (usize, usize),
    /// The number of events lost before it, if any; 0 if not counted.
    pub lost: Option<u64>,
}

/// An item in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// An event: the time since the previous item, and its bytes' place.
    Event(u64, Range<usize>),
    /// Time passed.
    TimePassed(u64),
    /// The current stamp: its lower 59 bits.
    Stamp(u64),
    /// A discarded event: the time since the previous item.
    Discarded(u64),
    /// The rest is empty.
    End,
}

/// The bits in the first word for the number of used bytes.
const USED: u64 = (1 << 27) - 1;
const LOST: u64 = 1 << 31;
/// The number of lost events stands behind the used bytes.
const COUNTED: u64 = 1 << 30;
/// The bits in an absolute stamp.
const STAMP_BITS: u32 = 59;

impl Layout {
    pub fn parse(text: &str) -> Option<Self> {
        let field =
            |wanted: &str| formats::fields(text).find(|(name, _)| name == wanted).map(|(_, field)| field);
        let (stamp, commit, data) = (field("timestamp")?, field("commit")?, field("data")?);
        let long = commit.size as usize;
        let fits = stamp.size == 8 && matches!(long, 4 | 8) && data.offset <= 64;
        let behind = data.offset >= stamp.offset.saturating_add(8)
            && data.offset >= commit.offset.saturating_add(commit.size);
        (fits && behind).then_some(Self {
            stamp: stamp.offset as usize,
            commit: commit.offset as usize,
            long,
            data: data.offset as usize,
        })
    }

    /// Reads a page's head.
    pub fn read(&self, page: &[u8]) -> Result<PageHead, Fault> {
        let too_short = || Fault::PageCut(page.len());
        if page.len() < self.data {
            return Err(too_short());
        }
        let at = long(page, self.stamp, 8).ok_or_else(too_short)?;
        let commit = long(page, self.commit, self.long).ok_or_else(too_short)?;
        let (used, room) = ((commit & USED) as usize, page.len() - self.data);
        if used > room {
            return Err(Fault::PageOverfull { page: page.len(), used });
        }
        let end = self.data + used;
        let lost = (commit & LOST != 0).then(|| {
            let count = (commit & COUNTED != 0).then(|| long(page, end, self.long)).flatten();
            count.unwrap_or(0)
        });
        Ok(PageHead { at, data: (self.data, end), lost })
    }
}

/// Whether `events/header_event` describes the event layout known here.
pub(super) fn is_known(header: &str) -> bool {
    let says = |name: &str, value: &str| {
        header.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(name) && words.any(|word| word == value)
        })
    };
    let kinds = says("padding", "29") && says("time_extend", "30") && says("data", "28");
    kinds && says("type_len", "5") && says("time_delta", "27")
}

/// The item at a place in a page whose events end at `end`, and the next item's place.
pub(super) fn piece(page: &[u8], at: usize, end: usize) -> Result<(Piece, usize), Fault> {
    let word = |at: usize| long(&page[..end], at, 4);
    let head = word(at).ok_or(Fault::EventCut)?;
    let (kind, delta) = (head & 31, head >> 5);
    let next = || word(at + 4).ok_or(Fault::EventCut);
    let within = |from: usize, size: u64| {
        let to = usize::try_from(size).ok().and_then(|size| from.checked_add(size)).filter(|&to| to <= end);
        to.ok_or(Fault::EventOverrun(size))
    };
    Ok(match kind {
        29 if delta == 0 => (Piece::End, end),
        // For a delta of 0, the kernel writes 1.
        29 => (Piece::Discarded(if delta == 1 { 0 } else { delta }), within(at + 4, next()?.max(4))?),
        30 => (Piece::TimePassed(next()? << 27 | delta), at + 8),
        31 => (Piece::Stamp(next()? << 27 | delta), at + 8),
        0 => {
            // The length includes its own four bytes.
            let length = next()?;
            if length < 4 {
                return Err(Fault::EventSize(length));
            }
            let to = within(at + 4, length)?;
            (Piece::Event(delta, at + 8..to), to.next_multiple_of(4))
        }
        words => {
            let to = within(at + 4, words * 4)?;
            (Piece::Event(delta, at + 4..to), to)
        }
    })
}

/// The stamp with the lower bits `stamp`, after the stamp `now`.
pub(super) const fn full_stamp(stamp: u64, now: u64) -> u64 {
    let above = now >> STAMP_BITS << STAMP_BITS;
    let stamp = above | stamp;
    // The upper bits have changed if the stamp would go back by more than half the lower bits' range.
    if now > stamp && now - stamp > 1 << (STAMP_BITS - 1) {
        stamp.saturating_add(1 << STAMP_BITS)
    } else {
        stamp
    }
}

fn long(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    match size {
        4 => bytes.first_chunk().map(|&bytes| u32::from_le_bytes(bytes).into()),
        _ => bytes.first_chunk().map(|&bytes| u64::from_le_bytes(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    #[test]
    fn a_page_is_laid_out_as_its_kernel_says() {
        let layout = Layout::parse(PAGE).expect("a layout");
        assert_eq!(layout, Layout { stamp: 0, commit: 8, long: 8, data: 16 });
        let narrow = PAGE.replace("offset:8;\tsize:8", "offset:8;\tsize:4").replace("offset:16", "offset:12");
        assert_eq!(Layout::parse(&narrow).map(|layout| (layout.long, layout.data)), Some((4, 12)));
        for nonsense in
            ["", "field: u64 timestamp;\toffset:0;\tsize:8;", &PAGE.replace("offset:16", "offset:10")]
        {
            assert_eq!(Layout::parse(nonsense), None, "{nonsense}");
        }
        let mut page = vec![0; 64];
        page[0] = 7;
        page[8] = 40;
        assert_eq!(layout.read(&page), Ok(PageHead { at: 7, data: (16, 56), lost: None }));
        // Lost before it, uncounted and counted.
        page[11] = 0x80;
        assert_eq!(layout.read(&page).map(|head| head.lost), Ok(Some(0)));
        page[11] = 0xc0;
        page[56] = 9;
        assert_eq!(layout.read(&page).map(|head| head.lost), Ok(Some(9)));
        page[8] = 49;
        let error = layout.read(&page).expect_err("more than there is room for");
        assert_eq!(error, Fault::PageOverfull { page: 64, used: 49 });
    }

    #[test]
    fn the_stamp_of_an_event_is_what_its_kind_says() {
        let page = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        for (words, piece_is, next) in [
            (&[2 | 5 << 5, 1, 2][..], Ok(Piece::Event(5, 4..12)), 12),
            (&[5 << 5, 10, 1, 2], Ok(Piece::Event(5, 8..14)), 16),
            (&[29, 0, 0], Ok(Piece::End), 12),
            (&[29 | 5 << 5, 8, 0, 0], Ok(Piece::Discarded(5)), 12),
            (&[29 | 1 << 5, 8, 0, 0], Ok(Piece::Discarded(0)), 12),
            (&[30 | 3 << 5, 2], Ok(Piece::TimePassed(2 << 27 | 3)), 8),
            (&[31 | 3 << 5, 2], Ok(Piece::Stamp(2 << 27 | 3)), 8),
            (&[3, 0, 0], Err(Fault::EventOverrun(12)), 0),
            (&[0, 3, 0], Err(Fault::EventSize(3)), 0),
            (&[0, u32::MAX, 0], Err(Fault::EventOverrun(4_294_967_295)), 0),
            (&[30], Err(Fault::EventCut), 0),
        ] {
            let page = page(words);
            let found = piece(&page, 0, page.len());
            assert_eq!(found, piece_is.map(|piece| (piece, next)), "{words:?}");
        }
        assert_eq!(full_stamp(5, 1 << 60 | 3), 1 << 60 | 5);
        assert_eq!(full_stamp(2, (1 << 59) - 1), 1 << 59 | 2);
    }

    #[test]
    fn events_of_another_layout_are_recognised_by_the_kernels_description() {
        let header = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
            \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\
            \ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
        assert!(is_known(header));
        assert!(!is_known(&header.replace("== 30", "== 31")) && !is_known(&header.replace("27", "29")));
        assert!(!is_known(""));
    }
}
