//! The response to a conditional write: `[applied]`, and the rows that failed the condition.
//!
//! The columns and rows are those of Cassandra 4.1's `CQL3CasRequest` and `buildCasResultSet`. If
//! an IF tests the row's existence, all columns are returned; otherwise those in the IF, regular
//! ones before static ones, and in a batch after the primary key. There is one row for each
//! existing row with a condition. With conditions on static columns alone it is the first row of
//! the partition. Without any row, `[applied]` stands alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use ebb_model::key::{DecodedKey, Place};
use ebb_model::row::LiveColumn;
use ebb_model::schema::{Column, ColumnKind, TableSchema};
use ebb_model::types::CqlType;
use ebb_storage::TransactionRange;
use ebb_tables::read::{Partition, ProjectedPartition, ProjectedRow, Projection};

use super::condition::Conditions;
use super::plan::WritePlan;
use super::statement::WriteContext;
use crate::analyse::selection::Slots;
use crate::error::{Result, of_key, of_store, of_table};
use crate::interrupt;
use crate::listing::Listing;
use crate::pace::charge_decoding;
use crate::read::serialize;

/// The name of the column that is true if a conditional write was applied.
const APPLIED: &str = "[applied]";

/// The most keys, deleted ones included, that are read to find the first live row of a partition.
/// If none of them has a live row, the response contains at most the static columns.
const FIRST_ROW_KEYS_MAX: usize = 1_000;

/// The columns that the response to a conditional write contains after `[applied]`.
#[derive(Debug)]
pub(super) struct ResponseColumns {
    /// The columns of the rows in the response, in the order of the response.
    slots: Slots,
    projection: Projection,
    /// The indexes, among the columns of the table, of the static columns that are returned: all,
    /// if a conditional statement changes a static column; otherwise those with a condition. Others
    /// are returned as null.
    statics: BTreeSet<usize>,
    /// True if any of the statements, with or without IF, names rows and not only a partition.
    /// Otherwise regular columns are returned as null. This is Cassandra's `updatesRegularRows`.
    has_regular: bool,
}

impl ResponseColumns {
    /// Collects the columns for the response to these statements on a table.
    ///
    /// # Errors
    /// The timeout of the statement.
    pub(super) fn new<'p>(
        schema: &TableSchema,
        plans: impl Iterator<Item = &'p WritePlan> + Clone,
        is_batch: bool,
    ) -> Result<Self> {
        let conditional = || plans.clone().filter(|plan| plan.conditions.is_some());
        let mut writes_statics = false;
        let mut tested = BTreeSet::new();
        for plan in conditional() {
            writes_statics |= plan.writes_statics();
            for condition in plan.conditions.columns() {
                interrupt::charge(1)?;
                tested.insert(condition.column.id);
            }
        }
        let places = |is_of: &dyn Fn(&Column) -> bool| {
            let columns = schema.columns().iter().enumerate();
            let columns = columns.filter(|(_, column)| is_of(column));
            columns.map(|(place, _)| place).collect::<Vec<_>>()
        };
        let mut slots = Slots::default();
        if is_batch {
            for place in places(&|column| column.kind <= ColumnKind::Clustering) {
                slots.of(place);
            }
        }
        let by_columns = |plan: &WritePlan| matches!(plan.conditions, Conditions::Columns(_));
        if conditional().all(by_columns) {
            for plan in conditional() {
                for is_static in [false, true] {
                    let columns = plan.conditions.columns().iter();
                    for condition in columns.filter(|one| one.is_static() == is_static) {
                        // Always found: all statements of a request were analysed on this schema.
                        if let Some(place) = schema.place(&condition.column.name) {
                            slots.of(place);
                        }
                    }
                }
            }
        } else {
            for place in places(&|_| true) {
                slots.of(place);
            }
        }
        let is_returned = |column: &Column| {
            column.kind == ColumnKind::Static && (writes_statics || tested.contains(&column.id))
        };
        Ok(Self {
            projection: Projection::new(schema, slots.columns()),
            statics: places(&is_returned).into_iter().collect(),
            has_regular: plans.clone().any(|plan| plan.keys.names_rows(schema)),
            slots,
        })
    }
}

/// The response to a conditional write on one partition.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    shown: &'a ResponseColumns,
    schema: &'a TableSchema,
    partition: ProjectedPartition<'a>,
}

type Cells = Vec<Option<Bytes>>;

impl<'a> Answer<'a> {
    /// Begins the response to a write on a partition, at `now_s` seconds since 1970. `header` is
    /// the stored header of the partition (its deletions and static columns), `None` if it has
    /// none.
    ///
    /// # Errors
    /// If the header is damaged.
    pub(super) fn new(
        shown: &'a ResponseColumns,
        schema: &'a Arc<TableSchema>,
        header_key: &'a [u8],
        header: Option<&'a [u8]>,
        now_s: i64,
    ) -> Result<Self> {
        let key = DecodedKey::read(header_key).map_err(of_key)?;
        let partition = ProjectedPartition::new(&shown.projection, schema, key, header, now_s);
        Ok(Self {
            shown,
            schema,
            partition: partition.map_err(of_table)?,
        })
    }

