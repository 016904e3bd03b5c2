use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use ebb_test_support::seed::for_seeds;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::chunk::CHUNK_BYTES;
use super::skiplist::COPIED_BYTES_MAX;
use super::*;
use crate::key::{Cursor, Kind, SeqNo, compare_versions};
use crate::read::{MergeOperator, TimestampBounds};

type Version = (Vec<u8>, Reverse<SeqNo>);
type Oracle = BTreeMap<Version, (Kind, Vec<u8>)>;

const THREADS: u64 = 4;
const INSERTS_PER_THREAD: u64 = if cfg!(miri) { 20 } else { 1500 };

#[test]
fn a_reader_sees_the_newest_version_at_or_below_its_number() {
    let memtable = Memtable::default();
    for (key, seq, kind, value) in [
        ("a", 3, Kind::Put, "a3"),
        ("b", 5, Kind::Put, "b5"),
        ("a", 7, Kind::Delete, ""),
        ("a", 9, Kind::Put, "a9"),
    ] {
        memtable.insert(key.as_bytes(), SeqNo(seq), kind, value.as_bytes());
    }
    let at = |key: &str, seq| {
        memtable
            .get(key.as_bytes(), SeqNo(seq))
            .map(|v| (v.seq.0, v.kind))
    };
    assert_eq!(at("a", 2), None);
    assert_eq!(at("a", 6), Some((3, Kind::Put)));
    assert_eq!(at("a", 8), Some((7, Kind::Delete)));
    assert_eq!(at("a", u64::MAX), Some((9, Kind::Put)));
    assert_eq!(at("aa", u64::MAX), None);

    let mut cursor = memtable.cursor();
    cursor.seek(b"a", SeqNo(8)).unwrap();
    assert_eq!((cursor.key(), cursor.seq()), (&b"a"[..], SeqNo(7)));
    cursor.next().unwrap();
    cursor.next().unwrap();
    assert_eq!((cursor.key(), cursor.seq()), (&b"b"[..], SeqNo(5)));
    cursor.seek_before(b"b", SeqNo::MAX).unwrap();
    assert_eq!((cursor.key(), cursor.seq()), (&b"a"[..], SeqNo(3)));
    cursor.seek_to_first().unwrap();
    assert_eq!(cursor.seq(), SeqNo(9));
    cursor.prev().unwrap();
    assert!(!cursor.valid());
}

/// Keys are compared by their first 16 bytes, with zeros behind a shorter key,
/// and only then by the rest.
#[test]
fn keys_that_differ_in_zeros_or_behind_the_prefix_are_in_order() {
    let mut keys: Vec<Vec<u8>> = vec![vec![], vec![1], vec![0xff; 15], vec![0xff; 40]];
    for common in [&b""[..], b"a", b"0123456789abcd"] {
        for zeros in 0..20 {
            keys.push([common, &vec![0; zeros]].concat());
            keys.push([common, &vec![0; zeros], b"\x01"].concat());
        }
    }
    for tail in [&b""[..], b"a", b"a\0", b"b", b"\xff"] {
        keys.push([b"a prefix of sixteen bytes and more", tail].concat());
    }
    keys.sort_unstable();
    keys.dedup();
    let memtable = Memtable::default();
    // Neither up nor down.
    for i in 0..keys.len() {
        let at = i * 37 % keys.len();
        memtable.insert(&keys[at], SeqNo(at as u64 + 1), Kind::Put, b"");
    }
    assert_ne!(keys.len() % 37, 0, "each key is inserted");
    let found: Vec<_> = memtable.iter().map(|entry| entry.key().to_vec()).collect();
    assert_eq!(found, keys);
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(memtable.get(key, SeqNo::MAX).unwrap().seq.0, i as u64 + 1);
        let mut cursor = memtable.cursor();
        cursor.seek_before(key, SeqNo::MAX).unwrap();
        let before = cursor.valid().then(|| cursor.key());
        assert_eq!(before, i.checked_sub(1).map(|i| &*keys[i]));
    }
}

