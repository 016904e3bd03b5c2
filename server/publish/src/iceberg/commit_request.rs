//! The request by which a REST catalog replaces the metadata of a table (Iceberg's REST catalog protocol,
//! `updateTable`): requirements that the table must still meet, and updates. The catalog writes the metadata.
//!
//! A commit requires that `main` still names the snapshot that the publisher has read, also if it does not move
//! `main`, and so does each tag that it moves or removes. A `main` that was set back to that snapshot meanwhile does
//! no harm: the catalog refuses a snapshot that has a parent, and whose sequence number is not above all those before
//! it.

use serde_json::{Value, json};

use super::metadata::{MAIN, Reference, TableMetadata};

/// The id by which an update of a commit request refers to the schema, partition spec or sort order
/// that the preceding update has added.
const LAST_ADDED: i64 = -1;

/// A change of a table, in the form that REST catalogs require.
#[derive(Debug, Clone, PartialEq)]
pub struct CommitRequest {
    /// The conditions that the table must meet. If it fails one of them, the catalog applies no update.
    pub requirements: Vec<Value>,
    /// The changes, in the order in which the catalog applies them.
    pub updates: Vec<Value>,
}

impl CommitRequest {
    /// Returns the request that creates a table with the metadata `next`, if the catalog does not have it.
    pub fn create(next: &TableMetadata) -> Self {
        let mut updates = vec![
            json!({"action": "assign-uuid", "uuid": next.table_uuid}),
            json!({"action": "upgrade-format-version", "format-version": next.format_version}),
        ];
        updates.extend(
            next.schema()
                .map(|schema| add_schema(schema, next.last_column_id)),
        );
        updates.push(json!({"action": "set-current-schema", "schema-id": LAST_ADDED}));
        for spec in &next.partition_specs {
            updates.push(json!({"action": "add-spec", "spec": spec}));
        }
        updates.push(json!({"action": "set-default-spec", "spec-id": LAST_ADDED}));
        for order in &next.sort_orders {
            updates.push(json!({"action": "add-sort-order", "sort-order": order}));
        }
        updates.extend([
            json!({"action": "set-default-sort-order", "sort-order-id": LAST_ADDED}),
            json!({"action": "set-location", "location": next.location}),
            json!({"action": "set-properties", "updates": next.properties}),
        ]);
        for snapshot in &next.snapshots {
            updates.push(json!({"action": "add-snapshot", "snapshot": snapshot}));
        }
        for (name, reference) in &next.refs {
            updates.push(set_reference(name, reference));
        }
        Self {
            requirements: vec![json!({"type": "assert-create"})],
            updates,
        }
    }

