//! Which field of a job's rows is which column of a table, and what a row is then.

use std::sync::Arc;

use ebb_catalog::key::DecodedKey;
use ebb_catalog::row::{Cell, Column as RowColumn, Lifetime, Marker, Original, RowBuilder, RowRef};
use ebb_catalog::schema::{Column, ColumnKind, TableDefinition, TableOptions, TableSchema};
use ebb_catalog::types::{CqlType, elements};
use ebb_scheduler::runtime::TaskError;
use uuid::Builder;

use crate::error::JobError;
use crate::records::{self, Fields, RowSchema, shown};

/// Which field goes where.
#[derive(Debug)]
pub(super) struct RowPlan {
    schema: Arc<TableSchema>,
    partition: Vec<Target>,
    clustering: Vec<Target>,
    /// By ascending id.
    cells: Vec<(u32, Target)>,
}

/// A field, and the column that it is of.
#[derive(Debug, Clone)]
struct Target {
    field: usize,
    name: Arc<str>,
    ty: CqlType,
}

impl Target {
    fn new(field: usize, column: &Column) -> Self {
        Self {
            field,
            name: Arc::clone(&column.name),
            ty: column.ty.clone(),
        }
    }

    /// The value that a field's text says; `None` for one that is missing or empty.
    fn value(&self, fields: &Fields) -> Result<Option<Vec<u8>>, String> {
        let Some(field) = fields.get(self.field).filter(|field| !field.is_empty()) else {
            return Ok(None);
        };
        let wrong = |problem: &dyn std::fmt::Display| {
            let (name, ty, field) = (&self.name, &self.ty, shown(field));
            format!("column {name}, which is of type {ty}, gets {field}: {problem}")
        };
        let text = std::str::from_utf8(field).map_err(|error| wrong(&error))?;
        let text = match self.ty {
            CqlType::Blob => text.strip_prefix("0x").unwrap_or(text),
            _ => text,
        };
        let value = self.ty.parse_value(text).map_err(|error| wrong(&error))?;
        Ok(Some(value))
    }

    /// The same of a column of the primary key.
    fn key(&self, fields: &Fields) -> Result<Vec<u8>, String> {
        match self.value(fields)? {
            Some(value) => Ok(value),
            None if matches!(self.ty, CqlType::Text | CqlType::Ascii | CqlType::Blob) => {
                Ok(Vec::new())
            }
            None => Err(format!(
                "column {} of the primary key has no value",
                self.name
            )),
        }
    }
}

impl RowPlan {
    /// For rows as `rows` says into a table of `schema`: by the names of the columns; the
    /// columns of the rows' key that the table has not are, in their order, those of its
    /// primary key that the rows have not.
    ///
    /// # Errors
    /// When a column of either is left over, or cannot be written.
    pub(super) fn new(schema: Arc<TableSchema>, rows: &dyn RowSchema) -> Result<Self, JobError> {
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
        let (mut keys, mut cells) = (Vec::new(), Vec::new());
        for (field, column) in columns.iter().enumerate() {
            let found = match schema.column(&column.name) {
                None if field < rows.key_columns() => left.next(),
                found => found,
            };
            let Some(found) = found else {
                let known: Vec<&str> = schema.columns().iter().map(|of| &of.name[..]).collect();
                return Err(no(format!(
                    "it has no column {:?} for that of the job; it has: {}",
                    column.name,
                    known.join(", ")
                )));
            };
            if !found.ty.is_native() || found.ty == CqlType::Counter {
                return Err(no(format!(
                    "jobs do not write column {}, which is of type {}",
                    found.name, found.ty
                )));
            }
            match found.kind {
                ColumnKind::Regular => cells.push((found.id.0, Target::new(field, found))),
                ColumnKind::Static => {
                    return Err(no(format!(
                        "column {} is static, and jobs write rows",
                        found.name
                    )));
                }
                kind => keys.push((kind, found.position, Target::new(field, found))),
            }
        }
        if let Some(missing) = left.next() {
            let known: Vec<&str> = columns.iter().map(|of| &of.name[..]).collect();
            return Err(no(format!(
                "its primary key has column {}, and the job's rows have no such column; they \
                 have: {}",
                missing.name,
                known.join(", ")
            )));
        }
        let of = |wanted: ColumnKind| {
            let mut of: Vec<_> = keys.iter().filter(|(kind, ..)| *kind == wanted).collect();
            of.sort_by_key(|(_, position, _)| *position);
            of.into_iter().map(|(.., target)| target.clone()).collect()
        };
        cells.sort_by_key(|(id, _)| *id);
        Ok(Self {
            partition: of(ColumnKind::PartitionKey),
            clustering: of(ColumnKind::Clustering),
            cells,
            schema,
        })
    }

