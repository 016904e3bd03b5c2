//! Values of Arrow arrays as those of CQL: of the types that ebb publishes, and of those that other
//! engines write for them.

use std::net::Ipv6Addr;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use ebb_model::types::elements::{build, build_map, build_tuple};
use ebb_model::types::literal::Duration;
use ebb_model::types::{CqlType, Hex};

use super::mapping::DURATION;
use super::{OnEmpty, ValueError, scalar};

const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// The program that wrote a file. Some values mean one thing in a file of ebb, and are invalid or
/// mean another thing in a file of another engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// The program ebb. Every value is read as the one that was published: CQL accepts any integer of 64 bits as a
    /// `time`, and 16 bytes as an IPv4-mapped address. A null in a collection was an empty value.
    Ebb,
    /// Another engine. A `time` has the nanoseconds of one day, 0 to 86,399,999,999,999. A text of an IPv4-mapped
    /// address becomes an IPv4 address, as in CQL. A collection has no nulls.
    Other,
}

/// Returns the value at `row` in CQL's native serialization of `ty`; `None` if it is null.
///
/// The elements of sets and the entries of maps come in the order of the array. A writer of rows has to bring
/// them into the order of the type. The fields of a user-defined type are found by their names, so two fields
/// of the same type cannot be confused. Fields that the array lacks are null. The components of a tuple are
/// found by their positions, and the parts of a duration by their names. A timestamp without a zone is taken
/// for one of UTC.
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
    read(array, row, ty, Writer::Other)
}

/// Returns a value of a file that ebb wrote, like [`read_value`], but also reads the values that only published rows
/// have: a `time` beyond a day, an IPv4-mapped address of 16 bytes, and a null in a collection, which becomes the empty
/// value that it was. They must be read because a publication of changes finds rows by their keys and copies rows into
/// new files, and because published rows can be loaded again.
///
/// # Errors
/// See [`read_value`].
///
/// # Panics
/// If the array has no such row.
pub(crate) fn read_published_value(
    array: &dyn Array,
    row: usize,
    ty: &CqlType,
) -> Result<Option<Vec<u8>>, ValueError> {
    read(array, row, ty, Writer::Ebb)
}

