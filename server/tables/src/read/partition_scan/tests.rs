//! Scans of one partition, compared with a simple model.

use ebb_model::key::PartitionKey;
use ebb_storage::Entry;
use ebb_test_support::seed::for_seeds;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::read::Projection;
use crate::read::tests::schema;

/// Returns a random selection of rows, all of whose clusterings are one byte from 0 to 9.
fn selection(random: &mut ChaCha8Rng) -> Rows {
    let bounds: Vec<u8> = (0..10).filter(|_| random.random_bool(0.4)).collect();
    match random.random_range(0..3) {
        0 => Rows::All,
        1 => Rows::Exactly(bounds.into_iter().map(|c| vec![c]).collect()),
        _ => {
            let range = |ends: &[u8]| ByteRange {
                from: vec![ends[0]],
                to: ends.get(1).map(|&to| vec![to]),
            };
            Rows::In(bounds.chunks(2).map(range).collect())
        }
    }
}

#[test]
fn a_scan_of_a_partition_gives_the_rows_of_a_simple_model() {
    let test = "a_scan_of_a_partition_gives_the_rows_of_a_simple_model";
    let schema = schema();
    let projection = Projection::new(&schema, &[]);
    let partition = PartitionKey::new(&[&1_i32.to_be_bytes()]).unwrap();
    let header_key = partition.header_key();
    let key_of = |c: u8| [&partition.prefix()[..], &[ROW, c]].concat();
    for_seeds(test, 300, |seed| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let entry = |key: Vec<u8>| -> Entry { (key.into(), Bytes::from_static(b"operand")) };
        let mut stored = vec![entry(header_key.clone())];
        let there = (0..10).filter(|_| random.random_bool(0.5));
        stored.extend(there.map(|c| entry(key_of(c))));
        let rows = selection(&mut random);
        let reversed = random.random_bool(0.5);
        let mut bound = || (random.random_bool(0.5)).then(|| key_of(random.random_range(0..10)));
        let bounds = ByteRange {
            from: bound().unwrap_or_default(),
            to: bound(),
        };
        let mut expected: Vec<Vec<u8>> = (stored[1..].iter())
            .map(|(key, _)| key.to_vec())
            .filter(|key| rows.contains(&key[header_key.len()..]) && bounds.contains(key))
            .collect();
        let is_stored = |key: &Vec<u8>| stored.iter().any(|(one, _)| one == key);
        let selected = match &rows {
            Rows::Exactly(clusterings) => &clusterings[..],
            Rows::All | Rows::In(_) => &[],
        };
        let mut expected_absent: Vec<Vec<u8>> = (selected.iter())
            .map(|clustering| key_of(clustering[0]))
            .filter(|key| bounds.contains(key) && !is_stored(key))
            .collect();
        if reversed {
            expected.reverse();
            expected_absent.reverse();
        }

        let reader = RowReader {
            source: Source::Memory(&stored),
            schema: &schema,
            projection: &projection,
            read_time_s: 0,
            static_rows: false,
        };
        let decoded = DecodedKey::read(&header_key).unwrap();
        let (header, mut scan) = PartitionScan::open(
            &reader,
            decoded,
            &header_key,
            &rows,
            bounds.clone(),
            reversed,
        )
        .unwrap();
        assert_eq!(header.unwrap(), "operand");
        let (mut found, mut absent, mut seeks) = (Vec::new(), Vec::new(), 0);
        loop {
            match scan.advance().unwrap() {
                RowStep::Row(row) => found.push(row.key.to_vec()),
                RowStep::Absent(key) => absent.push(key.to_vec()),
                RowStep::Seek => seeks += 1,
                RowStep::Unselected(_) | RowStep::Passed(_) => {
                    panic!("the scan reads selected rows only")
                }
                RowStep::Done => break,
            }
        }
        assert_eq!((found, absent), (expected, expected_absent));
        match &rows {
            Rows::All => assert!(seeks <= 1),
            Rows::Exactly(_) => assert_eq!(seeks, 0),
            Rows::In(ranges) => assert!(seeks <= ranges.len()),
        }
        assert!(matches!(scan.advance().unwrap(), RowStep::Done));
    });
}
