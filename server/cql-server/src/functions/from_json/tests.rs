//! Values from JSON, and the error messages of `fromJSONObject` of Cassandra 4.1's types.

use std::sync::Arc;

use ebb_cql::protocol::Consistency;
use ebb_model::types::UserType;
use ebb_test_support::cases::parse_cases;

use super::*;
use crate::interrupt::tests::{cancelled, charged};
use crate::interrupt::{TimeOut, UNITS_PER_LOOK};
use crate::memory::BYTES_MAX;

fn native(name: &str) -> CqlType {
    CqlType::native(name).unwrap()
}

fn list(element: CqlType) -> CqlType {
    CqlType::List {
        element: Arc::new(element),
        frozen: true,
    }
}

fn map(key: CqlType, value: CqlType) -> CqlType {
    CqlType::Map {
        key: Arc::new(key),
        value: Arc::new(value),
        frozen: true,
    }
}

fn refusal(ty: &CqlType, json: &str) -> String {
    match value(ty, json) {
        Ok(value) => panic!("{ty} of {json}: {value:?}"),
        Err(error) => error.message,
    }
}

#[test]
fn json_of_another_type_gets_cassandras_error() {
    let cases = "
        ascii => 12 => Expected an ascii string, but got a Integer: 12
        text => [1, 2.50] => Expected a UTF-8 string, but got a ArrayList: [1, 2.5]
        boolean => 0 => Expected a boolean value, but got a Integer: 0
        tinyint => true => Expected a byte value, but got a Boolean: true
        tinyint => 1e2 => Unable to make byte from '100.0'
        smallint => {} => Expected a short value, but got a LinkedHashMap: {}
        int => 1.50 => Expected an int value, but got a Double: 1.5
        int => 2147483648 => Expected an int value, but got a Long: 2147483648
        int => \"1.5\" => Unable to make int from '1.5'
        bigint => 9223372036854775808
        => Expected a bigint value, but got a BigInteger: 9223372036854775808
        float => false => Expected a float value, but got a Boolean: false
        double => [] => Expected a double value, but got a ArrayList: []
        varint => 1.0 => Value '1.0' is not a valid representation of a varint value
        varint => \"\" => Value '' is not a valid representation of a varint value
        decimal => {\"a\": 1} => Value '{a=1}' is not a valid representation of a decimal value
        decimal => \"x\" => Value 'x' is not a valid representation of a decimal value
        blob => 12 => Value '12' is not a valid blob representation: a Integer is no string
        blob => \"xyz\"
        => Value 'xyz' is not a valid blob representation: String representation of blob is \
           missing 0x prefix: xyz
        blob => \"0xz\"
        => Value '0xz' is not a valid blob representation: cannot parse 'z' as hex bytes
        timestamp => 1.5
        => Expected a long or a datestring representation of a timestamp value, but got a Double: \
           1.5
        timestamp => 1
        => Expected a long or a datestring representation of a timestamp value, but got a Integer: 1
        date => 1 => Expected a string representation of a date value, but got a Integer: 1
        time => 1 => Expected a string representation of a time value, but got a Integer: 1
        inet => 1 => Expected a string representation of an inet value, but got a Integer: 1
        duration => 1 => Expected a string representation of a duration, but got a Integer: 1
        uuid => 1 => Expected a string representation of a uuid, but got a Integer: 1
        timeuuid => 1 => Expected a string representation of a timeuuid, but got a Integer: 1
    ";
    for [ty, json, message] in parse_cases(cases) {
        assert_eq!(refusal(&native(ty), json), message);
    }
}

#[test]
fn json_with_invalid_parts_gets_cassandras_error() {
    let ints = list(CqlType::Int);
    let set = CqlType::Set {
        element: Arc::new(CqlType::Int),
        frozen: true,
    };
    let pair = CqlType::Tuple([CqlType::Int, CqlType::Text].into());
    for (ty, json, message) in [
        (&ints, "1", "Expected a list, but got a Integer: 1"),
        (
            &ints,
            r#""\"[1]\"""#,
            "Expected a list, but got a String: [1]",
        ),
        (&ints, "[null]", "Invalid null element in list"),
        (
            &set,
            "{}",
            "Expected a list (representing a set), but got a LinkedHashMap: {}",
        ),
        (
            &pair,
            "true",
            "Expected a list representation of a tuple, but got a Boolean: true",
        ),
        (&pair, "[1]", "Tuple is missing items (expected 2): [1]"),
        (
            &pair,
            r#"[1, "a", 3]"#,
            "Tuple contains extra items (expected 2): [1, a, 3]",
        ),
        (
            &map(CqlType::Int, CqlType::Int),
            "[]",
            "Expected a map, but got a ArrayList: []",
        ),
    ] {
        assert_eq!(refusal(ty, json), message);
    }
    // The rest of both messages is that of the JSON parser, and differs from Cassandra's. In the
    // first case the argument is JSON, a string, but the text in this string is not.
    let undecodable = refusal(&ints, "\"[1\"");
    assert!(
        undecodable.starts_with("Error decoding JSON string: "),
        "{undecodable}"
    );
    let undecodable = refusal(&ints, "[1");
    assert!(
        undecodable.starts_with(
            "execution of 'system.fromjson[text]' failed: Could not decode JSON string '[1': "
        ),
        "{undecodable}"
    );
}

#[test]
fn numbers_have_the_values_that_java_gives_them() {
    for (ty, json, constant) in [
        ("float", "1e400", "Infinity"),
        // Above the middle between two floats, but the nearest double is the middle itself.
        ("float", "1.00000005960464477539062500001", "1"),
        ("double", "\"NaN\"", "NaN"),
        ("double", "7", "7.0"),
        ("int", "-0", "0"),
        ("smallint", "\"12\"", "12"),
        ("bigint", "9223372036854775807", "9223372036854775807"),
        ("decimal", "0.1234567890123456789", "0.1234567890123456789"),
        ("timestamp", "2147483648", "2147483648"),
        ("boolean", "\"\"", "false"),
        ("boolean", "\"TRUE\"", "true"),
        ("blob", "\"0xCAFE\"", "cafe"),
    ] {
        let ty = native(ty);
        let expected = ty.parse_value(constant).unwrap();
        assert_eq!(value(&ty, json), Ok(Some(expected)), "{json} of {ty}");
    }
}

/// Regression: map keys that `toJson` had written, such as `0xcafe`, could not be read back.
#[test]
fn keys_of_maps_are_read_as_the_strings_of_their_types_are() {
    for (key, json, constant) in [
        ("blob", r#"{"0xcafe": 1}"#, "cafe"),
        ("double", r#"{"1.0E10": 1}"#, "1e10"),
        ("varint", r#"{"12": 1}"#, "12"),
        ("boolean", r#"{"true": 1}"#, "true"),
    ] {
        let key = native(key);
        let bytes = key.parse_value(constant).unwrap();
        let expected = elements::build_map([(&bytes[..], &[0, 0, 0, 1][..])]);
        let given = value(&map(key, CqlType::Int), json);
        assert_eq!(given, Ok(Some(expected)), "{json}");
    }
    let of_ascii = refusal(&map(CqlType::Ascii, CqlType::Int), "{\"é\": 1}");
    assert_eq!(of_ascii, "Invalid ASCII character in string literal");
    let of_lists = map(list(CqlType::Int), CqlType::Int);
    assert!(value(&of_lists, r#"{"[1, 2]": 1}"#).is_ok());
}

/// Regression: if a map had several names of one key, such as `1` and `01`, the value of the name
/// that sorts first was kept, not that of the last one.
#[test]
fn of_several_names_of_one_key_the_last_in_the_text_counts() {
    let expected = elements::build_map([(&[0, 0, 0, 1][..], &[0, 0, 0, 7][..])]);
    for json in [
        r#"{"1": 5, "01": 7}"#,
        r#"{"01": 5, "1": 7}"#,
        r#"{"1": 5, "01": 6, "1": 7}"#,
    ] {
        let given = value(&map(CqlType::Int, CqlType::Int), json);
        assert_eq!(given, Ok(Some(expected.clone())), "{json}");
    }
}

/// Regression: `{}` in a text became a null for each field of its type, so a text of 2 MB became
/// gigabytes.
#[test]
fn the_fields_that_objects_omit_have_a_limited_size() {
    let fields = ["a", "b", "c"].map(|name| (Arc::<str>::from(name), CqlType::Int));
    let definition = UserType::new("ks", "u", fields).unwrap();
    let ty = list(CqlType::udt(Arc::new(definition)).freeze());
    let read_with = |json: &str, left: usize| {
        let mut memory = Memory::default();
        memory.take(BYTES_MAX - left).unwrap();
        let json = serde_json::from_str::<&RawValue>(json).unwrap();
        read(&ty, json, &mut memory)
    };
    let object = r#"{"b": 1}"#;
    let two = format!("[{object}, {object}]");
    // Two fields of each object are null.
    assert!(read_with(&two, 16).is_ok());
    let error = read_with(&two, 15).unwrap_err();
    assert!(
        error
            .message
            .starts_with("The statement takes more than 67108864 bytes"),
        "{error:?}"
    );
    let in_string = format!("{two:?}");
    assert!(read_with(&in_string, 16).is_ok());
    assert!(read_with(&in_string, 15).is_err());
}

/// Regression: a statement was not charged for the parts of objects and arrays while they were
/// parsed. An INSERT JSON with a million unknown names kept the commit thread for most of a second.
#[test]
fn each_part_of_an_object_or_array_is_charged_and_may_end_the_statement() {
    const PARTS: u64 = 1000;
    let members: Vec<String> = (0..PARTS).map(|part| format!("\"F{part}\": 0")).collect();
    let object = format!("{{{}}}", members.join(", "));
    let array = format!("[{}0]", "0, ".repeat(PARTS as usize));
    let fields = [(Arc::<str>::from("a"), CqlType::Int)];
    let definition = UserType::new("ks", "u", fields).unwrap();
    let udt = CqlType::udt(Arc::new(definition)).freeze();
    let pair = CqlType::Tuple([CqlType::Int, CqlType::Int].into());
    let numbers = map(CqlType::Int, CqlType::Int);
    let texts = list(CqlType::Ascii);
    let of_row = || row([("a", &CqlType::Int)].into_iter(), &object).map(|_| ());
    let of_value = |ty: &CqlType, json: &str| value(ty, json).map(|_| ());
    let reads: [(&str, &dyn Fn() -> Result<()>); 5] = [
        ("a row", &of_row),
        ("a user-defined type", &|| of_value(&udt, &object)),
        ("a tuple", &|| of_value(&pair, &array)),
        ("a map", &|| of_value(&numbers, &object)),
        ("a list", &|| of_value(&texts, &array)),
    ];
    for (what, read) in reads {
        let (ended, units) = charged(read);
        assert_eq!(ended.unwrap_err().kind, ErrorKind::Invalid, "{what}");
        assert!(units >= PARTS, "{what}: {units}");
        let time_out = TimeOut::Read(Consistency::One);
        let (ended, units) = charged(|| interrupt::scope(&cancelled(), time_out, read));
        let kind = ended.unwrap_err().kind;
        assert!(matches!(kind, ErrorKind::ReadTimeout { .. }), "{what}");
        assert!(units <= 3 * UNITS_PER_LOOK, "{what}: {units}");
    }
}

#[test]
fn of_several_names_of_one_column_the_greatest_that_is_not_plain_counts() {
    for (json, expected) in [
        (r#"{"a": 1, "a": 2}"#, 2),
        (r#"{"A": 1, "a": 2}"#, 1),
        (r#"{"a": 1, "A": 2}"#, 2),
        (r#"{"A": 1, "\"a\"": 2}"#, 1),
        (r#"{"\"a\"": 1, "A": 2}"#, 2),
        (r#"{"A": 1, "\"a\"": 2, "A": 3}"#, 3),
    ] {
        let values = row([("a", &CqlType::Int)].into_iter(), json).unwrap();
        let expected = Some(Some(i32::to_be_bytes(expected).to_vec()));
        assert_eq!(values, [expected], "{json}");
    }
    // The object has more names than the row has columns.
    let columns = || [("a", &CqlType::Int)].into_iter();
    let unknown = row(columns(), r#"{"b": 0, "c": 0, "d": 0, "a": 1}"#).unwrap_err();
    let start = "JSON values map contains unrecognized column: ";
    assert!(unknown.message.starts_with(start), "{unknown:?}");
    let broken = row(columns(), r#"{"b": 0, "c": 0, "d": 0"#).unwrap_err();
    let start = "Could not decode JSON string as a map: EOF";
    assert!(broken.message.starts_with(start), "{broken:?}");
    let null = row(columns(), " null\n").unwrap_err();
    assert_eq!(null.message, "Got null for INSERT JSON values");
}
