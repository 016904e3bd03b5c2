//! MSJO, the MapReduce server-job organizer problem of X. Ling, Y. Yuan, D. Wang, J. Liu
//! and J. Yang, *Joint scheduling of MapReduce jobs with servers* (JPDC 2016): identical
//! machines, jobs whose tasks are known, and a weight for each job. It minimises the sum of
//! weights times completion times.
//!
//! ```text
//!   RandomJobs ─> Instance ─┬─> rules: by one number ────────┐
//!                           ├─> relaxation ─> bound          ├─> order ─> list ─> Schedule
//!                           │        └─> mars ───────────────┘
//!                           └── Schedule::check, value
//! ```
//!
//! A thin layer over [`crate::model`]: a job's release is its submission, its weight its
//! share, and a machine is a node that runs one task at a time. Nothing is preempted. The
//! policies see a job when it is submitted and estimate its tasks' lengths; this module
//! plans all jobs at once from known lengths.
//!
//! | file | content |
//! | --- | --- |
//! | `instance` | machines, jobs, tasks, releases, delays |
//! | `schedule` | starts and machines; a check that they are feasible, and their objective |
//! | `workload` | the random jobs of section 5 |
//! | `order`, `list` | orders of tasks by a key, and schedules from orders |
//! | `rules` | HUWF, HJWF, STF, HTWF |
//! | `relaxation` | the linear programme and COGE (feature `lp`) |
//! | `mars`, `t_mars` | MarS, T-MarS (feature `lp`) |
//! | `mares` | MARES, H-MARES: tasks are assigned to machines first (feature `lp`) |
//! | `semi_online` | batches: SO-MarS |
//! | `algorithm` | all algorithms by name (feature `lp`) |
//! | `figures` | the paper's scenarios (feature `lp`) |
//! | `search` | local search from the relaxation's order, ebb's own (feature `lp`) |

#[cfg(feature = "lp")]
mod algorithm;
#[cfg(test)]
mod example;
#[cfg(feature = "lp")]
mod figures;
mod instance;
mod list;
#[cfg(feature = "lp")]
mod mares;
#[cfg(feature = "lp")]
mod mars;
mod order;
#[cfg(feature = "lp")]
mod relaxation;
mod rules;
mod schedule;
#[cfg(feature = "lp")]
mod search;
mod semi_online;
#[cfg(feature = "lp")]
mod t_mars;
#[cfg(all(test, feature = "lp"))]
mod tests;
mod workload;

#[cfg(feature = "lp")]
pub use algorithm::{ALGORITHMS, Algorithm};
#[cfg(feature = "lp")]
pub use figures::{FIGURES, Figure, Points};
pub use instance::{Instance, InstanceError, JobSpec, JobTasks, Task, TaskSpec};
pub use list::{carried_out, in_order, in_order_on, non_idling, non_idling_on};
#[cfg(feature = "lp")]
pub use mares::{assigned, by_workload, mares};
#[cfg(feature = "lp")]
pub use mars::{EPS, mars, mars_of};
pub use order::{available_first, by_key, ranks};
#[cfg(feature = "lp")]
pub use relaxation::{Bound, Inequality, Pool, Relaxation};
pub use rules::Rule;
pub use schedule::{Objective, Schedule, Violation};
#[cfg(feature = "lp")]
pub use search::Search;
pub use semi_online::semi_online;
#[cfg(feature = "lp")]
pub use t_mars::{Intervals, t_mars_of};
pub use workload::{RandomJobs, Weights, misjudged};
