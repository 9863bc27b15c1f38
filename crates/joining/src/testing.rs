//! Hosts' recordings and spans as text, for tests that join them.
//!
//! ```text
//! host web3 realtime=1000              the recording of a host, whose realtime clock read this at its 0
//! thread a tid=10                      behind it its trace, as `wakepath_scenario::text` has it
//! 0 c0 idle started
//! host db1 realtime=5000 behind=100    its own clock is so far behind the first host's clock
//!
//! service web host=web3 pid=10         a service, and its spans
//! a/b < a 1000..1400 server tid=10     trace and span, the parent, the time by its host's realtime, its kind, what else it says
//! a/c 1000..1400 as=GET                 a span's operation, by default its trace and span
//! ```

use wakepath_clock::{ErrorBound, Line, Reference, Stamp, Transform};
use wakepath_event::{ClockId, Clocks, Cpu, Description, EventKind, HostIdentity, HostIndex, Tid};
use wakepath_loaded::{Host, Recorded, Survey};
use wakepath_scenario::{event, text};
use wakepath_spans::{
    Dropped, Kind, Language, NotedTurns, Operation, OperationIndex, Ready, RequestIndex, Service,
    ServiceIndex, Span, SpanId, SpanIndex, Spans, TraceId,
};
use wakepath_timeline::Numbering;
use wakepath_wait_graph::{Builder, ThreadIndex};

use super::{Joined, Traced, join};

/// The hosts' recordings, read as one, and the spans.
pub struct Made {
    pub recorded: Recorded,
    pub traced: Traced,
}

/// The value of `NAME=VALUE` among words.
fn option<'t>(words: &[&'t str], name: &str) -> Option<&'t str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn number<N: std::str::FromStr>(text: &str) -> N {
    text.parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

/// `FROM..TO`
fn times<C>(text: &str) -> (Stamp<C>, Stamp<C>) {
    let (from, to) = text.split_once("..").unwrap_or_else(|| panic!("no time: {text}"));
    (Stamp::from_ns(number(from)), Stamp::from_ns(number(to)))
}

/// A digit's id, as in the contexts of textual traces.
fn id<const BYTES: usize>(digit: &str) -> [u8; BYTES] {
    [u8::from_str_radix(&digit.repeat(2), 16).unwrap_or_else(|_| panic!("no digit: {digit}")); BYTES]
}

/// A time in this unit, ns, and perhaps some ns more: `1500`, `1500+20000`.
pub fn ns(at: &str, unit_ns: u64) -> Option<u64> {
    let (at, more) = at.split_once('+').unwrap_or((at, "0"));
    Some(at.parse::<u64>().ok()? * unit_ns + more.parse::<u64>().ok()?)
}

