//! Writes with IF: the conditions, the rows of the one partition, and the decision.
//!
//! ```text
//!   statements ─► ConditionalWrite: conditions by row, rows to write
//!                   │ decide: one transaction of the store
//!                   │   reads and guards the header and the rows, even missing ones
//!                   │   do all conditions hold? ── no ─► the current rows (applied)
//!                   v
//!                 Decision: the operands, at one timestamp ─► commit, or a conflict
//! ```
//!
//! **The timestamp** is above all timestamps that were read: the server's next timestamp or, if
//! that is greater, the greatest one in header and rows plus one. So an applied write is always
//! visible, even over a row that a client wrote or deleted with a timestamp in the future. If a
//! value is for a column that was dropped and added again, the timestamp is above that of the drop,
//! too; other writes may be older, because the drop concerns that column alone. In
//! Cassandra the ballot of a Paxos round is above those of earlier rounds, but not above writes
//! without IF, so that such a row hides an applied write. The rows under a deleted range or
//! partition are not read, because there may be many: a row there with a timestamp in the future
//! stays, as in Cassandra. The server's clock of timestamps is not advanced: otherwise one client
//! with a wrong clock would move all later writes into the future. The request's own timestamp is
//! ignored.
//!
//! Invariant: an applied write is a single commit. It guards every key that it reads, writes or
//! deletes, also the rows of a batch without conditions and the ranges that it deletes (see
//! `Execution`). The store rejects the commit if another write, with or without IF, has changed one
//! of them since the transaction began. So the whole conditional write happens at the instant of
//! the commit, and its timestamp is above that of each conditional write of the same rows before
//! it, apart from rows under a deleted range with a timestamp in the future. Turns (in `serve`)
//! only reduce conflicts: concurrent attempts are safe, but cost more.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use ebb_model::key::{DecodedKey, PartitionKey, Place};
use ebb_model::row::RowView;
use ebb_model::schema::TableSchema;
use ebb_storage::{Db, Transaction};
use ebb_tables::CqlTable;
use ebb_tables::mutation::{Mutation, or_absent};
use ebb_tables::read::Partition;

use super::applied::{Answer, ResponseColumns};
use super::condition::{BoundCondition, Conditions};
use super::execution::{Committed, Execution, READ_UNITS};
use super::keys::Rows;
use super::plan::WritePlan;
use super::statement::WriteContext;
use crate::analyse::markers::Bound;
use crate::analyse::restrictions::Statement;
use crate::error::{Result, invalid, of_catalog, of_key, of_store, of_table};
use crate::interrupt;
use crate::listing::Listing;
use crate::memory::Memory;

pub(super) type Part<'v> = (&'v WritePlan, Bound<'v>);

/// Statements that write to one partition, with evaluated terms. At least one of them has a
/// condition.
#[derive(Debug)]
pub(super) struct ConditionalWrite<'v> {
    parts: &'v [Part<'v>],
    table: &'v CqlTable,
    partition: PartitionKey,
    statics: Option<RowCondition<'v>>,
    /// The conditions on rows, by the keys of the rows.
    rows: BTreeMap<Vec<u8>, RowCondition<'v>>,
    /// The keys of rows that are written without a condition of their own. These rows are read,
    /// too, because the timestamp of the write must be above those of all rows that it writes.
    others: BTreeSet<Vec<u8>>,
    writes_statics: bool,
    shown: ResponseColumns,
}

#[derive(Debug)]
enum RowCondition<'v> {
    Exists,
    NotExists,
    Columns(Vec<BoundCondition<'v>>),
}

#[derive(Debug)]
pub(super) enum Verdict {
    /// The conditions were evaluated, and the writes committed if all conditions held. Contains the
    /// response, with `[applied]`, and the warnings.
    Decided(Listing, Vec<String>),
    /// Another request has written a key meanwhile that this write reads, writes or deletes.
    /// Nothing was written.
    Conflict,
}

/// The result of evaluating the conditions, before the commit.
#[derive(Debug)]
pub(super) struct Decision<'c> {
    /// The collected writes; `None` if a condition does not hold.
    execution: Option<Execution<'c>>,
    /// The response, unless the commit ends in a conflict.
    response: Listing,
}

/// The stored header (static columns and deletions) of a partition, and some of its rows by their
/// keys.
struct Found {
    header: Option<Bytes>,
    rows: BTreeMap<Vec<u8>, Option<Bytes>>,
}

