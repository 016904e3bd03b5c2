//! A table with a key of two columns in a folder, for tests.

use std::collections::BTreeMap;

use ebb_model::types::CqlType;

use super::keys::RowKeys;
use crate::commit::{LiveFile, data_file_name};
use crate::data_file::{Column, DataFileWriter, testing};
use crate::iceberg::manifest::DataFile;
use crate::row_index;
use crate::target::Target;
use crate::types::OnEmpty;

pub(super) const TABLE: &str = "ks/t";

/// Rows by their keys.
pub(super) type Model = BTreeMap<Vec<u8>, Row>;

/// The values of the columns `k`, `c` and `v`.
pub(super) type Row = (i32, String, Option<String>);

/// Returns the columns `k`, `c` and `v`. The first two make up the key.
pub(super) fn columns() -> Vec<Column> {
    testing::columns([
        ("k", CqlType::Int),
        ("c", CqlType::Text),
        ("v", CqlType::Text),
    ])
}

/// Returns the computation of keys that sort by `k`, then by `c`.
pub(super) fn keys() -> RowKeys {
    keys_noting(|| ())
}

/// Returns the same computation as [`keys`]. It calls `note` for each key.
pub(super) fn keys_noting(note: impl Fn() + Send + Sync + 'static) -> RowKeys {
    let columns = columns().into_iter().take(2).collect();
    RowKeys::new(columns, move |cells| {
        note();
        match cells {
            [Some(k), Some(c)] => Ok(key_of(k, c)),
            _ => Err("a part of its key is null".to_owned()),
        }
    })
}

fn key_of(k: &[u8], c: &[u8]) -> Vec<u8> {
    let mut key = [k, c].concat();
    // Negative numbers come first.
    key[0] ^= 0x80;
    key
}

pub(super) fn key(row: &Row) -> Vec<u8> {
    key_of(&row.0.to_be_bytes(), row.1.as_bytes())
}

/// Returns a row with the value `value`. Its key is computed from the number `n`, and is above the
/// keys of lesser numbers.
pub(super) fn row(n: i32, value: &str) -> Row {
    (
        n.div_euclid(10),
        format!("c{}", n.rem_euclid(10)),
        Some(value.to_owned()),
    )
}

/// Writes a data file and its index, and returns the description of the file.
pub(super) fn write<'r>(
    target: &Target,
    (version, unique): (u64, &str),
    rows: impl IntoIterator<Item = &'r Row>,
) -> DataFile {
    let name = data_file_name(TABLE, version, unique);
    let mut writer = DataFileWriter::new(Vec::new(), &columns(), OnEmpty::Refuse, 1 << 16).unwrap();
    for row in rows {
        let (k, c, v) = row;
        let k = k.to_be_bytes();
        let values = [
            Some(&k[..]),
            Some(c.as_bytes()),
            v.as_ref().map(String::as_bytes),
        ];
        let charge = &mut |_: usize| Ok(());
        writer.append_keyed(&key(row), values, charge).unwrap();
    }
    let (bytes, file, index) = writer.finish_keyed(target.url(&name)).unwrap();
    assert!(target.create(&name, bytes.into()).unwrap());
    index.unwrap().store(target, &file).unwrap();
    file
}

pub(super) fn live(file: DataFile, sequence_number: i64) -> LiveFile {
    LiveFile {
        file,
        sequence_number,
        deletes: Vec::new(),
    }
}

pub(super) fn index_name(target: &Target, file: &DataFile) -> String {
    row_index::name(target.name(&file.file_path).unwrap()).unwrap()
}
