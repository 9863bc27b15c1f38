//! The line with a slow start's current step.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wakepath_live::record::StartStep;

use crate::output::Output;

/// The line's delay, and then its interval.
const PATIENCE: Duration = Duration::from_secs(1);

/// Shows the step at which a slow start is, until this value is dropped.
pub struct Starting {
    steps: Option<Sender<StartStep>>,
    line: Option<JoinHandle<()>>,
}

impl Starting {
    /// From now on, on a terminal.
    pub fn new(output: &Output) -> Self {
        let output = output.clone();
        Self::showing(PATIENCE, move |text| output.passing(text))
    }

    fn showing(patience: Duration, show: impl FnMut(&str) + Send + 'static) -> Self {
        let (steps, reported) = mpsc::channel();
        // Without a thread, there is no line.
        let line = std::thread::Builder::new().spawn(move || follow(&reported, patience, show)).ok();
        Self { steps: Some(steps), line }
    }

    /// The start is at this step.
    pub fn at(&mut self, step: StartStep) {
        match (step, &self.steps) {
            (StartStep::Begun, _) => self.end(),
            (_, Some(steps)) => drop(steps.send(step)),
            (_, None) => {}
        }
    }

    fn end(&mut self) {
        self.steps = None;
        if let Some(line) = self.line.take() {
            // The thread has rights, and this process is about to give them up.
            let _ = line.join();
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.end();
    }
}

/// Shows the last reported step at intervals, and clears the line at the end.
fn follow(reported: &Receiver<StartStep>, patience: Duration, mut show: impl FnMut(&str)) {
    let (began, mut shown, mut step) = (Instant::now(), 0, StartStep::Load);
    loop {
        let due = patience * (shown + 1);
        match reported.recv_timeout(due.saturating_sub(began.elapsed())) {
            Ok(next) => step = next,
            Err(RecvTimeoutError::Timeout) => {
                shown += 1;
                show(&text(step, began.elapsed()));
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if shown > 0 {
        show("");
    }
}

fn text(step: StartStep, since: Duration) -> String {
    let doing = match step {
        StartStep::Load => "loading programs into the kernel",
        StartStep::Attach => "attaching the programs",
        StartStep::Measure => "measuring their cost (--no-calibration leaves this out)",
        StartStep::List | StartStep::Begun => "listing threads",
    };
    format!("starting for {} s: {doing}", since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The texts shown during a start.
    fn shown(patience: Duration, during: impl FnOnce(&mut Starting)) -> Vec<String> {
        let texts = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&texts);
        let mut starting =
            Starting::showing(patience, move |text| seen.lock().unwrap().push(text.to_owned()));
        during(&mut starting);
        drop(starting);
        let texts = texts.lock().unwrap();
        texts.clone()
    }

    #[test]
    fn a_start_in_time_shows_nothing() {
        let texts = shown(Duration::from_secs(60), |starting| {
            starting.at(StartStep::Attach);
            starting.at(StartStep::Begun);
        });
        assert_eq!(texts, [""; 0]);
    }

    #[test]
    fn a_slow_start_shows_its_step_and_clears_the_line_when_it_begins() {
        let texts = shown(Duration::from_millis(50), |starting| {
            starting.at(StartStep::Attach);
            std::thread::sleep(Duration::from_millis(120));
            starting.at(StartStep::List);
            std::thread::sleep(Duration::from_millis(120));
            starting.at(StartStep::Begun);
            std::thread::sleep(Duration::from_millis(120));
        });
        let [first, .., last, cleared] = &texts[..] else { panic!("{texts:?}") };
        assert_eq!(first, "starting for 0 s: attaching the programs");
        assert_eq!(last, "starting for 0 s: listing threads");
        assert_eq!(cleared, "", "{texts:?}");
    }

    #[test]
    fn a_start_that_fails_clears_the_line() {
        let texts = shown(Duration::from_millis(20), |_| std::thread::sleep(Duration::from_millis(60)));
        assert_eq!(
            texts.first().map(String::as_str),
            Some("starting for 0 s: loading programs into the kernel")
        );
        assert_eq!(texts.last().map(String::as_str), Some(""));
    }
}
