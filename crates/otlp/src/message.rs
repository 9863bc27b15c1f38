//! The message in an HTTP body, as protobuf.

use std::borrow::Cow;

use crate::body::{GzipError, decompress};
use crate::json::to_protobuf;

/// The largest decompressed message, bytes, which is gRPC's limit.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// The reason why a body has no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoMessage {
    /// The decompressed body is too large.
    #[error("the message is larger than {MAX_MESSAGE_BYTES} bytes")]
    TooLarge,
    /// The reason why it is no message.
    #[error("{0}")]
    Malformed(String),
}

/// A body's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Whether it is compressed.
    pub gzip: bool,
    /// Whether it is JSON instead of protobuf.
    pub json: bool,
}

/// The message in a body with this form.
pub(crate) fn message(body: &[u8], form: Form) -> Result<Cow<'_, [u8]>, NoMessage> {
    let bytes = match form.gzip {
        false => Cow::Borrowed(body),
        true => Cow::Owned(decompress(body, MAX_MESSAGE_BYTES).map_err(|error| match error {
            GzipError::TooLarge => NoMessage::TooLarge,
            GzipError::NotGzip => NoMessage::Malformed("not gzip".to_owned()),
        })?),
    };
    match form.json {
        false => Ok(bytes),
        true => to_protobuf(&bytes).map(Cow::Owned).map_err(|error| NoMessage::Malformed(error.to_string())),
    }
}
