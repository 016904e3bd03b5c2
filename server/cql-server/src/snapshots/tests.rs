//! Statements about snapshots, and every way to name a snapshot.

use std::sync::mpsc::channel;
use std::thread;

use ebb_cql::syntax::ast::Statement;
use ebb_cql::syntax::parse;
use ebb_test_support::cases::parse_cases;

use super::*;
use crate::targets::{Target, readable, writable};
use crate::testing::Session;

const INVALID: i32 = 0x2200;

/// Returns the names of the columns that a SELECT from the table `t` of a keyspace reads, and the
/// time by which the read decides whether values have expired. This is the time of the snapshot in
/// milliseconds since 1970, or `None` for a live table.
fn read(session: &Session, keyspace: &str, snapshot: Option<&str>) -> (Vec<String>, Option<u64>) {
    let state = session.state();
    let db = session.catalog.db();
    let target = readable(db, &state, &session.system, (keyspace, "t"), snapshot);
    let (schema, time) = match target.unwrap_or_else(|error| panic!("{keyspace}: {error}")) {
        Target::Live(table) => (table.schema().clone(), None),
        Target::Snapshot(target) => (target.schema, Some(target.rows.read_time_ms())),
        Target::Virtual(table) => (table.schema().clone(), None),
    };
    let names = schema
        .columns()
        .iter()
        .map(|column| column.name.to_string());
    (names.collect(), time)
}

fn unreadable(session: &Session, keyspace: &str, table: &str) -> String {
    let state = session.state();
    let db = session.catalog.db();
    let target = readable(db, &state, &session.system, (keyspace, table), None);
    let error = target.expect_err("not there");
    assert_eq!(error.kind.code(), INVALID);
    error.message
}

fn listed(session: &Session, text: &str) -> Vec<String> {
    let Statement::ListSnapshots(statement) = parse(text).unwrap().statement else {
        panic!("{text}");
    };
    let listing = list(&session.context(), &statement).unwrap();
    let name = |row: &Vec<Option<Bytes>>| {
        let text = |cell: &Option<Bytes>| String::from_utf8(cell.clone().unwrap().into()).unwrap();
        format!("{}@{} {}", text(&row[0]), text(&row[1]), text(&row[2]))
    };
    listing.rows().iter().map(name).collect()
}

#[test]
fn each_name_of_a_snapshot_reads_it_with_the_columns_and_the_time_of_its_moment() {
    let mut session = Session::with_table();
    let created_ms = 1_700_000_000_000;
    session.run("CREATE SNAPSHOT s ON KEYSPACE app");
    session.clock.advance_ms(5_000);
    session.run("ALTER TABLE t DROP v");
    session.run("ALTER TABLE t ADD w text");
    let then = (
        vec!["k".to_string(), "c".into(), "s".into(), "v".into()],
        Some(created_ms),
    );
    for (keyspace, snapshot) in [("app", Some("s")), ("app@s", None), ("app__at__s", None)] {
        assert_eq!(read(&session, keyspace, snapshot), then, "{keyspace}");
        session.run(&format!("USE \"{keyspace}\""));
    }
    let now = read(&session, "app", None);
    assert_eq!(
        now,
        (
            vec!["k".to_string(), "c".into(), "s".into(), "w".into()],
            None
        )
    );
    // The snapshot outlives the table.
    session.run("DROP TABLE app.t");
    assert_eq!(read(&session, "app@s", None), then);
    assert_eq!(unreadable(&session, "app", "t"), "table t does not exist");
    assert_eq!(unreadable(&session, "app@s", "u"), "table u does not exist");
    assert_eq!(
        unreadable(&session, "other@s", "t"),
        "keyspace other does not exist"
    );
    assert_eq!(
        unreadable(&session, "app__at__x", "t"),
        "keyspace app__at__x does not exist"
    );
    assert_eq!(
        unreadable(&session, "app@x", "t"),
        "Snapshot 'x' of keyspace 'app' doesn't exist"
    );
    assert_eq!(
        unreadable(&session, "ebb_system", "node"),
        "keyspace ebb_system does not exist"
    );
}

