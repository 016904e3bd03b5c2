//! What a column of rows is called, and what it holds.

use serde::{Deserialize, Serialize};

/// A column of rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// What it is called, in a header and in JSON.
    pub name: String,
    /// What it holds.
    pub kind: ColumnKind,
    /// Its CQL type, where it comes from a column that has one, or can have no other.
    #[serde(default)]
    pub ty: Option<String>,
}

/// What a column holds, as far as it is known: how it stands in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnKind {
    /// Any bytes: a string.
    Text,
    /// Numbers, without quotes; an empty one is null.
    Number,
    /// The JSON that a row is, as it is; empty is null.
    Json,
    /// A member of a JSON object, as it is; empty is null.
    Member,
}

impl Column {
    /// Of any bytes.
    pub fn text(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Text)
    }

    /// Of numbers.
    pub fn number(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Number)
    }

    /// Of JSON.
    pub fn json(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Json)
    }

    /// Of members of JSON objects.
    pub fn member(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Member)
    }

    fn new(name: impl Into<String>, kind: ColumnKind) -> Self {
        let name = name.into();
        let ty = None;
        Self { name, kind, ty }
    }

    /// The same of this CQL type.
    #[must_use]
    pub fn of_type(mut self, ty: &str) -> Self {
        self.ty = Some(ty.to_string());
        self
    }
}

/// Gives every column a name of its own: one that is there already gets `prefix` before
/// it, as often as it takes.
pub fn set_apart(columns: &mut [Column], prefix: &str) {
    for at in 1..columns.len() {
        let (before, rest) = columns.split_at_mut(at);
        let name = &mut rest[0].name;
        while before.iter().any(|column| column.name == *name) {
            name.insert_str(0, prefix);
        }
    }
}

/// The first name that is there twice.
pub fn double_name<S: AsRef<str>>(names: &[S]) -> Option<&str> {
    let mut seen = std::collections::HashSet::new();
    let mut names = names.iter().map(AsRef::as_ref);
    names.find(|name| !seen.insert(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_there_already_are_set_apart() {
        let mut columns = ["id", "right_id", "id", "x"].map(Column::text);
        set_apart(&mut columns, "right_");
        let names = columns.map(|column| column.name);
        assert_eq!(names, ["id", "right_id", "right_right_id", "x"]);
        assert_eq!(double_name(&names), None);
        assert_eq!(double_name(&["a", "", "b", "", "a"]), Some(""));
    }
}
