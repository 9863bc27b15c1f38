//! The I/O limits of a cgroup, and of its outer cgroups where these count too, as a recording has them.

use std::fs;
use std::path::Path;

use crate::names::path_within;

/// The most lines, so that the text fits a record: many disks may have limits.
const MAX_LINES: usize = 64;

/// A v1 cgroup's files, and their keys in v2.
const V1_FILES: [(&str, &str); 4] = [
    ("blkio.throttle.read_bps_device", "rbps"),
    ("blkio.throttle.write_bps_device", "wbps"),
    ("blkio.throttle.read_iops_device", "riops"),
    ("blkio.throttle.write_iops_device", "wiops"),
];

/// The limits that a cgroup's requests meet, innermost first, a line for each cgroup and device:
/// `vda wbps=1000000 /shop`. `None` without limits.
pub(crate) fn io_limits(root: &Path, folder: &Path) -> Option<String> {
    let is_v1 = folder.join(V1_FILES[0].0).exists();
    // In v1, the limits of outer cgroups do not count.
    let levels = folder.ancestors().take_while(|level| *level != root && level.starts_with(root));
    let levels = levels.take(if is_v1 { 1 } else { usize::MAX });
    let mut lines = Vec::new();
    for level in levels {
        let path = String::from_utf8_lossy(&path_within(root, level)).into_owned();
        let limits = if is_v1 { v1(level) } else { v2(level) };
        let words = limits.into_iter().map(|(numbers, limits)| (device(&numbers), limits));
        lines.extend(words.map(|(device, limits)| format!("{device} {} {path}", limits.join(" "))));
    }
    lines.truncate(MAX_LINES);
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// A device's numbers, such as `254:0`, and its limits, such as `wbps=1000000`.
type Limited = (String, Vec<String>);

fn v1(folder: &Path) -> Vec<Limited> {
    let mut found: Vec<Limited> = Vec::new();
    for (file, key) in V1_FILES {
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        for (numbers, limit) in text.lines().filter_map(|line| line.trim().split_once(' ')) {
            let word = format!("{key}={limit}");
            match found.iter_mut().find(|(known, _)| known == numbers) {
                Some((_, words)) => words.push(word),
                None => found.push((numbers.to_owned(), vec![word])),
            }
        }
    }
    found
}

fn v2(folder: &Path) -> Vec<Limited> {
    let text = fs::read_to_string(folder.join("io.max")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.trim().split_once(' '));
    let limits = |words: &str| -> Vec<String> {
        words.split_whitespace().filter(|word| !word.ends_with("=max")).map(str::to_owned).collect()
    };
    let found = lines.map(|(numbers, words)| (numbers.to_owned(), limits(words)));
    found.filter(|(_, limits)| !limits.is_empty()).collect()
}

/// A device's name in `/dev`; its numbers if it has none.
fn device(numbers: &str) -> String {
    let link = Path::new("/sys/dev/block").join(numbers);
    let target = fs::read_link(link).ok();
    let name = target.as_ref().and_then(|target| target.file_name()).and_then(|name| name.to_str());
    name.unwrap_or(numbers).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hierarchy with these files, each with its folder; no device here has the number 1:99 or 1:98.
    fn limits(files: &[(&str, &str, &str)], of: &str) -> Option<String> {
        let root = tempfile::tempdir().expect("a folder");
        for (folder, file, text) in files {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join(file), text).expect("a limit");
        }
        io_limits(root.path(), &root.path().join(of))
    }

    #[test]
    fn in_v2_the_limits_of_outer_cgroups_count_innermost_first() {
        let max = "1:99 rbps=max wbps=max riops=max wiops=max\n";
        let files = [
            ("", "io.max", "1:99 rbps=7 wbps=7 riops=7 wiops=7\n"),
            (
                "shop",
                "io.max",
                "1:99 rbps=max wbps=9 riops=max wiops=4\n1:98 rbps=5 wbps=max riops=max wiops=max\n",
            ),
            ("shop/web", "io.max", "1:99 rbps=max wbps=3 riops=max wiops=max\n"),
            ("shop/idle", "io.max", max),
            ("free", "io.max", ""),
        ];
        let outer = "1:99 wbps=9 wiops=4 /shop\n1:98 rbps=5 /shop";
        assert_eq!(limits(&files, "shop/web"), Some(format!("1:99 wbps=3 /shop/web\n{outer}")));
        assert_eq!(limits(&files, "shop/idle").as_deref(), Some(outer));
        assert_eq!(limits(&files, "shop").as_deref(), Some(outer));
        assert_eq!(limits(&files, "free"), None);
        assert_eq!(limits(&files, "gone"), None);
        assert_eq!(limits(&files, ""), None, "the root has no limits");
    }

    #[test]
    fn in_v1_a_cgroup_has_only_its_own_limits() {
        let read = "blkio.throttle.read_bps_device";
        let files = [
            ("shop", read, "1:99 7\n"),
            ("shop/web", read, "1:99 3\n1:98 5\n"),
            ("shop/web", "blkio.throttle.write_iops_device", "1:99 10\n"),
            ("shop/idle", read, ""),
        ];
        let web = "1:99 rbps=3 wiops=10 /shop/web\n1:98 rbps=5 /shop/web";
        assert_eq!(limits(&files, "shop/web").as_deref(), Some(web));
        assert_eq!(limits(&files, "shop/idle"), None);
    }

    #[test]
    fn a_text_has_a_bounded_number_of_lines() {
        let many: String = (0..200).map(|minor| format!("1:{minor} wbps=1\n")).collect();
        let text = limits(&[("shop", "io.max", &many)], "shop").expect("limits");
        assert_eq!(text.lines().count(), MAX_LINES);
    }

    #[test]
    fn a_disk_has_its_name() {
        let Some(disk) = fs::read_dir("/sys/block").ok().and_then(|mut disks| disks.next()?.ok()) else {
            return;
        };
        let numbers = fs::read_to_string(disk.path().join("dev")).expect("numbers");
        assert_eq!(device(numbers.trim()), disk.file_name().to_string_lossy());
        assert_eq!(device("1:99999"), "1:99999");
        assert_eq!(device("../../block"), "../../block");
    }
}
