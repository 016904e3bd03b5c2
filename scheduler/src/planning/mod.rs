//! Planning: what can be met at all, what will probably be met, and how well that is
//! predicted.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `fluid` | one divisible machine: the least number of jobs it must miss |
//! | `supply` | the most that a simulated cluster can do between two instants |
//! | `groups` | the same in whole jobs, group by group |
//! | `offline` | all together: a bound on what any scheduler must miss |
//! | `plan` | what becomes of given jobs, and what would save those at risk |
//! | `advice` | how probably a job meets its goal, learned from past ones |

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
