//! A recording's place, and the files there that it never touches.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use wakepath_event::{Cpu, RecordingFormat};
use wakepath_recording::{Caller, Options, Recording, RotateError, WriteError, Writer, rotate};

use crate::made;

fn create(path: &Path) -> Result<Writer, WriteError> {
    Writer::create(path, &made::host(), &made::options())
}

fn caller() -> Caller {
    Caller { uid: 1234, gid: 5678, groups: vec![5678] }
}

/// Lets every user write beside `path`.
fn open_to_all(path: &Path) {
    let folder = path.parent().expect("a folder");
    fs::set_permissions(folder, Permissions::from_mode(0o777)).expect("one's own");
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(path)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_recording_is_private() {
    let (folder, path) = made::place();
    let mut writer = create(&path).expect("a new recording");
    writer.sched(Cpu(3)).expect("a stream");
    for (name, mode) in
        [("", 0o700), ("kernel", 0o700), ("kernel/metadata", 0o600), ("kernel/sched_3", 0o600)]
    {
        let found = fs::symlink_metadata(path.join(name)).expect("it is there").permissions().mode() & 0o7777;
        assert_eq!(found, mode, "{name}: {found:o}");
    }
    assert_eq!(names(folder.path()), ["wakepath.rec"], "nothing else is left behind");
}

#[test]
fn nothing_foreign_is_overwritten() {
    for put in [
        (|path| fs::write(path, "mine").expect("a file")) as fn(&Path),
        |path| symlink("/nowhere", path).expect("a link"),
        |path| {
            fs::create_dir(path.with_file_name("elsewhere")).expect("a directory");
            symlink("elsewhere", path).expect("a link");
        },
        |path| {
            fs::create_dir(path).expect("a directory");
            fs::write(path.join("file"), "mine").expect("a file");
        },
        |path| drop(create(path).expect("a recording")),
    ] {
        let (folder, path) = made::place();
        put(&path);
        let before = names(folder.path());
        let error = create(&path).expect_err("something in the way");
        assert!(matches!(error, WriteError::InTheWay(ref at) if *at == path), "{error}");
        assert_eq!(names(folder.path()), before);
    }
}

#[test]
fn an_empty_directory_of_ones_own_becomes_the_recording() {
    let (_folder, path) = made::place();
    fs::create_dir(&path).expect("a directory");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("one's own");
    create(&path).expect("a new recording");
    assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o7777, 0o700);
    assert!(Recording::open(&path).is_ok());
}

#[test]
fn needs_root_an_empty_directory_of_somebody_else_is_in_the_way() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root; it would have shown that another user's directory is not taken");
        return;
    }
    let (_folder, path) = made::place();
    fs::create_dir(&path).expect("a directory");
    std::os::unix::fs::chown(&path, Some(1234), Some(5678)).expect("root may");
    assert!(matches!(create(&path), Err(WriteError::InTheWay(_))));
    open_to_all(&path);
    let options = Options { caller: Some(caller()), ..made::options() };
    assert!(Writer::create(&path, &made::host(), &options).is_ok(), "it is the caller's");
}

#[test]
fn the_rest_of_a_recorder_killed_at_its_beginning_is_removed() {
    let (folder, path) = made::place();
    let left = folder.path().join(".wakepath.rec.new");
    fs::create_dir_all(left.join("kernel")).expect("a directory");
    fs::write(left.join("kernel/metadata"), "/* CTF 1.8 */\ntypealias inte").expect("a file");
    create(&path).expect("a new recording");
    assert_eq!(names(folder.path()), ["wakepath.rec"]);

    let (folder, path) = made::place();
    let left = folder.path().join(".wakepath.rec.new");
    fs::create_dir_all(left.join("kernel/mine")).expect("a directory");
    let refuse = || {
        let before = Instant::now();
        let error = create(&path).expect_err("something in the way");
        assert!(matches!(error, WriteError::InTheWay(ref at) if *at == left), "{error}");
        before.elapsed()
    };
    // At once: no other recorder is awaited. A busy machine may be slow once.
    let fastest = [(); 3].map(|()| refuse()).into_iter().min().expect("three");
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
    assert!(left.join("kernel/mine").exists());
}

#[test]
fn needs_root_a_recording_belongs_to_whom_it_is_given() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root; it would have shown that a recording is given to who called sudo");
        return;
    }
    let (_folder, path) = made::place();
    open_to_all(&path);
    let options = Options { caller: Some(caller()), ..made::options() };
    let mut writer = Writer::create(&path, &made::host(), &options).expect("a new recording");
    writer.sched(Cpu(0)).expect("a stream");
    for name in ["", "kernel", "kernel/metadata", "kernel/sched_0"] {
        let found = fs::symlink_metadata(path.join(name)).expect("it is there");
        assert_eq!((found.uid(), found.gid()), (1234, 5678), "{name}");
    }
}

#[test]
fn an_earlier_recording_moves_aside_and_the_one_before_it_goes() {
    let (folder, path) = made::place();
    assert!(!rotate(&path).expect("nothing in the way"), "nothing to move");
    for round in 0..3 {
        made::record(&path, &[], 1);
        fs::write(path.join("kernel/sched_0"), vec![round; 8]).expect("a stream");
        assert!(rotate(&path).expect("a recording"));
        assert_eq!(names(folder.path()), ["wakepath.rec.old"]);
        let kept = fs::read(folder.path().join("wakepath.rec.old/kernel/sched_0")).expect("a stream");
        assert_eq!(kept, vec![round; 8]);
    }
}

