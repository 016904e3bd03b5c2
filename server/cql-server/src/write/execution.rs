//! Plans with their values, written into one batch of the store.

use ebb_model::key::{DecodedKey, KeyLayout, PartitionKey};
use ebb_model::row::{RowError, RowView};
use ebb_model::schema::TableSchema;
use ebb_storage::{Db, ErrorKind, Table, Transaction, Value, WriteBatch};
use ebb_tables::Timestamps;
use ebb_tables::read::Partition;
use ebb_tables::write::{RowBuffer, WriteTimes, delete_partition, delete_ranges, delete_row};

use super::batch::BatchTerms;
use super::batch_size::BatchSize;
use super::collection;
use super::guarded;
use super::indexes;
use super::keys::{RowTarget, Rows};
use super::plan::{Action, Change, WritePlan};
use super::statement::WriteContext;
use super::using::check_timestamp;
use crate::analyse::markers::Bound;
use crate::error::{Result, of_catalog, of_key, of_row, of_store, of_table};
use crate::guardrails::{Feature, Guardrails};
use crate::interrupt;

/// About how many microseconds it takes to look one key up.
pub(super) const READ_UNITS: u64 = 4;

#[derive(Debug)]
enum Sink<'c> {
    Batch(WriteBatch),
    /// All at its end: statements that read see nothing of those beside them.
    Transaction {
        transaction: Transaction,
        operands: Vec<(Table, Vec<u8>, Vec<u8>)>,
        /// Of indexes.
        entries: Vec<(Table, Vec<u8>)>,
    },
    /// At once: of two increments of one counter the second counts on from the first.
    Counters {
        transaction: Transaction,
        timestamps: &'c Timestamps,
    },
}

#[derive(Debug)]
pub(super) enum Committed {
    /// All is written; these are warnings for whoever wrote it.
    Done(Vec<String>),
    /// Somebody else wrote what this had read. Nothing is written.
    Conflict,
}

/// Writes of one statement or batch, gathered until they are committed.
#[derive(Debug)]
pub(super) struct Execution<'c> {
    /// Of what says none itself.
    timestamp_us: i64,
    /// When the request came: new elements of lists sort by it.
    came_us: i64,
    now_s: i64,
    sink: Sink<'c>,
    /// How many operations have added to a list.
    list_operations: u32,
    bytes: usize,
    /// `None` for a single statement, whose size is not limited.
    batch_size: Option<BatchSize>,
    operand: Vec<u8>,
    guardrails: &'c Guardrails,
    /// Whether any guardrail limits values.
    guards_values: bool,
    warnings: Vec<String>,
}

impl<'c> Execution<'c> {
    /// Begins a write. `timestamp_us` is the timestamp of the request, for statements without USING
    /// TIMESTAMP. `now_us` is the time since 1970 from which times to live and deletions count,
    /// unless the request has its own.
    ///
    /// # Errors
    /// In Cassandra's words, for a timestamp out of bounds.
    pub(super) fn new(context: WriteContext<'c>, timestamp_us: i64, now_us: i64) -> Result<Self> {
        let guardrails = context.guardrails;
        Ok(Self {
            timestamp_us: check_timestamp(timestamp_us)?,
            came_us: timestamp_us,
            now_s: context.now_s(now_us),
            sink: Sink::Batch(WriteBatch::new()),
            list_operations: 0,
            bytes: 0,
            batch_size: None,
            operand: Vec::new(),
            guardrails,
            guards_values: guardrails.has_any(&guarded::OF_VALUES),
            warnings: Vec::new(),
        })
    }

    /// Begins a batch, whose size is limited, and which may have its own timestamp.
    ///
    /// # Errors
    /// As [`Execution::new`], and if guardrails forbid timestamps of users.
    pub(super) fn of_batch(
        context: WriteContext<'c>,
        timestamp_us: i64,
        terms: BatchTerms,
        now_us: i64,
    ) -> Result<Self> {
        if terms.timestamp_us.is_some() {
            context.guardrails.allow(Feature::UserTimestamps)?;
        }
        let execution = Self::new(context, timestamp_us, now_us)?;
        Ok(Self {
            timestamp_us: check_timestamp(terms.timestamp_us.unwrap_or(timestamp_us))?,
            batch_size: Some(BatchSize::new(terms.kind)),
            ..execution
        })
    }

