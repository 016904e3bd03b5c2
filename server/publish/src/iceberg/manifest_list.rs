//! The list of a snapshot's manifests.

use std::collections::HashSet;

use super::avro::{self, AvroError, Encoder, Record};

/// The Avro schema of the entries in a manifest list, as in the specification, version 2.
const ENTRY: &str = r#"{"type":"record","name":"manifest_file","fields":[
{"name":"manifest_path","type":"string","field-id":500},
{"name":"manifest_length","type":"long","field-id":501},
{"name":"partition_spec_id","type":"int","field-id":502},
{"name":"content","type":"int","field-id":517},
{"name":"sequence_number","type":"long","field-id":515},
{"name":"min_sequence_number","type":"long","field-id":516},
{"name":"added_snapshot_id","type":"long","field-id":503},
{"name":"added_files_count","type":"int","field-id":504},
{"name":"existing_files_count","type":"int","field-id":505},
{"name":"deleted_files_count","type":"int","field-id":506},
{"name":"added_rows_count","type":"long","field-id":512},
{"name":"existing_rows_count","type":"long","field-id":513},
{"name":"deleted_rows_count","type":"long","field-id":514}
]}"#;

/// An entry of a snapshot's manifest list: a manifest, with counts of its files and rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFile {
    /// The absolute location of the manifest.
    pub manifest_path: String,
    /// The size of the manifest in bytes.
    pub manifest_length: i64,
    /// The id of the partition spec: 0, a spec without fields, in tables that ebb published.
    pub partition_spec_id: i32,
    /// The kind of the manifest's files: 0 for rows, 1 for deletes.
    pub content: i32,
    /// The sequence number of the snapshot that added the manifest.
    pub sequence_number: i64,
    /// The least sequence number of the files in the manifest. In manifests of ebb, removed files do not
    /// count.
    pub min_sequence_number: i64,
    pub added_snapshot_id: i64,
    /// The number of files with the status ADDED: the snapshot that wrote the manifest added them.
    pub added_files_count: i32,
    /// The number of files with the status EXISTING: earlier snapshots added them.
    pub existing_files_count: i32,
    /// The number of files with the status DELETED: the snapshot that wrote the manifest removed
    /// them.
    pub deleted_files_count: i32,
    /// The number of rows in files with the status ADDED.
    pub added_rows_count: i64,
    /// The number of rows in files with the status EXISTING.
    pub existing_rows_count: i64,
    /// The number of rows in files with the status DELETED.
    pub deleted_rows_count: i64,
}

/// The snapshot that a manifest list belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListOwner {
    /// The snapshot.
    pub snapshot_id: i64,
    /// The previous snapshot, which this one continues; `None` for the first of the table.
    pub parent_snapshot_id: Option<i64>,
    pub sequence_number: i64,
}

/// Returns the manifest list of the snapshot `owner`, encoded as an Avro file.
pub fn encode(manifests: &[ManifestFile], owner: ListOwner) -> Vec<u8> {
    let parent = owner.parent_snapshot_id.map(|id| id.to_string());
    let parent = parent.unwrap_or_else(|| "null".to_owned());
    let header = [
        ("snapshot-id", owner.snapshot_id.to_string()),
        ("parent-snapshot-id", parent),
        ("sequence-number", owner.sequence_number.to_string()),
        ("format-version", "2".to_owned()),
    ];
    let records: Vec<Encoder> = manifests.iter().map(encode_manifest).collect();
    avro::container(ENTRY, &header, &records)
}

fn encode_manifest(manifest: &ManifestFile) -> Encoder {
    let mut out = Encoder::default();
    out.string(&manifest.manifest_path);
    out.long(manifest.manifest_length);
    out.long(manifest.partition_spec_id.into());
    out.long(manifest.content.into());
    out.long(manifest.sequence_number);
    out.long(manifest.min_sequence_number);
    out.long(manifest.added_snapshot_id);
    out.long(manifest.added_files_count.into());
    out.long(manifest.existing_files_count.into());
    out.long(manifest.deleted_files_count.into());
    out.long(manifest.added_rows_count);
    out.long(manifest.existing_rows_count);
    out.long(manifest.deleted_rows_count);
    out
}

/// Reads a manifest list, whichever engine wrote it.
///
/// # Errors
/// If the bytes are no manifest list, or if the list names a manifest twice: readers would then keep the
/// manifest's entries as often as it is named.
pub fn decode(bytes: &[u8]) -> Result<Vec<ManifestFile>, AvroError> {
    let manifests = avro::records(bytes, decode_manifest)?;
    let mut seen = HashSet::new();
    for ManifestFile { manifest_path, .. } in &manifests {
        // Targets ignore a second slash in a row.
        let parts = manifest_path.split('/').filter(|part| !part.is_empty());
        if !seen.insert(parts.collect::<Vec<&str>>()) {
            return Err(AvroError::new(format!("it names {manifest_path} twice")));
        }
    }
    Ok(manifests)
}

/// Reads an entry of a manifest list. In version 1 an entry has no sequence numbers and always lists data
/// files, and it may lack the counts: numbers that are missing become 0.
fn decode_manifest(manifest: &Record<'_>) -> Result<ManifestFile, AvroError> {
    let long = |id| manifest.optional_long(id).map(Option::unwrap_or_default);
    let int = |id| manifest.optional_int(id).map(Option::unwrap_or_default);
    Ok(ManifestFile {
        manifest_path: manifest.string(500)?,
        manifest_length: manifest.long(501)?,
        partition_spec_id: manifest.int(502)?,
        content: int(517)?,
        sequence_number: long(515)?,
        min_sequence_number: long(516)?,
        added_snapshot_id: long(503)?,
        added_files_count: int(504)?,
        existing_files_count: int(505)?,
        deleted_files_count: int(506)?,
        added_rows_count: long(512)?,
        existing_rows_count: long(513)?,
        deleted_rows_count: long(514)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(path: &str) -> ManifestFile {
        ManifestFile {
            manifest_path: path.to_owned(),
            manifest_length: 5678,
            partition_spec_id: 0,
            content: 0,
            sequence_number: 1,
            min_sequence_number: 1,
            added_snapshot_id: 1,
            added_files_count: 1,
            existing_files_count: 0,
            deleted_files_count: 0,
            added_rows_count: 5,
            existing_rows_count: 0,
            deleted_rows_count: 0,
        }
    }

    #[test]
    fn a_list_that_names_a_manifest_twice_is_refused() {
        let owner = ListOwner {
            snapshot_id: 1,
            parent_snapshot_id: None,
            sequence_number: 1,
        };
        let read = |second: &str| {
            let manifests = [manifest("s3://lake/t/metadata/a.avro"), manifest(second)];
            decode(&encode(&manifests, owner))
        };
        for again in [
            "s3://lake/t/metadata/a.avro",
            "s3://lake//t/metadata//a.avro",
        ] {
            let error = read(again).unwrap_err().to_string();
            assert_eq!(error, format!("it names {again} twice"));
        }
        for other in [
            "s3://lake/t/metadata/b.avro",
            "s3://lake/t2/metadata/a.avro",
        ] {
            assert_eq!(read(other).unwrap().len(), 2);
        }
    }
}
