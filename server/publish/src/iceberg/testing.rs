//! Manifests and their lists as other engines write them, and entries of ebb's own ones, for tests.

use super::avro::{self, Encoder};
use super::manifest::{DataFile, POSITIONAL_DELETES, ROWS};

/// The engine whose form of manifests a test uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// Spark, by Iceberg's Java library: the table is partitioned by two fields, and entries have
    /// statistics and fields that ebb does not write.
    Spark,
    /// PyIceberg: records have their fields in another order than ebb's, and blocks are not
    /// compressed.
    PyIceberg,
}

/// A file in a manifest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TestFile<'a> {
    pub(crate) status: i32,
    pub(crate) content: i32,
    pub(crate) path: &'a str,
    pub(crate) format: &'a str,
    pub(crate) sequence_number: Option<i64>,
}

/// A manifest in a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TestManifest<'a> {
    pub(crate) path: &'a str,
    pub(crate) content: i32,
    pub(crate) sequence_number: i64,
    pub(crate) partition_spec_id: i32,
}

const SPARK_ENTRY: &str = r#"{"type":"record","name":"manifest_entry","fields":[
{"name":"status","type":"int","field-id":0},
{"name":"snapshot_id","type":["null","long"],"default":null,"field-id":1},
{"name":"sequence_number","type":["null","long"],"default":null,"field-id":3},
{"name":"file_sequence_number","type":["null","long"],"default":null,"field-id":4},
{"name":"data_file","type":{"type":"record","name":"r2","fields":[
 {"name":"content","type":"int","doc":"Contents of the file","field-id":134},
 {"name":"file_path","type":"string","field-id":100},
 {"name":"file_format","type":"string","field-id":101},
 {"name":"partition","type":{"type":"record","name":"r102","fields":[
  {"name":"day","type":["null",{"type":"int","logicalType":"date"}],"default":null,"field-id":1000},
  {"name":"price","type":["null",{"type":"fixed","name":"decimal_9_2","size":4,
   "logicalType":"decimal","precision":9,"scale":2}],"default":null,"field-id":1001}
 ]},"field-id":102},
 {"name":"record_count","type":"long","field-id":103},
 {"name":"file_size_in_bytes","type":"long","field-id":104},
 {"name":"column_sizes","type":["null",{"type":"array","items":
  {"type":"record","name":"k117_v118","fields":[
   {"name":"key","type":"int","field-id":117},{"name":"value","type":"long","field-id":118}]},
  "logicalType":"map"}],"default":null,"field-id":108},
 {"name":"nan_value_counts","type":["null",{"type":"array","items":
  {"type":"record","name":"k138_v139","fields":[
   {"name":"key","type":"int","field-id":138},{"name":"value","type":"long","field-id":139}]},
  "logicalType":"map"}],"default":null,"field-id":137},
 {"name":"lower_bounds","type":["null",{"type":"array","items":
  {"type":"record","name":"k126_v127","fields":[
   {"name":"key","type":"int","field-id":126},{"name":"value","type":"bytes","field-id":127}]},
  "logicalType":"map"}],"default":null,"field-id":125},
 {"name":"key_metadata","type":["null","bytes"],"default":null,"field-id":131},
 {"name":"split_offsets","type":["null",{"type":"array","items":"long","element-id":133}],
  "default":null,"field-id":132},
 {"name":"equality_ids","type":["null",{"type":"array","items":"int","element-id":136}],
  "default":null,"field-id":135},
 {"name":"sort_order_id","type":["null","int"],"default":null,"field-id":140}
]},"field-id":2}]}"#;

const PYICEBERG_ENTRY: &str = r#"{"type":"record","name":"manifest_entry","fields":[
{"name":"data_file","field-id":2,"type":{"type":"record","name":"r2","fields":[
 {"name":"referenced_data_file","type":["null","string"],"field-id":143},
 {"name":"file_size_in_bytes","type":"long","field-id":104},
 {"name":"record_count","type":"long","field-id":103},
 {"name":"partition","type":{"type":"record","name":"r102","fields":[]},"field-id":102},
 {"name":"file_format","type":"string","field-id":101},
 {"name":"file_path","type":"string","field-id":100},
 {"name":"content","type":"int","field-id":134}]}},
{"name":"sequence_number","type":["null","long"],"field-id":3},
{"name":"status","type":"int","field-id":0}]}"#;

const SPARK_LIST: &str = r#"{"type":"record","name":"manifest_file","fields":[
{"name":"manifest_path","type":"string","field-id":500},
{"name":"manifest_length","type":"long","field-id":501},
{"name":"partition_spec_id","type":"int","field-id":502},
{"name":"content","type":"int","field-id":517},
{"name":"sequence_number","type":"long","field-id":515},
{"name":"min_sequence_number","type":"long","field-id":516},
{"name":"added_snapshot_id","type":"long","field-id":503},
{"name":"added_data_files_count","type":"int","field-id":504},
{"name":"partitions","type":["null",{"type":"array","items":
 {"type":"record","name":"r508","fields":[
  {"name":"contains_null","type":"boolean","field-id":509},
  {"name":"contains_nan","type":["null","boolean"],"default":null,"field-id":518},
  {"name":"lower_bound","type":["null","bytes"],"default":null,"field-id":510}]},
 "element-id":508}],"default":null,"field-id":507},
{"name":"key_metadata","type":["null","bytes"],"default":null,"field-id":519}]}"#;

