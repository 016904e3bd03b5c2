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
//! | `draft`, `room` | slots per job first, then where; what is left of the nodes |
//! | `workload` | what each job still has to do, s_req |
//! | `priority` | equation (1) and the classes of the Adaptive Scheduler |
//! | `utility` | equations (5)-(7) and (13)-(15) |
//! | `placement` | Algorithm 1: one slot at a time to the least satisfied |
//! | `fit` | Algorithm 2: the reverse fit, s_fit |
//! | `satisfaction` | equation (5) of a whole placement, to be looked at |
//! | `local` | which pending maps have their input where |
//! | `fifo`, `fair`, `delay` | Hadoop's, one policy each |
//! | `adaptive`, `adaptive_data`, `adaptive_hardware` | chapter 3 |
//! | `ras`, `reverse_adaptive` | chapters 4 and 5 |
//! | `on_time` | which goals can be met together, by the forecast |
//! | `forecast_edf` | beyond the thesis: the earliest of those goals first |
//! | `registry` | all of them by name |

mod adaptive;
mod adaptive_data;
mod adaptive_hardware;
mod decision;
mod delay;
mod draft;
#[cfg(test)]
mod example;
mod fair;
mod fifo;
mod fit;
mod forecast_edf;
mod local;
mod matrix;
mod on_time;
mod placement;
mod priority;
mod ras;
mod registry;
mod reverse_adaptive;
mod room;
mod satisfaction;
#[cfg(test)]
mod tests;
mod utility;
mod view;
mod workload;

pub use adaptive::Adaptive;
pub use adaptive_data::{AdaptiveData, DELAYS_MAX};
pub use adaptive_hardware::{AdaptiveHardware, SPEEDUP_MIN};
pub use decision::{Decision, Measure, Refill};
pub use delay::{DELAY_S, Delay};
pub use fair::Fair;
pub use fifo::Fifo;
pub use fit::{FitJob, Interval, ReverseFit, reverse_fit};
pub use forecast_edf::{ForecastEdf, GIVEN_UP_MAX, RESERVE};
pub use matrix::{Cell, Placement};
pub use on_time::room_per_work;
pub use ras::Ras;
pub use registry::{DEFAULT, Descriptor, all, by_name, default, descriptors};
pub use reverse_adaptive::ReverseAdaptive;
pub use satisfaction::satisfaction;
pub use utility::{map_utility, reduce_utility, reverse_map_utility};
pub use view::{ClusterView, JobView, Preemption, ReduceStart, RunningTask, Wait};
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
