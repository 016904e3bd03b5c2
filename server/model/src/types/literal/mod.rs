//! Values as CQL writes them, both ways.
//!
//! ```text
//! parse      a constant's text as a native type's bytes
//! print      any value as a literal
//! read       any literal as a value
//! calendar   dates, times and moments
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

/// What a constant in a statement looks like, before its type is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constant {
    /// `'...'`
    String,
    /// `-12`
    Integer,
    /// `1.5`, `1e9`, `NaN`, `Infinity`
    Float,
    /// `true`
    Boolean,
    /// `c4f1c3a0-...`
    Uuid,
    /// `0xcafe`
    Hex,
    /// `1h30m`
    Duration,
}

impl Constant {
    fn name(self) -> &'static str {
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

    /// Whether a constant that looks so may be a value of the type.
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

    /// The bytes of a constant: `text` as the statement has it, a string without its quotes,
    /// for the column or marker `receiver`.
    ///
    /// # Errors
    /// In Cassandra's words, where it does not fit the type or is no value of it.
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
