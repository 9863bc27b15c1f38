//! Whether a process is one of a service, by the number that the service's spans have for their process.
//!
//! The number is that of the process's own PID namespace, and that of the process that set tracing up: workers that it forked
//! may send their spans under it.

/// The process with number 1 of a PID namespace: in a container that of its first program, elsewhere of all processes.
const INIT: u32 = 1;

/// Whether a process may be the one with this number: it is, or it descends from it. `line` has the number of the process and
/// those that it descends from.
pub fn descends_from(line: &[u32], pid: u32) -> bool {
    line.first() == Some(&pid) || (pid != INIT && line.contains(&pid))
}

/// The processes that may be those of a service, of those whose threads say that they work for its spans, each with its line:
/// those that the number fits. Where it fits none, it is a number of another PID namespace, and no process is ruled out.
pub fn of_service<P>(pid: u32, said: Vec<(P, Vec<u32>)>) -> Vec<P> {
    let fits = said.iter().any(|(_, line)| descends_from(line, pid));
    let all = said.into_iter().filter(|(_, line)| !fits || descends_from(line, pid));
    all.map(|(process, _)| process).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_service_are_the_one_that_its_spans_name_and_those_that_descend_from_it() {
        // A number for each process, and its line.
        let all = || {
            vec![('a', vec![70, 40, 1]), ('b', vec![71, 70, 40, 1]), ('c', vec![80, 40, 1]), ('d', vec![90])]
        };
        for (pid, expected) in [
            (70, "ab"),
            (71, "b"),
            (80, "c"),
            (90, "d"),
            (40, "abc"),
            // The first process of a container, and one of a container that has no such number outside.
            (1, "abcd"),
            (7, "abcd"),
        ] {
            assert_eq!(of_service(pid, all()).into_iter().collect::<String>(), expected, "{pid}");
        }
        assert!(of_service::<char>(7, Vec::new()).is_empty());
        assert!(descends_from(&[1], 1) && !descends_from(&[70, 1], 1) && !descends_from(&[], 7));
    }
}
