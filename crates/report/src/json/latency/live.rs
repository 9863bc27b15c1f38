//! Latency distributions counted live, as JSON.

use std::io::{self, Write};

use serde::Serialize;
use wakepath_engine::latency::RefusedTarget;
use wakepath_engine::latency::live::LiveLatency;

use super::{TargetJson, ns, target, text};

#[derive(Serialize)]
struct LatencyJson {
    schema: &'static str,
    /// Counted now, or from a recording.
    source: &'static str,
    elapsed_ns: u64,
    targets: Vec<TargetJson>,
    refused: Vec<RefusedJson>,
}

#[derive(Serialize)]
struct RefusedJson {
    target: String,
    why: String,
}

/// Writes distributions counted live.
///
/// # Errors
/// Write errors on `out`.
pub fn live_latency(latency: &LiveLatency, out: &mut dyn Write) -> io::Result<()> {
    let document = LatencyJson {
        schema: "wakepath.latency/1",
        source: "live",
        elapsed_ns: ns(latency.elapsed),
        targets: latency.targets.iter().map(target).collect(),
        refused: latency.refused.iter().map(refused).collect(),
    };
    crate::json::write(out, &document)
}

fn refused(RefusedTarget { target, why }: &RefusedTarget) -> RefusedJson {
    RefusedJson { target: text(target.as_bytes()), why: text(why.as_bytes()) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wakepath_engine::latency::{
        Distribution, Group, GroupBy, GroupKey, Groups, LatencySource, OtherProcesses, ProbeCost,
        RemovedProbes,
    };

    use super::*;
    use crate::json::shape::{document, golden};
    use crate::sample::{group, histogram, live, slice};

    #[test]
    fn documents_keep_the_contract() {
        let counts = [(1000, 30), (1 << 60, 1)];
        let slice = slice(0, 1_000_000_000, &counts);
        let group = |key| Group { slices: vec![slice.clone()], unwound: 1, ..group(key, &counts) };
        let (comm, path) = (Some(Box::from(*b"a\x1b[2J")), Some(Box::from(*b"/a")));
        let groups = vec![
            group(GroupKey::Process { pid: 7, start_ns: 1 << 60, comm: comm.clone() }),
            group(GroupKey::Thread { tid: 8, pid: Some(7), start_ns: 1, comm }),
            group(GroupKey::Cgroup { id: 1 << 60, path }),
            group(GroupKey::Others),
        ];
        let distribution = Distribution {
            target: String::from("./app:f\u{202e}"),
            source: LatencySource::Calls,
            histogram: histogram(&counts),
            slices: vec![slice],
            groups: Some(Groups { by: GroupBy::Process, groups }),
            unwound: 1,
            overflowed: 2,
            open: 3,
            unseen: 4,
            probe: Some(ProbeCost { per_call_ns: 1100, shift: 480, from_bucket: 10 }),
            other_processes: Some(OtherProcesses {
                processes: 41,
                file: "/a\u{202e}".into(),
                per_call_ns: Some(900),
            }),
            removed: Some(RemovedProbes {
                after: Duration::from_millis(20),
                calls: 5,
                per_call_ns: 6,
                share: 0.5,
                budget: 0.05,
            }),
            notes: vec![String::from("a note")],
        };
        let mut found = live(vec![distribution]);
        let (name, why) = (String::from("./app:g\u{202e}"), String::from("a loop\u{202e}"));
        found.refused.push(RefusedTarget { target: name, why });
        let document = document(include_str!("../../../contract/latency.txt"), |out| {
            live_latency(&found, out)?;
            assert!(out.is_ascii(), "nothing that turns a terminal's text around");
            Ok(())
        });
        golden(&document, &expect_test::expect_file!["../../../tests/golden/latency.json"]);
        let target = &document["targets"][0];
        let cost = serde_json::json!({"per_call_ns": 1100, "shift_ns": 480, "shift_cycles": null, "from_bucket": 10});
        assert_eq!(target["probe"], cost);
        let beside = serde_json::json!({"processes": 41, "file": "/a\u{202e}", "per_call_ns": 900});
        assert_eq!(target["elsewhere"], beside);
        let removed = serde_json::json!({"after_ns": 20_000_000, "calls": 5, "per_call_ns": 6, "share": 0.5, "budget": 0.05});
        assert_eq!(target["removed"], removed);
        assert_eq!(target["buckets"][0]["index"], 9);
        let whose = |group: usize, key: &str| target["groups"][group][key].clone();
        assert_eq!((whose(0, "pid"), whose(1, "tid"), whose(1, "pid")), (7.into(), 8.into(), 7.into()));
        assert_eq!(
            (whose(0, "start_ns"), whose(2, "cgroup_id")),
            ((1_u64 << 60).to_string().into(), (1_u64 << 60).to_string().into())
        );
        assert_eq!((whose(0, "comm"), whose(2, "cgroup")), ("a\u{1b}[2J".into(), "/a".into()));
        assert_eq!((whose(2, "others"), whose(3, "others")), (false.into(), true.into()));
        assert_eq!(target["buckets"][1]["to"], ((1_u64 << 61) - 1).to_string());
        assert_eq!(target["sum"], (30_000_u64 + (1 << 60)).to_string());
    }
}
