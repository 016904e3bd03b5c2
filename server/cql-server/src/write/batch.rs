//! BEGIN BATCH ... APPLY BATCH, and what holds for batches of either form.

use std::sync::Arc;

use ebb_cql::protocol;
use ebb_cql::syntax::ast::{Batch, BatchKind, QualifiedName};
use ebb_tables::CqlTable;

use super::execution::Execution;
use super::plan::{WritePlan, prepare};
use super::statement::table_of;
use super::using::Using;
use crate::analyse::markers::{Bound, Markers};
use crate::error::{Result, invalid};

/// What a statement in a batch is told that does not write rows.
pub const NOT_A_WRITE: &str =
    "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.";

/// A batch as one statement: ready to be executed any number of times.
#[derive(Debug)]
pub(super) struct BatchPlan {
    using: Using,
    writes: Vec<WritePlan>,
}

impl BatchPlan {
    /// The plan of a batch; `table` finds the table of a statement. `markers` is there if
    /// there is a statement.
    ///
    /// # Errors
    /// In Cassandra's words, where a statement does not fit its table, or not into a
    /// batch; what `table` says.
    pub(super) fn prepare(
        batch: &Batch,
        mut table: impl FnMut(&QualifiedName) -> Result<Arc<CqlTable>>,
        markers: Option<&mut Markers>,
    ) -> Result<Self> {
        if batch.kind == BatchKind::Counter {
            return invalid(COUNTERS);
        }
        if batch.using.ttl.is_some() {
            return invalid("Global TTL on the BATCH statement is not supported.");
        }
        // Without statements there is nothing to write at a timestamp.
        let Some(markers) = markers else {
            return Ok(Self {
                using: Using::default(),
                writes: Vec::new(),
            });
        };
        let mut writes = Vec::with_capacity(batch.writes.len());
        for write in &batch.writes {
            writes.push(prepare(write, &table(table_of(write))?, markers)?);
        }
        if batch.using.timestamp.is_some() && writes.iter().any(WritePlan::has_timestamp) {
            return invalid("Timestamp must be set either on BATCH or individual statements");
        }
        Ok(Self {
            using: Using::prepare(&batch.using, markers)?,
            writes,
        })
    }

    /// Its statements.
    pub(super) fn writes(&self) -> &[WritePlan] {
        &self.writes
    }

    /// Gathers what it writes. `timestamp_us` and `now_us` are as for [`Execution::of_batch`].
    ///
    /// # Errors
    /// As [`Execution::of_batch`] and [`Execution::add`].
    pub(super) fn execute(&self, timestamp_us: i64, bound: &Bound<'_>) -> Result<Execution> {
        let own_us = self.using.timestamp_us(bound)?;
        let mut execution = Execution::of_batch(timestamp_us, own_us, bound.now_us)?;
        for write in &self.writes {
            execution.add(write, bound)?;
        }
        Ok(execution)
    }
}

/// Holds the kind of a batch of the protocol to what is served.
///
/// # Errors
/// For counters.
pub(super) fn check_kind(kind: protocol::BatchKind) -> Result<()> {
    match kind {
        protocol::BatchKind::Counter => invalid(COUNTERS),
        _ => Ok(()),
    }
}

const COUNTERS: &str = "Batches of counters are not supported yet";
