use std::borrow::Cow;

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

use super::generate::value;
use super::{ordered_types, parse, with_rng};
use crate::types::CqlType;
use crate::types::elements::{build, build_map, build_tuple, components, elements, pairs};

/// Returns the value with sets and maps at every depth in a random order. At random, a set has each
/// element twice. A map that is not empty has one key twice.
fn disorder(ty: &CqlType, bytes: &[u8], rng: &mut impl Rng) -> Vec<u8> {
    let parts = |bytes: &[u8]| -> Option<Vec<Vec<u8>>> {
        let parts = elements(bytes).ok()?;
        Some(parts.map(|part| part.unwrap().unwrap().to_vec()).collect())
    };
    match ty {
        CqlType::List { element, .. } => {
            let Some(parts) = parts(bytes) else {
                return bytes.to_vec();
            };
            let parts: Vec<_> = parts.iter().map(|p| disorder(element, p, rng)).collect();
            build(parts.iter().map(Vec::as_slice))
        }
        CqlType::Set { element, .. } => {
            let Some(mut parts) = parts(bytes) else {
                return bytes.to_vec();
            };
            if rng.random() {
                parts.extend(parts.clone());
            }
            parts.shuffle(rng);
            let parts: Vec<_> = parts.iter().map(|p| disorder(element, p, rng)).collect();
            build(parts.iter().map(Vec::as_slice))
        }
        CqlType::Map { key, value: of, .. } => {
            let Ok(parts) = pairs(bytes) else {
                return bytes.to_vec();
            };
            let parts: Vec<_> = parts.map(|part| part.unwrap().unwrap()).collect();
            let (entries, _) = parts.as_chunks::<2>();
            let mut entries = entries.to_vec();
            entries.shuffle(rng);
            let mut written = Vec::new();
            if let Some([k, _]) = entries.first() {
                // The last value of a key wins.
                written.push((disorder(key, k, rng), value(of, rng)));
            }
            for [k, v] in entries {
                written.push((disorder(key, k, rng), disorder(of, v, rng)));
            }
            build_map(written.iter().map(|(k, v)| (k.as_slice(), v.as_slice())))
        }
        CqlType::Tuple(types) => {
            let parts = components(bytes).zip(types.iter());
            let parts: Vec<_> = parts
                .map(|(part, ty)| part.unwrap().map(|part| disorder(ty, part, rng)))
                .collect();
            build_tuple(parts.iter().map(Option::as_deref))
        }
        CqlType::Udt { definition, .. } => {
            let types: Vec<_> = definition
                .fields()
                .iter()
                .map(|(_, ty)| ty.clone())
                .collect();
            disorder(&CqlType::tuple(types), bytes, rng)
        }
        _ => bytes.to_vec(),
    }
}

#[test]
fn values_in_any_order_become_one_at_every_depth() {
    with_rng(
        "values_in_any_order_become_one_at_every_depth",
        |mut rng| {
            let nested = [
                "set<int>",
                "map<text, frozen<set<int>>>",
                "frozen<list<frozen<set<text>>>>",
                "tuple<int, frozen<map<int, frozen<set<blob>>>>, text>",
                "frozen<set<frozen<tuple<frozen<set<int>>, frozen<address>>>>>",
                "map<frozen<set<int>>, frozen<list<frozen<map<int, int>>>>>",
            ];
            let mut changed = 0;
            for ty in nested.into_iter().map(parse).chain(ordered_types()) {
                for _ in 0..200 {
                    let normal = value(&ty, &mut rng);
                    ty.validate(&normal).unwrap();
                    let same = ty.normalize(&normal);
                    assert!(matches!(same, Cow::Borrowed(_)), "{ty}: {normal:02x?}");
                    let other = disorder(&ty, &normal, &mut rng);
                    ty.validate(&other).unwrap();
                    changed += u32::from(other != normal);
                    assert_eq!(ty.normalize(&other), normal, "{ty}: {other:02x?}");
                }
            }
            assert!(
                changed > 200,
                "hardly anything was in another order: {changed}"
            );
        },
    );
}

#[test]
fn damaged_values_are_left_as_they_are() {
    with_rng("damaged_values_are_left_as_they_are", |mut rng| {
        let ty = parse("map<int, frozen<tuple<frozen<set<int>>, frozen<address>>>>");
        for _ in 0..5_000 {
            let good = value(&ty, &mut rng);
            let mut bytes = disorder(&ty, &good, &mut rng);
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..bytes.len().max(1));
                match bytes.get_mut(at) {
                    Some(byte) if rng.random() => *byte = rng.random(),
                    _ => bytes.truncate(at),
                }
            }
            // The result does not matter, but the call must not panic.
            let _ = ty.normalize(&bytes);
        }
    });
}
