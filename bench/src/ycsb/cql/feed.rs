//! Feed: generates the operations of a client, as steps that are sent to a server.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::plan::Operations;
use super::records::{Records, Step};
use super::run::Shared;
use crate::ycsb::{Chooser, Distribution, Operation, Stamp, Workload};

/// The most records of a scan.
const SCAN_RECORDS_MAX: u32 = 100;

/// Generates the operations of one thread.
pub(super) struct Feed<'a> {
    records: &'a Records,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Load { next: &'a AtomicU64, end: u64 },
    Run(Box<Mix>),
}

struct Mix {
    workload: Workload,
    rng: ChaCha8Rng,
    read: Chooser,
    update: Chooser,
}

impl<'a> Feed<'a> {
    /// Creates the source of operations for the client's thread with this index.
    pub(super) fn new(shared: &'a Shared<'_>, index: usize) -> Self {
        let (plan, records) = (shared.plan, shared.records);
        let kind = match &plan.operations {
            Operations::Load(numbers) => Kind::Load {
                next: &shared.next_load,
                end: numbers.end,
            },
            Operations::Run(workload, distribution) => {
                let mut rng = ChaCha8Rng::seed_from_u64(plan.seed);
                rng.set_stream(index as u64);
                let distribution: Distribution = distribution.unwrap_or(workload.distribution);
                Kind::Run(Box::new(Mix {
                    workload: *workload,
                    rng,
                    read: Chooser::new(distribution, records.readable()),
                    update: Chooser::new(distribution, records.inserts.records()),
                }))
            }
        };
        Self { records, kind }
    }

    /// Returns the next operation and its first request; `None` at the end of a load. Only a
    /// read-modify-write has a second request, which [`Records::write`] creates.
    pub(super) fn next(&mut self) -> Option<(Operation, Step)> {
        let records = self.records;
        match &mut self.kind {
            Kind::Load { next, end } => {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let stamp = Stamp { number, version: 0 };
                (number < *end).then_some((Operation::Insert, Step::Write { stamp }))
            }
            Kind::Run(mix) => Some(mix.next(records)),
        }
    }
}

impl Mix {
    fn next(&mut self, records: &Records) -> (Operation, Step) {
        let operation = self.workload.operation(self.rng.random_range(0..100));
        let step = match operation {
            Operation::Read | Operation::ReadModifyWrite => Step::Read {
                number: self.read.choose(records.readable(), &mut self.rng),
            },
            Operation::Update => {
                let there_are = records.inserts.records();
                records.write(self.update.choose(there_are, &mut self.rng))
            }
            Operation::Insert => records.write(records.inserts.reserve()),
            Operation::Scan => Step::Scan {
                number: self.read.choose(records.readable(), &mut self.rng),
                records: self.rng.random_range(1..=SCAN_RECORDS_MAX),
            },
        };
        (operation, step)
    }
}
