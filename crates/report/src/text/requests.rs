//! Requests, as text: each operation's latencies, and the reasons for a request's time.

mod alone;
mod by_cause;
mod called;
mod clock;
mod group;
mod left_out;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use wakepath_engine::requests::{
    Arrival, BlockedBy, Blocking, BlockingRequest, DiskAccesses, Language, Next, NoPath, Operation,
    OperationAnswer, OwnTime, RequestAnswer, RequestHeadline, RequestIndex, RequestPath, RequestState,
    RequestsAnswer, SaidAttribute, SaidService, SpanPart, StateSum, Traced, request_id,
};
use wakepath_findings::Certainty;

use super::path::path_below;
use super::{Source, footer, goroutine, part, seconds, when, when_anywhere};
use crate::escape::escape;
use crate::screen::{Layout, Line, Screen, Style};
use crate::units::{bytes, count, duration, rough_share, share};
use crate::wording;
use clock::clocks_off;
use left_out::left_out;

/// Rows beyond this many are put together.
const MAX_ROWS: usize = 12;
/// The number of requests listed as those before which a request waited.
const MAX_BEFORE: usize = 3;
/// The number of listed longest requests.
const MAX_LONGEST: usize = 5;
/// The column in which a row's text begins.
const TEXT: usize = 17;

pub use alone::{request_alone, requests_alone};
pub(crate) use by_cause::{by_cause_sentence, cause_words};
pub use by_cause::{next_by_cause, requests_by_cause};
pub(crate) use group::other_warnings;
pub use group::request_group;
pub(crate) use left_out::spans_left_out;

/// Undecided time has a next step from a request's twentieth on.
const MATTERS: u64 = 20;

/// The operations, and their longest requests.
pub fn requests(answer: &RequestsAnswer, source: Source<'_>, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let traced = answer.traced;
    let head = format!(
        "{} of {}, from {} of {}",
        count(answer.requests.len() as u64, "request"),
        count(answer.operations.len() as u64, "operation"),
        count(traced.spans.spans.len() as u64, "span"),
        count(services(traced), "service"),
    );
    screen.wrapped(0, Line::strong(head));
    let times = || answer.requests.iter().map(|request| answer.times(*request));
    if let (Some(from), Some(to)) = (times().map(|(from, _)| from).min(), times().map(|(_, to)| to).max()) {
        let is_outside = answer.outside == answer.requests.len() as u64;
        let when =
            if is_outside { when_anywhere(&answer.head, from, to) } else { when(&answer.head, from, to) };
        screen.wrapped(0, Line::faint(when));
    }
    screen.blank();
    let covered = answer.requests.len() - answer.outside as usize;
    table(&mut screen, traced, &answer.operations, &answer.requests, covered);
    if answer.outside > 0 {
        let text = format!(
            "no recording covers {}: the spans are from another time, and only they say how long it took",
            count(answer.outside, "request")
        );
        screen.wrapped(9, Line::warning("warning: ").add(Style::Normal, text));
    }
    left_out(&mut screen, traced);
    clocks_off(&mut screen, traced, &answer.contexts.clocks);
    footer::problems(&mut screen, &answer.head, "--json");
    if let Some(&longest) = answer.requests.first() {
        let text =
            format!("wakepath requests{} --request {}", source.argument(), request_id(traced, longest));
        screen.wrapped(0, Line::faint("next: ").add(Style::Normal, text));
    }
    screen.into_text()
}

