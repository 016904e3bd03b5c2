//! Decodes the records of keyspaces and tables at the start of a server. The same functions check a
//! change of the schema before any of it is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::unreadable::Cause;
use super::{KeyspaceSchema, Schema, SchemaError, TableSchema, UserType, invalid};
use crate::types::identifier::Quoted;

impl KeyspaceSchema {
    /// Decodes the keyspace `name` from its record, without tables.
    ///
    /// # Errors
    /// [`SchemaError::Record`], also if the record is that of another keyspace.
    pub fn open(name: &str, record: &[u8]) -> Result<Self, SchemaError> {
        let keyspace = Self::decode(record)?;
        if keyspace.name() == name {
            Ok(keyspace)
        } else {
            let what = format!("it is that of keyspace {}", keyspace.name());
            Err(SchemaError::Record(what))
        }
    }

    /// Returns whether the next start would read this keyspace, without its tables, from `record`.
    pub fn is_read_from(&self, record: &[u8]) -> bool {
        record == self.encode()
            || Self::open(&self.name, record).is_ok_and(|read| read == self.without_tables())
    }

    fn without_tables(&self) -> Self {
        Self {
            tables: BTreeMap::new(),
            unreadable_tables: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// Adds the table `name`, decoded from `record`. The table is added as unreadable if `record`
    /// is an error (the reason why the record could not be read), or if the record cannot be
    /// decoded or contradicts other records.
    #[must_use]
    pub fn with_record(mut self, name: &str, record: Result<&[u8], String>) -> Self {
        let opened = record.map_err(Cause::new).and_then(|record| {
            let table = TableSchema::open((&self.name, name), record)?;
            self.fitting(table)
        });
        match opened {
            Ok(table) => {
                self.tables.insert(name.into(), Arc::new(table));
            }
            Err(cause) => {
                self.unreadable_tables.insert(name.into(), cause);
            }
        }
        self
    }

    /// Returns a decoded table if it fits the other records of the keyspace. One commit writes a
    /// type and the tables that use it, so a table with another form of the type proves that one of
    /// the records is stale. A type that is missing or unreadable in the keyspace is no
    /// contradiction: the table's record contains all types that its rows need. An index with the
    /// name of another table's index is a contradiction, too.
    fn fitting(&self, table: TableSchema) -> Result<TableSchema, Cause> {
        let differs = |(name, used): &(&str, &Arc<UserType>)| {
            let own = self.types.get(*name);
            own.is_some_and(|own| own != *used)
        };
        let other = table.used_types().into_iter().find(differs);
        if let Some((name, _)) = other {
            return Err(Cause::new(format!(
                "it uses another version of type {name} than its keyspace has"
            )));
        }
        for index in &table.indexes {
            let owner = self.table_of_index(&index.name);
            if let Some(owner) = owner.filter(|owner| owner.name != table.name) {
                let name = Quoted(&index.name);
                return Err(Cause {
                    why: format!(
                        "its index {name} has the name of an index of table {}",
                        owner.name
                    ),
                    remedy: Some(format!(
                        "DROP INDEX {}.{name} and a restart bring it back",
                        Quoted(&self.name)
                    )),
                });
            }
        }
        Ok(table)
    }
}

impl TableSchema {
    /// Decodes the table `name` of a keyspace from its record.
    ///
    /// # Errors
    /// [`SchemaError::Record`], also if the record is that of another table.
    pub fn open((keyspace, name): (&str, &str), record: &[u8]) -> Result<Self, SchemaError> {
        let table = Self::decode(record)?;
        if table.keyspace() == keyspace && table.name() == name {
            Ok(table)
        } else {
            let what = format!("it is that of table {}.{}", table.keyspace(), table.name());
            Err(SchemaError::Record(what))
        }
    }

    /// Returns whether the next start would read this table from `record`.
    pub fn is_read_from(&self, record: &[u8]) -> bool {
        let name = (self.keyspace(), self.name());
        record == self.encode() || Self::open(name, record).is_ok_and(|read| read == *self)
    }
}

impl Schema {
    /// Checks the objects of `next` that differ from those of this schema: the next start must
    /// decode each of them from its record exactly as it is in `next`. The rules for statements
    /// should prevent every failure of this check.
    ///
    /// # Errors
    /// [`SchemaError::Invalid`], with the unreadable object and the reason.
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
                    check_table(keyspace, table)?;
                }
            }
        }
        Ok(())
    }
}

fn check_keyspace(keyspace: &KeyspaceSchema) -> Result<(), SchemaError> {
    let what = format!("keyspace {}", keyspace.name());
    let read = KeyspaceSchema::open(keyspace.name(), &keyspace.encode());
    // Tables have records of their own.
    is_same(&what, read, &keyspace.without_tables())
}

fn check_table(keyspace: &KeyspaceSchema, table: &TableSchema) -> Result<(), SchemaError> {
    let what = format!("table {}.{}", keyspace.name(), table.name());
    let read = TableSchema::open((keyspace.name(), table.name()), &table.encode());
    let fitting = |read| {
        let fitting = keyspace.fitting(read);
        fitting.map_err(|cause| SchemaError::Record(cause.why))
    };
    is_same(&what, read.and_then(fitting), table)
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
