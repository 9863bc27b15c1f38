//! How the clocks of several hosts lie, as text.

use wakepath_clock::{ErrorBound, Quality};
use wakepath_engine::Synchronised;

use crate::quantity::{count, duration};
use crate::screen::{Line, Paper, Screen, Style};
use crate::wording;

/// Each host's way to the reference, and what each pair's packets say.
pub fn sync(synchronised: &Synchronised, paper: Paper) -> String {
    let mut screen = Screen::new(paper);
    let clocks = &synchronised.clocks;
    let name = |host: usize| match (synchronised.hosts.get(host), synchronised.sources.get(host)) {
        (Some(host), Some(source)) if host.name.bytes().is_empty() => source.display().to_string(),
        (Some(host), _) => wording::name(&host.name),
        _ => String::new(),
    };
    let linked = clocks.hosts.iter().filter(|clock| clock.transform.is_some()).count();
    let reference = clocks.reference.map(&name).unwrap_or_default();
    let head =
        format!("{linked} of {} on the clock of {reference}", count(clocks.hosts.len() as u64, "host"));
    screen.wrapped(0, &Line::new().add(Style::Strong, head));
    screen.blank();
    for (index, clock) in clocks.hosts.iter().enumerate() {
        let begin = Line::new().add(Style::Strong, name(index));
        let text = match &clock.transform {
            _ if clocks.reference == Some(index) => String::from("  the reference"),
            None => String::from("  no packet links it: its clock cannot be compared"),
            Some(transform) => {
                let over = match clock.way.as_slice() {
                    [_, between @ .., _] if !between.is_empty() => {
                        format!(
                            ", by way of {}",
                            between.iter().map(|&host| name(host)).collect::<Vec<_>>().join(", ")
                        )
                    }
                    _ => String::new(),
                };
                let pieces = transform.pieces();
                let first = &pieces[0].line;
                let bent = match pieces.len() {
                    1 => String::new(),
                    n => format!(", and {n} pieces since the clock bends"),
                };
                format!(
                    "  {}, {}{over}: its time × {} {}{bent}",
                    wording::quality_word(clock.quality).replace('_', " "),
                    error(clock.error),
                    first.slope_decimal(),
                    signed(&first.offset_decimal()),
                )
            }
        };
        screen.hanging(&begin, 4, &Line::from(text));
    }
    screen.blank();
    for pair in &clocks.pairs {
        let [there, back] = pair.matched;
        let mut text = format!(
            "{} and {}: {} matched, {there} there and {back} back; {}; {}",
            name(pair.a),
            name(pair.b),
            count(there + back, "packet"),
            match pair.inversions {
                0 => String::from("none arrives before it was sent"),
                n => format!("{n} arrive before they were sent"),
            },
            error(pair.error),
        );
        if pair.ambiguous > 0 {
            text += &format!("; {} not used, being more than one could be", pair.ambiguous);
        }
        if pair.quality == Quality::OneWay {
            text += "; packets go one way only, which bounds the clocks from one side";
        }
        screen.wrapped(4, &Line::from(text));
    }
    if clocks.pairs.is_empty() {
        screen.wrapped(0, &Line::from("no packet of one was seen on another"));
    }
    screen.into_text()
}

fn error(error: ErrorBound) -> String {
    match error.ns() {
        Some(ns) => format!("±{}", duration(ns)),
        None => String::from("without a bound"),
    }
}

fn signed(decimal: &str) -> String {
    match decimal.strip_prefix('-') {
        Some(positive) => format!("− {positive} ns"),
        None => format!("+ {decimal} ns"),
    }
}
