//! Unreadable tables, keyspaces, types and indexes.

use std::sync::Mutex;

use ebb_model::key::SCHEMA_KEY;

use super::*;

/// Regression: the next start dropped a table whose record was lost, with its rows.
#[test]
fn a_table_whose_record_is_lost_keeps_its_rows_and_is_served_again_with_the_record() {
    let (disk, catalog) = with_rows();
    let rows = t(&catalog);
    let record = rows.get(SCHEMA_KEY).unwrap().unwrap();
    rows.delete(SCHEMA_KEY).unwrap();
    drop((rows, catalog));

    let catalog = open(&disk).unwrap();
    assert_eq!(
        unreadable(&catalog),
        [
            "the schema of table app.t cannot be read: its record is missing; restore it from a \
             backup or DROP it"
        ]
    );
    let state = catalog.state();
    assert!(state.table("app", "t").is_none() && state.table("app", "u").is_some());
    drop(state);
    // Its name stays reserved, other tables can be altered, and types that it may use cannot.
    assert!(is_refused(apply(&catalog, CHANGES[2])));
    let alter: Change =
        |schema| schema.alter_table("app", "u", |u| u.add_column("a", CqlType::Text, false));
    assert!(apply(&catalog, alter).unwrap());
    let refused = apply(&catalog, CHANGES[5]).unwrap_err().to_string();
    assert!(refused.contains("table app.t"), "{refused}");
    drop(catalog);

    let catalog = open(&disk).unwrap();
    let rows = t(&catalog);
    assert_eq!(rows.get(ROW).unwrap().unwrap(), "1");
    rows.put(SCHEMA_KEY, &record).unwrap();
    drop((rows, catalog));
    let catalog = open_whole(&disk);
    let state = catalog.state();
    let rows = state.table("app", "t").unwrap().rows();
    assert_eq!(rows.get(ROW).unwrap().unwrap(), "1");
    let u = state.table("app", "u").unwrap();
    assert!(u.schema().column("a").is_some());
}

#[test]
fn tables_and_keyspaces_are_served_again_without_a_start_once_their_records_are_readable() {
    let (disk, catalog) = with_rows();
    let rows = t(&catalog);
    let records = table(&catalog, "ebb_system", "keyspaces");
    let of_table = rows.get(SCHEMA_KEY).unwrap().unwrap();
    let of_keyspace = records.get(b"other").unwrap().unwrap();
    rows.delete(SCHEMA_KEY).unwrap();
    records.put(b"other", b"\x01{}").unwrap();
    drop((rows, records, catalog));

    let catalog = open(&disk).unwrap();
    assert_eq!(unreadable(&catalog).len(), 2);
    let announced = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&announced);
    catalog.on_announcement(move |announcement| {
        if let Announcement::TableCreated { keyspace, table } = announcement {
            seen.lock().unwrap().push(format!("{keyspace}.{table}"));
        }
    });
    let before = catalog.state();
    catalog.reread().unwrap();
    assert!(Arc::ptr_eq(&before, &catalog.state()));

    t(&catalog).put(SCHEMA_KEY, &of_table).unwrap();
    let records = table(&catalog, "ebb_system", "keyspaces");
    records.put(b"other", &of_keyspace).unwrap();
    // The record of a table in service is lost now, and the table stays in service.
    table(&catalog, "app", "u").delete(SCHEMA_KEY).unwrap();
    catalog.reread().unwrap();
    assert_eq!(catalog.unreadable(), []);
    let state = catalog.state();
    let served = state.table("app", "t").unwrap();
    assert_eq!(served.rows().get(ROW).unwrap().unwrap(), "1");
    let u_before = before.table("app", "u").unwrap();
    assert!(Arc::ptr_eq(u_before, state.table("app", "u").unwrap()));
    assert!(state.schema().keyspace("other").is_some());
    assert_ne!(state.version(), before.version());
    assert_eq!(*announced.lock().unwrap(), ["app.t"]);

    // The schema can be changed, and the next opening finds it.
    assert!(apply(&catalog, CHANGES[4]).unwrap());
    drop((records, before, state, catalog));
    let catalog = open_whole(&disk);
    let state = catalog.state();
    let altered = state.table("app", "t").unwrap();
    assert!(altered.schema().column("a").is_some());
}

