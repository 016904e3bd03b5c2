//! The rows of a table that differ between two snapshots.
//!
//! ```text
//!   keys that may differ ─┐
//!   rows to write again ──┴─► KeysToCompare ─► the row at both snapshots ─► a record
//! ```
//!
//! The row of a key that may differ is read at both snapshots. A row to write again whose key is not among
//! the keys that may differ is recorded as it was published, without reading the store. The key of a
//! partition's header stands for the static columns. If the header has other deletions than before, it also
//! stands for all rows of the partition, because these deletions hide rows. Then each split reads and
//! compares all rows of the partition that lie in the split, even if the header lies in another split. With
//! the same deletions, a row differs only if its own key may: a write that merges left out because of a
//! deletion has no effect at either snapshot.
//!
//! Single rows are read by their keys, after the header of their partition: see
//! [the purge race](ebb_tables::read#the-purge-race). A [`Follower`] for each snapshot reads them,
//! because it is faster than point gets where many rows of a partition have changed.

use std::cmp::{Ordering, max};
use std::iter::Peekable;
use std::vec;

use bytes::Bytes;
use ebb_model::key::{Place, end_of_prefix, header_key, partition_prefix};
use ebb_model::row::{Header, RowError};
use ebb_model::schema::TableSchema;
use ebb_scheduler::runtime::{RecordSink, TaskError};
use ebb_storage::{Cache, ChangedKeys, Changes, SnapshotTable};
use ebb_tables::read::{Pace, ProjectedPartition, RowScan, Source, TableError, read_key};

use super::follower::{Backoff, Follower};
use super::{Change, CqlCells, Piece, RowCells, RowKey, TaskPace, push_cell};
use crate::error::{of_store, of_table};

/// The size on disk, in bytes, of the pieces of a split in which changed keys are searched for. A
/// piece is read in about half a second.
const PIECE_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 64 << 20 };

/// A published row that is written again even if it has not changed, because the data file that contains it
/// is removed.
#[derive(Debug, Clone)]
pub(crate) struct RewrittenRow {
    /// The number of the published table that contains the row.
    pub(crate) table: u32,
    /// The key of the row in the store.
    pub(crate) key: Bytes,
    /// The cells of the row as they were published.
    pub(crate) cells: Vec<u8>,
}

/// An iterator over the published rows that are written again because their data files are removed,
/// by ascending keys.
pub(crate) type Rewritten<'r> = &'r mut dyn Iterator<Item = Result<RewrittenRow, TaskError>>;

/// A table at two snapshots, whose rows are compared.
pub(super) struct Compared<'t> {
    pub(super) older: &'t SnapshotTable,
    pub(super) newer: &'t SnapshotTable,
    /// The number of the published table that the rows belong to.
    pub(super) rows_to: u32,
    pub(super) pace: TaskPace<'t>,
}

/// An iterator over the keys, in a range of the keys of a table, that may differ between the two
/// snapshots.
///
/// The search for the next changed key calls no checkpoint, and may read much data: a file with a
/// single change is read whole, and so is a file of which some values expire before the older
/// snapshot and others after the newer one. So the range is searched in pieces, with a checkpoint
/// before each.
///
/// Each piece is searched in the newest version of the table. No changed key is missing in any
/// version, so flushes and merges between two pieces do no harm.
struct ChangedInPieces<'c> {
    compared: &'c Compared<'c>,
    /// The pieces that are still to be searched, ascending.
    pieces: vec::IntoIter<Piece>,
    open: Option<ChangedKeys>,
}

/// The keys, in a range of the keys of a table, whose rows are to be compared, or to be copied as they were
/// published. The keys ascend, and each occurs once.
struct KeysToCompare<'c, 'r> {
    changed: Peekable<ChangedInPieces<'c>>,
    rewritten: Peekable<Rewritten<'r>>,
}

/// The header of a partition (the stored entry with its deletions and static columns) at both snapshots;
/// `None` where the snapshot has none.
struct Headers {
    key: Vec<u8>,
    older: Option<Bytes>,
    newer: Option<Bytes>,
}

/// A key whose row may differ between the two snapshots.
struct KeyToCompare {
    key: Bytes,
    /// True if the row is written again even if it has not changed.
    is_rewritten: bool,
}

