//! Scheduling policies: pure functions from a view of the cluster to slots.
//!
//! ```text
//!   ClusterView ──> Policy::decide ──> Placement
//!   (simulator or live runtime)        (slots per job and node)
//! ```
//!
//! A policy has no clock, no thread, no I/O and no randomness. Given the same
//! view it gives the same placement, so what was measured in the simulator
//! holds in the live runner.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `view` | what a policy sees |
//! | `matrix` | what it answers: the placement matrix P |
//! | `workload` | what each job still has to do, s_req |
//! | `fit` | Algorithm 2: the reverse fit, s_fit |
//! | `utility` | equations (5)-(7) and (13)-(15) |
//! | `placement` | Algorithm 1: one slot at a time to the least satisfied |
//! | `fifo`, `resource_aware`, `reverse_adaptive` | one policy each |
//! | `registry` | all of them by name |

mod fifo;
mod fit;
mod matrix;
mod placement;
mod registry;
mod resource_aware;
mod reverse_adaptive;
#[cfg(test)]
mod tests;
mod utility;
mod view;
mod workload;

pub use fifo::Fifo;
pub use fit::{FitJob, Interval, ReverseFit, reverse_fit};
pub use matrix::Placement;
pub use registry::{Descriptor, all, by_name, descriptors};
pub use resource_aware::ResourceAware;
pub use reverse_adaptive::ReverseAdaptive;
pub use utility::{map_utility, reduce_utility, reverse_map_utility};
pub use view::{ClusterView, JobView, Preemption, ReduceStart, RunningTask};
pub use workload::required_slots;

/// A scheduling policy; see the module for what it must not do.
pub trait Policy: Send + Sync {
    /// The name under which [`by_name`] finds it.
    fn name(&self) -> &'static str;

    /// The slots each job holds on each node during the coming control cycle.
    ///
    /// Tasks that cannot be preempted count as placed. Beyond them the
    /// placement never exceeds a node's capacity, and no job gets more slots
    /// than it has tasks left.
    fn decide(&self, view: &ClusterView) -> Placement;
}
