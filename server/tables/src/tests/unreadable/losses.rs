//! Lost and damaged records: those of objects in service are written again, and those of unreadable
//! objects never are.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use ebb_model::key::SCHEMA_KEY;
use ebb_storage::simulation::FaultOp;
use ebb_storage::{ErrorKind, FileSystem};

use super::*;

/// Regression: an operator accepted the loss of a damaged block with records of objects that were
/// in use, and the server did not write these records again. The next start could not read one
/// table, read another one with an older schema, and found neither the keyspace nor the role.
#[test]
fn lost_records_of_objects_in_service_are_written_again() {
    let (disk, catalog) = with_rows();
    add_role(&catalog, "ada");
    let (of_t, of_u) = (t(&catalog), table(&catalog, "app", "u"));
    let keyspaces = table(&catalog, "ebb_system", "keyspaces");
    let older_u = of_u.get(SCHEMA_KEY).unwrap().unwrap();
    let older_app = keyspaces.get(b"app").unwrap().unwrap();
    apply(&catalog, CHANGES[5]).unwrap();
    let version = catalog.state().version();
    of_t.delete(SCHEMA_KEY).unwrap();
    of_u.put(SCHEMA_KEY, &older_u).unwrap();
    keyspaces.put(b"app", &older_app).unwrap();
    keyspaces.delete(b"other").unwrap();
    role_records(&catalog).delete(b"ada").unwrap();
    catalog.reread().unwrap();
    assert_eq!(catalog.state().version(), version);
    drop((of_t, of_u, keyspaces, catalog));

    let catalog = open_whole(&disk);
    assert_eq!(catalog.state().version(), version);
    assert!(catalog.roles().state().roles().get("ada").is_some());
    assert_eq!(t(&catalog).get(ROW).unwrap().unwrap(), "1");
}

/// Regression: if the record of a readable object was lost and the store refused writes, objects
/// whose records were restored stayed unreadable.
#[test]
fn restored_objects_are_in_service_although_lost_records_cannot_be_written_again() {
    let (disk, catalog) = with_rows();
    add_role(&catalog, "bad");
    let damaged = |catalog: &Catalog| {
        [
            (t(catalog), SCHEMA_KEY),
            (role_records(catalog), &b"bad"[..]),
        ]
    };
    let records = damaged(&catalog).map(|(table, key)| {
        let record = table.get(key).unwrap().unwrap();
        table.put(key, b"{}").unwrap();
        record
    });
    drop(catalog);
    let catalog = open(&disk).unwrap();
    assert_eq!(catalog.unreadable().len(), 2);
    for ((table, key), record) in damaged(&catalog).into_iter().zip(&records) {
        table.put(key, record).unwrap();
    }
    // The records of a keyspace without tables and of a table, which are in service.
    let keyspaces = table(&catalog, "ebb_system", "keyspaces");
    keyspaces.delete(b"other").unwrap();
    table(&catalog, "app", "u").delete(SCHEMA_KEY).unwrap();
    disk.fail_next(FaultOp::Append, 1, io::ErrorKind::Other);
    let refused = catalog.reread().unwrap_err().to_string();
    assert_eq!(disk.armed_faults(), 0, "{refused}");

    assert_eq!(catalog.unreadable(), []);
    let state = catalog.state();
    assert!(state.table("app", "t").is_some() && state.table("app", "u").is_some());
    assert!(state.schema().keyspace("other").is_some());
    assert!(catalog.roles().state().roles().get("bad").is_some());
}

#[test]
fn records_of_unreadable_objects_are_never_written_again() {
    let (disk, catalog) = with_rows();
    add_role(&catalog, "bad");
    let damaged = |catalog: &Catalog| {
        [
            (t(catalog), SCHEMA_KEY, &b"{}"[..]),
            (
                table(catalog, "ebb_system", "keyspaces"),
                &b"other"[..],
                &b"\x01{}"[..],
            ),
            (role_records(catalog), &b"bad"[..], &b"{}"[..]),
        ]
    };
    for (table, key, record) in damaged(&catalog) {
        table.put(key, record).unwrap();
    }
    drop(catalog);

    let catalog = open(&disk).unwrap();
    catalog.reread().unwrap();
    for (table, key, record) in damaged(&catalog) {
        let (keyspace, name) = (table.keyspace(), table.name());
        catalog.write_before_loss(keyspace, name).unwrap();
        assert_eq!(table.get(key).unwrap().unwrap(), record, "{name}");
    }
    assert_eq!(unreadable(&catalog).len(), 3);
}

