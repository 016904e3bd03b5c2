//! A table that any engine wrote, as a reader of one of its snapshots needs it.
//!
//! [`TableMetadata`](super::metadata::TableMetadata) is for tables that ebb publishes: it requires what
//! version 2 requires, and keeps all that it finds. This view takes versions 1 to 3, types that ebb
//! does not publish, and members that are absent or null.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value as Json;

use super::metadata::{MAIN, Reference};

/// A snapshot of a table, with the metadata that a reader needs to find its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotView {
    /// The folder of the table, as its metadata and manifests name it.
    pub location: String,
    pub columns: Vec<SchemaField>,
    /// The location of the manifest list; `None` if the table has no snapshot, and so no rows.
    pub manifest_list: Option<String>,
    /// The ids of the columns that a partition spec uses unchanged (the transform `identity`), for
    /// each spec by its id. A data file need not contain these columns, because in each of them all
    /// rows of the file have the same value. All data files of a spec share one list, because a
    /// manifest may name very many data files.
    identity_columns: BTreeMap<i32, Arc<[i32]>>,
}

/// A column, or a field of a struct.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaField {
    /// The id by which data files name the field.
    pub id: i32,
    /// The name in this schema. Older data files may have another name for the field.
    pub name: String,
    /// The fields that are nested in the field's type.
    pub shape: Shape,
    /// Whether rows of data files without the field have a default in place of null (version 3).
    pub has_default: bool,
    /// Whether each row has a value of the field.
    pub is_required: bool,
}

