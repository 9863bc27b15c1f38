//! Backends: `Backend` answers every HTTP request with given bytes, and keeps the requests; `GrpcBackend` answers
//! by gRPC.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, Receiver};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;

pub struct Backend {
    pub address: SocketAddr,
    /// Each request, head and body.
    pub requests: Receiver<Vec<u8>>,
}

impl Backend {
    /// Answers with `answer`, and closes.
    pub fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, requests) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut bytes = Vec::new();
                while !is_whole(&bytes) {
                    let mut chunk = [0; 4096];
                    match stream.read(&mut chunk) {
                        Ok(0) | Err(_) => break,
                        Ok(n) => bytes.extend_from_slice(&chunk[..n]),
                    }
                }
                let _ = stream.write_all(answer.as_bytes());
                if sender.send(bytes).is_err() {
                    return;
                }
            }
        });
        Self { address, requests }
    }
}

fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    bytes.len() >= end + 4 + length.unwrap_or(0)
}

/// A backend that gives each gRPC request the same hand-made answer.
pub struct GrpcBackend {
    pub address: SocketAddr,
}

/// An answer: its HTTP status, headers, message, and trailers.
#[derive(Clone, Copy)]
pub struct GrpcAnswer {
    pub status: u16,
    pub headers: &'static [(&'static str, &'static str)],
    pub message: &'static [u8],
    pub trailers: Option<&'static [(&'static str, &'static str)]>,
}

impl GrpcBackend {
    pub fn start(answer: GrpcAnswer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(async move {
                        let service = service_fn(move |request: Request<Incoming>| async move {
                            // A server whose answer precedes the request's end may close the connection.
                            request.into_body().collect().await?;
                            Ok::<_, hyper::Error>(made(answer))
                        });
                        let builder = Builder::new(TokioExecutor::new()).http2_only();
                        // The client decides how a connection ends.
                        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                    });
                }
            });
        });
        Self { address }
    }
}

fn made(answer: GrpcAnswer) -> Response<impl Body<Data = Bytes, Error = Infallible>> {
    let map = |all: &[(&'static str, &'static str)]| -> HeaderMap {
        all.iter()
            .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    };
    let trailers = answer.trailers.map(map);
    let body = Full::new(Bytes::from_static(answer.message));
    let mut response = Response::new(body.with_trailers(async move { trailers.map(Ok) }));
    *response.status_mut() = StatusCode::from_u16(answer.status).expect("a status");
    *response.headers_mut() = map(answer.headers);
    response
}
