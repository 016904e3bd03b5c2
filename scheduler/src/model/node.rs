//! A node: where tasks run (the thesis's TaskTracker).

use super::Resources;
use serde::Serialize;

/// Identifies a node of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct NodeId(pub u32);

/// A node and what analytics may use of it, Omega in equations (10) and (18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Which node.
    pub id: NodeId,
    /// What is there for analytics during the coming control cycle.
    pub capacity: Resources,
}
