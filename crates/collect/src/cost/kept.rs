//! Costs that an earlier recording of this boot measured, in a file that only root can write.
//!
//! A recording then begins 60 ms sooner. The measured costs hold for the same program with the same options on the same
//! running kernel; each recording still times its own switches, which shifts the ranges. The file names all of these, and
//! another file's costs are measured anew. So are costs older than [`MAX_AGE`], since neighbours and clock rates change.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use wakepath_recording::this_host;

use super::arithmetic::Costs;
use crate::options::Options;
use crate::rights::SYS_ADMIN;
use crate::sampling;

/// A directory in memory, whose files a boot takes away.
const DIRECTORY: &str = "/run/wakepath";
/// The longest time for which measured costs count.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// The most files: the place is a hash modulo this number.
const FILES: u64 = 16;
/// More than a file's size, bytes.
const MAX_BYTES: u64 = 8192;

/// The place for the costs under a set of options.
#[derive(Debug)]
pub(super) struct KeptCosts {
    directory: PathBuf,
    /// The only user whose files are believed.
    owner: u32,
    /// The program, options, CPUs and boot, as lines.
    key: String,
}

impl KeptCosts {
    /// For a recording with these options. `None` for users other than root, and without the right to measure:
    /// such a recording's cost stays unknown.
    pub(super) fn of(options: &Options) -> Option<Self> {
        // SAFETY: takes nothing, changes nothing.
        let user = unsafe { libc::geteuid() };
        let host = this_host();
        (user == 0 && SYS_ADMIN.is_held() && !host.boot_id.is_empty()).then_some(())?;
        let program = fs::metadata("/proc/self/exe").ok()?;
        let program = [
            program.dev() as i64,
            program.ino() as i64,
            program.size() as i64,
            program.mtime(),
            program.mtime_nsec(),
        ];
        let cpus = sampling::online_cpus().ok()?;
        let key = format!("boot {}\nprogram {program:?}\ncpus {cpus:?}\n{}", host.boot_id, words(options));
        Some(Self { directory: DIRECTORY.into(), owner: 0, key })
    }

    fn file(&self) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        self.key.hash(&mut hasher);
        self.directory.join(format!("cost-{}", hasher.finish() % FILES))
    }

    /// Whether a file or directory belongs to the owner alone.
    fn is_trusted(&self, data: &fs::Metadata) -> bool {
        data.uid() == self.owner && data.mode() & 0o022 == 0
    }

    fn is_directory_trusted(&self) -> bool {
        // A link itself is no directory.
        fs::symlink_metadata(&self.directory).is_ok_and(|data| data.is_dir() && self.is_trusted(&data))
    }

    /// The kept costs, if they are of these options and not too old.
    pub(super) fn read(&self, now: SystemTime) -> Option<Costs> {
        if !self.is_directory_trusted() {
            return None;
        }
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.file()).ok()?;
        let data = file.metadata().ok()?;
        let age = now.duration_since(data.modified().ok()?).ok()?;
        if !data.is_file() || !self.is_trusted(&data) || data.len() > MAX_BYTES || age > MAX_AGE {
            return None;
        }
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        Costs::from_text(text.strip_prefix(&self.key)?)
    }

    /// Keeps measured costs. A failure only means that the next recording measures again.
    pub(super) fn write(&self, costs: &Costs) {
        let _ = DirBuilder::new().mode(0o700).create(&self.directory);
        if self.is_directory_trusted() {
            let new = self.directory.join(format!("new-{}", std::process::id()));
            let written = create(&new).and_then(|mut file| {
                file.write_all(format!("{}{}", self.key, costs.to_text()).as_bytes())?;
                fs::rename(&new, self.file())
            });
            if written.is_err() {
                let _ = fs::remove_file(&new);
            }
        }
    }
}

