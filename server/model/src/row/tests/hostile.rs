//! Bytes that are not operands, or almost: they cause at most errors.

use fastrand::Rng;

use super::super::*;
use super::operands::*;
use super::properties::cases;

/// Calls the functions that merge, purge, measure and read operands on `bytes`, as a row and as a
/// header, and ignores errors. The other operands of merges, `other_row` and `other_header`, are valid.
fn use_all(bytes: &[u8], other_row: &[u8], other_header: &[u8]) {
    if let Ok(merged) = merge_rows(bytes, other_row) {
        // A merged operand can be decoded.
        assert_eq!(merge_rows(&merged, &merged).unwrap(), merged);
    }
    if let Ok(merged) = merge_headers(other_header, bytes) {
        assert_eq!(merge_headers(&merged, &merged).unwrap(), merged);
    }
    let garbage = Garbage {
        gc_before_s: 9,
        oldest_elsewhere: 5,
    };
    let _ = purge_row(bytes, None, garbage);
    let _ = purge_header(bytes, garbage);
    let _ = row_stats(bytes);
    let _ = header_stats(bytes);
    if let Ok(row) = RowRef::parse(bytes) {
        look(&RowView::new(row, None, 5));
    }
    if let Ok(header) = Header::parse(bytes) {
        assert!(std::mem::size_of_val(header.ranges()) <= 16 * bytes.len());
        header.deletion_at(b"\x01");
        look(&header.static_view(5));
    }
}

fn look(view: &RowView<'_>) {
    let _ = view.is_live(None);
    let mut out = Vec::new();
    let copy = |path: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(path);
        Ok::<_, RowError>(())
    };
    for column in COLLECTIONS {
        if let Ok(Some(collection)) = view.collection(column) {
            let _ = collection.write_list(&mut out);
            let _ = collection.write_set(&mut out, copy);
            let _ = collection.write_map(&mut out, copy);
            let _ = collection.write_fields(9, &mut out);
        }
    }
    for column in SIMPLE {
        let _ = view.cell(column);
    }
}

#[test]
fn damaged_operands_are_errors_at_most() {
    cases("damaged_operands_are_errors_at_most", 100_000, |rng| {
        let timestamps = Timestamps::some(rng);
        let row = row_operand(&row_facts(rng, timestamps));
        let header = header_operand(&header_facts(rng, timestamps));
        let mut bytes = if rng.bool() {
            row.clone()
        } else {
            header.clone()
        };
        for _ in 0..rng.usize(1..4) {
            damage(rng, &mut bytes);
        }
        use_all(&bytes, &row, &header);
    });
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let at = rng.usize(..=bytes.len());
    match rng.u8(0..4) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, *rng.choice(&[0, 1, 0x7f, 0x80, 0xff]).unwrap()),
        2 if at < bytes.len() => bytes[at] = rng.u8(..),
        _ if at < bytes.len() => bytes[at] ^= 1 << rng.u8(0..8),
        _ => {}
    }
}

#[test]
fn random_bytes_are_errors_at_most() {
    let (row, header) = (row_operand(&[]), header_operand(&[]));
    cases("random_bytes_are_errors_at_most", 100_000, |rng| {
        let mut bytes: Vec<u8> = (0..rng.usize(0..60)).map(|_| rng.u8(..)).collect();
        if let [first, second, ..] = &mut bytes[..] {
            *first = if rng.bool() { 0x11 } else { 0x21 };
            *second &= 15;
        }
        use_all(&bytes, &row, &header);
    });
}

