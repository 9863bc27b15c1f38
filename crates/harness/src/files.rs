//! A server with files.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A server.
#[derive(Debug)]
pub struct Server {
    /// Its address.
    pub url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts.
    pub fn new(files: &[(String, PathBuf)]) -> Self {
        let files: HashMap<String, Vec<u8>> =
            files.iter().map(|(path, file)| (path.clone(), fs::read(file).expect("it is there"))).collect();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
                let first = lines.next().expect("a line").expect("text");
                lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).for_each(drop);
                let path = first.split(' ').nth(1).expect("a path").to_owned();
                noted.lock().expect("a list").push(path.clone());
                let (status, bytes) = match files.get(&path) {
                    Some(bytes) => ("200 OK", &bytes[..]),
                    None => ("404 Not Found", &b""[..]),
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    bytes.len()
                );
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(bytes));
            }
        });
        Self { url, asked }
    }

    /// New paths.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().expect("a list"))
    }
}
