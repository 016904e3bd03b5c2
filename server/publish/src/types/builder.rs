//! Values of CQL into Arrow arrays.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder,
    Float64Builder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, ListArray, MapArray, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, FieldRef, Fields};
use ebb_model::types::elements::{components, elements, pairs};
use ebb_model::types::literal::Duration;
use ebb_model::types::{Charge, CqlType};

use super::arrow::{arrow_field, data_type, entries};
use super::iceberg::{IcebergType, NestedField};
use super::spread::spread;
use super::{OnEmpty, ValueError, scalar};

/// The most memory, in bytes, that the Parquet library takes for a row while it encodes a column: two levels of two
/// bytes each, and the position of the value.
const ENCODED_ROW_BYTES: usize = 2 + 2 + 8;

/// A builder of the Arrow array of a column, out of values in CQL's native serialization.
#[derive(Debug)]
pub struct ColumnBuilder {
    ty: CqlType,
    on_empty: OnEmpty,
    empty_values: u64,
    /// The values since the last array. The nulls between them are only in `present`, because a table may have
    /// hundreds of columns that are null in most rows.
    values: Values,
    /// Whether each row since the last array has one of `values`.
    present: NullBufferBuilder,
}

impl ColumnBuilder {
    /// Returns a builder of values of `ty` for a field that [`field`](super::field()) made for it.
    ///
    /// # Errors
    /// If the field was made for another type.
    pub fn new(ty: &CqlType, field: &NestedField, on_empty: OnEmpty) -> Result<Self, ValueError> {
        Ok(Self {
            ty: ty.clone(),
            on_empty,
            empty_values: 0,
            values: Values::new(ty, &field.ty)?,
            present: NullBufferBuilder::new(0),
        })
    }

    /// Appends a value; `None` is null.
    ///
    /// # Errors
    /// If the value cannot be converted exactly, or if the array would have too many elements. The builder
    /// cannot be used afterwards.
    pub fn append(&mut self, value: Option<&[u8]>) -> Result<(), ValueError> {
        self.append_with(value, &mut |_| Ok(()))
    }

    /// Appends a value as [`append`](Self::append) does. Before it computes the decimal digits of a
    /// number, it calls `charge` with the cost of this work, in the unit of [`Charge`]; an error of
    /// `charge` ends the work. Long numbers take long, and a collection may have thousands of them.
    ///
    /// # Errors
    /// The errors of [`append`](Self::append), and that of `charge`. The builder cannot be used
    /// afterwards.
    pub fn append_with(
        &mut self,
        value: Option<&[u8]>,
        charge: Charge<'_, ValueError>,
    ) -> Result<(), ValueError> {
        if value.is_none() {
            self.present.append_null();
            return Ok(());
        }
        let mut with = Appending {
            rule: self.on_empty,
            seen: &mut self.empty_values,
            charge,
        };
        self.values.append(&self.ty, value, &mut with)?;
        self.present.append_non_null();
        Ok(())
    }

    /// Returns the number of empty values that became null so far.
    pub fn empty_values(&self) -> u64 {
        self.empty_values
    }

    /// Returns the size of the values that were appended since the last array, in bytes. A row that is null takes
    /// a bit. The bitmaps of nulls within values are left out.
    pub(crate) fn bytes(&self) -> usize {
        self.values.bytes() + self.present.as_slice().map_or(0, <[u8]>::len)
    }

    /// Returns the most memory, in bytes, besides that of the values, that [`finish`](Self::finish) and the encoding
    /// of its array would take now: for each row, the places in the array and the levels of Parquet.
    pub(crate) fn encoding_bytes(&self) -> usize {
        self.present.len() * self.values.row_bytes()
    }

    /// Returns an Arrow array of the values and nulls that were appended since the last call.
    ///
    /// # Panics
    /// If Arrow refuses the array, or one that is nested in it. This does not happen, because
    /// [`append`](Self::append) has checked the values.
    pub fn finish(&mut self) -> ArrayRef {
        let values = self.values.finish();
        match self.present.finish() {
            Some(present) => spread(&values, &present),
            None => values,
        }
    }
}

