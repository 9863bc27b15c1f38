//! The answers to clients, in each protocol's form.

use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message as _;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// The time after which a client may send a refused request again.
pub(crate) const RETRY_IN: Duration = Duration::from_secs(1);

/// The form of an HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Protobuf,
    Json,
}

impl Encoding {
    const fn content_type(self) -> HeaderValue {
        match self {
            Self::Protobuf => HeaderValue::from_static("application/x-protobuf"),
            Self::Json => HeaderValue::from_static("application/json"),
        }
    }
}

/// The reason why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    Malformed(String),
    TooLarge,
    /// The client should send the request again.
    Busy,
    Slow,
    /// The backend does not answer; the client should send the request again.
    NoBackend(String),
}

impl Refusal {
    fn text(&self) -> String {
        match self {
            Self::Malformed(why) => format!("not readable: {why}"),
            Self::TooLarge => "larger than 4 MiB: send smaller batches".to_owned(),
            Self::Busy => "too much waits already: send it again".to_owned(),
            Self::Slow => "the request took too long to come".to_owned(),
            Self::NoBackend(why) => format!("cannot be sent on: {why}"),
        }
    }

    /// The refusal over gRPC. A client repeats a request after `RESOURCE_EXHAUSTED` only if the answer has a retry
    /// time.
    pub(crate) fn status(&self) -> Status {
        let code = match self {
            Self::Malformed(_) => Code::InvalidArgument,
            // Without a retry time, clients do not send it again.
            Self::TooLarge => Code::ResourceExhausted,
            Self::Busy => {
                let details = ErrorDetails::with_retry_info(Some(RETRY_IN));
                return Status::with_error_details(Code::ResourceExhausted, self.text(), details);
            }
            Self::Slow => Code::DeadlineExceeded,
            Self::NoBackend(_) => Code::Unavailable,
        };
        Status::new(code, self.text())
    }

    /// The refusal over HTTP.
    pub(crate) fn response(&self, encoding: Encoding) -> Response<Body> {
        let status = match self {
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::NoBackend(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut response = error(status, encoding, &self.text());
        if matches!(self, Self::Busy | Self::NoBackend(_)) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_IN.as_secs()));
        }
        response
    }
}

/// An error over HTTP: its body is a `Status`, in the form of the request.
pub(crate) fn error(status: StatusCode, encoding: Encoding, message: &str) -> Response<Body> {
    let bytes = match encoding {
        Encoding::Protobuf => {
            tonic_types::Status { message: message.to_owned(), ..Default::default() }.encode_to_vec()
        }
        Encoding::Json => serde_json::json!({ "message": message }).to_string().into_bytes(),
    };
    response(status, encoding, bytes)
}

/// The number of spans in a request that were not kept, with the reason; the others were kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejected {
    pub spans: u64,
    pub why: String,
}

/// The answer to an accepted request, as protobuf.
pub(crate) fn accepted(rejected: Option<&Rejected>) -> Vec<u8> {
    let partial_success = rejected.map(|rejected| ExportTracePartialSuccess {
        rejected_spans: i64::try_from(rejected.spans).unwrap_or(i64::MAX),
        error_message: rejected.why.clone(),
    });
    ExportTraceServiceResponse { partial_success }.encode_to_vec()
}

/// The same over HTTP.
pub(crate) fn accepted_over_http(encoding: Encoding, rejected: Option<&Rejected>) -> Response<Body> {
    let bytes = match (encoding, rejected) {
        (Encoding::Protobuf, _) => accepted(rejected),
        (Encoding::Json, None) => b"{}".to_vec(),
        (Encoding::Json, Some(Rejected { spans, why })) => serde_json::json!({
            "partialSuccess": { "rejectedSpans": spans.to_string(), "errorMessage": why }
        })
        .to_string()
        .into_bytes(),
    };
    response(StatusCode::OK, encoding, bytes)
}

fn response(status: StatusCode, encoding: Encoding, bytes: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::new(http_body_util::Full::from(bytes)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, encoding.content_type());
    response
}
