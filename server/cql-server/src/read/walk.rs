//! The walk of a SELECT over partitions and rows, in their order.
//!
//! ```text
//!   PartitionScan, RowScan, entries of an index ─► steps ─► live rows ─► filter ─► page
//! ```
//!
//! Rows from every source pass through [`Walk::take_rows`]. After each step the walk charges the
//! statement, and checks whether the page has used up its time.

use std::mem;
use std::time::Instant;

use ebb_model::key::{ByteRange, DecodedKey, PartitionKey, ROW, header_key};
use ebb_model::row::LiveColumn;
use ebb_tables::mutation::{self, Mutation};
use ebb_tables::read::{
    PartitionScan, PartitionStep, ProjectedPartition, RowReader, RowScan, RowStep, Rows, StoredRow,
    read_key,
};

use super::filter::Filter;
use super::page::{Flow, LiveRow, Page};
use super::scan_counts::ScanCounts;
use crate::analyse::restrictions::Partitions;
use crate::error::{Result, of_key, of_table};
use crate::interrupt;
use crate::pace::charge_decoding;
use crate::paging::{self, PagingState};

/// The number of steps of a walk after which the time of the page is checked: some tens of
/// microseconds.
const STEPS_PER_LOOK: u32 = 8;
/// The cost of a step of a walk, mostly the reading of a row, in units of about a microsecond.
const ROW_UNITS: u64 = 4;
/// The cost of looking up a key, or of seeking to one, in units of about a microsecond.
pub(super) const SEEK_UNITS: u64 = 4;
/// The number of bytes of a stored row that are decoded per unit, in about a microsecond.
const BYTES_PER_UNIT: usize = 1024;
/// The most stale index entries that one read reports for removal.
const STALE_MAX: usize = 32;

/// The reason why a walk over rows has ended, and where the next page begins.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// There are no more rows.
    Done,
    /// The page is full, or LIMIT is reached.
    Stopped,
    /// The walk has used up the time of the page. The next page begins after `key`, which need not
    /// be a stored key. `had_rows` is true if later pages must not return the static columns of the
    /// key's partition as a row of their own: the walk has met live rows there (even if the filter
    /// rejected them), has found no static columns, or has passed the whole partition.
    Cut { key: Vec<u8>, had_rows: bool },
}

impl End {
    /// Returns the end of a walk that has used up the time of the page after all rows of a
    /// partition. The keys of these rows begin with `prefix`.
    pub(super) fn after(prefix: &[u8]) -> Self {
        let key = [prefix, &[ROW, 0xff]].concat();
        Self::Cut {
            key,
            // Even without rows: the next page may open the partition again, and must not return
            // its static columns a second time.
            had_rows: true,
        }
    }
}

/// Returns the key at which the next page begins if a page ended at `key`. The first `prefix_len`
/// bytes of `key` are the prefix of its partition.
pub(super) fn behind(key: &[u8], prefix_len: usize) -> Vec<u8> {
    let (prefix, place) = key.split_at(prefix_len);
    // The cut of `End::after`. Keys of rows may begin with 0xff, too, so the next partition is the
    // right place: a row with exactly this key is the last one of its partition.
    if place == [ROW, 0xff] {
        [prefix, &[ROW + 1]].concat()
    } else {
        [key, &[0]].concat()
    }
}

/// The entries of an index by which a read finds its rows.
#[derive(Debug, Clone, Copy)]
pub struct Entries<'e> {
    /// The first part of an entry's key, which all entries of this read have. The rest is the key
    /// of the row or partition that the entry refers to.
    pub prefix: &'e [u8],
    /// True if each entry of the index refers to a partition, false if it refers to a row.
    pub of_partitions: bool,
    /// The position, among the statement's predicates, of the relation that the index serves: if a
    /// row does not pass it, the entry is stale. `None` if ranges of keys express the relation.
    pub predicate: Option<usize>,
}

/// The keys of index entries whose rows may no longer have the indexed value.
pub type Stale = Vec<Vec<u8>>;

