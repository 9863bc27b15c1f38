//! The goroutines in which spans began: by the span ids, and by the services' processes.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use wakepath_clock::Reference;
use wakepath_goroutines::{GoroutineIndex, Goroutines, Process};
use wakepath_loaded::Recorded;
use wakepath_spans::{RequestIndex, ServiceIndex, Span, SpanIndex, Stint, Work, service_processes};

use crate::model::Traced;
use crate::places::Places;
use crate::process::line;

/// A recording's goroutines, and those in which its spans began.
#[derive(Debug, Default)]
pub struct SpanGoroutines {
    /// All goroutines.
    pub all: Goroutines,
    by_span: HashMap<SpanIndex, GoroutineIndex>,
}

impl SpanGoroutines {
    /// The goroutines in a recording.
    pub fn new(recorded: &Recorded, traced: &Traced, places: &Places) -> Self {
        let all = goroutines(recorded);
        let by_span = goroutines_by_span(recorded, traced, places, &all);
        Self { all, by_span }
    }

    /// A span's goroutine, if its beginning was seen.
    pub fn by_span(&self, span: SpanIndex) -> Option<GoroutineIndex> {
        self.by_span.get(&span).copied()
    }

    /// The goroutine of a request's root span, if its beginning was seen.
    pub fn by_request(&self, traced: &Traced, request: RequestIndex) -> Option<GoroutineIndex> {
        self.by_span(traced.request(request).root)
    }

    /// Each goroutine's active span, if its beginning was seen, until the program notes that it queued the work.
    pub fn work(&self, traced: &Traced, places: &Places) -> Work<GoroutineIndex, Reference> {
        Work::new(traced.spans.iter().filter_map(|(index, _)| {
            let thread = self.by_span(index)?;
            let (from, _) = places.times(traced, index);
            Some(Stint { thread, from, to: places.left(traced, index), span: index })
        }))
    }
}

/// A recording's goroutines.
pub fn goroutines(recorded: &Recorded) -> Goroutines {
    let thread = |tid, at| recorded.thread_between(tid, at, at);
    let survey = &recorded.survey;
    Goroutines::new(&recorded.graph, &survey.goroutines, &survey.goroutines_unseen, thread)
}

/// The process and the goroutine in which a span began.
type Begun = (Process, GoroutineIndex);

/// Each span's goroutine. Two processes may give the same ids, through a copied state or on purpose. The goroutine must be in a process that may
/// belong to the span's service; among several such processes, in the process that the service names; else it is not known.
fn goroutines_by_span(
    recorded: &Recorded,
    traced: &Traced,
    places: &Places,
    goroutines: &Goroutines,
) -> HashMap<SpanIndex, GoroutineIndex> {
    // On the span's host: elsewhere the number means another process.
    let begun = |index: SpanIndex, span: &Span| -> Vec<Begun> {
        let host = places.host(traced, index);
        let is_there = |process| Some(recorded.graph.thread(process).tid().host()) == host;
        goroutines.with_span(span.trace.0, span.id.0).filter(|(process, _)| is_there(*process)).collect()
    };
    let mut lines: HashMap<ServiceIndex, HashMap<Process, Vec<u32>>> = HashMap::new();
    let mut all: Vec<(SpanIndex, ServiceIndex, Vec<Begun>)> = Vec::new();
    for (index, span) in traced.spans.iter() {
        let begun = begun(index, span);
        if begun.is_empty() {
            continue;
        }
        if traced.spans.service(index).pid.is_some() {
            let (at, _) = places.times(traced, index);
            let of_service = lines.entry(span.service).or_default();
            for (process, _) in &begun {
                of_service.entry(*process).or_insert_with(|| line(recorded, *process, at));
            }
        }
        all.push((index, span.service, begun));
    }
    // Each service's processes, and those with the service's process number.
    let mut known: HashMap<ServiceIndex, (HashSet<Process>, HashSet<Process>)> = HashMap::new();
    for (service, lines) in lines {
        let Some(pid) = traced.spans.services[service.0 as usize].pid else { continue };
        let is_named =
            |(process, line): (&Process, &Vec<u32>)| (line.first() == Some(&pid)).then_some(*process);
        let named = lines.iter().filter_map(is_named).collect();
        known.insert(
            service,
            (service_processes(pid, lines.into_iter().collect()).into_iter().collect(), named),
        );
    }
    let chosen = all.into_iter().filter_map(|(index, service, mut begun)| {
        if let Some((may_be, named)) = known.get(&service) {
            begun.retain(|(process, _)| may_be.contains(process));
            if begun.iter().any(|(process, _)| named.contains(process)) {
                begun.retain(|(process, _)| named.contains(process));
            }
        }
        match begun.as_slice() {
            [(_, goroutine)] => Some((index, *goroutine)),
            _ => None,
        }
    });
    chosen.collect()
}
