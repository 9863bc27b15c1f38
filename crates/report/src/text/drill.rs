//! A drill-down's answer, as text: the call path, and the cause of the time at its end.

use wakepath_distribution::bounds;
use wakepath_engine::drill::{
    Contribution, Contributor, Decision, Doubt, DrillFunction, Drilled, End, Foreign, HandedOver, NoSites,
    NodeCause, NodeId, NotMeasured, Phases, RootCause, Sampled, SearchCost, Status, StopReason, Unmeasured,
};

use crate::escape::escape;
use crate::screen::{Layout, Line, Screen, Style};
use crate::units::{count, duration, is, share, was};

/// The peak, the call path to each cause, and the cause in a sentence; with `explain`, each decision's votes.
pub fn drill(answer: &Drilled, explain: bool, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    head(answer, &mut screen);
    for cause in &answer.root_causes {
        screen.blank();
        path(answer, cause, &mut screen);
    }
    if answer.root_causes.is_empty() {
        screen.blank();
        screen.wrapped(0, Line::warning("no function was found that takes the time"));
    }
    if explain {
        answer.decisions.iter().for_each(|decision| decided(answer, decision, &mut screen));
    }
    footer(answer, &mut screen);
    screen.into_text()
}

fn head(answer: &Drilled, screen: &mut Screen) {
    let (pid, comm) = &answer.process;
    let line = Line::strong(escape(answer.target.as_bytes()))
        .add(Style::Normal, format!(" in {} ({pid})", escape(comm.as_bytes())));
    screen.wrapped(0, line);
    let calls = answer.histogram.calls();
    let Some(peak) = answer.peak.checked_sub(1).and_then(|index| answer.peaks.get(index)) else { return };
    let [from, to] = [*bounds(peak.from_bucket).start(), *bounds(peak.to_bucket).end()].map(duration);
    screen.indented(
        2,
        Line::new().add(
            Style::Normal,
            format!(
                "peak {} of {}: {from} to {to}, {} of {} ({})",
                answer.peak,
                answer.peaks.len(),
                peak.count,
                count(calls, "call"),
                share(peak.count, calls)
            ),
        ),
    );
    if let Some(phases) = &answer.phases {
        screen.indented(2, Line::new().add(Style::Normal, in_phases(phases)));
    }
    if let Some(handed_over) = &answer.handed_over {
        from_others(handed_over, screen);
    }
}

/// The calls' requests, and their time from the hand-over to the beginning.
fn from_others(handed_over: &HandedOver, screen: &mut Screen) {
    let HandedOver { way, requests, not_followed, begun, in_peak, others } = handed_over;
    let by = escape(way.by.as_bytes());
    let within = way
        .within
        .as_ref()
        .map_or_else(String::new, |within| format!(" within {}", escape(within.as_bytes())));
    let requests = count(*requests, "request");
    let begun_of = format!("{} of {requests} that {by} handed over{within}", begun.requests);
    let others = match others {
        0 => String::new(),
        1 => String::from("; 1 other call was not measured"),
        others => format!("; {others} other calls were not measured"),
    };
    screen.indented(2, Line::new().add(Style::Normal, format!("calls that began with {begun_of}{others}")));
    if let Some(mean) = begun.mean_ns() {
        let of_peak = in_peak.mean_ns().map_or_else(String::new, |mean| {
            let calls = count(in_peak.requests, "measured call");
            format!(
                ", {} of {calls} of the peak {}",
                if in_peak.requests == 1 { "that" } else { "those" },
                duration(mean)
            )
        });
        let waited =
            format!("the requests waited for {} on average before they began{of_peak}", duration(mean));
        screen.indented(2, Line::new().add(Style::Normal, waited));
    }
    if *not_followed > 0 {
        let requests = count(*not_followed, "request");
        let text = format!("{requests} {} not followed: too many had not begun", was(*not_followed));
        screen.indented(2, Line::warning(text));
    }
}