/// The next item of [`KeysToCompare`].
enum Next {
    Compare(KeyToCompare),
    /// A row that has not changed and is written again as it was published.
    Copy(RewrittenRow),
}

impl<'c> ChangedInPieces<'c> {
    fn new(compared: &'c Compared<'c>, range: &Piece) -> Self {
        let newer = compared.newer;
        let bytes = newer.approximate_bytes::<&[u8], _>(range.bounds());
        let parts = usize::try_from(bytes / PIECE_BYTES).unwrap_or(usize::MAX);
        let cuts = if parts > 1 {
            newer.split_keys::<&[u8], _>(range.bounds(), parts)
        } else {
            Vec::new()
        };
        let pieces: Vec<Piece> = range.clone().cut_at(cuts).collect();
        Self {
            compared,
            pieces: pieces.into_iter(),
            open: None,
        }
    }

    fn step(&mut self) -> Result<Option<Bytes>, TaskError> {
        loop {
            if let Some(key) = self.open.as_mut().and_then(Iterator::next) {
                return key.map(Some).map_err(of_store);
            }
            let Some(piece) = self.pieces.next() else {
                return Ok(None);
            };
            self.compared.pace.checkpoint()?;
            self.open = Some(self.compared.changed_keys(&piece)?);
        }
    }
}

impl Iterator for ChangedInPieces<'_> {
    type Item = Result<Bytes, TaskError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

impl<'c, 'r> KeysToCompare<'c, 'r> {
    fn new(compared: &'c Compared<'c>, range: &Piece, rewritten: Rewritten<'r>) -> Self {
        Self {
            changed: ChangedInPieces::new(compared, range).peekable(),
            rewritten: rewritten.peekable(),
        }
    }

    /// Returns the least of the remaining keys; `None` if none is left.
    fn peek(&mut self) -> Result<Option<Bytes>, TaskError> {
        if self.changed.peek().is_some_and(Result::is_err)
            && let Some(Err(error)) = self.changed.next()
        {
            return Err(error);
        }
        if self.rewritten.peek().is_some_and(Result::is_err)
            && let Some(Err(error)) = self.rewritten.next()
        {
            return Err(error);
        }
        let changed = self.changed.peek().and_then(|key| key.as_ref().ok());
        let rewritten = self.rewritten.peek().and_then(|row| row.as_ref().ok());
        let rewritten = rewritten.map(|row| &row.key);
        let least = match (changed, rewritten) {
            (Some(changed), Some(rewritten)) => Some(changed.min(rewritten)),
            (one, other) => one.or(other),
        };
        Ok(least.cloned())
    }

    /// Removes the least of the remaining keys and returns its item, if `is_wanted` returns true for the key.
    /// Otherwise removes nothing and returns `None`, as after the last key.
    fn next_if(
        &mut self,
        is_wanted: impl FnOnce(&Bytes) -> bool,
    ) -> Result<Option<Next>, TaskError> {
        let Some(key) = self.peek()?.filter(is_wanted) else {
            return Ok(None);
        };
        let is_least =
            |row: &Result<RewrittenRow, TaskError>| row.as_ref().is_ok_and(|row| row.key == key);
        let rewritten = self.rewritten.next_if(is_least).transpose()?;
        let has_changed = |changed: &Result<Bytes, TaskError>| {
            changed.as_ref().is_ok_and(|changed| *changed == key)
        };
        let changed = self.changed.next_if(has_changed).transpose()?;
        Ok(Some(match (changed, rewritten) {
            (None, Some(row)) => Next::Copy(row),
            (_, rewritten) => Next::Compare(KeyToCompare {
                is_rewritten: rewritten.is_some(),
                key,
            }),
        }))
    }

    /// Removes all keys up to and including `key`. The rows of the keys before `key` need no
    /// comparison, because neither snapshot shows such rows. Returns whether the row of `key` must
    /// be written again even if it has not changed.
    fn is_rewritten(&mut self, key: &[u8]) -> Result<bool, TaskError> {
        let mut is_rewritten = false;
        while let Some(next) = self.next_if(|next| next[..] <= *key)? {
            is_rewritten = match next {
                Next::Compare(next) => next.is_rewritten && next.key == key,
                Next::Copy(row) => row.key == key,
            };
        }
        Ok(is_rewritten)
    }
}

