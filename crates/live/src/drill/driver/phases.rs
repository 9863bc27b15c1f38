//! A program's phases: only calls within them are measured (T08 section 3.10).

use std::time::Duration;

use wakepath_engine::drill::Phases;

use super::Driver;
use crate::drill::{DrillError, DrillQuery, one_function};

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
