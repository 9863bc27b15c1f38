//! Names similar to a missing name.

use std::borrow::Cow;

/// The maximum number of suggested names.
const MAX_NAMES: usize = 5;

/// The most similar of `names` to `wanted`, best first, each once; at most five.
///
/// A name that contains the wanted name, or is contained in it, comes before a name with a few other letters only if it
/// is not much longer; names with too little in common are left out.
pub fn similar<'a>(wanted: &str, names: impl Iterator<Item = Cow<'a, str>>) -> Vec<String> {
    let wanted = wanted.trim_matches(['*', '?']).to_lowercase();
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut best: Vec<(usize, Cow<'a, str>)> = Vec::new();
    for name in names {
        let Some(distance) = distance(&wanted, &name) else { continue };
        let found = (distance, name);
        if let Err(at) = best.binary_search(&found) {
            best.insert(at, found);
            best.truncate(MAX_NAMES);
        }
    }
    best.into_iter().map(|(_, name)| name.into_owned()).collect()
}

/// A name's distance from the wanted name, which is in lower case, in edits; text added around it counts a quarter of
/// its length. `None` if they have too little in common.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    // A name of a kilobyte is not a typing error.
    if name.is_empty() || name.len() > 1024 || wanted.len() > 1024 {
        return None;
    }
    let lower = name.to_lowercase();
    if lower == wanted {
        return Some(0);
    }
    if wanted.len() >= 3 && lower.contains(wanted) {
        return Some(1 + (lower.len() - wanted.len()) / 4);
    }
    if lower.len() >= 4 && lower.len() * 2 >= wanted.len() && wanted.contains(&lower) {
        return Some(1 + (wanted.len() - lower.len()) / 4);
    }
    let max_edits = wanted.len().div_ceil(4);
    // Names with a larger difference in length need more edits.
    let close = wanted.len().abs_diff(lower.len()) <= max_edits;
    close.then(|| strsim::osa_distance(wanted, &lower)).filter(|&edits| edits <= max_edits)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{distance, similar};

    #[test]
    fn slips_and_parts_are_suggested_most_similar_first() {
        let names =
            ["malloc", "calloc", "free", "handle_request", "malloc_usable_size", "Handle_Get", "alloc"];
        for (wanted, found) in [
            ("mallok", &["malloc"][..]),
            ("mlaloc", &["malloc", "calloc"]),
            ("handle_", &["Handle_Get", "handle_request"]),
            ("handle_get", &["Handle_Get"]),
            ("usable", &["malloc_usable_size"]),
            ("zzzzz", &[]),
            ("*", &[]),
        ] {
            let suggested = similar(wanted, names.into_iter().map(Cow::Borrowed));
            assert_eq!(
                suggested.first().map(String::as_str),
                found.first().copied(),
                "{wanted} {suggested:?}"
            );
            for name in found {
                assert!(suggested.iter().any(|suggested| suggested == name), "{wanted} {name} {suggested:?}");
            }
        }
    }

    #[test]
    fn five_are_enough_and_each_comes_once() {
        let names: Vec<String> = (0..50).map(|n| format!("handle_{}", n % 10)).collect();
        let suggested = similar("handle_x", names.iter().map(Cow::from));
        assert_eq!(suggested, ["handle_0", "handle_1", "handle_2", "handle_3", "handle_4"]);
        let suggested = similar("handle_x", names.iter().rev().map(Cow::from));
        assert_eq!(suggested, ["handle_0", "handle_1", "handle_2", "handle_3", "handle_4"]);
        let last = names.iter().map(Cow::from).chain([Cow::from("handle_x")]);
        assert_eq!(similar("handle_x", last)[..2], ["handle_x", "handle_0"]);
    }

    #[test]
    fn a_distance_is_in_edits_and_a_quarter_of_what_stands_around() {
        let long = |length| "a".repeat(length);
        for (wanted, name, expected) in [
            ("handle", "handle", Some(0)),
            ("handle", "Handle", Some(0)),
            // The wanted text in a name, from three letters on.
            ("get", "get_x", Some(1)),
            ("get", "handle_get_all", Some(3)),
            ("get", "get_all_of_them", Some(4)),
            ("ab", "abcdefgh", None),
            // A name in the wanted text, from four letters and half of it on.
            ("handle_get", "handle", Some(2)),
            ("handle_put_x", "handle", Some(2)),
            ("handle_put_xy", "handle", None),
            ("get_ab", "get", None),
            ("handle_x", "malloc", None),
            // An edit per four letters.
            ("abc", "xyz", None),
            ("abcd", "abdc", Some(1)),
            ("abcd", "abcdx", Some(1)),
            ("abcd", "axdx", None),
            ("abcdefgh", "abcdefxy", Some(2)),
            ("abcdefgh", "abcdexyz", None),
            ("abcdefghi", "abcdefxyz", Some(3)),
            ("g", "", None),
            ("aaa", &long(1024), Some(256)),
            ("aaa", &long(1025), None),
            (&long(1024), &long(1023), Some(1)),
            (&long(1025), &long(1024), None),
        ] {
            assert_eq!(distance(wanted, name), expected, "{wanted} {name}");
        }
    }
}
