//! The examples of the book, Formats: CQL rows, byte by byte.

use super::super::*;
use super::cell;

/// Returns the bytes of the example under `heading` in `docs/src/formats/cql-rows.md`: each line of
/// its block has hex digits, three spaces and an explanation.
fn bytes_of_book(heading: &str) -> Vec<u8> {
    let book = include_str!("../../../../../docs/src/formats/cql-rows.md");
    let from = book
        .split(heading)
        .nth(1)
        .expect("the book has the example");
    let block = from.split("```").nth(1).expect("it has a block");
    let lines = block.lines().skip(1);
    let hex = lines.flat_map(|line| {
        line.split("   ")
            .next()
            .unwrap_or_default()
            .split_whitespace()
    });
    hex.map(|byte| u8::from_str_radix(byte, 16).expect("hex"))
        .collect()
}

#[test]
fn the_row_of_the_book() {
    let expiry = Expiry {
        ttl_s: 60,
        expiry_s: 160,
    };
    let mut out = Vec::new();
    let mut row = RowBuilder::new(&mut out, 1000);
    row.deletion(Deletion {
        timestamp: 900,
        local_time_s: 90,
    });
    row.marker(Marker {
        timestamp: 1000,
        expiry: Some(expiry),
    });
    row.original(Original {
        timestamp: 1000,
        bytes: b"1.00",
    });
    row.cell(1, cell(1000, Lifetime::Expiring(expiry), b"hi"));
    row.cell(2, cell(950, Lifetime::Permanent, b""));
    row.begin_collection(
        20,
        Some(Deletion {
            timestamp: 999,
            local_time_s: 100,
        }),
    );
    row.element(Element {
        path: b"k",
        original: Some(b"K"),
        cell: cell(1000, Lifetime::Expiring(expiry), b"v"),
    });
    row.element(Element {
        path: b"l",
        original: None,
        cell: cell(1000, Lifetime::Tombstone { local_time_s: 100 }, b""),
    });
    row.end_collection();
    row.cell(
        21,
        cell(1000, Lifetime::Tombstone { local_time_s: 100 }, b""),
    );
    row.finish().unwrap();
    assert_eq!(out, bytes_of_book("### Example of a row"));
    // The row is canonical already.
    assert_eq!(merge_rows(&out, &out).unwrap(), out);
}

#[test]
fn the_header_of_the_book() {
    let deletion = |timestamp, local_time_s| Deletion {
        timestamp,
        local_time_s,
    };
    let mut out = Vec::new();
    let mut header = HeaderBuilder::new(&mut out);
    header.deletion(deletion(800, 80));
    let ranges = [
        RangeDeletion {
            start: b"b",
            end: Some(b"d"),
            deletion: deletion(900, 90),
        },
        RangeDeletion {
            start: b"x",
            end: None,
            deletion: deletion(850, 90),
        },
    ];
    header.ranges(&ranges).unwrap();
    let mut row = header.static_row(1000);
    row.cell(0, cell(1000, Lifetime::Permanent, b"s"));
    row.finish().unwrap();
    assert_eq!(out, bytes_of_book("### Example of a header"));
    assert_eq!(merge_headers(&out, &out).unwrap(), out);
}
