//! The words for a chain of threads waiting for each other.

use wakepath_findings::{Chain, Evidence};

use super::{list, who};

/// A chain's threads: `mon.sh (5370)`, `another of its threads and postgres (2801)`,
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

#[cfg(test)]
mod tests {
    use wakepath_critical_path::{Cause, SegmentKind, Via};
    use wakepath_event::NameSpace;
    use wakepath_findings::testing::{FUTEX, Story, call};

    use crate::sample::{Answered, command};
    use crate::text::headline;

    /// The first sentence's end, where `app` waited for threads (name, tid, process), each for the next, until
    /// the last thread's sleep ended.
    fn end(others: &[(&str, u32, u32)]) -> String {
        let mut story = Story::default();
        let app = story.thread(7, 1, b"app", 7);
        story.name(NameSpace::Script, 8, "mon.sh");
        let (mut waiter, mut parent) = (app, None);
        for &(name, tid, tgid) in others {
            let thread = story.thread_of(tgid, tid, 7, name.as_bytes(), 7);
            parent = Some(story.wait(10, waiter, parent, call(FUTEX, 3), Via::Wakeup, thread));
            waiter = thread;
        }
        story.then(10, waiter, parent, SegmentKind::Timer, Cause::None);
        let text = headline(&story.finish().answer(command())).into_plain();
        text.split_once("measured)").expect("a sentence").1.to_owned()
    }

    #[test]
    fn the_sentence_ends_with_the_way_to_the_thread_that_it_names() {
        let sleep = ("sleep", 90, 90);
        let all = [("a", 20, 20), ("b", 21, 21), ("c", 22, 22), ("d", 23, 23), ("e", 24, 24), sleep];
        for (others, words) in [
            (&[sleep][..], ""),
            (&[("sh", 8, 8), sleep], ", through sh mon.sh (8)"),
            (&[("mon.sh", 8, 8), sleep], ", through mon.sh (8)"),
            (&[("pool", 9, 7), sleep], ", through another of its threads"),
            (&[("pool", 9, 7), ("app", 10, 7), sleep], ", through another of its threads"),
            (&[("app", 9, 9), sleep], ", through app (9)"),
            (&[("pool", 9, 7), ("db", 20, 20), sleep], ", through another of its threads and db (20)"),
            (&all[2..], ", through c (22), d (23) and e (24)"),
            (&all, ", through a (20), d (23), e (24) and 2 more"),
        ] {
            assert_eq!(end(others), words, "{others:?}");
        }
    }
}
