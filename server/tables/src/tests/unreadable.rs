//! Unreadable objects do not affect the rest of the catalog.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ebb_model::key::SCHEMA_KEY;
use ebb_storage::simulation::FaultOp;
use ebb_storage::{ErrorKind, FileSystem, Table};

use super::*;

/// Returns a catalog on a new disk with the table `app.t`, which has a row, the table `app.u`, and the
/// keyspace `other`.
fn with_rows() -> (MemDisk, Catalog) {
    let (disk, catalog) = changed(4);
    let create: Change = |schema| schema.create_keyspace(keyspace("other"));
    apply(&catalog, create).unwrap();
    table(&catalog, "app", "t").put(ROW, b"1").unwrap();
    (disk, catalog)
}

const ROW: &[u8] = b"\xffrow";

/// Returns a table of the store.
fn table(catalog: &Catalog, keyspace: &str, name: &str) -> Table {
    let keyspace = catalog.db().existing_keyspace(keyspace).unwrap();
    keyspace.existing_table(name).unwrap()
}

fn unreadable(catalog: &Catalog) -> Vec<String> {
    let mut all = catalog.unreadable();
    all.extend(catalog.unreadable_in_snapshots().unwrap());
    // A read-only command finds the same.
    assert_eq!(unreadable_objects(catalog.db()).unwrap(), all);
    all.iter().map(Unreadable::to_string).collect()
}

/// Returns the text of the only object that is unreadable.
fn only_unreadable(catalog: &Catalog) -> String {
    let [found] = <[String; 1]>::try_from(unreadable(catalog)).unwrap();
    found
}

/// Opens a catalog in which no object is unreadable.
fn open_whole(disk: &MemDisk) -> Catalog {
    let catalog = open(disk).unwrap();
    assert_eq!(unreadable(&catalog), [""; 0]);
    catalog
}

fn is_refused(result: Result<bool>) -> bool {
    matches!(
        result,
        Err(CatalogError::Schema(SchemaError::Unreadable(_)))
    )
}

/// Regression: the next start dropped a table whose record was lost, with its rows.
#[test]
fn a_table_whose_record_is_lost_keeps_its_rows_and_is_served_again_with_the_record() {
    let (disk, catalog) = with_rows();
    let rows = table(&catalog, "app", "t");
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
    let rows = table(&catalog, "app", "t");
    assert_eq!(rows.get(ROW).unwrap().unwrap(), "1");
    rows.put(SCHEMA_KEY, &record).unwrap();
    drop((rows, catalog));
    let catalog = open_whole(&disk);
    let state = catalog.state();
    let rows = state.table("app", "t").unwrap().rows();
    assert_eq!(rows.get(ROW).unwrap().unwrap(), "1");
    assert!(
        state
            .table("app", "u")
            .unwrap()
            .schema()
            .column("a")
            .is_some()
    );
}

#[test]
fn tables_and_keyspaces_are_served_again_without_a_start_once_their_records_are_readable() {
    let (disk, catalog) = with_rows();
    let rows = table(&catalog, "app", "t");
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

    table(&catalog, "app", "t")
        .put(SCHEMA_KEY, &of_table)
        .unwrap();
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
    let alter: Change =
        |schema| schema.alter_table("app", "t", |t| t.add_column("a", CqlType::Text, false));
    assert!(apply(&catalog, alter).unwrap());
    drop((records, before, state, catalog));
    let catalog = open_whole(&disk);
    let state = catalog.state();
    assert!(
        state
            .table("app", "t")
            .unwrap()
            .schema()
            .column("a")
            .is_some()
    );
}

/// Adds a role without permissions.
fn add_role(catalog: &Catalog, name: &str) {
    let changed = |roles: &Roles| roles.with_new(name, Role::default()).map(Some);
    assert!(catalog.roles().change(changed).unwrap().unwrap());
}

