//! The live MapReduce runtime.
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
//! Guarantees:
//!
//! - A job's output appears whole when the job succeeds, or not at all.
//! - A task that fails, panics or hangs is tried [`ATTEMPTS_MAX`] times; then its own job fails and
//!   no other. Of two attempts at a task one counts. A process that hangs is killed. A thread
//!   cannot be killed; it is left behind, and the job does not wait for it. When the policy or the
//!   capacity source panics, the jobs that have not ended fail with the cause; the runtime goes on.
//! - When managed, all tasks of a job together use no more CPU than their share from the policy,
//!   plus a burst of [`BURST_S`]. Tasks cooperate at checkpoints: between records, in
//!   [`Emit::emit`], and where user code calls [`Emit::checkpoint`].
//! - All attempts together hold no more memory than [`RuntimeOptions::memory_bytes`], including
//!   attempts that were left behind. A job with a share does not wait for the memory of a job
//!   without one.
//! - The runtime's one lock is never held during user code or I/O.
//!
//! | file | contents |
//! | --- | --- |
//! | `job/` | the parts of a job, and the reports about it |
//! | `task/` | one map or reduce |
//! | `shuffle/` | the way from maps to reduces: buffers, sorted runs, merges |
//! | `pacing/` | the use of an attempt, and its waits for more |
//! | `process/` | tasks in processes of their own |
//! | `schedule/` | decisions: the life of a job, shares, victims of preemption |
//! | `lease` | work that is not a job, under the same shares |
//! | `capacity`, `clock`, `options` | the inputs of a runtime |
//! | `owner_only` | the modes of files and directories for records |
//! | `spill_space` | the space that spills may take |
//! | `cycles`, `ended_jobs` | the history, within bounds |
//! | `state`, `job_entry`, `control`, `worker`, `panics`, `handle`, `runner` | threads and the lock |
//!
//! Each folder uses only those behind it in this order: `schedule`, `process`, `task`, `shuffle`,
//! `pacing`, `job`. The one exception: a reducer takes the shuffle's [`Values`].

mod capacity;
#[expect(clippy::disallowed_methods, reason = "the clock of the runtime")]
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
    reason = "measures what threads use in real time"
)]
mod lease;
mod options;
#[expect(clippy::disallowed_methods, reason = "creates the files of records")]
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
pub use job::input::{Checkpoint, Input, RecordSink, Split, VecInput};
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
