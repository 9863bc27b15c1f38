//! The path to the function behind slow calls, by samples and waits, as text.

use wakepath_engine::{CallsAnswer, FunctionStacks};
use wakepath_findings::{ENOUGH_SAMPLES, ENOUGH_WAITS, SampledDoubt, SampledPath};

use super::calls::calls_named;
use crate::escape::escape;
use crate::screen::{Layout, Line, Screen, Style};
use crate::units::{count, duration, rough_share};
use crate::wording;

/// The words for a path's times.
struct Words<'a> {
    /// The whole: `of the difference`.
    whole: &'a str,
    /// The unit of its times: ` a call`.
    each: &'a str,
}

/// The functions below the asked function, each with its part of the difference; nothing is ranked where there are too few samples and waits.
pub fn function_path(answer: &CallsAnswer, path: &SampledPath, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    head(answer, &mut screen);
    let seen = format!("{} in {}", seen(path), calls_named(answer));
    let whole = if answer.usual.is_some() { "of the difference" } else { "of the time" };
    let function = function(answer.target.bytes());
    if is_ranked(path, &seen, &function, &mut screen) {
        screen.indented(2, format!("by samples, without probes below it: {seen}"));
        steps(path, &function, &Words { whole, each: " a call" }, &mut screen);
    }
    screen.into_text()
}

/// The functions below a function whose calls are not known, and its waits.
pub fn function_stacks(answer: &FunctionStacks, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let (FunctionStacks { path, waits, .. }, target) = (answer, answer.waits.target.bytes());
    let mut line = Line::strong(escape(target));
    let (pid, comm) = &answer.process;
    let comm = comm.map(|comm| format!(" in {} ({})", wording::comm(comm), pid.number()));
    line.push(Style::Normal, comm.unwrap_or_default());
    screen.wrapped(0, line);
    let function = function(target);
    let recorded = duration(answer.window_ns);
    let seen = format!("{} below {function} in {recorded}", seen(path));
    if is_ranked(path, &seen, &function, &mut screen) {
        screen.indented(
            2,
            format!("not call by call: {seen} ({} of the process)", count(answer.samples, "sample")),
        );
        let words = Words { whole: "of its time", each: &format!(" in {recorded}") };
        steps(path, &function, &words, &mut screen);
    }
    if waits.asked.calls > 0 {
        screen.blank();
    }
    let mut text = screen.into_text();
    if waits.asked.calls > 0 {
        text += &super::calls(waits, layout);
    }
    text
}

/// The samples and waits in words.
fn seen(path: &SampledPath) -> String {
    format!("{} and {}", count(path.spent.samples, "sample"), count(path.spent.waits, "wait"))
}

/// Whether samples and waits rank functions; if not, says why.
fn is_ranked(path: &SampledPath, seen: &str, function: &str, screen: &mut Screen) -> bool {
    if path.doubts.contains(&SampledDoubt::Few) {
        let text = format!(
            "{seen} are too few to rank functions: {ENOUGH_SAMPLES} samples or {ENOUGH_WAITS} waits are enough"
        );
        screen.indented(2, Line::warning(text));
    } else if !path.is_ranked() {
        let text = format!(
            "{seen} rank no functions: most of their stacks do not show {function}, which may have left by a jump"
        );
        screen.indented(2, Line::warning(text));
    }
    path.is_ranked()
}