/// The state that is passed to all parts of a value while it is appended.
struct Appending<'a> {
    /// The rule for empty values: values of no bytes, in types such as `int`.
    rule: OnEmpty,
    /// The number of empty values that became null.
    seen: &'a mut u64,
    charge: Charge<'a, ValueError>,
}

/// The values of a column or of a part of a nested type.
#[derive(Debug)]
enum Values {
    Boolean(BooleanBuilder),
    Int(Int32Builder),
    Long(Int64Builder),
    Float(Float32Builder),
    Double(Float64Builder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Decimal(Decimal128Builder, super::DecimalForm),
    Binary(BinaryBuilder),
    Text {
        builder: StringBuilder,
        /// Memory for the text of one value, which the next value uses again.
        buffer: Vec<u8>,
    },
    List {
        field: FieldRef,
        ends: Ends,
        element: Box<Values>,
    },
    Map {
        entries: FieldRef,
        ends: Ends,
        key: Box<Values>,
        value: Box<Values>,
    },
    /// Tuples, user-defined types and durations.
    Struct {
        fields: Fields,
        nulls: NullBufferBuilder,
        parts: Vec<Values>,
    },
}

/// The lists in an array of lists: where the elements of each list end among all elements, and whether the
/// list is null.
#[derive(Debug)]
struct Ends {
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl Ends {
    fn new() -> Self {
        Self {
            // Arrow's offsets begin with the start of the first list.
            ends: vec![0],
            nulls: NullBufferBuilder::new(0),
        }
    }

    /// Appends a list of `count` elements; with `None`, a null.
    ///
    /// # Errors
    /// If the array would have more elements than an `i32` counts.
    fn append(&mut self, count: Option<usize>) -> Result<(), ValueError> {
        let last = self.ends.last().copied().unwrap_or(0);
        let added = i32::try_from(count.unwrap_or(0)).ok();
        let end = added.and_then(|added| last.checked_add(added));
        self.ends.push(end.ok_or(ValueError::TooManyElements)?);
        self.nulls.append(count.is_some());
        Ok(())
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.ends[..])
    }

