//! Tasks that run faster near their data: a queueing model in time slots.
//!
//! ```text
//!   Model (cluster, traffic) ─> engine ─> Measured
//!                                │  ▲
//!          arrivals, idle nodes  ▼  │ which task next
//!                             Discipline     one per policy
//! ```
//!
//! In each slot jobs arrive and their tasks are routed; then the idle nodes choose, in
//! random order; then each busy node finishes its task with a probability that depends
//! on where the task's data lies: on the node, in its rack, or elsewhere. Times are
//! counted in slots, and a task that starts in the slot of its arrival and ends in it has
//! a delay of 1.
//!
//! Nodes and jobs are those of [`model`](crate::model); a task is a map with at most three
//! replicas of its input. The model differs from [`sim`](crate::sim) where the theory needs it:
//! lengths have no memory, a job is nothing but its tasks, and a decision is about one idle
//! node. A slot of a thousand nodes therefore costs some tens of microseconds only.
//!
//! Runs are deterministic: the same model and seed give the same numbers. Arrivals, places of
//! data and the random number behind each task's length do not depend on the policy, so that
//! policies are compared under common random numbers.
//!
//! Sources: W. Wang et al., *Map Task Scheduling in MapReduce with Data Locality*, INFOCOM
//! 2013 ("Wang"); M. Kavousi, *Affinity Scheduling and the Applications on Data Center
//! Scheduling with Data Locality*, 2017 ("the survey").
//!
//! | file | content |
//! | --- | --- |
//! | `cluster`, `traffic` | nodes, racks, rates; arriving jobs and the places of their data |
//! | `task`, `length` | a task with its replicas; the distribution of its length |
//! | `discipline`, `registry` | the interface of a policy, and all policies by name |
//! | `naive_fair`, `jsq_maxweight`, `weighted_workload`, `c_mu` | one policy each |
//! | `node_queues` | policies with a queue per node: JSQ-MaxWeight, Pandas |
//! | `late_binding`, `prices` | a policy of our own, and the prices that it learns from the arrivals |
//! | `capacity`, `fluid` | the capacity region, and the policy that plans by it |
//! | `queues`, `type_queues`, `job_queue`, `waiting` | queues of waiting tasks |
//! | `least`, `longest`, `by_length` | finding the smallest key or the longest queue |
//! | `near_data` | these policies for the jobs of [`policy`](crate::policy) |
//! | `engine`, `measured` | the simulation loop, and its measurements |

mod by_length;
mod c_mu;
#[cfg(feature = "lp")]
mod capacity;
mod cluster;
mod discipline;
mod engine;
#[cfg(feature = "lp")]
mod fluid;
mod job_queue;
mod jsq_maxweight;
mod late_binding;
mod least;
mod length;
mod longest;
mod measured;
mod naive_fair;
mod near_data;
mod node_queues;
mod prices;
mod queues;
mod registry;
mod task;
#[cfg(test)]
mod tests;
mod traffic;
mod type_queues;
mod waiting;
mod weighted_workload;

#[cfg(feature = "lp")]
pub use capacity::{Activity, Capacity, NodeClass};
pub use cluster::{Cluster, Locality, ModelError};
pub use discipline::Discipline;
pub use engine::{EndOfSlot, Run, simulate, simulate_observed};
pub use measured::{Measured, STABLE_GROWTH_MAX};
pub use near_data::{policy_by_name, policy_names};
pub use registry::{QUEUEING_POLICIES, QueueingPolicy, queueing_policy};
pub use task::{REPLICAS_MAX, Task};
pub use traffic::{JobSizes, LOAD_MAX, Model, SizeBin, Stream};
