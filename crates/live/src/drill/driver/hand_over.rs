//! Requests that a thread hands over to another: calls are measured only if their request came from a function on the program's main path
//! (T08 section 3.13).

use std::time::Duration;

use wakepath_collect::{HandOverCounts, HandOverProbes, argument_register};
use wakepath_engine::drill::{HandOver, HandedOver, Queued};
use wakepath_engine::latency::target::Target;
use wakepath_functions::{Return, Runtime};

use super::python::PythonTarget;
use super::{Driver, Known};
use crate::drill::{DrillError, DrillQuery, one_function};

/// Checks whether requests can be followed to a target, before anything is looked for.
///
/// # Errors
/// For functions in Python and the kernel: their arguments are not in registers where their calls are seen.
pub(in crate::drill) fn check_target(target: &str) -> Result<(), DrillError> {
    let function = target.to_owned();
    if PythonTarget::parse(target).is_some() {
        return Err(DrillError::HandOverInPython { function });
    }
    match Target::parse(target) {
        Ok(Target::KernelFunction(_)) => Err(DrillError::HandOverInKernel { function }),
        _ => Ok(()),
    }
}

impl Driver<'_> {
    /// From now on measures only calls whose requests were handed over in the query's way, if it has any.
    pub fn follow_requests(&mut self, query: &DrillQuery, pid: u32) -> Result<(), DrillError> {
        let Some(way) = &query.hand_over else { return Ok(()) };
        let Some(Known::Probed(f0)) = self.functions.first() else { return Ok(()) };
        let of_f0 = (f0.function.probe.runtime, query.target.as_str());
        let request = register(of_f0, way.request)?;
        let submit = one_function(&way.by, pid, query.allowed)?;
        let register = register((submit.probe.runtime, &way.by), way.argument)?;
        let within =
            way.within.as_ref().map(|within| one_function(within, pid, query.allowed)).transpose()?;
        if let Some(within) = within.as_ref().filter(|within| within.probe.returns == Return::AtCallers) {
            return Err(DrillError::WithinUnseen(within.readable.clone()));
        }
        self.drill.follow_requests(HandOverProbes {
            submit: (&submit.probe, register),
            request,
            within: within.as_ref().map(|within| &within.probe),
        })?;
        Ok(())
    }

    /// The requests handed over; `None` for a query without a hand-over.
    pub fn handed_over(&self, query: &DrillQuery) -> Result<Option<HandedOver>, DrillError> {
        let Some(way) = query.hand_over.clone() else { return Ok(None) };
        let counts = self.drill.requests()?;
        Ok(Some(HandedOver {
            way,
            requests: counts.handed_over(),
            not_followed: counts.crowded,
            begun: Queued { requests: counts.begun, ns: counts.queued_ns },
            in_peak: self.search.queued,
            others: counts.others,
        }))
    }

    /// The reason that no call was seen, if the requests' way is the reason.
    pub(super) fn no_request(&self, query: &DrillQuery, elapsed: Duration) -> Option<DrillError> {
        let way = query.hand_over.as_ref()?;
        no_request(way, &query.target, &self.drill.requests().ok()?, elapsed)
    }
}

/// An argument's register.
fn register((runtime, function): (Runtime, &str), argument: u32) -> Result<u8, DrillError> {
    argument_register(runtime, argument).ok_or_else(|| DrillError::NoRegister {
        function: function.to_owned(),
        argument,
        most: (1..).take_while(|&number| argument_register(runtime, number).is_some()).count(),
    })
}

fn no_request(
    way: &HandOver,
    target: &str,
    counts: &HandOverCounts,
    elapsed: Duration,
) -> Option<DrillError> {
    let HandOver { by, argument, request, within } = way.clone();
    let HandOverCounts { submitted, outside, null, others, begun, .. } = *counts;
    match within {
        _ if submitted == 0 => Some(DrillError::NotHandedOver { by, elapsed }),
        Some(within) if outside == submitted => {
            Some(DrillError::HandedOverElsewhere { by, within, submitted, elapsed })
        }
        _ if null > 0 && counts.handed_over() == 0 => {
            Some(DrillError::NullRequests { by, argument, null, elapsed })
        }
        _ if begun == 0 && others > 0 => {
            let (target, handed_over) = (target.to_owned(), counts.handed_over());
            Some(DrillError::NoneBegan { by, argument, handed_over, target, request, others, elapsed })
        }
        // The drill-down's first function was not called, or did not return.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_on_which_no_request_comes_has_an_error_of_its_own() {
        let said = |within: Option<&str>, submitted, outside, null, begun, others| {
            let within = within.map(str::to_owned);
            let way = HandOver { by: String::from("p:submit"), argument: 2, request: 3, within };
            let counts =
                HandOverCounts { submitted, outside, null, begun, others, ..HandOverCounts::default() };
            let error = no_request(&way, "p:work", &counts, Duration::from_secs(10));
            error.map_or_else(String::new, |error| error.to_string())
        };
        for (error, says) in [
            (
                said(Some("p:main"), 0, 0, 0, 0, 9),
                "`p:submit` was not called in 10.0 s, so that it handed no request over",
            ),
            (
                said(Some("p:main"), 5, 5, 0, 0, 9),
                "`p:submit` was called 5 times in 10.0 s, but never within a call of `p:main`",
            ),
            (
                said(Some("p:main"), 5, 2, 3, 0, 9),
                "argument 2 of `p:submit` was 0 in each of its 3 calls in 10.0 s: it is no request",
            ),
            (
                said(Some("p:main"), 6, 1, 1, 0, 7),
                "`p:submit` handed 4 requests over in 10.0 s by its argument 2, and `p:work` was called 7 times, but argument 3 \
                 of it was none of them",
            ),
        ] {
            assert_eq!(error, says);
        }
        // The way is not the reason: the function was not called, or a call goes on.
        assert_eq!(said(None, 6, 0, 1, 0, 0), "");
        assert_eq!(said(None, 6, 0, 1, 1, 7), "");
    }

    #[test]
    fn a_request_is_an_argument_in_a_register() {
        let said = |runtime, argument| match register((runtime, "p:work"), argument) {
            Ok(register) => register.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(said(Runtime::Native, 6), "9");
        for (runtime, argument, why) in [
            (Runtime::Native, 7, "argument 7 of `p:work` is in no register: those from 1 to 6 are"),
            (Runtime::Native, 0, "argument 0 of `p:work` is in no register: those from 1 to 6 are"),
            (Runtime::Go, 10, "argument 10 of `p:work` is in no register: those from 1 to 9 are"),
        ] {
            assert_eq!(said(runtime, argument), why);
        }
        for (target, why) in [
            ("kernel:vfs_read", "`kernel:vfs_read` is a function of the kernel"),
            ("python:serve", "`python:serve` is a function of Python"),
        ] {
            let error = check_target(target).expect_err(target).to_string();
            assert!(error.starts_with(why), "{error}");
        }
        assert!(check_target("p:work").is_ok());
    }
}
