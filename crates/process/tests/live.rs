//! The files of real processes: this process, and children that fork, run another program, end, and lose their
//! number to another process.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wakepath_process::{Error, Kind, Process, path_through, processes, root_of};

/// A child that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sleeping(program: impl AsRef<OsStr>) -> Running {
    let running = Running(Command::new(program).arg("60").spawn().expect("sleep"));
    until_it_sleeps(&open(&running));
    running
}

/// A child is a copy of its parent until its exec is over, and has its words once all is mapped.
fn until_it_sleeps(process: &Process) {
    until(|| process.command_line().expect("words").ends_with(b"\x0060\0"));
}

fn open(running: &Running) -> Process {
    Process::open(running.0.id()).expect("a child that runs")
}

fn until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "it never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kind<T: std::fmt::Debug>(read: Result<T, Error>) -> Kind {
    read.expect_err("an error").kind
}

static CONSTANT: [u8; 16] = *b"a constant here.";

#[test]
fn the_mappings_of_this_process_lead_from_an_address_to_its_byte_in_the_file() {
    let own = Process::own().expect("this process");
    assert_eq!(own.pid(), std::process::id());
    let program = std::env::current_exe().expect("a program");
    assert_eq!(own.program().expect("a path"), program);
    let address = CONSTANT.as_ptr() as u64;
    let mappings = own.mappings().expect("mappings");
    let mapping = mappings.iter().find(|it| it.addresses.contains(&address)).expect("it");
    assert_eq!((mapping.path(), mapping.is_deleted()), (Some(program.as_path()), false));
    assert_eq!(mapping.file.2, program.metadata().expect("a file").ino());
    let mut found = [0; 16];
    let exe = own.exe().expect("its file");
    exe.read_exact_at(&mut found, mapping.offset_of(address).expect("an offset")).expect("bytes");
    assert_eq!(found, CONSTANT);
    let names: Vec<_> = mappings.iter().map(|it| &it.name[..]).collect();
    assert!(names.contains(&&b"[vdso]"[..]) && names.contains(&&b""[..]), "{names:?}");
    assert!(mappings.is_sorted_by_key(|it| it.addresses.start));
    for pid in [std::process::id(), std::os::unix::process::parent_id()] {
        assert!(processes().contains(&pid), "{pid}");
    }
    assert!(root_of(std::process::id()).join("proc/self").exists());
}

#[test]
fn memory_is_read_and_written_and_an_address_without_any_is_named() {
    let own = Process::own().expect("this process");
    let value = Box::new([7_u64, 8]);
    let address = value.as_ptr() as u64;
    let memory = own.writable_memory().expect("memory");
    assert_eq!([memory.word(address).expect("a word"), memory.word(address + 8).expect("a word")], *value);
    memory.set_word(address + 8, 0x0102_0304_0506_0708).expect("written");
    memory.write(address, b"bytes").expect("written");
    let now = memory.bytes(address, 16).expect("bytes");
    assert_eq!(now, *b"bytes\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01");
    let reading = own.memory().expect("memory");
    assert_eq!(reading.bytes(address, 16).expect("bytes"), now);
    assert!(reading.write(address, b"x").is_err());
    for (address, length) in [(0, 1), (u64::MAX, 1), (u64::MAX - 7, 8), (i64::MAX as u64, 1), (1 << 63, 8)] {
        assert_eq!(kind(memory.bytes(address, length)), Kind::Unmapped { address });
        assert_eq!(kind(memory.write(address, &vec![1; length as usize])), Kind::Unmapped { address });
    }
    // More than a single read, up to an unmapped page; and a length beyond any memory.
    let mapping =
        own.mappings().expect("mappings").into_iter().find(|it| it.name == b"[stack]").expect("a stack");
    let all: Vec<u8> = (0..5_u32 << 20).map(|at| (at >> 16) as u8).collect();
    assert!(memory.bytes(all.as_ptr() as u64, 5 << 20).expect("bytes") == all);
    let last = mapping.addresses.end - 8;
    assert_eq!(memory.bytes(last, 8).expect("bytes").len(), 8);
    for length in [9, 1 << 40, u64::MAX] {
        assert!(matches!(kind(memory.bytes(last, length)), Kind::Unmapped { .. }));
    }
    drop(value);
}

