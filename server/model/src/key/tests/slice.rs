use std::cmp::Ordering;
use std::ops::Bound;

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use super::layout::layout;
use crate::key::{ClusteringColumn, KeyLayout, Order, SCHEMA_KEY, SliceBound, Token, token_range};
use crate::types::tests::{generate, parse, with_rng};

fn refs(values: &[Vec<u8>]) -> Vec<&[u8]> {
    values.iter().map(Vec::as_slice).collect()
}

/// Compares two clusterings column by column, up to the length of the shorter one. Each column is
/// compared in the ascending order of its type, even if it sorts descending.
fn compare(columns: &[ClusteringColumn], a: &[Vec<u8>], b: &[Vec<u8>]) -> Ordering {
    columns
        .iter()
        .zip(a.iter().zip(b))
        .map(|(column, (a, b))| column.ty.compare(a, b))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn random_bound(columns: &[ClusteringColumn], rng: &mut impl Rng) -> Option<(Vec<Vec<u8>>, bool)> {
    if columns.is_empty() || rng.random_ratio(1, 3) {
        return None;
    }
    let len = rng.random_range(1..=columns.len());
    let values = columns[..len]
        .iter()
        .map(|c| generate::value(&c.ty, rng))
        .collect();
    Some((values, rng.random()))
}

/// The ranges contain exactly the rows that satisfy the restrictions when tested one by one; the
/// ranges come in order and do not touch.
#[test]
fn slices_select_the_rows_of_their_restrictions() {
    // The types have few likely values, so that rows often lie at a bound. Two have a fixed and two a
    // variable length. Equal values of `boolean` and of `decimal` may have different bytes.
    let types = ["tinyint", "boolean", "text", "decimal"];
    with_rng("slices_select_the_rows_of_their_restrictions", |mut rng| {
        for round in 0..3000 {
            let columns: Vec<ClusteringColumn> = (0..rng.random_range(1..4))
                .map(|_| ClusteringColumn {
                    ty: parse(types.choose(&mut rng).unwrap()),
                    order: if rng.random() {
                        Order::Asc
                    } else {
                        Order::Desc
                    },
                })
                .collect();
            let layout = KeyLayout::new(vec![parse("int")], columns.clone());
            let equal: Vec<Vec<u8>> = columns[..rng.random_range(0..columns.len())]
                .iter()
                .map(|c| generate::value(&c.ty, &mut rng))
                .collect();
            let rest = &columns[equal.len()..];
            let (lower, upper) = (random_bound(rest, &mut rng), random_bound(rest, &mut rng));

            let low = lower
                .as_ref()
                .map(|(values, inclusive)| (refs(values), *inclusive));
            let high = upper
                .as_ref()
                .map(|(values, inclusive)| (refs(values), *inclusive));
            let ranges = layout
                .slices(
                    &refs(&equal),
                    low.as_ref().map(|(values, inclusive)| SliceBound {
                        values,
                        inclusive: *inclusive,
                    }),
                    high.as_ref().map(|(values, inclusive)| SliceBound {
                        values,
                        inclusive: *inclusive,
                    }),
                )
                .unwrap();
            for range in &ranges {
                assert!(!range.is_empty());
            }
            for pair in ranges.windows(2) {
                assert!(pair[0].to.as_ref().is_some_and(|to| *to < pair[1].from));
            }

            let partition = layout.partition_key(&[&[0, 0, 0, 1]]).unwrap();
            for _ in 0..40 {
                let mut row: Vec<Vec<u8>> = columns
                    .iter()
                    .map(|c| generate::value(&c.ty, &mut rng))
                    .collect();
                // Rows at the bounds are the interesting ones.
                if rng.random_ratio(3, 4) {
                    row[..equal.len()].clone_from_slice(&equal);
                    if let Some((values, _)) = [&lower, &upper].choose(&mut rng).unwrap() {
                        let len = rng.random_range(0..=values.len());
                        row[equal.len()..][..len].clone_from_slice(&values[..len]);
                    }
                }
                let tail = &row[equal.len()..];
                let selected = compare(&columns, &row[..equal.len()], &equal).is_eq()
                    && lower.as_ref().is_none_or(|(values, inclusive)| {
                        let order = compare(rest, tail, values);
                        order.is_gt() || *inclusive && order.is_eq()
                    })
                    && upper.as_ref().is_none_or(|(values, inclusive)| {
                        let order = compare(rest, tail, values);
                        order.is_lt() || *inclusive && order.is_eq()
                    });
                let key = layout.row_key(&partition, &refs(&row)).unwrap();
                let clustering = &key[partition.prefix().len() + 1..];
                let found = ranges.iter().filter(|r| r.contains(clustering));
                assert_eq!(
                    found.count(),
                    usize::from(selected),
                    "round {round}: {columns:?} {equal:x?} {lower:x?} {upper:x?} {row:x?}"
                );
            }
        }
    });
}

#[test]
fn one_direction_gives_one_range() {
    let layout = layout(&["int"], &[("int", Order::Desc), ("int", Order::Desc)]);
    let (one, two) = ([0, 0, 0, 1], [0, 0, 0, 2]);
    let bound = |values| SliceBound {
        values,
        inclusive: false,
    };
    let lower: [&[u8]; 2] = [&one, &two];
    let upper: [&[u8]; 1] = [&two];
    let ranges = layout
        .slices(&[], Some(bound(&lower)), Some(bound(&upper)))
        .unwrap();
    assert_eq!(ranges.len(), 1);
    assert_eq!(layout.slices(&[], None, None).unwrap()[0].from, b"");
    assert!(
        layout
            .slices(&[], Some(bound(&upper)), Some(bound(&upper)))
            .unwrap()
            .is_empty()
    );
    let three: [&[u8]; 3] = [&one, &two, &one];
    assert!(
        layout
            .slices(&[], Some(bound(&three)), Some(bound(&three)))
            .is_err()
    );
}

#[test]
fn token_ranges_are_half_open_bytes() {
    with_rng("token_ranges_are_half_open_bytes", |mut rng| {
        let mut tokens = vec![Token::MIN, Token::MAX, Token(0), Token(-1)];
        tokens.extend((0..20).map(|_| Token(rng.random())));
        let bounds = |token| {
            [
                Bound::Unbounded,
                Bound::Included(token),
                Bound::Excluded(token),
            ]
        };
        for &a in &tokens {
            for &b in &tokens {
                for start in bounds(a) {
                    for end in bounds(b) {
                        let range = token_range(start, end);
                        assert!(!range.contains(SCHEMA_KEY));
                        for &token in &tokens {
                            let key = [&token.to_ordered()[..], b"\0\x01k\x01"].concat();
                            // No partition has the least token.
                            let selected = token != Token::MIN
                                && std::ops::RangeBounds::contains(&(start, end), &token);
                            assert_eq!(
                                range.contains(&key),
                                selected,
                                "{start:?} {end:?} {token:?}"
                            );
                        }
                    }
                }
            }
        }
    });
}
