//! Objects of the schema whose records cannot be read.
//!
//! The schema keeps their names with the reason. So the server serves everything else, a statement
//! that names such an object returns the reason, the name stays reserved, and DROP removes the
//! object.

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
    /// The snapshot whose record is unreadable; `None` for the current record.
    pub snapshot: Option<String>,
    /// The reason why the object cannot be read.
    pub why: String,
    /// The remedy, if it is not the usual one: to restore the object from a backup, or to DROP it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// The reason why a table cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) why: String,
    /// See [`Unreadable::remedy`].
    pub(super) remedy: Option<String>,
}

impl Cause {
    /// Returns a cause with the usual remedy: see [`Unreadable::remedy`].
    pub(super) fn new(why: String) -> Self {
        Self { why, remedy: None }
    }
}

impl From<SchemaError> for Cause {
    fn from(error: SchemaError) -> Self {
        Self::new(error.reason())
    }
}

impl Unreadable {
    /// Returns the description of an unreadable keyspace; `why` is the reason.
    pub fn keyspace(name: &str, why: &str) -> Self {
        Self {
            kind: ObjectKind::Keyspace,
            keyspace: name.to_owned(),
            name: None,
            snapshot: None,
            why: why.to_owned(),
            remedy: None,
        }
    }

    /// Returns the description of an unreadable table; `why` is the reason.
    pub fn table(keyspace: &str, name: &str, why: &str) -> Self {
        Self {
            kind: ObjectKind::Table,
            name: Some(name.to_owned()),
            ..Self::keyspace(keyspace, why)
        }
    }

    /// Returns the description of an unreadable role; `why` is the reason. `keyspace` contains the
    /// records of the roles. The name is `None` if not even the names of the roles can be read.
    pub fn role(keyspace: &str, name: Option<&str>, why: &str) -> Self {
        Self {
            kind: ObjectKind::Role,
            name: name.map(str::to_owned),
            ..Self::keyspace(keyspace, why)
        }
    }

    /// Returns the description of an unreadable record of the node itself (not of a table or a
    /// role), which is called `name`; `why` is the reason.
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

    /// Sets the name of the snapshot whose record is unreadable.
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
        write!(f, " cannot be read: {}; ", self.why)?;
        match (&self.snapshot, &self.remedy) {
            (Some(_), _) => f.write_str("restore it from a backup or drop the snapshot"),
            (None, None) => f.write_str("restore it from a backup or DROP it"),
            (None, Some(remedy)) => f.write_str(remedy),
        }
    }
}

impl From<Unreadable> for SchemaError {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(Box::new(unreadable))
    }
}

/// A user-defined type whose part of the keyspace's record is unreadable. Writing the keyspace's
/// record preserves this part unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnreadableType {
    /// The names and types of the fields, as in the record.
    pub(super) fields: Vec<(String, String)>,
    pub(super) why: String,
}

impl UnreadableType {
    /// Returns whether the type of a field may be or contain the type `name`. If the text of a
    /// field's type does not parse, returns true if the name occurs anywhere in the text.
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
    /// Returns the schema with one more unreadable keyspace.
    #[must_use]
    pub fn with_unreadable_keyspace(mut self, name: &str, why: &str) -> Self {
        self.unreadable.insert(name.into(), why.into());
        self
    }

    /// Returns the error if the keyspace is unreadable, or if it has an unreadable table `table`.
    /// Returns `None` if the object is readable or does not exist.
    pub fn unreadable(&self, keyspace: &str, table: Option<&str>) -> Option<SchemaError> {
        if let Some(why) = self.unreadable.get(keyspace) {
            return Some(Unreadable::keyspace(keyspace, why).into());
        }
        self.keyspace(keyspace)?.unreadable_table(table?)
    }

