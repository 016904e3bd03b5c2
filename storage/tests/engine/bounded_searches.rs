//! Searches for the next entry of a range that stop after some keys, in both directions.

use crate::common::one_table::open;
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Range, Result, Search, TransactionRange};

#[test]
fn a_bounded_search_stops_among_deleted_keys_and_goes_on_behind_them() {
    let (_db, _, queue) = open(manual(&MemDisk::new()), Default::default());
    for i in 0..12u8 {
        queue.put(&[i], b"v").unwrap();
    }
    for i in 0..10u8 {
        queue.delete(&[i]).unwrap();
    }
    let found = searches_of_four(queue.range::<&[u8], _>(..), Range::next_within);
    assert_eq!(found, [None, None, Some(10), Some(11)]);
    queue.delete(&[11]).unwrap();
    queue.put(&[0], b"v").unwrap();
    // Downwards 11 is the first of the four keys, and 10 is an entry.
    let found = searches_of_four(queue.range::<&[u8], _>(..), Range::next_back_within);
    assert_eq!(found, [Some(10), None, None, Some(0)]);
}

/// A snapshot shows no entry for keys that were written after it, but a search passes these keys, and counts
/// them.
#[test]
fn a_bounded_search_stops_among_newer_keys_and_goes_on_behind_them() {
    let (_db, app, queue) = open(manual(&MemDisk::new()), Default::default());
    queue.put(&[10], b"v").unwrap();
    app.create_snapshot("before").unwrap();
    for i in 0..10u8 {
        queue.put(&[i], b"v").unwrap();
    }
    let before = app.snapshot("before").unwrap().table("users").unwrap();
    let found = searches_of_four(before.range::<&[u8], _>(..), Range::next_within);
    assert_eq!(found, [None, None, Some(10)]);
    for i in 11..20u8 {
        queue.put(&[i], b"v").unwrap();
    }
    let found = searches_of_four(before.range::<&[u8], _>(..), Range::next_back_within);
    assert_eq!(found, [None, None, Some(10), None, None]);
}

/// Regression: downwards, a search passed all newer versions of a key at once, however many they were.
#[test]
fn a_bounded_search_stops_among_the_newer_versions_of_one_key() {
    let (_db, app, table) = open(manual(&MemDisk::new()), Default::default());
    table.put(&[0], b"v").unwrap();
    table.put(&[2], b"v").unwrap();
    app.create_snapshot("before").unwrap();
    for _ in 0..10 {
        table.put(&[1], b"newer").unwrap();
        table.put(&[2], b"newer").unwrap();
    }
    let before = app.snapshot("before").unwrap().table("users").unwrap();
    let range = || before.range::<&[u8], _>(..);
    // Five searches pass the 20 newer versions. Upwards the entry of the key 2 comes behind those of its
    // key, downwards before them.
    let found = searches_of_four(range(), Range::next_within);
    assert_eq!(found, [Some(0), None, None, None, None, None, Some(2)]);
    let found = searches_of_four(range(), Range::next_back_within);
    assert_eq!(found, [Some(2), None, None, None, None, None, Some(0)]);

    // Searches from both ends in turn: neither returns a key that the other one has read.
    let (mut range, mut found, mut is_front) = (range(), Vec::new(), false);
    loop {
        let search = if is_front {
            range.next_within(4)
        } else {
            range.next_back_within(4)
        };
        match search.transpose().unwrap() {
            Some(Search::Found((key, value))) => {
                assert_eq!(value, "v");
                found.push(key[0]);
            }
            Some(Search::Passed) => {}
            None => break,
        }
        is_front = !is_front;
    }
    assert_eq!(found, [2, 0]);
}

/// A search downwards has read a key before it passes the newer versions of the key, so a reader that
/// stops among them may begin a new search before the key.
#[test]
fn the_passed_key_of_a_search_downwards_may_have_newer_versions_that_are_not_passed() {
    let (_db, app, table) = open(manual(&MemDisk::new()), Default::default());
    table.put(&[1], b"v").unwrap();
    app.create_snapshot("before").unwrap();
    for _ in 0..10 {
        table.put(&[2], b"newer").unwrap();
    }
    let before = app.snapshot("before").unwrap().table("users").unwrap();
    let mut range = before.range::<&[u8], _>(..);
    assert_eq!(range.next_back_within(3).unwrap().unwrap(), Search::Passed);
    assert_eq!(range.passed_back_key(), Some(&[2][..]));
    let mut rest = before.range::<&[u8], _>(..&[2_u8][..]);
    let Search::Found((key, _)) = rest.next_back_within(1).unwrap().unwrap() else {
        panic!("the key 1 is the first one");
    };
    assert_eq!(key[..], [1]);
}

/// Regression: a search that ended between two versions of a key forgot the keys that it had passed before.
#[test]
fn a_key_that_a_search_passes_before_it_ends_among_the_versions_of_another_is_known() {
    let (_db, app, queue) = open(manual(&MemDisk::new()), Default::default());
    app.create_snapshot("before").unwrap();
    for i in [0, 1, 1, 2, 2, 3, 3] {
        queue.put(&[i], b"new").unwrap();
    }
    let before = app.snapshot("before").unwrap().table("users").unwrap();
    let mut range = before.range::<&[u8], _>(..);
    for passed in [0, 1, 2] {
        assert_eq!(range.next_within(2).unwrap().unwrap(), Search::Passed);
        assert_eq!(range.passed_key(), Some(&[passed][..]));
    }
}

