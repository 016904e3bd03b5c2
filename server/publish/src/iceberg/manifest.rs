//! Manifests: lists of data files, or of delete files, with what readers need to pass over some of them.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::avro::{self, AvroError, Encoder, Record, Value};

/// The Avro schema of the entries in a manifest of an unpartitioned table. Names and field ids are those of
/// the specification, version 2.
const ENTRY: &str = r#"{"type":"record","name":"manifest_entry","fields":[
{"name":"status","type":"int","field-id":0},
{"name":"snapshot_id","type":["null","long"],"default":null,"field-id":1},
{"name":"sequence_number","type":["null","long"],"default":null,"field-id":3},
{"name":"file_sequence_number","type":["null","long"],"default":null,"field-id":4},
{"name":"data_file","field-id":2,"type":{"type":"record","name":"r2","fields":[
 {"name":"content","type":"int","field-id":134},
 {"name":"file_path","type":"string","field-id":100},
 {"name":"file_format","type":"string","field-id":101},
 {"name":"partition","field-id":102,"type":{"type":"record","name":"r102","fields":[]}},
 {"name":"record_count","type":"long","field-id":103},
 {"name":"file_size_in_bytes","type":"long","field-id":104},
 {"name":"column_sizes","default":null,"field-id":108,"type":["null",{"type":"array","logicalType":"map","items":
  {"type":"record","name":"k117_v118","fields":[
   {"name":"key","type":"int","field-id":117},{"name":"value","type":"long","field-id":118}]}}]},
 {"name":"value_counts","default":null,"field-id":109,"type":["null",{"type":"array","logicalType":"map","items":
  {"type":"record","name":"k119_v120","fields":[
   {"name":"key","type":"int","field-id":119},{"name":"value","type":"long","field-id":120}]}}]},
 {"name":"null_value_counts","default":null,"field-id":110,"type":["null",{"type":"array","logicalType":"map","items":
  {"type":"record","name":"k121_v122","fields":[
   {"name":"key","type":"int","field-id":121},{"name":"value","type":"long","field-id":122}]}}]},
 {"name":"lower_bounds","default":null,"field-id":125,"type":["null",{"type":"array","logicalType":"map","items":
  {"type":"record","name":"k126_v127","fields":[
   {"name":"key","type":"int","field-id":126},{"name":"value","type":"bytes","field-id":127}]}}]},
 {"name":"upper_bounds","default":null,"field-id":128,"type":["null",{"type":"array","logicalType":"map","items":
  {"type":"record","name":"k129_v130","fields":[
   {"name":"key","type":"int","field-id":129},{"name":"value","type":"bytes","field-id":130}]}}]},
 {"name":"split_offsets","default":null,"field-id":132,"type":["null",
  {"type":"array","items":"long","element-id":133}]},
 {"name":"sort_order_id","type":["null","int"],"default":null,"field-id":140},
 {"name":"referenced_data_file","type":["null","string"],"default":null,"field-id":143}
]}}]}"#;

/// The kind of the files in a manifest. One manifest never lists files of both kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Data files, which contain rows.
    Data = 0,
    /// Delete files. They mark rows of data files as deleted.
    Deletes = 1,
}

/// The value of [`DataFile::content`] for a file of rows.
pub const ROWS: i32 = 0;

/// The value of [`DataFile::content`] for a positional delete file.
pub const POSITIONAL_DELETES: i32 = 1;

/// The column of a positional delete file that contains the location of the data file: its name, and the field id
/// that Iceberg's specification reserves for it.
pub(crate) const FILE_PATH: (&str, i32) = ("file_path", 2_147_483_546);
/// The column of a positional delete file that contains the number of the deleted row: its name, and its reserved
/// field id.
pub(crate) const POSITION: (&str, i32) = ("pos", 2_147_483_545);

