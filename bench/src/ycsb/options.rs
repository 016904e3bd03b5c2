//! How a run is set up.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ebb_colocate::Latencies;
use ebb_storage::{Error, Result};

use super::pace::Pace;
use super::records::{VALUE_BYTES_DEFAULT, VALUE_BYTES_MIN};
use super::workload::{Distribution, Workload};

/// How to run. A run ends with the first of `operations_max`, `duration` and
/// `stop`; without any it goes on until [`Driver::stop`](super::Driver::stop).
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Which operations.
    pub workload: Workload,
    /// How records are chosen, when not as the workload says.
    pub distribution: Option<Distribution>,
    /// Threads that do them. Default: 2.
    pub threads: usize,
    /// When they start. Default: a closed loop.
    pub pace: Pace,
    /// Ends the run after this many operations.
    pub operations_max: Option<u64>,
    /// Ends the run after this time.
    pub duration: Option<Duration>,
    /// Ends the run when it becomes true.
    pub stop: Arc<AtomicBool>,
    /// Length of the values written, in bytes, at least
    /// [`VALUE_BYTES_MIN`]. Default: 1024.
    pub value_bytes: usize,
    /// The same seed chooses the same operations and records in each thread.
    pub seed: u64,
    /// A thread of an open loop wakes up this long before its next operation is
    /// due, and spins until then. Default: 30 us, about as late as a wake-up
    /// comes on an idle machine. Zero costs less processor time (a third less on
    /// two cores), and each operation then starts as late as its wake-up comes.
    pub spin: Duration,
    /// Operations of an open loop that are due at the same moment, as those of
    /// one page that a front end builds. The rate stays as it is. Default: 1.
    pub burst: u32,
    /// From when the latencies of an open loop count. Default: from when an
    /// operation was due.
    pub latency_from: LatencyFrom,
    /// Length of the intervals of the timeline. Default: 100 ms.
    pub interval: Duration,
    /// Ends of the sections that the report of an open loop has, ascending, from the
    /// run's beginning on. Default: none.
    pub section_ends: Vec<Duration>,
    /// Operations of an open loop that were due while the machine paused are in no section,
    /// where the system lets sentinels stand (CAP_SYS_NICE). Each operation takes 16 bytes
    /// until the end. Default: false.
    pub leave_out_pauses: bool,
    /// Latencies are entered here too, from the moment at which operations were due: for a
    /// guard. Default: nowhere.
    pub latencies: Option<Latencies>,
}

/// From when a latency counts, where operations are due at a given rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LatencyFrom {
    /// The moment at which the operation was due: a stall counts for all that it
    /// keeps from starting.
    #[default]
    Due,
    /// The moment at which a thread started it, as YCSB's own clients count. A
    /// stall counts once for each thread, and a rate beyond what the store can
    /// take shows in the throughput only. For figures that are compared with
    /// such ones.
    Start,
}

impl RunOptions {
    /// The defaults for a workload.
    pub fn new(workload: Workload) -> Self {
        Self {
            workload,
            distribution: None,
            threads: 2,
            pace: Pace::Closed,
            operations_max: None,
            duration: None,
            stop: Arc::default(),
            value_bytes: VALUE_BYTES_DEFAULT,
            seed: 0,
            spin: Duration::from_micros(30),
            burst: 1,
            latency_from: LatencyFrom::default(),
            interval: Duration::from_millis(100),
            section_ends: Vec::new(),
            leave_out_pauses: false,
            latencies: None,
        }
    }

    pub(super) fn validate(&self) -> Result<()> {
        let wrong = if self.threads == 0 {
            "a run needs at least one thread".to_string()
        } else if self.value_bytes < VALUE_BYTES_MIN {
            format!(
                "values of {} bytes: at least {VALUE_BYTES_MIN}",
                self.value_bytes
            )
        } else if self.burst == 0 {
            "a burst of no operations".to_string()
        } else if self.interval.is_zero() {
            "the intervals of the timeline have no length".to_string()
        } else if !self.section_ends.is_sorted() {
            "the ends of sections are not in order".to_string()
        } else {
            return Ok(());
        };
        Err(Error::InvalidRequest(wrong))
    }
}
