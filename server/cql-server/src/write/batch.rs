//! BEGIN BATCH ... APPLY BATCH, and the rules for both forms of batches.

use std::sync::Arc;

use ebb_cql::protocol::{BatchKind, WriteType};
use ebb_cql::syntax::ast::{self, Batch, QualifiedName};
use ebb_tables::CqlTable;

use super::plan::WritePlan;
use super::prepare::{JsonPlans, prepare, table_of};
use super::using::Using;
use crate::analyse::markers::{Bound, Markers};
use crate::error::{Result, invalid};

/// The error for a statement in a batch that is no write of rows.
pub const NOT_A_WRITE: &str =
    "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.";

/// The options of a batch, which apply to all its statements.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchTerms {
    pub(super) kind: BatchKind,
    /// The timestamp in USING TIMESTAMP of the batch, in microseconds.
    pub(super) timestamp_us: Option<i64>,
}

/// The plan of a batch in the form of one statement (BEGIN BATCH ... APPLY BATCH). It can be
/// executed any number of times.
#[derive(Debug)]
pub(super) struct BatchPlan {
    kind: BatchKind,
    using: Using,
    writes: Vec<WritePlan>,
}

impl BatchPlan {
    /// Plans a batch. `table` returns the table that a statement writes to. `markers` is `None`
    /// only for an empty batch. `json_plans` has the plans of the request's earlier INSERT JSON
    /// statements.
    pub(super) fn prepare(
        batch: &Batch,
        mut table: impl FnMut(&QualifiedName) -> Result<Arc<CqlTable>>,
        markers: Option<&mut Markers>,
        json_plans: &mut JsonPlans,
    ) -> Result<Self> {
        if batch.using.ttl.is_some() {
            return invalid("Global TTL on the BATCH statement is not supported.");
        }
        let kind = match batch.kind {
            ast::BatchKind::Logged => BatchKind::Logged,
            ast::BatchKind::Unlogged => BatchKind::Unlogged,
            ast::BatchKind::Counter => BatchKind::Counter,
        };
        // An empty batch writes nothing, so its timestamp does not matter.
        let Some(markers) = markers else {
            return Ok(Self {
                kind,
                using: Using::default(),
                writes: Vec::new(),
            });
        };
        let mut writes = Vec::with_capacity(batch.writes.len());
        for write in &batch.writes {
            let table = table(table_of(write))?;
            writes.push(prepare(write, &table, json_plans, markers)?);
        }
        let plans: Vec<&WritePlan> = writes.iter().collect();
        check(kind, batch.using.timestamp.is_some(), &plans)?;
        Ok(Self {
            kind,
            using: Using::prepare(&batch.using, markers)?,
            writes,
        })
    }

    pub(super) fn kind(&self) -> BatchKind {
        self.kind
    }

    /// Returns the write type for errors, according to the kind of the batch. The caller must have
    /// checked that no statement has a condition or writes counters: those batches have other write
    /// types.
    pub(super) fn write_type(&self) -> WriteType {
        write_type_of(self.kind)
    }

    pub(super) fn writes(&self) -> &[WritePlan] {
        &self.writes
    }

    pub(super) fn timestamp_us(&self, bound: &Bound<'_>) -> Result<Option<i64>> {
        self.using.timestamp_us(bound)
    }
}

/// Returns the write type for errors of a batch of this kind. Batches with conditions or counters
/// have other write types, which the caller selects.
pub fn write_type_of(kind: BatchKind) -> WriteType {
    match kind {
        BatchKind::Logged => WriteType::Batch,
        BatchKind::Unlogged => WriteType::UnloggedBatch,
        BatchKind::Counter => WriteType::Counter,
    }
}

/// Checks that the statements may be in one batch. `has_timestamp` is true if the batch itself has
/// a timestamp.
pub(super) fn check(kind: BatchKind, has_timestamp: bool, writes: &[&WritePlan]) -> Result<()> {
    let is_conditional = writes.iter().any(|write| write.conditions.is_some());
    if has_timestamp && is_conditional {
        return invalid("Cannot provide custom timestamp for conditional BATCH");
    }
    if has_timestamp && kind == BatchKind::Counter {
        return invalid("Cannot provide custom timestamp for counter BATCH");
    }
    if has_timestamp && writes.iter().any(|write| write.has_timestamp()) {
        return invalid("Timestamp must be set either on BATCH or individual statements");
    }
    let counts = writes.iter().any(|write| write.counts());
    let only_counts = writes.iter().all(|write| write.counts());
    match kind {
        _ if has_timestamp && counts => {
            return invalid("Cannot provide custom timestamp for a BATCH containing counters");
        }
        BatchKind::Counter if !only_counts => {
            return invalid("Cannot include non-counter statement in a counter batch");
        }
        _ if counts && !only_counts => {
            return invalid("Counter and non-counter mutations cannot exist in the same batch");
        }
        BatchKind::Logged if counts => {
            return invalid("Cannot include a counter statement in a logged batch");
        }
        _ => {}
    }
    let Some((first, rest)) = writes.split_first() else {
        return Ok(());
    };
    let is_of_other = |write: &&WritePlan| full_name(write) != full_name(first);
    if is_conditional && rest.iter().any(is_of_other) {
        invalid("Batch with conditions cannot span multiple tables")
    } else {
        Ok(())
    }
}

/// Returns the keyspace and the name of the table that a statement writes to. Tables are compared
/// by both, because in databases of earlier versions several tables may have one id.
fn full_name(write: &WritePlan) -> (&str, &str) {
    let schema = write.table.schema();
    (schema.keyspace(), schema.name())
}
