//! Names with the script behind the interpreter: `python3 h.py`.

use std::collections::BTreeSet;

use wakepath_event::{Comm, Tid};
use wakepath_findings::Evidence;
use wakepath_loaded::{Script, ThreadInfo};
use wakepath_wait_graph::ThreadIndex;

use super::{comm, named};
use crate::escape::escape;

/// A thread's name and its script, as shown: `python3 h.py`; `mon.sh` where the name is the script's.
pub fn title(thread: &ThreadInfo) -> String {
    with_script(comm(thread.comm), thread.comm, thread.script)
}

/// A thread's title in a sentence. Its name may be unknown.
pub fn named_title(thread: &ThreadInfo) -> String {
    with_script(named(thread.comm), thread.comm, thread.script)
}

/// A name that processes share, with their script if all run the same.
pub(super) fn processes_title(evidence: &Evidence<'_>, name: Comm, processes: &BTreeSet<Tid>) -> String {
    let at = evidence.path.window.to;
    let leaders = processes.iter().filter_map(|process| evidence.recorded.leader(*process, at));
    with_script(comm(name), name, shared(leaders.map(|leader| evidence.thread(leader)), name))
}

/// A name that threads share in a sentence, with their script if all run the same.
pub(crate) fn threads_title(evidence: &Evidence<'_>, name: Comm, threads: &BTreeSet<ThreadIndex>) -> String {
    let threads = threads.iter().map(|thread| evidence.thread(*thread));
    with_script(named(name), name, shared(threads.filter(|thread| thread.comm == name), name))
}

/// The script, if all these threads run the same and have this name.
fn shared(threads: impl Iterator<Item = ThreadInfo>, name: Comm) -> Option<Script> {
    let mut scripts = threads.map(|thread| thread.script.filter(|_| thread.comm == name));
    let first = scripts.next()??;
    scripts.all(|other| other == Some(first)).then_some(first)
}

fn with_script(shown: String, name: Comm, script: Option<Script>) -> String {
    match script {
        None => shown,
        Some(script) if script.is_name(name) => escape(script.bytes()),
        Some(script) => format!("{shown} {}", escape(script.bytes())),
    }
}

#[cfg(test)]
mod tests {
    use wakepath_critical_path::{Cause, SegmentKind, Via};
    use wakepath_event::NameSpace;
    use wakepath_findings::testing::{FUTEX, Story, call};

    use super::*;
    use crate::sample::{Answered, command};
    use crate::screen::Layout;
    use crate::text::{Source, path};

    #[test]
    fn a_script_stands_behind_its_interpreter_and_is_not_doubled() {
        for (name, script, shown) in [
            ("python3", Some("h.py"), "python3 h.py"),
            ("python3", None, "python3"),
            ("mon.sh", Some("mon.sh"), "mon.sh"),
            ("a-very-long-nam", Some("a-very-long-name.sh"), "a-very-long-name.sh"),
            ("sh", Some("\u{1b}[2J.sh"), "sh \\x1b[2J.sh"),
        ] {
            let script = script.and_then(|script| Script::new(script.as_bytes()));
            let thread = ThreadInfo { comm: Comm::new(name.as_bytes()), script, ..ThreadInfo::default() };
            assert_eq!(title(&thread), shown);
        }
    }

    /// The first screen of `python3 own.py`, which ran for `own_ns`, and waited for processes (name, script, its own
    /// descendant or not) that ran for 50 ns each.
    fn screen(own_ns: u64, others: &[(&str, &str, bool)]) -> String {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"python3", 7);
        story.name(NameSpace::Script, 7, "own.py");
        story.then(own_ns, own, None, SegmentKind::Running, Cause::None);
        for (tid, (name, script, is_own)) in (20..).zip(others) {
            let thread = story.thread(tid, if *is_own { 7 } else { 1 }, name.as_bytes(), 7);
            story.name(NameSpace::Script, tid.into(), script);
            let wait = story.wait(50, own, None, call(FUTEX, 3), Via::Wakeup, thread);
            story.then(50, thread, Some(wait), SegmentKind::Running, Cause::None);
        }
        path(&story.finish().answer(command()), Source::Read(""), Layout::PLAIN).replace('\n', " ")
    }

    #[test]
    fn the_first_screen_shows_scripts_in_the_sentence_and_in_its_rows() {
        for (own_ns, others, sentence, row) in [
            (90, &[][..], "python3 own.py took 90 ns: mostly running (100%", "running python3 own.py"),
            (
                40,
                &[("sh", "a.sh", true)],
                "python3 own.py took 90 ns: mostly waiting for sh a.sh (20), which was running",
                "running python3 own.py",
            ),
            (
                40,
                &[("sh", "a.sh", true), ("sh", "a.sh", true)],
                "mostly waiting for sh a.sh (2 processes), which were running",
                "running sh a.sh (2 processes)",
            ),
            (
                40,
                &[("sh", "a.sh", true), ("sh", "b.sh", true)],
                "mostly waiting for sh (2 processes), which were running",
                "running sh (2 processes)",
            ),
            (40, &[("db", "db.rb", false)], "mostly waiting for db db.rb (20)", "waiting for db db.rb (20)"),
            (
                40,
                &[("db", "db.rb", false), ("db", "db.rb", false)],
                "mostly waiting for db db.rb (2 processes)",
                "waiting for db db.rb (2 processes)",
            ),
        ] {
            let screen = screen(own_ns, others);
            assert!(
                screen.contains(sentence) && screen.matches(row).count() >= 1,
                "{sentence}; {row}: {screen}"
            );
        }
    }

    #[test]
    fn threads_that_share_a_name_are_shown_with_a_script_that_all_of_them_run() {
        let thread = |name: &str, script: &str| ThreadInfo {
            comm: Comm::new(name.as_bytes()),
            script: Script::new(script.as_bytes()),
            ..ThreadInfo::default()
        };
        let shared = |threads: &[(&str, &str)]| {
            let threads = threads.iter().map(|(name, script)| thread(name, script));
            shared(threads, Comm::new(b"python3")).map(|script| escape(script.bytes()))
        };
        assert_eq!(shared(&[("python3", "h.py"), ("python3", "h.py")]).as_deref(), Some("h.py"));
        for others in [("python3", "db.py"), ("python3", ""), ("sh", "h.py")] {
            assert_eq!(shared(&[("python3", "h.py"), others]), None, "{others:?}");
        }
        assert_eq!(shared(&[]), None);
    }
}
