//! The system tables, as drivers read them when they connect.

use std::collections::BTreeSet;
use std::time::Instant;

use bytes::Bytes;
use ebb_storage::simulation::MemDisk;

use super::*;
use crate::testing::Session;

/// Returns the cells of one column of a virtual table.
fn column(session: &Session, keyspace: &str, table: &str, name: &str) -> Vec<Option<Bytes>> {
    let schema = session.system.table(keyspace, table).unwrap().schema();
    let at = schema.columns().iter().position(|c| *c.name == *name);
    let at = at.unwrap_or_else(|| panic!("{table} has no column {name}"));
    let rows = session.rows(keyspace, table);
    rows.into_iter()
        .map(|mut row| row.swap_remove(at))
        .collect()
}

fn texts(session: &Session, keyspace: &str, table: &str, name: &str) -> Vec<String> {
    let cells = column(session, keyspace, table, name).into_iter();
    let text = |cell: Option<Bytes>| String::from_utf8(cell.unwrap().to_vec()).unwrap();
    cells.map(text).collect()
}

#[test]
fn every_cell_is_a_value_of_its_column_and_rows_come_by_their_keys() {
    let mut session = Session::with_table();
    session.run("CREATE TYPE p (x int, y frozen<map<text, int>>)");
    session.run("CREATE TABLE counts (k frozen<p> PRIMARY KEY, n counter)");
    session.run("ALTER TABLE t DROP v");
    session.run("ALTER TABLE t WITH extensions = {'a': 0x0aff} AND cdc = true");
    session.run("CREATE SNAPSHOT s ON KEYSPACE app WITH ttl = '1h'");
    let facts = session.facts();
    let address = ([127, 0, 0, 1], 9).into();
    let (_, client) = facts.activity.enter(address);
    client.note_driver(Some("a driver"), Some("1.0"));
    client.note_keyspace("app".into());
    let what = ("QUERY", "Execute CQL3 query");
    let parameters = vec![
        ("page_size", "7".to_owned()),
        ("query", "SELECT".to_owned()),
    ];
    let begun = Instant::now(); // clock: a trace has the instant of its start
    let mut trace = (facts.activity).begin_trace(address, begun, what, parameters);
    trace.note("one step");
    trace.note("another");
    trace.end();
    for (table, rows) in [("sessions", 1), ("events", 2)] {
        let table = session.system.table("system_traces", table).unwrap();
        let found = table.rows(&facts, &Lookup::default(), usize::MAX).unwrap();
        assert_eq!(found.len(), rows);
    }
    let mut tables = 0;
    for keyspace in session.system.keyspaces() {
        for schema in session.system.tables_of(&[keyspace]) {
            let table = session.system.table(keyspace, schema.name()).unwrap();
            let rows = table.rows(&facts, &Lookup::default(), usize::MAX).unwrap();
            assert!(rows.is_sorted_by(|a, b| a.key < b.key), "{}", schema.name());
            for row in rows {
                for (column, cell) in schema.columns().iter().zip(&row.cells) {
                    let Some(cell) = cell else { continue };
                    let name = format!("{keyspace}.{}.{}", schema.name(), column.name);
                    column
                        .ty
                        .validate(cell)
                        .unwrap_or_else(|e| panic!("{name}: {e}"));
                }
            }
            tables += 1;
        }
    }
    assert_eq!(tables, 29);
}

#[test]
fn columns_of_local_that_drivers_require_are_not_null() {
    let session = Session::new();
    for name in [
        "key",
        "release_version",
        "cluster_name",
        "partitioner",
        "cql_version",
        "data_center",
        "rack",
        "tokens",
        "host_id",
        "broadcast_address",
        "listen_address",
        "rpc_address",
        "rpc_port",
        "schema_version",
        "native_protocol_version",
    ] {
        let cells = column(&session, "system", "local", name);
        assert!(
            matches!(&cells[..], [Some(cell)] if !cell.is_empty()),
            "{name}"
        );
    }
    assert_eq!(session.rows("system", "peers"), Vec::<Vec<_>>::new());
    assert_eq!(session.rows("system", "peers_v2"), Vec::<Vec<_>>::new());
}

