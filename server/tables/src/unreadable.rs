//! Lists the unreadable parts of a database's own records, for commands that change nothing.

use std::collections::HashMap;

use bytes::Bytes;
use ebb_model::schema::{KeyspaceSchema, TableSchema, Unreadable};
use ebb_storage::{Db, ErrorKind, Keyspace};

use super::damage::Readable;
use super::error::{CatalogError, Result};
use super::identity::{Identity, NODE_TABLE, node_records};
use super::load::load;
use super::roles::{ROLES_TABLE, unreadable_roles};
use super::survey::{Survey, own_table};
use super::table::stored_record;
use super::timestamps::Timestamps;

/// Lists the objects that a server cannot read when it starts: keyspaces, tables and types, roles,
/// records of the node, and tables of snapshots. It writes nothing, so the database may be open
/// read-only.
///
/// # Errors
/// If the store failed for another reason than damage.
pub fn unreadable_objects(db: &Db) -> Result<Vec<Unreadable>> {
    let schema = load(Survey::of(db)?.keyspaces).schema;
    let mut all = schema.all_unreadable();
    if let Some(roles) = own_table(db, ROLES_TABLE)? {
        all.extend(unreadable_roles(&roles)?);
    }
    if let Some(node) = own_table(db, NODE_TABLE)? {
        let identity = Identity::read(&node)?.err();
        all.extend(node_records(
            identity,
            Timestamps::read_bound_us(&node)?.err(),
        ));
    }
    for keyspace in schema.keyspaces() {
        all.extend(in_snapshots(db, keyspace, usize::MAX)?);
    }
    Ok(all)
}

/// Lists the unreadable tables in the `max` newest snapshots of a keyspace.
///
/// # Errors
/// If the store failed for another reason than damage.
pub(super) fn in_snapshots(db: &Db, now: &KeyspaceSchema, max: usize) -> Result<Vec<Unreadable>> {
    let mut all = Vec::new();
    // An interrupted creation may have left only a record.
    let Ok(keyspace) = db.existing_keyspace(now.name()) else {
        return Ok(all);
    };
    let mut records = Records::default();
    let names = keyspace.snapshot_names();
    for snapshot in &names[names.len().saturating_sub(max)..] {
        match records.unreadable_at(&keyspace, snapshot) {
            Ok(tables) => all.extend(tables),
            // The snapshot expired meanwhile.
            Err(CatalogError::Store(error)) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// A cache of the results of decoding schema records, for the tables of one keyspace. Most snapshots
/// of a table have the same record, which is decoded only once.
#[derive(Debug, Default)]
struct Records {
    /// For each table's name and record that was decoded: the reason why the record is unreadable,
    /// or `None` if it is readable.
    decoded: HashMap<(String, Bytes), Option<String>>,
}

impl Records {
    /// Lists the unreadable tables of a snapshot.
    fn unreadable_at(&mut self, keyspace: &Keyspace, snapshot: &str) -> Result<Vec<Unreadable>> {
        let opened = keyspace.snapshot(snapshot)?;
        let mut all = Vec::new();
        for table in opened.tables() {
            let Some(record) = stored_record(&opened.table(table)?)? else {
                continue;
            };
            if let Some(why) = self.unreadable((keyspace.name(), table), record) {
                let unreadable = Unreadable::table(keyspace.name(), table, &why);
                all.push(unreadable.at_snapshot(snapshot));
            }
        }
        Ok(all)
    }

    fn unreadable(&mut self, table: (&str, &str), record: Readable<Bytes>) -> Option<String> {
        let record = match record {
            Ok(record) => record,
            Err(damage) => return Some(damage),
        };
        let key = (table.1.to_owned(), record);
        if let Some(known) = self.decoded.get(&key) {
            return known.clone();
        }
        let opened = TableSchema::open(table, &key.1);
        let why = opened.err().map(|error| error.reason());
        self.decoded.insert(key, why.clone());
        why
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_many_snapshots_have_is_decoded_once() {
        let mut records = Records::default();
        let record = || Ok(Bytes::from_static(b"{}"));
        let why = records.unreadable(("app", "t"), record()).unwrap();
        assert!(why.contains("format"), "{why}");
        let place = ("t".to_owned(), Bytes::from_static(b"{}"));
        let known = records.decoded.get_mut(&place).unwrap();
        *known = Some("decoded before".to_owned());
        let again = records.unreadable(("app", "t"), record());
        assert_eq!(again.as_deref(), Some("decoded before"));
        // The table's name is part of the check.
        assert_eq!(records.unreadable(("app", "u"), record()), Some(why));
        assert_eq!(records.decoded.len(), 2);
    }
}
