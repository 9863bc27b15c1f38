//! Sending wakepath's own spans to a backend, by OTLP over HTTP in JSON.

use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request};
use serde::Deserialize;

use crate::answer::Encoding;
use crate::forward::{Forward, ForwardUrl};
use crate::service::Protocol;

/// The path for spans in OTLP over HTTP.
const PATH: &str = "/v1/traces";
/// The longest part of a backend's error text that is passed on, characters.
const MAX_REASON: usize = 300;

/// A backend's answer: `ExportTraceServiceResponse`.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Answer {
    partial_success: PartialSuccess,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PartialSuccess {
    /// A 64-bit number, as a text or as a number.
    rejected_spans: serde_json::Value,
    error_message: String,
}

/// Sends `TracesData` documents in JSON to a backend, one after the other.
///
/// # Errors
/// The reason why the backend did not take all documents: it cannot be reached, or refuses.
pub fn send(url: &ForwardUrl, documents: impl IntoIterator<Item = Vec<u8>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // Resolves the backend's name.
        .max_blocking_threads(1)
        .build()
        .map_err(|error| error.to_string())?;
    let sent = runtime.block_on(async {
        let forward = Forward::to(url.clone());
        for document in documents {
            send_one(&forward, document).await?;
        }
        Ok(())
    });
    runtime.shutdown_background();
    sent
}

async fn send_one(forward: &Forward, document: Vec<u8>) -> Result<(), String> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(PATH)
        .header(CONTENT_TYPE, "application/json")
        .body(())
        .map_err(|error| error.to_string())?;
    let (parts, ()) = request.into_parts();
    let sent = forward.send(parts, Bytes::from(document), Protocol::Http(Encoding::Json));
    let (response, is_error) = sent.await?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    if is_error {
        let reason: String = String::from_utf8_lossy(&body).chars().take(MAX_REASON).collect();
        return Err(format!("it answers {status}: {}", reason.trim()));
    }
    // An answer in another form refuses nothing.
    let Answer { partial_success } = serde_json::from_slice(&body).unwrap_or_default();
    let PartialSuccess { rejected_spans, error_message } = partial_success;
    let rejected = rejected_spans.as_u64().or_else(|| rejected_spans.as_str()?.parse().ok());
    match rejected {
        Some(count @ 1..) => {
            let reason: String = error_message.chars().take(MAX_REASON).collect();
            Err(format!("it refuses {count} of the spans: {reason}"))
        }
        _ => Ok(()),
    }
}