    /// Returns the request that puts the metadata `next` in the place of `previous`. The request removes the
    /// snapshots, tags and branches that `next` lacks, but no property and no schema.
    pub fn update(previous: &TableMetadata, next: &TableMetadata) -> Self {
        let mut requirements =
            vec![json!({"type": "assert-table-uuid", "uuid": previous.table_uuid})];
        let mut updates = Vec::new();
        // A commit adds one schema at most.
        let mut schemas = next.schemas.iter();
        let added = schemas.find(|schema| !previous.schemas.contains(schema));
        let is_current_new = next.current_schema_id != previous.current_schema_id;
        if added.is_some() || is_current_new {
            // New fields got ids above the last one of `previous`. If another engine has given out ids since
            // then, this commit fails, and the next attempt reads these.
            requirements.extend([
                json!({
                    "type": "assert-current-schema-id",
                    "current-schema-id": previous.current_schema_id,
                }),
                json!({
                    "type": "assert-last-assigned-field-id",
                    "last-assigned-field-id": previous.last_column_id,
                }),
            ]);
        }
        if let Some(schema) = added {
            updates.push(add_schema(schema, next.last_column_id));
        }
        if is_current_new {
            // The catalog numbers a new schema, so only a known one has an id to be named by. The new
            // snapshot names the schema by the id that `TableMetadata::add_schema` chose, one above the
            // greatest. Iceberg's own catalogs choose the same, unless another engine has added a schema
            // since; if that engine also made it the current one, the requirements refuse this commit.
            let id = if added.is_some() && next.schema() == added {
                LAST_ADDED
            } else {
                i64::from(next.current_schema_id)
            };
            updates.push(json!({"action": "set-current-schema", "schema-id": id}));
        }
        let changed = next.properties.iter();
        let changed = changed.filter(|&(name, value)| previous.properties.get(name) != Some(value));
        let changed: serde_json::Map<String, Value> = changed
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        if !changed.is_empty() {
            updates.push(json!({"action": "set-properties", "updates": changed}));
        }
        // Before the references, which name it.
        for snapshot in &next.snapshots {
            if !previous.has_snapshot(snapshot.snapshot_id) {
                updates.push(json!({"action": "add-snapshot", "snapshot": snapshot}));
            }
        }
        for (name, reference) in &next.refs {
            let before = named_snapshot(previous, name);
            if before != Some(reference.snapshot_id) {
                // Without a snapshot, the catalog must not have the reference.
                requirements.push(
                    json!({"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": before}),
                );
                updates.push(set_reference(name, reference));
            }
        }
        for (name, reference) in &previous.refs {
            if !next.refs.contains_key(name) {
                let id = reference.snapshot_id;
                requirements.push(
                    json!({"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": id}),
                );
                updates.push(json!({"action": "remove-snapshot-ref", "ref-name": name}));
            }
        }
        let main = named_snapshot(previous, MAIN);
        if named_snapshot(next, MAIN) == main {
            requirements
                .push(json!({"type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": main}));
        }
        // After the references that name them. Each has an update of its own: catalogs with Iceberg's library
        // before 1.9 refuse an update with several ids.
        for snapshot in &previous.snapshots {
            let id = snapshot.snapshot_id;
            if !next.has_snapshot(id) {
                updates.push(json!({"action": "remove-snapshots", "snapshot-ids": [id]}));
            }
        }
        Self {
            requirements,
            updates,
        }
    }

    /// Returns the body of the request for the table `name` of `namespace`.
    pub fn body(&self, namespace: &str, name: &str) -> Value {
        json!({
            "identifier": {"namespace": [namespace], "name": name},
            "requirements": self.requirements,
            "updates": self.updates,
        })
    }
}

/// Returns the body of a request that prepares the creation of the table `name` with the metadata
/// `next`. No reader sees the table before the commit. The catalog chooses the identity of the
/// table. It may give new ids to the fields of the schema in this request, but not to those of the
/// schema in the commit.
pub fn stage_create(name: &str, next: &TableMetadata) -> Value {
    let mut properties = next.properties.clone();
    properties.insert("format-version".to_owned(), next.format_version.to_string());
    json!({
        "name": name,
        "location": next.location,
        "schema": next.schema(),
        "partition-spec": next.partition_specs.first(),
        "write-order": next.sort_orders.first(),
        "stage-create": true,
        "properties": properties,
    })
}

/// Returns the update that adds a schema. `last_column_id` is the greatest field id that was assigned so far.
fn add_schema(schema: &Value, last_column_id: i32) -> Value {
    json!({
        "action": "add-schema",
        "schema": schema,
        "last-column-id": last_column_id,
    })
}

/// Returns the update that sets a branch or a tag. The catalog replaces all members of the reference, so the
/// update repeats those that other engines have set. If another engine changes these members meanwhile, the
/// update undoes the change: the protocol has no requirement by which the catalog would refuse it.
fn set_reference(name: &str, reference: &Reference) -> Value {
    let mut update = json!(reference);
    update["action"] = json!("set-snapshot-ref");
    update["ref-name"] = json!(name);
    update
}

