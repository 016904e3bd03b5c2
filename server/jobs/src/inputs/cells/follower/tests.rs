use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, FileSystem, Keyspace, Maintenance, ManualClock, Options, Table};
use ebb_test_support::seed::for_seeds;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

struct Store {
    disk: MemDisk,
    clock: ManualClock,
    db: Db,
    keyspace: Keyspace,
    table: Table,
}

impl Store {
    fn new() -> Self {
        let (disk, clock) = (MemDisk::new(), ManualClock::at_ms(1_000_000));
        let options = Options {
            clock: Arc::new(clock.clone()),
            disk: Arc::new(disk.clone()),
            maintenance: Maintenance::Manual,
            ..Options::default()
        };
        let db = Db::open("/db", options).unwrap();
        let keyspace = db.keyspace("app").unwrap();
        Self {
            table: keyspace.table("t", Default::default()).unwrap(),
            keyspace,
            db,
            clock,
            disk,
        }
    }

    fn put_all(&self, keys: u32) {
        for number in 0..keys {
            let value = format!("{number:0100}");
            self.table.put(&key_of(number), value.as_bytes()).unwrap();
        }
    }

    fn create_snapshot(&self, name: &str) -> SnapshotTable {
        self.keyspace.create_snapshot(name).unwrap();
        self.keyspace.snapshot(name).unwrap().table("t").unwrap()
    }

    /// Writes a random change to one of the first `keys` keys, or to the keys that follow it.
    fn write_at_random(&self, keys: u32, rng: &mut ChaCha8Rng) {
        let number = rng.random_range(0..keys);
        let (table, key) = (&self.table, key_of(number));
        let value = rng.random::<u64>().to_be_bytes();
        let written = match rng.random_range(0..20) {
            0 => table.delete_range(key..key_of(number + rng.random_range(1..50))),
            1..4 => table.delete(&key),
            4..7 => {
                let ttl = Duration::from_millis(rng.random_range(1..60_000));
                table.put_with_ttl(&key, &value, ttl)
            }
            _ => table.put(&key, &value),
        };
        written.unwrap();
    }

    fn merge_at_random(&self, rng: &mut ChaCha8Rng) {
        if rng.random_bool(0.5) {
            self.db.flush().unwrap();
        }
        if rng.random_bool(0.5) {
            self.db.compact().unwrap();
        }
    }
}

fn key_of(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Reads the keys of ascending numbers. Returns the number of keys that ranges read.
fn followed(table: &SnapshotTable, numbers: impl IntoIterator<Item = u32>) -> usize {
    let mut backoff = Backoff::default();
    let mut follower = Follower::new(table, None, &mut backoff);
    let mut followed = 0;
    for number in numbers {
        let key = key_of(number);
        let value = table.get(&key).unwrap();
        assert_eq!(follower.get(&key).unwrap(), value, "{number}");
        followed += usize::from(follower.open.is_some());
    }
    followed
}

#[test]
fn a_follower_returns_what_point_gets_return() {
    const KEYS: u32 = 1000;
    /// The number of keys of a partition. Each partition has one follower.
    const KEYS_EACH: u32 = 250;
    let mut followed = 0_u32;
    for_seeds("a_follower_returns_what_point_gets_return", 32, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let store = Store::new();
        let snapshots = ["monday", "tuesday"].map(|name| {
            for _ in 0..rng.random_range(0..2 * KEYS) {
                store.write_at_random(KEYS, &mut rng);
            }
            store.clock.advance_ms(rng.random_range(0..40_000));
            let snapshot = store.create_snapshot(name);
            store.merge_at_random(&mut rng);
            snapshot
        });
        for _ in 0..rng.random_range(0..KEYS) {
            store.write_at_random(KEYS, &mut rng);
        }
        for table in &snapshots {
            let mut backoff = Backoff {
                left: rng.random_range(0..100),
                ..Backoff::default()
            };
            for from in (0..KEYS).step_by(KEYS_EACH as usize) {
                let to = from + KEYS_EACH;
                let upper = key_of(to);
                let upper = rng.random_bool(0.5).then_some(&upper[..]);
                let mut follower = Follower::new(table, upper, &mut backoff);
                let (mut number, mut stride) = (from, 1_u32);
                while number < to {
                    let key = key_of(number);
                    let value = table.get(&key).unwrap();
                    assert_eq!(follower.get(&key).unwrap(), value, "{number}");
                    followed += u32::from(follower.open.is_some());
                    match rng.random_range(0..100) {
                        0..5 => stride = 1 << rng.random_range(0..6_u32),
                        5 => store.write_at_random(KEYS, &mut rng),
                        6 => store.merge_at_random(&mut rng),
                        _ => {}
                    }
                    number += rng.random_range(1..=stride);
                }
            }
        }
    });
    assert!(followed > 0);
}

