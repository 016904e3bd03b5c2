use rand::RngExt;
use rand::seq::IndexedRandom;

use crate::key::{
    ByteRange, ClusteringColumn, DecodedKey, KEY_LEN_MAX, KeyError, KeyLayout, Order, PartitionKey,
    Place, SCHEMA_KEY, Token, ordered, token_range,
};
use crate::types::tests::{generate, ordered_types, parse, with_rng};

pub(super) fn layout(partition: &[&str], clustering: &[(&str, Order)]) -> KeyLayout {
    KeyLayout::new(
        partition.iter().map(|t| parse(t)).collect(),
        clustering
            .iter()
            .map(|&(ty, order)| ClusteringColumn {
                ty: parse(ty),
                order,
            })
            .collect(),
    )
}

#[test]
fn a_header_comes_before_its_rows_and_partitions_stay_apart() {
    let layout = layout(&["blob"], &[("blob", Order::Asc)]);
    with_rng(
        "a_header_comes_before_its_rows_and_partitions_stay_apart",
        |mut rng| {
            let mut keys = Vec::new();
            for _ in 0..200 {
                let key: Vec<u8> = (0..rng.random_range(1..4)).map(|_| rng.random()).collect();
                let partition = layout.partition_key(&[&key]).unwrap();
                let header = partition.header_key();
                let row = layout.row_key(&partition, &[b""]).unwrap();
                assert!(header < row && *SCHEMA_KEY < *header);
                let range = partition.range();
                assert!(range.contains(&header) && range.contains(&row));
                keys.push((header, key.clone()));
                keys.push((row, key));
            }
            keys.sort();
            keys.dedup();
            let mut partitions: Vec<_> = keys
                .chunks(2)
                .map(|pair| {
                    assert_eq!(pair[0].1, pair[1].1, "a header is followed by its row");
                    Token::of(&pair[0].1)
                })
                .collect();
            assert!(partitions.is_sorted());
            partitions.dedup();
            for token in &partitions {
                let range = token_range(
                    std::ops::Bound::Included(*token),
                    std::ops::Bound::Included(*token),
                );
                let inside = keys.iter().filter(|(key, _)| range.contains(key));
                assert!(inside.clone().all(|(_, key)| Token::of(key) == *token));
                assert!(inside.count() >= 2);
            }
        },
    );
}

#[test]
fn the_keys_of_a_range_of_clusterings_are_those_of_its_rows() {
    let layout = layout(&["blob"], &[("int", Order::Asc)]);
    let partition = layout.partition_key(&[b"p"]).unwrap();
    let row = |n: i32| layout.row_key(&partition, &[&n.to_be_bytes()]).unwrap();
    let clustering = |n: i32| {
        let mut out = Vec::new();
        let encoded = layout.encode_clustering(&[&n.to_be_bytes()], &mut out);
        encoded.unwrap();
        out
    };
    for (from, to, inside, outside) in [
        (None, None, &[i32::MIN, 0, i32::MAX][..], &[][..]),
        (Some(2), None, &[2, i32::MAX], &[i32::MIN, 1]),
        (None, Some(3), &[i32::MIN, 2], &[3, i32::MAX]),
        (Some(2), Some(4), &[2, 3], &[1, 4]),
    ] {
        let keys = partition.rows_in(&ByteRange {
            from: from.map(clustering).unwrap_or_default(),
            to: to.map(clustering),
        });
        assert!(!keys.contains(&partition.header_key()));
        assert!(inside.iter().all(|n| keys.contains(&row(*n))), "{keys:?}");
        assert!(!outside.iter().any(|n| keys.contains(&row(*n))), "{keys:?}");
    }
}

#[test]
fn rows_sort_by_their_columns_each_in_its_direction() {
    let types = ordered_types();
    with_rng(
        "rows_sort_by_their_columns_each_in_its_direction",
        |mut rng| {
            for _ in 0..150 {
                let columns: Vec<ClusteringColumn> = (0..rng.random_range(1..4))
                    .map(|_| ClusteringColumn {
                        ty: types.choose(&mut rng).unwrap().clone(),
                        order: if rng.random() {
                            Order::Asc
                        } else {
                            Order::Desc
                        },
                    })
                    .collect();
                let layout = KeyLayout::new(vec![parse("int")], columns.clone());
                let partition = layout.partition_key(&[&[0, 0, 0, 1]]).unwrap();
                for _ in 0..60 {
                    let mut row = || -> Vec<Vec<u8>> {
                        columns
                            .iter()
                            .map(|c| generate::value(&c.ty, &mut rng))
                            .collect()
                    };
                    let (a, b) = (row(), row());
                    let key = |values: &[Vec<u8>]| {
                        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
                        layout.row_key(&partition, &values).unwrap()
                    };
                    let order = columns.iter().zip(a.iter().zip(&b)).fold(
                        std::cmp::Ordering::Equal,
                        |so_far, (column, (a, b))| {
                            so_far.then(match column.order {
                                Order::Asc => column.ty.compare(a, b),
                                Order::Desc => column.ty.compare(b, a),
                            })
                        },
                    );
                    assert_eq!(key(&a).cmp(&key(&b)), order, "{columns:?} {a:x?} {b:x?}");

                    let key = key(&a);
                    let read = DecodedKey::read(&key).unwrap();
                    assert_eq!(read.token, partition.token());
                    assert_eq!(read.prefix, partition.prefix());
                    assert_eq!(
                        layout.partition_values(read.partition_key).unwrap(),
                        [[0, 0, 0, 1]]
                    );
                    let Place::Row(encoded) = read.place else {
                        panic!("a row is no header");
                    };
                    let back = layout.clustering_values(encoded).unwrap();
                    for (i, (value, back)) in a.iter().zip(&back).enumerate() {
                        let mut form = Vec::new();
                        ordered::encode(&columns[i].ty, value, &mut form).unwrap();
                        assert_eq!(layout.clustering_form(encoded, i).unwrap(), form);
                        assert!(columns[i].ty.compare(value, back).is_eq());
                        assert_eq!(layout.is_reconstructible(i, value), value == back);
                    }
                    assert!(
                        layout
                            .clustering_values(&encoded[..encoded.len() - 1])
                            .is_err()
                    );
                }
            }
        },
    );
}

