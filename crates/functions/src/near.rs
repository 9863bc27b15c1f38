//! Names that are like one that was not found.

use std::borrow::Cow;

/// How many are suggested.
const MAX_NEAR: usize = 5;

/// The nearest of `names` to `wanted`, best first, each once.
///
/// A name that holds the wanted one, or is held by it, comes before one that differs by a few letters
/// only if it is not much longer; what shares too little is left out.
pub fn near<'a>(wanted: &str, names: impl Iterator<Item = Cow<'a, str>>) -> Vec<String> {
    let wanted = wanted.trim_matches(['*', '?']);
    if wanted.is_empty() {
        return Vec::new();
    }
    let plain = wanted.to_lowercase();
    let mut best: Vec<(usize, Cow<'a, str>)> = Vec::new();
    for name in names {
        let Some(distance) = distance(&plain, &name) else { continue };
        let found = (distance, name);
        if best.contains(&found) || best.len() == MAX_NEAR && best.last().is_some_and(|last| *last <= found) {
            continue;
        }
        let at = best.partition_point(|other| *other < found);
        best.insert(at, found);
        best.truncate(MAX_NEAR);
    }
    best.into_iter().map(|(_, name)| name.into_owned()).collect()
}

/// How far a name is from the wanted one, which is in lower case: edits, in halves for what is added
/// around it. Nothing if they have too little in common.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    // Names of a kilobyte are nobody's slip of the finger.
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
    let most = wanted.len().div_ceil(4).max(1);
    edits(wanted.as_bytes(), lower.as_bytes(), most)
}

/// The least number of letters to insert, drop, replace or swap with their neighbour (the optimal string
/// alignment distance), if it is at most `most`.
fn edits(a: &[u8], b: &[u8], most: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                least = least.min(before_last[j - 1] + 1);
            }
            row.push(least);
        }
        if row.iter().all(|&cost| cost > most) {
            return None;
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|&cost| cost <= most)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::near;

    #[test]
    fn slips_and_parts_are_suggested_nearest_first() {
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
            let suggested = near(wanted, names.into_iter().map(Cow::Borrowed));
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
        let suggested = near("handle_x", names.iter().map(Cow::from));
        assert_eq!(suggested, ["handle_0", "handle_1", "handle_2", "handle_3", "handle_4"]);
    }
}
