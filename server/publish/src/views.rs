//! Texts and blobs as views into the pages of a file.
//!
//! A dictionary has a value once, however many rows share it, and so has an array of views. The usual arrays copy the
//! value for each row: a file of 300 bytes took gigabytes, and could not be read beyond two of them, because the
//! offsets of such an array have 32 bits.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::Result;

/// Returns the metadata of a file with the Arrow type of each text or blob, also within other
/// types, replaced by a view (`Utf8View`, `BinaryView`). A reader with this metadata returns arrays
/// of views.
///
/// # Errors
/// If the Parquet library does not accept the types of the columns. This is not expected, because
/// the library derived the types from the file itself, apart from the views.
pub(crate) fn of_metadata(metadata: &ArrowReaderMetadata) -> Result<ArrowReaderMetadata> {
    let schema = Schema::new(of_fields(metadata.schema().fields()));
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)
}

fn of_fields(fields: &Fields) -> Fields {
    fields.iter().map(of_field).collect()
}

fn of_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::clone(field).with_data_type(of_type(field.data_type())))
}

fn of_type(ty: &DataType) -> DataType {
    match ty {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Binary => DataType::BinaryView,
        DataType::List(element) => DataType::List(of_field(element)),
        DataType::Map(entries, is_sorted) => DataType::Map(of_field(entries), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(of_fields(fields)),
        other => other.clone(),
    }
}