/// A row for each operation, and the longest requests; the recording covers the first `covered`.
fn table(
    screen: &mut Screen,
    traced: &Traced,
    operations: &[OperationAnswer],
    requests: &[RequestIndex],
    covered: usize,
) {
    screen.unwrapped(Line::faint(
        "  count      p50      p99      max  failed  operation, most time in all first",
    ));
    for one in operations.iter().take(MAX_ROWS) {
        let [p50, p99, max] = [one.p50_ns, one.p99_ns, one.max_ns].map(duration);
        let failed = if one.failed == 0 { String::from("-") } else { one.failed.to_string() };
        let row = format!("{:>7}  {p50:>7}  {p99:>7}  {max:>7}  {failed:>6}  ", one.histogram.calls());
        let columns = row.chars().count();
        let operation = &traced.spans.operations[one.operation.0 as usize];
        screen.hanging(Line::strong(row), columns, operation_name(operation));
    }
    if let Some(more @ 1..) = operations.len().checked_sub(MAX_ROWS) {
        screen.wrapped(
            0,
            Line::faint(format!("and {}: --json has all", count(more as u64, "other operation"))),
        );
    }
    screen.blank();
    screen.unwrapped(Line::faint("  longest  request"));
    for (place, &request) in requests.iter().enumerate().take(MAX_LONGEST) {
        let row = format!("{:>9}  ", duration(traced.root(request).length_ns()));
        let name = operation_name(traced.operation(request));
        let when = if place < covered { "" } else { ", from another time" };
        let text = format!("{}  {name}{when}", request_id(traced, request));
        screen.hanging(Line::strong(row), 11, text);
    }
    screen.blank();
}

/// The reasons for a request's time.
///
/// `argument` is the recording and the spans as an argument, `source` the recording alone.
pub fn request(answer: &RequestAnswer, source: Source<'_>, argument: &str, layout: Layout) -> String {
    match &answer.path {
        Ok(path) => by_thread(answer, path, source, layout),
        Err(why) => by_spans(answer, *why, source, argument, layout),
    }
}

/// A sentence: the reason for a request's time, and its certainty.
pub(crate) fn request_sentence(answer: &RequestAnswer) -> Line {
    match answer.headline() {
        RequestHeadline::Blocked(first) => {
            blocked(answer, &BlockedLine::new(&first, answer.traced, answer.path.as_ref().ok()))
        }
        RequestHeadline::Path(path) => called::sentence(answer, path),
        RequestHeadline::Span(..) | RequestHeadline::Length => took(answer),
    }
}

/// The sentence for a request blocked by another, with the time.
fn blocked(answer: &RequestAnswer, BlockedLine { ns, other, collections, .. }: &BlockedLine) -> Line {
    let window = answer.to.since(answer.from);
    let name = operation_name(answer.traced.operation(answer.request));
    let share = rough_share(*ns, window);
    let time = format!(", for {} of {} ({share}, inferred)", duration(*ns), duration(window));
    let line = Line::strong(format!("{name} was blocked by {other}")).add(Style::Normal, time);
    match collections {
        0 => line,
        1 => line.add(Style::Normal, ", in a garbage collection that it asked for"),
        several => line.add(Style::Normal, format!(", in {several} garbage collections that it asked for")),
    }
}

/// The sentence with a request's length, and the span with most of it.
fn took(answer: &RequestAnswer) -> Line {
    let (traced, window) = (answer.traced, answer.to.since(answer.from));
    let name = operation_name(traced.operation(answer.request));
    let mut line = Line::strong(format!("{name} took {}", duration(window)));
    if let RequestHeadline::Span(first, is_most) = answer.headline() {
        line.push(Style::Normal, if is_most { ": mostly in " } else { ", the largest part: in " });
        line.push(Style::Strong, operation_name(&traced.spans.operations[first.operation.0 as usize]));
        line.push(Style::Normal, format!(" ({}, inferred)", rough_share(first.total_ns, window)));
    }
    line
}

