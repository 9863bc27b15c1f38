//! Killed processes and signals without effect on the first screen: the first in the headline, the others as lines.

use wakepath_engine::PathAnswer;
use wakepath_findings::{DeathPart, Unheeded, WindowDeath};

use crate::screen::Screen;
use crate::wording::death;

/// The most lines; a crash may have many deaths.
const LINES: usize = 5;

/// Whether the headline says it already: the wait in which the process was killed.
fn is_said(answer: &PathAnswer, it: &WindowDeath) -> bool {
    let killed = answer.killed.as_ref().filter(|_| answer.still_waiting.is_none());
    let process = killed.and_then(|hang| answer.thread(hang.thread).tgid);
    !matches!(it.part, DeathPart::Awaited(_)) && process == Some(it.death.process)
}

fn deaths<'a>(answer: &'a PathAnswer<'_>) -> impl Iterator<Item = &'a WindowDeath> {
    answer.deaths.iter().filter(|it| !is_said(answer, it))
}

fn unheeded<'a>(answer: &'a PathAnswer<'_>) -> impl Iterator<Item = &'a Unheeded> {
    answer.unheeded.iter().filter(|it| it.is_large(&answer.evidence()))
}

/// The first signal with a wait for most of the window.
fn first_unheeded<'a>(answer: &'a PathAnswer<'_>) -> Option<&'a Unheeded> {
    unheeded(answer).find(|it| it.is_most(&answer.evidence()))
}

/// The headline's words about the first death and the first signal without effect.
pub fn first_words(answer: &PathAnswer) -> Vec<String> {
    let death = deaths(answer).next().map(|it| death::death(answer, it));
    let signal = first_unheeded(answer).map(|it| death::unheeded(answer, it));
    death.into_iter().chain(signal).collect()
}

/// The lines about the others.
pub fn lines(screen: &mut Screen, answer: &PathAnswer) {
    let first = first_unheeded(answer);
    let signals = unheeded(answer).filter(|it| first != Some(*it));
    let words = deaths(answer).skip(1).map(|it| death::death(answer, it));
    let words = words.chain(signals.map(|it| death::unheeded(answer, it)));
    for line in words.take(LINES) {
        screen.wrapped(0, line);
    }
}
