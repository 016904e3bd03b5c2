use rand::RngExt;

use super::{schema, table};
use crate::schema::{KeyspaceSchema, Schema, TableSchema};
use crate::types::tests::with_rng;

#[test]
fn a_record_is_read_without_any_other() {
    let table = table().drop_column("u", 5).unwrap();
    assert_eq!(TableSchema::decode(&table.encode()).unwrap(), table);
    let schema = schema();
    let keyspace = schema.keyspace("ks").unwrap();
    let read = KeyspaceSchema::decode(&keyspace.encode()).unwrap();
    assert_eq!(read, **keyspace);
    let whole = Schema::new([read.clone().with_table(table.clone()).unwrap()]);
    assert_eq!(**whole.table("ks", "t").unwrap(), table);
    let other = KeyspaceSchema::new("other", read.replication().clone(), true).unwrap();
    assert!(other.with_table(table).is_err());
}

/// The text of this record is fixed, and not the result of the tested code: existing records must
/// stay readable.
#[test]
fn the_record_is_what_older_versions_wrote() {
    let text = r#"{"format":1,"keyspace":"ks","table":"t","id":"00000000-0000-0000-0000-000000000007","types":[{"name":"p","fields":[["a","int"]]}],"columns":[{"id":0,"name":"k","type":"int","kind":"partition_key","position":0,"descending":false},{"id":1,"name":"c","type":"frozen<p>","kind":"clustering","position":0,"descending":true}],"dropped":[{"id":2,"name":"v","type":"text","kind":"regular","dropped_us":9}],"next_column_id":3,"options":{"additional_write_policy":"99p","bloom_filter_fp_chance":"0.01","caching":{"keys":"ALL","rows_per_partition":"NONE"},"cdc":"false","comment":"","compaction":{"class":"org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy","max_threshold":"32","min_threshold":"4"},"compression":{"chunk_length_in_kb":"16","class":"org.apache.cassandra.io.compress.LZ4Compressor"},"crc_check_chance":"1.0","dclocal_read_repair_chance":"0.0","default_time_to_live":"0","extensions":{},"gc_grace_seconds":"3600","max_index_interval":"2048","memtable":"default","memtable_flush_period_in_ms":"0","min_index_interval":"128","read_repair":"BLOCKING","speculative_retry":"99p"}}"#;
    let table = TableSchema::decode(text.as_bytes()).unwrap();
    assert_eq!(table.column("c").unwrap().ty.to_string(), "frozen<p>");
    assert_eq!(String::from_utf8(table.encode()).unwrap(), text);
}

#[test]
fn an_inconsistent_record_is_refused() {
    let text = String::from_utf8(table().encode()).unwrap();
    for (from, to) in [
        ("\"format\":1", "\"format\":2"),
        ("\"format\":1", "\"format\":1,\"more\":1"),
        ("\"next_column_id\":7", "\"next_column_id\":6"),
        ("\"id\":1", "\"id\":0"),
        ("\"position\":1", "\"position\":2"),
        ("partition_key", "regular"),
        ("\"type\":\"int\"", "\"type\":\"duration\""),
        ("\"type\":\"int\"", "\"type\":\"unknown\""),
        ("\"name\":\"b\"", "\"name\":\"A\""),
        (
            "\"gc_grace_seconds\":\"3600\"",
            "\"gc_grace_seconds\":\"x\"",
        ),
        ("\"comment\":\"\",", ""),
        ("\"table\":\"t\"", "\"table\":\"\""),
    ] {
        assert!(text.contains(from), "{from}");
        let damaged = text.replace(from, to);
        let error = TableSchema::decode(damaged.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("schema record: "), "{error}");
    }
    let nested = "[".repeat(1 << 20);
    assert!(TableSchema::decode(nested.as_bytes()).is_err());
}

#[test]
fn random_damage_is_read_or_refused() {
    let records = [table().encode(), schema().keyspace("ks").unwrap().encode()];
    with_rng("random_damage_is_read_or_refused", |mut rng| {
        for _ in 0..5000 {
            let mut bytes = records[rng.random_range(0..2)].clone();
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..bytes.len());
                match rng.random_range(0..3) {
                    0 => bytes[at] = rng.random(),
                    1 => bytes[at] = b"0129<>\"{}[],"[rng.random_range(0..12)],
                    _ => bytes.truncate(at.max(1)),
                }
            }
            if let Ok(table) = TableSchema::decode(&bytes) {
                assert_eq!(TableSchema::decode(&table.encode()).unwrap(), table);
                let _ = table.describe(true);
            }
            let _ = KeyspaceSchema::decode(&bytes);
        }
    });
}
