//! Scans read ahead: no more often than they must, hardly more than they need, and
//! nothing else because of it.

use std::ops::ControlFlow;

use super::*;
use crate::error::Error;

/// The length of the longest read that a scan may make, in bytes.
const PIECE_BYTES_MAX: usize = 256 << 10;

/// Returns a table of 1 MiB in some 250 blocks. Its values are random, so LZ4 hardly makes it
/// smaller.
fn table(rng: &mut ChaCha8Rng) -> (TestDisk, Oracle) {
    let mut oracle = Oracle::new();
    for i in 0..1000 {
        let value = (0..1000).map(|_| rng.random()).collect();
        let key = format!("key {i:04}").into_bytes();
        oracle.insert((key, Reverse(1)), (Kind::Put, value));
    }
    let disk = TestDisk::default();
    write(&disk, &oracle, SsTableOptions::default());
    (disk, oracle)
}

/// Returns the offset and length of each data block.
fn blocks(table: &Arc<SsTable>) -> Vec<(u64, usize)> {
    let entries = table.index_entries().unwrap().into_iter();
    let handles = entries.map(|entry| entry.handle);
    handles.map(|h| (h.offset, h.len as usize)).collect()
}

fn bytes(reads: &[(u64, usize)]) -> usize {
    reads.iter().map(|(_, bytes)| bytes).sum()
}

#[test]
fn a_scan_reads_the_file_once_in_few_large_pieces() {
    with_rng("a_scan_reads_the_file_once_in_few_large_pieces", |rng| {
        let (disk, oracle) = table(rng);
        let table = open(&disk, 0).unwrap();
        let data_bytes = bytes(&blocks(&table));
        for scan in [scan, scan_back] {
            disk.take_reads();
            assert_eq!(scan(&table).unwrap(), oracle_rows(&oracle));
            let reads = disk.take_reads();
            assert!(reads.len() <= 11, "{reads:?}");
            assert!(reads.iter().all(|(_, bytes)| *bytes <= PIECE_BYTES_MAX));
            // A piece ends within a block, whose beginning is read again.
            let again = bytes(&reads) - data_bytes;
            assert!(again <= reads.len() * 8192, "{again} bytes more");
        }
    });
}

/// Regression: when a scan went on in another file, its first read-ahead there was as short as that
/// of a scan that has just begun.
#[test]
fn a_scan_that_goes_on_in_another_file_goes_on_with_large_pieces() {
    let test = "a_scan_that_goes_on_in_another_file_goes_on_with_large_pieces";
    with_rng(test, |rng| {
        let (disk, _) = table(rng);
        let table = open(&disk, 0).unwrap();
        let blocks = blocks(&table);
        let mut cursor = table.cursor(false);
        cursor.seek_to_first().unwrap();
        while cursor.valid() {
            cursor.next().unwrap();
        }
        cursor.change_table(&table);
        disk.take_reads();
        cursor.seek_to_first().unwrap();
        let first = (blocks[0].0, PIECE_BYTES_MAX);
        assert!(disk.take_reads().contains(&first));

        while cursor.valid() {
            cursor.next().unwrap();
        }
        cursor.change_table(&table);
        disk.take_reads();
        cursor.seek_to_last().unwrap();
        let (offset, length) = blocks[blocks.len() - 1];
        let end = offset + length as u64;
        let last = (end - PIECE_BYTES_MAX as u64, PIECE_BYTES_MAX);
        assert!(disk.take_reads().contains(&last));
    });
}

/// `check_blocks` must not call its callback after every block, because the callback of a backup
/// reads the clock and takes locks.
#[test]
fn a_check_calls_back_for_all_data_once_in_pieces_of_many_blocks() {
    let test = "a_check_calls_back_for_all_data_once_in_pieces_of_many_blocks";
    with_rng(test, |rng| {
        let (disk, _) = table(rng);
        let table = open(&disk, 0).unwrap();
        let mut pieces = Vec::new();
        disk.take_reads();
        let checked = table.check_blocks(&mut |bytes| {
            pieces.push(bytes);
            ControlFlow::Continue(())
        });
        assert!(checked.unwrap().is_continue());
        // A backup writes what was read to a copy before the next callback.
        let reads = disk.take_reads();
        assert!(
            reads.iter().all(|(_, bytes)| *bytes <= 128 << 10),
            "{reads:?}"
        );
        let data_bytes = bytes(&blocks(&table)) as u64;
        assert_eq!(pieces.iter().sum::<u64>(), data_bytes);
        assert!(pieces.pop().is_some_and(|rest| rest > 0));
        let usual = (32 << 10)..(64 << 10);
        assert!(
            pieces.iter().all(|bytes| usual.contains(bytes)),
            "{pieces:?}"
        );

        let mut calls = 0;
        let ended = table.check_blocks(&mut |_| {
            calls += 1;
            ControlFlow::Break(())
        });
        assert_eq!((ended.unwrap(), calls), (ControlFlow::Break(()), 1));
    });
}