#[test]
fn only_memory_that_is_there_is_read_and_none_is_brought() {
    let own = Process::own().expect("this process");
    let memory = own.present_memory().expect("memory");
    // So large an allocation is its own mapping, whose pages are there once they are written.
    let mut pages: Vec<u8> = Vec::with_capacity(4 << 20);
    let start = (pages.as_ptr() as u64).next_multiple_of(4096) + 4096;
    // A huge page would bring its neighbours.
    let all = (start - 4096) as *mut std::ffi::c_void;
    // SAFETY: the pages belong to the vector, and the advice leaves their content as it is.
    let advised = unsafe { rustix::mm::madvise(all, 2 << 20, rustix::mm::Advice::LinuxNoHugepage) };
    assert!(matches!(advised, Ok(()) | Err(rustix::io::Errno::INVAL)), "{advised:?}");
    let mut bytes = [1; 8];
    for _ in 0..2 {
        assert_eq!(memory.read(start, &mut bytes), None, "the first reading brought the page");
    }
    let index = (start - pages.as_ptr() as u64) as usize;
    pages.spare_capacity_mut()[index].write(9);
    assert_eq!(memory.read(start, &mut bytes), Some(()));
    assert_eq!(bytes, [9, 0, 0, 0, 0, 0, 0, 0]);
    // The page before was never written.
    assert_eq!(memory.read(start - 4, &mut bytes), None);
    assert_eq!(memory.read(0, &mut bytes), None);
    assert_eq!(memory.read(u64::MAX - 7, &mut bytes), None);
}

#[test]
fn a_thread_may_be_called_anything() {
    let own = Process::own().expect("this process");
    let (say, said) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let tid = fs::read_link("/proc/thread-self").expect("a link");
        let tid: u32 = tid.file_name().and_then(OsStr::to_str).expect("a number").parse().expect("a number");
        for name in [&b"a) R 1 (b"[..], b"\n\xff \\012", b" x \n", b"\n"] {
            fs::write("/proc/thread-self/comm", name).expect("a name");
            say.send((tid, name)).expect("the test");
            ends.recv().expect("the test");
        }
    });
    let before = own.tasks().expect("threads").len();
    for (tid, name) in said {
        assert!(own.tasks().expect("threads").contains(&tid));
        let task = own.task(tid).expect("the thread");
        assert_eq!(task.comm().expect("a name"), name);
        let status = task.status().expect("its values");
        assert_eq!(status.number("Pid"), Some(tid.into()));
        let call = task.system_call().expect("a system call");
        assert!(call.ends_with('\n') && call.len() > 3, "{call}");
        end.send(()).expect("the thread");
    }
    thread.join().expect("the thread");
    assert!(before >= 2, "the test's own thread, and this one");
    assert!(own.task(std::process::id()).is_ok());
    assert!(own.task(1 << 30).is_err_and(|error| error.kind != Kind::Gone), "the process is there");
}

#[test]
fn the_numbers_of_a_child_are_its_own() {
    let child = Command::new("sleep").arg("60").env_clear().env("A", "b=c").env("EMPTY", "").spawn();
    let running = Running(child.expect("sleep"));
    let process = open(&running);
    until_it_sleeps(&process);
    assert_eq!(process.command_line().expect("words"), b"sleep\x0060\0");
    assert_eq!(process.comm().expect("a name"), b"sleep");
    until(|| process.stat().expect("numbers").state == b'S');
    let (stat, own) = (process.stat().expect("numbers"), Process::own().expect("this process"));
    assert_eq!(stat.parent, std::process::id());
    assert!(stat.started >= own.stat().expect("numbers").started);
    let stack = process.mappings().expect("mappings").into_iter().find(|it| it.name == b"[stack]");
    assert!(stack.expect("a stack").addresses.contains(&stat.start_stack));
    let status = process.status().expect("values");
    assert_eq!(
        (status.number("PPid"), status.number("TracerPid")),
        (Some(std::process::id().into()), Some(0))
    );
    assert!(status.field("NSpid").expect("numbers").starts_with(running.0.id().to_string().as_bytes()));
    let environment = process.environment().expect("pairs");
    let expected = [("A", "b=c"), ("EMPTY", "")].map(|(name, value)| (name.into(), value.into()));
    assert_eq!(environment, expected);
    // AT_PAGESZ, and an entry that does not exist.
    assert_eq!(process.auxiliary(6).expect("a vector"), Some(rustix::param::page_size() as u64));
    assert_eq!(process.auxiliary(1 << 40).expect("a vector"), None);
    let inode =
        |process: &Process| process.namespace("net").expect("a namespace").metadata().expect("it").ino();
    assert_eq!(inode(&process), inode(&own));
    assert!(process.cgroups().expect("paths").iter().all(|path| path.starts_with(b"/")));
    let descriptors = process.descriptors().expect("descriptors");
    assert!(descriptors.len() >= 3 && descriptors.iter().all(|text| text.starts_with(b"pos:")));
    assert_eq!(process.tasks().expect("threads"), [running.0.id()]);
}

