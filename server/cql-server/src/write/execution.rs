//! The execution of plans: their values go into one batch of the store.

use std::ops;

use ebb_model::key::{ByteRange, DecodedKey, KeyLayout, PartitionKey};
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
use crate::error::{Result, invalid, of_catalog, of_key, of_row, of_store, of_table};
use crate::guardrails::{Feature, Guardrails};
use crate::interrupt;

/// The units of work that a statement is charged for looking up one key. A unit is about a
/// microsecond.
pub(super) const READ_UNITS: u64 = 4;

/// The most bytes of keys, operands and index entries that a write collects, in addition to
/// [`BYTES_PER_REQUEST_BYTE`] for each byte of the request. The number is four times the default
/// limit on the length of a request. Without a limit, a short request could take gigabytes: a batch
/// may mention a prepared statement with long constants thousands of times.
const BYTES_MAX: usize = 64 << 20;

/// The bytes by which each byte of a write's statements and bound values raises the limit
/// [`BYTES_MAX`]. More than one, because each index of a column has a copy of the value.
const BYTES_PER_REQUEST_BYTE: usize = 4;

/// The memory, in bytes, that an operation in a transaction takes in addition to its key and
/// operand.
const TRANSACTION_BYTES: usize = size_of::<(Table, Vec<u8>, Vec<u8>)>();

#[derive(Debug)]
enum Sink<'c> {
    Batch(WriteBatch),
    /// For a write with conditions. All writes are applied at the end, so that statements which
    /// read do not see the effects of others in the batch.
    Transaction {
        transaction: Transaction,
        operands: Vec<(Table, Vec<u8>, Vec<u8>)>,
        /// The index entries to write, each with its table.
        entries: Vec<(Table, Vec<u8>)>,
    },
    /// For a write of counters. Each write is applied at once, so that the second of two increments
    /// of a counter reads the result of the first.
    Counters {
        transaction: Transaction,
        timestamps: &'c Timestamps,
    },
}

#[derive(Debug)]
pub(super) enum Committed {
    /// Everything was written. Contains the warnings for the client.
    Done(Vec<String>),
    /// Another write has changed a key that the transaction has read or guarded. Nothing was
    /// written.
    Conflict,
}

/// The writes of one statement or batch, collected until the commit.
#[derive(Debug)]
pub(super) struct Execution<'c> {
    /// The timestamp, in microseconds, of statements without a timestamp of their own.
    timestamp_us: i64,
    /// The timestamp by which new elements of lists are sorted, in microseconds. This is the
    /// timestamp of the request or, for a write with conditions, the one that the server has
    /// assigned. A timestamp in USING TIMESTAMP does not count here.
    came_us: i64,
    now_s: i64,
    sink: Sink<'c>,
    /// The number of operations so far that have added elements to a list.
    list_operations: u32,
    /// The bytes of keys and operands so far, without index entries.
    bytes: usize,
    /// The bytes that the write has collected so far: the keys and operands of operations, the
    /// index entries, the guards of ranges, the guards of keys that get no operand, and the
    /// partition keys in `batch_size`. In a transaction, [`TRANSACTION_BYTES`] are added for each
    /// of them.
    collected_bytes: usize,
    /// The most bytes in `collected_bytes`.
    collected_bytes_max: usize,
    /// The size of a batch; `None` for a single statement, and for a batch with conditions, which
    /// writes a single partition. Neither has a limit.
    batch_size: Option<BatchSize>,
    operand: Vec<u8>,
    guardrails: &'c Guardrails,
    /// True if a guardrail limits written values.
    guards_values: bool,
    warnings: Vec<String>,
}

impl<'c> Execution<'c> {
    /// Begins a write without conditions and without counters. `timestamp_us` is the timestamp of
    /// the request, for statements without USING TIMESTAMP.
    ///
    /// # Errors
    /// Cassandra's error, if the timestamp is out of bounds.
    pub(super) fn new(context: WriteContext<'c>, timestamp_us: i64) -> Result<Self> {
        let now_ms = context.catalog.db().now_ms();
        let sink = Sink::Batch(WriteBatch::new());
        Self::at(context, timestamp_us, now_ms, sink)
    }

