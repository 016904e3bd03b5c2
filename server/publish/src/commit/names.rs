//! Names of objects that a publisher writes. Those of a publication hold the version of the metadata that
//! its publisher is about to create.

/// The end of the name of the object that holds the URL of the catalog by which a table is committed, or
/// the text `no catalog`.
const CATALOG_MARK: &str = "/metadata/ebb-catalog.txt";

/// The ends of the names of metadata files of all engines.
const METADATA_ENDS: [&str; 2] = [".metadata.json", ".metadata.json.gz"];

/// Returns the name of a new data file of the table `table`, for a commit that creates `version`.
/// `unique` must differ from that of every other file.
pub fn data_file_name(table: &str, version: u64, unique: &str) -> String {
    format!("{table}/data/{}.parquet", own_name(version, unique))
}

/// Returns the name of a new positional delete file, as [`data_file_name`] does for a data file.
pub(crate) fn delete_file_name(table: &str, version: u64, unique: &str) -> String {
    data_file_name(table, version, &format!("{unique}-deletes"))
}

/// Returns the beginning of the names of objects that a publication for `version` writes.
pub(super) fn own_name(version: u64, unique: &str) -> String {
    format!("ebb-{version}-{unique}")
}

/// Returns N of a name `.../ebb-N-...`: the version of the table's metadata for which the object was
/// written. `None` for another name.
pub(super) fn made_for(name: &str) -> Option<u64> {
    let own = name.rsplit('/').next()?.strip_prefix("ebb-")?;
    own.split('-').next()?.parse().ok()
}

/// Returns the name of the metadata of a version, in a target without a catalog.
pub(super) fn metadata_name(table: &str, version: u64) -> String {
    format!("{table}/metadata/v{version}.metadata.json")
}

/// Returns the name of the object in which the first commit of a table records by which catalog the
/// table is committed, or that it is committed without one.
pub(super) fn catalog_mark(table: &str) -> String {
    format!("{table}{CATALOG_MARK}")
}

/// Returns whether `name` is the one that [`catalog_mark`] returns for some table.
pub(super) fn is_catalog_mark(name: &str) -> bool {
    name.ends_with(CATALOG_MARK)
}

/// Returns whether an object is a metadata file of any engine.
pub(super) fn is_metadata(name: &str) -> bool {
    METADATA_ENDS.iter().any(|end| name.ends_with(end))
}

/// Returns N for a name of the form `.../vN.metadata.json`; `None` for other names.
pub(super) fn version_of(name: &str) -> Option<u64> {
    let file = name.rsplit('/').next()?;
    file.strip_prefix('v')?
        .strip_suffix(".metadata.json")?
        .parse()
        .ok()
}
