//! Damaged files: reads return the right value or an error with the place of the damage;
//! never a wrong value, never a panic.

use std::ops::ControlFlow;

use super::*;
use crate::error::Error;
use crate::sstable::block::Block;
use crate::sstable::block_builder::BlockBuilder;
use crate::sstable::block_cursor::BlockCursor;
use crate::sstable::damage::Damage;
use crate::sstable::handle::BlockHandle;

/// Returns a table of several blocks, small enough to be damaged in every place.
fn small_table(compression: Compression) -> (TestDisk, Oracle) {
    let mut oracle = Oracle::new();
    for i in 0..12_u64 {
        let key = format!("key {}", i / 2).into_bytes();
        let value = (Kind::Put, vec![b'v'; 10 + 2 * i as usize]);
        oracle.insert((key, Reverse(i + 1)), value);
    }
    oracle.insert((b"key 3".to_vec(), Reverse(50)), (Kind::Delete, Vec::new()));
    let disk = TestDisk::default();
    let options = SsTableOptions {
        block_bytes: 150,
        restart_interval: 3,
        compression,
        ..Default::default()
    };
    let tombstones = tombstones(&[(b"key 2", Some(b"key 4"), 20), (b"key 3", None, 300)]);
    write_with(&disk, &oracle, tombstones, options);
    (disk, oracle)
}

/// Returns the result of a read; `None` if it failed with `Corruption` of the test's file, which is
/// the only error allowed.
fn or_corruption<T>(result: Result<T>, what: &str) -> Option<T> {
    match result {
        Ok(answer) => Some(answer),
        Err(Error::Corruption { path, .. }) if path == Path::new(FILE) => None,
        Err(other) => panic!("{what}: {other}"),
    }
}

/// Asserts that a table has the range tombstones of [`small_table`], and that lookups and scans
/// return the versions of `oracle` or report damage.
fn read_all(table: &Arc<SsTable>, oracle: &Oracle, what: &str) {
    let read = table.range_tombstones().map(|read| read.count());
    assert_eq!(read, Some(4), "{what}");
    read_all_of(table, oracle, what);
}