    /// Begins what is written only if nothing changes that the transaction has read, all of
    /// it at `timestamp_us`, whatever the statements say.
    ///
    /// # Errors
    /// As [`Execution::new`].
    pub(super) fn in_transaction(
        context: WriteContext<'c>,
        transaction: Transaction,
        timestamp_us: i64,
        now_us: i64,
    ) -> Result<Self> {
        let execution = Self::new(context, timestamp_us, now_us)?;
        Ok(Self {
            sink: Sink::Transaction {
                transaction,
                operands: Vec::new(),
                entries: Vec::new(),
            },
            ..execution
        })
    }

    /// Begins what changes counters: each row at a timestamp of its own, above all that were
    /// given before the transaction began.
    ///
    /// # Errors
    /// As [`Execution::new`].
    pub(super) fn of_counters(
        context: WriteContext<'c>,
        transaction: Transaction,
        now_us: i64,
        batch: Option<&BatchTerms>,
    ) -> Result<Self> {
        let execution = Self::new(context, now_us, now_us)?;
        Ok(Self {
            sink: Sink::Counters {
                transaction,
                timestamps: context.catalog.timestamps(),
            },
            batch_size: batch.map(|terms| BatchSize::new(terms.kind)),
            ..execution
        })
    }

    /// Adds what a statement writes with these values.
    ///
    /// # Errors
    /// In Cassandra's words, where a value is not as it must be. The time-out of the statement. After
    /// an error nothing may be committed.
    pub(super) fn add(&mut self, plan: &WritePlan, bound: &Bound<'_>) -> Result<()> {
        interrupt::charge(1)?;
        guarded::check_statement(self.guardrails, plan)?;
        plan.with_values(bound, |bound| self.add_bound(plan, bound))
    }

    fn add_bound(&mut self, plan: &WritePlan, bound: &Bound<'_>) -> Result<()> {
        let schema = plan.table.schema();
        let layout = schema.layout();
        let own_us = match self.sink {
            Sink::Batch(_) => plan.using.timestamp_us(bound)?,
            Sink::Transaction { .. } | Sink::Counters { .. } => None,
        };
        let mut times = WriteTimes {
            timestamp_us: own_us.unwrap_or(self.timestamp_us),
            now_s: self.now_s,
            ttl_s: plan.using.ttl_s(schema, bound)?,
        };
        let targets = plan.keys.targets(schema, bound)?;
        if let Some(size) = &mut self.batch_size {
            size.add(&plan.table, &targets.partitions);
        }
        let rows = plan.table.rows();
        let mut rows_before = 0;
        for (number, partition) in targets.partitions.iter().enumerate() {
            interrupt::charge(1)?;
            times.timestamp_us = self.own_timestamp_us(times.timestamp_us)?;
            match &plan.action {
                Action::Change {
                    has_marker,
                    changes,
                } => {
                    let mut write = Changed {
                        execution: self,
                        table: rows,
                        schema,
                        partition,
                        changes,
                        bound,
                        times,
                    };
                    write.statics(number)?;
                    if let Rows::Named(targets) = &targets.rows {
                        for target in targets {
                            write.row(target, rows_before, *has_marker)?;
                            rows_before += 1;
                        }
                    }
                }
                Action::Delete => self.delete(rows, layout, partition, &targets.rows, &times)?,
            }
        }
        Ok(())
    }

    /// Commits all that was added. From here on nothing is charged: a statement that moves to another
    /// thread when its time is over is executed anew there, so it must not have written.
    ///
    /// # Errors
    /// Where a batch is too large. As the store: nothing was written, unless it says otherwise.
    pub(super) fn commit(mut self, db: &Db) -> Result<Committed> {
        if let Some(size) = &self.batch_size {
            size.check(self.bytes, self.guardrails, &mut self.warnings)?;
        }
        let warnings = self.warnings;
        let committed = match self.sink {
            // Not as the batch has it: one that refused all that it was given is empty, and
            // says so only when it is written.
            Sink::Batch(_) if self.bytes == 0 => Ok(()),
            Sink::Batch(batch) => db.write(batch),
            Sink::Transaction {
                mut transaction,
                operands,
                entries,
            } => {
                for (table, key, operand) in &operands {
                    transaction.merge(table, key, operand).map_err(of_store)?;
                }
                for (table, key) in &entries {
                    transaction.put(table, key, &[]).map_err(of_store)?;
                }
                transaction.commit().map(drop)
            }
            Sink::Counters { transaction, .. } => transaction.commit().map(drop),
        };
        match committed {
            Ok(()) => Ok(Committed::Done(warnings)),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(Committed::Conflict),
            Err(error) => Err(of_store(error)),
        }
    }