fn read(
    array: &dyn Array,
    row: usize,
    ty: &CqlType,
    writer: Writer,
) -> Result<Option<Vec<u8>>, ValueError> {
    // An array of nothing but nulls has no bits for them.
    if array.is_null(row) || array.data_type() == &DataType::Null {
        return Ok(None);
    }
    let unsupported = || ValueError::Unsupported {
        from: array.data_type().to_string(),
        to: ty.to_string(),
    };
    let out_of_range = |value: String| ValueError::OutOfRange {
        value: scalar::shown(value),
        ty: ty.to_string(),
    };
    // Floats are read only into types that hold all of their values. For other types each value is checked:
    // integers for their range, timestamps for what a millisecond cannot hold.
    let bytes = match (ty, array.data_type()) {
        (CqlType::Boolean, DataType::Boolean) => vec![array.as_boolean().value(row).into()],
        (CqlType::Time, DataType::Time32(_) | DataType::Time64(_)) => {
            let nanos = nanos_of_day(array, row).ok_or_else(unsupported)?;
            if !(0..NANOS_PER_DAY).contains(&nanos) {
                return Err(out_of_range(format!("{nanos} ns since midnight")));
            }
            nanos.to_be_bytes().to_vec()
        }
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
            if *ty == CqlType::Time
                && writer == Writer::Other
                && !(0..i128::from(NANOS_PER_DAY)).contains(&value)
            {
                return Err(out_of_range(format!("{value} ns since midnight")));
            }
            let bytes = match ty {
                CqlType::Tinyint => i8::try_from(value).map(|v| v.to_be_bytes().to_vec()),
                CqlType::Smallint => i16::try_from(value).map(|v| v.to_be_bytes().to_vec()),
                CqlType::Int => i32::try_from(value).map(|v| v.to_be_bytes().to_vec()),
                _ => i64::try_from(value).map(|v| v.to_be_bytes().to_vec()),
            };
            bytes.map_err(|_| out_of_range(value.to_string()))?
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
        // No file gives seconds: Parquet has no such unit, and the reader ignores an Arrow schema in a file.
        (CqlType::Timestamp, DataType::Timestamp(TimeUnit::Millisecond, _)) => {
            let ms = array.as_primitive::<TimestampMillisecondType>().value(row);
            ms.to_be_bytes().to_vec()
        }
        (CqlType::Timestamp, DataType::Timestamp(TimeUnit::Microsecond, _)) => {
            let us = array.as_primitive::<TimestampMicrosecondType>().value(row);
            let ms = scalar::ms_of_us(us);
            let ms = ms.ok_or_else(|| out_of_range(format!("the moment {us} us since 1970")))?;
            ms.to_be_bytes().to_vec()
        }
        (CqlType::Timestamp, DataType::Timestamp(TimeUnit::Nanosecond, _)) => {
            let ns = array.as_primitive::<TimestampNanosecondType>().value(row);
            let ms = scalar::ms_of_ns(ns);
            let ms = ms.ok_or_else(|| out_of_range(format!("the moment {ns} ns since 1970")))?;
            ms.to_be_bytes().to_vec()
        }
        (CqlType::Decimal, DataType::Decimal128(_, scale)) => {
            let unscaled = array.as_primitive::<Decimal128Type>().value(row);
            scalar::decimal(unscaled, i32::from(*scale))
        }
        (CqlType::Varint, DataType::Decimal128(_, 0)) => {
            scalar::varint(array.as_primitive::<Decimal128Type>().value(row))
        }
        (CqlType::Varint, integers) if integers.is_integer() => {
            scalar::varint(integer(array, row).ok_or_else(unsupported)?)
        }
        // Iceberg's `uuid` in files of other engines. ebb publishes uuids as text.
        (CqlType::Uuid | CqlType::Timeuuid, DataType::FixedSizeBinary(16)) => {
            let bytes = array.as_fixed_size_binary().value(row).to_vec();
            let valid = ty.validate(&bytes);
            valid.map_err(|_| out_of_range(format!("0x{}", Hex(&bytes))))?;
            bytes
        }
        (CqlType::Blob, DataType::FixedSizeBinary(_)) => {
            array.as_fixed_size_binary().value(row).to_vec()
        }
        (CqlType::Blob, DataType::Binary) => array.as_binary::<i32>().value(row).to_vec(),
        (CqlType::Blob, DataType::BinaryView) => array.as_binary_view().value(row).to_vec(),
        (
            CqlType::Ascii
            | CqlType::Text
            | CqlType::Decimal
            | CqlType::Varint
            | CqlType::Uuid
            | CqlType::Timeuuid
            | CqlType::Inet,
            DataType::Utf8 | DataType::Utf8View,
        ) => {
            let text = match array.as_string_view_opt() {
                Some(views) => views.value(row),
                None => array.as_string::<i32>().value(row),
            };
            // The library for Parquet does not check the texts of a column of JSON.
            let text = std::str::from_utf8(text.as_bytes())
                .map_err(|_| out_of_range(format!("0x{}", Hex(text.as_bytes()))))?;
            let value = match ty {
                // ebb writes no empty value as an empty text, and to another engine the text is no value of the type.
                _ if text.is_empty() && OnEmpty::applies_to(ty) => None,
                // `parse_value` would make an IPv4-mapped address one of IPv4, as Java does.
                CqlType::Inet if writer == Writer::Ebb && text.contains(':') => {
                    let address = text.parse::<Ipv6Addr>().ok();
                    address.map(|address| address.octets().to_vec())
                }
                _ => ty.parse_value(text).ok(),
            };
            value.ok_or_else(|| out_of_range(format!("{text:?}")))?
        }
        (CqlType::Duration, DataType::Struct(_)) => {
            let parts = array.as_struct();
            // A further part would be lost.
            if parts.num_columns() != DURATION.len() {
                return Err(unsupported());
            }
            let part = |name: &str| -> Result<i128, ValueError> {
                let part = parts.column_by_name(name).ok_or_else(unsupported)?;
                if part.is_null(row) {
                    return Err(out_of_range(format!("a duration without {name}")));
                }
                integer(part, row).ok_or_else(unsupported)
            };
            let [months, days, nanos] = DURATION.map(|(name, _)| part(name));
            let (months, days, nanos) = (months?, days?, nanos?);
            duration(months, days, nanos).ok_or_else(|| {
                out_of_range(format!("{months} months, {days} days and {nanos} ns"))
            })?
        }
        (CqlType::List { element, .. } | CqlType::Set { element, .. }, DataType::List(_)) => {
            let elements = array.as_list::<i32>().value(row);
            let of_null = value_of_null(element, writer);
            let elements = collection_parts(&elements, element, writer, of_null)?;
            build(elements)
        }
        (CqlType::Map { key, value, .. }, DataType::Map(..)) => {
            let entries = array.as_map().value(row);
            // ebb publishes no key as null.
            let keys = collection_parts(entries.column(0), key, writer, None)?;
            let of_null = value_of_null(value, writer);
            let values = collection_parts(entries.column(1), value, writer, of_null)?;
            build_map(keys.into_iter().zip(values))
        }
        (CqlType::Tuple(types), DataType::Struct(_)) => {
            let parts = array.as_struct().columns();
            if parts.len() != types.len() {
                return Err(unsupported());
            }
            components(types.iter().zip(parts.iter().map(Some)), row, writer)?
        }
        (CqlType::Udt { definition, .. }, DataType::Struct(_)) => {
            let (fields, parts) = (definition.fields(), array.as_struct());
            let is_known = |name: &&str| fields.iter().any(|(of, _)| of[..] == **name);
            // A field that the type does not have would be lost.
            if !parts.column_names().iter().all(is_known) {
                return Err(unsupported());
            }
            let parts = fields
                .iter()
                .map(|(name, ty)| (ty, parts.column_by_name(name)));
            components(parts, row, writer)?
        }
        _ => return Err(unsupported()),
    };
    Ok(Some(bytes))
}

