//! Partitions of index and filter come and go; the cache counts exactly those in memory.

use std::thread;

use super::*;
use crate::error::Error;
use crate::sstable::salvage::Salvage;

const KEYS: u64 = 20_000;

fn key(i: u64) -> Vec<u8> {
    format!("key {:06}", 2 * i).into_bytes()
}

/// Returns a table of many small blocks: about as much index and filter as data.
fn table(cache: &Arc<BlockCache>) -> (TestDisk, Arc<SsTable>) {
    let (disk, table) = table_of(cache, Compression::None, 64);
    assert!(table.top().len() > 10, "{} partitions", table.top().len());
    (disk, table)
}

fn table_of(
    cache: &Arc<BlockCache>,
    compression: Compression,
    block_bytes: u32,
) -> (TestDisk, Arc<SsTable>) {
    let disk = TestDisk::default();
    let options = SsTableOptions {
        block_bytes,
        compression,
        ..Default::default()
    };
    let mut writer = writer(&disk, options);
    for i in 0..KEYS {
        writer.add(&key(i), SeqNo(1), Kind::Put, b"value").unwrap();
    }
    writer.finish().unwrap();
    let table = SsTable::open(&disk, Path::new(FILE), FILE_NUMBER, Arc::clone(cache)).unwrap();
    (disk, table)
}

/// Returns the bytes of the partitions of index and filter that the table has in memory.
fn resident_bytes(table: &SsTable) -> u64 {
    let slots = (0..table.top().len()).filter_map(|at| table.resident_partition(at));
    slots.map(|partition| partition.memory_bytes() as u64).sum()
}

fn salvage(disk: &TestDisk) -> Salvage {
    let file = crate::file_system::FileSystem::open_read(disk, Path::new(FILE));
    Salvage::open(file, Path::new(FILE), None).unwrap()
}

/// Returns the keys of all versions that can be salvaged.
fn keys_of(salvage: Salvage) -> impl Iterator<Item = Vec<u8>> {
    let versions = salvage.versions(|_| ());
    versions.map(|version| version.unwrap().0.to_vec())
}

#[test]
fn index_and_filter_keep_to_the_cache_with_the_blocks() {
    let test = "index_and_filter_keep_to_the_cache_with_the_blocks";
    with_rng(test, |rng| {
        let capacity_bytes = 200 << 10;
        let cache = Arc::new(BlockCache::new(capacity_bytes));
        let (_disk, table) = table(&cache);
        let pinned = cache.tables_bytes();
        assert!(pinned < 5000, "{pinned} bytes of an open table stay");
        let all: usize = (0..table.top().len())
            .map(|at| table.partition_past_cache(at, true).unwrap().memory_bytes())
            .sum();
        assert!(all as u64 > 2 * capacity_bytes / 3, "{all} bytes of index");
        for _ in 0..30_000 {
            let i = rng.random_range(0..2 * KEYS);
            let name = format!("key {i:06}").into_bytes();
            let found = get(&table, &name, 1).unwrap();
            assert_eq!(found.is_some(), i % 2 == 0, "{i}");
            assert!(cache.used_bytes() <= capacity_bytes);
            assert!(cache.partitions_bytes() <= cache.used_bytes());
        }
        assert_eq!(cache.partitions_bytes(), resident_bytes(&table));
        assert!(cache.partitions_bytes() > 0);
    });
}

#[test]
fn partitions_that_fit_are_read_once_and_go_with_their_file() {
    let cache = Arc::new(BlockCache::new(16 << 20));
    let (_disk, table) = table(&cache);
    let read_all = || {
        for i in 0..KEYS {
            assert!(get(&table, &key(i), 1).unwrap().is_some());
        }
        cache.partitions_read()
    };
    assert_eq!(cache.partitions_bytes(), 0, "an opening reads none");
    let partitions = table.top().len() as u64;
    assert_eq!((read_all(), read_all()), (partitions, partitions));
    assert_eq!(cache.partitions_bytes(), resident_bytes(&table));
    table.forget_blocks();
    assert_eq!((cache.used_bytes(), cache.partitions_bytes()), (0, 0));
    assert_eq!(resident_bytes(&table), 0);
    assert_eq!(read_all(), 2 * partitions, "it still reads");
}

