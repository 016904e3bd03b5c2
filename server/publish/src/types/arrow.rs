//! The Arrow type of an Iceberg type. Parquet's follows from it by the rules of the crate `parquet`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use super::DecimalForm;
use super::iceberg::{IcebergType, NestedField};

/// Returns the Arrow field of a field of Iceberg. Its metadata has the field id, which Parquet's library
/// writes into the file.
pub fn arrow_field(field: &NestedField) -> FieldRef {
    let id = (PARQUET_FIELD_ID_META_KEY.to_owned(), field.id.to_string());
    let made = Field::new(&field.name, data_type(&field.ty), !field.required);
    Arc::new(made.with_metadata(HashMap::from([id])))
}

/// Returns the Arrow field of a map's entries, the group that Parquet calls `key_value`.
pub(super) fn entries(key: &NestedField, value: &NestedField) -> FieldRef {
    let parts = Fields::from(vec![arrow_field(key), arrow_field(value)]);
    Arc::new(Field::new("key_value", DataType::Struct(parts), false))
}

pub(super) fn data_type(ty: &IcebergType) -> DataType {
    match ty {
        IcebergType::Boolean => DataType::Boolean,
        IcebergType::Int => DataType::Int32,
        IcebergType::Long => DataType::Int64,
        IcebergType::Float => DataType::Float32,
        IcebergType::Double => DataType::Float64,
        IcebergType::Date => DataType::Date32,
        IcebergType::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        IcebergType::String => DataType::Utf8,
        IcebergType::Binary => DataType::Binary,
        IcebergType::Decimal(form) => decimal_type(*form),
        IcebergType::List(element) => DataType::List(arrow_field(element)),
        IcebergType::Map { key, value } => DataType::Map(entries(key, value), false),
        IcebergType::Struct(fields) => DataType::Struct(fields.iter().map(arrow_field).collect()),
    }
}

fn decimal_type(form: DecimalForm) -> DataType {
    let scale = i8::try_from(form.scale).expect("a scale is at most 38");
    DataType::Decimal128(form.precision, scale)
}