/// Returns the integer at `row` of an array of integers of any width, signed or not; `None` if the array has
/// values of another type.
fn integer(array: &dyn Array, row: usize) -> Option<i128> {
    Some(match array.data_type() {
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        _ => return None,
    })
}

/// Returns the time of the day at `row` in nanoseconds; `None` if the array has values of another type. A
/// time that does not fit into an `i64` saturates, so it stays outside of a day.
fn nanos_of_day(array: &dyn Array, row: usize) -> Option<i64> {
    let (value, nanos) = match array.data_type() {
        DataType::Time32(TimeUnit::Millisecond) => {
            let ms = array.as_primitive::<Time32MillisecondType>().value(row);
            (i64::from(ms), 1_000_000)
        }
        DataType::Time64(TimeUnit::Microsecond) => (
            array.as_primitive::<Time64MicrosecondType>().value(row),
            1_000,
        ),
        DataType::Time64(TimeUnit::Nanosecond) => {
            (array.as_primitive::<Time64NanosecondType>().value(row), 1)
        }
        _ => return None,
    };
    // What saturates is beyond a day.
    Some(value.saturating_mul(nanos))
}

/// Returns the value that a null stands for in a collection whose elements, keys or values have the type
/// `ty`: the empty value that [`OnEmpty::Null`] made null. `None` if no empty value of `ty` becomes null, or if
/// another engine wrote the file.
fn value_of_null(ty: &CqlType, writer: Writer) -> Option<Vec<u8>> {
    let was_empty = writer == Writer::Ebb && OnEmpty::applies_to(ty) && ty.validate(&[]).is_ok();
    was_empty.then(Vec::new)
}

/// Returns all elements, keys or values of a collection, with `of_null` in the place of nulls.
///
/// # Errors
/// If a value cannot be converted to `ty`, or if one is null and `of_null` is `None`: CQL has no nulls in
/// collections.
fn collection_parts(
    array: &ArrayRef,
    ty: &CqlType,
    writer: Writer,
    of_null: Option<Vec<u8>>,
) -> Result<Vec<Vec<u8>>, ValueError> {
    let values = (0..array.len()).map(|at| {
        let value = read(array, at, ty, writer)?.or_else(|| of_null.clone());
        value.ok_or_else(|| ValueError::OutOfRange {
            value: "a null in a collection".to_owned(),
            ty: ty.to_string(),
        })
    });
    values.collect()
}

/// Returns the bytes of a tuple or a user-defined type. `parts` has the type and the array of each component
/// or field. A field without an array, because the file lacks it, is null.
fn components<'p>(
    parts: impl Iterator<Item = (&'p CqlType, Option<&'p ArrayRef>)>,
    row: usize,
    writer: Writer,
) -> Result<Vec<u8>, ValueError> {
    let value = |(ty, part): (&CqlType, Option<&ArrayRef>)| match part {
        Some(part) => read(part, row, ty, writer),
        None => Ok(None),
    };
    let values: Vec<Option<Vec<u8>>> = parts.map(value).collect::<Result<_, _>>()?;
    Ok(build_tuple(values.iter().map(Option::as_deref)))
}

/// Returns the bytes of a duration; `None` if a part is too large, or if parts have different signs.
fn duration(months: i128, days: i128, nanos: i128) -> Option<Vec<u8>> {
    let duration = Duration {
        months: months.try_into().ok()?,
        days: days.try_into().ok()?,
        nanos: nanos.try_into().ok()?,
    };
    let bytes = duration.to_bytes();
    CqlType::Duration.validate(&bytes).ok()?;
    Some(bytes)
}
