use ebb_test_support::cases::parse_cases;

use super::{generate, ordered_types, parse, with_rng};
use crate::types::CqlType;
use crate::types::elements::{build, build_map, build_tuple};
use crate::types::literal::{ConstantKind as Constant, Duration};
use crate::types::number::{DIGITS_BYTES_MAX, digits_bytes};

fn bytes(ty: &str, text: &str) -> Vec<u8> {
    parse(ty).parse_value(text).unwrap()
}

fn timestamp(text: &str) -> i64 {
    i64::from_be_bytes(bytes("timestamp", text).try_into().unwrap())
}

#[test]
fn timestamps_are_read_as_cassandra_reads_them() {
    for (text, ms) in [
        ("1970-01-01", 0),
        ("-5", -5),
        ("2024-02-29 12:30", 1_709_209_800_000),
        ("2024-02-29T12:30:15", 1_709_209_815_000),
        ("2024-02-29 12:30:15.123", 1_709_209_815_123),
        ("2024-02-29 12:30:15.123456Z", 1_709_209_815_123),
        ("2024-02-29T12:30:15.123+0200", 1_709_202_615_123),
        ("2024-02-29T12:30:15.123-02:00", 1_709_217_015_123),
        ("2024-02-29 12:30:15 UTC", 1_709_209_815_000),
        ("2024-02-29+01", 1_709_161_200_000),
        ("1969-12-31 23:59:59.999", -1),
        ("0001-01-01", -62_135_596_800_000),
        // Java's formatters are "smart": a day that the month lacks becomes its last day, and 24:00
        // is the end of the day.
        ("2023-02-29", 1_677_542_400_000),
        ("2023-02-31T00:00", 1_677_542_400_000),
        ("2024-02-29 24:00", 1_709_251_200_000),
        // With a time of day, each part of the date may have any number of digits.
        ("2024-2-29T1:2:3.", 1_709_168_523_000),
        ("12024-02-29T00:00Z", 317_278_684_800_000),
        ("+12024-02-29", 317_278_684_800_000),
    ] {
        assert_eq!(timestamp(text), ms, "{text}");
    }
    for text in [
        "2023-02-32",
        "2024-13-01",
        "2024-00-01",
        "2024-01-00",
        "2024-1-1",
        "12024-02-29",
        "0000-01-01T00:00",
        "2024-01-01 24:01",
        "2024-01-01 9999999:00",
        "2024-01-01T",
        "2024-01-01 1:2:3x",
        "now",
        "99999999999999999999",
        "2024-01-01 00:00+2",
        "24-01-01",
    ] {
        assert!(parse("timestamp").parse_value(text).is_err(), "{text}");
    }
    assert_eq!(
        parse("timestamp").parse_value("x").unwrap_err().to_string(),
        "Unable to parse a date/time from 'x'"
    );
}