#[test]
fn writes_to_snapshots_and_system_tables_are_rejected() {
    let mut session = Session::with_table();
    session.run("CREATE SNAPSHOT s ON KEYSPACE app");
    let write = |keyspace: &str, table: &str| {
        let state = session.state();
        let written = writable(&state, &session.system, (keyspace, table));
        written.map(|_| ()).map_err(|error| error.message)
    };
    assert_eq!(write("app", "t"), Ok(()));
    for keyspace in ["app@s", "app__at__s"] {
        let expected = format!(
            "Cannot write to {keyspace}.t: a snapshot never changes; write to the keyspace itself"
        );
        assert_eq!(write(keyspace, "t"), Err(expected));
    }
    let expected = "Modification is not supported by table system.local";
    assert_eq!(write("system", "local"), Err(expected.to_string()));
    assert_eq!(
        write("system", "x"),
        Err("table x does not exist".to_string())
    );
    assert_eq!(
        write("ebb_system", "node"),
        Err("keyspace ebb_system does not exist".to_string())
    );
    for text in [
        "DROP TABLE \"app@s\".t",
        "ALTER TABLE app__at__s.t ADD x int",
        "TRUNCATE \"app@s\".t",
        "DROP KEYSPACE \"app@s\"",
    ] {
        let (code, message) = session.refused(text);
        assert!(
            code == INVALID && message.contains("snapshot"),
            "{text}: {message}"
        );
    }
}

