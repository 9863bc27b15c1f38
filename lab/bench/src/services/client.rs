//! A service's clients: each sends a request as soon as its last is answered.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

/// An answer that takes longer has failed.
const MAX_ANSWER: Duration = Duration::from_secs(10);
/// An answer's head and body together are smaller, and so is a span message.
const MAX_BYTES: usize = 1 << 24;
/// The number of different paths in requests.
const NUMBERS: usize = 1000;

/// Sends `count` requests by `connections` clients at a time, all from this thread, like `ab`. Each request is for `path`, whose `{}` is
/// replaced by a number below [`NUMBERS`]. Returns the mean time from a request to its answer, seconds.
pub fn requests(address: &str, path: &str, connections: usize, count: usize) -> Result<f64> {
    let mut clients = Vec::new();
    for _ in 0..connections.min(count) {
        let stream = TcpStream::connect(address).with_context(|| format!("nothing answers at {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(MAX_ANSWER))?;
        clients.push(Client { stream, sent: Instant::now(), answer: Vec::new() });
    }
    let mut polled: Vec<_> = clients.iter().map(|client| readable(&client.stream)).collect();
    let (mut sent, mut answered, mut total) = (0, 0, Duration::ZERO);
    for client in &mut clients {
        client.send(address, path, sent)?;
        sent += 1;
    }
    while answered < count {
        wait(&mut polled)?;
        for (client, polled) in clients.iter_mut().zip(&mut polled) {
            if polled.revents == 0 || !client.receive()? {
                continue;
            }
            total += client.sent.elapsed();
            answered += 1;
            if sent < count {
                client.send(address, path, sent)?;
                sent += 1;
            } else {
                // It is no longer polled.
                polled.fd = -1;
            }
        }
    }
    ensure!(answered > 0, "nothing to send");
    Ok(total.as_secs_f64() / answered as f64)
}

struct Client {
    stream: TcpStream,
    sent: Instant,
    /// The received part of the answer.
    answer: Vec<u8>,
}

impl Client {
    fn send(&mut self, address: &str, path: &str, number: usize) -> Result<()> {
        let path = path.replace("{}", &(number % NUMBERS).to_string());
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        self.answer.clear();
        self.sent = Instant::now();
        self.stream.write_all(head.as_bytes()).context("the service takes no request")
    }

    /// Reads received bytes. Returns whether they end the answer.
    fn receive(&mut self) -> Result<bool> {
        let mut bytes = [0; 4096];
        let length = self.stream.read(&mut bytes).context("the service does not answer")?;
        ensure!(length > 0, "the service closed a connection");
        self.answer.extend_from_slice(&bytes[..length]);
        let Some(whole) = whole(&self.answer)? else { return Ok(false) };
        ensure!(self.answer.len() == whole, "more came than was asked for");
        Ok(true)
    }
}

/// The length of the answer that begins here, in bytes; `None` before its head has ended or its body has come.
fn whole(answer: &[u8]) -> Result<Option<usize>> {
    ensure!(answer.len() < MAX_BYTES, "an answer without an end");
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&answer[..end]);
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    ensure!(status.split(' ').nth(1) == Some("200"), "the service refused a request: {status}");
    let length = length(lines).ok_or_else(|| anyhow!("an answer without its length"))?;
    let whole = end + 4 + length;
    Ok((answer.len() >= whole).then_some(whole))
}

/// A body's bytes, by the lines of its head.
pub fn length<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<usize> {
    let value = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    })?;
    value.trim().parse().ok().filter(|length| *length < MAX_BYTES)
}

fn readable(stream: &TcpStream) -> libc::pollfd {
    libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// Waits until a client has received bytes.
fn wait(polled: &mut [libc::pollfd]) -> Result<()> {
    let (count, patience) = (libc::nfds_t::try_from(polled.len())?, i32::try_from(MAX_ANSWER.as_millis())?);
    // SAFETY: the kernel reads and writes the slice's entries, whose number it is given.
    match unsafe { libc::poll(polled.as_mut_ptr(), count, patience) } {
        0 => bail!("no answer within {} s", MAX_ANSWER.as_secs()),
        found if found < 0 => Err(std::io::Error::last_os_error()).context("cannot wait for answers"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};

    use super::{requests, whole};

    #[test]
    fn an_answer_ends_behind_as_many_bytes_as_its_head_says() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Type: a\r\nCONTENT-length: 3\r\n\r\nabc";
        for length in 0..answer.len() {
            assert_eq!(whole(&answer[..length]).expect("no error yet"), None, "{length}");
        }
        assert_eq!(whole(answer).expect("an answer"), Some(answer.len()));
    }

    #[test]
    fn an_answer_that_says_no_or_no_length_is_an_error() {
        for bad in [
            "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            "nonsense\r\n\r\n",
        ] {
            assert!(whole(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    /// Answers each request with its own path; closes a connection if `/close` is requested.
    fn echo(stream: TcpStream) -> Vec<String> {
        let mut lines = BufReader::new(stream.try_clone().expect("a second handle")).lines();
        let (mut seen, mut stream) = (Vec::new(), stream);
        while let Some(Ok(line)) = lines.next() {
            let path = line.split(' ').nth(1).expect("a path").to_owned();
            while !lines.next().expect("a line").expect("text").is_empty() {}
            if path == "/close" {
                break;
            }
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
            stream.write_all(answer.as_bytes()).expect("the client reads");
            seen.push(path);
        }
        seen
    }

    #[test]
    fn each_request_is_sent_once_by_all_clients_together() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let served = std::thread::spawn(move || {
            let streams = (0..3).map(|_| listener.accept().expect("a client").0);
            let threads: Vec<_> = streams.map(|stream| std::thread::spawn(move || echo(stream))).collect();
            threads.into_iter().map(|thread| thread.join().expect("served")).collect::<Vec<_>>()
        });
        let mean = requests(&address, "/item/{}", 3, 50).expect("answers");
        assert!(mean > 0.0 && mean < 5.0, "{mean}");
        let served = served.join().expect("served");
        assert!(served.iter().all(|seen| !seen.is_empty()), "each client sends: {served:?}");
        let mut numbers: Vec<usize> =
            served.iter().flatten().map(|path| path["/item/".len()..].parse().expect("a number")).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn a_closed_connection_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        std::thread::spawn(move || echo(listener.accept().expect("a client").0));
        let error = requests(&address, "/close", 1, 1).expect_err("it was closed");
        assert_eq!(error.to_string(), "the service closed a connection");
    }
}