impl Headers {
    /// Returns whether the headers of the partition at the two snapshots have different deletions, which
    /// may hide different rows.
    fn have_other_deletions(&self, schema: &TableSchema) -> Result<bool, TaskError> {
        let damaged = |error: RowError| of_table(TableError::damaged(schema, &self.key, error));
        let [older, newer] = [&self.older, &self.newer].map(|header| match header {
            Some(header) => Header::parse(header),
            None => Ok(Header::EMPTY),
        });
        let (older, newer) = (older.map_err(damaged)?, newer.map_err(damaged)?);
        Ok(!older.has_same_deletions(&newer))
    }
}

/// A writer of the records of rows that were compared.
struct Differences<'s> {
    record: RecordSink<'s>,
    key: Vec<u8>,
}

impl Differences<'_> {
    /// Writes a record with the change of a row of the published table number `table`. `older` and `newer`
    /// are the row's cells at the two snapshots, `None` if the row does not exist there. With
    /// `is_rewritten`, the record contains the cells even if they have not changed, because the data file
    /// that contains the row is removed. The record of any other unchanged row has no cells, and only
    /// reports progress to the runtime.
    fn row(
        &mut self,
        (table, key): (u32, &[u8]),
        older: Option<&[u8]>,
        newer: Option<&[u8]>,
        is_rewritten: bool,
    ) -> Result<(), TaskError> {
        let change = Change::between(older, newer, is_rewritten);
        RowKey { table, change, key }.encode(&mut self.key);
        let cells = newer.filter(|_| change.has_new());
        (self.record)(&self.key, cells.unwrap_or_default())
    }

    /// Writes the record of a row that has not changed, but is written again because its data file
    /// is removed.
    fn copy(&mut self, row: &RewrittenRow) -> Result<(), TaskError> {
        let key = RowKey {
            table: row.table,
            change: Change::Rewritten,
            key: &row.key,
        };
        key.encode(&mut self.key);
        (self.record)(&self.key, &row.cells)
    }
}