/// The path of the thread that worked for the request, and the requests that blocked it.
fn by_thread(
    answer: &RequestAnswer,
    of_thread: &RequestPath<'_>,
    source: Source<'_>,
    layout: Layout,
) -> String {
    let (traced, window) = (answer.traced, answer.to.since(answer.from));
    let mut before = Screen::new(layout);
    let blockers = blockers(of_thread, traced);
    let leads = matches!(answer.headline(), RequestHeadline::Blocked(_));
    if let Some(first) = blockers.first().filter(|_| leads) {
        before.wrapped(0, blocked(answer, first));
        before.blank();
    }
    if let Some(arrival) = &answer.arrival {
        before.wrapped(0, Line::from(waited_before(answer, arrival)));
        before.blank();
    }
    let mut behind = Screen::new(layout);
    behind.blank();
    for (other, at_most_ns) in &of_thread.perhaps_blocked_by {
        behind.wrapped(0, Line::from(perhaps_blocked(traced, *other, *at_most_ns)));
        behind.blank();
    }
    if blockers.len() > 1 || blockers.iter().any(|one| one.through.is_some()) {
        behind.unwrapped(Line::faint(" share     time  blocked by other requests, inferred"));
        for BlockedLine { ns, other, through, .. } in blockers.iter().take(MAX_ROWS) {
            behind.hanging(Line::strong(part(*ns, window)), TEXT, other.as_str());
            if let Some(through) = through {
                behind.indented(TEXT, Line::faint(format!("it held back {through}")));
            }
        }
        let rest: u64 = blockers.iter().skip(MAX_ROWS).map(|one| one.ns).sum();
        if rest > 0 {
            let text = Line::faint("other requests: --json has all");
            behind.hanging(Line::strong(part(rest, window)), TEXT, text);
        }
        behind.blank();
    }
    called::rows(&mut behind, answer, of_thread);
    if let Some(goroutine) = &of_thread.goroutine {
        for (ns, text) in goroutine::waits(goroutine, |request| {
            format!("{}, request {}", operation_name(traced.operation(request)), request_id(traced, request))
        }) {
            match ns {
                None => behind.unwrapped(Line::faint(text)),
                Some(ns) => behind.hanging(Line::strong(part(ns, window)), TEXT, text),
            }
        }
        behind.blank();
    }
    behind.wrapped(0, Line::from(states(&of_thread.states, window)));
    if let Some(disk) = of_thread.disk.filter(|disk| disk.count > 0) {
        behind.wrapped(0, Line::from(disk_accesses(&disk)));
    }
    left_out(&mut behind, traced);
    clocks_off(&mut behind, traced, &answer.clocks);
    let root = traced.root(answer.request);
    let how = match &of_thread.goroutine {
        None => String::from(wording::joined_by(answer.joined_by)),
        Some(goroutine) => goroutine::how(goroutine),
    };
    let text = format!("trace {}, span {}. {how}", root.trace, root.id);
    behind.wrapped(0, Line::faint(text));
    let undecided = of_thread.undecided_in_loop_ns();
    let language = traced.spans.service(traced.request(answer.request).root).language;
    if let Some(next) = decides(undecided, window, root.turns.is_some(), language) {
        behind.wrapped(0, Line::faint("next: ").add(Style::Normal, next));
    }
    let path = path_below(called::sentence(answer, of_thread), &of_thread.answer, source, layout);
    before.into_text() + &path + &behind.into_text()
}

/// The step to know an event loop's reasons, where a large part is undecided.
fn decides(
    undecided_ns: u64,
    window_ns: u64,
    has_turns: bool,
    language: Option<Language>,
) -> Option<Cow<'static, str>> {
    let matters = undecided_ns > window_ns / MATTERS;
    matters.then(|| match (has_turns, language) {
        (false, _) => match language.and_then(plugin) {
            Some(plugin) => format!("{plugin}, which notes what its event loop waited for").into(),
            None => "install the plug-in for its runtime, which notes what its event loop waited for: docs/requests.md"
                .into(),
        },
        (true, Some(Language::Node)) => {
            "the plug-in's README lists what it leaves out; WAKEPATH_READY=all notes promises too".into()
        }
        (true, Some(_)) => "the plug-in's README lists what it leaves out".into(),
        (true, None) => {
            "the plug-in's README lists what it leaves out; under Node, WAKEPATH_READY=all notes promises too".into()
        }
    })
}