/// Returns the id of the snapshot that a branch or a tag names; `None` if the table has none of this name.
/// Some engines do not list `main` among the references; it then names the table's current snapshot.
fn named_snapshot(metadata: &TableMetadata, name: &str) -> Option<i64> {
    let named = metadata.refs.get(name).map(|named| named.snapshot_id);
    let current = metadata.current_snapshot_id;
    named.or_else(|| current.filter(|_| name == MAIN))
}

#[cfg(test)]
mod tests {
    use ebb_model::types::CqlType;

    use super::*;
    use crate::iceberg::metadata::Snapshot;
    use crate::types::{FieldIds, NestedField, TypeOptions, field};

    fn columns(names: &[&str]) -> Vec<NestedField> {
        let (options, mut ids) = (TypeOptions::default(), FieldIds::default());
        let column = |name: &&str| field(name, &CqlType::Int, false, &options, None, &mut ids);
        names.iter().map(column).collect()
    }

    fn snapshot(id: i64, parent: Option<i64>) -> Snapshot {
        Snapshot {
            snapshot_id: id,
            parent_snapshot_id: parent,
            sequence_number: id,
            timestamp_ms: id,
            manifest_list: format!("s3://lake/ks/t/metadata/{id}.avro"),
            summary: [("operation".to_owned(), "append".to_owned())].into(),
            schema_id: 0,
        }
    }

    /// Returns the metadata of a table with one column and one snapshot, which has a tag.
    fn first() -> TableMetadata {
        let mut metadata = TableMetadata::new("u-1".to_owned(), "s3://lake/ks/t".to_owned());
        metadata.set_schema(&columns(&["id"]), 1);
        metadata.properties.insert("a".to_owned(), "1".to_owned());
        metadata.add_snapshot(snapshot(1, None), "monday");
        metadata
    }

    fn actions(request: &CommitRequest) -> Vec<&str> {
        let updates = request.updates.iter();
        updates.map(|u| u["action"].as_str().unwrap()).collect()
    }

    #[test]
    fn a_new_table_is_described_whole_and_must_not_be_there() {
        let request = CommitRequest::create(&first());
        assert_eq!(request.requirements, [json!({"type": "assert-create"})]);
        let expected = [
            "assign-uuid",
            "upgrade-format-version",
            "add-schema",
            "set-current-schema",
            "add-spec",
            "set-default-spec",
            "add-sort-order",
            "set-default-sort-order",
            "set-location",
            "set-properties",
            "add-snapshot",
            "set-snapshot-ref",
            "set-snapshot-ref",
        ];
        assert_eq!(actions(&request), expected);
        let schema = &request.updates[2];
        assert_eq!(
            (&schema["last-column-id"], &schema["schema"]["schema-id"]),
            (&json!(1), &json!(0))
        );
        assert_eq!(request.updates[10]["snapshot"]["snapshot-id"], 1);
        assert_eq!(request.updates[11]["ref-name"], "main");
        assert_eq!(request.updates[12]["type"], "tag");
        let body = request.body("ks", "t");
        assert_eq!(
            body["identifier"],
            json!({"namespace": ["ks"], "name": "t"})
        );
        let staged = stage_create("t", &first());
        assert_eq!(staged["stage-create"], true);
        assert_eq!(staged["properties"]["format-version"], "2");
    }

    #[test]
    fn an_update_has_what_changed_and_requires_what_was_read() {
        let previous = first();
        let mut next = previous.clone();
        next.properties.insert("b".to_owned(), "2".to_owned());
        next.add_snapshot(snapshot(2, Some(1)), "tuesday");
        let request = CommitRequest::update(&previous, &next);
        let named = |name: &str, id: Option<i64>| json!({"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": id});
        assert_eq!(
            request.requirements,
            [
                json!({"type": "assert-table-uuid", "uuid": "u-1"}),
                named("main", Some(1)),
                named("tuesday", None),
            ]
        );
        assert_eq!(
            actions(&request),
            [
                "set-properties",
                "add-snapshot",
                "set-snapshot-ref",
                "set-snapshot-ref"
            ]
        );
        assert_eq!(request.updates[0]["updates"], json!({"b": "2"}));

        // The catalog leaves out the reference `main`, and the tag of before moves.
        let mut bare = previous.clone();
        bare.refs.remove(MAIN);
        let mut next = bare.clone();
        next.add_snapshot(snapshot(2, Some(1)), "monday");
        let request = CommitRequest::update(&bare, &next);
        assert_eq!(
            request.requirements[1..],
            [named("main", Some(1)), named("monday", Some(1))]
        );
    }

