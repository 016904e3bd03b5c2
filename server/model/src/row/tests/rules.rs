//! Single rules, each with an example.

use std::cmp::Ordering;

use super::super::*;
use super::cell;

const PERMANENT: Lifetime = Lifetime::Permanent;

fn expiring(ttl_s: u32, expiry_s: i64) -> Lifetime {
    Lifetime::Expiring(Expiry { ttl_s, expiry_s })
}

fn tombstone(local_time_s: i64) -> Lifetime {
    Lifetime::Tombstone { local_time_s }
}

fn deletion(timestamp: i64, local_time_s: i64) -> Deletion {
    Deletion {
        timestamp,
        local_time_s,
    }
}

fn row(greatest: i64, write: impl FnOnce(&mut RowBuilder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut row = RowBuilder::new(&mut out, greatest);
    write(&mut row);
    row.finish().unwrap();
    out
}

fn view(row: &[u8], now_s: i64) -> RowView<'_> {
    RowView::new(RowRef::parse(row).unwrap(), None, now_s)
}

#[test]
fn of_two_cells_cassandra_keeps_the_first_of_each_pair() {
    for (winner, loser) in [
        // The newer one, whatever its kind.
        (cell(2, PERMANENT, b"a"), cell(1, tombstone(9), b"")),
        (cell(2, expiring(1, 1), b"a"), cell(1, PERMANENT, b"b")),
        // With equal timestamps: a tombstone or an expiring cell before a permanent one,
        (cell(1, tombstone(1), b""), cell(1, PERMANENT, b"b")),
        (cell(1, expiring(1, 1), b"a"), cell(1, PERMANENT, b"b")),
        // a tombstone before an expiring cell, even a later one,
        (cell(1, tombstone(1), b""), cell(1, expiring(9, 9), b"b")),
        // the one that ends later, whatever its value,
        (cell(1, tombstone(2), b""), cell(1, tombstone(1), b"")),
        (cell(1, expiring(1, 2), b"a"), cell(1, expiring(1, 1), b"b")),
        // the greater value, by unsigned bytes.
        (cell(1, PERMANENT, b"\x80"), cell(1, PERMANENT, b"\x7f")),
        (cell(1, PERMANENT, b"ab"), cell(1, PERMANENT, b"a")),
        (cell(1, expiring(9, 5), b"b"), cell(1, expiring(1, 5), b"a")),
        // Cassandra has no rule for this: the one that was written later.
        (cell(1, expiring(1, 5), b"a"), cell(1, expiring(9, 5), b"a")),
    ] {
        assert_eq!(winner.reconcile(&loser), Ordering::Greater, "{winner:?}");
        assert_eq!(loser.reconcile(&winner), Ordering::Less, "{winner:?}");
    }
}

#[test]
fn of_two_markers_cassandra_keeps_the_first_of_each_pair() {
    let marker = |timestamp, expiry: Option<(u32, i64)>| Marker {
        timestamp,
        expiry: expiry.map(|(ttl_s, expiry_s)| Expiry { ttl_s, expiry_s }),
    };
    for (winner, loser) in [
        (marker(2, None), marker(1, Some((9, 9)))),
        (marker(1, Some((1, 1))), marker(1, None)),
        (marker(1, Some((1, 2))), marker(1, Some((9, 1)))),
        (marker(1, Some((1, 2))), marker(1, Some((2, 2)))),
    ] {
        assert_eq!(winner.reconcile(&loser), Ordering::Greater, "{winner:?}");
        assert_eq!(loser.reconcile(&winner), Ordering::Less, "{winner:?}");
    }
}

#[test]
fn an_inserted_row_outlives_its_cells_and_an_updated_one_does_not() {
    let insert = row(1, |row| {
        row.marker(Marker {
            timestamp: 1,
            expiry: None,
        });
        row.cell(1, cell(1, PERMANENT, b"a"));
    });
    let update = row(1, |row| row.cell(1, cell(1, PERMANENT, b"a")));
    let nulled = row(2, |row| row.cell(1, cell(2, tombstone(5), b"")));
    for (written, stays) in [(insert, true), (update, false)] {
        assert!(view(&written, 0).is_live(None).unwrap());
        let merged = merge_rows(&nulled, &written).unwrap();
        assert_eq!(view(&merged, 0).cell(1).unwrap(), None);
        assert_eq!(view(&merged, 0).is_live(None).unwrap(), stays);
    }
}

#[test]
fn a_row_exists_by_an_unrequested_column_but_not_by_a_dropped_one() {
    let update = row(1, |row| row.cell(4, cell(1, PERMANENT, b"a")));
    let view = view(&update, 0);
    assert!(view.is_live(None).unwrap());
    assert!(view.is_live(Some(&[1, 4, 9])).unwrap());
    assert!(!view.is_live(Some(&[1, 9])).unwrap());
}

