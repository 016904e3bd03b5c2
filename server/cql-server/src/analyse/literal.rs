//! Constants of CQL as values. The model decides which kind fits which type, and encodes constants as
//! bytes; this module adds the types of constants without a context, and the errors of statements.

use ebb_cql::syntax::ast::{Constant, ConstantKind};
use ebb_model::types::{CqlType, TypeError};

use crate::error::{Result, invalid};
use crate::functions::digits_units;
use crate::interrupt;

/// Returns the type of a constant that has no receiver type, such as an argument of a function or a
/// selected constant. Charges the statement for the digits of a number with a point or an exponent.
///
/// # Errors
/// The timeout of the statement.
pub fn own_type(kind: ConstantKind, text: &str) -> Result<CqlType> {
    if kind == ConstantKind::Float {
        interrupt::charge(digits_units(text.len()))?;
    }
    Ok(match kind {
        ConstantKind::String => CqlType::Text,
        ConstantKind::Integer if text.parse::<i32>().is_ok() => CqlType::Int,
        ConstantKind::Integer if text.parse::<i64>().is_ok() => CqlType::Bigint,
        ConstantKind::Integer => CqlType::Varint,
        ConstantKind::Float if is_double(text) => CqlType::Double,
        ConstantKind::Float => CqlType::Decimal,
        ConstantKind::Boolean => CqlType::Boolean,
        ConstantKind::Uuid => CqlType::Uuid,
        ConstantKind::Hex => CqlType::Blob,
        ConstantKind::Duration => CqlType::Duration,
    })
}

/// Returns whether a `double` keeps all digits of `text`, a number with a point or an exponent.
/// Also true for NaN and infinity. If the result is false, the number becomes a `decimal`.
fn is_double(text: &str) -> bool {
    let Some(double) = text.parse::<f64>().ok().filter(|n| n.is_finite()) else {
        // NaN and infinity are doubles; numbers beyond the range of a `double` are not.
        return !text.contains(|c: char| c.is_ascii_digit());
    };
    let decimal = |text: &str| CqlType::Decimal.parse_value(text);
    match (decimal(text), decimal(&format!("{double:e}"))) {
        (Ok(exact), Ok(double)) => CqlType::Decimal.compare(&exact, &double).is_eq(),
        _ => true,
    }
}

/// Encodes a constant as a value of type `ty` for the column, field or argument `receiver`.
///
/// # Errors
/// Cassandra's errors, if the kind does not fit the type or the text is no value of the type.
pub fn value(constant: &Constant, ty: &CqlType, receiver: &str) -> Result<Vec<u8>> {
    interrupt::charge_bytes(constant.text.len())?;
    if matches!(ty, CqlType::Varint | CqlType::Decimal) {
        interrupt::charge(digits_units(constant.text.len()))?;
    }
    let value = constant.kind.to_bytes(&constant.text, ty, receiver);
    value.or_else(|error: TypeError| invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::tests::charged;

    fn constant(kind: ConstantKind, text: &str) -> Constant {
        let text = text.to_owned();
        Constant { kind, text }
    }

    #[test]
    fn a_constant_becomes_the_bytes_of_its_column() {
        let cases: [(ConstantKind, &str, CqlType, &[u8]); 10] = [
            (
                ConstantKind::Integer,
                "-2",
                CqlType::Int,
                &[255, 255, 255, 254],
            ),
            (ConstantKind::Integer, "300", CqlType::Varint, &[1, 44]),
            (
                ConstantKind::Float,
                "1.50",
                CqlType::Decimal,
                &[0, 0, 0, 2, 0, 150],
            ),
            (
                ConstantKind::Integer,
                "7",
                CqlType::Decimal,
                &[0, 0, 0, 0, 7],
            ),
            (ConstantKind::Hex, "0xCAfe", CqlType::Blob, &[0xca, 0xfe]),
            (ConstantKind::Hex, "0x", CqlType::Blob, &[]),
            (
                ConstantKind::String,
                "127.0.0.1",
                CqlType::Inet,
                &[127, 0, 0, 1],
            ),
            (ConstantKind::Boolean, "true", CqlType::Boolean, &[1]),
            (
                ConstantKind::String,
                "1970-01-02",
                CqlType::Date,
                &[128, 0, 0, 1],
            ),
            (
                ConstantKind::String,
                "1970-01-01T00:00:01Z",
                CqlType::Timestamp,
                &[0, 0, 0, 0, 0, 0, 3, 232],
            ),
        ];
        for (kind, text, ty, bytes) in cases {
            assert_eq!(
                value(&constant(kind, text), &ty, "c").unwrap(),
                bytes,
                "{text}"
            );
        }
    }

    /// The expected types are those of Cassandra's `Constants.Type.getPreferedTypeFor`.
    #[test]
    fn a_constant_has_the_smallest_type_that_keeps_its_digits() {
        for (kind, text, ty) in [
            (ConstantKind::Integer, "2147483647", CqlType::Int),
            (ConstantKind::Integer, "2147483648", CqlType::Bigint),
            (
                ConstantKind::Integer,
                "-9223372036854775809",
                CqlType::Varint,
            ),
            (ConstantKind::Float, "1.1", CqlType::Double),
            (ConstantKind::Float, "1.10", CqlType::Double),
            (ConstantKind::Float, "-1e300", CqlType::Double),
            (
                ConstantKind::Float,
                "1.1234567890123456789",
                CqlType::Decimal,
            ),
            (ConstantKind::Float, "1e400", CqlType::Decimal),
            (ConstantKind::Float, "1e-400", CqlType::Decimal),
            (ConstantKind::Float, "NaN", CqlType::Double),
            (ConstantKind::Float, "-Infinity", CqlType::Double),
        ] {
            assert_eq!(own_type(kind, text), Ok(ty), "{text}");
        }
    }

    /// Regression: no limit counted the digits that are parsed to find the type of a constant. The
    /// analysis of an expression finds the types of its first operands again for each operator.
    #[test]
    fn finding_the_type_of_a_constant_is_charged_for_its_digits() {
        let text = format!("1.{}", "1".repeat(10_000));
        let (ty, units) = charged(|| own_type(ConstantKind::Float, &text));
        assert_eq!(ty, Ok(CqlType::Decimal));
        assert_eq!(units, digits_units(text.len()));
    }

    #[test]
    fn a_constant_of_another_kind_gets_cassandras_error() {
        let error = value(&constant(ConstantKind::String, "x"), &CqlType::Int, "c");
        assert_eq!(
            error.unwrap_err().message,
            "Invalid STRING constant (x) for \"c\" of type int"
        );
        let error = value(
            &constant(ConstantKind::Integer, "3000000000"),
            &CqlType::Int,
            "c",
        );
        assert_eq!(
            error.unwrap_err().message,
            "Unable to make int from '3000000000'"
        );
        let error = value(&constant(ConstantKind::Hex, "0xabc"), &CqlType::Blob, "c");
        assert_eq!(
            error.unwrap_err().message,
            "cannot parse 'abc' as hex bytes"
        );
    }
}
