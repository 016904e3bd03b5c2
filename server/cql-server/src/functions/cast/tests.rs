//! Results of casts, each with the Java method that Cassandra 4.1's `CastFcts` calls.

use ebb_model::types::CqlType;
use ebb_test_support::cases::parse_cases;

use super::{cast, printed};
use crate::functions::Conditions;

fn ty(name: &str) -> CqlType {
    CqlType::native(name).unwrap()
}

/// Casts a value. The error is the message of a failed cast.
fn cast_bytes(from: &str, value: &[u8], to: &str) -> Result<Option<Vec<u8>>, String> {
    let function = cast(&ty(from), &ty(to)).unwrap().unwrap();
    let given = function.call(&[Some(value)], Conditions::at(0));
    given.map_err(|error| error.message)
}

/// Casts a value in text form. Returns the result as text, "none" for null, or the error message.
fn cast_text(from: &str, value: &str, to: &str) -> String {
    let value = ty(from).parse_value(value).unwrap();
    match cast_bytes(from, &value, to) {
        Ok(Some(result)) if matches!(to, "text" | "ascii") => String::from_utf8(result).unwrap(),
        Ok(Some(result)) => printed::text(&ty(to), &result).unwrap(),
        Ok(None) => "none".to_owned(),
        Err(message) => message,
    }
}

#[test]
fn numbers_are_converted_as_java_converts_them() {
    // The varint 36893488147419103237 is 2^65 + 5.
    let cases = "
        double => NaN => int => 0 => Double.intValue
        double => Infinity => int => 2147483647 => Double.intValue
        double => -Infinity => int => -2147483648 => Double.intValue
        double => 1e300 => int => 2147483647 => Double.intValue
        double => -2.9 => int => -2 => Double.intValue
        // Java casts to an int first, which saturates, and then drops the high bits.
        double => 5e9 => tinyint => -1 => Double.byteValue
        double => -5e9 => smallint => 0 => Double.shortValue
        double => 300 => tinyint => 44 => Double.byteValue
        float => 5e9 => smallint => -1 => Float.shortValue
        double => NaN => bigint => 0 => Double.longValue
        double => 1e300 => bigint => 9223372036854775807 => Double.longValue
        double => -1e300 => varint => -9223372036854775808 => BigInteger.valueOf
        double => NaN => varint => 0 => BigInteger.valueOf
        double => 1e39 => float => Infinity => Double.floatValue
        bigint => 4294967297 => int => 1 => Long.intValue
        // 2^53 + 2^29 + 1, just above the middle of two floats. By way of a double, which drops the
        // 1, the result would be the lower float.
        bigint => 9007199791611905 => float => 9.0072E15 => Long.floatValue
        varint => 36893488147419103237 => bigint => 5 => BigInteger.longValue
        varint => 36893488147419103237 => int => 5 => BigInteger.intValue
        varint => -36893488147419103237 => bigint => -5 => BigInteger.longValue
        varint => 9223372036854775808 => bigint => -9223372036854775808 => longValue
        varint => -129 => tinyint => 127 => BigInteger.byteValue
        varint => 36893488147419103237 => double => 3.6893488147419103E19 => BigInteger.doubleValue
        varint => 36893488147419103237 => decimal => 36893488147419103237 => new BigDecimal
        decimal => 36893488147419103237.9 => bigint => 5 => BigDecimal.longValue
        decimal => 36893488147419103237.9 => varint => 5 => BigInteger.valueOf
        decimal => -2.999 => int => -2 => BigDecimal.intValue
        // The lower 64 bits are left. This is an odd multiple of 2^63, and the lower 64 bits of larger
        // powers of ten are 0.
        decimal => 1e63 => bigint => -9223372036854775808 => BigDecimal.longValue
        decimal => 3e2 => int => 300 => BigDecimal.intValue
        decimal => 1e1000000000 => bigint => 0 => BigDecimal.longValue
        decimal => 1e-1000000000 => int => 0 => BigDecimal.intValue
        decimal => 1e1000000000 => double => Infinity => BigDecimal.doubleValue
        decimal => -1e1000000000 => float => -Infinity => BigDecimal.floatValue
        decimal => 1e-1000000000 => double => 0.0 => BigDecimal.doubleValue
        // Just above the middle of two floats: a double would drop the last digit.
        decimal => 16777217.0000000001 => float => 1.6777218E7 => BigDecimal.floatValue
        int => 7 => decimal => 7 => BigDecimal.valueOf(long)
        double => 1 => decimal => 1.0 => BigDecimal.valueOf(double)
        double => 1e10 => decimal => 1.0E+10 => BigDecimal.valueOf(double)
        double => 1e300 => decimal => 1.0E+300 => BigDecimal.valueOf(double)
        float => 0.1 => decimal => 0.10000000149011612 => BigDecimal.valueOf(double)
    ";
    for [from, value, to, expected, java] in parse_cases(cases) {
        let given = cast_text(from, value, to);
        assert_eq!(given, expected, "{value} of {from} to {to}: {java}");
    }
}

#[test]
fn numbers_that_are_not_finite_do_not_convert_to_decimals() {
    for (value, what) in [
        ("NaN", "A NaN"),
        ("Infinity", "An infinite number"),
        ("-Infinity", "An infinite number"),
    ] {
        let expected = format!("{what} cannot be converted into a decimal");
        assert_eq!(cast_text("double", value, "decimal"), expected);
        assert_eq!(cast_text("float", value, "decimal"), expected);
    }
}

