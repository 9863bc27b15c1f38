//! A request: read, kept, forwarded, answered.

use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tonic::Status;
use tonic::body::Body;

use crate::allow::AllowList;
use crate::answer::{self, Encoding, Refusal, Rejected};
use crate::body::{self, BodyError};
use crate::counts::Counts;
use crate::filter::filter;
use crate::forward::Forward;
use crate::grpc;
use crate::message::{Form, MAX_MESSAGE_BYTES, NoMessage, message};
use crate::queue::Queue;
use crate::room::Room;

/// The bytes before a gRPC message.
const GRPC_PREFIX_BYTES: usize = 5;
/// The bytes that all unanswered requests together may take.
pub(crate) const MAX_BODIES_BYTES: usize = 32 << 20;

/// The state that a receiver's requests share.
#[derive(Debug)]
pub(crate) struct Service {
    pub allowed: AllowList,
    pub counts: Arc<Counts>,
    pub queue: Queue,
    pub forward: Option<Forward>,
    pub bodies: Arc<Room>,
}

/// A request's subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Spans,
    /// Metrics, logs, profiles.
    Other,
}

/// A request's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Grpc,
    Http(Encoding),
}

impl Service {
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let (signal, protocol) = match recognise(&parts) {
            Ok(known) => known,
            Err(response) => return *response,
        };
        let most = match protocol {
            Protocol::Grpc => MAX_MESSAGE_BYTES + GRPC_PREFIX_BYTES,
            Protocol::Http(_) => MAX_MESSAGE_BYTES,
        };
        // Given back when the request is answered.
        let Some(mut taken) = self.bodies.take(0) else { return self.refuse(Refusal::Busy, protocol) };
        let body = match body::collect(body, most, &mut taken).await {
            Ok(body) => body,
            Err(error) => {
                let refusal = match error {
                    BodyError::TooLarge => Refusal::TooLarge,
                    BodyError::Busy => Refusal::Busy,
                    BodyError::Slow => Refusal::Slow,
                    BodyError::Broken => Refusal::Malformed("the connection was cut".to_owned()),
                };
                return self.refuse(refusal, protocol);
            }
        };
        let own = match protocol {
            Protocol::Grpc => self.answer_grpc(signal, &parts, body.clone()).await,
            Protocol::Http(encoding) => self.answer_http(signal, encoding, &parts.headers, &body),
        };
        let Some(forward) = &self.forward else { return own };
        match forward.send(parts, body, protocol).await {
            Ok((response, is_error)) => {
                self.counts.answered(is_error);
                response
            }
            Err(why) => {
                self.counts.failed(why.clone());
                refused(&Refusal::NoBackend(why), protocol)
            }
        }
    }

    async fn answer_grpc(&self, signal: Signal, parts: &Parts, body: Bytes) -> Response<Body> {
        let mut request = Request::new(Full::new(body));
        *request.headers_mut() = parts.headers.clone();
        let mut came = false;
        let response = grpc::answer(request, |message| {
            came = true;
            match signal {
                Signal::Spans => self.keep(&message).map(|rejected| answer::accepted(rejected.as_ref())),
                Signal::Other => {
                    self.drop_other();
                    Ok(Vec::new())
                }
            }
            .map_err(|refusal| {
                self.count(&refusal);
                refusal.status()
            })
        })
        .await;
        if !came {
            // Its framing or compression is wrong, or it is a decompression bomb.
            self.counts.malformed();
        }
        response
    }

    fn answer_http(
        &self,
        signal: Signal,
        encoding: Encoding,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Response<Body> {
        let kept = match signal {
            Signal::Spans => self.keep_of_http(encoding, headers, body),
            Signal::Other => {
                self.drop_other();
                Ok(None)
            }
        };
        match kept {
            Ok(rejected) => answer::accepted_over_http(encoding, rejected.as_ref()),
            Err(refusal) => self.refuse(refusal, Protocol::Http(encoding)),
        }
    }

    fn keep_of_http(
        &self,
        encoding: Encoding,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Option<Rejected>, Refusal> {
        let gzip = match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
            None | Some(b"" | b"identity") => false,
            Some(b"gzip") => true,
            Some(_) => return Err(Refusal::Malformed("only gzip is decompressed".to_owned())),
        };
        let form = Form { gzip, json: encoding == Encoding::Json };
        let message = message(body, form).map_err(|error| match error {
            NoMessage::TooLarge => Refusal::TooLarge,
            NoMessage::Malformed(why) => Refusal::Malformed(why),
        })?;
        self.keep(&message)
    }

    /// Puts a message's permitted part into the queue. Returns the spans that are not kept.
    fn keep(&self, message: &[u8]) -> Result<Option<Rejected>, Refusal> {
        let kept = filter(message, &self.allowed).map_err(|error| Refusal::Malformed(error.to_string()))?;
        let (spans, invalid) = (kept.spans, kept.invalid);
        if spans > 0 {
            if let Some(why) = self.counts.why_unwritten() {
                // To send it again would not help.
                self.counts.unwritten(spans);
                return Ok(Some(Rejected { spans: spans + invalid, why }));
            }
            self.queue.put(kept).map_err(|_full| Refusal::Busy)?;
        }
        self.counts.invalid(invalid);
        let why = || "a span needs a trace id of 16 bytes and a span id of 8, not all 0".to_owned();
        Ok((invalid > 0).then(|| Rejected { spans: invalid, why: why() }))
    }

    fn drop_other(&self) {
        if self.forward.is_none() {
            self.counts.dropped();
        }
    }

    fn refuse(&self, refusal: Refusal, protocol: Protocol) -> Response<Body> {
        self.count(&refusal);
        refused(&refusal, protocol)
    }

    fn count(&self, refusal: &Refusal) {
        match refusal {
            Refusal::Malformed(_) => self.counts.malformed(),
            Refusal::TooLarge => self.counts.too_large(),
            Refusal::Busy => self.counts.busy(),
            Refusal::Slow => self.counts.slow(),
            Refusal::NoBackend(_) => {}
        }
    }
}

