//! The catalog across a restart, and across power losses between a change and its reply.

mod role_snapshots;
mod unreadable;

use std::collections::BTreeMap;
use std::sync::Arc;

use ebb_model::access::{PermissionSet, Resource, Role, RoleError, Roles};
use ebb_model::schema::{
    IndexTarget, KeyspaceSchema, OptionValue, Schema, SchemaError, TableDefinition, TableOptions,
    UserType,
};
use ebb_model::types::CqlType;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Compression, Db, Maintenance, ManualClock, Options};
use uuid::Uuid;

use super::*;

fn open(disk: &MemDisk) -> Result<Catalog> {
    let options = Options {
        disk: Arc::new(disk.clone()),
        maintenance: Maintenance::Manual,
        ..Options::default()
    };
    let grace_periods = GracePeriods::default();
    let db = Db::open("/db", with_cql_tables(options, &grace_periods))?;
    Catalog::open(&db, &grace_periods, Arc::new(ManualClock::at_ms(1_000)))
}

fn keyspace(name: &str) -> KeyspaceSchema {
    let replication = [("class".to_string(), "SimpleStrategy".to_string())];
    KeyspaceSchema::new(name, BTreeMap::from(replication), true).unwrap()
}

fn definition(schema: &Schema, keyspace: &str, name: &str, id: u128) -> TableDefinition {
    let point = schema
        .keyspace(keyspace)
        .unwrap()
        .parse_type("frozen<point>");
    TableDefinition {
        keyspace: keyspace.to_string(),
        name: name.to_string(),
        id: Uuid::from_u128(id),
        columns: vec![
            ("k".to_string(), CqlType::Int, false),
            ("p".to_string(), point.unwrap(), false),
        ],
        partition_key: vec!["k".to_string()],
        clustering: Vec::new(),
        order: Vec::new(),
        options: TableOptions::default(),
    }
}

type Change = fn(&Schema) -> Result<Schema, SchemaError>;

const CHANGES: [Change; 9] = [
    |schema| schema.create_keyspace(keyspace("app")),
    |schema| {
        let fields = [("x".into(), CqlType::Int)];
        schema.create_type(UserType::new("app", "point", fields)?)
    },
    |schema| schema.create_table(definition(schema, "app", "t", 1)),
    |schema| schema.create_table(definition(schema, "app", "u", 2)),
    |schema| schema.alter_table("app", "t", |t| t.add_column("a", CqlType::Text, false)),
    |schema| schema.add_field("app", "point", "y", CqlType::Double),
    |schema| schema.alter_keyspace("app", None, Some(false)),
    |schema| schema.drop_table("app", "u"),
    |schema| schema.drop_keyspace("app"),
];

fn apply(catalog: &Catalog, change: Change) -> Result<bool> {
    catalog.change(|schema| Ok(Some(change(schema)?))).flatten()
}

/// Returns a catalog on a new disk, after the first `changes` of [`CHANGES`].
fn changed(changes: usize) -> (MemDisk, Catalog) {
    let disk = MemDisk::new();
    let catalog = open(&disk).unwrap();
    for change in &CHANGES[..changes] {
        apply(&catalog, *change).unwrap();
    }
    (disk, catalog)
}

