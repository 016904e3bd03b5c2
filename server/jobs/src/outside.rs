//! The check that no command and no job writes into the directory of the database by a path.

use std::path::{Component, Path, PathBuf, absolute};

use crate::error::JobError;

/// Checks that `path` lies outside of `data`, the directory of the database, with symbolic links followed.
/// Neither of the two has to exist yet. A backup or an output in the directory would be lost with it, and ebb
/// makes and removes files there.
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
}