/// A data file or a delete file of an Iceberg table. Its lists of sizes, counts and bounds have at most one
/// entry for each column, by the field id. In files of ebb, columns inside of lists and maps have none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFile {
    /// [`ROWS`], [`POSITIONAL_DELETES`], or 2 for equality deletes.
    pub content: i32,
    /// The absolute location of the file.
    pub file_path: String,
    /// The format of the file: `PARQUET` in tables that ebb published.
    pub file_format: String,
    /// The number of rows in the file; in a positional delete file, each row stands for a deleted one.
    pub record_count: i64,
    pub file_size_in_bytes: i64,
    /// The size of each column, in compressed bytes.
    pub column_sizes: Option<Vec<Entry<i64>>>,
    /// The number of values of each column, nulls included.
    pub value_counts: Option<Vec<Entry<i64>>>,
    /// The number of nulls of each column.
    pub null_value_counts: Option<Vec<Entry<i64>>>,
    /// A lower bound of the values of each column whose bounds are known, in Iceberg's serialization of
    /// single values.
    pub lower_bounds: Option<Vec<Entry<Vec<u8>>>>,
    /// An upper bound of the values of each column whose bounds are known, in the same serialization as lower
    /// bounds.
    pub upper_bounds: Option<Vec<Entry<Vec<u8>>>>,
    /// The offsets of the row groups, at which readers may cut the file.
    pub split_offsets: Option<Vec<i64>>,
    /// The sort order of the rows; `None` in tables that ebb published, where rows are in the order of CQL's
    /// tokens, which are no column.
    pub sort_order_id: Option<i32>,
    /// For a delete file, the location of the data file that all of its deletes refer to; `None` if they
    /// refer to several, and for files of rows. The specification has the field in version 2, too.
    pub referenced_data_file: Option<String>,
}

/// A count or a bound of one column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry<T> {
    /// The field id of the column.
    pub key: i32,
    /// The column's count (such as the count of nulls), or its lower or upper bound.
    pub value: T,
}

/// The relation of a snapshot to a data file or a delete file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The previous snapshot has the file, too.
    Existing = 0,
    /// The snapshot adds the file.
    Added = 1,
    /// The snapshot no longer has the file.
    Deleted = 2,
}

/// A data file or a delete file in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestEntry {
    /// The [`Status`] of the file, as a number.
    pub status: i32,
    /// The id of the snapshot that added the file or, if the status is `Deleted`, of the snapshot
    /// that removed it. `None` stands for the snapshot that added the manifest.
    pub snapshot_id: Option<i64>,
    /// The sequence number of the file's rows or deletes; `None` for a newly added file, which inherits the
    /// number of its manifest.
    pub sequence_number: Option<i64>,
    /// The sequence number of the snapshot that added the file; `None` if the file inherits the number of its
    /// manifest.
    pub file_sequence_number: Option<i64>,
    pub data_file: DataFile,
}

impl ManifestEntry {
    /// Returns the entry of a file that the snapshot `snapshot_id` adds.
    pub fn added(snapshot_id: i64, data_file: DataFile) -> Self {
        Self {
            status: Status::Added as i32,
            snapshot_id: Some(snapshot_id),
            sequence_number: None,
            file_sequence_number: None,
            data_file,
        }
    }

    /// Returns the entry without the sizes, counts and bounds of columns, and without the offsets of row
    /// groups. These take most of the memory of an entry in a table of many columns.
    pub fn without_statistics(self) -> Self {
        Self {
            data_file: DataFile {
                column_sizes: None,
                value_counts: None,
                null_value_counts: None,
                lower_bounds: None,
                upper_bounds: None,
                split_offsets: None,
                ..self.data_file
            },
            ..self
        }
    }
}