#[test]
fn cells_from_before_the_drop_of_a_column_stay_hidden() {
    let update = row(9, |row| {
        row.cell(1, cell(5, PERMANENT, b"old"));
        row.cell(4, cell(5, PERMANENT, b"other"));
        row.cell(7, cell(6, PERMANENT, b"new"));
    });
    let dropped = [1, 7].map(|column| DroppedCells {
        column,
        timestamp_us: 5,
    });
    let view = view(&update, 0).without(&dropped);
    let seen = view.columns(&[1, 4, 7]).map(|seen| seen.unwrap().0);
    assert_eq!(seen.collect::<Vec<_>>(), [4, 7]);
    assert!(!view.is_live(Some(&[1])).unwrap());
}

#[test]
fn time_to_live_ends_at_the_second_of_the_expiry() {
    let update = row(7, |row| row.cell(1, cell(7, expiring(10, 30), b"a")));
    let at = |now_s| view(&update, now_s).cell(1).unwrap();
    let live = |ttl_s| LiveCell {
        value: &b"a"[..],
        writetime: 7,
        ttl_s: Some(ttl_s),
    };
    assert_eq!(at(20), Some(live(10)));
    assert_eq!(at(29), Some(live(1)));
    assert_eq!(at(30), None);
}

#[test]
fn an_old_deletion_does_not_reach_newer_cells_though_it_comes_last() {
    let written = row(5, |row| {
        row.cell(1, cell(4, PERMANENT, b"old"));
        row.cell(2, cell(5, PERMANENT, b"new"));
    });
    let deleted = row(4, |row| row.deletion(deletion(4, 100)));
    let merged = merge_rows(&written, &deleted).unwrap();
    let view = view(&merged, 0);
    assert_eq!(view.cell(1).unwrap(), None);
    assert_eq!(view.cell(2).unwrap().unwrap().value, b"new");
    // Shadowed cells are not stored.
    assert_eq!(RowRef::parse(&merged).unwrap().columns().count(), 1);
}

#[test]
fn a_deletion_that_a_greater_one_supersedes_is_not_stored() {
    let collection = row(5, |row| {
        row.begin_collection(1, Some(deletion(5, 10)));
        row.end_collection();
    });
    // With equal timestamps the later local time wins: it must outlive gc_grace.
    for (by, stays) in [
        (deletion(5, 9), 1),
        (deletion(5, 10), 0),
        (deletion(6, 1), 0),
    ] {
        let deleted = row(by.timestamp, |row| row.deletion(by));
        let merged = merge_rows(&collection, &deleted).unwrap();
        let columns = RowRef::parse(&merged).unwrap().columns().count();
        assert_eq!(columns, stays, "{by:?}");
    }
}

/// Regression: neither a write of the whole collection nor a deletion of the row removed a single cell
/// of the same column, which an earlier schema had left there.
#[test]
fn a_deletion_removes_the_single_cell_of_a_column_that_became_a_collection() {
    let old = row(5, |row| row.cell(1, cell(5, PERMANENT, b"old")));
    let collection = |row: &mut RowBuilder<'_>, older| {
        row.begin_collection(1, older);
        row.element(Element {
            path: b"x",
            original: None,
            cell: cell(7, PERMANENT, b"new"),
        });
        row.end_collection();
    };
    let written = row(7, |row| collection(row, Some(deletion(6, 1))));
    let deleted = row(7, |row| {
        row.deletion(deletion(6, 1));
        collection(row, None);
    });
    for newer in [written, deleted] {
        assert_eq!(merge_rows(&old, &newer).unwrap(), newer);
        assert_eq!(merge_rows(&newer, &old).unwrap(), newer);
    }
    let mixed: Result<Vec<u8>, RowError> = Err(RowError::Mixed { column: 1 });
    let updated = row(7, |row| collection(row, None));
    assert_eq!(merge_rows(&old, &updated), mixed);
    let deleted_before = row(7, |row| collection(row, Some(deletion(4, 1))));
    assert_eq!(merge_rows(&old, &deleted_before), mixed);
}

/// Returns a row operand whose column 1 is a collection. At second 10, its live elements have the
/// paths b"x" and b"y"; the client wrote b"y" as b"Y!", so this original is stored as well.
fn collection() -> Vec<u8> {
    row(5, |row| {
        row.begin_collection(1, Some(deletion(4, 10)));
        for (path, original, of) in [
            (b"p", None, cell(4, PERMANENT, b"deleted")),
            (b"q", None, cell(5, tombstone(10), b"")),
            (b"x", None, cell(5, PERMANENT, b"1")),
            (b"y", Some(&b"Y!"[..]), cell(5, expiring(9, 20), b"22")),
            (b"z", None, cell(5, expiring(9, 10), b"expired")),
        ] {
            row.element(Element {
                path,
                original,
                cell: of,
            });
        }
        row.end_collection();
    })
}

