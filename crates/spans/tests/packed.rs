//! Compressed span files as real compressors write them: several members and frames, frames to skip, files that are cut
//! and files with flipped bits.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use wakepath_spans::{ReadError, Reader};

/// An OTLP line; its span has this id.
fn line(id: u8) -> Vec<u8> {
    let span = format!(
        r#"{{"traceId": "07070707070707070707070707070707", "spanId": "{id:016x}", "name": "shop", "startTimeUnixNano": 5, "endTimeUnixNano": 9}}"#
    );
    format!("{{\"resourceSpans\": [{{\"scopeSpans\": [{{\"spans\": [{span}]}}]}}]}}\n").into_bytes()
}

/// A Zstandard frame without a checksum, with these blocks as they are.
fn frame(blocks: &[&[u8]]) -> Vec<u8> {
    // The window is 128 KiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    for (place, block) in (1..).zip(blocks) {
        let head = (block.len() as u32) << 3 | u32::from(place == blocks.len());
        frame.extend(&head.to_le_bytes()[..3]);
        frame.extend(*block);
    }
    frame
}

/// A Zstandard frame without contents; its kind is from 0 to 15.
fn to_skip(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[0x50 | kind, 0x2a, 0x4d, 0x18][..], &(bytes.len() as u32).to_le_bytes(), bytes].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(bytes).expect("memory");
    packed.finish().expect("memory")
}

/// The ids and names in a file, and its error.
fn kept(file: &[u8]) -> (Vec<u8>, Vec<String>, Option<ReadError>) {
    let mut reader = Reader::default();
    let error = reader.take_file(&file.to_vec().into()).err();
    let (spans, _) = reader.finish();
    let names = spans.operations.iter().map(|one| one.name.to_string()).collect();
    (spans.spans.iter().map(|span| span.id.0[7]).collect(), names, error)
}

fn is_damaged(error: Option<&ReadError>) -> bool {
    matches!(error, Some(ReadError::Packed { .. }))
}

#[test]
fn a_zstandard_frame_that_is_cut_keeps_the_spans_in_its_whole_blocks() {
    let [first, second] = [1, 2].map(line);
    let whole = frame(&[&first, &second]);
    assert_eq!(kept(&whole), (vec![1, 2], vec!["shop".to_owned()], None));
    let first_ends = 6 + 3 + first.len();
    for cut in 4..whole.len() {
        let (ids, _, error) = kept(&whole[..cut]);
        let expected = if cut < first_ends { &[][..] } else { &[1] };
        assert!(ids == expected && is_damaged(error.as_ref()), "{cut}: {ids:?}, {error:?}");
    }
    // With a checksum, also where this alone is missing.
    let mut with_checksum = whole.clone();
    with_checksum[4] = 4;
    for cut in 4..=with_checksum.len() {
        let (ids, _, error) = kept(&with_checksum[..cut]);
        let expected: &[u8] = match cut {
            _ if cut < first_ends => &[],
            _ if cut < whole.len() => &[1],
            _ => &[1, 2],
        };
        assert!(ids == expected && is_damaged(error.as_ref()), "{cut}: {ids:?}, {error:?}");
    }
    // A reserved block kind is damage, and what came before is kept.
    let mut reserved = whole;
    reserved[first_ends] |= 3 << 1;
    let (ids, _, error) = kept(&reserved);
    assert!(ids == [1] && is_damaged(error.as_ref()), "{ids:?}, {error:?}");
}

