//! The sums below the incidents' table, beside their aims.

use super::check::{Checked, IncidentVerdict};
use super::script::Incident;
use super::twin::TwinVerdict;

/// The share of right answers that the first command should give, and at most two commands, %.
const AIMS: [usize; 2] = [85, 95];

/// The lines with the sums. The shares count incidents that ran, undecided ones too.
pub fn sums(judged: &[(Incident, Checked)]) -> String {
    let (healthy, planted): (Vec<_>, Vec<_>) = judged.iter().partition(|(incident, _)| incident.is_healthy);
    let count = |among: &[&(Incident, Checked)], is: &dyn Fn(&Checked) -> bool| {
        among.iter().filter(|(_, checked)| is(checked)).count()
    };
    let planted_with = |is: fn(&IncidentVerdict) -> bool| count(&planted, &|checked| is(&checked.verdict));
    let not_run = planted_with(|verdict| matches!(verdict, IncidentVerdict::NotRun(_)));
    let ran = planted.len() - not_run;
    let right =
        |commands| count(&planted, &|it| it.verdict == IncidentVerdict::Right && it.commands <= commands);
    let share = |right: usize| (100 * right).checked_div(ran).unwrap_or(0);
    let [first, two] = [right(1), right(2)];
    let twins = |is: fn(&TwinVerdict) -> bool| -> usize {
        planted.iter().map(|(_, checked)| checked.twins.iter().filter(|twin| is(twin)).count()).sum()
    };
    let blame = |is: fn(&IncidentVerdict) -> bool| count(&healthy, &|checked| is(&checked.verdict));
    format!(
        "{} incidents, {not_run} not run. Right with the first command: {first} ({}%, aim {}%); with at most two: {two} \
         ({}%, aim {}%). {} without an answer, {} undecided, {} WRONG (aim 0).\n\n\
         Twins: {} right, {} WRONG (aim 0), {} not judged. Healthy runs: {} right, {} WRONG (aim 0), {} not run.",
        planted.len(),
        share(first),
        AIMS[0],
        share(two),
        AIMS[1],
        planted_with(|verdict| matches!(verdict, IncidentVerdict::NoAnswer(_))),
        planted_with(|verdict| matches!(verdict, IncidentVerdict::Undecided(_))),
        planted_with(|verdict| matches!(verdict, IncidentVerdict::Wrong(_))),
        twins(|twin| matches!(twin, TwinVerdict::Right(_))),
        twins(|twin| matches!(twin, TwinVerdict::Wrong(..))),
        twins(|twin| matches!(twin, TwinVerdict::NotJudged(_))),
        blame(|verdict| *verdict == IncidentVerdict::Right),
        blame(|verdict| matches!(verdict, IncidentVerdict::Wrong(_))),
        blame(|verdict| !matches!(verdict, IncidentVerdict::Right | IncidentVerdict::Wrong(_))),
    )
}

/// True if no answer says what is not so, no twin's headline names the cause, and no healthy run blames.
pub fn is_right(judged: &[(Incident, Checked)]) -> bool {
    let is_wrong = |checked: &Checked| {
        matches!(checked.verdict, IncidentVerdict::Wrong(_))
            || checked.twins.iter().any(|twin| matches!(twin, TwinVerdict::Wrong(..)))
    };
    !judged.iter().any(|(_, checked)| is_wrong(checked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(verdict: IncidentVerdict, commands: usize, twins: Vec<TwinVerdict>) -> (Incident, Checked) {
        (Incident::default(), Checked { commands, twins, ..Checked::of(verdict) })
    }

    fn wrong() -> IncidentVerdict {
        IncidentVerdict::Wrong(String::new())
    }

    #[test]
    fn sums_count_each_verdict_and_the_commands_that_it_took() {
        let right = || TwinVerdict::Right(String::new());
        let named = || TwinVerdict::Wrong(String::new(), String::new());
        let why = String::new;
        let mut all = vec![
            judged(IncidentVerdict::Right, 1, vec![right(), right()]),
            judged(IncidentVerdict::Right, 1, vec![right(), named()]),
            judged(IncidentVerdict::Right, 2, vec![right(), TwinVerdict::NotJudged(why())]),
            judged(IncidentVerdict::NoAnswer(why()), 2, Vec::new()),
            judged(IncidentVerdict::Undecided(why()), 1, Vec::new()),
            judged(IncidentVerdict::NotRun(why()), 0, Vec::new()),
        ];
        let mut healthy = judged(IncidentVerdict::Right, 1, Vec::new());
        healthy.0.is_healthy = true;
        all.push(healthy);
        assert_eq!(
            sums(&all),
            "6 incidents, 1 not run. Right with the first command: 2 (40%, aim 85%); with at most two: 3 (60%, aim 95%). \
             1 without an answer, 1 undecided, 0 WRONG (aim 0).\n\n\
             Twins: 4 right, 1 WRONG (aim 0), 1 not judged. Healthy runs: 1 right, 0 WRONG (aim 0), 0 not run."
        );
    }

    #[test]
    fn a_wrong_answer_a_wrong_twin_and_a_healthy_run_that_is_blamed_all_fail() {
        let ok = || judged(IncidentVerdict::Right, 1, vec![TwinVerdict::Right(String::new())]);
        assert!(is_right(&[ok(), judged(IncidentVerdict::NoAnswer(String::new()), 1, Vec::new())]));
        assert!(!is_right(&[ok(), judged(wrong(), 1, Vec::new())]));
        let twin = TwinVerdict::Wrong(String::new(), String::new());
        assert!(!is_right(&[ok(), judged(IncidentVerdict::Right, 1, vec![twin])]));
        let mut healthy = judged(wrong(), 1, Vec::new());
        healthy.0.is_healthy = true;
        assert!(!is_right(&[healthy]));
    }
}