    /// The key of a row in the engine, and its operand at timestamp 0.
    ///
    /// # Errors
    /// What is wrong with a field.
    pub(super) fn row(&self, fields: &Fields) -> Result<(Vec<u8>, Vec<u8>), String> {
        let values = |targets: &[Target]| -> Result<Vec<Vec<u8>>, String> {
            targets.iter().map(|target| target.key(fields)).collect()
        };
        let (partition, clustering) = (values(&self.partition)?, values(&self.clustering)?);
        let layout = self.schema.layout();
        let partition: Vec<&[u8]> = partition.iter().map(Vec::as_slice).collect();
        let clustering: Vec<&[u8]> = clustering.iter().map(Vec::as_slice).collect();
        let key = layout.partition_key(&partition);
        let key = key.and_then(|partition| layout.row_key(&partition, &clustering));
        let key = key.map_err(|error| error.to_string())?;
        let is_told = |(at, value): (usize, &&[u8])| layout.is_reconstructible(at, value);
        let original = match clustering.iter().enumerate().all(is_told) {
            true => None,
            false => {
                let values = clustering.iter().map(|value| Some(*value));
                Some(elements::build_tuple(values))
            }
        };
        let mut operand = Vec::new();
        let mut row = RowBuilder::new(&mut operand, 0);
        row.marker(Marker {
            timestamp: 0,
            expiry: None,
        });
        if let Some(bytes) = &original {
            row.original(Original {
                timestamp: 0,
                bytes,
            });
        }
        for (id, target) in &self.cells {
            if let Some(value) = target.value(fields)? {
                row.cell(*id, cell(0, &value));
            }
        }
        row.finish().map_err(|error| error.to_string())?;
        Ok((key, operand))
    }

    /// The primary key of a row, for a message.
    pub(super) fn shown(&self, key: &[u8]) -> String {
        let layout = self.schema.layout();
        let told = DecodedKey::read(key).ok().and_then(|decoded| {
            let values = layout.partition_values(decoded.partition_key).ok()?;
            let told = values.iter().zip(layout.partition());
            let told: Vec<String> = told.map(|(value, ty)| ty.literal(value)).collect();
            Some(told.join(", "))
        });
        format!("({}, ...)", told.unwrap_or_default())
    }
}

fn cell(timestamp: i64, value: &[u8]) -> Cell<'_> {
    Cell {
        timestamp,
        lifetime: Lifetime::Permanent,
        value,
    }
}

/// Appends an operand of [`RowPlan::row`] as it is at another timestamp.
pub(super) fn at_timestamp(
    operand: &[u8],
    timestamp: i64,
    out: &mut Vec<u8>,
) -> Result<(), TaskError> {
    let waiting = RowRef::parse(operand).map_err(TaskError::failed)?;
    let mut row = RowBuilder::new(out, timestamp);
    row.marker(Marker {
        timestamp,
        expiry: None,
    });
    if let Some(original) = waiting.original() {
        row.original(Original {
            timestamp,
            bytes: original.bytes,
        });
    }
    for column in waiting.columns() {
        match column.map_err(TaskError::failed)? {
            (id, RowColumn::Cell(of)) => row.cell(id, cell(timestamp, of.value)),
            (_, RowColumn::Collection(_)) => unreachable!("a plan has none"),
        }
    }
    row.finish().map_err(TaskError::failed)
}

/// The table that rows as `rows` says would have: their columns with the types that they
/// say, else decimal for numbers and text for anything else. Their key is the primary key:
/// the first column of it the partition key, the others clustering columns.
pub(super) fn definition(
    keyspace: &str,
    name: &str,
    rows: &dyn RowSchema,
) -> Result<TableDefinition, JobError> {
    let columns = rows.columns();
    let keys = rows.key_columns();
    if keys == 0 {
        return Err(JobError::senseless(format!(
            "table {keyspace}.{name} is not there, and these rows have no key that says what its \
             primary key is to be: create it by CREATE TABLE"
        )));
    }
    let ty = |column: &records::Column| {
        let declared = column.ty.as_deref();
        let declared =
            declared.and_then(|ty| CqlType::NATIVE.into_iter().find(|of| of.to_string() == ty));
        declared
            .filter(|ty| *ty != CqlType::Counter)
            .unwrap_or(match column.kind {
                records::ColumnKind::Number => CqlType::Decimal,
                _ => CqlType::Text,
            })
    };
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    Ok(TableDefinition {
        keyspace: keyspace.to_string(),
        name: name.to_string(),
        id: Builder::from_random_bytes(rand::random()).into_uuid(),
        columns: columns
            .iter()
            .map(|column| (column.name.clone(), ty(column), false))
            .collect(),
        partition_key: vec![names[0].clone()],
        clustering: names[1..keys].to_vec(),
        order: Vec::new(),
        options: TableOptions::default(),
    })
}
