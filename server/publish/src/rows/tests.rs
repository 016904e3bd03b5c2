//! Rows by their keys, in files whose indexes are there, lost or damaged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use ebb_test_support::seed::for_seeds;
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::testing::{TABLE, columns, index_name, key, keys, keys_noting, live, row, write};
use super::*;
use crate::commit::{DeleteFile, LiveFile};
use crate::iceberg::manifest::DataFile;
use crate::parquet_file::testing::nested;
use crate::target::Target;
use crate::target::faulty::{self, Event};

fn place() -> (tempfile::TempDir, Target) {
    let dir = tempfile::tempdir().unwrap();
    let target = Target::folder(dir.path()).unwrap();
    (dir, target)
}

fn open(target: &Target, files: &[LiveFile]) -> Positions {
    let files = RowFiles::open(target, files.to_vec(), keys()).unwrap();
    Positions::new(Arc::new(files))
}

/// Returns the value of the row with the number `number`. Values look random, so that compressed files of
/// many rows stay large: an index is stored only beside a file of some size.
fn value(number: i32) -> String {
    let mixed = (i64::from(number) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:016x}", mixed ^ mixed.rotate_left(29))
}

/// The data files of a table with their deletes, and where each row is. The key of `rows` is the number that
/// the row was made from.
#[derive(Default)]
struct Files {
    files: Vec<LiveFile>,
    rows: BTreeMap<i32, RowPosition>,
}

impl Files {
    /// Adds a data file with one new row for each number of `numbers`, which must ascend.
    fn add(&mut self, target: &Target, numbers: &[i32]) {
        let file = self.files.len();
        let rows: Vec<_> = numbers.iter().map(|n| row(*n, &value(*n))).collect();
        let written = write(target, (1, &file.to_string()), &rows);
        self.files.push(live(written, file as i64));
        let positions = (0..).map(|position| RowPosition { file, position });
        self.rows.extend(numbers.iter().copied().zip(positions));
    }

    /// Deletes the rows of the numbers `numbers`, which must exist, by new delete files.
    fn delete(&mut self, target: &Target, numbers: &[i32]) {
        let mut deletes = PositionalDeletes::default();
        for number in numbers {
            deletes.add(self.rows.remove(number).unwrap());
        }
        let sequence_number = self.files.len() as i64;
        let unique = sequence_number.to_string();
        let written = deletes
            .write(target, &self.files, (TABLE, 1, &unique))
            .unwrap();
        for file in written {
            let of = file.referenced_data_file.clone().unwrap();
            let mut files = self.files.iter_mut();
            let live = files.find(|live| live.file.file_path == of).unwrap();
            live.deletes.push(DeleteFile {
                file,
                sequence_number,
            });
        }
    }
}

/// Puts a file whose schema is nested too deeply in the place of `file`.
fn make_deep(target: &Target, file: &mut DataFile) {
    let deep = nested(100_000);
    file.file_size_in_bytes = deep.len() as i64;
    let name = target.name(&file.file_path).unwrap();
    target.replace(name, deep.into()).unwrap();
}

