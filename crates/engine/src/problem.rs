//! An answer's problems: several calls' problems merged, the worst first.

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

/// Adds calls' problems to the whole answer's in `head`: for each kind missing there, the first call's problem, with
/// the number of other calls.
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

/// Sorts by severity, the worst first.
pub(crate) fn sort(problems: &mut [Problem]) {
    problems.sort_by_key(|problem| std::cmp::Reverse(problem.severity()));
}
