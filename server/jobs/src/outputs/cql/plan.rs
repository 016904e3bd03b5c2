//! The mapping from the fields of a job's rows to the columns of a table, and the encoding
//! of rows.

use std::borrow::Cow;
use std::sync::Arc;

use ebb_model::key::{DecodedKey, Place};
use ebb_model::schema::{Column, ColumnId, ColumnKind, TableDefinition, TableOptions, TableSchema};
use ebb_model::types::CqlType;
use ebb_scheduler::runtime::TaskError;
use ebb_tables::write::{OperandWriter, WriteTimes, original_clustering};
use uuid::Builder;

use super::values::{RowValues, Target};
use super::waiting::{self, ORIGINAL};
use crate::error::JobError;
use crate::records::{self, RecordFormat};

/// The mapping from fields of rows to columns of a table.
#[derive(Debug)]
pub(super) struct RowPlan {
    schema: Arc<TableSchema>,
    partition: Vec<Target>,
    /// The fields for the clustering columns; empty if the table has none, or if only static columns are
    /// written.
    clustering: Vec<Target>,
    /// The fields for the static columns, each with the id of its column, ascending.
    statics: Vec<(u32, Target)>,
    /// The fields for the regular columns, each with the id of its column, ascending.
    cells: Vec<(u32, Target)>,
    /// True if a null deletes the old value of its column. In a table without rows this is not
    /// necessary.
    deletes_nulls: bool,
}

/// A row that waits for the commit, which sets the timestamp. Each pair is a key in the store and
/// the values of columns, encoded as in [`waiting`].
#[derive(Debug, Default)]
pub(super) struct WaitingRow {
    /// The static columns of the row's partition: the key of the partition's header in the store,
    /// and the values; `None` if no static column has a value or is deleted.
    pub(super) statics: Option<(Vec<u8>, Vec<u8>)>,
    /// The key and the columns of the row itself, unless only static columns are written.
    pub(super) row: Option<(Vec<u8>, Vec<u8>)>,
}

impl RowPlan {
    /// Returns whether the table, which now has the schema `schema`, still has all static and regular
    /// columns of the plan. Columns of the primary key cannot be dropped.
    pub(super) fn fits(&self, schema: &TableSchema) -> bool {
        let mut ids = self.statics.iter().chain(&self.cells).map(|(id, _)| *id);
        ids.all(|id| schema.column_by_id(ColumnId(id)).is_some())
    }

    /// Creates a plan for rows with the format `rows` into a table of `schema`. Columns match by name.
    /// The columns of the rows' key without a column of the same name are matched, in their order, with
    /// the remaining columns of the table's primary key. If only static columns are written, rows need
    /// no clustering columns.
    ///
    /// # Errors
    /// When a column of the rows or of the primary key has no match, or a column cannot be
    /// written.
    pub(super) fn new(schema: Arc<TableSchema>, rows: &RecordFormat) -> Result<Self, JobError> {
        let name = format!("{}.{}", schema.keyspace(), schema.name());
        let no = |what: String| JobError::senseless(format!("table {name}: {what}"));
        let columns = rows.columns();
        let is_there = |column: &Column| columns.iter().any(|of| of.name == *column.name);
        let mut left = Vec::new();
        for kind in [ColumnKind::PartitionKey, ColumnKind::Clustering] {
            let of_kind = schema.columns_of(kind).iter();
            left.extend(of_kind.filter(|column| !is_there(column)));
        }
        let mut left = left.into_iter();
        let mut found = Vec::new();
        for (field, column) in columns.iter().enumerate() {
            let of = match schema.column(&column.name) {
                None if field < rows.key_columns() => left.next(),
                of => of,
            };
            found.push(of.ok_or_else(|| {
                let known: Vec<&str> = schema.columns().iter().map(|of| &of.name[..]).collect();
                no(format!(
                    "it has no column {:?}, which the rows of the job have; it has: {}",
                    column.name,
                    known.join(", ")
                ))
            })?);
        }
        let names: Vec<&str> = columns.iter().map(|of| &of.name[..]).collect();
        Self::of_columns(&schema, &found, &names)
    }