#[test]
fn a_power_loss_leaves_the_schema_before_or_after_the_change() {
    // The schema after each change.
    let mut schemas = vec![Schema::default()];
    for change in CHANGES {
        schemas.push(change(schemas.last().unwrap()).unwrap());
    }
    for nth_call in 1.. {
        let disk = MemDisk::new();
        let catalog = open(&disk).unwrap();
        let identity = *catalog.identity();
        disk.crash_at(nth_call);
        let done = CHANGES.iter().take_while(|c| apply(&catalog, **c).is_ok());
        let done = done.count();
        // The last schema is equal to the first.
        let of_schema = |schema: &Schema| {
            let later = schemas[done..].iter().position(|other| other == schema);
            later.map(|later| done + later)
        };
        let shown = of_schema(catalog.state().schema()).unwrap();
        // The drop of a keyspace is published once it is decided, even if it then fails.
        assert!(shown == done || shown == done + 1 && shown == CHANGES.len());
        let whole = done == CHANGES.len() && disk.has_power();
        drop(catalog);
        disk.restart(nth_call);

        let catalog = open(&disk).unwrap();
        assert_eq!(*catalog.identity(), identity);
        let state = catalog.state();
        let found = of_schema(state.schema());
        let found = found.unwrap_or_else(|| panic!("call {nth_call}: {state:?}"));
        assert!((shown..=done + 1).contains(&found), "{found} after {done}");
        // Every table of the schema exists in the store.
        for keyspace in state.schema().keyspaces() {
            for schema in keyspace.tables() {
                let table = state.table(keyspace.name(), schema.name()).unwrap();
                assert_eq!(table.schema(), schema);
                table.rows().put(b"\xffrow", b"").unwrap();
            }
        }
        // The remaining changes succeed.
        for change in &CHANGES[found..] {
            apply(&catalog, *change).unwrap();
        }
        assert_eq!(catalog.state().schema(), &Schema::default());
        if whole {
            break;
        }
    }
}

#[test]
fn the_version_is_another_when_a_change_returns_and_the_same_after_a_restart() {
    let disk = MemDisk::new();
    let catalog = open(&disk).unwrap();
    let mut versions = vec![catalog.state().version()];
    for change in &CHANGES[..7] {
        assert!(apply(&catalog, *change).unwrap());
        let version = catalog.state().version();
        assert!(!versions.contains(&version));
        versions.push(version);
    }
    let unchanged = catalog.change::<CatalogError>(|_| Ok(None)).flatten();
    let refused = apply(&catalog, CHANGES[0]);
    assert!(!unchanged.unwrap() && matches!(refused, Err(CatalogError::Schema(_))));
    assert_eq!(catalog.state().version(), *versions.last().unwrap());
    drop(catalog);
    let again = open(&disk).unwrap();
    assert_eq!(again.state().version(), *versions.last().unwrap());
}

#[test]
fn a_statement_keeps_the_schema_that_it_began_with() {
    let (_, catalog) = changed(3);
    let state = catalog.state();
    let before = state.table("app", "t").unwrap();
    apply(&catalog, CHANGES[4]).unwrap();
    assert!(before.schema().column("a").is_none());
    let state = catalog.state();
    let after = state.table("app", "t").unwrap();
    assert!(after.schema().column("a").is_some());
    // Both have the same rows.
    before.rows().put(b"\xffrow", b"1").unwrap();
    assert_eq!(after.rows().get(b"\xffrow").unwrap().unwrap(), "1");
    catalog.truncate(before).unwrap();
    assert_eq!(after.rows().get(b"\xffrow").unwrap(), None);
    // A truncation with the old schema does not restore the old schema.
    apply(&catalog, CHANGES[5]).unwrap();
    let version = catalog.state().version();
    catalog.truncate(after).unwrap();
    let again = Catalog::open(
        catalog.db(),
        &GracePeriods::default(),
        Arc::new(ManualClock::at_ms(1_000)),
    )
    .unwrap();
    assert_eq!(again.state().version(), version);
}

/// Regression: a table was identified by its id, and a statement may give the id of a dropped table to
/// a new one. A truncation that began before the drop cleared the new table.
#[test]
fn changes_of_a_dropped_table_leave_a_table_that_has_its_name_and_its_id() {
    let (_, catalog) = changed(3);
    let dropped = catalog.state().table("app", "t").unwrap().clone();
    apply(&catalog, |schema| schema.drop_table("app", "t")).unwrap();
    apply(&catalog, CHANGES[2]).unwrap();
    let state = catalog.state();
    let created = state.table("app", "t").unwrap();
    assert_eq!(created.schema(), dropped.schema());
    assert!(state.current(&dropped).is_none() && state.current(created).is_some());
    created.rows().put(b"\xffrow", b"1").unwrap();
    catalog.truncate(&dropped).unwrap_err();
    assert_eq!(created.rows().get(b"\xffrow").unwrap().unwrap(), "1");
    let add_column = |table: &CqlTable| {
        let changed = catalog.change_table(table, |schema| CHANGES[4](schema).map(Some));
        changed.unwrap().unwrap()
    };
    assert!(!add_column(&dropped));
    assert!(add_column(created));
}

