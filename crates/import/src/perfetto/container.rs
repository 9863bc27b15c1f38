//! A file's packets.

use std::io::{self, Read};
use std::sync::Arc;

use ruzstd::decoding::StreamingDecoder;
use wakepath_ctf::{Source, Window};

use super::wire::{Fields, Value, varint};
use crate::Fault;

/// The limit on a packet, compressed or not; Perfetto's own stay below 512 KiB.
const MAX_PACKET_BYTES: usize = if cfg!(test) { 1 << 16 } else { 16 << 20 };
/// A packet's longest tag and size.
const MAX_HEAD_BYTES: usize = 20;
const BLOCK_BYTES: usize = 256 << 10;

/// `Trace.packet`.
const PACKET: u32 = 1;
/// `TracePacket.compressed_packets` and `.zstd_compressed_packets`.
const DEFLATE: u32 = 50;
const ZSTD: u32 = 133;

/// A packet's place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub offset: u64,
    pub size: u32,
    /// The place within the compressed packet: offset and size.
    inner: Option<(u32, u32)>,
}

/// Visits the packets in the file's order; returns the damages with their offsets.
pub(super) fn walk(
    source: &impl Source,
    size: u64,
    mut visit: impl FnMut(Place, &[u8]),
) -> io::Result<Vec<(u64, Fault)>> {
    let (mut window, mut faults) = (Window::default(), Vec::new());
    let mut at = 0;
    window.set(0, size);
    loop {
        if window.bytes().len() < MAX_HEAD_BYTES {
            window.fill(source, BLOCK_BYTES)?;
        }
        if window.bytes().is_empty() {
            return Ok(faults);
        }
        let mut rest = window.bytes();
        let seen = rest.len();
        let tag = varint(&mut rest);
        let Some((tag, body)) = tag.zip(varint(&mut rest)).filter(|(tag, _)| *tag & 7 == 2 && *tag >> 3 > 0)
        else {
            faults.push((at, Fault::NoMoreRecords(size.saturating_sub(at))));
            return Ok(faults);
        };
        let head = seen - rest.len();
        let (from, left) = (at + head as u64, size.saturating_sub(at + head as u64));
        if body > left {
            faults.push((at, Fault::RecordsMissing(body)));
            return Ok(faults);
        }
        at = from + body;
        let fits = usize::try_from(body).ok().filter(|&body| body <= MAX_PACKET_BYTES);
        let Some(body) = fits.filter(|_| tag >> 3 == u64::from(PACKET)) else {
            if fits.is_none() {
                faults.push((from, Fault::NoRecord(body)));
            }
            window.set(at, size);
            continue;
        };
        window.consume(head);
        if window.bytes().len() < body {
            window.fill(source, body.max(BLOCK_BYTES))?;
        }
        let Some(packet) = window.bytes().get(..body) else {
            faults.push((from, Fault::Changed));
            return Ok(faults);
        };
        let place = Place { offset: from, size: body as u32, inner: None };
        visit_with_compressed(place, packet, &mut faults, &mut visit);
        window.consume(body);
    }
}

/// Visits a packet, or the packets that are compressed in it.
fn visit_with_compressed(
    place: Place,
    packet: &[u8],
    faults: &mut Vec<(u64, Fault)>,
    visit: &mut impl FnMut(Place, &[u8]),
) {
    let Some(all) = expanded(packet) else { return visit(place, packet) };
    let Some(all) = all else { return faults.push((place.offset, Fault::CompressionDamaged)) };
    let mut rest = &all[..];
    while !rest.is_empty() {
        let mut body = rest;
        let head = varint(&mut body).zip(varint(&mut body));
        let split = head
            .filter(|(tag, _)| tag & 7 == 2)
            .and_then(|(tag, size)| Some((tag >> 3, body.split_at_checked(usize::try_from(size).ok()?)?)));
        let Some((field, (packet, behind))) = split else {
            return faults.push((place.offset, Fault::CompressionDamaged));
        };
        if field == u64::from(PACKET) {
            let offset = (all.len() - behind.len() - packet.len()) as u32;
            visit(Place { inner: Some((offset, packet.len() as u32)), ..place }, packet);
        }
        rest = behind;
    }
}

/// The packets that are compressed in a packet; the inner `None` if they cannot be read.
fn expanded(packet: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut compressed = Fields::new(packet).filter(|(field, _)| matches!(*field, DEFLATE | ZSTD));
    let (field, Value::Bytes(bytes)) = compressed.next()? else { return None };
    let mut all = Vec::new();
    let most = MAX_PACKET_BYTES as u64 + 1;
    let read = match field {
        // With zlib's head.
        DEFLATE => flate2::read::ZlibDecoder::new(bytes).take(most).read_to_end(&mut all).ok(),
        _ => StreamingDecoder::new(bytes)
            .ok()
            .and_then(|decoder| decoder.take(most).read_to_end(&mut all).ok()),
    };
    Some(read.is_some_and(|read| read <= MAX_PACKET_BYTES).then_some(all))
}

/// Reads packets again by their places. It keeps the last compressed packet: bundles in it are due one after another.
#[derive(Debug, Default)]
pub(super) struct Again {
    last: Option<(u64, Arc<Vec<u8>>)>,
}

impl Again {
    /// The packet's bytes; `None` if the file has changed.
    pub fn read(&mut self, source: &impl Source, place: Place) -> Option<Vec<u8>> {
        let Some((from, size)) = place.inner else { return outer(source, place) };
        let all = match &self.last {
            Some((offset, all)) if *offset == place.offset => Arc::clone(all),
            _ => {
                let all = Arc::new(expanded(&outer(source, place)?)??);
                self.last = Some((place.offset, Arc::clone(&all)));
                all
            }
        };
        all.get(from as usize..(from as usize).checked_add(size as usize)?).map(<[u8]>::to_vec)
    }
}

fn outer(source: &impl Source, place: Place) -> Option<Vec<u8>> {
    let mut bytes = vec![0; place.size as usize];
    let read = source.read_at(place.offset, &mut bytes).ok()?;
    (read == bytes.len()).then_some(bytes)
}
