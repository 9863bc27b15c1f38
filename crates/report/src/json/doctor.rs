//! `wakepath.doctor/1`: what this machine and these rights allow.

use std::io::{self, Write};

use serde::Serialize;
use wakepath_engine::doctor::{Check, Verdict};

use super::write;

/// Writes the document of what was tried.
pub fn doctor(checks: &[Check], out: &mut dyn Write) -> io::Result<()> {
    let can_record = !checks.iter().any(|check| matches!(check.verdict, Verdict::Blocking { .. }));
    let checks = checks.iter().map(check).collect();
    write(out, &DoctorJson { schema: "wakepath.doctor/1", can_record, checks })
}

#[derive(Serialize)]
struct DoctorJson<'a> {
    schema: &'static str,
    can_record: bool,
    checks: Vec<CheckJson<'a>>,
}

/// `verdict` is `works`, `lacking` (answers lack something) or `blocking` (nothing can be recorded).
#[derive(Serialize)]
struct CheckJson<'a> {
    what: &'a str,
    verdict: &'static str,
    why: Option<&'a String>,
    consequence: Option<&'a String>,
    hint: Option<&'a String>,
}

fn check(Check { what, verdict }: &Check) -> CheckJson<'_> {
    let (verdict, why, consequence, hint) = match verdict {
        Verdict::Works(_) => ("works", None, None, None),
        Verdict::Lacking { why, consequence, hint } => ("lacking", Some(why), Some(consequence), Some(hint)),
        Verdict::Blocking { why, hint } => ("blocking", Some(why), None, Some(hint)),
    };
    CheckJson { what, verdict, why, consequence, hint }
}
