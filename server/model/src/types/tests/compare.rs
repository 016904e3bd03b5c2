use std::cmp::Ordering::{Equal, Greater, Less};

use ebb_test_support::cases::parse_cases;
use num_bigint::BigInt;
use rand::RngExt;

use super::{generate, ordered_types, parse, with_rng};
use crate::types::elements::{build, build_tuple};
use crate::types::number::{DECIMAL_BYTES_MAX, decimal};

fn dec(unscaled: i64, scale: i32) -> Vec<u8> {
    decimal(scale, &BigInt::from(unscaled))
}

#[test]
fn decimals_go_by_value_and_exponents_are_not_expanded() {
    let ty = parse("decimal");
    assert_eq!(ty.compare(&dec(10, 1), &dec(100, 2)), Equal);
    assert_eq!(ty.compare(&dec(0, 5), &dec(0, -7)), Equal);
    assert_eq!(ty.compare(&dec(1, i32::MIN), &dec(2, i32::MIN)), Less);
    assert_eq!(ty.compare(&dec(1, i32::MIN), &dec(1, i32::MAX)), Greater);
    assert_eq!(ty.compare(&dec(-1, i32::MIN), &dec(-1, i32::MAX)), Less);
    assert_eq!(ty.compare(&dec(-1, 0), &dec(0, 0)), Less);
    assert_eq!(ty.compare(&dec(99, 1), &dec(10, 0)), Less);
    assert_eq!(ty.compare(&[], &dec(-1, 0)), Less);
    assert_eq!(ty.compare(&[0, 0, 0, 0, 0, 1], &[0, 0, 0, 0, 1]), Equal);
}

#[test]
fn decimals_of_thousands_of_digits_may_differ_in_the_last_one() {
    let ty = parse("decimal");
    let power = BigInt::from(10).pow(5000);
    for (unscaled, order) in [
        (&power - 1, Less),
        (power.clone(), Equal),
        (&power + 1, Greater),
    ] {
        assert_eq!(ty.compare(&decimal(5000, &unscaled), &dec(1, 0)), order);
        assert_eq!(ty.compare(&dec(-1, 0), &decimal(5000, &-unscaled)), order);
    }
}

#[test]
fn decimals_that_are_longer_than_a_key_come_after_all_others() {
    let ty = parse("decimal");
    let long = |first: u8| [&[0, 0, 0, 0, first][..], &vec![0; DECIMAL_BYTES_MAX]].concat();
    for other in [dec(1, i32::MIN), dec(-1, 0), Vec::new()] {
        assert_eq!(ty.compare(&long(1), &other), Greater);
        assert_eq!(ty.compare(&other, &long(0x80)), Less);
    }
    assert_eq!(ty.compare(&long(1), &long(2)), Less);
    assert_eq!(ty.compare(&long(1), &long(1)), Equal);
}

#[test]
fn floats_go_as_java_orders_them() {
    let ty = parse("double");
    let order = [
        f64::NEG_INFINITY,
        -1.0,
        -0.0,
        0.0,
        1.0,
        f64::INFINITY,
        f64::NAN,
    ];
    for pair in order.windows(2) {
        assert_eq!(
            ty.compare(&pair[0].to_be_bytes(), &pair[1].to_be_bytes()),
            Less
        );
    }
    let nan = (-f64::NAN).to_be_bytes();
    assert_eq!(ty.compare(&nan, &f64::NAN.to_be_bytes()), Equal);
    assert_eq!(ty.compare(&nan, &f64::INFINITY.to_be_bytes()), Greater);
    assert_eq!(ty.compare(&[], &f64::NEG_INFINITY.to_be_bytes()), Less);
}

