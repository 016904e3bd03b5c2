//! DESCRIBE, with the requests and the columns of cqlsh.

use std::time::Duration;

use ebb_model::types::elements::pairs;
use ebb_storage::SnapshotOptions;
use ebb_test_support::cases::parse_cases;

use super::*;
use crate::testing::Session;

fn described(session: &Session, text: &str) -> Vec<Vec<String>> {
    let listing = session.try_describe(text);
    let listing = listing.unwrap_or_else(|error| panic!("{text}: {error}"));
    let cell = |cell: &Option<Bytes>| String::from_utf8(cell.clone().unwrap().into()).unwrap();
    let row = |row: &Vec<Option<Bytes>>| row.iter().map(cell).collect();
    listing.rows().iter().map(row).collect()
}

/// Returns the names of the columns in the result of a DESCRIBE. cqlsh finds cells by these names.
fn columns(session: &Session, text: &str) -> Vec<String> {
    let listing = session.try_describe(text).unwrap();
    listing
        .columns()
        .iter()
        .map(|column| column.name.to_string())
        .collect()
}

#[test]
fn columns_are_those_that_cqlsh_reads() {
    let session = Session::with_table();
    let names = ["keyspace_name", "type", "name"];
    for text in [
        "DESCRIBE KEYSPACES",
        "DESC TABLES",
        "DESCRIBE TYPES",
        "DESC FUNCTIONS",
        "DESC AGGREGATES",
    ] {
        assert_eq!(columns(&session, text), names, "{text}");
    }
    let statements = ["keyspace_name", "type", "name", "create_statement"];
    for text in [
        "DESCRIBE KEYSPACE app",
        "DESC TABLE t",
        "DESCRIBE FULL SCHEMA",
        "DESC t",
    ] {
        assert_eq!(columns(&session, text), statements, "{text}");
    }
    let cluster = ["cluster", "partitioner", "snitch", "range_ownership"];
    assert_eq!(columns(&session, "DESCRIBE CLUSTER"), cluster);
    assert_eq!(columns(&Session::new(), "DESCRIBE CLUSTER"), cluster[..3]);
}

#[test]
fn describe_cluster_names_the_node_that_owns_all_tokens() {
    let session = Session::with_table();
    let listing = session.try_describe("DESCRIBE CLUSTER").unwrap();
    let [row] = listing.rows() else { panic!() };
    assert_eq!(row[1].as_deref(), Some(&b"Murmur3Partitioner"[..]));
    let ownership: Vec<_> = pairs(row[3].as_ref().unwrap()).unwrap().collect();
    assert_eq!(ownership.len(), 2);
    let token = session.catalog.identity().token.to_string();
    assert_eq!(ownership[0].as_ref().unwrap().unwrap(), token.as_bytes());
}

#[test]
fn described_statements_create_the_same_schema() {
    let mut session = Session::with_table();
    session.run("CREATE TYPE \"P q\" (x int, \"Y\" frozen<list<text>>)");
    session.run("CREATE TYPE outer_type (p frozen<\"P q\">)");
    session.run(
        "CREATE TABLE d (a int, b int, \"C\" text, d int, v map<text, frozen<outer_type>>, \
         PRIMARY KEY ((a, b), \"C\", d)) WITH CLUSTERING ORDER BY (\"C\" DESC, d ASC) \
         AND comment = 'it''s' AND default_time_to_live = 5",
    );
    let described = described(&session, "DESCRIBE SCHEMA WITH INTERNALS");
    let mut again = Session::new();
    for row in &described {
        again.run(&row[3]);
    }
    let kinds: Vec<_> = described.iter().map(|row| &row[1][..]).collect();
    assert_eq!(kinds, ["keyspace", "type", "type", "table", "table"]);
    assert_eq!(again.state().schema(), session.state().schema());
}

/// Regression: the parser refused the name of a keyspace before that of a type, because no type may
/// have this name without quotes.
#[test]
fn types_of_a_keyspace_with_a_reserved_type_name_are_created_again() {
    let mut session = Session::new();
    session.run("CREATE KEYSPACE interval WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    session.run("CREATE TYPE interval.\"enum\" (a int)");
    session.run("ALTER TYPE interval.\"enum\" ADD b int");
    session.run("CREATE TABLE interval.t (k int PRIMARY KEY, v frozen<interval.\"enum\">)");
    let mut again = Session::new();
    for row in described(&session, "DESCRIBE KEYSPACE interval WITH INTERNALS") {
        again.run(&row[3]);
    }
    assert_eq!(again.state().schema(), session.state().schema());
}

