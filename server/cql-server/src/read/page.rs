//! The cells of a result: from rows as they come, in groups, or sorted.

mod groups;
mod room;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::time::Duration;

use ebb_cql::protocol::RowsWriter;
use ebb_model::key::ordered::{self, Reader};
use ebb_model::key::{DecodedKey, Order};
use ebb_model::row::LiveColumn;
use ebb_model::types::{CqlType, sort_stable};

use self::groups::{Groups, slots_beside_aggregates};
use self::room::{COPIED_BYTES_MIN, KEPT_BYTES, Room, kept_bytes};
use super::limits::{Limits, RowLimits};
use super::value::{self, Context};
use crate::analyse::markers::Bound;
use crate::analyse::select::SelectPlan;
use crate::analyse::selection::Output;
use crate::call::ResponseMemory;
use crate::error::Result;
use crate::functions::json::RowWriter;
use crate::interrupt;
use crate::paging::{self, PagingState};

/// The number of cells that are copied in about a microsecond, the unit of work that
/// [`interrupt::charge`] counts.
const CELLS_PER_UNIT: usize = 32;

/// The length of the field before each cell in a response that has the cell's length. A null has
/// this field, too.
const CELL_LENGTH_BYTES: usize = 4;

/// A live row, or the static columns of a partition as a row of their own, before the filter and
/// the limits are applied.
#[derive(Debug)]
pub struct LiveRow<'r> {
    /// The engine's key of the row or, for a row of static columns alone, of the partition's
    /// header.
    pub key: &'r [u8],
    /// The length of the prefix that all keys of the partition share.
    pub prefix_len: usize,
    pub cells: &'r [Option<LiveColumn<'r>>],
}

/// The next step of a walk over rows, after it has passed a row to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Continue with the next row.
    Row,
    /// Continue with the first row of the next partition.
    Partition,
    /// End the page: it is full, or LIMIT is reached.
    Stop,
}

/// A page of a result, which takes rows until it is full or the limits are reached.
pub struct Page<'s> {
    plan: &'s SelectPlan,
    types: &'s [&'s CqlType],
    bound: &'s Bound<'s>,
    writer: RowsWriter<'s>,
    limits: &'s Limits,
    row_limits: RowLimits,
    /// The number of rows that LIMIT still permits.
    pub left: u64,
    /// The number of rows that PER PARTITION LIMIT still permits in the current partition.
    left_in_partition: u64,
    /// True if the page was full when a further row came, so that there is a next page.
    pub is_cut: bool,
    /// True if the time of the page was over in the middle of a group: the page takes no further
    /// group.
    is_late: bool,
    /// The key of the last row that was added to the page or, for groups, of the last row of the
    /// last ended group. The next page begins after it.
    pub last_key: Vec<u8>,
    /// The prefix that all keys of the current partition share.
    prefix: Vec<u8>,
    /// The current group; `None` if rows are neither aggregated nor grouped.
    groups: Option<Groups>,
    /// The slots of the columns that stand beside an aggregate in one output, such as `rate` in
    /// `sum(v) * rate`.
    slots_beside_aggregates: Vec<usize>,
    sorted: Vec<SortedRow>,
    sorted_bytes: usize,
    /// The bytes that were copied into the response and the rows buffered for sorting, and not
    /// charged yet.
    copied_bytes: usize,
    /// The memory for the response, the rows buffered for sorting and the states of aggregates;
    /// `None` without a limit.
    memory: Option<&'s dyn ResponseMemory>,
}

/// A row or group that is buffered for sorting: its sort key (the encoded clustering columns of
/// ORDER BY), and its cells.
type SortedRow = (Vec<u8>, Vec<Option<Vec<u8>>>);

