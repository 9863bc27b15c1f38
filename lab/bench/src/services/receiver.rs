//! The backend to which services send their spans: it takes each message and answers, the same in every
//! scenario.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};

use super::client;

/// The answer to a message: all spans were taken.
const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";

/// A running receiver, until this process ends.
pub struct Receiver(Arc<AtomicU64>);

impl Receiver {
    /// Listens at an address for OTLP over HTTP.
    pub fn begin(address: &str) -> Result<Self> {
        let listener = TcpListener::bind(address)
            .with_context(|| format!("cannot listen at {address} for the spans of services"))?;
        Ok(Self::of(listener))
    }

    fn of(listener: TcpListener) -> Self {
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&bytes);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counted = Arc::clone(&counted);
                // A service that ends leaves a broken connection, which is no error.
                std::thread::spawn(move || serve(stream, &counted));
            }
        });
        Self(bytes)
    }

    /// The bytes of all messages so far.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn serve(stream: TcpStream, bytes: &AtomicU64) -> Result<()> {
    let mut answers = stream.try_clone()?;
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            ensure!(stream.read_line(&mut head)? > 0, "closed");
            ensure!(head.len() < 65536, "a head without an end");
        }
        let length = client::length(head.split("\r\n")).context("a message without its length")?;
        std::io::copy(&mut stream.by_ref().take(length as u64), &mut std::io::sink())?;
        bytes.fetch_add(length as u64, Ordering::Relaxed);
        answers.write_all(TAKEN)?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::{Receiver, TAKEN};

    #[test]
    fn messages_are_counted_by_their_bytes_and_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let receiver = Receiver::of(listener);
        let mut stream = TcpStream::connect(address).expect("it listens");
        for length in [5, 3] {
            let head = format!("POST /v1/traces HTTP/1.1\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).expect("sent");
            stream.write_all(&b"abcde"[..length]).expect("sent");
            let mut answer = vec![0; TAKEN.len()];
            stream.read_exact(&mut answer).expect("an answer");
            assert_eq!(answer, TAKEN);
        }
        assert_eq!(receiver.bytes(), 8);
    }
}
