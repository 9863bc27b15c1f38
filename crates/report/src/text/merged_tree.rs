//! The cause tree of many calls as text.

use wakepath_engine::CallsAnswer;

use super::calls::{headline, trust};
use crate::calls::causes;
use crate::merged_tree::{Both, MergedLeaf, MergedNode, MergedTree, Sum, merged_tree};
use crate::screen::{Layout, Line, Screen, Style};
use crate::units::duration;

/// What is too small to draw: less than this part of the calls that were asked about, and less than
/// [`MIN_USUAL_SHARE`] of the usual ones.
const MIN_SHARE: f64 = 0.0005;
const MIN_USUAL_SHARE: f64 = 0.01;

/// Who waited for whom in the calls that were asked about, a call, beside the usual ones.
pub fn merged(answer: &CallsAnswer, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let usual = answer.usual.as_ref().map(|(_, group)| group);
    headline(answer, &causes(&answer.asked, usual), &mut screen);
    let tree = merged_tree(&answer.asked, usual);
    let head = if usual.is_some() {
        " a call    usual  calls  who waited for whom, largest difference first"
    } else {
        " a call  calls  who waited for whom"
    };
    screen.unwrapped(&Line::new().add(Style::Faint, head));
    let mean = tree.nodes[0].total.mean(tree.calls);
    Drawing { tree: &tree, mean, has_usual: usual.is_some(), screen: &mut screen }.draw();
    trust(answer, &mut screen);
    screen.into_text()
}

/// So many of those who had the CPU are told by name.
const COMPETITORS: usize = 2;

struct Drawing<'a> {
    tree: &'a MergedTree,
    mean: Both<f64>,
    has_usual: bool,
    screen: &'a mut Screen,
}

enum Item {
    Node(usize),
    Leaf(usize, usize),
    /// Parts put together: what is said of them, and their time a call.
    Rest(String, Both<f64>),
}

impl Drawing<'_> {
    fn draw(&mut self) {
        // (what, the rails of the branches around it, whether it is the last of its branch)
        let mut stack = vec![(Item::Node(0), String::new(), true)];
        let mut first = true;
        while let Some((item, rails, last)) = stack.pop() {
            let (figures, text) = match item {
                Item::Node(0) => {
                    (self.figures(&self.tree.nodes[0].total), Line::from(String::from("the call")))
                }
                Item::Node(node) => {
                    (self.figures(&self.tree.nodes[node].total), words(&self.tree.nodes[node]))
                }
                Item::Leaf(node, leaf) => {
                    let leaf = &self.tree.nodes[node].leaves[leaf];
                    let mut line = Line::from(leaf.text.clone());
                    let code = leaf.code.ran.tell_samples().into_iter().chain(leaf.code.waited.tell("parts"));
                    for code in code {
                        line.push(Style::Normal, format!(": {code}"));
                    }
                    (self.figures(&leaf.total), line)
                }
                Item::Rest(ref text, mean) => {
                    (self.columns(mean, ""), Line::new().add(Style::Faint, text.clone()))
                }
            };
            let branch = match (first, last) {
                (true, _) => "",
                (false, true) => "└─ ",
                (false, false) => "├─ ",
            };
            let margin = format!("{:width$}", "", width = figures.chars().count());
            let mut head = Line::new().add(Style::Strong, figures);
            head.push(Style::Faint, format!("{rails}{branch}"));
            let rails = match (first, last) {
                (true, _) => String::new(),
                (false, true) => format!("{rails}   "),
                (false, false) => format!("{rails}│  "),
            };
            self.screen.beside(&head, &format!("{margin}{rails}"), &text);
            let below = match item {
                Item::Node(node) => self.below(node),
                Item::Leaf(..) | Item::Rest(..) => Vec::new(),
            };
            let all = below.len();
            stack.extend(
                below.into_iter().enumerate().rev().map(|(i, item)| (item, rails.clone(), i + 1 == all)),
            );
            first = false;
        }
    }

    /// What hangs under a node, the largest difference first, what is small put together.
    fn below(&self, node: usize) -> Vec<Item> {
        let MergedNode { leaves, children, .. } = &self.tree.nodes[node];
        let children = children.iter().map(|&child| (self.tree.nodes[child].total, Item::Node(child)));
        let (competitors, leaves): (Vec<_>, Vec<_>) =
            leaves.iter().enumerate().partition(|(_, leaf)| leaf.competitor);
        let item = |(i, leaf): (usize, &MergedLeaf)| (leaf.total, Item::Leaf(node, i));
        // The largest difference comes first.
        let mut competitors: Vec<_> = competitors.into_iter().map(item).collect();
        let others = competitors.split_off(COMPETITORS.min(competitors.len()));
        let parts = children.chain(leaves.into_iter().map(item)).chain(competitors);
        let (mut shown, small): (Vec<_>, Vec<_>) = parts.partition(|(total, _)| self.is_shown(total));
        for (rest, what) in [(others, "others had the CPU"), (small, "smaller parts")] {
            match rest.len() {
                0 => {}
                // One part is drawn rather than counted.
                1 => shown.extend(rest),
                parts => {
                    let (total, text) =
                        (sum(rest.into_iter().map(|(total, _)| total)), format!("{parts} {what}"));
                    let mean = total.mean(self.tree.calls);
                    shown.push((total, Item::Rest(text, mean)));
                }
            }
        }
        let more = |total: &Sum| total.more(self.tree.calls);
        shown.sort_by(|(a, _), (b, _)| more(b).total_cmp(&more(a)));
        shown.into_iter().map(|(_, item)| item).collect()
    }

    fn is_shown(&self, total: &Sum) -> bool {
        let mean = total.mean(self.tree.calls);
        mean.asked >= self.mean.asked * MIN_SHARE || mean.usual > self.mean.usual * MIN_USUAL_SHARE
    }

    fn figures(&self, total: &Sum) -> String {
        let calls = total.calls.asked.to_string();
        self.columns(total.mean(self.tree.calls), &calls)
    }

    fn columns(&self, mean: Both<f64>, calls: &str) -> String {
        let asked = duration(mean.asked as u64);
        match self.has_usual {
            true => format!("{asked:>7}  {:>7}  {calls:>5}  ", duration(mean.usual as u64)),
            false => format!("{asked:>7}  {calls:>5}  "),
        }
    }
}

