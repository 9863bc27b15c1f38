//! Whether a process belongs to a service, by the pid in the service's spans.
//!
//! The pid is a number in the process's own PID namespace, and names the process that set tracing up: workers forked by it
//! may send their spans under the same pid.

/// Process 1 of a PID namespace: a container's first program, or the ancestor of all processes.
const INIT: u32 = 1;

/// Whether a process has this pid or descends from the process that has it. `line` has the pids of the process and its
/// ancestors.
pub fn descends_from(line: &[u32], pid: u32) -> bool {
    line.first() == Some(&pid) || (pid != INIT && line.contains(&pid))
}

/// The processes that may belong to a service, among those whose contexts name its spans, each with its line: the processes
/// that fit the pid. If none fits, the pid comes from another PID namespace, and no process is ruled out.
pub fn service_processes<P>(pid: u32, said: Vec<(P, Vec<u32>)>) -> Vec<P> {
    let fits = said.iter().any(|(_, line)| descends_from(line, pid));
    let all = said.into_iter().filter(|(_, line)| !fits || descends_from(line, pid));
    all.map(|(process, _)| process).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_service_are_the_one_that_its_spans_name_and_those_that_descend_from_it() {
        // A letter for each process, and its line.
        let all = || {
            vec![('a', vec![70, 40, 1]), ('b', vec![71, 70, 40, 1]), ('c', vec![80, 40, 1]), ('d', vec![90])]
        };
        for (pid, expected) in [
            (70, "ab"),
            (71, "b"),
            (80, "c"),
            (90, "d"),
            (40, "abc"),
            // A container's first process, and a process in a container whose pid does not exist outside.
            (1, "abcd"),
            (7, "abcd"),
        ] {
            assert_eq!(service_processes(pid, all()).into_iter().collect::<String>(), expected, "{pid}");
        }
        assert!(service_processes::<char>(7, Vec::new()).is_empty());
        assert!(descends_from(&[1], 1) && !descends_from(&[70, 1], 1) && !descends_from(&[], 7));
    }
}
