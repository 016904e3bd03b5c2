//! Names and keys as people write them, and the names of keyspaces that are reserved.

use std::fmt;
use std::str::FromStr;

pub use ebb_model::key::end_of_prefix;
use serde::{Deserialize, Serialize};

/// The keyspace of ebb's own tables. (`system` is Cassandra's.)
pub const SYSTEM_KEYSPACE: &str = "ebb_system";
/// The names of Cassandra's own keyspaces. ebb stores no table in a keyspace of such a name.
const CASSANDRA_KEYSPACES: [&str; 7] = [
    "system",
    "system_auth",
    "system_distributed",
    "system_schema",
    "system_traces",
    "system_views",
    "system_virtual_schema",
];

/// Returns whether the name is that of a keyspace of Cassandra or of ebb itself, so that statements may not
/// create, change or drop a keyspace of this name.
#[must_use]
pub fn is_reserved(keyspace: &str) -> bool {
    keyspace == SYSTEM_KEYSPACE || CASSANDRA_KEYSPACES.contains(&keyspace)
}

/// A table as people write it: `KEYSPACE.TABLE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TableName {
    /// The keyspace: the part before the dot.
    pub keyspace: String,
    /// The name of the table: the part after the dot.
    pub table: String,
}

impl FromStr for TableName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The letters that the store allows. A job checks the name of its output before it runs,
        // not when it writes the result.
        let legal = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let is_name = |name: &str| !name.is_empty() && name.chars().all(legal);
        match text.split_once('.') {
            Some((keyspace, table)) if is_name(keyspace) && is_name(table) => Ok(Self {
                keyspace: keyspace.to_string(),
                table: table.to_string(),
            }),
            _ => Err("expected KEYSPACE.TABLE, as in app.users".to_string()),
        }
    }
}

impl From<TableName> for String {
    fn from(name: TableName) -> Self {
        name.to_string()
    }
}

impl TryFrom<String> for TableName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.keyspace, self.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_name_has_two_legal_parts() {
        let name: TableName = "app.users-2".parse().unwrap();
        assert_eq!((&*name.keyspace, &*name.table), ("app", "users-2"));
        assert_eq!(name.to_string(), "app.users-2");
        for bad in ["", "app", ".users", "app.", "a.b.c", "a/b.c", "app.us ers"] {
            assert!(bad.parse::<TableName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_end_of_a_prefix_is_above_all_its_keys_and_no_other() {
        assert_eq!(end_of_prefix(b"ab").unwrap(), b"ac");
        assert_eq!(end_of_prefix(b"a\xff\xff").unwrap(), b"b");
        assert_eq!(end_of_prefix(b"\xff\xff"), None);
        assert_eq!(end_of_prefix(b""), None);
    }
}
