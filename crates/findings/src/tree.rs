//! The cause tree: who waited for whom, with equal branches merged; of one path, or of the paths of many calls.
//!
//! A node is a thread as seen from the waits above it that it explains; the root is the window's own thread. Under a
//! node hang the other threads that explain its waits, and leaves for its own time. Branches of one path are equal
//! where they are the same threads; branches of many calls, where threads have the same name: their numbers differ
//! from call to call.
//!
//! A tree is built in one pass over each path's waits and segments, without recursion: a chain of a million waits is
//! a tree of [`MAX_DEPTH`] levels whose lowest nodes hold the rest.

mod build;

use wakepath_critical_path::Via;
use wakepath_loaded::CallName;

use crate::{Activity, Code, Evidence, PerGroup, Tally, ThreadKey};
use build::TreeBuilder;

/// Waits under more waits than this are merged into the wait at this depth.
pub const MAX_DEPTH: u32 = 24;

/// A cause tree; the root is its first node.
#[derive(Debug, Clone)]
pub struct CauseTree {
    /// All nodes, parents before their children.
    pub nodes: Vec<Node>,
    /// The number of paths that it was made of.
    pub calls: PerGroup<u64>,
}

/// A thread, or threads of one name, as seen from the waits above that they explain.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The node above; `None` for the root.
    pub parent: Option<usize>,
    /// The thread; `None` for packets in flight, and for the root of many calls, which many threads made.
    pub thread: Option<ThreadKey>,
    /// The system call of the waits above.
    pub call: Option<CallName>,
    /// How the waits above were ended.
    pub via: Option<Via>,
    /// The number of waits above that led here, in the calls that were asked about.
    pub waits: u64,
    /// Where in the code these began.
    pub began: Tally,
    /// Where the thread was when it ended them.
    pub ended: Tally,
    /// Its own time and that of all nodes below.
    pub total: Sum,
    /// The activities of its own time, the largest difference first.
    pub leaves: Vec<Leaf>,
    /// The nodes below: indices into [`CauseTree::nodes`], the largest difference first.
    pub children: Vec<usize>,
}

/// A part of a node's own time.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The activity.
    pub activity: Activity,
    /// The system call that the thread was blocked in.
    pub call: Option<CallName>,
    /// The time.
    pub total: Sum,
    /// Where that was, in the calls that were asked about.
    pub code: Code,
}

/// A time added up over paths.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    /// All of it, ns.
    pub ns: PerGroup<u64>,
    /// The number of paths that have any of it.
    pub calls: PerGroup<u64>,
}

impl Sum {
    /// The time, ns a call.
    pub fn mean(&self, calls: PerGroup<u64>) -> PerGroup<f64> {
        let mean = |ns: u64, calls: u64| ns as f64 / calls.max(1) as f64;
        PerGroup { asked: mean(self.ns.asked, calls.asked), usual: mean(self.ns.usual, calls.usual) }
    }

    /// Adds the time of one path.
    fn add(&mut self, ns: u64, is_asked: bool) {
        *self.ns.of(is_asked) += ns;
        *self.calls.of(is_asked) += 1;
    }
}

/// The tree of one path.
pub fn cause_tree(path: &Evidence<'_>) -> CauseTree {
    let root = Node { thread: Some(ThreadKey::One(path.path.window.thread)), ..Node::default() };
    let mut builder = TreeBuilder::new(root);
    builder.add(path, true, ThreadKey::One);
    builder.finish(PerGroup { asked: 1, usual: 0 })
}

/// The trees of both groups' calls, merged.
pub fn merged_tree(calls: &PerGroup<Vec<Evidence<'_>>>) -> CauseTree {
    let mut builder = TreeBuilder::new(Node::default());
    for (group, is_asked) in [(&calls.asked, true), (&calls.usual, false)] {
        for call in group {
            builder.add(call, is_asked, |thread| ThreadKey::Named(call.shared_name(&call.thread(thread))));
        }
    }
    builder.finish(PerGroup { asked: calls.asked.len() as u64, usual: calls.usual.len() as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Story, call};
    use wakepath_critical_path::{Cause, SegmentKind};

    #[test]
    fn a_chain_of_many_waits_ends_in_a_deepest_level_and_loses_nothing() {
        let mut story = Story::default();
        let threads: Vec<_> = (0..200_000).map(|i| story.thread(100 + i, 1, b"link", 0)).collect();
        let mut parent = None;
        for pair in threads.windows(2) {
            parent = Some(story.wait(10, pair[0], parent, call(0, 3), Via::Wakeup, pair[1]));
        }
        story.then(10, threads[threads.len() - 1], parent, SegmentKind::Running, Cause::None);
        let story = story.finish();
        let tree = cause_tree(&story.evidence());
        assert_eq!(tree.nodes[0].total.ns.asked, 10);
        assert_eq!(tree.nodes.len() as u32, MAX_DEPTH + 1);
    }

    #[test]
    fn the_root_of_a_tree_has_the_whole_window() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let other = story.thread(8, 1, b"db", 8);
        story.then(3, own, None, SegmentKind::Running, Cause::None);
        for (ns, number) in [(4, 0), (6, 0), (5, 1)] {
            let wait = story.wait(ns, own, None, call(number, 3), Via::Packet, other);
            story.then(ns, other, Some(wait), SegmentKind::Running, Cause::None);
        }
        let story = story.finish();
        let tree = cause_tree(&story.evidence());
        let told: Vec<_> = tree
            .nodes
            .iter()
            .map(|node| {
                (node.parent, node.total.ns.asked, node.waits, node.call.as_ref().map(|call| call.number))
            })
            .collect();
        assert_eq!(told, [(None, 18, 1, None), (Some(0), 10, 2, Some(0)), (Some(0), 5, 1, Some(1))]);
        assert_eq!(tree.nodes[0].children, [1, 2]);
        assert_eq!(tree.nodes[0].leaves.len(), 1);
    }
}
