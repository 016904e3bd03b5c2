//! Names of objects that a publisher writes. Each holds the version of the metadata that its publisher
//! is about to create.

/// Returns the name of a new data file of the table `table`, for a commit that creates `version`.
/// `unique` is of this file alone.
pub fn data_file_name(table: &str, version: u64, unique: &str) -> String {
    format!("{table}/data/{}.parquet", own_name(version, unique))
}

/// Returns the name of a new file of positional deletes, as [`data_file_name`] does for a data file.
pub fn delete_file_name(table: &str, version: u64, unique: &str) -> String {
    data_file_name(table, version, &format!("{unique}-deletes"))
}

/// Returns the beginning of the names of objects that a publication for `version` writes.
pub(super) fn own_name(version: u64, unique: &str) -> String {
    format!("ebb-{version}-{unique}")
}

/// Returns N of `.../ebb-N-...`.
pub(super) fn made_for(name: &str) -> Option<u64> {
    let own = name.rsplit('/').next()?.strip_prefix("ebb-")?;
    own.split('-').next()?.parse().ok()
}

/// Returns N of `.../vN.metadata.json`.
pub(super) fn version_of(name: &str) -> Option<u64> {
    let file = name.rsplit('/').next()?;
    file.strip_prefix('v')?
        .strip_suffix(".metadata.json")?
        .parse()
        .ok()
}
