use std::str::FromStr;

use ebb_test_support::seed::for_seeds;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn number(text: &str) -> Number {
    Number::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{text} {e}"))
}

/// Draws numbers of all sizes as text, some of them very near each other.
fn drawn(rng: &mut ChaCha8Rng) -> String {
    let sign = ["", "-", "+"][rng.random_range(0..3)];
    let digits: usize = match rng.random_range(0..4) {
        0 => rng.random_range(1..4),
        1 => rng.random_range(15..22),
        2 => rng.random_range(30..45),
        _ => rng.random_range(1..90),
    };
    let mut text: String = (0..digits)
        .map(|_| char::from(b"0019"[rng.random_range(0..4)]))
        .collect();
    if rng.random() {
        text.insert(rng.random_range(0..=digits), '.');
    }
    match rng.random_range(0..4) {
        0 => format!("{sign}{text}e{}", rng.random_range(-60..60)),
        1 => format!("{sign}{text}E+{}", rng.random_range(0..900)),
        _ => format!("{sign}{text}"),
    }
}

#[test]
fn numbers_are_those_of_another_implementation_in_order_sums_and_bytes() {
    let test = "numbers_are_those_of_another_implementation_in_order_sums_and_bytes";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let ordered = |number: &Number| {
            let mut bytes = Vec::new();
            number.push_ordered(&mut bytes);
            bytes
        };
        for _ in 0..20_000 {
            let texts = [drawn(&mut rng), drawn(&mut rng)];
            let [a, b] = [number(&texts[0]), number(&texts[1])];
            let big = |text: &String| BigDecimal::from_str(text).unwrap();
            let [big_a, big_b] = [big(&texts[0]), big(&texts[1])];
            assert_eq!(a.cmp(&b), big_a.cmp(&big_b), "{texts:?}");
            assert_eq!(
                ordered(&a).cmp(&ordered(&b)),
                big_a.cmp(&big_b),
                "{texts:?}"
            );
            let mut sum = a.clone();
            sum += &b;
            assert_eq!(sum.big(), &big_a + &big_b, "{texts:?}");
            for any in [&a, &b, &sum] {
                assert_eq!(any.to_string().parse::<BigDecimal>().unwrap(), any.big());
                let mut bytes = Vec::new();
                any.encode(&mut bytes);
                let mut left = &bytes[..];
                assert_eq!(Number::decode(&mut left).as_ref(), Some(any));
                assert!(left.is_empty());
                assert_eq!(Number::decode(&mut &bytes[..bytes.len() - 1]), None);
                for length in [1, 9, 17, 18] {
                    let mut fixed = vec![0; length];
                    // The mantissa follows two bytes, unless the number has the long form.
                    let fits = bytes[0] < u8::MAX && (bytes.len() - 1..=17).contains(&length);
                    assert_eq!(
                        any.encode_fixed(&mut fixed),
                        fits,
                        "{any} in {length} bytes"
                    );
                    if fits {
                        assert_eq!(Number::decode_fixed(&fixed).as_ref(), Some(any));
                    }
                }
                let float: f64 = any.to_string().parse().unwrap();
                assert_eq!(any.to_f64(), float);
            }
        }
    });
}

#[test]
fn sixty_four_bits_and_decimals_are_exact() {
    let mut sum = number("9007199254740993");
    sum += &number("0.10");
    assert_eq!(sum.to_string(), "9007199254740993.1");
    let mut sum = number("18446744073709551615");
    sum += &sum.clone();
    assert_eq!(sum.to_string(), "36893488147419103230");
    let mut small = number("0.1");
    small += &number("0.2");
    assert_eq!(small, number("0.3"));
    let mut far = number("1e400");
    far += &number("-1e400");
    assert_eq!(far, Number::default());
}

#[test]
fn numbers_are_written_without_redundant_digits() {
    for (text, written) in [
        ("1.50", "1.5"),
        ("-0", "0"),
        ("007", "7"),
        (" +5. ", "5"),
        (".5", "0.5"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("6.02e23", "602000000000000000000000"),
        ("1e400", "1e400"),
        ("-1.25E-300", "-1.25e-300"),
        ("0.000001", "0.000001"),
        ("100", "100"),
        ("0e900", "0"),
    ] {
        assert_eq!(number(text).to_string(), written);
        // The text is a number in JSON, too.
        let json: Result<&serde_json::value::RawValue, _> = serde_json::from_str(written);
        assert!(json.is_ok(), "{written}");
    }
}

#[test]
fn text_that_is_no_number_or_too_large_is_rejected_without_taking_memory() {
    for bad in [
        "", " ", "x", "1,5", "nan", "inf", "-inf", "1e", "e5", ".", "1.2.3", "--1", "1e5.5",
        "0x10", "1 2", "1_000",
    ] {
        assert_eq!(
            Number::parse(bad.as_bytes()),
            Err(NumberProblem::None),
            "{bad}"
        );
    }
    for large in [
        "1e999999999",
        "1e-999999999",
        "1e99999999999999999999999999",
        &"9".repeat(DIGITS_MAX + 1),
    ] {
        assert_eq!(
            Number::parse(large.as_bytes()),
            Err(NumberProblem::TooLarge),
            "{large}"
        );
    }
}

#[test]
fn a_mean_is_rounded_to_twenty_digits() {
    let mean = |text: &str, parts| number(text).mean(parts).to_string();
    assert_eq!(mean("10", 4), "2.5");
    assert_eq!(mean("7", 3), "2.3333333333333333333");
    assert_eq!(mean("-7", 3), "-2.3333333333333333333");
    assert_eq!(mean("18446744073709551614", 2), "9223372036854775807");
    assert_eq!(mean("1", 0), "0");
}

#[test]
fn the_order_of_texts_survives_and_so_does_its_reverse() {
    let ordered = |text: &[u8]| {
        let mut bytes = Vec::new();
        ordered_text(text, &mut bytes);
        bytes
    };
    let ascending: [&[u8]; 7] = [b"", b"\0", b"\0a", b"a", b"a\0", b"ab", b"\xff"];
    assert!(ascending.map(ordered).is_sorted());
    let reversed = ascending.map(|text| ordered(text).iter().map(|b| !b).collect());
    assert!(reversed.iter().rev().is_sorted_by(|a: &&Vec<u8>, b| a < b));
}
