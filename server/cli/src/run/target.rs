//! Where a job's rows go.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use ebb_scheduler::runtime::Output;
use ebb_server::jobs::records::RowSchema;
use ebb_server::jobs::{FilesOutput, FilesTarget, RowFormat, RowWriter, TableOutput};
use ebb_storage::Db;

use crate::database;
use crate::names::TableName;

/// Files, the terminal or a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Files(FilesTarget),
    Table(TableName),
}

impl Target {
    /// The terminal for `-`; a folder when `text` ends with a slash; a table when
    /// it names one in a keyspace that exists; otherwise a file. `counts.tsv` has
    /// the form of a table's name too, hence the look at the keyspaces.
    pub(super) fn choose(db: Option<&Db>, text: &str) -> Self {
        if text == "-" {
            return Self::Files(FilesTarget::Terminal);
        }
        if let Some(folder) = text.strip_suffix('/') {
            let folder = if folder.is_empty() { "/" } else { folder };
            return Self::Files(FilesTarget::Folder(PathBuf::from(folder)));
        }
        let is_keyspace = |name: &str| db.is_some_and(|db| db.existing_keyspace(name).is_ok());
        match text.parse::<TableName>() {
            Ok(name) if is_keyspace(&name.keyspace) => Self::Table(name),
            _ => Self::Files(FilesTarget::File(PathBuf::from(text))),
        }
    }

    /// Whether `text` may be a table, if there is a database.
    pub(super) fn may_be_table(text: &str) -> bool {
        text.parse::<TableName>().is_ok()
    }

    /// Whether the rows go to standard output.
    pub(super) fn is_terminal(&self) -> bool {
        *self == Self::Files(FilesTarget::Terminal)
    }

    /// Whether a job's output is there: a file or folder of the name, or rows in the
    /// table.
    pub(super) fn is_there(&self, db: Option<&Db>) -> Result<bool> {
        Ok(match self {
            Self::Files(files) => files.exists()?,
            Self::Table(name) => table_output(db, name, Path::new(""))?.has_rows()?,
        })
    }

    /// The output of a job whose rows are as `rows` says, in `format` or as the name
    /// says; rows that cannot wait beside the target wait in `directory`.
    pub(super) fn output(
        &self,
        db: Option<&Db>,
        rows: Arc<dyn RowSchema>,
        format: Option<RowFormat>,
        directory: &Path,
    ) -> Result<Arc<dyn Output>> {
        let files = match self {
            Self::Table(name) => return Ok(Arc::new(table_output(db, name, directory)?)),
            Self::Files(files) => files,
        };
        let named = match files {
            FilesTarget::File(path) => RowFormat::of_name(&path.to_string_lossy()),
            FilesTarget::Folder(_) | FilesTarget::Terminal => RowFormat::Text,
        };
        let rows = RowWriter::new(format.unwrap_or(named), rows);
        Ok(Arc::new(FilesOutput::new(files.clone(), rows, directory)))
    }
}

/// # Panics
/// Without the database that the table was found in.
fn table_output(db: Option<&Db>, name: &TableName, directory: &Path) -> Result<TableOutput> {
    let db = db.unwrap_or_else(|| unreachable!("{name} was found in a database"));
    let keyspace = database::keyspace(db, &name.keyspace)?;
    Ok(TableOutput::new(
        db.clone(),
        keyspace,
        &name.table,
        directory,
    ))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(FilesTarget::File(path)) => write!(f, "file {}", path.display()),
            Self::Files(FilesTarget::Folder(path)) => write!(f, "folder {}", path.display()),
            Self::Files(FilesTarget::Terminal) => f.write_str("the terminal"),
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
        let choose = |text| Target::choose(Some(&db), text).to_string();
        assert_eq!(choose("app.counts"), "table app.counts");
        assert_eq!(choose("./app.counts"), "file ./app.counts");
        assert_eq!(choose("counts.tsv"), "file counts.tsv");
        assert_eq!(choose("app"), "file app");
        assert_eq!(choose("app.counts/"), "folder app.counts");
        assert_eq!(choose("-"), "the terminal");
        let without = Target::choose(None, "app.counts").to_string();
        assert_eq!(without, "file app.counts");
    }
}
