//! The abilities of this machine with these rights.

use wakepath_collect::CheckVerdict as Found;
use wakepath_engine::doctor::{Check, CheckVerdict};

/// Tries each step a default recording takes, and leaves nothing running. `begins` gets each feature before its try.
pub fn examine(begins: &mut dyn FnMut(&str)) -> Vec<Check> {
    let tried = wakepath_collect::examine(&wakepath_collect::Options::default(), begins);
    tried.into_iter().map(|check| Check { what: check.what, verdict: verdict(check.verdict) }).collect()
}

fn verdict(found: Found) -> CheckVerdict {
    match found {
        Found::Works(detail) => CheckVerdict::Works(detail),
        Found::Lacking { why, consequence, hint } => CheckVerdict::Lacking { why, consequence, hint },
        Found::Blocking { why, hint } => CheckVerdict::Blocking { why, hint },
    }
}