/// The command that writes a language's plug-in.
fn plugin(language: Language) -> Option<&'static str> {
    Some(match language {
        Language::Cpp => "wakepath plugin c: the plug-in",
        Language::Java => "wakepath plugin java: the plug-in",
        Language::Node => "wakepath plugin node: the plug-in",
        Language::Python => "wakepath plugin python: the plug-in",
        Language::Rust => "wakepath plugin rust: the plug-in",
        Language::Go => return None,
    })
}

/// `perhaps blocked by web GET /report, request a4b5, for 201 ms at most: its event loop ran then, and nothing shows when this request was ready`
fn perhaps_blocked(traced: &Traced, other: RequestIndex, at_most_ns: u64) -> String {
    let name = operation_name(traced.operation(other));
    format!(
        "perhaps blocked by {name}, request {}, for {} at most: its event loop ran then, and nothing shows when this request was ready",
        request_id(traced, other),
        duration(at_most_ns)
    )
}

/// `its data had waited 300 ms before its span began; meanwhile its thread worked for api GET /crunch, request a4b5 (296 ms, inferred)`.
fn waited_before(answer: &RequestAnswer, arrival: &Arrival) -> String {
    let traced = answer.traced;
    let waited = duration(answer.from.since(arrival.at.into()));
    let others: Vec<_> = arrival
        .worked_for
        .iter()
        .take(MAX_BEFORE)
        .map(|&(request, ns)| {
            let name = operation_name(traced.operation(request));
            format!("{name}, request {} ({}, inferred)", request_id(traced, request), duration(ns))
        })
        .collect();
    let meanwhile = match others.is_empty() {
        true => String::new(),
        false => format!("; meanwhile its thread worked for {}", others.join(" and ")),
    };
    format!("its data had waited {waited} before its span began (inferred){meanwhile}")
}

/// A blocking request, in words.
struct BlockedLine {
    ns: u64,
    other: String,
    /// The requests that waited for it, and for which the explained request waited.
    through: Option<String>,
    /// Its garbage collections, if at least half the time went to these.
    collections: usize,
}

/// The requests that blocked the path, with their times, largest first.
fn blockers(path: &RequestPath<'_>, traced: &Traced) -> Vec<BlockedLine> {
    path.blocking().iter().map(|blocking| BlockedLine::new(blocking, traced, Some(path))).collect()
}

impl BlockedLine {
    fn new(blocking: &Blocking<'_>, traced: &Traced, path: Option<&RequestPath<'_>>) -> Self {
        let blocked = match blocking {
            Blocking::Known(blocked) => {
                let name = operation_name(traced.operation(blocked.request));
                let other = format!("{name}, request {}", request_id(traced, blocked.request));
                let collections = path.map(|path| path.collections_by(blocked.request));
                let most = collections.filter(|(_, ns)| *ns >= blocked.total_ns / 2);
                let (through, collections) = (through(blocked, traced), most.map_or(0, |(count, _)| count));
                return Self { ns: blocked.total_ns, other, through, collections };
            }
            Blocking::Missing(blocked) => blocked,
        };
        let trace = blocked.trace.to_string();
        let why = if blocked.sampled { "whose spans did not come" } else { "not sampled" };
        let services: Vec<_> = blocked.services.iter().map(said_service).collect();
        let of = if services.is_empty() { String::new() } else { format!("{}, ", services.join(" and ")) };
        let said: Vec<_> = blocked.attributes.iter().map(said_attribute).collect();
        let said = if said.is_empty() { String::new() } else { format!(" with {}", said.join(", ")) };
        let other = format!("{of}request {trace}{said}, {why}");
        Self { ns: blocked.total_ns, other, through: None, collections: 0 }
    }
}

