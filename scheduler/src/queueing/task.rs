//! A task with the places of its data.

use crate::model::NodeId;

/// The most replicas a task's data has.
pub const REPLICAS_MAX: usize = 3;

/// A task that waits or runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its job: the job's place in a table whose places are used again.
    pub job: u32,
    /// Its number among the job's tasks, from 0.
    pub index: u32,
    /// The nodes that hold its data, ascending; one of fewer replicas is named more
    /// than once.
    pub replicas: [NodeId; REPLICAS_MAX],
}

impl Task {
    /// One whose data lies on these nodes: one to three.
    #[must_use]
    pub fn new(job: u32, index: u32, on: &[u32]) -> Self {
        let mut replicas = std::array::from_fn(|at| NodeId(on[at.min(on.len() - 1)]));
        replicas.sort_unstable();
        Self {
            job,
            index,
            replicas,
        }
    }

    /// The nodes that hold its data, each once.
    pub fn local_nodes(&self) -> impl Iterator<Item = NodeId> {
        let replicas = self.replicas;
        (0..REPLICAS_MAX)
            .filter(move |&at| at == 0 || replicas[at] != replicas[at - 1])
            .map(move |at| replicas[at])
    }
}
