//! A trace on disk: a directory with a file `metadata` and a file for each stream.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::json;
use crate::schema::Metadata;
use crate::tsdl::{self, MetadataError};

/// Why a trace cannot be opened.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TraceError {
    #[error("cannot read {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {source}", .path.display())]
    Metadata { path: PathBuf, source: MetadataError },
    #[error("{}: has more than {MAX_METADATA} bytes", .path.display())]
    TooLarge { path: PathBuf },
}

/// The limit on metadata size, bytes.
const MAX_METADATA: u64 = 64 << 20;

/// Reads a metadata file: CTF 1.8 as text or in packets, or CTF 2.
///
/// # Errors
/// When it is neither.
pub fn read_metadata(bytes: &[u8]) -> Result<Metadata, MetadataError> {
    if json::begins(bytes) {
        return Ok(json::read(bytes)?);
    }
    Ok(tsdl::read(&tsdl::text_of_file(bytes)?)?)
}

/// The trace in a directory.
#[derive(Debug)]
pub struct Trace {
    /// Its metadata.
    pub metadata: Metadata,
    /// The stream files, by name.
    pub streams: Vec<PathBuf>,
}

impl Trace {
    /// Reads the metadata of the trace in a directory and lists its streams.
    ///
    /// # Errors
    /// When there is no metadata, or it is neither CTF 1.8 nor CTF 2.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let place = path.join("metadata");
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| TraceError::Io { path, source }
        };
        let file = File::open(&place).map_err(io(&place))?;
        let mut bytes = Vec::new();
        file.take(MAX_METADATA + 1).read_to_end(&mut bytes).map_err(io(&place))?;
        if bytes.len() as u64 > MAX_METADATA {
            return Err(TraceError::TooLarge { path: place });
        }
        let metadata =
            read_metadata(&bytes).map_err(|source| TraceError::Metadata { path: place, source })?;
        let mut streams = Vec::new();
        for entry in fs::read_dir(path).map_err(io(path))? {
            let entry = entry.map_err(io(path))?;
            let name = entry.file_name();
            let hidden = name.as_encoded_bytes().first() == Some(&b'.');
            if !hidden && name != "metadata" && entry.file_type().is_ok_and(|kind| kind.is_file()) {
                streams.push(entry.path());
            }
        }
        streams.sort();
        Ok(Self { metadata, streams })
    }
}
