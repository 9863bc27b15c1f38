//! A goroutine's waits, in Go's words.

use std::path::Path;
use std::path::PathBuf;

use wakepath_engine::record::{GoPrograms, GoStarted};
use wakepath_engine::requests::{Reason, RequestGoroutine, RequestIndex};
use wakepath_engine::{CallsAnswer, Ender};

use super::requests::operation_name;
use crate::escape::escape;
use crate::units::them;
use crate::units::{count, duration, was};
use crate::wording;

/// Rows beyond this many are left to `--json`.
const MAX_ROWS: usize = 8;
/// Files beyond this many are counted.
const MAX_FILES: usize = 4;

/// Sentences on the Go programs at a recording's beginning, with labels: slowed programs, programs with unseen
/// goroutines, and programs left alone.
pub fn goroutines(found: &GoPrograms) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(files) = files(found.probed.iter().map(PathBuf::as_path)) {
        let them = them(found.probed.len() as u64);
        lines.push(if found.spans_alone {
            ("note", format!("the goroutine of each span of {files} is recorded: each span takes about 1 µs longer"))
        } else {
            let text = format!(
                "the goroutines of {files} are recorded: each of their steps takes about 1 µs longer in all processes of {them} \
                 (--go-trace HOST:PORT: by the program's own trace, if it serves net/http/pprof; --goroutines=none: not recorded)"
            );
            ("warning", text)
        });
    }
    lines.extend(found.refused.iter().map(|one| ("note", goroutines_unseen(&one.path, &one.why))));
    if let Some(files) = files(found.left_alone.iter().map(PathBuf::as_path)) {
        let text = format!(
            "the goroutines of {files} are not recorded, so that the threads of their spans may not be known; \
             --goroutines=all records them, at about 1 µs for each of their steps"
        );
        lines.push(("note", text));
    }
    lines
}

/// Sentences on the Go programs that started during a recording, with labels.
pub fn goroutines_started(started: &GoStarted) -> Vec<(&'static str, String)> {
    let probed = started.probed.iter().take(MAX_FILES).map(|(file, after)| {
        let after = duration(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
        if started.spans_alone {
            let file = wording::file(file);
            let text = format!("the goroutines of the spans of {file}, which started meanwhile, are not known for the first {after}");
            return ("note", text);
        }
        let text = format!(
            "the goroutines of {}, which started meanwhile, are not known for the first {after}; since then each of their steps \
             took about 1 µs longer (--goroutines=none: not recorded)",
            wording::file(file)
        );
        ("warning", text)
    });
    let mut lines: Vec<_> = probed.collect();
    if let Some(more @ 1..) = started.probed.len().checked_sub(MAX_FILES) {
        lines.push(("warning", format!("and those of {}, in the same way", count(more as u64, "other"))));
    }
    lines.extend(started.refused.iter().map(|one| ("note", goroutines_unseen(&one.path, &one.why))));
    if let Some(files) = files(started.left_alone.iter().map(PathBuf::as_path)) {
        let text = format!(
            "the goroutines of {files}, which started meanwhile, were not recorded, so that the threads of their spans may not be \
             known; --goroutines=all records them, at about 1 µs for each of their steps"
        );
        lines.push(("note", text));
    }
    if let Some(files) = files(started.ended.iter().map(PathBuf::as_path)) {
        let they = if started.ended.len() == 1 { "it" } else { "they" };
        let text = format!(
            "the goroutines of {files} were not recorded: {they} ended before {they} could be probed"
        );
        lines.push(("note", text));
    }
    lines
}

/// Sentences on an execution trace of a Go program, with labels: its size, and the reason why it is not whole.
pub fn go_trace(url: &str, bytes: u64, failed: Option<&str>) -> Vec<(&'static str, String)> {
    let url = escape(url.as_bytes());
    let size = (bytes > 0)
        .then(|| ("note", format!("{} of Go's execution trace came from {url}", crate::units::bytes(bytes))));
    let failed = failed.map(|why| {
        let what = if bytes > 0 { "not whole" } else { "missing: no goroutine is known" };
        ("warning", format!("the execution trace of {url} is {what}: {}", escape(why.as_bytes())))
    });
    size.into_iter().chain(failed).collect()
}

/// The first files in a list, in words; `None` for an empty list.
fn files<'p>(mut files: impl Iterator<Item = &'p Path>) -> Option<String> {
    let named: Vec<_> = files.by_ref().take(MAX_FILES).map(wording::file).collect();
    let others = match files.count() {
        0 => String::new(),
        others => format!(" and {}", count(others as u64, "other")),
    };
    (!named.is_empty()).then(|| format!("{}{others}", named.join(", ")))
}

/// The sentence for a Go program whose goroutines are not seen.
pub fn goroutines_unseen(file: &Path, why: &str) -> String {
    format!("the goroutines of {} are not seen: {}", wording::file(file), escape(why.as_bytes()))
}

/// Lines on the times in which a request's goroutine did not run, each with its time; a line without a time is a
/// heading. `name` names another request.
pub(super) fn waits(
    of: &RequestGoroutine,
    name: impl Fn(RequestIndex) -> String,
) -> Vec<(Option<u64>, String)> {
    let mut lines = Vec::new();
    if of.parked.is_empty() {
        return lines;
    }
    lines.push((None, format!(" share     time  the time in which goroutine {} did not run", of.number)));
    for parked in of.parked.iter().take(MAX_ROWS) {
        let mut text = format!("{}, {}", reason(&parked.reason), count(parked.times, "time"));
        if let Some((request, ns)) = parked.ended_by {
            let most = if ns < parked.total_ns { format!("{} of it ", duration(ns)) } else { String::new() };
            text += &format!("; {most}ended by a goroutine that worked for {}", name(request));
        }
        lines.push((Some(parked.total_ns), text));
    }
    lines
}

