//! Cause trees as text: for a path, and for many calls.

use wakepath_critical_path::{Responsible, SegmentKind};
use wakepath_engine::{CallsAnswer, CallsOf, PathAnswer};
use wakepath_findings::{Activity, Blamed, CauseTree, Evidence, Leaf, Node, PerGroup, Sum, ThreadKey};

use super::calls::{each, headline, trust};
use super::{part, when};
use crate::screen::{Layout, Line, Screen, Style};
use crate::units::duration;
use crate::wording;

/// Parts below this share of the window are not drawn; nor parts of calls below this share of the selected calls'
/// time and at most [`MIN_USUAL_SHARE`] of the usual calls'.
const MIN_SHARE: f64 = 0.0005;
const MIN_USUAL_SHARE: f64 = 0.01;

/// The number of named CPU competitors under a node. A busy machine has dozens, each briefly, and they hide what
/// else the thread waited for.
const MAX_COMPETITORS: usize = 2;

/// A path's cause tree, with shares of the window.
pub fn tree(answer: &PathAnswer, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let window = answer.path.window;
    screen.wrapped(0, Line::faint(when(&answer.head, window.from, window.to)));
    screen.blank();
    screen.unwrapped(Line::faint(" share     time  who waited for whom"));
    let evidence = answer.evidence();
    let columns = Columns::Share(answer.window_ns());
    draw(&Drawing { evidence, tree: &answer.tree(), columns }, &mut screen);
    screen.into_text()
}

/// The selected calls' cause tree, per call, compared with the usual calls.
pub fn merged(answer: &CallsAnswer, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    headline(answer, &mut screen);
    let tree = answer.tree();
    let number = match answer.of {
        CallsOf::Function => "calls",
        CallsOf::Operation => "count",
        CallsOf::Waits => "waits",
    };
    let each = each(answer.of);
    let (columns, head) = if answer.usual.is_some() {
        let head = format!("{each}    usual  {number}  who waited for whom, largest difference first");
        (Columns::BesideUsual, head)
    } else {
        (Columns::PerCall, format!("{each}  {number}  who waited for whom"))
    };
    screen.unwrapped(Line::faint(head));
    if let Some(evidence) = answer.asked.paths.first().map(PathAnswer::evidence) {
        draw(&Drawing { evidence, tree: &tree, columns }, &mut screen);
    }
    trust(answer, &mut screen);
    screen.into_text()
}

/// The figures before a branch.
#[derive(Clone, Copy, PartialEq)]
enum Columns {
    /// A window's length in ns, for the share, and the time.
    Share(u64),
    /// The time per call, and the number of calls.
    PerCall,
    /// The time per call, the same for the usual calls, and the number of calls.
    BesideUsual,
}

struct Drawing<'a> {
    /// The path, or any call: it gives names.
    evidence: Evidence<'a>,
    tree: &'a CauseTree,
    columns: Columns,
}

#[derive(Clone)]
enum Item<'a> {
    Node(&'a Node),
    Leaf(&'a Leaf),
    /// Several counted parts, with their sum.
    Counted(Line, Sum),
}

impl Item<'_> {
    const fn total(&self) -> Sum {
        match self {
            Self::Node(node) => node.total,
            Self::Leaf(leaf) => leaf.total,
            Self::Counted(_, total) => *total,
        }
    }
}

fn draw(drawing: &Drawing<'_>, screen: &mut Screen) {
    // (item, the rails of the branches around it, whether it is the last in its branch)
    let mut stack = vec![(Item::Node(&drawing.tree.nodes[0]), String::new(), true)];
    let mut first = true;
    while let Some((item, rails, last)) = stack.pop() {
        let figures = drawing.figures(&item);
        let (branch, below_rails) = match (first, last) {
            (true, _) => ("", String::new()),
            (false, true) => ("└─ ", format!("{rails}   ")),
            (false, false) => ("├─ ", format!("{rails}│  ")),
        };
        let margin = format!("{:width$}{below_rails}", "", width = figures.chars().count());
        let mut head = Line::strong(figures);
        head.push(Style::Faint, format!("{rails}{branch}"));
        screen.beside(head, &margin, drawing.words(&item));
        let below = drawing.below(&item);
        let all = below.len();
        let below = below.into_iter().enumerate().rev();
        stack.extend(below.map(|(i, item)| (item, below_rails.clone(), i + 1 == all)));
        first = false;
    }
}

