//! The policies of the thesis (J. Polo, *Multi-constraint scheduling of MapReduce workloads*,
//! 2014), kept as they were published: for comparison, and to repeat its experiments.
//!
//! | file | contents |
//! | --- | --- |
//! | `adaptive`, `adaptive_data`, `adaptive_hardware` | chapter 3 |
//! | `ras` | chapter 4 |
//! | `reverse_adaptive` | chapter 5 |
//! | `priority` | equation (1) and the classes of the Adaptive Scheduler |
//! | `utility` | equations (5)-(7) and (13)-(15) |
//! | `placement` | Algorithm 1: one slot at a time to the least satisfied job |
//! | `fit` | Algorithm 2: the reverse fit, s_fit |
//! | `satisfaction` | equation (5) of a whole placement, for figures |
//!
//! The policies outside of this folder use nothing of it.

mod adaptive;
mod adaptive_data;
mod adaptive_hardware;
mod fit;
mod placement;
mod priority;
mod ras;
mod reverse_adaptive;
mod satisfaction;
mod utility;

pub use adaptive::Adaptive;
pub use adaptive_data::AdaptiveData;
pub use adaptive_hardware::{AdaptiveHardware, SPEEDUP_MIN};
pub use fit::{FitJob, Interval, ReverseFit, reverse_fit};
pub use ras::Ras;
pub use reverse_adaptive::ReverseAdaptive;
#[cfg(test)]
pub(super) use reverse_adaptive::needs;
pub use satisfaction::{satisfaction, satisfaction_with};
pub use utility::{map_utility, reduce_utility, reverse_map_utility};
