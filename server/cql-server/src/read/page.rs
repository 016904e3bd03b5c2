//! The cells of a result: from rows as they come, in groups, or sorted.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::time::Duration;

use ebb_cql::protocol::RowsWriter;
use ebb_model::key::DecodedKey;
use ebb_model::key::ordered::{self, Reader};
use ebb_model::row::{LiveCell, LiveColumn};
use ebb_model::types::{CqlType, sort_stable};

use super::value::{self, Context};
use crate::analyse::markers::Bound;
use crate::analyse::select::SelectPlan;
use crate::analyse::selection::Output;
use crate::call::ResponseMemory;
use crate::error::{Result, result_too_large};
use crate::functions::State;
use crate::functions::json::RowWriter;
use crate::interrupt;
use crate::paging::{self, PagingState};

/// Limits on reads and their pages.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// If the client pages, a page takes no further row once its cells have this many bytes.
    pub page_bytes: usize,
    /// If the client pages, a page that still has no rows ends after reading for this time.
    pub empty_page: Duration,
    /// If the client pages, a page with rows ends after reading for this time.
    pub page_time: Duration,
    /// The most bytes of a response's cells, together with the read's buffers: rows to sort, and
    /// states of aggregates. A read that needs more fails, because drivers reject longer responses:
    /// the Java driver from 256 MiB on, by default.
    ///
    /// The same limit holds separately for the computed arguments of functions, which are kept
    /// until the function is called.
    pub result_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            page_bytes: 1 << 20,
            empty_page: Duration::from_millis(10),
            page_time: Duration::from_millis(100),
            result_bytes: 256 << 20,
        }
    }
}

/// The limits on the number of rows that a statement (LIMIT, PER PARTITION LIMIT) and its client
/// (the page size) set.
#[derive(Debug, Clone, Copy)]
pub struct RowLimits {
    /// The most rows of the statement's whole result, from LIMIT; `u64::MAX` without one.
    pub statement: u64,
    /// The most rows of each partition, from PER PARTITION LIMIT: `u64::MAX` without one, and 1 for
    /// DISTINCT. In a statement with groups, each group counts as one row.
    pub partition: u64,
    /// The most rows of a page; `None` if the client does not page.
    pub page: Option<u32>,
}

/// The approximate overhead, in bytes, of a buffered row, of a cell in such a row, or of the state
/// of an aggregate.
const KEPT_BYTES: usize = 64;

/// The number of cells that are copied in about a microsecond, the unit of work that
/// [`interrupt::charge`] counts.
const CELLS_PER_UNIT: usize = 32;

/// The length of the field before each cell in a response that has the cell's length. A null has
/// this field, too.
const CELL_LENGTH_BYTES: usize = 4;

/// Once this many bytes were copied, they are charged to the statement, and the read takes memory
/// for them. One call for each small cell would cost too much. A row that is buffered for sorting
/// and a group take memory once they have this many bytes.
const COPIED_BYTES_MIN: usize = 4096;

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

/// The room of a page for more bytes.
struct Room<'s> {
    taken_bytes: usize,
    /// The [`Limits::result_bytes`].
    bytes_max: usize,
    memory: Option<&'s dyn ResponseMemory>,
}

impl Room<'_> {
    /// Checks that `bytes` more bytes fit.
    fn check(&self, bytes: usize) -> Result<()> {
        if bytes > self.bytes_max.saturating_sub(self.taken_bytes) {
            return Err(result_too_large(self.bytes_max));
        }
        Ok(())
    }

    /// Takes memory for `bytes` more bytes.
    fn take(&self, bytes: usize) -> Result<()> {
        let Some(memory) = self.memory else {
            return Ok(());
        };
        memory.grow(self.taken_bytes + bytes)
    }

    /// Checks that a row or group with `bytes` bytes so far fits, and takes memory for it if it is
    /// large. To be called after each value of the row, which may have very many values.
    fn reserve(&self, bytes: usize) -> Result<()> {
        self.check(bytes)?;
        if bytes >= COPIED_BYTES_MIN {
            self.take(bytes)?;
        }
        Ok(())
    }
}

/// A row or group that is buffered for sorting: its sort key (the encoded clustering columns of
/// ORDER BY), and its cells.
type SortedRow = (Vec<u8>, Vec<Option<Vec<u8>>>);

/// The group that the last row belongs to, with the state of its aggregates.
#[derive(Default)]
struct Groups {
    /// The key columns and the value by which the rows are grouped, which all rows of the group
    /// share; `None` before the first row.
    key: Option<Vec<u8>>,
    states: Vec<State>,
    /// The value of each output for the first row of the group; `None` for an output that contains
    /// an aggregate.
    first: Vec<Option<Vec<u8>>>,
    /// The cells of the group's first row at [`Page::slots_beside_aggregates`].
    first_cells: Vec<Option<FirstCell>>,
    /// The memory of `first` and `first_cells`.
    first_bytes: usize,
    /// The clustering columns of the group's first row by which ORDER BY sorts the groups; empty if
    /// the groups are not sorted.
    sort_key: Vec<u8>,
    last_key: Vec<u8>,
}