    #[test]
    fn a_tag_comes_before_main_which_takes_the_schema_of_its_snapshot_along() {
        let previous = first();
        let mut tagged = previous.clone();
        let schema_id = tagged.add_schema(&columns(&["id", "name"]), 2);
        let tuesday = Snapshot {
            schema_id,
            ..snapshot(2, Some(1))
        };
        tagged.add_tagged(tuesday, "tuesday");
        let request = CommitRequest::update(&previous, &tagged);
        let expected = ["add-schema", "add-snapshot", "set-snapshot-ref"];
        assert_eq!(actions(&request), expected);
        let main =
            |id: i64| json!({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": id});
        assert_eq!(request.requirements.last(), Some(&main(1)));

        let mut moved = tagged.clone();
        moved.set_main(2, 9);
        let request = CommitRequest::update(&tagged, &moved);
        assert_eq!(
            actions(&request),
            ["set-current-schema", "set-snapshot-ref"]
        );
        assert_eq!(request.updates[0]["schema-id"], 1);
        assert_eq!(request.requirements.last(), Some(&main(1)));
    }

    #[test]
    fn an_update_removes_tags_before_the_snapshots_that_they_name() {
        let mut previous = first();
        previous.add_snapshot(snapshot(2, Some(1)), "tuesday");
        let mut next = previous.clone();
        next.add_snapshot(snapshot(3, Some(2)), "wednesday");
        let tags = ["monday", "tuesday"].map(str::to_owned);
        next.remove_snapshots(&[1, 2].into(), &tags);
        let request = CommitRequest::update(&previous, &next);
        let removed = [
            json!({"action": "remove-snapshot-ref", "ref-name": "monday"}),
            json!({"action": "remove-snapshot-ref", "ref-name": "tuesday"}),
            json!({"action": "remove-snapshots", "snapshot-ids": [1]}),
            json!({"action": "remove-snapshots", "snapshot-ids": [2]}),
        ];
        let first_actions = ["add-snapshot", "set-snapshot-ref", "set-snapshot-ref"];
        assert_eq!(actions(&request)[..3], first_actions);
        assert_eq!(request.updates[3..], removed);
        let named = |name: &str, id: i64| json!({"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": id});
        assert_eq!(
            request.requirements[3..],
            [named("monday", 1), named("tuesday", 2)]
        );
    }

    #[test]
    fn a_new_schema_is_added_and_one_of_before_is_chosen_by_its_id() {
        let previous = first();
        let mut wider = previous.clone();
        wider.set_schema(&columns(&["id", "name"]), 2);
        let request = CommitRequest::update(&previous, &wider);
        assert_eq!(actions(&request), ["add-schema", "set-current-schema"]);
        assert_eq!(request.updates[1]["schema-id"], -1);
        let required = [
            ("assert-current-schema-id", "current-schema-id", 0),
            ("assert-last-assigned-field-id", "last-assigned-field-id", 1),
        ];
        for (found, (kind, member, value)) in request.requirements[1..].iter().zip(required) {
            assert_eq!(
                (&found["type"], &found[member]),
                (&json!(kind), &json!(value))
            );
        }
        let mut back = wider.clone();
        back.set_schema(&columns(&["id"]), 2);
        let request = CommitRequest::update(&wider, &back);
        assert_eq!(
            request.updates,
            [json!({"action": "set-current-schema", "schema-id": 0})]
        );
    }
}