/// A walk over partitions, which passes their rows to a page.
pub struct Walk<'w> {
    pub reader: RowReader<'w>,
    pub filter: &'w Filter<'w>,
    /// The rows of each partition that the restrictions on clustering columns select.
    pub rows: &'w Rows,
    pub reversed: bool,
    pub page: Page<'w>,
    pub counts: ScanCounts<'w>,
    pub progress: Progress,
}

/// The state of a read within one page: the time and the rows so far, and the index entries that
/// may be stale.
pub struct Progress {
    started: Instant,
    steps_until_look: u32,
    /// The number of rows passed to the page so far.
    pub(super) given_rows: u64,
    pub stale: Stale,
    /// An empty vector, whose allocation is reused for the cells of the next row.
    cells: Vec<Option<LiveColumn<'static>>>,
}

impl Progress {
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
            steps_until_look: STEPS_PER_LOOK,
            given_rows: 0,
            stale: Stale::new(),
            cells: Vec::new(),
        }
    }

    /// Adds the index entry of a row, or of a partition's header (its static columns), with the key
    /// `row_key` to the possibly stale entries. Does nothing if the read uses no index, or has
    /// [`STALE_MAX`] entries already.
    pub(super) fn note_stale(&mut self, index: Option<Entries<'_>>, row_key: &[u8]) {
        if let Some(entries) = index
            && self.stale.len() < STALE_MAX
        {
            self.stale.push([entries.prefix, row_key].concat());
        }
    }
}

impl<'w> Walk<'w> {
    /// Passes the rows of partitions to the page, beginning after `resume`.
    ///
    /// # Errors
    /// If stored bytes are damaged, the page fails, the statement's time is over, or `resume`
    /// belongs to another statement.
    pub fn run(&mut self, partitions: &Partitions, resume: Option<&PagingState>) -> Result<End> {
        match partitions {
            Partitions::Keys(keys) => self.keys(keys, resume),
            Partitions::Range(range) => self.range(range, resume),
        }
    }

    fn keys(&mut self, keys: &[PartitionKey], mut resume: Option<&PagingState>) -> Result<End> {
        let mut keys = keys.iter().map(PartitionKey::prefix).peekable();
        if let Some(resume) = resume {
            let at = DecodedKey::read(&resume.key).map_err(|_| paging::invalid())?;
            while keys.next_if(|prefix| prefix != at.prefix).is_some() {}
            if keys.peek().is_none() {
                return Err(paging::invalid());
            }
        }
        while let Some(prefix) = keys.next() {
            let end = self.partition(&prefix, resume.take())?;
            if end != End::Done {
                return Ok(end);
            }
            // Partitions without rows take time, too. A reversed read has no pages over several
            // partitions.
            let at = (!self.reversed).then_some(&prefix[..]);
            if keys.peek().is_some() && self.is_over(at)? {
                return Ok(End::after(&prefix));
            }
        }
        Ok(End::Done)
    }

    /// Passes the rows of the partition whose keys begin with `prefix` to the page, beginning after
    /// `resume`.
    pub(super) fn partition(&mut self, prefix: &[u8], resume: Option<&PagingState>) -> Result<End> {
        let header_key = header_key(prefix);
        let key = DecodedKey::read(&header_key).map_err(of_key)?;
        let (from, to) = match resume {
            None => (Vec::new(), None),
            Some(resume) if self.reversed => (Vec::new(), Some(resume.key.clone())),
            Some(resume) => (behind(&resume.key, prefix.len()), None),
        };
        let (header, mut scan) = PartitionScan::open(
            &self.reader,
            key,
            &header_key,
            self.rows,
            ByteRange { from, to },
            self.reversed,
        )
        .map_err(of_table)?;
        let partition = self.open(key, header.as_deref())?;
        let had_rows = resume.is_some_and(|resume| resume.had_rows);
        self.take_rows(&partition, had_rows, None, || {
            scan.advance().map_err(of_table)
        })
    }

