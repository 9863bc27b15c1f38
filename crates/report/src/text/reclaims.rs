//! Reclaims of memory over a path, as lines on the first screen.

use wakepath_engine::{PathAnswer, Reclaims};

use super::part;
use crate::screen::{Line, Screen};
use crate::units::{count, duration, was};
use crate::wording;

/// The lines about reclaims; none where no limit was reached.
pub fn reclaims(screen: &mut Screen, answer: &PathAnswer, column: usize) {
    if answer.reclaims.is_empty() {
        return;
    }
    screen.blank();
    let has_read = answer.reclaims.iter().any(|reclaims| reclaims.read_again_ns.is_some_and(|ns| ns > 0));
    let again = if has_read { ", or read dropped data again" } else { "" };
    let head = format!(" share     time  part of the same time in which its threads freed memory{again}");
    screen.unwrapped(Line::faint(head));
    for reclaims in &answer.reclaims {
        let line = Line::from(words(reclaims));
        screen.hanging(Line::strong(part(reclaims.limited_ns(), answer.window_ns())), column, line);
    }
}

/// `memory limit of shop.service (20 MB), 58 times, 1856 pages; meanwhile 15360 pages were read again that had been dropped`;
/// with the waits for them `memory limit of shop.service (20 MB): 40 ms to read dropped data again, 3.2 ms to free memory, 58
/// times, …`.
fn words(reclaims: &Reclaims) -> String {
    let limit = wording::memory_limit(reclaims);
    let (times, pages) = (count(reclaims.count, "time"), count(reclaims.pages, "page"));
    let parts = reclaims.read_again_ns.filter(|&ns| ns > 0).map_or(String::from(","), |ns| {
        let [again, freed] = [ns, reclaims.total_ns].map(duration);
        format!(": {again} to read dropped data again, {freed} to free memory,")
    });
    let again = reclaims.read_again.map_or(String::new(), |again| {
        format!("; meanwhile {} {} read again that had been dropped", count(again, "page"), was(again))
    });
    format!("{limit}{parts} {times}, {pages}{again}  inferred")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use wakepath_critical_path::{Cause, SegmentKind};
    use wakepath_event::{CgroupId, MemoryLimit};
    use wakepath_findings::testing::Story;
    use wakepath_loaded::Unit;

    use super::*;
    use crate::sample::{Answered, command};
    use crate::screen::Layout;
    use crate::text::{Source, path};

    #[test]
    fn reclaims_stand_under_the_rows_whose_time_they_are_a_part_of() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        story.then(100_000_000, own, None, SegmentKind::Running, Cause::None);
        let limit = MemoryLimit { cgroup: CgroupId(5), bytes: 19_998_720, is_high: false };
        let whole = Reclaims {
            limit: Some(limit),
            unit: Some(Unit::Systemd("shop.service".into())),
            total_ns: 43_200_000,
            count: 58,
            pages: 1856,
            read_again: Some(15_360),
            read_again_ns: Some(0),
        };
        let high = Reclaims {
            limit: Some(MemoryLimit { is_high: true, ..limit }),
            unit: None,
            total_ns: 1_000_000,
            count: 1,
            pages: 1,
            read_again: Some(1),
            read_again_ns: None,
        };
        let unknown = Reclaims { limit: None, read_again: None, ..high.clone() };
        let again = Reclaims { read_again_ns: Some(400_000), ..high.clone() };
        let story = story.finish();
        let mut answer = story.answer(command());
        let mut lines = |reclaims| {
            answer.reclaims = reclaims;
            let text = path(&answer, Source::Read(""), Layout::PLAIN);
            let lines = text.lines().skip_while(|line| !line.contains("freed memory"));
            lines.take_while(|line| !line.is_empty()).map(|line| format!("|{line}\n")).collect::<String>()
        };
        expect![[r#"
            | share     time  part of the same time in which its threads freed memory
            | 43.2%  43.2 ms  memory limit of shop.service (20 MB), 58 times, 1856 pages; meanwhile 15360 pages
            |                 were read again that had been dropped  inferred
            |  1.0%  1.00 ms  memory.high of a cgroup (20 MB), 1 time, 1 page; meanwhile 1 page was read again
            |                 that had been dropped  inferred
            |  1.0%  1.00 ms  a memory limit that was not found, 1 time, 1 page  inferred
        "#]].assert_eq(&lines(vec![whole, high, unknown]));
        expect![[r#"
            | share     time  part of the same time in which its threads freed memory, or read dropped data again
            |  1.4%  1.40 ms  memory.high of a cgroup (20 MB): 400 µs to read dropped data again, 1.00 ms to free
            |                 memory, 1 time, 1 page; meanwhile 1 page was read again that had been dropped
            |                 inferred
        "#]]
        .assert_eq(&lines(vec![again]));
    }
}
