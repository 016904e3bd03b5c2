use std::convert::Infallible;

use rand::RngExt;

use super::with_rng;
use crate::types::{CqlType, sort_once, sort_stable};

/// Returns the bytes of each value, big endian, with the value's index.
fn numbered(values: &[i32]) -> Vec<(usize, [u8; 4])> {
    let values = values.iter().map(|value| value.to_be_bytes());
    values.enumerate().collect()
}

#[test]
fn items_come_in_order_and_the_first_of_equal_ones_stays() {
    with_rng("sort_once", |mut rng| {
        let count = rng.random_range(0..200);
        let values: Vec<i32> = (0..count).map(|_| rng.random_range(-50..50)).collect();
        let items = numbered(&values);
        let mut same = items.clone();
        same.sort_by_key(|(_, bytes)| i32::from_be_bytes(*bytes));
        same.dedup_by_key(|(_, bytes)| *bytes);
        let Ok(sorted) = sort_once(&CqlType::Int, items, |(_, bytes)| bytes, &mut |_| {
            Ok::<_, Infallible>(())
        });
        assert_eq!(sorted, same, "{values:?}");
    });
}

#[test]
fn a_stable_sort_keeps_all_items_and_the_order_of_equal_ones() {
    with_rng("sort_stable", |mut rng| {
        let count = rng.random_range(0..200);
        let items: Vec<(i32, usize)> = (0..count)
            .map(|number| (rng.random_range(0..20), number))
            .collect();
        let mut same = items.clone();
        same.sort_by_key(|(value, _)| *value);
        let Ok(sorted) = sort_stable(items, |(a, _), (b, _)| Ok::<_, Infallible>(a.cmp(b)));
        assert_eq!(sorted, same);
    });
    let given_up = sort_stable(vec![1, 2], |_, _| Err("given up"));
    assert_eq!(given_up, Err("given up"));
}

#[test]
fn a_sort_takes_few_comparisons_and_ends_when_one_fails() {
    // Many short runs, and runs of one item each.
    let mixed: Vec<i32> = (0..1024).map(|number| number ^ 0x155).collect();
    let reversed: Vec<i32> = (0..1024).rev().collect();
    for values in [mixed, reversed] {
        for charges_max in [0, 1, 100, 5_000, usize::MAX] {
            let mut charges = 0;
            let sorted = sort_once(
                &CqlType::Int,
                numbered(&values),
                |(_, bytes)| bytes,
                &mut |_| {
                    charges += 1;
                    if charges > charges_max {
                        return Err("given up");
                    }
                    Ok(())
                },
            );
            match sorted {
                Ok(sorted) => assert_eq!(sorted.len(), 1024),
                Err(error) => assert_eq!((error, charges), ("given up", charges_max + 1)),
            }
            // 1024 times its binary logarithm, and once more to find the runs.
            assert!(charges <= 11 * 1024, "{charges}");
        }
    }
}

#[test]
fn decimals_of_different_scales_are_charged_for_the_power_between_them() {
    let decimal = |scale: i32| [&scale.to_be_bytes()[..], &[7; 1000]].concat();
    let charged = |ty: &CqlType, a: &[u8], b: &[u8]| {
        let mut bytes = 0;
        let Ok(_) = ty.try_compare(a, b, &mut |more| {
            bytes += more;
            Ok::<_, Infallible>(())
        });
        bytes
    };
    let (a, b) = (decimal(0), decimal(1));
    assert_eq!(charged(&CqlType::Decimal, &a, &a), a.len());
    assert_eq!(charged(&CqlType::Decimal, &a, &b), 64 * 2 * a.len());
    let list = CqlType::list(CqlType::Decimal).freeze();
    let of = |one: &[u8]| crate::types::elements::build([one, one]);
    assert!(charged(&list, &of(&a), &of(&b)) > 64 * 2 * a.len());
}
