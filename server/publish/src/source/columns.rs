//! The columns of a file that are those of a table: by name, or by Iceberg's ids.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, MapArray, NullArray, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};
use ebb_model::types::CqlType;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use crate::iceberg::foreign::{SchemaField, Shape};

/// The way in which the columns of a table are found in a file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Matching<'a> {
    /// By name: the file must have exactly these columns.
    Names(&'a [String]),
    /// By field id: a column of the file belongs to the column of the Iceberg table with the same
    /// id.
    Ids {
        /// The columns of the table.
        fields: &'a [SchemaField],
        /// The ids of the columns by which the table is partitioned with the identity transform. A data file
        /// may lack these columns, because the table's metadata has their values. ebb refuses such a file if
        /// one of them is read.
        identity_columns: &'a [i32],
    },
}

/// A column that is read.
#[derive(Debug)]
pub(super) struct ReadColumn {
    pub(super) name: String,
    pub(super) ty: CqlType,
    /// The index of the column among the columns of the file; `None` if the file lacks the column, and all of
    /// its values are null.
    pub(super) root: Option<usize>,
    /// The fields nested in the column, with their ids; [`Shape::Leaf`] if columns are matched by name.
    shape: Shape,
}

/// Returns the names of the columns of a file.
pub(super) fn names(metadata: &ArrowReaderMetadata) -> Vec<String> {
    let fields = metadata.schema().fields().iter();
    fields.map(|field| field.name().clone()).collect()
}

/// Finds columns in a file. Returns them in the order of `columns`, the names and CQL types of the
/// wanted columns.
///
/// # Errors
/// With [`Matching::Names`], if the names of the file's columns are not the names in `matching`, or
/// if a wanted column is not among them. With [`Matching::Ids`], if a column of the file has no
/// field id, if the table has no wanted column of that name, or if the file lacks a wanted column
/// that is not null. The error is a sentence about the column.
pub(super) fn find(
    columns: &[(String, CqlType)],
    metadata: &ArrowReaderMetadata,
    matching: Matching<'_>,
) -> Result<Vec<ReadColumn>, String> {
    let fields = metadata.schema().fields();
    if let Matching::Names(all) = matching {
        check_names(all, fields)?;
    } else if let Some(field) = fields.iter().find(|field| id(field).is_none()) {
        return Err(format!(
            "its column {} has no field id, as in a file that an engine added to the table without \
             writing it; ebb does not read such files: rewrite the data files of the table",
            field.name()
        ));
    }
    let column = |(name, ty): &(String, CqlType)| -> Result<ReadColumn, String> {
        let (root, shape) = match matching {
            Matching::Names(_) => {
                let root = fields.iter().position(|field| field.name() == name);
                (Some(root.ok_or_else(|| missing(name))?), Shape::Leaf)
            }
            Matching::Ids {
                fields: of_table,
                identity_columns,
            } => {
                let field = of_table.iter().find(|field| field.name == *name);
                let field = field.ok_or_else(|| missing(name))?;
                let root = fields.iter().position(|own| id(own) == Some(field.id));
                if root.is_none() {
                    check_absent(field, identity_columns)?;
                }
                (root, field.shape.clone())
            }
        };
        Ok(ReadColumn {
            name: name.clone(),
            ty: ty.clone(),
            root,
            shape,
        })
    };
    columns.iter().map(column).collect()
}

fn missing(name: &str) -> String {
    format!("it has no column {name}")
}

/// Checks that a file has columns of these names, each once, and no others.
fn check_names(all: &[String], fields: &Fields) -> Result<(), String> {
    for (at, field) in fields.iter().enumerate() {
        let name = field.name();
        if !all.contains(name) {
            return Err(format!(
                "it has a column {name}, which the first file has not; load it by itself"
            ));
        }
        if fields.iter().skip(at + 1).any(|other| other.name() == name) {
            return Err(format!("two of its columns are called {name}"));
        }
    }
    let absent = all
        .iter()
        .find(|name| fields.iter().all(|f| f.name() != *name));
    match absent {
        Some(name) => Err(format!(
            "it has no column {name}, which the first file has; load it by itself"
        )),
        None => Ok(()),
    }
}