fn refused(refusal: &Refusal, protocol: Protocol) -> Response<Body> {
    match protocol {
        Protocol::Grpc => refusal.status().into_http(),
        Protocol::Http(encoding) => refusal.response(encoding),
    }
}

/// The protocol's paths: for HTTP, and for gRPC.
const PATHS: [(&str, Signal); 4] = [
    ("/v1/traces", Signal::Spans),
    ("/v1/metrics", Signal::Other),
    ("/v1/logs", Signal::Other),
    ("/v1development/profiles", Signal::Other),
];
const METHODS: [(&str, Signal); 4] = [
    ("/opentelemetry.proto.collector.trace.v1.TraceService/Export", Signal::Spans),
    ("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", Signal::Other),
    ("/opentelemetry.proto.collector.logs.v1.LogsService/Export", Signal::Other),
    ("/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export", Signal::Other),
];

/// A request's subject, by its path, method and headers; an answer if the request is not OTLP.
fn recognise(parts: &Parts) -> Result<(Signal, Protocol), Box<Response<Body>>> {
    let path = parts.uri.path();
    let of = |known: [(&str, Signal); 4]| {
        known.iter().find(|(known, _)| *known == path).map(|(_, signal)| *signal)
    };
    let content_type = parts.headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let content_type = content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    if content_type == b"application/grpc" || content_type == b"application/grpc+proto" {
        let unknown = || Box::new(Status::unimplemented("not a service of OTLP").into_http());
        return of(METHODS).map(|signal| (signal, Protocol::Grpc)).ok_or_else(unknown);
    }
    let encoding = if content_type == b"application/json" { Encoding::Json } else { Encoding::Protobuf };
    let Some(signal) = of(PATHS) else {
        let text = "not a path of OTLP: POST /v1/traces";
        return Err(answer::error(StatusCode::NOT_FOUND, encoding, text).into());
    };
    if parts.method != Method::POST {
        let mut response = answer::error(StatusCode::METHOD_NOT_ALLOWED, encoding, "only POST");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return Err(response.into());
    }
    if encoding == Encoding::Protobuf && content_type != b"application/x-protobuf" {
        let text = "the content type is neither application/x-protobuf nor application/json";
        return Err(answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, encoding, text).into());
    }
    Ok((signal, Protocol::Http(encoding)))
}

/// A complete body, with its trailers, if any.
pub(crate) fn whole(bytes: Bytes, trailers: Option<HeaderMap>) -> Body {
    match trailers {
        Some(trailers) => Body::new(Full::new(bytes).with_trailers(async { Some(Ok(trailers)) })),
        None => Body::new(Full::new(bytes)),
    }
}
