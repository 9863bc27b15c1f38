//! The problems of an answer: those of several calls put together, and the worst first.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use crate::{Problem, ProblemKind};

type Alike = (Discriminant<ProblemKind>, Option<Discriminant<wakepath_critical_path::ProblemKind>>);

fn alike(problem: &Problem) -> Alike {
    let found = match &problem.kind {
        ProblemKind::Path(kind) => Some(discriminant(kind)),
        _ => None,
    };
    (discriminant(&problem.kind), found)
}

/// Adds the problems of calls to those of the whole `head`, one for each kind that this lacks: that of the first call
/// that has it.
pub(crate) fn add_of_calls<'p>(head: &mut Vec<Problem>, calls: impl Iterator<Item = &'p Problem>) {
    let whole: Vec<_> = head.iter().map(alike).collect();
    let mut places: HashMap<Alike, usize> = HashMap::new();
    for problem in calls.filter(|problem| !whole.contains(&alike(problem))) {
        match places.get(&alike(problem)) {
            Some(&place) => head[place].other_calls += 1,
            None => {
                places.insert(alike(problem), head.len());
                head.push(problem.clone());
            }
        }
    }
}

/// The worst first.
pub(crate) fn sort(problems: &mut [Problem]) {
    problems.sort_by_key(|problem| std::cmp::Reverse(problem.severity()));
}
