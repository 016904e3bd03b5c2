//! Directories and files for rows that wait: only the user of the process may open them, whatever
//! its umask would leave to others. The outputs that a user names get what the umask leaves.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use tempfile::TempDir;

const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// Creates a directory and those around it that are missing. The mode of one that exists does not
/// change.
pub(super) fn create_dir_all(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(DIR_MODE).create(path)
}

/// Creates a directory in `parent` that is removed when dropped. Its name begins with `prefix`.
pub(super) fn temporary_dir_in(parent: &Path, prefix: &str) -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix(prefix)
        .permissions(Permissions::from_mode(DIR_MODE))
        .tempdir_in(parent)
}

/// Creates a file for writing.
///
/// # Errors
/// If there is something of its name.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(FILE_MODE);
    options.open(path)
}
