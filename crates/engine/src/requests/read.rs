//! Reads spans, from recordings that received some, and from files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use wakepath_event::RecordingFormat;
use wakepath_recording::Recording;
use wakepath_spans::{ReadError, Reader};

use super::Traced;
use crate::is_recording;

/// The maximum size of a span file, bytes.
const MAX_FILE_BYTES: u64 = 4 << 30;

/// The error for unreadable spans.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum SpansError {
    #[error("cannot read {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{} is larger than {} GiB", path.display(), MAX_FILE_BYTES >> 30)]
    TooLarge { path: PathBuf },
    #[error("{}: {error}", path.display())]
    Format { path: PathBuf, error: ReadError },
}

/// Reads the spans that these recordings received, and the spans in these files.
///
/// # Errors
/// When a file cannot be read, or holds no spans in a known format. A file with spans before its damage is no error.
pub fn traced(recordings: &[PathBuf], files: &[PathBuf]) -> Result<Traced, SpansError> {
    let (mut reader, mut torn) = (Reader::default(), Vec::new());
    for (place, path) in recordings.iter().enumerate().filter(|(_, path)| is_recording(path)) {
        reader.received_by(u16::try_from(place).ok().filter(|_| recordings.len() > 1));
        let failed = |error| SpansError::Io { path: path.clone(), error };
        let Ok(recording) = Recording::open(path) else { continue };
        let Some(mut frames) = recording.spans().map_err(failed)? else { continue };
        for frame in frames.by_ref() {
            let malformed = |error| SpansError::Format { path: path.join("spans"), error };
            reader.take_protobuf(Bytes::from(frame)).map_err(malformed)?;
        }
        if frames.torn() {
            torn.push(path.clone());
        }
    }
    reader.received_by(None);
    let mut damaged = Vec::new();
    for path in files {
        let file = Bytes::from(bytes_of(path)?);
        let before = reader.count();
        match reader.take_file(&file) {
            Ok(()) => {}
            // A writer that was killed leaves its last line cut.
            Err(error) if reader.count() > before => damaged.push((path.clone(), error.to_string())),
            Err(error) => return Err(SpansError::Format { path: path.clone(), error }),
        }
    }
    let (spans, dropped) = reader.finish();
    Ok(Traced { torn, damaged, recordings: recordings.to_vec(), ..Traced::new(spans, dropped) })
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, SpansError> {
    let failed = |error| SpansError::Io { path: path.to_owned(), error };
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(SpansError::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of OTLP with a span whose ids have this digit.
    fn line(digit: char) -> String {
        let [trace, id] = [32, 16].map(|length| digit.to_string().repeat(length));
        let span = format!(
            r#"{{"traceId": "{trace}", "spanId": "{id}", "startTimeUnixNano": 5, "endTimeUnixNano": 9}}"#
        );
        format!("{{\"resourceSpans\": [{{\"scopeSpans\": [{{\"spans\": [{span}]}}]}}]}}\n")
    }

    #[test]
    fn a_damaged_file_counts_if_some_of_its_own_spans_are_whole_and_is_refused_otherwise() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let written = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("room");
            path
        };
        let whole = written("whole.json", line('1'));
        let cut = written("cut.json", line('2') + &line('3')[..20]);
        let other = written("other.json", "{\"resourceSpans\": [{".to_owned());
        let repeated = written("repeated.json", line('1') + "{\"resourceSpans\": [{");
        let read = |files: &[&PathBuf]| -> Result<_, String> {
            let files: Vec<_> = files.iter().copied().cloned().collect();
            let traced = traced(&[], &files).map_err(|error: SpansError| error.to_string())?;
            let ids: Vec<_> = traced.spans.spans.iter().map(|span| span.id.0[0]).collect();
            Ok((ids, traced.damaged.into_iter().map(|(path, _)| path).collect::<Vec<_>>()))
        };
        assert_eq!(read(&[&whole]), Ok((vec![0x11], vec![])));
        assert_eq!(read(&[&whole, &cut]), Ok((vec![0x11, 0x22], vec![cut.clone()])));
        assert_eq!(read(&[&cut, &whole]), Ok((vec![0x11, 0x22], vec![cut])));
        for files in [&[&other][..], &[&whole, &other], &[&other, &whole]] {
            let error = read(files).expect_err("nothing is whole");
            assert!(
                error.starts_with(&format!("{}: cannot be read from byte 0", other.display())),
                "{error}"
            );
        }
        // Its spans came before, from another file.
        assert_eq!(read(&[&repeated]), Ok((vec![0x11], vec![repeated.clone()])));
        assert_eq!(read(&[&whole, &repeated]), Ok((vec![0x11], vec![repeated])));
    }
}
