//! Called requests in a request's answer.

use wakepath_engine::requests::{CalledRequest, RequestAnswer, RequestPath, request_id};

use super::{MAX_ROWS, TEXT, operation_name, part};
use crate::screen::{Line, Screen, Style};
use crate::text::headline::headline;
use crate::units::{duration, rough_share};

/// Waits below this part of the request have no row.
const MIN_SHARE: u64 = 100;

/// The path's sentence, and the called request for which most of the time was waited:
/// `…mostly waiting for uvicorn (812) (98%, measured), for api GET /await (302 ms, 98%, inferred)`.
pub(super) fn sentence(answer: &RequestAnswer, path: &RequestPath<'_>) -> Line {
    let line = headline(&path.answer);
    let Some(called) = path.called_most() else { return line };
    let window = answer.to.since(answer.from);
    let (time, share) = (duration(called.total_ns), rough_share(called.total_ns, window));
    let name = operation_name(answer.traced.operation(called.request));
    line.add(Style::Normal, ", for ")
        .add(Style::Strong, name)
        .add(Style::Normal, format!(" ({time}, {share}, inferred)"))
}

/// A row for each called request, each behind its caller.
pub(super) fn rows(screen: &mut Screen, answer: &RequestAnswer, path: &RequestPath<'_>) {
    let (traced, window) = (answer.traced, answer.to.since(answer.from));
    let long: Vec<&CalledRequest> =
        path.called.iter().filter(|one| one.total_ns >= window / MIN_SHARE).collect();
    if long.is_empty() {
        return;
    }
    screen.unwrapped(Line::faint(" share     time  waiting for the requests that it called, inferred"));
    for one in long.iter().take(MAX_ROWS) {
        let name = operation_name(traced.operation(one.request));
        let by = match one.depth {
            0 => String::new(),
            _ => format!(", called by {}", operation_name(traced.operation(one.caller))),
        };
        let text = format!("{name}, request {}{by}", request_id(traced, one.request));
        screen.hanging(Line::strong(part(one.total_ns, window)), TEXT, text);
    }
    if long.len() > MAX_ROWS {
        screen.indented(TEXT, Line::faint("other requests: --json has all"));
    }
    screen.blank();
}

#[cfg(test)]
mod tests;
