//! One keyspace: its replication options, its types and its tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::unreadable::{Cause, UnreadableType};
use super::{SchemaError, TableSchema, UserType, check_name};
use crate::types::{CqlType, TypeError};

/// A keyspace. Names are as they are stored: lower case unless they were quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceSchema {
    pub(super) name: Arc<str>,
    pub(super) replication: BTreeMap<String, String>,
    pub(super) durable_writes: bool,
    pub(super) types: BTreeMap<Arc<str>, Arc<UserType>>,
    pub(super) tables: BTreeMap<Arc<str>, Arc<TableSchema>>,
    /// The unreadable types, by name.
    pub(super) unreadable_types: BTreeMap<Arc<str>, UnreadableType>,
    /// The names of the unreadable tables, with the reasons.
    pub(super) unreadable_tables: BTreeMap<Arc<str>, Cause>,
    /// The snapshot that the tables belong to; `None` for the current tables.
    pub(super) snapshot: Option<Arc<str>>,
}

impl KeyspaceSchema {
    /// Creates a keyspace without types and tables. Replication is stored and shown but has no
    /// effect, because ebb keeps one copy.
    ///
    /// # Errors
    /// If the name is invalid, or `replication` has no class.
    pub fn new(
        name: &str,
        replication: BTreeMap<String, String>,
        durable_writes: bool,
    ) -> Result<Self, SchemaError> {
        check_name("Keyspace", name).map_err(SchemaError::Invalid)?;
        if !replication.contains_key("class") {
            return Err(SchemaError::Configuration(
                "Missing replication strategy class".to_owned(),
            ));
        }
        Ok(Self {
            name: name.into(),
            replication,
            durable_writes,
            types: BTreeMap::new(),
            tables: BTreeMap::new(),
            unreadable_types: BTreeMap::new(),
            unreadable_tables: BTreeMap::new(),
            snapshot: None,
        })
    }

    /// Marks the keyspace as one of a snapshot, so that errors name the snapshot.
    #[must_use]
    pub fn at_snapshot(mut self, snapshot: &str) -> Self {
        self.snapshot = Some(snapshot.into());
        self
    }

    /// Returns the name of the keyspace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the options of `WITH replication`.
    pub fn replication(&self) -> &BTreeMap<String, String> {
        &self.replication
    }

    /// Returns the option `durable_writes`, which is stored and shown only.
    pub fn durable_writes(&self) -> bool {
        self.durable_writes
    }

    /// Returns a table by its name; `None` if it does not exist or is unreadable.
    pub fn table(&self, name: &str) -> Option<&Arc<TableSchema>> {
        self.tables.get(name)
    }

    /// Returns all readable tables, in the order of their names.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.tables.values()
    }

    /// Returns the table that has the index of this name; `None` if no readable table has it.
    pub fn table_of_index(&self, index: &str) -> Option<&Arc<TableSchema>> {
        let mut tables = self.tables.values();
        tables.find(|table| table.indexes.iter().any(|one| *one.name == *index))
    }

    /// Returns a user-defined type by its name; `None` if it does not exist or is unreadable.
    pub fn user_type(&self, name: &str) -> Option<&Arc<UserType>> {
        self.types.get(name)
    }

    /// Returns all readable user-defined types, each after the types that it uses.
    pub fn user_types(&self) -> Vec<&Arc<UserType>> {
        in_order_of_use(self.types.values())
    }

    /// Parses a type in a statement that uses this keyspace.
    ///
    /// # Errors
    /// See [`CqlType::parse`].
    pub fn parse_type(&self, text: &str) -> Result<CqlType, TypeError> {
        CqlType::parse(text, &|name| self.user_type(name).cloned())
    }
}

/// Sorts types by depth and name, so that each comes after the types that it uses.
pub(super) fn in_order_of_use<'a>(
    types: impl Iterator<Item = &'a Arc<UserType>>,
) -> Vec<&'a Arc<UserType>> {
    let mut types: Vec<_> = types.collect();
    // A type nests deeper than the types that it uses.
    types.sort_by_key(|t| (t.depth(), t.name()));
    types
}
