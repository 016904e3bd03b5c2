//! Statements about the schema: their changes, their events and their errors.

mod options;
mod reopening;

use ebb_storage::simulation::MemDisk;
use ebb_tables::names::is_reserved;
use ebb_test_support::cases::parse_cases;

use crate::testing::Session;

const INVALID: i32 = 0x2200;
const CONFIG: i32 = 0x2300;
const EXISTS: i32 = 0x2400;
const SYNTAX: i32 = 0x2000;

/// Returns the code with this name in a table of cases.
fn code_of(name: &str) -> i32 {
    match name {
        "INVALID" => INVALID,
        "CONFIG" => CONFIG,
        "EXISTS" => EXISTS,
        "SYNTAX" => SYNTAX,
        _ => panic!("{name} is no code"),
    }
}

#[test]
fn each_statement_returns_its_change_after_the_change() {
    let mut session = Session::new();
    let mut version = session.state().version();
    let cases = r#"
        CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}
        => Created Keyspace
        CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy'} => no change
        ALTER KEYSPACE ks WITH durable_writes = false => Updated Keyspace
        ALTER KEYSPACE IF EXISTS other WITH durable_writes = false => no change
        CREATE TYPE ks.p (x int, y int) => Created Type("p")
        CREATE TYPE IF NOT EXISTS ks.p (x int) => no change
        ALTER TYPE ks.p ADD z double => Updated Type("p")
        ALTER TYPE ks.p RENAME x TO a AND y TO b => Updated Type("p")
        CREATE TABLE ks.u (k int PRIMARY KEY, v frozen<p>) => Created Table("u")
        CREATE TABLE IF NOT EXISTS ks.u (k int PRIMARY KEY) => no change
        ALTER TABLE ks.u ADD a int => Updated Table("u")
        ALTER TABLE ks.u ADD IF NOT EXISTS a int => no change
        ALTER TABLE ks.u DROP a => Updated Table("u")
        ALTER TABLE ks.u DROP IF EXISTS a => no change
        ALTER TABLE ks.u RENAME k TO key => Updated Table("u")
        ALTER TABLE ks.u WITH comment = 'x' AND gc_grace_seconds = 9 => Updated Table("u")
        ALTER TABLE IF EXISTS ks.other ADD a int => no change
        DROP TABLE ks.u => Dropped Table("u")
        DROP TABLE IF EXISTS ks.u => no change
        DROP TYPE ks.p => Dropped Type("p")
        DROP TYPE IF EXISTS ks.p => no change
        DROP INDEX IF EXISTS ks.i => no change
        DROP KEYSPACE ks => Dropped Keyspace
        DROP KEYSPACE IF EXISTS ks => no change
    "#;
    for [text, expected] in parse_cases(cases) {
        let change = session.run(text);
        let shown = change.as_ref().map(|change| {
            assert_eq!(change.keyspace, "ks", "{text}");
            format!("{:?} {:?}", change.kind, change.target)
        });
        assert_eq!(shown.as_deref().unwrap_or("no change"), expected, "{text}");
        let next = session.state().version();
        assert_eq!(next != version, change.is_some(), "version after {text}");
        version = next;
    }
}

#[test]
fn changes_survive_a_restart() {
    let disk = MemDisk::new();
    let mut session = Session::on(&disk);
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}",
        "USE ks",
        "CREATE TYPE p (x int, y frozen<list<text>>)",
        "CREATE TABLE t (a int, b text, c timeuuid, s int STATIC, v map<text, frozen<p>>, \
         PRIMARY KEY ((a, b), c)) WITH CLUSTERING ORDER BY (c DESC) AND default_time_to_live = 60 \
         AND compaction = {'class': 'LeveledCompactionStrategy'} \
         AND id = 5a1c395e-b41f-11e5-9f22-ba0be0483c18",
        "ALTER TYPE p ADD z int",
    ] {
        session.run(text);
    }
    let state = session.state();
    let table = state.table("ks", "t").unwrap().schema().clone();
    assert_eq!(table.options().default_time_to_live_secs(), 60);
    assert_eq!(
        table.id().to_string(),
        "5a1c395e-b41f-11e5-9f22-ba0be0483c18"
    );
    let text = table.describe(false);
    for part in [
        "PRIMARY KEY ((a, b), c)",
        "CLUSTERING ORDER BY (c DESC)",
        "'org.apache.cassandra.db.compaction.LeveledCompactionStrategy', 'max_threshold': '32', \
         'min_threshold': '4'}",
        "s int static",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let keyspace = state.schema().keyspace("ks").unwrap();
    assert_eq!(keyspace.replication()["datacenter1"], "1");
    let schema = state.schema().clone();
    // The tables in them hold the database open.
    drop((session, state));
    let again = Session::on(&disk);
    assert_eq!(*again.state().schema(), schema);
}

