//! Memory limits of cgroups in a live recording: a limit for which threads freed memory is named with its size and the pages
//! read again, and a limit with room is not named.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use wakepath_harness::live::{document, list, not_possible, number, place, record};

const WOULD_SHOW: &str = "a memory limit is named where threads free memory for it, and nowhere else";

/// The size of the file, bytes, and how often it is read.
const FILE: usize = 60 << 20;
const TIMES: usize = 8;

/// Moves itself into a cgroup and reads a file again and again.
const READS: &str = r#"
echo 0 >"$1/cgroup.procs" && exec cat big big big big big big big big >/dev/null
"#;

/// A cgroup with the memory controller, until it is dropped.
pub struct Group(pub PathBuf);

impl Group {
    /// A new one with this limit; `None` where none can be made.
    pub fn new(name: &str, limit: u64) -> Option<Self> {
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let v2 = Path::new("/sys/fs/cgroup");
        let is_v1 = v1.join("memory.limit_in_bytes").exists();
        if !is_v1 {
            fs::write(v2.join("cgroup.subtree_control"), "+memory").ok()?;
        }
        let folder = if is_v1 { v1 } else { v2 }.join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let group = Self(folder);
        let file = if is_v1 { "memory.limit_in_bytes" } else { "memory.max" };
        fs::write(group.0.join(file), limit.to_string()).ok()?;
        Some(group)
    }

    /// The pages read again, by the kernel's own count.
    fn refaults(&self) -> u64 {
        let text = fs::read_to_string(self.0.join("memory.stat")).expect("counts");
        let count =
            |line: &str| line.strip_prefix("workingset_refault_")?.split(' ').nth(1)?.parse::<u64>().ok();
        text.lines().filter_map(count).sum()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_memory_limit_is_named_where_threads_free_memory_for_it_and_nowhere_else() {
    const LIMIT: u64 = 20 << 20;
    let Some(folder) = place(WOULD_SHOW) else { return };
    // Only pages on the disk can be dropped.
    let mut file = fs::File::create(folder.join("big")).expect("a file");
    file.write_all(&vec![7; FILE]).and_then(|()| file.sync_all()).expect("a file on the disk");
    for (limit, is_reached) in [(LIMIT, true), (1 << 40, false)] {
        let Some(group) = Group::new("wakepath-memory", limit) else {
            return not_possible("no cgroup whose memory could be limited", WOULD_SHOW);
        };
        // From here on, the file is not in memory: pages count for the reading cgroup.
        let drop_pages = ["dd", "if=big", "iflag=nocache", "count=0", "status=none"];
        let command =
            std::process::Command::new(drop_pages[0]).args(&drop_pages[1..]).current_dir(&folder).status();
        assert!(command.is_ok_and(|status| status.success()));
        record(&folder, &["--", "sh", "-c", READS, "reads", group.0.to_str().expect("a path")], 0);
        let refaults = group.refaults();
        let document = document(&folder, &["path"]);
        let reclaims = list(&document["reclaims"]);
        if !is_reached {
            assert!(reclaims.is_empty(), "{reclaims:?}");
            continue;
        }
        let name = group.0.file_name().expect("a name").to_string_lossy();
        let named = reclaims.iter().find(|it| it["unit"] == *name);
        let named = named.unwrap_or_else(|| panic!("no reclaims of {name}: {reclaims:?}"));
        assert_eq!((number(&named["limit_bytes"]), &named["limit"]), (LIMIT, &"memory.max".into()));
        // All other reclaims together are few.
        let total: u64 = reclaims.iter().map(|it| number(&it["count"])).sum();
        assert!(number(&named["count"]) * 10 >= total * 9, "{reclaims:?}");
        // The pages of all readings but the first, less the 20 MiB that may stay.
        let least = ((FILE - LIMIT as usize) * (TIMES - 1) / 4096) as u64;
        assert!(refaults > least, "the kernel counted {refaults}, at least {least}");
        // The first count is read soon after the first reclaim.
        let again = number(&named["pages_read_again"]);
        println!("read again {again} pages; by memory.stat {refaults}; freed {}", named["pages"]);
        assert!((refaults / 2..=refaults).contains(&again), "{again} of {refaults}");
        // The disk's waits are the readings of one file; the first of them is no reading again.
        let read_again = number(&named["read_again_ns"]);
        let contributors = list(&document["contributors"]).iter();
        let disk = contributors.filter(|it| it["kind"] == "block_device" && it["call"] == "read");
        let disk: u64 = disk.map(|it| number(&it["total_ns"])).sum();
        println!("{read_again} ns for reading again, {disk} ns for all reading");
        assert!((disk / 2..disk).contains(&read_again), "{read_again} ns of {disk} ns");
    }
}
