//! The metadata of a table: its schemas, its snapshots, and the branches and tags that name them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::types::NestedField;

/// The branch that readers take if they name no other.
pub const MAIN: &str = "main";

/// The version of Iceberg's format in which ebb writes tables.
pub const FORMAT_VERSION: u8 = 2;

/// The `last-partition-id` of a table that has no partition fields, whose ids would begin with 1000.
const LAST_PARTITION_ID: i32 = 999;

/// The ends of the names of metadata files of all engines. Old versions of Iceberg append `.gz`.
const FILE_ENDS: [&str; 2] = [".metadata.json", ".metadata.json.gz"];

/// The members of the JSON with statistics files, which other engines add. Each file belongs to one snapshot.
const STATISTICS: [&str; 2] = ["statistics", "partition-statistics"];

/// Returns whether a file or an object with this name, or path, is a metadata file of any engine.
pub fn is_metadata_file(name: &str) -> bool {
    FILE_ENDS.iter().any(|end| name.ends_with(end))
}

/// The metadata of a table, with the members of its JSON in `vN.metadata.json` or in the answer of a catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TableMetadata {
    /// The version of the format: [`FORMAT_VERSION`], unless another engine has changed it.
    pub format_version: u8,
    /// The identity of the table. A later table of the same name has another one.
    pub table_uuid: String,
    /// The folder of the table.
    pub location: String,
    /// The greatest sequence number that a snapshot of the table has had.
    pub last_sequence_number: i64,
    /// The time at which this metadata was written, in milliseconds since 1970. If the clock of this machine
    /// is behind, ebb repeats the time of the previous metadata.
    pub last_updated_ms: i64,
    /// The greatest field id that was ever assigned.
    pub last_column_id: i32,
    /// The id of the current schema, which is that of the snapshot that `main` names.
    pub current_schema_id: i32,
    /// The schemas of the table: those of its snapshots, and the current one.
    pub schemas: Vec<Value>,
    /// The id of the partition spec of new files: 0, the spec without fields.
    pub default_spec_id: i32,
    /// The partition specs: only one without fields, because the table is not partitioned.
    pub partition_specs: Vec<Value>,
    /// The greatest id of a partition field, which the specification requires even for a table without
    /// partitions.
    pub last_partition_id: i32,
    /// The id of the sort order of new files: 0, which means unsorted.
    pub default_sort_order_id: i32,
    /// The sort orders: only one without fields, because the table is not sorted.
    pub sort_orders: Vec<Value>,
    /// Settings of the table, and ebb's own properties of it.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// The id of the snapshot that the branch `main` names; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_snapshot_id: Option<i64>,
    /// All snapshots that the table still has.
    #[serde(default)]
    pub snapshots: Vec<Snapshot>,
    /// The history of the branch `main`: the snapshots that it has named, oldest first.
    #[serde(default)]
    pub snapshot_log: Vec<SnapshotLogEntry>,
    /// Branches and tags.
    #[serde(default)]
    pub refs: BTreeMap<String, Reference>,
    /// Members of the JSON that ebb does not know, because other engines added them. They are kept as they
    /// are.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A snapshot of an Iceberg table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Snapshot {
    /// The id of the snapshot, unique in the table.
    pub snapshot_id: i64,
    /// The id of the previous snapshot, which this one continues; `None` for the first of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_snapshot_id: Option<i64>,
    /// A number that grows from snapshot to snapshot.
    pub sequence_number: i64,
    /// The time at which the snapshot was made, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The location of the manifest list.
    pub manifest_list: String,
    /// The entries of the summary: the kind of the change as `operation`, numbers for people to
    /// read, and in snapshots of ebb also their origin in the database.
    pub summary: BTreeMap<String, String>,
    pub schema_id: i32,
}

/// An entry of the history of the branch `main`: a snapshot, and the time at which the branch was set to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SnapshotLogEntry {
    /// The time at which the branch was set to the snapshot, in milliseconds since 1970.
    pub timestamp_ms: i64,
    pub snapshot_id: i64,
}

