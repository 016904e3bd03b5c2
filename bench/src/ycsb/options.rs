//! The options of a run.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ebb_colocate::Latencies;
use ebb_storage::{Error, Result};

use super::pace::Pace;
use super::records::{VALUE_BYTES_DEFAULT, VALUE_BYTES_MIN};
use super::workload::{Distribution, Workload};

/// The options of a run. It ends with the first of `operations_max`, `duration` and `stop`. Without
/// any of these it continues until [`Driver::stop`](super::Driver::stop).
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The mix of operations.
    pub workload: Workload,
    /// The distribution of records, in place of the workload's own.
    pub distribution: Option<Distribution>,
    /// The number of threads. Default: 2.
    pub threads: usize,
    /// The moments at which operations start. Default: a closed loop.
    pub pace: Pace,
    /// The number of operations after which the run ends.
    pub operations_max: Option<u64>,
    /// The time after which the run ends.
    pub duration: Option<Duration>,
    /// A flag that ends the run.
    pub stop: Arc<AtomicBool>,
    /// Length of the values written, in bytes, at least
    /// [`VALUE_BYTES_MIN`]. Default: 1024.
    pub value_bytes: usize,
    /// Seed of the random choices of operations and records. A thread draws the same random numbers
    /// in each run with the same seed.
    pub seed: u64,
    /// An open loop's thread wakes up this long before an operation is due, and then spins until
    /// the operation is due. Default: 30 us, about the delay of a wake-up on an idle machine. Zero
    /// saves CPU time (a third on two cores), and operations then start late by the delay of the
    /// wake-up.
    pub spin: Duration,
    /// The number of operations of an open loop that are due at the same moment, such as those of
    /// one page of a front end. The rate stays the same. Default: 1.
    pub burst: u32,
    /// The moment from which latencies of an open loop count. Default: the time at which an
    /// operation was due.
    pub latency_from: LatencyFrom,
    /// Length of the intervals of the timeline. Default: 100 ms.
    pub interval: Duration,
    /// The ends of the sections (parts of an open loop's run that are reported separately) as times
    /// since the start of the run, ascending. Operations that are due after the last end are in no
    /// section. Default: none.
    pub section_ends: Vec<Duration>,
    /// Whether sections leave out operations of an open loop that were due while the machine
    /// paused. The run then keeps 16 bytes of memory for each operation until its end. Requires
    /// CAP_SYS_NICE; without that capability all operations count. Default: false.
    pub leave_out_pauses: bool,
    /// A recorder that also gets the latencies, for a latency guard, which limits analytics beside
    /// the load. Each latency counts from the moment that `latency_from` selects. Default: none.
    pub latencies: Option<Latencies>,
}

/// The moment from which a latency counts, if operations are due at a given rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LatencyFrom {
    /// The moment at which the operation was due: a stall counts for all operations whose start it
    /// delays.
    #[default]
    Due,
    /// The moment at which a thread started the operation, as in YCSB's own clients, for
    /// comparisons with their results. A stall counts once for each thread, and a rate that the
    /// store cannot serve shows only in the throughput.
    Start,
}

impl RunOptions {
    /// Returns the default options for a workload.
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
