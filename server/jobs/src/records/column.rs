//! The name of a column, and the kind of its fields.

use serde::{Deserialize, Serialize};

/// A column of rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The name of the column, as in a CSV header or as a member of JSON.
    pub name: String,
    /// The kind of the fields.
    pub kind: ColumnKind,
    /// The CQL type, if one is known: that of the CQL column that the fields come from, or the type
    /// of a computed number, such as `bigint` for a count.
    #[serde(default)]
    pub ty: Option<String>,
}

/// The kind of a column's fields, as far as it is known. In JSON output, the kind decides the form
/// of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnKind {
    /// Any bytes; in JSON a string.
    Text,
    /// Numbers; in JSON without quotes, and an empty field is null.
    Number,
    /// Whole rows of JSON; in JSON output unchanged, and an empty field is null.
    Json,
    /// Members of JSON objects, as JSON text; in JSON output copied as they are, and an empty field
    /// is null.
    Member,
}

impl Column {
    /// Creates a column of any bytes.
    pub fn text(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Text)
    }

    /// Creates a column of numbers.
    pub fn number(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Number)
    }

    /// Creates a column of whole rows of JSON.
    pub fn json(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Json)
    }

    /// Creates a column whose fields are members of JSON objects, as JSON text.
    pub fn member(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Member)
    }

    fn new(name: impl Into<String>, kind: ColumnKind) -> Self {
        let name = name.into();
        let ty = None;
        Self { name, kind, ty }
    }

    /// Sets the CQL type.
    #[must_use]
    pub fn of_type(mut self, ty: &str) -> Self {
        self.ty = Some(ty.to_string());
        self
    }
}

/// Makes the names of all columns unique: a name that is already taken gets `prefix` before
/// it, as often as necessary.
pub fn set_apart(columns: &mut [Column], prefix: &str) {
    for at in 1..columns.len() {
        let (before, rest) = columns.split_at_mut(at);
        let name = &mut rest[0].name;
        while before.iter().any(|column| column.name == *name) {
            name.insert_str(0, prefix);
        }
    }
}

/// Returns the first name that is equal to an earlier one; `None` if all names differ.
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
