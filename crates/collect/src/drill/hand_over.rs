//! Requests handed over from a thread to another (T08 section 3.13): `bpf/drill_hand_over.bpf.h`.

use wakepath_functions::{Probe, Return, Runtime};

use super::Drill;
use crate::error::Error;

/// The functions between which requests go, with their arguments' registers as x86 numbers them
/// ([`argument_register`]).
#[derive(Debug, Clone, Copy)]
pub struct HandOverProbes<'a> {
    /// The function that hands a request over, and the request's register there.
    pub submit: (&'a Probe, u8),
    /// The request's register at f0's entry.
    pub request: u8,
    /// Only requests handed over within a call of this function count.
    pub within: Option<&'a Probe>,
}

/// The requests so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandOverCounts {
    /// Calls of the function that hands over.
    pub submitted: u64,
    /// Calls outside the function within which they count.
    pub outside: u64,
    /// Calls whose argument was 0.
    pub null: u64,
    /// Calls without room: too many requests had not begun.
    pub crowded: u64,
    /// Calls of f0 that began with a handed-over request.
    pub begun: u64,
    /// The total time between hand-over and beginning, ns.
    pub queued_ns: u64,
    /// Calls of f0 that began with another argument. They are not measured.
    pub others: u64,
}

impl HandOverCounts {
    /// The requests handed over where they count.
    pub fn handed_over(&self) -> u64 {
        // The counters are read while they count.
        self.submitted.saturating_sub(self.outside).saturating_sub(self.null)
    }
}

/// The register with a function's argument, counted from 1, as x86 numbers it; `None` for an argument on the stack,
/// and where arguments are in no registers. Arguments are pointers and integers (System V ABI for x86-64, section
/// 3.2.3; Go's internal ABI).
pub fn argument_register(runtime: Runtime, argument: u32) -> Option<u8> {
    let registers: &[u8] = match runtime {
        // rdi, rsi, rdx, rcx, r8, r9.
        Runtime::Native => &[7, 6, 2, 1, 8, 9],
        // rax, rbx, rcx, rdi, rsi, r8 to r11.
        Runtime::Go => &[0, 3, 1, 7, 6, 8, 9, 10, 11],
        Runtime::Kernel | Runtime::Python => &[],
    };
    registers.get(argument.checked_sub(1)? as usize).copied()
}

impl Drill<'_> {
    /// From now on, measures only calls of f0 whose request was handed over since f0 was first counted. To be called
    /// before the first count.
    ///
    /// # Errors
    /// When the kernel refuses a probe on a function.
    pub fn follow_requests(&mut self, probes: HandOverProbes<'_>) -> Result<(), Error> {
        let HandOverProbes { submit: (submit, register), request, within } = probes;
        self.set(|bss| {
            (bss.by_request, bss.request_register) = (1, request.into());
            bss.handed_over_within = within.is_some().into();
        })?;
        if let Some(within) = within {
            let place = [(0, within.offset)];
            let links = match &within.returns {
                Return::ReturnProbe => {
                    self.attach(("drill_outer_return", "drill_outer_return_one"), true, &within.file, &place)?
                }
                Return::AtInstructions(offsets) => {
                    let places: Vec<_> = offsets.iter().map(|&offset| (0, offset)).collect();
                    self.attach(("drill_outer_leave", "drill_outer_leave_one"), false, &within.file, &places)?
                }
                // The caller refuses such a function.
                Return::AtCallers | Return::Never => Vec::new(),
            };
            self.marks.extend(links);
            let links = self.attach(("drill_outer", "drill_outer_one"), false, &within.file, &place)?;
            self.marks.extend(links);
        }
        let names = ("drill_hand_over", "drill_hand_over_one");
        let links = self.attach(names, false, &submit.file, &[(register.into(), submit.offset)])?;
        self.marks.extend(links);
        Ok(())
    }

    /// The requests since f0 was first counted.
    pub fn requests(&self) -> Result<HandOverCounts, Error> {
        let bss = self.skeleton.maps.bss_data.as_deref().ok_or(Error::Skeleton(".bss"))?;
        Ok(HandOverCounts {
            submitted: bss.submitted,
            outside: bss.submitted_outside,
            null: bss.submitted_null,
            crowded: bss.submitted_crowded,
            begun: bss.requests_begun,
            queued_ns: bss.requests_queued,
            others: bss.calls_of_others,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_in_the_registers_that_the_calling_rules_name() {
        let all = |runtime| (0..12).map_while(|number| argument_register(runtime, number + 1)).collect();
        let [native, go, kernel]: [Vec<u8>; 3] = [Runtime::Native, Runtime::Go, Runtime::Kernel].map(all);
        assert_eq!(native, [7, 6, 2, 1, 8, 9]);
        assert_eq!(go, [0, 3, 1, 7, 6, 8, 9, 10, 11]);
        assert!(kernel.is_empty());
        assert_eq!(argument_register(Runtime::Native, 0), None, "they are counted from 1");
    }
}
