use std::convert::Infallible;

use num_bigint::BigInt;
use rand::RngExt;

use crate::key::ordered::{
    self, DecodeError, EncodeError, Malformed, Reader, always_reconstructible, encode,
    is_reconstructible, skip, try_encode, try_is_reconstructible,
};
use crate::types::number::{DECIMAL_BYTES_MAX, digits_bytes};
use crate::types::tests::{generate, ordered_types, parse, with_rng};
use crate::types::{CqlType, elements};

fn form(ty: &CqlType, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(ty, value, &mut out).unwrap();
    out
}

fn decode(ty: &CqlType, reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    match ordered::decode(ty, reader, &mut |_| Ok::<_, Infallible>(())) {
        Ok(value) => Ok(value),
        Err(DecodeError::Damaged(malformed)) => Err(malformed),
    }
}

#[test]
fn bytes_sort_as_values_in_both_directions() {
    with_rng("bytes_sort_as_values_in_both_directions", |mut rng| {
        for ty in ordered_types() {
            for _ in 0..4000 {
                let a = generate::value(&ty, &mut rng);
                let b = generate::value(&ty, &mut rng);
                let (x, y) = (form(&ty, &a), form(&ty, &b));
                let order = ty.compare(&a, &b);
                assert_eq!(x.cmp(&y), order, "{ty}: {a:x?} {b:x?} as {x:x?} {y:x?}");
                let invert = |form: &[u8]| form.iter().map(|b| !b).collect::<Vec<_>>();
                assert_eq!(invert(&x).cmp(&invert(&y)), order.reverse());
                // No form is a proper prefix of another.
                assert!(order.is_eq() || !y.starts_with(&x), "{ty}: {a:x?} {b:x?}");
            }
        }
    });
}

#[test]
fn a_form_gives_back_its_value_or_an_equal_one() {
    with_rng("a_form_gives_back_its_value_or_an_equal_one", |mut rng| {
        for ty in ordered_types() {
            for _ in 0..2000 {
                let value = generate::value(&ty, &mut rng);
                let inverted = rng.random();
                let mut bytes = form(&ty, &value);
                bytes.extend(b"next");
                if inverted {
                    bytes.iter_mut().for_each(|b| *b = !*b);
                }
                let mut reader = Reader::new(&bytes, inverted);
                let back = decode(&ty, &mut reader).unwrap();
                assert_eq!(reader.at(), bytes.len() - 4);
                let mut skipping = Reader::new(&bytes, inverted);
                assert_eq!(skip(&ty, &mut skipping), Ok(()));
                assert_eq!(skipping.at(), reader.at());
                assert_eq!(ty.validate(&back), Ok(()));
                assert!(
                    ty.compare(&value, &back).is_eq(),
                    "{ty}: {value:x?} {back:x?}"
                );
                assert_eq!(is_reconstructible(&ty, &value), back == value);
                assert!(back == value || !always_reconstructible(&ty));
            }
        }
    });
}

/// Regression: the digits of a decimal of megabytes were computed, for hours, before its length was
/// checked.
#[test]
fn a_decimal_that_is_longer_than_a_key_has_no_form() {
    let long = vec![1; DECIMAL_BYTES_MAX + 1];
    let error = encode(&parse("decimal"), &long, &mut Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "A decimal of 65536 bytes is longer than a key may be (65535)"
    );
}

/// Regression: the member of a set was a list of megabytes of decimals, and the digits of all of
/// them were computed before the statement's time limit was checked.
#[test]
fn the_form_of_many_decimals_is_given_up_between_two_of_them() {
    let ty = parse("frozen<list<decimal>>");
    let decimal = [&[0; 4][..], &[7; 1000]].concat();
    let list = elements::build(vec![&decimal[..]; 100]);
    let charge_max = 4 * digits_bytes(decimal.len());
    let (mut charged, mut out) = (0, Vec::new());
    let given_up = try_encode(&ty, &list, &mut out, &mut |bytes| {
        charged += bytes;
        if charged > charge_max {
            return Err("given up");
        }
        Ok(())
    });
    assert_eq!(given_up, Err(EncodeError::Charge("given up")));
    assert!(charged <= 2 * charge_max, "{charged}");
    assert!(out.len() <= 5 * form(&parse("decimal"), &decimal).len());
    let mut calls = 0;
    let given_up = try_is_reconstructible(&ty, &list, &mut |_| {
        calls += 1;
        if calls > 10 {
            return Err("given up");
        }
        Ok(())
    });
    assert_eq!((given_up, calls), (Err("given up"), 11));
}

