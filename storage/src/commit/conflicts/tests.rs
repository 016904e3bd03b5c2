use std::ops::RangeBounds;

use super::*;
use crate::commit::write_set::{Point, table_key};
use crate::key::{KeyRange, TableId};

const TABLE: TableId = TableId(7);

fn key(key: &str) -> TableKey {
    table_key(TABLE, key.as_bytes())
}

fn point(name: &str, merges: bool) -> Point {
    let key = key(name);
    Point { key, merges }
}

fn writes(keys: &[&str]) -> WriteSet {
    WriteSet::of_keys(keys.iter().map(|name| key(name)))
}

/// Checks whether a transaction that began at `since` and writes these keys can commit. The transaction
/// guards no keys: it does not depend on other keys staying unchanged.
fn check(conflicts: &Conflicts, since: u64, write_set: &WriteSet) -> Result<(), Clash> {
    conflicts.check(SeqNo(since), write_set, &WriteSet::default())
}

/// Returns the clash of a transaction that began at `since`, if there is one.
fn clash(conflicts: &Conflicts, since: u64, keys: &[&str]) -> Option<Clash> {
    check(conflicts, since, &writes(keys)).err()
}

#[test]
fn a_key_written_since_clashes_and_no_other() {
    let conflicts = Conflicts::new();
    conflicts.begin(SeqNo(10));
    drop(conflicts.record(SeqNo(11), writes(&["b", "d"])));
    assert_eq!(clash(&conflicts, 10, &["a", "c", "e"]), None);
    assert_eq!(
        clash(&conflicts, 10, &["a", "b"]),
        Some(Clash::Key(key("b")))
    );
    assert_eq!(clash(&conflicts, 11, &["a", "b"]), None, "it saw the write");
    let guarded = conflicts.check(SeqNo(10), &writes(&["a"]), &writes(&["d"]));
    assert_eq!(guarded, Err(Clash::Key(key("d"))));
}

fn range(range: impl RangeBounds<&'static str>) -> WriteSet {
    WriteSet::of_key_range(TABLE, &KeyRange::new::<&str, _>(range))
}

#[test]
fn a_range_clashes_with_its_keys_and_with_ranges_that_overlap() {
    let conflicts = Conflicts::new();
    conflicts.begin(SeqNo(10));
    drop(conflicts.record(SeqNo(11), range("b".."d")));
    for (write_set, first) in [
        (writes(&["a", "d"]), None),
        (writes(&["a", "b"]), Some("b")),
        (WriteSet::of_points([point("c", true)]), Some("c")),
        (range("a".."b"), None),
        (range("d"..), None),
        (range("a"..="b"), Some("b")),
        (range("c".."z"), Some("c")),
    ] {
        let expected = first.map_or(Ok(()), |first| Err(Clash::Key(key(first))));
        assert_eq!(check(&conflicts, 10, &write_set), expected);
        assert_eq!(check(&conflicts, 11, &write_set), Ok(()));
    }
}

#[test]
fn a_guarded_range_clashes_with_every_later_write_in_it() {
    let conflicts = Conflicts::new();
    conflicts.begin(SeqNo(10));
    let merge = WriteSet::of_points([point("b", true)]);
    drop(conflicts.record(SeqNo(11), merge));
    drop(conflicts.record(SeqNo(12), range("m".."p")));
    for (guards, since, first) in [
        (range("a".."b"), 10, None),
        (range("a"..="b"), 10, Some("b")),
        (range("a"..="b"), 11, None),
        (range("c".."m"), 10, None),
        (range("c".."n"), 11, Some("m")),
        (range("o".."z"), 10, Some("o")),
        (range("p".."z"), 10, None),
    ] {
        let expected = first.map_or(Ok(()), |first| Err(Clash::Key(key(first))));
        let checked = conflicts.check(SeqNo(since), &writes(&["x"]), &guards);
        assert_eq!(checked, expected, "{guards:?} since {since}");
    }
}

#[test]
fn a_change_of_a_whole_table_clashes_with_each_of_its_keys_and_with_no_other_table() {
    let conflicts = Conflicts::new();
    conflicts.begin(SeqNo(10));
    drop(conflicts.record(SeqNo(11), range(..)));
    for name in ["", "a"] {
        let expected = Some(Clash::Key(key(name)));
        assert_eq!(clash(&conflicts, 10, &[name]), expected);
    }
    for other in [TableId(6), TableId(8)] {
        let writes = WriteSet::of_keys([table_key(other, b"")]);
        assert_eq!(check(&conflicts, 10, &writes), Ok(()));
    }
    // A change of the whole table also clashes with earlier writes.
    drop(conflicts.record(SeqNo(12), writes(&["b"])));
    let whole = range(..);
    let met = check(&conflicts, 11, &whole);
    assert_eq!(met, Err(Clash::Key(key("b"))));
    assert_eq!(check(&conflicts, 12, &whole), Ok(()));
    let met = check(&conflicts, 10, &whole);
    assert!(matches!(met, Err(Clash::Key(_))));
}

