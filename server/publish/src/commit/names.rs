//! Names of objects that a publisher writes. Those of a publication hold the version of the metadata that
//! its publisher is about to create.

/// Returns the name of a new data file of the table `table`, for the commit that will create `version` of the
/// metadata. No other data file for this version may have the same `unique`.
pub fn data_file_name(table: &str, version: u64, unique: &str) -> String {
    format!("{table}/data/{}.parquet", own_name(version, unique))
}

/// Returns the name of a new positional delete file, with the arguments of [`data_file_name`].
pub(crate) fn delete_file_name(table: &str, version: u64, unique: &str) -> String {
    data_file_name(table, version, &format!("{unique}-deletes"))
}

/// Returns the first part of the file names of the data files, delete files, manifests and manifest lists that
/// a publisher writes for the commit of `version`.
pub(super) fn own_name(version: u64, unique: &str) -> String {
    format!("ebb-{version}-{unique}")
}

/// Returns N of a name `.../ebb-N-...`: the version of the table's metadata for whose commit the object was
/// written. `None` for another name.
pub(super) fn made_for(name: &str) -> Option<u64> {
    let own = name.rsplit('/').next()?.strip_prefix("ebb-")?;
    own.split('-').next()?.parse().ok()
}

/// Returns the name of the metadata file of `version`, in a target without a catalog.
pub(super) fn metadata_name(table: &str, version: u64) -> String {
    format!("{table}/metadata/v{version}.metadata.json")
}

/// Returns the name of the object in which the first commit of a table records by which catalog the
/// table is committed, or that it is committed without one. Its content is the URL of the catalog,
/// or the text `no catalog`.
pub(super) fn catalog_mark(table: &str) -> String {
    format!("{table}/metadata/ebb-catalog.txt")
}

/// Returns N for a name of the form `.../vN.metadata.json`; `None` for other names.
pub(super) fn version_of(name: &str) -> Option<u64> {
    let file = name.rsplit('/').next()?;
    file.strip_prefix('v')?
        .strip_suffix(".metadata.json")?
        .parse()
        .ok()
}