#[test]
fn composite_partition_keys_come_back() {
    let layout = layout(&["text", "int", "blob"], &[]);
    let values: [&[u8]; 3] = [b"", &[0, 0, 0, 1], &[0; 9]];
    let key = layout.partition_key(&values).unwrap();
    assert_eq!(layout.partition_values(key.as_bytes()).unwrap(), values);
    let row = layout.row_key(&key, &[]).unwrap();
    assert_eq!(DecodedKey::read(&row).unwrap().place, Place::Row(&[]));
    assert_eq!(
        DecodedKey::read(&key.header_key()).unwrap().place,
        Place::Header
    );
    assert!(layout.partition_values(&key.as_bytes()[1..]).is_err());
}

#[test]
fn keys_beyond_the_limit_are_refused_in_cassandras_words() {
    let layout = layout(&["blob"], &[("blob", Order::Asc), ("blob", Order::Desc)]);
    let long = vec![0; KEY_LEN_MAX];
    let error = |result: Result<PartitionKey, KeyError>| result.unwrap_err().to_string();
    assert_eq!(error(layout.partition_key(&[b""])), "Key may not be empty");
    assert_eq!(
        error(layout.partition_key(&[&[long.as_slice(), b"x"].concat()])),
        "Key length of 65536 is longer than maximum of 65535"
    );
    let partition = layout.partition_key(&[&long]).unwrap();
    assert_eq!(
        layout
            .row_key(&partition, &[&long, b"x"])
            .unwrap_err()
            .to_string(),
        "The sum of all clustering columns is too long (65536 > 65535)"
    );
    // Zeros take twice their length; the key still fits the engine's bound.
    let key = layout.row_key(&partition, &[&long, b""]).unwrap();
    assert!(key.len() <= 256 << 10);
}

/// A key with the longest value of any clustering type (64 KiB), whose ordered form is longer than
/// the value, stays within the engine's limit on keys (256 KiB).
#[test]
fn the_longest_keys_of_any_type_fit_the_engine() {
    for (ty, value) in [
        (
            "decimal",
            [&[0, 0, 0, 0, 0x7f][..], &[0xff; 65530]].concat(),
        ),
        ("varint", vec![0x7f; 65535]),
        ("frozen<list<text>>", {
            let count = (65535 - 4) / 4;
            crate::types::elements::build(std::iter::repeat_n(&b""[..], count))
        }),
        ("frozen<list<decimal>>", {
            let count = (65535 - 4) / 9;
            crate::types::elements::build(std::iter::repeat_n(&[0, 0, 0, 0, 1_u8][..], count))
        }),
    ] {
        let layout = layout(&["blob"], &[(ty, Order::Desc)]);
        let partition = layout.partition_key(&[&[1; KEY_LEN_MAX]]).unwrap();
        assert!(value.len() > 65_500);
        let key = layout.row_key(&partition, &[&value]).unwrap();
        assert!(key.len() <= 256 << 10, "{ty}: {}", key.len());
    }
}

#[test]
fn random_keys_are_read_or_refused() {
    let layout = layout(
        &["int", "int"],
        &[("text", Order::Desc), ("varint", Order::Asc)],
    );
    with_rng("random_keys_are_read_or_refused", |mut rng| {
        for _ in 0..20_000 {
            let mut key: Vec<u8> = (0..rng.random_range(0..40)).map(|_| rng.random()).collect();
            if key.len() > 10 {
                key[8..10].copy_from_slice(&[0, rng.random_range(0..30)]);
            }
            let Ok(read) = DecodedKey::read(&key) else {
                continue;
            };
            let _ = layout.partition_values(read.partition_key);
            if let Place::Row(encoded) = read.place {
                let _ = layout.clustering_values(encoded);
            }
        }
    });
}
