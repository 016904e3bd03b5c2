use super::*;
use crate::runtime::tests::with_attempt;
use ebb_test_support::seed::for_seeds;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

type Record = (u32, Vec<u8>, Vec<u8>);

/// Draws a record with a key that is empty, short, or has the same first bytes as others.
fn drawn_record(rng: &mut ChaCha8Rng, partitions: u32, value_len_max: usize) -> Record {
    let mut key = match rng.random_range(0..4) {
        0 => Vec::new(),
        1 => vec![rng.random_range(0..4)],
        2 => vec![0; rng.random_range(0..20)],
        _ => b"twelve bytes and more ".to_vec(),
    };
    key.extend((0..rng.random_range(0..3)).map(|_| rng.random_range(0..3_u8)));
    let mut value = vec![0; rng.random_range(0..=value_len_max)];
    rng.fill_bytes(&mut value);
    (rng.random_range(0..partitions), key, value)
}

fn sorted(buffer: &mut SortBuffer, partitions: u32) -> Vec<Record> {
    with_attempt(|attempt| buffer.sort(attempt));
    let mut records = Vec::new();
    for partition in 0..partitions {
        let mut cursor = buffer.cursor(partition);
        while let Some((key, value)) = cursor.current() {
            records.push((partition, key.to_vec(), value.to_vec()));
            cursor.advance().unwrap();
        }
    }
    records
}

#[test]
fn fillings_are_sorted_and_stable_and_stay_within_the_budget() {
    let test = "fillings_are_sorted_and_stable_and_stay_within_the_budget";
    for_seeds(test, 20, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let budget_bytes = rng.random_range(8 << 10..64 << 10);
        let partitions = rng.random_range(1..5);
        let mut buffer = SortBuffer::new(budget_bytes);
        for _ in 0..4 {
            let value_len_max = rng.random_range(0..budget_bytes / 16);
            let mut expected: Vec<Record> = Vec::new();
            let next = loop {
                let record = drawn_record(&mut rng, partitions, value_len_max);
                let (partition, key, value) = &record;
                if !buffer.has_room(key.len() + value.len()) {
                    break record;
                }
                buffer.push(*partition, key, value).unwrap();
                assert!(buffer.allocated_bytes() <= budget_bytes);
                expected.push(record);
            };
            expected.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
            assert!(sorted(&mut buffer, partitions) == expected);
            buffer.restart();
            assert!(buffer.is_empty() && buffer.has_room(next.1.len() + next.2.len()));
        }
    });
}

#[test]
fn from_the_second_filling_on_nearly_all_of_the_budget_is_filled() {
    let budget_bytes = 1 << 20;
    for value_bytes in [1, 20, 100, 1000] {
        let mut buffer = SortBuffer::new(budget_bytes);
        let value = vec![7; value_bytes];
        let mut fillings = [0_usize; 3];
        for filled_bytes in &mut fillings {
            while buffer.has_room(8 + value_bytes) {
                buffer.push(0, &filled_bytes.to_be_bytes(), &value).unwrap();
                *filled_bytes += 8 + value_bytes + ENTRY_BYTES;
            }
            buffer.restart();
        }
        let nearly = budget_bytes * 7 / 8;
        assert!(fillings[0] > budget_bytes * 3 / 8, "{fillings:?}");
        assert!(fillings[1..].iter().all(|n| *n > nearly), "{fillings:?}");
    }
}

#[test]
fn a_record_larger_than_the_budget_fits_alone() {
    let mut buffer = SortBuffer::new(1 << 10);
    assert!(buffer.has_room(1 << 20));
    buffer.push(0, b"key", &vec![1; 1 << 20]).unwrap();
    assert!(!buffer.has_room(0));
    let records = sorted(&mut buffer, 1);
    assert_eq!(records, [(0, b"key".to_vec(), vec![1; 1 << 20])]);
    buffer.restart();
    assert!(buffer.allocated_bytes() < 1 << 11);
}

/// Adds the number `value` to the number `into`, and returns true; returns false if one
/// of them does not have eight bytes.
fn add(into: &mut [u8], value: &[u8]) -> bool {
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes);
    match (number(into), number(value)) {
        (Ok(a), Ok(b)) => {
            into.copy_from_slice(&(a + b).to_le_bytes());
            true
        }
        _ => false,
    }
}

#[test]
fn combined_values_add_up_within_the_budget_and_keys_of_partitions_stay_apart() {
    let test = "combined_values_add_up_within_the_budget_and_keys_of_partitions_stay_apart";
    for_seeds(test, 20, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let budget_bytes = rng.random_range(16 << 10..128 << 10);
        let partitions = rng.random_range(1..4);
        let keys = rng.random_range(1..5000_u32);
        let mut buffer = SortBuffer::new(budget_bytes);
        let (mut sums, mut expected) = (BTreeMap::new(), BTreeMap::new());
        let mut empty_into_sums = |buffer: &mut SortBuffer| {
            let records = sorted(buffer, partitions);
            for (partition, key, value) in records {
                let value = u64::from_le_bytes(value.try_into().unwrap());
                *sums.entry((partition, key)).or_insert(0) += value;
            }
            buffer.restart();
        };
        for n in 0..20_000_u64 {
            let key = format!("a key like others {}", rng.random_range(0..keys));
            let (key, value) = (key.as_bytes(), n.to_le_bytes());
            let partition = rng.random_range(0..partitions);
            *expected.entry((partition, key.to_vec())).or_insert(0) += n;
            let mut combined = buffer.combine(partition, key, &value, &add);
            let has_room = buffer.has_room(key.len() + value.len());
            if matches!(combined, CombineOutcome::Full)
                || matches!(combined, CombineOutcome::Apart(_)) && !has_room
            {
                empty_into_sums(&mut buffer);
                combined = buffer.combine(partition, key, &value, &add);
            }
            if let CombineOutcome::Apart(vacancy) = combined {
                buffer.push(partition, key, &value).unwrap();
                vacancy.into_iter().for_each(|at| buffer.index_last(at));
            }
            assert!(buffer.allocated_bytes() <= budget_bytes);
        }
        empty_into_sums(&mut buffer);
        assert_eq!(sums, expected);
    });
}

#[test]
fn values_that_cannot_be_combined_stay_apart_and_in_order() {
    let mut buffer = SortBuffer::new(64 << 10);
    for value in [&[1, 0, 0, 0, 0, 0, 0, 0][..], b"short", b"tiny!"] {
        match buffer.combine(0, b"key", value, &add) {
            CombineOutcome::Apart(vacancy) => {
                buffer.push(0, b"key", value).unwrap();
                vacancy.into_iter().for_each(|at| buffer.index_last(at));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(
        buffer.combine(0, b"key", &2_u64.to_le_bytes(), &add),
        CombineOutcome::Done
    ));
    let values: Vec<_> = sorted(&mut buffer, 1)
        .into_iter()
        .map(|(_, _, value)| value)
        .collect();
    assert_eq!(values, [&3_u64.to_le_bytes()[..], b"short", b"tiny!"]);
}
