//! Scheduling policies: pure functions from a view of the cluster to slots.
//!
//! ```text
//!   ClusterView ──> Policy::decide ──> Decision
//!   (simulator or live runtime)        (slots per job and node)
//! ```
//!
//! A policy has no clock, no thread, no I/O, no randomness and no memory. Given
//! the same view it gives the same decision, so what was measured in the
//! simulator holds in the live runner. What it wants to remember (a [`Wait`]) is
//! part of the decision, and comes back in the next view.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `view` | what a policy sees |
//! | `decision`, `matrix` | what it answers: the placement matrix P, and waits |
//! | `draft`, `places`, `room` | slots per job first, then where; what is left of the nodes |
//! | `kept_maps` | running maps that may lose their slots to larger ones |
//! | `workload` | what each job still has to do, s_req |
//! | `local` | which pending maps have their input where |
//! | `forecast_edf` | the default: the earliest of the goals that can be met first |
//! | `on_time`, `given_up` | which goals can be met together, by the forecast; when to run the others |
//! | `fifo`, `fair`, `delay` | Hadoop's, one policy each |
//! | `weighted` | rules of weighted completion time |
//! | `thesis/` | the policies of the thesis, and what only they use |
//! | `registry` | all of them by name |

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

/// A scheduling policy; see the module for what it must not do.
pub trait Policy: Send + Sync {
    /// The name under which [`by_name`] finds it.
    fn name(&self) -> &'static str;

    /// Whether it divides nodes by typed slots, where they have such, or by
    /// resources.
    fn measure(&self) -> Measure {
        Measure::Slots
    }

    /// Whether it leaves a job for as long as its goal allows, so that who runs it has
    /// to tell it an earlier one: what no plan can know has to fit in between. One that
    /// serves jobs as early as it can would only give them up sooner.
    fn finishes_just_in_time(&self) -> bool {
        true
    }

    /// The slots each job has on each node during the coming control cycle.
    ///
    /// The placement never exceeds what a node has, and no job gets more slots
    /// than it has tasks left. It need not cover every running task: one that no
    /// slot is left for drains, or is paused, as `view.preemption` says.
    fn decide(&self, view: &ClusterView) -> Decision;
}