    /// Begins a write whose TTLs and deletions count from `now_ms`, unless the request contains a
    /// time of its own.
    fn at(
        context: WriteContext<'c>,
        timestamp_us: i64,
        now_ms: u64,
        sink: Sink<'c>,
    ) -> Result<Self> {
        let guardrails = context.guardrails;
        Ok(Self {
            timestamp_us: check_timestamp(timestamp_us)?,
            came_us: timestamp_us,
            now_s: context.now_s(now_ms),
            sink,
            list_operations: 0,
            bytes: 0,
            collected_bytes: 0,
            collected_bytes_max: BYTES_MAX + BYTES_PER_REQUEST_BYTE * context.request_bytes,
            batch_size: None,
            operand: Vec::new(),
            guardrails,
            guards_values: guardrails.has_any(&guarded::OF_VALUES),
            warnings: Vec::new(),
        })
    }

    /// Begins a batch. Its size is limited, and it may have a timestamp of its own.
    ///
    /// # Errors
    /// The errors of [`Execution::new`], and an error if guardrails forbid timestamps of users.
    pub(super) fn of_batch(
        context: WriteContext<'c>,
        timestamp_us: i64,
        terms: BatchTerms,
    ) -> Result<Self> {
        if terms.timestamp_us.is_some() {
            context.guardrails.allow(Feature::UserTimestamps)?;
        }
        let execution = Self::new(context, timestamp_us)?;
        Ok(Self {
            timestamp_us: check_timestamp(terms.timestamp_us.unwrap_or(timestamp_us))?,
            batch_size: Some(BatchSize::new(terms.kind)),
            ..execution
        })
    }

    /// Begins a write that is committed only if nothing changes that the transaction has read. All
    /// statements get the timestamp `timestamp_us`, even those with a timestamp of their own.
    ///
    /// # Errors
    /// The errors of [`Execution::new`].
    pub(super) fn in_transaction(
        context: WriteContext<'c>,
        transaction: Transaction,
        timestamp_us: i64,
    ) -> Result<Self> {
        let now_ms = transaction.read_time_ms();
        let sink = Sink::Transaction {
            transaction,
            operands: Vec::new(),
            entries: Vec::new(),
        };
        Self::at(context, timestamp_us, now_ms, sink)
    }

    /// Begins a write of counters, at `now_us` microseconds since 1970. Each row gets a new
    /// timestamp, above all that were assigned before the transaction began.
    ///
    /// # Errors
    /// The errors of [`Execution::new`].
    pub(super) fn of_counters(
        context: WriteContext<'c>,
        transaction: Transaction,
        now_us: i64,
        batch: Option<&BatchTerms>,
    ) -> Result<Self> {
        let now_ms = transaction.read_time_ms();
        let sink = Sink::Counters {
            transaction,
            timestamps: context.catalog.timestamps(),
        };
        let execution = Self::at(context, now_us, now_ms, sink)?;
        Ok(Self {
            batch_size: batch.map(|terms| BatchSize::new(terms.kind)),
            ..execution
        })
    }

