//! Files of a database that users other than its owner may open. ebb creates none, but older
//! versions did, and so do `mkdir` and `cp`. The server and `ebb stats` name such files and change
//! nothing, because the permissions may be intended.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ebb_jobs::SPILLS;
use ebb_storage::is_folder_of_tables;

/// The permission bits of the group and of all other users. Without `--group-readable`, none of them may be
/// set.
const NOT_OWNER: u32 = 0o077;
/// The permission bits that must not be set with `--group-readable`: write for the group, and all bits for
/// other users.
const NOT_GROUP_READABLE: u32 = 0o027;
/// The greatest number of paths that a message names. Of the other paths it shows only the number.
const NAMED_MAX: usize = 4;

/// The files and directories of a database that give the group or others more permissions than the
/// setting `group_readable` intends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exposure {
    data: PathBuf,
    group_readable: bool,
    /// The exposed paths that the message lists, with their permission bits: the first few in
    /// alphabetical order.
    named: Vec<(PathBuf, u32)>,
    /// The number of exposed paths that are not in `named`.
    unnamed: usize,
}

impl Exposure {
    /// Examines the directory of a database and the files in it. Returns `None` if only the owner
    /// has permissions for them. With `group_readable`, the group may have permissions, too, but
    /// not to write.
    pub(super) fn of(data: &Path, group_readable: bool) -> Option<Self> {
        Self::among(data, modes(data), group_readable)
    }

    /// Chooses those of `paths` whose modes give more permissions than `group_readable` intends; `None`
    /// if there are none. The directory `data` comes first, the others by name.
    fn among(data: &Path, mut paths: Vec<(PathBuf, u32)>, group_readable: bool) -> Option<Self> {
        let exposed = if group_readable {
            NOT_GROUP_READABLE
        } else {
            NOT_OWNER
        };
        paths.retain(|(_, mode)| mode & exposed != 0);
        // The directory is a prefix of all others.
        paths.sort_unstable();
        let unnamed = paths.len().saturating_sub(NAMED_MAX);
        paths.truncate(NAMED_MAX);
        (!paths.is_empty()).then(|| Self {
            data: data.to_path_buf(),
            group_readable,
            named: paths,
            unnamed,
        })
    }
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (who, taken) = if self.group_readable {
            (
                "users other than the owner have permissions beyond --group-readable on ",
                "g-w,o=",
            )
        } else {
            ("users other than the owner have permissions on ", "go=")
        };
        f.write_str(who)?;
        for (index, (path, mode)) in self.named.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{} (mode {mode:04o})", path.display())?;
        }
        if self.unnamed > 0 {
            write!(f, " and {} more", self.unnamed)?;
        }
        write!(
            f,
            "; to take them away: chmod -R {taken} {}",
            self.data.display()
        )
    }
}

/// Returns the modes of the directory, of the files in it, of its subdirectory for spills, and of those that
/// have files with the data of tables (`damaged` and the links of backups), with their files. Its other
/// subdirectories do not belong to the database. Symbolic links are left out: they have no mode of their own.
fn modes(data: &Path) -> Vec<(PathBuf, u32)> {
    let mut modes = Vec::new();
    if let Ok(metadata) = fs::metadata(data) {
        modes.push((data.to_path_buf(), mode(&metadata)));
    }
    add_entries(data, &mut modes);
    modes
}

/// Adds the modes of the entries of a directory that belong to the database: see [`modes`].
fn add_entries(dir: &Path, modes: &mut Vec<(PathBuf, u32)>) {
    // If the directory of the database cannot be listed, the opening fails and reports that.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        // Merges, flushes and backups remove files meanwhile.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        let path = entry.path();
        let has_tables = metadata.is_dir() && is_folder_of_tables(&path);
        let is_foreign = metadata.is_dir() && !has_tables && entry.file_name() != SPILLS;
        if is_foreign || metadata.is_symlink() {
            continue;
        }
        if has_tables {
            add_entries(&path, modes);
        }
        modes.push((path, mode(&metadata)));
    }
}

