//! The checks that commands and jobs write into the directory of the database by no path, except for the
//! temporary file of rows for the terminal of a client.

use std::path::{Component, Path, PathBuf, absolute};

use crate::error::JobError;

/// The folder in the directory of a database for temporary files of jobs, loads and clients. Each of these has
/// a hidden folder of its own there.
pub const SPILLS: &str = "spill";

/// Checks that `path` lies outside of `data`, the directory of the database, with symbolic links followed.
/// Neither of the two has to exist yet. A backup or an output in this directory would be lost together with
/// the database, and ebb makes and removes files there.
///
/// # Errors
/// When `path` lies in `data`. The error names both.
pub fn check_outside(data: &Path, path: &Path) -> Result<(), JobError> {
    if !lies_in(data, path) {
        return Ok(());
    }
    Err(JobError::senseless(format_args!(
        "{} lies in the directory of the database, {}: choose another place",
        path.display(),
        data.display()
    )))
}

/// Checks that the file `path` lies in a folder of the spills of the database in `data`, with symbolic links
/// followed. A client that prints the rows of its job has made such a folder for them. Without this check, a
/// request could make the server write to any path.
///
/// # Errors
/// When `path` lies elsewhere. The error names it and the folder of the spills.
pub(crate) fn check_among_spills(data: &Path, path: &Path) -> Result<(), JobError> {
    let spills = data.join(SPILLS);
    let file = resolved(path);
    let around = file.as_deref().and_then(|file| file.parent()?.parent());
    if around.is_some() && around == resolved(&spills).as_deref() {
        return Ok(());
    }
    Err(JobError::senseless(format_args!(
        "{} lies in no folder of {}, where rows for the terminal of a client have to be written: choose a file \
         as the output",
        path.display(),
        spills.display()
    )))
}

fn lies_in(folder: &Path, path: &Path) -> bool {
    let (Some(folder), Some(path)) = (resolved(folder), resolved(path)) else {
        return false;
    };
    path.starts_with(folder)
}

/// Returns an absolute path without links and `..`; `None` for an empty path.
fn resolved(path: &Path) -> Option<PathBuf> {
    let mut resolved = PathBuf::new();
    for part in absolute(path).ok()?.components() {
        if part == Component::ParentDir {
            resolved.pop();
        } else {
            resolved.push(part);
        }
        // Folders that are still to be made are no links.
        resolved = resolved.canonicalize().unwrap_or(resolved);
    }
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_lies_outside_wherever_links_lead() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for folder in ["data/sub", "data-2", "other"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        symlink(at("data"), at("linked")).unwrap();
        symlink(at("data/sub"), at("other/in")).unwrap();
        symlink(at("other"), at("data/out")).unwrap();
        let check_refused = |data: &str, path: &str| {
            let refused = check_outside(&at(data), &at(path)).unwrap_err();
            let refused = refused.to_string();
            for named in [at(path), at(data)] {
                assert!(refused.contains(named.to_str().unwrap()), "{refused}");
            }
        };
        for data in ["data", "linked", "other/../data"] {
            for path in [
                "data",
                "data/new",
                "data/new/er",
                "linked/new",
                "other/in/new",
                "other/../data/new",
                "none/../data/new",
            ] {
                check_refused(data, path);
            }
            for path in [
                "new",
                "data-2/new",
                "other/new",
                "data/../new",
                "data/out/new",
            ] {
                check_outside(&at(data), &at(path)).unwrap();
            }
        }
        // A server makes its directory after this check.
        check_refused("none", "none/new");
        check_outside(&at("none"), &at("none-2/new")).unwrap();
        check_outside(&at("data"), Path::new("")).unwrap();
    }

    #[test]
    fn rows_for_a_terminal_lie_in_a_folder_of_the_spills_wherever_links_lead() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for folder in ["data/spill/one", "data/sub", "other/one", "disk/one"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        symlink(at("data"), at("linked")).unwrap();
        symlink(at("other"), at("data/spill/out")).unwrap();
        symlink(at("other/rows"), at("data/spill/one/out")).unwrap();
        fs::write(at("other/rows"), "").unwrap();
        // The spills may be on another disk.
        fs::create_dir(at("moved")).unwrap();
        symlink(at("disk"), at("moved/spill")).unwrap();
        for (data, path) in [
            ("data", "data/spill/one/rows"),
            ("data", "linked/spill/one/rows"),
            ("linked", "data/spill/one/rows"),
            ("other/../data", "data/sub/../spill/one/rows"),
            ("moved", "moved/spill/one/rows"),
            ("moved", "disk/one/rows"),
        ] {
            check_among_spills(&at(data), &at(path)).unwrap();
        }
        for path in [
            "other/one/rows",
            "data/rows",
            "data/sub/rows",
            "data/spill/rows",
            "data/spill/one/two/rows",
            "data/spill/one/../../rows",
            "data/spill/out/rows",
            "data/spill/one/out",
        ] {
            let refused = check_among_spills(&at("data"), &at(path)).unwrap_err();
            let refused = refused.to_string();
            for named in [at(path), at("data/spill")] {
                assert!(refused.contains(named.to_str().unwrap()), "{refused}");
            }
        }
        assert!(check_among_spills(&at("data"), Path::new("")).is_err());
    }
}
