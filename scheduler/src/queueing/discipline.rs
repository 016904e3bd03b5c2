//! The interface of a policy of the queueing model.

use super::task::Task;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// A policy with its queues: it decides where an arriving task waits, and which task an
/// idle node serves next.
///
/// In the methods, `running[j]` is the number of running tasks of the job in place j (see
/// [`Task::job`]). The caller passes the random generator that breaks ties, so that a run
/// can be repeated.
pub trait Discipline: Send {
    /// Queues an arriving task until [`choose`](Self::choose) returns it.
    fn route(&mut self, task: Task, ties: &mut ChaCha8Rng);

    /// Removes and returns the task that the idle `node` serves next; `None` if the node
    /// stays idle in this slot.
    fn choose(&mut self, node: NodeId, running: &[u32], ties: &mut ChaCha8Rng) -> Option<Task>;

    /// Reports that `node` finished `task`, which `running` no longer includes.
    fn finished(&mut self, node: NodeId, task: &Task, running: &[u32]);
}
