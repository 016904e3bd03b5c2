//! Decodes records to a schema. Unreadable objects are in the schema with the reason.

use std::collections::HashMap;

use ebb_model::schema::{KeyspaceSchema, Schema};
use ebb_storage::Table;

use super::survey::StoredKeyspace;

/// The schema of a database, with its tables.
#[derive(Debug, Default)]
pub(super) struct LoadedSchema {
    pub(super) schema: Schema,
    /// The tables of the store, readable or not, by the name of their keyspace. Unreadable
    /// keyspaces are left out.
    pub(super) tables: HashMap<String, Vec<Table>>,
}

/// Decodes the records of the schema of a database. A keyspace or a table whose record is damaged,
/// or cannot be decoded, is in the schema as unreadable, with the reason.
pub(super) fn load(stored: Vec<StoredKeyspace>) -> LoadedSchema {
    let mut keyspaces = Vec::new();
    let mut unreadable = Vec::new();
    let mut tables = HashMap::new();
    for StoredKeyspace {
        name,
        record,
        tables: stored,
    } in stored
    {
        let open = |record: &[u8]| KeyspaceSchema::open(&name, record);
        match record.and_then(|record| open(&record).map_err(|error| error.reason())) {
            Ok(mut keyspace) => {
                for table in &stored {
                    let record = table.record.as_deref().map_err(String::clone);
                    keyspace = keyspace.with_record(table.table.name(), record);
                }
                keyspaces.push(keyspace);
                let stored = stored.into_iter().map(|stored| stored.table);
                tables.insert(name, stored.collect());
            }
            Err(why) => unreadable.push((name, why)),
        }
    }
    let mut schema = Schema::new(keyspaces);
    for (name, why) in unreadable {
        schema = schema.with_unreadable_keyspace(&name, &why);
    }
    LoadedSchema { schema, tables }
}