#[test]
fn cpu_time_of_ended_threads_is_counted() {
    let mut child = Command::new("sh").args(["-c", "i=0; while :; do i=$((i+1)); done"]).spawn().expect("sh");
    let process = Process::open(child.id()).expect("a child");
    until(|| process.stat().expect("numbers").cpu_ticks.iter().sum::<u64>() >= 3);
    child.kill().expect("it runs");
    // Not waited for yet: the process has numbers and no memory.
    until(|| process.stat().expect("numbers").state == b'Z');
    assert_eq!(process.mappings().expect("none"), []);
    assert!(process.exe().is_err_and(|error| error.kind != Kind::Gone), "it is there, and has no program");
    child.wait().expect("its end");
    assert_eq!(kind(process.stat()), Kind::Gone);
}

#[test]
fn a_file_is_reached_through_its_mapping_by_any_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = b"two\nlines (deleted) \xff \\012 ) r-xp (deleted)";
    let program = folder.path().join(OsStr::from_bytes(name));
    // A copy made here could be open for writing in another test's new child, and then does not start.
    let copied = Command::new("cp").arg("/bin/sleep").arg(&program).status().expect("cp");
    assert!(copied.success(), "a copy");
    let running = sleeping(&program);
    let inode = program.metadata().expect("a file").ino();
    let code = |process: &Process| {
        let mappings = process.mappings().expect("mappings");
        mappings.into_iter().find(|it| it.is_code() && it.file.2 == inode).expect("its code")
    };
    let process = open(&running);
    let mapping = code(&process);
    let shown = b"two\\012lines (deleted) \xff \\012 ) r-xp (deleted)";
    assert!(mapping.name.ends_with(shown), "{mapping:?}");
    assert_eq!(process.program().expect("a path"), program);
    fs::remove_file(&program).expect("it is there");
    let mapping = code(&process);
    assert!(mapping.name.ends_with(&[&shown[..], b" (deleted)"].concat()) && mapping.is_deleted());
    assert_eq!(process.exe().expect("its file").metadata().expect("it").ino(), inode);
    match process.mapped_file(&mapping.addresses) {
        Ok(file) => {
            assert_eq!(file.metadata().expect("it").ino(), inode);
            let through = File::open(path_through(running.0.id(), &mapping.addresses)).expect("the same");
            assert_eq!(through.metadata().expect("it").ino(), inode);
        }
        Err(error) => assert_eq!(error.kind, Kind::NoRights),
    }
    assert!(process.mapped_file(&(0x1000..0x2000)).is_err_and(|error| error.kind != Kind::Gone));
}

#[test]
fn a_program_that_runs_another_one_has_other_mappings_and_the_old_memory_is_gone() {
    let mut child =
        Command::new("sh").args(["-c", "read go; exec sleep 60"]).stdin(Stdio::piped()).spawn().expect("sh");
    let mut go = child.stdin.take().expect("a pipe");
    let running = Running(child);
    let process = open(&running);
    until(|| process.command_line().expect("words").starts_with(b"sh\0"));
    let before = process.mappings().expect("mappings");
    let address = before.iter().find(|it| it.permissions[0] == b'r').expect("one").addresses.start;
    let memory = process.memory().expect("memory");
    memory.word(address).expect("a word");
    let started = process.stat().expect("numbers").started;
    go.write_all(b"\n").expect("it reads");
    until_it_sleeps(&process);
    let now = process.mappings().expect("mappings");
    assert!(now.iter().any(|it| it.path().is_some_and(|path| path.ends_with("sleep"))), "{now:?}");
    assert_eq!(kind(memory.word(address)), Kind::Gone);
    assert_eq!(process.stat().expect("numbers").started, started, "it is the same process");
}

