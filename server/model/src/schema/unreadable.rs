//! Objects of the schema whose records cannot be read.
//!
//! The schema keeps their names, each with the reason. So everything else is served, a statement
//! that names such an object gets the reason, no other object takes its name, and DROP removes it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{KeyspaceSchema, Schema, SchemaError};
use crate::types::CqlType;
use crate::types::identifier::Quoted;

/// A kind of object in the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// A keyspace, with everything in it.
    Keyspace,
    /// A table.
    Table,
    /// A user-defined type.
    Type,
    /// A role.
    Role,
    /// A record of the node itself.
    Node,
}

/// An object of the schema that cannot be read, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The keyspace that is the object, or that the object is in.
    pub keyspace: String,
    /// The name of the object; `None` for a keyspace, and for roles whose names cannot be read.
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

    /// A role whose record in a keyspace cannot be read; without a name for some of the roles, if
    /// not even their names can be read.
    pub fn role(keyspace: &str, name: Option<&str>, why: &str) -> Self {
        Self {
            kind: ObjectKind::Role,
            name: name.map(str::to_owned),
            ..Self::keyspace(keyspace, why)
        }
    }

    /// A record of the node in a keyspace.
    pub fn node(keyspace: &str, name: &str, why: &str) -> Self {
        Self {
            kind: ObjectKind::Node,
            ..Self::table(keyspace, name, why)
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
        let keyspace = &self.keyspace;
        let kind = match (self.kind, &self.name) {
            (ObjectKind::Keyspace, _) => "keyspace",
            (ObjectKind::Table, _) => "table",
            (ObjectKind::Type, _) => "type",
            (ObjectKind::Role, Some(name)) => {
                let why = &self.why;
                return write!(
                    f,
                    "role {name} cannot be read: {why}; restore it from a backup or DROP it"
                );
            }
            (ObjectKind::Role, None) => {
                let why = &self.why;
                return write!(
                    f,
                    "some roles cannot be read: {why}; restore the database from a backup, or \
                     save what can be read with ebb repair"
                );
            }
            (ObjectKind::Node, name) => {
                let (name, why) = (name.as_deref().unwrap_or_default(), &self.why);
                return write!(
                    f,
                    "the record {name} of the node cannot be read: {why}; a server that starts \
                     makes a new one"
                );
            }
        };
        write!(f, "the schema of {kind} {keyspace}")?;
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
    /// Returns whether a field may be of the type `name`. In a text that is no type, any place
    /// may be its name.
    fn may_use(&self, name: &str) -> bool {
        let quoted = Quoted(name).to_string();
        let mut types = self.fields.iter().map(|(_, ty)| ty);
        types.any(|ty| match CqlType::names_in(ty) {
            Ok(names) => names.contains(name),
            Err(_) => ty.contains(name) || ty.contains(&quoted),
        })
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

    /// Returns the error for a keyspace that cannot be read, or else for one of its tables that
    /// cannot: it may have an index of any name. `None` if every index of the keyspace is known.
    pub fn unreadable_owner_of_index(&self, keyspace: &str) -> Option<SchemaError> {
        self.unreadable(keyspace, None).or_else(|| {
            let keyspace = self.keyspace(keyspace)?;
            keyspace.unreadable_table(keyspace.unreadable_tables().next()?)
        })
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
        Some(self.as_unreadable_table(name, why).into())
    }

    fn as_unreadable_table(&self, name: &str, why: &str) -> Unreadable {
        Unreadable {
            snapshot: self.snapshot.as_deref().map(str::to_owned),
            ..Unreadable::table(&self.name, name, why)
        }
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
        let tables = tables.map(|(name, why)| self.as_unreadable_table(name, why));
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
