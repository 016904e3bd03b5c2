//! The source of reads: the live table, or a named snapshot of it.

use std::fmt;
use std::str::FromStr;

use ebb_storage::{Db, Range, Result, SeqNo, SnapshotTable, Table, Value};

use super::records::{count_records, key};

/// The source of reads by name: `live` or `snapshot:NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ReadFrom {
    /// The live table.
    #[default]
    Live,
    /// The table in the snapshot of this name.
    Snapshot(String),
}

impl ReadFrom {
    /// Opens the source for `table`.
    ///
    /// # Errors
    /// [`NotFound`](ebb_storage::ErrorKind::NotFound) if the snapshot does not exist, or does not
    /// cover the table.
    pub fn open(&self, db: &Db, table: &Table) -> Result<Source> {
        Ok(match self {
            Self::Live => Source::Live(table.clone()),
            Self::Snapshot(name) => {
                let keyspace = db.existing_keyspace(table.keyspace())?;
                let snapshot = keyspace.snapshot(name)?;
                Source::Snapshot {
                    table: snapshot.table(table.name())?,
                    seq: snapshot.seq(),
                }
            }
        })
    }
}

impl fmt::Display for ReadFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => f.write_str("live"),
            Self::Snapshot(name) => write!(f, "snapshot:{name}"),
        }
    }
}

impl FromStr for ReadFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("snapshot:") {
            Some(name) if !name.is_empty() => Ok(Self::Snapshot(name.to_string())),
            None if text == "live" => Ok(Self::Live),
            _ => Err(format!("{text:?} is neither live nor snapshot:NAME")),
        }
    }
}

/// The table, or its content in a snapshot, opened for reads.
#[derive(Debug, Clone)]
pub enum Source {
    Live(Table),
    /// The table in a snapshot.
    Snapshot {
        table: SnapshotTable,
        /// The sequence number of the last commit that the snapshot contains.
        seq: SeqNo,
    },
}

impl Source {
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        match self {
            Self::Live(table) => table.get(key),
            Self::Snapshot { table, .. } => table.get(key),
        }
    }

    /// Returns the entries from a key on, ascending.
    pub fn range_from(&self, key: &[u8]) -> Range {
        match self {
            Self::Live(table) => table.range(key..),
            Self::Snapshot { table, .. } => table.range(key..),
        }
    }

    pub fn records(&self) -> Result<u64> {
        count_records(|number| Ok(self.get(&key(number))?.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_to_themselves() {
        for name in ["live", "snapshot:monday"] {
            assert_eq!(name.parse::<ReadFrom>().unwrap().to_string(), name);
        }
        for wrong in ["", "snapshot", "snapshot:", "lively"] {
            assert!(wrong.parse::<ReadFrom>().is_err(), "{wrong}");
        }
    }
}