/// The fields that are nested in a type. By their ids, the fields of a data file are matched with those of
/// the table.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A type without nested fields.
    Leaf,
    Struct(Vec<SchemaField>),
    /// A list, with the shape of its elements.
    List(Box<Shape>),
    /// A map, with the shapes of its keys and of its values.
    Map(Box<Shape>, Box<Shape>),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Metadata {
    format_version: i64,
    location: String,
    current_snapshot_id: Option<i64>,
    current_schema_id: Option<i64>,
    schemas: Option<Vec<Json>>,
    /// The only schema of a table of version 1 that has no list of schemas.
    schema: Option<Json>,
    partition_specs: Option<Vec<PartitionSpec>>,
    /// The fields of the only partitioning of a table of version 1 that has no list of partitionings.
    partition_spec: Option<Vec<PartitionField>>,
    snapshots: Option<Vec<Snapshot>>,
    refs: Option<BTreeMap<String, Reference>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Snapshot {
    snapshot_id: i64,
    manifest_list: Option<String>,
    schema_id: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PartitionSpec {
    spec_id: i32,
    fields: Vec<PartitionField>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PartitionField {
    /// The id of the column that the partitioning transforms. `None` if a table of format version 3 lists
    /// several columns in `source-ids` instead; such a transform is never the identity.
    source_id: Option<i32>,
    transform: String,
}

/// The table that a metadata file describes, and the time at which the file was written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TableVersion {
    /// The identity of the table: the same in all of its metadata files.
    pub table_uuid: String,
    /// The time at which the metadata was written, by the clock of its writer, in milliseconds
    /// since 1970.
    pub last_updated_ms: i64,
}

impl TableVersion {
    /// Reads a metadata file; `None` if the bytes are not metadata, or if the table has no identity, as is
    /// the case with some tables of version 1.
    pub fn of(metadata: &[u8]) -> Option<Self> {
        serde_json::from_slice(metadata).ok()
    }
}

impl SnapshotView {
    /// Reads the metadata of a table. `name` is the tag or the branch whose snapshot is read; without it, the
    /// view is of the table's current snapshot. A tag is read with the columns that the table had at the tag's
    /// snapshot, a branch with those that the table has now.
    ///
    /// # Errors
    /// If the metadata cannot be read, or if the tag, the branch or its snapshot is missing. The error is a
    /// sentence.
    pub fn of(metadata: &[u8], name: Option<&str>) -> Result<Self, String> {
        let metadata: Metadata =
            serde_json::from_slice(metadata).map_err(|error| error.to_string())?;
        if !(1..=3).contains(&metadata.format_version) {
            return Err(format!(
                "the table has format version {}, and ebb reads 1 to 3",
                metadata.format_version
            ));
        }
        let (snapshot, is_tag) = metadata.snapshot(name)?;
        // A branch is read with the columns of the table, a tag with those that it had.
        let schema_id = snapshot.and_then(|snapshot| snapshot.schema_id);
        let schema_id = schema_id.filter(|_| is_tag).or(metadata.current_schema_id);
        let manifest_list = snapshot.map(|snapshot| {
            let list = snapshot.manifest_list.clone();
            list.ok_or("the snapshot has no manifest list, and ebb reads no tables without")
        });
        Ok(Self {
            columns: metadata.columns(schema_id)?,
            manifest_list: manifest_list.transpose()?,
            identity_columns: metadata.identity_columns(),
            location: metadata.location,
        })
    }

    /// Returns the ids of the columns that the data files of the partition spec `spec_id` need not
    /// contain, because in each of these columns all rows of a file have the same value.
    pub fn identity_columns(&self, spec_id: i32) -> Arc<[i32]> {
        let columns = self.identity_columns.get(&spec_id);
        columns.cloned().unwrap_or_default()
    }
}

impl Metadata {
    /// Returns the snapshot of the tag or branch `name`, and whether `name` is a tag. Without a name:
    /// the current snapshot, or none if the table has never been written to.
    fn snapshot(&self, name: Option<&str>) -> Result<(Option<&Snapshot>, bool), String> {
        let found = name.and_then(|name| self.refs.as_ref()?.get(name));
        let id = match (found, name) {
            (Some(reference), _) => Some(reference.snapshot_id),
            // Iceberg's Java library writes -1 if there is none.
            (None, None | Some(MAIN)) => self.current_snapshot_id.filter(|id| *id >= 0),
            (None, Some(name)) => {
                let known = self.refs.iter().flat_map(BTreeMap::keys);
                let known: Vec<&str> = known.map(String::as_str).collect();
                let known = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                return Err(format!("the table has no tag {name:?}; it has: {known}"));
            }
        };
        let Some(id) = id else {
            return Ok((None, false));
        };
        let mut snapshots = self.snapshots.iter().flatten();
        let snapshot = snapshots.find(|snapshot| snapshot.snapshot_id == id);
        let missing = || format!("the table no longer has its snapshot {id}");
        let is_tag = found.is_some_and(|reference| reference.kind == "tag");
        Ok((Some(snapshot.ok_or_else(missing)?), is_tag))
    }

    fn columns(&self, schema_id: Option<i64>) -> Result<Vec<SchemaField>, String> {
        let mut schemas = self.schemas.iter().flatten();
        let schema = schemas.find(|schema| schema["schema-id"].as_i64() == schema_id);
        let schema = schema.or(self.schema.as_ref());
        let columns = schema.ok_or("the table lacks the schema of the snapshot")?;
        let columns = fields(columns).ok_or("the schema of the table cannot be read")?;
        Ok(columns)
    }

    fn identity_columns(&self) -> BTreeMap<i32, Arc<[i32]>> {
        let columns = |fields: &[PartitionField]| -> Arc<[i32]> {
            let identity = fields.iter().filter(|field| field.transform == "identity");
            identity.filter_map(|field| field.source_id).collect()
        };
        let Some(specs) = &self.partition_specs else {
            // The only partitioning has the number 0.
            let only = self.partition_spec.iter();
            return only.map(|fields| (0, columns(fields))).collect();
        };
        let specs = specs.iter();
        specs
            .map(|spec| (spec.spec_id, columns(&spec.fields)))
            .collect()
    }
}

/// Reads the fields of a schema or of a struct; `None` if the JSON does not have the form of either.
fn fields(json: &Json) -> Option<Vec<SchemaField>> {
    let field = |field: &Json| {
        Some(SchemaField {
            id: field.get("id")?.as_i64()?.try_into().ok()?,
            name: field.get("name")?.as_str()?.to_owned(),
            shape: shape(field.get("type")?)?,
            has_default: field
                .get("initial-default")
                .is_some_and(|value| !value.is_null()),
            is_required: field.get("required").and_then(Json::as_bool) == Some(true),
        })
    };
    json.get("fields")?.as_array()?.iter().map(field).collect()
}

fn shape(ty: &Json) -> Option<Shape> {
    if ty.is_string() {
        return Some(Shape::Leaf);
    }
    let part = |name: &str| Some(Box::new(shape(ty.get(name)?)?));
    match ty.get("type")?.as_str()? {
        "struct" => fields(ty).map(Shape::Struct),
        "list" => part("element").map(Shape::List),
        "map" => Some(Shape::Map(part("key")?, part("value")?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns metadata as Spark writes it, of a table with a renamed column, a partitioning, and a tag whose
    /// snapshot has the schema before the renaming.
    fn spark() -> Json {
        let field = |id: i32, name: &str, ty: Json| json!({"id": id, "name": name, "required": false, "type": ty});
        let point = json!({"type": "struct", "fields": [field(4, "x", json!("double"))]});
        let points = json!({"type": "list", "element-id": 3, "element": point,
            "element-required": false});
        json!({
            "format-version": 2, "table-uuid": "u", "location": "file:/warehouse/db/t",
            "last-sequence-number": 2, "last-updated-ms": 1, "last-column-id": 4,
            "current-schema-id": 1,
            "schemas": [
                {"type": "struct", "schema-id": 0, "fields": [field(1, "id", json!("long"))]},
                {"type": "struct", "schema-id": 1, "fields": [
                    field(1, "key", json!("long")), field(2, "points", points)]},
            ],
            "default-spec-id": 1,
            "partition-specs": [
                {"spec-id": 0, "fields": []},
                {"spec-id": 1, "fields": [
                    {"name": "key", "transform": "identity", "source-id": 1, "field-id": 1000},
                    {"name": "b", "transform": "bucket[4]", "source-id": 1, "field-id": 1001}]},
            ],
            "last-partition-id": 1001, "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {"owner": "root"}, "current-snapshot-id": 20,
            "refs": {
                "main": {"snapshot-id": 20, "type": "branch"},
                "monday": {"snapshot-id": 10, "type": "tag", "max-ref-age-ms": 1},
            },
            "snapshots": [
                {"sequence-number": 1, "snapshot-id": 10, "timestamp-ms": 1, "schema-id": 0,
                 "summary": {"operation": "append"}, "manifest-list": "file:/warehouse/1.avro"},
                {"sequence-number": 2, "snapshot-id": 20, "timestamp-ms": 2, "schema-id": 0,
                 "summary": {"operation": "append"}, "manifest-list": "file:/warehouse/2.avro"},
            ],
            "statistics": [], "snapshot-log": [], "metadata-log": [],
        })
    }

    fn view(json: &Json, name: Option<&str>) -> Result<SnapshotView, String> {
        SnapshotView::of(json.to_string().as_bytes(), name)
    }

    fn names(view: &SnapshotView) -> Vec<&str> {
        view.columns.iter().map(|column| &column.name[..]).collect()
    }

    #[test]
    fn a_branch_has_the_columns_of_the_table_and_a_tag_those_that_it_had() {
        let spark = spark();
        for name in [None, Some("main")] {
            let main = view(&spark, name).unwrap();
            assert_eq!(main.location, "file:/warehouse/db/t");
            assert_eq!(
                main.manifest_list.as_deref(),
                Some("file:/warehouse/2.avro")
            );
            assert_eq!(names(&main), ["key", "points"]);
            assert_eq!(*main.identity_columns(1), [1]);
            assert!(Arc::ptr_eq(
                &main.identity_columns(1),
                &main.identity_columns(1)
            ));
            assert!(main.identity_columns(0).is_empty() && main.identity_columns(7).is_empty());
            let Shape::List(element) = &main.columns[1].shape else {
                panic!("{:?}", main.columns);
            };
            assert!(matches!(&**element, Shape::Struct(fields) if fields[0].id == 4));
        }
        let monday = view(&spark, Some("monday")).unwrap();
        assert_eq!(
            monday.manifest_list.as_deref(),
            Some("file:/warehouse/1.avro")
        );
        assert_eq!(names(&monday), ["id"]);
        let error = view(&spark, Some("sunday")).unwrap_err();
        assert!(
            error.contains("\"sunday\"; it has: main, monday"),
            "{error}"
        );
    }

    #[test]
    fn a_table_without_snapshots_has_columns_and_no_rows() {
        for id in [json!(null), json!(-1)] {
            let mut json = spark();
            json["current-snapshot-id"] = id;
            json["refs"] = json!({});
            json["snapshots"] = json!(null);
            let view = view(&json, None).unwrap();
            assert_eq!(view.manifest_list, None);
            assert_eq!(names(&view), ["key", "points"]);
        }
    }

    #[test]
    fn a_table_of_version_1_may_have_one_schema_one_partitioning_and_no_references() {
        let json = json!({
            "format-version": 1, "location": "/t", "last-updated-ms": 1, "last-column-id": 1,
            "schema": {"type": "struct", "fields": [
                {"id": 1, "name": "a", "required": true, "type": "timestamp"}]},
            "partition-spec": [
                {"name": "a", "transform": "identity", "source-id": 1, "field-id": 1000}],
            "properties": {}, "current-snapshot-id": 5,
            "snapshots": [{"snapshot-id": 5, "timestamp-ms": 1, "manifest-list": "/t/m.avro"}],
        });
        let view = view(&json, None).unwrap();
        assert_eq!(view.manifest_list.as_deref(), Some("/t/m.avro"));
        assert_eq!(names(&view), ["a"]);
        assert_eq!(*view.identity_columns(0), [1]);
    }

    #[test]
    fn metadata_that_cannot_be_read_is_an_error() {
        let refused = |change: &dyn Fn(&mut Json)| {
            let mut json = spark();
            change(&mut json);
            view(&json, None).unwrap_err()
        };
        let error = refused(&|json| json["format-version"] = json!(4));
        assert!(error.contains("format version 4"), "{error}");
        let error = refused(&|json| json["current-schema-id"] = json!(9));
        assert!(error.contains("lacks the schema"), "{error}");
        let error = refused(&|json| json["current-snapshot-id"] = json!(21));
        assert!(error.contains("no longer has its snapshot 21"), "{error}");
        assert!(SnapshotView::of(b"{", None).is_err());
    }
}