impl<'s> Page<'s> {
    /// Begins the page after the one that ended with the paging state `resume`; `None` for the
    /// first page. The cells are written to `writer`.
    ///
    /// # Errors
    /// If the key in `resume` cannot be decoded, for example because the client has forged it.
    pub fn new(
        plan: &'s SelectPlan,
        types: &'s [&'s CqlType],
        bound: &'s Bound<'s>,
        writer: RowsWriter<'s>,
        limits: &'s Limits,
        row_limits: RowLimits,
        resume: Option<&PagingState>,
    ) -> Result<Self> {
        let (mut left, mut left_in_partition) = (row_limits.statement, row_limits.partition);
        let mut prefix: &[u8] = &[];
        if let Some(resume) = resume {
            left = left.min(resume.left);
            left_in_partition = left_in_partition.min(resume.left_in_partition);
            let key = DecodedKey::read(&resume.key).map_err(|_| paging::invalid())?;
            prefix = key.prefix;
        }
        Ok(Self {
            groups: plan.is_grouped().then(Groups::default),
            slots_beside_aggregates: slots_beside_aggregates(plan),
            plan,
            types,
            bound,
            writer,
            limits,
            row_limits,
            left,
            left_in_partition,
            is_cut: false,
            is_late: false,
            last_key: Vec::new(),
            prefix: prefix.to_vec(),
            sorted: Vec::new(),
            sorted_bytes: 0,
            copied_bytes: 0,
            memory: None,
        })
    }

    /// Makes the page take memory from `memory` while its response and its buffers grow.
    #[must_use]
    pub fn within(self, memory: Option<&'s dyn ResponseMemory>) -> Self {
        Self { memory, ..self }
    }

    /// Adds a row, unless the page is full or the row is beyond a limit. Returns where the
    /// caller has to continue.
    ///
    /// # Errors
    /// If the row is damaged, a function fails, the result is too large or the statement's time is
    /// over.
    pub fn row(&mut self, row: &LiveRow<'_>) -> Result<Flow> {
        if self.groups.is_some() {
            return self.grouped(row);
        }
        if let Some(flow) = self.skip_or_stop(row) {
            return Ok(flow);
        }
        self.enter_partition(row);
        self.plain(row)
    }

    /// Returns whether the page ends now, after reading for `elapsed`, although it has room for
    /// more rows. `at` is the last key that the walk has read or passed, or the prefix of a
    /// partition that the walk has read to its end.
    ///
    /// A paging state contains neither partial aggregates nor buffered rows. So a page of groups
    /// ends only between groups. If the walk has passed all rows of the current group, this ends
    /// the group. Otherwise the page ends later: at another `at`, or when the next group begins. A
    /// page of sorted rows does not end early.
    ///
    /// # Errors
    /// If a function fails, the result is too large or the statement's time is over.
    pub fn ends_at(&mut self, at: &[u8], elapsed: Duration) -> Result<bool> {
        if self.row_limits.page.is_none() || self.plan.sorted.is_some() {
            return Ok(false);
        }
        let group = self.groups.as_ref().filter(|groups| groups.key.is_some());
        let allowed = if self.writer.rows() == 0 && group.is_none() {
            self.limits.empty_page
        } else {
            self.limits.page_time
        };
        if elapsed < allowed {
            return Ok(false);
        }
        if let Some(group) = group {
            let last_row = LiveRow {
                key: &group.last_key,
                prefix_len: self.prefix.len(),
                cells: &[],
            };
            if at.starts_with(self.group_prefix(&last_row)) {
                self.is_late = true;
                return Ok(false);
            }
            self.end_group()?;
        }
        Ok(true)
    }

    /// Writes the rows that are known only after all rows were read: that of the last group, and
    /// the rows that ORDER BY sorts. `is_done` is true if the table has no more rows for the
    /// result; if it is false, the last group has been written already.
    ///
    /// # Errors
    /// If a function fails, the result is too large or the statement's time is over.
    pub fn complete(&mut self, is_done: bool) -> Result<()> {
        if let Some(groups) = &self.groups {
            // Without rows, aggregates still have one result, but GROUP BY has no groups.
            let is_open = groups.key.is_some() || self.plan.group_by.is_none();
            if is_done && is_open && self.left > 0 && self.left_in_partition > 0 {
                self.end_group()?;
            }
        }
        let is_reversed = self.plan.reversed;
        // Rows that compare as equal stay in the order of their partitions.
        let sorted = sort_stable(
            std::mem::take(&mut self.sorted),
            |(a, _): &SortedRow, (b, _): &SortedRow| -> Result<Ordering> {
                interrupt::charge_bytes(a.len().min(b.len()))?;
                Ok(if is_reversed { b.cmp(a) } else { a.cmp(b) })
            },
        )?;
        for (sort_key, cells) in sorted {
            if self.left == 0 {
                break;
            }
            // From here on the bytes of the row count as part of the response.
            self.sorted_bytes -= sorted_row_bytes(&sort_key, &cells);
            self.write(&cells)?;
        }
        Ok(())
    }

    /// Returns the number of rows that PER PARTITION LIMIT still permits in the partition of a key.
    pub fn left_in_partition_of(&self, key: &[u8]) -> u64 {
        if !self.prefix.is_empty() && key.starts_with(&self.prefix) {
            self.left_in_partition
        } else {
            self.row_limits.partition
        }
    }

    /// Ends the page. `paging_state` is the state from which the next page begins, if there is a
    /// next page.
    pub fn finish(self, paging_state: Option<&[u8]>) {
        self.writer.finish(paging_state);
    }

    /// Returns whether the page has as many rows as the client requested, or [`Limits::page_bytes`]
    /// of cells, or its time is over. A page is never full if the client does not page.
    fn is_full(&self) -> bool {
        let Some(rows) = self.row_limits.page else {
            return false;
        };
        let bytes_max = self.limits.page_bytes;
        self.writer.rows() >= rows || self.writer.bytes() >= bytes_max || self.is_late
    }

    /// Returns the room for more bytes. The response and the rows buffered for sorting have taken
    /// the rest; the states of the current group are not subtracted.
    fn room(&self) -> Room<'s> {
        Room {
            taken_bytes: self.sorted_bytes.saturating_add(self.writer.bytes()),
            bytes_max: self.limits.result_bytes,
            memory: self.memory,
        }
    }

    /// Checks that `bytes` more bytes fit into the response or the rows buffered for sorting.
    /// Charges the statement for their copy, and takes memory for them.
    fn add_bytes(&mut self, bytes: usize) -> Result<()> {
        let room = self.room();
        room.check(bytes)?;
        self.copied_bytes += bytes;
        if self.copied_bytes >= COPIED_BYTES_MIN {
            interrupt::charge_bytes(std::mem::take(&mut self.copied_bytes))?;
            room.take(bytes)?;
        }
        Ok(())
    }

    /// Appends a cell to the response.
    fn cell(&mut self, value: Option<&[u8]>) -> Result<()> {
        self.add_bytes(CELL_LENGTH_BYTES + value.map_or(0, <[u8]>::len))?;
        self.writer.cell(value);
        Ok(())
    }

    /// Buffers a row or group for sorting.
    fn keep(&mut self, sort_key: Vec<u8>, cells: Vec<Option<Vec<u8>>>) -> Result<()> {
        let bytes = sorted_row_bytes(&sort_key, &cells);
        self.add_bytes(bytes)?;
        self.sorted_bytes += bytes;
        self.sorted.push((sort_key, cells));
        Ok(())
    }

    /// Returns the values from which outputs are computed: the cells of a row, and the results of the
    /// aggregates once its group has ended.
    fn context<'r>(
        &self,
        cells: &'r [Option<LiveColumn<'r>>],
        aggregates: &'r [Option<Vec<u8>>],
    ) -> Context<'r>
    where
        's: 'r,
    {
        Context {
            cells,
            types: self.types,
            bound: self.bound,
            aggregates,
            bytes_max: self.limits.result_bytes,
            waiting_bytes: 0,
        }
    }

    /// Adds a row of a statement without groups. Returns where the caller has to continue.
    fn plain(&mut self, row: &LiveRow<'_>) -> Result<Flow> {
        interrupt::charge((self.plan.outputs.columns.len() / CELLS_PER_UNIT) as u64)?;
        let context = self.context(row.cells, &[]);
        if let Some(ordered) = self.plan.sorted {
            let mut cells = Vec::new();
            if self.plan.json {
                let text = json_row(self.plan, &context, self.limits.result_bytes)?;
                cells.push(Some(text.into_bytes()));
            } else {
                let mut bytes = 0;
                for column in &self.plan.outputs.columns {
                    let value = value::value(&column.output, &context)?.map(Cow::into_owned);
                    bytes += kept_bytes(&value);
                    // After each value: `keep` would notice only when the whole row is in memory.
                    self.room().reserve(bytes)?;
                    cells.push(value);
                }
            }
            let clustering = self.clustering_part(row, ordered).to_vec();
            self.keep(clustering, cells)?;
            // LIMIT counts after the sort, so only PER PARTITION LIMIT may end the read here.
            self.left_in_partition -= 1;
            return Ok(match self.left_in_partition {
                0 => Flow::Partition,
                _ => Flow::Row,
            });
        }
        if self.plan.json {
            let text = json_row(self.plan, &context, self.limits.result_bytes)?;
            self.cell(Some(text.as_bytes()))?;
        } else {
            for column in &self.plan.outputs.columns {
                let value = match &column.output {
                    // A shortcut for the most frequent kind of output.
                    Output::Column(slot) => match &row.cells[*slot] {
                        None => None,
                        Some(LiveColumn::Cell(cell)) => Some(Cow::Borrowed(cell.value)),
                        Some(LiveColumn::Collection(_)) => value::value(&column.output, &context)?,
                    },
                    output => value::value(output, &context)?,
                };
                self.cell(value.as_deref())?;
            }
        }
        self.writer.end_row();
        self.left -= 1;
        self.left_in_partition -= 1;
        if self.row_limits.page.is_some() {
            self.last_key.clear();
            self.last_key.extend_from_slice(row.key);
        }
        Ok(match (self.left, self.left_in_partition) {
            (0, _) => Flow::Stop,
            (_, 0) => Flow::Partition,
            _ => Flow::Row,
        })
    }

    /// Returns the first `columns` columns of a row's encoded clustering.
    fn clustering_part<'k>(&self, row: &LiveRow<'k>, columns: usize) -> &'k [u8] {
        let clustering = row.key.get(row.prefix_len + 1..).unwrap_or_default();
        let mut reader = Reader::new(clustering, false);
        for column in &self.plan.schema.layout().clustering()[..columns] {
            reader.set_inverted(column.order == Order::Desc);
            if ordered::skip(&column.ty, &mut reader).is_err() {
                break;
            }
        }
        &clustering[..reader.at()]
    }

    /// Appends a finished row to the response.
    fn write(&mut self, cells: &[Option<Vec<u8>>]) -> Result<()> {
        interrupt::charge(1 + (cells.len() / CELLS_PER_UNIT) as u64)?;
        for cell in cells {
            self.cell(cell.as_deref())?;
        }
        self.writer.end_row();
        self.left -= 1;
        Ok(())
    }

    /// Returns where the caller has to continue if the page does not take this row:
    /// [`Flow::Partition`] if PER PARTITION LIMIT is reached, [`Flow::Stop`] if the page is full.
    /// Returns `None` if the page takes the row.
    ///
    /// PER PARTITION LIMIT is checked first, because rows beyond it need no further page. The
    /// current partition does not change here, so that the paging state of a full page has the
    /// count of the partition in which that page ended.
    fn skip_or_stop(&mut self, row: &LiveRow<'_>) -> Option<Flow> {
        if self.left_in_partition == 0 && self.is_in_partition_of(row) {
            return Some(Flow::Partition);
        }
        if self.is_full() {
            self.is_cut = true;
            return Some(Flow::Stop);
        }
        None
    }

    /// Returns whether a row belongs to the current partition.
    fn is_in_partition_of(&self, row: &LiveRow<'_>) -> bool {
        self.prefix == row.key[..row.prefix_len]
    }

    /// Resets the count of PER PARTITION LIMIT if a row is the first one of its partition.
    fn enter_partition(&mut self, row: &LiveRow<'_>) {
        if !self.is_in_partition_of(row) {
            self.prefix.clear();
            self.prefix.extend_from_slice(&row.key[..row.prefix_len]);
            self.left_in_partition = self.row_limits.partition;
        }
    }
}

/// Returns the approximate memory, in bytes, of a row that is buffered for sorting.
fn sorted_row_bytes(sort_key: &[u8], cells: &[Option<Vec<u8>>]) -> usize {
    let cells_bytes: usize = cells.iter().map(kept_bytes).sum();
    KEPT_BYTES + sort_key.len() + cells_bytes
}

/// Returns a row as one JSON text of at most `bytes_max` bytes.
fn json_row(plan: &SelectPlan, context: &Context<'_>, bytes_max: usize) -> Result<String> {
    let mut row = RowWriter::new(bytes_max);
    for column in &plan.outputs.columns {
        let value = value::value(&column.output, context)?;
        row.cell(&column.name, &column.ty, value.as_deref())?;
    }
    Ok(row.finish())
}
