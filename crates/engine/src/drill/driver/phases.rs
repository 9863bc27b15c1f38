//! Phases of a program: only calls within them are measured (T08 section 3.10).

use std::time::Duration;

use super::Driver;
use crate::drill::{DrillError, DrillQuery, one_function};

/// The functions by which a program says that a phase begins, and that it ends; without the first, one begins at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PhaseMarks {
    /// A call of it begins a phase.
    pub begins: Option<String>,
    /// A call of it ends one.
    pub ends: Option<String>,
}

/// The phases in which calls were measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phases {
    /// The functions that mark them.
    pub marks: PhaseMarks,
    /// The number of those that began.
    pub began: u64,
}

impl PhaseMarks {
    /// Whether all of the program's time counts.
    pub fn is_empty(&self) -> bool {
        self.begins.is_none() && self.ends.is_none()
    }
}

impl Driver<'_> {
    /// From now on only calls within the phases of a query are measured, if it has any.
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

    /// The reason for which no call was seen, where that may be a phase that did not begin.
    pub(super) fn no_phase(&self, query: &DrillQuery, elapsed: Duration) -> Option<DrillError> {
        let begins = query.phases.begins.clone()?;
        let (_, began) = self.drill.phases().ok()?;
        (began == 0).then_some(DrillError::NoPhase { begins, elapsed })
    }
}
