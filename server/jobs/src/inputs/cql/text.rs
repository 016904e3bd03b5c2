//! A row of a table that CQL made, as key and value of a record: the columns of its primary
//! key, and the others that are wanted, each as text.

use std::sync::Arc;

use ebb_model::key::{DecodedKey, Place};
use ebb_model::row::{Header, LiveColumn, RowRef, RowView};
use ebb_model::schema::{ColumnId, ColumnKind, TableSchema};
use ebb_model::types::{CqlType, elements};
use ebb_scheduler::runtime::TaskError;

use super::{damaged, header_key};
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
    /// Ids of all columns of the kind, ascending, where others were dropped.
    known_statics: Option<Vec<u32>>,
    known_regular: Option<Vec<u32>>,
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
            known_statics: schema.ids_beside_dropped(ColumnKind::Static),
            known_regular: schema.ids_beside_dropped(ColumnKind::Regular),
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

    /// A partition by what its keys begin with, and its header's operand where it has one.
    pub(crate) fn partition<'p>(
        &'p self,
        prefix: &[u8],
        header: Option<&'p [u8]>,
    ) -> Result<PartitionText<'p>, TaskError> {
        let header = match header {
            Some(header) => Header::parse(header).map_err(damaged)?,
            None => Header::EMPTY,
        };
        let key = header_key(prefix);
        let key = DecodedKey::read(&key).map_err(damaged)?;
        debug_assert_eq!(key.place, Place::Header);
        let layout = self.schema.layout();
        let values = layout
            .partition_values(key.partition_key)
            .map_err(damaged)?;
        let mut keys = Texts::default();
        keys.reset(values.len());
        for ((at, value), ty) in values.iter().enumerate().zip(layout.partition()) {
            keys.set(at, ty, value);
        }
        Ok(PartitionText {
            text: self,
            header,
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
    fn fill(&self, view: &RowView<'_>, to: &mut Buffers) -> Result<(), TaskError> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let mut next = 0;
        for live in view.columns(&self.ids) {
            let (id, live) = live.map_err(damaged)?;
            while self.ids[next] != id {
                next += 1;
            }
            let (at, ty) = &self.columns[next];
            match live {
                LiveColumn::Cell(cell) => to.fields.set(*at, ty, cell.value),
                LiveColumn::Collection(collection) => {
                    to.native.clear();
                    collection
                        .write_value(ty, &mut to.native)
                        .map_err(damaged)?;
                    to.fields.set(*at, ty, &to.native);
                }
            }
        }
        Ok(())
    }
}

/// A partition: its header, and the texts of its key.
pub(crate) struct PartitionText<'p> {
    text: &'p CqlText,
    header: Header<'p>,
    keys: Texts,
}

impl PartitionText<'_> {
    /// Writes the row of an encoded clustering, if it is there.
    pub(super) fn write_row(
        &self,
        clustering: &[u8],
        operand: &[u8],
        to: &mut Buffers,
    ) -> Result<bool, TaskError> {
        let view = self.view(clustering, operand)?;
        if !self.is_live(&view)? {
            return Ok(false);
        }
        self.write_key(Some((clustering, &view)), to)?;
        to.fields.reset(self.text.values);
        self.fill_statics(to)?;
        self.text.regular.fill(&view, to)?;
        to.fields.write(&mut to.value);
        Ok(true)
    }

    /// Whether that row is there.
    pub(crate) fn is_there(&self, clustering: &[u8], operand: &[u8]) -> Result<bool, TaskError> {
        self.is_live(&self.view(clustering, operand)?)
    }

    /// Whether a static column has a value.
    pub(crate) fn has_static_values(&self) -> Result<bool, TaskError> {
        if self.header.static_row().is_none() {
            return Ok(false);
        }
        self.static_view()
            .is_live(self.text.known_statics.as_deref())
            .map_err(damaged)
    }

    /// Writes the row of a partition that has static values only.
    pub(super) fn write_statics(&self, to: &mut Buffers) -> Result<(), TaskError> {
        self.write_key(None, to)?;
        to.fields.reset(self.text.values);
        self.fill_statics(to)?;
        to.fields.write(&mut to.value);
        Ok(())
    }

    fn view<'r>(&'r self, clustering: &[u8], operand: &'r [u8]) -> Result<RowView<'r>, TaskError> {
        let row = RowRef::parse(operand).map_err(damaged)?;
        let deletion = self.header.deletion_at(clustering);
        let view = RowView::new(row, deletion, self.text.read_time_s);
        Ok(view.without(self.text.schema.dropped_cells()))
    }

    fn static_view(&self) -> RowView<'_> {
        let view = self.header.static_view(self.text.read_time_s);
        view.without(self.text.schema.dropped_cells())
    }

    fn is_live(&self, view: &RowView<'_>) -> Result<bool, TaskError> {
        let known = self.text.known_regular.as_deref();
        view.is_live(known).map_err(damaged)
    }

    fn fill_statics(&self, to: &mut Buffers) -> Result<(), TaskError> {
        self.text.statics.fill(&self.static_view(), to)
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
            let values = match view.original_clustering() {
                None => layout.clustering_values(clustering).map_err(damaged)?,
                // As a tuple of all clustering values, as they were written.
                Some(original) => {
                    let values = elements::components(original);
                    let values = values.map(|value| Ok(value?.unwrap_or_default().to_vec()));
                    let values: Result<Vec<_>, ebb_model::types::TypeError> = values.collect();
                    values.map_err(damaged)?
                }
            };
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
