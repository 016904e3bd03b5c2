//! Tables read back as written, for all keys, values and layouts.

use super::*;
use crate::error::Error;

/// Layouts with few and with many entries in a block, and in a restart interval.
fn layouts() -> Vec<SsTableOptions> {
    let mut layouts = Vec::new();
    for (block_bytes, restart_interval) in [(1, 1), (64, 2), (300, 16), (4096, 3), (4096, 16)] {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            layouts.push(SsTableOptions {
                block_bytes,
                restart_interval,
                compression,
                filter_bits_per_key: 10,
                filter_prefix: None,
                bottom_compression: None,
            });
        }
    }
    layouts
}

/// Asserts that a lookup finds what the oracle has.
fn assert_get(table: &SsTable, oracle: &Oracle, key: &[u8], seq: u64) {
    let found = get(table, key, seq).unwrap();
    let expected = expected_version(oracle, key, seq);
    assert_eq!(found, expected, "{key:02x?} at {seq}");
}

#[test]
fn every_version_comes_back_at_every_sequence_number() {
    with_rng("every_version_comes_back_at_every_sequence_number", |rng| {
        for options in layouts() {
            let oracle = random_oracle(rng, 600, 40);
            let table = written(&oracle, options, 1 << 20);
            table.verify().unwrap();
            assert_eq!(scan(&table).unwrap(), oracle_rows(&oracle));
            assert_eq!(scan_back(&table).unwrap(), oracle_rows(&oracle));
            for (key, Reverse(seq)) in oracle.keys() {
                for seq in [seq - 1, *seq, seq + 1, u64::MAX] {
                    assert_get(&table, &oracle, key, seq);
                }
            }
            for _ in 0..500 {
                let (key, seq) = (random_key(rng), rng.random_range(0..250));
                assert_get(&table, &oracle, &key, seq);
            }
        }
    });
}

#[test]
fn a_cursor_goes_where_the_oracle_goes() {
    with_rng("a_cursor_goes_where_the_oracle_goes", |rng| {
        for options in layouts() {
            let oracle = random_oracle(rng, 400, 40);
            let rows = oracle_rows(&oracle);
            let table = written(&oracle, options, 4000);
            let mut cursor = table.cursor(true);
            // Index in `rows`; one that is out of it is nowhere.
            let mut at = rows.len();
            for _ in 0..2000 {
                let (key, seq) = (random_key(rng), rng.random_range(0..250));
                let target = (key.clone(), Reverse(seq));
                let smaller = oracle.range(..target).count();
                match rng.random_range(0..10) {
                    0 | 1 => {
                        cursor.seek(&key, SeqNo(seq)).unwrap();
                        at = smaller;
                    }
                    2 | 3 => {
                        cursor.seek_before(&key, SeqNo(seq)).unwrap();
                        at = smaller.wrapping_sub(1);
                    }
                    4 if rng.random_bool(0.2) => {
                        cursor.seek_to_first().unwrap();
                        at = 0;
                    }
                    5 if rng.random_bool(0.2) => {
                        cursor.seek_to_last().unwrap();
                        at = rows.len() - 1;
                    }
                    n if cursor.valid() && n % 2 == 0 => {
                        cursor.next().unwrap();
                        at += 1;
                    }
                    _ if cursor.valid() => {
                        cursor.prev().unwrap();
                        at = at.wrapping_sub(1);
                    }
                    _ => {}
                }
                assert_eq!(row(&cursor), rows.get(at).cloned());
            }
        }
    });
}

#[test]
fn operands_come_newest_first_down_to_what_they_lie_on() {
    let test = "operands_come_newest_first_down_to_what_they_lie_on";
    with_rng(test, |rng| {
        for options in layouts() {
            // Few keys of many versions, most of them operands, over blocks and restart points.
            let mut oracle = Oracle::new();
            for _ in 0..600 {
                let key = vec![b'k'; rng.random_range(0..8)];
                let kind = if rng.random_bool(0.9) {
                    Kind::Merge
                } else {
                    Kind::Put
                };
                let value = random_value(rng, 40);
                oracle.insert((key, Reverse(rng.random_range(1..200))), (kind, value));
            }
            let table = written(&oracle, options, 1 << 20);
            for len in 0..9 {
                let key = vec![b'k'; len];
                for seq in [0, 1, 50, 120, 199, u64::MAX] {
                    let wanted = if rng.random_bool(0.5) {
                        usize::MAX
                    } else {
                        rng.random_range(1..20)
                    };
                    assert_eq!(
                        versions(&table, &key, seq, wanted).unwrap(),
                        expected_versions(&oracle, &key, seq, wanted),
                        "{wanted} of {len} bytes at {seq}"
                    );
                }
            }
        }
    });
}

#[test]
fn a_key_with_versions_in_many_blocks_is_found_in_the_right_one() {
    let mut oracle = Oracle::new();
    for seq in 1..=1000 {
        let value = format!("value {seq}").into_bytes();
        oracle.insert((b"key".to_vec(), Reverse(2 * seq)), (Kind::Put, value));
    }
    let options = SsTableOptions {
        block_bytes: 256,
        ..Default::default()
    };
    let table = written(&oracle, options, 0);
    for seq in 0..2010 {
        assert_get(&table, &oracle, b"key", seq);
    }
}

