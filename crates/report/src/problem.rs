//! An answer's problems, in a sentence, and as JSON names them.

use wakepath_critical_path::{ProblemKind as OnPath, Share};
use wakepath_engine::{Problem, ProblemKind};
use wakepath_event::{Damage, DamageKind};

use crate::escape::escape;
use crate::units::{count, duration, percent_text, was};
use crate::wording;

/// A problem in a sentence, on which no script may build: [`code`] is for scripts.
pub fn sentence(problem: &Problem) -> String {
    let sentence = kind(&problem.kind);
    match problem.other_calls {
        0 => sentence,
        1 => format!("{sentence} (in one call; another call has the same problem)"),
        others => format!("{sentence} (in one call; {others} other calls have the same problem)"),
    }
}

/// A problem as the contract names it.
pub const fn code(kind: &ProblemKind) -> &'static str {
    match kind {
        ProblemKind::Path(OnPath::WindowOutside) => "window_outside",
        ProblemKind::Path(OnPath::RecordsLost { .. }) => "records_lost",
        ProblemKind::Path(OnPath::SwitchesUnrecorded { .. }) => "switches_unrecorded",
        ProblemKind::Path(OnPath::Ambiguous(_)) => "ambiguous",
        ProblemKind::Path(OnPath::IoUring { .. }) => "io_uring",
        ProblemKind::Path(OnPath::PerhapsLate(_)) => "perhaps_late",
        ProblemKind::ClockSet(_) => "clock_set",
        ProblemKind::Suspended(_) => "suspended",
        ProblemKind::Stolen(_) => "stolen",
        ProblemKind::StackCache(_) => "stack_cache",
        ProblemKind::CutOff => "cut_off",
        ProblemKind::HostUnlinked { .. } => "host_unlinked",
        ProblemKind::PartlyRecorded { .. } => "partly_recorded",
        ProblemKind::Recording(_) => "recording_damaged",
        ProblemKind::Trace(Damage { kind, .. }) => match kind {
            DamageKind::Fault(_) | DamageKind::More(_) => "trace_damaged",
            DamageKind::EventsSkipped { .. } => "events_skipped",
            DamageKind::NoWakings => "no_wakings",
            DamageKind::LateWakings => "late_wakings",
            DamageKind::UnmatchedInterrupts(_) => "unmatched_interrupts",
            DamageKind::StatesUndescribed => "states_undescribed",
            DamageKind::SampledTracepoints(_) => "sampled_tracepoints",
            DamageKind::SomeThreads => "some_threads",
            DamageKind::OtherBuffers(_) => "other_buffers",
            DamageKind::BufferFull { .. } => "buffer_full",
            DamageKind::CpusUnrecorded { .. } => "cpus_unrecorded",
            DamageKind::BeginMissing { .. } => "begin_missing",
            DamageKind::EndMissing { .. } => "end_missing",
            DamageKind::CoarseClock => "coarse_clock",
            DamageKind::LinesUnreadable { .. } => "lines_unreadable",
            DamageKind::LinesLate { .. } => "lines_late",
            DamageKind::RoundedStamps => "rounded_stamps",
            DamageKind::ProgramsAlone => "programs_alone",
            DamageKind::ProgramsApart => "programs_apart",
            DamageKind::MarksWithoutThread => "marks_without_thread",
            DamageKind::MarksLost { .. } => "marks_lost",
        },
        ProblemKind::OneOfSeveral(_, kind) => code(kind),
    }
}

