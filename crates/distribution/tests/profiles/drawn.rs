//! Histograms as drawings and as counts, with the peaks that a person would mark.

use wakepath_distribution::{BUCKETS, Histogram, Unit, peaks};

pub fn histogram(first: usize, counts: &[u64]) -> Histogram {
    let mut all = [0; BUCKETS];
    all[first..first + counts.len()].copy_from_slice(counts);
    Histogram::from_counters(Unit::Nanoseconds, all, 0)
}

/// The peaks as text, "7-9 10-13"; checks their counts against their buckets on the way.
fn found(histogram: &Histogram) -> String {
    let mut text = Vec::new();
    for peak in peaks(histogram) {
        let within = &histogram.counts()[peak.from_bucket..=peak.to_bucket];
        assert_eq!(peak.count, within.iter().fold(0u64, |sum, &count| sum.saturating_add(count)));
        assert!(within[0] > 0 && within[within.len() - 1] > 0);
        text.push(format!("{}-{}", peak.from_bucket, peak.to_bucket));
    }
    text.join(" ")
}

/// A row is a decade: a column of n `#` is 10^(n-1) calls, three times as many with a `:` on it.
fn drawn(drawing: &str) -> Histogram {
    let rows: Vec<&str> = drawing.lines().map(|row| row.trim_start().trim_start_matches('|')).collect();
    let width = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let mut counts = vec![0; width];
    for row in rows.iter().rev() {
        for (count, mark) in counts.iter_mut().zip(row.chars()) {
            *count = match mark {
                '#' => (*count * 10).max(1),
                ':' => (*count * 3).max(1),
                _ => *count,
            };
        }
    }
    histogram(0, &counts)
}

#[test]
fn drawings_have_the_peaks_that_a_person_marks() {
    let cases = [
        (
            "one hump",
            "|   #    |
             |  ###   |
             |  ####  |
             | ###### |",
            "1-6",
        ),
        (
            "two humps apart",
            "|  #        |
             | ###    : |
             | ###   ## |
             |#####  ###|",
            "0-4 7-9",
        ),
        (
            "two humps that touch in a valley of a decade",
            "|  #   #   |
             | ##: ##  |
             | ###:### |
             |#########|",
            "0-3 4-8",
        ),
        (
            "a dent of half a row in few calls",
            "|    #:#    |
             |  #######  |",
            "2-8",
        ),
        (
            "the same dent in many",
            "|    #:#    |
             |    ###    |
             |   #####   |
             |  #######  |",
            "2-5 6-8",
        ),
        (
            "three decades of flank on one side and a bump at its foot",
            "| #         |
             | ##        |
             | ###   :   |
             | ####  ##  |
             | ##### ### |",
            "1-5 7-9",
        ),
        (
            "a staircase is one flank",
            "|#         |
             |###       |
             |#####     |
             |########  |",
            "0-7",
        ),
        (
            "three humps of three sizes",
            "|  #            |
             |  ##           |
             | ###    #   :  |
             | ####  ###  #  |
             | ##### ### ### |",
            "1-5 7-9 11-13",
        ),
        (
            "a plateau with a hump on each end",
            "|#        #|
             |#        #|
             |##########|
             |##########|",
            "0-8 9-9",
        ),
    ];
    for (name, drawing, expected) in cases {
        assert_eq!(found(&drawn(drawing)), expected, "{name}\n{drawing}");
    }
}

