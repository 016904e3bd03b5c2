//! Purging never restores anything, and drops all that it is allowed to.

use super::super::*;
use super::operands::*;
use super::properties::{cases, fold};

fn bytes(purged: Purged, before: &[u8]) -> Option<Vec<u8>> {
    match purged {
        Purged::Kept => Some(before.to_vec()),
        Purged::Rewritten(bytes) => Some(bytes),
        Purged::Gone => None,
    }
}

/// Merges `late`, a write after the purge, into the result of a purge, as the engine does. If the
/// purge left nothing, `late` is the result.
fn with_late(
    purged: &Option<Vec<u8>>,
    late: &[u8],
    merge: impl Fn(&[u8], &[u8]) -> Result<Vec<u8>, RowError>,
) -> Vec<u8> {
    match purged {
        Some(purged) => merge(late, purged).unwrap(),
        None => late.to_vec(),
    }
}

#[test]
fn purging_changes_no_later_read() {
    let (mut cases_run, mut purged_some) = (0, 0);
    cases("purging_changes_no_later_read", 150_000, |rng| {
        cases_run += 1;
        let timestamps = Timestamps::some(rng);
        let operands = (0..rng.usize(1..4)).map(|_| row_operand(&row_facts(rng, timestamps)));
        let operands = operands.collect();
        let row = fold(rng, operands, merge_rows);
        let operands = (0..rng.usize(1..3)).map(|_| header_operand(&header_facts(rng, timestamps)));
        let operands = operands.collect();
        let header = fold(rng, operands, merge_headers);
        let clustering = clustering(rng);

        let garbage = Garbage {
            gc_before_s: time_s(rng),
            oldest_elsewhere: timestamps.one(rng),
        };
        let above = Header::parse(&header).unwrap().deletion_at(&clustering);
        let purged_row = purge_row(&row, above, garbage).unwrap();
        let purged_header = purge_header(&header, garbage).unwrap();
        purged_some += u32::from(purged_row != Purged::Kept && purged_header != Purged::Kept);
        let purged_row = bytes(purged_row, &row);
        let purged_header = bytes(purged_header, &header);

        // Later writes have no timestamps below the promised bound.
        let later = Timestamps {
            from: garbage.oldest_elsewhere,
            count: 4,
        };
        let late_row = row_operand(&if rng.bool() {
            row_facts(rng, later)
        } else {
            Vec::new()
        });
        let late_header = header_operand(&if rng.bool() {
            header_facts(rng, later)
        } else {
            Vec::new()
        });
        let full = merge_rows(&row, &late_row).unwrap();
        let less = with_late(&purged_row, &late_row, merge_rows);
        let full_header = merge_headers(&header, &late_header).unwrap();
        let less_header = with_late(&purged_header, &late_header, merge_headers);
        // The header may or may not have been purged.
        let headers = [&less_header, &full_header];
        for header in headers {
            // No reader has an earlier time: `gc_before_s` is the time of the earliest reader less gc_grace.
            let now_s = garbage.gc_before_s + rng.i64(0..10);
            let view = |row, header: &[u8]| {
                let header = Header::parse(header).unwrap();
                let above = header.deletion_at(&clustering);
                let mut row = row_of_view(&RowView::new(RowRef::parse(row).unwrap(), above, now_s));
                if !row.live {
                    // The original clustering of a row that is not live is never read.
                    row.original = None;
                }
                (row, row_of_view(&header.static_view(now_s)))
            };
            let mut one = view(&full, &full_header);
            let two = view(&less, header);
            if one.0.live && two.0.original.is_none() {
                // A purged row that is written again has the clustering of its key.
                one.0.original = None;
            }
            assert_eq!(
                one, two,
                "{garbage:?} of {row:02x?} under {header:02x?}, \
                 later {late_row:02x?} under {late_header:02x?}"
            );
        }
    });
    // The share is arbitrary: 100 of the 6,000 cases of a debug build.
    assert!(
        purged_some >= cases_run / 60,
        "the test purges too little: {purged_some} of {cases_run}"
    );
}

