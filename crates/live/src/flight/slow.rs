//! Slow spans: spans beyond a threshold, and spans much longer than others in their operation.

use std::collections::HashMap;
use std::str::FromStr;

use bytes::Bytes;
use wakepath_spans::{Kind, Reader, Span, Spans};

/// A threshold for operations' spans: `SERVICE/OPERATION>TIME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanThreshold {
    service: String,
    operation: String,
    /// Spans longer than this are slow, ns.
    limit_ns: u64,
}

/// The error for a text without a threshold.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected SERVICE/OPERATION>TIME, such as 'frontend/HTTP GET /dispatch>500ms' or '*/*>2s'")]
pub struct NotAThreshold;

/// A slow span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowSpan {
    /// The rule that found it: `span` or `outlier`.
    pub word: &'static str,
    /// The span and the rule in words.
    pub text: String,
    /// Its beginning, ns since 1970.
    pub from_realtime_ns: u64,
    /// The length, ns.
    pub length_ns: u64,
}

/// Looks for slow spans in a receiver's messages.
#[derive(Debug, Default)]
pub struct SlowSpans {
    thresholds: Vec<SpanThreshold>,
    /// The request lengths by operation, if outliers are looked for.
    lengths: Option<LengthsByOperation>,
}

/// By service and operation name.
type LengthsByOperation = HashMap<(Box<str>, Box<str>), Lengths>;

/// The most operations with outliers.
const MAX_OPERATIONS: usize = 1024;
/// The fewest requests in an operation before an outlier.
const MIN_REQUESTS: u64 = 200;
/// An outlier is longer than the earlier requests' 99th percentile times this.
const TIMES: u64 = 4;
/// From this many requests on, older requests count less.
const MAX_REQUESTS: u64 = 1 << 16;

impl FromStr for SpanThreshold {
    type Err = NotAThreshold;

    fn from_str(text: &str) -> Result<Self, NotAThreshold> {
        // Operation names may hold both signs, service names seldom a slash.
        let (name, time) = text.rsplit_once('>').ok_or(NotAThreshold)?;
        let (service, operation) = name.split_once('/').ok_or(NotAThreshold)?;
        let limit_ns = time_ns(time.trim()).ok_or(NotAThreshold)?;
        if service.is_empty() || operation.is_empty() {
            return Err(NotAThreshold);
        }
        Ok(Self { service: service.to_owned(), operation: operation.trim_end().to_owned(), limit_ns })
    }
}

impl SpanThreshold {
    fn is_passed(&self, service: &str, operation: &str, span: &Span) -> bool {
        let fits = |pattern: &str, name: &str| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => pattern == name,
        };
        span.length_ns() > self.limit_ns && fits(&self.service, service) && fits(&self.operation, operation)
    }
}

impl SlowSpans {
    /// Finds spans beyond these thresholds and, with `outliers`, spans much longer than others in their operation.
    pub fn new(thresholds: Vec<SpanThreshold>, outliers: bool) -> Self {
        Self { thresholds, lengths: outliers.then(HashMap::new) }
    }

    /// The longest slow span in an OTLP message, in protobuf; `None` for other bytes.
    pub fn in_message(&mut self, message: &[u8]) -> Option<SlowSpan> {
        if self.thresholds.is_empty() && self.lengths.is_none() {
            return None;
        }
        let mut reader = Reader::default();
        // Spans before damage count.
        let _ = reader.take_protobuf(Bytes::copy_from_slice(message));
        let (spans, _) = reader.finish();
        let slow = spans.spans.iter().filter_map(|span| self.slow(&spans, span));
        // All spans are looked at: each counts among the lengths.
        slow.fold(None, |longest: Option<SlowSpan>, slow| match longest {
            Some(longest) if longest.length_ns >= slow.length_ns => Some(longest),
            _ => Some(slow),
        })
    }

    fn slow(&mut self, spans: &Spans, span: &Span) -> Option<SlowSpan> {
        let operation = &spans.operations[span.operation.0 as usize];
        let (service, name) = (&operation.service, &operation.name);
        let passed = self.thresholds.iter().find(|one| one.is_passed(service, name, span));
        let passed = passed.map(|one| ("span", format!("more than {}", shown(one.limit_ns))));
        let is_request = span.parent.is_none() || matches!(span.kind, Kind::Server | Kind::Consumer);
        let lengths = self.lengths.as_mut().filter(|_| is_request);
        let outlier = lengths.and_then(|lengths| {
            let key = (service.clone(), name.clone());
            if lengths.len() >= MAX_OPERATIONS && !lengths.contains_key(&key) {
                return None;
            }
            let usual = lengths.entry(key).or_default().add(span.length_ns())?;
            Some(("outlier", format!("99 of 100 before it no more than {}", shown(usual))))
        });
        let (word, why) = passed.or(outlier)?;
        let trace: String = span.trace.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let length_ns = span.length_ns();
        let text = format!("{service}/{name} took {}, {why} (trace {trace})", shown(length_ns));
        Some(SlowSpan { word, text, from_realtime_ns: span.from.ns(), length_ns })
    }
}

/// An operation's request lengths: four buckets for each power of two.
#[derive(Debug)]
struct Lengths {
    counts: Box<[u32; 256]>,
    count: u64,
}

impl Default for Lengths {
    fn default() -> Self {
        Self { counts: Box::new([0; 256]), count: 0 }
    }
}

impl Lengths {
    /// Adds a length. For an outlier, returns the earlier requests' 99th percentile, ns.
    fn add(&mut self, ns: u64) -> Option<u64> {
        let usual = self.usual();
        if self.count >= MAX_REQUESTS {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.count = self.counts.iter().map(|&count| u64::from(count)).sum();
        }
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        usual.filter(|usual| ns > usual.saturating_mul(TIMES))
    }

    /// The end of the bucket with the lengths' 99th percentile, ns; `None` with too few requests.
    fn usual(&self) -> Option<u64> {
        if self.count < MIN_REQUESTS {
            return None;
        }
        let mut below = 0;
        let end = self.counts.iter().position(|&count| {
            below += u64::from(count);
            below * 100 >= self.count * 99
        });
        end.map(bucket_end)
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.max(4);
    let log = ns.ilog2();
    (log * 4) as usize + ((ns >> (log - 2)) & 3) as usize
}

/// The exclusive end of a bucket, ns.
fn bucket_end(bucket: usize) -> u64 {
    let (log, quarter) = (bucket as u32 / 4, bucket as u64 % 4);
    u64::try_from(u128::from(5 + quarter) << log.saturating_sub(2)).unwrap_or(u64::MAX)
}

fn shown(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

fn time_ns(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
    let unit = match &text[digits.len()..] {
        "" | "s" => 1e9,
        "ms" => 1e6,
        "us" | "µs" => 1e3,
        "min" => 60e9,
        _ => return None,
    };
    let number = digits.trim().parse::<f64>().ok().filter(|number| number.is_finite())?;
    // A number below 0 becomes 0.
    Some((number * unit) as u64).filter(|&ns| ns > 0)
}

#[cfg(test)]
pub(super) mod tests;
