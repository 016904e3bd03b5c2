//! Readiness: whether a server takes writes and jobs, and what is wrong with it.
//!
//! A server is ready as long as a table takes writes: a load balancer must not take all tables
//! away for the trouble of one. It is also ready while its disk is full. It answers reads then, and
//! takes TRUNCATE and DROP, which free space; and after a failed write only the next one may show that
//! there is space again, which no client would send to a server that is not ready.

use ebb_model::schema::ObjectKind;
use ebb_storage::{Db, Health, StuckCall};
use ebb_tables::Unreadable;
use serde::Serialize;
use utoipa::ToSchema;

use crate::node::Node;

/// The response to a readiness check. It names tables, types and keyspaces, but no role, key or value:
/// a check needs no token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct Readiness {
    status: ReadinessStatus,
    /// The description of the first of `problems`; absent if there are no problems.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// The problems. Those that stop all writes come first.
    problems: Vec<ReadinessProblem>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum ReadinessStatus {
    Ok,
    /// The server takes writes and jobs, but some reads, writes or jobs fail or may take long.
    Degraded,
    /// The server takes neither writes nor jobs.
    Unavailable,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
struct ReadinessProblem {
    kind: ProblemKind,
    /// The table, as `keyspace.table`, if the problem is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum ProblemKind {
    Opening,
    Stopping,
    WritesStopped,
    DiskFull,
    DiskHangs,
    DamagedFiles,
    LeftOutRuns,
    Unreadable,
}

impl Readiness {
    /// Returns the readiness of a server that still opens its database.
    pub(super) fn opening() -> Self {
        let detail = "the server is opening the database";
        Self::with(vec![ReadinessProblem::new(ProblemKind::Opening, detail)])
    }

    /// Returns the readiness of the server of `node`, without a read of the disk. `None` means that the
    /// server is stopping.
    pub(super) fn of(node: Option<&Node>) -> Self {
        let is_stopping = node.is_none_or(Node::is_closed);
        let store = node.and_then(Node::db).map(Db::health);
        let unreadable = node.map(Node::unreadable).unwrap_or_default();
        Self::from_parts(is_stopping, store.unwrap_or_default(), &unreadable)
    }

    fn from_parts(is_stopping: bool, store: Health, unreadable: &[Unreadable]) -> Self {
        let mut problems = Vec::new();
        let mut add = |kind, detail: String| problems.push(ReadinessProblem::new(kind, detail));
        if is_stopping {
            add(ProblemKind::Stopping, "the server is stopping".to_owned());
        }
        if let Some(cause) = store.read_only_cause {
            let detail = format!("the store takes no writes: {cause}");
            add(ProblemKind::WritesStopped, detail);
        }
        for space_use in store.starved {
            let detail = format!("the disk is full: no space for {space_use:?}");
            add(ProblemKind::DiskFull, detail.to_lowercase());
        }
        if let Some(longest) = store.stuck_calls.first() {
            add(
                ProblemKind::DiskHangs,
                hang(longest, store.stuck_calls.len()),
            );
        }
        for (kind, tables, what) in [
            (
                ProblemKind::DamagedFiles,
                store.damaged_tables,
                "files are damaged or unreadable, and reads that need them fail",
            ),
            (
                ProblemKind::LeftOutRuns,
                store.left_out_tables,
                "files could not be read, and merges leave them out for a while",
            ),
        ] {
            let tables = tables.into_iter();
            problems.extend(tables.map(|table| ReadinessProblem::of_table(kind, table, what)));
        }
        problems.extend(unreadable.iter().map(ReadinessProblem::of_unreadable));
        Self::with(problems)
    }

    fn with(problems: Vec<ReadinessProblem>) -> Self {
        let status = match problems.first().map(|first| first.kind) {
            None => ReadinessStatus::Ok,
            Some(ProblemKind::Opening | ProblemKind::Stopping | ProblemKind::WritesStopped) => {
                ReadinessStatus::Unavailable
            }
            Some(_) => ReadinessStatus::Degraded,
        };
        Self {
            status,
            detail: problems.first().map(|first| first.detail.clone()),
            problems,
        }
    }

    /// Returns whether the server takes writes and jobs.
    pub(super) fn is_available(&self) -> bool {
        self.status != ReadinessStatus::Unavailable
    }
}

/// Describes `calls` calls to the disk that have not returned; `longest` is the one that lasts the longest.
/// The text has the name of the file, but not its directory, because health checks need no token.
fn hang(longest: &StuckCall, calls: usize) -> String {
    let name = longest.path.file_name().unwrap_or_default();
    let (call, name, s) = (longest.call, name.display(), longest.lasts.as_secs());
    format!("the disk hangs ({calls} calls): the {call} of {name} has not returned for {s}s")
}

impl ReadinessProblem {
    fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            table: None,
            detail: detail.into(),
        }
    }

    fn of_table(kind: ProblemKind, table: String, what: &str) -> Self {
        Self {
            detail: format!("{table}: {what}"),
            table: Some(table),
            kind,
        }
    }

    fn of_unreadable(object: &Unreadable) -> Self {
        let kind = ProblemKind::Unreadable;
        let name = object.name.as_deref().unwrap_or_default();
        let place = format!("{}.{name}", object.keyspace);
        let place = place.trim_end_matches('.');
        match object.kind {
            ObjectKind::Table => {
                Self::of_table(kind, place.to_owned(), "the schema cannot be read")
            }
            ObjectKind::Keyspace | ObjectKind::Type => {
                Self::new(kind, format!("the schema of {place} cannot be read"))
            }
            ObjectKind::Role => Self::new(kind, "a role cannot be read"),
            ObjectKind::Node => Self::new(kind, "a record of the node could not be read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ebb_storage::{DiskCall, SpaceUse};

    use super::*;

    #[test]
    fn only_what_stops_all_writes_makes_a_server_unavailable() {
        let of = |store: Health, unreadable: &[Unreadable]| {
            let readiness = Readiness::from_parts(false, store, unreadable);
            let json = serde_json::to_string(&readiness).unwrap();
            (readiness.is_available(), json)
        };
        let ok = r#"{"status":"ok","problems":[]}"#;
        assert_eq!(of(Health::default(), &[]), (true, ok.to_owned()));
        let mut store = Health {
            starved: vec![SpaceUse::Writes],
            damaged_tables: vec!["shop.orders".to_owned()],
            left_out_tables: vec!["shop.users".to_owned()],
            ..Health::default()
        };
        let role = Unreadable::role("ebb_system", Some("bob"), "damage at bob");
        let unreadable = [Unreadable::table("shop", "carts", "damage"), role];
        let (is_available, json) = of(store.clone(), &unreadable);
        let full = "the disk is full: no space for writes";
        let full = format!(r#"{{"status":"degraded","detail":"{full}","#);
        assert!(is_available && json.starts_with(&full), "{json}");
        for (kind, table) in [
            ("damaged-files", "orders"),
            ("left-out-runs", "users"),
            ("unreadable", "carts"),
        ] {
            let problem = format!(r#"{{"kind":"{kind}","table":"shop.{table}","#);
            assert!(json.contains(&problem), "{json}");
        }
        assert!(json.contains("a role ") && !json.contains("bob"), "{json}");
        let call = |name: &str, s| StuckCall {
            path: format!("/var/lib/ebb/{name}").into(),
            call: DiskCall::Sync,
            lasts: Duration::from_secs(s),
        };
        store.starved.clear();
        store.stuck_calls = vec![call("wal-000001.log", 8), call("000002.sst", 6)];
        let (is_available, json) = of(store.clone(), &[]);
        let hangs = "(2 calls): the fsync of wal-000001.log has not returned for 8s";
        assert!(is_available && json.contains(r#""degraded""#), "{json}");
        assert!(json.contains(hangs) && !json.contains("/var"), "{json}");
        assert!(json.contains(r#"{"kind":"disk-hangs","detail":"#), "{json}");
        store.read_only_cause = Some("a failed fsync".to_owned());
        let (is_available, json) = of(store, &[]);
        assert!(!is_available && json.starts_with(r#"{"status":"unavailable","#));
        assert!(json.contains("takes no writes: a failed fsync"), "{json}");
    }
}
