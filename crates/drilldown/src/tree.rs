//! The function tree: its nodes are calls in the context of their path (Traeger 2008, section 3.1).

use serde::{Deserialize, Serialize};

use crate::answer::{End, LevelVotes, NodeCause};
use crate::event::{FunctionId, NodeId, Refusal, SiteId, SiteKind};
use crate::parameters::MAX_NODES;
use crate::tally::Tally;

/// A node in the tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// The caller's node; `None` for f₀.
    pub parent: Option<NodeId>,
    /// The call site and its kind; `None` for f₀.
    pub site: Option<(SiteId, SiteKind)>,
    /// The function; `None` for all targets of an indirect site that are no nodes.
    pub callee: Option<FunctionId>,
    /// The number of calls from f₀ to the node.
    pub depth: u32,
    /// The callees' nodes, when they are known.
    pub children: Vec<NodeId>,
    /// The node's place in the search.
    pub state: NodeState,
    /// The reason why the node cannot be measured.
    pub refused: Option<Refusal>,
    /// The votes from the calls in which the node was measured and its callees were not.
    pub unexamined: Tally,
    /// The decisions on the node that chose it as the end of a path.
    pub endings: Vec<Ending>,
}

/// A node's place in the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NodeState {
    /// A callee of an examined node, or left with it.
    Candidate,
    /// Chosen; its callees are not measured yet.
    Chosen,
    /// Its callees are measured.
    Examined,
    /// The path goes on at its callees, or ends at it.
    Decided,
    /// Not chosen.
    Dropped,
}

/// A path's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Ending {
    pub cause: Option<NodeCause>,
    pub end: End,
    /// The cause's mean time in a call to f₀, ns.
    pub ns: u64,
    /// The mean time in which the node was blocked itself, ns.
    pub blocked_ns: u64,
    /// The mean latency of f₀ in these calls, ns.
    pub f0_ns: u64,
    /// The votes for the cause; no calls if it was not voted on.
    pub votes: LevelVotes,
}

/// The tree. Nodes are numbered in the order in which they become known, so that a parent's number is lower.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tree(pub Vec<Node>);

/// The tree holds as many nodes as it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

impl Tree {
    pub fn new(f0: FunctionId) -> Self {
        Self(vec![Node {
            parent: None,
            site: None,
            callee: Some(f0),
            depth: 0,
            children: Vec::new(),
            state: NodeState::Chosen,
            refused: None,
            unexamined: Tally::default(),
            endings: Vec::new(),
        }])
    }

    pub fn get(&self, node: NodeId) -> Option<&Node> {
        self.0.get(node.0 as usize)
    }

    pub fn get_mut(&mut self, node: NodeId) -> Option<&mut Node> {
        self.0.get_mut(node.0 as usize)
    }

    /// Adds a callee to an existing node.
    pub fn add(
        &mut self,
        parent: NodeId,
        site: SiteId,
        kind: SiteKind,
        callee: Option<FunctionId>,
    ) -> Result<NodeId, Full> {
        let id = NodeId(u32::try_from(self.0.len()).map_err(|_| Full)?);
        if self.0.len() >= MAX_NODES {
            return Err(Full);
        }
        let above = self.get_mut(parent).ok_or(Full)?;
        above.children.push(id);
        let depth = above.depth + 1;
        self.0.push(Node {
            parent: Some(parent),
            site: Some((site, kind)),
            callee,
            depth,
            children: Vec::new(),
            state: NodeState::Candidate,
            refused: None,
            unexamined: Tally::default(),
            endings: Vec::new(),
        });
        Ok(id)
    }

    /// The nodes from f₀ to a node, both included.
    pub fn path(&self, node: NodeId) -> Vec<NodeId> {
        let mut path: Vec<NodeId> =
            std::iter::successors(Some(node), |&node| self.get(node).and_then(|node| node.parent)).collect();
        path.reverse();
        path
    }

    /// The nodes with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        (0..).map(NodeId).zip(&self.0)
    }
}