#[test]
fn zstandard_frames_without_contents_are_skipped_wherever_they_stand() {
    let [first, second] = [1, 2].map(|id| frame(&[&line(id)]));
    let parts = [to_skip(0, b"size"), first.clone(), to_skip(15, b""), second, to_skip(7, &[0; 300])];
    let whole = parts.concat();
    assert_eq!(kept(&whole), (vec![1, 2], vec!["shop".to_owned()], None));
    let at_ends: Vec<_> = (1..parts.len()).map(|count| parts[..count].concat().len()).collect();
    for cut in 4..whole.len() {
        let (ids, _, error) = kept(&whole[..cut]);
        let expected: &[u8] = match cut {
            _ if cut < at_ends[1] => &[],
            _ if cut < at_ends[3] => &[1],
            _ => &[1, 2],
        };
        assert_eq!(ids, expected, "{cut}");
        assert_eq!(error.is_some(), !at_ends.contains(&cut), "{cut}: {error:?}");
    }
    for wrong in [
        [0x4f, 0x2a, 0x4d, 0x18],
        [0x60, 0x2a, 0x4d, 0x18],
        [0x70, 0x2a, 0x4d, 0x18],
        [0x50, 0x2a, 0x4d, 0x19],
    ] {
        let other = [&wrong[..], &[0; 4]].concat();
        assert_eq!(kept(&[&other[..], &first].concat()).2, Some(ReadError::Unknown), "{wrong:?}");
        let (ids, _, error) = kept(&[&first[..], &other].concat());
        assert!(ids == [1] && is_damaged(error.as_ref()), "{wrong:?}: {error:?}");
    }
}

#[test]
fn a_flipped_bit_is_said_where_the_packed_file_has_a_checksum() {
    let both = [line(1), line(2)].concat();
    let zstd = |level| compress_to_vec(&both[..], level);
    for whole in [gzip(&both), zstd(CompressionLevel::Fastest), zstd(CompressionLevel::Uncompressed)] {
        assert_eq!(kept(&whole), (vec![1, 2], vec!["shop".to_owned()], None));
        // In gzip, four bytes of length stand behind the checksum.
        for from_end in 1..=4 {
            let mut flipped = whole.clone();
            let at = flipped.len() - from_end;
            flipped[at] ^= 1;
            let (ids, _, error) = kept(&flipped);
            assert!(ids == [1, 2] && is_damaged(error.as_ref()), "{from_end}: {ids:?}, {error:?}");
        }
    }
    let mut flipped = zstd(CompressionLevel::Uncompressed);
    let at = flipped.windows(4).position(|four| four == b"shop").expect("a name");
    flipped[at + 3] ^= 1;
    let (_, names, error) = kept(&flipped);
    assert!(names.contains(&"shoq".to_owned()) && is_damaged(error.as_ref()), "{names:?}, {error:?}");
}

#[test]
fn a_gzip_file_that_is_cut_keeps_its_whole_members_and_says_so() {
    let [first, second] = [1, 2].map(|id| gzip(&line(id)));
    let whole = [&first[..], &second].concat();
    for cut in 2..whole.len() {
        let (ids, _, error) = kept(&whole[..cut]);
        assert!(ids.len() <= 2 && (1..).zip(&ids).all(|(id, found)| id == *found), "{cut}: {ids:?}");
        assert!(cut < first.len() || !ids.is_empty(), "{cut}");
        // Behind a whole member, nothing shows that another was there.
        assert_eq!(is_damaged(error.as_ref()), cut != first.len(), "{cut}: {error:?}");
    }
}

#[test]
fn a_place_in_an_unpacked_file_is_said_to_be_one() {
    let lines = [&line(1)[..], b"{\"other\": 1}"].concat();
    let place = format!("unpacked, cannot be read from byte {} on: ", line(1).len() - 1);
    let zstd = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
    let framed = |message: &[u8]| [&(message.len() as u32).to_be_bytes(), message].concat();
    for packed in [gzip(&lines), zstd(&lines), framed(&zstd(&lines))] {
        let (ids, _, error) = kept(&packed);
        assert!(
            ids == [1] && error.as_ref().is_some_and(|error| error.to_string().starts_with(&place)),
            "{error:?}"
        );
    }
    for packed in [gzip(b"hello"), zstd(b"hello"), gzip(b"{}"), framed(&zstd(b"{}"))] {
        assert_eq!(kept(&packed).2, Some(ReadError::Unpacked(Box::new(ReadError::Unknown))));
    }
}
