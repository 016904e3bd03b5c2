//! The folders below which requests over the network may have files written. They are options of
//! the server.

use std::io;
use std::path::{Component, Path, PathBuf};

use axum::http::StatusCode;
use ebb_jobs::Failure;
use ebb_jobs::request::{ApplicationRequest, JobRequest, OutputPlace, PublishTarget};

use super::problem::{Problem, broken};
use super::wire::BackupPlace;

/// The folders below which requests over the network may make the server write files.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    /// The folder for outputs of jobs. `None` means that jobs over the network write tables only.
    pub outputs: Option<PathBuf>,
    /// The folder for backups. `None` means that requests over the network make and read no backups.
    pub backups: Option<PathBuf>,
}

impl Roots {
    /// Checks that a job's output is no file or folder outside of the folder for outputs. Outputs in buckets
    /// and catalogs pass; [`check_no_credentials`] checks these. Waits for the disks of both folders, one of
    /// which may hang, so it must run on a thread for blocking work.
    ///
    /// # Errors
    /// 403 when the output lies elsewhere, or when there is no folder for outputs; 500 when that folder
    /// cannot be read.
    pub(super) fn check_output(&self, request: &JobRequest) -> Result<(), Problem> {
        let (OutputPlace::File(path)
        | OutputPlace::Folder(path)
        | OutputPlace::Spool(path)
        | OutputPlace::Iceberg(PublishTarget::Folder(path))) = &request.output.to
        else {
            return Ok(());
        };
        let root = self.outputs.as_ref().ok_or_else(|| {
            Problem::forbidden(
                "jobs that come over the network write tables only: start the server with \
                 --output-root for files",
            )
        })?;
        check_below(root, &request.directory.join(path), "the root for outputs")
    }

    /// Returns the folder of a backup. The server's own user (`is_owner`) may use every folder, other clients
    /// only those below the folder for backups. Waits for the disks of both, one of which may hang, so it must
    /// run on a thread for blocking work.
    ///
    /// # Errors
    /// 422 when the name or the path of the folder makes no sense; 403 when the client may not use
    /// the folder. 409 when the server was started without a folder for backups, and the request
    /// has a name or comes from another client than the server's own user.
    pub(super) fn backup(&self, place: &BackupPlace, is_owner: bool) -> Result<PathBuf, Problem> {
        let path = match (&place.name, &place.directory) {
            (Some(name), None) => {
                let is_legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
                let is_name = (1..=128).contains(&name.len()) && !name.starts_with('.');
                if !is_name || !name.chars().all(is_legal) {
                    return Err(Problem::senseless(format!(
                        "name: {name:?} is not 1 to 128 letters, digits, '_', '-' and '.', with \
                         no '.' first"
                    )));
                }
                self.backups()?.join(name)
            }
            (None, Some(directory)) => {
                let path = PathBuf::from(directory);
                if !path.is_absolute() {
                    let text = format!("directory: {directory:?} is not an absolute path");
                    return Err(Problem::senseless(text));
                }
                path
            }
            _ => return Err(Problem::senseless("give either name or directory")),
        };
        // A name, too, may be that of a link to a directory elsewhere.
        if !is_owner {
            check_below(self.backups()?, &path, "the root for backups")?;
        }
        Ok(path)
    }

    /// Returns the folder below which backups lie.
    ///
    /// # Errors
    /// 409 when the server was started without one.
    pub(super) fn backups(&self) -> Result<&Path, Problem> {
        self.backups.as_deref().ok_or_else(|| {
            let text = "no folder for backups: start the server with --backup-root";
            Problem::new(StatusCode::CONFLICT, Failure::Other, text)
        })
    }
}

/// Checks that a job from the network does not use the server's credentials for buckets and catalogs, which
/// only the server's own user may use.
///
/// # Errors
/// 403 when the job publishes into a bucket or by a catalog.
pub(super) fn check_no_credentials(request: &JobRequest) -> Result<(), Problem> {
    let has_bucket = matches!(
        request.output.to,
        OutputPlace::Iceberg(PublishTarget::Bucket { .. })
    );
    let has_catalog = matches!(
        &request.application,
        ApplicationRequest::Publish(options) if options.catalog.is_some()
    );
    if !has_bucket && !has_catalog {
        return Ok(());
    }
    Err(Problem::forbidden(
        "jobs that come over the network do not publish into buckets or by catalogs, because that takes \
         the credentials of the server: use `ebb publish` on its machine",
    ))
}

