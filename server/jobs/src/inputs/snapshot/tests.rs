use std::cell::Cell;

use super::*;
use ebb_storage::{Db, Maintenance, Options, Table, TableOptions};

struct Fixture {
    _dir: tempfile::TempDir,
    db: Db,
    table: Table,
}

/// Creates a table of `rows` rows, with values of `value_bytes` bytes each that LZ4 cannot compress
/// much.
fn fixture(rows: u64, value_bytes: usize) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        maintenance: Maintenance::Manual,
        ..Options::default()
    };
    let db = Db::open(dir.path(), options).unwrap();
    let table = db.keyspace("k").unwrap();
    let table = table.table("t", TableOptions::default()).unwrap();
    let mut state = 1_u64;
    for row in 0..rows {
        let mut byte = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 56) as u8
        };
        let value: Vec<u8> = (0..value_bytes).map(|_| byte()).collect();
        table.put(&row.to_be_bytes(), &value).unwrap();
    }
    let fixture = Fixture {
        _dir: dir,
        db,
        table,
    };
    fixture.keyspace().create_snapshot("s").unwrap();
    fixture
}

impl Fixture {
    fn keyspace(&self) -> ebb_storage::Keyspace {
        self.db.existing_keyspace("k").unwrap()
    }

    fn input(&self, splits: usize) -> SnapshotInput {
        let snapshot = self.keyspace().snapshot("s").unwrap();
        SnapshotInput::new(snapshot.table("t").unwrap(), splits)
    }
}

/// Reads an input. Returns for each split the keys of its rows, and the bytes of their keys and
/// values.
fn read(input: &SnapshotInput) -> Vec<(Vec<u64>, u64)> {
    let splits = input.splits().unwrap();
    let read = |split: &Split| {
        let (mut keys, mut bytes) = (Vec::new(), 0);
        let mut record = |key: &[u8], value: &[u8]| {
            keys.push(u64::from_be_bytes(key.try_into().unwrap()));
            bytes += (key.len() + value.len()) as u64;
            Ok(())
        };
        input.read(split, &mut record).unwrap();
        (keys, bytes)
    };
    splits.iter().map(read).collect()
}

/// Regression: a task that passed very many keys could not be cancelled, and counted as stalled.
#[test]
fn a_task_reaches_checkpoints_among_keys_that_its_snapshot_does_not_show() {
    let fixture = fixture(10, 10);
    for row in 10..1_010_u64 {
        fixture.table.put(&row.to_be_bytes(), b"newer").unwrap();
    }
    let input = fixture.input(1);
    let split = &input.splits().unwrap()[0];
    let (checkpoints, mut rows) = (Cell::new(0), 0);
    let mut record = |_: &[u8], _: &[u8]| {
        rows += 1;
        Ok(())
    };
    let read = input.read_with_checkpoints(split, &mut record, &|| {
        checkpoints.set(checkpoints.get() + 1);
        Ok(())
    });
    read.unwrap();
    assert_eq!((rows, checkpoints.get()), (10, 1000 / 32));

    let cancelled = || Err(TaskError::Cancelled);
    let ended = input.read_with_checkpoints(split, &mut |_, _| Ok(()), &cancelled);
    assert!(matches!(ended, Err(TaskError::Cancelled)));
    let ended = input.sample(split, 100, &mut |_, _| Ok(()), &cancelled);
    assert!(matches!(ended, Err(TaskError::Cancelled)));
}

fn assert_even(input: &SnapshotInput, splits: usize, rows: u64) {
    let parts = read(input);
    assert_eq!(parts.len(), splits);
    let total: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
    let even = total / splits as u64;
    for (_, bytes) in &parts {
        assert!(bytes.abs_diff(even) < even / 8, "{bytes} of {total}");
    }
    let keys = parts.into_iter().flat_map(|(keys, _)| keys);
    assert!(keys.eq(0..rows), "every row once and in order");
}

#[test]
fn a_table_that_lies_in_memory_is_cut_evenly() {
    let fixture = fixture(2000, 1000);
    assert_even(&fixture.input(4), 4, 2000);
    assert_even(&fixture.input(1), 1, 2000);
}

#[test]
fn a_table_that_lies_on_disk_is_cut_evenly_and_read_past_the_cache() {
    let fixture = fixture(6000, 1000);
    fixture.db.flush().unwrap();
    assert_even(&fixture.input(5), 5, 6000);
    assert_eq!(fixture.db.stats().cache_bytes, 0);
}