#[test]
fn dates_and_times_reach_the_ends_of_their_types() {
    assert_eq!(bytes("date", "1970-01-01"), [0x80, 0, 0, 0]);
    assert_eq!(bytes("date", "2147483648"), [0x80, 0, 0, 0]);
    assert_eq!(bytes("date", "-5877641-06-23"), [0, 0, 0, 0]);
    assert_eq!(bytes("date", "+5881580-07-11"), [0xff; 4]);
    let cases = "
        +5881580-07-12
        => Input date +5881580-07-12 is greater than max supported date +5881580-07-11T00:00Z
        -5877641-06-22
        => Input date -5877641-06-22 is less than min supported date -5877641-06-23T00:00Z
        4294967296 => Unable to make unsigned int (for date) from: '4294967296'
        -1 => Unable to make unsigned int (for date) from: '-1'
        1970-1 => Unable to coerce '1970-1' to a formatted date (long)
        // Unlike a timestamp, a date must be in the form of ISO 8601.
        1970-1-1 => Unable to coerce '1970-1-1' to a formatted date (long)
        1970-02-30 => Unable to coerce '1970-02-30' to a formatted date (long)
        +1970-01-01 => Unable to coerce '+1970-01-01' to a formatted date (long)
        11970-01-01 => Unable to coerce '11970-01-01' to a formatted date (long)
        -0000-01-01 => Unable to coerce '-0000-01-01' to a formatted date (long)
        +999999999-01-01 => Unable to coerce '+999999999-01-01' to a formatted date (long)
    ";
    let empty = ["", "Unable to coerce '' to a formatted date (long)"];
    for [text, message] in parse_cases(cases).into_iter().chain([empty]) {
        let error = parse("date").parse_value(text).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let time = |text| i64::from_be_bytes(bytes("time", text).try_into().unwrap());
    assert_eq!(time("23:59:59.999999999"), 86_399_999_999_999);
    assert_eq!(time("01:02:03.5"), 3_723_500_000_000);
    assert_eq!(time("86399999999999"), 86_399_999_999_999);
    assert_eq!(time(" 1:2:3 "), 3_723_000_000_000);
    for text in ["86400000000000", "-1"] {
        let error = parse("time").parse_value(text).unwrap_err();
        let message = format!("Unable to make long (for time) from: '{text}'");
        assert_eq!(error.to_string(), message);
    }
    for text in [
        "24:00:00",
        "1:2",
        "01:02:03.",
        "01:02:03.1234567890",
        "1:-2:3",
        "",
        "1:2:3:4",
    ] {
        let error = parse("time").parse_value(text).unwrap_err();
        let message = format!("(TimeType) Unable to coerce '{text}' to a formatted time (long)");
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn floats_and_addresses_are_read_as_java_reads_them() {
    let double = |text| f64::from_be_bytes(bytes("double", text).try_into().unwrap());
    for (text, value) in [
        ("1.", 1.0),
        ("-.5e1", -5.0),
        ("+2.5f", 2.5),
        (" 1e400 ", f64::INFINITY),
        ("-Infinity", f64::NEG_INFINITY),
    ] {
        assert_eq!(double(text), value, "{text}");
    }
    assert_eq!(bytes("double", "-NaN"), f64::NAN.to_be_bytes());
    assert_eq!(bytes("float", "1e39"), f32::INFINITY.to_be_bytes());
    for text in [
        "nan", "inf", "infinity", "-inf", "1_0", "e5", "0x1p3", "+-1", ".",
    ] {
        for ty in ["float", "double"] {
            let error = parse(ty).parse_value(text).unwrap_err().to_string();
            assert_eq!(error, format!("Unable to make {ty} from '{text}'"));
        }
    }
    for (text, address) in [
        ("1.2.3.4", [1_u8, 2, 3, 4]),
        ("127.1", [127, 0, 0, 1]),
        ("10.1.513", [10, 1, 2, 1]),
        ("2130706433", [127, 0, 0, 1]),
        ("192.168.000.010", [192, 168, 0, 10]),
        ("::ffff:10.0.0.1", [10, 0, 0, 1]),
    ] {
        assert_eq!(bytes("inet", text), address, "{text}");
    }
    assert_eq!(bytes("inet", "[::1]"), bytes("inet", "::1"));
    for text in [
        "1.2.3.4.5",
        "1.2.3.256",
        "256.1",
        "4294967296",
        "1..2",
        "localhost",
        "1.2.3.",
        "::g",
    ] {
        let error = parse("inet").parse_value(text).unwrap_err().to_string();
        assert_eq!(error, format!("Unable to make inet address from '{text}'"));
    }
}

#[test]
fn durations_are_read_in_all_their_forms() {
    let of = |months, days, nanos| Duration {
        months,
        days,
        nanos,
    };
    for (text, duration) in [
        ("1y2mo3w", of(14, 21, 0)),
        ("-12H30m", of(0, 0, -45_000_000_000_000)),
        ("1d2ms3us4ns", of(0, 1, 2_003_004)),
        ("5\u{b5}s", of(0, 0, 5000)),
        ("P1Y2M3DT4H5M6S", of(14, 3, 14_706_000_000_000)),
        ("-P3W", of(0, -21, 0)),
        ("P0001-02-03T04:05:06", of(14, 3, 14_706_000_000_000)),
        ("PT1M", of(0, 0, 60_000_000_000)),
    ] {
        assert_eq!(Duration::parse(text), Ok(duration), "{text}");
        assert_eq!(Duration::parse(&duration.to_string()), Ok(duration));
        assert_eq!(Duration::from_bytes(&duration.to_bytes()), Some(duration));
    }
    let cases = "
        1x => Unable to convert '1x' to a duration
        1h1h => Invalid duration. The hours are specified multiple times
        1h1d => Invalid duration. The hours should be after days
        178956971y
        => Invalid duration. The total number of months must be less or equal to 2147483647
        // Cassandra's message has the same number for all limits.
        2562048h
        => Invalid duration. The total number of nanoseconds must be less or equal to 2147483647
        P1D1Y => Unable to convert 'P1D1Y' to a duration
        1 => Unable to convert '1' to a duration
    ";
    let empty = ["", "Unable to convert '' to a duration"];
    for [text, message] in parse_cases(cases).into_iter().chain([empty]) {
        assert_eq!(Duration::parse(text).unwrap_err().to_string(), message);
    }
    assert_eq!(of(-14, -1, -1).to_string(), "-1y2mo1d1ns");
    // The least value has no positive counterpart.
    assert!(
        of(i32::MIN, i32::MIN, i64::MIN)
            .to_string()
            .starts_with('-')
    );
}

#[test]
fn constants_fit_a_type_or_are_refused_in_cassandras_words() {
    let make = |kind: Constant, text: &str, ty: &str| kind.to_bytes(text, &parse(ty), "v");
    assert_eq!(make(Constant::Integer, "-2", "tinyint").unwrap(), [0xfe]);
    assert_eq!(make(Constant::Hex, "0xCAfe", "blob").unwrap(), [0xca, 0xfe]);
    assert_eq!(
        make(Constant::Integer, "1", "double").unwrap(),
        1f64.to_be_bytes()
    );
    assert_eq!(
        make(Constant::Float, "NaN", "float").unwrap(),
        f32::NAN.to_be_bytes()
    );
    assert_eq!(
        make(Constant::Float, "-1.50e-3", "decimal").unwrap(),
        [0, 0, 0, 5, 0xff, 0x6a]
    );
    assert_eq!(
        make(Constant::Float, "1E2000000000", "decimal").unwrap(),
        [0x88, 0xca, 0x6c, 0, 1]
    );
    assert_eq!(make(Constant::Integer, "128", "varint").unwrap(), [0, 0x80]);
    assert_eq!(
        make(Constant::String, "::ffff:10.0.0.1", "inet").unwrap(),
        [10, 0, 0, 1]
    );
    assert_eq!(make(Constant::String, "", "text").unwrap(), b"");
    let tuple = |text| make(Constant::String, text, "tuple<int, text>").unwrap();
    assert_eq!(tuple("1:a"), b"\0\0\0\x04\0\0\0\x01\0\0\0\x01a");
    assert_eq!(tuple("@:b\\:\\@"), b"\xff\xff\xff\xff\0\0\0\x03b:@");
    assert_eq!(tuple("1"), b"\0\0\0\x04\0\0\0\x01");
    let cases = "
        String => 1:a:b => tuple<int, text>
        => Invalid tuple literal: too many elements. Type frozen<tuple<int, text>> expects 2 \
           but got 3
        String => abc => int => Invalid STRING constant (abc) for \"v\" of type int
        Integer => 1 => list<int> => Invalid INTEGER constant (1) for \"v\" of type list<int>
        Integer => 128 => tinyint => Unable to make byte from '128'
        Integer => 2147483648 => int => Unable to make int from '2147483648'
        Hex => 0xabc => blob => cannot parse 'abc' as hex bytes
        String => é => ascii => Invalid ASCII character in string literal
        Uuid => 00000000-0000-4000-8000-000000000000 => timeuuid
        => TimeUUID supports only version 1 UUIDs
        Float => 1e99999999999 => decimal => unable to make BigDecimal from '1e99999999999'
        Float => NaN => decimal => unable to make BigDecimal from 'NaN'
        Uuid => x => timeuuid => Unknown timeuuid representation: x
    ";
    for [kind, text, ty, message] in parse_cases(cases) {
        let kind = match kind {
            "String" => Constant::String,
            "Integer" => Constant::Integer,
            "Float" => Constant::Float,
            "Hex" => Constant::Hex,
            "Uuid" => Constant::Uuid,
            _ => panic!("{kind}"),
        };
        assert_eq!(make(kind, text, ty).unwrap_err().to_string(), message);
    }
}

#[test]
fn numbers_with_too_many_digits_to_parse_print_as_bytes() {
    let long = vec![1; DIGITS_BYTES_MAX + 1];
    let varint = CqlType::Varint.literal(&long);
    assert!(varint.starts_with("0x0101"), "{}", &varint[..20]);
    let decimal = CqlType::Decimal.literal(&[&[0; 4], &long[..]].concat());
    assert!(decimal.starts_with("0x0000"), "{}", &decimal[..20]);
    // Redundant sign bytes do not count.
    let seven = [vec![0; DIGITS_BYTES_MAX + 1], vec![7]].concat();
    assert_eq!(CqlType::Varint.literal(&seven), "7");
}

#[test]
fn values_print_as_literals() {
    let one = [0, 0, 0, 1];
    for (ty, value, text) in [
        ("text", b"it's".to_vec(), "'it''s'"),
        ("int", Vec::new(), "blobasint(0x)"),
        ("blob", vec![0, 0xff], "0x00ff"),
        ("decimal", vec![0, 0, 0, 2, 0xff], "-0.01"),
        ("decimal", vec![0, 0, 0, 1, 10], "1.0"),
        ("decimal", vec![0x80, 0, 0, 0, 1], "1E2147483648"),
        ("double", 1e300f64.to_be_bytes().to_vec(), "1e300"),
        (
            "double",
            f64::NEG_INFINITY.to_be_bytes().to_vec(),
            "-Infinity",
        ),
        ("date", vec![0x80, 0, 0, 0], "'1970-01-01'"),
        ("time", 1i64.to_be_bytes().to_vec(), "'00:00:00.000000001'"),
        (
            "timestamp",
            (-1i64).to_be_bytes().to_vec(),
            "'1969-12-31 23:59:59.999+0000'",
        ),
        ("inet", vec![127, 0, 0, 1], "'127.0.0.1'"),
        ("duration", vec![2, 0, 0], "1mo"),
        ("list<int>", build([&one[..]]), "[1]"),
        (
            "map<text, int>",
            build_map([(&b"a"[..], &one[..])]),
            "{'a': 1}",
        ),
        (
            "tuple<int, int>",
            build_tuple([Some(&one[..])]),
            "(1, null)",
        ),
        (
            "address",
            build_tuple([Some(&b"x"[..]), Some(&one[..])]),
            "{street: 'x', \"Number\": 1, phones: null}",
        ),
        ("int", vec![1], "0x01"),
    ] {
        assert_eq!(parse(ty).literal(&value), text);
    }
}

#[test]
fn a_text_is_the_literal_without_quotes_and_is_read_back() {
    for (ty, text) in [
        ("text", "it's \"so\""),
        ("int", "-5"),
        ("int", ""),
        ("decimal", "-0.01"),
        ("boolean", "true"),
        ("uuid", "00000000-0000-4000-8000-000000000000"),
        ("inet", "::1"),
        ("date", "1970-01-01"),
        ("time", "00:00:00.000000001"),
        ("timestamp", "1969-12-31 23:59:59.999+0000"),
        ("duration", "1mo2d"),
    ] {
        let ty = parse(ty);
        let mut text_bytes = b"x".to_vec();
        ty.write_text(&ty.parse_value(text).unwrap(), &mut text_bytes);
        assert_eq!(String::from_utf8(text_bytes).unwrap(), format!("x{text}"));
    }
    let mut text_bytes = Vec::new();
    parse("blob").write_text(&[0, 0xff], &mut text_bytes);
    parse("set<text>").write_text(&build([&b"a"[..]]), &mut text_bytes);
    assert_eq!(String::from_utf8(text_bytes).unwrap(), "0x00ff{'a'}");
}

/// Regression: nothing could end the printing of a collection with thousands of long numbers.
#[test]
fn printing_is_charged_for_each_number_and_ends_with_the_error_of_a_charge() {
    let number = [&[0; 4][..], &[7; 1000]].concat();
    let list = build([&number[..], &number, &number]);
    let map = build_map([(&b"\0\0\0\x01"[..], &list[..])]);
    let tuple = build_tuple([Some(&map[..]), None]);
    let ty = parse("tuple<map<int, frozen<list<decimal>>>, int>");
    for charges_max in 0..4 {
        let (mut charges, mut text) = (0, Vec::new());
        let printed = ty.try_write_text(&tuple, &mut text, &mut |bytes| {
            assert_eq!(bytes, digits_bytes(number.len()));
            charges += 1;
            if charges > charges_max {
                Err("given up")
            } else {
                Ok(())
            }
        });
        let expected = if charges_max < 3 {
            assert_eq!(printed, Err("given up"));
            String::new()
        } else {
            assert_eq!(printed, Ok(()));
            ty.literal(&tuple)
        };
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}

/// For each native type but `duration` and `counter`, the literal of a value parses to an equal
/// value.
#[test]
fn a_literal_is_read_back_to_the_value() {
    with_rng("a_literal_is_read_back_to_the_value", |mut rng| {
        for ty in ordered_types() {
            for _ in 0..1000 {
                let value = generate::value(&ty, &mut rng);
                let literal = ty.literal(&value);
                if !ty.is_native() || literal.starts_with("blobas") {
                    continue;
                }
                let text = match ty {
                    CqlType::Blob => literal[2..].to_owned(),
                    _ => literal.trim_matches('\'').replace("''", "'"),
                };
                // An invalid `time` prints as its number, which the parser rejects.
                if ty == CqlType::Time && ty.parse_value(&text).is_err() {
                    assert!(
                        text.parse::<i64>()
                            .is_ok_and(|n| !(0..86_400_000_000_000).contains(&n))
                    );
                    continue;
                }
                let back = ty
                    .parse_value(&text)
                    .unwrap_or_else(|e| panic!("{ty} {literal}: {e}"));
                // Java parses an IPv4-mapped IPv6 address as an IPv4 address.
                let wrapped = ty == CqlType::Inet && value.starts_with(&[0; 10]);
                assert!(
                    wrapped || ty.compare(&back, &value).is_eq(),
                    "{ty} {literal} {value:x?}"
                );
            }
        }
    });
}

#[test]
fn literals_of_any_type_are_read_as_they_are_written() {
    with_rng(
        "literals_of_any_type_are_read_as_they_are_written",
        |mut rng| {
            let types = [
                "list<int>",
                "set<text>",
                "map<inet, double>",
                "map<text, frozen<set<varint>>>",
                "tuple<int, text, blob, boolean, date, duration>",
                "list<frozen<tuple<uuid, decimal>>>",
                "address",
            ];
            for ty in types.map(parse) {
                for _ in 0..500 {
                    let literal = ty.literal(&generate::value(&ty, &mut rng));
                    let read = ty.parse_literal(&literal);
                    let read = read.unwrap_or_else(|error| panic!("{ty}: {literal}: {error}"));
                    assert_eq!(ty.literal(&read), literal, "{ty}");
                }
            }
        },
    );
}

#[test]
fn json_is_read_as_values_of_any_type() {
    let cases = r#"
        list<text> => ["it's", "\u00e9\n\""] => ['it''s', 'é@"']
        set<int> => [3, 1,3] => {1, 3}
        map<text, int> => { "b" : 2 , "a":1 } => {'a': 1, 'b': 2}
        map<int, boolean> => {"7": true} => {7: true}
        tuple<int, date> => [null, "2024-02-29"] => (null, '2024-02-29')
        address => {"Number": 5, "phones": ["1"]}
        => {street: null, "Number": 5, phones: {'1'}}
        list<blob> => ["0xca03"] => [0xca03]
        list<int> => [] => []
    "#;
    for [ty, json, literal] in parse_cases(cases) {
        // `@` stands for the end of a line, and JSON may have spaces around it.
        let (json, literal) = (format!(" {json} "), literal.replace('@', "\n"));
        let ty = parse(ty);
        assert_eq!(ty.literal(&ty.parse_literal(&json).unwrap()), literal);
    }
}

#[test]
fn an_invalid_literal_is_refused_with_its_place() {
    let cases = r#"
        list<int> => 1, 2 => expected '[' at "1, 2"
        list<int> => [1, 2 => expected ',', and it ends
        list<int> => [1] 2 => expected the end at "2"
        list<int> => [1, null] => null is not supported inside collections
        list<int> => [1, x] => Unable to make int from 'x'
        list<int> => null => null is no value
        set<text> => {a} => expected a text in quotes at "a}"
        set<text> => {'a} => expected a text in quotes at "'a}"
        set<text> => ["a] => expected a text in quotes at ""a]"
        map<int, int> => {1, 2} => expected ':' at ", 2}"
        tuple<int> => (1, 2) => expected no more parts of a tuple at "2)"
        address => {city: 'x'} => user-defined type address has no field city
    "#;
    for [ty, text, problem] in parse_cases(cases) {
        let error = parse(ty).parse_literal(text).unwrap_err().to_string();
        assert_eq!(error, problem, "{ty}: {text}");
    }
}