impl<'v> ConditionalWrite<'v> {
    /// Collects the conditions and rows of a statement, or of a batch.
    ///
    /// # Errors
    /// Cassandra's errors: a statement is on several partitions or has an IN on its rows,
    /// statements are on different partitions, the conditions on a row contradict each other, or a
    /// value is invalid. Also an error if the values of the conditions take too much memory.
    pub(super) fn new(parts: &'v [Part<'v>], is_batch: bool) -> Result<Self> {
        let Some((first, bound)) = parts.first() else {
            return invalid("a conditional write has a statement");
        };
        let plans = || parts.iter().map(|(plan, _)| *plan);
        let (partition, _) = row_of(first, bound, is_batch)?;
        let mut write = Self {
            parts,
            table: &first.table,
            partition,
            statics: None,
            rows: BTreeMap::new(),
            others: BTreeSet::new(),
            writes_statics: plans().any(WritePlan::writes_statics),
            shown: ResponseColumns::new(first.table.schema(), plans(), is_batch)?,
        };
        let mut memory = Memory::default();
        for (plan, bound) in parts {
            interrupt::charge(1)?;
            let (partition, row) = row_of(plan, bound, is_batch)?;
            if partition != write.partition {
                return invalid("Batch with conditions cannot span multiple partitions");
            }
            write.add(plan, row.as_deref(), bound, &mut memory)?;
        }
        let rows = &write.rows;
        write.others.retain(|key| !rows.contains_key(key));
        Ok(write)
    }

    /// Adds the conditions of a statement, and the key of the row that it writes. `row` is `None`
    /// if the statement is on static columns, or deletes several rows.
    fn add(
        &mut self,
        plan: &'v WritePlan,
        row: Option<&[u8]>,
        bound: &Bound<'v>,
        memory: &mut Memory,
    ) -> Result<()> {
        let exists = match &plan.conditions {
            Conditions::None => {
                self.others.extend(row.map(<[u8]>::to_vec));
                return Ok(());
            }
            Conditions::Exists => RowCondition::Exists,
            Conditions::NotExists => RowCondition::NotExists,
            Conditions::Columns(columns) => {
                let (statics, regular): (Vec<_>, Vec<_>) =
                    columns.iter().partition(|column| column.is_static());
                // Static columns belong to the partition, so that other rows of a batch share the
                // condition. A statement with conditions on regular columns has a row, because its plan
                // requires the full key.
                for (row, columns) in [(row, regular), (None, statics)] {
                    if columns.is_empty() {
                        continue;
                    }
                    let columns = columns.into_iter();
                    let bind = columns.map(|column| column.bind(bound, memory));
                    let bind = bind.collect::<Result<Vec<_>>>()?;
                    match self.place(row) {
                        None => self.set(row, RowCondition::Columns(bind)),
                        Some(RowCondition::Columns(earlier)) => earlier.extend(bind),
                        // Cassandra's message, also if the other condition is IF EXISTS.
                        Some(_) => {
                            return invalid(
                                "Cannot mix IF conditions and IF NOT EXISTS for the same row",
                            );
                        }
                    }
                }
                // If the row also has conditions of its own, `new` removes the key again.
                self.others.extend(row.map(<[u8]>::to_vec));
                return Ok(());
            }
        };
        let not = match exists {
            RowCondition::NotExists => "NOT ",
            _ => "",
        };
        match (self.place(row), &exists) {
            (None, _) => self.set(row, exists),
            (Some(RowCondition::Exists), RowCondition::Exists)
            | (Some(RowCondition::NotExists), RowCondition::NotExists) => {}
            (Some(RowCondition::Columns(_)), _) => {
                return invalid(format!(
                    "Cannot mix IF conditions and IF {not}EXISTS for the same row"
                ));
            }
            (Some(_), _) => {
                return invalid(
                    "Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row",
                );
            }
        }
        Ok(())
    }

    /// Returns the condition on the row with the key `row`, or on the static columns if `row` is
    /// `None`. Returns `None` if no statement had such a condition so far.
    fn place(&mut self, row: Option<&[u8]>) -> Option<&mut RowCondition<'v>> {
        match row {
            Some(row) => self.rows.get_mut(row),
            None => self.statics.as_mut(),
        }
    }

    fn set(&mut self, row: Option<&[u8]>, condition: RowCondition<'v>) {
        match row {
            Some(row) => drop(self.rows.insert(row.to_vec(), condition)),
            None => self.statics = Some(condition),
        }
    }

    /// Evaluates the conditions once, and commits the writes if all of them hold, unless a
    /// concurrent request causes a conflict.
    ///
    /// # Errors
    /// Cassandra's errors for impossible comparisons and invalid values; an error if the stored
    /// rows that a batch reads or returns are too long together, if a stored timestamp is the
    /// greatest there is, if a guardrail forbids a write, or if the writes take too much memory;
    /// the timeout of the statement; an error of the store.
    pub(super) fn attempt(&self, context: WriteContext<'_>) -> Result<Verdict> {
        self.decide(context)?.commit(context.catalog.db())
    }

    /// Evaluates the conditions, and collects the writes if all of them hold.
    ///
    /// # Errors
    /// The errors of [`ConditionalWrite::attempt`].
    pub(super) fn decide<'c>(&self, context: WriteContext<'c>) -> Result<Decision<'c>> {
        let catalog = context.catalog;
        let mut transaction = catalog.db().begin();
        let now_s = context.now_s(transaction.read_time_ms());
        let found = self.read(&mut transaction, &context)?;
        let schema = self.table.schema();
        let header_key = self.partition.header_key();
        let answer = Answer::new(
            &self.shown,
            schema,
            &header_key,
            found.header.as_deref(),
            now_s,
        )?;
        if !self.holds(&found, &answer)? {
            let rows = self.rows.keys();
            let rows = rows.map(|key| (&key[..], found.rows.get(key).and_then(Option::as_deref)));
            // Without conditions on rows, the response has the first row of the partition. The header
            // is read already, so the range begins behind it.
            let rows = if self.rows.is_empty() {
                answer.first_row(
                    transaction
                        .range(
                            self.table.rows(),
                            after(&header_key)..self.partition.range().to.unwrap_or_default(),
                        )
                        .map_err(of_store)?,
                )?
            } else {
                answer.rows(rows, &context)?
            };
            return Ok(Decision {
                execution: None,
                response: answer.refused(rows),
            });
        }
        let next_us = catalog.timestamps().next_us().map_err(of_catalog)?;
        // One above: at an equal timestamp, a deletion or a greater value would hide this write.
        let timestamp_us = match self.greatest(&found, answer.partition())?.checked_add(1) {
            Some(above_us) => next_us.max(above_us),
            None => {
                return invalid(format!(
                    "A conditional write must have a timestamp above that of the row and of drops \
                     of its columns, one of which is the greatest there is: {}",
                    i64::MAX
                ));
            }
        };
        let mut execution = Execution::in_transaction(context, transaction, timestamp_us)?;
        for (plan, bound) in self.parts {
            execution.add(plan, bound)?;
        }
        Ok(Decision {
            execution: Some(execution),
            response: answer.applied(),
        })
    }

    /// Reads the stored header and rows, so that the commit depends on them.
    ///
    /// # Errors
    /// If the store fails, if the rows are too long together, or on the timeout of the statement.
    fn read(&self, transaction: &mut Transaction, context: &WriteContext<'_>) -> Result<Found> {
        let table = self.table.rows();
        let header_key = self.partition.header_key();
        // The header is read before the rows: see the purge race in `ebb_tables::read`.
        let mut get = |key: &[u8]| {
            let read = transaction.get_for_update(table, key);
            or_absent(Mutation::ConditionsPassDamage, read).map_err(of_store)
        };
        let header = get(&header_key)?;
        let mut bytes = header.as_ref().map_or(0, Bytes::len);
        interrupt::charge_bytes(bytes)?;
        let mut rows = BTreeMap::new();
        // The rows without conditions are guarded, too: otherwise a concurrent write with IF, whose
        // timestamp is later and whose commit is earlier, would hide this one.
        for key in self.rows.keys().chain(&self.others) {
            interrupt::charge(READ_UNITS)?;
            let row = get(key)?;
            let row_bytes = row.as_ref().map_or(0, Bytes::len);
            interrupt::charge_bytes(row_bytes)?;
            bytes += row_bytes;
            rows.insert(key.clone(), row);
            context.check_rows_bytes(rows.len(), bytes)?;
        }
        Ok(Found { header, rows })
    }

    fn holds(&self, found: &Found, answer: &Answer<'_>) -> Result<bool> {
        if let Some(condition) = &self.statics {
            let partition = answer.partition();
            let exists = partition.has_static_values().map_err(of_table)?;
            if !condition.holds(exists.then(|| partition.static_view()))? {
                return Ok(false);
            }
        }
        for (key, condition) in &self.rows {
            let operand = found.rows.get(key).and_then(Option::as_deref);
            interrupt::charge_bytes(operand.map_or(0, <[u8]>::len))?;
            let row = answer.row(key, operand)?;
            if !condition.holds(row.as_ref().map(|row| row.view()))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the greatest timestamp that could hide the writes. It is the maximum over the rows
    /// and static columns that the statements write or test, the deletions that cover these, and
    /// the drops of columns that get values. The caller gives the writes a greater timestamp.
    fn greatest(&self, found: &Found, partition: &Partition<'_>) -> Result<i64> {
        let mut greatest = i64::MIN;
        for (plan, bound) in self.parts {
            greatest = greatest.max(plan.dropped_up_to(bound)?);
        }
        if self.writes_statics || self.statics.is_some() {
            greatest = greatest.max(partition.greatest_timestamp_of_statics());
        }
        for (key, row) in &found.rows {
            if let Place::Row(clustering) = DecodedKey::read(key).map_err(of_key)?.place {
                let of_this = partition.greatest_timestamp_of_row(clustering, row.as_deref());
                greatest = greatest.max(of_this.map_err(of_table)?);
            }
        }
        Ok(greatest)
    }
}

impl Decision<'_> {
    /// Commits the writes, if there are any.
    ///
    /// # Errors
    /// The errors of [`Execution::commit`].
    pub(super) fn commit(self, db: &Db) -> Result<Verdict> {
        let Some(execution) = self.execution else {
            return Ok(Verdict::Decided(self.response, Vec::new()));
        };
        Ok(match execution.commit(db)? {
            Committed::Done(warnings) => Verdict::Decided(self.response, warnings),
            Committed::Conflict => Verdict::Conflict,
        })
    }
}