#[test]
fn invalid_keyspaces_get_cassandras_errors() {
    let mut session = Session::with_table();
    let simple = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    let cases = "
        CREATE KEYSPACE app WITH replication = SIMPLE => EXISTS
        => Cannot add existing keyspace \"app\"
        CREATE KEYSPACE a WITH durable_writes = true => INVALID
        => Missing mandatory option 'replication'
        CREATE KEYSPACE a WITH replication = {'replication_factor': 1} => CONFIG
        => Missing replication strategy class
        ALTER KEYSPACE app WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': \
           0} => CONFIG
        => Configuration for at least one datacenter must be present
        CREATE KEYSPACE a WITH replication = {'class': 'Other'} => CONFIG
        => Unable to find replication strategy class 'org.apache.cassandra.locator.Other'
        CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': \
           'x'} => CONFIG
        => Replication factor must be numeric; found x
        CREATE KEYSPACE a WITH replication = SIMPLE AND foo = 1 => SYNTAX => Unknown property 'foo'
        CREATE KEYSPACE system WITH replication = SIMPLE => INVALID
        => System keyspace 'system' is not user-modifiable
        CREATE KEYSPACE ebb_system WITH replication = SIMPLE => INVALID
        => System keyspace 'ebb_system' is not user-modifiable
        DROP KEYSPACE system_views => INVALID
        => Virtual keyspace 'system_views' is not user-modifiable
        DROP KEYSPACE b => INVALID => Keyspace 'b' doesn't exist
        ALTER KEYSPACE b WITH durable_writes = true => INVALID => Keyspace 'b' doesn't exist
        USE b => INVALID => Keyspace 'b' does not exist
        CREATE KEYSPACE a__at__b WITH replication = SIMPLE => INVALID
        => Keyspace name 'a__at__b' would read as the name of a snapshot: KEYSPACE__at__SNAPSHOT
    ";
    for [text, code, message] in parse_cases(&cases.replace("SIMPLE", simple)) {
        let refused = (code_of(code), message.to_string());
        assert_eq!(session.refused(text), refused, "{text}");
    }
    let refused = session.refused(&format!(
        "CREATE KEYSPACE \"a-b\" WITH replication = {simple}"
    ));
    let message = "Keyspace name must not be empty, more than 48 characters long, or contain \
                   non-alphanumeric-underscore characters (got 'a-b')";
    assert_eq!(refused, (INVALID, message.to_string()));
}

/// Regression: every name that begins with `system` was refused.
#[test]
fn only_the_names_of_system_keyspaces_are_reserved() {
    let mut session = Session::with_table();
    let simple = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    let create = |name: &str| format!("CREATE KEYSPACE {name} WITH replication = {simple}");
    for name in ["systems", "system_of_record", "system_"] {
        session.run(&create(name));
        session.run(&format!("CREATE TABLE {name}.t (k int PRIMARY KEY)"));
        session.run(&format!("DROP KEYSPACE {name}"));
    }
    for (name, kind) in [
        ("ebb_system", "System"),
        ("system", "System"),
        ("system_auth", "System"),
        ("system_distributed", "System"),
        ("system_schema", "System"),
        ("system_traces", "System"),
        ("system_views", "Virtual"),
        ("system_virtual_schema", "Virtual"),
    ] {
        let message = format!("{kind} keyspace '{name}' is not user-modifiable");
        assert_eq!(session.refused(&create(name)), (INVALID, message));
    }
    assert!(session.system.keyspaces().all(is_reserved));
}

