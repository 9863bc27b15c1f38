//! Bytes → records → events, and back.
//!
//! Input: a byte that chooses the kernel, a byte with the place where the ring wraps, then a buffer's
//! content.

use wakepath_event::{Cpu, Event, EventKind, Mark};
use wakepath_kernel_records::layout::MAX_RECORD_BYTES;
use wakepath_kernel_records::{
    Buffer, DecodeError, Decoder, Encoder, Header, Kind, Value, fields, record_length, walk,
};

/// Kernels on either side of each change in the task states' numbers, and two invalid releases.
const RELEASES: [&str; 8] =
    ["4.9.0", "4.14.1", "5.8.0", "5.15.0", "6.1.0-18-amd64", "6.18.0", "7", "release"];

/// Puts bytes through every reader of records.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    let &[kernel, wrap, ref bytes @ ..] = input else { return };
    let release = RELEASES[usize::from(kernel) % RELEASES.len()];
    records(release, bytes);
    let wrap = usize::from(wrap) * 8 % (bytes.len() / 8 * 8 + 8);
    for buffer in Buffer::ALL {
        walks(buffer, bytes, wrap);
    }
}

/// Every record with a known length, one behind the other, up to the first without.
fn records(release: &str, bytes: &[u8]) {
    let (decoder, encoder) = (Decoder::for_release(release), Encoder::for_release(release));
    let mut rest = bytes;
    loop {
        let length = record_length(rest);
        let decoded = decoder.decode(rest, Cpu(3));
        assert_eq!(fields(rest).is_ok(), length.is_ok(), "as long for those who show it as it stands");
        let length = match length {
            Ok(length) => length,
            Err(DecodeError::Short { needs, found, .. }) => {
                assert!(found == rest.len() && needs > found && needs <= MAX_RECORD_BYTES);
                assert!(decoded.is_err());
                return;
            }
            Err(_) => return assert!(decoded.is_err()),
        };
        assert!(length <= rest.len() && length <= MAX_RECORD_BYTES && length.is_multiple_of(8));
        let (record, behind) = rest.split_at(length);
        if let Ok((event, decoded)) = decoded {
            assert_eq!(decoded, length);
            texts(&event, record);
            let again = decoder.decode(record, Cpu(3));
            assert_eq!(again, Ok((event.clone(), length)), "what stands behind a record is none of its");
            // A decoded event can be written, and reads the same. Numbers without a meaning come back as
            // the encoder's default, so the bytes may differ.
            let mut written = Vec::new();
            if encoder.encode(&event, event.cpu.0, &mut written).is_ok() {
                assert_eq!(record_length(&written), Ok(written.len()));
                assert_eq!(decoder.decode(&written, Cpu(3)), Ok((ended(event), written.len())));
            }
        }
        rest = behind;
    }
}

/// A text comes from its own field, and not from beyond it.
fn texts(event: &Event, record: &[u8]) {
    let fields = fields(record).expect("the fields of what was decoded");
    let in_field = |name: &str, text: &[u8]| {
        let field = fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value);
        assert!(matches!(field, Some(Value::Bytes(bytes)) if bytes.starts_with(text)), "{name}: {text:?}");
    };
    match &event.kind {
        EventKind::Name(_, _, name) => in_field("name", name),
        EventKind::Mapping(mapping) => {
            in_field("build_id", &mapping.build_id);
            in_field("path", &mapping.path);
        }
        EventKind::Mark(Mark::Command { words, .. }) => in_field("words", words),
        EventKind::File(file) => in_field("name", &file.name),
        EventKind::Exec { path, .. } => in_field("path", path),
        _ => {}
    }
}

/// No kernel writes a text that fills its field: it loses a byte to the NUL when it is written.
fn ended(mut event: Event) -> Event {
    let cut = |text: &mut Box<[u8]>, field: usize| *text = text[..text.len().min(field - 1)].into();
    match &mut event.kind {
        EventKind::Exec { path, .. } => cut(path, 128),
        EventKind::File(file) => cut(&mut file.name, 64),
        _ => {}
    }
    event
}

/// A walk over bytes that wrap at `wrap` finds the same as a walk over consecutive bytes.
fn walks(buffer: Buffer, bytes: &[u8], wrap: usize) {
    let whole = walk(buffer, &[bytes]);
    let (first, second) = bytes.split_at(wrap.min(bytes.len()));
    let wrapped = walk(buffer, &[first, second]);
    let summary = match (&whole, &wrapped) {
        (Ok(whole), Ok(wrapped)) => {
            assert_eq!(whole, wrapped);
            assert_eq!(whole.bytes, bytes.len());
            whole
        }
        (Err(whole), Err(wrapped)) => {
            assert_eq!(whole.before, wrapped.before);
            &whole.before
        }
        _ => panic!("{buffer:?} wrapped at {wrap}: {wrapped:?}, not {whole:?}"),
    };
    let (mut at, mut count, mut last) = (0, 0, 0);
    while at < summary.bytes {
        let header = Header::read(&bytes[at..]).expect("a record that was walked over has a header");
        assert!(
            header.stamp >= last && Kind::from_number(header.kind).is_some_and(|kind| buffer.holds(kind))
        );
        last = header.stamp;
        count += 1;
        at += record_length(&bytes[at..]).expect("a record that was walked over has a length");
    }
    assert_eq!((at, count, last), (summary.bytes, summary.records, summary.last_stamp));
    assert_eq!(summary.per_kind.iter().map(|&of_kind| u64::from(of_kind)).sum::<u64>(), count);
}