/// TRUNCATE and DROP KEYSPACE once failed on a full disk, and a truncated table kept its files
/// until another table was flushed.
#[test]
fn truncate_and_drop_keyspace_work_on_a_full_disk() {
    let (disk, catalog) = changed(3);
    let state = catalog.state();
    let table = state.table("app", "t").unwrap();
    let value: Vec<u8> = (0..60_000_u64).map(|at| (at * at % 65_521) as u8).collect();
    let fill = || {
        disk.set_capacity_bytes(Some(disk.used_bytes() + (128 << 20)));
        table.rows().put(b"\xffrow", &value).unwrap();
        catalog.db().flush().unwrap();
        disk.set_capacity_bytes(Some(disk.used_bytes()));
        table.rows().put(b"\xffrow", b"").unwrap_err();
    };
    let file_bytes = || {
        let tables = catalog.db().stats().tables;
        tables.iter().find(|of| of.name == "t").unwrap().file_bytes
    };
    fill();
    let full_bytes = file_bytes();
    catalog.truncate(table).unwrap();
    let left_bytes = file_bytes();
    assert!(left_bytes < full_bytes / 4, "{left_bytes} of {full_bytes}");
    fill();
    assert!(apply(&catalog, CHANGES[8]).unwrap());
    disk.set_capacity_bytes(None);
    drop((state, catalog));
    let catalog = open(&disk).unwrap();
    assert_eq!(catalog.state().schema(), &Schema::default());
    assert!(catalog.db().existing_keyspace("app").is_err());
}

#[test]
fn the_schema_sets_the_compression_of_files() {
    let (_, catalog) = changed(3);
    let compressed_by = |class: &str| {
        let entries = match class {
            "" => [("enabled".to_string(), "false".to_string())],
            class => [("class".to_string(), format!("org.apache.{class}"))],
        };
        let compression = OptionValue::Map(entries.into());
        let altered = catalog.change::<CatalogError>(|schema| {
            let options = [("compression".to_string(), compression.clone())];
            let next = schema.alter_table("app", "t", |table| table.alter_options(options))?;
            Ok(Some(next))
        });
        assert!(altered.flatten().unwrap());
        let state = catalog.state();
        let form = state.table("app", "t").unwrap().rows().options();
        (form.sstable.compression, form.sstable.bottom_compression)
    };
    let lz4 = (Compression::Lz4, None);
    let zstd = (Compression::Lz4, Some(Compression::Zstd));
    assert_eq!(compressed_by("ZstdCompressor"), zstd);
    assert_eq!(compressed_by("SnappyCompressor"), lz4);
    assert_eq!(compressed_by("DeflateCompressor"), zstd);
    assert_eq!(compressed_by("LZ4Compressor"), lz4);
    assert_eq!(compressed_by("NoopCompressor"), (Compression::None, None));
    assert_eq!(compressed_by("ZstdCompressor"), zstd);
    assert_eq!(compressed_by(""), (Compression::None, None));
}

#[test]
fn a_snapshot_has_the_schema_of_its_moment() {
    let (_, catalog) = changed(3);
    let keyspace = catalog.db().existing_keyspace("app").unwrap();
    keyspace.create_snapshot("before").unwrap();
    keyspace.table("lines", Default::default()).unwrap();
    keyspace.create_snapshot("later").unwrap();
    let then = catalog.state();
    let then = then.table("app", "t").unwrap();
    for change in &CHANGES[3..6] {
        apply(&catalog, *change).unwrap();
    }
    let at = |snapshot: &str, table: &str| {
        let snapshot = keyspace.snapshot(snapshot).unwrap();
        let name = format!("app.{table}");
        schema_at(&snapshot.table(table).unwrap(), &name).unwrap()
    };
    assert_eq!(at("before", "t").as_ref(), Some(&**then.schema()));
    assert_eq!(at("later", "lines"), None);
}

