//! One request to a server: HTTP, over TLS with the certificates that the system trusts.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ureq::Error;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use wakepath_symbols::Wanted;

use crate::Limits;
use crate::cache::{Cache, hex, kind};

/// The files in which systems keep the certificates that they trust.
const TRUSTED: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];

/// The maximum size of a file with certificates, bytes.
const MAX_CERTIFICATES: u64 = 16 << 20;

/// Why a server's file is not here.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The server has no such file.
    Absent,
    /// This file cannot be used; the server may have others.
    File(String),
    /// The server does not answer as it should.
    Server(String),
    /// The file cannot be kept.
    Cache(io::Error),
    /// The user stopped it.
    Stopped,
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Cache(error)
    }
}

/// Sends requests.
pub(crate) struct Agent {
    agent: ureq::Agent,
    limits: Limits,
}

impl Agent {
    pub fn new(limits: &Limits) -> Self {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(RootCerts::new_with_certs(&trusted()))
            .build();
        let config = ureq::Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .user_agent(concat!("wakepath/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(limits.silence))
            .timeout_connect(Some(limits.silence))
            .timeout_recv_response(Some(limits.silence))
            .timeout_per_read(Some(limits.silence))
            .build();
        Self { agent: config.new_agent(), limits: *limits }
    }

    /// Gets a file into the cache, in at most the time `left`. `watch` gets the bytes so far and in all, and says
    /// whether to go on.
    pub fn get(
        &self,
        url: &str,
        wanted: Wanted,
        build_id: &[u8],
        left: Duration,
        cache: &Cache,
        watch: &dyn Fn(u64, Option<u64>) -> bool,
    ) -> Result<(), Refused> {
        let address = format!("{url}/buildid/{}/{}", hex(build_id), kind(wanted));
        if !watch(0, None) {
            return Err(Refused::Stopped);
        }
        let time = self.limits.one_file.min(left);
        let request = self.agent.get(address).config().timeout_global(Some(time)).build();
        let answer = request.call().map_err(|error| Refused::Server(why(&error)))?;
        match answer.status().as_u16() {
            200 => (),
            404 => return Err(Refused::Absent),
            status => return Err(Refused::Server(format!("answers with status {status}"))),
        }
        let too_large = || {
            let most = self.limits.bytes;
            Refused::File(format!("sends more than {most} bytes (DEBUGINFOD_MAXSIZE) for a file"))
        };
        let length = answer.body().content_length();
        if length.is_some_and(|length| length > self.limits.bytes) {
            return Err(too_large());
        }
        let mut body = answer.into_body().into_with_config().limit(u64::MAX).reader();
        let write = |file: &mut File| {
            let mut buffer = vec![0; 1 << 17];
            let mut bytes = 0;
            loop {
                let read = match body.read(&mut buffer) {
                    Ok(0) => return Ok(()),
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(Refused::Server(why(&Error::from(error)))),
                };
                bytes += read as u64;
                if bytes > self.limits.bytes {
                    return Err(too_large());
                }
                file.write_all(&buffer[..read])?;
                if !watch(bytes, length) {
                    return Err(Refused::Stopped);
                }
            }
        };
        let not_it = || Refused::File(format!("sends a file without the build id {}", hex(build_id)));
        cache.keep(wanted, build_id, write, not_it)
    }
}

/// A server's answer or silence, in words that follow its address.
fn why(error: &Error) -> String {
    match error {
        Error::Timeout(_) => String::from("does not answer in time"),
        Error::HostNotFound => String::from("is no host that can be found"),
        Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
            String::from("does not answer in time")
        }
        Error::Io(error) => format!("cannot be reached: {error}"),
        error => format!("cannot be asked: {error}"),
    }
}

/// The certificates that the system trusts: in `SSL_CERT_FILE`, else in the first file that is there.
fn trusted() -> Vec<Certificate<'static>> {
    let chosen = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()).map(PathBuf::from);
    let text = chosen.into_iter().chain(TRUSTED.map(PathBuf::from)).find_map(|path| {
        let mut text = Vec::new();
        File::open(path).ok()?.take(MAX_CERTIFICATES).read_to_end(&mut text).ok()?;
        Some(text)
    });
    let items = text.as_deref().map(|text| parse_pem(text).flatten().collect::<Vec<_>>());
    let certificate = |item| if let PemItem::Certificate(it) = item { Some(it) } else { None };
    items.unwrap_or_default().into_iter().filter_map(certificate).collect()
}