/// The program's phases in which the calls began.
fn in_phases(Phases { marks, began }: &Phases) -> String {
    let phases = if *began == 1 { "phase" } else { "phases" };
    let mark = |mark: &Option<String>, none: &str| match mark {
        Some(function) => escape(function.as_bytes()),
        None => none.to_owned(),
    };
    let [from, to] = [mark(&marks.begins, "the beginning"), mark(&marks.ends, "the end")];
    format!("calls that began in {began} {phases}, from {from} to {to}")
}

/// A path's functions, each below its caller.
fn path(answer: &Drilled, cause: &RootCause, screen: &mut Screen) {
    for (depth, (node, votes)) in cause.path.iter().zip(levels(cause)).enumerate() {
        let indent = if depth == 0 { String::new() } else { format!("{}└─ ", "   ".repeat(depth - 1)) };
        let mut line = Line::faint(format!("  {indent}")).add(Style::Strong, name(answer, *node));
        if let Some((file, number)) = answer.lines.get(node) {
            line = line.add(Style::Normal, format!("  called at {}:{number}", escape(file.as_bytes())));
        }
        if let Some((chosen, calls)) = votes {
            line = line.add(Style::Faint, format!("  {chosen} of {}", count(calls, "call")));
        }
        screen.wrapped(0, line);
    }
    let style = if cause.doubts.is_empty() { Style::Normal } else { Style::Warning };
    screen.wrapped(0, Line::new().add(style, sentence(answer, cause)));
    if let Some(sampled) = cause.path.last().and_then(|last| answer.sampled.get(last)) {
        screen.indented(2, Line::new().add(Style::Normal, sampled_at(sampled)));
    }
    for doubt in &cause.doubts {
        screen.indented(2, Line::warning(format!("not certain: {}", doubted(answer, doubt))));
    }
}

/// A decision's contributors, most votes first.
fn decided(answer: &Drilled, decision: &Decision, screen: &mut Screen) {
    screen.blank();
    let calls = format!(": {} had a vote", count(decision.votes, "call"));
    screen.wrapped(0, Line::strong(name(answer, decision.node)).add(Style::Normal, calls));
    let mut all: Vec<&Contribution> = decision.contributors.iter().collect();
    all.sort_by_key(|one| (std::cmp::Reverse(one.maxcount), std::cmp::Reverse(one.mean_ns)));
    screen.unwrapped(Line::faint("   votes     mean  contributor"));
    for one in all {
        let figures = format!("{:>8}  {:>7}  ", one.maxcount, duration(one.mean_ns));
        let what = match one.contributor {
            Contributor::Itself => String::from("itself"),
            Contributor::Callee(node) => name(answer, node),
            Contributor::Foreign(Foreign::Preemption) => String::from("no CPU: other threads had it"),
            Contributor::Foreign(Foreign::Steal) => String::from("no CPU: the hypervisor had it"),
            Contributor::Foreign(Foreign::Interrupt(LOCAL_TIMER)) => {
                String::from("interrupts of the local timer")
            }
            Contributor::Foreign(Foreign::Interrupt(line)) => format!("interrupts of line {line}"),
        };
        let style = if one.chosen { Style::Strong } else { Style::Normal };
        let chosen = if one.chosen { "  followed" } else { "" };
        screen.wrapped(0, Line::new().add(Style::Normal, figures).add(style, what).add(Style::Faint, chosen));
    }
    for (number, text) in [
        (decision.unsure, "votes that depend on the time of probes"),
        (decision.not_measured, "calls in its code that could not be measured"),
        (decision.missing, "calls that are missing"),
    ] {
        if number > 0 {
            screen.indented(3, Line::faint(format!("{text}: {number}")));
        }
    }
}

/// For each node on the path: the calls in which it was among the largest, and the calls with a vote.
fn levels(cause: &RootCause) -> impl Iterator<Item = Option<(u64, u64)>> + '_ {
    let votes = cause.levels.iter().map(|level| Some((level.chosen, level.calls)));
    std::iter::once(None).chain(votes).chain(std::iter::repeat(None))
}