fn create(path: &Path) -> std::io::Result<File> {
    let _ = fs::remove_file(path);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The options on which the programs' work depends, in a line.
fn words(options: &Options) -> String {
    let Options {
        sched_ring_bytes,
        net_ring_bytes,
        life_bytes,
        calls,
        stacks,
        callers,
        failed_calls,
        goroutines,
        ..
    } = options;
    let counts = [options.functions.len(), options.kernel_functions.len()];
    let rings = [sched_ring_bytes, net_ring_bytes, life_bytes];
    let samples = options.samples_per_second;
    format!(
        "options rings {rings:?} calls {calls} samples {samples} stacks {stacks:?} callers {callers:?} failed {failed_calls} \
         everyone {} goroutines {goroutines:?} functions {counts:?}\n",
        options.everyone()
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::options::Stacks;

    fn costs() -> Costs {
        Costs::for_tests()
    }

    /// A place within a folder of this user.
    fn place(folder: &Path) -> KeptCosts {
        // SAFETY: takes nothing, changes nothing.
        let owner = unsafe { libc::geteuid() };
        KeptCosts { directory: folder.join("kept"), owner, key: "boot 1\n".to_owned() }
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    }

    #[test]
    fn kept_costs_are_those_that_were_measured() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(folder.path());
        assert_eq!(place.read(SystemTime::now()), None, "nothing is kept yet");
        place.write(&costs());
        assert_eq!(place.read(SystemTime::now()), Some(costs()));
        let data = place.file().metadata().expect("a file");
        assert_eq!(data.mode() & 0o777, 0o600);
        assert_eq!(place.directory.metadata().expect("a folder").mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&place.directory).expect("a folder").count(), 1, "no rest of the writing");
        place.write(&costs());
        assert_eq!(place.read(SystemTime::now()), Some(costs()), "written once more");
    }

    #[test]
    fn costs_count_for_an_hour_and_none_from_the_future_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(folder.path());
        place.write(&costs());
        let written = place.file().metadata().and_then(|data| data.modified()).expect("a time");
        assert!(place.read(written + MAX_AGE).is_some());
        assert!(place.read(written + MAX_AGE + Duration::from_nanos(1)).is_none());
        assert!(place.read(written - Duration::from_nanos(1)).is_none());
    }

    #[test]
    fn another_boot_program_or_option_has_no_kept_costs() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(folder.path());
        place.write(&costs());
        let another = KeptCosts { key: "boot 2\n".to_owned(), directory: place.directory.clone(), ..place };
        fs::rename(place_file(folder.path(), "boot 1\n"), another.file()).expect("the place of the other");
        assert_eq!(another.read(SystemTime::now()), None);
        let default = words(&Options::default());
        for other in [
            Options { stacks: Stacks::Each, ..Options::default() },
            Options { samples_per_second: 0, ..Options::default() },
            Options { calls: false, ..Options::default() },
            Options { failed_calls: true, ..Options::default() },
            Options { sched_ring_bytes: 1 << 20, ..Options::default() },
            Options { command: vec!["true".into()], ..Options::default() },
        ] {
            assert_ne!(words(&other), default, "{other:?}");
        }
    }

    fn place_file(folder: &Path, key: &str) -> PathBuf {
        KeptCosts { key: key.to_owned(), ..place(folder) }.file()
    }

    #[test]
    fn what_another_user_could_have_written_is_not_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(folder.path());
        place.write(&costs());
        let now = SystemTime::now();
        for writable in [0o622, 0o620, 0o602] {
            mode(&place.file(), writable);
            assert_eq!(place.read(now), None, "{writable:o}");
        }
        mode(&place.file(), 0o644);
        assert!(place.read(now).is_some());
        for writable in [0o770, 0o707] {
            mode(&place.directory, writable);
            assert_eq!(place.read(now), None, "{writable:o}");
        }
        mode(&place.directory, 0o755);
        assert!(place.read(now).is_some());
        let stranger =
            KeptCosts { owner: place.owner + 1, directory: place.directory.clone(), key: place.key.clone() };
        assert_eq!(stranger.read(now), None);
        // A link to the very same file.
        let moved = folder.path().join("moved");
        fs::rename(place.file(), &moved).expect("a move");
        symlink(&moved, place.file()).expect("a link");
        assert_eq!(place.read(now), None);
    }

    #[test]
    fn a_directory_that_is_a_link_is_neither_read_nor_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(folder.path());
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("a folder");
        mode(&elsewhere, 0o700);
        symlink(&elsewhere, &place.directory).expect("a link");
        place.write(&costs());
        assert_eq!(fs::read_dir(&elsewhere).expect("a folder").count(), 0);
        assert_eq!(place.read(SystemTime::now()), None);
    }

    #[test]
    fn a_damaged_file_is_measured_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(folder.path());
        place.write(&costs());
        let whole = fs::read_to_string(place.file()).expect("a file");
        for length in 0..whole.len() {
            fs::write(place.file(), &whole[..length]).expect("a part");
            assert_eq!(place.read(SystemTime::now()), None, "{}", &whole[..length]);
        }
        fs::write(place.file(), whole.clone() + &"x".repeat(MAX_BYTES as usize)).expect("a long file");
        assert_eq!(place.read(SystemTime::now()), None);
        fs::write(place.file(), whole).expect("the whole");
        assert!(place.read(SystemTime::now()).is_some());
    }
}