/// Regression: ALTER KEYSPACE refused a replication without a number of copies. A
/// `replication_factor` replaced the numbers of copies that data centers had of their own.
#[test]
fn alter_keyspace_keeps_the_number_of_copies_as_in_cassandra() {
    let mut session = Session::new();
    session.run(
        "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
    );
    for (written, shown) in [
        ("'SimpleStrategy'", &[("replication_factor", "2")][..]),
        ("'NetworkTopologyStrategy'", &[("datacenter1", "2")]),
        ("'NetworkTopologyStrategy'", &[("datacenter1", "2")]),
        (
            "'NetworkTopologyStrategy', 'replication_factor': 3",
            &[("datacenter1", "2")],
        ),
        (
            "'NetworkTopologyStrategy', 'datacenter1': 3, 'dc2': 1",
            &[("datacenter1", "3"), ("dc2", "1")],
        ),
        (
            "'NetworkTopologyStrategy', 'replication_factor': 4, 'datacenter1': 0",
            &[("dc2", "1")],
        ),
        ("'SimpleStrategy'", &[("replication_factor", "1")]),
        (
            "'NetworkTopologyStrategy', 'replication_factor': 5",
            &[("datacenter1", "5")],
        ),
    ] {
        session.run(&format!(
            "ALTER KEYSPACE a WITH replication = {{'class': {written}}}"
        ));
        let state = session.state();
        let mut replication = state.schema().keyspace("a").unwrap().replication().clone();
        replication.remove("class");
        let options = replication.iter();
        let options: Vec<_> = options
            .map(|(name, copies)| (&name[..], &copies[..]))
            .collect();
        assert_eq!(options, shown, "{written}");
    }
}