#[test]
fn unreadable_records_of_the_node_are_replaced_and_reported() {
    for (key, name) in [
        (&b"host_id"[..], "identity"),
        (&b"token"[..], "identity"),
        (&b"timestamp_bound_us"[..], "timestamp bound"),
    ] {
        let (disk, catalog) = with_rows();
        catalog.timestamps().next_us().unwrap();
        table(&catalog, "ebb_system", "node")
            .put(key, b"x")
            .unwrap();
        let found = unreadable_objects(catalog.db()).unwrap();
        assert_eq!(found.len(), 1, "{name}");
        drop(catalog);

        let catalog = open(&disk).unwrap();
        // The reason is for the log. A read-only command no longer finds the damage.
        assert_eq!(catalog.unreadable(), found);
        let begin = format!("the record {name} of the node cannot be read: ");
        assert!(found[0].to_string().starts_with(&begin), "{}", found[0]);
        catalog.timestamps().next_us().unwrap();
        assert_eq!(unreadable_objects(catalog.db()).unwrap(), []);
        assert!(catalog.state().table("app", "t").is_some());
        let identity = *catalog.identity();
        drop(catalog);
        let catalog = open(&disk).unwrap();
        assert_eq!(catalog.unreadable(), []);
        assert_eq!(*catalog.identity(), identity);
    }
}

fn sstables(disk: &MemDisk) -> BTreeSet<PathBuf> {
    let files = disk.list(Path::new("/db")).unwrap().into_iter();
    files
        .filter(|path| path.extension().is_some_and(|kind| kind == "sst"))
        .collect()
}

/// Creates the table `app.t`, and returns the file with its record.
fn create_t(disk: &MemDisk, catalog: &Catalog) -> PathBuf {
    catalog.db().flush().unwrap();
    let before = sstables(disk);
    apply(catalog, CHANGES[2]).unwrap();
    catalog.db().flush().unwrap();
    let after = sstables(disk).into_iter();
    // The other new files contain a few bytes of ebb's own tables.
    let new = after.filter(|path| !before.contains(path));
    new.max_by_key(|path| disk.file_len(path).unwrap()).unwrap()
}

#[test]
fn a_damaged_block_takes_only_the_table_out_of_service_whose_record_it_has() {
    let (disk, catalog) = changed(2);
    apply(&catalog, CHANGES[3]).unwrap();
    let of_table = create_t(&disk, &catalog);
    drop(catalog);
    let fork = disk.fork();
    fork.remove(&of_table).unwrap();
    let found = unreadable(&open(&fork).unwrap());
    let is_reported = |it: &String| it.contains("table app.t cannot be read: cannot read /db/");
    assert!(found.len() == 1 && is_reported(&found[0]), "{found:?}");
    disk.flip_bit(&of_table, 100, 3).unwrap();

    let catalog = open(&disk).unwrap();
    let found = only_unreadable(&catalog);
    assert!(
        found.contains("table app.t cannot be read: corrupt file"),
        "{found}"
    );
    assert!(catalog.state().table("app", "u").is_some());
    assert!(apply(&catalog, DROP_T).unwrap());
    assert!(apply(&catalog, CHANGES[2]).unwrap());
    drop(catalog);
    let catalog = open_whole(&disk);
    assert!(catalog.state().table("app", "t").is_some());
}

/// Regression: if a start could not read the record of a keyspace in which CQL had created no table, it removed
/// the permissions on the keyspace, as if CQL had not created it. A refused CREATE KEYSPACE removed them, too.
#[test]
fn permissions_on_a_keyspace_of_native_tables_stay_while_its_record_cannot_be_read() {
    let (disk, catalog) = with_rows();
    let other = catalog.db().existing_keyspace("other").unwrap();
    let native = other.table("native", ebb_storage::TableOptions::default());
    add_role(&catalog, "ada");
    let on = [
        Resource::keyspace("other"),
        Resource::AllTables("other".into()),
    ];
    for on in &on {
        grant_all(&catalog, "ada", on);
    }
    let has_all = |catalog: &Catalog| {
        let state = catalog.roles().state();
        let ada = state.roles().get("ada").unwrap();
        on.iter().all(|on| ada.permissions.contains_key(on))
    };
    let records = table(&catalog, "ebb_system", "keyspaces");
    let record = records.get(b"other").unwrap().unwrap();
    catalog.db().flush().unwrap();
    let before = sstables(&disk);
    records.put(b"other", &record).unwrap();
    catalog.db().flush().unwrap();
    let after = sstables(&disk);
    drop((other, native.unwrap(), records, catalog));
    let new: Vec<&PathBuf> = after.difference(&before).collect();
    let [of_record] = <[&PathBuf; 1]>::try_from(new).unwrap();
    // In the only data block, behind the header of 20 bytes.
    disk.flip_bit(of_record, 30, 3).unwrap();

    let create: Change = |schema| schema.create_keyspace(keyspace("other"));
    for _ in 0..2 {
        let catalog = open(&disk).unwrap();
        assert!(catalog.state().schema().keyspace("other").is_none());
        assert!(has_all(&catalog));
        let refused = apply(&catalog, create);
        assert!(matches!(refused, Err(CatalogError::Foreign { .. })));
        // The next opening and each change of the schema remove permissions on what is gone.
        assert!(apply(&catalog, CHANGES[6]).unwrap());
        assert!(has_all(&catalog));
    }
    let catalog = open(&disk).unwrap();
    let records = table(&catalog, "ebb_system", "keyspaces");
    records.put(b"other", &record).unwrap();
    drop((records, catalog));
    let catalog = open_whole(&disk);
    assert!(catalog.state().schema().keyspace("other").is_some());
    assert!(has_all(&catalog));
    let other = catalog.db().existing_keyspace("other").unwrap();
    other.drop_table("native").unwrap();
    let drop_keyspace: Change = |schema| schema.drop_keyspace("other");
    assert!(apply(&catalog, drop_keyspace).unwrap());
    assert!(!has_all(&catalog));
}