/// A reader that stops may begin a new search behind the passed key. So all versions of the passed key must
/// have been read; otherwise the new search would miss its entry.
#[test]
fn the_passed_key_has_no_version_that_is_still_to_be_read() {
    let (_db, app, queue) = open(manual(&MemDisk::new()), Default::default());
    queue.put(&[2], b"old").unwrap();
    app.create_snapshot("before").unwrap();
    for i in [0, 1, 2, 2, 2, 2, 2, 3, 4] {
        queue.put(&[i], b"new").unwrap();
    }
    let before = app.snapshot("before").unwrap().table("users").unwrap();
    let mut range = before.range::<&[u8], _>(..);
    assert_eq!(range.passed_key(), None);
    // The keys 0 and 1.
    assert_eq!(range.next_within(2).unwrap().unwrap(), Search::Passed);
    assert_eq!(range.passed_key(), Some(&[1][..]));
    // The five new versions of the key 2, not the old one.
    assert_eq!(range.next_within(5).unwrap().unwrap(), Search::Passed);
    assert_eq!(range.passed_key(), Some(&[1][..]));
    let Search::Found((key, value)) = range.next_within(1).unwrap().unwrap() else {
        panic!("the snapshot shows the key 2");
    };
    assert_eq!((&key[..], &value[..]), (&[2][..], &b"old"[..]));
    assert_eq!(range.passed_key(), Some(&[2][..]));
    assert_eq!(range.next_within(2).unwrap().unwrap(), Search::Passed);
    assert_eq!(range.passed_key(), Some(&[4][..]));
    assert!(range.next_within(2).is_none());
    let mut range = before.range::<&[u8], _>(..);
    assert_eq!(range.passed_back_key(), None);
    assert_eq!(range.next_back_within(2).unwrap().unwrap(), Search::Passed);
    assert_eq!(range.passed_back_key(), Some(&[3][..]));
    let Search::Found((key, _)) = range.next_back_within(1).unwrap().unwrap() else {
        panic!("the snapshot shows the key 2");
    };
    assert_eq!(key[..], [2]);
    assert_eq!(range.passed_back_key(), Some(&[2][..]));
    // The five new versions of the key 2, then the key 1.
    assert_eq!(range.next_back_within(5).unwrap().unwrap(), Search::Passed);
    assert_eq!(range.passed_back_key(), Some(&[2][..]));
    assert_eq!(range.next_back_within(1).unwrap().unwrap(), Search::Passed);
    assert_eq!(range.passed_back_key(), Some(&[1][..]));
    assert!(range.next_back_within(2).is_none());
}

/// Searches from both ends of a range alternate. Neither may return a key that a search from the other end
/// has passed.
#[test]
fn bounded_searches_from_both_ends_find_each_entry_once() {
    let (_db, _, queue) = open(manual(&MemDisk::new()), Default::default());
    for i in 0..20u8 {
        queue.put(&[i], b"v").unwrap();
    }
    for i in (0..20u8).filter(|i| ![3, 9, 16].contains(i)) {
        queue.delete(&[i]).unwrap();
    }
    let mut range = queue.range::<&[u8], _>(..);
    let (mut found, mut passed) = (Vec::new(), 0);
    let mut is_front = true;
    loop {
        let search = if is_front {
            range.next_within(2)
        } else {
            range.next_back_within(2)
        };
        match search.transpose().unwrap() {
            Some(Search::Found((key, _))) => found.push(key[0]),
            Some(Search::Passed) => passed += 1,
            None => break,
        }
        is_front = !is_front;
    }
    found.sort_unstable();
    assert_eq!(found, [3, 9, 16]);
    assert!(passed > 0, "17 keys are dead");
}

/// The limit of a search in a transaction counts the keys that the transaction deleted itself, and the
/// deleted keys of its view.
#[test]
fn a_bounded_search_of_a_transaction_stops_among_deleted_keys() {
    let (db, _, queue) = open(manual(&MemDisk::new()), Default::default());
    for i in 0..20u8 {
        queue.put(&[i], b"v").unwrap();
    }
    for i in 0..8u8 {
        queue.delete(&[i]).unwrap();
    }
    let mut transaction = db.begin();
    for i in 8..18u8 {
        transaction.delete(&queue, &[i]).unwrap();
    }
    let range = || transaction.range::<&[u8], _>(&queue, ..).unwrap();
    let found = searches_of_four(range(), TransactionRange::next_within);
    assert_eq!(found, [None, None, None, None, Some(18), Some(19)]);
    let found = searches_of_four(range(), TransactionRange::next_back_within);
    assert_eq!(found, [Some(19), Some(18), None, None, None, None]);
}

/// Returns the outcomes of searches of at most 4 keys each, to the end of the range: the first byte of
/// a key that was found, or `None`. `search` goes on from one end of the range.
fn searches_of_four<R>(
    mut range: R,
    search: impl Fn(&mut R, u32) -> Option<Result<Search>>,
) -> Vec<Option<u8>> {
    let searches = std::iter::from_fn(|| search(&mut range, 4));
    let found = searches.map(|search| match search.unwrap() {
        Search::Found((key, _)) => Some(key[0]),
        Search::Passed => None,
    });
    found.collect()
}
