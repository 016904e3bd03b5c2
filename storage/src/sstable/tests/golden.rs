//! Pins the format: the book, Formats: SSTable, walks through these very bytes.

use super::*;

/// The file in hex, one line per thing that the book names.
const DATA: &str = "
    00 03 01 01 03 616e74 31
    03 03 00 02 ac02 6c6572
    06 00 04 01 02 686f726e
    00000000 01000000
    00 0909f212";
const FILTER: &str = "
    0008800880008881 06
    00 ee5d76b8";
const INDEX: &str = "
    00 06 02 01 02 616e746c6572 0028
    00000000 01000000
    00 6973233b";
const PROPERTIES: &str = concat!(
    r#"{"format_version":3,"file_number":7,"table_id":3,"entries":3,"tombstones":1,"#,
    r#""smallest_key":"616e74","largest_key":"616e746c6572","#,
    r#""smallest_seq":2,"largest_seq":300,"#,
    r#""keys":2,"key_sketch":"7a01057f0302","#,
    r#""raw_key_bytes":15,"raw_value_bytes":5,"#,
    r#""data_bytes":40,"options":{"block_bytes":4096,"restart_interval":16,"#,
    r#""filter_bits_per_key":10,"compression":"none"},"created_by":"ebb 0.1.0"}"#,
);
const PROPERTIES_TRAILER: &str = "00 a1107c34";
const HANDLES: &str = "
    2800000000000000 0e00000000000000
    3600000000000000 1a00000000000000
    5000000000000000";
const PROPERTIES_BYTES: &str = "8101000000000000";
const VERSION_AND_CHECKSUM: &str = "03000000 a4c415cf";
const MAGIC: &str = "656262535354626c";

/// The file, part by part.
fn parts() -> [Vec<u8>; 9] {
    [
        hex(DATA),
        hex(FILTER),
        hex(INDEX),
        PROPERTIES.into(),
        hex(PROPERTIES_TRAILER),
        hex(HANDLES),
        hex(PROPERTIES_BYTES),
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
    let options = SsTableOptions {
        compression: Compression::None,
        ..Default::default()
    };
    let ids = (FILE_NUMBER, TABLE_ID);
    let mut writer = SsTableWriter::create(&disk, Path::new(FILE), ids, options).unwrap();
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

/// A table of range tombstones and nothing else, up to its properties: the
/// block of them, a filter without bits, an index without entries.
const TOMBSTONES: &str = "
    03 616e74 01 01 66 02 ac02 a902
    01 66 00 01 03
    00 b045697b
    00
    00 ff12d941
    00000000
    00 1df722c6";

#[test]
fn the_bytes_of_range_tombstones_are_pinned() {
    let disk = TestDisk::default();
    let options = SsTableOptions {
        compression: Compression::None,
        filter_bits_per_key: 0,
        ..Default::default()
    };
    let list = tombstones(&[(b"ant", None, 3), (b"ant", Some(b"f"), 300)]);
    write_with(&disk, &Oracle::new(), list, options);
    let found = disk.read(FILE);
    let expected = hex(TOMBSTONES);
    assert_eq!(
        found[..expected.len()].escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
    let text = found.escape_ascii().to_string();
    let properties = r#""data_bytes":0,"range_tombstones":{"offset":0,"bytes":22,"count":3}"#;
    assert!(text.replace('\\', "").contains(properties), "{text}");
    open(&disk, 0).unwrap().verify().unwrap();
}
