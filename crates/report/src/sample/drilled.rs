//! A drill-down's answer for tests.

use std::collections::HashMap;
use std::time::Duration;

use wakepath_engine::{Host, latency};

use super::histogram;

/// A drill-down into `serve`, whose slow calls wait in `read_block`, except for an uncertain path.
pub fn drilled() -> wakepath_engine::drill::Drilled {
    use wakepath_engine::drill::{
        Contribution, Contributor, Decision, Doubt, DrillFunction, Drilled, DrilledNode, End, Epoch, Foreign,
        FunctionId, HandOver, HandedOver, LevelVotes, NodeCause, NodeId, NotMeasured, PhaseMarks, Phases,
        Queued, RootCause, Sampled, SampledPlace, SearchCost, SiteId, Status, Unmeasured,
    };
    let place = |function: &str, line: Option<(&str, u32)>, samples| SampledPlace {
        function: function.to_owned(),
        line: line.map(|(file, line)| (file.to_owned(), line)),
        samples,
    };
    let unmeasured = |function: &str, why| Unmeasured { function: function.to_owned(), why };
    let histogram = histogram(&[(1 << 12, 900), (1 << 22, 100)]);
    let function = |name: &str, address, refused: Option<&str>| DrillFunction {
        name: name.to_owned(),
        file: "/srv/shop\u{202e}".into(),
        address,
        refused: refused.map(str::to_owned),
    };
    let node = |parent, site, function| DrilledNode {
        parent: Some(NodeId(parent)),
        site: Some(SiteId { address: site }),
        function,
    };
    let contribution = |contributor, maxcount, mean_ns, chosen| Contribution {
        contributor,
        maxcount,
        calls: 20,
        mean_ns,
        median_ns: mean_ns + 100_000,
        chosen,
    };
    let f0 = DrilledNode { parent: None, site: None, function: Some(FunctionId(0)) };
    let votes = |node, chosen, runner_up| LevelVotes { node: NodeId(node), calls: 20, chosen, runner_up };
    Drilled {
        host: Host::default(),
        target: "./shop:serve".to_owned(),
        functions: vec![
            function("serve", 0x1000, None),
            function("look_up\x1b[2J", 0x1100, None),
            function("read_block", 0x1200, None),
            function("memcpy", 0, Some("an IFUNC")),
        ],
        process: (42, "shop".to_owned()),
        peaks: wakepath_distribution::peaks(&histogram),
        histogram,
        peak: 2,
        elapsed: Duration::from_millis(1500),
        calls: 1400,
        phases: Some(Phases {
            marks: PhaseMarks { begins: Some(String::from("./shop:opens\x1b[2J")), ends: None },
            began: 3,
        }),
        handed_over: Some(HandedOver {
            way: HandOver {
                by: String::from("./shop:submit\x1b[2J"),
                argument: 2,
                request: 1,
                within: Some(String::from("./shop:order\x1b[2J")),
            },
            requests: 1403,
            not_followed: 2,
            begun: Queued { requests: 1400, ns: 1_680_000_000 },
            in_peak: Queued { requests: 20, ns: 68_000_000 },
            others: 5200,
        }),
        status: Status::RootCauseFound,
        root_causes: vec![
            RootCause {
                path: vec![NodeId(0), NodeId(1), NodeId(2)],
                cause: Some(NodeCause::Itself),
                end: Some(End::Itself),
                ns: 3_900_000,
                blocked_ns: 3_800_000,
                f0_ns: 4_000_000,
                levels: vec![votes(0, 20, 1), votes(1, 19, 0)],
                confidence: 0.95,
                doubts: Vec::new(),
            },
            RootCause {
                path: vec![NodeId(0), NodeId(1)],
                cause: Some(NodeCause::Loop { callee: NodeId(3), calls: 20_000 }),
                end: Some(End::Itself),
                ns: 2_100_000,
                blocked_ns: 0,
                f0_ns: 4_000_000,
                levels: vec![votes(0, 20, 18)],
                confidence: 0.1,
                doubts: vec![
                    Doubt::CloseVotes { node: NodeId(1) },
                    Doubt::FewCalls { node: NodeId(1), calls: 3 },
                ],
            },
        ],
        decisions: vec![Decision {
            node: NodeId(0),
            epoch: Epoch(1),
            calls: 20,
            votes: 20,
            unsure: 2,
            shifted: 0,
            missing: 0,
            contributors: vec![
                contribution(Contributor::Itself, 1, 900_000, false),
                contribution(Contributor::Callee(NodeId(1)), 20, 3_900_000, true),
                contribution(Contributor::Callee(NodeId(4)), 0, 0, false),
                contribution(Contributor::Foreign(Foreign::Preemption), 0, 2_000, false),
            ],
            spread: None,
            not_measured: 1,
            batches: Vec::new(),
            left_out: Vec::new(),
            unknown_targets: 0,
        }],
        nodes: HashMap::from([
            (NodeId(0), f0),
            (NodeId(1), node(0, 0x20, Some(FunctionId(1)))),
            (NodeId(2), node(1, 0x120, Some(FunctionId(2)))),
            (NodeId(3), node(1, 0x130, Some(FunctionId(3)))),
            (NodeId(4), node(1, 0x140, None)),
        ]),
        lines: HashMap::from([(NodeId(2), ("shop\u{202e}.c".to_owned(), 88))]),
        unmeasured: HashMap::from([
            (NodeId(0), vec![unmeasured("strcmp", NotMeasured::TooOften)]),
            (
                NodeId(1),
                vec![
                    unmeasured("qsort\x1b", NotMeasured::TooOften),
                    unmeasured("free", NotMeasured::SingleStep),
                    unmeasured("exit", NotMeasured::Unsafe),
                    unmeasured("memset", NotMeasured::Kernel),
                    unmeasured("0x7f0000001000", NotMeasured::OutsideFiles),
                    unmeasured("shop+0x2880", NotMeasured::NotDecoded),
                    unmeasured("visit", NotMeasured::Jump),
                    unmeasured("memcmp", NotMeasured::Budget),
                ],
            ),
        ]),
        sampled: HashMap::from([(
            NodeId(1),
            Sampled {
                samples: 200,
                calls: 12,
                places: vec![
                    place("look_up", Some(("shop\u{202e}.c", 91)), 150),
                    place("memcpy", None, 47),
                    place("look_up", Some(("shop\u{202e}.c", 92)), 2),
                    place("the kernel", None, 1),
                ],
            },
        )]),
        of_goroutines: false,
        probe: Some(latency::ProbeCost::new(1500, 700)),
        of_python: false,
        most_probed: 4,
        cost: SearchCost {
            ns: 12_000_000,
            of_machine: 0.012,
            elapsed: Duration::from_millis(500),
            call_before_ns: 4_000_000,
            call_meanwhile_ns: 4_400_000,
        },
        notes: vec!["a note".to_owned()],
    }
}
