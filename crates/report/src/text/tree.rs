//! The cause tree as text.

use wakepath_engine::PathAnswer;

use super::when;
use crate::cause_tree::{CauseTree, Node, cause_tree};
use crate::places::sites;
use crate::screen::{Layout, Line, Screen, Style};
use crate::units::{duration, share};
use crate::wording;

/// The cause tree of a path, with shares of the window.
pub fn tree(answer: &PathAnswer, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let window = answer.path.window;
    screen.wrapped(0, &Line::new().add(Style::Faint, when(&answer.head, window.from, window.to)));
    screen.blank();
    screen.unwrapped(&Line::new().add(Style::Faint, " share     time  who waited for whom"));
    Drawing { answer, tree: &cause_tree(answer), screen: &mut screen }.draw();
    screen.into_text()
}

/// Parts smaller than this share of the window are not drawn.
const MIN_SHARE: f64 = 0.0005;

struct Drawing<'a> {
    answer: &'a PathAnswer<'a>,
    tree: &'a CauseTree,
    screen: &'a mut Screen,
}

enum Item {
    Node(usize),
    Leaf(usize, usize),
    Rest(usize, u64),
}

impl Drawing<'_> {
    fn draw(&mut self) {
        // (what, the rails of the branches around it, whether it is the last of its branch)
        let mut stack = vec![(Item::Node(0), String::new(), true)];
        let mut first = true;
        while let Some((item, rails, last)) = stack.pop() {
            let (ns, text) = match item {
                Item::Node(node) => (self.tree.nodes[node].total_ns, self.node(node)),
                Item::Leaf(node, leaf) => {
                    let leaf = &self.tree.nodes[node].leaves[leaf];
                    (leaf.total_ns, Line::from(leaf.text.clone()))
                }
                Item::Rest(parts, ns) => {
                    (ns, Line::new().add(Style::Faint, format!("{parts} smaller parts")))
                }
            };
            let branch = match (first, last) {
                (true, _) => "",
                (false, true) => "└─ ",
                (false, false) => "├─ ",
            };
            let window = self.answer.window_ns();
            let mut head =
                Line::new().add(Style::Strong, format!("{:>6}  {:>7}  ", share(ns, window), duration(ns)));
            head.push(Style::Faint, format!("{rails}{branch}"));
            let rails = match (first, last) {
                (true, _) => String::new(),
                (false, true) => format!("{rails}   "),
                (false, false) => format!("{rails}│  "),
            };
            let below = match item {
                Item::Node(node) => self.below(node),
                Item::Leaf(..) | Item::Rest(..) => Vec::new(),
            };
            self.screen.beside(&head, &format!("{:17}{rails}", ""), &text);
            let most = below.len();
            stack.extend(
                below.into_iter().enumerate().rev().map(|(i, item)| (item, rails.clone(), i + 1 == most)),
            );
            first = false;
        }
    }

    /// The children of a node, the largest first, the smallest put together.
    fn below(&self, node: usize) -> Vec<Item> {
        let Node { leaves, children, .. } = &self.tree.nodes[node];
        let mut items: Vec<(u64, Item)> = children
            .iter()
            .map(|&child| (self.tree.nodes[child].total_ns, Item::Node(child)))
            .chain(leaves.iter().enumerate().map(|(i, leaf)| (leaf.total_ns, Item::Leaf(node, i))))
            .collect();
        items.sort_by_key(|&(ns, _)| std::cmp::Reverse(ns));
        let smallest = (self.answer.window_ns() as f64 * MIN_SHARE) as u64;
        let shown = items.iter().take_while(|&&(ns, _)| ns >= smallest && ns > 0).count();
        // One small part is drawn rather than counted.
        let shown = if items.len() - shown == 1 { items.len() } else { shown };
        let rest: u64 = items[shown..].iter().map(|&(ns, _)| ns).sum();
        let small = items.len() - shown;
        items.truncate(shown);
        let mut items: Vec<Item> = items.into_iter().map(|(_, item)| item).collect();
        if small > 0 {
            items.push(Item::Rest(small, rest));
        }
        items
    }

    fn node(&self, node: usize) -> Line {
        let Node { thread, call, link, waits, began, ended, .. } = &self.tree.nodes[node];
        let window = self.answer.path.window;
        let who = match thread {
            Some(thread) => wording::thread(self.answer.recorded, *thread, window.to),
            None => String::from("in flight"),
        };
        let mut line = Line::new();
        if node > 0 {
            let wait = call.as_deref().map_or(String::new(), |call| format!("in {call} "));
            line.push(Style::Normal, format!("{wait}for "));
        }
        line.push(Style::Strong, who);
        if let Some(unit) =
            thread.and_then(|thread| self.answer.recorded.survey.names.unit(&self.answer.thread(thread)))
        {
            line.push(Style::Faint, format!(" in {}", wording::unit(&unit)));
        }
        if node > 0 {
            let times = if *waits == 1 { String::new() } else { format!(", {waits} times") };
            line.push(Style::Faint, format!("  [{link}{times}]"));
            let stacks = &self.answer.stacks;
            let told = [(began, "waits", ""), (ended, "wake-ups", "ended: ")];
            let told: Vec<String> = told
                .into_iter()
                .filter_map(|(counts, what, lead)| Some(format!("{lead}{}", sites(stacks, counts, what)?)))
                .collect();
            if !told.is_empty() {
                line.push(Style::Normal, format!("  {}", told.join("; ")));
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Story, call, checkout, checkout_stacks, command};
    use expect_test::expect;
    use wakepath_critical_path::{Cause, SegmentKind, Via};

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
             10.9%   130 ms  ├─ not allowed to run
              7.4%  88.0 ms  ├─ in read on tcp 10.0.0.3:5432 for postgres (912) in postgresql.service  [packet]
              5.1%  61.0 ms  │  ├─ waiting for disk sda, in fdatasync of pg_wal
              2.3%  27.0 ms  │  └─ running
              0.3%  4.00 ms  ├─ unknown: wait began before the recording, in read
              0.2%  2.00 ms  ├─ waiting for a CPU that stress (555) had
             <0.1%   100 µs  └─ waiting for a CPU that was idle
        "#]]
        .assert_eq(&tree(&checkout().answer(command()), Layout::PLAIN));
    }

    #[test]
    fn the_tree_says_where_a_wait_began_and_where_it_was_ended() {
        let mut story = checkout();
        story.stacks = checkout_stacks;
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
             10.9%   130 ms  ├─ not allowed to run
              7.4%  88.0 ms  ├─ in read on tcp 10.0.0.3:5432 for postgres (912) in postgresql.service  [packet]
                             │  1 of 1 waits in ask_bank (checkout), from main checkout.c:88
              5.1%  61.0 ms  │  ├─ waiting for disk sda, in fdatasync of pg_wal: 1 of 1 parts in postgres, which
                             │  │  was replaced since, its callers unknown: no frame pointers
              2.3%  27.0 ms  │  └─ running
              0.3%  4.00 ms  ├─ unknown: wait began before the recording, in read: 1 of 1 parts in postgres,
                             │  which was replaced since, its callers unknown: no frame pointers
              0.2%  2.00 ms  ├─ waiting for a CPU that stress (555) had
             <0.1%   100 µs  └─ waiting for a CPU that was idle
        "#]]
        .assert_eq(&text[from..]);
    }

    #[test]
    fn of_the_many_who_had_the_cpu_the_first_are_told_and_the_rest_counted() {
        let mut story = Story::new();
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
             18.7%    28 ns  ├─ waiting for a CPU that 7 others had
              6.0%     9 ns  ├─ waiting for a CPU that cc1 (108) had
              5.3%     8 ns  ├─ waiting for a CPU that cc1 (107) had
              3.3%     5 ns  └─ waiting for a CPU that was idle
        "#]]
        .assert_eq(&tree(&story.told().answer(command()), Layout::PLAIN));
    }

    #[test]
    fn a_chain_of_many_waits_ends_in_a_deepest_level_and_loses_nothing() {
        let mut story = Story::new();
        let threads: Vec<_> = (0..200_000).map(|i| story.thread(100 + i, 1, b"link", 0)).collect();
        let mut parent = None;
        for pair in threads.windows(2) {
            parent = Some(story.wait(10, pair[0], parent, call(0, 3), Via::Wakeup, pair[1]));
        }
        story.then(10, threads[threads.len() - 1], parent, SegmentKind::Running, Cause::None);
        let story = story.told();
        let answer = story.answer(command());
        let tree = cause_tree(&answer);
        assert_eq!(tree.nodes[0].total_ns, 10);
        assert_eq!(tree.nodes.len() as u32, crate::cause_tree::MAX_DEPTH + 1);
    }
}
