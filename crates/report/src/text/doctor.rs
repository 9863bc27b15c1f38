//! The checks by `wakepath doctor`, as text.

use wakepath_engine::doctor::{Check, CheckVerdict};

use crate::screen::{Layout, Line, Screen, Style};

/// A line for each check, with its consequence and hint if it fails, and a conclusion.
pub fn doctor(checks: &[Check], layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    for check in checks {
        let (word, style, detail, failure) = match &check.verdict {
            CheckVerdict::Works(detail) => ("yes", Style::Normal, detail, None),
            CheckVerdict::Lacking { why, consequence, hint } => {
                ("no", Style::Warning, why, Some((consequence.as_str(), hint)))
            }
            CheckVerdict::Blocking { why, hint } => {
                ("NO", Style::Warning, why, Some(("nothing can be recorded", hint)))
            }
        };
        let mut line = Line::from(check.what.as_str());
        if !detail.is_empty() {
            let style = if failure.is_some() { Style::Normal } else { Style::Faint };
            line.push(style, format!(": {detail}"));
        }
        screen.hanging(Line::new().add(style, format!("{word:<5}")), 5, line);
        if let Some((consequence, hint)) = failure {
            screen.hanging("     so   ", 10, consequence);
            screen.hanging("     try  ", 10, Line::strong(hint));
        }
    }
    screen.blank();
    let blocking = checks.iter().any(|check| matches!(check.verdict, CheckVerdict::Blocking { .. }));
    let lacking = checks.iter().filter(|check| matches!(check.verdict, CheckVerdict::Lacking { .. })).count();
    let sum = match (blocking, lacking) {
        (true, _) => "wakepath cannot record here.",
        (false, 0) => "wakepath can record everything here.",
        (false, _) => "wakepath can record here; answers lack what is listed above.",
    };
    screen.wrapped(0, Line::strong(sum));
    screen.into_text()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn each_no_says_what_it_costs_and_what_to_do() {
        let checks = [
            Check { what: "creating BPF maps".into(), verdict: CheckVerdict::Works(String::new()) },
            Check {
                what: "reading the kernel's symbols".into(),
                verdict: CheckVerdict::Lacking {
                    why: "all addresses are zero".into(),
                    consequence: "kernel functions have no names".into(),
                    hint: "run as root, or grant CAP_SYSLOG".into(),
                },
            },
        ];
        expect![[r"
            yes  creating BPF maps
            no   reading the kernel's symbols: all addresses are zero
                 so   kernel functions have no names
                 try  run as root, or grant CAP_SYSLOG

            wakepath can record here; answers lack what is listed above.
        "]]
        .assert_eq(&doctor(&checks, Layout::PLAIN));
    }
}