/// `bank`, or `bank (instance 7)`.
fn said_service(service: &SaidService) -> String {
    let name = escape(service.name.bytes());
    match &service.instance {
        Some(instance) => format!("{name} (instance {})", escape(instance.bytes())),
        None => name,
    }
}

/// `http.route /cart`.
fn said_attribute(attribute: &SaidAttribute) -> String {
    let end = if attribute.is_cut { "…" } else { "" };
    format!("{} {}{end}", escape(attribute.name.bytes()), escape(attribute.value.bytes()))
}

/// The request that waited longest for a blocker, and for which the explained request waited; with the number of others.
fn through(blocked: &BlockedBy, traced: &Traced) -> Option<String> {
    let (first, _) = blocked.through.first()?;
    let name = match *first {
        BlockingRequest::Request(request) => {
            format!("{}, request {}", operation_name(traced.operation(request)), request_id(traced, request))
        }
        BlockingRequest::Missing(trace, _) => format!("request {trace}"),
    };
    Some(match blocked.through.len() - 1 {
        0 => name,
        more => format!("{name}, and {more} more"),
    })
}

/// `in all: 66.7% blocked by other requests (inferred), 33.3% running`.
fn states(states: &[StateSum], window: u64) -> String {
    let words: Vec<_> = states
        .iter()
        .map(|sum| {
            let what = match sum.state {
                RequestState::Blocked => "blocked by other requests",
                RequestState::Kind(kind) => wording::kind_phrase(kind),
            };
            let certainty = sum.basis.certainty();
            let basis = match certainty {
                Certainty::Measured => String::new(),
                other => format!(" ({})", wording::certainty(other)),
            };
            format!("{} {what}{basis}", share(sum.total_ns, window).trim_start())
        })
        .collect();
    format!("in all: {}", words.join(", "))
}

/// `its threads made 3 disk requests, 24 KiB, for 1.2 ms`.
fn disk_accesses(disk: &DiskAccesses) -> String {
    let mut text = format!(
        "its threads sent {} of {} to disks, which took {}",
        count(disk.count, "request"),
        bytes(disk.bytes),
        duration(disk.total_ns)
    );
    if disk.open > 0 {
        text += &format!("; {} had not ended", disk.open);
    }
    text
}

/// The chain of spans for which its end waited.
fn by_spans(
    answer: &RequestAnswer,
    why: NoPath,
    source: Source<'_>,
    argument: &str,
    layout: Layout,
) -> String {
    let mut screen = Screen::new(layout);
    let (traced, window) = (answer.traced, answer.to.since(answer.from));
    screen.wrapped(0, took(answer));
    let root = traced.root(answer.request);
    let ids = format!("; trace {}, span {}", root.trace, root.id);
    let when = if answer.is_outside { when_anywhere } else { when };
    screen.wrapped(0, Line::faint(when(&answer.head, answer.from, answer.to) + &ids));
    screen.blank();
    screen.unwrapped(Line::faint(" share     time  the spans that its end waited for, by their own time"));
    for own in answer.own.iter().take(MAX_ROWS) {
        let is_recorded = |part: &SpanPart| part.span != own.longest || part.host.is_some();
        let row = row(traced, own, answer.by_span.iter().all(is_recorded));
        screen.hanging(Line::strong(part(own.total_ns, window)), TEXT, row);
    }
    let rest: u64 = answer.own.iter().skip(MAX_ROWS).map(|own| own.total_ns).sum();
    if rest > 0 {
        screen.hanging(Line::strong(part(rest, window)), TEXT, Line::faint("other spans: --json has all"));
    }
    screen.blank();
    left_out(&mut screen, traced);
    clocks_off(&mut screen, traced, &answer.clocks);
    footer::problems(&mut screen, &answer.head, "--json");
    let why = match answer.is_outside && why != NoPath::OtherHost {
        true => String::from("no recording covers it, since its spans are from another time"),
        false => wording::no_path(why),
    };
    let text =
        format!("{why}: the times are those of spans alone, which do not say what the work waited for");
    screen.wrapped(0, Line::faint(text));
    let next = match next_step(answer) {
        NextStep::Ask { verb, with_spans, words } => {
            let named = if with_spans { argument } else { source.argument() };
            let words: String = words.iter().map(|word| format!(" {word}")).collect();
            format!("wakepath {verb}{named}{words}")
        }
        NextStep::Run(words) => words.join(" "),
        NextStep::Advice(text) => text,
    };
    screen.wrapped(0, Line::faint("next: ").add(Style::Normal, next));
    screen.into_text()
}

