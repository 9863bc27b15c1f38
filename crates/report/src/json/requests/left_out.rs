//! The spans that a document about requests lacks, as JSON.

use serde::Serialize;
use wakepath_engine::requests::Traced;

use crate::wording;

#[derive(Serialize)]
pub(super) struct LeftOutJson {
    /// Spans without an id or an end.
    spans_left_out: u64,
    /// The recordings whose spans are cut off: later spans are missing.
    spans_cut_off: Vec<String>,
    /// The files with cut or damaged spans: later spans are missing.
    spans_damaged: Vec<String>,
    /// Spans that are their own ancestors.
    spans_in_circles: u64,
}

impl LeftOutJson {
    pub(super) fn new(traced: &Traced) -> Self {
        Self {
            spans_left_out: traced.dropped.missing(),
            spans_cut_off: traced.torn.iter().map(|path| wording::file(path)).collect(),
            spans_damaged: traced.damaged.iter().map(|(path, _)| wording::file(path)).collect(),
            spans_in_circles: traced.requests.in_circles,
        }
    }
}