    /// Walks over all partitions in a range of keys.
    fn range(&mut self, range: &ByteRange, resume: Option<&PagingState>) -> Result<End> {
        let RowReader { source, schema, .. } = self.reader;
        let mut from = range.from.clone();
        if let Some(resume) = resume {
            let at = DecodedKey::read(&resume.key).map_err(|_| paging::invalid())?;
            // A forged key must not be taken for a damaged one when the partition is opened.
            let values = schema.layout().partition_values(at.partition_key);
            if values.is_err() || !range.contains(&resume.key) {
                return Err(paging::invalid());
            }
            // The scan begins behind the partition in which the last page ended. It would not meet that
            // partition if only the static columns are left of it, because their key lies before.
            let end = self.partition(at.prefix, Some(resume))?;
            if end != End::Done {
                return Ok(end);
            }
            from = [at.prefix, &[ROW + 1]].concat();
        }
        if range.is_empty() {
            return Ok(End::Done);
        }
        let rows = self.rows;
        let scan = RowScan::open(source, schema, &from, range.to.as_deref());
        let mut scan = scan.map_err(of_table)?;
        loop {
            let start = match scan.search_partition().map_err(of_table)? {
                PartitionStep::Start(start) => start,
                PartitionStep::Passed(passed) => {
                    if self.is_over(passed.as_deref())?
                        && let Some(passed) = passed
                    {
                        return Ok(End::Cut {
                            key: passed.to_vec(),
                            // The scan has met no header of the key's partition: see `take_rows`.
                            had_rows: true,
                        });
                    }
                    continue;
                }
                PartitionStep::Done => return Ok(End::Done),
            };
            let key = read_key(schema, &start.key).map_err(of_table)?;
            let partition = self.open(key, start.header.as_deref())?;
            let end = self.take_rows(&partition, false, None, || {
                Ok(match scan.search_row().map_err(of_table)? {
                    RowStep::Row(row) if !rows.contains(row.clustering()) => {
                        RowStep::Unselected(row.key)
                    }
                    step => step,
                })
            })?;
            if end != End::Done {
                return Ok(end);
            }
            // Partitions without live rows take time, too.
            if self.is_over(Some(key.prefix))? {
                return Ok(End::after(key.prefix));
            }
        }
    }