    /// Creates a plan for rows whose fields are, in their order, values of the columns `found` of a table of
    /// `schema`. No column may come twice. `names` are the names that the rows have for these columns, for
    /// errors. If only static columns are written, rows need no clustering columns.
    ///
    /// # Errors
    /// When rows lack a column of the primary key, or when a column cannot be written.
    pub(super) fn of_columns(
        schema: &Arc<TableSchema>,
        found: &[&Column],
        names: &[&str],
    ) -> Result<Self, JobError> {
        let name = format!("{}.{}", schema.keyspace(), schema.name());
        let no = |what: String| JobError::senseless(format!("table {name}: {what}"));
        let (mut keys, mut statics, mut cells) = (Vec::new(), Vec::new(), Vec::new());
        for (field, found) in found.iter().enumerate() {
            // An increment needs the stored value, and rows of a job are ingested without reading
            // it.
            if found.ty == CqlType::Counter {
                return Err(no(format!(
                    "jobs do not write column {}, which is of type {}",
                    found.name, found.ty
                )));
            }
            match found.kind {
                ColumnKind::Regular => cells.push((found.id.0, Target::new(field, found))),
                ColumnKind::Static => statics.push((found.id.0, Target::new(field, found))),
                kind => keys.push((kind, found.position, Target::new(field, found))),
            }
        }
        let mut left = Vec::new();
        for kind in [ColumnKind::PartitionKey, ColumnKind::Clustering] {
            let is_left = |column: &&Column| found.iter().all(|of| of.name != column.name);
            left.extend(schema.columns_of(kind).iter().filter(is_left));
        }
        // Static columns belong to partitions, so that rows of them alone need no clustering
        // columns.
        let has_statics_only = cells.is_empty()
            && !statics.is_empty()
            && keys
                .iter()
                .all(|(kind, ..)| *kind == ColumnKind::PartitionKey)
            && (left.iter()).all(|column| column.kind == ColumnKind::Clustering);
        if let Some(missing) = left.first().filter(|_| !has_statics_only) {
            return Err(no(format!(
                "its primary key has column {}, and the rows have no such column; they have: {}",
                missing.name,
                names.join(", ")
            )));
        }
        // Keys are encoded from the values of their columns in the order of the primary key, whatever
        // the order of the fields is.
        let of = |wanted: ColumnKind| {
            let mut of: Vec<_> = keys.iter().filter(|(kind, ..)| *kind == wanted).collect();
            of.sort_by_key(|(_, position, _)| *position);
            of.into_iter().map(|(.., target)| target.clone()).collect()
        };
        // Operands have their columns by ascending id.
        statics.sort_by_key(|(id, _)| *id);
        cells.sort_by_key(|(id, _)| *id);
        Ok(Self {
            partition: of(ColumnKind::PartitionKey),
            clustering: of(ColumnKind::Clustering),
            statics,
            cells,
            schema: Arc::clone(schema),
            deletes_nulls: false,
        })
    }

    /// Makes the plan delete the old value of a column for a null, as a table that already has rows requires.
    /// Without this call a null is not written at all.
    pub(super) fn deleting_nulls(self) -> Self {
        Self {
            deletes_nulls: true,
            ..self
        }
    }

    /// Returns the name of the table, with its keyspace.
    pub(super) fn table_name(&self) -> String {
        format!("{}.{}", self.schema.keyspace(), self.schema.name())
    }

    /// Encodes a row. If the row has static values, but neither values of the clustering columns nor of
    /// regular columns, only the static columns are written.
    ///
    /// # Errors
    /// If a field is not a valid value of its column, or if a value of the primary key is missing or too
    /// long; the error is the reason.
    pub(super) fn row(&self, fields: &(impl RowValues + ?Sized)) -> Result<WaitingRow, String> {
        let mut row = WaitingRow::default();
        let layout = self.schema.layout();
        let partition = keys(&self.partition, fields)?;
        let partition: Vec<&[u8]> = partition.iter().map(|value| &**value).collect();
        let partition = layout.partition_key(&partition);
        let partition = partition.map_err(|error| error.to_string())?;
        let statics = values_of(&self.statics, fields)?;
        let cells = values_of(&self.cells, fields)?;
        let is_missing = |target: &Target| fields.is_missing(target);
        let has_no_row = self.clustering.len() < layout.clustering().len()
            || !statics.is_empty()
                && cells.is_empty()
                && !self.clustering.is_empty()
                && self.clustering.iter().all(is_missing);
        if !statics.is_empty() || self.deletes_nulls && !self.statics.is_empty() {
            row.statics = Some((partition.header_key(), statics));
        }
        if has_no_row {
            return Ok(row);
        }
        let clustering = keys(&self.clustering, fields)?;
        let clustering: Vec<&[u8]> = clustering.iter().map(|value| &**value).collect();
        let key = layout.row_key(&partition, &clustering);
        let key = key.map_err(|error| error.to_string())?;
        let mut values = cells;
        if let Some(original) = original_clustering(layout, clustering.iter().copied()) {
            waiting::push(&mut values, ORIGINAL, &original)?;
        }
        row.row = Some((key, values));
        Ok(row)
    }

    /// Appends the operand (the store's form of a write) of a row, from its values `waiting`,
    /// encoded as in the module [`waiting`], and the timestamp, in microseconds since 1970.
    ///
    /// # Errors
    /// When `waiting` is damaged.
    pub(super) fn row_operand(
        &self,
        waiting: &[u8],
        timestamp_us: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), TaskError> {
        let mut original = None;
        for value in waiting::values(waiting) {
            if let (ORIGINAL, bytes) = value? {
                original = Some(bytes);
            }
        }
        let times = WriteTimes::at(timestamp_us);
        let row = OperandWriter::row(times, true, original, out);
        self.columns(waiting, &self.cells, row)
    }

    /// Appends the operand (the store's form of a write) of a partition's header, with the static
    /// columns in `waiting`, encoded as in the module [`waiting`].
    ///
    /// # Errors
    /// When `waiting` is damaged.
    pub(super) fn header_operand(
        &self,
        waiting: &[u8],
        timestamp_us: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), TaskError> {
        let row = OperandWriter::statics(WriteTimes::at(timestamp_us), out);
        self.columns(waiting, &self.statics, row)
    }

