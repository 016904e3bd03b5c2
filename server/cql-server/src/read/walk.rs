//! Partitions and rows in their order, each row as its reader sees it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use ebb_model::key::{ByteRange, DecodedKey, PartitionKey, ROW, header_key};
use ebb_model::row::LiveColumn;
use ebb_model::schema::TableSchema;
use ebb_storage::FoundSoFar;
use ebb_tables::read::{Partition, ProjectedPartition, Projection, RowScan, Source, read_key};

use super::filter::Filter;
use super::scanned::Scanned;
use crate::analyse::restrictions::{Partitions, Rows};
use crate::error::{Result, of_key, of_table};
use crate::interrupt;
use crate::paging::{self, PagingState};

/// The rows after which a walk looks whether its page has taken its time: some tens of microseconds.
const ROWS_PER_LOOK: u32 = 8;
/// About how many microseconds a row takes.
const ROW_UNITS: u64 = 4;
/// About how many microseconds it takes to look for a key, or to begin at one.
pub(super) const SEEK_UNITS: u64 = 4;
/// The bytes of a stored row that are decoded in about a microsecond.
const BYTES_PER_UNIT: usize = 1024;

/// A row on its way.
#[derive(Debug)]
pub struct Visited<'r> {
    /// Its key in the engine; that of the header for static columns alone.
    pub key: &'r [u8],
    /// How many bytes of it are the partition's.
    pub prefix_len: usize,
    /// The columns at their slots.
    pub cells: &'r [Option<LiveColumn<'r>>],
}

/// What takes rows wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The next row.
    Row,
    /// The next partition.
    Partition,
    /// No more.
    Stop,
}

/// Takes rows.
pub trait Sink {
    /// The next row.
    fn row(&mut self, row: &Visited<'_>) -> Result<Flow>;

    /// Whether the page may end here although it has room, after reading for `elapsed`.
    fn may_cut(&self, elapsed: Duration) -> bool;
}

/// How a walk ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// There are no more rows.
    Done,
    /// The sink wanted no more.
    Stopped,
    /// It took long: it goes on after this key, whose partition gave rows or did not.
    Cut { key: Vec<u8>, had_rows: bool },
}

impl End {
    /// The cut behind all rows of a partition, whose keys begin with `rows`.
    pub(super) fn after(mut rows: Vec<u8>) -> Self {
        rows.push(0xff);
        Self::Cut {
            key: rows,
            had_rows: true,
        }
    }
}

/// Returns the first key behind a cut. The key of a cut begins with a prefix of `prefix_len` bytes.
fn behind(key: &[u8], prefix_len: usize) -> Vec<u8> {
    let (prefix, place) = key.split_at(prefix_len);
    // The cut of `End::after`: keys of rows may begin with 0xff, too. A row that has exactly this key is the
    // last one of its partition.
    if place == [ROW, 0xff] {
        with(prefix, ROW + 1)
    } else {
        with(key, 0)
    }
}

/// What is walked over.
#[derive(Debug)]
pub struct Walk<'w> {
    pub source: &'w Source<'w>,
    pub schema: &'w TableSchema,
    pub projection: &'w Projection,
    pub filter: &'w Filter<'w>,
    pub rows: &'w Rows,
    pub reversed: bool,
    /// A partition without rows has one of its static columns, if they have a value.
    pub static_rows: bool,
    /// Seconds since 1970.
    pub now_s: i64,
    pub scanned: &'w Scanned<'w>,
}

/// What changes on the way.
pub(super) struct Progress {
    started: Instant,
    until_look: u32,
}