fn mode(metadata: &fs::Metadata) -> u32 {
    metadata.permissions().mode() & 0o7777
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among(paths: &[(&str, u32)], group_readable: bool) -> Option<String> {
        let paths = paths
            .iter()
            .map(|(path, mode)| (PathBuf::from(path), *mode));
        let exposure = Exposure::among(Path::new("db"), paths.collect(), group_readable);
        exposure.map(|exposure| exposure.to_string())
    }

    #[test]
    fn paths_for_the_owner_alone_are_not_named() {
        assert_eq!(among(&[], false), None);
        assert_eq!(among(&[("db", 0o700), ("db/CURRENT", 0o600)], false), None);
        assert_eq!(among(&[("db", 0o500), ("db/CURRENT", 0o400)], false), None);
    }

    #[test]
    fn what_the_group_may_do_beyond_the_setting_is_named() {
        let own = [("db", 0o700), ("db/CURRENT", 0o600)];
        let of_group = [("db", 0o750), ("db/CURRENT", 0o640)];
        assert_eq!((among(&own, true), among(&of_group, true)), (None, None));
        assert!(among(&of_group, false).is_some());
        let more = [("db", 0o750), ("db/CURRENT", 0o660), ("db/LOCK", 0o644)];
        let expected = "users other than the owner have permissions beyond --group-readable on \
                        db/CURRENT (mode 0660), db/LOCK (mode 0644); to take them away: chmod -R \
                        g-w,o= db";
        assert_eq!(among(&more, true).as_deref(), Some(expected));
    }

    #[test]
    fn the_directory_and_the_first_files_are_named_and_the_rest_is_counted() {
        let three = [("db/LOCK", 0o600), ("db/CURRENT", 0o640), ("db", 0o711)];
        let two = among(&three, false);
        let expected = "users other than the owner have permissions on db (mode 0711), \
                        db/CURRENT (mode 0640); to take them away: chmod -R go= db";
        assert_eq!(two.as_deref(), Some(expected));
        let six = ["db/e", "db/d", "db/c", "db/b", "db/a", "db"].map(|path| (path, 0o644));
        let expected = "users other than the owner have permissions on db (mode 0644), \
                        db/a (mode 0644), db/b (mode 0644), db/c (mode 0644) and 2 more; \
                        to take them away: chmod -R go= db";
        assert_eq!(among(&six, false).as_deref(), Some(expected));
    }

    #[test]
    fn directories_of_others_and_symbolic_links_are_not_looked_at() {
        let temp = tempfile::tempdir().unwrap();
        let data = temp.path();
        for name in ["output", SPILLS] {
            fs::create_dir(data.join(name)).unwrap();
        }
        fs::write(data.join("CURRENT"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", data.join("000001.sst")).unwrap();
        let mut paths: Vec<PathBuf> = modes(data).into_iter().map(|(path, _)| path).collect();
        paths.sort_unstable();
        let expected = ["", "CURRENT", SPILLS].map(|name| data.join(name));
        assert_eq!(paths, expected);
        assert!(modes(&data.join("absent")).is_empty());
    }

    /// Regression: the folders of damaged files and of the links of backups were not looked at.
    #[test]
    fn folders_with_the_data_of_tables_are_looked_at_with_their_files() {
        let temp = tempfile::tempdir().unwrap();
        let data = temp.path();
        let files = [
            "damaged/000001.sst.damaged",
            ".backup-1/000002.sst",
            "output/000003.sst",
        ];
        for file in files.map(|name| data.join(name)) {
            fs::create_dir(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
        }
        let mut paths: Vec<PathBuf> = modes(data).into_iter().map(|(path, _)| path).collect();
        paths.sort_unstable();
        let expected = ["", ".backup-1", files[1], "damaged", files[0]];
        assert_eq!(paths, expected.map(|name| data.join(name)));
    }
}
