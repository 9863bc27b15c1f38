//! Metadata files: text, or text in packets.

use std::borrow::Cow;

use super::lexer::TsdlError;
use crate::json::JsonError;

/// Why a metadata file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum MetadataError {
    #[error("metadata packet at byte {offset} {why}")]
    Packet { offset: usize, why: String },
    #[error("metadata is neither TSDL text nor packets of it")]
    NotText,
    #[error(transparent)]
    Tsdl(#[from] TsdlError),
    #[error(transparent)]
    Json(#[from] JsonError),
}

/// The number at a metadata packet's beginning (CTF 1.8, section 7.1).
const MAGIC: u32 = 0x75d1_1d57;

/// The bytes in front of a packet's text.
const HEADER: usize = 37;

/// A metadata file's text: unchanged, or taken out of LTTng's packets in either byte order. Invalid UTF-8 is
/// replaced: comments may have any encoding.
///
/// # Errors
/// When it is no text, or a packet is broken.
pub fn text_of_file(bytes: &[u8]) -> Result<Cow<'_, str>, MetadataError> {
    let word = |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    let Some(magic) = word(0) else { return Ok(String::from_utf8_lossy(bytes)) };
    let number: fn([u8; 4]) -> u32 = match magic {
        magic if u32::from_le_bytes(magic) == MAGIC => u32::from_le_bytes,
        magic if u32::from_be_bytes(magic) == MAGIC => u32::from_be_bytes,
        _ if bytes.contains(&0) => return Err(MetadataError::NotText),
        _ => return Ok(String::from_utf8_lossy(bytes)),
    };
    let mut text = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let broken = |why: String| MetadataError::Packet { offset: at, why };
        let header = bytes.get(at..at.saturating_add(HEADER));
        let header = header.ok_or_else(|| broken(format!("is cut: {} bytes are left", bytes.len() - at)))?;
        let field = |from: usize| header[from..from + 4].try_into().map_or(0, number);
        if field(0) != MAGIC {
            return Err(broken("does not begin as one".to_owned()));
        }
        let (content, size) = (field(24) as usize / 8, field(28) as usize / 8);
        if header[32] != 0 || header[33] != 0 {
            return Err(broken("is compressed or encrypted, which is not read".to_owned()));
        }
        if content < HEADER || size < content {
            return Err(broken(format!("says it has {content} of {size} bytes")));
        }
        // A killed writer leaves the last packet without the padding behind its text.
        let Some(packet) = bytes.get(at + HEADER..at.saturating_add(content)) else {
            return Err(broken(format!("is cut: it has {content} bytes, and {} are left", bytes.len() - at)));
        };
        text.extend_from_slice(packet);
        at = at.saturating_add(size);
    }
    Ok(Cow::Owned(
        String::from_utf8(text).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()),
    ))
}