/// Regression: such a file overflowed the stack of the server. Anyone with write access to the target could put
/// it there.
#[test]
fn files_whose_schemas_are_nested_too_deeply_are_refused() {
    let (_dir, target) = place();
    let mut files = Files::default();
    files.add(&target, &[1, 2, 3]);
    files.delete(&target, &[2]);
    let mut live = files.files.remove(0);
    let expected = "its schema is nested 100001 levels deep";

    make_deep(&target, &mut live.deletes[0].file);
    let read = PositionalDeletes::default().add_deleted(&target, 0, &live);
    let error = read.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    // The index of a small file is not stored, so it is made anew from the columns of the key.
    make_deep(&target, &mut live.file);
    let Err(error) = RowFiles::open(&target, vec![live], keys()) else {
        panic!("the data file is not refused");
    };
    let error = error.to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn files_that_the_keys_have_passed_are_named_once_and_their_deletes_are_complete() {
    let (_dir, target) = place();
    let mut files = Files::default();
    files.add(&target, &[0, 2, 4]);
    files.add(&target, &[1, 3, 9]);
    files.add(&target, &[5, 6, 7]);
    let mut positions = open(&target, &files.files);
    let mut deletes = PositionalDeletes::default();
    let mut passed = Vec::new();
    for number in [0, 1, 4, 5, 7, 9] {
        let found = positions.locate(&key(&row(number, ""))).unwrap();
        deletes.add(found.unwrap());
        for file in positions.take_passed() {
            let names = (TABLE, 1, "passed");
            let written = deletes.write_of(file, &target, &files.files, names);
            passed.push((number, file, written.unwrap().unwrap().record_count));
        }
    }
    // The first file ends at 4, and the third one at 7.
    assert_eq!(passed, [(5, 0, 2), (9, 2, 2)]);
    let left = deletes.write(&target, &files.files, (TABLE, 1, "left"));
    let left: Vec<_> = left.unwrap().iter().map(|of| of.record_count).collect();
    assert_eq!(left, [2]);
}

#[test]
fn rows_of_random_keys_are_where_a_model_has_them() {
    for_seeds(
        "rows_of_random_keys_are_where_a_model_has_them",
        2,
        |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (_dir, target) = place();
            let mut files = Files::default();
            let all = 3_000;
            let numbers: Vec<i32> = (-all..all).filter(|_| rng.random_bool(0.5)).collect();
            for part in numbers.chunks(1_200) {
                files.add(&target, part);
            }
            for _ in 0..4 {
                let gone: Vec<i32> = (files.rows.keys().copied())
                    .filter(|_| rng.random_bool(0.05))
                    .collect();
                files.delete(&target, &gone);
                let new = (-all..all).filter(|n| !files.rows.contains_key(n));
                let new: Vec<i32> = new.filter(|_| rng.random_bool(0.05)).collect();
                files.add(&target, &new);
            }
            let mut positions = open(&target, &files.files);
            let mut check = |number: i32| {
                let found = positions.locate(&key(&row(number, ""))).unwrap();
                assert_eq!(found, files.rows.get(&number).copied(), "{number}");
            };
            (-all - 20..all + 20).for_each(&mut check);
            for _ in 0..300 {
                check(rng.random_range(-all..all));
            }
        },
    );
}

/// Without the row that the cursors keep, each key took a search in each of the two files: some
/// eight rows in the first one, whose index has the key of every 256th row.
#[test]
fn rows_in_sequence_are_found_without_a_search_for_each() {
    const ROWS: i32 = 4_000;
    let (_dir, target) = place();
    let mut files = Files::default();
    let all: Vec<i32> = (0..ROWS).collect();
    files.add(&target, &all);
    // The newest file, so each key is looked for here first.
    files.add(&target, &[-1, ROWS]);
    let computed = Arc::new(AtomicUsize::new(0));
    let noted = Arc::clone(&computed);
    let keys = keys_noting(move || {
        noted.fetch_add(1, Ordering::Relaxed);
    });
    let opened = RowFiles::open(&target, files.files.clone(), keys).unwrap();
    let mut positions = Positions::new(Arc::new(opened));
    for number in -1..=ROWS {
        let found = positions.locate(&key(&row(number, ""))).unwrap();
        assert_eq!(found, files.rows.get(&number).copied(), "{number}");
    }
    let computed = computed.load(Ordering::Relaxed);
    assert!(computed < 2 * all.len(), "{computed}");
}

#[test]
fn keys_far_apart_in_a_large_file_are_found() {
    let (_dir, target) = place();
    let mut files = Files::default();
    let numbers: Vec<i32> = (0..90_000).collect();
    files.add(&target, &numbers);
    files.delete(&target, &[30_000, 89_999]);
    let mut positions = open(&target, &files.files);
    for number in [7, 29_999, 30_000, 60_001, 89_998, 89_999, 90_000, 12] {
        let found = positions.locate(&key(&row(number, ""))).unwrap();
        assert_eq!(found, files.rows.get(&number).copied(), "{number}");
    }
}

#[test]
fn a_row_of_the_newest_file_counts_among_several_of_its_key() {
    let (_dir, target) = place();
    let rows = [row(1, "old"), row(2, "old"), row(3, "old")];
    let old = live(write(&target, (1, "old"), &rows), 1);
    let new = live(write(&target, (2, "new"), &rows[1..2]), 2);
    let mut positions = open(&target, &[new, old]);
    let file_of = |number: i32| {
        let found = positions.locate(&key(&row(number, ""))).unwrap();
        found.map(|of| of.file)
    };
    assert_eq!([1, 2, 3, 4].map(file_of), [Some(1), Some(0), Some(1), None]);
}

