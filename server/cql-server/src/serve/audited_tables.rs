//! The setting that names the tables whose writes are audited.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// The tables whose writes are audited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AuditedTables {
    /// No table.
    #[default]
    None,
    /// The tables of all keyspaces.
    All,
    /// Tables by keyspace. The value of a keyspace is `None` if all its tables are audited.
    Of(BTreeMap<String, Option<BTreeSet<String>>>),
}

impl AuditedTables {
    /// Returns whether writes to a table are audited.
    pub fn covers(&self, keyspace: &str, table: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Of(keyspaces) => match keyspaces.get(keyspace) {
                Some(Some(tables)) => tables.contains(table),
                Some(None) => true,
                None => false,
            },
        }
    }
}

/// Parses names such as `shop,app.users`, or `all` or `none`.
impl FromStr for AuditedTables {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => return Ok(Self::None),
            "all" => return Ok(Self::All),
            _ => {}
        }
        let is_name = |name: &str| {
            let is_legal = |character: char| character.is_alphanumeric() || character == '_';
            !name.is_empty() && name.chars().all(is_legal)
        };
        let mut keyspaces = BTreeMap::new();
        for name in text.split(',') {
            let (keyspace, table) = match name.split_once('.') {
                Some((keyspace, table)) => (keyspace, Some(table)),
                None => (name, None),
            };
            if !is_name(keyspace) || !table.is_none_or(is_name) {
                return Err(format!("{name:?} is not KEYSPACE or KEYSPACE.TABLE"));
            }
            let keyspace = keyspace.to_owned();
            match table {
                None => {
                    keyspaces.insert(keyspace, None);
                }
                Some(table) => {
                    let tables =
                        (keyspaces.entry(keyspace)).or_insert_with(|| Some(BTreeSet::new()));
                    if let Some(tables) = tables {
                        tables.insert(table.to_owned());
                    }
                }
            }
        }
        Ok(Self::Of(keyspaces))
    }
}

impl fmt::Display for AuditedTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keyspaces = match self {
            Self::None => return f.pad("none"),
            Self::All => return f.pad("all"),
            Self::Of(keyspaces) => keyspaces,
        };
        let mut names = Vec::new();
        for (keyspace, tables) in keyspaces {
            match tables {
                None => names.push(keyspace.clone()),
                Some(tables) => {
                    names.extend(tables.iter().map(|table| format!("{keyspace}.{table}")));
                }
            }
        }
        f.pad(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_names_tables_or_whole_keyspaces() {
        for (text, shown, covered) in [
            ("none", "none", [false; 3]),
            ("all", "all", [true; 3]),
            ("ks", "ks", [true, true, false]),
            ("ks.t,other.u", "ks.t,other.u", [true, false, false]),
            ("ks.u,ks.t", "ks.t,ks.u", [true, true, false]),
            ("ks.t,ks,ks.u", "ks", [true, true, false]),
        ] {
            let tables: AuditedTables = text.parse().unwrap();
            assert_eq!(tables.to_string(), shown);
            assert_eq!(shown.parse::<AuditedTables>(), Ok(tables.clone()));
            let found = [("ks", "t"), ("ks", "u"), ("Ks", "t")];
            let found = found.map(|(keyspace, table)| tables.covers(keyspace, table));
            assert_eq!(found, covered, "{text}");
        }
        for bad in ["", "ks,", "ks.", ".t", "ks.t.u", "ks, other", "all,!"] {
            let error = bad.parse::<AuditedTables>().unwrap_err();
            assert!(
                error.ends_with("is not KEYSPACE or KEYSPACE.TABLE"),
                "{error}"
            );
        }
    }
}
