//! Keys of index entries: their order among other keys, and their parts.

use std::ops::Bound;

use crate::key::{
    EntryKey, FORM_LEN_MAX, PARTITIONS_START, PartitionKey, SCHEMA_KEY, Token, entries_of_indexes,
    entry_prefix, is_index_entry, token_range,
};

fn key(index: u32, form: &[u8], row: &[u8]) -> Vec<u8> {
    [entry_prefix(index, form), row.to_vec()].concat()
}

#[test]
fn an_entry_has_the_layout_of_the_book() {
    assert_eq!(
        key(7, b"ab", b"row"),
        b"\0\0\0\0\0\0\0\0\0\0\0\x07\x02abrow"
    );
    let long = [b'x'; FORM_LEN_MAX + 1];
    let hashed = key(7, &long, b"row");
    assert_eq!(hashed.len(), 8 + 4 + 1 + 16 + 3);
    assert_eq!(hashed[12], 0xff);
}

#[test]
fn entries_lie_between_the_schema_and_all_partitions() {
    let all = token_range(Bound::Unbounded, Bound::Unbounded);
    let from_least = token_range(Bound::Included(Token::MIN), Bound::Unbounded);
    assert_eq!(all, from_least);
    assert_eq!(all.from, PARTITIONS_START);
    for index in [0, 1, u32::MAX - 1] {
        let entry = key(index, b"v", &[0xff; 30]);
        assert!(SCHEMA_KEY < &entry[..]);
        assert!(is_index_entry(&entry) && !all.contains(&entry));
        assert!(entries_of_indexes(index, index + 1).contains(&entry));
        assert!(!entries_of_indexes(0, index).contains(&entry));
    }
    let partition = PartitionKey::new(&[b"k"]).unwrap();
    assert!(all.contains(&partition.header_key()));
    assert!(!is_index_entry(&partition.header_key()) && !is_index_entry(SCHEMA_KEY));
}

#[test]
fn no_prefix_of_a_value_begins_another() {
    let forms = [
        vec![],
        vec![0],
        vec![0, 0],
        vec![1; 64],
        vec![1; 65],
        vec![2; 90],
    ];
    for a in &forms {
        for b in &forms {
            let begins = entry_prefix(1, a).starts_with(&entry_prefix(1, b));
            assert_eq!(begins, a == b);
        }
        let key = key(1, a, b"row");
        let read = EntryKey::read(&key).unwrap();
        assert_eq!((read.index, read.row_key), (1, &b"row"[..]));
        assert_eq!(read.prefix, entry_prefix(1, a));
    }
}

#[test]
fn bytes_that_are_no_entry_are_an_error() {
    let whole = key(1, b"abc", b"");
    for cut in 0..whole.len() {
        assert!(EntryKey::read(&whole[..cut]).is_err(), "{cut}");
    }
    let mut too_long = whole.clone();
    too_long[12] = 65;
    assert!(EntryKey::read(&too_long).is_err());
    assert!(EntryKey::read(SCHEMA_KEY).is_err());
}
