//! Several hosts' clocks, as text.

use wakepath_clock::{ErrorBound, Piece, Quality};
use wakepath_engine::Synchronised;

use crate::screen::{Layout, Line, Screen};
use crate::units::{count, duration};
use crate::wording;

/// Each host's clock offset and drift, and the packets for each pair of hosts.
pub fn sync(synchronised: &Synchronised, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let clocks = &synchronised.clocks;
    let name = |host: usize| match (synchronised.hosts.get(host), synchronised.sources.get(host)) {
        (Some(host), Some(source)) if host.name.bytes().is_empty() => source.display().to_string(),
        (Some(host), _) => wording::name(&host.name),
        _ => String::new(),
    };
    let linked = clocks.hosts.iter().filter(|clock| clock.transform.is_some()).count();
    let reference = clocks.reference.map(&name).unwrap_or_default();
    let head = format!(
        "{linked} of {} can be read on the clock of {reference}",
        count(clocks.hosts.len() as u64, "host")
    );
    screen.wrapped(0, Line::strong(head));
    screen.blank();
    for (index, clock) in clocks.hosts.iter().enumerate() {
        let begin = Line::strong(name(index));
        let text = match &clock.transform {
            _ if clocks.reference == Some(index) => String::from("  the reference"),
            None => String::from("  no packet links it to the reference: its clock cannot be compared"),
            Some(transform) => {
                let over = match clock.way.as_slice() {
                    [_, between @ .., _] if !between.is_empty() => {
                        let names: Vec<_> = between.iter().map(|&host| name(host)).collect();
                        format!(", by packets to {}", names.join(", "))
                    }
                    _ => String::new(),
                };
                let pieces = transform.pieces();
                let drifts = match pieces.len() {
                    1 => String::new(),
                    2 => String::from("; the drift changes once"),
                    n => format!("; the drift changes {} times", n - 1),
                };
                let (_, quality) = wording::quality(clock.quality);
                format!("  {quality}, {}{over}: {}{drifts}", error(clock.error), offset(&pieces[0]))
            }
        };
        screen.hanging(begin, 4, text);
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
                0 => String::from("no packet arrives before it was sent"),
                1 => String::from("1 packet arrives before it was sent"),
                n => format!("{n} packets arrive before they were sent"),
            },
            error(pair.error),
        );
        if pair.ambiguous > 0 {
            text += &format!("; {} left out, which fit several sent ones", count(pair.ambiguous, "packet"));
        }
        if pair.quality == Quality::OneWay {
            text += "; packets go one way only, so the offset has a bound on one side only";
        }
        screen.wrapped(4, text);
    }
    if clocks.pairs.is_empty() {
        screen.wrapped(0, "no packet links any two of these hosts");
    }
    screen.into_text()
}

fn error(error: ErrorBound) -> String {
    match error.ns() {
        Some(ns) => format!("±{}", duration(ns)),
        None => String::from("without a bound"),
    }
}

/// The offset from a host's time to the reference's at a piece's beginning, and its drift:
/// `−37.842 s, +200.1 ppm ± 0.3`. Digits end where the error begins.
fn offset(piece: &Piece) -> String {
    let ns = i128::from(piece.line.at(piece.from)) - i128::from(piece.from);
    let ppm = (piece.line.slope_decimal().parse::<f64>().unwrap_or(1.0) - 1.0) * 1e6;
    let sign = |is_negative| if is_negative { "−" } else { "+" };
    let way = sign(ns < 0);
    let seconds = |decimals| match ns.unsigned_abs() {
        ns @ 0..1_000_000_000 => format!("{way}{}", duration(ns as u64)),
        ns => format!("{way}{:.decimals$} s", ns as f64 / 1e9),
    };
    let drift = |decimals| format!("{}{:.decimals$} ppm", sign(ppm < 0.0), ppm.abs());
    let Some(error) = piece.error.ns() else { return format!("{}, {}", seconds(3), drift(1)) };
    let decimals = 10_u32.saturating_sub(error.max(1).ilog10()).min(9) as usize;
    // Both ends may be off, in opposite directions.
    let ppm_error = 2e6 * error as f64 / (piece.to - piece.from) as f64;
    let ppm_decimals = (-ppm_error.max(1e-6).log10().floor()).max(0.0) as usize;
    format!("{}, {} ± {ppm_error:.ppm_decimals$}", seconds(decimals), drift(ppm_decimals))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::sample::synchronised;

    #[test]
    fn offsets_and_drifts_are_as_exact_as_their_errors() {
        expect![[r#"
            4 of 5 hosts can be read on the clock of web

            web   the reference
            db    consistent, ±19.0 ms: −37.842 s, +200 ppm ± 271
            cache  approximate, ±870 ns: +412 ns, −1.00 ppm ± 0.01
            mail  one way, without a bound: −37.842 s, +200.1 ppm
            alone  no packet links it to the reference: its clock cannot be compared

            web and db: 400 packets matched, 200 there and 200 back; no packet arrives before it was sent; ±19.0
                ms
            web and cache: 16 packets matched, 7 there and 9 back; 2 packets arrive before they were sent; ±870
                ns; 1 packet left out, which fit several sent ones
            web and mail: 5 packets matched, 5 there and 0 back; no packet arrives before it was sent; without a
                bound; packets go one way only, so the offset has a bound on one side only
        "#]].assert_eq(&sync(&synchronised(), Layout::PLAIN));
    }
}