/// Hosts' recordings whose times are in this unit, ns.
pub fn scaled(unit_ns: u64, hosts: &str) -> String {
    let line = |line: &str| match line.trim().split_once(' ') {
        Some((at, rest)) => ns(at, unit_ns).map_or(line.to_owned(), |at| format!("{at} {rest}")),
        None => line.to_owned(),
    };
    hosts.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// These hosts' recordings, read as one, with these spans.
pub fn made(hosts: &str, spans: &str) -> Made {
    let recorded = recorded(hosts);
    let traced = traced(spans, recorded.sources.clone());
    Made { recorded, traced }
}

/// These hosts' recordings, read as one.
pub fn recorded(hosts: &str) -> Recorded {
    let mut all: Vec<(Vec<&str>, String)> = Vec::new();
    for line in hosts.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("host ") {
            Some(words) => all.push((words.split_whitespace().collect(), String::new())),
            None => {
                let (_, trace) = all.last_mut().expect("a host before its trace");
                *trace += line;
                trace.push('\n');
            }
        }
    }
    let (mut numbering, mut events) = (Numbering::default(), Vec::new());
    for (host, (words, trace)) in (0..).map(HostIndex).zip(&all) {
        let behind: u64 = option(words, "behind").map_or(0, number);
        let mut own = text::parse(trace).unwrap_or_else(|error| panic!("{error}: {trace}")).events;
        if let Some(realtime_ns) = option(words, "realtime").map(number) {
            let clocks = Clocks { boottime_ns: 0, realtime_ns, steal_ns: 0 };
            own.insert(0, event(0, Cpu::UNKNOWN.0, Tid::IDLE.0, EventKind::Clocks(clocks)));
        }
        for mut event in own {
            numbering.number(host, &mut event, |at| at.plus(behind));
            events.push((host, event));
        }
    }
    events.sort_by_key(|(_, event)| event.at);
    let (mut builder, mut survey) = (Builder::default(), Survey::default());
    for (host, event) in &events {
        survey.observe_on(*host, event);
        builder.push(event);
    }
    let descriptions: Vec<_> =
        all.iter().enumerate().map(|(place, (words, _))| described(place, words)).collect();
    let mut recorded = Recorded::from_source(&descriptions[0], builder.finish(), survey, Vec::new());
    recorded.sources = descriptions.iter().map(|one| one.path.clone()).collect();
    recorded.others = descriptions[1..].iter().map(|one| Host::from(&one.host)).collect();
    recorded.descriptions = descriptions[1..].to_vec();
    recorded.clocks = all.iter().map(|(words, _)| clock(words)).collect();
    recorded.numbering = Some(numbering).filter(|_| all.len() > 1);
    recorded
}

/// `offset` is realtime less the host's clock, from its recording's description.
fn described(place: usize, words: &[&str]) -> Description {
    Description {
        path: format!("{place}.rec").into(),
        host: HostIdentity {
            name: words.first().filter(|name| **name != "-").map_or_else(String::new, ToString::to_string),
            boot_id: format!("boot {place}"),
            ..HostIdentity::default()
        },
        tracer: option(words, "tracer").map(String::from),
        clock: ClockId::Monotonic,
        realtime_offset_ns: option(words, "offset").map(number),
        extent: None,
        size: 1,
        cgroup: None,
        format: None,
    }
}

fn clock<T>(words: &[&str]) -> Transform<wakepath_clock::Local, T> {
    let behind: u64 = option(words, "behind").map_or(0, number);
    let line = Line::through((0, behind), (1_000, 1_000 + behind)).expect("a line");
    Transform::line(line, ErrorBound::Within(0))
}

/// The requests in these spans, received by these recordings.
pub fn traced(text: &str, recordings: Vec<std::path::PathBuf>) -> Traced {
    let mut spans = Spans { resolution_ns: 1, ..Spans::default() };
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["service", name, more @ ..] => spans.services.push(Service {
                name: (*name).into(),
                instance: option(more, "instance").map(Into::into),
                pid: option(more, "pid").map(number),
                host: option(more, "host").map(Into::into),
                recording: option(more, "recording").map(number),
                language: option(more, "language").and_then(Language::named),
            }),
            [ids, "<", parent, time, more @ ..] => add(&mut spans, ids, Some(parent), time, more),
            [ids, time, more @ ..] => add(&mut spans, ids, None, time, more),
            _ => panic!("neither a service nor a span: {line}"),
        }
    }
    spans.spans.sort_by_key(|span| span.from);
    Traced { recordings, ..Traced::new(spans, Dropped::default()) }
}