/// Regression: an operator accepted the loss of a damaged block with records of objects that were
/// in use, and the server did not write these records again. The next start could not read one
/// table, read another one with an older schema, and found neither the keyspace nor the role.
#[test]
fn lost_records_of_objects_in_service_are_written_again() {
    let (disk, catalog) = with_rows();
    add_role(&catalog, "ada");
    let (t, u) = (table(&catalog, "app", "t"), table(&catalog, "app", "u"));
    let keyspaces = table(&catalog, "ebb_system", "keyspaces");
    let older_u = u.get(SCHEMA_KEY).unwrap().unwrap();
    let older_app = keyspaces.get(b"app").unwrap().unwrap();
    apply(&catalog, CHANGES[5]).unwrap();
    let version = catalog.state().version();
    t.delete(SCHEMA_KEY).unwrap();
    u.put(SCHEMA_KEY, &older_u).unwrap();
    keyspaces.put(b"app", &older_app).unwrap();
    keyspaces.delete(b"other").unwrap();
    table(&catalog, "ebb_system", "roles")
        .delete(b"ada")
        .unwrap();
    catalog.reread().unwrap();
    assert_eq!(catalog.state().version(), version);
    drop((t, u, keyspaces, catalog));

    let catalog = open_whole(&disk);
    assert_eq!(catalog.state().version(), version);
    assert!(catalog.roles().state().roles().get("ada").is_some());
    assert_eq!(table(&catalog, "app", "t").get(ROW).unwrap().unwrap(), "1");
}