/// Regression: a read of a set decoded the decimals in the paths of its elements, each for
/// milliseconds, without a check of the statement's time limit. A decimal with the least scale
/// (-2^31) keeps its trailing zeros, so even a form of ten bytes may decode to thousands of digits.
#[test]
fn decimals_are_charged_before_they_are_decoded() {
    let decimal = parse("decimal");
    let list = parse("frozen<list<decimal>>");
    let long = [&[0; 4][..], &[7; 1000]].concat();
    let mut zeros = i32::MIN.to_be_bytes().to_vec();
    zeros.extend(BigInt::from(10).pow(2400).to_signed_bytes_be());
    let short_form = form(&decimal, &zeros);
    assert!(short_form.len() < 20, "{short_form:x?}");
    for value in [&long, &zeros] {
        let bytes = form(&list, &elements::build(vec![&value[..]; 100]));
        let mut charges = Vec::new();
        let given_up = ordered::decode(&list, &mut Reader::new(&bytes, false), &mut |charge| {
            charges.push(charge);
            if charges.len() > 3 {
                return Err("given up");
            }
            Ok(())
        });
        assert_eq!(given_up, Err(DecodeError::Charge("given up")));
        assert_eq!(charges.len(), 4);
        let least = digits_bytes(value.len());
        assert!(charges.iter().all(|charge| *charge >= least), "{charges:?}");
        let mut reader = Reader::new(&bytes, false);
        assert_eq!(skip(&list, &mut reader), Ok(()));
        assert_eq!(reader.at(), bytes.len());
    }
}

#[test]
fn only_canonical_values_are_reconstructible() {
    for (ty, value, kept) in [
        ("decimal", &b"\0\0\0\x01\x0a"[..], false), // 1.0
        ("decimal", b"\0\0\0\x01\x0f", true),       // 1.5
        ("decimal", b"\0\0\0\0\0", true),           // 0
        ("decimal", b"\0\0\0\x02\0", false),        // 0.00
        ("varint", b"\0\x7f", false),
        ("varint", b"\0\x80", true),
        ("boolean", b"\x02", false),
        ("double", &(-f64::NAN).to_be_bytes(), false),
        ("double", &f64::NAN.to_be_bytes(), true),
        ("double", &(-0.0f64).to_be_bytes(), true),
        ("tuple<int, int>", b"\xff\xff\xff\xff", false),
        ("tuple<int, int>", b"\xff\xff\xff\xff\xff\xff\xff\xff", true),
        // A null of another length, one component too many, and a byte after the last element.
        ("tuple<int>", b"\xff\xff\xff\xfe", false),
        ("tuple<int>", b"\xff\xff\xff\xff\xff\xff\xff\xff", false),
        ("frozen<list<varint>>", b"\0\0\0\x01\0\0\0\x01\x05", true),
        ("frozen<list<varint>>", b"\0\0\0\x01\0\0\0\x01\x05\0", false),
        ("frozen<list<varint>>", b"\0\0\0\x01\0\0\0\x02\0\0", false),
        ("decimal", b"\0\0\0\0\x0a", false),     // 10
        ("decimal", b"\0\0\0\x01\0\x0f", false), // 1.5 with a needless byte
    ] {
        assert_eq!(
            is_reconstructible(&parse(ty), value),
            kept,
            "{ty} {value:x?}"
        );
    }
}

