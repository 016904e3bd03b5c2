//! Random values of any type. Most are edge cases from a small set, so that equal and neighbouring
//! values are frequent.

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use crate::types::CqlType;
use crate::types::elements::{build, build_map, write_element};

/// Returns a random value of `ty`.
pub fn value(ty: &CqlType, rng: &mut impl Rng) -> Vec<u8> {
    if may_be_empty(ty) && rng.random_ratio(1, 12) {
        return Vec::new();
    }
    match ty {
        CqlType::Ascii => few(b"ab\0\x01\x7f", rng),
        CqlType::Text => {
            // One to four bytes each in UTF-8, among them 0 and 1: keys encode a zero by both.
            let chars = ['a', '\0', '\u{1}', 'é', '\u{7f}', '\u{ffff}', '\u{10ffff}'];
            (0..rng.random_range(0..4))
                .map(|_| *chars.choose(rng).unwrap())
                .collect::<String>()
                .into_bytes()
        }
        CqlType::Blob => few(&[0, 1, 2, 0x7f, 0x80, 0xfe, 0xff], rng),
        // Every byte but 0 is true.
        CqlType::Boolean => vec![*[0, 1, 1, 0xff].choose(rng).unwrap()],
        CqlType::Tinyint => corners(1, rng),
        CqlType::Smallint => corners(2, rng),
        CqlType::Int | CqlType::Date => corners(4, rng),
        // Of a `time` only the length is validated, so some are negative or longer than a day.
        CqlType::Bigint | CqlType::Counter | CqlType::Timestamp | CqlType::Time => corners(8, rng),
        // Both zeros, normal and subnormal numbers, and NaN of both signs, which is one value.
        CqlType::Float => [
            0.0,
            -0.0,
            1.5,
            -1.5,
            f32::MIN_POSITIVE,
            -f32::MIN_POSITIVE / 2.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            -f32::NAN,
            f32::from_bits(rng.random()),
        ]
        .choose(rng)
        .unwrap()
        .to_be_bytes()
        .to_vec(),
        CqlType::Double => [
            0.0,
            -0.0,
            1.5,
            -1.5,
            f64::MIN_POSITIVE,
            -f64::MIN_POSITIVE / 2.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            -f64::NAN,
            f64::from_bits(rng.random()),
        ]
        .choose(rng)
        .unwrap()
        .to_be_bytes()
        .to_vec(),
        CqlType::Inet => {
            let len = *[4, 16].choose(rng).unwrap();
            corners(len, rng)
        }
        CqlType::Uuid => {
            let mut uuid = corners(16, rng);
            if rng.random() {
                // The high half of this byte is the version, which comes first in the order of `uuid`.
                uuid[6] = uuid[6] & 0xf | rng.random_range(0..6) << 4;
            }
            uuid
        }
        CqlType::Timeuuid => {
            let mut uuid = corners(16, rng);
            // Only version 1 is valid.
            uuid[6] = uuid[6] & 0xf | 0x10;
            uuid
        }
        CqlType::Varint => varint(rng),
        CqlType::Decimal => {
            // Scales whose difference overflows 32 bits, and numbers that are equal at other scales.
            let scale: i32 = *[0, 1, 2, 3, -1, -2, i32::MIN, i32::MIN + 1, i32::MAX]
                .choose(rng)
                .unwrap();
            let unscaled = match rng.random_range(0..3) {
                0 => varint(rng),
                _ => [0i16, 1, -1, 10, -10, 100, 99, 990, 1000, -1000, 7, 12]
                    .choose(rng)
                    .unwrap()
                    .to_be_bytes()
                    .to_vec(),
            };
            [&scale.to_be_bytes()[..], &unscaled].concat()
        }
        // Months, days and nanoseconds as zigzag integers: an even byte below 128 is not negative. Parts
        // of different signs would be invalid. The tests of literals have negative and long durations.
        CqlType::Duration => vec![2 * rng.random_range(0..9), 2 * rng.random_range(0..9), 0],
        CqlType::List { element, .. } => {
            build((0..rng.random_range(0..4)).map(|_| value(element, rng)))
        }
        CqlType::Set { element, .. } => {
            let mut parts: Vec<_> = (0..rng.random_range(0..4))
                .map(|_| value(element, rng))
                .collect();
            // In the normal form: in order, each once.
            parts.sort_by(|a, b| element.compare(a, b));
            parts.dedup_by(|a, b| element.compare(a, b).is_eq());
            build(parts)
        }
        CqlType::Map { key, value: of, .. } => {
            let mut parts: Vec<_> = (0..rng.random_range(0..4))
                .map(|_| (value(key, rng), value(of, rng)))
                .collect();
            parts.sort_by(|a, b| key.compare(&a.0, &b.0));
            parts.dedup_by(|a, b| key.compare(&a.0, &b.0).is_eq());
            build_map(parts)
        }
        CqlType::Tuple(types) => tuple(types.iter(), rng),
        CqlType::Udt { definition, .. } => tuple(definition.fields().iter().map(|(_, t)| t), rng),
    }
}

fn may_be_empty(ty: &CqlType) -> bool {
    ty.validate(&[]).is_ok()
}

/// Returns a tuple. Its last components may be missing, which makes them null; each of the others is null
/// in one case of five.
fn tuple<'a>(types: impl ExactSizeIterator<Item = &'a CqlType>, rng: &mut impl Rng) -> Vec<u8> {
    let mut out = Vec::new();
    let len = rng.random_range(0..=types.len());
    let len = if rng.random() { len } else { types.len() };
    for ty in types.take(len) {
        let part = rng.random_ratio(4, 5).then(|| value(ty, rng));
        write_element(part.as_deref(), &mut out);
    }
    out
}

/// Returns zero to four bytes, each from `from`.
fn few(from: &[u8], rng: &mut impl Rng) -> Vec<u8> {
    (0..rng.random_range(0..5))
        .map(|_| *from.choose(rng).unwrap())
        .collect()
}

/// Returns `len` bytes: all equal, zeros with one other byte, or random ones.
fn corners(len: usize, rng: &mut impl Rng) -> Vec<u8> {
    let corner = *[0, 1, 0x7f, 0x80, 0xff].choose(rng).unwrap();
    match rng.random_range(0..4) {
        0 => vec![corner; len],
        1 => (0..len).map(|_| rng.random()).collect(),
        _ => {
            let mut bytes = vec![*[0, 0xff].choose(rng).unwrap(); len];
            bytes[rng.random_range(0..len)] = corner;
            bytes
        }
    }
}

/// Returns a `varint`, short or long, with or without redundant bytes.
fn varint(rng: &mut impl Rng) -> Vec<u8> {
    let mut bytes = corners(rng.random_range(1..4), rng);
    let sign = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
    let more = *[0, 0, 0, 1, 3, 300].choose(rng).unwrap();
    if rng.random_ratio(1, 20) {
        // A long number: its length takes more than one byte.
        bytes.extend((0..rng.random_range(240..270)).map(|_| rng.random::<u8>()));
    }
    bytes.splice(..0, vec![sign; more]);
    bytes
}