    /// The timestamp of one more row that is written: a new one for counters.
    fn own_timestamp_us(&self, timestamp_us: i64) -> Result<i64> {
        match &self.sink {
            Sink::Counters { timestamps, .. } => timestamps.next_us().map_err(of_catalog),
            Sink::Batch(_) | Sink::Transaction { .. } => Ok(timestamp_us),
        }
    }

    /// Makes the commit depend on what is deleted, where it is counters: who adds to one that
    /// is deleted meanwhile begins anew, and the other way round.
    fn guard(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        match &mut self.sink {
            Sink::Counters { transaction, .. } => transaction.guard(table, key).map_err(of_store),
            Sink::Batch(_) | Sink::Transaction { .. } => Ok(()),
        }
    }

    /// What keys have, all at one instant.
    fn read(&mut self, table: &Table, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        interrupt::charge(READ_UNITS * keys.len() as u64)?;
        let read = match (&mut self.sink, keys) {
            (Sink::Batch(_), [key]) => table.get(key).map(|value| vec![value]),
            (Sink::Batch(_), keys) => table.get_many(keys),
            (Sink::Transaction { transaction, .. } | Sink::Counters { transaction, .. }, keys) => {
                let read = |key: &&[u8]| transaction.get_for_update(table, key);
                keys.iter().map(read).collect()
            }
        }
        .map_err(of_store)?;
        interrupt::charge_bytes(read.iter().flatten().map(|value| value.len()).sum())?;
        Ok(read)
    }

    fn delete(
        &mut self,
        table: &Table,
        layout: &KeyLayout,
        partition: &PartitionKey,
        rows: &Rows<'_>,
        times: &WriteTimes,
    ) -> Result<()> {
        self.guard(table, &partition.header_key())?;
        match rows {
            Rows::Partition => self.merge(table, &partition.header_key(), |out| {
                delete_partition(times, out);
                Ok(())
            }),
            Rows::Named(targets) => {
                for target in targets {
                    interrupt::charge(1)?;
                    let key = target.key(layout, partition)?;
                    self.guard(table, &key)?;
                    self.merge(table, &key, |out| delete_row(times, out))?;
                }
                Ok(())
            }
            Rows::Ranges(ranges) if ranges.is_empty() => Ok(()),
            Rows::Ranges(ranges) => {
                interrupt::charge(ranges.len() as u64)?;
                self.merge(table, &partition.header_key(), |out| {
                    delete_ranges(times, ranges, out)
                })
            }
        }
    }

    fn merge(
        &mut self,
        table: &Table,
        key: &[u8],
        write: impl FnOnce(&mut Vec<u8>) -> std::result::Result<(), RowError>,
    ) -> Result<()> {
        self.operand.clear();
        write(&mut self.operand).map_err(of_row)?;
        let bytes = key.len() + self.operand.len();
        interrupt::charge_bytes(bytes)?;
        self.bytes += bytes;
        match &mut self.sink {
            Sink::Batch(batch) => batch.merge(table, key, &self.operand),
            Sink::Transaction { operands, .. } => {
                operands.push((table.clone(), key.to_vec(), self.operand.clone()));
            }
            Sink::Counters { transaction, .. } => {
                (transaction.merge(table, key, &self.operand)).map_err(of_store)?;
            }
        }
        Ok(())
    }

    /// Adds the entry of an index under which a row or partition is from this commit on. One
    /// that is there already stays the same.
    fn put_entry(&mut self, table: &Table, mut prefix: Vec<u8>, row_key: &[u8]) {
        prefix.extend(row_key);
        match &mut self.sink {
            Sink::Batch(batch) => batch.put(table, &prefix, &[]),
            Sink::Transaction { entries, .. } => entries.push((table.clone(), prefix)),
            Sink::Counters { .. } => unreachable!("counters have no indexes"),
        }
    }
}