#[test]
fn values_larger_than_a_block_have_blocks_of_their_own() {
    let test = "values_larger_than_a_block_have_blocks_of_their_own";
    with_rng(test, |rng| {
        let mut oracle = random_oracle(rng, 100, 40);
        for key in [&b""[..], b"aa", b"b\xff", b"\xff\xff\xff"] {
            let value = (0..1 << 20).map(|_| rng.random()).collect();
            oracle.insert((key.to_vec(), Reverse(1000)), (Kind::Put, value));
            oracle.insert((key.to_vec(), Reverse(999)), (Kind::Put, vec![7; 1 << 20]));
        }
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let disk = TestDisk::default();
            let options = SsTableOptions {
                compression,
                ..Default::default()
            };
            let finished = write(&disk, &oracle, options);
            assert_eq!(finished.file_bytes, disk.read(FILE).len() as u64);
            let table = open(&disk, 0).unwrap();
            table.verify().unwrap();
            assert_eq!(scan(&table).unwrap(), oracle_rows(&oracle));
            assert_eq!(scan_back(&table).unwrap(), oracle_rows(&oracle));
            assert_get(&table, &oracle, b"aa", 998);
        }
    });
}

/// Regression: the writer counted only data, so a file that was limited to 64 MB got 332 MB. Here
/// the keys have 60 KB and differ at their ends: each block has one key, and the index has each key
/// once more.
#[test]
fn a_writer_counts_index_and_filter_in_the_size_of_its_file() {
    let disk = TestDisk::default();
    let mut writer = writer(&disk, uncompressed());
    let key = |n: u32| [&vec![b'k'; 60_000][..], &n.to_be_bytes()].concat();
    let mut n = 0;
    while !writer.is_full(4 << 20) {
        writer.add(&key(n), SeqNo(1), Kind::Put, b"").unwrap();
        n += 1;
    }
    let counted = writer.file_bytes();
    let finished = writer.finish().unwrap();
    assert!(
        (4 << 20..5 << 20).contains(&finished.file_bytes),
        "{n} keys"
    );
    // The entry of the open block comes into the index, the bound of its partition into the top
    // level, and the properties have the first key and the last in hex.
    let more = finished.file_bytes - counted;
    assert!(
        (60_000..6 * 60_000 + 4_000).contains(&more),
        "{counted} and {more}"
    );
    let table = open(&disk, 0).unwrap();
    table.verify().unwrap();
    for n in [0, n / 2, n - 1] {
        assert!(get(&table, &key(n), 1).unwrap().is_some());
    }
}

/// All versions of a key must be in one file, so a version that would make the file's index too
/// large is refused. Regression: the index grew past 4 GiB, and the writer panicked.
#[test]
fn more_versions_of_a_long_key_than_a_top_level_holds_are_refused() {
    let disk = TestDisk::default();
    let mut writer = writer(&disk, SsTableOptions::default());
    writer.top_level_bytes_max = 1 << 20;
    let key = vec![b'k'; 10_000];
    let add = |seq| writer.add(&key, SeqNo(seq), Kind::Put, b"");
    let refused = (1..=1000).rev().map(add).find_map(|added| added.err());
    let refused = refused
        .expect("eight times a hundred and four fit")
        .to_string();
    assert!(refused.contains("so many versions"), "{refused}");
    assert!(
        writer.is_full(u64::MAX),
        "another key goes into another file"
    );
}

#[test]
fn properties_describe_the_table() {
    let mut oracle = Oracle::new();
    oracle.insert((b"".to_vec(), Reverse(8)), (Kind::Put, b"".to_vec()));
    oracle.insert((b"ab".to_vec(), Reverse(12)), (Kind::Delete, b"".to_vec()));
    oracle.insert((b"ab".to_vec(), Reverse(5)), (Kind::Put, b"value".to_vec()));
    let disk = TestDisk::default();
    let finished = write(&disk, &oracle, SsTableOptions::default());
    let table = open(&disk, 0).unwrap();
    let properties = table.properties();
    assert_eq!(*properties, finished.properties);
    assert_eq!(table.file_bytes(), finished.file_bytes);
    assert_eq!(table.path(), Path::new(FILE));
    assert_eq!(
        (properties.file_number, properties.table_id),
        (FILE_NUMBER, TABLE_ID)
    );
    assert_eq!((properties.entries, properties.tombstones), (3, 1));
    assert_eq!(
        (&*properties.smallest_key, &*properties.largest_key),
        (&b""[..], &b"ab"[..])
    );
    assert_eq!(
        (properties.smallest_seq, properties.largest_seq),
        (SeqNo(5), SeqNo(12))
    );
    assert_eq!(
        (properties.raw_key_bytes, properties.raw_value_bytes),
        (4, 5)
    );
}