impl Compared<'_> {
    /// Returns the keys in the range `piece` that may differ between the two snapshots.
    fn changed_keys(&self, piece: &Piece) -> Result<ChangedKeys, TaskError> {
        let changes = (self.newer).changed_keys::<&[u8], _>(self.older, piece.bounds());
        match changes.map_err(of_store)? {
            Changes::Keys(changed) => Ok(changed),
            Changes::Unknown(reason) => Err(TaskError::failed(format!(
                "which rows have changed is not known any more: {reason}; publish again"
            ))),
        }
    }

    /// Writes a record for each row in the key range `piece` that may differ between the two snapshots. Also
    /// writes a record for each of the rows `rewritten`, which are written again even if they have not
    /// changed. The table must be a plain one.
    pub(super) fn read_plain(
        &self,
        piece: &Piece,
        rewritten: Rewritten<'_>,
        record: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        let mut keys = KeysToCompare::new(self, piece, rewritten);
        let mut differences = Differences {
            record,
            key: Vec::new(),
        };
        let (mut old_row, mut new_row) = (Vec::new(), Vec::new());
        let upper = piece.upper.as_deref();
        let (mut old_backoff, mut new_backoff) = (Backoff::default(), Backoff::default());
        let mut old_entries = Follower::new(self.older, upper, &mut old_backoff);
        let mut new_entries = Follower::new(self.newer, upper, &mut new_backoff);
        while let Some(next) = keys.next_if(|_| true)? {
            match next {
                Next::Copy(row) => differences.copy(&row)?,
                Next::Compare(KeyToCompare { key, is_rewritten }) => {
                    let older = plain_cells(&mut old_entries, &key, &mut old_row)?;
                    let newer = plain_cells(&mut new_entries, &key, &mut new_row)?;
                    differences.row((self.rows_to, &key[..]), older, newer, is_rewritten)?;
                }
            }
        }
        Ok(())
    }

    /// Writes a record for each row in the key range `piece`, and for the static columns of each partition,
    /// that may differ between the two snapshots. Also writes a record for each of the rows `rewritten`,
    /// which are written again even if they have not changed. The table must be a CQL table.
    pub(super) fn read_cql(
        &self,
        cql: &CqlCells,
        piece: &Piece,
        rewritten: Rewritten<'_>,
        record: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        let mut differences = Differences {
            record,
            key: Vec::new(),
        };
        let mut keys = KeysToCompare::new(self, piece, rewritten);
        if let Some(prefix) = partition_prefix(&piece.lower) {
            let header = header_key(prefix);
            // A header before the piece belongs to another split.
            if header[..] < piece.lower[..]
                && self.headers(header)?.have_other_deletions(&cql.schema)?
            {
                self.compare_rows(cql, (prefix, piece), &mut keys, &mut differences)?;
            }
        }
        let mut backoffs = <[Backoff; 2]>::default();
        while let Some(next) = keys.next_if(|_| true)? {
            let next = match next {
                Next::Compare(next) => next,
                Next::Copy(row) => {
                    differences.copy(&row)?;
                    continue;
                }
            };
            let decoded = read_key(&cql.schema, &next.key).map_err(of_table)?;
            let prefix = next.key.slice(..decoded.prefix.len());
            match decoded.place {
                Place::Header => {
                    let headers = self.headers(&next.key[..])?;
                    self.compare_statics(cql, (&headers, next.is_rewritten), &mut differences)?;
                    if headers.have_other_deletions(&cql.schema)? {
                        self.compare_rows(cql, (&prefix, piece), &mut keys, &mut differences)?;
                    }
                }
                Place::Row(_) => {
                    let row = (&prefix[..], next);
                    self.compare_some(cql, row, &mut keys, &mut backoffs, &mut differences)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the header of a partition at both snapshots. `key` is the key of the header.
    fn headers(&self, key: impl Into<Vec<u8>>) -> Result<Headers, TaskError> {
        let key = key.into();
        Ok(Headers {
            older: self.older.get(&key).map_err(of_store)?,
            newer: self.newer.get(&key).map_err(of_store)?,
            key,
        })
    }

    /// Compares the static columns of a partition at both snapshots, and writes a record of their change to
    /// `differences`. `headers` contains these columns. With `is_rewritten`, they are written again even if
    /// they have not changed. Does nothing if no static columns are published.
    fn compare_statics(
        &self,
        cql: &CqlCells,
        (headers, is_rewritten): (&Headers, bool),
        differences: &mut Differences<'_>,
    ) -> Result<(), TaskError> {
        let Some((_, table)) = &cql.statics else {
            return Ok(());
        };
        let pace = &self.pace;
        let Headers { key, older, newer } = headers;
        let (mut old_row, mut new_row) = (RowCells::default(), RowCells::default());
        let older = static_cells(cql, self.older, (key, older.as_deref()), &mut old_row, pace)?;
        let newer = static_cells(cql, self.newer, (key, newer.as_deref()), &mut new_row, pace)?;
        differences.row((*table, &key[..]), older, newer, is_rewritten)
    }

    /// Compares all rows of the partition whose keys begin with `prefix` at both snapshots, as far as they
    /// lie in the range `piece`, and writes their records to `differences`. Removes the keys of the partition
    /// from `keys`.
    fn compare_rows(
        &self,
        cql: &CqlCells,
        (prefix, piece): (&[u8], &Piece),
        keys: &mut KeysToCompare<'_, '_>,
        differences: &mut Differences<'_>,
    ) -> Result<(), TaskError> {
        // The piece may begin or end among the rows of the partition. Other splits have the rest.
        let header = header_key(prefix);
        let from = max(&piece.lower[..], &header[..]);
        let behind = end_of_prefix(prefix);
        let to = match (behind.as_deref(), piece.upper.as_deref()) {
            (Some(behind), Some(upper)) => Some(behind.min(upper)),
            (one, other) => one.or(other),
        };
        let pace = &self.pace;
        let mut old_scan = cql.scan(self.older, from, to, pace)?;
        let mut new_scan = cql.scan(self.newer, from, to, pace)?;
        // Either snapshot may lack the partition. Then all rows of the other one differ. The header in
        // `start` is that of the partition, even if its key lies before `from`.
        let old_start = old_scan.next_partition().map_err(of_table)?;
        let new_start = new_scan.next_partition().map_err(of_table)?;
        let old_partition = old_start.as_ref();
        let old_partition = old_partition
            .map(|start| cql.partition_at(self.older, &start.key, start.header.as_deref()));
        let new_partition = new_start.as_ref();
        let new_partition = new_partition
            .map(|start| cql.partition_at(self.newer, &start.key, start.header.as_deref()));
        let mut old_rows = VisibleRows::open(cql, old_scan, old_partition.transpose()?, pace)?;
        let mut new_rows = VisibleRows::open(cql, new_scan, new_partition.transpose()?, pace)?;
        // Both have their rows ascending by key: a key that only one of them has is a row that was
        // removed or added.
        loop {
            let order = match (&old_rows.key, &new_rows.key) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.cmp(new),
            };
            let older = old_rows.row().filter(|_| order.is_le());
            let newer = new_rows.row().filter(|_| order.is_ge());
            // At least one side has a row, by `order`.
            let Some((key, _)) = older.or(newer) else {
                break;
            };
            let is_rewritten = keys.is_rewritten(key)?;
            let older = older.map(|(_, cells)| cells);
            let newer = newer.map(|(_, cells)| cells);
            differences.row((self.rows_to, &key[..]), older, newer, is_rewritten)?;
            if order.is_le() {
                old_rows.advance()?;
            }
            if order.is_ge() {
                new_rows.advance()?;
            }
        }
        // The keys that are left in the partition are those of rows that neither snapshot
        // shows.
        while keys.next_if(|key| key.starts_with(prefix))?.is_some() {}
        Ok(())
    }

    /// Compares the row `first` at both snapshots, and then the other rows of the same partition that
    /// `keys` returns next. Writes their records to `differences`. The two delays are those of the
    /// ranges of the older and the newer snapshot.
    fn compare_some(
        &self,
        cql: &CqlCells,
        (prefix, first): (&[u8], KeyToCompare),
        keys: &mut KeysToCompare<'_, '_>,
        [old_backoff, new_backoff]: &mut [Backoff; 2],
        differences: &mut Differences<'_>,
    ) -> Result<(), TaskError> {
        let Headers { key, older, newer } = self.headers(header_key(prefix))?;
        let old_partition = cql.partition_at(self.older, &key, older.as_deref())?;
        let new_partition = cql.partition_at(self.newer, &key, newer.as_deref())?;
        let (mut old_row, mut new_row) = (RowCells::default(), RowCells::default());
        let pace = &self.pace;
        old_row.begin_partition(&old_partition, &cql.rows.types, pace)?;
        new_row.begin_partition(&new_partition, &cql.rows.types, pace)?;
        // The followers are created after the headers were read, and are dropped at the end of the
        // partition. So no row is read from an older version of the table than its header.
        let behind = end_of_prefix(prefix);
        let mut old_entries = Follower::new(self.older, behind.as_deref(), old_backoff);
        let mut new_entries = Follower::new(self.newer, behind.as_deref(), new_backoff);
        let mut next = Some(Next::Compare(first));
        while let Some(row) = next {
            match row {
                Next::Copy(row) => differences.copy(&row)?,
                Next::Compare(KeyToCompare { key, is_rewritten }) => {
                    let clustering = &key[prefix.len() + 1..];
                    let operand = old_entries.get(&key)?;
                    let operand = operand.as_deref();
                    let older =
                        old_row.of_operand(cql, &old_partition, clustering, operand, pace)?;
                    let operand = new_entries.get(&key)?;
                    let operand = operand.as_deref();
                    let newer =
                        new_row.of_operand(cql, &new_partition, clustering, operand, pace)?;
                    differences.row((self.rows_to, &key[..]), older, newer, is_rewritten)?;
                }
            }
            next = keys.next_if(|key| key.starts_with(prefix))?;
        }
        Ok(())
    }
}

/// Returns the cells of the row `key` of a plain table; `None` if the row does not exist.
fn plain_cells<'c>(
    entries: &mut Follower<'_>,
    key: &[u8],
    cells: &'c mut Vec<u8>,
) -> Result<Option<&'c [u8]>, TaskError> {
    let Some(value) = entries.get(key)? else {
        return Ok(None);
    };
    cells.clear();
    push_cell(cells, key);
    push_cell(cells, &value);
    Ok(Some(&cells[..]))
}

