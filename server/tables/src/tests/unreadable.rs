//! Unreadable objects do not affect the rest of the catalog.

mod losses;
mod roles;
mod tables;

use ebb_storage::Table;

use super::*;

const ROW: &[u8] = b"\xffrow";

const DROP_T: Change = |schema| schema.drop_table("app", "t");

/// Returns a catalog on a new disk with the table `app.t`, which has a row, the table `app.u`, and the
/// keyspace `other`.
fn with_rows() -> (MemDisk, Catalog) {
    let (disk, catalog) = changed(4);
    let create: Change = |schema| schema.create_keyspace(keyspace("other"));
    apply(&catalog, create).unwrap();
    t(&catalog).put(ROW, b"1").unwrap();
    (disk, catalog)
}

/// Returns a table of the store.
fn table(catalog: &Catalog, keyspace: &str, name: &str) -> Table {
    let keyspace = catalog.db().existing_keyspace(keyspace).unwrap();
    keyspace.existing_table(name).unwrap()
}

fn t(catalog: &Catalog) -> Table {
    table(catalog, "app", "t")
}

fn role_records(catalog: &Catalog) -> Table {
    table(catalog, "ebb_system", "roles")
}

/// Applies a change of the roles, which must be valid.
fn change_roles(
    catalog: &Catalog,
    change: impl FnOnce(&Roles) -> Result<Roles, RoleError>,
) -> Result<bool> {
    let changed = catalog.roles().change(|roles| change(roles).map(Some));
    changed.map(|changed| changed.unwrap())
}

/// Adds a role without permissions.
fn add_role(catalog: &Catalog, name: &str) {
    assert!(change_roles(catalog, |roles| roles.with_new(name, Role::default())).unwrap());
}

/// Grants all permissions on `on` to a role.
fn grant_all(catalog: &Catalog, role: &str, on: &Resource) {
    let granted = change_roles(catalog, |roles| {
        Ok(roles.with_permissions(role, on, PermissionSet::ALL)?.0)
    });
    assert!(granted.unwrap());
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