    /// Adds the writes of a statement with these values.
    ///
    /// # Errors
    /// Cassandra's error for an invalid value, an error if a guardrail forbids the write or the
    /// write takes too much memory, an error of the store, or the timeout of the statement. After
    /// an error this execution must not be committed.
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
        // As in Cassandra, a statement with an empty IN on clustering columns writes nothing, not
        // even static columns.
        if matches!(&targets.rows, Rows::Named(rows) if rows.is_empty()) {
            return Ok(());
        }
        if let Some(size) = &mut self.batch_size {
            let kept_bytes = size.add(&plan.table, &targets.partitions);
            self.collect(kept_bytes)?;
        }
        let rows = plan.table.rows();
        let mut rows_before = 0;
        for (number, partition) in targets.partitions.iter().enumerate() {
            interrupt::charge(1)?;
            times.timestamp_us = self.own_timestamp_us(times.timestamp_us)?;
            match &*plan.action {
                Action::Change {
                    has_marker,
                    changes,
                } => {
                    let mut write = PartitionChanges {
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

    /// Commits everything that was added. From here on the statement is not charged CPU time. If it
    /// reached its CPU limit, it would be executed again on another thread, so it must not have
    /// written anything before that.
    ///
    /// # Errors
    /// If a batch is too large. Otherwise an error of the store; nothing was written unless that
    /// error mentions it.
    pub(super) fn commit(mut self, db: &Db) -> Result<Committed> {
        if let Some(size) = &self.batch_size {
            size.check(self.bytes, self.guardrails, &mut self.warnings)?;
        }
        let warnings = self.warnings;
        let committed = match self.sink {
            // `bytes` counts what was added. The batch's own length would not do: a batch that
            // rejected its operations is empty, and returns the error only when it is written.
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

    /// Returns the timestamp for the next row: for counters, a new one for each row; otherwise
    /// `timestamp_us`.
    fn own_timestamp_us(&self, timestamp_us: i64) -> Result<i64> {
        match &self.sink {
            Sink::Counters { timestamps, .. } => timestamps.next_us().map_err(of_catalog),
            Sink::Batch(_) | Sink::Transaction { .. } => Ok(timestamp_us),
        }
    }

    /// Makes the commit depend on a key that the write changes or deletes. This concerns counters
    /// and writes with conditions; for other writes it does nothing.
    ///
    /// If two such writes run at once, the second one to commit fails and begins anew. Without
    /// this, the write with the later timestamp would win even if it was committed first. The other
    /// write would be lost although its client got its response later.
    fn guard(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        match self.transaction() {
            Some(transaction) => transaction.guard(table, key).map_err(of_store),
            None => Ok(()),
        }
    }

    /// Makes the commit depend on all keys of a range, as [`Execution::guard`] does for one key.
    /// The range includes keys that do not exist.
    fn guard_range(&mut self, table: &Table, range: &ByteRange) -> Result<()> {
        interrupt::charge_bytes(range.size_bytes())?;
        self.collect_guard(range.size_bytes())?;
        let Some(transaction) = self.transaction() else {
            return Ok(());
        };
        let end = range.to.as_ref();
        let bounds = (
            ops::Bound::Included(&range.from),
            end.map_or(ops::Bound::Unbounded, ops::Bound::Excluded),
        );
        transaction
            .guard_range::<Vec<u8>, _>(table, bounds)
            .map_err(of_store)
    }

    fn transaction(&mut self) -> Option<&mut Transaction> {
        match &mut self.sink {
            Sink::Batch(_) => None,
            Sink::Transaction { transaction, .. } | Sink::Counters { transaction, .. } => {
                Some(transaction)
            }
        }
    }

    /// Reads the values of keys, all at one instant.
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
            Rows::Partition => {
                self.guard_range(table, &partition.range())?;
                self.merge(table, &partition.header_key(), |out| {
                    delete_partition(times, out);
                    Ok(())
                })
            }
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
                // Without a transaction there are no guards. The ranges need not be built then: each of
                // them has two copies of the partition's key.
                if self.transaction().is_some() {
                    for range in ranges {
                        self.guard_range(table, &partition.rows_in(range))?;
                    }
                }
                self.merge(table, &partition.header_key(), |out| {
                    delete_ranges(times, ranges, out)
                })
            }
        }
    }

    /// Counts the memory of an operation with `bytes` bytes of key and operand.
    ///
    /// # Errors
    /// If the write takes too much memory.
    fn collect(&mut self, bytes: usize) -> Result<()> {
        self.collected_bytes += match self.sink {
            Sink::Batch(_) => bytes,
            Sink::Transaction { .. } | Sink::Counters { .. } => bytes + TRANSACTION_BYTES,
        };
        if self.collected_bytes > self.collected_bytes_max {
            return invalid(format!(
                "The write takes more than {} bytes with its keys and index entries; write fewer \
                 rows with each statement or batch",
                self.collected_bytes_max
            ));
        }
        Ok(())
    }

    /// Counts the memory of a guard with `bytes` bytes of keys. Without a transaction there are no
    /// guards, and this method counts nothing.
    ///
    /// # Errors
    /// The error of [`Execution::collect`].
    fn collect_guard(&mut self, bytes: usize) -> Result<()> {
        if self.transaction().is_none() {
            return Ok(());
        }
        self.collect(bytes)
    }

    /// Adds an operand of the merge operator for a key. `write` appends the operand to an empty
    /// buffer.
    ///
    /// # Errors
    /// The error of `write`, or an error if the write takes too much memory.
    fn merge(
        &mut self,
        table: &Table,
        key: &[u8],
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), RowError>,
    ) -> Result<()> {
        self.operand.clear();
        write(&mut self.operand).map_err(of_row)?;
        let bytes = key.len() + self.operand.len();
        interrupt::charge_bytes(bytes)?;
        self.bytes += bytes;
        self.collect(bytes)?;
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

    /// Adds the index entry whose key is `prefix` followed by `row_key`, the key of the row or
    /// partition that the entry refers to. Adding an entry that exists already changes nothing.
    ///
    /// # Errors
    /// If the write takes too much memory.
    fn put_entry(&mut self, table: &Table, mut prefix: Vec<u8>, row_key: &[u8]) -> Result<()> {
        let bytes = prefix.len() + row_key.len();
        interrupt::charge_bytes(bytes)?;
        self.collect(bytes)?;
        prefix.extend(row_key);
        match &mut self.sink {
            Sink::Batch(batch) => batch.put(table, &prefix, &[]),
            Sink::Transaction { entries, .. } => entries.push((table.clone(), prefix)),
            Sink::Counters { .. } => unreachable!("counters have no indexes"),
        }
        Ok(())
    }
}

/// The changes of a statement in one partition.
struct PartitionChanges<'e, 'v, 'c> {
    execution: &'e mut Execution<'c>,
    table: &'e Table,
    schema: &'e TableSchema,
    partition: &'e PartitionKey,
    changes: &'v [Change],
    bound: &'e Bound<'v>,
    times: WriteTimes,
}

impl<'e, 'v> PartitionChanges<'e, 'v, '_> {
    /// Writes the static columns, if the statement changes any. `number` is the index of the
    /// partition among those of the statement, from 0.
    fn statics(&mut self, number: usize) -> Result<()> {
        if !self.changes.iter().any(Change::is_static) {
            return Ok(());
        }
        interrupt::charge(1)?;
        let key = self.partition.header_key();
        let header = if self.reads(true) {
            self.execution.read(self.table, &[&key])?.pop().flatten()
        } else {
            self.execution.guard(self.table, &key)?;
            None
        };
        let view = self.before(&key, header.as_deref())?.static_view();
        self.times.timestamp_us = (self.execution).own_timestamp_us(self.times.timestamp_us)?;
        let row = self.gather(true, number, Some(&view))?;
        if row.is_empty() {
            return self.execution.collect_guard(key.len());
        }
        (self.execution).merge(self.table, &key, |out| row.write_statics(out))?;
        indexes::put_statics(self.schema, self.partition, &row, |prefix, of| {
            self.execution.put_entry(self.table, prefix, of)
        })
    }

    /// Writes one row. `number` is the index of the row among those of the statement, from 0. If
    /// `has_marker`, the row exists from then on even without values.
    fn row(&mut self, target: &RowTarget<'_>, number: usize, has_marker: bool) -> Result<()> {
        interrupt::charge(1)?;
        let key = target.key(self.schema.layout(), self.partition)?;
        self.times.timestamp_us = (self.execution).own_timestamp_us(self.times.timestamp_us)?;
        let row = if self.reads(false) {
            self.gather_after(&key, number)?
        } else {
            self.execution.guard(self.table, &key)?;
            self.gather(false, number, None)?
        };
        if row.is_empty() && !has_marker {
            return self.execution.collect_guard(key.len());
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
            |prefix, of| self.execution.put_entry(self.table, prefix, of),
        )
    }

    fn reads(&self, of_static: bool) -> bool {
        let mut changes = self.changes.iter();
        changes.any(|change| change.is_static() == of_static && change.operation.reads())
    }

    /// Reads the row with the key `key`, and computes the effect of the changes on it. `number` is
    /// the index of the row among those of the statement, from 0.
    fn gather_after(&mut self, key: &[u8], number: usize) -> Result<RowBuffer<'v>> {
        let header_key = self.partition.header_key();
        let read = self.execution.read(self.table, &[&header_key, key])?;
        let partition = self.before(&header_key, read[0].as_deref())?;
        // The row's key consists of as many bytes as the header's key, followed by the clustering.
        let view = partition.view(&key[header_key.len()..], read[1].as_deref());
        self.gather(false, number, Some(&view.map_err(of_table)?))
    }

    /// Decodes the partition from its stored header, as it was before the statement. `key` is the
    /// key of the header or of any row of the partition.
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
        let (changes, execution) = (self.changes, &mut *self.execution);
        // The row is dropped once it is in an operand, which `Execution::collect` counts.
        bound.dropping(|| -> Result<()> {
            for change in changes {
                if change.is_static() == of_static {
                    let came = (execution.came_us, &mut execution.list_operations);
                    collection::apply(change, &bound, before, came, &mut row)?;
                }
            }
            Ok(())
        })?;
        if execution.guards_values {
            let (guardrails, warnings) = (execution.guardrails, &mut execution.warnings);
            guarded::check_row(guardrails, self.schema, &row, warnings)?;
        }
        Ok(row)
    }
}