/// Lines on the times in which the calls' goroutines did not run, each with its time; a line without a time is a heading.
pub(super) fn waits_of_calls(answer: &CallsAnswer) -> Vec<(Option<u64>, String)> {
    let mut lines = Vec::new();
    let of = answer.asked.paths.first().map(|path| path.recorded);
    let Some(recorded) = of.filter(|_| !answer.parked.is_empty()) else { return lines };
    let heading =
        format!("{}  the time in which their goroutines did not run", super::calls::each(answer.of));
    lines.push((None, heading));
    let calls = answer.asked.paths.len().max(1) as u64;
    for parked in answer.parked.iter().take(MAX_ROWS) {
        let mut text = format!("{}, {}", reason(&parked.reason), count(parked.times, "time"));
        if let Some((Ender { number, function, thread, at, request }, ns)) = &parked.ended_by {
            let part = |ns: u64, of: u64| match ns < of {
                true => format!("{} of it ", duration(ns / calls)),
                false => String::new(),
            };
            let function = function.as_ref().and_then(wording::function_name);
            let function = function.map(|name| format!(" ({name})")).unwrap_or_default();
            let thread = wording::thread(recorded, *thread, *at);
            let most = part(*ns, parked.total_ns);
            text += &format!("; {most}ended by goroutine {number}{function}, in {thread}");
            if let Some(request) = request {
                let name = operation_name(&request.operation);
                text += &format!(
                    ", which worked {}for {name}, request {}",
                    part(request.total_ns, *ns),
                    request.trace
                );
            }
        }
        lines.push((Some(parked.total_ns / calls), text));
    }
    lines
}

/// The way in which a request's goroutine is known.
pub(super) fn how(of: &RequestGoroutine) -> String {
    let left_out = match of.spans_left_out {
        0 => String::new(),
        more => format!(
            ". {} of it {} not searched for goroutines that went on with it: there are more than can be",
            count(more, "span"),
            was(more)
        ),
    };
    format!(
        "Its work was done by goroutine {}, in which a probe saw its span begin; each goroutine is taken to work for the span that it \
         began last. A goroutine that does not run has the thread that ran it last{left_out}",
        of.number
    )
}

/// A reason in a sentence; an unknown reason in the runtime's words.
fn reason(reason: &Reason) -> String {
    let name = match reason {
        Reason::Named(name) => name.bytes(),
        Reason::Numbered(number) => return format!("waiting for reason {number} of its Go version"),
        Reason::Queued => return String::from("ready, in a queue of Go's scheduler"),
        Reason::Unknown => return String::from("in a state that is not known"),
    };
    let known = match name {
        b"sync.Mutex.Lock" => "waiting for a sync.Mutex",
        b"sync.RWMutex.Lock" => "waiting for a sync.RWMutex, to write",
        b"sync.RWMutex.RLock" => "waiting for a sync.RWMutex, to read",
        b"sync.WaitGroup.Wait" => "waiting for a sync.WaitGroup",
        b"sync.Cond.Wait" => "waiting for a sync.Cond",
        b"semacquire" => "waiting for a semaphore",
        b"sleep" => "sleeping (time.Sleep)",
        b"IO wait" => "waiting for a connection or a file to be ready",
        b"chan receive" => "waiting to receive from a channel",
        b"chan send" => "waiting to send to a channel",
        b"select" => "waiting in a select",
        name => return format!("waiting for {}", escape(name)),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn probes_on_spans_alone_are_a_note_and_those_on_each_step_a_warning_with_the_cheaper_way() {
        let found = |spans_alone| GoPrograms {
            probed: vec!["/bin/shop".into()],
            spans_alone,
            ..GoPrograms::default()
        };
        let [(label, text)] = goroutines(&found(true)).try_into().expect("a line");
        assert_eq!(label, "note");
        assert_eq!(
            text,
            "the goroutine of each span of /bin/shop is recorded: each span takes about 1 µs longer"
        );
        let [(label, text)] = goroutines(&found(false)).try_into().expect("a line");
        assert_eq!(label, "warning");
        assert!(
            text.contains("each of their steps takes about 1 µs longer")
                && text.contains("--go-trace HOST:PORT"),
            "{text}"
        );
        let started = |spans_alone| GoStarted {
            probed: vec![("/bin/shop".into(), Duration::from_millis(30))],
            spans_alone,
            ..GoStarted::default()
        };
        let [(label, text)] = goroutines_started(&started(true)).try_into().expect("a line");
        assert_eq!(label, "note");
        assert!(
            text.contains(
                "the spans of /bin/shop, which started meanwhile, are not known for the first 30.0 ms"
            ),
            "{text}"
        );
        assert_eq!(goroutines_started(&started(false))[0].0, "warning");
    }

    #[test]
    fn a_trace_has_its_size_and_the_reason_why_it_is_not_whole() {
        let lines = |bytes, failed| -> Vec<String> {
            go_trace("http://a:1\x1b[2J/t", bytes, failed)
                .into_iter()
                .map(|(label, text)| format!("{label}: {text}"))
                .collect()
        };
        assert_eq!(
            lines(2048, None),
            ["note: 2.00 KiB of Go's execution trace came from http://a:1\\x1b[2J/t"]
        );
        assert_eq!(
            lines(0, Some("it ended")),
            [
                "warning: the execution trace of http://a:1\\x1b[2J/t is missing: no goroutine is known: it ended"
            ]
        );
        let [size, failed] = lines(5000, Some("it broke")).try_into().expect("two lines");
        assert!(
            size.starts_with("note: 4.88 KiB") && failed.ends_with("is not whole: it broke"),
            "{size}, {failed}"
        );
    }
}
