//! One keyspace: how it says it is replicated, its types and its tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::unreadable::UnreadableType;
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
    /// Types that cannot be read, by name.
    pub(super) unreadable_types: BTreeMap<Arc<str>, UnreadableType>,
    /// Tables that cannot be read, by name with the reason.
    pub(super) unreadable_tables: BTreeMap<Arc<str>, Arc<str>>,
    /// The snapshot whose tables these are; `None` for the tables as they are now.
    pub(super) snapshot: Option<Arc<str>>,
}

impl KeyspaceSchema {
    /// A keyspace without types and tables. Replication is kept and shown; there is one copy.
    ///
    /// # Errors
    /// A bad name, or replication without a class.
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

    /// The keyspace for the tables of a snapshot, whose errors then name the snapshot.
    #[must_use]
    pub fn at_snapshot(mut self, snapshot: &str) -> Self {
        self.snapshot = Some(snapshot.into());
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What `WITH replication` said.
    pub fn replication(&self) -> &BTreeMap<String, String> {
        &self.replication
    }

    /// What `durable_writes` said.
    pub fn durable_writes(&self) -> bool {
        self.durable_writes
    }

    /// A table by its name.
    pub fn table(&self, name: &str) -> Option<&Arc<TableSchema>> {
        self.tables.get(name)
    }

    /// All tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.tables.values()
    }

    /// The table that has the index of a name.
    pub fn table_of_index(&self, index: &str) -> Option<&Arc<TableSchema>> {
        let mut tables = self.tables.values();
        tables.find(|table| table.indexes.iter().any(|one| *one.name == *index))
    }

    /// A user-defined type by its name.
    pub fn user_type(&self, name: &str) -> Option<&Arc<UserType>> {
        self.types.get(name)
    }

    /// All user-defined types, those that others use before them.
    pub fn user_types(&self) -> Vec<&Arc<UserType>> {
        in_order_of_use(self.types.values())
    }

    /// Reads a type as a statement of this keyspace may name it.
    ///
    /// # Errors
    /// As [`CqlType::parse`].
    pub fn parse_type(&self, text: &str) -> Result<CqlType, TypeError> {
        CqlType::parse(text, &|name| self.user_type(name).cloned())
    }
}

/// Types by name, each after those that it uses.
pub(super) fn in_order_of_use<'a>(
    types: impl Iterator<Item = &'a Arc<UserType>>,
) -> Vec<&'a Arc<UserType>> {
    let mut types: Vec<_> = types.collect();
    // What uses another nests deeper.
    types.sort_by_key(|t| (t.depth(), t.name()));
    types
}
