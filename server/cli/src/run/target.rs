//! Where a job's rows go, as an argument.

use std::path::PathBuf;

use ebb_server::jobs::request::OutputPlace;
use ebb_storage::Db;

use crate::names::TableName;

/// The terminal for `-`; a folder when `text` ends with a slash; a table when
/// it names one in a keyspace that exists; otherwise a file. `counts.tsv` has
/// the form of a table's name too, hence the look at the keyspaces.
pub(super) fn choose(db: Option<&Db>, text: &str) -> OutputPlace {
    if text == "-" {
        return OutputPlace::Terminal;
    }
    if let Some(folder) = text.strip_suffix('/') {
        let folder = if folder.is_empty() { "/" } else { folder };
        return OutputPlace::Folder(PathBuf::from(folder));
    }
    let is_keyspace = |name: &str| db.is_some_and(|db| db.existing_keyspace(name).is_ok());
    match text.parse::<TableName>() {
        Ok(name) if is_keyspace(&name.keyspace) => OutputPlace::Table(name),
        _ => OutputPlace::File(PathBuf::from(text)),
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
        let choose = |text| super::choose(Some(&db), text).to_string();
        assert_eq!(choose("app.counts"), "table app.counts");
        assert_eq!(choose("./app.counts"), "file ./app.counts");
        assert_eq!(choose("counts.tsv"), "file counts.tsv");
        assert_eq!(choose("app"), "file app");
        assert_eq!(choose("app.counts/"), "folder app.counts");
        assert_eq!(choose("-"), "the terminal");
        let without = super::choose(None, "app.counts").to_string();
        assert_eq!(without, "file app.counts");
    }
}
