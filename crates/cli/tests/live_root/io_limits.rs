//! Cgroups' I/O limits in a live recording: a limit is named with its size if it holds requests back, else it is
//! never named.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::Value;
use wakepath_harness::live::{document, list, not_possible, number, place, record};

const WOULD_SHOW: &str = "an I/O limit is named where it holds a request back, and nowhere else";

/// Moves itself into a cgroup and writes 20 blocks of 64 KiB, each to the disk.
const WRITES: &str = r#"
echo 0 >"$1/cgroup.procs" && exec dd if=/dev/zero of=wal bs=64k count=20 oflag=dsync conv=notrunc 2>dd.txt
"#;

/// A cgroup with the I/O controller, until it is dropped.
struct Group {
    folder: PathBuf,
    /// The numbers of the disk below the tests' files, such as `254:0`.
    disk: String,
}

impl Group {
    fn new(name: &str, files: &Path) -> Option<Self> {
        let v1 = Path::new("/sys/fs/cgroup/blkio");
        let v2 = Path::new("/sys/fs/cgroup");
        let is_v1 = v1.join("blkio.throttle.write_bps_device").exists();
        if !is_v1 {
            fs::write(v2.join("cgroup.subtree_control"), "+io").ok()?;
        }
        let folder = if is_v1 { v1 } else { v2 }.join(format!("{name}-{}", std::process::id()));
        let disk = disk(files)?;
        fs::create_dir(&folder).ok()?;
        Some(Self { folder, disk })
    }

    /// Limits writes to the disk; `None` lifts the limit.
    fn limit(&self, bytes: Option<u64>) {
        let v1 = self.folder.join("blkio.throttle.write_bps_device");
        let (file, text) = match v1.exists() {
            true => (v1, format!("{} {}", self.disk, bytes.unwrap_or(0))),
            false => {
                let bytes = bytes.map_or(String::from("max"), |bytes| bytes.to_string());
                (self.folder.join("io.max"), format!("{} wbps={bytes}", self.disk))
            }
        };
        fs::write(file, text).expect("a limit");
    }

    fn path(&self) -> &str {
        self.folder.to_str().expect("a path")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The numbers of the whole disk on which a folder is; `None` if it is on none.
fn disk(folder: &Path) -> Option<String> {
    let device = folder.metadata().ok()?.dev();
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
    let class = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let whole = if class.join("partition").exists() { class.parent()?.to_owned() } else { class };
    // A mapped disk passes its requests on to others, which the limit does not see.
    if whole.join("dm").exists() {
        return None;
    }
    Some(fs::read_to_string(whole.join("dev")).ok()?.trim().to_owned())
}

/// Records the writes in the cgroup; the answer about them.
fn written(folder: &Path, group: &Group) -> Value {
    record(folder, &["--", "sh", "-c", WRITES, "writes", group.path()], 0);
    document(folder, &["path"])
}

/// The number of held requests in a recording.
fn released(folder: &Path) -> u64 {
    document(folder, &["info"])["events"]["block_release"].as_u64().unwrap_or_default()
}

/// The contributors due to an I/O limit.
fn held(document: &Value) -> Vec<&Value> {
    list(&document["contributors"]).iter().filter(|it| it["code"] == "io_limit").collect()
}

/// A program writing to the same disk outside the cgroup, until it is dropped.
struct Load(Child);

impl Load {
    fn new(folder: &Path) -> Self {
        let loop_forever = "while :; do dd if=/dev/zero of=load bs=1M count=64 oflag=direct 2>load.txt; done";
        let mut command = Command::new("sh");
        command.args(["-c", loop_forever]).current_dir(folder);
        Self(command.spawn().expect("a load"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The time, ns, in which some task of the machine waited for input or output, by the kernel's own count (PSI).
fn pressure() -> Option<u64> {
    let text = fs::read_to_string("/proc/pressure/io").ok()?;
    let total = text.lines().find(|line| line.starts_with("some"))?.split("total=").nth(1)?;
    total.trim().parse::<u64>().ok().map(|us| us * 1000)
}

#[test]
fn an_io_limit_is_named_where_it_holds_requests_back() {
    let Some(folder) = place(WOULD_SHOW) else { return };
    let Some(group) = Group::new("wakepath-held-back", &folder) else {
        return not_possible("no disk whose writes a cgroup could limit", WOULD_SHOW);
    };
    // A kernel worker writes for `sync`, and lets no held request go.
    record(&folder, &["--", "sh", "-c", "dd if=/dev/zero of=wal bs=64k count=20 2>dd.txt; sync"], 0);
    assert_eq!(released(&folder), 0);
    group.limit(Some(1_000_000));
    let before = pressure();
    let document = written(&folder, &group);
    assert!(released(&folder) > 5);
    let pressure = before.zip(pressure()).map(|(before, now)| now - before);
    let (name, contributors) = (group.folder.file_name().expect("a name").to_string_lossy(), held(&document));
    let what = format!("{name} (1 MB/s of writes to ");
    let is_named = |it: &&Value| it["what"].as_str().is_some_and(|text| text.starts_with(&what));
    assert!(contributors.iter().all(is_named), "{contributors:?}");
    // 20 blocks of 65,536 bytes take 1.31 s at this limit, less the part allowed at once and what passes while the
    // program waits for a CPU.
    let total: u64 = contributors.iter().map(|it| number(&it["total_ns"])).sum();
    println!("held back {total} ns; by the limit 1310720000 ns; PSI of the machine {pressure:?} ns");
    assert!((400_000_000..1_450_000_000).contains(&total), "{total} ns: {contributors:?}");
    let rows = list(&document["rows"]);
    let row = rows.iter().find(|row| row["code"] == "io_limit").expect("a row");
    assert_eq!(row["basis"], "inferred", "{row}");
    assert_eq!(list(&row["calls"])[0]["object"]["name"], "wal", "{row}");
    let segments = list(&document["segments"]).iter().filter(|it| it["cause"]["type"] == "io_limit");
    assert!(segments.clone().count() > 5);
    // Several requests may be done in one interrupt, if it comes late.
    let by_rule = |it: &Value| it["rule"] == "held_request" || it["rule"] == "last_completion";
    assert!(
        segments.clone().all(|it| it["kind"] == "block_device" && by_rule(it)),
        "{:?}",
        segments.collect::<Vec<_>>()
    );
}

#[test]
fn an_io_limit_that_holds_nothing_back_is_not_named() {
    let Some(folder) = place(WOULD_SHOW) else { return };
    let Some(group) = Group::new("wakepath-not-held", &folder) else {
        return not_possible("no disk whose writes a cgroup could limit", WOULD_SHOW);
    };
    for (limit, is_loaded) in [(None, false), (Some(10_000_000_000), false), (Some(10_000_000_000), true)] {
        group.limit(limit);
        let _load = is_loaded.then(|| Load::new(&folder));
        let document = written(&folder, &group);
        assert_eq!(held(&document), [] as [&Value; 0], "{limit:?} {is_loaded}");
        let waits = list(&document["contributors"]).iter().filter(|it| it["kind"] == "block_device");
        assert!(waits.count() > 0, "the writes waited for the disk: {limit:?} {is_loaded}");
    }
}
