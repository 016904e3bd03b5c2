//! User-defined types (`CREATE TYPE`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{CqlType, DEPTH_MAX, NODES_MAX, TypeError};

/// A user-defined type with the types of its fields resolved.
///
/// A `UserType` is immutable: `ALTER TYPE` creates another one, and existing references keep the
/// old one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserType {
    // These values are stored, because computing them visits every use of every user-defined type.
    // They come first, so that the derived `==` finds most differences without comparing the
    // fields.
    nodes: usize,
    depth: usize,
    contains_duration: bool,
    keyspace: Arc<str>,
    name: Arc<str>,
    fields: Arc<[(Arc<str>, CqlType)]>,
    /// Indexes into `fields`, sorted by the names of the fields.
    by_name: Arc<[usize]>,
}

impl UserType {
    /// Creates a type of `keyspace` with `fields` in this order.
    ///
    /// # Errors
    /// Cassandra's messages: for repeated field names, counters, user-defined types that are not
    /// frozen, and fields whose types [`CqlType::check`] rejects; and errors for more nesting or
    /// fields than [`DEPTH_MAX`] and [`NODES_MAX`] allow.
    pub fn new(
        keyspace: &str,
        name: &str,
        fields: impl IntoIterator<Item = (Arc<str>, CqlType)>,
    ) -> Result<Self, TypeError> {
        let fields: Arc<[(Arc<str>, CqlType)]> = fields.into_iter().collect();
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, (field, ty)) in fields.iter().enumerate() {
            if names.insert(field, at).is_some() {
                return Err(TypeError::new(format!(
                    "Duplicate field name '{field}' in type '{name}'"
                )));
            }
            if *ty == CqlType::Counter {
                return Err(TypeError::new("A user type cannot contain counters"));
            }
            if matches!(ty, CqlType::Udt { frozen: false, .. }) {
                return Err(TypeError::new("A user type cannot contain non-frozen UDTs"));
            }
            ty.check()?;
        }
        let depth = fields.iter().map(|(_, t)| t.depth()).max().unwrap_or(0);
        let nodes = fields
            .iter()
            .fold(0usize, |sum, (_, t)| sum.saturating_add(t.nodes()));
        // A type that uses this one adds one level and one node.
        if depth >= DEPTH_MAX || nodes >= NODES_MAX {
            return Err(TypeError::new(format!(
                "Type '{name}' nests deeper than {DEPTH_MAX} or is made of more than {NODES_MAX} types"
            )));
        }
        let by_name = names.into_values().collect();
        let contains_duration = fields.iter().any(|(_, t)| t.contains_duration());
        Ok(Self {
            keyspace: keyspace.into(),
            name: name.into(),
            fields,
            by_name,
            depth,
            nodes,
            contains_duration,
        })
    }

    /// Returns the keyspace of the type.
    pub fn keyspace(&self) -> &str {
        &self.keyspace
    }

    /// Returns the name as it is stored: lower case unless it was quoted.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the names and types of the fields, in the order of their creation.
    pub fn fields(&self) -> &[(Arc<str>, CqlType)] {
        &self.fields
    }

    /// Returns the index of a field; `None` if the type has no field of this name. This is a binary
    /// search, because a statement calls it for each field that the statement names.
    pub fn field(&self, name: &str) -> Option<usize> {
        let found = (self.by_name).binary_search_by(|&at| (*self.fields[at].0).cmp(name));
        found.ok().map(|place| self.by_name[place])
    }

    /// Returns the depth of the deepest field's type.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the number of types in all fields.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns whether a field is or contains a duration.
    pub fn contains_duration(&self) -> bool {
        self.contains_duration
    }
}
