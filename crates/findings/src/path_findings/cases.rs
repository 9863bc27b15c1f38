//! The situations of `cases/`: rows, contributors and causes are the same time, grouped differently.

use std::path::Path as File;
use std::{env, fs};

use crate::testing::checkout;
use crate::{
    CallsFindings, Evidence, LastWaits, Method, PathFindings, PerGroup, Readings, cause_tree, readings,
    waits_of_window,
};
use wakepath_clock::Stamp;
use wakepath_critical_path::{Path, Timeouts, Window, active, active_by, contributors, exact};
use wakepath_event::Tid;
use wakepath_loaded::{Recorded, Sampled, Stacks};
use wakepath_scenario::text::{Question, Script, parse};
use wakepath_wait_graph::ThreadIndex;

/// Checks that all sums over a path equal its window, and the headline is a row.
fn check(recorded: &Recorded, path: &Path, what: &str) {
    let (stacks, sampled) = (Stacks::default(), Sampled::default());
    let evidence = Evidence { recorded, path, stacks: &stacks, sampled: &sampled };
    let window = path.window.length();
    let waits = waits_of_window(recorded, path);
    let waits = LastWaits { still_waiting: waits.still_waiting.as_ref(), killed: waits.killed.as_ref() };
    let Readings { path: first, if_not_joined, if_joined } =
        readings(recorded, path.clone(), |timeouts| active_by(recorded.graph(), path.window, timeouts));
    let (path, other) = (&first, if_not_joined.or(if_joined));
    let evidence = Evidence { path, ..evidence };
    let other = other.as_ref().map(|(path, timed_out)| (Evidence { path, ..evidence }, *timed_out));
    let found = PathFindings::new(&evidence, waits, other);

    let parts = contributors(recorded.graph(), path);
    assert_eq!(parts.iter().map(|part| part.total_ns).sum::<u64>(), window, "contributors of {what}");
    let rows = || found.rows.iter().map(|finding| &finding.row);
    assert_eq!(rows().map(|row| row.total_ns).sum::<u64>(), window, "rows of {what}");
    for row in rows() {
        assert_eq!(row.parts.values().sum::<u64>(), row.total_ns, "parts of a row of {what}");
        let mix = row.basis;
        let known = mix.measured + mix.sampled + mix.inferred + mix.ambiguous;
        assert_eq!(known, row.total_ns, "the basis of a row of {what}");
        assert!(row.own_ns <= row.total_ns, "{what}");
    }
    let (_, rest) = found.rest();
    let shown: u64 = rows().take(found.shown).map(|row| row.total_ns).sum();
    assert_eq!(shown + rest, window, "the lines of {what}");

    let own_ns =
        |thread| parts.iter().filter(|part| part.thread == thread).map(|part| part.total_ns).sum::<u64>();
    let asked: u64 = recorded
        .graph()
        .threads()
        .filter(|(thread, _)| evidence.is_asked(*thread))
        .map(|(thread, _)| own_ns(Some(thread)))
        .sum();
    assert_eq!(rows().map(|row| row.own_ns).sum::<u64>(), asked, "the own time of {what}");

    match &found.headline.largest {
        None => assert_eq!(window, 0, "{what}"),
        Some(part) => {
            let row = &found.rows[part.row].row;
            assert!(part.ns <= row.total_ns && part.is_most == (part.ns > window / 2), "{what}");
            let largest = rows().map(|row| row.total_ns).max();
            assert!(largest.is_some_and(|largest| part.ns * 2 >= largest), "it is no small one: {what}");
        }
    }
    if let Some(other) = &found.other_reading {
        assert_eq!(other.rows.iter().map(|(_, row)| row.total_ns).sum::<u64>(), window, "{what}");
    }
    assert_eq!(cause_tree(&evidence).nodes[0].total.ns.asked, window, "the tree of {what}");
    let method = Method::new(&evidence);
    assert_eq!((method.total_ns, method.bases.iter().map(|(_, ns)| ns).sum::<u64>()), (window, window));

    // The same path as a call.
    let calls = PerGroup { asked: vec![evidence, evidence], usual: vec![evidence] };
    let causes = CallsFindings::new(&calls).causes;
    let sum = |of: fn(PerGroup<u64>) -> u64| causes.iter().map(|cause| of(cause.total_ns)).sum::<u64>();
    assert_eq!((sum(|total| total.asked), sum(|total| total.usual)), (2 * window, window), "calls of {what}");
}

/// The question's window; `#12` names the first thread with this number.
fn window(recorded: &Recorded, question: &Question) -> Window {
    let tid: Tid = question.tid.expect("a thread in the question");
    let named = |thread: &ThreadIndex| {
        let any = question.name.starts_with('#');
        let row = recorded.graph().thread(*thread);
        any || row.names.first().is_some_and(|(_, name)| name.lossy() == question.name)
    };
    let thread = recorded.with_tid(tid).iter().copied().find(named).expect("the question's thread");
    let (from, to) = question.window;
    Window { thread, from: Stamp::from_ns(from), to: Stamp::from_ns(to) }
}

fn check_case(script: &Script, case: &str) -> usize {
    let recorded = wakepath_loaded::testing::read(&script.events);
    let graph = recorded.graph();
    let mut paths = 0;
    for question in &script.questions {
        let path = match question.verb.as_str() {
            "active" => active(graph, window(&recorded, question)),
            "joined" => active_by(graph, window(&recorded, question), Timeouts::Joined),
            "slices" => active_by(graph, window(&recorded, question), Timeouts::JoinedInSlices),
            "alike" => active_by(graph, window(&recorded, question), Timeouts::JoinedIfAlike),
            "exact" => exact(graph, window(&recorded, question)),
            _ => continue,
        };
        check(&recorded, &path, &format!("{case}: {}", question.text));
        paths += 1;
    }
    paths
}

#[test]
fn rows_contributors_and_causes_of_every_case_are_its_window() {
    let cases = File::new(env!("CARGO_MANIFEST_DIR")).join("../../cases");
    let mut paths = 0;
    for entry in fs::read_dir(&cases).expect("the folder cases/") {
        let case = entry.expect("an entry of cases/").path();
        let Ok(trace) = fs::read_to_string(case.join("trace.txt")) else { continue };
        let script = parse(&trace).unwrap_or_else(|mistake| panic!("{}: {mistake}", case.display()));
        paths += check_case(&script, &case.display().to_string());
    }
    assert!(paths > 150, "only {paths} paths in {}", cases.display());
}

#[test]
fn rows_contributors_and_causes_of_a_story_are_its_window() {
    let story = checkout();
    check(&story.recorded, &story.path, "a checkout");
}