/// The name of a node's function.
fn name(answer: &Drilled, node: NodeId) -> String {
    let function = answer.nodes.get(&node).and_then(|node| node.function);
    let found = function.and_then(|function| answer.functions.get(function.0 as usize));
    found.map_or_else(|| String::from("a function that is called indirectly"), shown)
}

fn shown(function: &DrillFunction) -> String {
    escape(function.name.as_bytes())
}

/// The cause in a sentence.
fn sentence(answer: &Drilled, cause: &RootCause) -> String {
    let last = cause.path.last().copied().unwrap_or_default();
    let leaf = name(answer, last);
    let part = share(cause.ns, cause.f0_ns.max(1));
    let of =
        format!("{part} of the peak's time ({} of {} a call)", duration(cause.ns), duration(cause.f0_ns));
    let blocked = cause.blocked_ns.saturating_mul(2) >= cause.ns && cause.ns > 0;
    match cause.cause {
        Some(NodeCause::Itself) if blocked => {
            format!("{of} is in {leaf}, which waited for {} of it", share(cause.blocked_ns, cause.ns))
        }
        Some(NodeCause::Itself) => {
            let or_below =
                if has_dear(answer, last) { ", or in what it calls too often for probes" } else { "" };
            format!("{of} is in {leaf} itself{or_below}{}", ended(cause))
        }
        Some(NodeCause::Loop { callee, calls }) => {
            format!("{of} is in {leaf}, which calls {} {}", name(answer, callee), count(calls, "time"))
        }
        Some(NodeCause::Preempted { .. }) => {
            format!("{of} is in {leaf}, which was ready to run and had no CPU: other threads had it")
        }
        Some(NodeCause::Interrupt { number, .. }) => {
            let by =
                if number == LOCAL_TIMER { "the local timer".to_owned() } else { format!("line {number}") };
            format!("{of} is in {leaf}, in whose place the interrupt of {by} ran")
        }
        Some(NodeCause::Stolen { .. }) => format!("{of} is in {leaf}, whose CPU the hypervisor had"),
        Some(NodeCause::UnknownTarget) => format!("{of} is in calls of {leaf} whose target is not known"),
        None if cause.ns > 0 => format!("{of} is in {leaf}{}", ended(cause)),
        None => format!("{leaf} was not decided{}", ended(cause)),
    }
}

/// The places with most samples.
fn sampled_at(sampled: &Sampled) -> String {
    let mut shown = Vec::new();
    let mut left = sampled.samples;
    for place in sampled.places.iter().take(MAX_PLACES) {
        // Nine tenths are enough.
        if left.saturating_mul(10) <= sampled.samples {
            break;
        }
        let function = escape(place.function.as_bytes());
        let at = match &place.line {
            Some((file, line)) => format!("at {}:{line} ({function})", escape(file.as_bytes())),
            None => format!("in {function}"),
        };
        shown.push(format!("{} {at}", share(place.samples, sampled.samples)));
        left = left.saturating_sub(place.samples);
    }
    format!("sampled {} there: {}", count(sampled.samples, "time"), shown.join(", "))
}

/// The maximum number of shown places.
const MAX_PLACES: usize = 4;

/// The local timer's vector: see `bpf/drill.bpf.c`.
const LOCAL_TIMER: u32 = 236;

fn ended(cause: &RootCause) -> &'static str {
    match cause.end {
        Some(End::MaxDepth) => ", or below it: the path is as long as --max-depth allows",
        Some(End::BelowMinBucket) => ", or below it: what it calls is below --min-bucket",
        Some(End::NoCallees(NoSites::NotDecodable | NoSites::NoBounds)) => {
            ", or below it: its code could not be decoded"
        }
        Some(End::NoCallees(NoSites::Refused(_))) => ", or below it: what it calls cannot be probed",
        Some(End::NotSeen) => ": it was chosen, and then not called any more",
        Some(End::Stopped) => ": the search stopped before",
        _ => "",
    }
}