#[test]
fn values_are_printed_as_java_prints_them() {
    let cases = "
        double => 0 => 0.0 => Double.toString
        double => -0.0 => -0.0 => Double.toString
        double => 100 => 100.0 => Double.toString
        double => 9999999 => 9999999.0 => Double.toString
        double => 1e7 => 1.0E7 => Double.toString
        double => 12345678.5 => 1.23456785E7 => Double.toString
        double => 0.001 => 0.001 => Double.toString
        double => 0.00025 => 2.5E-4 => Double.toString
        double => -1.5e300 => -1.5E300 => Double.toString
        double => 4.9e-324 => 4.9E-324 => Double.toString
        double => 2e-323 => 2.0E-323 => Double.toString
        double => NaN => NaN => Double.toString
        double => -Infinity => -Infinity => Double.toString
        float => 3.4028235e38 => 3.4028235E38 => Float.toString
        float => 0.1 => 0.1 => Float.toString
        float => 1.4e-45 => 1.4E-45 => Float.toString
        decimal => 1.50 => 1.50 => BigDecimal.toString
        decimal => 0.00 => 0.00 => BigDecimal.toString
        decimal => 1e3 => 1E+3 => BigDecimal.toString
        decimal => -12.5e10 => -1.25E+11 => BigDecimal.toString
        decimal => 0.000001 => 0.000001 => BigDecimal.toString
        decimal => 0.0000001 => 1E-7 => BigDecimal.toString
        decimal => 1e-1000000000 => 1E-1000000000 => BigDecimal.toString
        varint => -123456789012345678901 => -123456789012345678901 => toString
        boolean => true => true => Boolean.toString
        inet => 127.0.0.1 => 127.0.0.1 => getHostAddress
        inet => 2001:db8::1 => 2001:db8:0:0:0:0:0:1 => getHostAddress
        inet => ::ffff:10.0.0.1 => 10.0.0.1 => getHostAddress
        date => 2015-05-21 => 2015-05-21 => ISO_LOCAL_DATE
        date => +10000-01-01 => +10000-01-01 => ISO_LOCAL_DATE
        date => -0044-03-15 => -0044-03-15 => ISO_LOCAL_DATE
        time => 01:02:03.5 => 01:02:03.500000000 => TimeSerializer
        timestamp => 2015-05-21T11:03:02Z => 2015-05-21T11:03:02.000Z => SimpleDateFormat
        timestamp => -1 => 1969-12-31T23:59:59.999Z => SimpleDateFormat
        timestamp => 1582-10-15 => 1582-10-15T00:00:00.000Z => GregorianCalendar
        timestamp => 1582-10-14 => 1582-10-04T00:00:00.000Z => GregorianCalendar
        timestamp => 0001-01-01 => 0001-01-03T00:00:00.000Z => GregorianCalendar
        timestamp => -0043-03-13 => 0044-03-15T00:00:00.000Z => GregorianCalendar
    ";
    for [from, value, expected, java] in parse_cases(cases) {
        let given = cast_text(from, value, "text");
        assert_eq!(given, expected, "{value} of {from}: {java}");
        assert_eq!(
            cast_text(from, value, "ascii"),
            expected,
            "{value} of {from}: {java}"
        );
    }
}

/// In a cast to text, an empty value becomes `null`, as by Cassandra's `toCQLLiteral`. A cast to a
/// number returns null; Cassandra's cast fails on a null pointer.
#[test]
fn an_empty_value_is_printed_as_null_and_is_no_number() {
    for from in [
        "int",
        "double",
        "decimal",
        "varint",
        "timestamp",
        "inet",
        "uuid",
    ] {
        let text = cast_bytes(from, b"", "text");
        assert_eq!(text, Ok(Some(b"null".to_vec())), "{from}");
    }
    assert_eq!(cast_bytes("ascii", b"", "text"), Ok(Some(Vec::new())));
    assert_eq!(cast_bytes("int", b"", "bigint"), Ok(None));
}

#[test]
fn numbers_with_too_many_digits_are_rejected() {
    let long = "9".repeat(100_001);
    for (from, to) in [
        ("varint", "text"),
        ("decimal", "text"),
        ("decimal", "double"),
    ] {
        // The number has more digits than a statement may write out.
        let mut value = vec![0x7f; 50_000];
        if from == "decimal" {
            value.splice(0..0, [0, 0, 0, 1]);
        }
        let given = cast_bytes(from, &value, to);
        assert_eq!(
            given,
            Err("a number has more than 100000 digits".to_owned()),
            "{from} to {to}"
        );
    }
    assert!(ty("varint").parse_value(&long).is_err());
}

#[test]
fn missing_casts_get_cassandras_error() {
    let refused = |from: &str, to: &str| cast(&ty(from), &ty(to)).unwrap_err().message;
    assert_eq!(
        refused("int", "date"),
        "Invalid call to function system.castAsDate, none of its type signatures match (known type \
         signatures: system.castAsDate : (timeuuid) -> date, system.castAsDate : (timestamp) -> \
         date)"
    );
    // `ascii` cannot hold a text with other characters.
    assert!(refused("text", "ascii").starts_with("Invalid call to function system.castAsAscii"));
    assert!(refused("text", "int").starts_with("Invalid call to function system.castAsInt"));
    for to in ["blob", "boolean", "duration", "counter", "uuid"] {
        assert!(cast(&ty("int"), &ty(to)).unwrap().is_none(), "{to}");
    }
}
