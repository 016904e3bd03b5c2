//! The transition from one schema to the next: the writes to the store, and the resulting tables.

use std::sync::Arc;

use ebb_model::schema::{KeyspaceSchema, Schema};

use super::catalog::{CatalogState, Tables};
use super::error::Result;
use super::form::form;
use super::store::{ChangedTable, SchemaStore};
use super::table::CqlTable;

/// Checks that the keyspaces which only `next` has may be created. Writes nothing.
///
/// # Errors
/// [`CatalogError::Foreign`](super::error::CatalogError::Foreign) if the database has a keyspace of such a
/// name with tables in it; errors of the store.
pub(super) fn check_creations(store: &SchemaStore, now: &Schema, next: &Schema) -> Result<()> {
    let mut created = next
        .keyspaces()
        .filter(|keyspace| now.keyspace(keyspace.name()).is_none());
    created.try_for_each(|keyspace| store.check_creation(keyspace.name()))
}

/// Stores the differences between `now` and `next`. Calls `publish` with the next state once they
/// are durable.
///
/// # Errors
/// If the next opening could not decode the change, or if existing tables prevent it: nothing is
/// written. If the store fails: the change is visible only if `publish` was called.
pub(super) fn carry_out(
    store: &SchemaStore,
    now: &CatalogState,
    next: Schema,
    publish: impl FnOnce(CatalogState),
) -> Result<()> {
    now.schema().check_reopening(&next)?;
    let mut tables = now.tables().clone();
    let readable = now.schema().keyspaces().map(|keyspace| keyspace.name());
    let unreadable = now.schema().unreadable_keyspaces().map(|name| &**name);
    for name in readable.chain(unreadable) {
        if !next.has_keyspace(name) {
            tables.remove(name);
            let decided = || publish(CatalogState::new(next, tables));
            return store.drop_keyspace(name, decided);
        }
    }
    for keyspace in next.keyspaces() {
        match now.schema().keyspace(keyspace.name()) {
            None => {
                store.create_keyspace(keyspace.name(), &keyspace.encode())?;
                tables.insert(keyspace.name().into(), Default::default());
            }
            Some(before) if Arc::ptr_eq(before, keyspace) => {}
            Some(before) => change_keyspace(store, before, keyspace, &mut tables)?,
        }
    }
    publish(CatalogState::new(next, tables));
    Ok(())
}

fn change_keyspace(
    store: &SchemaStore,
    before: &KeyspaceSchema,
    after: &KeyspaceSchema,
    tables: &mut Tables,
) -> Result<()> {
    let name = after.name();
    let tables = tables.entry(name.into()).or_default();
    let readable = before.tables().map(|table| table.name());
    let unreadable = before.unreadable_tables().map(|table| &**table);
    for table in readable.chain(unreadable) {
        if after.table(table).is_none() && after.unreadable_table(table).is_none() {
            store.drop_table(name, table)?;
            tables.remove(table);
        }
    }
    let mut altered: Vec<ChangedTable> = Vec::new();
    // The tables that lose an index, each with its next schema.
    let mut dropping = Vec::new();
    for schema in after.tables() {
        let table = match (before.table(schema.name()), tables.get(schema.name())) {
            (Some(same), Some(_)) if Arc::ptr_eq(same, schema) => continue,
            (Some(old), Some(table)) => {
                // Also the entries of writers that still used the schema with the index.
                let ids_of_no_index = if old.indexes() == schema.indexes() {
                    Vec::new()
                } else {
                    schema.ids_of_no_index()
                };
                let is_dropped = |id| schema.indexed_column(id).is_none();
                let drops_index = old.indexes().iter().any(|index| is_dropped(index.id));
                store.alter_table(name, schema.name(), form(schema))?;
                altered.push(ChangedTable {
                    table: table.rows().clone(),
                    record: schema.encode(),
                    ids_of_no_index,
                    drops_index,
                });
                if drops_index {
                    dropping.push((Arc::clone(table), schema));
                }
                table.with_schema(schema.clone())
            }
            _ => {
                let record = schema.encode();
                let rows = store.create_table(name, schema.name(), &record, form(schema))?;
                CqlTable::new(schema.clone(), rows)
            }
        };
        tables.insert(schema.name().into(), Arc::new(table));
    }
    let record = after.encode();
    if record != before.encode() || !altered.is_empty() {
        let mark = |is_dropped: bool| {
            for (table, next) in &dropping {
                table.mark_dropped(next, is_dropped);
            }
        };
        // Before the commit, because readers may use the schema with the index until `publish`.
        // After a failed commit the index still has its entries.
        mark(true);
        let written = store.write_keyspace(name, &record, &altered);
        written.inspect_err(|_| mark(false))?;
    }
    Ok(())
}
