//! A row of a table that CQL made, as key and value of a record: the columns of its primary
//! key, and the others that are wanted, each as text.

use std::sync::Arc;

use ebb_model::key::DecodedKey;
use ebb_model::row::{LiveColumn, RowError, RowView};
use ebb_model::schema::{ColumnId, ColumnKind, TableSchema};
use ebb_model::types::CqlType;
use ebb_scheduler::runtime::TaskError;
use ebb_tables::read::{Partition, read_key};

use crate::error::of_table;
use crate::records::csv::push_fields;
use crate::records::{Column, RecordFormat};

/// Writes rows of a table. What is not wanted is not decoded.
#[derive(Debug)]
pub struct CqlText {
    schema: Arc<TableSchema>,
    /// Seconds since 1970, at which is judged what has expired.
    read_time_s: i64,
    statics: Wanted,
    regular: Wanted,
    /// How many columns are wanted.
    values: usize,
}

/// The wanted columns of a kind, by ascending id: their places in the value, their types.
#[derive(Debug, Default)]
struct Wanted {
    ids: Vec<u32>,
    columns: Vec<(usize, CqlType)>,
}

/// What a row is written into, kept from row to row.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    fields: Texts,
    native: Vec<u8>,
}

/// Texts of a row's fields, one behind the other.
#[derive(Debug, Default)]
struct Texts {
    bytes: Vec<u8>,
    places: Vec<Option<(usize, usize)>>,
}

impl Texts {
    fn reset(&mut self, count: usize) {
        self.bytes.clear();
        self.places.clear();
        self.places.resize(count, None);
    }

    fn set(&mut self, at: usize, ty: &CqlType, value: &[u8]) {
        let from = self.bytes.len();
        ty.write_text(value, &mut self.bytes);
        self.places[at] = Some((from, self.bytes.len()));
    }

    fn write(&self, to: &mut Vec<u8>) {
        to.clear();
        let fields = self.places.iter();
        push_fields(
            to,
            fields.map(|place| place.map(|(from, end)| &self.bytes[from..end])),
        );
    }
}

impl CqlText {
    /// Rows of `schema` as of `read_time_ms` milliseconds since 1970, with the columns called
    /// `wanted` beside those of the primary key; `None`: with all of them.
    pub fn new(schema: Arc<TableSchema>, read_time_ms: u64, wanted: Option<&[String]>) -> Self {
        let is_wanted = |name: &str| wanted.is_none_or(|all| all.iter().any(|one| one == name));
        let (mut statics, mut regular) = (Vec::new(), Vec::new());
        let mut values = 0;
        for column in schema.columns() {
            let of_kind = match column.kind {
                ColumnKind::Static => &mut statics,
                ColumnKind::Regular => &mut regular,
                ColumnKind::PartitionKey | ColumnKind::Clustering => continue,
            };
            if is_wanted(&column.name) {
                of_kind.push((column.id, values, column.ty.clone()));
                values += 1;
            }
        }
        Self {
            read_time_s: i64::try_from(read_time_ms / 1000).unwrap_or(i64::MAX),
            statics: Wanted::of(statics),
            regular: Wanted::of(regular),
            values,
            schema,
        }
    }

    /// What its rows have: the columns of the primary key, which are the key, then the
    /// others.
    pub fn format(&self) -> RecordFormat {
        let keys = [ColumnKind::PartitionKey, ColumnKind::Clustering];
        let keys = keys.iter().flat_map(|&kind| self.schema.columns_of(kind));
        let mut values = vec![None; self.values];
        for wanted in [&self.statics, &self.regular] {
            for (id, (at, _)) in wanted.ids.iter().zip(&wanted.columns) {
                values[*at] = self.schema.column_by_id(ColumnId(*id));
            }
        }
        let values = values.into_iter().flatten();
        RecordFormat::rows(
            keys.map(column_of).collect(),
            values.map(column_of).collect(),
        )
    }

    /// Takes apart a key that the table stores.
    pub(super) fn read_key<'k>(&self, key: &'k [u8]) -> Result<DecodedKey<'k>, TaskError> {
        read_key(&self.schema, key).map_err(of_table)
    }

    /// A partition by one of its keys, and its header's operand where it has one.
    pub(super) fn partition<'p>(
        &'p self,
        key: DecodedKey<'p>,
        header: Option<&'p [u8]>,
    ) -> Result<PartitionText<'p>, TaskError> {
        let partition = Partition::new(&self.schema, key, header, self.read_time_s);
        let partition = partition.map_err(of_table)?;
        let values = partition.key_values().map_err(of_table)?;
        let mut keys = Texts::default();
        keys.reset(values.len());
        for ((at, value), ty) in values
            .iter()
            .enumerate()
            .zip(self.schema.layout().partition())
        {
            keys.set(at, ty, value);
        }
        Ok(PartitionText {
            text: self,
            partition,
            keys,
        })
    }
}

