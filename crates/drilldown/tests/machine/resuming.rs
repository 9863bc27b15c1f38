//! Saves: resumed, and refused.

use std::cell::RefCell;

use expect_test::expect;
use serde_json::{Value, json};
use wakepath_distribution::{Histogram, Unit};
use wakepath_drift::Chance;

use wakepath_drilldown::{
    Drilldown, Event, FunctionId, Parameters, ProbeCost, Refusal, SAVE_VERSION, Save, SaveError, Status,
    StopReason,
};

use crate::drawing::Drawing;
use crate::driver::{ALL, Driver};

const PROGRAM: &str = "f0 1us
   w 2us
     y 3us
       z 1us indirect site 0
       u 900us indirect site 0
         v 3us
   x 500us
   q 20us preempted 600us";

fn with_max_depth(max_depth: u32) -> Parameters {
    Parameters { max_depth, ..Parameters::default() }
}

/// A search down to a depth, as JSON.
fn saved(max_depth: u32) -> (Drawing, String) {
    let drawing = Drawing::new(PROGRAM);
    let mut driver = drawing.driver(with_max_depth(max_depth), ProbeCost::default());
    driver.handle(Event::Histogram(Box::new(latencies(2_000_000))));
    drawing.run(&mut driver, ALL, 1000);
    let save = driver.machine.save("f0 in program", |function| drawing.name(function)).unwrap();
    let text = serde_json::to_string(&save).unwrap();
    assert_eq!(serde_json::from_str::<Save>(&text).unwrap(), save);
    (drawing, text)
}

fn latencies(ns: u64) -> Histogram {
    let mut histogram = Histogram::new(Unit::Nanoseconds);
    (0..2000).for_each(|_| histogram.add(ns));
    histogram
}

/// Resumes in a run with other numbers for all functions.
fn resume(drawing: &Drawing, text: &str, parameters: Parameters) -> Result<Drilldown, SaveError> {
    let save = serde_json::from_str(text).unwrap();
    let names = RefCell::new(drawing.clone());
    Drilldown::resume(save, "f0 in program", parameters, ProbeCost::default(), |name| {
        Some(FunctionId(names.borrow_mut().function(name)))
    })
}

fn other_numbers() -> Drawing {
    let mut drawing = Drawing::new("v 1us");
    drawing.function("u");
    let text = format!("zero 1us\n{PROGRAM}").replace("\n", "\n ");
    let names = Drawing::new(&text);
    assert_eq!(names.name(FunctionId(0)), "zero");
    names
}