    /// Writes the values in `waiting`, encoded as in the module [`waiting`], to the operand `row`,
    /// and deletions of the other columns in `targets` if nulls delete.
    fn columns(
        &self,
        waiting: &[u8],
        targets: &[(u32, Target)],
        mut row: OperandWriter<'_>,
    ) -> Result<(), TaskError> {
        let written = if self.deletes_nulls { targets } else { &[] };
        let mut written = written.iter().map(|(id, _)| *id).peekable();
        let delete = |id: u32, row: &mut OperandWriter<'_>| {
            if let Some(column) = self.schema.column_by_id(ColumnId(id)) {
                row.delete(column);
            }
        };
        for value in waiting::values(waiting) {
            let (id, value) = value?;
            while let Some(null) = written.next_if(|written| *written < id) {
                delete(null, &mut row);
            }
            written.next_if_eq(&id);
            match self.schema.column_by_id(ColumnId(id)) {
                _ if id == ORIGINAL => {}
                None => row.cell(id, Some(value)),
                Some(column) => row.assign(column, value).map_err(TaskError::failed)?,
            }
        }
        written.for_each(|null| delete(null, &mut row));
        row.finish().map_err(TaskError::failed)
    }

    pub(super) fn column_name(&self, id: u32) -> &str {
        let column = self.schema.column_by_id(ColumnId(id));
        column.map_or("?", |column| &column.name)
    }

    /// Returns the primary key of a row as text for an error, such as `(1, 'a')`. The text for the
    /// key of a partition's header shows only the columns of the partition key: `(1, ...)`.
    pub(super) fn shown(&self, key: &[u8]) -> String {
        let layout = self.schema.layout();
        let literals = || -> Option<Vec<String>> {
            let decoded = DecodedKey::read(key).ok()?;
            let values = layout.partition_values(decoded.partition_key).ok()?;
            let typed = values.iter().zip(layout.partition());
            let mut literals: Vec<String> = typed.map(|(value, ty)| ty.literal(value)).collect();
            match decoded.place {
                Place::Header => literals.push("...".to_owned()),
                Place::Row(clustering) => {
                    let values = layout.clustering_values(clustering).ok()?;
                    let typed = values.iter().zip(layout.clustering());
                    literals.extend(typed.map(|(value, column)| column.ty.literal(value)));
                }
            }
            Some(literals)
        };
        let literals = literals().unwrap_or_else(|| vec!["...".to_owned()]);
        format!("({})", literals.join(", "))
    }
}

/// Returns the values of those columns of the primary key that `targets` has.
fn keys<'v>(
    targets: &[Target],
    fields: &'v (impl RowValues + ?Sized),
) -> Result<Vec<Cow<'v, [u8]>>, String> {
    targets.iter().map(|target| target.key(fields)).collect()
}

/// Returns the values of the columns in `targets` that are not null, in the encoding of [`waiting`].
fn values_of(
    targets: &[(u32, Target)],
    fields: &(impl RowValues + ?Sized),
) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for (id, target) in targets {
        if let Some(value) = fields.value(target)? {
            waiting::push(&mut out, *id, &value)?;
        }
    }
    Ok(out)
}

/// Returns the definition of a table for rows with the format `rows`. A column has the CQL type
/// that `rows` declares for it; in the primary key, the type is frozen. If `rows` declares none, a
/// counter or a user-defined type, the column is decimal for numbers and text for anything else.
/// The first column of the rows' key is the partition key, and the others are clustering columns.
///
/// # Errors
/// When the rows have no key.
pub(super) fn definition(
    keyspace: &str,
    name: &str,
    rows: &RecordFormat,
) -> Result<TableDefinition, JobError> {
    let columns = rows.columns();
    let keys = rows.key_columns();
    if keys == 0 {
        return Err(JobError::senseless(format!(
            "table {keyspace}.{name} does not exist, and these rows have no key that could become \
             its primary key: create the table by CREATE TABLE"
        )));
    }
    let ty = |(at, column): (usize, &records::Column)| {
        let declared = column.ty.as_deref();
        // A user-defined type may not exist in this keyspace.
        let declared = declared.and_then(|ty| CqlType::parse(ty, &|_| None).ok());
        let declared = declared.filter(|ty| *ty != CqlType::Counter);
        match declared {
            Some(ty) if at < keys => ty.freeze(),
            Some(ty) => ty,
            None if column.kind == records::ColumnKind::Number => CqlType::Decimal,
            None => CqlType::Text,
        }
    };
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    Ok(TableDefinition {
        keyspace: keyspace.to_string(),
        name: name.to_string(),
        id: Builder::from_random_bytes(rand::random()).into_uuid(),
        columns: (columns.iter().enumerate())
            .map(|(at, column)| (column.name.clone(), ty((at, column)), false))
            .collect(),
        partition_key: vec![names[0].clone()],
        clustering: names[1..keys].to_vec(),
        order: Vec::new(),
        options: TableOptions::default(),
    })
}