/// The functions, each with its part, and doubts about them.
fn steps(path: &SampledPath, function: &str, words: &Words<'_>, screen: &mut Screen) {
    let Words { whole, each } = words;
    screen.blank();
    let more_ns = path.more_ns.max(1.0) as u64;
    let part = |ns: f64| rough_share((ns.max(0.0) as u64).min(more_ns), more_ns);
    screen.wrapped(0, Line::faint("  ").add(Style::Strong, function));
    for (depth, step) in path.steps.iter().enumerate() {
        let line = Line::faint(format!("  {}└─ ", "   ".repeat(depth)))
            .add(Style::Strong, wording::function(&step.frame))
            .add(Style::Faint, format!("  {}", part(step.more_ns)));
        screen.wrapped(0, line);
    }
    let last = path.steps.last().map_or_else(|| function.to_owned(), |step| wording::function(&step.frame));
    let waits = if path.waits { ", which waited there" } else { " itself" };
    let sentence = format!(
        "about {} {whole} ({} of {}{each}) is in {last}{waits}",
        part(path.own_ns),
        duration(path.own_ns.max(0.0) as u64),
        duration(more_ns)
    );
    screen.wrapped(0, sentence);
    let elsewhere = [
        (path.ready_ns, "it was ready to run and had no CPU"),
        (path.probes_ns, "the kernel worked for probes"),
    ];
    for (ns, what) in elsewhere.into_iter().filter(|(ns, _)| ns * 10.0 > path.more_ns) {
        screen.indented(2, format!("{} {whole} ({}{each}) {what}", part(ns), duration(ns as u64)));
    }
    for doubt in &path.doubts {
        let caller = |step: usize| match step.checked_sub(1) {
            Some(above) => wording::function(&path.steps[above].frame),
            None => function.to_owned(),
        };
        let text = match doubt {
            SampledDoubt::Few => continue,
            SampledDoubt::Close(step, Some(other)) => {
                format!(
                    "{}, called by {}, has nearly as many samples",
                    wording::function(other),
                    caller(*step)
                )
            }
            SampledDoubt::Close(step, None) => format!("{} itself has nearly as many samples", caller(*step)),
            SampledDoubt::Unplaced(lost, all) => {
                format!("the stacks of {lost} of {all} samples and waits do not show {function}")
            }
        };
        screen.indented(2, Line::warning(format!("not certain: {text}")));
    }
}

/// The function, and the process that calls it.
fn head(answer: &CallsAnswer, screen: &mut Screen) {
    let mut line = Line::strong(escape(answer.target.bytes()));
    if let Some(call) = answer.asked.paths.first() {
        let thread = call.recorded.thread_at(call.path.window.thread, call.path.window.to);
        line = line.add(
            Style::Normal,
            format!(" in {} ({})", wording::comm(thread.comm), thread.tgid.unwrap_or(thread.tid).number()),
        );
    }
    screen.wrapped(0, line);
}

