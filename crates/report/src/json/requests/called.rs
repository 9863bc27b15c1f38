//! A called request in a request's document.

use serde::Serialize;
use wakepath_engine::requests::{CalledRequest, Traced};

#[derive(Serialize)]
pub struct CalledJson<'a> {
    trace_id: String,
    span_id: String,
    service: &'a str,
    operation: &'a str,
    /// The root span of the request that called it.
    caller_span_id: String,
    /// The number of calls in between.
    depth: u32,
    total_ns: u64,
}

impl<'a> CalledJson<'a> {
    pub fn new(traced: &'a Traced, called: &CalledRequest) -> Self {
        let (root, operation) = (traced.root(called.request), traced.operation(called.request));
        Self {
            trace_id: root.trace.to_string(),
            span_id: root.id.to_string(),
            service: &operation.service,
            operation: &operation.name,
            caller_span_id: traced.root(called.caller).id.to_string(),
            depth: called.depth,
            total_ns: called.total_ns,
        }
    }
}
