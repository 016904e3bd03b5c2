use ebb_test_support::cases::parse_cases;
use rand::RngExt;

use super::{generate, ordered_types, parse, with_rng};

/// Returns the bytes of a number like `0xca03`.
fn blob(text: &str) -> Vec<u8> {
    parse("blob").parse_value(&text[2..]).unwrap()
}

#[test]
fn lengths_are_held_to_the_type() {
    let cases = "
        int => 0 4 => 3 => Expected 4 or 0 byte int (3)
        bigint => 0 8 => 4 => Expected 8 or 0 byte long (4)
        timestamp => 0 8 => 4 => Expected 8 or 0 byte long for date (4)
        smallint => 2 => 0 => Expected 2 bytes for a smallint (0)
        tinyint => 1 => 2 => Expected 1 byte for a tinyint (2)
        boolean => 0 1 => 2 => Expected 1 or 0 byte value (2)
        float => 0 4 => 8 => Expected 4 or 0 byte value for a float (8)
        double => 0 8 => 4 => Expected 8 or 0 byte value for a double (4)
        date => 4 => 0 => Expected 4 byte long for date (0)
        time => 8 => 0 => Expected 8 byte long for time (0)
        decimal => 0 5 9 => 3 => Expected 0 or at least 4 bytes (3)
        // Cassandra accepts this length and fails later.
        decimal => 0 => 4 => Expected 0 or at least 5 bytes (4)
        inet => 0 4 16 => 5 => Expected 4 or 16 byte inetaddress; got 0000000000
        uuid => 0 16 => 8 => UUID should be 16 or 0 bytes (8)
        duration => 3 => 2 => Expected at least 3 bytes for a duration (2)
    ";
    let zeros = |len: &str| vec![0_u8; len.parse().unwrap()];
    for [ty, good, bad, message] in parse_cases(cases) {
        for len in good.split(' ') {
            parse(ty).validate(&zeros(len)).unwrap();
        }
        let error = parse(ty).validate(&zeros(bad)).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn contents_are_held_to_the_type() {
    let cases = "
        ascii => 0x80 => Invalid byte for ascii: -128
        text => 0xff => String didn't validate.
        timeuuid => 0xabababababababababababababababab => Invalid version for TimeUUID type: 0xa
        list<int> => 0x => Not enough bytes to read a list
        set<int> => 0x000000 => Not enough bytes to read a set
        list<int> => 0xffffffff => The data cannot be deserialized as a list
        set<int> => 0x80000000 => The data cannot be deserialized as a set
        map<int, int> => 0xffffffff => The data cannot be deserialized as a map
        list<int> => 0x00000001 => Not enough bytes to read a list
        set<int> => 0x0000000078 => Unexpected extraneous bytes after set value
        list<int> => 0x00000001ffffffff => Null value read when not allowed
        // A length of -2 means not set for a whole value, and null within one.
        set<int> => 0x00000001fffffffe => Null value read when not allowed
        map<int, int> => 0x00000001ffffffff00000000 => Null value read when not allowed
        map<int, int> => 0x0000000100000000ffffffff => Null value read when not allowed
        map<int, int> => 0x00000001000000000000000178 => Expected 4 or 0 byte int (1)
        tuple<int> => 0x0000 => Not enough bytes to read size of 0th component
        tuple<int> => 0x0000000478 => Not enough bytes to read 0th component
        tuple<int> => 0x0000000078 => Invalid remaining data after end of tuple value
        address => 0x0000000478 => Not enough bytes to read 0th field street
        address => 0x00000001ff => Failure validating the 0th field street; String didn't validate.
        // 1 month, -1 day
        duration => 0x020100
        => The duration months, days and nanoseconds must be all of the same sign (1, -1, 0)
    ";
    for [ty, bytes, message] in parse_cases(cases) {
        let error = parse(ty).validate(&blob(bytes)).unwrap_err();
        assert_eq!(error.to_string(), message, "{ty}");
    }
    parse("tuple<int, text>")
        .validate(b"\xff\xff\xff\xff")
        .unwrap();
    parse("address").validate(b"").unwrap();
    // In a tuple too, a negative length is a null.
    parse("tuple<int>").validate(b"\xff\xff\xff\xfe").unwrap();
}

#[test]
fn only_the_list_behind_in_may_have_nulls() {
    let list = parse("list<int>");
    let with_null = b"\0\0\0\x02\xff\xff\xff\xff\0\0\0\x04\0\0\0\x07";
    assert!(list.validate(with_null).is_err());
    list.validate_in(with_null).unwrap();
    for (bytes, message) in [
        (
            &b"\0\0\0\x01\0\0\0\x01x"[..],
            "Expected 4 or 0 byte int (1)",
        ),
        (
            b"\0\0\0\x02\xff\xff\xff\xff",
            "Not enough bytes to read a list",
        ),
        (b"", "Not enough bytes to read a list"),
    ] {
        assert_eq!(list.validate_in(bytes).unwrap_err().to_string(), message);
    }
    // Lists within the outer list may not contain nulls.
    let lists = parse("list<frozen<list<int>>>");
    let inner_null = b"\0\0\0\x01\0\0\0\x08\0\0\0\x01\xff\xff\xff\xff";
    assert_eq!(
        lists.validate_in(inner_null).unwrap_err().to_string(),
        "Null value read when not allowed"
    );
}

/// Regression: a list with a null and another fault got the error for the null.
#[test]
fn of_the_faults_in_a_list_a_null_is_reported_last() {
    let cases = "
        list<int> => 0x7fffffffffffffff => Not enough bytes to read a list
        list<int> => 0x00000001ffffffff78 => Unexpected extraneous bytes after list value
        frozen<list<int>> => 0x00000002ffffffff0000000178 => Expected 4 or 0 byte int (1)
        list<int> => 0x00000001ffffffff => Null value read when not allowed
        set<int> => 0x7fffffffffffffff => Null value read when not allowed
        map<int, int> => 0x7fffffffffffffff => Null value read when not allowed
        // A list as a part of another value.
        list<frozen<list<int>>> => 0x000000010000000800000002ffffffff
        => Null value read when not allowed
    ";
    for [ty, bytes, message] in parse_cases(cases) {
        let error = parse(ty).validate(&blob(bytes)).unwrap_err();
        assert_eq!(error.to_string(), message, "{ty} {bytes}");
    }
}

#[test]
fn a_message_shows_the_first_bytes_of_a_long_value() {
    let message = parse("inet").validate(&[0xab; 1_000_000]).unwrap_err();
    assert_eq!(
        message.to_string(),
        format!(
            "Expected 4 or 16 byte inetaddress; got {}...",
            "ab".repeat(256)
        )
    );
}

#[test]
fn random_bytes_are_refused_or_taken_without_harm() {
    with_rng(
        "random_bytes_are_refused_or_taken_without_harm",
        |mut rng| {
            for ty in [
                "frozen<map<text, frozen<list<decimal>>>>",
                "tuple<duration, address>",
                "inet",
            ] {
                let ty = parse(ty);
                for _ in 0..2000 {
                    let mut bytes: Vec<u8> =
                        (0..rng.random_range(0..40)).map(|_| rng.random()).collect();
                    for b in &mut bytes {
                        // Most lengths are zero; otherwise hardly any value passes the first check.
                        if rng.random_ratio(7, 10) {
                            *b = rng.random_range(0..3);
                        }
                    }
                    let _ = ty.validate(&bytes);
                }
            }
        },
    );
}

#[test]
fn generated_values_are_valid() {
    with_rng("generated_values_are_valid", |mut rng| {
        for ty in ordered_types() {
            for _ in 0..500 {
                let value = generate::value(&ty, &mut rng);
                assert_eq!(ty.validate(&value), Ok(()), "{ty} {value:x?}");
            }
        }
    });
}
