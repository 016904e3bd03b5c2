//! Pins the format: the book, Formats: SSTable, walks through these very bytes.

use super::*;
use crate::sstable::file_id::FileId;

const ID: FileId = FileId(*b"sixteen random b");

// The parts of the expected file, in hex: a constant for each part that the book names, with a line
// for each thing that the book names in the part.

const HEADER: &str = "7369787465656e2072616e646f6d2062 bac705d9";
const DATA: &str = "
    00 03 01 01 03 616e74 31
    03 03 00 02 ac02 6c6572
    06 00 04 01 02 686f726e
    00000000 01000000
    00 c98ddc40";
const FILTER: &str = "
    0008800880008881 06
    00 76ac9d97";
const INDEX: &str = "
    00 06 02 01 02 616e746c6572 1428
    00000000 01000000
    00 e5cb6f95";
const TOP_LEVEL: &str = "
    00 06 03 01 02 616e746c6572 3c0e1a
    00000000 01000000
    00 863e6a7d";
const PROPERTIES: &str = concat!(
    r#"{"format_version":8,"file_number":7,"table_id":3,"entries":3,"tombstones":1,"#,
    r#""smallest_key":"616e74","largest_key":"616e746c6572","#,
    r#""smallest_seq":2,"largest_seq":300,"#,
    r#""keys":2,"key_sketch":"7a01057f0302","#,
    r#""raw_key_bytes":15,"raw_value_bytes":5,"#,
    r#""data_end":60,"options":{"block_bytes":4096,"restart_interval":16,"#,
    r#""filter_bits_per_key":10,"compression":"none"},"created_by":"ebb 0.1.0"}"#,
);
const PROPERTIES_TRAILER: &str = "00 b1f82f8c";
const LENGTHS: &str = "
    3c00000000000000 2800000000000000
    1b00000000000000 7f01000000000000";
const FILE_ID: &str = "7369787465656e2072616e646f6d2062";
const VERSION_AND_CHECKSUM: &str = "08000000 70eec5a4";
const MAGIC: &str = "656262535354626c";

/// Returns the expected bytes of the file, cut at the borders of its parts.
fn parts() -> [Vec<u8>; 11] {
    [
        hex(HEADER),
        hex(DATA),
        hex(FILTER),
        hex(INDEX),
        hex(TOP_LEVEL),
        PROPERTIES.into(),
        hex(PROPERTIES_TRAILER),
        hex(LENGTHS),
        hex(FILE_ID),
        hex(VERSION_AND_CHECKSUM),
        hex(MAGIC),
    ]
}

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits
        .bytes()
        .filter(|b| !b.is_ascii_whitespace())
        .collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    assert!(rest.is_empty());
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.iter().map(|pair| byte(pair)).collect()
}

#[test]
fn the_bytes_of_a_tiny_table_are_pinned() {
    let disk = TestDisk::default();
    let mut writer = writer(&disk, uncompressed());
    writer.set_id(ID);
    // A new version of the program is no new version of the format.
    writer.properties.created_by = "ebb 0.1.0".into();
    writer.add(b"ant", SeqNo(3), Kind::Put, b"1").unwrap();
    writer
        .add(b"antler", SeqNo(300), Kind::Delete, b"")
        .unwrap();
    writer.add(b"antler", SeqNo(2), Kind::Put, b"horn").unwrap();
    writer.finish().unwrap();

    let found = disk.read(FILE);
    let mut at = 0;
    for part in parts() {
        let end = found.len().min(at + part.len());
        assert_eq!(
            found[at..end].escape_ascii().to_string(),
            part.escape_ascii().to_string()
        );
        at = end;
    }
    assert_eq!(found.len(), at);
    open(&disk, 0).unwrap().verify().unwrap();
}

/// The expected bytes of a table of range tombstones and nothing else, as hex, up to its
/// properties: the block of tombstones, and a top level without entries.
const TOMBSTONES: &str = "
    03 616e74 01 01 66 02 ac02 a902
    01 66 00 01 03
    00 0015eba0
    00000000
    00 11fc76ed";

#[test]
fn the_bytes_of_range_tombstones_are_pinned() {
    let disk = TestDisk::default();
    let options = SsTableOptions {
        filter_bits_per_key: 0,
        ..uncompressed()
    };
    let list = tombstones(&[(b"ant", None, 3), (b"ant", Some(b"f"), 300)]);
    let mut writer = writer(&disk, options);
    writer.set_id(ID);
    writer.set_range_tombstones(list);
    writer.finish().unwrap();
    let found = disk.read(FILE);
    let expected = hex(&[HEADER, TOMBSTONES].concat());
    assert_eq!(
        found[..expected.len()].escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
    let text = found.escape_ascii().to_string();
    let properties = r#""data_end":20,"range_tombstones":{"offset":20,"bytes":22,"count":3}"#;
    assert!(text.replace('\\', "").contains(properties), "{text}");
    open(&disk, 0).unwrap().verify().unwrap();
}