/// Returns the cells of the static columns of a partition; `None` if it has no static values. `header` is
/// the stored header of the partition, which contains these columns, and `key` the header's key.
fn static_cells<'c>(
    cql: &CqlCells,
    table: &SnapshotTable,
    (key, header): (&[u8], Option<&[u8]>),
    cells: &'c mut RowCells,
    pace: &TaskPace<'_>,
) -> Result<Option<&'c [u8]>, TaskError> {
    let (Some(header), Some((columns, _))) = (header, &cql.statics) else {
        return Ok(None);
    };
    let partition = cql.partition(columns, key, Some(header), read_time_s(table))?;
    cells.of_statics(&partition, &columns.types, pace)
}

/// Returns the time at which `table` is read, in seconds since 1970: values that expire later are visible.
pub(crate) fn read_time_s(table: &SnapshotTable) -> i64 {
    i64::try_from(table.read_time_ms() / 1000).unwrap_or(i64::MAX)
}

impl CqlCells {
    fn scan<'s>(
        &'s self,
        table: &'s SnapshotTable,
        from: &[u8],
        to: Option<&'s [u8]>,
        pace: &'s dyn Pace,
    ) -> Result<RowScan<'s>, TaskError> {
        let source = Source::Stored(table, Cache::Bypass, pace);
        RowScan::open(source, &self.schema, from, to).map_err(of_table)
    }

    /// Returns the partition to which the stored key `key` (of its header or of one of its rows) belongs,
    /// with the columns that are published for its rows. Values that have expired by the read time of `table`
    /// are left out. `header` is the stored header of the partition (its deletions and static columns);
    /// `None` if there is none.
    fn partition_at<'p>(
        &'p self,
        table: &SnapshotTable,
        key: &'p [u8],
        header: Option<&'p [u8]>,
    ) -> Result<ProjectedPartition<'p>, TaskError> {
        self.partition(&self.rows, key, header, read_time_s(table))
    }
}