#[test]
fn a_range_of_keys_is_cut_evenly_and_nothing_else_is_read() {
    for flushed in [false, true] {
        let fixture = fixture(9000, 1000);
        if flushed {
            fixture.db.flush().unwrap();
        }
        let key = |row: u64| Bytes::copy_from_slice(&row.to_be_bytes());
        let within = |from, to: Option<u64>| {
            let input = fixture.input(4).within(key(from), to.map(key));
            let parts = read(&input);
            assert_eq!(parts.len(), 4);
            let total: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
            for (_, bytes) in &parts {
                assert!(bytes.abs_diff(total / 4) < total / 32, "{bytes} of {total}");
            }
            let keys = parts.into_iter().flat_map(|(keys, _)| keys);
            assert!(keys.eq(from..to.unwrap_or(9000)));
        };
        within(1000, Some(7000));
        within(0, Some(6000));
        within(2500, None);
        let nothing = fixture.input(4).within(key(9000), None);
        assert_eq!(read(&nothing), [(vec![], 0)]);
    }
}

#[test]
fn a_small_or_empty_table_is_one_split() {
    assert_even(&fixture(10, 10).input(8), 1, 10);
    assert_eq!(read(&fixture(0, 0).input(8)), [(vec![], 0)]);
}

#[test]
fn a_split_gives_the_same_rows_after_all_of_them_were_overwritten() {
    let fixture = fixture(2000, 200);
    let input = fixture.input(3);
    let before = read(&input);
    for row in 0..2000_u64 {
        fixture.table.delete(&row.to_be_bytes()).unwrap();
    }
    fixture.db.flush().unwrap();
    fixture.db.compact().unwrap();
    assert_eq!(read(&input), before);
}

/// Returns the keys of the splits. The snapshot and the rows are deleted while the first
/// split is read.
fn read_while_it_is_deleted(
    fixture: &Fixture,
    input: &SnapshotInput,
    splits: &[Split],
) -> Vec<u64> {
    let mut keys = Vec::new();
    let mut record = |key: &[u8], _: &[u8]| {
        if keys.is_empty() {
            fixture.keyspace().delete_snapshot("s").unwrap();
            fixture.table.truncate().unwrap();
            fixture.db.flush().unwrap();
            fixture.db.compact().unwrap();
        }
        keys.push(u64::from_be_bytes(key.try_into().unwrap()));
        Ok(())
    };
    for split in splits {
        input.read(split, &mut record).unwrap();
    }
    keys
}

#[test]
fn a_snapshot_that_is_deleted_while_it_is_read_keeps_its_data_till_then() {
    let fixture = fixture(3000, 500);
    let input = fixture.input(3);
    let splits = input.splits().unwrap();
    let before = read(&input);
    let keys = read_while_it_is_deleted(&fixture, &input, &splits);
    assert!(keys.iter().copied().eq(0..3000));
    assert_eq!(read(&input), before);
    assert!(fixture.keyspace().snapshot("s").is_err());
}

#[test]
fn a_process_without_the_database_reads_the_same_splits_after_the_snapshot_is_deleted() {
    let fixture = fixture(3000, 500);
    let input = fixture.input(3);
    let splits = input.splits().unwrap();
    let snapshot = fixture.keyspace().snapshot("s").unwrap();
    let pin = snapshot.table("t").unwrap().pin().unwrap();
    let options = ebb_storage::DetachedOptions::default();
    let table = DetachedTable::open(pin.description(), options).unwrap();
    let detached = SnapshotInput::detached(table);
    let sampled = |input: &SnapshotInput| {
        let mut keys = Vec::new();
        let mut record = |key: &[u8], _: &[u8]| {
            keys.push(key.to_vec());
            Ok(())
        };
        let sampled = input.sample(&splits[1], 100, &mut record, &|| Ok(()));
        sampled.unwrap();
        keys
    };
    let sample = sampled(&detached);
    assert!(sample.len() >= 100 && sample == sampled(&input));
    drop((snapshot, input));
    let keys = read_while_it_is_deleted(&fixture, &detached, &splits);
    assert!(keys.iter().copied().eq(0..3000));
    let refused = detached.splits().unwrap_err().to_string();
    assert!(refused.contains("cannot be cut"), "{refused}");
}

#[test]
fn an_error_of_the_record_function_ends_the_reading() {
    let fixture = fixture(10, 10);
    let input = fixture.input(1);
    let mut seen = 0;
    let result = input.read(&input.splits().unwrap()[0], &mut |_, _| {
        seen += 1;
        Err(TaskError::Cancelled)
    });
    assert!(matches!(result, Err(TaskError::Cancelled)));
    assert_eq!(seen, 1);
}

#[test]
fn a_piece_reads_back_from_its_payload() {
    for (lower, upper) in [("", None), ("a", Some("b")), ("", Some("")), ("abc", None)] {
        let piece = Piece {
            lower: Bytes::from(lower),
            upper: upper.map(Bytes::from),
        };
        let payload = piece.encode();
        assert_eq!(Piece::decode(&payload), Some(piece));
        let lower_end = 5 + lower.len();
        for length in 0..lower_end {
            assert_eq!(Piece::decode(&payload[..length]), None, "{length} bytes");
        }
    }
}
