use super::*;
use crate::runtime::tests::with_attempt;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

type Record = (u32, Vec<u8>, Vec<u8>);

/// Empty, short, or alike in their first bytes.
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
fn fillings_come_sorted_and_equal_keys_in_order_of_emission_within_the_budget() {
    for _ in 0..20 {
        let seed = rand::random();
        println!("seed {seed}");
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
    }
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