/// The next step for a request without a path.
pub(crate) enum NextStep {
    /// A question about the recording, with or without the spans: the verb, and the words behind them.
    Ask { verb: &'static str, with_spans: bool, words: Vec<String> },
    /// A command.
    Run(Vec<String>),
    /// No command does it.
    Advice(String),
}

/// The next step for a request without a path.
pub(crate) fn next_step(answer: &RequestAnswer) -> NextStep {
    let traced = answer.traced;
    match answer.next {
        Next::Part(part) => NextStep::request(traced, part),
        Next::Process(pid) => {
            let origin = answer.head.origin;
            let [from, to] = [answer.from, answer.to].map(|at| seconds(at.stamp().since(origin)));
            let words = ["--pid", &pid.to_string(), "--from", &from, "--to", &to].map(str::to_owned);
            NextStep::Ask { verb: "path", with_spans: false, words: words.into() }
        }
        Next::Times => NextStep::Ask { verb: "info", with_spans: false, words: Vec::new() },
        Next::RecordHost => {
            let host = traced.spans.service(traced.request(answer.request).root).host.as_deref();
            let host = escape(host.unwrap_or("its host").as_bytes());
            NextStep::Advice(format!(
                "record {host} too, and give both recordings: docs/requests.md says how"
            ))
        }
        Next::RecordAll => {
            NextStep::Run(["sudo", "wakepath", "record", "--otlp", "-a"].map(str::to_owned).into())
        }
        Next::RecordGoroutines => {
            let words = ["sudo", "wakepath", "record", "--otlp", "-a", "--goroutines=all"];
            NextStep::Run(words.map(str::to_owned).into())
        }
        Next::Thread => {
            let root = traced.request(answer.request).root;
            match traced.spans.service(root).language.and_then(plugin) {
                Some(plugin) => NextStep::Advice(format!("{plugin}, whose spans name their threads")),
                None => NextStep::Advice(String::from(
                    "write the thread on each span, as wakepath.tid: docs/requests.md says how",
                )),
            }
        }
    }
}

impl NextStep {
    /// The question about a single request.
    pub(crate) fn request(traced: &Traced, request: RequestIndex) -> Self {
        let words = vec![String::from("--request"), request_id(traced, request)];
        Self::Ask { verb: "requests", with_spans: true, words }
    }
}

fn row(traced: &Traced, own: &OwnTime, is_recorded: bool) -> Line {
    let name = operation_name(&traced.spans.operations[own.operation.0 as usize]);
    let how = if is_recorded { "  inferred" } else { "  inferred, its host not recorded" };
    Line::from(format!("{name}, {}", count(own.spans, "span"))).add(Style::Faint, how)
}

fn services(traced: &Traced) -> u64 {
    let mut names: Vec<_> = traced.spans.services.iter().map(|service| &service.name).collect();
    names.sort();
    names.dedup();
    names.len() as u64
}

/// `frontend HTTP GET /dispatch`.
pub(crate) fn operation_name(operation: &Operation) -> String {
    let service = match operation.service.is_empty() {
        true => String::from("(no service name)"),
        false => escape(operation.service.as_bytes()),
    };
    format!("{service} {}", escape(operation.name.as_bytes()))
}