fn kind(of: &ProblemKind) -> String {
    match of {
        ProblemKind::Path(problem) => on_path(problem),
        ProblemKind::ClockSet(by_ns) => {
            let way = if *by_ns > 0 { "forward" } else { "back" };
            let by = u64::try_from(by_ns.unsigned_abs()).unwrap_or(u64::MAX);
            format!("the realtime clock was set {way} by {}", duration(by))
        }
        ProblemKind::Suspended(ns) => {
            format!("the machine was suspended for {}; no figure contains that time", duration(*ns))
        }
        ProblemKind::Stolen(ns) => format!(
            "running time may be up to {} too long: the hypervisor had the CPU meanwhile",
            duration(*ns)
        ),
        ProblemKind::StackCache(counts) => format!(
            "the stack cache was wrong in {} of {}; up to {} of {} may belong to another wait",
            counts.disagreed,
            count(counts.checked, "check"),
            counts.doubtful,
            count(counts.repeated, "repeated stack")
        ),
        ProblemKind::CutOff => {
            String::from("the recording was cut off: it ends at the last packet that was written")
        }
        ProblemKind::HostUnlinked { recording, reference } => format!(
            "{} is left out: no packet links its host to that of {}, so their clocks cannot be compared",
            wording::file(recording),
            wording::file(reference)
        ),
        &ProblemKind::PartlyRecorded { ref recording, late_ns, early_ns } => {
            let begins = (late_ns > 0).then(|| format!("begins {} after the first", duration(late_ns)));
            let ends = (early_ns > 0).then(|| format!("ends {} before the last", duration(early_ns)));
            let parts: Vec<_> = begins.into_iter().chain(ends).collect();
            format!(
                "the recording {} {}: outside that time nothing is known of its host",
                wording::file(recording),
                parts.join(" and ")
            )
        }
        ProblemKind::Recording(damage) => format!("damaged recording: {}", damaged(damage)),
        ProblemKind::Trace(damage) => damaged(damage),
        ProblemKind::OneOfSeveral(recording, problem) => match (wording::file(recording), kind(problem)) {
            (recording, sentence) if sentence.starts_with(&recording) => sentence,
            (recording, sentence) => format!("{recording}: {sentence}"),
        },
    }
}