    pub(super) fn partition(&self) -> &Partition<'a> {
        self.partition.partition()
    }

    /// Decodes the row with this key. `operand` is the stored form of the row, an operand of the
    /// merge operator; `None` if nothing is stored. Returns `None` if there is no live row.
    ///
    /// # Errors
    /// If the row is damaged.
    pub(super) fn row<'r>(
        &'r self,
        key: &'r [u8],
        operand: Option<&'r [u8]>,
    ) -> Result<Option<ProjectedRow<'r>>> {
        let place = DecodedKey::read(key).map_err(of_key)?.place;
        match (place, operand) {
            (Place::Row(clustering), Some(operand)) => {
                let row = self
                    .partition
                    .row(clustering, operand, &mut charge_decoding);
                row.map_err(of_table)
            }
            _ => Ok(None),
        }
    }

    /// Returns the cells of the live rows among `rows`, each of which has a key and the stored form
    /// of the row. If none is live, returns at most one row, that of the static columns.
    ///
    /// # Errors
    /// If a row is damaged, or if the rows are too long together. Each has a copy of the static
    /// columns.
    pub(super) fn rows<'k>(
        &self,
        rows: impl Iterator<Item = (&'k [u8], Option<&'k [u8]>)>,
        context: &WriteContext<'_>,
    ) -> Result<Vec<Cells>> {
        let (mut shown, mut bytes) = (Vec::new(), 0);
        for (key, operand) in rows {
            interrupt::charge_bytes(operand.map_or(0, <[u8]>::len))?;
            if let Some(row) = self.row(key, operand)? {
                let cells = self.cells(&row)?;
                let cells_bytes = cells.iter().flatten().map(Bytes::len).sum();
                interrupt::charge_bytes(cells_bytes)?;
                bytes += cells_bytes;
                shown.push(cells);
                context.check_rows_bytes(shown.len(), bytes)?;
            }
        }
        self.or_statics(shown)
    }

    /// Returns the cells of the first live row of the partition. If no statement names rows, only
    /// rows that an INSERT has written count. If there is no such row among the first
    /// [`FIRST_ROW_KEYS_MAX`] keys, returns at most one row, that of the static columns.
    ///
    /// # Errors
    /// If the store cannot read an entry, or if a row is damaged.
    pub(super) fn first_row(&self, rows: TransactionRange<'_>) -> Result<Vec<Cells>> {
        for entry in rows.take(FIRST_ROW_KEYS_MAX) {
            let (key, operand) = entry.map_err(of_store)?;
            let Some(row) = self.row(&key, Some(&operand))? else {
                continue;
            };
            // For statements on static columns, only rows of an INSERT count.
            if self.shown.has_regular || row.view().marker().is_some() {
                return Ok(vec![self.cells(&row)?]);
            }
        }
        self.or_statics(Vec::new())
    }

    /// Returns `rows` or, if there are none, one row of the static columns. The row of the static
    /// columns is returned only if a column in [`ResponseColumns::statics`] has a value. That
    /// column need not be in the response.
    fn or_statics(&self, mut rows: Vec<Cells>) -> Result<Vec<Cells>> {
        if !rows.is_empty() {
            return Ok(rows);
        }
        let of_place = |place: &usize| self.schema.columns()[*place].id.0;
        let statics: BTreeSet<u32> = self.shown.statics.iter().map(of_place).collect();
        let statics: Vec<u32> = statics.into_iter().collect();
        let partition = self.partition();
        let found = partition.static_view().columns(&statics).next().transpose();
        let found = found.map_err(|error| of_table(partition.damaged_header(error)))?;
        if found.is_some() {
            let slots = self
                .shown
                .slots
                .columns()
                .iter()
                .zip(self.partition.cells());
            let cells = slots.map(|(place, live)| self.cell(*place, live));
            rows.push(cells.collect::<Result<_>>()?);
        }
        Ok(rows)
    }

    fn cells(&self, row: &ProjectedRow<'_>) -> Result<Cells> {
        let mut cells = Vec::new();
        (self.partition.fill(row, &mut cells)).map_err(of_table)?;
        let slots = self.shown.slots.columns().iter().zip(&cells);
        slots.map(|(place, live)| self.cell(*place, live)).collect()
    }

    fn cell(&self, place: usize, live: &Option<LiveColumn<'_>>) -> Result<Option<Bytes>> {
        let column = &self.schema.columns()[place];
        let is_returned = match column.kind {
            ColumnKind::Static => self.shown.statics.contains(&place),
            ColumnKind::Regular => self.shown.has_regular,
            ColumnKind::PartitionKey | ColumnKind::Clustering => true,
        };
        Ok(match live.as_ref().filter(|_| is_returned) {
            None => None,
            Some(LiveColumn::Cell(cell)) => Some(Bytes::copy_from_slice(cell.value)),
            Some(LiveColumn::Collection(collection)) => {
                Some(serialize(&column.ty, collection)?.into())
            }
        })
    }

    /// Returns the response to a write that was applied.
    pub(super) fn applied(&self) -> Listing {
        self.listing(&[], vec![vec![Some(Bytes::from_static(&[1]))]])
    }

    /// Returns the response to a write that was not applied. `rows` has the cells of the rows on
    /// which there are conditions, or of the partition's first row.
    pub(super) fn refused(&self, rows: Vec<Cells>) -> Listing {
        let no = || Some(Bytes::from_static(&[0]));
        if rows.is_empty() {
            return self.listing(&[], vec![vec![no()]]);
        }
        let rows = rows
            .into_iter()
            .map(|row| [no()].into_iter().chain(row).collect());
        self.listing(self.shown.slots.columns(), rows.collect())
    }

    fn listing(&self, places: &[usize], rows: Vec<Cells>) -> Listing {
        let columns = places.iter().map(|&place| &self.schema.columns()[place]);
        let columns = columns.map(|column| (&*column.name, column.ty.clone()));
        let columns: Vec<_> = [(APPLIED, CqlType::Boolean)]
            .into_iter()
            .chain(columns)
            .collect();
        Listing::new((self.schema.keyspace(), self.schema.name()), &columns, rows)
    }
}
