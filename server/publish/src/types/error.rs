//! A value that has no exact counterpart.

/// The reason why a value cannot be converted exactly. The text names neither the table nor the row nor the
/// column: the caller adds them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The bytes are no value of their type, whose name is the field.
    #[error("the stored bytes are no value of the type {0}")]
    Malformed(String),
    /// An empty value of a type that has no empty values in Iceberg. The field is the name of the type.
    #[error(
        "the value of the type {0} is empty, and Iceberg has no empty value of it; publish such values as null (--empty-as-null)"
    )]
    Empty(String),
    /// A key of a map that is null, or an empty value of a type that has no empty values in Iceberg.
    #[error("a key of a map is null or empty, and Iceberg does not allow that")]
    NullKey,
    /// A number that does not fit into the decimal without rounding.
    #[error(
        "{value} does not fit into decimal({precision}, {scale}) without rounding; publish it as text or with a wider decimal (--decimal)"
    )]
    Decimal {
        /// The number as CQL writes it, shortened if it is long.
        value: String,
        /// The greatest number of digits that the decimal can have, including those after the point.
        precision: u8,
        /// The number of the decimal's digits after the point.
        scale: u8,
    },
    /// A number of more than 100,000 digits, which ebb does not convert to text. The field is the name of the
    /// number's type.
    #[error("a number of the type {0} has more than 100,000 digits, which is too long for text")]
    TooLong(String),
    /// A timestamp, in milliseconds, whose microseconds do not fit into 64 bits.
    #[error(
        "the timestamp {0} ms lies outside of what microseconds of 64 bits reach (years -290,308 to 294,247)"
    )]
    Timestamp(i64),
    /// A value in a file that its CQL type cannot represent.
    #[error("{value} is no value of the type {ty}")]
    OutOfRange {
        /// The value as text, shortened if it is long.
        value: String,
        /// The name of the CQL type.
        ty: String,
    },
    /// There is no conversion between the Arrow type `from` and the CQL type `to`.
    #[error("values of the Arrow type {from} are not converted to the CQL type {to}")]
    Unsupported {
        /// The name of the Arrow type.
        from: String,
        /// The name of the CQL type.
        to: String,
    },
    /// A batch has more elements of a collection than Arrow's offsets of 32 bits can count.
    #[error("a batch has more than 2^31 elements of a collection; publish it in smaller batches")]
    TooManyElements,
    /// The function `charge` has ended the work on the value. Long work is reported to this function, see
    /// [`ColumnBuilder::append_with`](super::ColumnBuilder::append_with).
    #[error("the conversion of a value was ended")]
    Ended,
}

impl ValueError {
    /// Returns the text of this error without the value: readers of the text may not be allowed to read the
    /// table.
    pub fn reason(&self) -> String {
        let value = || "a value".to_owned();
        match self.clone() {
            Self::Decimal {
                precision, scale, ..
            } => Self::Decimal {
                value: value(),
                precision,
                scale,
            }
            .to_string(),
            Self::OutOfRange { ty, .. } => Self::OutOfRange { value: value(), ty }.to_string(),
            Self::Timestamp(_) => {
                "a timestamp lies outside of what microseconds of 64 bits reach".to_owned()
            }
            other => other.to_string(),
        }
    }
}