#[test]
fn each_truncated_operand_names_its_damage() {
    let mut row = Vec::new();
    let mut builder = RowBuilder::new(&mut row, 5);
    builder.cell(
        1,
        Cell {
            timestamp: 5,
            lifetime: Lifetime::Permanent,
            value: b"value",
        },
    );
    builder.finish().unwrap();
    // An operand that ends before the first column is valid and has no columns.
    for cut in (0..3).chain(4..row.len()) {
        let error = row_stats(&row[..cut]).unwrap_err();
        match cut {
            0 => assert_eq!(error, RowError::Empty),
            _ => assert!(
                matches!(error, RowError::Damaged { offset, .. } if offset <= cut),
                "{error}"
            ),
        }
    }
    let error = Header::parse(&row).unwrap_err();
    assert_eq!(
        error,
        RowError::Format {
            expected: 0x21,
            found: 0x11
        }
    );
    assert_eq!(
        error.to_string(),
        "operand of format 0x11 where 0x21 is read"
    );
}

#[test]
fn a_length_beyond_the_bytes_allocates_nothing() {
    let mut row = vec![0x11, 0, 10, 0];
    row.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    assert_eq!(
        row_stats(&row).unwrap_err().to_string(),
        "damaged operand: a length beyond the end of the bytes at byte 14"
    );
}

#[test]
fn builders_refuse_operands_that_readers_would_refuse() {
    let cell = |timestamp| Cell {
        timestamp,
        lifetime: Lifetime::Permanent,
        value: b"",
    };
    let element = |path| Element {
        path,
        original: None,
        cell: cell(5),
    };
    let marker = Marker {
        timestamp: 5,
        expiry: Some(Expiry {
            ttl_s: 0,
            expiry_s: 5,
        }),
    };
    type Step<'s> = &'s dyn Fn(&mut RowBuilder<'_>);
    let wrong: [(&str, Step<'_>); 10] = [
        ("columns out of order", &|row| {
            row.cell(2, cell(5));
            row.cell(2, cell(5));
        }),
        ("a timestamp out of bounds", &|row| row.cell(2, cell(6))),
        ("a timestamp out of bounds", &|row| {
            row.cell(2, cell(i64::MIN))
        }),
        ("a time to live of 0", &|row| row.marker(marker)),
        ("deletion, marker and original out of order", &|row| {
            row.cell(2, cell(5));
            row.marker(Marker {
                timestamp: 5,
                expiry: None,
            });
        }),
        ("elements out of order", &|row| {
            row.begin_collection(1, None);
            row.element(element(b"b"));
            row.element(element(b"a"));
            row.end_collection();
        }),
        ("a collection without an end", &|row| {
            row.begin_collection(1, None)
        }),
        ("an element outside of a collection", &|row| {
            row.element(element(b"b"))
        }),
        ("the end of a collection that was not begun", &|row| {
            row.end_collection()
        }),
        ("a tombstone with a value", &|row| {
            let lifetime = Lifetime::Tombstone { local_time_s: 1 };
            row.cell(
                1,
                Cell {
                    timestamp: 5,
                    lifetime,
                    value: b"x",
                },
            );
        }),
    ];
    for (what, step) in wrong {
        let mut out = b"before".to_vec();
        let mut row = RowBuilder::new(&mut out, 5);
        step(&mut row);
        assert_eq!(row.finish(), Err(RowError::Build(what)));
        assert_eq!(out, b"before");
    }
}

#[test]
fn one_id_for_a_cell_and_a_collection_is_an_error() {
    let mut cell = Vec::new();
    let mut row = RowBuilder::new(&mut cell, 5);
    row.cell(
        7,
        Cell {
            timestamp: 5,
            lifetime: Lifetime::Permanent,
            value: b"",
        },
    );
    row.finish().unwrap();
    let mut collection = Vec::new();
    let mut row = RowBuilder::new(&mut collection, 5);
    row.begin_collection(
        7,
        Some(Deletion {
            timestamp: 4,
            local_time_s: 1,
        }),
    );
    row.end_collection();
    row.finish().unwrap();
    let error = merge_rows(&cell, &collection).unwrap_err();
    assert_eq!(error, RowError::Mixed { column: 7 });
    assert_eq!(merge_rows(&collection, &cell), Err(error));
}
