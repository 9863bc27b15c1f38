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

/// Many calls' problems: for each kind the first call's problem, and how many other calls have the same.
#[derive(Debug, Default)]
pub(crate) struct CallsProblems {
    first: Vec<Problem>,
    places: HashMap<Alike, usize>,
}

impl CallsProblems {
    pub(crate) fn add(&mut self, problem: &Problem) {
        match self.places.get(&alike(problem)) {
            Some(&place) => self.first[place].other_calls += 1,
            None => {
                self.places.insert(alike(problem), self.first.len());
                self.first.push(problem.clone());
            }
        }
    }

    /// Adds them to the whole answer's in `head`, each kind missing there.
    pub(crate) fn add_to(self, head: &mut Vec<Problem>) {
        let whole: Vec<_> = head.iter().map(alike).collect();
        head.extend(self.first.into_iter().filter(|problem| !whole.contains(&alike(problem))));
    }
}

/// Sorts by severity, the worst first.
pub(crate) fn sort(problems: &mut [Problem]) {
    problems.sort_by_key(|problem| std::cmp::Reverse(problem.severity()));
}
