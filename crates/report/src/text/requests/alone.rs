//! Requests by their spans alone, without a recording.

use wakepath_engine::requests::{AloneAnswer, RequestIndex, Traced, own_times_alone, request_id};

use super::{MAX_ROWS, TEXT, left_out, operation_name, services, table};
use crate::screen::{Layout, Line, Screen, Style};
use crate::text::{part, utc_range};
use crate::units::{count, duration};

/// The sentence under each answer.
pub(super) const WHY: &str =
    "no recording was read: the times are those of spans alone, which do not say what the work waited for";

/// The command for recording beside the services.
pub(super) const RECORD: &str = "sudo wakepath record --otlp -a";

/// The operations, and their longest requests; `argument` is the files as arguments.
pub fn requests_alone(answer: &AloneAnswer<'_>, argument: &str, layout: Layout) -> String {
    let AloneAnswer { traced, operations, requests } = answer;
    let mut screen = Screen::new(layout);
    let head = format!(
        "{} of {}, from {} of {}",
        count(requests.len() as u64, "request"),
        count(operations.len() as u64, "operation"),
        count(traced.spans.spans.len() as u64, "span"),
        count(services(traced), "service"),
    );
    screen.wrapped(0, Line::strong(head));
    let roots = || requests.iter().map(|request| traced.root(*request));
    if let (Some(from), Some(to)) = (roots().map(|root| root.from).min(), roots().map(|root| root.to).max()) {
        screen.wrapped(0, Line::faint(format!("{} UTC", utc_range(from.ns(), to.ns()))));
    }
    screen.blank();
    table(&mut screen, traced, operations, requests, requests.len());
    left_out(&mut screen, traced);
    screen.wrapped(0, Line::faint(WHY));
    if let Some(&longest) = requests.first() {
        let text = format!("wakepath requests{argument} --request {}", request_id(traced, longest));
        screen.wrapped(0, Line::faint("next: ").add(Style::Normal, text));
    }
    screen.wrapped(0, Line::faint("to record: ").add(Style::Normal, RECORD));
    screen.into_text()
}

/// The spans for which a request's end waited.
pub fn request_alone(traced: &Traced, request: RequestIndex, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let (root, own) = (traced.root(request), own_times_alone(traced, request));
    let window = root.length_ns();
    let name = operation_name(traced.operation(request));
    screen.wrapped(0, Line::strong(format!("{name} took {}", duration(window))));
    let times = utc_range(root.from.ns(), root.to.ns());
    screen.wrapped(0, Line::faint(format!("{times} UTC; trace {}, span {}", root.trace, root.id)));
    screen.blank();
    screen.unwrapped(Line::faint(" share     time  the spans that its end waited for, by their own time"));
    for one in own.iter().take(MAX_ROWS) {
        let name = operation_name(&traced.spans.operations[one.operation.0 as usize]);
        let row = Line::from(format!("{name}, {}", count(one.spans, "span"))).add(Style::Faint, "  inferred");
        screen.hanging(Line::strong(part(one.total_ns, window)), TEXT, row);
    }
    let rest: u64 = own.iter().skip(MAX_ROWS).map(|one| one.total_ns).sum();
    if rest > 0 {
        screen.hanging(Line::strong(part(rest, window)), TEXT, Line::faint("other spans"));
    }
    screen.blank();
    left_out(&mut screen, traced);
    screen.wrapped(0, Line::faint(WHY));
    screen.wrapped(0, Line::faint("to record: ").add(Style::Normal, RECORD));
    screen.into_text()
}