    fn finish(&mut self) -> (OffsetBuffer<i32>, Option<arrow_buffer::NullBuffer>) {
        // The builder is used again for the next batch, whose first list begins at 0.
        let ends = std::mem::replace(&mut self.ends, vec![0]);
        (
            OffsetBuffer::new(ScalarBuffer::from(ends)),
            self.nulls.finish(),
        )
    }
}

impl Values {
    fn new(ty: &CqlType, iceberg: &IcebergType) -> Result<Self, ValueError> {
        let other = || ValueError::Unsupported {
            from: data_type(iceberg).to_string(),
            to: ty.to_string(),
        };
        let part = |ty: &CqlType, field: &NestedField| Self::new(ty, &field.ty);
        Ok(match (ty, iceberg) {
            (CqlType::Boolean, IcebergType::Boolean) => Self::Boolean(BooleanBuilder::new()),
            (CqlType::Tinyint | CqlType::Smallint | CqlType::Int, IcebergType::Int) => {
                Self::Int(Int32Builder::new())
            }
            (CqlType::Bigint | CqlType::Counter | CqlType::Time, IcebergType::Long) => {
                Self::Long(Int64Builder::new())
            }
            (CqlType::Float, IcebergType::Float) => Self::Float(Float32Builder::new()),
            (CqlType::Double, IcebergType::Double) => Self::Double(Float64Builder::new()),
            (CqlType::Date, IcebergType::Date) => Self::Date(Date32Builder::new()),
            (CqlType::Timestamp, IcebergType::Timestamptz) => {
                // By default the type of the builder has no time zone.
                let builder = TimestampMicrosecondBuilder::new();
                Self::Timestamp(builder.with_data_type(data_type(iceberg)))
            }
            (CqlType::Decimal | CqlType::Varint, IcebergType::Decimal(form)) => {
                // By default the type of the builder has a precision and scale of its own.
                let builder = Decimal128Builder::new().with_data_type(data_type(iceberg));
                Self::Decimal(builder, *form)
            }
            (CqlType::Blob, IcebergType::Binary) => Self::Binary(BinaryBuilder::new()),
            (
                CqlType::Ascii
                | CqlType::Text
                | CqlType::Decimal
                | CqlType::Varint
                | CqlType::Uuid
                | CqlType::Timeuuid
                | CqlType::Inet,
                IcebergType::String,
            ) => Self::Text {
                builder: StringBuilder::new(),
                buffer: Vec::new(),
            },
            (CqlType::Duration, IcebergType::Struct(fields)) if fields.len() == 3 => Self::Struct {
                fields: fields.iter().map(arrow_field).collect(),
                nulls: NullBufferBuilder::new(0),
                // Months, days and nanoseconds.
                parts: vec![
                    Self::Int(Int32Builder::new()),
                    Self::Int(Int32Builder::new()),
                    Self::Long(Int64Builder::new()),
                ],
            },
            (
                CqlType::List { element: ty, .. } | CqlType::Set { element: ty, .. },
                IcebergType::List(element),
            ) => Self::List {
                field: arrow_field(element),
                ends: Ends::new(),
                element: Box::new(part(ty, element)?),
            },
            (
                CqlType::Map {
                    key: key_type,
                    value: value_type,
                    ..
                },
                IcebergType::Map { key, value },
            ) => Self::Map {
                entries: entries(key, value),
                ends: Ends::new(),
                key: Box::new(part(key_type, key)?),
                value: Box::new(part(value_type, value)?),
            },
            (CqlType::Tuple(_) | CqlType::Udt { .. }, IcebergType::Struct(fields)) => {
                let types = component_types(ty);
                if types.len() != fields.len() {
                    return Err(other());
                }
                let parts = types.iter().zip(fields);
                let parts = parts.map(|(ty, field)| part(ty, field));
                Self::Struct {
                    fields: fields.iter().map(arrow_field).collect(),
                    nulls: NullBufferBuilder::new(0),
                    parts: parts.collect::<Result<_, _>>()?,
                }
            }
            _ => return Err(other()),
        })
    }

