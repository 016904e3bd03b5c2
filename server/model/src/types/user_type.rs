//! A type that a user made with `CREATE TYPE`.

use std::sync::Arc;

use super::{CqlType, DEPTH_MAX, NODES_MAX, TypeError};

/// A user-defined type with its fields' types resolved.
///
/// It never changes: `ALTER TYPE` makes a new one, and whoever holds the old one keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserType {
    // The numbers are kept, because computing them walks through every use of every user-defined
    // type. They come first, because most types that differ differ in them.
    nodes: usize,
    depth: usize,
    contains_duration: bool,
    keyspace: Arc<str>,
    name: Arc<str>,
    fields: Arc<[(Arc<str>, CqlType)]>,
}

impl UserType {
    /// A type of `keyspace` with its fields in their order.
    ///
    /// # Errors
    /// In Cassandra's words: a field named twice, a counter, a user-defined type that is not
    /// frozen; more nesting or fields than [`DEPTH_MAX`] and [`NODES_MAX`] allow.
    pub fn new(
        keyspace: &str,
        name: &str,
        fields: impl IntoIterator<Item = (Arc<str>, CqlType)>,
    ) -> Result<Self, TypeError> {
        let fields: Arc<[(Arc<str>, CqlType)]> = fields.into_iter().collect();
        for (i, (field, ty)) in fields.iter().enumerate() {
            if fields[..i].iter().any(|(earlier, _)| earlier == field) {
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
        // One more for the type that uses it.
        if depth >= DEPTH_MAX || nodes >= NODES_MAX {
            return Err(TypeError::new(format!(
                "Type '{name}' nests deeper than {DEPTH_MAX} or is made of more than {NODES_MAX} types"
            )));
        }
        let contains_duration = fields.iter().any(|(_, t)| t.contains_duration());
        Ok(Self {
            keyspace: keyspace.into(),
            name: name.into(),
            fields,
            depth,
            nodes,
            contains_duration,
        })
    }

    /// The keyspace that it belongs to.
    pub fn keyspace(&self) -> &str {
        &self.keyspace
    }

    /// Its name, as it is stored: lower case unless it was quoted.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names and types of its fields, in their order.
    pub fn fields(&self) -> &[(Arc<str>, CqlType)] {
        &self.fields
    }

    /// The place of a field.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|(field, _)| **field == *name)
    }

    /// How deep the deepest field nests.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// How many types its fields are made of.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Whether a duration is part of a field.
    pub fn contains_duration(&self) -> bool {
        self.contains_duration
    }
}