/// In a cache with room for all partitions of index and filter and few blocks of data, blocks are
/// evicted rather than partitions: a partition is used for the reads of hundreds of blocks.
#[test]
fn partitions_stay_where_blocks_come_and_go() {
    with_rng("partitions_stay_where_blocks_come_and_go", |rng| {
        let cache = Arc::new(BlockCache::new(16 << 20));
        let (disk, whole) = table(&cache);
        for i in 0..KEYS {
            get(&whole, &key(i), 1).unwrap();
        }
        let all = cache.partitions_bytes();
        let cache = Arc::new(BlockCache::new(2 * all));
        let path = Path::new(FILE);
        let table = SsTable::open(&disk, path, FILE_NUMBER, Arc::clone(&cache)).unwrap();
        let mut read = |times: u64| {
            for _ in 0..times {
                let i = rng.random_range(0..KEYS);
                get(&table, &key(i), 1).unwrap();
            }
            (cache.partitions_read(), cache.misses())
        };
        let warm = read(50_000);
        let later = read(50_000);
        let (partitions, blocks) = (later.0 - warm.0, later.1 - warm.1);
        assert!(blocks > 10_000, "{blocks} blocks do not fit");
        assert!(
            partitions < blocks / 100,
            "{partitions} partitions, {blocks} blocks"
        );
    });
}

#[test]
fn threads_that_read_and_evict_leave_nothing_uncounted() {
    let capacity_bytes = 100 << 10;
    let cache = Arc::new(BlockCache::new(capacity_bytes));
    let (_disk, table) = table(&cache);
    thread::scope(|scope| {
        for thread in 0..4 {
            let table = &table;
            scope.spawn(move || {
                let mut rng = ChaCha8Rng::seed_from_u64(thread);
                for _ in 0..5000 {
                    let i = rng.random_range(0..KEYS);
                    assert!(get(table, &key(i), 1).unwrap().is_some());
                    let mut cursor = table.cursor(i % 2 == 0);
                    cursor.seek(&key(i), SeqNo::MAX).unwrap();
                    assert_eq!(cursor.key(), key(i));
                }
            });
        }
    });
    assert_eq!(cache.partitions_bytes(), resident_bytes(&table));
    assert!(cache.used_bytes() <= capacity_bytes);
}

/// Without a cache no partition is kept, and lookups still find everything.
#[test]
fn without_a_cache_lookups_read_the_partition_each_time() {
    let cache = Arc::new(BlockCache::new(0));
    let (_disk, table) = table(&cache);
    for i in (0..KEYS).step_by(500) {
        assert!(get(&table, &key(i), 1).unwrap().is_some());
        assert!(get(&table, b"key 000001", 1).unwrap().is_none());
    }
    assert_eq!(cache.partitions_read(), 2 * KEYS.div_ceil(500));
    assert_eq!((resident_bytes(&table), cache.partitions_bytes()), (0, 0));
}

