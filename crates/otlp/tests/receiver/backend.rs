//! A backend that answers every request over HTTP with given bytes, and keeps what came.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, Receiver};

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
