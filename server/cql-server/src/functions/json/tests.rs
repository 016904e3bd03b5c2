use std::sync::Arc;

use ebb_test_support::cases::parse_cases;

use super::*;

/// Returns a value as JSON.
fn json(ty: &CqlType, bytes: &[u8]) -> String {
    let mut out = String::new();
    value(ty, Some(bytes), &mut out, TEXT_BYTES_MAX).unwrap();
    out
}

/// Returns the JSON of a value, given as a CQL constant.
fn json_of(ty: &str, constant: &str) -> String {
    let ty = CqlType::native(ty).unwrap();
    json(&ty, &ty.parse_value(constant).unwrap())
}

#[test]
fn values_have_the_json_of_cassandra() {
    let cases = r#"
        double => 1e10 => 1.0E10 => Double.toString
        double => 0.00025 => 2.5E-4 => Double.toString
        double => -0.0 => -0.0 => Double.toString
        double => NaN => null => DoubleType
        double => -Infinity => null => DoubleType
        float => 12345678 => 1.2345678E7 => Float.toString
        float => 0.1 => 0.1 => Float.toString
        float => Infinity => null => FloatType
        decimal => 1e10 => 1E+10 => BigDecimal.toString
        decimal => -12.5e10 => -1.25E+11 => BigDecimal.toString
        decimal => 0.0000001 => 1E-7 => BigDecimal.toString
        decimal => 1.50 => 1.50 => BigDecimal.toString
        decimal => 1e1000000000 => 1E+1000000000 => BigDecimal.toString
        varint => -36893488147419103237 => -36893488147419103237 => BigInteger.toString
        tinyint => -128 => -128 => Byte.toString
        bigint => 7 => 7 => Long.toString
        boolean => true => true => Boolean.toString
        inet => 2001:db8::1 => "2001:db8:0:0:0:0:0:1" => getHostAddress
        inet => ::1 => "0:0:0:0:0:0:0:1" => getHostAddress
        inet => 127.0.0.1 => "127.0.0.1" => getHostAddress
        date => +10000-01-01 => "+10000-01-01" => ISO_LOCAL_DATE
        date => -0044-03-15 => "-0044-03-15" => ISO_LOCAL_DATE
        date => 2024-02-29 => "2024-02-29" => ISO_LOCAL_DATE
        time => 01:02:03.5 => "01:02:03.500000000" => TimeSerializer
        timestamp => 2015-05-21T11:03:02Z => "2015-05-21 11:03:02.000Z" => SimpleDateFormat
        timestamp => -1 => "1969-12-31 23:59:59.999Z" => SimpleDateFormat
        timestamp => 1582-10-14 => "1582-10-04 00:00:00.000Z" => GregorianCalendar
        duration => 1y3mo2d4h => "1y3mo2d4h" => Duration.toString
        duration => -90s => "-1m30s" => Duration.toString
        duration => 0s => "" => Duration.toString
        blob => 00CAFE => "0x00cafe" => bytesToHex
    "#;
    let others = [
        ["blob", "", "\"0x\"", "bytesToHex"],
        ["text", "", "\"\"", "UTF8Type"],
        [
            "text",
            "a\"\\/\u{7f}é",
            "\"a\\\"\\\\/\u{7f}é\"",
            "quoteAsJsonString",
        ],
        [
            "text",
            "\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f}",
            r#""\u0000\b\t\n\u000B\f\r\u001F""#,
            "quoteAsJsonString",
        ],
    ];
    for [ty, constant, expected, java] in parse_cases(cases).into_iter().chain(others) {
        assert_eq!(
            json_of(ty, constant),
            expected,
            "{constant} of {ty}: {java}"
        );
    }
}

#[test]
fn empty_values_are_empty_texts() {
    for ty in [
        "int",
        "bigint",
        "double",
        "float",
        "decimal",
        "varint",
        "timestamp",
        "uuid",
        "timeuuid",
        "inet",
    ] {
        let ty = CqlType::native(ty).unwrap();
        assert_eq!(json(&ty, b""), "\"\"", "{ty}");
    }
}

#[test]
fn keys_of_maps_are_the_texts_of_their_values() {
    for (key, constant, expected) in [
        ("double", "1e10", r#"{"1.0E10": 1}"#),
        ("double", "NaN", r#"{"null": 1}"#),
        ("blob", "CAFE", r#"{"0xcafe": 1}"#),
        ("boolean", "true", r#"{"true": 1}"#),
        ("inet", "::1", r#"{"0:0:0:0:0:0:0:1": 1}"#),
        ("text", "a\"b", r#"{"a\"b": 1}"#),
    ] {
        let key = CqlType::native(key).unwrap();
        let bytes = key.parse_value(constant).unwrap();
        let map = elements::build_map([(&bytes[..], &[0, 0, 0, 1][..])]);
        let ty = CqlType::Map {
            key: Arc::new(key),
            value: Arc::new(CqlType::Int),
            frozen: true,
        };
        assert_eq!(json(&ty, &map), expected);
    }
}

/// Returns a map whose key is a map, and so on over `levels` levels: its type, and a value.
fn nested(levels: usize) -> (CqlType, Vec<u8>) {
    let mut ty = CqlType::Text;
    let mut value = b"a".to_vec();
    for _ in 0..levels {
        value = elements::build_map([(&value[..], &[0, 0, 0, 1][..])]);
        ty = CqlType::Map {
            key: Arc::new(ty),
            value: Arc::new(CqlType::Int),
            frozen: true,
        };
    }
    (ty, value)
}

/// Regression: a value of less than a kilobyte was written as a terabyte of backslashes, and the
/// server ran out of memory and was aborted.
#[test]
fn nested_map_keys_are_rejected_if_their_text_is_too_long() {
    let (ty, bytes) = nested(3);
    let mut out = String::new();
    value(&ty, Some(&bytes), &mut out, TEXT_BYTES_MAX).unwrap();
    assert_eq!(out, r#"{"{\"{\\\"a\\\": 1}\": 1}": 1}"#);
    for levels in [20, 40] {
        let (ty, bytes) = nested(levels);
        let refused = value(&ty, Some(&bytes), &mut String::new(), 10_000);
        assert_eq!(refused, Err(result_too_large(10_000)), "{levels}");
    }
}

#[test]
fn the_length_of_a_quoted_text_is_computed_before_it_is_written() {
    let all: String = (0..=0xff_u8).map(char::from).collect();
    let mut out = String::new();
    string(&all, &mut out, TEXT_BYTES_MAX).unwrap();
    let mut same = String::new();
    assert_eq!(string(&all, &mut same, out.len()), Ok(()));
    let mut shorter = String::new();
    assert!(string(&all, &mut shorter, out.len() - 1).is_err());
    assert_eq!((same, shorter), (out, String::new()));
}