/// Returns the bytes of a manifest. `schema` is the JSON of the table's schema, which manifests of deletes
/// contain, too.
pub fn encode(entries: &[ManifestEntry], schema: &Json, content: Content) -> Vec<u8> {
    let schema_id = schema["schema-id"].as_i64().unwrap_or(0).to_string();
    let content = match content {
        Content::Data => "data",
        Content::Deletes => "deletes",
    };
    let header = [
        ("schema", schema.to_string()),
        ("schema-id", schema_id),
        ("partition-spec", "[]".to_owned()),
        ("partition-spec-id", "0".to_owned()),
        ("format-version", "2".to_owned()),
        ("content", content.to_owned()),
    ];
    let records: Vec<Encoder> = entries.iter().map(encode_entry).collect();
    avro::container(ENTRY, &header, &records)
}

fn encode_entry(entry: &ManifestEntry) -> Encoder {
    let mut out = Encoder::default();
    out.long(entry.status.into());
    out.optional(entry.snapshot_id, Encoder::long);
    out.optional(entry.sequence_number, Encoder::long);
    out.optional(entry.file_sequence_number, Encoder::long);
    let file = &entry.data_file;
    out.long(file.content.into());
    out.string(&file.file_path);
    out.string(&file.file_format);
    out.long(file.record_count);
    out.long(file.file_size_in_bytes);
    for numbers in [
        &file.column_sizes,
        &file.value_counts,
        &file.null_value_counts,
    ] {
        out.optional(numbers.as_ref(), |out, numbers| {
            out.array(numbers, |out, entry| {
                out.long(entry.key.into());
                out.long(entry.value);
            });
        });
    }
    for bounds in [&file.lower_bounds, &file.upper_bounds] {
        out.optional(bounds.as_ref(), |out, bounds| {
            out.array(bounds, |out, entry| {
                out.long(entry.key.into());
                out.blob(&entry.value);
            });
        });
    }
    out.optional(file.split_offsets.as_ref(), |out, offsets| {
        out.array(offsets, |out, offset| out.long(*offset));
    });
    out.optional(file.sort_order_id, |out, id| out.long(id.into()));
    out.optional(file.referenced_data_file.as_deref(), Encoder::string);
    out
}

/// Reads the entries of a manifest, whichever engine wrote it.
///
/// # Errors
/// If the bytes are no manifest.
pub fn decode(bytes: &[u8]) -> Result<Vec<ManifestEntry>, AvroError> {
    decode_each(bytes, |entry| entry)
}

/// Reads the entries of a manifest as [`decode`] does, and returns only what `take` makes of each. So the
/// statistics, which may be most of an entry, need not stay in memory.
///
/// # Errors
/// See [`decode`].
pub fn decode_each<T>(
    bytes: &[u8],
    mut take: impl FnMut(ManifestEntry) -> T,
) -> Result<Vec<T>, AvroError> {
    avro::records(bytes, |entry| decode_entry(entry).map(&mut take))
}

fn decode_entry(entry: &Record<'_>) -> Result<ManifestEntry, AvroError> {
    let file = entry.record(2)?;
    let long = |entry: &Record<'_>, id: i32| entry.long(id);
    let bytes = |entry: &Record<'_>, id: i32| entry.bytes(id).map(<[u8]>::to_vec);
    let offsets = file.optional_array(132)?;
    let offsets: Option<Result<Vec<i64>, AvroError>> =
        offsets.map(|offsets| offsets.iter().map(Value::long).collect());
    Ok(ManifestEntry {
        status: entry.int(0)?,
        snapshot_id: entry.optional_long(1)?,
        sequence_number: entry.optional_long(3)?,
        file_sequence_number: entry.optional_long(4)?,
        data_file: DataFile {
            // Version 1 has no other files than those of rows.
            content: file.optional_int(134)?.unwrap_or(ROWS),
            file_path: file.string(100)?,
            file_format: file.string(101)?,
            record_count: file.long(103)?,
            file_size_in_bytes: file.long(104)?,
            column_sizes: entries(file, 108, (117, 118), long)?,
            value_counts: entries(file, 109, (119, 120), long)?,
            null_value_counts: entries(file, 110, (121, 122), long)?,
            lower_bounds: entries(file, 125, (126, 127), bytes)?,
            upper_bounds: entries(file, 128, (129, 130), bytes)?,
            split_offsets: offsets.transpose()?,
            sort_order_id: file.optional_int(140)?,
            referenced_data_file: file.optional_string(143)?,
        },
    })
}

