//! A recording's contents, as text.

use wakepath_critical_path::Severity;
use wakepath_engine::{CommandLine, InfoAnswer, Name};
use wakepath_event::{Comm, Tid};
use wakepath_loaded::Survey;

use super::{cost, footer, when};
use crate::screen::{Layout, Line, Screen};
use crate::units::{bytes, count, duration, part_of};
use crate::{problem, wording};

/// The most command lines that are shown, and the most letters in each.
const MAX_COMMAND_LINES: usize = 20;
const MAX_LETTERS: usize = 200;

/// A command line: `./app --token x (912)`.
fn command_line(line: &CommandLine<'_>) -> String {
    let words: Vec<_> = line.words.iter().map(|word| crate::escape(word)).collect();
    let text = words.join(" ");
    let cut = text.char_indices().nth(MAX_LETTERS).map(|(at, _)| format!("{}…", &text[..at]));
    format!("{} ({})", cut.unwrap_or(text), line.process)
}

/// A recording's hosts, events and rates, its losses and its cost.
pub fn info(info: &InfoAnswer, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let recorded = info.recorded;
    let (from, to) = (recorded.from(), recorded.to());
    let took = to.since(from);
    screen.wrapped(0, Line::strong(format!("{} recorded", duration(took))));
    screen.wrapped(0, Line::faint(when(&info.head, from, to)));
    screen.blank();
    let mut row = |name: &str, value: String| {
        let head = Line::faint(format!("{name:<12}"));
        screen.hanging(head, 12, value);
    };
    for host in std::iter::once(&info.head.host).chain(&info.head.others) {
        let known = |name: &Name, before: &str, otherwise: &str| match name.bytes() {
            [] => otherwise.to_owned(),
            _ => format!("{before}{}", wording::name(name)),
        };
        // Other tracers do not record all of it.
        let mut what = known(&host.name, "", "its name is not known");
        what += &known(&host.kernel, ", Linux ", ", its kernel neither");
        if !host.machine.bytes().is_empty() {
            what += &format!(" {}", wording::name(&host.machine));
        }
        if !host.boot_id.is_empty() {
            what += &format!(", boot {}", crate::escape(host.boot_id.as_bytes()));
        }
        row("host", what);
    }
    match recorded.clock {
        "monotonic" => {}
        "perf" => {
            row("clock", String::from("perf's own (perf record -k CLOCK_MONOTONIC uses the machine's)"))
        }
        "local" | "global" | "uptime" | "x86-tsc" => {
            row("clock", format!("ftrace's {} (trace-cmd record -C mono uses the machine's)", recorded.clock))
        }
        other => row("clock", other.to_owned()),
    }
    if let Some(command) = &recorded.survey.session.command {
        let words: Vec<_> = command.words.iter().map(wording::name).collect();
        let ended = command.status.map_or(String::new(), |status| format!(", {}", ended(status)));
        row("command", format!("{} ({}){ended}", words.join(" "), command.tgid));
    }
    if let Some(cgroup) = &recorded.cgroup {
        row("asked about", wording::name(cgroup));
    }
    let graph = &recorded.graph;
    // Some tracers name no thread's process.
    let processes = (info.processes > 0).then_some((info.processes, "process"));
    let counts =
        [(graph.cpus().count(), "CPU"), (graph.threads().len(), "thread")].into_iter().chain(processes);
    let counts: Vec<_> = counts.map(|(n, noun)| count(n as u64, noun)).collect();
    row("machine", counts.join(", "));
    if let Some(tracer) = &recorded.tracer {
        row("written by", wording::name(tracer));
    }
    if let Some(format) = &recorded.format {
        let total = recorded.survey.counts.total();
        let mean = format.bytes as f64 / total as f64;
        let each = if total == 0 { String::new() } else { format!(", {mean:.1} bytes per event") };
        let streams = count(format.streams as u64, "stream");
        row("on disk", format!("{} in {streams}{each}", bytes(format.bytes)));
        if let Some(received) = format.span_bytes {
            row("spans", if received == 0 { String::from("none came") } else { bytes(received) });
        }
        let writer = crate::escape(format.writer.as_bytes());
        row("written by", format!("wakepath {writer}, format {}", format.number));
    }
    if !info.unread_contexts.is_empty() {
        let named = |(tgid, comm): &(Tid, Option<Comm>)| {
            let comm = comm.as_ref().map_or(&[][..], |comm| comm.bytes());
            format!("{} ({tgid})", if comm.is_empty() { "?".into() } else { crate::escape(comm) })
        };
        let all: Vec<_> = info.unread_contexts.iter().map(named).collect();
        row("contexts", format!("could not be read of the threads of {}", all.join(", ")));
    }
    for line in info.command_lines.iter().take(MAX_COMMAND_LINES) {
        row("started", command_line(line));
    }
    if let Some(more @ 1..) = info.command_lines.len().checked_sub(MAX_COMMAND_LINES) {
        row("", format!("and {}: --json lists all", count(more as u64, "more program")));
    }
    let lost = footer::lost(&info.head.losses);
    row("lost", lost.strip_prefix("lost ").unwrap_or(&lost).to_owned());
    row("cost", cost::cost(&info.head).unwrap_or_else(|| String::from("not recorded")));
    for part in cost::parts(&info.head) {
        row("", part);
    }
    if let Some(counts) = recorded.survey.stacks {
        let mut text = format!(
            "{} taken, {} repeated; the stack cache was wrong in {} of {}",
            counts.taken,
            counts.repeated,
            counts.disagreed,
            count(counts.checked, "check")
        );
        if counts.doubtful > 0 {
            text += &format!(", so up to {} may belong to another wait", counts.doubtful);
        }
        row("stacks", text);
    }
    if let Some(text) = unwinding(&recorded.survey) {
        row("frames", text);
    }
    screen.blank();
    screen.unwrapped(Line::faint("     events     per second  kind"));
    let mut events: Vec<_> = recorded.survey.counts.by_name().into_iter().collect();
    events.sort_by_key(|(name, n)| (std::cmp::Reverse(*n), *name));
    for (name, n) in events {
        let rate =
            if took == 0 { String::from("–") } else { format!("{:.0}", n as f64 * 1e9 / took as f64) };
        screen.unwrapped(format!("{n:>11} {rate:>14}  {}", name.replace('_', " ")));
    }
    screen.blank();
    footer::problems(&mut screen, &info.head, "--explain");
    for problem in info.head.problems.iter().filter(|problem| problem.severity() == Severity::Note) {
        screen.wrapped(6, format!("note: {}", problem::sentence(problem)));
    }
    screen.into_text()
}

