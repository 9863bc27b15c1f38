//! Each numeric flag's range, in every verb: at 0, 1, its most, and one more.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::Arguments;

/// A flag's range: values at its ends within it, and values at its ends outside.
struct Range {
    within: &'static [&'static str],
    outside: &'static [&'static str],
}

/// Times and sizes have 64 bits, ns and bytes.
const TIME: Range = Range {
    within: &["1ns", "1", "18446744073709551615ns"],
    outside: &["0", "0ms", "18446744073709551616ns", "18446744074", "-1"],
};
const TIME_OR_NONE: Range = Range {
    within: &["0", "1ns", "18446744073709551615ns"],
    outside: &["18446744073709551616ns", "18446744074", "-1"],
};
const SIZE: Range = Range {
    within: &["1", "1K", "18446744073709551615", "16777215T"],
    outside: &["0", "0K", "18446744073709551616", "16777216T", "-1"],
};
const SHORT_NUMBER: Range =
    Range { within: &["0", "1", "4294967295"], outside: &["4294967296", "-1", "1.5"] };
const NUMBER: Range =
    Range { within: &["0", "1", "18446744073709551615"], outside: &["18446744073709551616", "-1", "1.5"] };
/// A moment in a recording, also before its end.
const MOMENT: Range =
    Range { within: &["0", "1", "-1s", "18446744073"], outside: &["18446744074", "-18446744074s"] };

/// Each flag, its verbs, and its range there.
const RANGES: [(&str, &[&str], Range); 32] = [
    ("above", &["export", "path"], TIME_OR_NONE),
    (
        "at",
        &["trigger"],
        Range { within: &["0", "1", "18446744073.709551615"], outside: &["18446744073.709551616", "-1"] },
    ),
    (
        "buffer",
        &["record"],
        Range { within: &["16K", "1G", "1073741824"], outside: &["0", "1", "16383", "1073741825"] },
    ),
    (
        "budget",
        &["drill", "latency", "record", "watch"],
        Range { within: &["0.1", "5", "5%", "100"], outside: &["0", "101", "-1", "NaN"] },
    ),
    ("decision-calls", &["drill"], NUMBER),
    ("drill-time", &["watch"], TIME),
    ("duration", &["drill", "latency", "record", "watch"], TIME),
    ("every", &["latency", "watch"], TIME),
    ("flight", &["record"], TIME),
    ("flight-after", &["record"], TIME),
    ("flight-keep", &["record"], NUMBER),
    ("flight-memory", &["record"], SIZE),
    ("flight-rest", &["record"], TIME),
    ("from", &["export", "latency", "path", "requests"], MOMENT),
    ("max-depth", &["drill"], SHORT_NUMBER),
    ("max-size", &["record"], SIZE),
    ("maxcount-percentage", &["drill"], SHORT_NUMBER),
    ("min-bucket", &["drill"], NUMBER),
    ("otlp", &["record"], Range { within: &["0", "1", "65535"], outside: &["65536", "-1"] }),
    ("peak", &["drill"], NUMBER),
    ("peak", &["export", "path", "requests"], NUMBER),
    ("pid", &["drill", "export", "latency", "path", "record", "watch"], SHORT_NUMBER),
    ("request", &["drill"], SHORT_NUMBER),
    ("samples", &["record"], Range { within: &["0", "1", "10000"], outside: &["10001", "-1", "1.5"] }),
    ("slowest", &["export", "path"], NUMBER),
    (
        "slowest",
        &["requests"],
        Range {
            within: &["1", "18446744073709551615"],
            outside: &["0", "18446744073709551616", "-1", "1.5"],
        },
    ),
    ("start-ops", &["drill"], NUMBER),
    ("threshold", &["latency"], Range { within: &["0", "1", "1e308"], outside: &["-1", "-0.1", "NaN"] }),
    ("tid", &["export", "latency", "path"], SHORT_NUMBER),
    ("to", &["export", "latency", "path", "requests"], MOMENT),
    ("trigger-open", &["record"], TIME),
    ("wait", &["trigger"], TIME),
];

/// Whether a flag takes this value, whatever other flags it needs.
fn takes(flag: &Arg, value: &str) -> bool {
    let alone = Arg::new("value").long("value").value_parser(flag.get_value_parser().clone());
    let alone = Command::new("alone").arg(alone.action(ArgAction::Set));
    alone.try_get_matches_from(["alone", &format!("--value={value}")]).is_ok()
}

/// The flags with numbers, also with a unit, by name and verb.
fn numeric_flags() -> BTreeMap<(String, String), Arg> {
    let mut all = Arguments::command();
    all.build();
    let of_verb = |verb: &Command| {
        let flags = verb.get_arguments().filter(|flag| flag.get_action().takes_values());
        let numeric =
            flags.filter(|flag| (takes(flag, "1") || takes(flag, "1M")) && !takes(flag, "no number"));
        let name = |flag: &Arg| flag.get_long().unwrap_or(flag.get_id().as_str()).to_owned();
        numeric.map(|flag| ((name(flag), verb.get_name().to_owned()), flag.clone())).collect::<Vec<_>>()
    };
    all.get_subcommands().flat_map(of_verb).collect()
}

#[test]
fn each_flag_with_a_number_has_a_range_and_keeps_to_it() {
    let mut left = numeric_flags();
    for (name, verbs, Range { within, outside }) in RANGES {
        for verb in verbs {
            let flag = left.remove(&(name.to_owned(), (*verb).to_owned()));
            let flag = flag.unwrap_or_else(|| panic!("{verb} has no --{name} with a number"));
            for value in within {
                assert!(takes(&flag, value), "{verb} --{name} {value}");
            }
            for value in outside {
                assert!(!takes(&flag, value), "{verb} --{name} {value}");
            }
        }
    }
    let left: Vec<_> = left.keys().collect();
    assert!(left.is_empty(), "flags without a range: {left:?}");
}

#[test]
fn command_lines_are_recorded_of_a_command_alone() {
    let parsed = |words: &[&str]| {
        Arguments::command().try_get_matches_from([&["wakepath", "record", "--arguments"], words].concat())
    };
    assert!(parsed(&["--", "true"]).is_ok());
    for without in [&["-p", "10"][..], &["-a"], &["--cgroup", "shop"], &[]] {
        assert!(parsed(without).is_err(), "{without:?}");
    }
}