#[test]
fn a_seek_from_a_neighbour_finds_what_one_from_the_top_finds() {
    let test = "a_seek_from_a_neighbour_finds_what_one_from_the_top_finds";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let memtable = Memtable::default();
        for i in 0..400 {
            memtable.insert(&draw_key(&mut rng), SeqNo(i), Kind::Put, b"");
        }
        for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
            let mut keys = [draw_key(&mut rng), draw_key(&mut rng)];
            keys.sort_unstable();
            let [first, second] = &keys;
            if first == second {
                continue;
            }
            let seq = SeqNo(rng.random_range(0..500));
            let near = memtable.seek(None, first, seq);
            let found = memtable.seek(near, second, seq).map(found);
            assert_eq!(found, memtable.seek(None, second, seq).map(self::found));
        }
    });
}

/// Draws a key: often one of a few, often with a long prefix that others share.
fn draw_key(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let prefix: &[u8] = match rng.random_range(0..4) {
        0 => b"",
        1 => b"short",
        2 => b"exactly 16 bytes",
        _ => b"a prefix that is longer than what is compared as integers",
    };
    let len = match rng.random_range(0..100) {
        0 => 64 << 10,
        1..10 => 20,
        _ => rng.random_range(0..4),
    };
    let tail = (0..len).map(|_| rng.random_range(0..3u8));
    prefix.iter().copied().chain(tail).collect()
}

fn draw_value(rng: &mut ChaCha8Rng, kind: Kind) -> Vec<u8> {
    let len = match (kind, rng.random_range(0..100)) {
        (Kind::Delete, _) => 0,
        (_, 0) => 300 << 10,
        (_, 1..4) => COPIED_BYTES_MAX + rng.random_range(0..2usize),
        _ => rng.random_range(0..200),
    };
    vec![rng.random(); len]
}

/// Returns the inserts of one thread for a seed; no other thread uses their
/// sequence numbers.
fn script(seed: u64, thread: u64) -> Vec<(Version, (Kind, Vec<u8>))> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(thread);
    let inserts = 0..INSERTS_PER_THREAD;
    inserts
        .map(|i| {
            let kind = [Kind::Put, Kind::Delete, Kind::Merge][rng.random_range(0..3)];
            let seq = SeqNo(1 + i * THREADS + thread);
            let version = (draw_key(&mut rng), Reverse(seq));
            (version, (kind, draw_value(&mut rng, kind)))
        })
        .collect()
}

fn found(entry: Entry<'_>) -> (Version, (Kind, Vec<u8>)) {
    let version = (entry.key().to_vec(), Reverse(entry.seq()));
    (version, (entry.kind(), entry.value().to_vec()))
}

/// Reads all versions again and again while other threads insert. Asserts that
/// the versions are in order, that each is as its thread inserted it, and that
/// no read finds fewer than the one before.
fn read_beside(memtable: &Memtable, all: &Oracle, ended: &AtomicBool) {
    let mut seen_before = 0;
    loop {
        let last_round = ended.load(Ordering::Acquire);
        let mut seen = 0;
        let mut last: Option<Entry<'_>> = None;
        for entry in memtable.iter() {
            if let Some(last) = last {
                let order = compare_versions((last.key(), last.seq()), (entry.key(), entry.seq()));
                assert!(order.is_lt(), "out of order");
            }
            let (version, content) = found(entry);
            assert_eq!(all.get(&version), Some(&content), "not as it was written");
            last = Some(entry);
            seen += 1;
        }
        assert!(seen >= seen_before, "{seen} after {seen_before}");
        seen_before = seen;
        if last_round {
            assert_eq!(seen, all.len());
            return;
        }
    }
}