/// Regression: an index could get the name of an index of an unreadable table. Once the unreadable table
/// was restored, it kept the name, and the table with the newer index went out of service.
#[test]
fn no_table_goes_out_of_service_for_an_index_of_a_table_that_becomes_readable() {
    let (disk, catalog) = with_rows();
    let create = |catalog: &Catalog, table: &str| {
        let by = ("p", IndexTarget::Simple);
        let created = catalog.change(|schema| {
            let next = schema.create_index(("app", table), Some("i"), by, false);
            next.map_err(CatalogError::from)
        });
        created.flatten()
    };
    let drop_index: Change = |schema| Ok(schema.drop_index("app", "i")?.0);
    assert!(create(&catalog, "t").unwrap());
    let rows = t(&catalog);
    let record = rows.get(SCHEMA_KEY).unwrap().unwrap();
    rows.put(SCHEMA_KEY, b"{}").unwrap();
    drop((rows, catalog));
    let catalog = open(&disk).unwrap();
    assert!(is_refused(create(&catalog, "u")));

    // Earlier versions accepted the statement.
    t(&catalog).put(SCHEMA_KEY, &record).unwrap();
    catalog.reread().unwrap();
    assert!(apply(&catalog, drop_index).unwrap());
    assert!(create(&catalog, "u").unwrap());
    t(&catalog).put(SCHEMA_KEY, b"{}").unwrap();
    drop(catalog);
    let catalog = open(&disk).unwrap();
    t(&catalog).put(SCHEMA_KEY, &record).unwrap();
    catalog.reread().unwrap();
    let state = catalog.state();
    assert!(state.table("app", "u").is_some() && state.table("app", "t").is_none());
    let found = catalog.unreadable();
    let remedy = found[0].remedy.as_deref();
    assert_eq!(remedy, Some("DROP INDEX app.i and a restart bring it back"));
    assert!(apply(&catalog, drop_index).unwrap());
    drop((state, catalog));
    open_whole(&disk);
}

#[test]
fn a_table_that_cannot_be_read_is_dropped_and_created_again() {
    let (disk, catalog) = with_rows();
    t(&catalog).put(SCHEMA_KEY, b"{}").unwrap();
    drop(catalog);
    let catalog = open(&disk).unwrap();
    assert_eq!(unreadable(&catalog).len(), 1);
    assert!(apply(&catalog, DROP_T).unwrap());
    assert!(apply(&catalog, CHANGES[2]).unwrap());
    assert!(apply(&catalog, CHANGES[5]).unwrap());
    drop(catalog);
    let catalog = open_whole(&disk);
    assert_eq!(t(&catalog).get(ROW).unwrap(), None);
}

#[test]
fn a_keyspace_whose_record_is_lost_or_damaged_is_out_of_service_until_it_is_dropped() {
    for (record, why) in [
        (None, "its record is missing"),
        (Some(&b"\x01{}"[..]), "missing field `format`"),
        (
            Some(&b"\x07"[..]),
            "its state is Some(7), known are 1 and 2",
        ),
    ] {
        let (disk, catalog) = with_rows();
        let records = table(&catalog, "ebb_system", "keyspaces");
        match record {
            Some(record) => records.put(b"app", record).unwrap(),
            None => records.delete(b"app").unwrap(),
        }
        drop((records, catalog));

        let catalog = open(&disk).unwrap();
        let found = only_unreadable(&catalog);
        assert!(
            found.starts_with("the schema of keyspace app cannot be read: "),
            "{found}"
        );
        assert!(found.contains(why), "{found}");
        assert!(catalog.state().schema().keyspace("other").is_some());
        assert_eq!(t(&catalog).get(ROW).unwrap().unwrap(), "1");
        assert!(is_cql_keyspace(catalog.db(), "app").unwrap());
        assert!(is_refused(apply(&catalog, CHANGES[0])));
        let drop_keyspace: Change = |schema| schema.drop_keyspace("app");
        assert!(apply(&catalog, drop_keyspace).unwrap());
        assert!(apply(&catalog, CHANGES[0]).unwrap());
        drop(catalog);
        let catalog = open_whole(&disk);
        assert!(catalog.state().schema().keyspace("app").is_some());
    }
}

