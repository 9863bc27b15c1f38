//! The functions in which pools' threads wait for their next job, as programs' stacks show them.
//!
//! A thread that runs tasks for its own scheduler (Go, tokio) is not among them: it parks while all tasks are
//! blocked, and then the program waits for whatever blocks them.

use wakepath_symbols::Found;

use crate::Frame;
use crate::code::module;

/// A wait of a pool's thread without a job.
struct IdleWait {
    /// Prefixes of the names of files with these functions; empty for any file.
    files: &'static [&'static str],
    /// Functions that wait for anything, innermost first; `takes_jobs` calls the last.
    inside: &'static [&'static str],
    /// The caller, which then waits for the next job alone.
    takes_jobs: &'static str,
}

/// libuv's `worker` takes jobs off its pool's queue (`src/threadpool.c`); Node's platform does so for V8's tasks
/// (`src/node_platform.cc`). Rayon's workers wait for jobs in `wait_until_out_of_work`; the same loop below a
/// `join` waits for a result (`rayon-core/src/registry.rs`).
const IDLE_WAITS: [IdleWait; 3] = [
    IdleWait { files: &["libuv.so", "node"], inside: &["uv_cond_wait"], takes_jobs: "worker" },
    IdleWait {
        files: &["libnode.so", "node"],
        inside: &["uv_cond_wait", "node::TaskQueue<v8::Task>::BlockingPop"],
        takes_jobs: "node::(anonymous namespace)::PlatformWorkerThread",
    },
    IdleWait {
        files: &[],
        inside: &[
            "std::",
            "<std::",
            "rayon_core::sleep::Sleep::",
            "rayon_core::registry::WorkerThread::wait_until_cold",
        ],
        takes_jobs: "rayon_core::registry::WorkerThread::wait_until_out_of_work",
    },
];

/// Whether a waiting thread with this stack, innermost frame first, belongs to a pool and waits for its next job.
pub fn waits_for_job(frames: &[Frame]) -> bool {
    let program = frames.iter().filter(|frame| !frame.in_kernel).map(|frame| &frame.found);
    let own: Vec<&Found> = program.skip_while(|found| crate::stacks::is_c_library(found)).collect();
    IDLE_WAITS.iter().any(|pool| {
        let count =
            own.iter().take_while(|found| pool.inside.iter().any(|name| is_named(found, name))).count();
        let takes_jobs = own.get(count).filter(|_| count > 0);
        takes_jobs.is_some_and(|found| is_named(found, pool.takes_jobs))
            && own[..=count].iter().all(|found| pool.is_in_files(found))
    })
}

impl IdleWait {
    fn is_in_files(&self, found: &Found) -> bool {
        let is_in = |file: &&str| module(found).is_some_and(|name| name.starts_with(file.as_bytes()));
        self.files.is_empty() || self.files.iter().any(is_in)
    }
}

/// Whether a function has this name, with any parameters; a name with `::` at its end stands for all its contents.
fn is_named(found: &Found, name: &str) -> bool {
    let Found::Function(function) = found else { return false };
    let rest = function.name.strip_prefix(name);
    rest.is_some_and(|rest| name.ends_with("::") || rest.is_empty() || rest.starts_with('('))
}

#[cfg(test)]
mod tests {
    use wakepath_symbols::Function;

    use super::*;

    /// A stack as `FILE FUNCTION`, innermost first.
    fn stack(frames: &[&str]) -> Vec<Frame> {
        let frame = |text: &&str| {
            let (file, name) = text.split_once(' ').expect("a file and a function");
            let module = Some(file.as_bytes().to_vec());
            let found = match name {
                "?" => Found::Unnamed(file.as_bytes().to_vec()),
                name => Found::Function(Function { name: name.to_owned(), module, line: None }),
            };
            Frame { found, in_kernel: file == "kernel", proved: true }
        };
        frames.iter().map(frame).collect()
    }

    #[test]
    fn a_pools_thread_is_idle_only_where_it_takes_jobs() {
        const NODE: &str = "node node::(anonymous namespace)::PlatformWorkerThread(void*)";
        const COLD: &str = "app rayon_core::registry::WorkerThread::wait_until_cold";
        const OUT_OF_WORK: &str = "app rayon_core::registry::WorkerThread::wait_until_out_of_work";
        const SLEEP: &str = "app rayon_core::sleep::Sleep::sleep";
        const FUTEX: &str = "app std::sys::pal::unix::futex::futex_wait";
        for (what, frames, idle) in [
            (
                "libuv",
                &["libc.so.6 pthread_cond_wait", "node uv_cond_wait", "node worker", "libc.so.6 ?"][..],
                true,
            ),
            (
                "a library of its own",
                &["libc.so.6 ?", "libuv.so.1.0.0 uv_cond_wait", "libuv.so.1.0.0 worker"],
                true,
            ),
            (
                "behind the kernel's frames",
                &["kernel futex_wait", "libc.so.6 ?", "node uv_cond_wait", "node worker"],
                true,
            ),
            ("another program's worker", &["libc.so.6 ?", "libuv.so.1 uv_cond_wait", "app worker"], false),
            ("another program", &["libc.so.6 ?", "app uv_cond_wait", "app worker"], false),
            (
                "another caller",
                &["libc.so.6 ?", "node uv_cond_wait", "node uv_barrier_wait", "node worker"],
                false,
            ),
            ("a job of the pool", &["libc.so.6 ?", "node uv_mutex_lock", "node job", "node worker"], false),
            ("no wait", &["node worker"], false),
            ("a job that waits", &["libc.so.6 ?", "node uv_cond_wait", "node ?", "node worker"], false),
            ("the caller is not known", &["libc.so.6 ?", "node uv_cond_wait"], false),
            ("nothing is known", &["libc.so.6 ?"], false),
            ("Node's platform", &["libc.so.6 ?", "node uv_cond_wait", NODE], true),
            (
                "the same, not inlined",
                &["libc.so.6 ?", "node uv_cond_wait", "node node::TaskQueue<v8::Task>::BlockingPop()", NODE],
                true,
            ),
            ("its task", &["libc.so.6 ?", "node uv_cond_wait", "node v8::Task::Run()", NODE], false),
            (
                "rayon",
                &[
                    "libc.so.6 syscall",
                    FUTEX,
                    SLEEP,
                    COLD,
                    OUT_OF_WORK,
                    "app rayon_core::registry::ThreadBuilder::run",
                ],
                true,
            ),
            (
                "a join in rayon",
                &["libc.so.6 syscall", FUTEX, SLEEP, COLD, "app rayon_core::join::join_context"],
                false,
            ),
            (
                "a lock in a job of rayon",
                &["libc.so.6 syscall", FUTEX, "app app::job", COLD, OUT_OF_WORK],
                false,
            ),
            (
                "Go",
                &[
                    "app runtime.futex",
                    "app runtime.notesleep",
                    "app runtime.stopm",
                    "app runtime.findRunnable",
                ],
                false,
            ),
            (
                "a name that begins like it",
                &["libc.so.6 ?", "node uv_cond_wait", "node worker_of_mine"],
                false,
            ),
        ] {
            assert_eq!(waits_for_job(&stack(frames)), idle, "{what}");
        }
    }
}
