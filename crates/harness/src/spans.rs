//! Spans to send, and their clients: gRPC like an SDK, and plain HTTP.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use tonic::Status;
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;

/// The attribute `key` with a text value.
pub fn attribute(key: &str, text: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(text.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// A span with this name and `id` in each byte of its ids.
pub fn span(id: u8, name: &str) -> Span {
    Span {
        trace_id: vec![id; 16],
        span_id: vec![id; 8],
        name: name.to_owned(),
        start_time_unix_nano: 1_795_229_921_310_000_000,
        end_time_unix_nano: 1_795_229_921_310_000_009,
        ..Span::default()
    }
}

/// A request with a service's spans.
pub fn request(service: &str, spans: Vec<Span>) -> ExportTraceServiceRequest {
    let resource = Resource { attributes: vec![attribute("service.name", service)], ..Resource::default() };
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans,
            ..ResourceSpans::default()
        }],
    }
}

/// The compressed bytes.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Sends a request by gRPC, like an SDK.
pub fn export(
    address: SocketAddr,
    compress: bool,
    request: ExportTraceServiceRequest,
) -> Result<ExportTraceServiceResponse, Status> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let endpoint = Channel::from_shared(format!("http://{address}")).expect("a URL");
        let channel = endpoint.connect().await.expect("a connection");
        let mut client = TraceServiceClient::new(channel);
        if compress {
            // Servers in Go answer in the request's encoding.
            client = client
                .send_compressed(CompressionEncoding::Gzip)
                .accept_compressed(CompressionEncoding::Gzip);
        }
        Ok(client.export(request).await?.into_inner())
    })
}

/// An HTTP answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status; 0 without an answer.
    pub status: u16,
    /// The status line and headers, in lower case.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Sends a request over HTTP/1.1, and reads until the connection is closed.
pub fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let length = body.len().to_string();
    let more = [("content-length", length.as_str()), ("connection", "close")];
    let mut head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\n");
    for (name, value) in headers.iter().chain(&more) {
        head += &format!("{name}: {value}\r\n");
    }
    raw(address, &[format!("{head}\r\n").as_bytes(), body].concat())
}

/// Sends these bytes, and reads until the connection is closed.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
    // The receiver may refuse the rest.
    let _ = stream.write_all(bytes);
    read(&mut stream)
}

/// Reads an answer until the connection is closed.
pub fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // A close with unread bytes resets the connection.
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head, body: bytes[end..].to_vec() }
}

/// The header for a protobuf body.
pub const PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");
/// The header for a JSON body.
pub const JSON: (&str, &str) = ("content-type", "application/json");
/// The header for a compressed body.
pub const GZIP: (&str, &str) = ("content-encoding", "gzip");
