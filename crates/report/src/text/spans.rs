//! The spans that came during a recording, in sentences.

use std::net::SocketAddr;

use wakepath_engine::spans::{ENDPOINT_VARIABLE, Forwarded, Received, ReceivedSpans};

use crate::escape::escape;
use crate::units::{count, them, was};

/// The addresses for spans, before any came.
pub fn spans_awaited(received: &Received) -> String {
    format!("spans are received on {}", addresses(&received.addresses))
}

/// The sentences on the spans that came, with labels. A backend's texts are in them as they came.
pub fn spans_received(spans: &ReceivedSpans) -> Vec<(&'static str, String)> {
    let ReceivedSpans { received, endpoint, given } = spans;
    let at = addresses(&received.addresses);
    let mut lines = Vec::new();
    let mut say = |label, text: String| lines.push((label, text));
    if *given {
        say("note", format!("the command got {ENDPOINT_VARIABLE}={endpoint}"));
    }
    if received.spans > 0 {
        let or_more = if received.or_more_services { " or more" } else { "" };
        let services = count(received.services as u64, "service");
        say("note", format!("{} of {services}{or_more} received on {at}", count(received.spans, "span")));
    } else {
        say("warning", format!("no spans came to {at}"));
        let next = if *given {
            String::from(
                "the command must be instrumented with OpenTelemetry, and send its last spans before it ends",
            )
        } else {
            format!(
                "an instrumented service sends its spans here after: export {ENDPOINT_VARIABLE}={endpoint}"
            )
        };
        say("hint", next);
    }
    for (n, what) in [
        (received.busy, "refused for the moment, since too much waited: clients send them again"),
        (received.malformed, "refused: not readable as spans"),
        (received.too_large, "refused: larger than 4 MiB; OTEL_BSP_MAX_EXPORT_BATCH_SIZE makes them smaller"),
        (received.slow, "refused: not whole within 10 s"),
    ] {
        if n > 0 {
            let what = what.replace("send them", &format!("send {}", them(n)));
            say("warning", format!("{} {} {what}", count(n, "request"), was(n)));
        }
    }
    if received.connections_refused > 0 {
        let n = received.connections_refused;
        say(
            "warning",
            format!(
                "{} {} refused, since {} were open",
                count(n, "connection"),
                was(n),
                received.max_connections
            ),
        );
    }
    if received.invalid > 0 {
        let n = received.invalid;
        say("warning", format!("{} {} refused: without a valid id", count(n, "span"), was(n)));
    }
    if let Some(why) = &received.why_unwritten {
        let n = received.unwritten;
        say("warning", format!("{} {} not written: {why}", count(n, "span"), was(n)));
    }
    if received.dropped > 0 {
        let n = received.dropped;
        let text = "with metrics, logs or profiles";
        say(
            "note",
            format!("{} {text} {} dropped; --otlp-forward sends {} on", count(n, "request"), was(n), them(n)),
        );
    }
    if let Some(forwarded) = &received.forwarded {
        lines.extend(sent_on(forwarded));
    }
    lines
}

/// The sentence on a process that cannot be read, although its threads name their spans in memory.
pub fn unread_contexts(tgid: u32, comm: &[u8], reason: &str) -> String {
    format!("the spans that the threads of {} ({tgid}) work for are not read: {reason}", escape(comm))
}

fn sent_on(
    Forwarded { url, answered, refused, failed, why_failed }: &Forwarded,
) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if *answered > 0 {
        let errors = match *refused {
            0 => String::new(),
            1 => String::from("; 1 of the answers was an error"),
            refused => format!("; {refused} of the answers were errors"),
        };
        let label = if *refused > 0 { "warning" } else { "note" };
        lines.push((label, format!("{} sent on to {url}{errors}", count(*answered, "request"))));
    }
    if *failed > 0 {
        let why = why_failed.as_deref().unwrap_or("no answer");
        let text = format!("{} {} not sent on to {url}: {why}", count(*failed, "request"), was(*failed));
        lines.push(("warning", text));
    }
    lines
}

/// `127.0.0.1:4317, 4318`: each address once, with its ports.
fn addresses(addresses: &[SocketAddr]) -> String {
    let mut text = String::new();
    for (index, address) in addresses.iter().enumerate() {
        let same = index > 0 && addresses[index - 1].ip() == address.ip();
        let separator = if index > 0 { ", " } else { "" };
        text += separator;
        text += &if same { address.port().to_string() } else { address.to_string() };
    }
    text
}