/// Reads a map from columns to counts or bounds; `None` if the file has no such map. `id` is the field id of
/// the map; `key` and `value` are the field ids of its keys and its values.
fn entries<T>(
    file: &Record<'_>,
    id: i32,
    (key, value): (i32, i32),
    read: impl Fn(&Record<'_>, i32) -> Result<T, AvroError>,
) -> Result<Option<Vec<Entry<T>>>, AvroError> {
    let Some(entries) = file.optional_array(id)? else {
        return Ok(None);
    };
    let entry = |entry: &Value<'_>| -> Result<Entry<T>, AvroError> {
        let entry = entry.record()?;
        Ok(Entry {
            key: entry.int(key)?,
            value: read(entry, value)?,
        })
    };
    let entries: Result<_, _> = entries.iter().map(entry).collect();
    entries.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The schema of an entry with the required fields alone.
    const SHORTEST_ENTRY: &str = r#"{"type":"record","name":"manifest_entry","fields":[
    {"name":"status","type":"int","field-id":0},
    {"name":"data_file","field-id":2,"type":{"type":"record","name":"r2","fields":[
     {"name":"file_path","type":"string","field-id":100},
     {"name":"file_format","type":"string","field-id":101},
     {"name":"record_count","type":"long","field-id":103},
     {"name":"file_size_in_bytes","type":"long","field-id":104}]}}]}"#;

    /// Returns an entry of five bytes, all zero.
    fn zeros() -> Encoder {
        let mut entry = Encoder::default();
        (0..5).for_each(|_| entry.long(0));
        entry
    }

    /// Regression: 40 million entries of five zero bytes, which take 200 KB in a compressed
    /// manifest, took gigabytes of memory.
    #[test]
    fn a_small_manifest_that_decompresses_to_very_many_entries_is_refused() {
        for (count, problem) in [
            (20_000, "it has more records than bytes"),
            (1_000_000, "its blocks are too large"),
        ] {
            let entries: Vec<Encoder> = (0..count).map(|_| zeros()).collect();
            let manifest = avro::container(SHORTEST_ENTRY, &[], &entries);
            let error = decode(&manifest).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        let manifest = avro::container(SHORTEST_ENTRY, &[], &[zeros(), zeros()]);
        assert_eq!(decode(&manifest).unwrap().len(), 2);
    }

    #[test]
    fn entries_that_differ_only_in_a_number_are_read() {
        fn of_columns<T: Clone>(value: T) -> Option<Vec<Entry<T>>> {
            let columns = 1..=30;
            let entry = |key| Entry {
                key,
                value: value.clone(),
            };
            Some(columns.map(entry).collect())
        }
        let entry = |number: i32| {
            let file = DataFile {
                content: ROWS,
                file_path: format!("file:///warehouse/ks/t/data/v1-{number:05}.parquet"),
                file_format: "PARQUET".to_owned(),
                record_count: 1_000,
                file_size_in_bytes: 100_000,
                column_sizes: of_columns(3_000),
                value_counts: of_columns(1_000),
                null_value_counts: of_columns(0),
                lower_bounds: of_columns(b"the least".to_vec()),
                upper_bounds: of_columns(b"the greatest".to_vec()),
                split_offsets: Some(vec![4]),
                sort_order_id: None,
                referenced_data_file: None,
            };
            ManifestEntry::added(1, file)
        };
        let entries: Vec<ManifestEntry> = (0..3_000).map(entry).collect();
        let manifest = encode(&entries, &Json::Null, Content::Data);
        let read = decode(&manifest).unwrap();
        assert!(read == entries, "{} entries", read.len());
    }
}
