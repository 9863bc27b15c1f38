//! Receives spans over HTTP into a file, as a collector does: each message in protobuf behind its length.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

/// The port of OTLP over HTTP.
const PORT: u16 = 4318;
/// The longest message.
const MAX_BYTES: usize = 64 << 20;

/// Receives into a file in its own threads until it is dropped; then the port is free.
pub(super) struct Receiving(Arc<Mutex<Option<File>>>);

impl Receiving {
    /// Begins to receive.
    pub(super) fn into_file(file: &Path) -> Result<Self> {
        let file = Arc::new(Mutex::new(Some(File::create(file)?)));
        let listener = TcpListener::bind(("127.0.0.1", PORT)).context("the port for spans")?;
        let shared = Arc::clone(&file);
        thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                if shared.lock().map_or(true, |file| file.is_none()) {
                    break;
                }
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(&stream, &shared));
            }
        });
        Ok(Self(file))
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if let Ok(mut file) = self.0.lock() {
            *file = None;
        }
        let _ = TcpStream::connect(("127.0.0.1", PORT));
    }
}

/// Answers a client's requests until it closes the connection.
fn serve(stream: &TcpStream, file: &Mutex<Option<File>>) -> Result<()> {
    let (mut from, mut to) = (BufReader::new(stream), stream);
    while let Some(body) = body(&mut from)? {
        let length = u32::try_from(body.len())?.to_be_bytes();
        if let Ok(mut file) = file.lock()
            && let Some(file) = file.as_mut()
        {
            file.write_all(&[&length[..], &body].concat())?;
        }
        to.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n",
        )?;
    }
    Ok(())
}

/// The next request's body, whole or in chunks; `None` at the connection's end.
fn body(from: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let (mut length, mut is_chunked) = (0, false);
    loop {
        line.clear();
        ensure!(from.read_line(&mut line)? > 0, "a request without an end");
        let header = line.trim().to_ascii_lowercase();
        match header.split_once(':') {
            None if header.is_empty() => break,
            Some(("content-length", value)) => length = value.trim().parse()?,
            Some(("transfer-encoding", value)) => is_chunked = value.trim() == "chunked",
            Some(("content-encoding", value)) => bail!("spans in {value}"),
            _ => {}
        }
    }
    if !is_chunked {
        return exactly(from, length).map(Some);
    }
    let mut body = Vec::new();
    loop {
        line.clear();
        from.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16)?;
        body.extend(exactly(from, length)?);
        from.read_line(&mut line)?;
        if length == 0 {
            return Ok(Some(body));
        }
    }
}

fn exactly(from: &mut impl Read, length: usize) -> Result<Vec<u8>> {
    ensure!(length <= MAX_BYTES, "a message of {length} bytes");
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_whole_or_in_chunks() {
        let text = "POST /v1/traces HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
                    2\r\nde\r\n1\r\nf\r\n0\r\n\r\n";
        let mut from = text.as_bytes();
        assert_eq!(body(&mut from).unwrap().as_deref(), Some(&b"abc"[..]));
        assert_eq!(body(&mut from).unwrap().as_deref(), Some(&b"def"[..]));
        assert_eq!(body(&mut from).unwrap(), None);
        for bad in [
            "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nab",
            "POST / HTTP/1.1\r\n",
            "P\r\nContent-Encoding: gzip\r\n\r\n",
        ] {
            assert!(body(&mut bad.as_bytes()).is_err(), "{bad}");
        }
        let huge = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", usize::MAX);
        assert!(body(&mut huge.as_bytes()).is_err());
    }
}
