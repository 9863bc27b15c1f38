//! Drawings of spans, for tests.

use std::collections::HashMap;

use wakepath_clock::Stamp;

use crate::{
    Kind, Operation, OperationIndex, Service, ServiceIndex, Span, SpanId, SpanIndex, Spans, TraceId,
};

/// A drawing's spans, a line each: the name, behind `<` the parent's name, and the time, a column for each ns: `=` where the span lasts,
/// `!` where it is a call to another service, `|` where it begins and ends at once. A name in capitals is a call that another service
/// answers; each such name has its own service.
pub(crate) fn drawn(drawing: &str) -> Spans {
    let mut spans = Spans { resolution_ns: 1, ..Spans::default() };
    let lines: Vec<_> = drawing.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let name_of = |line: &str| -> String { line.split([' ', '<']).next().unwrap_or_default().to_owned() };
    let mut ids: HashMap<String, SpanId> = HashMap::new();
    for (number, line) in (1_u64..).zip(&lines) {
        ids.insert(name_of(line), SpanId(number.to_be_bytes()));
    }
    for line in &lines {
        let (names, time) = line.split_once(' ').expect("a name and a time");
        let (name, time) = (name_of(line), time.trim());
        // A parent without a line has an identity nevertheless.
        let parent =
            names.split_once('<').map(|(_, name)| ids.get(name).copied().unwrap_or(SpanId([0xff; 8])));
        let begins = time.find(['=', '!', '|']).expect("it lasts");
        let ends = time.rfind(['=', '!']).map_or(begins, |last| last + 1);
        let is_server = name.chars().all(char::is_uppercase);
        let service = ServiceIndex(spans.services.len() as u32);
        let service = if is_server {
            spans.services.push(Service { name: name.as_str().into(), ..Service::default() });
            service
        } else {
            let own = Service { name: "own".into(), ..Service::default() };
            let place = spans.services.iter().position(|service| *service == own).unwrap_or_else(|| {
                spans.services.push(own);
                spans.services.len() - 1
            });
            ServiceIndex(place as u32)
        };
        let kind = match time.as_bytes()[begins] {
            _ if is_server => Kind::Server,
            b'!' => Kind::Client,
            _ => Kind::Internal,
        };
        spans.operations.push(Operation { service: "".into(), name: name.as_str().into() });
        spans.spans.push(Span {
            trace: TraceId([1; 16]),
            id: ids[&name],
            parent: parent.filter(|parent| *parent != ids[&name]),
            service,
            operation: OperationIndex(spans.operations.len() as u32 - 1),
            kind,
            from: Stamp::from_ns(1000 + begins as u64),
            to: Stamp::from_ns(1000 + ends as u64),
            failed: false,
            tid: None,
            peer_port: None,
            queued: None,
            turns: None,
        });
    }
    spans
}

/// The first letter of a span's name.
pub(crate) fn letter(spans: &Spans, span: SpanIndex) -> char {
    spans.operation(span).name.chars().next().unwrap_or(' ')
}
