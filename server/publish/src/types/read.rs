//! Values of Arrow arrays as those of CQL: of the types that ebb publishes, and of those that other
//! engines write for them.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use ebb_model::types::CqlType;
use ebb_model::types::elements::{build, build_map, build_tuple};
use ebb_model::types::literal::Duration;

use super::{ValueError, scalar};

/// Returns the value at `row` in CQL's native serialization of `ty`; `None` if it is null.
///
/// Elements of sets and entries of maps come in the order of the array. A writer of rows has to
/// bring them into the order of the type.
///
/// # Errors
/// If the type of the array has no exact counterpart in `ty`, or if a value has none.
///
/// # Panics
/// If the array has no such row.
pub fn read_value(
    array: &dyn Array,
    row: usize,
    ty: &CqlType,
) -> Result<Option<Vec<u8>>, ValueError> {
    if array.is_null(row) {
        return Ok(None);
    }
    let unsupported = || ValueError::Unsupported {
        from: array.data_type().to_string(),
        to: ty.to_string(),
    };
    let out_of_range = |value: String| ValueError::OutOfRange {
        value,
        ty: ty.to_string(),
    };
    let bytes = match (ty, array.data_type()) {
        (CqlType::Boolean, DataType::Boolean) => vec![array.as_boolean().value(row).into()],
        (
            CqlType::Tinyint
            | CqlType::Smallint
            | CqlType::Int
            | CqlType::Bigint
            | CqlType::Counter
            | CqlType::Time,
            _,
        ) => {
            let value = integer(array, row).ok_or_else(unsupported)?;
            let bytes = match ty {
                CqlType::Tinyint => i8::try_from(value).map(|v| v.to_be_bytes().to_vec()),
                CqlType::Smallint => i16::try_from(value).map(|v| v.to_be_bytes().to_vec()),
                CqlType::Int => i32::try_from(value).map(|v| v.to_be_bytes().to_vec()),
                _ => Ok(value.to_be_bytes().to_vec()),
            };
            let bytes = bytes.map_err(|_| out_of_range(value.to_string()))?;
            ty.validate(&bytes)
                .map_err(|_| out_of_range(value.to_string()))?;
            bytes
        }
        (CqlType::Float, DataType::Float32) => {
            let value = array.as_primitive::<Float32Type>().value(row);
            value.to_be_bytes().to_vec()
        }
        (CqlType::Double, DataType::Float64) => {
            let value = array.as_primitive::<Float64Type>().value(row);
            value.to_be_bytes().to_vec()
        }
        (CqlType::Double, DataType::Float32) => {
            let value = array.as_primitive::<Float32Type>().value(row);
            f64::from(value).to_be_bytes().to_vec()
        }
        (CqlType::Date, DataType::Date32) => {
            let days = array.as_primitive::<Date32Type>().value(row);
            scalar::date_of_days(days).to_be_bytes().to_vec()
        }
        (CqlType::Timestamp, DataType::Timestamp(TimeUnit::Microsecond, _)) => {
            let us = array.as_primitive::<TimestampMicrosecondType>().value(row);
            let ms = scalar::ms_of_us(us);
            let ms = ms.ok_or_else(|| out_of_range(format!("the moment {us} us since 1970")))?;
            ms.to_be_bytes().to_vec()
        }
        (CqlType::Decimal, DataType::Decimal128(_, scale)) => {
            let unscaled = array.as_primitive::<Decimal128Type>().value(row);
            scalar::decimal(unscaled, i32::from(*scale))
        }
        (CqlType::Varint, DataType::Decimal128(_, 0)) => {
            scalar::varint(array.as_primitive::<Decimal128Type>().value(row))
        }
        (CqlType::Varint, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64) => {
            scalar::varint(integer(array, row).ok_or_else(unsupported)?.into())
        }
        (CqlType::Blob, DataType::Binary) => array.as_binary::<i32>().value(row).to_vec(),
        (CqlType::Blob, DataType::LargeBinary) => array.as_binary::<i64>().value(row).to_vec(),
        (
            CqlType::Ascii
            | CqlType::Text
            | CqlType::Decimal
            | CqlType::Varint
            | CqlType::Uuid
            | CqlType::Timeuuid
            | CqlType::Inet,
            DataType::Utf8 | DataType::LargeUtf8,
        ) => {
            let text = match array.data_type() {
                DataType::Utf8 => array.as_string::<i32>().value(row),
                _ => array.as_string::<i64>().value(row),
            };
            let value = ty.parse_value(text);
            value.map_err(|_| out_of_range(format!("{text:?}")))?
        }
        (CqlType::Duration, DataType::Struct(_)) => duration(array, row).ok_or_else(unsupported)?,
        (CqlType::List { element, .. } | CqlType::Set { element, .. }, DataType::List(_)) => {
            let elements = array.as_list::<i32>().value(row);
            let elements = not_null(&elements, element)?;
            build(elements.iter().map(Vec::as_slice))
        }
        (CqlType::Map { key, value, .. }, DataType::Map(..)) => {
            let entries = array.as_map().value(row);
            let keys = not_null(entries.column(0), key)?;
            let values = not_null(entries.column(1), value)?;
            let entries = keys.iter().zip(&values);
            build_map(entries.map(|(key, value)| (key.as_slice(), value.as_slice())))
        }
        (CqlType::Tuple(types), DataType::Struct(_)) => {
            components(array, row, types.iter()).ok_or_else(unsupported)??
        }
        (CqlType::Udt { definition, .. }, DataType::Struct(_)) => {
            let types = definition.fields().iter().map(|(_, ty)| ty);
            components(array, row, types).ok_or_else(unsupported)??
        }
        _ => return Err(unsupported()),
    };
    Ok(Some(bytes))
}

/// Returns an integer of any width; `None` if the array has none.
fn integer(array: &dyn Array, row: usize) -> Option<i64> {
    Some(match array.data_type() {
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row),
        _ => return None,
    })
}

/// Returns all elements. CQL has no null among them.
fn not_null(elements: &ArrayRef, ty: &CqlType) -> Result<Vec<Vec<u8>>, ValueError> {
    let values = (0..elements.len()).map(|at| {
        let value = read_value(elements, at, ty)?;
        value.ok_or_else(|| ValueError::OutOfRange {
            value: "a null in a collection".to_owned(),
            ty: ty.to_string(),
        })
    });
    values.collect()
}

/// Returns the bytes of a tuple or a user-defined type by the places of its parts; `None` if the
/// array has another number of them.
fn components<'t>(
    array: &dyn Array,
    row: usize,
    types: impl ExactSizeIterator<Item = &'t CqlType>,
) -> Option<Result<Vec<u8>, ValueError>> {
    let parts = array.as_struct();
    if parts.num_columns() != types.len() {
        return None;
    }
    let values = parts.columns().iter().zip(types);
    let values = values.map(|(column, ty)| read_value(column, row, ty));
    let values: Result<Vec<Option<Vec<u8>>>, _> = values.collect();
    Some(values.map(|values| build_tuple(values.iter().map(Option::as_deref))))
}

/// Returns the bytes of a duration; `None` if the array does not consist of months, days and
/// nanoseconds.
fn duration(array: &dyn Array, row: usize) -> Option<Vec<u8>> {
    let [months, days, nanos] = array.as_struct().columns() else {
        return None;
    };
    let duration = Duration {
        months: integer(months, row)?.try_into().ok()?,
        days: integer(days, row)?.try_into().ok()?,
        nanos: integer(nanos, row)?,
    };
    Some(duration.to_bytes())
}