#[test]
fn a_type_that_cannot_be_read_leaves_the_tables_that_use_it_in_service() {
    let (disk, catalog) = with_rows();
    let records = table(&catalog, "ebb_system", "keyspaces");
    let record = records.get(b"app").unwrap().unwrap();
    let text = std::str::from_utf8(&record).unwrap();
    let damaged = text.replace("[\"x\",\"int\"]", "[\"x\",\"nothing\"]");
    assert_ne!(damaged, text);
    records.put(b"app", damaged.as_bytes()).unwrap();
    drop((records, catalog));

    for _ in 0..2 {
        let catalog = open(&disk).unwrap();
        let found = unreadable(&catalog);
        assert!(
            found[0].starts_with("the schema of type app.point cannot be read"),
            "{found:?}"
        );
        assert_eq!(found.len(), 1);
        assert!(catalog.state().table("app", "t").is_some());
        assert!(is_refused(apply(&catalog, CHANGES[1])));
        assert!(is_refused(apply(&catalog, CHANGES[5])));
        // The rewritten record contains the unreadable type unchanged.
        assert!(apply(&catalog, CHANGES[6]).unwrap());
    }
}

/// The record of the table is unreadable in the snapshot, and the current record is readable.
#[test]
fn a_snapshot_is_read_without_the_table_that_cannot_be_read() {
    let (_, catalog) = with_rows();
    let rows = t(&catalog);
    let record = rows.get(SCHEMA_KEY).unwrap().unwrap();
    rows.put(SCHEMA_KEY, b"{}").unwrap();
    let keyspace = catalog.db().existing_keyspace("app").unwrap();
    keyspace.create_snapshot("s").unwrap();
    rows.put(SCHEMA_KEY, &record).unwrap();
    let found = only_unreadable(&catalog);
    // A start does not read the files of snapshots.
    assert_eq!(catalog.unreadable(), []);
    let begin = "the schema of table app.t at snapshot s cannot be read: ";
    assert!(found.starts_with(begin), "{found}");
    assert!(found.ends_with("or drop the snapshot"), "{found}");
    let state = catalog.state();
    let now = state.schema().keyspace("app").unwrap();
    let then = keyspace_at(catalog.db(), now, "s").unwrap();
    assert!(then.table("u").is_some());
    // The error does not recommend to drop the table, whose current state is readable.
    assert_eq!(then.unreadable_table("t").unwrap().to_string(), found);
    assert!(now.unreadable_table("t").is_none());
    let snapshot = keyspace.snapshot("s").unwrap();
    let at = schema_at(&snapshot.table("t").unwrap(), "app.t").unwrap_err();
    assert!(at.at_snapshot("s").to_string().starts_with(begin));
}

/// A snapshot may be created during the creation of a table.
#[test]
fn a_snapshot_of_a_table_that_was_being_created_does_not_have_it() {
    let (_, catalog) = with_rows();
    let keyspace = catalog.db().existing_keyspace("app").unwrap();
    let options = t(&catalog).options();
    keyspace.table("half", (*options).clone()).unwrap();
    keyspace.create_snapshot("s").unwrap();
    let snapshot = keyspace.snapshot("s").unwrap();
    let at = schema_at(&snapshot.table("half").unwrap(), "app.half");
    assert_eq!(at.unwrap(), None);
}