#[test]
fn forms_have_the_layout_of_the_book() {
    for (ty, value, bytes) in [
        ("text", &b"a\0b"[..], &b"a\0\x01b\0\0"[..]),
        ("int", b"\0\0\0\x05", b"\x01\x80\0\0\x05"),
        ("int", b"", b"\0"),
        ("tinyint", b"\xff", b"\x7f"),
        (
            "double",
            &[0xbf, 0xf0, 0, 0, 0, 0, 0, 0],
            b"\x01\x40\x0f\xff\xff\xff\xff\xff\xff",
        ),
        ("varint", b"\xff\x7f", b"\x01\xfd\xff\x7f"),
        ("varint", b"\x7f", b"\x02\x01\x7f"),
        // 12.5: 0.125 * 10^2
        (
            "decimal",
            b"\0\0\0\x01\x7d",
            b"\x03\x80\0\0\0\0\0\0\x02\x0d\x33\0",
        ),
        (
            "frozen<list<tinyint>>",
            b"\0\0\0\x01\0\0\0\x01\0",
            b"\x01\x01\x80\0",
        ),
        ("tuple<tinyint, text>", b"\0\0\0\x01\0", b"\x01\x02\x80\0"),
        (
            "tuple<tinyint, tinyint, tinyint>",
            b"\xff\xff\xff\xff\0\0\0\x01\0\xff\xff\xff\xff",
            b"\x01\x01\x02\x80\0",
        ),
    ] {
        assert_eq!(form(&parse(ty), value), bytes, "{ty}");
    }
}

/// Regression: a set of a user-defined type, written before `ALTER TYPE ... ADD`, could not be
/// decoded after it, because the ordered form of a member ended with the last field that the type
/// had when it was written.
#[test]
fn a_field_that_a_type_gains_changes_no_form() {
    let (before, after) = (parse("tuple<int, text>"), parse("tuple<int, text, int>"));
    with_rng("a_field_that_a_type_gains_changes_no_form", |mut rng| {
        for _ in 0..1000 {
            let value = generate::value(&before, &mut rng);
            let bytes = form(&before, &value);
            assert_eq!(form(&after, &value), bytes);
            let back = decode(&after, &mut Reader::new(&bytes, false)).unwrap();
            assert!(after.compare(&value, &back).is_eq(), "{value:x?} {back:x?}");
            assert_eq!(form(&after, &back), bytes);
        }
        let more = form(&after, b"\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\x07");
        assert!(decode(&before, &mut Reader::new(&more, false)).is_err());
    });
}

#[test]
fn random_bytes_decode_to_valid_values_or_errors() {
    with_rng(
        "random_bytes_decode_to_valid_values_or_errors",
        |mut rng| {
            for ty in ordered_types() {
                for _ in 0..3000 {
                    let bytes: Vec<u8> = (0..rng.random_range(0..40))
                        .map(|_| match rng.random_range(0..3) {
                            0 => rng.random(),
                            1 => rng.random_range(0..4),
                            _ => 0xff - rng.random_range(0..4),
                        })
                        .collect();
                    if let Ok(value) = decode(&ty, &mut Reader::new(&bytes, rng.random())) {
                        // Decoding does not repeat the validation from the write: text, versions of
                        // uuids, lengths of addresses, collections that are not empty.
                        let trusted = !ty.is_native()
                            || matches!(
                                ty,
                                CqlType::Ascii | CqlType::Text | CqlType::Inet | CqlType::Timeuuid
                            );
                        assert!(trusted || ty.validate(&value).is_ok(), "{ty} {bytes:x?}");
                    }
                }
            }
        },
    );
}

/// A decimal with the scale -2147483648 keeps its trailing zeros: without them, it would need a
/// lesser scale, and there is none.
#[test]
fn the_least_scale_keeps_its_zeros() {
    let ty = parse("decimal");
    let value = [0x80, 0, 0, 0, 100];
    assert!(is_reconstructible(&ty, &value));
    // An exponent beyond those of decimals, from a damaged file.
    let bytes = [3, 0xff, 0, 0, 0, 0, 0, 0, 0, 5, 0];
    assert!(decode(&ty, &mut Reader::new(&bytes, false)).is_err());
}

#[test]
fn counters_have_no_order() {
    let error = encode(&CqlType::Counter, &[0; 8], &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "Values of type counter have no order");
}