#[test]
fn more_copies_than_nodes_cause_a_warning() {
    let mut session = Session::new();
    let warnings = session.warnings(
        "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
    );
    let warning = "Your replication factor 3 for keyspace a is higher than the number of nodes 1";
    assert_eq!(warnings, [warning]);
    let none = session.warnings(
        "ALTER KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    assert!(none.is_empty());
}

#[test]
fn invalid_tables_and_types_get_cassandras_errors() {
    let mut session = Session::with_table();
    session.run("CREATE TYPE p (x int)");
    session.run("CREATE TABLE uses (k frozen<p> PRIMARY KEY, v p)");
    let cases = "
        CREATE TABLE a.t (k int PRIMARY KEY) => Keyspace 'a' doesn't exist
        CREATE TABLE u (k int) => No PRIMARY KEY specifed for table 'u' (exactly one required)
        CREATE TABLE u (k int PRIMARY KEY, v foo) => Unknown type app.foo
        CREATE TABLE u (k int PRIMARY KEY, v other.foo)
        => Statement on keyspace app cannot refer to a user type in keyspace other; user types can \
           only be used in the keyspace they are defined in
        CREATE TABLE u (k int PRIMARY KEY, v frozen<int>)
        => frozen<> is only allowed on collections, tuples, and user-defined types (got int)
        CREATE TABLE u (k int PRIMARY KEY, v list<list<int>>)
        => Non-frozen collections are not allowed inside collections: list<list<int>>
        CREATE TABLE u (k list<int> PRIMARY KEY)
        => Invalid non-frozen collection type list<int> for PRIMARY KEY column 'k'
        CREATE TABLE u (k int, c int, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC, c ASC)
        => Duplicate column 'c' in CLUSTERING ORDER BY clause for table 'u'
        ALTER TABLE u ADD a int => Table 'app.u' doesn't exist
        ALTER TABLE t ADD v int => Column with name 'v' already exists
        ALTER TABLE t DROP k => Cannot drop PRIMARY KEY column k
        ALTER TABLE t DROP x => Column x was not found in table 'app.t'
        ALTER TABLE uses DROP v => Cannot drop non-frozen column v of user type p
        ALTER TABLE t ALTER v TYPE text => Altering column types is no longer supported
        ALTER TABLE t RENAME v TO w => Cannot rename non PRIMARY KEY column v
        DROP TABLE u => Table 'app.u' doesn't exist
        TRUNCATE u => table u does not exist
        TRUNCATE other.u => keyspace other does not exist
        TRUNCATE system.local => Cannot truncate virtual tables
        CREATE TYPE p (x int) => A user type with name 'p' already exists
        CREATE TYPE q (x int, x int) => Duplicate field name 'x' in type 'q'
        CREATE TYPE q (x counter) => A user type cannot contain counters
        ALTER TYPE q ADD a int => Type app.q doesn't exist
        ALTER TYPE p ADD x int
        => Cannot add field x to type app.p: a field with name x already exists
        ALTER TYPE p ALTER x TYPE text => Altering field types is no longer supported
        DROP TYPE q => Type 'app.q' doesn't exist
        DROP TYPE p => Cannot drop user type 'app.p' as it is still used by tables uses
        CREATE CUSTOM INDEX ON t (v) USING 'StorageAttachedIndex'
        => CUSTOM indexes are not supported (StorageAttachedIndex); an index without CUSTOM and \
           USING serves = and CONTAINS
        CREATE TABLE system.t (k int PRIMARY KEY) => System keyspace 'system' is not user-modifiable
    ";
    for [text, message] in parse_cases(cases) {
        let refused = (INVALID, message.to_string());
        assert_eq!(session.refused(text), refused, "{text}");
    }
    let cases = "
        CREATE TABLE t (k int PRIMARY KEY) => EXISTS
        => Cannot add already existing table \"t\" to keyspace \"app\"
        ALTER TABLE t WITH foo = 'x' => SYNTAX => Unknown property 'foo'
        ALTER TABLE t WITH id = 5a1c395e-b41f-11e5-9f22-ba0be0483c18 => CONFIG
        => Cannot alter table id.
    ";
    for [text, code, message] in parse_cases(cases) {
        let refused = (code_of(code), message.to_string());
        assert_eq!(session.refused(text), refused, "{text}");
    }
    session.keyspace = None;
    let none =
        "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename";
    assert_eq!(session.refused("DROP TABLE t"), (INVALID, none.to_string()));
}

/// Regression: CREATE TABLE did not compare WITH ID with the ids of other tables. So the statement
/// that DESCRIBE TABLE ... WITH INTERNALS printed made a second table with the same id under
/// another name.
#[test]
fn create_table_refuses_the_id_of_another_table() {
    let mut session = Session::with_table();
    session.run("CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy'}");
    let id = session.state().table("app", "t").unwrap().schema().id();
    let create = |table: &str| format!("CREATE TABLE {table} (k int PRIMARY KEY) WITH ID = {id}");
    for name in ["app.u", "other.t"] {
        let message = format!("Cannot create table '{name}' with the ID of table 'app.t': {id}");
        for table in [name.to_string(), format!("IF NOT EXISTS {name}")] {
            let refused = session.refused(&create(&table));
            assert_eq!(refused, (CONFIG, message.clone()), "{table}");
        }
    }
    assert_eq!(session.run(&create("IF NOT EXISTS app.t")), None);
    // A dropped table may be created again with its id, as in Cassandra.
    session.run("DROP TABLE app.t");
    session.run(&create("other.t"));
}

#[test]
fn truncate_removes_the_rows_and_leaves_the_table() {
    let mut session = Session::with_table();
    let state = session.state();
    let table = state.table("app", "t").unwrap();
    table.rows().put(b"\xffrow", b"x").unwrap();
    assert_eq!(session.run("TRUNCATE TABLE app.t"), None);
    assert_eq!(table.rows().get(b"\xffrow").unwrap(), None);
    assert_eq!(session.state().version(), state.version());
}

#[test]
fn a_new_keyspace_has_one_copy_by_default() {
    let mut session = Session::with_table();
    for (name, class, option) in [
        ("a", "SimpleStrategy", "replication_factor"),
        ("b", "NetworkTopologyStrategy", "datacenter1"),
    ] {
        session.run(&format!(
            "CREATE KEYSPACE {name} WITH replication = {{'class': '{class}'}}"
        ));
        let state = session.state();
        let keyspace = state.schema().keyspace(name).unwrap();
        assert_eq!(keyspace.replication()[option], "1");
    }
}

#[test]
fn errors_name_collections_of_user_types_as_written() {
    let mut session = Session::with_table();
    session.run("CREATE TYPE app.u (a int)");
    let text = "CREATE TABLE app.x (k int PRIMARY KEY, v map<int, app.u>)";
    assert_eq!(
        session.refused(text).1,
        "Non-frozen UDTs are not allowed inside collections: map<int, app.u>"
    );
    session.run("CREATE TABLE app.x (k int PRIMARY KEY, v frozen<list<app.u>>)");
}
