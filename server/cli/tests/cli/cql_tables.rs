//! Commands beside tables that CQL made.

use std::sync::Arc;

use ebb_cql::syntax::parse;
use ebb_cql_server::call::SchemaChanges;
use ebb_cql_server::schema_statements::{SchemaContext, execute};
use ebb_cql_server::system::SystemTables;
use ebb_storage::{Db, SystemClock};
use ebb_tables::{Catalog, GracePeriods, database_options};

use crate::place::Place;

fn catalog(place: &Place) -> Catalog {
    place.until_unlocked();
    let db = Db::open(place.path("ebb-data"), database_options()).unwrap();
    Catalog::open(&db, &GracePeriods::default(), Arc::new(SystemClock)).unwrap()
}

/// Creates a database with the CQL table `app.t` and the table `raw.lines`.
pub fn with_cql_table() -> Place {
    let place = Place::new();
    place.ebb("put --create raw.lines a b").ok();
    {
        let catalog = catalog(&place);
        let context = SchemaContext {
            catalog: &catalog,
            system: &SystemTables::default(),
            keyspace: Some("app"),
            changes: &SchemaChanges::default(),
            check: &|_| Ok(()),
            grant: &|_| Ok(()),
        };
        for text in [
            "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE t (k int PRIMARY KEY, v text)",
        ] {
            let statement = parse(text).unwrap().statement;
            execute(&context, &statement, &mut Default::default()).unwrap();
        }
    }
    place.until_unlocked();
    place
}

#[test]
fn commands_that_write_keys_as_they_are_leave_cql_tables_alone() {
    let place = with_cql_table();
    place.write("a.txt", "one\n");
    // A load once read all of its input before it was refused.
    place.write("malformed.csv", "k,v\n\"\n");
    for line in [
        "load --table app.t --key k malformed.csv",
        "put app.t k v",
        "put --create app.t k v",
        "delete app.t k",
        "delete app.t --prefix k --yes",
        "truncate app.t --yes",
        "load --table app.t a.txt",
    ] {
        let said = place.ebb(line).refused();
        assert!(said.contains("made by CQL"), "{line}: {said}");
    }
    // The user may have meant a Parquet file of another name.
    let said = place.ebb("load --table app.t a.txt").refused();
    assert!(
        said.contains("from Parquet files and Iceberg tables only"),
        "{said}"
    );
    let catalog = catalog(&place);
    assert!(catalog.state().table("app", "t").is_some());
}

#[test]
fn a_database_with_cql_tables_is_looked_at_copied_and_checked_as_any_other() {
    let place = with_cql_table();
    place.ebb("stats").ok();
    place.ebb("scan app.t").ok();
    place.ebb("verify").ok();
    place.ebb("backup copy").ok();
    place.ebb("repair repaired").ok();
    place.ebb("snapshot create --keyspace app s").ok();
    for data in ["copy", "repaired"] {
        let db = Db::open(place.path(data), database_options()).unwrap();
        let catalog = Catalog::open(&db, &GracePeriods::default(), Arc::new(SystemClock)).unwrap();
        let state = catalog.state();
        assert!(state.table("app", "t").is_some(), "{data}");
    }
}

#[test]
fn a_keyspace_that_a_command_drops_is_gone_for_cql() {
    let place = with_cql_table();
    place.ebb("drop app --yes").ok();
    place.ebb("drop raw --yes").ok();
    let catalog = catalog(&place);
    assert_eq!(catalog.state().schema().keyspaces().count(), 0);
    assert_eq!(catalog.db().keyspaces(), ["ebb_system"]);
}
