//! Who has the database open that this process is refused.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Error;
use ebb_storage::ErrorKind;
use procfs::process::{FDTarget, Process};

/// The file of a data directory that is locked.
const LOCK: &str = "LOCK";

/// Letters of a command line that are shown.
const COMMAND_LETTERS_MAX: usize = 60;

/// Adds to an error of a locked data directory which process has it open, if that is known.
pub(super) fn with_holder(error: Error, data: &Path) -> Error {
    let storage = (error.chain()).find_map(|cause| cause.downcast_ref::<ebb_storage::Error>());
    let is_locked = storage.is_some_and(|error| error.kind() == ErrorKind::Locked);
    match is_locked.then(|| holder(data)).flatten() {
        Some(holder) => {
            let text = format!("{error} ({holder})");
            error.context(text)
        }
        None => error,
    }
}

/// Another process that holds the lock of a data directory, with its command line, as
/// far as the system tells this user.
fn holder(data: &Path) -> Option<String> {
    let lock = data.join(LOCK).canonicalize().ok()?;
    let inode = lock.metadata().ok()?.ino();
    let locks = procfs::locks().ok()?;
    let pids = locks.iter().filter(|lock| lock.inode == inode);
    // Files of other devices may have the same number.
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
