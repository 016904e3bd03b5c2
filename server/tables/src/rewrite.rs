//! Writes the stored records of keyspaces and tables in service again, from the schema in memory, if
//! damage or an accepted loss has taken them. Otherwise the next opening would take the objects out of
//! service, or read an older record. (`roles` does the same for the records of roles.)

use ebb_model::key::SCHEMA_KEY;
use ebb_model::schema::TableSchema;
use ebb_storage::{Db, Table};

use super::catalog::CatalogState;
use super::error::Result;
use super::store::SchemaStore;

/// Checks the stored records of the keyspace `name` and of its tables. Writes a record again if the next
/// opening could not read from it the object that is in memory, or if `is_at_risk` returns true for the
/// store's table that contains the record. One commit contains all records that are written, because a
/// keyspace and its tables must have the same version of a type. The commit may use the space that is
/// reserved for a full disk. The records of unreadable objects, and of objects that were dropped without
/// the catalog, stay unchanged. A record whose read fails for any reason is written again: the object in
/// memory is never older. The caller holds the lock that serializes schema changes.
///
/// # Errors
/// If the write fails.
pub(super) fn write_again(
    (db, store): (&Db, &SchemaStore),
    state: &CatalogState,
    name: &str,
    is_at_risk: &dyn Fn(&Table) -> bool,
) -> Result<()> {
    let Some(schema) = state.schema().keyspace(name) else {
        return Ok(());
    };
    let Ok(keyspace) = db.existing_keyspace(name) else {
        return Ok(());
    };
    let mut lost = Vec::new();
    let tables = state.tables().get(name).into_iter();
    for table in tables.flat_map(|of| of.values()) {
        let rows = table.rows();
        let existing = keyspace.existing_table(rows.name());
        if existing.is_ok_and(|existing| existing.is_same_table(rows))
            && (is_at_risk(rows) || !has_record(rows, table.schema()))
        {
            lost.push((rows.clone(), table.schema().encode()));
        }
    }
    let has_keyspace = store.has_keyspace(name, |record| schema.is_read_from(record));
    let record = (is_at_risk(store.keyspaces()) || !has_keyspace).then(|| schema.encode());
    store.write_again(name, record.as_deref(), &lost)
}

/// Returns whether the next opening would read `schema` from the record in the table `rows`.
fn has_record(rows: &Table, schema: &TableSchema) -> bool {
    matches!(rows.get(SCHEMA_KEY), Ok(Some(record)) if schema.is_read_from(&record))
}