    /// Appends a value of type `ty`; `None` is null. An error in a part of a nested value leaves arrays
    /// of different lengths, so these builders cannot be used afterwards.
    fn append(
        &mut self,
        ty: &CqlType,
        value: Option<&[u8]>,
        with: &mut Appending<'_>,
    ) -> Result<(), ValueError> {
        let Some(bytes) = value else {
            return self.append_null();
        };
        if bytes.is_empty() && OnEmpty::applies_to(ty) {
            return match with.rule {
                OnEmpty::Refuse => Err(ValueError::Empty(ty.to_string())),
                OnEmpty::Null => {
                    *with.seen += 1;
                    self.append_null()
                }
            };
        }
        let malformed = || ValueError::Malformed(ty.to_string());
        match self {
            // Every byte but 0 is true.
            Self::Boolean(builder) => builder.append_value(fixed::<1>(ty, bytes)? != [0]),
            Self::Int(builder) => builder.append_value(match ty {
                CqlType::Tinyint => i8::from_be_bytes(fixed(ty, bytes)?).into(),
                CqlType::Smallint => i16::from_be_bytes(fixed(ty, bytes)?).into(),
                _ => i32::from_be_bytes(fixed(ty, bytes)?),
            }),
            Self::Long(builder) => builder.append_value(i64::from_be_bytes(fixed(ty, bytes)?)),
            Self::Float(builder) => builder.append_value(f32::from_be_bytes(fixed(ty, bytes)?)),
            Self::Double(builder) => builder.append_value(f64::from_be_bytes(fixed(ty, bytes)?)),
            Self::Date(builder) => {
                let date = u32::from_be_bytes(fixed(ty, bytes)?);
                builder.append_value(scalar::days_of_date(date));
            }
            Self::Timestamp(builder) => {
                let ms = i64::from_be_bytes(fixed(ty, bytes)?);
                builder.append_value(scalar::us_of_ms(ms)?);
            }
            Self::Decimal(builder, form) => builder.append_value(match ty {
                CqlType::Varint => scalar::unscaled_of_varint(bytes)?,
                _ => scalar::unscaled_of_decimal(bytes, *form, with.charge)?,
            }),
            Self::Binary(builder) => builder.append_value(bytes),
            Self::Text { builder, buffer } => {
                builder.append_value(scalar::write_text(ty, bytes, buffer, with.charge)?);
            }
            Self::List { ends, element, .. } => {
                let (CqlType::List { element: ty, .. } | CqlType::Set { element: ty, .. }) = ty
                else {
                    // `new` has matched this builder with the type, so this does not occur.
                    return Err(malformed());
                };
                let mut count = 0;
                for part in elements(bytes).map_err(|_| malformed())? {
                    element.append(ty, part.map_err(|_| malformed())?, with)?;
                    count += 1;
                }
                ends.append(Some(count))?;
            }
            Self::Map {
                ends, key, value, ..
            } => {
                let CqlType::Map {
                    key: key_type,
                    value: value_type,
                    ..
                } = ty
                else {
                    return Err(malformed());
                };
                let mut parts = pairs(bytes).map_err(|_| malformed())?;
                let mut count = 0;
                while let Some(part) = parts.next() {
                    let part = part.map_err(|_| malformed())?;
                    // An empty key would become null, which a key cannot be, so both rules refuse it. A part
                    // of a key can be null.
                    let part =
                        part.filter(|key| !(key.is_empty() && OnEmpty::applies_to(key_type)));
                    let part = part.ok_or(ValueError::NullKey)?;
                    key.append(key_type, Some(part), with)?;
                    let part = parts.next().ok_or_else(malformed)?;
                    value.append(value_type, part.map_err(|_| malformed())?, with)?;
                    count += 1;
                }
                ends.append(Some(count))?;
            }
            Self::Struct { nulls, parts, .. } if *ty == CqlType::Duration => {
                let duration = Duration::from_bytes(bytes).ok_or_else(malformed)?;
                for (part, value) in parts.iter_mut().zip([duration.months, duration.days]) {
                    part.append(&CqlType::Int, Some(&value.to_be_bytes()), with)?;
                }
                parts[2].append(&CqlType::Bigint, Some(&duration.nanos.to_be_bytes()), with)?;
                nulls.append_non_null();
            }
            Self::Struct { nulls, parts, .. } => {
                let mut values = components(bytes);
                // Components that are missing at the end are null.
                for (part, ty) in parts.iter_mut().zip(component_types(ty)) {
                    let value = values.next().transpose().map_err(|_| malformed())?;
                    part.append(ty, value.flatten(), with)?;
                }
                if !values.rest().is_empty() {
                    return Err(malformed());
                }
                nulls.append_non_null();
            }
        }
        Ok(())
    }

