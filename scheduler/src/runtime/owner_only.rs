//! Files and directories for the records of jobs, in spills and in outputs that wait for their
//! commit. Only the user of the process may open them, whatever its umask would permit to others.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use tempfile::TempDir;

const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// Creates a directory and its missing parents, each with permissions for its owner alone. The mode
/// of an existing directory does not change.
///
/// # Errors
/// If a directory cannot be created.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(DIR_MODE).create(path)
}

/// Creates a directory in `parent`, with permissions for its owner alone, that is removed on drop.
/// Its name begins with `prefix`.
///
/// # Errors
/// If the directory cannot be created.
pub fn temporary_dir_in(parent: &Path, prefix: &str) -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix(prefix)
        .permissions(Permissions::from_mode(DIR_MODE))
        .tempdir_in(parent)
}

/// Creates a file for writing, with permissions for its owner alone.
///
/// # Errors
/// If something of this name exists, or the file cannot be created.
pub fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(FILE_MODE);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_may_open_neither_files_nor_directories() {
        let temp = tempfile::tempdir().unwrap();
        let (outer, inner) = (temp.path().join("outer"), temp.path().join("outer/inner"));
        create_dir_all(&inner).unwrap();
        let job = temporary_dir_in(&inner, "job-").unwrap();
        let run = job.path().join("run");
        create_new(&run).unwrap();
        for path in [outer.as_path(), &inner, job.path(), &run] {
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
        }
    }
}