#[test]
fn range_tombstones_come_back_with_versions_and_without() {
    let test = "range_tombstones_come_back_with_versions_and_without";
    with_rng(test, |rng| {
        let list = tombstones(&[
            (b"", Some(b"b"), 7),
            (b"a", None, 900),
            (b"c", Some(b"d"), 3),
        ]);
        for (options, versions) in layouts().into_iter().zip([0, 300].into_iter().cycle()) {
            let oracle = random_oracle(rng, versions, 40);
            let disk = TestDisk::default();
            let finished = write_with(&disk, &oracle, list.clone(), options);
            assert_eq!(finished.file_bytes, disk.read(FILE).len() as u64);
            let table = open(&disk, 1 << 20).unwrap();
            table.verify().unwrap();
            assert_eq!(**table.range_tombstones().unwrap(), list);
            let properties = table.properties();
            assert_eq!(properties.largest_seq, SeqNo(900));
            assert_eq!(properties.entries, oracle.len() as u64);
            assert_eq!(properties.range_tombstones.as_ref().unwrap().count, 7);
            assert_eq!(scan(&table).unwrap(), oracle_rows(&oracle));
            assert_eq!(scan_back(&table).unwrap(), oracle_rows(&oracle));
            for key in [&b""[..], b"a", b"\xff"] {
                assert_get(&table, &oracle, key, 250);
                let mut cursor = table.cursor(true);
                cursor.seek(key, SeqNo(9)).unwrap();
                assert!(!cursor.valid() || !oracle.is_empty());
                cursor.seek_before(key, SeqNo(9)).unwrap();
                assert!(!cursor.valid() || !oracle.is_empty());
            }
            let pieces = table.pieces(&KeyRange::all(), true);
            assert_eq!(pieces.is_empty(), oracle.is_empty());
        }
    });
}

#[test]
fn reads_count_what_they_cost() {
    let mut oracle = Oracle::new();
    for i in 0..1000_u32 {
        oracle.insert(
            (i.to_be_bytes().to_vec(), Reverse(1)),
            (Kind::Put, vec![1; 50]),
        );
    }
    let table = written(&oracle, SsTableOptions::default(), 1 << 20);
    let mut reads = ReadCounters::default();
    let mut get = |key: &[u8]| {
        let seq = SeqNo(1);
        let found = table.versions(key, key_hash(key), seq, &mut reads, |_| true);
        found.unwrap()
    };
    let key = 500_u32.to_be_bytes();
    assert!(get(&key));
    assert!(get(&key));
    assert!(!get(&[&key[..], b"absent"].concat()));
    assert!(!get(b"behind all keys"));
    let expected = ReadCounters {
        runs_touched: 2,
        blocks_read: 1,
        blocks_cached: 1,
        filter_skips: 1,
    };
    assert_eq!(reads, expected);
}

#[test]
fn a_scan_that_does_not_fill_leaves_the_cache_alone() {
    let oracle = random_oracle(&mut ChaCha8Rng::seed_from_u64(1), 500, 40);
    let disk = TestDisk::default();
    write(&disk, &oracle, SsTableOptions::default());
    let cache = Arc::new(BlockCache::new(1 << 20));
    let table = SsTable::open(&disk, Path::new(FILE), FILE_NUMBER, Arc::clone(&cache)).unwrap();
    scan(&table).unwrap();
    assert_eq!((cache.hits(), cache.used_bytes()), (0, 0));
    scan_back(&table).unwrap();
    assert!(cache.used_bytes() > 0);
    let misses = cache.misses();
    scan(&table).unwrap();
    assert_eq!(cache.misses(), misses);
}

#[test]
fn file_bytes_grow_as_the_table_does() {
    let mut writer = writer(&TestDisk::default(), uncompressed());
    assert!(writer.file_bytes() < 64 && writer.last_key().is_none());
    for i in 0..10_000_u64 {
        let before = writer.file_bytes();
        writer
            .add(&i.to_be_bytes(), SeqNo(1), Kind::Put, &[0; 100])
            .unwrap();
        assert!(writer.file_bytes() > before + 100);
    }
    let estimate = writer.file_bytes();
    let finished = writer.finish().unwrap();
    assert!(finished.file_bytes > estimate && finished.file_bytes < estimate + estimate / 10);
}

#[test]
#[should_panic(expected = "in order")]
fn a_version_out_of_order_is_a_bug_of_the_caller() {
    let mut writer = writer(&TestDisk::default(), SsTableOptions::default());
    writer.add(b"k", SeqNo(1), Kind::Put, b"").unwrap();
    let _ = writer.add(b"k", SeqNo(2), Kind::Put, b"");
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    let disk = TestDisk::default();
    let options = SsTableOptions {
        restart_interval: 0,
        ..Default::default()
    };
    let error = SsTableWriter::create(&disk, Path::new(FILE), (1, 1), options)
        .err()
        .unwrap();
    assert!(
        matches!(&error, Error::InvalidRequest(m) if m.contains("restart_interval")),
        "{error}"
    );
}
