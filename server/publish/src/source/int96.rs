//! Timestamps of 96 bits, which Spark writes by default: a day and nanoseconds of it.
//!
//! The library converts them to 64 bits of one unit, where nanoseconds wrap around beyond the years 1677
//! to 2262, and larger units are cut. So such columns are read twice, as seconds, which are cut but
//! cannot wrap around, and as nanoseconds. Both together are exact.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, TimestampSecondType};
use arrow_array::{Array, ArrayRef, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::basic::Type as PhysicalType;
use parquet::schema::types::Type;

const NS_PER_S: i64 = 1_000_000_000;
const NS_PER_MS: i64 = 1_000_000;
const MS_PER_S: i64 = 1000;

/// Returns those of the columns `roots` of a file that have timestamps of 96 bits. Columns are given by their
/// positions in the file.
///
/// # Errors
/// If a column has such timestamps inside of a collection or a struct. The error is a sentence about the
/// column.
pub(super) fn find(metadata: &ArrowReaderMetadata, roots: &[usize]) -> Result<Vec<usize>, String> {
    let columns = metadata.parquet_schema().root_schema().get_fields();
    let nested = roots.iter().find(|&&root| {
        let column = &columns[root];
        column.is_group() && has_int96(column)
    });
    if let Some(&root) = nested {
        return Err(format!(
            "column {} has timestamps of 96 bits inside, which ebb does not read; write them as \
             microseconds (in Spark: spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS)",
            columns[root].name()
        ));
    }
    let found = roots.iter().filter(|&&root| has_int96(&columns[root]));
    Ok(found.copied().collect())
}

fn has_int96(ty: &Type) -> bool {
    if ty.is_group() {
        return ty.get_fields().iter().any(|field| has_int96(field));
    }
    ty.get_physical_type() == PhysicalType::INT96
}

/// Returns the schema of a file with the INT96 columns `columns` as timestamps in seconds, which fit into 64
/// bits.
pub(super) fn as_seconds(metadata: &ArrowReaderMetadata, columns: &[usize]) -> SchemaRef {
    let fields = metadata.schema().fields().iter().enumerate();
    let fields = fields.map(|(at, field)| {
        if !columns.contains(&at) {
            return Arc::clone(field);
        }
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        Arc::new(Field::clone(field).with_data_type(seconds))
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Returns exact timestamps in milliseconds. Each is computed from two readings of the same value: in
/// nanoseconds, which may have wrapped around, and in whole seconds.
///
/// # Errors
/// If a timestamp is not a whole number of milliseconds. The error is its position in the array, and a
/// sentence.
pub(super) fn milliseconds(
    nanoseconds: &ArrayRef,
    seconds: &ArrayRef,
) -> Result<ArrayRef, (usize, String)> {
    let nanoseconds = nanoseconds.as_primitive::<TimestampNanosecondType>();
    let seconds = seconds.as_primitive::<TimestampSecondType>();
    let mut milliseconds = Vec::with_capacity(seconds.len());
    for at in 0..seconds.len() {
        if seconds.is_null(at) {
            milliseconds.push(None);
            continue;
        }
        let (ns, s) = (nanoseconds.value(at), seconds.value(at));
        let ms = exact_ms(ns, s).ok_or_else(|| {
            let part_ns = ns.wrapping_sub(s.wrapping_mul(NS_PER_S));
            let shown = format!("the moment {s} s and {part_ns} ns since 1970");
            (at, format!("{shown} is no value of the type timestamp"))
        })?;
        milliseconds.push(Some(ms));
    }
    Ok(Arc::new(TimestampMillisecondArray::from(milliseconds)))
}

/// Returns a moment in milliseconds from its nanoseconds, which may have wrapped around at 64 bits, and its
/// seconds, which were rounded down; `None` if it is no whole number of milliseconds, or does not fit into 64
/// bits.
fn exact_ms(ns: i64, s: i64) -> Option<i64> {
    let part_ns = ns.wrapping_sub(s.wrapping_mul(NS_PER_S));
    if part_ns % NS_PER_MS != 0 {
        return None;
    }
    s.checked_mul(MS_PER_S)?.checked_add(part_ns / NS_PER_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::TimestampMillisecondType;
    use parquet::data_type::Int96;

    /// Returns the 96-bit timestamp of a day, counted from 1970, and of the nanoseconds since the start
    /// of that day.
    fn int96(day: i32, nanos: i64) -> Int96 {
        let mut value = Int96::new();
        let julian_day = day + 2_440_588;
        value.set_data(nanos as u32, (nanos >> 32) as u32, julian_day as u32);
        value
    }

    #[test]
    fn moments_of_all_years_are_exact_and_parts_of_a_millisecond_are_refused() {
        let day_ms = 86_400_000_i64;
        // 1970, 2026, the year 1, the year 9999, and the last day of 32 bits.
        for day in [0, 20_700, -719_162, 2_932_896, i32::MAX - 2_440_588] {
            for ms in [0, 1, 999, 1_000, 43_200_123, day_ms - 1] {
                let value = int96(day, ms * NS_PER_MS);
                let exact = exact_ms(value.to_nanos(), value.to_seconds());
                assert_eq!(exact, Some(i64::from(day) * day_ms + ms), "{day} {ms}");
                let value = int96(day, ms * NS_PER_MS + 1);
                assert_eq!(exact_ms(value.to_nanos(), value.to_seconds()), None);
            }
        }
    }

    #[test]
    fn arrays_keep_their_nulls_and_name_the_place_of_a_refused_moment() {
        let arrays = |values: &[Option<(i64, i64)>]| -> (ArrayRef, ArrayRef) {
            let part = |pick: fn((i64, i64)) -> i64| values.iter().map(move |v| v.map(pick));
            let nanoseconds: arrow_array::TimestampNanosecondArray = part(|v| v.0).collect();
            let seconds: arrow_array::TimestampSecondArray = part(|v| v.1).collect();
            (Arc::new(nanoseconds), Arc::new(seconds))
        };
        let (nanoseconds, seconds) = arrays(&[Some((2_500_000_000, 2)), None]);
        let read = milliseconds(&nanoseconds, &seconds).unwrap();
        let expected = TimestampMillisecondArray::from(vec![Some(2_500), None]);
        assert_eq!(read.as_primitive::<TimestampMillisecondType>(), &expected);
        let (nanoseconds, seconds) = arrays(&[None, Some((1_000_001_000, 1))]);
        let (at, problem) = milliseconds(&nanoseconds, &seconds).unwrap_err();
        assert!(at == 1 && problem.contains("1 s and 1000 ns"), "{problem}");
    }
}
