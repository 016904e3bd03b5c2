//! A REST catalog in the process of a test. It keeps metadata in memory, checks the requirements of each
//! commit, and applies its updates.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::http_testing::{Request, Response, serve_at_once};
use crate::iceberg::metadata::{MAIN, Reference, Snapshot, SnapshotLogEntry, TableMetadata};
use crate::target::Target;
use crate::target::faulty::{Calls, Fate};

/// The prefix of paths, as the configuration of the catalog has it.
const PREFIX: &str = "/v1/of/lake/namespaces";

/// A catalog that runs until the test ends.
#[derive(Clone)]
pub(crate) struct TestCatalog {
    url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    namespaces: BTreeSet<String>,
    /// The metadata of each table, by `NAMESPACE/TABLE`.
    tables: BTreeMap<String, TableMetadata>,
    /// The counters of the calls of publishers, each at the index that the publisher's bearer token
    /// contains; `None` for a publisher whose calls are not counted.
    publishers: Vec<Option<Arc<Calls>>>,
    /// The number of commits that took effect.
    commits: usize,
}

impl TestCatalog {
    /// Starts an empty catalog.
    pub(crate) fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let url = serve_at_once(move |request| answer(&shared, request));
        Self {
            url: format!("{url}?warehouse=lake"),
            state,
        }
    }

    /// Returns the URL, as a user names it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns a publisher's target that commits to this catalog. If `calls` is given, it counts the requests
    /// to the catalog, too. The event that `calls` plans, such as a kill or a lost answer, may then hit one
    /// of these requests.
    pub(crate) fn commits(&self, target: Target, calls: Option<Arc<Calls>>) -> Target {
        let number = {
            let mut state = self.state();
            state.publishers.push(calls);
            state.publishers.len() - 1
        };
        let variables = [
            ("EBB_CATALOG_ALLOW_HTTP", "true".to_owned()),
            ("EBB_CATALOG_TOKEN", format!("publisher-{number}")),
        ];
        let variables =
            variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        target.with_catalog_of(&self.url, variables).unwrap()
    }

    /// Returns the number of commits that took effect.
    pub(crate) fn commit_count(&self) -> usize {
        self.state().commits
    }

    /// Registers a table that was committed in another place, as users do to read it by this
    /// catalog, too.
    pub(crate) fn register(&self, table: &str, metadata: TableMetadata) {
        self.state().tables.insert(table.to_owned(), metadata);
    }

    /// Changes the metadata of a table, as another engine does.
    pub(crate) fn change(&self, table: &str, change: impl FnOnce(&mut TableMetadata)) {
        change(self.state().tables.get_mut(table).unwrap());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn answer(state: &Mutex<State>, request: &Request) -> Option<Response> {
    let token = request.headers.get("authorization");
    let number = token.and_then(|token| token.strip_prefix("Bearer publisher-"));
    let Some(number) = number.and_then(|number| number.parse::<usize>().ok()) else {
        return Some(error(
            "401 Unauthorized",
            "NotAuthorizedException",
            "no token",
        ));
    };
    // Not under the lock: an event may be the commit of another publisher.
    let calls = state.lock().unwrap().publishers[number].clone();
    match calls.map_or(Fate::Answered, |calls| calls.next()) {
        Fate::Answered => Some(state.lock().unwrap().route(request)),
        Fate::AnswerLost => {
            state.lock().unwrap().route(request);
            None
        }
        Fate::Refused | Fate::Unanswered => None,
    }
}

fn done(value: &Value) -> Response {
    (
        "200 OK\r\nContent-Type: application/json",
        value.to_string().into(),
    )
}

fn error(status: &'static str, kind: &str, message: &str) -> Response {
    let body = json!({"error": {"message": message, "type": kind, "code": 0}});
    (status, body.to_string().into())
}

impl State {
    fn route(&mut self, request: &Request) -> Response {
        if request.path == "/v1/config?warehouse=lake" {
            return done(
                &json!({"defaults": {"prefix": "no"}, "overrides": {"prefix": "of/lake"}}),
            );
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let path = request
            .path
            .strip_prefix(PREFIX)
            .expect("a path below the prefix");
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match (&request.method[..], &parts[..]) {
            ("POST", []) => self.create_namespace(&body),
            ("POST", [namespace, "tables"]) => self.stage(namespace, &body),
            ("GET", [namespace, "tables", table]) => self.load(&format!("{namespace}/{table}")),
            ("POST", [namespace, "tables", table]) => {
                self.commit(&format!("{namespace}/{table}"), &body)
            }
            _ => panic!("{} {}", request.method, request.path),
        }
    }

    fn create_namespace(&mut self, body: &Value) -> Response {
        let name = body["namespace"][0].as_str().unwrap().to_owned();
        if self.namespaces.insert(name) {
            done(body)
        } else {
            error(
                "409 Conflict",
                "AlreadyExistsException",
                "the namespace is there",
            )
        }
    }

    fn stage(&mut self, namespace: &str, body: &Value) -> Response {
        let name = format!("{namespace}/{}", body["name"].as_str().unwrap());
        if !self.namespaces.contains(namespace) {
            return error("404 Not Found", "NoSuchNamespaceException", namespace);
        }
        if self.tables.contains_key(&name) {
            return error("409 Conflict", "AlreadyExistsException", &name);
        }
        assert_eq!(body["stage-create"], true);
        assert_eq!(body["properties"]["format-version"], "2");
        done(&json!({
            "metadata-location": null,
            "metadata": {
                "table-uuid": format!("uuid-of-{name}"),
                "location": body["location"],
                "properties": {"of.catalog": "1"},
            },
        }))
    }

    fn load(&self, name: &str) -> Response {
        match self.tables.get(name) {
            None => error("404 Not Found", "NoSuchTableException", name),
            Some(metadata) => done(&json!({
                "metadata-location": format!("{}/metadata/00001-a.metadata.json", metadata.location),
                "metadata": metadata,
            })),
        }
    }

    fn commit(&mut self, name: &str, body: &Value) -> Response {
        let parts = name.split_once('/').unwrap();
        assert_eq!(
            body["identifier"],
            json!({"namespace": [parts.0], "name": parts.1})
        );
        let before = self.tables.get(name);
        for requirement in body["requirements"].as_array().unwrap() {
            if !is_met(requirement, before) {
                let text = requirement.to_string();
                return error("409 Conflict", "CommitFailedException", &text);
            }
        }
        let mut next = before
            .cloned()
            .unwrap_or_else(|| TableMetadata::new(String::new(), String::new()));
        for update in body["updates"].as_array().unwrap() {
            if let Err(reason) = apply(update, &mut next) {
                return error("400 Bad Request", "BadRequestException", reason);
            }
        }
        self.tables.insert(name.to_owned(), next);
        self.commits += 1;
        self.load(name)
    }
}

fn is_met(requirement: &Value, before: Option<&TableMetadata>) -> bool {
    let kind = requirement["type"].as_str().unwrap();
    let Some(before) = before else {
        return kind == "assert-create";
    };
    match kind {
        "assert-create" => false,
        "assert-table-uuid" => requirement["uuid"] == before.table_uuid,
        "assert-current-schema-id" => requirement["current-schema-id"] == before.current_schema_id,
        "assert-last-assigned-field-id" => {
            requirement["last-assigned-field-id"] == before.last_column_id
        }
        "assert-ref-snapshot-id" => {
            let named = before.refs.get(requirement["ref"].as_str().unwrap());
            requirement["snapshot-id"] == json!(named.map(|named| named.snapshot_id))
        }
        _ => panic!("{requirement}"),
    }
}

/// Applies an update to the metadata.
///
/// # Errors
/// A sentence for the response, if a real catalog would refuse the update.
///
/// # Panics
/// For updates that ebb never sends.
fn apply(update: &Value, next: &mut TableMetadata) -> Result<(), &'static str> {
    let text = |member: &str| update[member].as_str().unwrap().to_owned();
    match update["action"].as_str().unwrap() {
        "assign-uuid" => next.table_uuid = text("uuid"),
        "upgrade-format-version" => assert_eq!(update["format-version"], 2),
        "add-schema" => {
            let mut schema = update["schema"].clone();
            // The catalog chooses the id, whatever the request has.
            schema["schema-id"] = json!(next.schemas.len());
            next.schemas.push(schema);
            let last = update["last-column-id"].as_i64().unwrap() as i32;
            next.last_column_id = next.last_column_id.max(last);
        }
        "set-current-schema" => {
            next.current_schema_id = match update["schema-id"].as_i64().unwrap() {
                // The schema that was added last.
                -1 => next.schemas.len() as i32 - 1,
                id => id as i32,
            }
        }
        // New metadata has the only specification and the only order that ebb makes.
        "add-spec" => assert_eq!(update["spec"], next.partition_specs[0]),
        "add-sort-order" => assert_eq!(update["sort-order"], next.sort_orders[0]),
        "set-default-spec" => assert_eq!(update["spec-id"], -1),
        "set-default-sort-order" => assert_eq!(update["sort-order-id"], -1),
        "set-location" => next.location = text("location"),
        "set-properties" => {
            let properties: BTreeMap<String, String> =
                serde_json::from_value(update["updates"].clone()).unwrap();
            next.properties.extend(properties);
        }
        "add-snapshot" => {
            let snapshot: Snapshot = serde_json::from_value(update["snapshot"].clone()).unwrap();
            // The rule of Iceberg's own catalogs, which let a snapshot without a parent pass.
            // `commit_request` relies on the refusal.
            if snapshot.parent_snapshot_id.is_some()
                && snapshot.sequence_number <= next.last_sequence_number
            {
                return Err("the sequence number is not above the last one");
            }
            next.last_sequence_number = snapshot.sequence_number;
            next.last_updated_ms = snapshot.timestamp_ms;
            next.snapshots.push(snapshot);
        }
        "set-snapshot-ref" => {
            let mut members = update.as_object().unwrap().clone();
            // These are of the update, and no members of the reference.
            members.retain(|name, _| name != "action" && name != "ref-name");
            let reference: Reference = serde_json::from_value(members.into()).unwrap();
            let (name, snapshot_id) = (text("ref-name"), reference.snapshot_id);
            if name == MAIN {
                next.current_snapshot_id = Some(snapshot_id);
                next.snapshot_log.push(SnapshotLogEntry {
                    timestamp_ms: next.last_updated_ms,
                    snapshot_id,
                });
            }
            next.refs.insert(name, reference);
        }
        "remove-snapshot-ref" => {
            next.refs.remove(&text("ref-name")).unwrap();
        }
        "remove-snapshots" => {
            // Iceberg's library before 1.9 refuses several ids.
            let [id] = &update["snapshot-ids"].as_array().unwrap()[..] else {
                return Err("one snapshot has to be named");
            };
            let id = id.as_i64().unwrap();
            if next.refs.values().any(|named| named.snapshot_id == id) {
                return Err("a branch or a tag names the snapshot");
            }
            next.remove_snapshots(&[id].into(), &[]);
        }
        action => panic!("{action}"),
    }
    Ok(())
}