/// Of several parts; in how many calls there is one of them nobody counted.
fn sum(parts: impl Iterator<Item = Sum>) -> Sum {
    let mut all = Sum::default();
    for Sum { ns, .. } in parts {
        all.ns = Both { asked: all.ns.asked + ns.asked, usual: all.ns.usual + ns.usual };
    }
    all
}

fn words(node: &MergedNode) -> Line {
    let mut line = Line::new();
    let wait = node.call.as_deref().map_or(String::new(), |call| format!("in {call} "));
    line.push(Style::Normal, format!("{wait}for "));
    line.push(Style::Strong, node.who.clone());
    line.push(Style::Faint, format!("  [{}]", node.via));
    let ended = node.ended.tell("wake-ups").map(|ended| format!("ended: {ended}"));
    let code: Vec<String> = node.began.tell("waits").into_iter().chain(ended).collect();
    if !code.is_empty() {
        line.push(Style::Normal, format!("  {}", code.join("; ")));
    }
    line
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::sample::{calls_of, calls_of_a_chain};

    #[test]
    fn the_merged_tree_says_who_waited_for_whom_a_call_beside_the_usual_ones() {
        calls_of(|answer| {
            expect![[r#"
                20 calls of peak 2 of ./app:handle took 100 µs on average, where those of peak 1 take 200 ns: mostly
                running holder (100% of the difference, first in 20 of 20 calls)
                1 call left without returning: not among them
                1 call had not ended: not among them

                 a call    usual  calls  who waited for whom, largest difference first
                 100 µs   200 ns     20  the call
                99.9 µs     0 ns     20  ├─ in futex for holder  [lock]
                99.9 µs     0 ns     20  │  └─ running
                 200 ns   200 ns     20  └─ running

                lost 0 records
            "#]].assert_eq(&merged(answer, Layout::PLAIN));
        });
    }

    #[test]
    fn branches_say_in_which_function_threads_ran_and_waited() {
        calls_of_a_chain(1, |answer| {
            expect![[r#"
                20 calls of peak 2 of ./app:handle took 100 µs on average, where those of peak 1 take 200 ns: mostly
                waiting for backend (20), which spent it waiting for disk sda, in fdatasync of log.0 and running
                (100% of the difference, first in 20 of 20 calls)

                 a call    usual  calls  who waited for whom, largest difference first
                 100 µs   200 ns     20  the call
                99.9 µs     0 ns     20  ├─ in futex for backend  [wakeup]
                60.0 µs     0 ns     20  │  ├─ waiting for disk sda, in fdatasync of log.0: 20 of 20 parts in
                                         │  │  backend, which cannot be read here
                39.9 µs     0 ns     20  │  └─ running: ~ 20 of 20 samples in backend, which cannot be read here
                 200 ns   200 ns     20  └─ running

                lost 0 records
                ~ sampled; everything else timed at each switch
            "#]].assert_eq(&merged(answer, Layout::PLAIN));
        });
    }
}
