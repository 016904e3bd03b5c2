//! The counts and latencies of a client.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;

use super::plan::Plan;
use crate::ycsb::latencies::{DIGITS, Latencies, histogram};
use crate::ycsb::{HIDDEN_MAX, Operation, Pauses};

/// Counts and latencies of a run, of one thread or of all.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    /// Latencies after the plan's lead, the time at the start that does not count, in nanoseconds,
    /// by the position in [`Operation::ALL`].
    pub nanos: [Histogram<u64>; Operation::ALL.len()],
    /// Delays of operations of an open loop, from the time at which each was due until the built-in
    /// client began it, in nanoseconds. Operations in the plan's lead, the time at the start that
    /// does not count, are left out; those during pauses of the machine are included.
    pub late_nanos: Histogram<u64>,
    /// All operations after the plan's lead (the time at the start that does not count), kept until
    /// it is known which of them were due while the machine paused. Empty if the plan does not
    /// leave such operations out.
    pub timed: Vec<TimedOperation>,
    /// The part of the run that pauses of the machine hide, after the plan's lead (the time at the
    /// start that does not count): the pauses, and the estimated time until their backlog was
    /// worked off. `None` if pauses were not observed.
    pub paused: Option<Duration>,
    /// The number of operations that were completed, also those within the plan's lead, the time at
    /// the start whose latencies do not count.
    pub operations: u64,
    /// The number of operations of an open loop that were due and never began.
    pub unserved: u64,
    /// The number of times that the server rejected an operation for overload, each retry of a load
    /// included. Rejections during the plan's lead, the time at the start that does not count, are
    /// left out.
    pub refused: u64,
    /// The number of operations that the server gave up after its timeout for requests, also those
    /// within the plan's lead, the time at the start whose latencies do not count. `operations` does
    /// not include them, but the latencies do.
    pub timed_out: u64,
    /// The number of wrong values: with a damaged stamp, of another record, or newer than the
    /// snapshot from which they were read.
    pub mismatches: u64,
    /// The number of reads that found no record, and of scans that did not find their first record,
    /// although the record exists.
    pub not_found: u64,
    pub records_scanned: u64,
    /// The time from the start of the run to the end of the last operation.
    pub elapsed: Duration,
    /// CPU time of the client's threads.
    pub cpu: Duration,
}

/// A completed operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimedOperation {
    pub operation: Operation,
    pub due: Instant,
    pub nanos: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            nanos: std::array::from_fn(|_| histogram(DIGITS)),
            late_nanos: histogram(DIGITS),
            timed: Vec::new(),
            paused: None,
            operations: 0,
            unserved: 0,
            refused: 0,
            timed_out: 0,
            mismatches: 0,
            not_found: 0,
            records_scanned: 0,
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
        }
    }
}

impl Tally {
    /// Adds the counts and latencies of another thread of the same run; `elapsed` becomes the
    /// longer of the two.
    pub(super) fn add(&mut self, more: &Self) {
        for (sum, part) in self.nanos.iter_mut().zip(&more.nanos) {
            sum.add(part).expect("all have the same bounds");
        }
        (self.late_nanos.add(&more.late_nanos)).expect("all have the same bounds");
        self.timed.extend_from_slice(&more.timed);
        self.operations += more.operations;
        self.unserved += more.unserved;
        self.refused += more.refused;
        self.timed_out += more.timed_out;
        self.mismatches += more.mismatches;
        self.not_found += more.not_found;
        self.records_scanned += more.records_scanned;
        self.elapsed = self.elapsed.max(more.elapsed);
        self.cpu += more.cpu;
    }

    /// Records the latency of an operation. If the plan leaves out operations that were due while
    /// the machine paused, keeps the operation until the pauses are known.
    pub(super) fn enter(&mut self, plan: &Plan, timed: TimedOperation) {
        if plan.leave_out_pauses {
            self.timed.push(timed)
        } else {
            self.nanos[timed.operation.index()].saturating_record(timed.nanos)
        }
    }

    /// Records the latencies of the operations in `timed`, except for operations that were due
    /// while the machine paused. If pauses hide most of the time between `from` and `until`, or
    /// `pauses` is `None`, records all of them. Also sets `paused`, for the time between `from` and
    /// `until`.
    pub(super) fn leave_out(&mut self, pauses: Option<&Pauses>, from: Instant, until: Instant) {
        let leaves_out = pauses.filter(|pauses| !pauses.hide_most(from, until));
        for timed in std::mem::take(&mut self.timed) {
            if !leaves_out.is_some_and(|pauses| pauses.hide(timed.due)) {
                self.nanos[timed.operation.index()].saturating_record(timed.nanos);
            }
        }
        self.paused = pauses.map(|pauses| pauses.hidden(from, until));
    }

    /// Returns an error if a read returned a wrong value, or none for an existing record.
    pub(crate) fn check_values(&self) -> Result<()> {
        let wrong = self.mismatches + self.not_found;
        ensure!(wrong == 0, "{wrong} values were wrong or missing");
        Ok(())
    }

    /// Returns whether the machine paused for most of the time that `plan` measures, which is its
    /// duration without its lead. Then the measurement is not representative. False if pauses were
    /// not observed, or the plan has no duration.
    pub(crate) fn is_mostly_paused(&self, plan: &Plan) -> bool {
        let counted = plan.duration.map(|all| all.saturating_sub(plan.lead));
        (self.paused.zip(counted))
            .is_some_and(|(paused, counted)| paused > counted.mul_f64(HIDDEN_MAX))
    }

    pub(crate) fn throughput_ops_per_s(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns the latencies of all operations together.
    pub(crate) fn all(&self) -> Histogram<u64> {
        let mut all = histogram(DIGITS);
        for nanos in &self.nanos {
            all.add(nanos).expect("all have the same bounds");
        }
        all
    }

    /// Returns the latencies of one kind of operation, if it occurred.
    pub(crate) fn of(&self, operation: Operation) -> Option<Latencies> {
        let nanos = &self.nanos[operation.index()];
        (!nanos.is_empty()).then(|| Latencies::from(nanos))
    }
}
