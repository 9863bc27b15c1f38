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
    use super::*;

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