#[test]
fn a_memtable_is_a_sorted_map_under_concurrent_inserts() {
    let test = "a_memtable_is_a_sorted_map_under_concurrent_inserts";
    for_seeds(test, 1, |seed| {
        let scripts: Vec<_> = (0..THREADS).map(|thread| script(seed, thread)).collect();
        let all: Oracle = scripts.iter().flatten().cloned().collect();
        let pool = Arc::new(ChunkPool::new(4 * CHUNK_BYTES));
        let memtable = Memtable::new(pool);
        let ended = AtomicBool::new(false);
        let insert = |script: &[(Version, (Kind, Vec<u8>))]| {
            for ((key, Reverse(seq)), (kind, value)) in script {
                memtable.insert(key, *seq, *kind, value);
                let own = memtable.get(key, *seq).expect("reads its own");
                assert_eq!((own.seq, &*own.value), (*seq, &**value));
            }
        };
        thread::scope(|scope| {
            let reader = scope.spawn(|| read_beside(&memtable, &all, &ended));
            let writers: Vec<_> = scripts.iter().map(|s| scope.spawn(|| insert(s))).collect();
            let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            // The reader ends though a writer panicked.
            ended.store(true, Ordering::Release);
            outcomes.into_iter().for_each(|outcome| outcome.unwrap());
            reader.join().unwrap();
        });
        assert_eq!(memtable.len(), all.len() as u64);
        assert!(memtable.iter().map(found).eq(all.clone()));

        let here = |cursor: &MemtableCursor| {
            cursor.valid().then(|| {
                let version = (cursor.key().to_vec(), Reverse(cursor.seq()));
                (version, (cursor.kind(), cursor.value().to_vec()))
            })
        };
        let owned =
            |(version, content): (&Version, &(Kind, Vec<u8>))| (version.clone(), content.clone());
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut cursor = memtable.cursor();
        for _ in 0..INSERTS_PER_THREAD {
            let seq = SeqNo(rng.random_range(0..THREADS * INSERTS_PER_THREAD + 2));
            let place = (draw_key(&mut rng), Reverse(seq));
            let mut from = all.range(&place..);
            let expected = from.next().map(owned);
            let of_key = expected.clone().filter(|((key, _), _)| *key == place.0);
            let got = memtable.get(&place.0, seq);
            let got = got.map(|v| {
                (
                    (place.0.clone(), Reverse(v.seq)),
                    (v.kind, v.value.to_vec()),
                )
            });
            assert_eq!(got, of_key);
            cursor.seek(&place.0, seq).unwrap();
            assert_eq!(here(&cursor), expected);
            if cursor.valid() {
                cursor.next().unwrap();
                assert_eq!(here(&cursor), from.next().map(owned));
            }
            let mut before = all.range(..&place).rev();
            cursor.seek_before(&place.0, seq).unwrap();
            assert_eq!(here(&cursor), before.next().map(owned));
            if cursor.valid() {
                cursor.prev().unwrap();
                assert_eq!(here(&cursor), before.next().map(owned));
            }
        }
        cursor.seek_to_first().unwrap();
        assert_eq!(here(&cursor), all.first_key_value().map(owned));
        cursor.seek_to_last().unwrap();
        assert_eq!(here(&cursor), all.last_key_value().map(owned));
        cursor.next().unwrap();
        assert!(!cursor.valid());
    });
}

/// A value that a caller keeps must not keep tens of megabytes alive.
#[test]
fn a_value_that_is_kept_keeps_no_memtable() {
    let pool = Arc::new(ChunkPool::new(CHUNK_BYTES));
    let memtable = Memtable::new(pool.clone());
    let payload = Bytes::from([&[7; 2 * COPIED_BYTES_MAX][..], b"tail"].concat());
    let (large, small) = payload.split_at(2 * COPIED_BYTES_MAX);
    memtable.insert_of(&payload, b"large", SeqNo(1), Kind::Put, large);
    memtable.insert_of(&payload, b"small", SeqNo(2), Kind::Put, small);
    // The same as a small part of much else.
    let batch = Bytes::from(payload.repeat(10));
    let part = &batch[..2 * COPIED_BYTES_MAX];
    memtable.insert_of(&batch, b"part", SeqNo(3), Kind::Put, part);
    while memtable.bytes() < 3 * CHUNK_BYTES {
        memtable.insert(b"more", SeqNo(10 + memtable.len()), Kind::Put, &[1; 1000]);
    }
    let value = |key: &[u8]| memtable.get(key, SeqNo::MAX).unwrap().value;
    let kept = [value(b"large"), value(b"small"), value(b"part")];
    assert_eq!(kept[0].as_ptr(), payload.as_ptr(), "not copied");
    drop(memtable);
    assert_eq!(pool.len(), 1, "its memory is free again");
    assert_eq!(kept, [large, small, part]);
    let [large, _, _] = kept;
    assert!(!payload.is_unique());
    drop(large);
    assert!(payload.is_unique(), "another reference is left");
    assert!(
        batch.is_unique(),
        "a batch is not kept for one of its values"
    );
}

