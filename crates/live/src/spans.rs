//! Spans sent by applications during a recording: the receiver, and the recording's file for them.

use wakepath_collect::DefaultVariable;
use wakepath_engine::spans::{ENDPOINT_VARIABLE, Forwarded, Received, ReceivedSpans};
pub use wakepath_otlp::{ForwardUrl, KEPT_ATTRIBUTES, ListenAt, Options, ReceiverError, send};
use wakepath_otlp::{MAX_CONNECTIONS, MAX_SERVICES, Receiver, Running};
use wakepath_recording::{ClockReading, SpanWriter};

use crate::flight::SpanEnd;

/// A program with either variable knows where to send its spans.
const KNOWN_ENDPOINT: [&str; 2] = [ENDPOINT_VARIABLE, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

/// A span receiver with open sockets.
#[derive(Debug)]
pub struct SpanReceiver(Receiver);

impl SpanReceiver {
    /// Opens a receiver's sockets.
    ///
    /// # Errors
    /// When an address is in use or not on this host, or the forwarded spans would come back.
    pub fn open(options: Options) -> Result<Self, ReceiverError> {
        Receiver::open(options).map(Self)
    }

    /// The counts of a receiver without spans yet: its addresses.
    pub fn nothing_yet(&self) -> Received {
        Received { addresses: self.0.addresses().to_vec(), ..Received::default() }
    }

    /// The variable that gives a command the receiver's URL.
    pub(crate) fn variable(&self) -> DefaultVariable {
        DefaultVariable { name: ENDPOINT_VARIABLE, value: self.0.endpoint(), unless: &KNOWN_ENDPOINT }
    }

    /// Receives into this file.
    pub(crate) fn start(self, mut file: SpanWriter) -> Receiving {
        self.start_with(move |message: &[u8]| file.append(message).map_err(|error| error.to_string()))
    }

    /// Receives into a flight recorder's memory.
    pub(crate) fn start_in_memory(self, mut end: SpanEnd) -> Receiving {
        self.start_with(move |message: &[u8]| {
            end.take(message, ClockReading::now());
            Ok(())
        })
    }

    fn start_with(self, write: impl FnMut(&[u8]) -> Result<(), String> + Send + 'static) -> Receiving {
        let (endpoint, nothing) = (self.0.endpoint(), self.nothing_yet());
        let running = self.0.start(Box::new(write)).map_err(|error| Received {
            why_unwritten: Some(format!("cannot start a thread: {error}")),
            ..nothing
        });
        Receiving { running, endpoint }
    }
}

/// A running receiver, or the counts of a receiver that could not start.
#[derive(Debug)]
pub(crate) struct Receiving {
    running: Result<Running, Received>,
    endpoint: String,
}

impl Receiving {
    /// Waits until all accepted spans are written. `given`: the command got the receiver's address.
    pub(crate) fn stop(self, given: bool) -> ReceivedSpans {
        let received = self.running.map_or_else(|nothing| nothing, |running| received(running.stop()));
        ReceivedSpans { received, endpoint: self.endpoint, given }
    }
}

/// The counts of a receiver as data for an answer.
fn received(counts: wakepath_otlp::Received) -> Received {
    let wakepath_otlp::Received {
        addresses,
        spans,
        services,
        invalid,
        malformed,
        too_large,
        busy,
        slow,
        connections_refused,
        unwritten,
        why_unwritten,
        dropped,
        forwarded,
    } = counts;
    let forwarded = forwarded.map(|sent| {
        let wakepath_otlp::Forwarded { url, answered, refused, failed, why_failed } = sent;
        Forwarded { url, answered, refused, failed, why_failed }
    });
    Received {
        addresses,
        spans,
        services,
        or_more_services: services == MAX_SERVICES,
        invalid,
        malformed,
        too_large,
        busy,
        slow,
        connections_refused,
        max_connections: MAX_CONNECTIONS,
        unwritten,
        why_unwritten,
        dropped,
        forwarded,
    }
}
