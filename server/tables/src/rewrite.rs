//! Writes the stored records of keyspaces and tables in service again, from the schema in memory, if
//! damage or an accepted loss has taken them. Otherwise the next opening would take the objects out of
//! service, or read an older record. (`roles` does the same for the records of roles.)

use ebb_model::key::SCHEMA_KEY;
use ebb_model::schema::TableSchema;
use ebb_storage::{Db, Table};

use super::catalog::CatalogState;
use super::error::Result;
use super::store::SchemaStore;

/// Writes those records of the keyspace `name` and of its tables again from which the next opening would
/// not read what is in service, and all in tables of the store for which `is_at_risk` returns true. One
/// commit has them, because a keyspace and its tables must have the same version of a type. Leaves the
/// records of unreadable objects, and those of objects that were dropped without the catalog. A record
/// whose read fails for any reason is written again: what is in service is never older. The caller holds
/// the lock of changes of the schema.
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
    for table in state
        .tables()
        .get(name)
        .into_iter()
        .flat_map(|of| of.values())
    {
        let rows = table.rows();
        let existing = keyspace.existing_table(rows.name());
        if existing.is_ok_and(|existing| existing.is_same_table(rows))
            && (is_at_risk(rows) || !has_record(rows, table.schema()))
        {
            lost.push((rows.clone(), table.schema().encode()));
        }
    }
    let has_record = store.has_keyspace(name, |it| schema.is_read_from(it));
    let record = (is_at_risk(store.keyspaces()) || !has_record).then(|| schema.encode());
    store.write_again(name, record.as_deref(), &lost)
}

/// Returns whether the next opening would read `schema` from the record in the table `rows`.
fn has_record(rows: &Table, schema: &TableSchema) -> bool {
    matches!(rows.get(SCHEMA_KEY), Ok(Some(record)) if schema.is_read_from(&record))
}
