//! The addresses at which a receiver listens, from an option's text.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

/// OTLP's standard ports: for gRPC, and for HTTP. This receiver serves both on each.
pub const STANDARD_PORTS: [u16; 2] = [4317, 4318];

/// The addresses to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAt(pub(crate) Vec<SocketAddr>);

/// Both standard ports on the loopback interface.
impl Default for ListenAt {
    fn default() -> Self {
        Self(STANDARD_PORTS.map(loopback).to_vec())
    }
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// `PORT` on the loopback interface, or `HOST:PORT`.
impl FromStr for ListenAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse() {
            return Ok(Self(vec![loopback(port)]));
        }
        let expected =
            || format!("`{text}` is no address: expected PORT or HOST:PORT, such as 4318 or 10.0.0.3:4318");
        if text.rsplit_once(':').is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err()) {
            return Err(expected());
        }
        let found = text.to_socket_addrs().map_err(|error| format!("cannot find {text}: {error}"))?;
        // A single address: a name's other addresses are mostly the same interface once more.
        found.take(1).next().map(|address| Self(vec![address])).ok_or_else(expected)
    }
}

/// The address by which a program on this host reaches `address`.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    (ip, address.port()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_one_of_this_host_alone() {
        for (text, expected) in [
            ("4320", "127.0.0.1:4320"),
            ("0", "127.0.0.1:0"),
            ("0.0.0.0:4318", "0.0.0.0:4318"),
            ("[::1]:4318", "[::1]:4318"),
            ("localhost:9", "127.0.0.1:9"),
        ] {
            let address: ListenAt = text.parse().expect(text);
            // `localhost` may have either address.
            let found = address.0[0].to_string().replace("[::1]:9", "127.0.0.1:9");
            assert_eq!((found.as_str(), address.0.len()), (expected, 1));
        }
        for text in [
            "",
            "x",
            ":4318",
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:65536",
            "65536",
            "-1",
            "http://127.0.0.1:1",
        ] {
            assert!(text.parse::<ListenAt>().is_err(), "{text}");
        }
        for text in ["x", ":4318", "127.0.0.1:65536"] {
            let error = text.parse::<ListenAt>().expect_err(text);
            assert!(error.ends_with("expected PORT or HOST:PORT, such as 4318 or 10.0.0.3:4318"), "{error}");
        }
        let both: Vec<_> = ListenAt::default().0.iter().map(ToString::to_string).collect();
        assert_eq!(both, ["127.0.0.1:4317", "127.0.0.1:4318"]);
    }

    #[test]
    fn an_address_of_all_interfaces_is_reached_by_loopback() {
        for (bound, by) in [
            ("0.0.0.0:4318", "127.0.0.1:4318"),
            ("[::]:4318", "[::1]:4318"),
            ("10.0.0.3:4318", "10.0.0.3:4318"),
        ] {
            assert_eq!(reachable(bound.parse().expect(bound)).to_string(), by);
        }
    }
}
