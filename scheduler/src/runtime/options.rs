//! How a runtime is set up.

use super::capacity::{CapacitySource, FixedCapacity};
use super::error::RuntimeError;
use super::owner_only;
use super::spill_space::SpillSpace;
use crate::policy::{self, Policy};
use ebb_threads::YIELD_EVERY;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The least memory a task can work with, in bytes.
pub const TASK_MEMORY_BYTES_MIN: usize = 16 << 10;

/// Whether analytics are held to what the transactional load leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Management {
    /// Shares by policy, enforced by pacing, under `SCHED_IDLE`.
    Managed,
    /// The baseline to compare with: normal priority, no pacing; as many tasks
    /// at once as there are cores, round-robin over the jobs.
    Unmanaged,
}

/// What holds managed analytics back: all of it, unless somebody wants to see
/// what a part is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttles {
    /// Task threads run under `SCHED_IDLE`, each tied to a core. Without, they
    /// are threads as any other.
    pub idle_class: bool,
    /// A job's tasks are paced to its share. Without, they use what they can
    /// get, as many at once as the share lets run.
    pub cpu_pacing: bool,
    /// Wall time after which a task under `SCHED_IDLE` (or nice 19) offers its core to other
    /// threads: a thread that wakes up does not always displace it. `None`: never. Tasks in
    /// processes of their own always do, after [`YIELD_EVERY`].
    pub yield_every: Option<Duration>,
}

impl Default for Throttles {
    /// All of them.
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
    /// Cores of the machine; capacity beyond them is ignored. At least 1.
    pub cores: u32,
    /// Who gets what.
    pub policy: Arc<dyn Policy>,
    /// Length of a control cycle in seconds; positive, at most an hour.
    pub cycle_s: f64,
    /// Goals are planned earlier by this part of the time from submission to
    /// goal, 0 to 0.5, under a policy that
    /// [finishes jobs just in time](Policy::finishes_just_in_time): what it cannot
    /// know (task lengths, tails, displaced threads) has to fit in here.
    pub goal_margin: f64,
    /// Size of a slot in hundredths of a core, 1 to 100.
    pub slot_share_hundredths: u32,
    /// What analytics may use.
    pub capacity: Arc<dyn CapacitySource>,
    /// Whether they are held to it.
    pub management: Management,
    /// By what, when they are.
    pub throttles: Throttles,
    /// The directory for spill files. The runtime creates it when absent, and gives only the user of
    /// the process permissions on what it creates.
    pub spill_dir: PathBuf,
    /// The space that spills may take. Tasks in processes of their own always ask the operating
    /// system.
    pub spill_space: SpillSpace,
    /// An attempt that neither handles a record nor comes to a checkpoint for this
    /// long, in seconds, is given up; positive. Only time in which its job may use
    /// CPU counts.
    pub stall_s: f64,
    /// Whether a slow task gets a second attempt where capacity is left.
    pub speculation: bool,
    /// Jobs that are remembered once they have ended: the latest. The others are listed no
    /// more, and nothing can be submitted to come after them.
    pub ended_jobs_max: usize,
    /// Memory for a task's records, in bytes; at least [`TASK_MEMORY_BYTES_MIN`].
    /// A tenth of it bounds the records that maps emit for reduces.
    pub task_memory_bytes: usize,
    /// Memory for the records of all tasks of all jobs together, in bytes; at least
    /// `task_memory_bytes`. `None`: as many tasks as run. An attempt reserves a
    /// task's memory from its start until its thread is through with it, however
    /// long ago it was given up; one that finds none waits. The capacity source can
    /// say that there is less. Where it is short, attempts of jobs without a share
    /// give theirs up.
    pub memory_bytes: Option<u64>,
}

impl RuntimeOptions {
    /// All of `cores` cores under the [default policy](policy::DEFAULT): a cycle of 250
    /// ms, goals planned 5% earlier where the policy wants that, slots of a tenth of a core, 16 MiB for each
    /// task that runs, spills in the system's temporary directory, attempts given up after
    /// ten minutes without progress, speculation, a thousand ended jobs remembered.
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
            stall_s: 600.0,
            speculation: true,
            ended_jobs_max: 1000,
            task_memory_bytes: 16 << 20,
            memory_bytes: None,
        }
    }

    /// By how much goals are planned earlier under the policy, as
    /// [`goal_margin`](Self::goal_margin).
    #[must_use]
    pub fn planned_margin(&self) -> f64 {
        match self.policy.finishes_just_in_time() {
            true => self.goal_margin,
            false => 0.0,
        }
    }

    /// Whether task threads are to run under `SCHED_IDLE`.
    pub(super) fn lowers_tasks(&self) -> bool {
        self.management == Management::Managed && self.throttles.idle_class
    }

    /// Whether tasks wait for their job's share.
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
