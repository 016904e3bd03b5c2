//! Objects of the schema whose records cannot be read.
//!
//! The schema keeps their names, each with the reason. So everything else is served, a statement
//! that names such an object gets the reason, no other object takes its name, and DROP removes it.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::{KeyspaceSchema, Schema, SchemaError};

/// A kind of object in the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// A keyspace, with everything in it.
    Keyspace,
    /// A table.
    Table,
    /// A user-defined type.
    Type,
}

/// An object of the schema that cannot be read, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The keyspace that is the object, or that the object is in.
    pub keyspace: String,
    /// The name of the object; `None` for a keyspace.
    pub name: Option<String>,
    /// The snapshot whose record of the object it is; `None` for the object as it is now.
    pub snapshot: Option<String>,
    /// The reason.
    pub why: String,
}

impl Unreadable {
    /// A keyspace that cannot be read.
    pub fn keyspace(name: &str, why: &str) -> Self {
        Self {
            kind: ObjectKind::Keyspace,
            keyspace: name.to_owned(),
            name: None,
            snapshot: None,
            why: why.to_owned(),
        }
    }

    /// A table that cannot be read.
    pub fn table(keyspace: &str, name: &str, why: &str) -> Self {
        Self {
            kind: ObjectKind::Table,
            name: Some(name.to_owned()),
            ..Self::keyspace(keyspace, why)
        }
    }

    fn user_type(keyspace: &str, name: &str, why: &str) -> Self {
        Self {
            kind: ObjectKind::Type,
            ..Self::table(keyspace, name, why)
        }
    }

    /// The object as a snapshot has it.
    #[must_use]
    pub fn at_snapshot(mut self, snapshot: &str) -> Self {
        self.snapshot = Some(snapshot.to_owned());
        self
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ObjectKind::Keyspace => "keyspace",
            ObjectKind::Table => "table",
            ObjectKind::Type => "type",
        };
        write!(f, "the schema of {kind} {}", self.keyspace)?;
        if let Some(name) = &self.name {
            write!(f, ".{name}")?;
        }
        if let Some(snapshot) = &self.snapshot {
            write!(f, " at snapshot {snapshot}")?;
        }
        let remedy = match self.snapshot {
            None => "DROP it",
            Some(_) => "drop the snapshot",
        };
        let why = &self.why;
        write!(
            f,
            " cannot be read: {why}; restore it from a backup or {remedy}"
        )
    }
}

impl From<Unreadable> for SchemaError {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(Box::new(unreadable))
    }
}

/// A user-defined type whose part of the keyspace's record cannot be read. The part is written
/// back as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnreadableType {
    /// Names and types of the fields, as the record has them.
    pub(super) fields: Vec<(String, String)>,
    pub(super) why: String,
}

impl UnreadableType {
    /// Whether a field may be of the type `name`.
    fn may_use(&self, name: &str) -> bool {
        self.fields.iter().any(|(_, ty)| ty.contains(name))
    }
}

impl Schema {
    /// The schema with one more keyspace that cannot be read.
    #[must_use]
    pub fn with_unreadable_keyspace(mut self, name: &str, why: &str) -> Self {
        self.unreadable.insert(name.into(), why.into());
        self
    }

    /// Returns the error for a keyspace that is there but cannot be read, or for a table of a
    /// keyspace; `None` for those that can be read and those that are not there.
    pub fn unreadable(&self, keyspace: &str, table: Option<&str>) -> Option<SchemaError> {
        if let Some(why) = self.unreadable.get(keyspace) {
            return Some(Unreadable::keyspace(keyspace, why).into());
        }
        self.keyspace(keyspace)?.unreadable_table(table?)
    }

    /// The names of the keyspaces that cannot be read.
    pub fn unreadable_keyspaces(&self) -> impl Iterator<Item = &Arc<str>> {
        self.unreadable.keys()
    }

    /// Every object that cannot be read.
    pub fn all_unreadable(&self) -> Vec<Unreadable> {
        let keyspaces = self.unreadable.iter();
        let keyspaces = keyspaces.map(|(name, why)| Unreadable::keyspace(name, why));
        let inside = self.keyspaces().flat_map(|of| of.all_unreadable());
        keyspaces.chain(inside).collect()
    }

    /// Returns whether there is such a keyspace, readable or not.
    pub fn has_keyspace(&self, name: &str) -> bool {
        self.keyspace(name).is_some() || self.unreadable.contains_key(name)
    }

    /// Returns whether there is such a table, readable or not. A keyspace that cannot be read may
    /// have any.
    pub fn has_table(&self, keyspace: &str, name: &str) -> bool {
        self.table(keyspace, name).is_some() || self.unreadable(keyspace, Some(name)).is_some()
    }
}

impl KeyspaceSchema {
    /// The keyspace with one more table that cannot be read.
    #[must_use]
    pub fn with_unreadable_table(mut self, name: &str, why: &str) -> Self {
        self.unreadable_tables.insert(name.into(), why.into());
        self
    }

    /// Returns the error for a table that is there but cannot be read.
    pub fn unreadable_table(&self, name: &str) -> Option<SchemaError> {
        let why = self.unreadable_tables.get(name)?;
        Some(Unreadable::table(&self.name, name, why).into())
    }

    /// The names of the tables that cannot be read.
    pub fn unreadable_tables(&self) -> impl Iterator<Item = &Arc<str>> {
        self.unreadable_tables.keys()
    }

    /// Returns the error for a user-defined type that is there but cannot be read.
    pub fn unreadable_type(&self, name: &str) -> Option<SchemaError> {
        let why = &self.unreadable_types.get(name)?.why;
        Some(Unreadable::user_type(&self.name, name, why).into())
    }

    /// Every type and table that cannot be read.
    pub fn all_unreadable(&self) -> Vec<Unreadable> {
        let types = self.unreadable_types.iter();
        let types = types.map(|(name, ty)| Unreadable::user_type(&self.name, name, &ty.why));
        let tables = self.unreadable_tables.iter();
        let tables = tables.map(|(name, why)| Unreadable::table(&self.name, name, why));
        types.chain(tables).collect()
    }

    /// Returns the unreadable objects that may use a type of this name: every table, as nothing
    /// is known of its columns, and types with fields that mention the name.
    pub(super) fn unreadable_users(&self, name: &str) -> Vec<Unreadable> {
        let may_use = |found: &Unreadable| match (found.kind, &found.name) {
            (ObjectKind::Type, Some(of)) => {
                let ty = self.unreadable_types.get(of.as_str());
                of != name && ty.is_some_and(|ty| ty.may_use(name))
            }
            _ => true,
        };
        let mut users = self.all_unreadable();
        users.retain(may_use);
        users
    }
}
