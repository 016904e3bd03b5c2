//! A task with the places of its data.

use crate::model::NodeId;

/// Largest number of replicas of a task's data.
pub const REPLICAS_MAX: usize = 3;

/// A task that waits or runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Index of the task's job in a table of the component that creates the tasks. The engine
    /// of the simulation reuses the index of a finished job.
    pub job: u32,
    /// Number of the task among its job's tasks, from 0.
    pub index: u32,
    /// The nodes that hold the task's data, ascending. With fewer replicas than
    /// [`REPLICAS_MAX`] some nodes occur more than once.
    pub replicas: [NodeId; REPLICAS_MAX],
}

impl Task {
    /// Returns a task whose data lies on the nodes `on`, one to three of them.
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

    /// Returns the nodes that hold the task's data, each once.
    pub fn local_nodes(&self) -> impl Iterator<Item = NodeId> {
        let replicas = self.replicas;
        (0..REPLICAS_MAX)
            .filter(move |&at| at == 0 || replicas[at] != replicas[at - 1])
            .map(move |at| replicas[at])
    }
}
