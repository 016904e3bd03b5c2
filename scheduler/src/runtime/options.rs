//! The options of a runtime.

use super::capacity::{CapacitySource, FixedCapacity};
use super::error::{RuntimeError, TaskError};
use super::owner_only;
use super::spill_space::SpillSpace;
use crate::policy::{self, Policy};
use ebb_threads::YIELD_EVERY;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The least memory that a task can work with, in bytes.
pub const TASK_MEMORY_BYTES_MIN: usize = 16 << 10;

/// The mode of a runtime: with or without limits on analytics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Management {
    /// The policy divides the capacity among the jobs, and each job is held to its share. Tasks run
    /// under `SCHED_IDLE`. [`Throttles`] can turn some of these limits off.
    Managed,
    /// The baseline to compare with: tasks have normal priority and are not paced. As many run at
    /// once as there are cores, round-robin over the jobs.
    Unmanaged,
}

/// The limits on managed analytics. All are on, except in experiments that measure the effect of
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttles {
    /// True if task threads run under `SCHED_IDLE`, each tied to a core. If false, they are
    /// ordinary threads.
    pub idle_class: bool,
    /// True if a job's tasks are paced to its share. If false, they use all CPU that they get; the
    /// share still limits how many run at once.
    pub cpu_pacing: bool,
    /// Wall time after which a task under `SCHED_IDLE` (or nice 19), or on the
    /// [floor](super::Capacity::is_on_floor) with short time slices, offers its core to other
    /// threads, because a thread that wakes up does not always displace the task. `None` for never.
    /// Tasks in processes of their own always do so, after [`YIELD_EVERY`].
    pub yield_every: Option<Duration>,
}

impl Default for Throttles {
    /// Returns all throttles: idle class, pacing and yielding.
    fn default() -> Self {
        Self {
            idle_class: true,
            cpu_pacing: true,
            yield_every: Some(YIELD_EVERY),
        }
    }
}

/// The options of a [`Runtime`](super::Runtime).
#[derive(Clone)]
pub struct RuntimeOptions {
    /// The number of cores of the machine, at least 1; capacity beyond them is ignored.
    pub cores: u32,
    /// The policy that divides the capacity among jobs.
    pub policy: Arc<dyn Policy>,
    /// Length of a control cycle in seconds; positive, at most an hour.
    pub cycle_s: f64,
    /// The margin by which jobs are planned to end before their goals, as a fraction of the time
    /// from submission to goal, 0 to 0.5. It applies only under a policy that [finishes jobs just
    /// in time](Policy::finishes_just_in_time), and leaves time for delays that no plan can
    /// foresee: longer tasks, tails, displaced threads.
    pub goal_margin: f64,
    /// Size of a slot in hundredths of a core, 1 to 100.
    pub slot_share_hundredths: u32,
    /// The source of the capacity of analytics.
    pub capacity: Arc<dyn CapacitySource>,
    /// Whether jobs are limited to the capacity of analytics.
    pub management: Management,
    /// The limits that hold jobs to the capacity. They have no effect if `management` is
    /// [`Unmanaged`](Management::Unmanaged).
    pub throttles: Throttles,
    /// The directory for spill files. The runtime creates it when absent, and gives only the user of
    /// the process permissions on what it creates.
    pub spill_dir: PathBuf,
    /// The space that spills may take. Tasks in processes of their own leave the same reserve, but
    /// always use the free space that the operating system reports.
    pub spill_space: SpillSpace,
    /// Returns whether a full disk, or an exceeded quota, is the cause of an error that fails a job:
    /// [`JobReport::disk_full`](super::JobReport::disk_full) is its result. The default,
    /// [`TaskError::is_disk_full`], finds the I/O errors. Replace it if inputs or outputs return other
    /// errors of a full disk, such as those of a store.
    pub is_disk_full: fn(&TaskError) -> bool,
    /// The time without a record or checkpoint after which an attempt is given up, in seconds;
    /// positive. Time in which its job may not use CPU does not count.
    pub stall_s: f64,
    /// True if a slow task gets a second attempt where capacity is left.
    pub speculation: bool,
    /// The number of the latest ended jobs whose status is kept. Older ones are no longer listed,
    /// and no new job can be submitted to follow them.
    pub ended_jobs_max: usize,
    /// Memory for a task's records, in bytes; at least [`TASK_MEMORY_BYTES_MIN`]. No record that a
    /// map emits for reduces may be larger than a tenth of it.
    pub task_memory_bytes: usize,
    /// Memory for the records of all tasks of all jobs together, in bytes; at least
    /// `task_memory_bytes`. `None` for no limit. An attempt reserves a task's memory from its start
    /// until its thread is done with it, even if it was given up long before; an attempt that finds
    /// no memory waits. The capacity source can lower this limit. If memory is short, attempts are
    /// preempted, those of jobs without a share first.
    pub memory_bytes: Option<u64>,
}