#[test]
fn a_search_that_reached_its_depth_goes_on_below() {
    let (drawing, text) = saved(2);
    let mut whole = drawing.driver(with_max_depth(10), ProbeCost::default());
    drawing.run(&mut whole, ALL, 1000);
    let expected = drawing.answers(&whole.machine);
    expect![[r#"
        RootCauseFound
        f0 > q: preempted (NoCallees(Leaf))  [20-0/20 20-0/20] close:f0
        f0 > w > y > u: itself  [20-0/20 20-0/20 20-0/20 20-0/20] close:f0
    "#]]
    .assert_eq(&expected);

    let machine = resume(&drawing, &text, with_max_depth(10)).unwrap();
    assert_eq!(machine.status(), Status::Counting);
    assert_eq!(machine.decisions().len(), 2);
    let mut driver = Driver::resuming(machine, drawing.sites.clone(), 64, ProbeCost::default());
    driver.handle(Event::Resume);
    let calls = drawing.run_on(&mut driver, 0, 1000);
    assert_eq!(drawing.answers(&driver.machine), expected);
    // Two levels, not four; a call meets the targets.
    assert_eq!(calls, 41);
}

#[test]
fn functions_are_found_by_name() {
    let (_, text) = saved(2);
    let names = other_numbers();
    let machine = resume(&names, &text, with_max_depth(10)).unwrap();
    let functions: Vec<String> = machine.tree().iter().map(|node| names.name(node.callee.unwrap())).collect();
    assert_eq!(functions, ["f0", "w", "x", "q", "y"]);
}

#[test]
fn a_search_that_was_stopped_goes_on_with_its_level() {
    let drawing = Drawing::new(PROGRAM);
    let mut driver = drawing.driver(with_max_depth(10), ProbeCost::default());
    assert_eq!(driver.machine.save("f0 in program", |function| drawing.name(function)), None);
    driver.handle(Event::Peak(ALL));
    (0..50).for_each(|number| driver.call(&drawing.call(number)));
    driver.handle(Event::Stop(StopReason::ProgramEnded));
    expect![[r#"
        Stopped(ProgramEnded)
        f0 > q: preempted (NoCallees(Leaf))  [20-0/20 20-0/20] close:f0
        f0 > w > y: - (Stopped)  [20-0/20 20-0/20] close:f0
    "#]]
    .assert_eq(&drawing.answers(&driver.machine));
    let save = driver.machine.save("f0 in program", |function| drawing.name(function)).unwrap();
    let text = serde_json::to_string(&save).unwrap();
    let machine = resume(&drawing, &text, with_max_depth(10)).unwrap();
    let mut driver = Driver::resuming(machine, drawing.sites.clone(), 64, ProbeCost::default());
    driver.handle(Event::Resume);
    // 9 of 20 votes are there; the other nodes in the round were not on a path.
    assert_eq!(driver.machine.calls_to_decision(), Some(11));
    let calls = drawing.run_on(&mut driver, 0, 1000);
    expect![[r#"
        RootCauseFound
        f0 > q: preempted (NoCallees(Leaf))  [20-0/20 20-0/20] close:f0
        f0 > w > y > u: itself  [20-0/20 20-0/20 20-0/20 20-0/20] close:f0
    "#]]
    .assert_eq(&drawing.answers(&driver.machine));
    assert_eq!(calls, 31);
}

#[test]
fn a_search_that_ended_below_the_lowest_bucket_goes_on_with_a_lower_one() {
    let drawing = Drawing::new(PROGRAM);
    let shallow = Parameters { min_bucket: 20, ..Parameters::default() };
    let mut driver = drawing.driver(shallow.clone(), ProbeCost::default());
    drawing.run(&mut driver, ALL, 1000);
    expect![[r#"
        RootCauseFound
        f0 > w: - (BelowMinBucket)  [20-0/20 20-0/20] close:f0
        f0 > q: preempted (BelowMinBucket)  [20-0/20 20-0/20] close:f0
    "#]]
    .assert_eq(&drawing.answers(&driver.machine));
    let save = driver.machine.save("f0 in program", |function| drawing.name(function)).unwrap();
    let text = serde_json::to_string(&save).unwrap();
    for (parameters, calls) in [(shallow, 0), (Parameters::default(), 61)] {
        let machine = resume(&drawing, &text, parameters).unwrap();
        let mut driver = Driver::resuming(machine, drawing.sites.clone(), 64, ProbeCost::default());
        driver.handle(Event::Resume);
        assert_eq!(drawing.run_on(&mut driver, 0, 1000), calls);
    }
}

#[test]
fn a_search_that_is_as_deep_as_allowed_has_nothing_to_go_on_with() {
    let (drawing, text) = saved(2);
    let machine = resume(&drawing, &text, with_max_depth(2)).unwrap();
    let mut driver = Driver::resuming(machine, drawing.sites.clone(), 64, ProbeCost::default());
    driver.handle(Event::Resume);
    assert_eq!(driver.finished, Some(Status::MaxDepthReached));
}

#[test]
fn votes_of_other_code_are_not_gone_on_with() {
    let drawing = Drawing::new(PROGRAM);
    let mut driver = drawing.driver(with_max_depth(10), ProbeCost::default());
    driver.handle(Event::Peak(ALL));
    (0..50).for_each(|number| driver.call(&drawing.call(number)));
    assert_eq!(driver.machine.calls_to_decision(), Some(11));
    let save = driver.machine.save("f0 in program", |function| drawing.name(function)).unwrap();
    let text = serde_json::to_string(&save).unwrap();
    let other = Drawing::new(&PROGRAM.replace("         v 3us", "         v 3us\n       v 3us"));
    let machine = resume(&other, &text, with_max_depth(10)).unwrap();
    let mut driver = Driver::resuming(machine, other.sites.clone(), 64, ProbeCost::default());
    driver.handle(Event::Resume);
    assert_eq!(driver.machine.calls_to_decision(), Some(20));
}

#[test]
fn a_call_that_another_one_replaced_is_gone() {
    let drawing = Drawing::new(PROGRAM);
    let mut driver = drawing.driver(with_max_depth(10), ProbeCost::default());
    driver.handle(Event::Peak(ALL));
    (0..50).for_each(|number| driver.call(&drawing.call(number)));
    let save = driver.machine.save("f0 in program", |function| drawing.name(function)).unwrap();
    let text = serde_json::to_string(&save).unwrap();
    let direct = PROGRAM.replace("z 1us indirect site 0\n       u 900us indirect site 0", "u 900us");
    let other = Drawing::new(&direct);
    let machine = resume(&other, &text, with_max_depth(10)).unwrap();
    let mut driver = Driver::resuming(machine, other.sites.clone(), 64, ProbeCost::default());
    driver.handle(Event::Resume);
    let tree = driver.machine.tree();
    let gone = tree.iter().filter(|node| node.refused == Some(Refusal::Gone)).count();
    // The site's targets z and u, and all others.
    assert_eq!((gone, tree.len()), (3, 9));
    other.run_on(&mut driver, 0, 1000);
    assert!(other.answers(&driver.machine).contains("f0 > w > y > u: itself"));
}

#[test]
fn the_distribution_is_compared_before_a_search_goes_on() {
    let (drawing, text) = saved(2);
    for (ns, drift) in [(2_000_000, false), (9_000_000, true)] {
        let machine = resume(&drawing, &text, with_max_depth(10)).unwrap();
        let mut driver = Driver::resuming(machine, drawing.sites.clone(), 64, ProbeCost::default());
        let mut few = Histogram::new(Unit::Nanoseconds);
        few.add(ns);
        driver.handle(Event::Histogram(Box::new(few)));
        assert_eq!(driver.machine.status(), Status::Counting, "it holds too few calls");
        driver.handle(Event::Histogram(Box::new(latencies(ns))));
        assert_eq!(driver.machine.status(), Status::InProgress);
        drawing.run_on(&mut driver, 0, 1000);
        let doubts = drawing.answers(&driver.machine).contains("drift");
        assert_eq!(doubts, drift);
    }
}

#[test]
fn a_call_that_the_code_has_no_longer_is_not_measured() {
    let (drawing, text) = saved(2);
    let machine = resume(&drawing, &text, with_max_depth(10)).unwrap();
    let mut sites = drawing.sites.clone();
    let mut other = drawing.clone();
    let y = FunctionId(other.function("y"));
    sites.remove(&y);
    let mut driver = Driver::resuming(machine, sites, 64, ProbeCost::default());
    driver.handle(Event::Resume);
    drawing.run_on(&mut driver, 0, 1000);
    expect![[r#"
        RootCauseFound
        f0 > q: preempted (NoCallees(Leaf))  [20-0/20 20-0/20] close:f0
        f0 > w > y: itself (NoCallees(Leaf))  [20-0/20 20-0/20 20-0/20] close:f0
    "#]]
    .assert_eq(&drawing.answers(&driver.machine));
}

/// The error for a save at depth 2 with a changed value.
fn error(place: &str, value: Value) -> String {
    let (drawing, text) = saved(2);
    let mut save: Value = serde_json::from_str(&text).unwrap();
    *save.pointer_mut(place).unwrap_or_else(|| panic!("{place} is not in {text}")) = value;
    let text = save.to_string();
    match serde_json::from_str::<Save>(&text) {
        Err(error) => format!("no save: {error}"),
        Ok(_) => resume(&drawing, &text, with_max_depth(10)).map(|_| ()).unwrap_err().to_string(),
    }
}

#[test]
fn a_save_of_another_f0_or_version_is_refused() {
    let (drawing, text) = saved(2);
    let save = || serde_json::from_str::<Save>(&text).unwrap();
    let none = |_: &str| None;
    let cost = ProbeCost::default();
    let refused = |save, identity, function: &dyn Fn(&str) -> Option<FunctionId>| {
        Drilldown::resume(save, identity, with_max_depth(10), cost, function).unwrap_err().to_string()
    };
    assert_eq!(
        refused(save(), "main in program", &none),
        "the save is about `f0 in program`, not about `main in program`"
    );
    let mut newer = save();
    newer.version = SAVE_VERSION + 1;
    assert_eq!(
        refused(newer, "f0 in program", &none),
        "the save has version 2; this program reads version 1"
    );
    assert_eq!(refused(save(), "f0 in program", &none), "the save has a function `f0`, which is not known");
    assert_eq!(
        resume(&drawing, &text, with_max_depth(0)).unwrap_err().to_string(),
        "`max_depth` is 0; it has to be from 1 to 64"
    );
    assert_eq!(
        refused(save(), "f0 in program", &|_| Some(FunctionId(1))),
        "the save is broken: function 1 is there twice"
    );
}

#[test]
fn a_broken_save_is_refused_with_the_reason() {
    // The nodes are f0, w, x, q and y, called by f0, f0, f0 and w; y is as deep as allowed.
    let node = |parent: Value, callee: u32| {
        json!({"parent": parent, "site": [{"address": 9}, {"Direct": callee}], "callee": callee, "state": "Dropped",
               "unexamined": {"calls": 0, "unsure": 0, "contributors": [], "majority": [], "own_parts": [],
                              "f0_ns": 0, "blocked_ns": 0}, "endings": []})
    };
    let deep = |nodes: u32| {
        let first = json!({"parent": null, "site": null, "callee": 0, "state": "Decided", "endings": [],
                           "unexamined": node(json!(0), 0)["unexamined"]});
        let below = (0..nodes).map(|parent| node(json!(parent), 0));
        Value::Array(std::iter::once(first).chain(below).collect())
    };
    let ending = |cause: Value, votes_on: u32| {
        json!([{"cause": cause, "end": "Itself", "ns": 1, "blocked_ns": 0, "f0_ns": 1,
                "votes": {"node": votes_on, "calls": 1, "chosen": 1, "runner_up": 0}}])
    };
    let in_loop = |callee: u32| json!({"Loop": {"callee": callee, "calls": 9}});
    let votes = |maxcount: u32, calls: u32, of: usize| json!([["Itself", {"maxcount": maxcount, "calls": calls, "ns": 1, "latencies": vec![1; of]}]]);
    let targets = |callees: &[u32]| json!([{"function": 1, "site": {"address": 1}, "callees": callees}]);
    let contribution = |callee: u32, maxcount: u32, calls: u32| {
        json!([{"contributor": {"Callee": callee}, "maxcount": maxcount, "calls": calls, "mean_ns": 1,
                "median_ns": 1, "chosen": true}])
    };
    let foreign =
        |maxcount: u32| json!([["Preemption", {"maxcount": maxcount, "calls": 1, "ns": 1, "latencies": []}]]);
    let own_part = |callee: Value, maxcount: u32| json!([[callee, {"maxcount": maxcount, "counts": []}]]);
    for (place, value, reason) in [
        ("/nodes", json!([]), "node 0 is missing"),
        ("/nodes/0/callee", Value::Null, "node 0 has no function"),
        ("/nodes/0/parent", json!(0), "node 0 has a caller"),
        ("/nodes/0/site", json!([{"address": 1}, "Indirect"]), "node 0 has a caller"),
        ("/nodes/0/callee", json!(99), "function 99 is not there"),
        ("/nodes/1/callee", json!(99), "node 1 has another function than its call site"),
        ("/nodes/1/site/1", json!({"Tail": 99}), "node 1 has another function than its call site"),
        ("/nodes/1/site/1", json!({"Tail": 0}), "node 1 has another function than its call site"),
        ("/nodes/1", node(json!(0), 99), "function 99 is not there"),
        ("/nodes/1/parent", json!(1), "node 1 has no caller before it"),
        ("/nodes/1/parent", json!(4_294_967_295_u32), "node 1 has no caller before it"),
        ("/nodes/1/parent", Value::Null, "node 1 has no call site"),
        ("/nodes/1/site", Value::Null, "node 1 has no call site"),
        ("/nodes/0/state", json!("Examined"), "node 1 was chosen before its caller was decided"),
        ("/nodes/1/state", json!("Dropped"), "node 4 was chosen before its caller was decided"),
        ("/nodes", deep(65), "node 65 is too deep"),
        ("/nodes/4/unexamined/contributors", votes(2, 1, 0), "node 4 has votes that cannot be"),
        ("/nodes/4/unexamined/contributors", votes(1, 21, 0), "node 4 has votes that cannot be"),
        ("/nodes/4/unexamined/contributors", votes(1, 1, 1025), "node 4 has votes that cannot be"),
        ("/nodes/4/unexamined/contributors/0/0", json!({"Callee": 1}), "node 4 has votes that cannot be"),
        ("/nodes/4/unexamined/majority", foreign(2), "node 4 has votes that cannot be"),
        ("/nodes/4/unexamined/own_parts", own_part(json!(1), 1), "node 4 has votes that cannot be"),
        ("/nodes/4/unexamined/own_parts", own_part(Value::Null, 21), "node 4 has votes that cannot be"),
        ("/nodes/0/endings", ending(in_loop(4), 0), "node 0 ends in a loop over what it does not call"),
        ("/nodes/0/endings", ending(in_loop(99), 0), "node 0 ends in a loop over what it does not call"),
        ("/nodes/0/endings", ending(json!("Itself"), 1), "node 0 ends by the votes on another node"),
        ("/targets", targets(&[1, 1]), "list of targets 0 is too long, or has one twice"),
        ("/targets", targets(&[99]), "function 99 is not there"),
        (
            "/targets",
            json!([{"function": 99, "site": {"address": 1}, "callees": []}]),
            "function 99 is not there",
        ),
        ("/decisions/0/node", json!(99), "decision 0 is about a node that is not there"),
        ("/decisions/1/node", json!(0), "decision 1 is the second on its node"),
        (
            "/decisions/0/contributors",
            contribution(4, 1, 1),
            "decision 0 has a callee that its node does not call",
        ),
        ("/decisions/0/contributors", contribution(1, 2, 1), "decision 0 has more votes than calls"),
        ("/decisions/0/contributors", contribution(1, 1, 21), "decision 0 has more votes than calls"),
        ("/decisions/0/votes", json!(21), "decision 0 has more votes than calls"),
        (
            "/decisions/0/spread",
            json!({"foreign": "Steal", "maxcount": 21, "mean_ns": 1}),
            "decision 0 has more votes than calls",
        ),
        (
            "/decisions/0/batches",
            json!([{"nodes": [4], "calls": 1}]),
            "decision 0 has a callee that its node does not call",
        ),
        ("/decisions/0/left_out", json!([[99, 1]]), "decision 0 has a callee that its node does not call"),
        ("/peak", json!({"from_ns": 2, "to_ns": 1}), "peak 0 ends before it begins"),
        ("/histogram/counts", json!([1, 2]), "histogram 0 has another number of buckets"),
        ("/functions/1", json!("f0"), "function 1 is there twice"),
    ] {
        assert_eq!(error(place, value), format!("the save is broken: {reason}"), "{place}");
    }
    let undecided = |node: u32, callees: &[u32], calls: u32, contributor: Value| {
        let tally = json!({"calls": calls, "unsure": 0, "majority": [], "own_parts": [], "f0_ns": 0, "blocked_ns": 0,
                           "contributors": [[contributor, {"maxcount": 1, "calls": 1, "ns": 1, "latencies": []}]]});
        json!([node, tally, callees])
    };
    let callee = |callee: u32| json!({"Callee": callee});
    for (nodes, reason) in [
        (
            vec![undecided(99, &[], 1, json!("Itself"))],
            "0 is on a node that is not there, or is the second on it",
        ),
        (
            vec![undecided(1, &[4], 1, callee(4)); 2],
            "1 is on a node that is not there, or is the second on it",
        ),
        (vec![undecided(1, &[3], 1, json!("Itself"))], "0 has a callee that its node does not call"),
        (
            vec![undecided(1, &[4], 1, callee(3))],
            "0 has more votes than calls, or votes for a callee that its node does not call",
        ),
        (
            vec![undecided(1, &[4], 6, callee(4))],
            "0 has more votes than calls, or votes for a callee that its node does not call",
        ),
    ] {
        let round = json!({"calls": 5, "shifted": 0, "missing": 0, "nodes": nodes});
        assert_eq!(error("/round", round), format!("the save is broken: undecided vote {reason}"));
    }
    assert!(error("/version", json!("1")).starts_with("no save: invalid type"));
    let (_, text) = saved(2);
    let more = text.replacen("{", r#"{"more":1,"#, 1);
    let error = serde_json::from_str::<Save>(&more).unwrap_err().to_string();
    assert!(error.starts_with("unknown field `more`"), "{error}");
}

#[test]
fn a_node_that_is_there_twice_is_refused() {
    let (drawing, text) = saved(2);
    let mut save: Value = serde_json::from_str(&text).unwrap();
    let nodes = save["nodes"].as_array_mut().unwrap();
    let again = nodes[2].clone();
    nodes.push(again);
    let error = resume(&drawing, &save.to_string(), with_max_depth(10)).unwrap_err().to_string();
    assert_eq!(error, "the save is broken: node 5 is there twice");
    let mut save: Value = serde_json::from_str(&text).unwrap();
    let targets = json!({"function": 1, "site": {"address": 1}, "callees": [2]});
    save["targets"] = json!([targets, targets]);
    let error = resume(&drawing, &save.to_string(), with_max_depth(10)).unwrap_err().to_string();
    assert_eq!(error, "the save is broken: list of targets 1 is there twice");
    save["targets"] =
        json!([{"function": 1, "site": {"address": 1}, "callees": (0..257).collect::<Vec<u32>>()}]);
    let error = resume(&drawing, &save.to_string(), with_max_depth(10)).unwrap_err().to_string();
    assert_eq!(error, "the save is broken: function 5 is not there");
    let names = (0..300).map(|name| json!(format!("t{name}")));
    save["functions"].as_array_mut().unwrap().extend(names);
    let error = resume(&drawing, &save.to_string(), with_max_depth(10)).unwrap_err().to_string();
    assert_eq!(error, "the save is broken: list of targets 0 is too long, or has one twice");
    save["targets"][0]["callees"].as_array_mut().unwrap().pop();
    assert!(resume(&drawing, &save.to_string(), with_max_depth(10)).is_ok());
    // A peak may be a single latency.
    save["peak"] = json!({"from_ns": 5, "to_ns": 5});
    assert!(resume(&drawing, &save.to_string(), with_max_depth(10)).is_ok());
    // A callee of an unknown function.
    let mut save: Value = serde_json::from_str(&text).unwrap();
    save["nodes"][1]["callee"] = Value::Null;
    save["nodes"][1]["site"][1] = json!("Indirect");
    let error = resume(&drawing, &save.to_string(), with_max_depth(10)).unwrap_err().to_string();
    assert_eq!(error, "the save is broken: node 4 is called by a function that is not known");
}

#[test]
fn no_save_is_a_panic_whatever_its_bytes() {
    let (drawing, text) = saved(3);
    let mut chance = Chance(7);
    let (mut read, mut resumed) = (0, 0);
    for _ in 0..2000 {
        let mut bytes = text.clone().into_bytes();
        for _ in 0..=chance.number() % 3 {
            let place = (chance.number() % bytes.len() as u64) as usize;
            // Digits most times, so that it can still be read.
            if bytes[place].is_ascii_digit() {
                bytes[place] = b'0' + (chance.number() % 10) as u8;
            } else if chance.number().is_multiple_of(20) {
                bytes[place] = chance.number() as u8;
            }
        }
        let Ok(save) = serde_json::from_slice::<Save>(&bytes) else { continue };
        read += 1;
        let resumed_machine =
            Drilldown::resume(save, "f0 in program", with_max_depth(10), ProbeCost::default(), |name| {
                let mut drawing = drawing.clone();
                Some(FunctionId(drawing.function(name)))
            });
        let Ok(machine) = resumed_machine else { continue };
        resumed += 1;
        let mut driver = Driver::resuming(machine, drawing.sites.clone(), 64, ProbeCost::default());
        driver.handle(Event::Resume);
        for number in 0..200 {
            if driver.finished.is_none() {
                driver.call(&drawing.call(number));
            }
        }
        driver.machine.root_causes();
        driver.machine.tree();
    }
    assert!(read > 100 && resumed > 10, "{read} {resumed}");
}
