//! Decodes the records that a server reads at its start, by the names of their objects. A
//! change of the schema is checked by the same functions before anything of it is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{KeyspaceSchema, Schema, SchemaError, TableSchema, invalid};

impl KeyspaceSchema {
    /// Reads the record of the keyspace `name`, without tables.
    ///
    /// # Errors
    /// [`SchemaError::Record`].
    pub fn open(name: &str, record: &[u8]) -> Result<Self, SchemaError> {
        let keyspace = Self::decode(record)?;
        if keyspace.name() == name {
            Ok(keyspace)
        } else {
            let what = format!("it is that of keyspace {}", keyspace.name());
            Err(SchemaError::Record(what))
        }
    }

    /// The keyspace with a table from its record. If there is no record but a reason, or the
    /// record cannot be decoded, the table is one that cannot be read.
    #[must_use]
    pub fn with_record(mut self, name: &str, record: Result<&[u8], String>) -> Self {
        let opened = record.and_then(|record| {
            TableSchema::open((&self.name, name), record).map_err(|error| error.reason())
        });
        match opened {
            Ok(table) => {
                self.tables.insert(name.into(), Arc::new(table));
                self
            }
            Err(why) => self.with_unreadable_table(name, &why),
        }
    }
}

impl TableSchema {
    /// Reads the record of the table `name` of a keyspace.
    ///
    /// # Errors
    /// [`SchemaError::Record`].
    pub fn open((keyspace, name): (&str, &str), record: &[u8]) -> Result<Self, SchemaError> {
        let table = Self::decode(record)?;
        if table.keyspace() == keyspace && table.name() == name {
            Ok(table)
        } else {
            let what = format!("it is that of table {}.{}", table.keyspace(), table.name());
            Err(SchemaError::Record(what))
        }
    }
}

impl Schema {
    /// Checks that the next start reads what `next` changes of this schema exactly as it is in
    /// `next`. The rules for statements should let nothing through that fails here.
    ///
    /// # Errors
    /// [`SchemaError::Invalid`], with what could not be read and the reason.
    pub fn check_reopening(&self, next: &Self) -> Result<(), SchemaError> {
        for keyspace in next.keyspaces() {
            let before = self.keyspace(keyspace.name());
            if before.is_some_and(|before| Arc::ptr_eq(before, keyspace)) {
                continue;
            }
            check_keyspace(keyspace)?;
            for table in keyspace.tables() {
                let before = before.and_then(|of| of.table(table.name()));
                if before.is_none_or(|before| !Arc::ptr_eq(before, table)) {
                    check_table(keyspace.name(), table)?;
                }
            }
        }
        Ok(())
    }
}

fn check_keyspace(keyspace: &KeyspaceSchema) -> Result<(), SchemaError> {
    // Tables have records of their own.
    let alone = KeyspaceSchema {
        tables: BTreeMap::new(),
        unreadable_tables: BTreeMap::new(),
        ..keyspace.clone()
    };
    let what = format!("keyspace {}", keyspace.name());
    let read = KeyspaceSchema::open(keyspace.name(), &keyspace.encode());
    is_same(&what, read, &alone)
}

fn check_table(keyspace: &str, table: &TableSchema) -> Result<(), SchemaError> {
    let what = format!("table {keyspace}.{}", table.name());
    let read = TableSchema::open((keyspace, table.name()), &table.encode());
    is_same(&what, read, table)
}

fn is_same<T: PartialEq>(
    what: &str,
    read: Result<T, SchemaError>,
    meant: &T,
) -> Result<(), SchemaError> {
    let why = match read {
        Ok(read) if read == *meant => return Ok(()),
        Ok(_) => "its record reads as another schema".to_owned(),
        Err(error) => error.reason(),
    };
    invalid(format!(
        "The change is refused, because the schema of {what} could not be read at the next start: \
         {why}. Nothing was changed. This is a fault of ebb: please report it"
    ))
}