#[test]
fn a_lost_or_damaged_index_is_made_anew() {
    let (_dir, target) = place();
    let mut files = Files::default();
    files.add(&target, &(0..5_000).collect::<Vec<_>>());
    files.add(&target, &(5_000..9_000).collect::<Vec<_>>());
    let names = [0, 1].map(|at: usize| index_name(&target, &files.files[at].file));
    let stored = names
        .each_ref()
        .map(|name| target.read(name).unwrap().unwrap());
    let file_bytes = files.files[0].file.file_size_in_bytes as usize;
    assert!(stored[0].len() * 100 <= file_bytes * 3);

    let mut flipped = stored[0].to_vec();
    flipped[60] ^= 1;
    for damaged in [
        None,
        Some(Bytes::new()),
        Some(flipped.into()),
        Some(stored[0].slice(..stored[0].len() - 9)),
        Some(stored[1].clone()),
    ] {
        target.remove(&names[0]).unwrap();
        if let Some(bytes) = damaged {
            target.replace(&names[0], bytes).unwrap();
        }
        let mut positions = open(&target, &files.files);
        for number in [0, 777, 4_999, 5_000] {
            let found = positions.locate(&key(&row(number, ""))).unwrap();
            assert_eq!(found, files.rows.get(&number).copied());
        }
        assert_eq!(target.read(&names[0]).unwrap().as_ref(), Some(&stored[0]));
    }
}

#[test]
fn a_small_file_needs_no_index() {
    let (_dir, target) = place();
    let long = |number: i32| (number, "c".repeat(500), None);
    let file = write(&target, (1, "small"), &[long(1), long(2)]);
    assert_eq!(target.read(&index_name(&target, &file)).unwrap(), None);
    let mut positions = open(&target, &[live(file, 1)]);
    let expected = RowPosition {
        file: 0,
        position: 1,
    };
    let found = [2, 3].map(|number| positions.locate(&key(&long(number))).unwrap());
    assert_eq!(found, [Some(expected), None]);
}

#[test]
fn rows_whose_keys_are_not_those_of_their_index_are_an_error() {
    let (_dir, target) = place();
    let mut files = Files::default();
    files.add(&target, &(0..5_000).collect::<Vec<_>>());
    // As if a value of the key were another one once it is read.
    let key_columns = columns().into_iter().take(2).collect();
    let others = RowKeys::new(key_columns, |cells| match cells {
        [Some(k), Some(c)] => Ok([&k[..], &c[..], b"?"].concat()),
        _ => Err("a part of its key is null".to_owned()),
    });
    let opened = RowFiles::open(&target, files.files.clone(), others).unwrap();
    let mut positions = Positions::new(Arc::new(opened));
    let error = positions.locate(&key(&row(300, "")));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with(&files.files[0].file.file_path), "{error}");
    assert!(error.contains("another key"), "{error}");
}

#[test]
fn files_that_are_absent_cut_or_of_another_kind_are_errors() {
    let (_dir, target) = place();
    let mut files = Files::default();
    files.add(&target, &(0..3_000).collect::<Vec<_>>());
    files.delete(&target, &[5, 6]);
    let url = files.files[0].deletes[0].file.file_path.clone();
    let data = files.files[0].file.file_path.clone();
    let locate = |files: &[LiveFile]| {
        let files = RowFiles::open(&target, files.to_vec(), keys())?;
        Positions::new(Arc::new(files)).locate(&key(&row(5, "")))
    };
    assert_eq!(locate(&files.files).unwrap(), None);
    let name = |url: &str| target.name(url).unwrap().to_owned();
    let whole = target.read(&name(&url)).unwrap().unwrap();
    let rows = target.read(&name(&data)).unwrap().unwrap();
    let cut = whole.slice(..whole.len() / 2);
    for damaged in [Bytes::new(), cut, rows.clone()] {
        target.replace(&name(&url), damaged).unwrap();
        let error = locate(&files.files).unwrap_err().to_string();
        assert!(error.starts_with(&url), "{error}");
    }
    target.remove(&name(&url)).unwrap();
    assert!(locate(&files.files).is_err());
    // Deletes of another data file are not taken for those of this one.
    let other = live(write(&target, (7, "other"), &[row(0, "")]), 1);
    let mut deletes = PositionalDeletes::default();
    deletes.add(RowPosition {
        file: 0,
        position: 0,
    });
    let written = deletes
        .write(&target, &[other], (TABLE, 7, "other"))
        .unwrap();
    let mut mixed = files.files.clone();
    mixed[0].deletes[0].file = written[0].clone();
    let error = locate(&mixed).unwrap_err().to_string();
    assert!(error.contains("does not have"), "{error}");

    target.replace(&name(&url), whole).unwrap();
    target
        .replace(&name(&data), rows.slice(..rows.len() / 2))
        .unwrap();
    let error = locate(&files.files).unwrap_err().to_string();
    assert!(error.contains(&data), "{error}");
}