#[test]
fn names_are_found_in_the_order_of_cqlsh() {
    let mut session = Session::with_table();
    session.run("CREATE TABLE app (k int PRIMARY KEY)");
    let first = |session: &Session, text: &str| described(session, text)[0][1..3].join(" ");
    assert_eq!(first(&session, "DESC app"), "keyspace app");
    assert_eq!(first(&session, "DESC t"), "table t");
    assert_eq!(first(&session, "DESC app.app"), "table app");
    assert_eq!(described(&session, "DESC TABLES").len(), 2);
    session.keyspace = None;
    let all = described(&session, "DESC TABLES");
    assert_eq!(all.len(), 2 + 29);
    let keyspaces = described(&session, "DESC KEYSPACES");
    let names: Vec<_> = keyspaces.iter().map(|row| &row[2][..]).collect();
    assert_eq!(
        names,
        [
            "app",
            "system",
            "system_auth",
            "system_schema",
            "system_traces",
            "system_views",
            "system_virtual_schema"
        ]
    );
}

#[test]
fn virtual_tables_are_marked_as_virtual() {
    let session = Session::new();
    let of = |text: &str| described(&session, text)[0][3].clone();
    assert!(of("DESC TABLE system.local").starts_with("CREATE TABLE system.local ("));
    let text = of("DESC TABLE system_views.snapshots");
    assert!(text.starts_with("/*\nWarning: Table system_views.snapshots is a virtual table"));
    assert!(text.contains("\nVIRTUAL TABLE system_views.snapshots (\n") && text.ends_with("*/"));
}

#[test]
fn a_snapshot_is_described_as_it_was() {
    let mut session = Session::with_table();
    session.run("CREATE SNAPSHOT s ON KEYSPACE app");
    let before = described(&session, "DESC TABLE app.t");
    session.run("ALTER TABLE t ADD later int");
    session.run("CREATE TABLE later (k int PRIMARY KEY)");
    assert_eq!(described(&session, "DESC TABLE \"app@s\".t"), before);
    session.keyspace = Some("app__at__s".to_string());
    assert_eq!(described(&session, "DESC TABLES").len(), 1);
}

#[test]
fn snapshots_are_described_by_their_create_statements() {
    let mut session = Session::with_table();
    session.run("CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    session.run("CREATE SNAPSHOT s ON KEYSPACE other");
    session.run("CREATE SNAPSHOT \"S2\" ON TABLE app.t WITH ttl = '1h'");
    let of_app = [
        "app",
        "snapshot",
        "\"S2\"",
        "CREATE SNAPSHOT \"S2\" ON TABLE app.t;\n-- created 2023-11-14T22:13:20Z, expires \
         2023-11-14T23:13:20Z; read as \"app@S2\"",
    ]
    .map(str::to_string);
    assert_eq!(described(&session, "DESC SNAPSHOTS"), [of_app.to_vec()]);
    session.keyspace = None;
    let all = described(&session, "DESCRIBE SNAPSHOTS");
    assert_eq!(all.len(), 2);
    assert!(all[1][3].starts_with("CREATE SNAPSHOT s ON KEYSPACE other;\n"));
}

/// Regression: DESCRIBE panicked, because RFC 3339 has no year of five digits.
#[test]
fn a_snapshot_that_expires_after_the_year_9999_is_described() {
    let session = Session::with_table();
    let app = session.catalog.db().existing_keyspace("app").unwrap();
    let options = SnapshotOptions {
        table: None,
        expires_in: Some(Duration::from_secs(1 << 40)),
    };
    app.create_snapshot_with("far", options).unwrap();
    let listed = described(&session, "DESC SNAPSHOTS");
    assert!(
        listed[0][3].contains(", expires 9999-12-31T23:59:59Z;"),
        "{listed:?}"
    );
}

#[test]
fn missing_objects_get_cassandras_errors() {
    let mut session = Session::with_table();
    let cases = "
        DESC KEYSPACE x => 'x' not found in keyspaces
        DESC TABLE x => Table 'x' not found in keyspace 'app'
        DESC TYPE x => User defined type 'x' not found in 'app'
        DESC INDEX x => Table for existing index 'x' not found in 'app'
        DESC MATERIALIZED VIEW x => Materialized view 'x' not found in 'app'
        DESC FUNCTION x => User defined function 'x' not found in 'app'
        DESC AGGREGATE x => User defined aggregate 'x' not found in 'app'
        DESC x => 'x' not found in keyspace 'app'
    ";
    for [text, message] in parse_cases(cases) {
        let error = session.try_describe(text).expect_err(text);
        assert_eq!(error.message, message, "{text}");
        assert_eq!(error.kind.code(), 0x2200);
    }
    session.keyspace = None;
    let error = session
        .try_describe("DESC TABLE x")
        .expect_err("no keyspace");
    assert_eq!(
        error.message,
        "No keyspace specified and no current keyspace"
    );
}