/// A copy of a cell of a group's first row, for the outputs that are computed when the group ends.
struct FirstCell {
    /// The value; a collection that is not frozen is serialized.
    value: Vec<u8>,
    writetime: i64,
    ttl_s: Option<i64>,
}

impl FirstCell {
    fn new(column: &LiveColumn<'_>, ty: &CqlType) -> Result<Self> {
        let cell = match column {
            LiveColumn::Cell(cell) => Self {
                value: cell.value.to_vec(),
                writetime: cell.writetime,
                ttl_s: cell.ttl_s,
            },
            // The analysis refuses WRITETIME and TTL of collections.
            LiveColumn::Collection(collection) => Self {
                value: value::serialize(ty, collection)?,
                writetime: 0,
                ttl_s: None,
            },
        };
        interrupt::charge_bytes(cell.value.len())?;
        Ok(cell)
    }

    fn live(&self) -> LiveColumn<'_> {
        LiveColumn::Cell(LiveCell {
            value: &self.value,
            writetime: self.writetime,
            ttl_s: self.ttl_s,
        })
    }
}

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
        let mut slots_beside_aggregates = Vec::new();
        if !plan.outputs.aggregates.is_empty() {
            let outputs = plan.outputs.columns.iter().map(|column| &column.output);
            for output in outputs.filter(|output| has_aggregate(output)) {
                collect_slots(output, &mut slots_beside_aggregates);
            }
            slots_beside_aggregates.sort_unstable();
            slots_beside_aggregates.dedup();
        }
        Ok(Self {
            groups: plan.is_grouped().then(Groups::default),
            slots_beside_aggregates,
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

    /// Returns the values from which the selectors of a row are computed.
    fn context<'r>(&self, row: &LiveRow<'r>) -> Context<'r>
    where
        's: 'r,
    {
        Context {
            cells: row.cells,
            types: self.types,
            bound: self.bound,
            aggregates: &[],
            bytes_max: self.limits.result_bytes,
            waiting_bytes: 0,
        }
    }

    /// Adds a row of a statement without groups. Returns where the caller has to continue.
    fn plain(&mut self, row: &LiveRow<'_>) -> Result<Flow> {
        interrupt::charge((self.plan.outputs.columns.len() / CELLS_PER_UNIT) as u64)?;
        let context = self.context(row);
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

    /// Adds a row to the current group, or ends that group and begins the next one;
    /// [`complete`](Self::complete) ends the last one. Pages end only between groups, so a paging
    /// state needs no partial aggregates.
    fn grouped(&mut self, row: &LiveRow<'_>) -> Result<Flow> {
        let key = Some(self.group_key(row)?);
        let open = self.groups.as_ref().and_then(|groups| groups.key.as_ref());
        let begins_group = open.is_none_or(|open| Some(open) != key.as_ref());
        if begins_group {
            if open.is_some() {
                // Before this row's partition is entered: the group counts for the limit of its own one.
                self.end_group()?;
                if self.left == 0 {
                    return Ok(Flow::Stop);
                }
            }
            // PER PARTITION LIMIT counts groups. If the page is full, the next one begins after the last
            // row of the ended group.
            if let Some(flow) = self.skip_or_stop(row) {
                return Ok(flow);
            }
        }
        self.enter_partition(row);
        let context = self.context(row);
        let outputs = &self.plan.outputs;
        let sort_key = (self.plan.sorted).map(|ordered| self.clustering_part(row, ordered));
        // Computed before `groups` borrows the page. The states of the group count against it until the
        // group ends.
        let room = self.room();
        let groups = self.groups.as_mut().expect("there are groups");
        if groups.key.is_none() {
            groups.key = key;
            groups.sort_key = sort_key.unwrap_or_default().to_vec();
            groups.states = vec![State::default(); outputs.aggregates.len()];
            // Outputs without an aggregate have the value of the first row of the group.
            for column in &outputs.columns {
                let value = if has_aggregate(&column.output) {
                    None
                } else {
                    value::value(&column.output, &context)?.map(Cow::into_owned)
                };
                groups.first_bytes += kept_bytes(&value);
                room.reserve(groups.first_bytes)?;
                groups.first.push(value);
            }
            for &slot in &self.slots_beside_aggregates {
                let column = row.cells[slot].as_ref();
                let cell = column.map(|column| FirstCell::new(column, self.types[slot]));
                let cell = cell.transpose()?;
                groups.first_bytes += KEPT_BYTES + cell.as_ref().map_or(0, |cell| cell.value.len());
                room.reserve(groups.first_bytes)?;
                groups.first_cells.push(cell);
            }
        }
        let mut bytes = groups.first_bytes;
        for ((aggregate, args), state) in outputs.aggregates.iter().zip(&mut groups.states) {
            // An aggregate has at most one argument.
            match &args[..] {
                // count(*)
                [] => aggregate.add_row(state),
                [arg, ..] => aggregate.add(state, value::value(arg, &context)?.as_deref())?,
            }
            bytes += KEPT_BYTES + state.bytes();
            room.reserve(bytes)?;
        }
        groups.last_key.clear();
        groups.last_key.extend_from_slice(row.key);
        // DISTINCT reads only the first row of each partition. PER PARTITION LIMIT counts groups, not
        // rows, so it does not matter here.
        Ok(if self.plan.distinct {
            Flow::Partition
        } else {
            Flow::Row
        })
    }

    /// Returns the key of a row's group: the key columns by which the row is grouped, and the value
    /// of the function of GROUP BY. Rows with equal keys form a group. Without GROUP BY all rows
    /// form one group.
    ///
    /// # Errors
    /// If the function fails, or the statement's time is over.
    fn group_key(&self, row: &LiveRow<'_>) -> Result<Vec<u8>> {
        let mut key = self.group_prefix(row).to_vec();
        let group_by = self.plan.group_by.as_ref();
        if let Some(function) = group_by.and_then(|group_by| group_by.function.as_ref()) {
            let value = value::value(function, &self.context(row))?;
            // Null is no empty value.
            key.push(u8::from(value.is_some()));
            key.extend_from_slice(&value.unwrap_or_default());
        }
        Ok(key)
    }

    /// Returns the part of a row's key with the key columns by which the row is grouped. The keys
    /// of all rows of the group begin with it. Without GROUP BY it is empty.
    fn group_prefix<'k>(&self, row: &LiveRow<'k>) -> &'k [u8] {
        let Some(group_by) = &self.plan.group_by else {
            return &[];
        };
        let more = group_by.columns - self.plan.schema.layout().partition().len();
        let rows = (row.prefix_len + 1).min(row.key.len());
        let clustering = self.clustering_part(row, more);
        &row.key[..rows + clustering.len()]
    }

    /// Returns the first `columns` columns of a row's encoded clustering.
    fn clustering_part<'k>(&self, row: &LiveRow<'k>, columns: usize) -> &'k [u8] {
        let clustering = row.key.get(row.prefix_len + 1..).unwrap_or_default();
        let mut reader = Reader::new(clustering, false);
        for column in &self.plan.schema.layout().clustering()[..columns] {
            reader.set_inverted(column.order == ebb_model::key::Order::Desc);
            if ordered::skip(&column.ty, &mut reader).is_err() {
                break;
            }
        }
        &clustering[..reader.at()]
    }

    /// Computes the result row of the current group, and writes or buffers it. If the group has no
    /// rows, the aggregates have their results for no values, and all columns are null.
    fn end_group(&mut self) -> Result<()> {
        let outputs = &self.plan.outputs;
        let groups = self.groups.replace(Groups::default());
        let mut groups = groups.expect("there are groups");
        let has_rows = groups.key.is_some();
        groups
            .states
            .resize(outputs.aggregates.len(), State::default());
        groups.first.resize(outputs.columns.len(), None);
        let aggregates = outputs.aggregates.iter().zip(&groups.states);
        let aggregates: Vec<Option<Vec<u8>>> = aggregates
            .map(|((aggregate, _), state)| aggregate.finish(state))
            .collect();
        let mut cells_of_first = vec![None; self.types.len()];
        let slots = self.slots_beside_aggregates.iter();
        for (&slot, cell) in slots.zip(&groups.first_cells) {
            cells_of_first[slot] = cell.as_ref().map(FirstCell::live);
        }
        let context = Context {
            cells: &cells_of_first,
            types: self.types,
            bound: self.bound,
            aggregates: &aggregates,
            bytes_max: self.limits.result_bytes,
            waiting_bytes: 0,
        };
        let mut cells = Vec::with_capacity(outputs.columns.len());
        let mut bytes = 0;
        for (column, first) in outputs.columns.iter().zip(groups.first) {
            let cell = if has_rows && !has_aggregate(&column.output) {
                first
            } else {
                value::value(&column.output, &context)?.map(Cow::into_owned)
            };
            bytes += kept_bytes(&cell);
            self.room().reserve(bytes)?;
            cells.push(cell);
        }
        if self.plan.json {
            let mut row = RowWriter::new(self.limits.result_bytes);
            for (column, cell) in outputs.columns.iter().zip(&cells) {
                row.cell(&column.name, &column.ty, cell.as_deref())?;
            }
            cells = vec![Some(row.finish().into_bytes())];
        }
        self.left_in_partition = self.left_in_partition.saturating_sub(1);
        self.last_key = groups.last_key;
        match self.plan.sorted {
            Some(_) => self.keep(groups.sort_key, cells),
            None => self.write(&cells),
        }
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

/// Returns whether an output depends on all rows of a group.
fn has_aggregate(output: &Output) -> bool {
    matches!(output, Output::Aggregate(_)) || output.parts().iter().any(has_aggregate)
}

/// Appends the slots of the columns that an output reads, without those in arguments of its
/// aggregates.
fn collect_slots(output: &Output, slots: &mut Vec<usize>) {
    slots.extend(output.slot());
    for part in output.parts() {
        collect_slots(part, slots);
    }
}

/// Returns the approximate memory of a buffered cell in bytes.
fn kept_bytes(cell: &Option<Vec<u8>>) -> usize {
    KEPT_BYTES + cell.as_ref().map_or(0, Vec::len)
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