/// CPUs as ranges, as the subject of a sentence.
fn cpus_were(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut().filter(|range| range.1.checked_add(1) == Some(cpu)) {
            Some(range) => range.1 = cpu,
            None => ranges.push((cpu, cpu)),
        }
    }
    let ranges = ranges.iter().map(|&(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    let (noun, were) = if cpus.len() == 1 { ("CPU", "was") } else { ("CPUs", "were") };
    format!("{noun} {} {were}", wording::list(&ranges.collect::<Vec<_>>(), 8))
}

fn damaged(damage: &Damage) -> String {
    let packet = damage.packet.map_or(String::new(), |packet| format!(", packet {packet}"));
    let offset = damage.offset.map_or(String::new(), |offset| format!(" at byte {offset}"));
    format!("{}{packet}{offset}: {}", escape(damage.file.as_bytes()), in_trace(&damage.kind))
}

fn on_path(problem: &OnPath) -> String {
    match *problem {
        OnPath::WindowOutside => String::from("the window reaches beyond what was recorded"),
        OnPath::RecordsLost { of, records, or_more, places, unexplained } => {
            let of = wording::lost_kind(of);
            let records = match (records, or_more) {
                (0, _) => format!("an unknown number of records{of} was"),
                // "1 or more" is plural.
                (_, true) => format!("{records} or more records{of} were"),
                (_, false) => format!("{}{of} {}", count(records, "record"), was(records)),
            };
            format!("{records} lost in {}{}", count(places, "place"), without_explanation(unexplained))
        }
        OnPath::SwitchesUnrecorded { switches, unexplained } => {
            let unexplained = without_explanation(unexplained);
            format!("{} {} not recorded{unexplained}", count(switches, "task switch"), was(switches))
        }
        OnPath::IoUring { waits: 1 } => {
            String::from("io_uring: which request ended the wait is not recorded")
        }
        OnPath::IoUring { waits } => {
            format!("io_uring: which requests ended {} is not recorded", count(waits, "wait"))
        }
        OnPath::Ambiguous(Share { ns, .. }) => {
            format!("{} could not be explained with certainty", duration(ns))
        }
        OnPath::PerhapsLate(Share { ns, .. }) => format!(
            "waits for timers and devices may be up to {} too long: the hypervisor had the CPUs that were to end them",
            duration(ns)
        ),
    }
}

fn without_explanation(Share { ns, of_ns }: Share) -> String {
    if ns == 0 { String::new() } else { format!("; {} of the time is unexplained", percent_text(ns, of_ns)) }
}

fn in_trace(damage: &DamageKind) -> String {
    match damage {
        DamageKind::Fault(fault) => escape(fault.as_bytes()),
        DamageKind::More(more) => format!("{} behind these", count(*more, "more fault")),
        DamageKind::EventsSkipped { count: skipped, first } => {
            let first = first.map_or(String::new(), |why| format!(" (the first: {why})"));
            format!("skipped {} whose fields make no sense{first}", count(*skipped, "event"))
        }
        DamageKind::NoWakings => String::from(
            "no wake-ups were recorded, so the reason of a wait is not known: record the tracepoint sched_waking",
        ),
        DamageKind::LateWakings => String::from(
            "sched_waking was not recorded, and sched_wakeup stands for it: a wake-up from another CPU may be \
             charged to the reschedule interrupt",
        ),
        DamageKind::UnmatchedInterrupts(ends) => {
            let ends = match ends {
                1 => String::from("1 entry or exit of an interrupt has"),
                ends => format!("{ends} entries or exits of interrupts have"),
            };
            format!(
                "{ends} no counterpart: a wake-up there may be charged to a thread instead of an interrupt"
            )
        }
        DamageKind::StatesUndescribed => String::from(
            "the states of threads are in doubt: the trace does not describe them, and their values do not show which \
             kernel's meaning they have; they are read with the likeliest",
        ),
        DamageKind::SampledTracepoints(names) => format!(
            "perf recorded only some hits of {}: -F and -c apply to every event; give the rate to the event that \
             is to be sampled (-e cpu-clock/freq=999/)",
            list(names)
        ),
        DamageKind::SomeThreads => String::from(
            "perf recorded some threads, not the machine: what other threads did is not known, nor when the \
             recorded ones got a CPU (record with perf record -a)",
        ),
        DamageKind::OtherBuffers(names) => {
            format!("the events of other buffers are not read: {}", list(names))
        }
        DamageKind::BufferFull { cpu, count: events } => format!(
            "{} of CPU {cpu} found no room in the buffer, and when is not known: record with a larger one \
             (trace-cmd record -b KIB)",
            count(*events, "event")
        ),
        DamageKind::CpusUnrecorded { cpus, wakings } => format!(
            "{} not recorded, though {} sent a thread there: between a wake-up and its next record, a thread may have run there unseen",
            cpus_were(cpus),
            count(*wakings, "wake-up")
        ),
        DamageKind::BeginMissing { cpu, late_ns } => format!(
            "the stream begins {} after the trace: before that nothing is known of CPU {cpu}",
            duration(*late_ns)
        ),
        DamageKind::EndMissing { cpu, early_ns } => format!(
            "the stream ends {} before the trace: from there on nothing is known of CPU {cpu}",
            duration(*early_ns)
        ),
        DamageKind::CoarseClock => String::from(
            "the clock advances only with the timer tick: shorter times read as 0 (record with -C mono)",
        ),
        DamageKind::LinesUnreadable { count: lines, first } => format!(
            "{} not understood, the first is line {first}: their events are missing",
            lines_were(*lines)
        ),
        DamageKind::LinesLate { count: lines, first } => format!(
            "{} left out, the first is line {first}: each stands too far behind lines with later stamps, and from its \
             stamp up to its CPU's next line nothing is known of that CPU",
            lines_were(*lines)
        ),
        DamageKind::RoundedStamps => String::from(
            "the stamps are exact to 1 us: shorter times read as 0 or 1 us (print nanoseconds: perf script --ns, \
             trace-cmd report -t; or give the binary file)",
        ),
        DamageKind::ProgramsAlone => String::from(
            "programs were traced without the kernel, so that why a time was long is not known: record the kernel beside \
             them (lttng enable-event --kernel sched_switch,sched_waking,sched_wakeup_new)",
        ),
        DamageKind::ProgramsApart => String::from(
            "the programs' marks here are not read: the trace does not show that its clock is the kernel trace's",
        ),
        DamageKind::MarksWithoutThread => String::from(
            "the programs' marks here do not name their threads: record them with lttng add-context -u -t vpid -t vtid",
        ),
        DamageKind::MarksLost { count: lost } => {
            let lost = lost.map_or(String::from("some of"), |lost| format!("{lost} or more of"));
            format!(
                "{lost} the programs' marks are lost: a program's state in which one may be missing is not measured"
            )
        }
    }
}

fn lines_were(lines: u64) -> String {
    format!("{} {}", count(lines, "line"), was(lines))
}

fn list(names: &[String]) -> String {
    escape(names.join(", ").as_bytes())
}
