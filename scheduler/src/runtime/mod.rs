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
//!   that hangs is killed. A thread cannot be ended; it is left behind, and the
//!   job does not wait for it. When the policy or the capacity source panics, the jobs of that
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
//! | `job/` | what a job is made of, and what is reported of it |
//! | `task/` | one map or reduce |
//! | `shuffle/` | what lies between maps and reduces: buffers, sorted runs, merges |
//! | `pacing/` | what an attempt uses, and where it waits for more |
//! | `process/` | tasks in processes of their own |
//! | `schedule/` | decisions: the life of a job, who gets what, who gives up memory |
//! | `lease` | work that is not a job, under the same shares |
//! | `capacity`, `clock`, `options` | what goes in |
//! | `owner_only` | the modes of files and directories for records |
//! | `spill_space` | the space that spills may take |
//! | `cycles`, `ended_jobs` | what is remembered, within bounds |
//! | `state`, `job_entry`, `control`, `worker`, `panics`, `handle`, `runner` | threads and the lock |
//!
//! Arrows between the folders point down: `schedule` and `process`, `task`, `shuffle`,
//! `pacing`, `job`; but a reducer takes the shuffle's [`Values`].

mod capacity;
#[expect(clippy::disallowed_methods, reason = "the door to the time")]
mod clock;
#[expect(
    clippy::disallowed_methods,
    reason = "paces threads that run in real time"
)]
mod control;
mod cycles;
mod ended_jobs;
mod error;
mod handle;
mod job;
mod job_entry;
#[expect(
    clippy::disallowed_methods,
    reason = "looks at what threads use in real time"
)]
mod lease;
mod options;
#[expect(clippy::disallowed_methods, reason = "the door to files of records")]
pub mod owner_only;
mod pacing;
mod panics;
mod process;
mod runner;
mod schedule;
mod shuffle;
mod spill_space;
#[expect(
    clippy::disallowed_methods,
    reason = "removes the runs of attempts that ended"
)]
mod state;
mod task;
#[cfg(test)]
mod tests;
mod worker;

pub use capacity::{Capacity, CapacityRequest, CapacitySource, FixedCapacity};
/// The types that [`Runtime::scheduling_class`] and [`leased_use`] return.
pub use ebb_threads::{SchedulingClass, ThreadUse};
pub use error::{RuntimeError, SubmitError, TaskError};
pub use handle::JobHandle;
pub use job::attempt_record::{AttemptOutcome, AttemptRecord};
pub use job::counters::Counters;
pub use job::functions::{Emit, Mapper, Reducer};
pub use job::in_place_combiner::InPlaceCombiner;
pub use job::input::{Input, RecordSink, Split, VecInput};
pub use job::journal::JobJournal;
pub use job::output::{Output, OutputWriter, Row, VecOutput};
pub use job::partitioner::{HashPartitioner, Partitioner, Partitioning, RangePartitioner};
pub use job::profile::{JobProfile, MeasuredProfile, TaskMeasures};
pub use job::report::{
    CycleSample, JobReport, JobSample, JobState, JobStatus, Outcome, RuntimeStatus,
};
pub use job::spec::{JobSpec, SAMPLE_RECORDS};
pub use job::task_notes::TaskNotes;
pub use job::task_processes::TaskProcesses;
#[cfg(feature = "typed")]
pub use job::typed;
pub use lease::{Lease, LeaseOptions, LeasedThread, leased_use};
pub use options::{Management, RuntimeOptions, TASK_MEMORY_BYTES_MIN, Throttles};
pub use pacing::bucket::{Bucket, Verdict};
pub use pacing::pacer::BURST_S;
pub use process::{TaskServer, processes_cpu_s};
pub use runner::Runtime;
pub use schedule::lookahead::{Finish, HypotheticalJob, Situation};
pub use schedule::shares::{Claimant, shares};
pub use schedule::tracker::ATTEMPTS_MAX;
pub use shuffle::sorted::Values;
pub use spill_space::{SpillGrant, SpillSpace};
