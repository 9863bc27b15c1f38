//! Reads recordings into a graph: one host, or several on one clock.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wakepath_clock::Stamp;
use wakepath_event::{EventKind, EventSource, HostIndex};
use wakepath_import::Lttng;
use wakepath_import::perf::by_run;
use wakepath_sync::Synchronisation;
use wakepath_wait_graph::Builder;

use crate::go_traces;
use crate::hosts::{self, LinkedHost, Progress};
use crate::source::{OpenError, Source};
use crate::{Host, ProblemKind, Recorded, Survey};

/// Reads the recording in the directory `path`, or another tracer's trace there, and builds its graph. `progress` is
/// called now and then with the size read so far and the recording's stated size.
///
/// # Errors
/// When its format is unknown, a newer wakepath wrote it, or it cannot be read at all. Damage inside is not an error
/// but a problem in [`Recorded::problems`]: the readable part is there.
pub fn open(path: &Path, progress: impl FnMut(u64, u64)) -> Result<Recorded, OpenError> {
    read_one(&Source::open(path)?, progress)
}

fn read_one(source: &Source, mut progress: impl FnMut(u64, u64)) -> Result<Recorded, OpenError> {
    let expected = source.description().size;
    let mut builder = Builder::default();
    let mut survey = Survey::default();
    let problems = source.read(
        |event| {
            builder.push(event);
            survey.observe(event);
        },
        |done| progress(done, expected),
    );
    let mut recorded = Recorded::from_source(source.description(), builder.finish(), survey, problems);
    go_traces::join(&mut recorded, HostIndex::default(), source.go_traces(), &Stamp::from_ns);
    Ok(recorded)
}

/// Reads recordings for a question about programs' own marks. Programs' traces without the kernel's answer it too.
///
/// # Errors
/// The errors of [`open_all`].
pub fn open_marks(paths: &[PathBuf], progress: impl FnMut(u64, u64)) -> Result<Recorded, OpenError> {
    match (open_all(paths, progress), paths) {
        (Err(OpenError::Trace(wakepath_import::OpenError::ProgramsOnly { .. })), [path]) => {
            let source = Lttng::open_programs(path)?;
            let mut builder = Builder::default();
            let mut survey = Survey::default();
            let damages = source.for_each(|event| {
                builder.push(event);
                survey.observe(event);
            });
            let problems = damages.into_iter().map(ProblemKind::Trace).collect();
            Ok(Recorded::from_source(source.description(), builder.finish(), survey, problems))
        }
        (opened, _) => opened,
    }
}

/// Several hosts' recordings, and how their clocks relate.
#[derive(Debug)]
pub struct Synchronised {
    /// The recordings' paths.
    pub sources: Vec<PathBuf>,
    /// The hosts, in the same order.
    pub hosts: Vec<Host>,
    /// Their clocks.
    pub clocks: Synchronisation,
}

/// Compares the clocks in several hosts' recordings; the parts of one recording count as one. The reference is the host from which most others can be reached.
///
/// # Errors
/// The errors of [`open`], and when two recordings come from the same host.
pub fn sync(paths: &[PathBuf], mut progress: impl FnMut(u64, u64)) -> Result<Synchronised, OpenError> {
    let sources = open_different_hosts(paths)?;
    let clocks = hosts::clocks(&sources, None, &mut Progress::new(&sources, &mut progress));
    Ok(Synchronised {
        sources: sources.iter().map(|source| source.description().path.clone()).collect(),
        hosts: sources.iter().map(|source| Host::from(&source.description().host)).collect(),
        clocks,
    })
}

