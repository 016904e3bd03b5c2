//! The process that holds the lock of a database, for the error of another process that needs it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Error;
use ebb_storage::ErrorKind;
use procfs::process::{FDTarget, Process};

/// The lock file of a data directory.
const LOCK: &str = "LOCK";

/// The length to which a command line is cut, in characters.
const COMMAND_LETTERS_MAX: usize = 60;

/// Adds a description of the process that has the data directory open to the error of a locked
/// directory, if that process is known.
pub(super) fn with_holder(error: Error, data: &Path) -> Error {
    match is_locked(&error).then(|| holder(data)).flatten() {
        Some(holder) => {
            let text = format!("{error} ({holder})");
            error.context(text)
        }
        None => error,
    }
}

/// Returns whether the cause of an error is that another process has the data directory open.
pub(super) fn is_locked(error: &Error) -> bool {
    let storage = (error.chain()).find_map(|cause| cause.downcast_ref::<ebb_storage::Error>());
    storage.is_some_and(|error| error.kind() == ErrorKind::Locked)
}

/// Describes the other process that holds the lock of a data directory, with its command line. `None`
/// if the system does not show that to this user.
fn holder(data: &Path) -> Option<String> {
    // The directory is locked, too, and stays so if the file is removed.
    let paths = [data.join(LOCK), data.to_path_buf()];
    paths.iter().find_map(|path| holder_of(path))
}

/// Describes the other process that has a locked file or directory open.
fn holder_of(path: &Path) -> Option<String> {
    let lock = path.canonicalize().ok()?;
    let inode = lock.metadata().ok()?.ino();
    let locks = procfs::locks().ok()?;
    let pids = locks.iter().filter(|lock| lock.inode == inode);
    // The inode number alone is not enough: files of other devices may have the same one.
    let has_it_open = |process: &Process| {
        let files = process.fd().ok().into_iter().flatten().flatten();
        let mut targets = files.map(|file| file.target);
        targets.any(|target| matches!(target, FDTarget::Path(path) if path == lock))
    };
    let processes = pids.filter_map(|lock| Process::new(lock.pid?).ok());
    let process = processes.into_iter().find(has_it_open)?;
    let command = process.cmdline().ok()?.join(" ");
    let letters = command.chars().count();
    let mut command: String = command.chars().take(COMMAND_LETTERS_MAX).collect();
    if letters > COMMAND_LETTERS_MAX {
        command.push_str(" ...");
    }
    Some(format!("process {}: {command}", process.pid))
}