/// Regression: while the index was in one piece, a flipped bit in it cost the whole file.
#[test]
fn a_damaged_partition_costs_its_keys_and_repair_loses_none() {
    let cache = Arc::new(BlockCache::new(16 << 20));
    let (disk, table) = table(&cache);
    let damaged = 3;
    let place = table.top().place(damaged);
    let (first, last) = (
        table.top().bound(damaged - 1).0,
        table.top().bound(damaged).0,
    );
    let is_inside = |key: &[u8]| *key > *first && *key <= *last;
    let good = disk.read(FILE);
    for part in [place.index, place.filter] {
        let mut bytes = good.clone();
        bytes[part.offset as usize + 5] ^= 1;
        disk.write(FILE, bytes);
        let cache = Arc::new(BlockCache::new(1 << 20));
        let table = SsTable::open(&disk, Path::new(FILE), FILE_NUMBER, cache).unwrap();
        for i in (0..KEYS).step_by(7) {
            let key = key(i);
            match get(&table, &key, 1) {
                Ok(found) => assert!(found.is_some() && !is_inside(&key)),
                Err(Error::Corruption { offset, .. }) => {
                    assert!(is_inside(&key) && offset == part.offset);
                }
                Err(other) => panic!("{other}"),
            }
        }
        let found = table.verify().unwrap_err().to_string();
        assert!(found.contains(&part.offset.to_string()), "{found}");
        let salvage = salvage(&disk);
        assert!(salvage.lost.is_empty(), "{:?}", salvage.lost);
        assert!(keys_of(salvage).eq((0..KEYS).map(key)));
    }
    // A data block of it too: what is before it is there, and the rest of the partition lost.
    let mut bytes = good;
    bytes[place.index.offset as usize + 5] ^= 1;
    bytes[place.data.offset as usize + place.data.len as usize / 2] ^= 1;
    disk.write(FILE, bytes);
    let salvage = salvage(&disk);
    let [lost] = &salvage.lost[..] else {
        panic!("{:?}", salvage.lost);
    };
    assert_eq!(Some(lost.offset + lost.bytes), place.data.end());
    // The damaged block in the middle is lost from its start on, and blocks take less than 100 bytes.
    assert!(lost.bytes <= place.data.len / 2 + 100);
    assert_eq!(lost.to_key.as_deref(), Some(&*last));
    let (from, to) = (lost.from_key.clone().unwrap(), last);
    let all = (0..KEYS).map(key);
    assert!(keys_of(salvage).eq(all.filter(|key| *key <= from || *key > to)));
}

/// Regression: blocks that zstd had compressed were not found without their index, so that repair
/// lost all of them.
#[test]
fn blocks_of_each_compression_are_found_without_their_index() {
    for (compression, compression_type) in [
        (Compression::None, 0),
        (Compression::Lz4, 1),
        (Compression::Zstd, 2),
    ] {
        let cache = Arc::new(BlockCache::new(0));
        let (disk, table) = table_of(&cache, compression, 512);
        let mut bytes = disk.read(FILE);
        let first = table.index_entries().unwrap()[0].handle;
        let end = (first.offset + first.len) as usize;
        assert_eq!(bytes[end - 5], compression_type, "{compression:?}");
        for place in table.top().places() {
            bytes[place.index.offset as usize + 5] ^= 1;
        }
        disk.write(FILE, bytes);
        let salvage = salvage(&disk);
        assert!(
            salvage.lost.is_empty(),
            "{compression:?}: {:?}",
            salvage.lost
        );
        assert_eq!(salvage.versions(|_| ()).count() as u64, KEYS);
    }
}

/// The pieces of a key range together have the bytes of its data blocks, whether each piece is a
/// block (`in_detail`) or a whole partition. At the ends of the range, pieces are single blocks.
#[test]
fn pieces_of_a_range_have_the_bytes_of_its_blocks() {
    let cache = Arc::new(BlockCache::new(0));
    let (_disk, table) = table(&cache);
    let blocks = table.index_entries().unwrap();
    let all: u64 = blocks.iter().map(|entry| entry.handle.len).sum();
    assert_eq!(all, table.properties().data_end - 20);
    let range = |from: u64, to: u64| KeyRange {
        start: key(from).into(),
        end: Some(key(to).into()),
    };
    let bytes = |range: &KeyRange, in_detail| -> u64 {
        let pieces = table.pieces(range, in_detail);
        assert!(pieces.is_sorted());
        pieces.iter().map(|(_, bytes)| bytes).sum()
    };
    let whole = KeyRange::all();
    assert_eq!((bytes(&whole, true), bytes(&whole, false)), (all, all));
    assert_eq!(table.partitions_in(&whole), table.top().len());
    assert_eq!(table.pieces(&whole, true).len(), blocks.len());
    let coarse = table.pieces(&whole, false).len();
    assert!(coarse < blocks.len() / 20, "{coarse}");
    for (from, to) in [(0, 10), (5000, 5001), (100, 19_000), (19_990, 20_000)] {
        let range = range(from, to);
        let expected = all * (to - from) / KEYS;
        for in_detail in [false, true] {
            let found = bytes(&range, in_detail);
            assert!(
                found.abs_diff(expected) <= 300 + all / 1000,
                "{from} to {to}: {found}"
            );
        }
        let pieces = table.pieces(&range, false).len();
        assert!(pieces < coarse + 2 * blocks.len() / table.top().len() + 100);
    }
}
