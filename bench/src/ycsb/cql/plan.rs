//! Plan: the operations of a client, their pace and their duration.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::time::Duration;

use crate::ycsb::{Distribution, Interval, Pace, VALUE_BYTES_DEFAULT, Workload};

/// One run of a client. It ends with the first of `operations_max`, `duration` and `stop`, and a
/// load ends when all records are written.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The operations: a load or a workload.
    pub operations: Operations,
    /// The pace at which operations begin.
    pub pace: Pace,
    /// The interval at which an open loop sends the operations that are due and reads the
    /// responses. In between it sleeps, which saves wake-ups of client and server and makes
    /// latencies longer by up to twice the interval. With zero the client wakes up for each
    /// operation and response.
    pub tick: Duration,
    /// The most requests in flight on each connection, 1 to 1024.
    pub in_flight: usize,
    /// The number of operations after which the run ends.
    pub operations_max: Option<u64>,
    /// The time after which the run ends.
    pub duration: Option<Duration>,
    /// A flag that ends the run.
    pub stop: Arc<AtomicBool>,
    /// The latencies of operations that were due (in an open loop) or began (in a closed loop)
    /// within this time from the start are not counted.
    pub lead: Duration,
    /// If true, the latencies of operations that were due while the machine paused are not counted.
    /// Meant for an open loop of some seconds, because all operations are kept in memory until the
    /// end. Requires CAP_SYS_NICE; without that capability all latencies count.
    pub leave_out_pauses: bool,
    /// If true, the built-in client counts an operation that the server rejects for overload, and a
    /// load sends the operation again. If false, or with ScyllaDB's driver, such a response is an
    /// error.
    pub takes_refusals: bool,
    /// If true, the built-in client counts an operation that the server gives up after its timeout
    /// for requests, with the latency until then. If false, or with ScyllaDB's driver, such a
    /// response is an error. Not for loads.
    pub takes_timeouts: bool,
    /// Length of the values written, in bytes.
    pub value_bytes: usize,
    /// The length of the intervals for which a run reports its measurements while it goes on, and
    /// the channel to which each interval is sent at its end. Only for the built-in client with one
    /// thread.
    pub intervals: Option<(Duration, Sender<Interval>)>,
    /// Seed of the random choices of operations and records. A thread draws the same random numbers
    /// in each run with the same seed.
    pub seed: u64,
    /// Whether the client's threads run in the kernel's idle class.
    pub idle_class: bool,
}

/// The operations of a run.
#[derive(Debug, Clone)]
pub(crate) enum Operations {
    /// Writes each of these records once.
    Load(Range<u64>),
    /// The operations of a workload. The distribution of records, if given, replaces the workload's
    /// own.
    Run(Workload, Option<Distribution>),
}

impl Plan {
    /// Creates the plan of a closed loop without an end, with one request under way on each
    /// connection.
    pub(crate) fn new(operations: Operations) -> Self {
        Self {
            operations,
            pace: Pace::Closed,
            tick: Duration::ZERO,
            in_flight: 1,
            operations_max: None,
            duration: None,
            stop: Arc::default(),
            lead: Duration::ZERO,
            leave_out_pauses: false,
            takes_refusals: false,
            takes_timeouts: false,
            value_bytes: VALUE_BYTES_DEFAULT,
            intervals: None,
            seed: 0,
            idle_class: false,
        }
    }

    /// Creates the plan of a load of records, with several requests under way on each connection.
    pub(crate) fn load(numbers: Range<u64>) -> Self {
        Self {
            in_flight: 8,
            ..Self::new(Operations::Load(numbers))
        }
    }
}
