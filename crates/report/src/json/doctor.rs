//! `wakepath.doctor/1`: the abilities of this machine with these rights.

use std::io::{self, Write};

use serde::Serialize;
use wakepath_engine::doctor::{Check, CheckVerdict};

use super::write;

/// Writes the document about the checks.
pub fn doctor(checks: &[Check], out: &mut dyn Write) -> io::Result<()> {
    let can_record = !checks.iter().any(|check| matches!(check.verdict, CheckVerdict::Blocking { .. }));
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
        CheckVerdict::Works(_) => ("works", None, None, None),
        CheckVerdict::Lacking { why, consequence, hint } => {
            ("lacking", Some(why), Some(consequence), Some(hint))
        }
        CheckVerdict::Blocking { why, hint } => ("blocking", Some(why), None, Some(hint)),
    };
    CheckJson { what, verdict, why, consequence, hint }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::json::shape::golden;

    #[test]
    fn the_document_has_each_check_with_its_reason_and_nothing_is_recorded_where_a_check_blocks_that() {
        let check = |what: &str, verdict| Check { what: what.to_owned(), verdict };
        let [why, consequence, hint] = ["why\u{202e}", "consequence", "hint"].map(String::from);
        let checks = [
            check("works", CheckVerdict::Works(String::from("with this"))),
            check("lacking", CheckVerdict::Lacking { why: why.clone(), consequence, hint: hint.clone() }),
            check("blocking", CheckVerdict::Blocking { why, hint }),
        ];
        let document = |checks: &[Check]| -> Value {
            let mut out = Vec::new();
            doctor(checks, &mut out).expect("room");
            assert!(out.is_ascii(), "nothing that turns a terminal's text around");
            serde_json::from_slice(&out).expect("JSON")
        };
        golden(&document(&checks), &expect_test::expect_file!["../../tests/golden/doctor.json"]);
        for (checks, can_record) in [(&checks[..2], true), (&checks[1..], false), (&[], true)] {
            assert_eq!(document(checks)["can_record"], can_record);
        }
    }
}