#[test]
fn purging_twice_is_purging_once() {
    cases("purging_twice_is_purging_once", 25_000, |rng| {
        let timestamps = Timestamps::some(rng);
        let garbage = Garbage {
            gc_before_s: time_s(rng),
            oldest_elsewhere: timestamps.one(rng),
        };
        let row = row_operand(&row_facts(rng, timestamps));
        let row = merge_rows(&row, &row).unwrap();
        let above = rng.bool().then(|| Deletion {
            timestamp: timestamps.one(rng),
            local_time_s: time_s(rng),
        });
        if let Purged::Rewritten(less) = purge_row(&row, above, garbage).unwrap() {
            assert!(!RowRef::parse(&less).unwrap().is_empty());
            let again = purge_row(&less, above, garbage).unwrap();
            assert_eq!(again, Purged::Kept);
            // Its greatest timestamp does not come from the garbage.
            let greatest = RowRef::parse(&less).unwrap().greatest_timestamp();
            let stats = row_stats(&less).unwrap();
            assert_eq!(stats.greatest_timestamp, greatest);
            // The operand is canonical: merging changes nothing.
            assert_eq!(merge_rows(&less, &less).unwrap(), less);
        }
        let header = header_operand(&header_facts(rng, timestamps));
        if let Purged::Rewritten(less) = purge_header(&header, garbage).unwrap() {
            let again = purge_header(&less, garbage).unwrap();
            assert!(matches!(again, Purged::Kept));
        }
    });
}

/// Returns a row of one tombstone or expiring cell, at timestamp 5.
fn row_of(lifetime: Lifetime) -> Vec<u8> {
    let mut out = Vec::new();
    let mut row = RowBuilder::new(&mut out, 5);
    row.cell(
        1,
        Cell {
            timestamp: 5,
            lifetime,
            value: b"",
        },
    );
    row.finish().unwrap();
    out
}

#[test]
fn a_tombstone_goes_when_both_bounds_allow_it() {
    let tombstone = row_of(Lifetime::Tombstone { local_time_s: 10 });
    let expiring = row_of(Lifetime::Expiring(Expiry {
        ttl_s: 3,
        expiry_s: 10,
    }));
    let permanent = row_of(Lifetime::Permanent);
    for (gc_before_s, oldest_elsewhere, goes) in [
        (11, 6, true),
        (11, i64::MAX, true),
        (10, 6, false),
        (11, 5, false),
        (11, 4, false),
    ] {
        let garbage = Garbage {
            gc_before_s,
            oldest_elsewhere,
        };
        let expected = if goes { Purged::Gone } else { Purged::Kept };
        assert_eq!(
            purge_row(&tombstone, None, garbage).unwrap(),
            expected,
            "{garbage:?}"
        );
        assert_eq!(
            purge_row(&expiring, None, garbage).unwrap(),
            expected,
            "{garbage:?}"
        );
        assert_eq!(purge_row(&permanent, None, garbage).unwrap(), Purged::Kept);
    }
}

#[test]
fn rows_under_a_deletion_go_with_it() {
    let never = Garbage {
        gc_before_s: i64::MIN,
        oldest_elsewhere: i64::MIN,
    };
    let row = row_of(Lifetime::Permanent);
    for (timestamp, expected) in [(4, Purged::Kept), (5, Purged::Gone), (6, Purged::Gone)] {
        let above = Some(Deletion {
            timestamp,
            local_time_s: 0,
        });
        assert_eq!(
            purge_row(&row, above, never).unwrap(),
            expected,
            "{timestamp}"
        );
    }
}

#[test]
fn the_original_clustering_goes_with_the_last_cell() {
    let mut row = Vec::new();
    let mut builder = RowBuilder::new(&mut row, 5);
    builder.deletion(Deletion {
        timestamp: 3,
        local_time_s: 20,
    });
    builder.original(Original {
        timestamp: 5,
        bytes: b"1.00",
    });
    builder.cell(
        1,
        Cell {
            timestamp: 5,
            lifetime: Lifetime::Tombstone { local_time_s: 1 },
            value: b"",
        },
    );
    builder.finish().unwrap();

    let garbage = |gc_before_s| Garbage {
        gc_before_s,
        oldest_elsewhere: i64::MAX,
    };
    let Purged::Rewritten(bare) = purge_row(&row, None, garbage(2)).unwrap() else {
        panic!("the cell is garbage");
    };
    let bare_row = RowRef::parse(&bare).unwrap();
    assert_eq!(
        (bare_row.original(), bare_row.greatest_timestamp()),
        (None, 3)
    );
    assert_eq!(purge_row(&bare, None, garbage(20)).unwrap(), Purged::Kept);
    assert_eq!(purge_row(&bare, None, garbage(21)).unwrap(), Purged::Gone);
}
