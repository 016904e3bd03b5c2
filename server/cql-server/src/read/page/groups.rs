//! The groups of a page: rows to one result row, by aggregates and GROUP BY.

use std::borrow::Cow;

use ebb_model::row::{LiveCell, LiveColumn};
use ebb_model::types::CqlType;

use super::room::{KEPT_BYTES, kept_bytes};
use super::{Flow, LiveRow, Page};
use crate::analyse::select::SelectPlan;
use crate::analyse::selection::Output;
use crate::error::Result;
use crate::functions::State;
use crate::functions::json::RowWriter;
use crate::interrupt;
use crate::read::value;

/// The group that the last row belongs to, with the state of its aggregates.
#[derive(Default)]
pub(super) struct Groups {
    /// The key columns and the value by which the rows are grouped, which all rows of the group
    /// share; `None` before the first row.
    pub(super) key: Option<Vec<u8>>,
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
    pub(super) last_key: Vec<u8>,
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

impl Page<'_> {
    /// Adds a row to the current group, or ends that group and begins the next one;
    /// [`complete`](Self::complete) ends the last one. Pages end only between groups, so a paging
    /// state needs no partial aggregates.
    pub(super) fn grouped(&mut self, row: &LiveRow<'_>) -> Result<Flow> {
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
        let context = self.context(row.cells, &[]);
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
            let value = value::value(function, &self.context(row.cells, &[]))?;
            // Null is no empty value.
            key.push(u8::from(value.is_some()));
            key.extend_from_slice(&value.unwrap_or_default());
        }
        Ok(key)
    }

    /// Returns the part of a row's key with the key columns by which the row is grouped. The keys
    /// of all rows of the group begin with it. Without GROUP BY it is empty.
    pub(super) fn group_prefix<'k>(&self, row: &LiveRow<'k>) -> &'k [u8] {
        let Some(group_by) = &self.plan.group_by else {
            return &[];
        };
        let more = group_by.columns - self.plan.schema.layout().partition().len();
        let rows = (row.prefix_len + 1).min(row.key.len());
        let clustering = self.clustering_part(row, more);
        &row.key[..rows + clustering.len()]
    }

    /// Computes the result row of the current group, and writes or buffers it. If the group has no
    /// rows, the aggregates have their results for no values, and all columns are null.
    pub(super) fn end_group(&mut self) -> Result<()> {
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
        let context = self.context(&cells_of_first, &aggregates);
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
}

/// Returns the slots of the columns that stand beside an aggregate in one output, ascending.
pub(super) fn slots_beside_aggregates(plan: &SelectPlan) -> Vec<usize> {
    let mut slots = Vec::new();
    if plan.outputs.aggregates.is_empty() {
        return slots;
    }
    let outputs = plan.outputs.columns.iter().map(|column| &column.output);
    for output in outputs.filter(|output| has_aggregate(output)) {
        collect_slots(output, &mut slots);
    }
    slots.sort_unstable();
    slots.dedup();
    slots
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