fn doubted(answer: &Drilled, doubt: &Doubt) -> String {
    let of = |node: &NodeId| name(answer, *node);
    let counted = |calls| count(calls, "call");
    match doubt {
        Doubt::CloseVotes { node } => format!("another part of {} had nearly as many votes", of(node)),
        Doubt::NoMajority { node } => format!("in most calls another part of {} was the largest", of(node)),
        Doubt::FewCalls { node, calls } => format!("only {} had a vote on {}", counted(*calls), of(node)),
        Doubt::ProbeCost { node, calls } => {
            format!("the probes take as long as the parts of {} differ in {}", of(node), counted(*calls))
        }
        Doubt::PeakShift { calls } => {
            format!("the probes moved {} into the peak or out of it", counted(*calls))
        }
        // No probe may be put into its code, so the number of its calls is not known.
        Doubt::SitesNotMeasured { node, sites: 0 } => {
            format!("the calls in the code of {} were not measured", of(node))
        }
        Doubt::SitesNotMeasured { node, sites } => {
            let calls = count(*sites, "call");
            let which = answer.unmeasured.get(node).map_or_else(String::new, |named| unmeasured(named));
            let most = answer.own_ns(*node).map_or_else(String::new, |ns| {
                format!("; at most {} of a call, the time of {} itself", duration(ns), of(node))
            });
            format!("{calls} in the code of {} {} not measured{which}{most}", of(node), was(*sites))
        }
        Doubt::UnknownTargets { node } => format!("{} calls functions that are not known", of(node)),
        Doubt::LeftOut { node } => format!("not all calls of {} were measured at the same time", of(node)),
        Doubt::CallsMissing { calls } => format!("{} {} missing", counted(*calls), is(*calls)),
        Doubt::Drift(drift) => {
            format!("the latencies changed meanwhile (earth mover's distance {:.0}%)", drift.earth_mover)
        }
    }
}

/// Whether a node's function calls others too often for the budget.
fn has_dear(answer: &Drilled, node: NodeId) -> bool {
    answer.unmeasured.get(&node).is_some_and(|all| {
        all.iter().any(|one| matches!(one.why, NotMeasured::TooOften | NotMeasured::Budget))
    })
}

