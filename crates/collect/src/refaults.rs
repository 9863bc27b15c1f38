//! Pages that a cgroup's threads read again after the kernel had dropped them.

use std::fs;
use std::path::Path;

/// Their number since the cgroup's creation; `None` if the kernel does not count them.
pub(crate) fn refaults(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("memory.stat")).ok()?;
    // In v1, the cgroup's own counts come first, and those with all below it are named `total_`.
    let of_all = ["total_workingset_refault_", "workingset_refault_"];
    let counts = of_all.map(|key| {
        let counts = ["anon", "file"].into_iter().filter_map(|kind| count(&text, &format!("{key}{kind}")));
        counts.reduce(u64::saturating_add)
    });
    counts.into_iter().flatten().next().map(|count| count.to_string())
}

fn count(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_read_again_are_counted_with_those_of_all_cgroups_below() {
        for (text, expected) in [
            ("anon 5\nworkingset_refault_anon 2\nworkingset_refault_file 15\n", Some("17")),
            ("workingset_refault_file 15\n", Some("15")),
            (
                "workingset_refault_anon 0\nworkingset_refault_file 3\ntotal_workingset_refault_anon 1\ntotal_workingset_refault_file 9\n",
                Some("10"),
            ),
            ("workingset_refault_file x\n", None),
            ("workingset_refault_file_x 3\n", None),
            (
                "workingset_refault_anon 18446744073709551615\nworkingset_refault_file 9",
                Some("18446744073709551615"),
            ),
            ("", None),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            fs::write(folder.path().join("memory.stat"), text).expect("a file");
            assert_eq!(refaults(folder.path()).as_deref(), expected, "{text}");
        }
        assert_eq!(refaults(Path::new("/nowhere")), None);
    }
}