/// A statement that changes columns, in one partition.
struct Changed<'e, 'v, 'c> {
    execution: &'e mut Execution<'c>,
    table: &'e Table,
    schema: &'e TableSchema,
    partition: &'e PartitionKey,
    changes: &'v [Change],
    bound: &'e Bound<'v>,
    times: WriteTimes,
}

impl<'e, 'v> Changed<'e, 'v, '_> {
    /// The static columns, where the statement changes any. `number` counts the partitions before.
    fn statics(&mut self, number: usize) -> Result<()> {
        if !self.changes.iter().any(Change::is_static) {
            return Ok(());
        }
        interrupt::charge(1)?;
        let key = self.partition.header_key();
        let header = match self.reads(true) {
            true => self.execution.read(self.table, &[&key])?.pop().flatten(),
            false => None,
        };
        let view = self.before(&key, header.as_deref())?.static_view();
        self.times.timestamp_us = (self.execution).own_timestamp_us(self.times.timestamp_us)?;
        let row = self.gather(true, number, Some(&view))?;
        if row.is_empty() {
            return Ok(());
        }
        (self.execution).merge(self.table, &key, |out| row.write_statics(out))?;
        indexes::put_statics(self.schema, self.partition, &row, |prefix, of| {
            self.execution.put_entry(self.table, prefix, of);
        })
    }

    /// One row. `number` counts the rows of the statement before.
    fn row(&mut self, target: &RowTarget<'_>, number: usize, has_marker: bool) -> Result<()> {
        interrupt::charge(1)?;
        let key = target.key(self.schema.layout(), self.partition)?;
        self.times.timestamp_us = (self.execution).own_timestamp_us(self.times.timestamp_us)?;
        let row = match self.reads(false) {
            true => self.gather_after(&key, number)?,
            false => self.gather(false, number, None)?,
        };
        if row.is_empty() && !has_marker {
            return Ok(());
        }
        let original = target.original(self.schema.layout());
        self.execution.merge(self.table, &key, |out| {
            row.write_row(has_marker, original.as_deref(), out)
        })?;
        indexes::put_row(
            self.schema,
            self.partition,
            &key,
            &row,
            has_marker,
            |prefix, of| {
                self.execution.put_entry(self.table, prefix, of);
            },
        )
    }

    fn reads(&self, of_static: bool) -> bool {
        let mut changes = self.changes.iter();
        changes.any(|change| change.is_static() == of_static && change.operation.reads())
    }

    /// What the changes do to a row that they must see first.
    fn gather_after(&mut self, key: &[u8], number: usize) -> Result<RowBuffer<'v>> {
        let header_key = self.partition.header_key();
        let read = self.execution.read(self.table, &[&header_key, key])?;
        let partition = self.before(&header_key, read[0].as_deref())?;
        // The row's key is as long as the header's, and then its clustering.
        let view = partition.view(&key[header_key.len()..], read[1].as_deref());
        self.gather(false, number, Some(&view.map_err(of_table)?))
    }

    /// Returns the partition as it is before the statement, under this header. `key` is any of its keys.
    fn before<'p>(&self, key: &'p [u8], header: Option<&'p [u8]>) -> Result<Partition<'p>>
    where
        'e: 'p,
    {
        let key = DecodedKey::read(key).map_err(of_key)?;
        Partition::new(self.schema, key, header, self.times.now_s).map_err(of_table)
    }

    fn gather(
        &mut self,
        of_static: bool,
        number: usize,
        before: Option<&RowView<'_>>,
    ) -> Result<RowBuffer<'v>> {
        let bound = self.bound.for_row(number)?;
        let mut row = RowBuffer::new(self.times);
        for change in self.changes {
            if change.is_static() == of_static {
                let execution = &mut *self.execution;
                let came = (execution.came_us, &mut execution.list_operations);
                collection::apply(change, &bound, before, came, &mut row)?;
            }
        }
        let execution = &mut *self.execution;
        if execution.guards_values {
            let (guardrails, warnings) = (execution.guardrails, &mut execution.warnings);
            guarded::check_row(guardrails, self.schema, &row, warnings)?;
        }
        Ok(row)
    }
}