#[test]
fn a_process_that_has_ended_is_gone_in_each_of_its_files() {
    let running = sleeping("/bin/sleep");
    let (process, pid) = (open(&running), running.0.id());
    let mapping = process.mappings().expect("mappings").remove(0);
    let (memory, task) = (process.memory().expect("memory"), process.task(pid).expect("a thread"));
    let writable = process.writable_memory().expect("memory");
    drop(running);
    let error = process.mappings().expect_err("it is gone");
    assert_eq!(
        (error.pid, error.kind, error.to_string()),
        (pid, Kind::Gone, format!("process {pid} has ended"))
    );
    for gone in [
        kind(Process::open(pid)),
        kind(process.mapped_file(&mapping.addresses)),
        kind(process.memory()),
        kind(process.writable_memory()),
        kind(memory.word(mapping.addresses.start)),
        kind(writable.set_word(mapping.addresses.start, 1)),
        kind(process.exe()),
        kind(process.program()),
        kind(process.comm()),
        kind(process.stat()),
        kind(process.status()),
        kind(process.cgroups()),
        kind(process.command_line()),
        kind(process.environment()),
        kind(process.auxiliary(6)),
        kind(process.namespace("net")),
        kind(process.descriptors()),
        kind(process.tasks()),
        kind(process.task(pid)),
        kind(task.comm()),
        kind(task.status()),
        kind(task.system_call()),
    ] {
        assert_eq!(gone, Kind::Gone);
    }
    let source: std::io::Error = error.into();
    assert!(source.raw_os_error().is_some(), "the error of the system call");
}

#[test]
fn a_program_that_is_started_inherits_none_of_what_is_open() {
    let own = Process::own().expect("this process");
    let _open = (own.task(own.pid()), own.memory(), own.namespace("net"));
    let running = sleeping("/bin/sleep");
    let links = fs::read_dir(format!("/proc/{}/fd", running.0.id())).expect("its descriptors").flatten();
    let links: Vec<_> = links.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
    let inherited = |link: &std::path::PathBuf| link.starts_with("/proc") || link.starts_with("net:");
    assert!(!links.is_empty() && !links.iter().any(inherited), "{links:?}");
}

#[test]
fn needs_root_a_number_that_is_used_again_is_another_process() {
    let running = sleeping("/bin/sleep");
    let (process, pid) = (open(&running), running.0.id());
    drop(running);
    let began = Instant::now();
    let again = loop {
        if fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).is_err() {
            eprintln!(
                "skipped: not root; it would have shown that a stranger is not taken for the process before"
            );
            return;
        }
        let running = Running(Command::new("sleep").arg("60").spawn().expect("sleep"));
        if running.0.id() == pid {
            break running;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "another process always comes first");
    };
    assert_eq!(open(&again).comm().map(|_| ()).ok(), Some(()));
    assert_eq!([kind(process.comm()), kind(process.mappings()), kind(process.memory())], [Kind::Gone; 3]);
}

#[test]
fn lacking_rights_are_no_end() {
    let running = sleeping("/bin/sleep");
    let process = open(&running);
    let kinds = std::thread::spawn(move || {
        // This thread alone is another user from here on.
        let nobody = rustix::fs::Uid::from_raw(65534);
        let _ = rustix::thread::set_thread_res_uid(nobody, nobody, nobody);
        let first = Process::open(1).expect("the first process");
        assert!(first.stat().is_ok() && !process.comm().expect("all may read it").is_empty());
        [
            kind(first.memory()),
            kind(first.mappings()),
            kind(first.exe()),
            kind(process.memory()),
            kind(process.environment()),
        ]
    });
    assert_eq!(kinds.join().expect("the thread"), [Kind::NoRights; 5]);
}
