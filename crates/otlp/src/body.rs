//! A request's body, read within bounds on size, time and memory.

use std::io::Read as _;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes};

use crate::room::Taken;

/// The longest time for a body to arrive.
pub(crate) const MAX_BODY_TIME: Duration = Duration::from_secs(10);

/// The reason why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyError {
    TooLarge,
    /// Too many others are being read.
    Busy,
    Slow,
    /// The connection failed, or the client went away.
    Broken,
}

/// Reads a body with at most `most` bytes, each taken from the room before it is kept.
pub(crate) async fn collect<B>(body: B, most: usize, taken: &mut Taken) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.size_hint().lower() > most as u64 {
        return Err(BodyError::TooLarge);
    }
    match tokio::time::timeout(MAX_BODY_TIME, read(body, most, taken)).await {
        Ok(read) => read,
        Err(_) => Err(BodyError::Slow),
    }
}

async fn read<B>(mut body: B, most: usize, taken: &mut Taken) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut bytes: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyError::Broken)?;
        let Ok(chunk) = frame.into_data() else { continue };
        let needed = bytes.len() + chunk.len();
        if needed > most {
            return Err(BodyError::TooLarge);
        }
        if needed > bytes.capacity() {
            let capacity = needed.max(2 * bytes.capacity()).min(most);
            if !taken.grow(capacity - bytes.capacity()) {
                return Err(BodyError::Busy);
            }
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.into())
}

/// The reason why compressed bytes were not decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GzipError {
    TooLarge,
    NotGzip,
}

/// Decompresses to at most `most` bytes: compressed bytes may contain a thousand times as many.
pub(crate) fn decompress(bytes: &[u8], most: usize) -> Result<Vec<u8>, GzipError> {
    let mut out = Vec::new();
    let decoder = MultiGzDecoder::new(bytes);
    decoder.take(most as u64 + 1).read_to_end(&mut out).map_err(|_| GzipError::NotGzip)?;
    if out.len() > most { Err(GzipError::TooLarge) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::Write as _;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http_body_util::Full;
    use hyper::body::Frame;

    use super::*;
    use crate::room::Room;

    /// A body in these chunks.
    struct Chunks(std::slice::Iter<'static, usize>);

    impl Body for Chunks {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.next().map(|&bytes| Ok(Frame::data(vec![7; bytes].into()))))
        }
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn what_is_compressed_grows_to_its_bound_and_no_further() {
        let bomb = gzip(&vec![0; 1001]);
        assert!(bomb.len() < 100);
        assert_eq!(decompress(&bomb, 1000), Err(GzipError::TooLarge));
        assert_eq!(decompress(&bomb, 1001), Ok(vec![0; 1001]));
        assert_eq!(decompress(&[gzip(b"a"), gzip(b"b")].concat(), 10), Ok(b"ab".to_vec()));
        for bytes in [&b"plain"[..], &bomb[..bomb.len() - 1], b""] {
            assert_eq!(decompress(bytes, 10_000), Err(GzipError::NotGzip));
        }
    }

    #[test]
    fn a_body_takes_room_for_what_it_has() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let room = Room::new(100);
        let read = |bytes: usize, most| {
            let mut taken = room.take(0).expect("nothing");
            let body = Full::new(Bytes::from(vec![7; bytes]));
            let read = runtime.block_on(collect(body, most, &mut taken));
            (read.map(|bytes| bytes.len()), taken)
        };
        assert_eq!(read(61, 60).0, Err(BodyError::TooLarge));
        let (read_60, _taken) = read(60, 60);
        assert_eq!(read_60, Ok(60));
        assert_eq!(read(41, 60).0, Err(BodyError::Busy));
        assert_eq!(read(40, 60).0, Ok(40));
    }

    #[test]
    fn the_room_of_a_body_without_a_length_doubles_up_to_the_largest_size() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        for (chunks, taken) in [
            (&[10][..], 10),
            (&[10, 1], 20),
            (&[10, 1, 9], 20),
            (&[10, 1, 10], 40),
            (&[10, 30], 40),
            (&[40, 1], 60),
            (&[40, 1, 19], 60),
        ] {
            let room = Room::new(100);
            let mut held = room.take(0).expect("nothing");
            let body = Chunks(chunks.iter());
            let read = runtime.block_on(collect(body, 60, &mut held));
            assert_eq!(read.map(|bytes| bytes.len()), Ok(chunks.iter().sum()), "{chunks:?}");
            assert!(room.take(100 - taken).is_some() && room.take(101 - taken).is_none(), "{chunks:?}");
        }
    }
}