#[test]
fn an_alias_that_fits_two_snapshots_is_rejected() {
    let mut session = Session::with_table();
    session.run("CREATE KEYSPACE app__ WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    session.run("CREATE TABLE app__.t (k int PRIMARY KEY)");
    // app____at__x can be split in two ways.
    session.run("CREATE SNAPSHOT x ON KEYSPACE app__");
    assert_eq!(read(&session, "app____at__x", None).0, ["k"]);
    session.run("CREATE KEYSPACE app____at WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    session.run("CREATE TABLE app____at.t (k int PRIMARY KEY)");
    session.run("CREATE SNAPSHOT at__x ON KEYSPACE app__");
    session.run("CREATE SNAPSHOT x ON KEYSPACE app____at");
    // app__ + at__x, and app____at + x.
    let error = unreadable(&session, "app____at____at__x", "t");
    assert!(!error.is_empty());
    let refused = find(session.catalog.db(), &session.state(), "app____at__at__x");
    let refused = refused.expect_err("two snapshots").message;
    assert!(refused.contains("more than one snapshot"), "{refused}");
    assert_eq!(read(&session, "app____at@x", None).0, ["k"]);
}

#[test]
fn snapshots_are_created_listed_and_dropped() {
    let mut session = Session::with_table();
    session.run("CREATE TABLE u (k int PRIMARY KEY)");
    session.run("CREATE SNAPSHOT whole ON KEYSPACE app");
    session.run("CREATE SNAPSHOT IF NOT EXISTS whole ON KEYSPACE app");
    session.run("CREATE SNAPSHOT one ON TABLE app.t WITH ttl = '1h'");
    assert_eq!(
        session.refused("CREATE SNAPSHOT one ON KEYSPACE app"),
        (
            INVALID,
            "Snapshot 'one' of keyspace 'app' already exists".to_string()
        )
    );
    assert_eq!(
        listed(&session, "LIST SNAPSHOTS"),
        ["app@whole keyspace", "app@one table"]
    );
    assert_eq!(
        listed(&session, "LIST SNAPSHOTS ON TABLE u"),
        ["app@whole keyspace"]
    );
    let seen_columns = session.rows("system_views", "snapshots");
    assert_eq!(seen_columns.len(), 2);

    let cases = "
        CREATE SNAPSHOT s ON KEYSPACE other => keyspace other does not exist
        CREATE SNAPSHOT s ON KEYSPACE system => keyspace system cannot have snapshots
        // `system` exists in CQL, with virtual tables. `ebb_system`, with ebb's own records, does
        // not.
        CREATE SNAPSHOT s ON KEYSPACE ebb_system => keyspace ebb_system does not exist
        CREATE SNAPSHOT s ON TABLE app.x => table x does not exist
        DROP SNAPSHOT x ON KEYSPACE app => Snapshot 'x' of keyspace 'app' doesn't exist
        DROP SNAPSHOT whole ON TABLE app.t => Snapshot 'whole' of keyspace 'app' doesn't exist
    ";
    for [text, message] in parse_cases(cases) {
        let refused = (INVALID, message.to_string());
        assert_eq!(session.refused(text), refused, "{text}");
    }
    for text in [
        "CREATE SNAPSHOT s ON KEYSPACE app WITH ttl = 'soon'",
        "CREATE SNAPSHOT s ON KEYSPACE app WITH ttl = '0s'",
        "CREATE SNAPSHOT s ON KEYSPACE app WITH ttl = '1001 years'",
        "CREATE SNAPSHOT s ON KEYSPACE app WITH other = '1s'",
    ] {
        session.refused(text);
    }
    session.run("DROP SNAPSHOT whole");
    session.run("DROP SNAPSHOT IF EXISTS whole ON KEYSPACE app");
    session.run("DROP SNAPSHOT IF EXISTS whole ON KEYSPACE other");
    assert_eq!(
        listed(&session, "LIST SNAPSHOTS ON KEYSPACE app"),
        ["app@one table"]
    );
    // The TTL of an hour has passed.
    session.clock.advance_ms(3_600_001);
    assert_eq!(
        unreadable(&session, "app@one", "t"),
        "Snapshot 'one' of keyspace 'app' doesn't exist"
    );
}

/// Returns the columns that drivers see: keyspace, table, name and type.
fn seen_columns(session: &Session) -> Vec<String> {
    let text = |cell: &Option<Bytes>| String::from_utf8(cell.clone().unwrap().into()).unwrap();
    let column = |row: &Vec<Option<Bytes>>| {
        let [keyspace, table, name, ty] = [0, 1, 2, 7].map(|at| text(&row[at]));
        format!("{keyspace}.{table}.{name} {ty}")
    };
    let rows = session.rows("system_schema", "columns");
    let mut seen_columns: Vec<String> = rows.iter().map(column).collect();
    seen_columns.retain(|column| column.starts_with("app"));
    seen_columns.sort();
    seen_columns
}

fn names(session: &Session, table: &str) -> Vec<String> {
    let rows = session.rows("system_schema", table);
    let text = |row: &Vec<Option<Bytes>>| String::from_utf8(row[0].clone().unwrap().into());
    let mut names: Vec<String> = rows.iter().map(|row| text(row).unwrap()).collect();
    names.sort();
    names
}

#[test]
fn listed_snapshots_are_keyspaces_with_the_columns_of_their_moment() {
    let mut session = Session::with_table();
    // More than the keyspace has at any time. By default none is listed.
    session.catalog.set_listed_snapshots(32);
    session.run("CREATE TYPE p (x int)");
    let created = session.changes("CREATE SNAPSHOT s ON KEYSPACE app");
    let changes_of = |kind, targets: [SchemaTarget; 3]| {
        let change = |target| SchemaChange {
            kind,
            keyspace: "app@s".to_string(),
            target,
        };
        targets.map(change)
    };
    // Drivers read the tables of a keyspace one by one, on the event of each.
    let (ty, table) = (
        || SchemaTarget::Type("p".into()),
        || SchemaTarget::Table("t".into()),
    );
    let all = [SchemaTarget::Keyspace, ty(), table()];
    assert_eq!(created, changes_of(SchemaChangeKind::Created, all));
    assert_eq!(
        session.run("CREATE SNAPSHOT IF NOT EXISTS s ON KEYSPACE app"),
        None
    );
    session.run("ALTER TABLE t DROP v");
    session.run("ALTER TABLE t ADD later text");
    let expected = [
        "app.t.c text",
        "app.t.k int",
        "app.t.later text",
        "app.t.s blob",
        "app@s.t.c text",
        "app@s.t.k int",
        "app@s.t.s blob",
        "app@s.t.v int",
    ];
    // Twice, because the second response is from a cache.
    assert_eq!(seen_columns(&session), expected);
    assert_eq!(seen_columns(&session), expected);
    assert!(names(&session, "keyspaces").contains(&"app@s".to_string()));
    assert_eq!(names(&session, "types"), ["app", "app@s"]);
    assert!(names(&session, "tables").contains(&"app@s".to_string()));
    let dropped = session.changes("DROP SNAPSHOT s ON KEYSPACE app");
    let all = [table(), ty(), SchemaTarget::Keyspace];
    assert_eq!(dropped, changes_of(SchemaChangeKind::Dropped, all));
    assert_eq!(
        session.run("DROP SNAPSHOT IF EXISTS s ON KEYSPACE app"),
        None
    );
    assert_eq!(seen_columns(&session), expected[..4]);
    // A new snapshot of the same name is another snapshot.
    session.run("CREATE SNAPSHOT s ON KEYSPACE app");
    assert!(seen_columns(&session).contains(&"app@s.t.later text".to_string()));
}

#[test]
fn the_schema_version_depends_on_the_listed_snapshots() {
    let mut session = Session::with_table();
    session.catalog.set_listed_snapshots(32);
    let version = |session: &Session| session.catalog.version(&session.state());
    let without = version(&session);
    assert_eq!(without, session.state().version());
    session.run("CREATE SNAPSHOT s ON KEYSPACE app WITH ttl = '1h'");
    let with = version(&session);
    assert_ne!(with, without);
    session.run("CREATE SNAPSHOT u ON KEYSPACE app");
    assert_ne!(version(&session), with);
    session.run("DROP SNAPSHOT u ON KEYSPACE app");
    assert_eq!(version(&session), with);
    session.clock.advance_ms(3_600_001);
    assert_eq!(version(&session), without, "it has expired");
}

#[test]
fn the_newest_snapshots_are_listed_and_announced() {
    let mut session = Session::with_table();
    session.catalog.set_listed_snapshots(2);
    let keyspace_events = |session: &mut Session, text: &str| {
        let events = session.changes(text).into_iter();
        let events = events.filter(|event| event.target == SchemaTarget::Keyspace);
        let events: Vec<_> = events.map(|event| (event.kind, event.keyspace)).collect();
        events
    };
    let (created, dropped) = (SchemaChangeKind::Created, SchemaChangeKind::Dropped);
    for n in 0..2 {
        session.run(&format!("CREATE SNAPSHOT s{n} ON KEYSPACE app"));
    }
    // Regression: the snapshot that was no longer listed had no event, so drivers kept it.
    assert_eq!(
        keyspace_events(&mut session, "CREATE SNAPSHOT s2 ON KEYSPACE app"),
        [(created, "app@s2".into()), (dropped, "app@s0".into())]
    );
    let mut keyspaces = names(&session, "keyspaces");
    keyspaces.retain(|name| name.contains('@'));
    assert_eq!(keyspaces, ["app@s1", "app@s2"]);
    // The snapshot can be read although it is not listed.
    read(&session, "app@s0", None);
    assert_eq!(
        keyspace_events(&mut session, "DROP SNAPSHOT s1 ON KEYSPACE app"),
        [(dropped, "app@s1".into()), (created, "app@s0".into())]
    );
    session.run("CREATE SNAPSHOT s3 ON KEYSPACE app");
    assert_eq!(session.changes("DROP SNAPSHOT s0 ON KEYSPACE app"), []);
    let events = session.changes("DROP SNAPSHOT s2 ON KEYSPACE app");
    assert_eq!(events.len(), 2);
}

#[test]
fn unlisted_snapshots_change_nothing_that_drivers_see() {
    let mut session = Session::with_table();
    let seen = |session: &Session| {
        (
            seen_columns(session),
            session.catalog.version(&session.state()),
        )
    };
    let before = seen(&session);
    assert_eq!(session.changes("CREATE SNAPSHOT s ON KEYSPACE app"), []);
    assert_eq!(seen(&session), before);
    assert_eq!(session.changes("DROP SNAPSHOT s ON KEYSPACE app"), []);
}

#[test]
fn a_snapshot_of_many_tables_causes_a_single_event() {
    let mut session = Session::with_table();
    session.catalog.set_listed_snapshots(3);
    for n in 1..OBJECT_EVENTS_MAX {
        session.run(&format!("CREATE TABLE t{n} (k int PRIMARY KEY)"));
    }
    let create = |name: &str| format!("CREATE SNAPSHOT {name} ON KEYSPACE app");
    let events = session.changes(&create("all"));
    assert_eq!(events.len(), 1 + OBJECT_EVENTS_MAX);
    session.run("CREATE TABLE one_more (k int PRIMARY KEY)");
    assert_eq!(session.changes(&create("more")).len(), 1);
    let events = session.changes("DROP SNAPSHOT more ON KEYSPACE app");
    assert_eq!(events.len(), 1);
    let one = session.changes("CREATE SNAPSHOT one ON TABLE app.t");
    assert_eq!(one[1].target, SchemaTarget::Table("t".into()));
    assert_eq!(one.len(), 2);
}

/// Regression: DROP SNAPSHOT checked the permission before it took the catalog's lock. Another
/// snapshot of the same name, which the user may not drop, could replace the checked one before the
/// deletion.
#[test]
fn the_permission_to_drop_a_snapshot_is_checked_under_the_lock_of_the_drop() {
    let mut session = Session::with_table();
    session.run("CREATE SNAPSHOT s ON TABLE t");
    let statement = parse("DROP SNAPSHOT s ON KEYSPACE app").unwrap().statement;
    let mut other = None;
    let check = |covered: Resource| {
        assert_eq!(covered, Resource::table("app", "t"));
        let catalog = session.catalog.clone();
        let (sender, begun) = channel();
        other = Some(thread::spawn(move || {
            sender.send(()).unwrap();
            catalog.exclusively(|_| {
                let app = catalog.db().existing_keyspace("app").unwrap();
                app.snapshot_names()
            })
        }));
        begun.recv().unwrap();
        // Without the lock, the other thread gets the time to take it first.
        for _ in 0..1000 {
            thread::yield_now();
        }
        Ok(())
    };
    let mut out = BytesMut::new();
    execute(&session.context(), &statement, check, &mut out).unwrap();
    let seen = other.unwrap().join().unwrap();
    assert!(seen.is_empty(), "{seen:?}");
}

#[test]
fn a_snapshot_stays_if_its_drop_is_not_permitted() {
    let mut session = Session::with_table();
    session.run("CREATE SNAPSHOT s ON TABLE t");
    session.run("DROP TABLE t");
    for (text, covered) in [
        (
            "DROP SNAPSHOT s ON TABLE t",
            Resource::AllTables("app".into()),
        ),
        ("DROP SNAPSHOT x ON TABLE t", Resource::table("app", "t")),
        ("DROP SNAPSHOT IF EXISTS x", Resource::keyspace("app")),
    ] {
        let statement = parse(text).unwrap().statement;
        let refuse = |on: Resource| {
            assert_eq!(on, covered, "{text}");
            Err(ErrorResponse::unauthorized("no"))
        };
        let refused = execute(&session.context(), &statement, refuse, &mut BytesMut::new());
        assert_eq!(refused.unwrap_err().message, "no", "{text}");
    }
    assert_eq!(listed(&session, "LIST SNAPSHOTS"), ["app@s table"]);
}