#[test]
fn uuids_go_by_version_then_time_or_bytes() {
    let uuid = |text: &str| -> Vec<u8> {
        let hex: String = text.chars().filter(|c| *c != '-').collect();
        (0..16)
            .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
            .collect()
    };
    let ty = parse("uuid");
    let cases = "
        // Version 1 comes before version 4, whatever the bytes.
        ffffffff-0000-1000-8000-000000000000 => 00000000-0000-4000-8000-000000000000
        // Two uuids of version 1: the high bits of the time are the third group.
        ffffffff-0000-1000-8000-000000000000 => 00000000-0000-1001-8000-000000000000
        00000001-0000-4000-8000-000000000000 => 00000002-0000-4000-8000-000000000000
        00000001-0000-4000-0000-000000000000 => 00000001-0000-4000-8000-000000000000
    ";
    for [less, more] in parse_cases(cases) {
        assert_eq!(ty.compare(&uuid(less), &uuid(more)), Less, "{less} {more}");
        assert_eq!(
            ty.compare(&uuid(more), &uuid(less)),
            Greater,
            "{less} {more}"
        );
    }
    // The low half is compared by signed bytes: 80 is -128.
    let low = |byte: &str| uuid(&format!("00000001-0000-1000-{byte}00-000000000000"));
    assert_eq!(parse("timeuuid").compare(&low("80"), &low("7f")), Less);
    assert_eq!(parse("uuid").compare(&low("80"), &low("7f")), Greater);
}

#[test]
fn other_types_go_as_cassandra_orders_them() {
    assert_eq!(parse("boolean").compare(&[2], &[1]), Equal);
    assert_eq!(parse("boolean").compare(&[], &[0]), Less);
    assert_eq!(parse("tinyint").compare(&[0xff], &[0]), Less);
    assert_eq!(parse("date").compare(&[0xff; 4], &[0; 4]), Greater);
    assert_eq!(parse("inet").compare(&[10, 0, 0, 1], &[10; 16]), Less);
    assert_eq!(parse("inet").compare(&[1; 4], &[1; 16]), Less);
    assert_eq!(parse("varint").compare(&[0, 1], &[1]), Equal);
    assert_eq!(parse("varint").compare(&[0xff, 0], &[0xff]), Less);
    assert_eq!(parse("varint").compare(&[0xff, 0xff], &[0xff]), Equal);

    let list = parse("frozen<list<int>>");
    let (one, two) = ([0, 0, 0, 1], [0, 0, 0, 2]);
    let of = |parts: &[&[u8]]| build(parts.iter().copied());
    assert_eq!(list.compare(&of(&[&one]), &of(&[&one, &one])), Less);
    assert_eq!(list.compare(&of(&[&two]), &of(&[&one, &one])), Greater);
    assert_eq!(list.compare(&of(&[&[]]), &of(&[&one])), Less);

    let tuple = parse("tuple<int, int>");
    let short = build_tuple([Some(&one[..])]);
    let long = build_tuple([Some(&one[..]), None]);
    assert_eq!(tuple.compare(&short, &long), Equal);
    assert_eq!(
        tuple.compare(&short, &build_tuple([Some(&one[..]), Some(&two[..])])),
        Less
    );
    assert_eq!(tuple.compare(&[], &build_tuple([None])), Less);
}

/// The standard library's sort panics for an order that is not total, and the sorted bytes may come
/// from any client.
#[test]
fn the_order_is_total_over_any_bytes() {
    with_rng("the_order_is_total_over_any_bytes", |mut rng| {
        for ty in ordered_types() {
            let mut values: Vec<Vec<u8>> = (0..120)
                .map(|_| {
                    let mut value = generate::value(&ty, &mut rng);
                    if rng.random_ratio(1, 3) {
                        value.truncate(rng.random_range(0..=value.len()));
                    }
                    if rng.random_ratio(1, 5) && !value.is_empty() {
                        let at = rng.random_range(0..value.len());
                        value[at] = rng.random();
                    }
                    value
                })
                .collect();
            values.sort_by(|a, b| ty.compare(a, b));
            for (i, a) in values.iter().enumerate() {
                for b in &values[i..] {
                    assert_ne!(ty.compare(a, b), Greater, "{ty} {a:x?} {b:x?}");
                    assert_eq!(
                        ty.compare(b, a),
                        ty.compare(a, b).reverse(),
                        "{ty} {a:x?} {b:x?}"
                    );
                }
            }
        }
    });
}