#[test]
fn collections_are_written_in_native_serialization() {
    let row = collection();
    let live = view(&row, 10).collection(1).unwrap().unwrap();
    // The decoder of this test doubles each path.
    let twice = |path: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(&[path, path].concat());
        Ok::<_, RowError>(())
    };
    let mut list = Vec::new();
    live.write_list(&mut list).unwrap();
    assert_eq!(list, b"\0\0\0\x02\0\0\0\x011\0\0\0\x0222");
    let mut set = Vec::new();
    live.write_set(&mut set, twice).unwrap();
    assert_eq!(set, b"\0\0\0\x02\0\0\0\x02xx\0\0\0\x02Y!");
    let mut map = Vec::new();
    live.write_map(&mut map, twice).unwrap();
    assert_eq!(
        map,
        b"\0\0\0\x02\0\0\0\x02xx\0\0\0\x011\0\0\0\x02Y!\0\0\0\x0222"
    );

    let element = live.element(b"y").unwrap().unwrap();
    assert_eq!((element.cell.writetime, element.cell.ttl_s), (5, Some(10)));
    assert_eq!(live.element(b"q").unwrap(), None);
    assert_eq!(live.element(b"zz").unwrap(), None);
}

#[test]
fn a_collection_without_live_elements_is_null() {
    let row = row(5, |row| {
        row.begin_collection(1, None);
        row.element(Element {
            path: b"a",
            original: None,
            cell: cell(5, expiring(9, 20), b"1"),
        });
        row.end_collection();
    });
    assert!(view(&row, 19).collection(1).unwrap().is_some());
    assert!(view(&row, 20).collection(1).unwrap().is_none());
    assert!(!view(&row, 20).is_live(None).unwrap());
}

#[test]
fn fields_of_a_type_that_are_missing_are_null() {
    let row = row(5, |row| {
        row.begin_collection(1, None);
        for field in [1_u16, 3, 9] {
            row.element(Element {
                path: &field.to_be_bytes(),
                original: None,
                cell: cell(5, PERMANENT, b"v"),
            });
        }
        row.end_collection();
    });
    let mut out = Vec::new();
    let live = view(&row, 0).collection(1).unwrap().unwrap();
    live.write_fields(4, &mut out).unwrap();
    let (null, v) = (b"\xff\xff\xff\xff", b"\0\0\0\x01v");
    assert_eq!(out, [&null[..], v, null, v].concat());
}

#[test]
fn range_deletions_split_where_they_overlap_and_join_where_they_are_one() {
    let old = deletion(5, 1);
    let new = deletion(9, 1);
    let range = |start: &'static [u8], end: Option<&'static [u8]>, deletion| RangeDeletion {
        start,
        end,
        deletion,
    };
    let header = |ranges: &[RangeDeletion<'_>]| {
        let mut out = Vec::new();
        HeaderBuilder::new(&mut out).ranges(ranges).unwrap();
        out
    };
    let one = header(&[range(b"a", Some(b"m"), old)]);
    let other = header(&[
        range(b"m", Some(b"p"), old),
        range(b"x", Some(b"x"), new),
        range(b"d", Some(b"g"), new),
    ]);
    let merged = merge_headers(&one, &other).unwrap();
    let expected = [
        range(b"a", Some(b"d"), old),
        range(b"d", Some(b"g"), new),
        range(b"g", Some(b"p"), old),
    ];
    assert_eq!(Header::parse(&merged).unwrap().ranges(), expected);

    // A range to the end of the partition, and then a deletion of the whole partition.
    let rest = header(&[range(b"f", None, new)]);
    let merged = merge_headers(&merged, &rest).unwrap();
    let expected = [range(b"a", Some(b"d"), old), range(b"d", None, new)];
    assert_eq!(Header::parse(&merged).unwrap().ranges(), expected);
    let mut partition = Vec::new();
    HeaderBuilder::new(&mut partition).deletion(deletion(5, 1));
    let merged = merge_headers(&partition, &merged).unwrap();
    let merged = Header::parse(&merged).unwrap();
    assert_eq!(merged.ranges(), [range(b"d", None, new)]);
    assert_eq!(merged.deletion_at(b"c\xff"), Some(old));
    assert_eq!(merged.deletion_at(b"d"), Some(new));
}
