use std::path::{Path, PathBuf};
use std::sync::Arc;

use wakepath_event::{EventKind, HostIndex};
use wakepath_sync::Synchronisation;
use wakepath_wait_graph::Builder;

use crate::hosts::{self, Progress, Told};
use crate::source::{OpenError, Source};
use crate::{Host, Problem, ProblemKind, Recorded, Survey};

/// Reads the recording in the directory `path`, or the trace that another tracer wrote there, and builds
/// its graph. `progress` is called now and then with how much of how much is read; the second is what
/// the recording says of itself.
///
/// # Errors
/// When it is neither, a newer wakepath wrote it, or it cannot be read at all. Damage inside is not an
/// error but a problem of [`Recorded::problems`]: what could be read is there.
pub fn open(path: &Path, mut progress: impl FnMut(u64, u64)) -> Result<Recorded, OpenError> {
    let source = Source::open(path)?;
    let expected = source.expected();
    let mut builder = Builder::default();
    let mut survey = Survey::default();
    let damages = source.for_each(
        |event| {
            builder.push(event);
            survey.observe(event);
        },
        |done| progress(done, expected),
    );
    let graph = builder.finish();
    let of_all = |kind| Problem::new(kind, graph.from(), graph.to());
    let problems = damages.into_iter().map(of_all).collect();
    let mut recorded = Recorded::new(path.to_owned(), source.host(), graph, survey, problems);
    recorded.realtime_offset_ns = source.realtime_offset_ns();
    recorded.cgroup = source.cgroup();
    recorded.format = source.format();
    recorded.tracer = source.tracer();
    recorded.clock = source.clock().name();
    Ok(recorded)
}

/// Recordings of several hosts, and how their clocks lie.
#[derive(Debug)]
pub struct Synchronised {
    /// Where each was read from.
    pub sources: Vec<PathBuf>,
    /// The hosts, in the same order.
    pub hosts: Vec<Host>,
    /// Their clocks.
    pub clocks: Synchronisation,
}

/// How the clocks of several hosts' recordings lie; the host from which most are reached is the reference.
///
/// # Errors
/// As [`open`], and when two are of one host.
pub fn sync(paths: &[PathBuf], mut progress: impl FnMut(u64, u64)) -> Result<Synchronised, OpenError> {
    let sources = of_different_hosts(paths)?;
    let clocks = hosts::clocks(&sources, None, &mut Progress::new(&sources, &mut progress));
    Ok(Synchronised {
        sources: paths.to_vec(),
        hosts: sources.iter().map(|source| source.host()).collect(),
        clocks,
    })
}

/// Reads recordings of several hosts as one, on the clock of the first. A host that no packet links to it
/// is left out, and that is a problem of [`Recorded::problems`].
///
/// # Errors
/// As [`open`], and when two are of one host.
pub fn open_all(paths: &[PathBuf], mut progress: impl FnMut(u64, u64)) -> Result<Recorded, OpenError> {
    if let [path] = paths {
        return open(path, progress);
    }
    let sources = of_different_hosts(paths)?;
    let mut progress = Progress::new(&sources, &mut progress);
    let clocks = hosts::clocks(&sources, Some(0), &mut progress);
    let linked: Vec<_> = sources
        .iter()
        .zip(&clocks.hosts)
        .enumerate()
        .filter_map(|(place, (source, host))| Some(Told { source, place, clock: host.transform.as_ref()? }))
        .collect();
    let mut builder = Builder::default();
    let mut survey = Survey::default();
    let (numbering, damages) = hosts::for_each(&linked, &mut progress, |host, event| {
        builder.push(event);
        // When another host's recording began is none of this one's business.
        if host == HostIndex::default() || !matches!(event.kind, EventKind::Mark(_)) {
            survey.observe(event);
        }
    });
    let graph = builder.finish();
    let mut problems = Vec::new();
    for (source, damages) in linked.iter().zip(damages) {
        let path = source.source.path();
        let of_one = |damage| ProblemKind::OneOfSeveral(path.to_owned(), Box::new(damage));
        problems.extend(damages.into_iter().map(of_one));
    }
    for (source, clock) in sources.iter().zip(&clocks.hosts) {
        if clock.transform.is_none() {
            let (recording, reference) = (source.path().to_owned(), sources[0].path().to_owned());
            problems.push(ProblemKind::HostUnlinked { recording, reference });
        }
    }
    let of_all = |kind| Problem::new(kind, graph.from(), graph.to());
    let problems = problems.into_iter().map(of_all).collect();
    let mut all = linked.iter().map(|told| told.source.host());
    let host = all.next().unwrap_or_default();
    let mut recorded = Recorded::new(sources[0].path().to_owned(), host, graph, survey, problems);
    recorded.others = all.collect();
    recorded.clocks = linked.iter().map(|told| told.clock.clone()).collect();
    recorded.numbering = Some(numbering);
    recorded.realtime_offset_ns = sources[0].realtime_offset_ns();
    recorded.cgroup = sources[0].cgroup();
    recorded.format = sources[0].format();
    recorded.tracer = sources[0].tracer();
    recorded.clock = sources[0].clock().name();
    Ok(recorded)
}

fn of_different_hosts(paths: &[PathBuf]) -> Result<Vec<Arc<Source>>, OpenError> {
    let sources =
        paths.iter().map(|path| Ok(Arc::new(Source::open(path)?))).collect::<Result<Vec<_>, OpenError>>()?;
    for (index, second) in sources.iter().enumerate() {
        let of = second.host();
        let same = |first: &&Arc<Source>| !of.boot_id.is_empty() && first.host().boot_id == of.boot_id;
        if let Some(first) = sources[..index].iter().find(same) {
            return Err(OpenError::OneHost {
                first: first.path().to_owned(),
                second: second.path().to_owned(),
                host: String::from_utf8_lossy(of.name.bytes()).into_owned(),
            });
        }
    }
    Ok(sources)
}