    /// Opens a partition with its header, and counts the deletions in the header as tombstones.
    pub(super) fn open<'p>(
        &mut self,
        key: DecodedKey<'p>,
        header: Option<&'p [u8]>,
    ) -> Result<ProjectedPartition<'p>>
    where
        'w: 'p,
    {
        let RowReader {
            schema,
            projection,
            read_time_s,
            ..
        } = self.reader;
        let partition = ProjectedPartition::new(projection, schema, key, header, read_time_s);
        let partition = partition.map_err(of_table)?;
        self.counts.note_header(partition.partition().header())?;
        Ok(partition)
    }

    /// Gets the rows of a partition from `advance`, one by one, and passes the live rows that pass
    /// the filter to the page. Collects the stale entries of `index`.
    ///
    /// If the statement reads whole partitions and the partition has no live rows, also passes its
    /// static columns as a row of their own, unless `had_rows` is true. `had_rows` is true if
    /// an earlier page has read live rows of the partition or found no static columns, or if
    /// `advance` returns only rows that the entries of `index` name.
    pub(super) fn take_rows(
        &mut self,
        partition: &ProjectedPartition<'_>,
        mut had_rows: bool,
        index: Option<Entries<'_>>,
        mut advance: impl FnMut() -> Result<RowStep>,
    ) -> Result<End> {
        loop {
            let (key, flow) = match advance()? {
                RowStep::Seek => {
                    interrupt::charge(SEEK_UNITS)?;
                    continue;
                }
                RowStep::Row(row) => {
                    let flow = self.visit(partition, &row, index)?;
                    (Some(row.key), flow)
                }
                RowStep::Absent(key) => {
                    self.progress.note_stale(index, &key);
                    (Some(key), None)
                }
                RowStep::Unselected(key) => (Some(key), None),
                RowStep::Passed(key) => (key, None),
                RowStep::Done => break,
            };
            // Rows that the filter rejects count, too: static columns are a row of their own only in
            // a partition without live rows.
            had_rows |= flow.is_some();
            match flow {
                Some(Flow::Stop) => return Ok(End::Stopped),
                // PER PARTITION LIMIT, or DISTINCT, needs no more rows of this partition.
                Some(Flow::Partition) => break,
                Some(Flow::Row) | None => {}
            }
            // Keys without a row take time, too.
            if self.is_over(key.as_deref())?
                && let Some(key) = key
            {
                // Static columns that are written later may come with rows before `key`, which no later
                // page reads. Without these rows, they would seem to be the only row of the partition.
                let has_statics = partition.partition().has_static_values();
                let had_rows = had_rows || !has_statics.map_err(of_table)?;
                let key = key.to_vec();
                return Ok(End::Cut { key, had_rows });
            }
        }
        if self.reader.static_rows {
            let cells = partition.cells();
            let partition = partition.partition();
            if partition.has_static_row(had_rows).map_err(of_table)? {
                let key = header_key(partition.prefix());
                let prefix_len = partition.prefix().len();
                let row = LiveRow {
                    key: &key,
                    prefix_len,
                    cells,
                };
                if self.give(&row, None)? == Some(Flow::Stop) {
                    return Ok(End::Stopped);
                }
            }
        }
        Ok(End::Done)
    }

    /// Passes a row to the page, if the row is live and passes the filter, and returns where the
    /// walk has to continue. Returns `None` if the row is not live, and [`Flow::Row`] if the filter
    /// rejects it.
    fn visit(
        &mut self,
        partition: &ProjectedPartition<'_>,
        stored: &StoredRow,
        index: Option<Entries<'_>>,
    ) -> Result<Option<Flow>> {
        interrupt::charge((stored.operand.len() / BYTES_PER_UNIT) as u64)?;
        let row = partition.row(stored.clustering(), &stored.operand, &mut charge_decoding);
        let Some(row) = row.map_err(of_table)? else {
            self.counts.note_tombstones(1)?;
            self.progress.note_stale(index, &stored.key);
            return Ok(None);
        };
        self.counts.note_row();
        let mut cells: Vec<Option<LiveColumn<'_>>> = mem::take(&mut self.progress.cells);
        partition.fill(&row, &mut cells).map_err(of_table)?;
        let by_index = index.and_then(|entries| entries.predicate);
        let live = LiveRow {
            key: &stored.key,
            prefix_len: partition.partition().prefix().len(),
            cells: &cells,
        };
        let flow = if let Some(predicate) = by_index
            && !self.filter.passes_one(predicate, &cells)?
            && !mutation::is(Mutation::StaleEntriesAreRows)
        {
            self.progress.note_stale(index, &stored.key);
            None
        } else {
            self.give(&live, by_index)?
        };
        // Keeps the allocation for the next row, but none of the cells, which borrow from this row.
        cells.clear();
        self.progress.cells = cells.into_iter().map(|_| None).collect();
        Ok(Some(flow.unwrap_or(Flow::Row)))
    }

    /// Passes a row to the page. Returns whether to go on with the next row, with the next
    /// partition, or not at all; `None` if the filter rejects the row. The filter leaves out the
    /// predicate at the position `checked`, which the caller has checked.
    fn give(&mut self, row: &LiveRow<'_>, checked: Option<usize>) -> Result<Option<Flow>> {
        if !self.filter.passes(row.cells, checked)? {
            return Ok(None);
        }
        self.counts.note_passed();
        self.progress.given_rows += 1;
        self.page.row(row).map(Some)
    }

    /// Charges the statement for a step of the walk, and returns whether the walk has used up the
    /// time of the page, so that the page has to end here. `at` is the key at which the page would
    /// end or, if it would end after a partition, the prefix of the partition. `None` if the page
    /// cannot end here.
    ///
    /// # Errors
    /// As [`Page::ends_at`], and if the statement's time is over.
    pub(super) fn is_over(&mut self, at: Option<&[u8]>) -> Result<bool> {
        interrupt::charge(ROW_UNITS)?;
        let progress = &mut self.progress;
        progress.steps_until_look -= 1;
        if progress.steps_until_look > 0 {
            return Ok(false);
        }
        progress.steps_until_look = STEPS_PER_LOOK;
        match at {
            Some(at) => self.page.ends_at(at, progress.started.elapsed()),
            None => Ok(false),
        }
    }
}
