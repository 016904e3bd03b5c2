//! Where a job's rows go.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use ebb_scheduler::runtime::{Output, TextOutput};
use ebb_storage::Db;

use crate::cli::database;
use crate::cli::names::TableName;
use crate::jobs::TableOutput;

/// A file or a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    File(PathBuf),
    Table(TableName),
}

impl Target {
    /// A table when `text` names one in a keyspace that exists; otherwise a
    /// file. `counts.tsv` has the form of a table's name too, hence the look at
    /// the keyspaces.
    pub(super) fn choose(db: &Db, text: &str) -> Self {
        match text.parse::<TableName>() {
            Ok(name) if db.existing_keyspace(&name.keyspace).is_ok() => Self::Table(name),
            _ => Self::File(PathBuf::from(text)),
        }
    }

    /// The output of a job; rows for a table wait in `directory`.
    pub(super) fn output(&self, db: &Db, directory: &Path) -> Result<Arc<dyn Output>> {
        Ok(match self {
            Self::File(path) => Arc::new(TextOutput::new(path)),
            Self::Table(name) => {
                let keyspace = database::keyspace(db, &name.keyspace)?;
                let output = TableOutput::new(db.clone(), keyspace, &name.table, directory);
                Arc::new(output)
            }
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Table(name) => write!(f, "table {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_storage::Options;

    #[test]
    fn only_a_name_in_an_existing_keyspace_is_a_table() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        db.keyspace("app").unwrap();
        let choose = |text| Target::choose(&db, text).to_string();
        assert_eq!(choose("app.counts"), "table app.counts");
        assert_eq!(choose("./app.counts"), "file ./app.counts");
        assert_eq!(choose("counts.tsv"), "file counts.tsv");
        assert_eq!(choose("app"), "file app");
    }
}
