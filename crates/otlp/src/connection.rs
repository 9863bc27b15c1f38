//! Connections: their number and their time are bounded.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::service::Service;

/// The largest number of open connections.
pub const MAX_CONNECTIONS: usize = 64;
/// The longest time for a connection to send the head of its first request, and of each over
/// HTTP/1.
const MAX_HEAD_TIME: Duration = Duration::from_secs(10);
/// The longest time for which a connection without a request is kept. Clients connect anew without
/// an error.
const MAX_IDLE_TIME: Duration = Duration::from_secs(30);
/// The longest time for a closing connection to end its requests.
pub(crate) const MAX_CLOSE_TIME: Duration = Duration::from_secs(2);
/// The time before the next try after a connection could not be accepted.
const ACCEPT_AGAIN_IN: Duration = Duration::from_millis(100);

/// The largest number of open requests on an HTTP/2 connection.
const MAX_STREAMS: u32 = 32;
/// The bytes that a request, and all requests on an HTTP/2 connection, may send before they are
/// read.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;
/// The largest head over HTTP/2, and the largest buffer over HTTP/1 and for sending over HTTP/2, bytes.
const MAX_HEAD_BYTES: u32 = 16 << 10;
const MAX_BUFFER_BYTES: usize = 64 << 10;

/// Accepts connections until `stop` changes. Each served connection holds a permit from `limit`.
pub(crate) async fn accept(
    listener: TcpListener,
    service: Arc<Service>,
    limit: Arc<Semaphore>,
    mut stop: watch::Receiver<()>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => return,
        };
        match accepted {
            Ok((stream, _)) => match Arc::clone(&limit).try_acquire_owned() {
                Ok(permit) => {
                    tokio::spawn(serve(stream, Arc::clone(&service), permit, stop.clone()));
                }
                // Closed at once, so that its client notices.
                Err(_) => service.counts.connection_refused(),
            },
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            // No descriptors, or no memory: perhaps later.
            Err(_) => tokio::time::sleep(ACCEPT_AGAIN_IN).await,
        }
    }
}

/// A connection's requests.
#[derive(Debug)]
struct Activity(Mutex<Requests>);

#[derive(Debug)]
struct Requests {
    running: usize,
    ended: usize,
    /// The end of the last request, or else the connection's beginning.
    idle_since: Instant,
}

impl Activity {
    fn begin(self: &Arc<Self>) -> Running {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).running += 1;
        Running(Arc::clone(self))
    }

    /// The time until which a connection with these requests is kept; checked again then.
    fn deadline(&self) -> Instant {
        let requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (requests.running, requests.ended) {
            (1.., _) => Instant::now() + MAX_IDLE_TIME,
            (0, 0) => requests.idle_since + MAX_HEAD_TIME,
            (0, 1..) => requests.idle_since + MAX_IDLE_TIME,
        }
    }
}

/// A running request. It ends when this value is dropped, also after its client went away.
struct Running(Arc<Activity>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut requests = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        requests.running -= 1;
        requests.ended += 1;
        requests.idle_since = Instant::now();
    }
}

async fn serve(
    stream: TcpStream,
    service: Arc<Service>,
    permit: OwnedSemaphorePermit,
    mut stop: watch::Receiver<()>,
) {
    let requests = Requests { running: 0, ended: 0, idle_since: Instant::now() };
    let activity = Arc::new(Activity(Mutex::new(requests)));
    let answer = {
        let activity = Arc::clone(&activity);
        service_fn(move |request| {
            let (service, running) = (Arc::clone(&service), activity.begin());
            async move {
                let response = service.answer(request).await;
                drop(running);
                Ok::<_, Infallible>(response)
            }
        })
    };
    let builder = builder();
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    loop {
        tokio::select! {
            // The client decides how a connection ends.
            _ = connection.as_mut() => return,
            () = sleep_until(activity.deadline()) => if activity.deadline() <= Instant::now() { break },
            _ = stop.changed() => break,
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(MAX_CLOSE_TIME, connection).await;
    drop(permit);
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_HEAD_TIME)
        .max_buf_size(MAX_BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(MAX_HEAD_BYTES)
        .max_send_buf_size(MAX_BUFFER_BYTES);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_kept_for_a_first_head_then_while_a_request_runs_and_for_a_while_behind_its_end() {
        let opened = Instant::now();
        let requests = Requests { running: 0, ended: 0, idle_since: opened };
        let activity = Arc::new(Activity(Mutex::new(requests)));
        assert_eq!(activity.deadline(), opened + MAX_HEAD_TIME);
        let [first, second] = [activity.begin(), activity.begin()];
        for running in [first, second] {
            let asked = Instant::now();
            assert!(activity.deadline() >= asked + MAX_IDLE_TIME, "for as long as it takes");
            drop(running);
        }
        let ended = Instant::now();
        std::thread::sleep(Duration::from_millis(2));
        let kept = activity.deadline();
        assert!((opened + MAX_IDLE_TIME..=ended + MAX_IDLE_TIME).contains(&kept), "from the last end on");
    }
}