#[test]
fn roles_and_permissions_are_there_after_a_restart_or_a_power_loss_or_not_at_all() {
    type Change = fn(&Roles) -> Result<Roles, RoleError>;
    let changes: [Change; 4] = [
        |roles| roles.with_new("ada", Role::default()),
        |roles| roles.with_new("team", Role::default()),
        |roles| roles.with_member("team", "ada"),
        |roles| roles.without("team"),
    ];
    let mut all = vec![Roles::default()];
    for change in changes {
        all.push(change(all.last().unwrap()).unwrap());
    }
    for nth_call in 1.. {
        let disk = MemDisk::new();
        let catalog = open(&disk).unwrap();
        disk.crash_at(nth_call);
        let apply = |change: &Change| {
            let changed = catalog.roles().change(|roles| change(roles).map(Some));
            changed.is_ok_and(|changed| changed.unwrap())
        };
        let done = changes.iter().take_while(|change| apply(change)).count();
        assert_eq!(catalog.roles().state().roles(), &all[done]);
        assert_eq!(catalog.roles().generation(), done as u64);
        let whole = done == changes.len() && disk.has_power();
        drop(catalog);
        disk.restart(nth_call);
        let catalog = open(&disk).unwrap();
        let state = catalog.roles().state();
        let found = all[done..].iter().position(|roles| roles == state.roles());
        assert!(
            found.is_some_and(|later| later <= 1),
            "{nth_call}: {state:?}"
        );
        if whole {
            break;
        }
    }
}

/// Grants all permissions on `on` to the role `ada`, which is created if it is missing.
fn grant(catalog: &Catalog, on: &[Resource]) {
    let changed = catalog.roles().change(|roles| {
        let mut next = roles.clone();
        if next.get("ada").is_none() {
            next = next.with_new("ada", Role::default())?;
        }
        for on in on {
            next = next.with_permissions("ada", on, PermissionSet::ALL)?.0;
        }
        Ok::<_, RoleError>(Some(next))
    });
    changed.unwrap().unwrap();
}

/// Returns the resources on which the role `ada` has permissions.
fn resources(catalog: &Catalog) -> Vec<Resource> {
    let state = catalog.roles().state();
    let permissions = &state.roles().get("ada").unwrap().permissions;
    permissions.keys().cloned().collect()
}

/// Permissions on a dropped table must not apply to a later table of its name.
#[test]
fn permissions_are_dropped_with_their_resource_even_after_a_crash() {
    let (disk, catalog) = changed(4);
    let on = ["t", "u"].map(|name| Resource::table("app", name));
    grant(&catalog, &on);
    apply(&catalog, CHANGES[7]).unwrap();
    assert_eq!(resources(&catalog), on[..1]);
    // A grant on a missing table stands for a crash between the two commits.
    grant(&catalog, &on);
    apply(&catalog, CHANGES[3]).unwrap();
    assert_eq!(resources(&catalog), on[..1], "a new table inherits nothing");
    apply(&catalog, CHANGES[7]).unwrap();
    grant(&catalog, &on);
    drop(catalog);
    let catalog = open(&disk).unwrap();
    assert_eq!(resources(&catalog), on[..1]);
    apply(&catalog, CHANGES[8]).unwrap();
    assert_eq!(resources(&catalog), []);
}

/// Opens a catalog again on a disk without free space. Before, a flush creates the file RESERVE.
/// The catalog is opened again because a newly opened database checks the free space at its first
/// write, and an open one only now and then.
fn reopen_on_full_disk(disk: &MemDisk, catalog: Catalog) -> Catalog {
    disk.set_capacity_bytes(Some(disk.used_bytes() + (128 << 20)));
    catalog.db().flush().unwrap();
    drop(catalog);
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    open(disk).unwrap()
}

/// Regression: a drop removed the permissions on the dropped object by a write that a full disk refused.
/// The object was gone, and the statement failed, as did each later change of the schema and the next
/// start.
#[test]
fn objects_with_permissions_are_dropped_on_a_full_disk() {
    let (disk, catalog) = changed(4);
    let on = [
        Resource::keyspace("app"),
        Resource::table("app", "t"),
        Resource::table("app", "u"),
    ];
    grant(&catalog, &on);
    let catalog = reopen_on_full_disk(&disk, catalog);
    assert!(apply(&catalog, CHANGES[7]).unwrap());
    assert_eq!(resources(&catalog).len(), 2);
    assert!(apply(&catalog, CHANGES[8]).unwrap());
    assert_eq!(resources(&catalog), []);
    drop(catalog);
    let catalog = open(&disk).unwrap();
    assert_eq!(catalog.state().schema(), &Schema::default());
    assert_eq!(resources(&catalog), []);
}

