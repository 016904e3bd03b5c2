//! Where a job's rows go, as an argument.

use std::path::PathBuf;

use ebb_server::jobs::request::OutputPlace;
use ebb_storage::Db;

use crate::error::CliError;
use crate::names::TableName;

/// What names of files end with that have the form of a table's name, too.
const FILE_ENDS: [&str; 12] = [
    "txt", "text", "tsv", "csv", "json", "jsonl", "ndjson", "log", "out", "dat", "md", "html",
];

/// The terminal for `-`; a folder when `text` ends with a slash; a table when
/// it names one in a keyspace that exists; otherwise a file. `counts.tsv` has
/// the form of a table's name too, hence the look at the keyspaces.
///
/// # Errors
/// For a table of a keyspace that does not exist: with a typing error the rows would go to a
/// file that the user does not expect.
pub(super) fn choose(db: Option<&Db>, text: &str) -> Result<OutputPlace, CliError> {
    if text == "-" {
        return Ok(OutputPlace::Terminal);
    }
    if let Some(folder) = text.strip_suffix('/') {
        let folder = if folder.is_empty() { "/" } else { folder };
        return Ok(OutputPlace::Folder(PathBuf::from(folder)));
    }
    let is_keyspace = |name: &str| db.is_some_and(|db| db.existing_keyspace(name).is_ok());
    match text.parse::<TableName>() {
        Ok(name) if is_keyspace(&name.keyspace) => Ok(OutputPlace::Table(name)),
        Ok(name) if !FILE_ENDS.contains(&&*name.table) => Err(CliError::Usage(format!(
            "--output {text}: there is no keyspace {}; write ./{text} for a file of that name; \
             ebb load and ebb put --create make keyspaces",
            name.keyspace
        ))),
        _ => Ok(OutputPlace::File(PathBuf::from(text))),
    }
}

/// Whether `text` may be a table, if there is a database.
pub(super) fn may_be_table(text: &str) -> bool {
    text.parse::<TableName>().is_ok()
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
        let choose = |text| super::choose(Some(&db), text).unwrap().to_string();
        assert_eq!(choose("app.counts"), "table app.counts");
        assert_eq!(choose("./app.counts"), "file ./app.counts");
        assert_eq!(choose("counts.tsv"), "file counts.tsv");
        assert_eq!(choose("app"), "file app");
        assert_eq!(choose("app.counts/"), "folder app.counts");
        assert_eq!(choose("-"), "the terminal");
        for db in [None, Some(&db)] {
            let said = super::choose(db, "newks.t").unwrap_err().to_string();
            assert!(said.contains("no keyspace newks"), "{said}");
            let file = super::choose(db, "newks.csv").unwrap().to_string();
            assert_eq!(file, "file newks.csv");
        }
    }
}
