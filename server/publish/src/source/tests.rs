//! Files and tables as other engines write them.

mod buckets;
mod fixture;
mod parquet_files;
mod tables;

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::*;

/// Returns a Parquet field as Iceberg's writers make it: with the field id `id`, if there is one.
fn field(name: &str, array: &ArrayRef, id: Option<i32>) -> Field {
    let field = Field::new(name, array.data_type().clone(), true);
    let id = id.map(|id| (PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string()));
    field.with_metadata(HashMap::from_iter(id))
}

/// Writes a Parquet file of these columns: name, field id, values.
pub(super) fn write(path: &Path, columns: &[(&str, Option<i32>, ArrayRef)]) {
    write_compressed(path, columns, Compression::SNAPPY);
}

fn write_compressed(
    path: &Path,
    columns: &[(&str, Option<i32>, ArrayRef)],
    compression: Compression,
) {
    let fields = columns.iter().map(|(name, id, of)| field(name, of, *id));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.iter().map(|(.., array)| Arc::clone(array));
    let batch = RecordBatch::try_new(schema.clone(), arrays.collect()).unwrap();
    let properties = WriterProperties::builder().set_compression(compression);
    let options = ArrowWriterOptions::new()
        .with_properties(properties.build())
        .with_skip_arrow_metadata(true);
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new_with_options(file, schema, options).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn ints(values: impl IntoIterator<Item = i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

pub(super) fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

/// Reads the rows of a source as literals of CQL.
fn rows(source: &Source, columns: &[(&str, CqlType)]) -> Result<Vec<String>> {
    let columns: Vec<_> = columns
        .iter()
        .map(|(name, ty)| (String::from(*name), ty.clone()))
        .collect();
    let mut all = Vec::new();
    for file in source.files() {
        let mut rows = source.rows(file, &columns)?;
        while rows.next_row()? {
            let values = rows.values().iter().zip(&columns);
            let literals = values.map(|(value, (_, ty))| match value {
                Some(value) => ty.literal(value),
                None => "null".to_owned(),
            });
            all.push(literals.collect::<Vec<_>>().join(" "));
        }
        assert_eq!(rows.bytes_read(), file.bytes());
    }
    Ok(all)
}

fn refused<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("it is not refused"),
        Err(error) => error.to_string(),
    }
}
