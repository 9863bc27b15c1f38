//! Forwarding requests unchanged, so that the user's own backend loses nothing.

use std::str::FromStr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Request, Response, StatusCode, Uri, Version};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tonic::body::Body;

use crate::address::STANDARD_PORTS;
use crate::service::{Protocol, whole};

/// The longest time for the backend to answer.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(10);
/// The longest time to connect to it.
const MAX_CONNECT_TIME: Duration = Duration::from_secs(5);
/// The header with a gRPC answer's status, 0 for success.
const GRPC_STATUS: &str = "grpc-status";
/// The largest answer, bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The largest number of kept connections without a request.
const MAX_IDLE_CONNECTIONS: usize = 4;
/// The longest time for which a connection without a request is kept.
const MAX_IDLE_TIME: Duration = Duration::from_secs(30);

/// A backend's address, from an option's text.
///
/// A backend has a port for gRPC and a port for HTTP. With a standard port, or no port, gRPC requests go to 4317 and HTTP requests to
/// 4318; any other port takes both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardUrl {
    text: String,
    host: String,
    grpc: Authority,
    http: Authority,
    /// The path before the protocol's paths, over HTTP alone.
    path: String,
}

impl ForwardUrl {
    /// The URL as given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the URL leads to such a port on this host by the loopback interface.
    pub(crate) fn is_own(&self, ports: &[u16]) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        let loopback = host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified());
        let own = |authority: &Authority| authority.port_u16().is_some_and(|port| ports.contains(&port));
        loopback && (own(&self.grpc) || own(&self.http))
    }

    /// The URL for a request with this protocol and path.
    fn of(&self, protocol: Protocol, path: &PathAndQuery) -> Option<Uri> {
        let uri = Uri::builder().scheme(Scheme::HTTP);
        let uri = match protocol {
            Protocol::Grpc => uri.authority(self.grpc.clone()).path_and_query(path.clone()),
            Protocol::Http(_) => {
                uri.authority(self.http.clone()).path_and_query(format!("{}{path}", self.path))
            }
        };
        uri.build().ok()
    }
}

impl FromStr for ForwardUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || format!("`{text}` is no address of a backend: expected a URL such as http://10.0.0.3:4318");
        let uri: Uri = text.parse().map_err(|_| expected())?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(
                    "wakepath sends on over http alone: a collector on this host can send on with TLS"
                        .to_owned(),
                );
            }
            _ => return Err(expected()),
        }
        let authority = uri.authority().filter(|it| !it.host().is_empty() && !it.as_str().contains('@'));
        let host = authority.ok_or_else(expected)?.host().to_owned();
        if uri.query().is_some() {
            return Err(expected());
        }
        let given = uri.port_u16().unwrap_or(STANDARD_PORTS[1]);
        let ports = if STANDARD_PORTS.contains(&given) { STANDARD_PORTS } else { [given; 2] };
        let at = |port: u16| format!("{host}:{port}").parse().map_err(|_| expected());
        let (grpc, http) = (at(ports[0])?, at(ports[1])?);
        Ok(Self {
            text: text.to_owned(),
            host,
            grpc,
            http,
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

/// Sends requests on.
#[derive(Debug)]
pub(crate) struct Forward {
    url: ForwardUrl,
    http: Client<HttpConnector, Full<Bytes>>,
    grpc: Client<HttpConnector, Full<Bytes>>,
}

impl Forward {
    pub(crate) fn to(url: ForwardUrl) -> Self {
        let client = |http2| {
            let mut connector = HttpConnector::new();
            connector.set_connect_timeout(Some(MAX_CONNECT_TIME));
            connector.set_nodelay(true);
            Client::builder(TokioExecutor::new())
                .timer(TokioTimer::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(MAX_IDLE_TIME)
                .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
                .http2_only(http2)
                .build(connector)
        };
        Self { url, http: client(false), grpc: client(true) }
    }

    /// Sends a request on. Returns the backend's answer, and whether it is an error.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub(crate) async fn send(
        &self,
        parts: Parts,
        body: Bytes,
        protocol: Protocol,
    ) -> Result<(Response<Body>, bool), String> {
        let path = parts.uri.path_and_query().cloned();
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let uri = self.url.of(protocol, &path).ok_or("the path does not fit into a URL")?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = parts.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = end_to_end(parts.headers);
        request.headers_mut().remove(HOST);
        request.headers_mut().remove(EXPECT);
        let client = match protocol {
            Protocol::Grpc => {
                *request.version_mut() = Version::HTTP_2;
                request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
                &self.grpc
            }
            Protocol::Http(_) => &self.http,
        };
        let answer = async {
            let response = client.request(request).await.map_err(|error| innermost(&error))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| format!("its answer is cut off: {error}"))?;
            let trailers = body.trailers().cloned();
            let is_error = is_error(protocol, head.status, &head.headers, trailers.as_ref());
            let mut response = Response::new(whole(body.to_bytes(), trailers));
            *response.status_mut() = head.status;
            *response.headers_mut() = end_to_end(head.headers);
            Ok((response, is_error))
        };
        match tokio::time::timeout(MAX_ANSWER_TIME, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {} s", MAX_ANSWER_TIME.as_secs())),
        }
    }
}

/// Whether an answer is an error. A gRPC answer has its status in the trailers, or in the headers if it has no message; without a
/// readable status, its client reports an error too.
fn is_error(
    protocol: Protocol,
    status: StatusCode,
    headers: &HeaderMap,
    trailers: Option<&HeaderMap>,
) -> bool {
    let of_grpc = || trailers.and_then(|it| it.get(GRPC_STATUS)).or_else(|| headers.get(GRPC_STATUS));
    let is_refused = protocol == Protocol::Grpc && of_grpc().is_none_or(|status| status != "0");
    !status.is_success() || is_refused
}

/// Headers that concern a single connection (RFC 9110, section 7.6.1), and the length, which is computed anew.
const OF_A_CONNECTION: [&str; 9] = [
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
];

/// The headers without those that concern a single connection.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    headers.remove(CONNECTION);
    for name in OF_A_CONNECTION {
        headers.remove(name);
    }
    headers
}