/// The asked function, without its file.
fn function(target: &[u8]) -> String {
    let place = target.iter().position(|byte| *byte == b':').map_or(0, |colon| colon + 1);
    escape(&target[place..])
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use wakepath_findings::{GroupTimes, PerGroup, Spent, Step};
    use wakepath_loaded::Frame;
    use wakepath_symbols::{Found, Function};

    use super::*;
    use crate::sample::{calls_of, function_stacks_of};

    fn frame(name: &str) -> Frame {
        let function = Function { name: name.to_owned(), module: Some(b"app".to_vec()), line: None };
        Frame { found: Found::Function(function), in_kernel: false, proved: true }
    }

    fn step(name: &str, more_ns: f64) -> Step {
        Step { frame: frame(name), spent: Spent::default(), more_ns }
    }

    /// `look_up` and `read\x1b` have 9 and 8 of 10 ms more.
    fn path() -> SampledPath {
        SampledPath {
            steps: vec![step("look_up", 9e6), step("read\x1b", 8e6)],
            times: PerGroup { asked: GroupTimes::default(), usual: GroupTimes::default() },
            spent: Spent { samples: 400, waits: 1, waited_ns: 5 },
            more_ns: 10e6,
            ready_ns: 1e6,
            probes_ns: 0.0,
            own_ns: 7.5e6,
            waits: false,
            doubts: Vec::new(),
        }
    }

    fn text(path: &SampledPath) -> String {
        let mut text = String::new();
        calls_of(|answer| text = function_path(answer, path, Layout::PLAIN));
        text
    }

    #[test]
    fn each_function_stands_below_its_caller_with_its_part_of_the_difference() {
        expect![[r#"
            ./app:handle in worker (10)
              by samples, without probes below it: 400 samples and 1 wait in 20 calls of peak 2

              handle
              └─ look_up (app)  90%
                 └─ read\x1b (app)  80%
            about 75% of the difference (7.50 ms of 10.0 ms a call) is in read\x1b (app) itself
        "#]]
        .assert_eq(&text(&path()));
        expect![[r#"
            ./app:handle in worker (10)
              by samples, without probes below it: 400 samples and 1 wait in 20 calls of peak 2

              handle
            about 75% of the difference (7.50 ms of 10.0 ms a call) is in handle, which waited there
              11% of the difference (1.10 ms a call) it was ready to run and had no CPU
        "#]]
        .assert_eq(&text(&SampledPath { steps: Vec::new(), waits: true, ready_ns: 1.1e6, ..path() }));
        let lines = |probes_ns| text(&SampledPath { probes_ns, ..path() }).lines().count();
        assert_eq!([lines(0.0), lines(1e6), lines(1.1e6)], [7, 7, 8]);
        let text = text(&SampledPath { probes_ns: 2e6, ..path() });
        let last = "  20% of the difference (2.00 ms a call) the kernel worked for probes\n";
        assert!(text.ends_with(last), "{text}");
    }

    #[test]
    fn doubts_name_the_other_function_and_the_caller() {
        let doubts = vec![
            SampledDoubt::Close(0, Some(frame("other"))),
            SampledDoubt::Close(1, None),
            SampledDoubt::Close(2, Some(frame("memcpy"))),
            SampledDoubt::Unplaced(50, 401),
        ];
        let text = text(&SampledPath { doubts, ..path() });
        let doubts: Vec<_> =
            text.lines().filter_map(|line| line.trim().strip_prefix("not certain: ")).collect();
        assert_eq!(
            doubts,
            [
                "other (app), called by handle, has nearly as many samples",
                "look_up (app) itself has nearly as many samples",
                "memcpy (app), called by read\\x1b (app), has nearly as many samples",
                "the stacks of 50 of 401 samples and waits do not show handle",
            ]
        );
    }

    #[test]
    fn too_few_samples_rank_nothing() {
        let spent = Spent { samples: 29, waits: 9, waited_ns: 5 };
        expect![[r#"
            ./app:handle in worker (10)
              29 samples and 9 waits in 20 calls of peak 2 are too few to rank functions: 30 samples or 10 waits
              are enough
        "#]]
        .assert_eq(&text(&SampledPath { spent, doubts: vec![SampledDoubt::Few], ..path() }));
    }

    #[test]
    fn stacks_without_the_function_rank_nothing() {
        let ranked = |lost| text(&SampledPath { doubts: vec![SampledDoubt::Unplaced(lost, 401)], ..path() });
        assert!(ranked(200).contains("is in read\\x1b (app) itself"), "{}", ranked(200));
        expect![[r#"
            ./app:handle in worker (10)
              400 samples and 1 wait in 20 calls of peak 2 rank no functions: most of their stacks do not show
              handle, which may have left by a jump
        "#]]
        .assert_eq(&ranked(201));
    }

    fn stacks(path: SampledPath) -> String {
        let mut text = String::new();
        function_stacks_of(path, |answer| text = function_stacks(answer, Layout::PLAIN));
        text
    }

    #[test]
    fn time_in_a_function_without_calls_is_that_of_a_process() {
        let path = SampledPath { ready_ns: 0.0, ..path() };
        expect![[r#"
            ./app:handle in worker (10)
              not call by call: 400 samples and 1 wait below handle in 6.00 ms (990 samples of the process)

              handle
              └─ look_up (app)  90%
                 └─ read\x1b (app)  80%
            about 75% of its time (7.50 ms of 10.0 ms in 6.00 ms) is in read\x1b (app) itself

            20 waits in ./app:handle took 100 µs on average: mostly waiting for a lock that holder held, which
            spent that time running (>99% of it, the largest cause in 20 of 20 waits)

             a wait  what the time went to
            99.9 µs  waiting for a lock that holder held: running
             200 ns  all other causes

            lost 0 records
        "#]]
        .assert_eq(&stacks(path.clone()));
        let few = SampledPath { doubts: vec![SampledDoubt::Few], ..path };
        expect![[r#"
            ./app:handle in worker (10)
              400 samples and 1 wait below handle in 6.00 ms are too few to rank functions: 30 samples or 10
              waits are enough"#]]
        .assert_eq(&stacks(few).lines().take(3).collect::<Vec<_>>().join("\n"));
    }
}
