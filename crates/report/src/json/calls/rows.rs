//! The first screen in a document about calls: the headline, and a row for each cause.

use serde::Serialize;
use wakepath_engine::CallsAnswer;
use wakepath_findings::{CallCause, CallCausePart, Evidence, Who};

use crate::json::path::{FunctionsJson, HeadlineJson, PartJson, SamplesJson, WhoJson, certainty, share};
use crate::text::{calls_headline, cause_text};
use crate::wording;

/// A cause of the calls' time, with the keys of a path's row.
#[derive(Serialize)]
pub struct CallRowJson {
    code: &'static str,
    what: String,
    /// Its line on the first screen.
    text: String,
    /// In all selected calls together.
    total_ns: u64,
    share: f64,
    basis: &'static str,
    shown: bool,
    asked_ns: f64,
    usual_ns: f64,
    first_in: u64,
    parts: Vec<PartJson>,
    samples: Vec<SamplesJson>,
    waited_in: Option<FunctionsJson>,
    processes: Vec<u32>,
    threads: usize,
}

/// The rows for calls, largest difference first.
pub fn rows(answer: &CallsAnswer) -> Vec<CallRowJson> {
    let findings = answer.findings();
    let all = findings.causes.iter().map(|cause| cause.total_ns.asked).sum();
    let causes = answer.causes().enumerate();
    causes.map(|(place, cause)| row(answer, cause, findings.shown.contains(&place), all)).collect()
}

fn row(
    answer: &CallsAnswer,
    (cause, evidence): (&CallCause, Evidence<'_>),
    shown: bool,
    all: u64,
) -> CallRowJson {
    let row = &cause.example.1;
    let (code, what) = wording::cause(&evidence, &cause.key, row);
    let part = |part: &CallCausePart| PartJson {
        kind: part.end.activity.as_ref().map(|end| end.kind.name()),
        code: part.end.activity.as_ref().and_then(|end| wording::blamed_code(&evidence, &end.blamed)),
        what: wording::end(&evidence, &cause.key, part),
        total_ns: part.total_ns.asked,
    };
    let ran = &cause.code.ran;
    CallRowJson {
        code,
        what,
        text: cause_text(answer, cause),
        total_ns: cause.total_ns.asked,
        share: share(cause.total_ns.asked, all),
        basis: certainty(cause.basis),
        shown,
        asked_ns: cause.mean_ns.asked,
        usual_ns: cause.mean_ns.usual,
        first_in: cause.first_in,
        parts: cause.parts.iter().map(part).collect(),
        samples: (ran.total() > 0).then(|| SamplesJson::new(None, ran)).into_iter().collect(),
        waited_in: FunctionsJson::if_any(&cause.code.waited),
        processes: row.processes.iter().map(|process| process.number()).collect(),
        threads: row.threads.len(),
    }
}

/// The sentence about calls. Its time is ns a call, as a part of the extra time over the usual calls.
pub fn headline(answer: &CallsAnswer) -> HeadlineJson {
    let found = answer.findings().headline.as_ref();
    let first = found.and_then(|found| Some((found, answer.causes().nth(found.cause)?)));
    let text = calls_headline(answer).into_plain();
    let Some((found, (cause, evidence))) = first else {
        return HeadlineJson {
            code: "no_difference",
            text,
            row: None,
            is_most: false,
            total_ns: 0,
            share: 0.0,
            basis: None,
            who: None,
            through: None,
            other_reading: None,
        };
    };
    let row = &cause.example.1;
    let who = Who::row(&evidence, &cause.key, row);
    let who = who.and_then(|who| Some(WhoJson::new(answer.call(cause.example.0)?, &who)));
    HeadlineJson {
        code: wording::cause(&evidence, &cause.key, row).0,
        text,
        row: Some(found.cause),
        is_most: found.more_ns > found.of_ns / 2,
        total_ns: found.more_ns,
        share: share(found.more_ns, found.of_ns),
        basis: Some(certainty(cause.basis)),
        who,
        through: None,
        other_reading: None,
    }
}
