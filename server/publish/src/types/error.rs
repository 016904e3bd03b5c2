//! A value that has no exact counterpart.

/// The reason why a value cannot be converted exactly. The caller names the table, the row and the
/// column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The bytes are no value of their type.
    #[error("the stored bytes are no value of the type {0}")]
    Malformed(String),
    /// An empty value of a type that has no empty values in Iceberg.
    #[error(
        "the value of the type {0} is empty, and Iceberg has no empty value of it; publish such values as null (--empty-as-null)"
    )]
    Empty(String),
    /// A null where Iceberg allows none.
    #[error("a key of a map is null or empty, and Iceberg does not allow that")]
    NullKey,
    /// A number that the decimal cannot hold without rounding.
    #[error(
        "{value} does not fit into decimal({precision}, {scale}) without rounding; publish it as text or with a wider decimal (--decimal)"
    )]
    Decimal {
        /// The number as CQL writes it, shortened if it is long.
        value: String,
        /// The greatest number of digits that the decimal can have.
        precision: u8,
        /// The number of digits of the decimal after the point.
        scale: u8,
    },
    /// A number with so many digits that its text is not computed.
    #[error("a number of the type {0} has more than 100,000 digits, which is too long for text")]
    TooLong(String),
    /// A timestamp, in milliseconds, whose microseconds do not fit into 64 bits.
    #[error(
        "the timestamp {0} ms lies outside of what microseconds of 64 bits reach (years -290,308 to 294,247)"
    )]
    Timestamp(i64),
    /// A value of another engine that the CQL type cannot represent.
    #[error("{value} is no value of the type {ty}")]
    OutOfRange {
        /// The value, as text.
        value: String,
        /// The CQL type.
        ty: String,
    },
    /// A column of another engine whose type is not converted to the CQL type.
    #[error("values of the Arrow type {from} are not converted to the CQL type {to}")]
    Unsupported {
        /// The Arrow type.
        from: String,
        /// The CQL type.
        to: String,
    },
    /// More elements in one batch than Arrow's offsets of 32 bits reach.
    #[error("a batch has more than 2^31 elements of a collection; publish it in smaller batches")]
    TooManyElements,
    /// The caller ended the work on the value.
    #[error("the conversion of a value was ended")]
    Ended,
}

impl ValueError {
    /// Returns the reason without the value, for readers who may not be allowed to read the table.
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