impl RuntimeOptions {
    /// Returns options for a managed runtime with `cores` cores, all of them for analytics, under
    /// the [default policy](policy::DEFAULT): a cycle of 250 ms, goals planned 5% earlier under a
    /// just-in-time policy, slots of a tenth of a core, 16 MiB for each task that runs, spills in
    /// the system's temporary directory, attempts given up after ten minutes without progress,
    /// speculation, and a thousand ended jobs kept.
    #[must_use]
    pub fn new(cores: u32) -> Self {
        Self {
            cores,
            policy: policy::default(),
            cycle_s: 0.25,
            goal_margin: 0.05,
            slot_share_hundredths: 10,
            capacity: Arc::new(FixedCapacity::new(cores.saturating_mul(100))),
            management: Management::Managed,
            throttles: Throttles::default(),
            spill_dir: std::env::temp_dir(),
            spill_space: SpillSpace::default(),
            is_disk_full: TaskError::is_disk_full,
            stall_s: 600.0,
            speculation: true,
            ended_jobs_max: 1000,
            task_memory_bytes: 16 << 20,
            memory_bytes: None,
        }
    }

    /// Returns the [`goal_margin`](Self::goal_margin) that applies under the policy: 0 unless it
    /// finishes jobs just in time.
    #[must_use]
    pub fn planned_margin(&self) -> f64 {
        if self.policy.finishes_just_in_time() {
            self.goal_margin
        } else {
            0.0
        }
    }

    /// Returns whether task threads run in a low class: under `SCHED_IDLE`, or at a high nice value
    /// while other processes keep the cores busy. If false, they are ordinary threads.
    pub(super) fn lowers_tasks(&self) -> bool {
        self.management == Management::Managed && self.throttles.idle_class
    }

    /// Returns whether tasks wait for their job's share.
    pub(super) fn paces_cpu(&self) -> bool {
        self.management == Management::Managed && self.throttles.cpu_pacing
    }

    pub(super) fn check(&self) -> Result<(), RuntimeError> {
        let bad = |option, range, value| {
            Err(RuntimeError::Option {
                option,
                range,
                value,
            })
        };
        if self.cores == 0 {
            return bad("cores", "at least 1", 0.0);
        }
        if !(self.cycle_s > 0.0 && self.cycle_s <= 3600.0) {
            return bad("cycle_s", "positive and at most 3600", self.cycle_s);
        }
        if !(0.0..=0.5).contains(&self.goal_margin) {
            return bad("goal_margin", "0 to 0.5", self.goal_margin);
        }
        if !(1..=100).contains(&self.slot_share_hundredths) {
            return bad(
                "slot_share_hundredths",
                "1 to 100",
                f64::from(self.slot_share_hundredths),
            );
        }
        if self.stall_s.is_nan() || self.stall_s <= 0.0 {
            return bad("stall_s", "positive", self.stall_s);
        }
        if self.task_memory_bytes < TASK_MEMORY_BYTES_MIN {
            return bad(
                "task_memory_bytes",
                "at least 16384",
                self.task_memory_bytes as f64,
            );
        }
        if let Some(memory_bytes) = self.memory_bytes
            && memory_bytes < self.task_memory_bytes as u64
        {
            return bad(
                "memory_bytes",
                "at least task_memory_bytes",
                memory_bytes as f64,
            );
        }
        owner_only::create_dir_all(&self.spill_dir).map_err(|source| RuntimeError::SpillDir {
            path: self.spill_dir.clone(),
            source,
        })
    }
}