/// Regression: a request that failed while a data file was read counted as a fault of the file, which no other
/// attempt of the task would overcome.
#[test]
fn a_request_that_fails_while_a_file_is_read_is_no_fault_of_the_file() {
    let (_dir, target) = place();
    let mut files = Files::default();
    files.add(&target, &(0..3_000).collect::<Vec<_>>());
    let read = |target: &Target| -> Result<()> {
        let mut left = LeftRows::open(target, &files.files[0], &columns())?;
        while left.next_row()?.is_some() {}
        Ok(())
    };
    let mut call = 0;
    loop {
        let (faulty, calls) = faulty::with_event(&target, call, Event::LoseAnswer).unwrap();
        let read = read(&faulty);
        if !calls.met_event() {
            read.unwrap();
            break;
        }
        let is_of_target = matches!(read, Err(RowsError::Target(_)));
        assert!(is_of_target, "at call {call}: {read:?}");
        call += 1;
    }
    // The footer of the file, and its pages.
    assert!(call > 1, "{call} calls");

    // The same call fails if the file is gone, and then no attempt can read it.
    let name = target.name(&files.files[0].file.file_path).unwrap();
    target.remove(name).unwrap();
    let read = read(&target);
    assert!(matches!(read, Err(RowsError::File { .. })), "{read:?}");
}

#[test]
fn rows_that_are_left_come_in_their_order_with_their_values() {
    let (_dir, target) = place();
    let mut files = Files::default();
    files.add(&target, &(0..3_000).collect::<Vec<_>>());
    files.delete(&target, &[0, 7, 8, 2_999]);
    let mut left = LeftRows::open(&target, &files.files[0], &columns()).unwrap();
    let mut next = (0..3_000).filter(|n| ![0, 7, 8, 2_999].contains(n));
    while let Some(position) = left.next_row().unwrap() {
        let number = next.next().unwrap();
        let (k, c, v) = row(number, &value(number));
        let values = [
            Some(k.to_be_bytes().to_vec()),
            Some(c.into_bytes()),
            v.map(String::into_bytes),
        ];
        assert_eq!((position, left.values()), (number as u64, &values[..]));
    }
    assert_eq!(next.next(), None);
}

/// A task of a publication copies rows of an old data file into a new one. It begins to read the
/// old file at an indexed row. Regression: each task read the file from its first row on.
#[test]
fn rows_that_are_left_can_be_read_from_an_indexed_row_on() {
    let (_dir, target) = place();
    let mut files = Files::default();
    files.add(&target, &(0..3_000).collect::<Vec<_>>());
    files.delete(&target, &[5, 768, 769, 2_900]);
    let live = &files.files[0];
    let key_of = |values: &[Option<Vec<u8>>]| match values {
        [Some(k), Some(c), _] => {
            let mut key = [&k[..], &c[..]].concat();
            key[0] ^= 0x80;
            Ok(key)
        }
        _ => Err("a part of its key is null".to_owned()),
    };
    let open = || LeftRows::open(&target, live, &columns()).unwrap();
    for (from, first) in [
        (-7, 0),
        (0, 0),
        (255, 0),
        (256, 256),
        (1_000, 770),
        (9_000, 2_816),
    ] {
        let mut left = open();
        let from = key(&row(from, ""));
        left.skip_below(&target, live, &from, key_of).unwrap();
        let mut expected = (first..3_000).filter(|n| ![5, 768, 769, 2_900].contains(n));
        while let Some(position) = left.next_row().unwrap() {
            assert_eq!(Some(position), expected.next());
        }
        assert_eq!(expected.next(), None);
    }

    let other = |_: &[Option<Vec<u8>>]| Ok(b"other".to_vec());
    let error = open().skip_below(&target, live, &key(&row(1_000, "")), other);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("row 768 has another key"), "{error}");

    target.remove(&index_name(&target, &live.file)).unwrap();
    let mut left = open();
    left.skip_below(&target, live, &key(&row(1_000, "")), key_of)
        .unwrap();
    assert_eq!(left.next_row().unwrap(), Some(0));
}