/// The functions without probes, and why: `: qsort, memcpy (too often for the budget), free (single-stepped)`.
fn unmeasured(named: &[Unmeasured]) -> String {
    let one = |one: &Unmeasured| {
        let why = match one.why {
            NotMeasured::SingleStep => "single-stepped",
            NotMeasured::Jump => "leaves by a jump, and no probe sees when it returns",
            NotMeasured::OutsideFiles => "in no file",
            NotMeasured::NotDecoded => "not safely decoded",
            NotMeasured::Unsafe => "cannot be probed safely",
            NotMeasured::Kernel => "refused by the kernel",
            NotMeasured::TooOften => "called too often",
            NotMeasured::Budget => "beyond the budget",
        };
        format!("{} ({why})", escape(one.function.as_bytes()))
    };
    let shown: Vec<String> = named.iter().take(MAX_UNMEASURED).map(one).collect();
    let more = match named.len().saturating_sub(MAX_UNMEASURED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    if shown.is_empty() { String::new() } else { format!(": {}{more}", shown.join(", ")) }
}

/// The most functions named there.
const MAX_UNMEASURED: usize = 4;

fn footer(answer: &Drilled, screen: &mut Screen) {
    screen.blank();
    for note in &answer.notes {
        screen.wrapped(0, Line::faint(escape(note.as_bytes())));
    }
    let state = match answer.status {
        Status::RootCauseFound => "",
        Status::EndsEarly => "; the cause is not known",
        Status::MaxDepthReached => "; the path is as long as --max-depth allows",
        Status::Counting | Status::InProgress => "; not finished",
        Status::Stopped(StopReason::User) => "; stopped by you",
        Status::Stopped(StopReason::ProgramEnded) => "; stopped: the process ended",
        Status::Stopped(StopReason::Budget) => "; stopped: the time is over (-d)",
        Status::Stopped(StopReason::Unloaded) => "; stopped: the code was unloaded",
        Status::Stopped(StopReason::NoSuchPeak { .. }) => "; stopped: there is no such peak",
        Status::Stopped(StopReason::NotSeen) => "; stopped: the functions were not called any more",
        Status::Stopped(StopReason::TreeFull) => "; stopped: too many calls for one tree",
    };
    let cost = answer.probe.map_or_else(String::new, |probe| {
        format!("; a probed call took {} longer", duration(probe.per_call_ns))
    });
    let ns = u64::try_from(answer.elapsed.as_nanos()).unwrap_or(u64::MAX);
    let probed = match answer.most_probed {
        _ if answer.of_python => String::from("all functions of Python had probes"),
        1 => String::from("at most 1 function had probes at a time"),
        several => format!("at most {several} functions had probes at a time"),
    };
    screen.wrapped(
        0,
        Line::faint(format!(
            "took {}, in which the function was called {}; {probed}{cost}{state}",
            duration(ns),
            count(answer.calls, "time")
        )),
    );
    screen.wrapped(0, Line::faint(cost_to_program(&answer.cost)));
}

/// The search's cost to the program.
fn cost_to_program(cost: &SearchCost) -> String {
    let SearchCost { ns, of_machine, elapsed, call_before_ns, call_meanwhile_ns } = *cost;
    let seconds = duration(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
    let percent = 100.0 * of_machine;
    let longer = match (call_before_ns, call_meanwhile_ns) {
        (_, 0) => String::from("no slow call ended meanwhile"),
        (before, meanwhile) => {
            format!("a slow call took {} meanwhile, {} before", duration(meanwhile), duration(before))
        }
    };
    format!(
        "cost to the program: its probes took {} in {seconds}, {percent:.1}% of the machine; {longer}",
        duration(ns)
    )
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::sample;

    #[test]
    fn doubts_about_one_call_and_several_have_their_own_words() {
        let (answer, node) = (sample::drilled(), NodeId(1));
        for (doubt, expected) in [
            (Doubt::FewCalls { node, calls: 1 }, "only 1 call had a vote on look_up\\x1b[2J"),
            (Doubt::FewCalls { node, calls: 2 }, "only 2 calls had a vote on look_up\\x1b[2J"),
            (Doubt::PeakShift { calls: 1 }, "the probes moved 1 call into the peak or out of it"),
            (Doubt::CallsMissing { calls: 1 }, "1 call is missing"),
            (Doubt::CallsMissing { calls: 2 }, "2 calls are missing"),
            (
                Doubt::SitesNotMeasured { node, sites: 1 },
                "1 call in the code of look_up\\x1b[2J was not measured: qsort\\x1b (called too often), free (single-stepped), exit (cannot be probed \
                 safely), memset (refused by the kernel) and 4 more",
            ),
            (
                Doubt::SitesNotMeasured { node, sites: 2 },
                "2 calls in the code of look_up\\x1b[2J were not measured: qsort\\x1b (called too often), free (single-stepped), exit (cannot be probed \
                 safely), memset (refused by the kernel) and 4 more",
            ),
        ] {
            assert_eq!(doubted(&answer, &doubt), expected);
        }
        // Its callees' names are not known.
        let doubt = Doubt::SitesNotMeasured { node: NodeId(2), sites: 2 };
        let expected = "2 calls in the code of read_block were not measured; at most 3.90 ms of a call, the time of read_block itself";
        assert_eq!(doubted(&answer, &doubt), expected);
    }

    #[test]
    fn one_request_that_was_handed_over_has_its_own_words() {
        let mut answer = sample::drilled();
        let of = answer.handed_over.as_mut().expect("they were");
        (of.requests, of.not_followed, of.begun.requests, of.in_peak.requests, of.others) = (1, 1, 1, 1, 1);
        let mut screen = Screen::new(Layout::PLAIN);
        from_others(of, &mut screen);
        let words = screen.into_text().split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in [
            "1 of 1 request that ./shop:submit",
            "; 1 other call was not measured",
            ", that of 1 measured call of the peak",
            "1 request was not followed: too many had not begun",
        ] {
            assert!(words.contains(expected), "{expected}: {words}");
        }
    }

    #[test]
    fn the_path_stands_above_its_sentence_and_the_votes_below() {
        expect![[r#"
            ./shop:serve in shop (42)
              peak 2 of 2: 4.19 ms to 8.39 ms, 100 of 1000 calls (10.0%)
              calls that began in 3 phases, from ./shop:opens\x1b[2J to the end
              calls that began with 1400 of 1403 requests that ./shop:submit\x1b[2J handed over within
              ./shop:order\x1b[2J; 5200 other calls were not measured
              the requests waited for 1.20 ms on average before they began, those of 20 measured calls of the
              peak 3.40 ms
              2 requests were not followed: too many had not begun

              serve
              └─ look_up\x1b[2J  20 of 20 calls
                 └─ read_block  called at shop\u{202e}.c:88  19 of 20 calls
            97.5% of the peak's time (3.90 ms of 4.00 ms a call) is in read_block, which waited for 97.4% of it

              serve
              └─ look_up\x1b[2J  20 of 20 calls
            52.5% of the peak's time (2.10 ms of 4.00 ms a call) is in look_up\x1b[2J, which calls memcpy 20000
            times
              sampled 200 times there: 75.0% at shop\u{202e}.c:91 (look_up), 23.5% in memcpy
              not certain: another part of look_up\x1b[2J had nearly as many votes
              not certain: only 3 calls had a vote on look_up\x1b[2J

            serve: 20 calls had a vote
               votes     mean  contributor
                  20  3.90 ms  look_up\x1b[2J  followed
                   1   900 µs  itself
                   0  2.00 µs  no CPU: other threads had it
                   0     0 ns  a function that is called indirectly
               votes that depend on the time of probes: 2
               calls in its code that could not be measured: 1

            a note
            took 1.50 s, in which the function was called 1400 times; at most 4 functions had probes at a time;
            a probed call took 1.50 µs longer
            cost to the program: its probes took 12.0 ms in 500 ms, 1.2% of the machine; a slow call took 4.40
            ms meanwhile, 4.00 ms before
        "#]].assert_eq(&drill(&sample::drilled(), true, Layout::PLAIN));
    }

    /// The sentence for a path with this cause and end.
    fn of(cause: NodeCause, end: End) -> String {
        let mut answer = sample::drilled();
        let mut found = answer.root_causes.swap_remove(0);
        (found.cause, found.end, found.blocked_ns) = (Some(cause), Some(end), 0);
        sentence(&answer, &found)
    }

    #[test]
    fn each_cause_has_a_sentence_of_its_own() {
        let refused = End::NoCallees(NoSites::NotDecodable);
        let all = [
            of(NodeCause::Itself, End::Itself),
            of(NodeCause::Itself, End::MaxDepth),
            of(NodeCause::Itself, End::BelowMinBucket),
            of(NodeCause::Itself, refused),
            of(NodeCause::Loop { callee: NodeId(3), calls: 20_000 }, End::Itself),
            of(NodeCause::Preempted { spread: false }, End::Itself),
            of(NodeCause::Interrupt { number: 236, spread: false }, End::Itself),
            of(NodeCause::Interrupt { number: 11, spread: false }, End::Itself),
            of(NodeCause::Stolen { spread: false }, End::Itself),
            of(NodeCause::UnknownTarget, End::UnknownTarget),
        ];
        expect![[r#"
            97.5% of the peak's time (3.90 ms of 4.00 ms a call) is in read_block itself
            97.5% of the peak's time (3.90 ms of 4.00 ms a call) is in read_block itself, or below it: the path is as long as --max-depth allows
            97.5% of the peak's time (3.90 ms of 4.00 ms a call) is in read_block itself, or below it: what it calls is below --min-bucket
            97.5% of the peak's time (3.90 ms of 4.00 ms a call) is in read_block itself, or below it: its code could not be decoded
            97.5% of the peak's time (3.90 ms of 4.00 ms a call) is in read_block, which calls memcpy 20000 times
            97.5% of the peak's time (3.90 ms of 4.00 ms a call) is in read_block, which was ready to run and had no CPU: other threads had it
            97.5% of the peak's time (3.90 ms of 4.00 ms a call) is in read_block, in whose place the interrupt of the local timer ran
            97.5% of the peak's time (3.90 ms of 4.00 ms a call) is in read_block, in whose place the interrupt of line 11 ran
            97.5% of the peak's time (3.90 ms of 4.00 ms a call) is in read_block, whose CPU the hypervisor had
            97.5% of the peak's time (3.90 ms of 4.00 ms a call) is in calls of read_block whose target is not known"#]].assert_eq(&all.join("\n"));
    }

    #[test]
    fn a_function_may_have_its_time_in_what_it_calls_too_often_for_probes() {
        let mut answer = sample::drilled();
        let mut found = answer.root_causes.swap_remove(0);
        (found.cause, found.blocked_ns) = (Some(NodeCause::Itself), 0);
        let last = *found.path.last().expect("a path");
        for (why, told) in
            [(NotMeasured::TooOften, true), (NotMeasured::Budget, true), (NotMeasured::SingleStep, false)]
        {
            answer.unmeasured.insert(last, vec![Unmeasured { function: String::from("f"), why }]);
            let text = sentence(&answer, &found);
            assert_eq!(text.contains("itself, or in what it calls too often for probes"), told, "{text}");
        }
    }

    #[test]
    fn unmeasured_calls_have_a_reason_and_hold_at_most_their_callers_own_time() {
        let mut answer = sample::drilled();
        let named = answer.unmeasured.remove(&NodeId(1)).expect("some");
        answer.unmeasured.insert(NodeId(0), named[4..].to_vec());
        let doubt = |answer: &Drilled, node| doubted(answer, &Doubt::SitesNotMeasured { node, sites: 4 });
        let reasons = "0x7f0000001000 (in no file), shop+0x2880 (not safely decoded), visit (leaves by a jump, and no probe sees when it returns), memcmp \
                       (beyond the budget)";
        let begin = format!("4 calls in the code of serve were not measured: {reasons}; at most ");
        // By the decision on it.
        assert_eq!(doubt(&answer, NodeId(0)), format!("{begin}900 µs of a call, the time of serve itself"));
        // By the path that ends there: as its first line says.
        answer.root_causes[0].path = vec![NodeId(0)];
        (answer.root_causes[0].cause, answer.root_causes[0].ns) = (Some(NodeCause::Itself), 70_000);
        assert_eq!(doubt(&answer, NodeId(0)), format!("{begin}70.0 µs of a call, the time of serve itself"));
        answer.root_causes[0].cause = Some(NodeCause::UnknownTarget);
        assert_eq!(answer.own_ns(NodeId(0)), Some(900_000));
        assert_eq!(answer.own_ns(NodeId(1)), None, "not decided");
    }

    #[test]
    fn in_python_all_functions_have_probes() {
        let mut answer = sample::drilled();
        answer.of_python = true;
        let text = drill(&answer, false, Layout::PLAIN).replace('\n', " ");
        assert!(text.contains("1400 times; all functions of Python had probes; a probed"), "{text}");
    }

    #[test]
    fn calls_in_code_that_allows_no_probes_have_no_number() {
        let answer = sample::drilled();
        let doubt = |sites| doubted(&answer, &Doubt::SitesNotMeasured { node: NodeId(1), sites });
        assert!(doubt(0).starts_with("the calls in the code of "), "{}", doubt(0));
        assert!(doubt(8).starts_with("8 calls in the code of "), "{}", doubt(8));
    }

    #[test]
    fn a_search_that_found_nothing_says_why_it_ended() {
        let mut answer = sample::drilled();
        answer.root_causes.clear();
        answer.status = Status::Stopped(StopReason::ProgramEnded);
        let text = drill(&answer, false, Layout::PLAIN);
        assert!(
            text.contains("no function was found") && text.contains("stopped: the process ended"),
            "{text}"
        );
        assert!(!text.contains("next:"), "{text}");
    }
}