/// Reads several hosts' recordings as one, on the first host's clock; parts of a recording (`perf record --switch-output`)
/// are one recording of one host. A host without packets that link it to the first
/// is left out, with a problem in [`Recorded::problems`].
///
/// # Errors
/// The errors of [`open`], and when two recordings come from the same host.
pub fn open_all(paths: &[PathBuf], mut progress: impl FnMut(u64, u64)) -> Result<Recorded, OpenError> {
    let sources = open_different_hosts(paths)?;
    if let [source] = &sources[..] {
        return read_one(source, progress);
    }
    let mut progress = Progress::new(&sources, &mut progress);
    let clocks = hosts::clocks(&sources, Some(0), &mut progress);
    let linked: Vec<_> = sources
        .iter()
        .zip(&clocks.hosts)
        .enumerate()
        .filter_map(|(place, (source, host))| {
            Some(LinkedHost { source: source.as_ref(), place, clock: host.transform.as_ref()? })
        })
        .collect();
    let mut builder = Builder::default();
    let mut survey = Survey::default();
    let mut begins = vec![None; linked.len()];
    let (numbering, damages) = hosts::for_each(&linked, &mut progress, |host, next| match next {
        hosts::Next::Event(event) => {
            survey.observe_on(host, event);
            let is_mark = matches!(event.kind, EventKind::UserMark(_) | EventKind::UserMarksLost { .. });
            if !is_mark && (host == HostIndex::default() || !matches!(event.kind, EventKind::Clocks(_))) {
                builder.push(event);
                begins[usize::from(host.0)].get_or_insert(event.at.on_reference_host());
            }
        }
        hosts::Next::Mark(event) => survey.observe_on(host, event),
        hosts::Next::End(numbering) => builder.end_host(host, numbering.cpus_of(host)),
    });
    let graph = builder.finish();
    let mut problems = Vec::new();
    for (host, (source, begin)) in (0..).map(HostIndex).zip(linked.iter().zip(begins)) {
        // Different hosts' recordings never begin or end together.
        let tolerated = graph.to().since(graph.from()) / 100;
        let notable = |ns: u64| if ns > tolerated { ns } else { 0 };
        let late_ns = notable(begin.map_or(0, |begin| begin.since(graph.from())));
        let early_ns = notable(graph.to().since(graph.end_of(host)));
        if late_ns + early_ns > 0 {
            let recording = source.source.description().path.clone();
            problems.push(ProblemKind::PartlyRecorded { recording, late_ns, early_ns });
        }
    }
    for (source, damages) in linked.iter().zip(damages) {
        let path = &source.source.description().path;
        let of_one = |damage| ProblemKind::OneOfSeveral(path.to_owned(), Box::new(damage));
        problems.extend(damages.into_iter().map(of_one));
    }
    for (source, clock) in sources.iter().zip(&clocks.hosts) {
        if clock.transform.is_none() {
            let [recording, reference] =
                [source, &sources[0]].map(|source| source.description().path.clone());
            problems.push(ProblemKind::HostUnlinked { recording, reference });
        }
    }
    let mut recorded = Recorded::from_source(sources[0].description(), graph, survey, problems);
    let others = linked.iter().skip(1).map(|linked| linked.source.description());
    recorded.sources = linked.iter().map(|linked| linked.source.description().path.clone()).collect();
    recorded.others = others.clone().map(|description| Host::from(&description.host)).collect();
    recorded.descriptions = others.cloned().collect();
    recorded.clocks = linked.iter().map(|linked| linked.clock.clone()).collect();
    recorded.numbering = Some(numbering);
    for (host, linked) in (0..).map(HostIndex).zip(&linked) {
        let convert = |ns| Stamp::from_ns(linked.clock.convert(Stamp::from_ns(ns)).0.ns());
        go_traces::join(&mut recorded, host, linked.source.go_traces(), &convert);
    }
    Ok(recorded)
}

/// Opens recordings, which must differ in their hosts.
fn open_different_hosts(paths: &[PathBuf]) -> Result<Vec<Arc<Source>>, OpenError> {
    let open = |parts: &Vec<PathBuf>| Source::open_parts(parts).map(Arc::new);
    let sources: Vec<Arc<Source>> = by_run(paths)?.iter().map(open).collect::<Result<_, OpenError>>()?;
    for (index, second) in sources.iter().enumerate() {
        let second = second.description();
        let boot_id = &second.host.boot_id;
        let mut earlier = sources[..index].iter().map(|source| source.description());
        if let Some(first) = earlier.find(|first| !boot_id.is_empty() && first.host.boot_id == *boot_id) {
            return Err(OpenError::OneHost {
                first: first.path.clone(),
                second: second.path.clone(),
                host: second.host.name.clone(),
            });
        }
        // perf notes no boot id, so that a host is known by its name.
        let is_named =
            |one: &Source| matches!(one, Source::PerfData(_)) && !one.description().host.name.is_empty();
        let name = &second.host.name;
        let same = |first: &&Arc<Source>| is_named(first) && first.description().host.name == *name;
        if let Some(first) = sources[..index].iter().find(same).filter(|_| is_named(&sources[index])) {
            return Err(OpenError::OneName {
                first: first.description().path.clone(),
                second: second.path.clone(),
                host: name.clone(),
                tracer: "perf record",
            });
        }
    }
    Ok(sources)
}
