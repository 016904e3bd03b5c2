//! The interface of a policy of the queueing model.

use super::task::Task;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// A policy with its queues: where an arriving task waits, and which task an idle node
/// serves next.
///
/// `running[j]` is the number of running tasks of the job in place j. Ties are broken by
/// the generator that is passed in, so that a run can be repeated.
pub trait Discipline: Send {
    /// `task` has arrived. It waits until [`choose`](Self::choose) returns it.
    fn route(&mut self, task: Task, ties: &mut ChaCha8Rng);

    /// What idle `node` serves next; `None`: it stays idle in this slot.
    fn choose(&mut self, node: NodeId, running: &[u32], ties: &mut ChaCha8Rng) -> Option<Task>;

    /// `node` is done with `task`, which no longer counts in `running`.
    fn finished(&mut self, node: NodeId, task: &Task, running: &[u32]);
}
