//! The words for a chain of threads that waited for each other.

use wakepath_findings::{Chain, Evidence};

use super::{list, who};

/// The threads of a chain: `mon.sh (5370)`, `another of its threads and postgres (2801)`,
/// `make (7), sh (8), cc (9) and 2 more`.
pub fn chain(evidence: &Evidence<'_>, Chain { links, more }: &Chain) -> String {
    let asked = evidence.subject().tgid;
    let name = |thread| match evidence.thread(thread) {
        thread if thread.tgid.is_some() && thread.tgid == asked => String::from("another of its threads"),
        thread => who(evidence.recorded, &thread),
    };
    let mut names: Vec<String> = links.iter().map(|link| name(*link)).collect();
    names.dedup();
    match more {
        0 => list(&names, names.len()),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
