use std::path::Path;

use wakepath_critical_path::{Problem, Severity};
use wakepath_recording::{OpenError, Recording};
use wakepath_wait_graph::Builder;

use crate::recorded::Format;
use crate::{Host, Name, Recorded, Survey};

/// How many events pass between two calls of a progress function: a few a second.
const PROGRESS_EVERY: u64 = 1 << 21;

/// Reads the recording in the directory `path` and builds its graph. `progress` is called now and
/// then with how many of how many events are read; the second is what the recording says of itself.
///
/// # Errors
/// When it is no recording, a newer wakepath wrote it, or it cannot be read at all. Damage inside is
/// not an error but a problem of [`Recorded::problems`]: what could be read is there.
pub fn open(path: &Path, mut progress: impl FnMut(u64, u64)) -> Result<Recorded, OpenError> {
    let recording = Recording::open(path)?;
    let expected = recording.streams().iter().map(|stream| stream.records).sum();
    let mut builder = Builder::default();
    let mut survey = Survey::default();
    let mut events = 0_u64;
    let damages = recording.for_each(|event| {
        builder.push(event);
        survey.observe(event);
        events += 1;
        if events.is_multiple_of(PROGRESS_EVERY) {
            progress(events, expected);
        }
    });
    let graph = builder.finish();
    let problems = damages
        .iter()
        .map(|damage| Problem {
            severity: Severity::Doubt,
            text: format!("damaged recording: {damage}"),
            from: graph.from(),
            to: graph.to(),
            thread: None,
        })
        .collect();
    let of = recording.host();
    let host = Host {
        boot_id: of.boot_id.clone(),
        name: Name::from(of.name.as_str()),
        kernel: Name::from(of.kernel_release.as_str()),
        machine: Name::from(of.machine.as_str()),
    };
    let mut recorded = Recorded::new(path.to_owned(), host, graph, survey, problems);
    recorded.realtime_offset_ns = Some(recording.realtime_offset_ns());
    recorded.cgroup = recording.cgroup().map(Name::from);
    recorded.format = Some(Format {
        number: recording.format(),
        writer: recording.writer_version().to_owned(),
        options: recording.options().to_owned(),
        bytes: recording.streams().iter().map(|stream| stream.bytes).sum(),
        streams: recording.streams().len(),
        // A counter is whatever a packet says.
        discarded: recording.streams().iter().map(|stream| stream.discarded).fold(0, u64::saturating_add),
    });
    Ok(recorded)
}