/// Regression: an operator accepted the loss of a damaged block with a record, and the server
/// crashed before it wrote the record again. The next start took the table out of service.
#[test]
fn records_are_written_again_before_a_loss_is_accepted() {
    let (disk, catalog) = changed(2);
    let of_table = create_t(&disk, &catalog);
    // The record is in the cache now, so that the damage is not seen.
    let rows = t(&catalog);
    assert!(rows.get(SCHEMA_KEY).unwrap().is_some());
    disk.flip_bit(of_table, 100, 3).unwrap();
    catalog.write_before_loss("app", "t").unwrap();
    drop((rows, catalog));

    let catalog = open_whole(&disk);
    assert!(catalog.state().table("app", "t").is_some());
}

/// Regression: an operator could not accept the loss of damaged blocks while the operating system
/// failed to read a record, of the same table or of another one, as on a disk with bad sectors.
#[test]
fn records_that_the_system_refuses_to_read_are_written_again() {
    const READS_MAX: usize = 1_000;
    let (disk, catalog) = with_rows();
    add_role(&catalog, "ada");
    // No cache has the new files.
    catalog.db().flush().unwrap();
    for nth in 1..=READS_MAX as u64 {
        disk.fail_next(FaultOp::Read, nth, io::ErrorKind::Other);
    }
    catalog
        .write_before_loss("ebb_system", "keyspaces")
        .unwrap();
    let armed = disk.armed_faults();
    assert!(0 < armed && armed < READS_MAX);
    // The records are in memory now.
    for (keyspace, name, key) in [
        ("app", "t", SCHEMA_KEY),
        ("app", "u", SCHEMA_KEY),
        ("ebb_system", "keyspaces", &b"other"[..]),
        ("ebb_system", "roles", &b"ada"[..]),
    ] {
        let record = table(&catalog, keyspace, name).get(key).unwrap();
        assert!(record.is_some(), "{keyspace}.{name}");
    }
    assert_eq!(disk.armed_faults(), armed);
}

/// A failed read takes the objects out of service whose records it was to return, until the next opening.
/// Without its own records, such as its identity, the node does not start, because it would replace them.
///
/// Regression: a failed read of the record of one table, as from a bad sector, kept the server from its start.
#[test]
fn a_read_that_the_system_refuses_loses_nothing() {
    let (disk, catalog) = with_rows();
    catalog.db().flush().unwrap();
    drop(catalog);
    let (mut refused, mut out_of_service) = (0, 0);
    for nth in 1.. {
        let disk = disk.fork();
        let grace_periods = GracePeriods::default();
        let options = Options {
            disk: Arc::new(disk.clone()),
            maintenance: Maintenance::Manual,
            ..Options::default()
        };
        let db = Db::open("/db", with_cql_tables(options, &grace_periods)).unwrap();
        disk.fail_next(FaultOp::Read, nth, io::ErrorKind::Other);
        let clock = Arc::new(ManualClock::at_ms(1_000));
        let opened = Catalog::open(&db, &grace_periods, clock);
        let has_struck = disk.armed_faults() == 0;
        disk.clear_faults();
        match &opened {
            Ok(catalog) if has_struck => {
                out_of_service += usize::from(!catalog.unreadable().is_empty());
            }
            Ok(catalog) => {
                assert_eq!(unreadable(catalog), [""; 0]);
                break;
            }
            Err(CatalogError::Store(error)) => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                refused += 1;
            }
            Err(error) => panic!("read {nth}: {error}"),
        }
        drop((opened, db));
        let catalog = open_whole(&disk);
        assert!(catalog.state().table("app", "t").is_some(), "read {nth}");
    }
    assert!(refused > 0 && out_of_service > 0);
}
