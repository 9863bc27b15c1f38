//! A process that hangs is recorded while it hangs: its wait began before the recording.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wakepath_harness::live::{place, record, wakepath};

const DEADLOCK: &str = r#"
    #include <pthread.h>
    #include <unistd.h>
    static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
    static pthread_barrier_t both;
    static void *peer(void *unused)
    {
        pthread_mutex_lock(&b);
        pthread_barrier_wait(&both);
        pthread_mutex_lock(&a);
        return unused;
    }
    int main(void)
    {
        pthread_t thread;
        pthread_barrier_init(&both, 0, 2);
        pthread_create(&thread, 0, peer, 0);
        pthread_mutex_lock(&a);
        pthread_barrier_wait(&both);
        pthread_mutex_lock(&b);
    }
"#;

/// A process that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Waits until all its `threads` sleep.
    fn until_asleep(&self, threads: usize) {
        let folder = format!("/proc/{}/task", self.0.id());
        let asleep = || {
            let threads = std::fs::read_dir(&folder).expect("its threads");
            let stats = threads.filter_map(|it| std::fs::read_to_string(it.ok()?.path().join("stat")).ok());
            stats.filter(|stat| stat.contains(") S ")).count()
        };
        let began = Instant::now();
        while asleep() < threads {
            assert!(began.elapsed() < Duration::from_secs(20), "it does not hang");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The answer of `wakepath record -p` about it.
    fn asked(&self, folder: &Path) -> String {
        let pid = self.0.id().to_string();
        let output = record(folder, &["-p", &pid, "-d", "300ms"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // Lines are broken where the width ends.
        String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn a_deadlock_from_before_the_recording_is_a_cycle() {
    let Some(folder) = place("a process that hangs already is told why") else { return };
    let (source, program) = (folder.path().join("deadlock.c"), folder.path().join("deadlock"));
    std::fs::write(&source, DEADLOCK).unwrap();
    let made = Command::new("cc").arg("-pthread").arg("-o").arg(&program).arg(&source).status();
    assert!(made.expect("cc").success());
    let hanging = Running(Command::new(&program).spawn().expect("it starts"));
    hanging.until_asleep(2);
    let said = hanging.asked(folder.path());
    assert!(said.contains("deadlock: each thread waits for a lock that the next one owns"), "{said}");
    assert_eq!(said.matches("that deadlock (").count(), 2, "{said}");
}

#[test]
fn a_read_from_before_the_recording_names_its_file() {
    let Some(folder) = place("a process that waits for a pipe already is told which") else { return };
    let mut command = Command::new("cat");
    let mut waiting = Running(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat"));
    // Once through, so that it waits in the call that is asked about.
    waiting.0.stdin.as_mut().expect("a pipe").write_all(b"x").unwrap();
    waiting.until_asleep(1);
    let pid = waiting.0.id().to_string();
    waiting.asked(folder.path());
    let output = wakepath(folder.path(), &["path", "--tid", &pid]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("read on a pipe"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
