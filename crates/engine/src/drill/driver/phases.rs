//! A program's phases: only calls within them are measured (T08 section 3.10).

use std::time::Duration;

use super::Driver;
use crate::drill::{DrillError, DrillQuery, one_function};

/// The functions that mark a phase's beginning and end in a program; without the first, a phase begins at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PhaseMarks {
    /// A call of this function begins a phase.
    pub begins: Option<String>,
    /// A call of this function ends a phase.
    pub ends: Option<String>,
}

/// The phases in which calls were measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phases {
    /// The functions that mark the phases.
    pub marks: PhaseMarks,
    /// The number of phases that began.
    pub began: u64,
}

impl PhaseMarks {
    /// Whether all of the program's time counts.
    pub fn is_empty(&self) -> bool {
        self.begins.is_none() && self.ends.is_none()
    }
}

impl Driver<'_> {
    /// From now on measures only calls within the query's phases, if it has any.
    pub fn mark_phases(&mut self, query: &DrillQuery, pid: u32) -> Result<(), DrillError> {
        if query.phases.is_empty() {
            return Ok(());
        }
        let find = |target: &Option<String>| {
            let function = target.as_ref().map(|target| one_function(target, pid, query.allowed));
            Ok::<_, DrillError>(function.transpose()?.map(|function| function.probe))
        };
        let (begins, ends) = (find(&query.phases.begins)?, find(&query.phases.ends)?);
        Ok(self.drill.mark_phases(begins.as_ref(), ends.as_ref())?)
    }

    /// The phases in which calls were measured; `None` where all of the program's time counts.
    pub fn phases(&self, query: &DrillQuery) -> Result<Option<Phases>, DrillError> {
        if query.phases.is_empty() {
            return Ok(None);
        }
        Ok(Some(Phases { marks: query.phases.clone(), began: self.drill.phases()?.1 }))
    }

    /// The reason that no call was seen, if no phase began.
    pub(super) fn no_phase(&self, query: &DrillQuery, elapsed: Duration) -> Option<DrillError> {
        let begins = query.phases.begins.clone()?;
        let (_, began) = self.drill.phases().ok()?;
        (began == 0).then_some(DrillError::NoPhase { begins, elapsed })
    }
}
