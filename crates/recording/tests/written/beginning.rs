//! Recorders that begin in the same directory take turns, and none removes another's files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Barrier, mpsc};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use wakepath_event::RecordingFormat as _;
use wakepath_recording::{Caller, Options, Recording, WriteError, Writer};

use crate::made;

/// The directory of another recorder about to begin at `path`, locked while the file is open.
fn begun(path: &Path) -> (PathBuf, File) {
    let unfinished = path.with_file_name(".wakepath.rec.new");
    fs::create_dir_all(unfinished.join("kernel")).expect("a directory");
    fs::write(unfinished.join("kernel/metadata"), "its own").expect("a file");
    let lock = File::open(&unfinished).expect("a directory");
    flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("a lock");
    (unfinished, lock)
}

/// Begins a recording in another thread: an endless wait becomes an error after a while.
fn create(path: &Path) -> mpsc::Receiver<Result<(), WriteError>> {
    let (sender, receiver) = mpsc::channel();
    let path = path.to_owned();
    std::thread::spawn(move || {
        let made = Writer::create(&path, &made::host(), &made::options()).map(drop);
        // The test may have ended.
        let _ = sender.send(made);
    });
    receiver
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_recorder_waits_until_another_one_has_begun() {
    let (folder, path) = made::place();
    let (unfinished, lock) = begun(&path);
    let second = create(&path);
    assert!(second.recv_timeout(Duration::from_millis(200)).is_err(), "it waits");
    assert_eq!(fs::read(unfinished.join("kernel/metadata")).expect("the other one's"), b"its own");
    // The other recorder's directory gets its name, here a different name.
    let other = folder.path().join("other.rec");
    fs::rename(&unfinished, &other).expect("a free name");
    second.recv_timeout(LONG).expect("it goes on").expect("a new recording");
    assert!(Recording::open(&path).is_ok());
    assert_eq!(fs::read(other.join("kernel/metadata")).expect("the other one's"), b"its own");
    drop(lock);
}

#[test]
fn a_recorder_does_not_wait_for_ever() {
    let (_folder, path) = made::place();
    let (unfinished, _lock) = begun(&path);
    let before = Instant::now();
    let error = create(&path).recv_timeout(LONG).expect("it ends").expect_err("it is held");
    assert!(matches!(error, WriteError::InTheWay(ref at) if *at == unfinished), "{error}");
    assert!(before.elapsed() >= Duration::from_secs(2), "{:?}", before.elapsed());
    assert_eq!(fs::read(unfinished.join("kernel/metadata")).expect("the other one's"), b"its own");
    assert!(!path.exists());
}

#[test]
fn one_of_several_recorders_that_begin_at_once_gets_the_name() {
    const RECORDERS: usize = 4;
    for _ in 0..100 {
        let (_folder, path) = made::place();
        let together = Barrier::new(RECORDERS);
        let begin = || {
            together.wait();
            Writer::create(&path, &made::host(), &made::options())
        };
        let made: Vec<_> = std::thread::scope(|scope| {
            let threads = [(); RECORDERS].map(|()| scope.spawn(begin));
            threads.map(|thread| thread.join().expect("no thread panics")).into()
        });
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{made:?}");
        for error in made.iter().filter_map(|made| made.as_ref().err()) {
            assert!(matches!(error, WriteError::InTheWay(at) if *at == path), "{error}");
        }
        assert!(Recording::open(&path).is_ok());
    }
}

#[test]
fn a_file_in_the_place_of_an_unfinished_recording_stays() {
    let (_folder, path) = made::place();
    let file = path.with_file_name(".wakepath.rec.new");
    fs::write(&file, "mine").expect("a file");
    let error = Writer::create(&path, &made::host(), &made::options()).expect_err("something in the way");
    assert!(matches!(error, WriteError::InTheWay(ref at) if *at == file), "{error}");
    assert_eq!(fs::read(&file).expect("it is still there"), b"mine");
}

#[test]
fn needs_root_an_unfinished_recording_of_another_user_stays_and_no_file_is_made_where_one_may_not() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root; it would have shown that nothing of another user is removed");
        return;
    }
    let (folder, path) = made::place();
    let caller = Some(Caller { uid: 1234, gid: 5678, groups: vec![5678] });
    let options = Options { caller, ..made::options() };
    let create = || Writer::create(&path, &made::host(), &options);
    let error = create().expect_err("the folder is root's");
    let is_denied = |source: &std::io::Error| source.kind() == std::io::ErrorKind::PermissionDenied;
    assert!(matches!(&error, WriteError::Io { source, .. } if is_denied(source)), "{error}");

    std::os::unix::fs::chown(folder.path(), Some(1234), None).expect("as root");
    let (unfinished, lock) = begun(&path);
    drop(lock);
    let error = create().expect_err("root's");
    assert!(matches!(error, WriteError::InTheWay(ref at) if *at == unfinished), "{error}");
    assert!(unfinished.join("kernel/metadata").exists());
    // Root may remove the directory, and does not.
    std::os::unix::fs::chown(&unfinished, Some(1234), None).expect("as root");
    let error = Writer::create(&path, &made::host(), &made::options()).expect_err("another user's");
    assert!(matches!(error, WriteError::InTheWay(ref at) if *at == unfinished), "{error}");
    assert!(unfinished.join("kernel/metadata").exists());
    fs::remove_dir_all(&unfinished).expect("as root");
    create().expect("a new recording");
}