/// A name, the first bucket, the counts, the peaks.
type Case = (&'static str, usize, &'static [u64], &'static str);

fn check(cases: &[Case]) {
    for &(name, first, counts, expected) in cases {
        let histogram = histogram(first, counts);
        assert_eq!(found(&histogram), expected, "{name}: from bucket {first}, {counts:?}");
        // Mirrored, the same humps: the slower side does not matter. Where two touch, the lowest bucket may change
        // sides when both flanks are equally high.
        let mut mirrored = *histogram.counts();
        mirrored.reverse();
        let mirrored = Histogram::from_counters(Unit::Nanoseconds, mirrored, 0);
        assert_eq!(peaks(&mirrored).len(), peaks(&histogram).len(), "{name}, mirrored");
    }
}

#[test]
fn shapes_of_the_paper() {
    check(&[
        ("fork, one process (figure 2.1)", 15, &[40, 9000, 60_000, 5000, 90], "15-19"),
        (
            "fork, four processes (figure 2.1)",
            15,
            &[10, 4000, 40_000, 9000, 700, 900, 3500, 9000, 12_000, 3000, 60],
            "15-19 20-25",
        ),
        (
            "read of zero bytes, two processes (figure 7.1)",
            7,
            &[2_000_000, 90_000_000, 4000, 30_000, 50_000, 5000, 100, 300, 900, 600, 80, 3],
            "7-9 10-13 14-18",
        ),
        (
            "readdir under grep -r (figure 7.2)",
            9,
            &[1800, 0, 90, 1500, 2200, 300, 0, 900, 90, 150, 500, 800, 420, 110, 9],
            "9-9 11-14 16-17 18-23",
        ),
        (
            "random reads: one peak of the disk (section 8.4)",
            20,
            &[3, 40, 900, 12_000, 34_000, 4000, 60],
            "20-26",
        ),
    ]);
}

const FIRST_AND_LAST: [u64; BUCKETS] = {
    let mut counts = [0; BUCKETS];
    counts[0] = 50;
    counts[BUCKETS - 1] = 50;
    counts
};

#[test]
fn few_and_simple_ones() {
    check(&[
        ("nothing", 0, &[], ""),
        ("one call", 10, &[1], "10-10"),
        ("one call of no time", 0, &[1], "0-0"),
        ("one call that never ends", 63, &[1], "63-63"),
        ("one bucket", 17, &[100_000], "17-17"),
        ("two buckets", 17, &[100_000, 5], "17-18"),
        ("all buckets alike", 0, &[7; 64], "0-63"),
        ("full counters", 0, &[u64::MAX; 64], "0-63"),
        ("full counters with a hole", 3, &[u64::MAX, u64::MAX, 0, u64::MAX], "3-4 6-6"),
        ("first and last bucket", 0, &FIRST_AND_LAST, "0-0 63-63"),
    ]);
}

#[test]
fn a_dent_is_no_valley() {
    check(&[
        ("10% fewer", 10, &[1000, 80_000, 100_000, 90_000, 100_000, 9000], "10-15"),
        ("a third fewer", 10, &[1000, 90_000, 60_000, 95_000, 500], "10-14"),
        ("half, of few calls", 10, &[2, 12, 6, 13, 3], "10-14"),
        ("half, of many", 10, &[1000, 90_000, 45_000, 95_000, 500], "10-11 12-14"),
        ("none of few", 10, &[1, 4, 0, 5, 2], "10-14"),
        ("none of twelve", 10, &[200, 0, 12], "10-12"),
        ("none of thirteen", 10, &[200, 0, 13], "10-10 12-12"),
        ("a sparse tail", 10, &[100_000, 5000, 300, 20, 3, 0, 2, 1, 0, 1], "10-19"),
        ("a flat tail with noise", 10, &[100_000, 20, 14, 23, 9, 17, 21, 12, 4, 1], "10-19"),
        ("a ragged top", 10, &[5, 700, 650, 720, 590, 700, 4], "10-16"),
    ]);
}

#[test]
fn a_valley_parts_humps_that_touch() {
    check(&[
        ("a decade", 10, &[100, 10_000, 1000, 10_000, 100], "10-12 13-14"),
        ("a decade, of few calls", 10, &[3, 60, 6, 60, 3], "10-12 13-14"),
        ("the lowest bucket is the higher flank's", 10, &[90_000, 8000, 600, 900, 50_000], "10-12 13-14"),
        ("and here the other one's", 10, &[9000, 300, 200, 8000, 50_000], "10-11 12-14"),
        ("a wide floor", 10, &[90_000, 40, 50, 45, 60_000], "10-11 12-14"),
        ("two floors of one depth", 10, &[9, 0, 1, 0, 9], "10-10 12-14"),
        ("a floor of two buckets, of few calls", 10, &[20, 2, 5, 20], "10-11 12-13"),
        ("a slow fall and a steep rise", 10, &[30, 10, 7, 30_000], "10-11 12-13"),
        ("a small bump on a steep flank", 10, &[1_000_000, 30_000, 500, 1100, 40], "10-12 13-14"),
        ("a bump of noise on a steep flank", 10, &[1_000_000, 30_000, 50, 61, 4], "10-14"),
        ("three in a row", 5, &[10, 800, 30, 4000, 100, 900, 20], "5-6 7-9 10-11"),
        ("a small one between large ones", 5, &[90_000, 10, 60, 8, 80_000], "5-6 7-7 8-9"),
        ("noise between large ones", 5, &[90_000, 3, 7, 2, 80_000], "5-7 8-9"),
    ]);
}

#[test]
fn a_shoulder_has_no_valley() {
    check(&[
        ("on the slow side", 12, &[500, 100_000, 3000, 2800, 2500, 10], "12-17"),
        ("level", 12, &[500, 100_000, 3000, 3000, 3000, 10], "12-17"),
        ("rising within noise", 12, &[500, 100_000, 3000, 3050, 3020, 10], "12-17"),
        ("on the fast side", 12, &[80, 90, 100_000, 4000], "12-15"),
    ]);
}

#[test]
fn a_minor_peak_is_one_and_an_outlier_is_none() {
    let far = |mut counts: Vec<u64>, gap: usize, beyond: &[u64]| {
        counts.extend(vec![0; gap]);
        counts.extend(beyond);
        counts
    };
    let main = vec![900, 700_000, 290_000, 8000, 300];
    let cases: &[(&str, usize, &[u64], &str)] = &[
        ("one call, far off", 12, &[1], "10-14"),
        ("two calls, far off", 12, &[2], "10-14"),
        ("three, farther off than noise", 20, &[3], "10-14 35-35"),
        ("four, nearer", 9, &[4], "10-14 24-24"),
        ("three, nearer", 14, &[3], "10-14"),
        ("three scattered ones", 5, &[1, 0, 0, 1, 0, 0, 0, 1], "10-14"),
        ("thirty of a million", 8, &[8, 15, 7], "10-14 23-25"),
        ("thirty of a million beyond two empty buckets", 2, &[8, 15, 7], "10-14 17-19"),
        ("fifteen in one bucket, next to the tail", 1, &[15], "10-14 16-16"),
        ("five in one bucket", 6, &[5], "10-14 21-21"),
        ("a stray before a minor peak", 3, &[1, 0, 0, 0, 9, 40, 3], "10-14 22-24"),
        ("a stray behind one", 3, &[9, 40, 3, 0, 0, 1], "10-14 18-20"),
    ];
    for &(name, gap, beyond, expected) in cases {
        check(&[(name, 10, Vec::leak(far(main.clone(), gap, beyond)), expected)]);
    }
}

#[test]
fn with_a_handful_of_calls_the_eye_goes_by_the_gap() {
    check(&[
        ("three and three, a thousand times slower", 20, &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3], "20-20 30-30"),
        ("one and one", 20, &[1, 0, 0, 0, 0, 1], "20-20 25-25"),
        ("three and three within a factor of eight", 20, &[3, 0, 0, 3], "20-23"),
        ("three and three, beyond three empty buckets", 20, &[3, 0, 0, 0, 3], "20-24"),
        ("eight and two", 20, &[8, 0, 0, 0, 0, 2], "20-20 25-25"),
        ("nine and two", 20, &[9, 0, 0, 0, 0, 2], "20-20"),
        ("five and a stray", 20, &[2, 3, 0, 0, 1], "20-21"),
        ("strays on both sides", 20, &[1, 0, 0, 4, 9, 3, 0, 0, 0, 0, 1], "23-25"),
        ("two calls in neighbouring buckets", 20, &[1, 1], "20-21"),
        ("nine, and three together", 20, &[9, 0, 0, 0, 0, 1, 0, 2], "20-20 25-27"),
        ("two together, and five", 20, &[1, 0, 1, 0, 0, 0, 0, 5], "20-22 27-27"),
        ("three and two strays, which stand beside them together", 20, &[3, 0, 0, 1, 0, 1], "20-25"),
        ("two and a stray", 20, &[1, 1, 0, 0, 1], "20-24"),
        (
            "a stray between joins the smaller hump",
            20,
            &[2, 60, 5, 0, 0, 0, 0, 1, 0, 0, 0, 0, 5],
            "20-22 32-32",
        ),
        ("of two equal tops the first is the middle of the peak", 20, &[1, 0, 0, 2, 0, 2], "20-25"),
        ("and of a level one the first bucket", 20, &[1, 0, 0, 2, 2], "20-24"),
        ("ten calls, each in another bucket", 20, &[1; 10], "20-29"),
    ]);
}