impl<'a> Drawing<'a> {
    /// A node's children, largest difference first; small children come last, put together.
    fn below(&self, item: &Item<'a>) -> Vec<Item<'a>> {
        let Item::Node(Node { leaves, children, .. }) = item else { return Vec::new() };
        let is_competitor = |leaf: &&Leaf| {
            let Activity { kind, blamed } = &leaf.activity;
            *kind == SegmentKind::Runnable
                && matches!(blamed, Blamed::Threads(_) | Blamed::Cause(Responsible::Competitor(_)))
        };
        let (competitors, others): (Vec<_>, Vec<_>) = leaves.iter().partition(is_competitor);
        let (named, rest) = competitors.split_at(MAX_COMPETITORS.min(competitors.len()));
        let mut items: Vec<_> = children.iter().map(|&child| Item::Node(&self.tree.nodes[child])).collect();
        items.extend(others.iter().chain(named).map(|&leaf| Item::Leaf(leaf)));
        match rest {
            [] => {}
            [one] => items.push(Item::Leaf(one)),
            rest => {
                let words = format!("waiting for a CPU that {} other threads had", rest.len());
                items.push(Item::Counted(Line::from(words), sum(rest.iter().map(|leaf| leaf.total))));
            }
        }
        let difference = |item: &Item<'_>| item.total().mean(self.tree.calls).difference();
        items.sort_by(|a, b| difference(b).total_cmp(&difference(a)));
        let small: Vec<_> = items.iter().map(Item::total).filter(|total| !self.is_shown(*total)).collect();
        // A single small part is drawn instead of counted.
        if small.len() > 1 {
            items.retain(|item| self.is_shown(item.total()));
            let words = Line::faint(format!("{} smaller parts", small.len()));
            items.push(Item::Counted(words, sum(small.into_iter())));
        }
        items
    }

    fn is_shown(&self, total: Sum) -> bool {
        if let Columns::Share(window_ns) = self.columns {
            return total.ns.asked >= (window_ns as f64 * MIN_SHARE) as u64 && total.ns.asked > 0;
        }
        let mean = total.mean(self.tree.calls);
        let all = self.tree.nodes[0].total.mean(self.tree.calls);
        mean.asked >= all.asked * MIN_SHARE || mean.usual > all.usual * MIN_USUAL_SHARE
    }

    fn figures(&self, item: &Item<'_>) -> String {
        let total = item.total();
        let PerGroup { asked, usual } = total.mean(self.tree.calls);
        let calls = match item {
            Item::Node(_) | Item::Leaf(_) => total.calls.asked.to_string(),
            // It is not known how many calls have any of the parts.
            Item::Counted(..) => String::new(),
        };
        let asked = duration(asked as u64);
        match self.columns {
            Columns::Share(window_ns) => part(total.ns.asked, window_ns),
            Columns::PerCall => format!("{asked:>7}  {calls:>5}  "),
            Columns::BesideUsual => format!("{asked:>7}  {:>7}  {calls:>5}  ", duration(usual as u64)),
        }
    }

    fn words(&self, item: &Item<'_>) -> Line {
        match item {
            Item::Node(node) => self.node(node),
            Item::Leaf(leaf) => Line::from(self.leaf(leaf)),
            Item::Counted(words, _) => words.clone(),
        }
    }

    fn leaf(&self, leaf: &Leaf) -> String {
        let mut text = wording::leaf(&self.evidence, leaf);
        // A path's first screen has the samples.
        let code = &leaf.code;
        let ran = wording::samples(&code.ran).filter(|_| !matches!(self.columns, Columns::Share(_)));
        for code in ran.into_iter().chain(wording::tally(&code.waited, "segments")) {
            text += &format!(": {code}");
        }
        text
    }

    fn node(&self, node: &Node) -> Line {
        let mut line = Line::new();
        let is_root = node.parent.is_none();
        if !is_root {
            let call =
                node.call.as_ref().map_or(String::new(), |call| format!("in {} ", wording::call(call)));
            line.push(Style::Normal, format!("{call}for "));
        }
        match &node.thread {
            None if is_root => line.push(Style::Normal, "the call"),
            thread => line.push(Style::Strong, wording::node_thread(&self.evidence, thread.as_ref())),
        }
        let one = match node.thread {
            Some(ThreadKey::One(thread)) => Some(self.evidence.thread(thread)),
            _ => None,
        };
        if let Some(unit) = one.and_then(|thread| self.evidence.recorded.survey.names.unit(&thread)) {
            line.push(Style::Faint, format!(" in {}", wording::unit(&unit)));
        }
        if is_root {
            return line;
        }
        let is_counted = one.is_some() || matches!(self.columns, Columns::Share(_));
        let times = match node.waits {
            times if is_counted && times != 1 => format!(", {times} times"),
            _ => String::new(),
        };
        let via = node.via.and_then(wording::via_word).unwrap_or("");
        line.push(Style::Faint, format!("  [{via}{times}]"));
        let ended = wording::tally(&node.ended, "wake-ups").map(|ended| format!("ended: {ended}"));
        let code: Vec<String> = wording::tally(&node.began, "waits").into_iter().chain(ended).collect();
        if !code.is_empty() {
            line.push(Style::Normal, format!("  {}", code.join("; ")));
        }
        line
    }
}

/// Adds up several parts, which may belong to the same calls.
fn sum(parts: impl Iterator<Item = Sum>) -> Sum {
    parts.fold(Sum::default(), |mut all, Sum { ns, .. }| {
        all.ns = PerGroup { asked: all.ns.asked + ns.asked, usual: all.ns.usual + ns.usual };
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Answered, calls_of, calls_of_a_chain, command};
    use expect_test::expect;
    use wakepath_critical_path::{Cause, SegmentKind};
    use wakepath_findings::testing::{Story, checkout, checkout_stacks};

    #[test]
    fn the_tree_says_who_waited_for_whom() {
        expect![[r#"
            2026-11-21 02:58:41.310 to 02:58:42.502 UTC on web3

             share     time  who waited for whom
              100%   1.19 s  checkout (4711) in shop.service
             61.1%   728 ms  ├─ in fdatasync of orders.db for kernel thread jbd2/sda1-8  [wakeup, 14 times]
             57.5%   686 ms  │  ├─ waiting for disk sda
              2.3%  28.0 ms  │  ├─ waiting in the queue of disk sda
              1.2%  14.0 ms  │  └─ running
             20.1%   240 ms  ├─ running
             10.9%   130 ms  ├─ not allowed to run: CPU limit of shop.service (50.0 ms per 100 ms)
              7.4%  88.0 ms  ├─ in read on tcp 10.0.0.3:5432 for postgres (912) in postgresql.service  [packet]
              5.1%  61.0 ms  │  ├─ waiting for disk sda, in fdatasync of pg_wal
              2.3%  27.0 ms  │  └─ running
              0.3%  4.00 ms  ├─ unknown: the wait began before the recording, in read
              0.2%  2.00 ms  ├─ waiting for a CPU that stress (555) had
             <0.1%   100 µs  └─ could run while its CPU was idle
        "#]]
        .assert_eq(&tree(&checkout().answer(command()), Layout::PLAIN));
    }

    #[test]
    fn the_tree_says_where_a_wait_began_and_where_it_was_ended() {
        let mut story = checkout();
        story.stacks = checkout_stacks(&story.path);
        let text = tree(&story.answer(command()), Layout::PLAIN);
        let from = text.find("├─ in fdatasync").expect("the wait");
        expect![[r#"
            ├─ in fdatasync of orders.db for kernel thread jbd2/sda1-8  [wakeup, 14 times]  13
                             │  of 14 waits in save_order (checkout), from main checkout.c:88; ended: 14 of 14
                             │  wake-ups in jbd2_journal_commit_transaction (kernel)
             57.5%   686 ms  │  ├─ waiting for disk sda
              2.3%  28.0 ms  │  ├─ waiting in the queue of disk sda
              1.2%  14.0 ms  │  └─ running
             20.1%   240 ms  ├─ running
             10.9%   130 ms  ├─ not allowed to run: CPU limit of shop.service (50.0 ms per 100 ms)
              7.4%  88.0 ms  ├─ in read on tcp 10.0.0.3:5432 for postgres (912) in postgresql.service  [packet]
                             │  1 of 1 waits in ask_bank (checkout), from main checkout.c:88
              5.1%  61.0 ms  │  ├─ waiting for disk sda, in fdatasync of pg_wal: 1 of 1 segments in postgres
                             │  │  (replaced since the recording), callers unknown (not unwound)
              2.3%  27.0 ms  │  └─ running
              0.3%  4.00 ms  ├─ unknown: the wait began before the recording, in read: 1 of 1 segments in
                             │  postgres (replaced since the recording), callers unknown (not unwound)
              0.2%  2.00 ms  ├─ waiting for a CPU that stress (555) had
             <0.1%   100 µs  └─ could run while its CPU was idle
        "#]]
        .assert_eq(&text[from..]);
    }

    #[test]
    fn the_first_of_many_cpu_competitors_are_named_and_the_rest_counted() {
        let mut story = Story::default();
        let subject = story.thread(7, 1, b"make", 0);
        let compilers: Vec<_> = (0..9).map(|i| story.thread(100 + i, 1, b"cc1", 0)).collect();
        story.then(100, subject, None, SegmentKind::Running, Cause::None);
        for (i, &other) in compilers.iter().enumerate() {
            story.then(i as u64 + 1, subject, None, SegmentKind::Runnable, Cause::Competitor(other));
        }
        story.then(5, subject, None, SegmentKind::Runnable, Cause::IdleCpu);
        expect![[r#"
            2026-11-21 02:58:41.310000000 to 02:58:41.310000150 UTC on web3

             share     time  who waited for whom
              100%   150 ns  make (7)
             66.7%   100 ns  ├─ running
             18.7%    28 ns  ├─ waiting for a CPU that 7 other threads had
              6.0%     9 ns  ├─ waiting for a CPU that cc1 (108) had
              5.3%     8 ns  ├─ waiting for a CPU that cc1 (107) had
              3.3%     5 ns  └─ could run while its CPU was idle
        "#]]
        .assert_eq(&tree(&story.finish().answer(command()), Layout::PLAIN));
    }

    #[test]
    fn small_parts_are_counted_and_one_alone_is_drawn() {
        let causes = [(SegmentKind::Runnable, Cause::IdleCpu), (SegmentKind::Unknown, Cause::Lost)];
        for (small, expected) in [(1, "could run while its CPU was idle"), (2, "2 smaller parts")] {
            let mut story = Story::default();
            let subject = story.thread(7, 1, b"make", 0);
            story.then(1_000_000, subject, None, SegmentKind::Running, Cause::None);
            for (kind, cause) in causes.clone().into_iter().take(small) {
                story.then(1, subject, None, kind, cause);
            }
            let text = tree(&story.finish().answer(command()), Layout::PLAIN);
            assert!(text.ends_with(&format!("└─ {expected}\n")), "{text}");
        }
    }

    #[test]
    fn the_merged_tree_says_who_waited_for_whom_a_call_beside_the_usual_ones() {
        calls_of(|answer| {
            expect![[r#"
                20 calls of peak 2 of ./app:handle took 100 µs on average, calls of peak 1 take 200 ns: mostly
                waiting for a lock that holder held, which spent that time running (100% of the difference, the
                largest cause in 20 of 20 calls)
                1 call was left without a return: not counted here
                1 call had not ended: not counted here

                 a call    usual  calls  who waited for whom, largest difference first
                 100 µs   200 ns     20  the call
                99.9 µs     0 ns     20  ├─ in futex for holder  [lock]
                99.9 µs     0 ns     20  │  └─ running
                 200 ns   200 ns     20  └─ running

                lost 0 records
            "#]]
            .assert_eq(&merged(answer, Layout::PLAIN));
        });
    }

    #[test]
    fn branches_say_in_which_function_threads_ran_and_waited() {
        calls_of_a_chain(1, |answer| {
            expect![[r#"
                20 calls of peak 2 of ./app:handle took 100 µs on average, calls of peak 1 take 200 ns: mostly
                waiting for backend (20), which spent that time waiting for disk sda, in fdatasync of log.0 and
                running (100% of the difference, the largest cause in 20 of 20 calls)

                 a call    usual  calls  who waited for whom, largest difference first
                 100 µs   200 ns     20  the call
                99.9 µs     0 ns     20  ├─ in futex for backend  [wakeup]
                60.0 µs     0 ns     20  │  ├─ waiting for disk sda, in fdatasync of log.0: 20 of 20 segments in
                                         │  │  backend (cannot be read here)
                39.9 µs     0 ns     20  │  └─ running: ~ 20 of 20 samples in backend (cannot be read here)
                 200 ns   200 ns     20  └─ running

                lost 0 records
                ~ from samples; all other times are measured at each task switch
            "#]].assert_eq(&merged(answer, Layout::PLAIN));
        });
    }
}
