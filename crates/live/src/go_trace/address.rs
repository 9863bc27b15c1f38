//! The place where a program serves its trace.

use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

/// The path at which `net/http/pprof` serves traces.
const PATH: &str = "/debug/pprof/trace";

/// `http://HOST:PORT`, or HOST:PORT; a path in place of Go's own may follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoTraceUrl {
    host: String,
    path: String,
}

/// Why a text is no such place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum NotAUrl {
    #[error("only http:// can be asked for a trace")]
    Scheme,
    #[error("no HOST:PORT is given")]
    NoPort,
    #[error("it holds a control character, a space, `?` or `#`")]
    Character,
}

impl FromStr for GoTraceUrl {
    type Err = NotAUrl;

    fn from_str(text: &str) -> Result<Self, NotAUrl> {
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return Err(NotAUrl::Scheme),
            None => text,
        };
        if rest.contains(|c: char| c.is_control() || c.is_whitespace() || c == '?' || c == '#') {
            return Err(NotAUrl::Character);
        }
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (name, port) = host.rsplit_once(':').ok_or(NotAUrl::NoPort)?;
        if name.is_empty() || !port.parse::<u16>().is_ok_and(|port| port > 0) {
            return Err(NotAUrl::NoPort);
        }
        let path = if path.trim_matches('/').is_empty() { PATH } else { path };
        Ok(Self { host: host.to_owned(), path: path.to_owned() })
    }
}

impl fmt::Display for GoTraceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.host, self.path)
    }
}

impl GoTraceUrl {
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Connects to the host's first address with an answer.
    pub(super) fn connect(&self, timeout: Duration) -> io::Result<TcpStream> {
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for address in self.host.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_http_with_a_port_and_perhaps_a_path_of_its_own() {
        for (text, expected) in [
            ("127.0.0.1:6060", Ok("http://127.0.0.1:6060/debug/pprof/trace")),
            ("http://[::1]:6060", Ok("http://[::1]:6060/debug/pprof/trace")),
            ("http://localhost:6060/", Ok("http://localhost:6060/debug/pprof/trace")),
            ("localhost:6060/admin/trace", Ok("http://localhost:6060/admin/trace")),
            ("https://localhost:6060", Err(NotAUrl::Scheme)),
            ("localhost", Err(NotAUrl::NoPort)),
            (":6060", Err(NotAUrl::NoPort)),
            ("localhost:0", Err(NotAUrl::NoPort)),
            ("localhost:65536", Err(NotAUrl::NoPort)),
            ("localhost:6060/trace?seconds=5", Err(NotAUrl::Character)),
            ("localhost:6060/a\r\nb", Err(NotAUrl::Character)),
        ] {
            let parsed = text.parse::<GoTraceUrl>().map(|url| url.to_string());
            assert_eq!(parsed.as_deref().map_err(Clone::clone), expected, "{text}");
        }
    }
}