/// A wait status as a shell shows it.
fn ended(status: u32) -> String {
    match (status & 0x7f, status >> 8 & 0xff) {
        (0, code) => format!("exit code {code}"),
        (signal, _) => format!("killed by signal {signal}"),
    }
}

/// The number of proved program frames, and the unwinding time per stack, ns.
fn unwinding(survey: &Survey) -> Option<String> {
    let frames = [(survey.stack_frames, "those of waits"), (survey.sample_frames, "those of samples")];
    let mut parts: Vec<String> = frames
        .iter()
        .filter(|(frames, _)| frames.total > 0)
        .map(|(frames, what)| part_of(frames.proved, frames.total, what))
        .collect();
    if let Some(last) = parts.last_mut() {
        last.push_str(" proved");
    }
    if let Some(counts) = survey.unwinding {
        let taken = survey.stacks.map_or(0, |stacks| stacks.taken);
        if let Some(ns) = counts.taken_ns.checked_div(taken) {
            parts.push(format!("{ns} ns to read a stack"));
        }
        let finished = counts.copied.saturating_sub(counts.refused);
        if let Some(ns) = counts.unwound_ns.checked_div(finished) {
            let finished = count(finished, "stack");
            parts.push(format!("{ns} ns to finish one of {finished} whose rules were not known yet"));
        }
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}
