//! Error rates as tables and as in figures 9.1 to 9.6.

use std::fmt::Write as _;

use wakepath_distribution::Measure;
use wakepath_distribution::evaluation::{DEFAULT_MEASURE, DEFAULT_THRESHOLD, Errors, LEVEL, Pair, Scores};

pub fn scores(measure: Measure, pairs: &[Pair]) -> Scores {
    Scores::new(measure, pairs).unwrap()
}

/// The measure that misses least at [`LEVEL`], with its errors.
pub fn chosen(pairs: &[Pair]) -> (Measure, Errors) {
    let chosen = Measure::ALL.map(|measure| (measure, scores(measure, pairs).at_level(LEVEL).unwrap()));
    chosen.into_iter().min_by_key(|(_, errors)| errors.false_negatives).unwrap()
}

fn percent(rate: Option<f64>) -> f64 {
    rate.map_or(f64::NAN, |rate| rate * 100.0)
}

/// Prints each measure's threshold as chosen on one half, and its errors on both; then its errors on the judging
/// half over thresholds.
pub fn print_tables(choosing: &[Pair], judging: &[Pair]) {
    println!("| measure | threshold | pairs | same, told apart | changed, missed |\n|---|---|---|---|---|");
    for measure in Measure::ALL {
        let chosen = scores(measure, choosing).at_level(LEVEL).unwrap();
        let judged = scores(measure, judging).errors(chosen.threshold);
        for (half, errors) in [("chosen on", chosen), ("judged by", judged)] {
            println!(
                "| {measure} | {:.2} | {half} | {} of {} | {} of {} |",
                errors.threshold, errors.false_positives, errors.same, errors.false_negatives, errors.changed,
            );
        }
    }
    println!("\n| threshold | {} |", Measure::ALL.map(|measure| measure.name()).join(" | "));
    println!("|---|{}", "---|".repeat(6));
    for threshold in [2.0, 5.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0, 30.0, 50.0, 75.0, 90.0, 99.0, 99.9, 200.0]
    {
        let cells = Measure::ALL.map(|measure| {
            let errors = scores(measure, judging).errors(threshold);
            let (positive, negative) = (errors.false_positive_rate(), errors.false_negative_rate());
            format!("{:.0}% / {:.0}%", percent(positive), percent(negative))
        });
        println!("| {threshold} | {} |", cells.join(" | "));
    }
}

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 130.0;
/// Thresholds run from the first to the second, on a log scale.
const RANGE: (f64, f64) = (0.1, 1000.0);

/// Each measure's errors over its threshold, a panel a measure: SVG.
pub fn figure(pairs: &[Pair]) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"11\" \
         fill=\"none\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        3.0 * (WIDTH + 60.0),
        2.0 * (HEIGHT + 70.0) + LEGEND,
    );
    legend(&mut out);
    for (number, measure) in Measure::ALL.into_iter().enumerate() {
        let (left, top) = (
            (number % 3) as f64 * (WIDTH + 60.0) + 40.0,
            (number / 3) as f64 * (HEIGHT + 70.0) + 30.0 + LEGEND,
        );
        panel(&mut out, measure, &scores(measure, pairs), (left, top));
    }
    out + "</svg>\n"
}

/// The legend's height above all panels.
const LEGEND: f64 = 24.0;
/// A line's colour, dashes and name.
const LINES: [(&str, &str, &str); 3] = [
    ("#b00", "none", "pairs of one condition that are told apart"),
    ("#00b", "5 3", "pairs of two conditions that are missed"),
    ("#555", "1 2", "the default"),
];

fn legend(out: &mut String) {
    for (number, (colour, dashes, name)) in LINES.into_iter().enumerate() {
        let left = 40.0 + (WIDTH + 60.0) * number as f64;
        let y = LEGEND - 8.0;
        writeln!(
            out,
            "<path d=\"M{left:.1} {y:.1}h24\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"/>{}",
            text(left + 30.0, y + 4.0, "start", name).trim_end()
        )
        .unwrap();
    }
}

fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"black\" text-anchor=\"{anchor}\">{text}</text>\n")
}

fn panel(out: &mut String, measure: Measure, scores: &Scores, (left, top): (f64, f64)) {
    let decades = (RANGE.1 / RANGE.0).log10();
    let across = |threshold: f64| left + (threshold / RANGE.0).log10() / decades * WIDTH;
    let down = |percent: f64| top + HEIGHT - percent / 100.0 * HEIGHT;
    *out += &text(left + WIDTH / 2.0, top - 8.0, "middle", measure.name());
    for line in [0.0, 50.0, 100.0] {
        writeln!(
            out,
            "<path d=\"M{left:.1} {:.1}h{WIDTH}\" stroke=\"#ddd\"/>{}",
            down(line),
            text(left - 4.0, down(line) + 4.0, "end", &format!("{line}%")).trim_end()
        )
        .unwrap();
    }
    for decade in 0..=decades as i32 {
        let threshold = RANGE.0 * 10f64.powi(decade);
        *out += &text(across(threshold), top + HEIGHT + 14.0, "middle", &format!("{threshold}"));
    }
    *out += &text(left + WIDTH / 2.0, top + HEIGHT + 27.0, "middle", "threshold");
    if measure == DEFAULT_MEASURE {
        let (colour, dashes, _) = LINES[2];
        let x = across(DEFAULT_THRESHOLD);
        writeln!(
            out,
            "<path d=\"M{x:.1} {top:.1}v{HEIGHT}\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"/>"
        )
        .unwrap();
    }
    // Twenty points a decade, so that the drawing does not depend on the number of pairs.
    let points: Vec<_> = (0..=20 * decades as i32)
        .map(|step| scores.errors(RANGE.0 * 10f64.powf(f64::from(step) / 20.0)))
        .collect();
    let positive: Vec<_> = points.iter().map(|errors| errors.false_positive_rate()).collect();
    let negative = points.iter().map(|errors| errors.false_negative_rate()).collect();
    for ((colour, dashes, _), rate) in LINES.into_iter().zip([positive, negative]) {
        let line: Vec<String> = (points.iter().zip(rate))
            .map(|(errors, rate)| format!("{:.1},{:.1}", across(errors.threshold), down(percent(rate))))
            .collect();
        writeln!(
            out,
            "<polyline points=\"{}\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"/>",
            line.join(" ")
        )
        .unwrap();
    }
}