/// The files removed from a directory while `run` runs, in order.
fn removed(directory: &Path, run: impl FnOnce()) -> Vec<String> {
    use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
    let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).expect("inotify");
    add_watch(&watch, directory, WatchFlags::DELETE).expect("a directory");
    run();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = Reader::new(watch, &mut buffer);
    let mut names = Vec::new();
    while let Ok(event) = events.next() {
        names.extend(event.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    names
}

/// The rest after an interrupted deletion still counts as a recording, and the next deletion removes it.
#[test]
fn the_metadata_of_a_deleted_recording_goes_last() {
    let (folder, path) = made::place();
    let record = || {
        let mut writer = create(&path).expect("a new recording");
        writer.sched(Cpu(0)).expect("a stream");
        writer.net(Cpu(0)).expect("a stream");
    };
    record();
    assert!(rotate(&path).expect("a recording"));
    record();
    let old = folder.path().join("wakepath.rec.old/kernel");
    let in_order = removed(&old, || assert!(rotate(&path).expect("a recording")));
    assert_eq!(in_order, ["net_0", "sched_0", "metadata"]);
    // The rest after an interrupted deletion.
    record();
    fs::remove_file(old.join("sched_0")).expect("a stream");
    assert!(rotate(&path).expect("a recording"));
    assert_eq!(names(&old), ["metadata", "net_0", "sched_0"]);
}

#[test]
fn other_directories_stay_where_they_are() {
    type Put = fn(&Path);
    let cases: [(Put, &str); 7] = [
        (|path| fs::write(path, "mine").expect("a file"), "it cannot be opened as a directory"),
        (|path| symlink("/", path).expect("a link"), "it cannot be opened as a directory"),
        (|path| fs::create_dir(path).expect("a directory"), "kernel/: No such file"),
        (
            |path| {
                fs::create_dir_all(path.join("kernel")).expect("a directory");
                fs::write(path.join("kernel/metadata"), "/* CTF 1.8 */ trace {};").expect("a file");
            },
            "kernel/metadata line 1",
        ),
        (
            |path| {
                made::record(path, &[], 1);
                let text = fs::read_to_string(path.join("kernel/metadata")).expect("metadata");
                let text = text.replace("\"wakepath\"", "\"lttng-modules\"");
                fs::write(path.join("kernel/metadata"), text).expect("a file");
            },
            "its metadata says so",
        ),
        (
            |path| {
                made::record(path, &[], 1);
                fs::write(path.join("notes.txt"), "mine").expect("a file");
            },
            "it holds notes.txt",
        ),
        (
            |path| {
                made::record(path, &[], 1);
                symlink("/etc/passwd", path.join("kernel/sched_0")).expect("a link");
            },
            "it holds kernel/sched_0",
        ),
    ];
    for (put, why) in cases {
        // In the way of the new recording, and of the old recording's new name.
        let (_folder, path) = made::place();
        put(&path);
        let error = rotate(&path).expect_err("something foreign");
        assert!(matches!(error, RotateError::Foreign { .. }) && error.to_string().contains(why), "{error}");
        assert!(fs::symlink_metadata(&path).is_ok(), "it is still there");

        let (folder, path) = made::place();
        made::record(&path, &[], 1);
        put(&folder.path().join("wakepath.rec.old"));
        let before = names(folder.path());
        let error = rotate(&path).expect_err("something foreign");
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(names(folder.path()), before);
    }
}

#[test]
fn a_recording_is_recognised_by_what_wrote_its_metadata() {
    let (folder, path) = made::place();
    drop(create(&path).expect("a new recording"));
    assert!(Recording::recognises(&path));
    assert!(!Recording::recognises(folder.path()), "another directory");
    assert!(!Recording::recognises(&path.join("kernel/metadata")), "a file");
    let metadata = path.join("kernel/metadata");
    let text = fs::read_to_string(&metadata).expect("a text");
    fs::write(&metadata, text.replace("\"wakepath\"", "\"another\"")).expect("room");
    assert!(!Recording::recognises(&path), "of another tracer");
    fs::write(&metadata, "nonsense").expect("room");
    assert!(Recording::recognises(&path), "a recording whose metadata is damaged is one");
}

#[test]
fn the_place_of_a_recording_is_known_under_each_name_that_it_gets() {
    let (folder, path) = made::place();
    let old = folder.path().join("wakepath.rec.old");
    let first = create(&path).expect("a new recording");
    let place = first.place();
    assert_eq!(
        (place.asked(), place.present().ok(), place.moved_running()),
        (&*path, Some(path.clone()), None)
    );
    let second = Writer::replace(&path, &made::host(), &made::options()).expect("a new recording");
    assert_eq!(place.present().ok(), Some(old.clone()));
    assert_eq!(second.place().moved_running(), Some(old.clone()));
    assert_eq!(second.place().present().ok(), Some(path.clone()));
    let elsewhere = folder.path().join("kept");
    fs::rename(&old, &elsewhere).expect("a free name");
    assert_eq!(place.present().ok(), Some(elsewhere.clone()));
    fs::remove_dir_all(&elsewhere).expect("one's own");
    assert!(place.present().is_err(), "it is gone");
    drop(second);
    let third = Writer::replace(&path, &made::host(), &made::options()).expect("a new recording");
    assert_eq!(third.place().moved_running(), None, "the one before had ended");
}

#[test]
fn needs_root_a_recording_of_another_user_is_not_moved() {
    if !rustix::process::geteuid().is_root() {
        eprintln!(
            "skipped: not root; it would have shown that a recording of another user stays where it is"
        );
        return;
    }
    let (_folder, path) = made::place();
    drop(create(&path).expect("a new recording"));
    std::os::unix::fs::chown(&path, Some(1234), None).expect("as root");
    let error = rotate(&path).expect_err("it is another user's");
    assert!(matches!(error, RotateError::Another { owner: 1234, .. }), "{error}");
    assert!(path.join("kernel/metadata").exists());
}