/// The innermost error in a chain of causes: `connection refused`.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Encoding;

    #[test]
    fn a_standard_port_stands_for_both_and_another_takes_both_protocols() {
        for (url, grpc, http) in [
            ("http://h:4317", "http://h:4317/p", "http://h:4318/p"),
            ("http://h:4318", "http://h:4317/p", "http://h:4318/p"),
            ("http://h/", "http://h:4317/p", "http://h:4318/p"),
            ("http://h:9000", "http://h:9000/p", "http://h:9000/p"),
            ("http://h:9000/otlp/", "http://h:9000/p", "http://h:9000/otlp/p"),
            ("http://[::1]:7", "http://[::1]:7/p", "http://[::1]:7/p"),
        ] {
            let parsed: ForwardUrl = url.parse().expect(url);
            let path = PathAndQuery::from_static("/p");
            let to = |protocol| parsed.of(protocol, &path).expect("a URL").to_string();
            assert_eq!([to(Protocol::Grpc), to(Protocol::Http(Encoding::Json))], [grpc, http], "{url}");
        }
    }

    #[test]
    fn other_urls_are_refused_with_what_to_write() {
        for url in [
            "",
            "h",
            "h:4317",
            "ftp://h",
            "http://",
            "http://:4317",
            "http://u:p@h:1",
            "http://h/?a=b",
            "//h",
        ] {
            let error = url.parse::<ForwardUrl>().expect_err(url);
            assert!(error.contains("http://10.0.0.3:4318"), "{error}");
        }
        let error = "https://h:4317".parse::<ForwardUrl>().expect_err("TLS");
        assert!(error.contains("over http alone"), "{error}");
    }

    #[test]
    fn a_receiver_recognises_itself() {
        for (url, own) in [
            ("http://127.0.0.1:4317", true),
            ("http://localhost:4318", true),
            ("http://127.0.0.2:4318", true),
            ("http://[::1]:4317", true),
            ("http://0.0.0.0:4317", true),
            ("http://localhost:4319", false),
            ("http://10.0.0.3:4317", false),
        ] {
            assert_eq!(url.parse::<ForwardUrl>().expect(url).is_own(&[4317, 4318]), own, "{url}");
        }
        assert!(
            "http://localhost:4318".parse::<ForwardUrl>().expect("a URL").is_own(&[4317]),
            "gRPC would come back"
        );
    }

    #[test]
    fn headers_of_one_connection_are_not_sent_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer x"),
            ("content-type", "application/json"),
            ("x-tenant", "7"),
            ("connection", "keep-alive, X-Hop"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("content-length", "9"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut left: Vec<_> = end_to_end(headers).keys().map(ToString::to_string).collect();
        left.sort();
        assert_eq!(left, ["authorization", "content-type", "x-tenant"]);
    }

    #[test]
    fn an_answer_of_grpc_is_an_error_unless_its_status_says_that_it_is_none() {
        const GRPC: Protocol = Protocol::Grpc;
        const HTTP: Protocol = Protocol::Http(Encoding::Protobuf);
        let with = |status: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("content-type", HeaderValue::from_static("application/grpc"));
            if !status.is_empty() {
                headers.insert(GRPC_STATUS, HeaderValue::from_str(status).expect("a status"));
            }
            headers
        };
        // The status in the headers, and in the trailers if they are present; an empty text stands for no status.
        for (protocol, http, headers, trailers, expected) in [
            (GRPC, 200, "", Some("0"), false),
            (GRPC, 200, "0", None, false),
            (GRPC, 200, "", Some("13"), true),
            (GRPC, 200, "", Some("1"), true),
            (GRPC, 200, "7", None, true),
            (GRPC, 200, "7", Some(""), true),
            // The trailers come last.
            (GRPC, 200, "0", Some("8"), true),
            (GRPC, 200, "8", Some("0"), false),
            (GRPC, 200, "", None, true),
            (GRPC, 200, "", Some(""), true),
            (GRPC, 200, "", Some("ok"), true),
            (GRPC, 200, "", Some("-1"), true),
            (GRPC, 503, "", None, true),
            (GRPC, 503, "", Some("0"), true),
            (GRPC, 302, "0", None, true),
            // Over HTTP the header has no meaning.
            (HTTP, 200, "", None, false),
            (HTTP, 200, "13", Some("13"), false),
            (HTTP, 202, "", None, false),
            (HTTP, 301, "", None, true),
            (HTTP, 400, "0", None, true),
            (HTTP, 503, "", None, true),
        ] {
            let status = StatusCode::from_u16(http).expect("a status");
            let found = is_error(protocol, status, &with(headers), trailers.map(with).as_ref());
            assert_eq!(found, expected, "{protocol:?} {http} {headers:?} {trailers:?}");
        }
    }
}
