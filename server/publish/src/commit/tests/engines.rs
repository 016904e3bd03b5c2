//! Metadata of other engines, and metadata with which a table cannot be continued.

use super::*;
use crate::commit::sweep;

#[test]
fn a_table_with_metadata_of_another_engine_is_refused() {
    for name in ["00001-a5c35e7d.metadata.json", "v1.gz.metadata.json"] {
        let (_dir, target) = place();
        let name = format!("ks/t/metadata/{name}");
        assert!(target.create(&name, Bytes::from_static(b"{}")).unwrap());
        let error = commit(&target, &publication("monday", 10), 1).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("ks/t: ") && error.contains(&name),
            "{error}"
        );
        assert!(sweep(&target, "ks/t").is_err());
        assert_eq!(target.list("ks/t").unwrap(), [name]);
    }
}

#[test]
fn metadata_that_cannot_be_read_are_named() {
    let (_dir, target) = place();
    let name = metadata_name("ks/t", 1);
    assert!(target.create(&name, Bytes::from_static(b"{")).unwrap());
    let error = commit(&target, &publication("monday", 10), 1).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with(&format!("{name}: ")), "{error}");
}

#[test]
fn a_table_that_another_engine_upgraded_is_not_continued() {
    let (_dir, target) = monday();
    change(&target, 2, |metadata| metadata.format_version = 3);
    let error = commit(&target, &publication("tuesday", 20), 2).unwrap_err();
    assert!(error.to_string().contains("format 3"), "{error}");
    assert!(sweep(&target, "ks/t").is_err());
}

#[test]
fn a_table_whose_numbers_leave_no_room_is_not_continued() {
    for (version, sequence_number, last_column_id, schema_id) in [
        (u64::MAX, 1, 1, 0),
        (2, i64::MAX, 1, 0),
        (2, 1, i32::MAX, 0),
        (2, 1, 1, i32::MAX),
        (2, 1, 1, -1),
    ] {
        let (_dir, target) = monday();
        change(&target, version, |metadata| {
            metadata.last_sequence_number = sequence_number;
            metadata.last_column_id = last_column_id;
            metadata.schemas[0]["schema-id"] = json!(schema_id);
        });
        let error = commit(&target, &publication("tuesday", 20), 2).unwrap_err();
        assert!(error.to_string().contains("out of range"), "{error}");
    }
}
