//! Calls put together: what a group of them waited for, a call, beside what another group did.

use std::collections::HashMap;

use wakepath_critical_path::Kind;
use wakepath_engine::{Group, PathAnswer};

use crate::rows::{Party, Row, rows};

/// Who took time of calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Taker {
    /// The thread that made the call, by running: calls are made by threads of many names.
    Itself,
    /// Somebody or something else.
    Party(Party),
}

/// What one call waited for most, or did.
pub fn first(answer: &PathAnswer<'_>) -> Option<(Taker, Row)> {
    takers(answer).into_iter().next()
}

/// A call's rows, its own running apart from that of others; the largest first.
fn takers(answer: &PathAnswer<'_>) -> Vec<(Taker, Row)> {
    let subject = answer.subject().comm;
    let own = answer.path.segments.iter();
    let own = own.filter(|s| s.kind == Kind::Running && s.thread == Some(answer.path.window.thread));
    let mut own_ns: u64 = own.map(|segment| segment.to.since(segment.from)).sum();
    let mut takers = Vec::new();
    for (party, mut row) in rows(answer) {
        if party == Party::Running(subject) {
            // Others may have its name.
            let itself = Row { total_ns: own_ns.min(row.total_ns), ..row.clone() };
            own_ns -= itself.total_ns;
            row.total_ns -= itself.total_ns;
            if itself.total_ns > 0 {
                takers.push((Taker::Itself, itself));
            }
        }
        if row.total_ns > 0 {
            takers.push((Taker::Party(party), row));
        }
    }
    takers.sort_by(|(a, left), (b, right)| right.total_ns.cmp(&left.total_ns).then_with(|| a.cmp(b)));
    takers
}

/// What a party took of the calls that were asked about, and of the usual ones.
#[derive(Debug)]
pub struct Cause<'a> {
    /// Who.
    pub taker: Taker,
    /// The call in which it took most, and what it took there: an example.
    pub example: (&'a PathAnswer<'a>, Row),
    /// Its time in the calls that were asked about, ns a call.
    pub asked_ns: f64,
    /// Its time in the usual ones, ns a call.
    pub usual_ns: f64,
    /// In how many of the calls that were asked about it took more than all else.
    pub first_in: u64,
}

/// All causes: what makes the largest difference first. Together they are the groups' mean latencies.
pub fn causes<'a>(asked: &'a Group<'a>, usual: Option<&'a Group<'a>>) -> Vec<Cause<'a>> {
    let mut causes: HashMap<Taker, Cause<'a>> = HashMap::new();
    for (group, is_asked) in [(Some(asked), true), (usual, false)] {
        let Some(group) = group else { continue };
        let calls = group.paths.len().max(1) as f64;
        for answer in &group.paths {
            for (place, (taker, row)) in takers(answer).into_iter().enumerate() {
                let ns = row.total_ns as f64 / calls;
                let cause = causes.entry(taker.clone()).or_insert_with(|| Cause {
                    taker,
                    example: (answer, row.clone()),
                    asked_ns: 0.0,
                    usual_ns: 0.0,
                    first_in: 0,
                });
                if row.total_ns > cause.example.1.total_ns {
                    cause.example = (answer, row);
                }
                if is_asked {
                    cause.asked_ns += ns;
                    cause.first_in += u64::from(place == 0);
                } else {
                    cause.usual_ns += ns;
                }
            }
        }
    }
    let mut causes: Vec<_> = causes.into_values().collect();
    let more = |cause: &Cause<'_>| cause.asked_ns - cause.usual_ns;
    causes.sort_by(|a, b| more(b).total_cmp(&more(a)).then_with(|| a.taker.cmp(&b.taker)));
    causes
}
