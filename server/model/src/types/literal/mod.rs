//! Conversion between values and their text in CQL.
//!
//! ```text
//! parse      a constant's text as the bytes of a native type or tuple
//! print      any value as a literal
//! read       any literal as a value
//! calendar   dates, times of day and timestamps
//! duration   1y2mo3d, ISO 8601
//! ```

mod calendar;
mod duration;
mod parse;
mod print;
mod read;

pub use calendar::{add_months, date_of};
pub use duration::Duration;
pub use print::hex;

use super::{CqlType, TypeError};

/// The lexical form of a constant in a statement, before its type is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConstantKind {
    /// `'it''s'` or `$$it's$$`; the text of the constant is without quotes: `it's`.
    String,
    /// Digits, perhaps after `-`.
    Integer,
    /// `1.5`, `1.`, `-1e9`, with the sign; or `NaN`, `Infinity`, `-Infinity`.
    Float,
    /// `true` or `false`, in small letters.
    Boolean,
    /// 8-4-4-4-12 hexadecimal digits, case as written.
    Uuid,
    /// `0x` or `0X`, and hexadecimal digits, perhaps none, perhaps an odd number of them.
    Hex,
    /// `1h30m`, `P1Y2D`, `PT5S`, `P3W`, `P0001-02-03T04:05:06`, perhaps after `-`. The order of the
    /// units is not checked.
    Duration,
}

impl ConstantKind {
    /// Returns the name in Cassandra's messages, as in `Invalid STRING constant (…) for …`.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "STRING",
            Self::Integer => "INTEGER",
            Self::Float => "FLOAT",
            Self::Boolean => "BOOLEAN",
            Self::Uuid => "UUID",
            Self::Hex => "HEX",
            Self::Duration => "DURATION",
        }
    }

    /// Returns whether constants of this form may be values of the type.
    pub fn fits(self, ty: &CqlType) -> bool {
        use CqlType as T;
        match self {
            Self::String => matches!(
                ty,
                T::Ascii | T::Text | T::Inet | T::Date | T::Time | T::Timestamp | T::Tuple(_)
            ),
            Self::Integer => matches!(
                ty,
                T::Bigint
                    | T::Counter
                    | T::Date
                    | T::Decimal
                    | T::Double
                    | T::Duration
                    | T::Float
                    | T::Int
                    | T::Smallint
                    | T::Time
                    | T::Timestamp
                    | T::Tinyint
                    | T::Varint
            ),
            Self::Float => matches!(ty, T::Decimal | T::Double | T::Float),
            Self::Boolean => matches!(ty, T::Boolean),
            Self::Uuid => matches!(ty, T::Uuid | T::Timeuuid),
            Self::Hex => matches!(ty, T::Blob),
            Self::Duration => matches!(ty, T::Duration),
        }
    }

    /// Returns the bytes of a constant as a value of the type `ty`. `text` is the constant as in
    /// the statement, but a string is without its quotes. `receiver` is the column or marker that
    /// gets the value, for error messages.
    ///
    /// # Errors
    /// Cassandra's messages, if the constant does not fit the type or is not a valid value of it.
    pub fn to_bytes(self, text: &str, ty: &CqlType, receiver: &str) -> Result<Vec<u8>, TypeError> {
        if !self.fits(ty) {
            return Err(TypeError::new(format!(
                "Invalid {} constant ({text}) for \"{receiver}\" of type {ty}",
                self.name()
            )));
        }
        match self {
            Self::Hex => ty.parse_value(text.get(2..).unwrap_or("")),
            _ => ty.parse_value(text),
        }
    }
}