impl Wanted {
    fn of(mut columns: Vec<(ColumnId, usize, CqlType)>) -> Self {
        columns.sort_unstable_by_key(|(id, ..)| *id);
        let mut wanted = Self::default();
        for (id, at, ty) in columns {
            wanted.ids.push(id.0);
            wanted.columns.push((at, ty));
        }
        wanted
    }

    /// Writes what is live of them.
    fn fill(&self, view: &RowView<'_>, to: &mut Buffers) -> Result<(), RowError> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let mut next = 0;
        for live in view.columns(&self.ids) {
            let (id, live) = live?;
            while self.ids[next] != id {
                next += 1;
            }
            let (at, ty) = &self.columns[next];
            match live {
                LiveColumn::Cell(cell) => to.fields.set(*at, ty, cell.value),
                LiveColumn::Collection(collection) => {
                    to.native.clear();
                    collection.write_value(ty, &mut to.native)?;
                    to.fields.set(*at, ty, &to.native);
                }
            }
        }
        Ok(())
    }
}

/// A partition, and the texts of its key.
pub(super) struct PartitionText<'p> {
    text: &'p CqlText,
    partition: Partition<'p>,
    keys: Texts,
}

impl<'p> PartitionText<'p> {
    /// Returns the partition, by whose rules rows are visible.
    pub(super) fn partition(&self) -> &Partition<'p> {
        &self.partition
    }

    /// Writes the row of an encoded clustering, if it is there.
    pub(super) fn write_row(
        &self,
        clustering: &[u8],
        operand: &[u8],
        to: &mut Buffers,
    ) -> Result<bool, TaskError> {
        let row = self.partition.row(clustering, operand);
        let Some(row) = row.map_err(of_table)? else {
            return Ok(false);
        };
        self.write_key(Some((clustering, &row)), to)?;
        to.fields.reset(self.text.values);
        self.fill_statics(to)?;
        let filled = self.text.regular.fill(&row, to);
        filled.map_err(|error| of_table(self.partition.damaged_row(clustering, error)))?;
        to.fields.write(&mut to.value);
        Ok(true)
    }

    /// Writes the row of a partition that has static values only.
    pub(super) fn write_statics(&self, to: &mut Buffers) -> Result<(), TaskError> {
        self.write_key(None, to)?;
        to.fields.reset(self.text.values);
        self.fill_statics(to)?;
        to.fields.write(&mut to.value);
        Ok(())
    }

    fn fill_statics(&self, to: &mut Buffers) -> Result<(), TaskError> {
        let filled = self.text.statics.fill(&self.partition.static_view(), to);
        filled.map_err(|error| of_table(self.partition.damaged_header(error)))
    }

    /// Writes the columns of the primary key; without a row those of the clustering are
    /// missing.
    fn write_key(
        &self,
        row: Option<(&[u8], &RowView<'_>)>,
        to: &mut Buffers,
    ) -> Result<(), TaskError> {
        let layout = self.text.schema.layout();
        let partition = self.keys.places.len();
        to.fields.reset(partition + layout.clustering().len());
        to.fields.bytes.extend_from_slice(&self.keys.bytes);
        to.fields.places[..partition].copy_from_slice(&self.keys.places);
        if let Some((clustering, view)) = row
            && !layout.clustering().is_empty()
        {
            let values = self.partition.clustering_values(clustering, view);
            let values = values.map_err(of_table)?;
            for ((at, value), column) in values.iter().enumerate().zip(layout.clustering()) {
                to.fields.set(partition + at, &column.ty, value);
            }
        }
        to.fields.write(&mut to.key);
        Ok(())
    }
}

/// A column of the table as one of records.
fn column_of(column: &ebb_model::schema::Column) -> Column {
    use CqlType as T;
    let name = &column.name[..];
    let number = matches!(
        column.ty,
        T::Bigint
            | T::Counter
            | T::Decimal
            | T::Double
            | T::Float
            | T::Int
            | T::Smallint
            | T::Tinyint
            | T::Varint
    );
    match number {
        true => Column::number(name),
        false => Column::text(name),
    }
    .of_type(&column.ty.to_string())
}