/// Checks that a path lies below `root`. `what` describes `root` in the error.
///
/// # Errors
/// 403 when it does not; 500 when `root` cannot be read.
fn check_below(root: &Path, path: &Path, what: &str) -> Result<(), Problem> {
    #[cfg(test)]
    assert_may_block();
    match is_below(root, path) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Problem::forbidden(format!(
            "{} does not lie below {}, {what}",
            path.display(),
            root.display()
        ))),
        Err(error) => Err(broken(format!("{}: {error}", root.display()))),
    }
}

/// Returns whether a path lies below `root` after all symbolic links in both are followed. Nothing need exist
/// at the path. A relative path is below only if it begins with `root`, which may be relative itself.
///
/// # Errors
/// When `root` cannot be read.
fn is_below(root: &Path, path: &Path) -> io::Result<bool> {
    let given = root;
    let root = given.canonicalize()?;
    let path = match path.strip_prefix(given) {
        Ok(rest) => root.join(rest),
        Err(_) => path.to_path_buf(),
    };
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || !path.components().all(is_plain) {
        return Ok(false);
    }
    // What is there decides; what is to be made lies below it. A link that leads nowhere
    // is something that is there.
    let there = path
        .ancestors()
        .find(|part| part.symlink_metadata().is_ok());
    let Some(there) = there else {
        return Ok(false);
    };
    Ok(there
        .canonicalize()
        .is_ok_and(|there| there.starts_with(&root)))
}

/// Panics on a thread that runs async tasks. If it waited for a disk that hangs, all requests would hang.
#[cfg(test)]
fn assert_may_block() {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.block_on(async {});
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_what_lies_below_the_root_does_so() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for folder in ["root/sub", "root-2", "other"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        symlink(at("other"), at("root/out")).unwrap();
        symlink(at("other/none"), at("root/nowhere")).unwrap();
        symlink(at("root/sub"), at("in")).unwrap();
        let root = at("root");
        for path in ["root/new", "root/sub/new", "root/a/b/c", "in/new"] {
            assert!(is_below(&root, &at(path)).unwrap(), "{path}");
        }
        for path in [
            "other/new",
            "root-2/new",
            "root/../other/new",
            "root/out/new",
            "root/nowhere",
            "new",
        ] {
            assert!(!is_below(&root, &at(path)).unwrap(), "{path}");
        }
        assert!(!is_below(&root, Path::new("root/new")).unwrap(), "relative");
        assert!(is_below(&at("none"), &at("none/new")).is_err());
    }

    #[test]
    fn a_backup_over_the_network_lies_below_the_root_by_its_name_and_by_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for folder in ["root", "other"] {
            std::fs::create_dir(at(folder)).unwrap();
        }
        symlink(at("other"), at("root/out")).unwrap();
        let roots = Roots {
            outputs: None,
            backups: Some(at("root")),
        };
        let name = |name: &str| BackupPlace {
            name: Some(name.to_owned()),
            directory: None,
        };
        let path = |path: PathBuf| BackupPlace {
            name: None,
            directory: path.to_str().map(str::to_owned),
        };
        for place in [name("new"), path(at("root/new"))] {
            assert_eq!(roots.backup(&place, false).unwrap(), at("root/new"));
        }
        for place in [name("out"), path(at("root/out")), path(at("other/new"))] {
            assert_eq!(roots.backup(&place, false).unwrap_err().status, 403);
            assert!(roots.backup(&place, true).is_ok(), "{place:?}");
        }
        let both = BackupPlace {
            name: Some("new".to_owned()),
            ..path(at("root/new"))
        };
        let none = BackupPlace::default();
        let relative = path("root/new".into());
        for place in [name(""), name(".."), name("a/b"), relative, both, none] {
            let refused = roots.backup(&place, true).unwrap_err();
            assert_eq!(refused.status, 422, "{place:?}");
        }
    }
}
