//! Scheduling policies: pure functions from a view of the cluster to slots.
//!
//! ```text
//!   ClusterView ──> Policy::decide ──> Decision
//!   (simulator or live runtime)        (slots per job and node)
//! ```
//!
//! A policy has no clock, no thread, no I/O, no randomness and no memory. Given the same view it
//! returns the same decision, so results measured in the simulator hold in the live runtime. State
//! from one cycle to the next (a [`Wait`]) is part of the decision and comes back in the next view.
//!
//! | file | contents |
//! | --- | --- |
//! | `view` | the input of a policy |
//! | `decision`, `matrix` | its output: the placement matrix P, and waits |
//! | `draft`, `places`, `room` | slots per job, then the nodes of these slots; the free resources of nodes |
//! | `kept_maps` | running maps that may lose their slots to larger ones |
//! | `workload` | the remaining work of each job, s_req |
//! | `local` | pending maps by the nodes that hold their input |
//! | `forecast_edf` | the default: the earliest goal first, among the jobs that can meet theirs |
//! | `on_time`, `given_up` | the goals that can be met together, by the forecast; places for the other jobs |
//! | `fifo`, `fair`, `delay` | the policies of Hadoop |
//! | `weighted` | rules of weighted completion time |
//! | `thesis/` | the policies of the thesis, and the code that only they use |
//! | `registry` | all policies by name |

mod decision;
mod delay;
mod draft;
#[cfg(test)]
pub(crate) mod example;
mod fair;
mod fifo;
mod forecast_edf;
mod given_up;
mod kept_maps;
mod local;
mod matrix;
mod on_time;
mod places;
mod registry;
mod room;
#[cfg(test)]
mod tests;
mod thesis;
mod view;
mod weighted;
mod workload;

pub use decision::{Decision, Measure, Refill};
pub use delay::{DELAY_S, Delay};
pub use fair::Fair;
#[cfg(feature = "simulation")]
pub(crate) use fair::fair_with_idle_slots;
pub use fifo::Fifo;
pub use forecast_edf::{ForecastEdf, GIVEN_UP_MAX, PROBING_MAX, RESERVE};
pub use matrix::{Cell, Placement};
pub use on_time::room_per_work;
pub use registry::{DEFAULT, Descriptor, all, by_name, default, descriptors};
pub use thesis::{
    Adaptive, AdaptiveData, AdaptiveHardware, FitJob, Interval, Ras, ReverseAdaptive, ReverseFit,
    SPEEDUP_MIN, map_utility, reduce_utility, reverse_fit, reverse_map_utility, satisfaction,
    satisfaction_with,
};
pub use view::{ClusterView, DELAYS_MAX, JobView, Preemption, ReduceStart, RunningTask, Wait};
pub use weighted::{HighJobWeightFirst, HighUnitWeightFirst, ShortestTaskFirst};
pub use workload::required_slots;

/// A scheduling policy: a pure function from a view of the cluster to a decision. It has no clock,
/// no I/O, no randomness, and no state of its own from one cycle to the next.
pub trait Policy: Send + Sync {
    /// Returns the name of this policy for [`by_name`].
    fn name(&self) -> &'static str;

    /// Returns the unit in which the policy measures the free capacity of a node: typed slots, where the node
    /// has them, or resources.
    fn measure(&self) -> Measure {
        Measure::Slots
    }

    /// True if the policy starts jobs as late as their goals allow. The runtime then plans against
    /// earlier goals, to leave time for surprises. A policy that serves jobs as early as it can
    /// returns false: earlier goals would only make it give up jobs sooner.
    fn finishes_just_in_time(&self) -> bool {
        true
    }

    /// Returns the slots of each job on each node during the coming control cycle.
    ///
    /// The placement never exceeds the capacity of a node, and no job gets more slots than it has
    /// tasks left. It need not cover every running task: a task without a slot drains or is paused,
    /// depending on `view.preemption`.
    fn decide(&self, view: &ClusterView) -> Decision;
}
