//! Rows without values in the arrays of a column. A column that is being built has only its values, because a null
//! between them would take as much memory as a number.
//!
//! ```text
//!   values  [7, 9]  +  rows with a value  [no, yes, no, yes]  ─►  [null, 7, null, 9]
//! ```
//!
//! Only numbers are copied. Texts, blobs, and the elements of collections stay where they are; the places where each
//! of them ends are computed anew.

use std::iter;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, ByteArrayType, Date32Type, Decimal128Type, Float32Type, Float64Type,
    Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, GenericByteArray, ListArray, MapArray, PrimitiveArray,
    StructArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType;

/// Returns an array with a row for each bit of `present`: the next of `values` where the bit is set, otherwise null.
/// `values` may have nulls of its own.
///
/// # Panics
/// If `values` has fewer values than `present` has bits that are set, or if it has a type that no
/// [`ColumnBuilder`](super::ColumnBuilder) makes.
pub(super) fn spread(values: &ArrayRef, present: &NullBuffer) -> ArrayRef {
    let nulls = match values.nulls() {
        Some(own) => NullBuffer::new(bits(present, |at| own.is_valid(at))),
        None => present.clone(),
    };
    match values.data_type() {
        DataType::Boolean => {
            let values = values.as_boolean().values();
            let values = bits(present, |at| values.value(at));
            Arc::new(BooleanArray::new(values, Some(nulls)))
        }
        DataType::Int32 => numbers(values.as_primitive::<Int32Type>(), present, nulls),
        DataType::Int64 => numbers(values.as_primitive::<Int64Type>(), present, nulls),
        DataType::Float32 => numbers(values.as_primitive::<Float32Type>(), present, nulls),
        DataType::Float64 => numbers(values.as_primitive::<Float64Type>(), present, nulls),
        DataType::Date32 => numbers(values.as_primitive::<Date32Type>(), present, nulls),
        DataType::Timestamp(..) => {
            let values = values.as_primitive::<TimestampMicrosecondType>();
            numbers(values, present, nulls)
        }
        DataType::Decimal128(..) => {
            numbers(values.as_primitive::<Decimal128Type>(), present, nulls)
        }
        DataType::Binary => texts(values.as_binary::<i32>(), present, nulls),
        DataType::Utf8 => texts(values.as_string::<i32>(), present, nulls),
        DataType::List(element) => {
            let lists = values.as_list::<i32>();
            let ends = ends(lists.offsets(), present);
            let elements = lists.values().clone();
            Arc::new(ListArray::new(element.clone(), ends, elements, Some(nulls)))
        }
        DataType::Map(entries, is_sorted) => {
            let maps = values.as_map();
            let ends = ends(maps.offsets(), present);
            let pairs = maps.entries().clone();
            let maps = MapArray::new(entries.clone(), ends, pairs, Some(nulls), *is_sorted);
            Arc::new(maps)
        }
        DataType::Struct(fields) => {
            let parts = values.as_struct().columns().iter();
            let parts = parts.map(|part| spread(part, present)).collect();
            Arc::new(StructArray::new(fields.clone(), parts, Some(nulls)))
        }
        other => unreachable!("no builder makes an array of {other}"),
    }
}

/// Returns, for each row, the position of its value among the values; `None` for a row without a value.
fn positions(present: &NullBuffer) -> impl Iterator<Item = Option<usize>> {
    let mut next = 0;
    present.iter().map(move |is_present| {
        let position = next;
        next += usize::from(is_present);
        is_present.then_some(position)
    })
}

/// Returns a bit for each row: that of its value, or 0.
fn bits(present: &NullBuffer, bit: impl Fn(usize) -> bool) -> BooleanBuffer {
    let bits = positions(present).map(|position| position.is_some_and(&bit));
    bits.collect()
}

fn numbers<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    present: &NullBuffer,
    nulls: NullBuffer,
) -> ArrayRef {
    let numbers = values.values();
    let spread = positions(present).map(|position| position.map(|at| numbers[at]));
    let spread: Vec<T::Native> = spread.map(Option::unwrap_or_default).collect();
    let array = PrimitiveArray::<T>::new(spread.into(), Some(nulls));
    // The time zone, or the precision and scale, are those of the values.
    Arc::new(array.with_data_type(values.data_type().clone()))
}

fn texts<T: ByteArrayType<Offset = i32>>(
    values: &GenericByteArray<T>,
    present: &NullBuffer,
    nulls: NullBuffer,
) -> ArrayRef {
    let ends = ends(values.offsets(), present);
    let bytes = values.values().clone();
    Arc::new(GenericByteArray::<T>::new(ends, bytes, Some(nulls)))
}

/// Returns where each row ends. `of_values` has the start of the first value, and the end of each. A row without a
/// value ends where the row before it does.
fn ends(of_values: &OffsetBuffer<i32>, present: &NullBuffer) -> OffsetBuffer<i32> {
    let mut values = 0;
    let ends = present.iter().map(|is_present| {
        values += usize::from(is_present);
        of_values[values]
    });
    let ends: Vec<i32> = iter::once(of_values[0]).chain(ends).collect();
    OffsetBuffer::new(ends.into())
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;

    use super::*;

    #[test]
    fn texts_are_not_copied_between_rows_without_values() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("bc")]));
        let present = NullBuffer::from(vec![false, true, true, false, true, false]);
        let spread = spread(&texts, &present);
        let rows: Vec<_> = spread.as_string::<i32>().iter().collect();
        assert_eq!(rows, [None, Some("a"), None, None, Some("bc"), None]);
        let bytes = |array: &ArrayRef| array.as_string::<i32>().values().as_ptr();
        assert_eq!(bytes(&spread), bytes(&texts));
    }

    #[test]
    fn a_column_without_values_has_a_null_for_each_row() {
        let texts: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
        let spread = spread(&texts, &NullBuffer::new_null(3));
        assert_eq!((spread.len(), spread.null_count()), (3, 3));
    }
}
