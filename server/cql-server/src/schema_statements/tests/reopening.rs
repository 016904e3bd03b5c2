//! Databases after statements about the schema: each opens again, and an unreadable object takes
//! only itself out of service.

use ebb_cql::protocol::{ErrorResponse, QueryParameters};
use ebb_model::key::SCHEMA_KEY;
use ebb_storage::Table;
use ebb_storage::simulation::MemDisk;
use ebb_test_support::cases::parse_cases;

use super::INVALID;
use crate::executor::harness::Server;

const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = \
                        {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// Returns a server with the keyspace `k`, after these statements, and its disk.
fn with(statements: &[&str]) -> (MemDisk, Server) {
    let disk = MemDisk::new();
    let mut server = Server::on(&disk);
    server.run(KEYSPACE);
    statements.iter().for_each(|text| server.run(text));
    (disk, server)
}

#[track_caller]
fn error(server: &mut Server, text: &str) -> ErrorResponse {
    let answer = (server.prepare(text))
        .and_then(|prepared| server.execute(&prepared, QueryParameters::default()));
    answer.expect_err(text)
}

fn stored(server: &Server, keyspace: &str, name: &str) -> Table {
    let keyspace = server.executor.catalog().db().existing_keyspace(keyspace);
    keyspace.unwrap().existing_table(name).unwrap()
}

/// Regression: ALTER TYPE accepted a type that CREATE TABLE rejects, and after the next start no
/// keyspace was readable.
#[test]
fn alter_type_gets_the_error_of_create_table_for_the_same_table() {
    let (disk, mut server) = with(&[
        "CREATE TYPE k.u (a int)",
        "CREATE TABLE k.t (p int PRIMARY KEY, c u)",
        "CREATE TYPE k.v (a int)",
        "CREATE TABLE k.s (p int, c frozen<v>, PRIMARY KEY (p, c))",
        "CREATE TYPE k.with_list (a int, l list<int>)",
        "CREATE TYPE k.with_duration (a int, d duration)",
    ]);
    let of_table = server.refused("CREATE TABLE k.x (p int PRIMARY KEY, c with_list)");
    assert_eq!(server.refused("ALTER TYPE k.u ADD l list<int>"), of_table);
    let of_table = "CREATE TABLE k.x (p int, c frozen<with_duration>, PRIMARY KEY (p, c))";
    let of_table = server.refused(of_table);
    assert_eq!(server.refused("ALTER TYPE k.v ADD d duration"), of_table);
    server.run("INSERT INTO k.t (p, c) VALUES (1, {a: 2})");
    server.run("INSERT INTO k.s (p, c) VALUES (3, {a: 4})");
    drop(server);

    let mut server = Server::on(&disk);
    assert_eq!(server.rows("SELECT p, c.a FROM k.t"), "1 2");
    assert_eq!(server.rows("SELECT p FROM k.s"), "3");
    server.run("ALTER TYPE k.u ADD l frozen<list<int>>");
    server.run("ALTER TYPE k.v ADD t text");
    drop(server);
    let mut server = Server::on(&disk);
    assert_eq!(server.rows("SELECT p, c.a FROM k.t"), "1 2");
}

#[test]
fn alter_type_gets_the_error_of_create_index_for_the_same_column() {
    let (disk, mut server) = with(&[
        "CREATE TYPE k.u (a int)",
        "CREATE TYPE k.with_duration (d duration)",
        "CREATE TABLE k.t (p int PRIMARY KEY, c frozen<u>, d frozen<with_duration>)",
        "CREATE INDEX ON k.t (c)",
    ]);
    server.wait_until_all_built();
    let of_index = server.refused("CREATE INDEX ON k.t (d)");
    assert_eq!(server.refused("ALTER TYPE k.u ADD d duration"), of_index);
    drop(server);
    let mut server = Server::on(&disk);
    assert_eq!(server.rows("SELECT p FROM k.t WHERE c = {a: 1}"), "");
}

/// Regression: the stored schema of the table contained `frozen<int>`, and after the next start no
/// keyspace was readable.
#[test]
fn a_type_with_the_name_of_a_native_type_is_served_after_a_restart() {
    for name in [
        "int",
        "text",
        "list",
        "frozen",
        "varchar",
        "byte",
        "Int",
        "a\"\"b<c>",
    ] {
        let create_type = format!("CREATE TYPE k.\"{name}\" (a text)");
        let create_table = format!(
            "CREATE TABLE k.t (p int PRIMARY KEY, c frozen<\"{name}\">, d \"{name}\", \
             e list<frozen<\"{name}\">>)"
        );
        let (disk, mut server) = with(&[&create_type, &create_table]);
        server.run("INSERT INTO k.t (p, c, d) VALUES (1, {a: 'x'}, {a: 'y'})");
        drop(server);

        let mut server = Server::on(&disk);
        assert_eq!(
            server.rows("SELECT p, c.a, d.a FROM k.t"),
            "1 x y",
            "{name}"
        );
        // The statements that DESCRIBE prints create the same schema again.
        let state = server.executor.catalog().state();
        let keyspace = state.schema().keyspace("k").unwrap().clone();
        let types = keyspace.user_types();
        let (ty, table) = (
            types[0].describe(),
            keyspace.table("t").unwrap().describe(true),
        );
        drop(state);
        server.run("DROP TABLE k.t");
        server.run(&format!("DROP TYPE k.\"{name}\""));
        server.run(&ty);
        server.run(&table);
        let again = server.executor.catalog().state();
        let again = again.schema().keyspace("k").unwrap();
        assert_eq!(again.user_types()[0].describe(), ty);
        assert_eq!(again.table("t").unwrap().describe(true), table);
    }
}

/// Regression: reading the snapshot was a server error (0x0000), so that drivers blamed the node.
#[test]
fn a_read_at_a_snapshot_of_an_unreadable_table_is_an_invalid_request() {
    let (disk, mut server) = with(&[
        "CREATE TYPE k.u (a int)",
        "CREATE TABLE k.t (p int, c frozen<u>, PRIMARY KEY (p, c))",
        "INSERT INTO k.t (p, c) VALUES (1, {a: 2})",
    ]);
    let refused = server.refused("ALTER TYPE k.u ADD d duration");
    assert!(
        refused.starts_with("duration type is not supported"),
        "{refused}"
    );
    server.run("CREATE SNAPSHOT s ON KEYSPACE k");
    // A version without the check left such a record.
    let rows = stored(&server, "k", "t");
    let record = rows.get(SCHEMA_KEY).unwrap().unwrap();
    let text = std::str::from_utf8(&record).unwrap();
    let fields = "[\"a\",\"int\"]";
    let damaged = text.replace(fields, &format!("{fields},[\"d\",\"duration\"]"));
    rows.put(SCHEMA_KEY, damaged.as_bytes()).unwrap();
    server.run("CREATE SNAPSHOT broken ON KEYSPACE k");
    rows.put(SCHEMA_KEY, &record).unwrap();
    server.run("DROP TABLE k.t");
    drop((rows, server));

    let mut server = Server::on(&disk);
    for text in [
        "SELECT p FROM k.t USING SNAPSHOT s",
        "SELECT p FROM \"k@s\".t",
    ] {
        assert_eq!(server.rows(text), "1");
    }
    let texts = [
        "SELECT p FROM k.t USING SNAPSHOT broken",
        "SELECT p FROM \"k@broken\".t",
    ];
    for text in texts {
        let error = error(&mut server, text);
        assert_eq!(error.kind.code(), INVALID, "{error}");
        assert_eq!(
            error.message,
            "the schema of table k.t at snapshot broken cannot be read: duration type is not \
             supported for PRIMARY KEY column 'c'; restore it from a backup or drop the snapshot"
        );
    }
    // The error does not advise to drop the table, which is readable now.
    let at = "the schema of table k.t at snapshot broken cannot be read: ";
    for text in ["DESCRIBE TABLE \"k@broken\".t", "DESCRIBE \"k@broken\".t"] {
        let error = error(&mut server, text);
        assert!(error.message.starts_with(at), "{text}: {error}");
        assert!(error.message.ends_with("or drop the snapshot"), "{error}");
    }
    let described = server.rows("DESCRIBE KEYSPACE \"k@broken\"");
    assert!(described.contains(&format!("Warning: {at}")), "{described}");
    server.run("DROP SNAPSHOT broken ON KEYSPACE k");
}

#[test]
fn every_statement_on_an_unreadable_table_gets_the_reason() {
    let (disk, server) = with(&[
        "CREATE TYPE k.u (a int)",
        "CREATE TABLE k.t (p int PRIMARY KEY, v int)",
        "CREATE TABLE k.other (p int PRIMARY KEY, v int)",
        "INSERT INTO k.t (p, v) VALUES (1, 2)",
    ]);
    let rows = stored(&server, "k", "t");
    let record = rows.get(SCHEMA_KEY).unwrap().unwrap();
    rows.delete(SCHEMA_KEY).unwrap();
    drop((rows, server));

    let mut server = Server::on(&disk);
    let reason = "the schema of table k.t cannot be read: its record is missing; restore it from \
                  a backup or DROP it";
    for text in [
        "SELECT * FROM k.t",
        "SELECT count(*) FROM k.t WHERE p = 1",
        "INSERT INTO k.t (p) VALUES (1)",
        "INSERT INTO k.t JSON '{\"p\": 1}'",
        "UPDATE k.t SET v = 1 WHERE p = 1",
        "DELETE FROM k.t WHERE p = 1",
        "BEGIN BATCH INSERT INTO k.other (p) VALUES (1); DELETE FROM k.t WHERE p = 1; APPLY BATCH",
        "TRUNCATE k.t",
        "ALTER TABLE k.t ADD w int",
        "ALTER TABLE IF EXISTS k.t ADD w int",
        "CREATE TABLE k.t (p int PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS k.t (p int PRIMARY KEY)",
        "CREATE INDEX ON k.t (v)",
        // The unreadable table may have an index of the name.
        "CREATE INDEX ON k.other (v)",
        "CREATE INDEX IF NOT EXISTS i ON k.other (v)",
        "CREATE SNAPSHOT s ON TABLE k.t",
        "DESCRIBE TABLE k.t",
        "DESCRIBE k.t",
        // The unreadable table may have the index.
        "DROP INDEX k.i",
        "DROP INDEX IF EXISTS k.i",
    ] {
        let error = error(&mut server, text);
        assert_eq!(
            (error.kind.code(), &*error.message),
            (INVALID, reason),
            "{text}"
        );
    }
    // The columns of the unreadable table are unknown, so it may use any type of its keyspace.
    for text in [
        "ALTER TYPE k.u ADD b int",
        "ALTER TYPE k.u RENAME a TO b",
        "DROP TYPE k.u",
    ] {
        let refused = server.refused(text);
        assert!(refused.contains(reason), "{text}: {refused}");
    }
    // Everything else goes on.
    server.run("INSERT INTO k.other (p, v) VALUES (3, 4)");
    server.run("ALTER TABLE k.other ADD w int");
    server.run("CREATE TYPE k.another (a int)");
    server.run("CREATE SNAPSHOT s ON KEYSPACE k");
    assert_eq!(server.rows("SELECT p, v, w FROM k.other"), "3 4 null");
    let described = server.rows("DESCRIBE KEYSPACE k");
    assert!(
        described.contains(&format!("Warning: {reason}")),
        "{described}"
    );
    let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'k'";
    assert_eq!(server.rows(tables), "other");
    // The rows are readable again once the record is restored.
    let rows = stored(&server, "k", "t");
    rows.put(SCHEMA_KEY, &record).unwrap();
    drop((rows, server));
    let mut server = Server::on(&disk);
    assert_eq!(server.rows("SELECT p, v FROM k.t"), "1 2");
    stored(&server, "k", "t").put(SCHEMA_KEY, b"{}").unwrap();
    drop(server);

    let mut server = Server::on(&disk);
    server.run("DROP TABLE k.t");
    server.run("DROP TABLE IF EXISTS k.t");
    server.run("DROP INDEX IF EXISTS k.i");
    server.run("CREATE TABLE k.t (p int PRIMARY KEY)");
    server.run("ALTER TYPE k.u ADD b int");
    drop(server);
    assert_eq!(Server::on(&disk).rows("SELECT p FROM k.t"), "");
}

/// Regression: CREATE TABLE accepted the id of an unreadable table. Once that table was readable again,
/// two tables had the id.
#[test]
fn create_table_refuses_an_id_that_an_unreadable_table_may_have() {
    let (disk, server) = with(&["CREATE TABLE k.t (p int PRIMARY KEY)"]);
    let rows = stored(&server, "k", "t");
    rows.delete(SCHEMA_KEY).unwrap();
    drop((rows, server));

    let mut server = Server::on(&disk);
    let create = |table: &str| {
        let id = "5a1c395e-b41f-11e5-9f22-ba0be0483c18";
        format!("CREATE TABLE {table} (p int PRIMARY KEY) WITH ID = {id}")
    };
    let refused = server.refused(&create("k.new"));
    let reason = "the schema of table k.t cannot be read: ";
    assert!(refused.starts_with(reason), "{refused}");
    server.run("CREATE TABLE k.random (p int PRIMARY KEY)");
    server.run("DROP TABLE k.t");
    server.run(&create("k.new"));
    server.run(&KEYSPACE.replace("KEYSPACE k", "KEYSPACE other"));
    stored(&server, "ebb_system", "keyspaces")
        .put(b"k", b"\x01{}")
        .unwrap();
    drop(server);

    let mut server = Server::on(&disk);
    let refused = server.refused(&create("other.new"));
    let reason = "the schema of keyspace k cannot be read: ";
    assert!(refused.starts_with(reason), "{refused}");
}

#[test]
fn every_statement_on_an_unreadable_keyspace_gets_the_reason() {
    let (disk, server) = with(&["CREATE TABLE k.t (p int PRIMARY KEY, v int)"]);
    stored(&server, "ebb_system", "keyspaces")
        .put(b"k", b"\x01{}")
        .unwrap();
    drop(server);
    let mut server = Server::on(&disk);
    let create = KEYSPACE.replace("KEYSPACE k", "KEYSPACE IF NOT EXISTS k");
    for text in [
        KEYSPACE,
        create.as_str(),
        "ALTER KEYSPACE k WITH durable_writes = false",
        "ALTER KEYSPACE IF EXISTS k WITH durable_writes = false",
        "USE k",
        "SELECT * FROM k.t",
        "SELECT * FROM k.t USING SNAPSHOT s",
        "INSERT INTO k.t (p) VALUES (1)",
        "TRUNCATE k.t",
        "CREATE TABLE k.x (p int PRIMARY KEY)",
        "ALTER TABLE IF EXISTS k.t ADD w int",
        "DROP TABLE IF EXISTS k.t",
        "CREATE TYPE k.u (a int)",
        "DROP TYPE IF EXISTS k.u",
        "CREATE INDEX ON k.t (v)",
        "DROP INDEX IF EXISTS k.i",
        "CREATE SNAPSHOT s ON KEYSPACE k",
        "DROP SNAPSHOT IF EXISTS s ON KEYSPACE k",
        "DESCRIBE KEYSPACE k",
    ] {
        let error = error(&mut server, text);
        assert_eq!(error.kind.code(), INVALID, "{text}: {error}");
        let reason = "the schema of keyspace k cannot be read: ";
        assert!(error.message.starts_with(reason), "{text}: {error}");
    }
    let warning = "Warning: the schema of keyspace k cannot be read: ";
    let described = server.rows("DESCRIBE SCHEMA");
    assert!(described.contains(warning), "{described}");
    let described = server.rows("DESCRIBE KEYSPACES");
    assert!(described.contains("k keyspace k"), "{described}");
    server.run("DROP KEYSPACE k");
    assert!(!server.rows("DESCRIBE SCHEMA").contains(warning));
    server.run(KEYSPACE);
    server.run("CREATE TABLE k.t (p int PRIMARY KEY)");
    drop(server);
    assert_eq!(Server::on(&disk).rows("SELECT p FROM k.t"), "");
}

#[test]
fn statements_on_an_unreadable_type_get_the_reason() {
    let (disk, server) = with(&[
        "CREATE TYPE k.u (a int)",
        "CREATE TABLE k.t (p int PRIMARY KEY, v frozen<u>)",
        "INSERT INTO k.t (p, v) VALUES (1, {a: 2})",
    ]);
    let records = stored(&server, "ebb_system", "keyspaces");
    let record = records.get(b"k").unwrap().unwrap();
    let text = std::str::from_utf8(&record).unwrap();
    let damaged = text.replace("[\"a\",\"int\"]", "[\"a\",\"frozen<int>\"]");
    records.put(b"k", damaged.as_bytes()).unwrap();
    drop((records, server));

    let mut server = Server::on(&disk);
    for text in [
        "CREATE TYPE k.u (a int)",
        "CREATE TYPE IF NOT EXISTS k.u (a int)",
        "ALTER TYPE k.u ADD b int",
        "CREATE TYPE k.w (x frozen<u>)",
        "CREATE TABLE k.x (p int PRIMARY KEY, v frozen<u>)",
        "DESCRIBE TYPE k.u",
    ] {
        let error = error(&mut server, text);
        assert_eq!(error.kind.code(), INVALID, "{text}: {error}");
        let reason = "the schema of type k.u cannot be read: frozen<> is only allowed on";
        assert!(error.message.starts_with(reason), "{text}: {error}");
    }
    // The table's record contains the type as it was.
    assert_eq!(server.rows("SELECT v.a FROM k.t"), "2");
    let refused = server.refused("DROP TYPE k.u");
    assert!(refused.contains("still used by tables t"), "{refused}");
    server.run("DROP TABLE k.t");
    server.run("DROP TYPE k.u");
    server.run("CREATE TYPE k.u (a int)");
}

/// Returns the CREATE TABLE that DESCRIBE prints for a table.
fn described(server: &Server, table: &str) -> String {
    let state = server.executor.catalog().state();
    let keyspace = state.schema().keyspace("k").unwrap();
    keyspace.table(table).unwrap().describe(true)
}

#[test]
fn described_statements_with_deep_types_and_odd_options_are_accepted() {
    let (_, mut server) = with(&[]);
    let deep = |lists: usize| {
        let (open, close) = ("list<".repeat(lists), ">".repeat(lists));
        format!("frozen<{open}int{close}>")
    };
    let create = |lists| format!("CREATE TABLE k.t (p int PRIMARY KEY, c {})", deep(lists));
    for lists in [50, 63] {
        let refused = server.refused(&create(lists));
        assert!(refused.contains("100 levels deep at most"), "{refused}");
    }
    let options = "min_index_interval = '+128' AND crc_check_chance = '.5' AND \
                   bloom_filter_fp_chance = '1e-4' AND cdc = 'YES' AND extensions = {'a': 0XFF}";
    server.run(&format!("{} WITH {options}", create(49)));
    let printed = described(&server, "t");
    server.run("DROP TABLE k.t");
    server.run(&printed);
    assert_eq!(described(&server, "t"), printed);
}

/// Regression: tables with durations within elements of sets or keys of maps could be created, as
/// in Cassandra, but INSERT rejected their rows.
#[test]
fn durations_within_elements_of_sets_and_keys_of_maps_are_stored() {
    let (disk, mut server) = with(&[
        "CREATE TYPE k.u (a int)",
        "CREATE TABLE k.t (p int PRIMARY KEY, s set<frozen<tuple<int, duration>>>, \
             m map<frozen<tuple<int, duration>>, int>, u set<frozen<u>>)",
        "ALTER TYPE k.u ADD d duration",
        "INSERT INTO k.t (p, s, m, u) VALUES (1, {(1, 2h), (1, 1h)}, {(1, 1h): 5}, \
             {{a: 1, d: 1mo}})",
        "UPDATE k.t SET s = s - {(1, 2h)}, m[(2, 2h)] = 6 WHERE p = 1",
    ]);
    let found = [
        ("s CONTAINS (1, 1h)", "1"),
        ("s CONTAINS (1, 2h)", ""),
        ("m CONTAINS KEY (1, 1h)", "1"),
        ("m CONTAINS KEY (2, 2h)", "1"),
        ("m CONTAINS KEY (1, 2h)", ""),
        ("u CONTAINS {a: 1, d: 1mo}", "1"),
        ("u CONTAINS {a: 1, d: 2mo}", ""),
    ];
    let check = |server: &mut Server| {
        for (relation, expected) in found {
            let select = format!("SELECT p FROM k.t WHERE {relation} ALLOW FILTERING");
            assert_eq!(server.rows(&select), expected, "{relation}");
        }
    };
    check(&mut server);
    drop(server);
    check(&mut Server::on(&disk));
}

#[test]
fn durations_as_elements_or_keys_are_rejected_in_every_statement() {
    let tables = [
        "CREATE TYPE k.u (a int)",
        "CREATE TABLE k.t (p int PRIMARY KEY)",
    ];
    let (_, mut server) = with(&tables);
    let cases = "
        set<duration> => Durations are not allowed inside sets: set<duration>
        map<duration, int> => Durations are not allowed as map keys: map<duration, int>
        frozen<set<duration>> => Durations are not allowed inside sets: frozen<set<duration>>
    ";
    for [ty, message] in parse_cases(cases) {
        for statement in [
            format!("CREATE TABLE k.x (p int PRIMARY KEY, c {ty})"),
            format!("ALTER TABLE k.t ADD c {ty}"),
            format!("CREATE TYPE k.x (c {ty})"),
            format!("ALTER TYPE k.u ADD c {ty}"),
        ] {
            assert_eq!(server.refused(&statement), message, "{statement}");
        }
    }
}

/// Regression: a column, type or index with a name of more than 65,535 bytes could be created.
/// From then on no client could read `system_schema`, so that no driver could connect.
#[test]
fn names_longer_than_4096_bytes_are_refused_in_every_statement() {
    let (_, mut server) = with(&[
        "CREATE TYPE k.u (a int)",
        "CREATE TABLE k.t (p int PRIMARY KEY, v int)",
    ]);
    let refused = |kind: &str, bytes: usize| {
        format!("{kind} name must not be more than 4096 bytes long (got {bytes} bytes)")
    };
    let long = "x".repeat(65_600);
    for (statement, kind) in [
        ("CREATE TABLE k.x (p int PRIMARY KEY, $ int)", "Column"),
        ("CREATE TABLE k.x ($ int PRIMARY KEY)", "Column"),
        ("ALTER TABLE k.t ADD $ int", "Column"),
        ("ALTER TABLE k.t RENAME p TO $", "Column"),
        ("CREATE INDEX $ ON k.t (v)", "Index"),
        ("CREATE TYPE k.$ (a int)", "Type"),
        ("CREATE TYPE k.x ($ int)", "Field"),
        ("ALTER TYPE k.u ADD $ int", "Field"),
        ("ALTER TYPE k.u RENAME a TO $", "Field"),
    ] {
        let message = server.refused(&statement.replace('$', &long));
        assert_eq!(message, refused(kind, long.len()), "{statement}");
    }
    // The longest name is accepted. The default name of an index on the column is longer.
    let longest = "x".repeat(4096);
    server.run(&format!("ALTER TABLE k.t ADD {longest} int"));
    let message = server.refused(&format!("CREATE INDEX ON k.t ({longest})"));
    assert_eq!(message, refused("Index", "t__idx".len() + longest.len()));
    server.run(&format!("CREATE INDEX i ON k.t ({longest})"));
    server.run(&format!("CREATE TYPE k.{longest} ({longest} int)"));
}

/// Regression: an earlier version did not limit the length of names. With its long names every
/// SELECT of all rows of a table of `system_schema` failed with "The sum of all clustering columns
/// is too long", and the response to ALTER TYPE panicked.
#[test]
fn system_schema_leaves_out_objects_whose_stored_names_are_too_long() {
    let (disk, server) = with(&[
        "CREATE TYPE k.u (a int)",
        "CREATE TABLE k.t (p int PRIMARY KEY, v int)",
        "CREATE INDEX i ON k.t (v)",
    ]);
    server.wait_until_all_built();
    let long = "x".repeat(65_600);
    let rename = |table: &Table, key: &[u8], names: &[&str]| {
        let record = table.get(key).unwrap().unwrap();
        let mut text = std::str::from_utf8(&record).unwrap().to_owned();
        for name in names {
            let (old, new) = (
                format!("\"name\":\"{name}\""),
                format!("\"name\":\"{long}\""),
            );
            assert!(text.contains(&old), "{name}");
            text = text.replace(&old, &new);
        }
        table.put(key, text.as_bytes()).unwrap();
    };
    rename(&stored(&server, "k", "t"), SCHEMA_KEY, &["v", "i"]);
    rename(&stored(&server, "ebb_system", "keyspaces"), b"k", &["u"]);
    drop(server);

    let mut server = Server::on(&disk);
    let rows_of_k = |server: &mut Server, column: &str, table: &str| {
        server.rows(&format!("SELECT * FROM system_schema.{table}"));
        server.rows(&format!(
            "SELECT {column} FROM system_schema.{table} WHERE keyspace_name = 'k'"
        ))
    };
    assert_eq!(rows_of_k(&mut server, "column_name", "columns"), "p");
    assert_eq!(rows_of_k(&mut server, "type_name", "types"), "");
    assert_eq!(rows_of_k(&mut server, "index_name", "indexes"), "");
    assert_eq!(server.rows("SELECT * FROM system.\"IndexInfo\""), "");
    server.run(&format!("INSERT INTO k.t (p, {long}) VALUES (1, 2)"));
    assert_eq!(server.rows(&format!("SELECT {long} FROM k.t")), "2");
    server.run(&format!("DROP INDEX k.{long}"));
    server.run(&format!("ALTER TABLE k.t DROP {long}"));
    let dropped = rows_of_k(&mut server, "column_name", "dropped_columns");
    assert_eq!(dropped, "");
    server.run(&format!("ALTER TYPE k.{long} ADD b int"));
    server.run(&format!("DROP TYPE k.{long}"));
}