    fn append_null(&mut self) -> Result<(), ValueError> {
        match self {
            Self::Boolean(builder) => builder.append_null(),
            Self::Int(builder) => builder.append_null(),
            Self::Long(builder) => builder.append_null(),
            Self::Float(builder) => builder.append_null(),
            Self::Double(builder) => builder.append_null(),
            Self::Date(builder) => builder.append_null(),
            Self::Timestamp(builder) => builder.append_null(),
            Self::Decimal(builder, _) => builder.append_null(),
            Self::Binary(builder) => builder.append_null(),
            Self::Text { builder, .. } => builder.append_null(),
            Self::List { ends, .. } | Self::Map { ends, .. } => ends.append(None)?,
            Self::Struct { nulls, parts, .. } => {
                nulls.append_null();
                // The parts of a duration are required. Arrow accepts nulls in them where the
                // struct is null too.
                for part in parts {
                    part.append_null()?;
                }
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Boolean(builder) => builder.values_slice().len(),
            Self::Int(builder) => size_of_val(builder.values_slice()),
            Self::Long(builder) => size_of_val(builder.values_slice()),
            Self::Float(builder) => size_of_val(builder.values_slice()),
            Self::Double(builder) => size_of_val(builder.values_slice()),
            Self::Date(builder) => size_of_val(builder.values_slice()),
            Self::Timestamp(builder) => size_of_val(builder.values_slice()),
            Self::Decimal(builder, _) => size_of_val(builder.values_slice()),
            Self::Binary(builder) => {
                builder.values_slice().len() + size_of_val(builder.offsets_slice())
            }
            Self::Text { builder, .. } => {
                builder.values_slice().len() + size_of_val(builder.offsets_slice())
            }
            Self::List { ends, element, .. } => ends.bytes() + element.bytes(),
            Self::Map {
                ends, key, value, ..
            } => ends.bytes() + key.bytes() + value.bytes(),
            Self::Struct { parts, .. } => parts.iter().map(Self::bytes).sum(),
        }
    }

    /// Returns the memory that a row takes besides that of its values, in bytes: its places in arrays, and
    /// [`ENCODED_ROW_BYTES`] for each column in Parquet. A list or a map counts as if it had one element.
    fn row_bytes(&self) -> usize {
        match self {
            Self::Boolean(_) => 1 + ENCODED_ROW_BYTES,
            // A text or a blob has the place where it ends.
            Self::Int(_) | Self::Float(_) | Self::Date(_) | Self::Binary(_) | Self::Text { .. } => {
                4 + ENCODED_ROW_BYTES
            }
            Self::Long(_) | Self::Double(_) | Self::Timestamp(_) => 8 + ENCODED_ROW_BYTES,
            Self::Decimal(..) => 16 + ENCODED_ROW_BYTES,
            Self::List { element, .. } => 4 + element.row_bytes(),
            Self::Map { key, value, .. } => 4 + key.row_bytes() + value.row_bytes(),
            Self::Struct { parts, .. } => parts.iter().map(Self::row_bytes).sum(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Boolean(builder) => Arc::new(builder.finish()),
            Self::Int(builder) => Arc::new(builder.finish()),
            Self::Long(builder) => Arc::new(builder.finish()),
            Self::Float(builder) => Arc::new(builder.finish()),
            Self::Double(builder) => Arc::new(builder.finish()),
            Self::Date(builder) => Arc::new(builder.finish()),
            Self::Timestamp(builder) => Arc::new(builder.finish()),
            Self::Decimal(builder, _) => Arc::new(builder.finish()),
            Self::Binary(builder) => Arc::new(builder.finish()),
            Self::Text { builder, .. } => Arc::new(builder.finish()),
            Self::List {
                field,
                ends,
                element,
            } => {
                let (offsets, nulls) = ends.finish();
                let elements = element.finish();
                Arc::new(ListArray::new(field.clone(), offsets, elements, nulls))
            }
            Self::Map {
                entries,
                ends,
                key,
                value,
            } => {
                let (offsets, nulls) = ends.finish();
                let DataType::Struct(fields) = entries.data_type() else {
                    unreachable!("the entries of a map are a struct");
                };
                let parts = vec![key.finish(), value.finish()];
                // An entry is never null, and `false`, as in the type of the field, is no claim of an order.
                let pairs = StructArray::new(fields.clone(), parts, None);
                Arc::new(MapArray::new(entries.clone(), offsets, pairs, nulls, false))
            }
            Self::Struct {
                fields,
                nulls,
                parts,
            } => {
                let parts = parts.iter_mut().map(Self::finish).collect();
                Arc::new(StructArray::new(fields.clone(), parts, nulls.finish()))
            }
        }
    }
}

/// Returns the types of the components of a tuple or of the fields of a user-defined type; none for another
/// type.
fn component_types(ty: &CqlType) -> Vec<&CqlType> {
    match ty {
        CqlType::Tuple(types) => types.iter().collect(),
        CqlType::Udt { definition, .. } => definition.fields().iter().map(|(_, ty)| ty).collect(),
        _ => Vec::new(),
    }
}

fn fixed<const N: usize>(ty: &CqlType, bytes: &[u8]) -> Result<[u8; N], ValueError> {
    let fixed = bytes.try_into();
    fixed.map_err(|_| ValueError::Malformed(ty.to_string()))
}