/// A branch or a tag. Its name is the key in [`TableMetadata::refs`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Reference {
    pub snapshot_id: i64,
    /// The kind of the reference: `branch` or `tag`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Members of the JSON that ebb does not know, for example how long other engines keep the reference.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl TableMetadata {
    /// Returns the metadata of a table without snapshots.
    pub fn new(table_uuid: String, location: String) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            table_uuid,
            location,
            last_sequence_number: 0,
            last_updated_ms: 0,
            last_column_id: 0,
            current_schema_id: 0,
            schemas: Vec::new(),
            default_spec_id: 0,
            partition_specs: vec![json!({"spec-id": 0, "fields": []})],
            last_partition_id: LAST_PARTITION_ID,
            default_sort_order_id: 0,
            sort_orders: vec![json!({"order-id": 0, "fields": []})],
            properties: BTreeMap::new(),
            current_snapshot_id: None,
            snapshots: Vec::new(),
            snapshot_log: Vec::new(),
            refs: BTreeMap::new(),
            others: Map::new(),
        }
    }

    /// Reads metadata.
    ///
    /// # Errors
    /// If the bytes are no metadata, or lack members of version 2.
    pub fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// Returns the JSON of the metadata.
    ///
    /// # Errors
    /// If a value has no form in JSON, which does not occur in practice.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec_pretty(self)
    }

    /// Makes `fields` the columns of the table: its current schema. `last_column_id` is the greatest field id that
    /// was assigned so far. If the table already has a schema with the same columns, it becomes the current one
    /// again. Otherwise [`last_schema_id`](Self::last_schema_id) must be below `i32::MAX`.
    pub fn set_schema(&mut self, fields: &[NestedField], last_column_id: i32) {
        self.current_schema_id = self.add_schema(fields, last_column_id);
    }

    /// Adds a schema with the columns `fields`, unless the table has one already, and returns its id. The
    /// arguments are those of [`set_schema`](Self::set_schema), but the current schema stays.
    pub fn add_schema(&mut self, fields: &[NestedField], last_column_id: i32) -> i32 {
        self.last_column_id = last_column_id.max(self.last_column_id);
        // Catalogs may write the same schema with other members.
        let mut schemas = self.schemas.iter();
        let known = schemas.find(|schema| columns_of(schema).is_some_and(|of| of == fields));
        if let Some(id) = known.and_then(schema_id) {
            return id;
        }
        let id = self.last_schema_id().map_or(0, |last| last + 1);
        let fields: Vec<Value> = fields.iter().map(NestedField::to_json).collect();
        self.schemas
            .push(json!({"type": "struct", "schema-id": id, "fields": fields}));
        id
    }

    /// Returns the greatest id of the table's schemas; `None` if no schema has an id.
    pub fn last_schema_id(&self) -> Option<i32> {
        self.schemas.iter().filter_map(schema_id).max()
    }

    /// Returns the JSON of the table's current schema; `None` if no schema has the current id.
    pub fn schema(&self) -> Option<&Value> {
        self.schema_of(self.current_schema_id)
    }

    /// Returns the JSON of the schema with this id; `None` if there is none.
    pub fn schema_of(&self, id: i32) -> Option<&Value> {
        let mut schemas = self.schemas.iter();
        schemas.find(|schema| schema_id(schema) == Some(id))
    }

    /// Returns the columns of the current schema; `None` if no schema has the current id, or if another
    /// engine gave a column a type that ebb does not publish.
    pub fn columns(&self) -> Option<Vec<NestedField>> {
        columns_of(self.schema()?)
    }

    pub fn has_snapshot(&self, id: i64) -> bool {
        let mut snapshots = self.snapshots.iter();
        snapshots.any(|snapshot| snapshot.snapshot_id == id)
    }

    /// Returns the snapshot that the branch `main` names; `None` if there is none.
    pub fn newest(&self) -> Option<&Snapshot> {
        let id = self.current_snapshot_id?;
        let mut snapshots = self.snapshots.iter();
        snapshots.find(|snapshot| snapshot.snapshot_id == id)
    }

    /// For each branch and tag that the metadata `of` has, too, replaces the members that ebb does
    /// not know by those in `of`. Other engines add such members, for example to set how long the
    /// branch or tag is kept.
    pub fn take_retention(&mut self, of: &Self) {
        for (name, reference) in &mut self.refs {
            let same = of.refs.get(name);
            if let Some(same) = same.filter(|same| same.kind == reference.kind) {
                reference.others = same.others.clone();
            }
        }
    }

    /// Adds a snapshot, and makes the branch `main` and the tag `tag` name it. If the tag exists already, it
    /// moves to the new snapshot.
    pub fn add_snapshot(&mut self, snapshot: Snapshot, tag: &str) {
        let (id, made_ms) = (snapshot.snapshot_id, snapshot.timestamp_ms);
        self.add_tagged(snapshot, tag);
        self.set_main(id, made_ms);
    }

    /// Adds a snapshot as [`add_snapshot`](Self::add_snapshot) does, but leaves the branch `main` as it is.
    pub fn add_tagged(&mut self, snapshot: Snapshot, tag: &str) {
        let id = snapshot.snapshot_id;
        self.last_sequence_number = snapshot.sequence_number;
        self.last_updated_ms = snapshot.timestamp_ms.max(self.last_updated_ms);
        self.snapshots.push(snapshot);
        self.set_reference(tag, "tag", id);
    }

    /// Makes the branch `main` name the snapshot `id`, which the table must have, and makes the schema of the
    /// snapshot the current one. `now_ms` is the time in milliseconds since 1970.
    pub fn set_main(&mut self, id: i64, now_ms: i64) {
        // Readers expect times that do not go back.
        self.last_updated_ms = now_ms.max(self.last_updated_ms);
        self.current_snapshot_id = Some(id);
        self.snapshot_log.push(SnapshotLogEntry {
            timestamp_ms: self.last_updated_ms,
            snapshot_id: id,
        });
        self.set_reference(MAIN, "branch", id);
        let schema_id = self.newest().map(|snapshot| snapshot.schema_id);
        if let Some(id) = schema_id.filter(|id| self.schema_of(*id).is_some()) {
            self.current_schema_id = id;
        }
    }

    /// Makes a branch or a tag (`kind`) name the snapshot `snapshot_id`. Moving a reference changes nothing else
    /// of it, as in Iceberg's own library. A branch may have members that a tag must not have.
    fn set_reference(&mut self, name: &str, kind: &str, snapshot_id: i64) {
        let before = self.refs.remove(name).filter(|before| before.kind == kind);
        let reference = Reference {
            snapshot_id,
            kind: kind.to_owned(),
            others: before.map(|before| before.others).unwrap_or_default(),
        };
        self.refs.insert(name.to_owned(), reference);
    }

    /// Removes the snapshots `ids`, the tags `tags`, and the entries of statistics files of these snapshots.
    /// `main` and the branches and tags that stay must not name a removed snapshot.
    ///
    /// The history of `main` then begins after the last of these snapshots in it, as the specification
    /// requires: with a gap in the history, a query at a time would read a wrong snapshot.
    pub fn remove_snapshots(&mut self, ids: &BTreeSet<i64>, tags: &[String]) {
        self.snapshots
            .retain(|snapshot| !ids.contains(&snapshot.snapshot_id));
        self.refs.retain(|name, _| !tags.contains(name));
        let mut log = self.snapshot_log.iter();
        if let Some(last) = log.rposition(|entry| ids.contains(&entry.snapshot_id)) {
            self.snapshot_log.drain(..=last);
        }
        for member in STATISTICS {
            if let Some(Value::Array(files)) = self.others.get_mut(member) {
                let id = |file: &Value| file["snapshot-id"].as_i64();
                files.retain(|file| id(file).is_none_or(|id| !ids.contains(&id)));
            }
        }
    }
}

fn columns_of(schema: &Value) -> Option<Vec<NestedField>> {
    let fields = schema.get("fields")?.as_array()?.iter();
    fields.map(NestedField::from_json).collect()
}

fn schema_id(schema: &Value) -> Option<i32> {
    schema["schema-id"].as_i64()?.try_into().ok()
}
