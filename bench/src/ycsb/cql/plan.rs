//! Plan: what a client does, how fast, and for how long.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::ycsb::{Distribution, VALUE_BYTES_DEFAULT, Workload};

/// One run of a client. It ends with the first of `operations_max`, `duration` and
/// `stop`, and a load when all is written.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Which operations.
    pub operations: Operations,
    /// The rate of an open loop, in operations per second; a closed loop without.
    pub rate_ops_per_s: Option<f64>,
    /// An open loop looks this often for what is due and what was answered, and sleeps in
    /// between: fewer wake-ups, of client and server, for latencies that are longer by up
    /// to twice this. Zero: whenever there is something.
    pub tick: Duration,
    /// Requests that each connection has under way at most, 1 to 1024.
    pub in_flight: usize,
    /// Ends the run after so many operations.
    pub operations_max: Option<u64>,
    /// Ends the run after so long.
    pub duration: Option<Duration>,
    /// Ends the run when it becomes true.
    pub stop: Arc<AtomicBool>,
    /// What began, or was due, before so long is in no latency.
    pub lead: Duration,
    /// What was due while the machine paused is in no latency, where the system lets
    /// sentinels stand (CAP_SYS_NICE); of an open loop of some seconds.
    pub leave_out_pauses: bool,
    /// An open loop counts what the server refuses because it is overloaded; else that is an error.
    pub takes_refusals: bool,
    /// Length of the values written, in bytes.
    pub value_bytes: usize,
    /// Chooses the same operations in each thread.
    pub seed: u64,
    /// The client's threads run in the kernel's idle class.
    pub idle_class: bool,
}

/// Which operations.
#[derive(Debug, Clone)]
pub(crate) enum Operations {
    /// Writes each of these records once.
    Load(Range<u64>),
    /// Those of a workload, with records as it chooses them, or otherwise.
    Run(Workload, Option<Distribution>),
}

impl Plan {
    /// A closed loop without an end, with one request under way on each connection.
    pub(crate) fn new(operations: Operations) -> Self {
        Self {
            operations,
            rate_ops_per_s: None,
            tick: Duration::ZERO,
            in_flight: 1,
            operations_max: None,
            duration: None,
            stop: Arc::default(),
            lead: Duration::ZERO,
            leave_out_pauses: false,
            takes_refusals: false,
            value_bytes: VALUE_BYTES_DEFAULT,
            seed: 0,
            idle_class: false,
        }
    }
}