    /// Returns the error for an unreadable keyspace, or else for one of its unreadable tables. Such
    /// a table may have an index of any name. `None` if the keyspace and all its tables are
    /// readable.
    pub fn unreadable_owner_of_index(&self, keyspace: &str) -> Option<SchemaError> {
        self.unreadable(keyspace, None).or_else(|| {
            let keyspace = self.keyspace(keyspace)?;
            keyspace.unreadable_table(keyspace.unreadable_tables().next()?)
        })
    }

    /// Returns the error for an unreadable keyspace or table of the whole schema. It may have any
    /// table id, or contain a table with any id. `None` if all keyspaces and tables are readable.
    pub fn unreadable_owner_of_id(&self) -> Option<SchemaError> {
        let mut all = self.all_unreadable().into_iter();
        let owner = all.find(|found| found.kind != ObjectKind::Type)?;
        Some(owner.into())
    }

    /// Returns the names of the unreadable keyspaces.
    pub fn unreadable_keyspaces(&self) -> impl Iterator<Item = &Arc<str>> {
        self.unreadable.keys()
    }

    /// Returns every unreadable object.
    pub fn all_unreadable(&self) -> Vec<Unreadable> {
        let keyspaces = self.unreadable.iter();
        let keyspaces = keyspaces.map(|(name, why)| Unreadable::keyspace(name, why));
        let inside = self.keyspaces().flat_map(|of| of.all_unreadable());
        keyspaces.chain(inside).collect()
    }

    /// Returns whether the keyspace exists, readable or not.
    pub fn has_keyspace(&self, name: &str) -> bool {
        self.keyspace(name).is_some() || self.unreadable.contains_key(name)
    }

    /// Returns whether the table exists, readable or not. Returns true for any table of an
    /// unreadable keyspace, because it may exist.
    pub fn has_table(&self, keyspace: &str, name: &str) -> bool {
        self.table(keyspace, name).is_some() || self.unreadable(keyspace, Some(name)).is_some()
    }
}

impl KeyspaceSchema {
    /// Returns the keyspace with one more unreadable table.
    #[must_use]
    pub fn with_unreadable_table(mut self, name: &str, why: &str) -> Self {
        let cause = Cause::new(why.to_owned());
        self.unreadable_tables.insert(name.into(), cause);
        self
    }

    /// Returns the error for an unreadable table; `None` if the table is readable or does not
    /// exist.
    pub fn unreadable_table(&self, name: &str) -> Option<SchemaError> {
        let cause = self.unreadable_tables.get(name)?;
        Some(self.as_unreadable_table(name, cause).into())
    }

    fn as_unreadable_table(&self, name: &str, cause: &Cause) -> Unreadable {
        Unreadable {
            snapshot: self.snapshot.as_deref().map(str::to_owned),
            remedy: cause.remedy.clone(),
            ..Unreadable::table(&self.name, name, &cause.why)
        }
    }

    /// Returns the names of the unreadable tables.
    pub fn unreadable_tables(&self) -> impl Iterator<Item = &Arc<str>> {
        self.unreadable_tables.keys()
    }

    /// Returns the error for an unreadable user-defined type; `None` if the type is readable or
    /// does not exist.
    pub fn unreadable_type(&self, name: &str) -> Option<SchemaError> {
        let why = &self.unreadable_types.get(name)?.why;
        Some(Unreadable::user_type(&self.name, name, why).into())
    }

    /// Returns every unreadable type and table of the keyspace.
    pub fn all_unreadable(&self) -> Vec<Unreadable> {
        let types = self.unreadable_types.iter();
        let types = types.map(|(name, ty)| Unreadable::user_type(&self.name, name, &ty.why));
        let tables = self.unreadable_tables.iter();
        let tables = tables.map(|(name, cause)| self.as_unreadable_table(name, cause));
        types.chain(tables).collect()
    }

    /// Returns the unreadable objects that may use a type of this name: every unreadable table,
    /// because its columns are unknown, and every unreadable type with a field whose type may
    /// contain it.
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
