//! The live MapReduce runner.
//!
//! ```text
//!            submit                     every control cycle
//!   JobSpec ───────> Tracker <──── control ──> view ──> Policy ──> shares
//!                      │ claim                                       │
//!                      v                                             v
//!   Input ─> map ─> combine ─> sort ─> spill ─> merge ─> reduce    Pacer
//!            └────────── a task on an "ebb-task" thread ──────┘ <────┘
//!                        or in a process that it talks to
//!                                                 │        (CPU per job)
//!                                                 v
//!                                        Output: commit or abort
//! ```
//!
//! What always holds:
//!
//! - A job's output appears whole when the job succeeded, or not at all.
//! - A failing, panicking or hanging task is tried [`ATTEMPTS_MAX`] times; then its
//!   own job fails and no other. Of two attempts at a task one counts. A process
//!   that hangs is killed. A thread cannot be ended; it is left behind, and nobody
//!   waits for it. When the policy or the capacity source panics, the jobs of that
//!   moment fail with the cause; the runtime goes on.
//! - Managed, a job's tasks together use no more CPU than the share the policy
//!   gave it, plus a burst of [`BURST_S`]. Cooperation is by checkpoints: between
//!   records, in [`Emit::emit`], and where user code calls [`Emit::checkpoint`].
//! - All attempts together hold no more memory than [`RuntimeOptions::memory_bytes`],
//!   those that were left behind included. An attempt of a job without a share does
//!   not keep it from one that has a share.
//! - The runtime's one lock is never held during user code or I/O.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `input`, `output`, `text_output`, `functions`, `fold`, `partitioner` | the traits a job is made of |
//! | `key_sample` | where the ranges of a global sort are cut |
//! | `typed` | the same for typed keys and values |
//! | `spec`, `options`, `capacity`, `clock` | what goes in |
//! | `report`, `counters`, `history`, `measured` | what comes out, and who is told |
//! | `tracker`, `task_set`, `speculation` | the life of one job, as a state machine |
//! | `live_view`, `shares` | from jobs to a view, from a placement to shares |
//! | `pacer`, `attempt`, `life`, `class`, `cores` | CPU: per job, per task, in the kernel |
//! | `reads`, `bucket` | bytes read by all jobs; the token bucket of both |
//! | `memory`, `preemption` | what all attempts together hold, and who gives some up |
//! | `sort_buffer`, `fold_index`, `run`, `sorted`, `merge`, `key_prefix` | the shuffle's data |
//! | `map_task`, `reduce_task` | one task each |
//! | `process` | tasks in processes of their own |
//! | `state`, `job_entry`, `control`, `worker`, `panics`, `handle`, `runner` | threads and the lock |

mod attempt;
mod bucket;
mod capacity;
mod class;
mod clock;
mod control;
mod cores;
mod counters;
mod error;
mod fold;
mod fold_index;
mod functions;
mod handle;
mod history;
mod input;
mod job_entry;
mod key_prefix;
mod key_sample;
mod life;
mod live_view;
mod map_task;
mod measured;
mod memory;
mod merge;
mod options;
mod output;
mod pacer;
mod panics;
mod partitioner;
mod preemption;
mod process;
mod reads;
mod reduce_task;
mod report;
mod run;
mod runner;
mod shares;
mod sort_buffer;
mod sorted;
mod spec;
mod speculation;
mod state;
mod task_set;
#[cfg(test)]
mod tests;
mod text_output;
mod tracker;
pub mod typed;
mod worker;

pub use capacity::{Capacity, CapacityRequest, CapacitySource, FixedCapacity};
pub use class::SchedulingClass;
pub use clock::{Clock, ManualClock, MonotonicClock};
pub use counters::Counters;
pub use error::{RuntimeError, SubmitError, TaskError};
pub use fold::Fold;
pub use functions::{Emit, Mapper, Reducer};
pub use handle::JobHandle;
pub use history::{AttemptOutcome, AttemptRecord, JobJournal};
pub use input::{Input, RecordSink, Split, VecInput};
pub use measured::{MeasuredProfile, TaskMeasures};
pub use options::{Management, Restraints, RuntimeOptions, TASK_MEMORY_BYTES_MIN};
pub use output::{Output, OutputWriter, Row, VecOutput};
pub use pacer::BURST_S;
pub use partitioner::{HashPartitioner, Partitioner, Partitioning, RangePartitioner};
pub use process::{TaskProcesses, TaskServer, processes_cpu_s};
pub use report::{CycleSample, JobReport, JobSample, JobState, JobStatus, Outcome, RuntimeStatus};
pub use runner::Runtime;
pub use shares::{Claimant, shares};
pub use sorted::Values;
pub use spec::{JobProfile, JobSpec, SAMPLE_RECORDS};
pub use text_output::TextOutput;
pub use tracker::ATTEMPTS_MAX;