/// Regression: if the record of a readable object was lost and the store refused writes, objects
/// whose records were restored stayed unreadable.
#[test]
fn restored_objects_are_in_service_although_lost_records_cannot_be_written_again() {
    let (disk, catalog) = with_rows();
    add_role(&catalog, "bad");
    let damaged = |catalog: &Catalog| {
        [
            (table(catalog, "app", "t"), SCHEMA_KEY),
            (table(catalog, "ebb_system", "roles"), &b"bad"[..]),
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
            (table(catalog, "app", "t"), SCHEMA_KEY, &b"{}"[..]),
            (
                table(catalog, "ebb_system", "keyspaces"),
                &b"other"[..],
                &b"\x01{}"[..],
            ),
            (
                table(catalog, "ebb_system", "roles"),
                &b"bad"[..],
                &b"{}"[..],
            ),
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
    let rows = table(&catalog, "app", "t");
    let record = rows.get(SCHEMA_KEY).unwrap().unwrap();
    rows.put(SCHEMA_KEY, b"{}").unwrap();
    drop((rows, catalog));
    let catalog = open(&disk).unwrap();
    assert!(is_refused(create(&catalog, "u")));

    // Earlier versions accepted the statement.
    table(&catalog, "app", "t")
        .put(SCHEMA_KEY, &record)
        .unwrap();
    catalog.reread().unwrap();
    assert!(apply(&catalog, drop_index).unwrap());
    assert!(create(&catalog, "u").unwrap());
    table(&catalog, "app", "t").put(SCHEMA_KEY, b"{}").unwrap();
    drop(catalog);
    let catalog = open(&disk).unwrap();
    table(&catalog, "app", "t")
        .put(SCHEMA_KEY, &record)
        .unwrap();
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

/// Regression: a role could get an identity that an unreadable role had. Once that role was restored, both
/// had it.
#[test]
fn a_role_gets_no_identity_while_another_role_is_unreadable() {
    let disk = MemDisk::new();
    let catalog = open(&disk).unwrap();
    add_role(&catalog, "a");
    add_role(&catalog, "b");
    let give = |catalog: &Catalog, role: &str| {
        let with = |roles: &Roles| roles.with_identity("spiffe://x", role).map(Some);
        catalog.roles().change(with).map(|changed| changed.unwrap())
    };
    assert!(give(&catalog, "b").unwrap());
    table(&catalog, "ebb_system", "roles")
        .put(b"b", b"{}")
        .unwrap();
    drop(catalog);
    let catalog = open(&disk).unwrap();
    assert!(is_refused(give(&catalog, "a")));
    assert!(catalog.roles().drop_unreadable("b").unwrap());
    assert!(give(&catalog, "a").unwrap());
}

#[test]
fn a_table_that_cannot_be_read_is_dropped_and_created_again() {
    let (disk, catalog) = with_rows();
    table(&catalog, "app", "t").put(SCHEMA_KEY, b"{}").unwrap();
    drop(catalog);
    let catalog = open(&disk).unwrap();
    assert_eq!(unreadable(&catalog).len(), 1);
    let drop_table: Change = |schema| schema.drop_table("app", "t");
    assert!(apply(&catalog, drop_table).unwrap());
    assert!(apply(&catalog, CHANGES[2]).unwrap());
    assert!(apply(&catalog, CHANGES[5]).unwrap());
    drop(catalog);
    let catalog = open_whole(&disk);
    assert_eq!(table(&catalog, "app", "t").get(ROW).unwrap(), None);
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
        assert_eq!(table(&catalog, "app", "t").get(ROW).unwrap().unwrap(), "1");
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

#[test]
fn permissions_on_a_table_that_cannot_be_read_stay() {
    let (disk, catalog) = with_rows();
    let on = Resource::table("app", "t");
    let granted = catalog.roles().change(|roles| {
        let roles = roles.with_new("ada", Role::default())?;
        let roles = roles.with_permissions("ada", &on, PermissionSet::ALL)?.0;
        Ok::<_, RoleError>(Some(roles))
    });
    granted.unwrap().unwrap();
    table(&catalog, "app", "t").put(SCHEMA_KEY, b"{}").unwrap();
    drop(catalog);
    let catalog = open(&disk).unwrap();
    let held = |catalog: &Catalog| {
        let state = catalog.roles().state();
        state
            .roles()
            .get("ada")
            .unwrap()
            .permissions
            .contains_key(&on)
    };
    assert!(held(&catalog));
    let drop_table: Change = |schema| schema.drop_table("app", "t");
    apply(&catalog, drop_table).unwrap();
    assert!(!held(&catalog));
}

/// Bytes that are not UTF-8 are replaced in a displayed name, which may then equal the name of another
/// role.
#[test]
fn a_role_whose_name_is_not_utf_8_is_dropped_and_no_other_one() {
    let disk = MemDisk::new();
    let catalog = open(&disk).unwrap();
    let healthy = "b\u{fffd}d";
    let changed = catalog.roles().change(|roles| {
        let roles = roles.with_new(healthy, Role::default())?;
        Ok::<_, RoleError>(Some(roles.with_new("ada", Role::default())?))
    });
    changed.unwrap().unwrap();
    let records = table(&catalog, "ebb_system", "roles");
    for key in [&b"b\xffd"[..], b"x\xff", b"x\xfe"] {
        records.put(key, b"{}").unwrap();
    }
    drop((records, catalog));

    let catalog = open(&disk).unwrap();
    assert_eq!(unreadable(&catalog).len(), 2);
    let state = catalog.roles().state();
    assert!(state.unreadable(healthy).is_none() && !state.hides(healthy));
    assert!(state.hides("x\u{fffd}") && state.may_be_superuser("x\u{fffd}"));
    assert!(!catalog.roles().drop_unreadable(healthy).unwrap());
    assert!(catalog.roles().drop_unreadable("x\u{fffd}").unwrap());
    drop(catalog);
    let catalog = open(&disk).unwrap();
    assert_eq!(unreadable(&catalog).len(), 1);
    assert!(catalog.roles().state().roles().get(healthy).is_some());
}

/// While a role is unreadable, its members are treated as possible superusers, because they may be
/// superusers again once the role is restored.
#[test]
fn a_member_of_a_role_that_cannot_be_read_may_be_a_superuser() {
    let disk = MemDisk::new();
    let catalog = open(&disk).unwrap();
    let changed = catalog.roles().change(|roles| {
        let roles = roles.with_new("root2", Role::default())?;
        let roles = roles.with_new("eve", Role::default())?;
        let roles = roles.with_new("ada", Role::default())?;
        Ok::<_, RoleError>(Some(roles.with_member("root2", "ada")?))
    });
    changed.unwrap().unwrap();
    let state = catalog.roles().state();
    assert!(!state.may_be_superuser("ada"));
    table(&catalog, "ebb_system", "roles")
        .put(b"root2", b"{}")
        .unwrap();
    drop((state, catalog));
    let state = open(&disk).unwrap().roles().state();
    assert!(state.may_be_superuser("ada") && !state.may_be_superuser("eve"));
}

#[test]
fn a_role_is_in_service_again_without_a_start_once_its_record_is_readable() {
    let disk = MemDisk::new();
    let catalog = open(&disk).unwrap();
    let changed = catalog.roles().change(|roles| {
        let roles = roles.with_new("bad", Role::default())?;
        Ok::<_, RoleError>(Some(roles.with_new("ada", Role::default())?))
    });
    changed.unwrap().unwrap();
    let records = table(&catalog, "ebb_system", "roles");
    let record = records.get(b"bad").unwrap().unwrap();
    records.put(b"bad", b"{}").unwrap();
    drop((records, catalog));

    let catalog = open(&disk).unwrap();
    assert_eq!(catalog.unreadable().len(), 1);
    let generation = catalog.roles().generation();
    catalog.reread().unwrap();
    assert_eq!(catalog.roles().generation(), generation);
    table(&catalog, "ebb_system", "roles")
        .put(b"bad", &record)
        .unwrap();
    catalog.reread().unwrap();
    assert_eq!(catalog.unreadable(), []);
    // Holders of cached decisions look again.
    assert_ne!(catalog.roles().generation(), generation);
    let state = catalog.roles().state();
    assert!(state.roles().get("bad").is_some() && state.roles().get("ada").is_some());
}

/// Regression: if the record of one role was unreadable, nothing in the database was served.
#[test]
fn a_role_that_cannot_be_read_is_out_of_service_alone_until_it_is_dropped() {
    let disk = MemDisk::new();
    let catalog = open(&disk).unwrap();
    let on_it = Resource::role("bad");
    let changed = catalog.roles().change(|roles| {
        let roles = roles.with_new("ada", Role::default())?;
        let roles = roles.with_new("bad", Role::default())?;
        let roles = roles.with_member("bad", "ada")?;
        let roles = roles.with_permissions("ada", &on_it, PermissionSet::ALL)?.0;
        Ok::<_, RoleError>(Some(roles))
    });
    changed.unwrap().unwrap();
    let records = |catalog: &Catalog| table(catalog, "ebb_system", "roles");
    records(&catalog).put(b"bad", b"{}").unwrap();
    drop(catalog);

    let add = |catalog: &Catalog, name: &str| {
        let changed = |roles: &Roles| roles.with_new(name, Role::default()).map(Some);
        catalog
            .roles()
            .change(changed)
            .map(|changed| changed.unwrap())
    };
    for life in 0..2 {
        let catalog = open(&disk).unwrap();
        let found = only_unreadable(&catalog);
        assert!(found.starts_with("role bad cannot be read: "), "{found}");
        let state = catalog.roles().state();
        assert!(state.granted("bad").is_none());
        assert_eq!(state.unreadable("bad").unwrap().to_string(), found);
        let ada = state.roles().get("ada").unwrap();
        assert!(ada.member_of.contains("bad") && ada.permissions.contains_key(&on_it));
        // Its name stays reserved, and other changes preserve its record.
        assert!(is_refused(add(&catalog, "bad")));
        assert!(add(&catalog, &format!("other{life}")).unwrap());
        assert_eq!(records(&catalog).get(b"bad").unwrap().unwrap(), "{}");
    }
    let catalog = open(&disk).unwrap();
    assert!(!catalog.roles().drop_unreadable("ada").unwrap());
    assert!(catalog.roles().drop_unreadable("bad").unwrap());
    assert_eq!(unreadable(&catalog), [""; 0]);
    drop(catalog);
    let catalog = open_whole(&disk);
    let state = catalog.roles().state();
    let ada = state.roles().get("ada").unwrap();
    assert!(ada.member_of.is_empty() && ada.permissions.is_empty());
    assert!(add(&catalog, "bad").unwrap());
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

#[test]
fn a_damaged_block_takes_only_the_table_out_of_service_whose_record_it_has() {
    let (disk, catalog) = changed(2);
    apply(&catalog, CHANGES[3]).unwrap();
    catalog.db().flush().unwrap();
    let before = sstables(&disk);
    apply(&catalog, CHANGES[2]).unwrap();
    catalog.db().flush().unwrap();
    let after = sstables(&disk);
    // The other new files contain a few bytes of ebb's own tables.
    let new = after.difference(&before);
    let of_table = new.max_by_key(|path| disk.file_len(path).unwrap()).unwrap();
    drop(catalog);
    let fork = disk.fork();
    fork.remove(of_table).unwrap();
    let found = unreadable(&open(&fork).unwrap());
    let is_reported = |it: &String| it.contains("table app.t cannot be read: cannot read /db/");
    assert!(found.len() == 1 && is_reported(&found[0]), "{found:?}");
    disk.flip_bit(of_table, 100, 3).unwrap();

    let catalog = open(&disk).unwrap();
    let found = only_unreadable(&catalog);
    assert!(
        found.contains("table app.t cannot be read: corrupt file"),
        "{found}"
    );
    assert!(catalog.state().table("app", "u").is_some());
    let drop_table: Change = |schema| schema.drop_table("app", "t");
    assert!(apply(&catalog, drop_table).unwrap());
    assert!(apply(&catalog, CHANGES[2]).unwrap());
    drop(catalog);
    let catalog = open_whole(&disk);
    assert!(catalog.state().table("app", "t").is_some());
}

/// Regression: an operator accepted the loss of a damaged block with a record, and the server
/// crashed before it wrote the record again. The next start took the table out of service.
#[test]
fn records_are_written_again_before_a_loss_is_accepted() {
    let (disk, catalog) = changed(2);
    catalog.db().flush().unwrap();
    let before = sstables(&disk);
    apply(&catalog, CHANGES[2]).unwrap();
    catalog.db().flush().unwrap();
    let after = sstables(&disk);
    let new = after.difference(&before);
    let of_table = new.max_by_key(|path| disk.file_len(path).unwrap()).unwrap();
    // The record is in the cache now, so that the damage is not seen.
    let rows = table(&catalog, "app", "t");
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

#[test]
fn a_read_that_the_system_refuses_is_no_damage() {
    let (disk, catalog) = with_rows();
    catalog.db().flush().unwrap();
    drop(catalog);
    let mut refused = 0;
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
        match Catalog::open(&db, &grace_periods, clock) {
            Ok(catalog) => {
                if disk.armed_faults() > 0 {
                    disk.clear_faults();
                    assert_eq!(unreadable(&catalog), [""; 0]);
                    break;
                }
                // Nothing depends on the failed read.
                assert_eq!(catalog.state().schema().all_unreadable(), []);
            }
            Err(CatalogError::Store(error)) => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                refused += 1;
            }
            Err(error) => panic!("read {nth}: {error}"),
        }
    }
    assert!(refused > 0);
}

/// The record of the table is unreadable in the snapshot, and the current record is readable.
#[test]
fn a_snapshot_is_read_without_the_table_that_cannot_be_read() {
    let (_, catalog) = with_rows();
    let rows = table(&catalog, "app", "t");
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
    let options = table(&catalog, "app", "t").options();
    keyspace.table("half", (*options).clone()).unwrap();
    keyspace.create_snapshot("s").unwrap();
    let snapshot = keyspace.snapshot("s").unwrap();
    let at = schema_at(&snapshot.table("half").unwrap(), "app.half");
    assert_eq!(at.unwrap(), None);
}