#[test]
fn host_id_and_tokens_persist_and_the_version_follows_the_schema() {
    let disk = MemDisk::new();
    let of = |session: &Session, name| column(session, "system", "local", name);
    let mut session = Session::on(&disk);
    let (host, tokens) = (of(&session, "host_id"), of(&session, "tokens"));
    let before = of(&session, "schema_version");
    session.run(
        "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    // No statement after the response sees the old version.
    let after = of(&session, "schema_version");
    assert_ne!(before, after);
    drop(session);
    let session = Session::on(&disk);
    assert_eq!(of(&session, "host_id"), host);
    assert_eq!(of(&session, "tokens"), tokens);
    assert_eq!(of(&session, "schema_version"), after);
    assert_ne!(of(&Session::new(), "host_id"), host);
}

#[test]
fn users_keyspaces_tables_columns_and_types_have_rows() {
    let mut session = Session::with_table();
    session.run("CREATE TYPE p (x int, y frozen<list<text>>)");
    session.run("CREATE TABLE d (a int, b int, c int, PRIMARY KEY ((a, b), c)) WITH CLUSTERING ORDER BY (c DESC)");
    let keyspaces: BTreeSet<_> = texts(&session, "system_schema", "keyspaces", "keyspace_name")
        .into_iter()
        .collect();
    let expected = [
        "app",
        "system",
        "system_auth",
        "system_schema",
        "system_traces",
    ];
    let expected = expected.map(str::to_string);
    assert_eq!(keyspaces, BTreeSet::from(expected));
    let all = |name| texts(&session, "system_schema", "columns", name);
    let rows = all("keyspace_name").into_iter().zip(all("table_name"));
    let rows = rows
        .zip(all("column_name"))
        .zip(all("kind"))
        .zip(all("clustering_order"));
    let of_app: Vec<_> = rows
        .filter(|((((keyspace, _), _), _), _)| keyspace == "app")
        .map(|((((_, table), column), kind), order)| format!("{table}.{column} {kind} {order}"))
        .collect();
    assert_eq!(
        of_app,
        [
            "d.a partition_key none",
            "d.b partition_key none",
            "d.c clustering desc",
            "t.c clustering asc",
            "t.k partition_key none",
            "t.s static none",
            "t.v regular none",
        ]
    );
    assert_eq!(
        texts(&session, "system_schema", "types", "type_name"),
        ["p"]
    );
    let fields = column(&session, "system_schema", "types", "field_types");
    let expected = cells::list(["int", "frozen<list<text>>"].map(cells::text));
    assert_eq!(fields, [Some(expected)]);
    // Drivers take a table without this flag for one of Thrift's.
    let flags = column(&session, "system_schema", "tables", "flags");
    let compound = cells::list([cells::text("compound")]);
    assert!(flags.iter().all(|cell| cell.as_ref() == Some(&compound)));
}

#[test]
fn each_system_table_is_listed_in_one_keyspace() {
    let session = Session::new();
    let of = |keyspace| -> BTreeSet<(String, String)> {
        let names = texts(&session, keyspace, "tables", "table_name").into_iter();
        let keyspaces = texts(&session, keyspace, "tables", "keyspace_name");
        keyspaces.into_iter().zip(names).collect()
    };
    let (local, other) = (of("system_schema"), of("system_virtual_schema"));
    assert!(local.is_disjoint(&other));
    assert_eq!(local.len() + other.len(), 29);
    assert!(local.contains(&("system".to_string(), "local".to_string())));
    assert!(other.contains(&("system_views".to_string(), "snapshots".to_string())));
}

/// A list of two jobs: one that runs, and one that has failed.
#[derive(Debug)]
struct TwoJobs;

impl JobList for TwoJobs {
    fn jobs(&self, _: Option<&ActingRole>) -> Result<Vec<JobRow>, String> {
        let running = JobRow {
            id: "7".to_owned(),
            application: "pi".to_owned(),
            request: "{}".to_owned(),
            started_unix_ms: 1,
            starts: 2,
            state: "started",
            ended_unix_ms: None,
        };
        let ended = JobRow {
            id: "8".to_owned(),
            state: "failed",
            ended_unix_ms: Some(0x0102),
            ..running.clone()
        };
        Ok(vec![running, ended])
    }
}

#[test]
fn jobs_have_rows() {
    let mut session = Session::new();
    assert_eq!(session.rows("system_views", "jobs"), Vec::<Vec<_>>::new());
    session.jobs = Some(Arc::new(TwoJobs));
    let of = |column| texts(&session, "system_views", "jobs", column);
    assert_eq!(of("id"), ["7", "8"]);
    assert_eq!(of("state"), ["started", "failed"]);
    let rows = session.rows("system_views", "jobs");
    let table = session.system.table("system_views", "jobs").unwrap();
    let columns = table.schema().columns();
    let ended = columns
        .iter()
        .position(|column| &*column.name == "ended")
        .unwrap();
    assert_eq!(rows[0][ended], None);
    assert_eq!(
        rows[1][ended].as_deref(),
        Some(&0x0102_u64.to_be_bytes()[..])
    );
}