impl RowCondition<'_> {
    fn holds(&self, row: Option<RowView<'_>>) -> Result<bool> {
        match self {
            Self::Exists => Ok(row.is_some()),
            Self::NotExists => Ok(row.is_none()),
            Self::Columns(columns) => {
                let row = row.unwrap_or(RowView::EMPTY);
                for column in columns {
                    if !column.holds(&row)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

/// Returns the partition of a statement in a conditional write, and the key of the row that the
/// statement names. The key is `None` if the statement is on static columns, or deletes several
/// rows. `is_batch` selects the message of the error for several partitions.
fn row_of(
    plan: &WritePlan,
    bound: &Bound<'_>,
    is_batch: bool,
) -> Result<(PartitionKey, Option<Vec<u8>>)> {
    let schema = plan.table.schema();
    plan.with_values(bound, |bound| {
        let mut targets = plan.keys.targets(schema, bound)?;
        let what = match plan.statement {
            Statement::Delete => "deletions",
            Statement::Insert | Statement::Update => "updates",
        };
        let partition = match (targets.partitions.pop(), targets.partitions.is_empty()) {
            (Some(partition), true) => partition,
            _ if is_batch => {
                return invalid(
                    "Batch with conditions cannot span multiple partitions (you cannot use IN on \
                     the partition key)",
                );
            }
            _ => {
                return invalid(format!(
                    "IN on the partition key is not supported with conditional {what}"
                ));
            }
        };
        let row = match &targets.rows {
            Rows::Named(rows) => match &rows[..] {
                [row] => Some(row.key(schema.layout(), &partition)?),
                _ => {
                    return invalid(format!(
                        "IN on the clustering key columns is not supported with conditional {what}"
                    ));
                }
            },
            Rows::Partition | Rows::Ranges(_) => None,
        };
        Ok((partition, row))
    })
}

/// Returns the least key that is greater than `key`.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Appends a hash of each partition of a statement to `turns`. Statements on the same partition
/// have the same hash, and so wait for each other.
pub(super) fn turns(plan: &WritePlan, bound: &Bound<'_>, turns: &mut Vec<u64>) -> Result<()> {
    let schema: &TableSchema = plan.table.schema();
    let (id, _) = schema.id().as_u64_pair();
    plan.with_values(bound, |bound| {
        let targets = plan.keys.targets(schema, bound)?;
        let of_one = |key: &PartitionKey| xxhash_rust::xxh3::xxh3_64_with_seed(key.as_bytes(), id);
        turns.extend(targets.partitions.iter().map(of_one));
        Ok(())
    })
}