fn add(spans: &mut Spans, ids: &str, parent: Option<&str>, time: &str, more: &[&str]) {
    let (trace, own) = ids.split_once('/').unwrap_or_else(|| panic!("no ids: {ids}"));
    let service = spans.services.last().expect("a service before its spans").name.clone();
    let operation = Operation { service, name: option(more, "as").unwrap_or(ids).into() };
    let known = spans.operations.iter().position(|known| *known == operation);
    let place = known.unwrap_or_else(|| {
        spans.operations.push(operation);
        spans.operations.len() - 1
    });
    let (from, to) = times(time);
    let kinds = [("server", Kind::Server), ("client", Kind::Client), ("consumer", Kind::Consumer)];
    let kind = kinds.iter().find(|(name, _)| more.contains(name)).map_or(Kind::Internal, |(_, kind)| *kind);
    // `turns=FROM..TO,FROM..TO`, each behind its thread's number and `@` if turns in all threads are noted; `ready=WORD,WORD` what made each
    // ready.
    let ready = option(more, "ready").map_or(Vec::new(), |text| text.split(',').map(ready_by).collect());
    let turns = option(more, "turns").map(|text| {
        let turns = text.split(',').map(|turn| match turn.split_once('@') {
            Some((tid, turn)) => (Some(number(tid)), times(turn)),
            None => (None, times(turn)),
        });
        let (tids, turns): (Vec<Option<u32>>, Vec<_>) = turns.unzip();
        let since = option(more, "since").map_or(from, |since| Stamp::from_ns(number(since)));
        Box::new(NotedTurns { since, turns, tids: tids.into_iter().collect(), ready })
    });
    spans.spans.push(Span {
        trace: TraceId(id(trace)),
        id: SpanId(id(own)),
        parent: parent.map(|parent| SpanId(id(parent))),
        service: ServiceIndex(spans.services.len() as u32 - 1),
        operation: OperationIndex(place as u32),
        kind,
        from,
        to,
        failed: false,
        tid: option(more, "tid").map(number),
        peer_port: option(more, "peer").map(number),
        queued: option(more, "queued").map(|queued| Stamp::from_ns(number(queued))),
        turns,
    });
}

/// `t5` a timer, `d5` a descriptor, `s5` scheduled, `w11:5` by thread 11, `j5` a job; the ns before the turn.
fn ready_by(word: &str) -> Ready {
    let (letter, rest) = word.split_at(1);
    match letter {
        "t" => Ready::Timer(number(rest)),
        "d" => Ready::Descriptor(number(rest)),
        "s" => Ready::Scheduled(number(rest)),
        "j" => Ready::Pool(number(rest)),
        "w" => {
            rest.split_once(':').map(|(tid, at)| Ready::Thread(number(tid), number(at))).expect("a thread")
        }
        _ => Ready::Unknown,
    }
}

impl Made {
    pub fn joined(&self) -> Joined<'_> {
        join(&self.recorded, &self.traced).expect("the first host's realtime is known")
    }

    /// The span with these ids, from the service with this name if several gave them: `a/b` or `a/b of web`.
    pub fn span(&self, asked: &str) -> SpanIndex {
        let (ids, of) = asked.split_once(" of ").map_or((asked, None), |(ids, of)| (ids, Some(of)));
        let is_asked = |span: &SpanIndex| {
            let operation = self.traced.spans.operation(*span);
            &*operation.name == ids && of.is_none_or(|of| &*operation.service == of)
        };
        let found = self.traced.spans.iter().map(|(index, _)| index).find(is_asked);
        found.unwrap_or_else(|| panic!("no span {asked}"))
    }

    /// A span's request.
    pub fn request(&self, asked: &str) -> RequestIndex {
        self.traced.requests.containing(self.span(asked))
    }

    /// A span's ids.
    pub fn ids(&self, span: SpanIndex) -> &str {
        &self.traced.spans.operation(span).name
    }

    /// A request's root span's ids.
    pub fn root(&self, request: RequestIndex) -> &str {
        self.ids(self.traced.request(request).root)
    }

    /// The thread with this name.
    pub fn thread(&self, name: &str) -> ThreadIndex {
        let threads = self.recorded.graph.threads().map(|(index, _)| index);
        threads
            .into_iter()
            .find(|index| self.name(*index) == name)
            .unwrap_or_else(|| panic!("no thread {name}"))
    }

    /// A thread's last name.
    pub fn name(&self, thread: ThreadIndex) -> String {
        let thread = self.recorded.graph.thread(thread);
        thread.name_at(thread.last).lossy().to_string()
    }
}

pub fn at(ns: u64) -> Stamp<Reference> {
    Stamp::from_ns(ns)
}