/// An iterator over the visible rows of a partition.
struct VisibleRows<'p> {
    cql: &'p CqlCells,
    scan: RowScan<'p>,
    /// The partition; `None` if it does not exist.
    partition: Option<ProjectedPartition<'p>>,
    /// The key of the current row; `None` after the last row.
    key: Option<Bytes>,
    cells: RowCells,
    /// The pace of the task. Its checkpoint is called for each row that is not visible, because such a row
    /// has no record by which the runtime could see progress. It is also called before work on long decimals.
    pace: &'p TaskPace<'p>,
}

impl<'p> VisibleRows<'p> {
    /// Creates the iterator, at the first visible row.
    fn open(
        cql: &'p CqlCells,
        scan: RowScan<'p>,
        partition: Option<ProjectedPartition<'p>>,
        pace: &'p TaskPace<'p>,
    ) -> Result<Self, TaskError> {
        let mut cells = RowCells::default();
        if let Some(partition) = &partition {
            cells.begin_partition(partition, &cql.rows.types, pace)?;
        }
        let mut rows = Self {
            cql,
            scan,
            partition,
            key: None,
            cells,
            pace,
        };
        rows.advance()?;
        Ok(rows)
    }

    /// Returns the key and the cells of the current row; `None` after the last row.
    fn row(&self) -> Option<(&Bytes, &[u8])> {
        self.key.as_ref().map(|key| (key, self.cells.bytes()))
    }

    fn advance(&mut self) -> Result<(), TaskError> {
        self.key = None;
        let Some(partition) = &self.partition else {
            return Ok(());
        };
        let pace = self.pace;
        while let Some(stored) = self.scan.next_row().map_err(of_table)? {
            let operand = Some(&stored.operand[..]);
            let clustering = stored.clustering();
            let cells = self
                .cells
                .of_operand(self.cql, partition, clustering, operand, pace)?;
            if cells.is_some() {
                self.key = Some(stored.key.clone());
                break;
            }
            pace.checkpoint()?;
        }
        Ok(())
    }
}