/// Asserts that lookups and scans of a table return the versions of `oracle` or report damage;
/// `what` is part of the message if they do not. Range tombstones are not compared.
fn read_all_of(table: &Arc<SsTable>, oracle: &Oracle, what: &str) {
    for (key, Reverse(seq)) in oracle.keys() {
        if let Some(found) = or_corruption(get(table, key, *seq), what) {
            assert_eq!(found, expected_version(oracle, key, *seq), "{what}");
        }
    }
    if let Some(found) = or_corruption(get(table, b"key 33", 99), what) {
        assert_eq!(found, None, "{what}");
    }
    for rows in [scan(table), scan_back(table)] {
        if let Some(rows) = or_corruption(rows, what) {
            assert_eq!(rows, oracle_rows(oracle), "{what}");
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed_and_never_read_as_data() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let (disk, oracle) = small_table(compression);
        let good = disk.read(FILE);
        let opened_before = open(&disk, 0).unwrap();
        for bit in 0..good.len() * 8 {
            let what = format!("bit {bit} of {} flipped, {compression:?}", good.len() * 8);
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            disk.write(FILE, bad);
            if let Some(table) = or_corruption(open(&disk, 1 << 20), &what) {
                read_all(&table, &oracle, &what);
                assert!(or_corruption(table.verify(), &what).is_none(), "{what}");
            }
            assert!(
                or_corruption(opened_before.verify(), &what).is_none(),
                "{what}"
            );
        }
    }
}

/// Tests the check that a backup does of its files.
#[test]
fn a_check_of_the_stored_bytes_notices_every_flipped_bit_of_a_block() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let (disk, _) = small_table(compression);
        let good = disk.read(FILE);
        let table = open(&disk, 0).unwrap();
        let check = || table.check_blocks(&mut |_| ControlFlow::Continue(()));
        assert!(check().unwrap().is_continue());
        let entries = table.index_entries().unwrap().into_iter();
        let blocks = entries.map(|entry| entry.handle);
        let bytes = blocks.flat_map(|block| block.offset..block.offset + block.len);
        for (byte, bit) in bytes.flat_map(|byte| (0..8).map(move |bit| (byte as usize, bit))) {
            let what = format!("bit {bit} of byte {byte} flipped, {compression:?}");
            let mut bad = good.clone();
            bad[byte] ^= 1 << bit;
            disk.write(FILE, bad);
            assert!(or_corruption(check(), &what).is_none(), "{what}");
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_corrupt() {
    let (disk, oracle) = small_table(Compression::Lz4);
    let good = disk.read(FILE);
    let opened_before = open(&disk, 0).unwrap();
    for len in 0..good.len() {
        let what = format!("cut to {len} of {}", good.len());
        disk.write(FILE, good[..len].to_vec());
        assert!(or_corruption(open(&disk, 0), &what).is_none(), "{what}");
        read_all(&opened_before, &oracle, &what);
        assert!(
            or_corruption(opened_before.verify(), &what).is_none(),
            "{what}"
        );
    }
}

/// Regression: two data blocks of the same length had changed places, and each of them was whole: a
/// look-up found nothing, and a scan came out of order.
#[test]
fn a_block_in_the_place_of_another_one_is_damage() {
    let (disk, _) = small_table(Compression::None);
    let mut oracle = Oracle::new();
    for i in 0..40_u64 {
        let key = format!("key {i:02}").into_bytes();
        oracle.insert((key, Reverse(100 + i)), (Kind::Put, vec![b'v'; 50]));
    }
    let options = || SsTableOptions {
        block_bytes: 150,
        compression: Compression::None,
        ..Default::default()
    };
    // Two files of the same content.
    let other = TestDisk::default();
    write(&other, &oracle, options());
    write(&disk, &oracle, options());
    let (good, other) = (disk.read(FILE), other.read(FILE));
    let table = open(&disk, 0).unwrap();
    let entries = table.index_entries().unwrap().into_iter();
    let mut blocks = entries.map(|entry| entry.handle);
    let first = blocks.find(|handle| handle.offset > 20).unwrap();
    let second = blocks.find(|handle| handle.len == first.len).unwrap();
    let place = |handle: BlockHandle| handle.offset as usize..handle.end().unwrap() as usize;
    let mut swapped = good.clone();
    swapped[place(first)].copy_from_slice(&good[place(second)]);
    swapped[place(second)].copy_from_slice(&good[place(first)]);
    let mut foreign = good.clone();
    foreign[place(first)].copy_from_slice(&other[place(first)]);
    let payload = |place: std::ops::Range<usize>| place.start..place.end - 5;
    assert_eq!(good[payload(place(first))], other[payload(place(first))]);
    for bad in [swapped.clone(), foreign] {
        disk.write(FILE, bad);
        let table = open(&disk, 0).unwrap();
        read_all_of(&table, &oracle, "changed places");
        assert!(or_corruption(scan(&table), "").is_none());
        assert!(or_corruption(table.verify(), "").is_none());
    }
    // With checksums made right it still is not where the index has it.
    crate::sstable::fuzzing::reseal(&mut swapped);
    disk.write(FILE, swapped);
    let table = open(&disk, 0).unwrap();
    let error = scan(&table).unwrap_err().to_string();
    assert!(
        error.contains("which the index has in another one"),
        "{error}"
    );
    read_all_of(&table, &oracle, "with right checksums");
}

#[test]
fn an_error_names_the_file_the_offset_and_the_fault() {
    let (disk, _) = small_table(Compression::None);
    let mut bytes = disk.read(FILE);
    bytes[40] ^= 1;
    disk.write(FILE, bytes);
    let error = open(&disk, 0).unwrap().verify().unwrap_err().to_string();
    assert!(
        error.contains("000007.sst at offset 20: block checksum is 0x"),
        "{error}"
    );
}

#[test]
fn the_file_of_another_table_is_not_mistaken() {
    let (disk, _) = small_table(Compression::None);
    let cache = Arc::new(BlockCache::new(0));
    let error = SsTable::open(&disk, Path::new(FILE), 8, cache).unwrap_err();
    assert!(
        matches!(&error, Error::Corruption { detail, .. } if detail.contains("file number is 7")),
        "{error}"
    );
}

#[test]
fn a_missing_file_is_an_io_error() {
    let error = open(&TestDisk::default(), 0).unwrap_err();
    assert!(matches!(error, Error::Io { action: "open", .. }), "{error}");
}

/// Reads whole tables whose parts contradict each other under right checksums. A result may be
/// wrong then, but each read ends.
#[test]
fn parts_that_lie_neither_panic_nor_loop() {
    with_rng("parts_that_lie_neither_panic_nor_loop", |rng| {
        let (disk, oracle) = small_table(Compression::None);
        let good = disk.read(FILE);
        let table = open(&disk, 0).unwrap();
        let (id, stored) = (table.id(), stored_blocks(&table));
        for _ in 0..20_000 {
            let mut bad = good.clone();
            let (start, end) = stored[rng.random_range(0..stored.len())];
            let checked = end - 4;
            bad[rng.random_range(start..checked)] = rng.random();
            let crc = id.at(start as u64).checksum(&bad[start..checked]);
            bad[checked..end].copy_from_slice(&crc.to_le_bytes());
            disk.write(FILE, bad);
            if let Some(table) = or_corruption(open(&disk, 1 << 20), "lies") {
                for (key, Reverse(seq)) in oracle.keys() {
                    or_corruption(get(&table, key, *seq), "lies");
                }
                or_corruption(scan(&table), "lies");
                or_corruption(scan_back(&table), "lies");
                or_corruption(table.verify(), "lies");
            }
        }
    });
}

/// Returns the start and the end of each stored block of a table.
fn stored_blocks(table: &Arc<SsTable>) -> Vec<(usize, usize)> {
    let footer = table.reread_parts().unwrap().footer;
    let mut handles = vec![footer.top, footer.properties];
    let tombstones = table.properties().range_tombstones.as_ref();
    handles.extend(tombstones.map(|tombstones| BlockHandle {
        offset: tombstones.offset,
        len: tombstones.bytes,
    }));
    handles.extend(
        table
            .top()
            .places()
            .flat_map(|place| [place.filter, place.index]),
    );
    let entries = table.index_entries().unwrap().into_iter();
    handles.extend(entries.map(|entry| entry.handle));
    let place = |handle: BlockHandle| (handle.offset as usize, handle.end().unwrap() as usize);
    handles.into_iter().map(place).collect()
}

/// Moves a cursor from each of `targets` to both ends of the block, and looks each of them up. Returns
/// only if each of these walks ends.
fn walk(block: &Block, targets: &[Vec<u8>]) -> Result<(), Damage> {
    let mut cursor = BlockCursor::new(block.clone());
    let mut outcome = Ok(());
    for target in targets {
        outcome = outcome.and(cursor.seek(target, SeqNo(5)));
        while cursor.valid() {
            let _ = (cursor.key(), cursor.value());
            outcome = outcome.and(cursor.next());
        }
        outcome = outcome.and(cursor.seek_before(target, SeqNo(5)));
        while cursor.valid() {
            outcome = outcome.and(cursor.prev());
        }
        outcome = outcome.and(block.find(target, SeqNo(5)).map(drop));
    }
    outcome = outcome.and(cursor.seek_to_first());
    outcome.and(cursor.seek_to_last())
}

/// A wrong checksum stops nearly all damage before the decoder; this test decodes without a
/// checksum.
#[test]
fn a_block_of_nonsense_neither_panics_nor_loops() {
    with_rng("a_block_of_nonsense_neither_panics_nor_loops", |rng| {
        let mut damaged = 0;
        for _ in 0..30_000 {
            let mut builder = BlockBuilder::new(rng.random_range(1..5));
            let oracle = random_oracle(rng, 12, 10);
            for ((key, Reverse(seq)), (kind, value)) in &oracle {
                builder.add(key, SeqNo(*seq), *kind, value);
            }
            let mut bytes = builder.finish().to_vec();
            for _ in 0..rng.random_range(1..6) {
                let at = rng.random_range(0..bytes.len());
                match rng.random_range(0..4) {
                    0 => bytes[at] = rng.random(),
                    1 => {
                        bytes[at] = *[0, 1, 2, 3, 4, 0x7f, 0x80, 0xff]
                            .get(rng.random_range(0..8))
                            .unwrap()
                    }
                    2 => bytes[at] ^= 1 << rng.random_range(0..8),
                    _ => bytes.truncate(at + 1),
                }
            }
            let targets: Vec<_> = (0..4).map(|_| random_key(rng)).collect();
            let outcome = Block::new(Bytes::from(bytes)).and_then(|block| walk(&block, &targets));
            damaged += u32::from(outcome.is_err());
        }
        assert!(damaged > 1000, "only {damaged} of 30000 were noticed");
    });
}