/// `scan` does not use the block cache, and so reads with `read_once`; `scan_back` uses both the
/// cache and plain reads.
#[test]
fn reads_past_the_block_cache_use_read_once() {
    with_rng("reads_past_the_block_cache_use_read_once", |rng| {
        let large: Vec<u8> = (0..300_000).map(|_| rng.random()).collect();
        let (disk, mut oracle) = table(rng);
        oracle.insert((b"large".to_vec(), Reverse(1)), (Kind::Put, large));
        write(&disk, &oracle, SsTableOptions::default());
        let table = open(&disk, 0).unwrap();
        disk.take_reads();
        assert_eq!(disk.take_reads_once(), 0);
        assert_eq!(scan(&table).unwrap(), oracle_rows(&oracle));
        assert_eq!(disk.take_reads_once(), disk.take_reads().len());
        assert_eq!(scan_back(&table).unwrap(), oracle_rows(&oracle));
        assert_eq!(disk.take_reads_once(), 0);
    });
}

#[test]
fn seeks_here_and_there_read_one_block_each() {
    with_rng("seeks_here_and_there_read_one_block_each", |rng| {
        let (disk, _) = table(rng);
        let table = open(&disk, 0).unwrap();
        let blocks = blocks(&table);
        let mut cursor = table.cursor(false);
        // The first also reads the partition.
        cursor.seek(b"key 0900", SeqNo::MAX).unwrap();
        disk.take_reads();
        for i in [7, 800, 300, 500, 100] {
            let key = format!("key {i:04}");
            cursor.seek(key.as_bytes(), SeqNo::MAX).unwrap();
            assert_eq!(cursor.key(), key.as_bytes());
            let read = disk.take_reads();
            assert!(read.len() == 1 && blocks.contains(&read[0]), "{read:?}");
        }
    });
}

#[test]
fn a_short_scan_reads_hardly_more_than_it_needs() {
    with_rng("a_short_scan_reads_hardly_more_than_it_needs", |rng| {
        let (disk, _) = table(rng);
        let table = open(&disk, 0).unwrap();
        for steps in [0, 1, 5, 20, 50, 100] {
            let mut cursor = table.cursor(true);
            disk.take_reads();
            cursor.seek(b"key 0300", SeqNo::MAX).unwrap();
            for _ in 0..steps {
                cursor.next().unwrap();
            }
            let needed = 5000 + steps * 1040;
            let read = bytes(&disk.take_reads());
            assert!(read <= 2 * needed + 8192, "{read} bytes for {needed}");
        }
    });
}

#[test]
fn a_long_scan_leaves_the_cache_to_others() {
    with_rng("a_long_scan_leaves_the_cache_to_others", |rng| {
        let (disk, oracle) = table(rng);
        let cache = Arc::new(BlockCache::new(64 << 20));
        let open =
            || SsTable::open(&disk, Path::new(FILE), FILE_NUMBER, Arc::clone(&cache)).unwrap();
        let table = open();
        assert_eq!(scan(&table).unwrap(), oracle_rows(&oracle));
        assert_eq!((cache.used_bytes(), cache.misses()), (0, 0));
        assert_eq!(scan_back(&table).unwrap(), oracle_rows(&oracle));
        assert_eq!(cache.misses(), 64);
        assert!((64 * 4000..64 * 5000).contains(&cache.used_bytes()));
    });
}

#[test]
fn a_scan_of_what_the_cache_has_reads_no_file() {
    with_rng("a_scan_of_what_the_cache_has_reads_no_file", |rng| {
        let (disk, oracle) = table(rng);
        let table = open(&disk, 64 << 20).unwrap();
        for (key, _) in oracle.keys() {
            get(&table, key, 1).unwrap();
        }
        disk.take_reads();
        assert_eq!(scan_back(&table).unwrap(), oracle_rows(&oracle));
        assert_eq!(disk.take_reads(), []);
    });
}

/// If a read-ahead fails because the file is cut, the blocks before the cut are still returned. The
/// error comes with the request for the first block behind it.
#[test]
fn all_before_a_cut_is_read() {
    with_rng("all_before_a_cut_is_read", |rng| {
        let (disk, oracle) = table(rng);
        let table = open(&disk, 0).unwrap();
        let (cut, _) = blocks(&table)[100];
        let mut cursor = table.cursor(false);
        cursor.seek_to_first().unwrap();
        disk.write(FILE, disk.read(FILE)[..cut as usize + 10].to_vec());
        let mut rows = Vec::new();
        let error = loop {
            rows.extend(row(&cursor));
            if let Err(error) = cursor.next() {
                break error;
            }
        };
        assert!(
            matches!(error, Error::Corruption { offset, .. } if offset == cut),
            "{error}"
        );
        assert!(rows.len() >= 300 && oracle_rows(&oracle).starts_with(&rows));
        assert!(!cursor.valid());
    });
}

/// The memory of a block is used again only when no value of it is left.
#[test]
fn values_that_are_kept_stay_what_they_are() {
    with_rng("values_that_are_kept_stay_what_they_are", |rng| {
        let (disk, oracle) = table(rng);
        let table = open(&disk, 0).unwrap();
        let mut cursor = table.cursor(false);
        cursor.seek_to_first().unwrap();
        let mut kept = Vec::new();
        let mut i = 0;
        while cursor.valid() {
            if i % 7 == 0 {
                kept.push((cursor.key().to_vec(), cursor.value()));
            }
            i += 1;
            cursor.next().unwrap();
        }
        assert_eq!(kept.len(), 143);
        for (key, value) in kept {
            assert_eq!(value, oracle[&(key, Reverse(1))].1);
        }
    });
}