#[test]
fn dense_keys_are_read_by_ranges_and_sparse_ones_by_point_gets() {
    const KEYS: u32 = 8000;
    let store = Store::new();
    store.put_all(KEYS);
    let monday = store.create_snapshot("monday");
    let (keys, delay) = (KEYS as usize, DELAY_MIN as usize);
    let each = |stride| (0..KEYS).step_by(stride);
    assert_eq!(followed(&monday, each(1)), keys - delay);
    assert_eq!(followed(&monday, each(8)), keys / 8 - delay);
    // Four ranges read one key each, after 64, 64, 128 and 256 point gets. There are fewer than the
    // 512 keys after which there would be a fifth.
    assert_eq!(followed(&monday, each(9)), 4);
    for number in 0..KEYS {
        store.table.delete(&key_of(number)).unwrap();
    }
    let tuesday = store.create_snapshot("tuesday");
    assert_eq!(followed(&monday, each(1)), keys - delay);
    assert_eq!(followed(&tuesday, each(1)), keys - delay);
}

#[test]
fn ranges_get_rare_where_they_pass_many_entries_for_few_keys() {
    const KEYS: u32 = 8000;
    let store = Store::new();
    store.put_all(KEYS);
    let table = store.create_snapshot("monday");
    // Each 20th key is too far ahead for a range. The others take eight steps each.
    let numbers = (0_u32..).map(|at| 8 * at + at / 20);
    let numbers = numbers.take_while(|number| *number < KEYS);
    // Ranges begin after 64, 64, 128 and 256 point gets, and read the rest of each 20 keys.
    assert_eq!(followed(&table, numbers), 16 + 15 + 11 + 3);
}

#[test]
fn ranges_get_rare_where_partitions_have_few_changed_rows() {
    let store = Store::new();
    store.put_all(3000);
    let table = store.create_snapshot("monday");
    let (mut backoff, mut ranges) = (Backoff::default(), 0);
    for partition in 0..1000 {
        let mut follower = Follower::new(&table, None, &mut backoff);
        for number in 3 * partition..3 * (partition + 1) {
            assert!(follower.get(&key_of(number)).unwrap().is_some());
        }
        ranges += u32::from(follower.open.is_some());
    }
    // After 64, 64, 128, 256, 512 and 1,024 point gets.
    assert_eq!(ranges, 6);
}

#[test]
fn damage_fails_only_the_keys_that_point_gets_cannot_read() {
    const KEYS: u32 = 4000;
    let store = Store::new();
    store.put_all(KEYS);
    let table = store.create_snapshot("monday");
    store.db.flush().unwrap();
    let mut files = store.disk.list(Path::new("/db")).unwrap();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "sst"));
    let length = |path: &PathBuf| store.disk.file_len(path).unwrap();
    files.sort_by_key(length);
    let largest = files.last().unwrap();
    let middle = length(largest) / 2;
    store.disk.flip_bit(largest, middle, 3).unwrap();
    let is_readable = |number: &u32| table.get(&key_of(*number)).is_ok();
    let (readable, lost): (Vec<u32>, Vec<u32>) = (0..KEYS).partition(is_readable);
    assert!((10..1000).contains(&lost.len()), "{}", lost.len());
    for with_lost in [false, true] {
        let (mut backoff, mut followed) = (Backoff::default(), 0);
        let mut follower = Follower::new(&table, None, &mut backoff);
        for number in 0..KEYS {
            let is_lost = readable.binary_search(&number).is_err();
            if is_lost && !with_lost {
                continue;
            }
            let found = follower.get(&key_of(number));
            assert_eq!(found.is_err(), is_lost, "{number}");
            if let Ok(value) = found {
                let expected = format!("{number:0100}");
                assert_eq!(value.as_deref(), Some(expected.as_bytes()), "{number}");
            }
            followed += usize::from(follower.open.is_some());
        }
        // Also behind the damage.
        assert!(followed > readable.len() / 2, "{followed}");
    }
}
