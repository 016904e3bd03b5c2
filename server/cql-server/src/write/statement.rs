//! One statement of a client that writes: a single write, or a batch in one text.

use std::sync::Arc;

use ebb_cql::protocol::{self, Columns, Values};
use ebb_cql::syntax::ast::{Parsed, QualifiedName, Statement, Write};
use ebb_tables::{Catalog, CatalogState, CqlTable};

use super::batch::{BatchPlan, NOT_A_WRITE, check_kind};
use super::execution::Execution;
use super::plan::{WritePlan, prepare};
use crate::analyse::markers::{Bound, Markers};
use crate::error::{Result, invalid, of_catalog};

/// What a statement that writes means under the schemas of its tables.
#[derive(Debug)]
pub struct WriteStatement {
    plan: Plan,
    markers: Columns,
    partition_key: Vec<u16>,
    needs_keyspace: bool,
}

#[derive(Debug)]
enum Plan {
    One(Box<WritePlan>),
    Batch(Box<BatchPlan>),
}

impl WriteStatement {
    /// What the statement means; none where it does not write rows. `table` finds the
    /// table of a name.
    ///
    /// # Errors
    /// In Cassandra's words, where the statement does not fit its tables; what `table`
    /// says.
    pub fn analyse(
        parsed: &Parsed,
        mut table: impl FnMut(&QualifiedName) -> Result<Arc<CqlTable>>,
    ) -> Result<Option<Self>> {
        match &parsed.statement {
            Statement::Write(write) => {
                let table = table(table_of(write))?;
                let mut markers = Markers::new(table.schema(), &parsed.markers);
                let plan = prepare(write, &table, &mut markers)?;
                Ok(Some(Self {
                    partition_key: plan.partition_markers(),
                    plan: Plan::One(Box::new(plan)),
                    markers: markers.columns(),
                    needs_keyspace: table_of(write).keyspace.is_none(),
                }))
            }
            Statement::Batch(batch) => {
                // The markers are said to be of the first table.
                let mut markers = match batch.writes.first() {
                    Some(first) => {
                        let first = table(table_of(first))?;
                        Some(Markers::new(first.schema(), &parsed.markers))
                    }
                    None => None,
                };
                let plan = BatchPlan::prepare(batch, table, markers.as_mut())?;
                Ok(Some(Self {
                    plan: Plan::Batch(Box::new(plan)),
                    markers: markers.map_or_else(Columns::default, |m| m.columns()),
                    partition_key: Vec::new(),
                    needs_keyspace: {
                        let mut writes = batch.writes.iter();
                        writes.any(|write| table_of(write).keyspace.is_none())
                    },
                }))
            }
            _ => Ok(None),
        }
    }

    /// Its markers.
    pub fn markers(&self) -> &Columns {
        &self.markers
    }

    /// The places of the markers of the partition key; none where a column of it has no
    /// marker of its own, and of a batch.
    pub fn partition_key(&self) -> &[u16] {
        &self.partition_key
    }

    /// Whether a table is named without its keyspace.
    pub fn needs_keyspace(&self) -> bool {
        self.needs_keyspace
    }

    /// Whether its tables are still as they were when it was analysed.
    pub fn is_of(&self, state: &CatalogState) -> bool {
        let is_same = |plan: &WritePlan| {
            let schema = plan.table().schema();
            let now = state.table(schema.keyspace(), schema.name());
            now.is_some_and(|now| Arc::ptr_eq(now, plan.table()))
        };
        match &self.plan {
            Plan::One(plan) => is_same(plan),
            Plan::Batch(batch) => batch.writes().iter().all(is_same),
        }
    }

    /// Writes with these values, and answers the warnings. `timestamp_us` is the request's,
    /// for what says none itself; without one it is the server's.
    ///
    /// # Errors
    /// In Cassandra's words, where a value is not as it must be, and as the store.
    pub fn execute(
        &self,
        catalog: &Catalog,
        values: Values<'_>,
        timestamp_us: Option<i64>,
    ) -> Result<Vec<String>> {
        let now_us = catalog.timestamps().now_us();
        let bound = Bound::new(values, &self.markers, now_us)?;
        let timestamp_us = timestamp(catalog, timestamp_us)?;
        let execution = match &self.plan {
            Plan::One(plan) => {
                let mut execution = Execution::new(timestamp_us, now_us)?;
                execution.add(plan, &bound)?;
                execution
            }
            Plan::Batch(batch) => batch.execute(timestamp_us, &bound)?,
        };
        execution.commit(catalog.db())
    }
}

/// Writes several statements, each with its values, as one: the BATCH of the protocol.
/// Warnings and `timestamp_us` are as for one statement.
///
/// # Errors
/// As [`WriteStatement::execute`], for a batch within a batch, and for counters; nothing is
/// written then.
pub fn execute_batch(
    catalog: &Catalog,
    kind: protocol::BatchKind,
    statements: &[(&WriteStatement, Values<'_>)],
    timestamp_us: Option<i64>,
) -> Result<Vec<String>> {
    check_kind(kind)?;
    let now_us = catalog.timestamps().now_us();
    let mut execution = Execution::of_batch(timestamp(catalog, timestamp_us)?, None, now_us)?;
    for (statement, values) in statements {
        let Plan::One(plan) = &statement.plan else {
            return invalid(NOT_A_WRITE);
        };
        let bound = Bound::new(*values, &statement.markers, now_us)?;
        execution.add(plan, &bound)?;
    }
    execution.commit(catalog.db())
}

/// The timestamp of a request.
fn timestamp(catalog: &Catalog, timestamp_us: Option<i64>) -> Result<i64> {
    match timestamp_us {
        Some(timestamp_us) => Ok(timestamp_us),
        None => catalog.timestamps().next_us().map_err(of_catalog),
    }
}

pub(super) fn table_of(write: &Write) -> &QualifiedName {
    match write {
        Write::Insert(statement) => &statement.table,
        Write::Update(statement) => &statement.table,
        Write::Delete(statement) => &statement.table,
    }
}
