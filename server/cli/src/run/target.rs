//! The output of a job, as an argument.

use std::path::PathBuf;

use anyhow::Result;
use ebb_jobs::request::{FOREIGN_EXTENSIONS, OutputPlace};

use crate::error::CliError;
use crate::names::TableName;

/// The extensions by which a name is taken for a file. A name such as `counts.tsv` has the form
/// KEYSPACE.TABLE, too: it names a file only if there is no such keyspace.
const FILE_ENDS: [&str; 12] = [
    "txt", "text", "tsv", "csv", "json", "jsonl", "ndjson", "log", "out", "dat", "md", "html",
];

/// Returns the output that `text` stands for: the terminal for `-`; a folder if it ends with a slash; a table
/// if it names one in a keyspace that exists; otherwise a file. The keyspaces decide because `counts.tsv` has
/// the form of a table's name, too.
///
/// # Errors
/// When the name is like that of a table, its keyspace does not exist, and it ends with no known file
/// extension. After a typing error the rows would otherwise be in a file that the user does not expect.
pub(super) fn choose(
    text: &str,
    is_keyspace: impl Fn(&str) -> Result<bool>,
) -> Result<OutputPlace> {
    if text == "-" {
        return Ok(OutputPlace::Terminal);
    }
    if let Some(folder) = text.strip_suffix('/') {
        let folder = if folder.is_empty() { "/" } else { folder };
        return Ok(OutputPlace::Folder(PathBuf::from(folder)));
    }
    let file = || OutputPlace::File(PathBuf::from(text));
    let Ok(name) = text.parse::<TableName>() else {
        return Ok(file());
    };
    if is_keyspace(&name.keyspace)? {
        return Ok(OutputPlace::Table(name));
    }
    // The job refuses a file of a foreign extension, with a better reason than a missing keyspace.
    let end = name.table.to_ascii_lowercase();
    if FILE_ENDS.contains(&&*end) || FOREIGN_EXTENSIONS.contains(&&*end) {
        return Ok(file());
    }
    Err(CliError::Usage(format!(
        "--output {text}: there is no keyspace {}; write ./{text} for a file of that name; \
         CREATE KEYSPACE, ebb load and ebb put --create make keyspaces",
        name.keyspace
    ))
    .into())
}

/// Returns whether `text`, the place of an output, has the form of a table's name.
pub(super) fn may_be_table(text: &str) -> bool {
    text.parse::<TableName>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(text: &str, keyspaces: &[&str]) -> Result<String> {
        let is_keyspace = |name: &str| Ok(keyspaces.contains(&name));
        Ok(choose(text, is_keyspace)?.to_string())
    }

    #[test]
    fn only_a_name_in_an_existing_keyspace_is_a_table() {
        for (text, place) in [
            ("app.counts", "table app.counts"),
            ("./app.counts", "file ./app.counts"),
            ("counts.tsv", "file counts.tsv"),
            ("COUNTS.CSV", "file COUNTS.CSV"),
            ("counts.parquet", "file counts.parquet"),
            ("app", "file app"),
            ("app.counts/", "folder app.counts"),
            ("-", "the terminal"),
        ] {
            assert_eq!(chosen(text, &["app"]).unwrap(), place);
        }
        let said = chosen("newks.t", &["app"]).unwrap_err().to_string();
        assert!(said.contains("no keyspace newks"), "{said}");
        assert_eq!(chosen("newks.csv", &[]).unwrap(), "file newks.csv");
    }
}
