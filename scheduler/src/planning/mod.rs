//! Planning: the goals that can be met at all, the goals that will probably be met, and
//! the accuracy of these predictions.
//!
//! | file | content |
//! | --- | --- |
//! | `fluid` | one divisible machine: the smallest number of jobs that it misses |
//! | `supply` | the most work that a simulated cluster can do between two instants |
//! | `groups` | a bound of `fluid` in whole jobs, group by group |
//! | `offline` | a lower bound on missed goals under any scheduler, by all of the above |
//! | `plan` | the outlook of given jobs, and changes that would save those at risk |
//! | `advice` | the probability that a job meets its goal, learned from past jobs |

mod advice;
mod fluid;
mod groups;
mod offline;
mod plan;
mod supply;

pub use advice::{Past, Predictions, ReliabilityBin, observe, predict_each_half, reliability};
pub use fluid::{FluidJob, missed_exactly, missed_relaxed};
pub use offline::{OfflineBound, offline_bound};
pub use plan::{Change, Future, Outlook, Saving, plan};