const PYICEBERG_LIST: &str = r#"{"type":"record","name":"manifest_file","fields":[
{"name":"sequence_number","type":"long","field-id":515},
{"name":"content","type":"int","field-id":517},
{"name":"partition_spec_id","type":"int","field-id":502},
{"name":"manifest_length","type":"long","field-id":501},
{"name":"manifest_path","type":"string","field-id":500}]}"#;

/// Returns a manifest of these files.
pub(crate) fn manifest(engine: Engine, files: &[TestFile<'_>]) -> Vec<u8> {
    match engine {
        Engine::Spark => {
            let files: Vec<Encoder> = files.iter().map(spark_entry).collect();
            let header = [("partition-spec-id", "0".to_owned())];
            avro::container(SPARK_ENTRY, &header, &files)
        }
        Engine::PyIceberg => {
            let files: Vec<Encoder> = files.iter().map(pyiceberg_entry).collect();
            avro::stored(Some("null"), PYICEBERG_ENTRY, &files)
        }
    }
}

fn spark_entry(file: &TestFile<'_>) -> Encoder {
    let mut out = Encoder::default();
    out.long(file.status.into());
    out.optional(Some(77), Encoder::long);
    out.optional(file.sequence_number, Encoder::long);
    out.optional(file.sequence_number, Encoder::long);
    out.long(file.content.into());
    out.string(file.path);
    out.string(file.format);
    out.optional(Some(20_000), Encoder::long);
    // A fixed value, byte by byte: each of these integers takes one.
    out.optional(Some([0, 0, 1, 2]), |out, bytes| {
        bytes.into_iter().for_each(|byte| out.long(byte));
    });
    out.long(5);
    out.long(1234);
    out.optional(Some([(1, 100), (2, 200)]), |out, sizes| {
        out.array(&sizes, |out, (key, value)| {
            out.long(*key);
            out.long(*value);
        });
    });
    out.optional(None, Encoder::long);
    out.optional(Some([(1, b"low")]), |out, bounds| {
        out.array(&bounds, |out, (key, value)| {
            out.long(*key);
            out.blob(*value);
        });
    });
    out.optional(None, Encoder::long);
    out.optional(Some([4]), |out, offsets| {
        out.array(&offsets, |out, offset| out.long(*offset));
    });
    out.optional(None, Encoder::long);
    out.optional(Some(0), Encoder::long);
    out
}

fn pyiceberg_entry(file: &TestFile<'_>) -> Encoder {
    let mut out = Encoder::default();
    out.optional(Some("another"), Encoder::string);
    out.long(1234);
    out.long(5);
    out.string(file.format);
    out.string(file.path);
    out.long(file.content.into());
    out.optional(file.sequence_number, Encoder::long);
    out.long(file.status.into());
    out
}

/// Returns a list of these manifests.
pub(crate) fn manifest_list(engine: Engine, manifests: &[TestManifest<'_>]) -> Vec<u8> {
    match engine {
        Engine::Spark => {
            let manifests: Vec<Encoder> = manifests.iter().map(spark_manifest).collect();
            avro::container(SPARK_LIST, &[], &manifests)
        }
        Engine::PyIceberg => {
            let manifests: Vec<Encoder> = manifests.iter().map(pyiceberg_manifest).collect();
            avro::stored(None, PYICEBERG_LIST, &manifests)
        }
    }
}

fn spark_manifest(manifest: &TestManifest<'_>) -> Encoder {
    let mut out = Encoder::default();
    out.string(manifest.path);
    out.long(5678);
    out.long(manifest.partition_spec_id.into());
    out.long(manifest.content.into());
    out.long(manifest.sequence_number);
    out.long(1);
    out.long(77);
    out.long(3);
    // One partition field: a boolean is one byte, as a small integer is.
    out.optional(Some([0]), |out, fields| {
        out.array(&fields, |out, contains_null| {
            out.long(*contains_null);
            out.optional(Some(0), Encoder::long);
            out.optional(Some(&b"low"[..]), Encoder::blob);
        });
    });
    out.optional(None, Encoder::blob);
    out
}

fn pyiceberg_manifest(manifest: &TestManifest<'_>) -> Encoder {
    let mut out = Encoder::default();
    out.long(manifest.sequence_number);
    out.long(manifest.content.into());
    out.long(manifest.partition_spec_id.into());
    out.long(5678);
    out.string(manifest.path);
    out
}

/// Returns the description of a data file without statistics.
pub(crate) fn data_file(url: &str, rows: i64) -> DataFile {
    DataFile {
        content: ROWS,
        file_path: url.to_owned(),
        file_format: "PARQUET".to_owned(),
        record_count: rows,
        file_size_in_bytes: 4,
        column_sizes: None,
        value_counts: None,
        null_value_counts: None,
        lower_bounds: None,
        upper_bounds: None,
        split_offsets: None,
        sort_order_id: None,
        referenced_data_file: None,
    }
}

/// Returns the description of a file that deletes rows of the data file `of`.
pub(crate) fn delete_file(url: &str, of: &str, rows: i64) -> DataFile {
    DataFile {
        content: POSITIONAL_DELETES,
        referenced_data_file: Some(of.to_owned()),
        ..data_file(url, rows)
    }
}