#[test]
fn the_next_memtable_gets_the_memory_of_the_last() {
    let pool = Arc::new(ChunkPool::new(2 * CHUNK_BYTES));
    let fill = |memtable: &Memtable| {
        while memtable.bytes() < 6 * CHUNK_BYTES {
            memtable.insert(b"k", SeqNo(1 + memtable.len()), Kind::Put, &[1; 1000]);
        }
    };
    let first = Memtable::new(pool.clone());
    assert_eq!(first.bytes(), 0);
    fill(&first);
    let second = first.next();
    assert_eq!(pool.len(), 0);
    drop(first);
    assert_eq!(pool.len(), 2, "as many as a memtable fills");
    fill(&second);
    assert_eq!(pool.len(), 0);
    let cursor = second.cursor();
    drop(second);
    assert_eq!(pool.len(), 0, "the cursor still reads it");
    drop(cursor);
    assert_eq!(pool.len(), 2);
}

/// Writes refuse a key that is larger than a chunk of the memtable's memory, but a damaged log may
/// contain a record with such a key.
#[test]
fn a_key_larger_than_a_chunk_fits() {
    let memtable = Memtable::default();
    let key = vec![b'k'; 3 * CHUNK_BYTES];
    memtable.insert(b"a", SeqNo(1), Kind::Put, b"1");
    memtable.insert(&key, SeqNo(2), Kind::Put, b"2");
    memtable.insert(b"b", SeqNo(3), Kind::Put, b"3");
    assert!(memtable.bytes() > key.len());
    assert_eq!(memtable.get(&key, SeqNo::MAX).unwrap().value, "2");
    let keys: Vec<_> = memtable.iter().map(|entry| entry.key().len()).collect();
    assert_eq!(keys, [1, 1, key.len()]);
}

/// A merge operator for which values of eight bytes are timestamps; others have
/// unknown timestamps.
#[derive(Debug)]
struct Timestamps;

impl MergeOperator for Timestamps {
    fn name(&self) -> &str {
        "timestamps"
    }

    fn merge(&self, _: &[u8], _: &[u8], newer: &[u8]) -> std::result::Result<Vec<u8>, String> {
        Ok(newer.to_vec())
    }

    fn timestamps(&self, _: &[u8], value: &[u8]) -> Option<TimestampBounds> {
        let timestamp = i64::from_le_bytes(value.try_into().ok()?);
        Some(TimestampBounds {
            least: timestamp,
            greatest: timestamp,
            greatest_local_time_s: 0,
        })
    }
}

#[test]
fn the_least_timestamp_is_that_of_all_values_or_none_is_known() {
    let operator: Arc<dyn MergeOperator> = Arc::new(Timestamps);
    let memtable = Memtable::default().with_operator(Some(&operator)).next();
    assert_eq!(memtable.least_timestamp(), i64::MAX);
    let mut seq = SeqNo(0);
    let mut insert = |kind, value: &[u8]| {
        seq = seq.next();
        memtable.insert(b"k", seq, kind, value);
        memtable.least_timestamp()
    };
    assert_eq!(insert(Kind::Delete, b""), i64::MAX);
    for (timestamp, least) in [(5, 5), (7, 5), (-3, -3), (i64::MIN + 1, i64::MIN + 1)] {
        assert_eq!(insert(Kind::Merge, &i64::to_le_bytes(timestamp)), least);
    }
    assert_eq!(insert(Kind::Put, b"unknown"), i64::MIN);
    assert_eq!(insert(Kind::Merge, &i64::to_le_bytes(9)), i64::MIN);

    let expiring = Memtable::default().with_operator(Some(&operator));
    let value = [0; 16];
    expiring.insert(b"k", SeqNo(1), Kind::ExpiringPut, &value);
    assert_eq!(expiring.least_timestamp(), i64::MIN);
}
