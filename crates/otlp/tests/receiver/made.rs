//! A receiver for a test.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use opentelemetry_proto::tonic::trace::v1::{Span, TracesData};
use prost::Message as _;
use wakepath_otlp::{Options, Received, Receiver, Running, Sink};

/// A receiver on a free port, and the messages that it kept.
pub struct Served {
    running: Running,
    pub address: SocketAddr,
    messages: Arc<Mutex<Vec<TracesData>>>,
}

impl Served {
    pub fn start() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        let messages = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&messages);
        let sink = move |message: &[u8]| {
            let message = TracesData::decode(message).map_err(|error| error.to_string())?;
            lock(&kept).push(message);
            Ok(())
        };
        Self::into_sink(options, messages, Box::new(sink))
    }

    pub fn with_sink(sink: Sink) -> Self {
        Self::into_sink(Options::default(), Arc::default(), sink)
    }

    fn into_sink(options: Options, messages: Arc<Mutex<Vec<TracesData>>>, sink: Sink) -> Self {
        let options = Options { listen: "0".parse().expect("a port"), ..options };
        let receiver = Receiver::open(options).expect("a free port");
        let address = receiver.addresses()[0];
        Self { running: receiver.start(sink).expect("threads"), address, messages }
    }

    /// Stops the receiver. Returns its kept spans, and its counts.
    pub fn stop(self) -> (Vec<Span>, Received) {
        let received = self.running.stop();
        let messages = lock(&self.messages);
        let of_resource = messages.iter().flat_map(|message| &message.resource_spans);
        let spans = of_resource.flat_map(|it| &it.scope_spans).flat_map(|it| it.spans.clone()).collect();
        (spans, received)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}