/// Checks that a column that a file does not contain is null in all rows of the file.
///
/// # Errors
/// If the table has a default for the column, requires it, or is partitioned by its values:
/// `identity_columns` are the ids of such columns. The error is a sentence.
fn check_absent(field: &SchemaField, identity_columns: &[i32]) -> Result<(), String> {
    let what = format!("column {}", field.name);
    if identity_columns.contains(&field.id) {
        return Err(format!(
            "it lacks {what}, whose value is that of its partition; ebb does not read such \
             files: rewrite the data files of the table"
        ));
    }
    why_not_null(field, &what).map_or(Ok(()), Err)
}

/// Returns an error text if a field that a file lacks is not null in the file's rows, because the
/// table gives it a default or requires it; `None` if it is null.
fn why_not_null(field: &SchemaField, what: &str) -> Option<String> {
    let why = if field.has_default {
        "has a default for old files"
    } else if field.is_required {
        "is required"
    } else {
        return None;
    };
    Some(format!(
        "it lacks {what}, which {why}; ebb does not read such files: rewrite the data files of the table"
    ))
}

/// Returns the field id that a data file gives a field; `None` if it gives none.
fn id(field: &FieldRef) -> Option<i32> {
    let id = field.metadata().get(PARQUET_FIELD_ID_META_KEY)?;
    id.parse().ok()
}

impl ReadColumn {
    /// Converts values of the column to its type in the table. In structs, the fields get the order and the
    /// names that they have in the table; a field that the file lacks becomes null.
    ///
    /// # Errors
    /// If a field of the file has no id, if the file lacks a field that has a default or is required, or if
    /// the parts do not fit together.
    pub(super) fn conform(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        conform(array, &self.shape)
    }
}

fn conform(array: &ArrayRef, shape: &Shape) -> Result<ArrayRef, ArrowError> {
    match (shape, array.data_type()) {
        // A struct without fields stays as it is: Arrow cannot infer the length of a new one.
        (Shape::Struct(fields), DataType::Struct(own)) if !fields.is_empty() => {
            let parts = array.as_struct();
            if let Some(field) = own.iter().find(|field| id(field).is_none()) {
                let problem = format!("its field {} has no field id", field.name());
                return Err(ArrowError::SchemaError(problem));
            }
            let conformed = fields.iter().map(|field| -> Result<_, ArrowError> {
                let at = own.iter().position(|own| id(own) == Some(field.id));
                let part: ArrayRef = match at {
                    Some(at) => conform(parts.column(at), &field.shape)?,
                    None => {
                        let problem = why_not_null(field, &format!("field {}", field.name));
                        if let Some(problem) = problem {
                            return Err(ArrowError::SchemaError(problem));
                        }
                        // Null in each row; `read_value` accepts this array for any type.
                        Arc::new(NullArray::new(array.len()))
                    }
                };
                let is_nullable = at.is_none_or(|at| own[at].is_nullable());
                let named = Field::new(&field.name, part.data_type().clone(), is_nullable);
                Ok((Arc::new(named), part))
            });
            let conformed: Vec<(FieldRef, ArrayRef)> = conformed.collect::<Result<_, _>>()?;
            let (fields, parts): (Vec<FieldRef>, Vec<ArrayRef>) = conformed.into_iter().unzip();
            let nulls = array.nulls().cloned();
            Ok(Arc::new(StructArray::try_new(fields.into(), parts, nulls)?))
        }
        (Shape::List(element), DataType::List(own)) => {
            let list = array.as_list::<i32>();
            let elements = conform(list.values(), element)?;
            let field = with_type(own, elements.data_type());
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(
                field, offsets, elements, nulls,
            )?))
        }
        (Shape::Map(key, value), DataType::Map(own, is_sorted)) => {
            let map = array.as_map();
            let parts = vec![conform(map.keys(), key)?, conform(map.values(), value)?];
            let fields = map.entries().fields().iter().zip(&parts);
            let fields = fields.map(|(field, part)| with_type(field, part.data_type()));
            let nulls = map.entries().nulls().cloned();
            let entries = StructArray::try_new(fields.collect(), parts, nulls)?;
            let own = with_type(own, entries.data_type());
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            Ok(Arc::new(MapArray::try_new(
                own, offsets, entries, nulls, *is_sorted,
            )?))
        }
        // Types without parts. A type that does not fit the shape fails later, when a value is read.
        _ => Ok(Arc::clone(array)),
    }
}

fn with_type(field: &FieldRef, ty: &DataType) -> FieldRef {
    Arc::new(Field::clone(field).with_data_type(ty.clone()))
}
