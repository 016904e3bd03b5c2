//! The newest version of a table's metadata, and the object that names it for readers that cannot list.

use super::names::version_of;
use crate::target::{Target, TargetError};

/// Returns the version of the newest metadata of the table `name`.
pub(super) fn newest_version(target: &Target, name: &str) -> Result<Option<u64>, TargetError> {
    let objects = target.list(&format!("{name}/metadata"))?;
    Ok(objects.iter().filter_map(|object| version_of(object)).max())
}

/// Writes the version of the newest metadata into the hint. Publishers write it in any order, so each
/// looks afterwards whether a newer version came meanwhile: the last one to write leaves the newest.
pub(super) fn write_hint(target: &Target, name: &str, mut version: u64) -> Result<(), TargetError> {
    let hint = format!("{name}/metadata/version-hint.text");
    loop {
        target.replace(&hint, version.to_string().into())?;
        match newest_version(target, name)? {
            Some(newer) if newer > version => version = newer,
            _ => return Ok(()),
        }
    }
}