impl Walk<'_> {
    /// Gives the rows of partitions to a sink, from after `resume` where a page was cut.
    ///
    /// # Errors
    /// What is damaged; what the sink says; a time-out; a state of another statement.
    pub fn run(
        &self,
        partitions: &Partitions,
        resume: Option<&PagingState>,
        sink: &mut dyn Sink,
    ) -> Result<End> {
        let mut progress = Progress::new();
        match partitions {
            Partitions::Keys(keys) => self.keys(keys, resume, sink, &mut progress),
            Partitions::Range(range) => self.range(range, resume, sink, &mut progress),
        }
    }

    fn keys(
        &self,
        keys: &[PartitionKey],
        resume: Option<&PagingState>,
        sink: &mut dyn Sink,
        progress: &mut Progress,
    ) -> Result<End> {
        let mut keys = keys.iter().map(PartitionKey::prefix).peekable();
        if let Some(resume) = resume {
            let at = DecodedKey::read(&resume.key).map_err(|_| paging::invalid())?;
            while keys.next_if(|prefix| prefix != at.prefix).is_some() {}
            if keys.peek().is_none() {
                return Err(paging::invalid());
            }
        }
        let mut resume = resume;
        while let Some(prefix) = keys.next() {
            let rows = keys.peek().map(|_| with(&prefix, ROW));
            match self.partition(prefix, resume.take(), sink, progress)? {
                End::Done => {}
                end => return Ok(end),
            }
            // Partitions of which there is nothing take time too. Those of a reversed read have no
            // pages.
            if let Some(rows) = rows
                && progress.is_over(sink)?
                && !self.reversed
            {
                return Ok(End::after(rows));
            }
        }
        Ok(End::Done)
    }

    /// One partition whose key is known. The header is read before any row or with it: see
    /// [`ebb_tables::read`], the purge race.
    pub(super) fn partition(
        &self,
        prefix: Vec<u8>,
        resume: Option<&PagingState>,
        sink: &mut dyn Sink,
        progress: &mut Progress,
    ) -> Result<End> {
        let header_key = header_key(&prefix);
        let decoded = DecodedKey::read(&header_key).map_err(of_key)?;
        let rows = with(&prefix, ROW);
        // The only row that is asked for comes with the header.
        let (header, mut only) = match self.rows {
            Rows::Exactly(clusterings) if clusterings.len() == 1 => {
                let key = [&rows[..], &clusterings[0]].concat();
                let keys = [&header_key[..], &key];
                let (header, row) = self.header_and_row(decoded, keys, &clusterings[0])?;
                (header, Some(row))
            }
            _ => (self.source.get(&header_key).map_err(of_table)?, None),
        };
        let partition = self.open(decoded, header.as_deref())?;
        let mut had_rows = resume.is_some_and(|resume| resume.had_rows);
        // Of the rows: from here, to before there.
        let all = ByteRange::of_prefix(rows.clone());
        let (mut low, mut high) = (all.from, all.to);
        if let Some(resume) = resume {
            match self.reversed {
                false => low = low.max(behind(&resume.key, prefix.len())),
                true => high = Some(resume.key.clone()),
            }
        }
        let is_in =
            |key: &[u8]| *key >= low[..] && high.as_ref().is_none_or(|high| *key < high[..]);
        if let Rows::Exactly(clusterings) = self.rows {
            let mut clusterings: Vec<&Vec<u8>> = clusterings.iter().collect();
            if self.reversed {
                clusterings.reverse();
            }
            for clustering in clusterings {
                let key = [&rows[..], clustering].concat();
                if !is_in(&key) {
                    continue;
                }
                let operand = match only.take() {
                    Some(operand) => operand,
                    None => self.source.get(&key).map_err(of_table)?,
                };
                // One that is not there takes time too.
                let step = match operand {
                    Some(operand) => self.visit(&partition, &key, prefix.len(), &operand, sink)?,
                    None => None,
                };
                had_rows |= step.is_some();
                match step {
                    Some(Flow::Partition) => return Ok(End::Done),
                    Some(Flow::Stop) => return Ok(End::Stopped),
                    _ => {}
                }
                if progress.is_over(sink)? {
                    return Ok(End::Cut { key, had_rows });
                }
            }
        } else {
            let whole = [ByteRange {
                from: Vec::new(),
                to: None,
            }];
            let ranges: &[ByteRange] = match self.rows {
                Rows::In(ranges) => ranges,
                _ => &whole,
            };
            let mut ranges: Vec<&ByteRange> = ranges.iter().collect();
            if self.reversed {
                ranges.reverse();
            }
            for range in ranges {
                let from = [&rows[..], &range.from].concat().max(low.clone());
                let to = match &range.to {
                    Some(to) => Some([&rows[..], to].concat()),
                    None => high.clone(),
                };
                let to = match (to, &high) {
                    (Some(to), Some(high)) => Some(to.min(high.clone())),
                    (to, high) => to.or(high.clone()),
                };
                if to.as_ref().is_some_and(|to| *to <= from) {
                    continue;
                }
                interrupt::charge(SEEK_UNITS)?;
                let entries = self.source.range(&from, to.as_deref(), self.reversed);
                for entry in entries.map_err(of_table)? {
                    let (key, operand) = entry.map_err(of_table)?;
                    let step = self.visit(&partition, &key, prefix.len(), &operand, sink)?;
                    had_rows |= step.is_some();
                    match step {
                        Some(Flow::Partition) => return Ok(End::Done),
                        Some(Flow::Stop) => return Ok(End::Stopped),
                        _ => {}
                    }
                    if progress.is_over(sink)? {
                        let key = key.to_vec();
                        return Ok(End::Cut { key, had_rows });
                    }
                }
            }
        }
        match self.visit_statics(&partition, &header_key, prefix.len(), had_rows, sink)? {
            Some(Flow::Stop) => Ok(End::Stopped),
            _ => Ok(End::Done),
        }
    }

    /// All partitions in a range of keys.
    fn range(
        &self,
        range: &ByteRange,
        resume: Option<&PagingState>,
        sink: &mut dyn Sink,
        progress: &mut Progress,
    ) -> Result<End> {
        let mut from = range.from.clone();
        // The partition in which the page was cut, if it gave rows before the cut.
        let mut cut_partition: Option<&[u8]> = None;
        if let Some(resume) = resume {
            let at = DecodedKey::read(&resume.key).map_err(|_| paging::invalid())?;
            if !range.contains(&resume.key) {
                return Err(paging::invalid());
            }
            cut_partition = resume.had_rows.then_some(at.prefix);
            from = behind(&resume.key, at.prefix.len());
        }
        if range.is_empty() {
            return Ok(End::Done);
        }
        let scan = RowScan::open(*self.source, self.schema, &from, range.to.as_deref());
        let mut scan = scan.map_err(of_table)?;
        while let Some(start) = scan.next_partition().map_err(of_table)? {
            let decoded = read_key(self.schema, &start.key).map_err(of_table)?;
            let prefix = decoded.prefix;
            let mut had_rows = cut_partition == Some(prefix);
            let partition = self.open(decoded, start.header.as_deref())?;
            while let Some(row) = scan.next_row().map_err(of_table)? {
                let flow = if self.selects(row.clustering()) {
                    self.visit(&partition, &row.key, prefix.len(), &row.operand, sink)?
                } else {
                    None
                };
                had_rows |= flow.is_some();
                match flow {
                    Some(Flow::Stop) => return Ok(End::Stopped),
                    Some(Flow::Partition) => break,
                    _ => {}
                }
                if progress.is_over(sink)? {
                    let key = row.key.to_vec();
                    return Ok(End::Cut { key, had_rows });
                }
            }
            let header_key = header_key(prefix);
            let flow = self.visit_statics(&partition, &header_key, prefix.len(), had_rows, sink)?;
            if flow == Some(Flow::Stop) {
                return Ok(End::Stopped);
            }
            // Partitions of which nothing is left take time too.
            if scan.has_next_partition().map_err(of_table)? && progress.is_over(sink)? {
                return Ok(End::after(with(prefix, ROW)));
            }
        }
        Ok(End::Done)
    }

    /// Opens a partition under its header, and counts the header's deletions as tombstones that the read
    /// met.
    pub(super) fn open<'p>(
        &'p self,
        key: DecodedKey<'p>,
        header: Option<&'p [u8]>,
    ) -> Result<ProjectedPartition<'p>> {
        let (projection, schema) = (self.projection, self.schema);
        let partition = ProjectedPartition::new(projection, schema, key, header, self.now_s);
        let partition = partition.map_err(of_table)?;
        self.scanned.note_header(partition.partition().header())?;
        Ok(partition)
    }

    /// Reads the header of a partition and one of its rows, or as much of both as decides the selected
    /// columns. `keys` are theirs, in this order.
    pub(super) fn header_and_row(
        &self,
        partition: DecodedKey<'_>,
        keys: [&[u8]; 2],
        clustering: &[u8],
    ) -> Result<(Option<Bytes>, Option<Bytes>)> {
        let enough = |found: &FoundSoFar<'_>| self.is_enough(partition, clustering, found);
        let [header, row] = (self.source.get_both(keys, &enough)).map_err(of_table)?;
        Ok((header, row))
    }

    /// Whether the newest writes of a header and a row say all that is looked at. What is
    /// damaged says nothing; whoever reads it in the end reports it.
    fn is_enough(&self, key: DecodedKey<'_>, clustering: &[u8], found: &FoundSoFar<'_>) -> bool {
        let [header, row] = found.values else {
            return false;
        };
        // A partition without rows may have one of its static columns.
        if self.static_rows && self.schema.has_static_columns() {
            return false;
        }
        let (header, row) = (header.as_deref(), row.as_deref());
        let partition = Partition::new(self.schema, key, header, self.now_s);
        let decided = partition.and_then(|partition| {
            (self.projection).is_decided(&partition, clustering, row, found.greatest_left)
        });
        decided.unwrap_or(false)
    }

    /// Whether what is asked of clusterings holds of one, where all partitions are read.
    pub(super) fn selects(&self, clustering: &[u8]) -> bool {
        match self.rows {
            Rows::All => true,
            Rows::Exactly(all) => all.binary_search_by(|one| one[..].cmp(clustering)).is_ok(),
            // They are ascending and disjoint.
            Rows::In(ranges) => {
                let begun = ranges.partition_point(|range| range.from[..] <= *clustering);
                ranges[..begun]
                    .last()
                    .is_some_and(|range| range.contains(clustering))
            }
        }
    }

    /// Gives a row to the sink, if it is there and passes.
    fn visit(
        &self,
        partition: &ProjectedPartition<'_>,
        key: &[u8],
        prefix_len: usize,
        operand: &[u8],
        sink: &mut dyn Sink,
    ) -> Result<Option<Flow>> {
        let found = self.visit_found(partition, key, prefix_len, operand, sink, |_| Ok(false));
        Ok(found?.0)
    }

    /// The same of a row that an entry of an index points to; and whether it is stale: the row
    /// is not there, or `is_stale` says so of its columns.
    pub(super) fn visit_found(
        &self,
        partition: &ProjectedPartition<'_>,
        key: &[u8],
        prefix_len: usize,
        operand: &[u8],
        sink: &mut dyn Sink,
        is_stale: impl FnOnce(&[Option<LiveColumn<'_>>]) -> Result<bool>,
    ) -> Result<(Option<Flow>, bool)> {
        interrupt::charge((operand.len() / BYTES_PER_UNIT) as u64)?;
        let row = partition.row(&key[prefix_len + 1..], operand);
        let Some(row) = row.map_err(of_table)? else {
            self.scanned.note_tombstones(1)?;
            return Ok((None, true));
        };
        self.scanned.note_row();
        let mut cells = Vec::new();
        partition.fill(&row, &mut cells).map_err(of_table)?;
        if !self.filter.passes(&cells)? {
            return Ok((Some(Flow::Row), is_stale(&cells)?));
        }
        self.scanned.note_passed();
        let visited = Visited {
            key,
            prefix_len,
            cells: &cells,
        };
        Ok((Some(sink.row(&visited)?), false))
    }

    /// Gives the row of a partition that has static values only.
    fn visit_statics(
        &self,
        partition: &ProjectedPartition<'_>,
        header_key: &[u8],
        prefix_len: usize,
        had_rows: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<Flow>> {
        if !self.static_rows {
            return Ok(None);
        }
        let has_static_row = partition.partition().has_static_row(had_rows);
        if !has_static_row.map_err(of_table)? || !self.filter.passes(partition.cells())? {
            return Ok(None);
        }
        self.scanned.note_passed();
        let visited = Visited {
            key: header_key,
            prefix_len,
            cells: partition.cells(),
        };
        sink.row(&visited).map(Some)
    }
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            until_look: ROWS_PER_LOOK,
        }
    }

    /// Returns whether the page ends here. It is called after every row, and after each key that has
    /// none.
    ///
    /// # Errors
    /// The time-out of the statement.
    pub(super) fn is_over(&mut self, sink: &dyn Sink) -> Result<bool> {
        interrupt::charge(ROW_UNITS)?;
        self.until_look -= 1;
        if self.until_look > 0 {
            return Ok(false);
        }
        self.until_look = ROWS_PER_LOOK;
        Ok(sink.may_cut(self.started.elapsed()))
    }
}

pub(super) fn with(bytes: &[u8], last: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 1);
    out.extend_from_slice(bytes);
    out.push(last);
    out
}
