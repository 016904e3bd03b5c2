//! One write statement of a client: a single write, or a batch in one text.

use std::sync::Arc;

use ebb_cql::protocol::{self, Columns, Consistency, Values, WriteType};
use ebb_cql::syntax::ast::{Parsed, QualifiedName, Statement};
use ebb_tables::{Catalog, CatalogState, CqlTable};

use super::batch::{BatchPlan, BatchTerms, NOT_A_WRITE, check};
use super::conditional::{self, ConditionalWrite, Part, Verdict};
use super::execution::{Committed, Execution};
use super::plan::WritePlan;
use super::prepare::{JsonPlans, prepare, table_of};
use crate::analyse::markers::{Bound, Markers};
use crate::error::{Result, invalid, of_catalog};
use crate::guardrails::{Access, Guardrails};
use crate::interrupt;
use crate::listing::Listing;

/// A write of rows, as analysed under the schemas of its tables.
#[derive(Debug)]
pub struct WriteStatement {
    plan: Plan,
    markers: Columns,
    partition_key: Vec<u16>,
    needs_keyspace: bool,
    memory_bytes: usize,
}

#[derive(Debug)]
enum Plan {
    One(Box<WritePlan>),
    Batch(Box<BatchPlan>),
}

impl WriteStatement {
    /// Analyses a statement. Returns `None` if the statement does not write rows. `json_plans` has
    /// the plans of the request's earlier INSERT JSON statements, and `table` returns the table
    /// with a name.
    pub fn analyse(
        parsed: &Parsed,
        json_plans: &mut JsonPlans,
        mut table: impl FnMut(&QualifiedName) -> Result<Arc<CqlTable>>,
    ) -> Result<Option<Self>> {
        let statement = match &parsed.statement {
            Statement::Write(write) => {
                let table = table(table_of(write))?;
                let mut markers = Markers::new(table.schema(), &parsed.markers);
                let plan = prepare(write, &table, json_plans, &mut markers)?;
                Self {
                    partition_key: plan.partition_markers(),
                    plan: Plan::One(Box::new(plan)),
                    markers: markers.columns()?,
                    memory_bytes: markers.memory().bytes(),
                    needs_keyspace: table_of(write).keyspace.is_none(),
                }
            }
            Statement::Batch(batch) => {
                // The metadata of the markers name the first table.
                let mut markers = match batch.writes.first() {
                    Some(first) => {
                        let first = table(table_of(first))?;
                        Some(Markers::new(first.schema(), &parsed.markers))
                    }
                    None => None,
                };
                let plan = BatchPlan::prepare(batch, table, markers.as_mut(), json_plans)?;
                let (columns, memory_bytes) = match &mut markers {
                    Some(markers) => (markers.columns()?, markers.memory().bytes()),
                    None => (Columns::default(), 0),
                };
                Self {
                    plan: Plan::Batch(Box::new(plan)),
                    markers: columns,
                    memory_bytes,
                    partition_key: Vec::new(),
                    needs_keyspace: {
                        let mut writes = batch.writes.iter();
                        writes.any(|write| table_of(write).keyspace.is_none())
                    },
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(statement))
    }

    pub fn markers(&self) -> &Columns {
        &self.markers
    }

    /// Returns the indexes of the bind markers for the columns of the partition key, in the order
    /// of the columns. The result is empty for a batch. It is also empty if the value of any of
    /// these columns is not a single marker.
    pub fn partition_key(&self) -> &[u16] {
        &self.partition_key
    }

    /// Returns the bytes that the statement takes beyond what is proportional to its text, for
    /// example for the types of its markers.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Returns whether the statement contains an unqualified table name.
    pub fn needs_keyspace(&self) -> bool {
        self.needs_keyspace
    }

    /// Returns whether the tables of the statement are the same in `state` as at the analysis.
    ///
    /// # Errors
    /// The timeout of the statement.
    pub fn is_of(&self, state: &CatalogState) -> Result<bool> {
        for plan in self.plans() {
            interrupt::charge(1)?;
            let schema = plan.table.schema();
            let now = state.table(schema.keyspace(), schema.name());
            if !now.is_some_and(|now| Arc::ptr_eq(now, &plan.table)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the write type that errors report.
    pub fn write_type(&self) -> WriteType {
        match &self.plan {
            _ if self.plans().iter().any(|plan| plan.conditions.is_some()) => WriteType::Cas,
            _ if self.plans().iter().any(WritePlan::counts) => WriteType::Counter,
            Plan::One(_) => WriteType::Simple,
            Plan::Batch(batch) => batch.write_type(),
        }
    }

    /// Returns whether the statement has to read stored lists before it changes them.
    pub(super) fn reads_lists(&self) -> bool {
        self.plans().iter().any(WritePlan::reads_lists)
    }

    /// Returns a hash of each partition that the statement writes. Requests with the same hash wait
    /// for each other.
    pub fn turns(&self, catalog: &Catalog, values: Values<'_>) -> Result<Vec<u64>> {
        let bound = Bound::new(values, &self.markers, catalog.timestamps().now_us())?;
        let mut turns = Vec::new();
        for (plan, bound) in self.parts(bound)? {
            conditional::turns(plan, &bound, &mut turns)?;
        }
        Ok(turns)
    }

    /// Returns the plans of the single writes in the statement, each with the bound values and with
    /// its own results of volatile functions, such as `uuid()`.
    pub(super) fn parts<'v>(&'v self, bound: Bound<'v>) -> Result<Vec<Part<'v>>> {
        let part = |plan: &'v WritePlan, bound: Bound<'v>| {
            bound.calling(&plan.volatile).map(|bound| (plan, bound))
        };
        match self.plans() {
            [plan] => Ok(vec![part(plan, bound)?]),
            plans => plans.iter().map(|plan| part(plan, bound.clone())).collect(),
        }
    }

    fn plans(&self) -> &[WritePlan] {
        match &self.plan {
            Plan::One(plan) => std::slice::from_ref(plan),
            Plan::Batch(batch) => batch.writes(),
        }
    }

    /// Executes the write. `timestamp_us` is the timestamp of the request, for statements without a
    /// timestamp of their own; without both, the server assigns one. Writes with conditions and
    /// writes of counters always get timestamps of the server.
    ///
    /// # Errors
    /// Cassandra's error for an invalid value, an error if a guardrail or a limit forbids the
    /// write, or an error of the store.
    pub fn execute(
        &self,
        context: WriteContext<'_>,
        values: Values<'_>,
        timestamp_us: Option<i64>,
    ) -> Result<Written> {
        let now_us = context.catalog.timestamps().now_us();
        let bound = Bound::new(values, &self.markers, now_us)?;
        let batch = match &self.plan {
            Plan::One(_) => None,
            Plan::Batch(batch) => Some(BatchTerms {
                kind: batch.kind(),
                timestamp_us: batch.timestamp_us(&bound)?,
            }),
        };
        let parts = self.parts(bound)?;
        write(context, &parts, timestamp_us, batch)
    }
}

/// The catalog that a write changes, with the guardrails for its user, and the time and the length
/// of the request.
#[derive(Debug, Clone, Copy)]
pub struct WriteContext<'c> {
    pub catalog: &'c Catalog,
    pub guardrails: &'c Guardrails,
    /// The time of the request, in seconds since 1970, if the client has sent one. TTLs and
    /// deletions count from this time.
    pub now_s: Option<i64>,
    /// The length, in bytes, of all bound values of the request, and of the texts of its
    /// statements. The text of a prepared statement counts once, however often a batch mentions the
    /// statement.
    pub request_bytes: usize,
    /// The most bytes of the rows that a conditional batch reads, and of the rows in its response.
    /// This is also the limit on the result of a SELECT. A single row may be longer.
    pub result_bytes: usize,
}

impl WriteContext<'_> {
    /// Returns the present time for a write, in seconds since 1970. TTLs and deletions count from
    /// this time, and conditions use it to decide whether a value has expired. It is the time in
    /// the request or else `read_time_ms`, the time of a reader that begins now.
    ///
    /// The system clock would be wrong after it was set back. Readers do not follow it back, so by
    /// their time a value could have expired before it was written.
    pub(super) fn now_s(&self, read_time_ms: u64) -> i64 {
        let read_time_s = i64::try_from(read_time_ms / 1000).unwrap_or(i64::MAX);
        self.now_s.unwrap_or(read_time_s)
    }

    /// Checks the total size, `bytes`, of the rows that a conditional batch has read, or returns.
    ///
    /// # Errors
    /// If several rows have more than `result_bytes`.
    pub(super) fn check_rows_bytes(&self, rows: usize, bytes: usize) -> Result<()> {
        if rows > 1 && bytes > self.result_bytes {
            return invalid(format!(
                "The batch reads or returns more than {} bytes of stored rows; write fewer rows with \
                 each conditional batch",
                self.result_bytes
            ));
        }
        Ok(())
    }

    /// Checks the consistency levels of a request, and returns its warnings. The default of the
    /// serial level is SERIAL, as in Cassandra.
    pub fn check_levels(
        &self,
        level: Consistency,
        serial: Option<Consistency>,
    ) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let asked = [level, serial.unwrap_or(Consistency::Serial)];
        (self.guardrails).check_levels(Access::Write, &asked, &mut warnings)?;
        Ok(warnings)
    }
}

#[derive(Debug)]
pub enum Written {
    /// Everything was written. Contains the warnings for the client.
    Done(Vec<String>),
    /// The response to a conditional write, with `[applied]`, and the warnings for the client.
    Answered(Listing, Vec<String>),
    /// Nothing was written, because each of several attempts conflicted with other writes. The
    /// request may be executed again.
    InConflict,
}

/// Executes the BATCH of the protocol: several statements, each with its values, as one write.
/// `timestamp_us` is the timestamp of the request, as for a single statement.
///
/// # Errors
/// The errors of [`WriteStatement::execute`], and errors for statements that may not be in one
/// batch. Nothing is written then, unless an error of the store mentions it.
pub fn execute_batch(
    context: WriteContext<'_>,
    kind: protocol::BatchKind,
    statements: &[(&WriteStatement, Values<'_>)],
    timestamp_us: Option<i64>,
) -> Result<Written> {
    let now_us = context.catalog.timestamps().now_us();
    let parts = parts_of(statements, now_us)?;
    let plans: Vec<&WritePlan> = parts.iter().map(|(plan, _)| *plan).collect();
    check(kind, false, &plans)?;
    let terms = BatchTerms {
        kind,
        timestamp_us: None,
    };
    write(context, &parts, timestamp_us, Some(terms))
}

fn parts_of<'v>(
    statements: &[(&'v WriteStatement, Values<'v>)],
    now_us: i64,
) -> Result<Vec<Part<'v>>> {
    let part = |(statement, values): &(&'v WriteStatement, Values<'v>)| {
        let Plan::One(plan) = &statement.plan else {
            return invalid(NOT_A_WRITE);
        };
        let bound = Bound::new(*values, &statement.markers, now_us)?;
        Ok((&**plan, bound.calling(&plan.volatile)?))
    };
    statements.iter().map(part).collect()
}

/// The number of attempts, one right after the other, of a write that conflicts with others.
const ATTEMPTS_MAX: usize = 32;

/// Executes statements as one write; `batch` is `None` for a single statement. All attempts use the
/// same values, including those of `uuid()` and the like.
fn write(
    context: WriteContext<'_>,
    parts: &[Part<'_>],
    timestamp_us: Option<i64>,
    batch: Option<BatchTerms>,
) -> Result<Written> {
    let catalog = context.catalog;
    if parts.iter().any(|(plan, _)| plan.conditions.is_some()) {
        let write = ConditionalWrite::new(parts, batch.is_some())?;
        for _ in 0..ATTEMPTS_MAX {
            match write.attempt(context)? {
                Verdict::Decided(rows, warnings) => return Ok(Written::Answered(rows, warnings)),
                Verdict::Conflict => {}
            }
        }
        return Ok(Written::InConflict);
    }
    if parts.iter().any(|(plan, _)| plan.counts()) {
        let now_us = parts.first().map_or(0, |(_, bound)| bound.now_us);
        for _ in 0..ATTEMPTS_MAX {
            match count(context, parts, now_us, batch.as_ref())? {
                Committed::Done(warnings) => return Ok(Written::Done(warnings)),
                Committed::Conflict => {}
            }
        }
        return Ok(Written::InConflict);
    }
    let timestamp_us = timestamp(catalog, timestamp_us)?;
    let mut execution = match batch {
        None => Execution::new(context, timestamp_us)?,
        Some(terms) => Execution::of_batch(context, timestamp_us, terms)?,
    };
    for (plan, bound) in parts {
        execution.add(plan, bound)?;
    }
    Ok(match execution.commit(catalog.db())? {
        Committed::Done(warnings) => Written::Done(warnings),
        Committed::Conflict => Written::InConflict,
    })
}

/// Attempts a write of counters: reads each counter, and writes its new value, unless another write
/// changes it meanwhile. So a row contains the value of a counter like any other value, and neither
/// a merge nor a replay of the log repeats increments.
fn count(
    context: WriteContext<'_>,
    parts: &[Part<'_>],
    now_us: i64,
    batch: Option<&BatchTerms>,
) -> Result<Committed> {
    let catalog = context.catalog;
    let transaction = catalog.db().begin();
    let mut execution = Execution::of_counters(context, transaction, now_us, batch)?;
    // The statements of a batch happen at the same time, and then deletions win, as for other columns.
    // Here each row gets a timestamp of its own, so deletions come last.
    for deletes in [false, true] {
        let added = parts.iter().filter(|(plan, _)| plan.deletes() == deletes);
        for (plan, bound) in added {
            execution.add(plan, bound)?;
        }
    }
    execution.commit(catalog.db())
}

fn timestamp(catalog: &Catalog, timestamp_us: Option<i64>) -> Result<i64> {
    match timestamp_us {
        Some(timestamp_us) => Ok(timestamp_us),
        None => catalog.timestamps().next_us().map_err(of_catalog),
    }
}