/// Regression: a start was refused if a full disk had no space for the removal of permissions on dropped
/// objects.
#[test]
fn permissions_on_dropped_objects_wait_for_space_and_never_apply_to_new_ones() {
    let (disk, catalog) = changed(3);
    // A grant on a missing object stands for a crash between the two commits of a drop.
    let on = [Resource::table("app", "u"), Resource::role("eve")];
    grant(&catalog, &on);
    drop(catalog);
    // No flush has held space back.
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    let catalog = open(&disk).unwrap();
    assert_eq!(resources(&catalog).len(), 2);
    let refused = apply(&catalog, CHANGES[3]).unwrap_err();
    assert!(refused.to_string().contains("disk is full"), "{refused}");
    assert!(catalog.state().table("app", "u").is_none());
    disk.set_capacity_bytes(None);
    let eve = |roles: &Roles| roles.with_new("eve", Role::default()).map(Some);
    assert!(catalog.roles().change(eve).unwrap().unwrap());
    assert_eq!(resources(&catalog), on[..1]);
    assert!(apply(&catalog, CHANGES[3]).unwrap());
    assert_eq!(resources(&catalog), []);
    drop(catalog);
    let catalog = open(&disk).unwrap();
    assert!(catalog.state().table("app", "u").is_some());
    assert_eq!(resources(&catalog), []);
}

const CREATE_INDEX: Change = |schema| {
    let column = ("a", IndexTarget::Simple);
    let next = schema.create_index(("app", "t"), Some("by_a"), column, false)?;
    Ok(next.expect("the index is new"))
};
const DROP_INDEX: Change = |schema| Ok(schema.drop_index("app", "by_a")?.0);

/// Creates a catalog with an index of the table `app.t`.
fn with_index(disk: &MemDisk) -> Catalog {
    let catalog = open(disk).unwrap();
    for change in CHANGES[..5].iter().chain([&CREATE_INDEX]) {
        assert!(apply(&catalog, *change).unwrap());
    }
    catalog
}

/// Readers with an earlier schema must not use the entries of an index that is being dropped.
#[test]
fn a_dropped_index_is_marked_for_all_earlier_schemas_unless_the_drop_fails() {
    for fails in [false, true] {
        let disk = MemDisk::new();
        let catalog = with_index(&disk);
        let first = catalog.state();
        let table = first.table("app", "t").unwrap();
        let id = table.schema().indexes()[0].id;
        // The type of a column gets a field, so that the table has another schema.
        assert!(apply(&catalog, CHANGES[5]).unwrap());
        let second = catalog.state();
        if fails {
            disk.crash_at(1);
        }
        assert_eq!(apply(&catalog, DROP_INDEX).is_err(), fails);
        let marks = [&first, &second].map(|state| {
            let table = state.table("app", "t").unwrap();
            table.is_index_dropped(id)
        });
        assert_eq!(marks, [!fails; 2]);
        if !fails {
            assert!(apply(&catalog, CREATE_INDEX).unwrap());
            let state = catalog.state();
            let table = state.table("app", "t").unwrap();
            assert!(!table.is_index_dropped(table.schema().indexes()[0].id));
        }
    }
}

/// Regression: DROP INDEX, which frees the space of the entries, failed on a full disk.
#[test]
fn an_index_is_dropped_on_a_full_disk() {
    let disk = MemDisk::new();
    let catalog = with_index(&disk);
    let catalog = reopen_on_full_disk(&disk, catalog);
    apply(&catalog, CHANGES[5]).unwrap_err();
    assert!(apply(&catalog, DROP_INDEX).unwrap());
    drop(catalog);
    let state = open(&disk).unwrap().state();
    let table = state.table("app", "t").unwrap();
    assert_eq!(table.schema().indexes(), []);
}