#[test]
fn a_wide_commit_clashes_like_any_other() {
    let conflicts = Conflicts::new();
    conflicts.begin(SeqNo(10));
    let names: Vec<_> = (0..=MAPPED_POINTS_MAX).map(|n| format!("{n:06}")).collect();
    let keys = WriteSet::of_keys(names.iter().map(|name| key(name)));
    drop(conflicts.record(SeqNo(11), keys));
    assert!(conflicts.index.lock().unwrap().map.is_empty());
    let expected = Some(Clash::Key(key("000500")));
    assert_eq!(clash(&conflicts, 10, &["000500"]), expected);
    assert_eq!(clash(&conflicts, 10, &["0005000"]), None);
    assert_eq!(clash(&conflicts, 11, &["000500"]), None);
}

#[test]
fn merges_clash_with_anything_but_merges() {
    let write_set = |merges: &[bool]| {
        let points = merges.iter().map(|merges| point("x", *merges));
        WriteSet::of_points(points)
    };
    let (merge, put) = (write_set(&[true, true]), write_set(&[true, false]));
    let wide = |merges| {
        let points = (0..=MAPPED_POINTS_MAX).map(|n| point(&n.to_string(), true));
        WriteSet::of_points(points.chain([point("x", merges)]))
    };
    let clashes = |before: &WriteSet, after: &WriteSet, guards: &WriteSet| {
        let conflicts = Conflicts::new();
        conflicts.begin(SeqNo(10));
        drop(conflicts.record(SeqNo(11), before.clone()));
        // An older write by the other commits does not hide it.
        drop(conflicts.record(SeqNo(12), writes(&["y"])));
        conflicts.check(SeqNo(10), after, guards).is_err()
    };
    let none = WriteSet::default();
    for (merge, put) in [(&merge, &put), (&wide(true), &wide(false))] {
        assert!(!clashes(merge, &write_set(&[true]), &none));
        assert!(clashes(put, &write_set(&[true]), &none));
        assert!(clashes(merge, &write_set(&[false]), &none));
        assert!(clashes(put, &write_set(&[false]), &none));
        for guards in [writes(&["x"]), range("w"..="x")] {
            assert!(clashes(merge, &write_set(&[true]), &guards), "{guards:?}");
        }
    }
    // A put stays known behind a later merge.
    let conflicts = Conflicts::new();
    conflicts.begin(SeqNo(10));
    drop(conflicts.record(SeqNo(11), write_set(&[false])));
    drop(conflicts.record(SeqNo(12), write_set(&[true])));
    assert!(check(&conflicts, 10, &merge).is_err());
    assert!(check(&conflicts, 11, &merge).is_ok());
    assert!(check(&conflicts, 11, &put).is_err());
}

#[test]
fn commits_that_no_living_transaction_can_clash_with_are_dropped() {
    let conflicts = Conflicts::new();
    let points = || {
        let index = conflicts.index.lock().unwrap();
        (index.map.len(), index.commits.len(), index.bytes > 0)
    };
    conflicts.begin(SeqNo(10));
    conflicts.begin(SeqNo(12));
    for seq in 11..=14 {
        drop(conflicts.record(SeqNo(seq), writes(&["same", &seq.to_string()])));
    }
    assert_eq!(points(), (5, 4, true));
    conflicts.end(SeqNo(10));
    drop(conflicts.record(SeqNo(15), writes(&["15"])));
    // Left are commits 13, 14 and 15.
    assert_eq!(points(), (4, 3, true));
    let expected = Some(Clash::Key(key("same")));
    assert_eq!(clash(&conflicts, 12, &["same"]), expected);

    assert!(conflicts.is_needed());
    conflicts.end(SeqNo(12));
    assert!(!conflicts.is_needed());
    assert_eq!(points(), (0, 0, false));
    drop(conflicts.record(SeqNo(16), writes(&["16"])));
    assert_eq!(points(), (0, 0, false), "nobody is there to clash with");
}

#[test]
fn a_transaction_older_than_a_commit_dropped_from_a_full_index_is_refused() {
    let of_one = POINT_OVERHEAD_BYTES + key("11").len();
    let conflicts = Conflicts::with_bytes_max(3 * of_one);
    conflicts.begin(SeqNo(10));
    for seq in 11..=13 {
        drop(conflicts.record(SeqNo(seq), writes(&[&seq.to_string()])));
    }
    assert_eq!(clash(&conflicts, 10, &["a"]), None);
    drop(conflicts.record(SeqNo(14), writes(&["14"])));
    assert_eq!(clash(&conflicts, 10, &["a"]), Some(Clash::TooOld));
    conflicts.begin(SeqNo(14));
    assert_eq!(clash(&conflicts, 14, &["14", "a"]), None);
    assert_eq!(clash(&conflicts, 11, &["12"]), Some(Clash::Key(key("12"))));
    // A commit that is larger than the index is dropped at once, and older transactions are
    // refused.
    drop(conflicts.record(SeqNo(15), writes(&["a", "b", "c", "d"])));
    assert_eq!(clash(&conflicts, 14, &["x"]), Some(Clash::TooOld));
    assert_eq!(clash(&conflicts, 15, &["x"]), None);
}
