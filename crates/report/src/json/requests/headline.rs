//! The first screen in a request's document.

use serde::Serialize;
use wakepath_engine::requests::{RequestAnswer, RequestHeadline};

use crate::json::path::{FirstScreenJson, HeadlineJson, RowJson, headline, next, rows, share};
use crate::text::{NextStep, next_step, request_sentence};

/// The words with which a command names its inputs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Named<'a> {
    /// The recordings alone; empty for the default recording.
    pub recording: &'a [String],
    /// The recordings, and the files with spans.
    pub with_spans: &'a [String],
}

impl Named<'_> {
    /// A step as a command's words; `None` if no command does it.
    pub(in crate::json) fn command(self, step: NextStep) -> Option<Vec<String>> {
        match step {
            NextStep::Ask { verb, with_spans, words } => {
                let named = if with_spans { self.with_spans } else { self.recording };
                let command = ["wakepath", verb].map(String::from);
                Some(command.into_iter().chain(named.iter().cloned()).chain(words).collect())
            }
            NextStep::Run(words) => Some(words),
            NextStep::Advice(_) => None,
        }
    }
}

/// The sentence that answers, the path's rows, and the next command.
pub fn first_screen(answer: &RequestAnswer, named: Named<'_>) -> impl Serialize + use<> {
    let path = answer.path.as_ref().ok();
    let rows: Vec<RowJson> = path.map_or(Vec::new(), |path| rows(&path.answer));
    let next = match path {
        Some(path) => next(&path.answer, named.recording),
        None => named.command(next_step(answer)),
    };
    FirstScreenJson { headline: sentence(answer), rows, next }
}

fn sentence(answer: &RequestAnswer) -> HeadlineJson {
    let window = answer.to.since(answer.from);
    let inferred = |code, total_ns: u64, is_most| HeadlineJson {
        code,
        text: request_sentence(answer).into_plain(),
        row: None,
        is_most,
        total_ns,
        share: share(total_ns, window),
        basis: Some("inferred"),
        who: None,
        through: None,
        other_reading: None,
    };
    match answer.headline() {
        RequestHeadline::Blocked(blocking) => {
            let ns = blocking.total_ns();
            inferred("blocked_by_request", ns, ns > window / 2)
        }
        RequestHeadline::Path(path) => {
            HeadlineJson { text: request_sentence(answer).into_plain(), ..headline(&path.answer) }
        }
        RequestHeadline::Span(own, is_most) => inferred("span", own.total_ns, is_most),
        RequestHeadline::Length => HeadlineJson { basis: None, ..inferred("empty_window", 0, false) },
    }
}
