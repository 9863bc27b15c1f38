//! A receiver from its sockets to its end.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::address::{ListenAt, reachable};
use crate::allow::AllowList;
use crate::connection::{MAX_CLOSE_TIME, MAX_CONNECTIONS, accept};
use crate::counts::{Counts, Received};
use crate::forward::{Forward, ForwardUrl};
use crate::priority;
use crate::queue::{Queue, Sink};
use crate::room::Room;
use crate::service::{MAX_BODIES_BYTES, Service};

/// A receiver's options.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The addresses at which it listens.
    pub listen: ListenAt,
    /// The backend for forwarded requests.
    pub forward: Option<ForwardUrl>,
    /// Attributes kept beside [`crate::KEPT_ATTRIBUTES`].
    pub attributes: Vec<String>,
}

/// Why spans cannot be received.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ReceiverError {
    #[error("cannot receive spans on {address}: another program listens there")]
    InUse { address: SocketAddr },
    #[error("cannot receive spans on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot send spans on to {url}: that is this receiver")]
    ToItself { url: String },
}

/// A receiver with open sockets: clients can connect, and wait until it starts.
#[derive(Debug)]
pub struct Receiver {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    options: Options,
}

impl Receiver {
    /// Opens the sockets.
    ///
    /// # Errors
    /// When an address is in use or not on this host, or the forwarded spans would come back.
    pub fn open(options: Options) -> Result<Self, ReceiverError> {
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for &address in &options.listen.0 {
            let open = || {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let at = listener.local_addr()?;
                Ok((listener, at))
            };
            let (listener, at) = open().map_err(|source: io::Error| match source.kind() {
                ErrorKind::AddrInUse => ReceiverError::InUse { address },
                _ => ReceiverError::Listen { address, source },
            })?;
            listeners.push(listener);
            addresses.push(at);
        }
        let ports: Vec<_> = addresses.iter().map(SocketAddr::port).collect();
        if let Some(url) = options.forward.as_ref().filter(|url| url.is_own(&ports)) {
            return Err(ReceiverError::ToItself { url: url.text().to_owned() });
        }
        Ok(Self { listeners, addresses, options })
    }

    /// The addresses at which it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The URL by which programs on this host reach it, by any protocol.
    pub fn endpoint(&self) -> String {
        // The last address has the standard port for HTTP, which exporters use most.
        self.addresses.last().map_or_else(String::new, |&address| format!("http://{}", reachable(address)))
    }

    /// Receives until it is stopped, in its own threads with low priority; `sink` gets the messages in another
    /// thread.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(self, sink: Sink) -> io::Result<Running> {
        let counts = Arc::new(Counts::default());
        let (queue, writer) = Queue::start(sink, Arc::clone(&counts))?;
        let (stop, stopped) = watch::channel(());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // Resolves backend names.
            .max_blocking_threads(1)
            .build()?;
        let Self { listeners, addresses, options } = self;
        let url = options.forward.as_ref().map(|url| url.text().to_owned());
        let service = Service {
            allowed: AllowList::with(&options.attributes),
            counts: Arc::clone(&counts),
            queue,
            forward: options.forward.map(Forward::to),
            bodies: Room::new(MAX_BODIES_BYTES),
        };
        let receiver = std::thread::Builder::new().name("otlp".to_owned()).spawn(move || {
            priority::lower();
            runtime.block_on(receive(listeners, Arc::new(service), stopped));
            // Requests that took too long end here, and the queue with the last request.
            runtime.shutdown_background();
        })?;
        Ok(Running { stop: Some(stop), threads: vec![receiver, writer], counts, addresses, url })
    }
}

async fn receive(listeners: Vec<TcpListener>, service: Arc<Service>, mut stopped: watch::Receiver<()>) {
    let limit = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    for listener in listeners {
        // The listener was made non-blocking, the only condition for an error.
        if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
            tokio::spawn(accept(listener, Arc::clone(&service), Arc::clone(&limit), stopped.clone()));
        }
    }
    // Also returns when the receiver is dropped.
    let _ = stopped.changed().await;
    let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
    let _ = timeout(MAX_CLOSE_TIME, limit.acquire_many(all)).await;
}

/// A running receiver.
#[derive(Debug)]
pub struct Running {
    stop: Option<watch::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    counts: Arc<Counts>,
    addresses: Vec<SocketAddr>,
    /// The backend for forwarded requests.
    url: Option<String>,
}

impl Running {
    /// Ends the requests that have begun, waits until all accepted spans are written, and returns the counts.
    pub fn stop(mut self) -> Received {
        self.end();
        let mut received = self.counts.received();
        received.addresses.clone_from(&self.addresses);
        received.forwarded = received.forwarded.zip(self.url.clone()).map(|(mut forwarded, url)| {
            forwarded.url = url;
            forwarded
        });
        received
    }

    fn end(&mut self) {
        drop(self.stop.take());
        for thread in self.threads.drain(..) {
            // Only a bug ends a thread early; its written data stays.
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
