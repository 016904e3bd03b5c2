//! CQL types and values as those of Iceberg, Arrow and Parquet, in both directions.
//!
//! ```text
//!   CqlType ──field──► NestedField ──arrow_field──► arrow_schema::Field
//!      │                    │
//!   value bytes ─► ColumnBuilder ─► ArrayRef ─► read_value ─► value bytes
//! ```
//!
//! | CQL | Iceberg | Arrow and Parquet |
//! | --- | --- | --- |
//! | ascii, text | string | Utf8 |
//! | blob | binary | Binary |
//! | boolean | boolean | Boolean |
//! | tinyint, smallint, int | int | Int32 |
//! | bigint, counter | long | Int64 |
//! | float, double | float, double | Float32, Float64 |
//! | date | date | Date32 |
//! | time | long, nanoseconds since midnight | Int64 |
//! | timestamp | timestamptz, microseconds | Timestamp(us, UTC) |
//! | duration | struct of months, days, nanoseconds | Struct |
//! | decimal | decimal with [`TypeOptions::decimal`], else string | Decimal128, Utf8 |
//! | varint | decimal(38, 0), or string | Decimal128, Utf8 |
//! | uuid, timeuuid, inet | string | Utf8 |
//! | list, set | list | List |
//! | map | map | Map |
//! | tuple, user-defined type | struct | Struct |
//!
//! A value is converted exactly, or the conversion fails. Nothing is rounded and
//! nothing wraps around. Only an empty value of a type that has no empty value in Iceberg can become
//! null, if [`OnEmpty::Null`] is chosen, and such values are counted.
//!
//! | file | content |
//! | --- | --- |
//! | `iceberg` | types of Iceberg, and their JSON |
//! | `mapping` | the Iceberg type of a CQL type, and the field ids of its parts |
//! | `arrow` | the Arrow type of an Iceberg type |
//! | `scalar` | conversions of values that are not just bytes of the same width |
//! | `builder` | values of CQL into Arrow arrays |
//! | `spread` | rows without values in the arrays of a column |
//! | `read` | values of Arrow arrays as those of CQL |

mod arrow;
mod builder;
mod error;
mod iceberg;
mod mapping;
mod read;
mod scalar;
mod spread;
#[cfg(test)]
mod tests;

use ebb_model::types::CqlType;

pub use self::arrow::arrow_field;
pub use self::builder::ColumnBuilder;
pub use self::error::ValueError;
pub use self::iceberg::{IcebergType, NestedField};
pub use self::mapping::{FieldIds, field};
pub(crate) use self::read::read_published_value;
pub use self::read::read_value;

/// The user's choices for types that can be published in several forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TypeOptions {
    /// The precision and scale with which a `decimal` is published; `None` if it is published as text.
    pub decimal: Option<DecimalForm>,
    /// Whether `varint` becomes text. Otherwise it becomes decimal(38, 0).
    pub varint_as_text: bool,
}

/// The precision of a decimal in Iceberg (its number of digits) and its scale (the number of digits after the
/// point).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecimalForm {
    precision: u8,
    scale: u8,
}

impl DecimalForm {
    /// The greatest precision that Iceberg, Spark and Arrow's Decimal128 support.
    pub(crate) const PRECISION_MAX: u8 = 38;

    /// The form in which a `varint` is published, unless it is published as text: decimal(38, 0).
    pub(crate) const INTEGER: Self = Self {
        precision: Self::PRECISION_MAX,
        scale: 0,
    };

    /// Returns the form of a decimal with `precision` digits, `scale` of them after the point; `None` unless
    /// `1 <= precision <= 38` and `scale <= precision`.
    pub fn new(precision: u8, scale: u8) -> Option<Self> {
        let is_valid = (1..=Self::PRECISION_MAX).contains(&precision) && scale <= precision;
        is_valid.then_some(Self { precision, scale })
    }
}

/// The treatment of an empty value (of no bytes) of a type such as `int`. CQL distinguishes such a value from
/// null and from every number; Iceberg has no such value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnEmpty {
    /// An empty value is an error, which ends the conversion.
    #[default]
    Refuse,
    /// The value becomes null. A key of a map cannot become null: an empty key is an error.
    Null,
}

impl OnEmpty {
    /// Returns whether an empty value of `ty` gets this treatment (an error or null): whether `ty`
    /// is a native type for which Iceberg has no empty value. Collections and tuples are not
    /// native: their decoding decides about empty bytes.
    fn applies_to(ty: &CqlType) -> bool {
        ty.is_native() && !matches!(ty, CqlType::Ascii | CqlType::Text | CqlType::Blob)
    }
}
