//! Backup: a second directory that opens as the database as it is now.
//!
//! ```text
//!   SSTables       hard links: they never change
//!   WAL segments   copies, each up to its last record that was written when
//!                  the state was captured; an opening cuts the last one, and
//!                  the database's own goes on growing
//!   manifest       new, with the captured state; CURRENT names it last
//! ```
//!
//! The state is captured before the end of the log is: so whatever the state
//! relies on is in the copy of the log. Nobody waits for a backup but for the
//! moment in which the state is captured.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::db::Engine;
use crate::error::{Error, Result};
use crate::file_system::copy_open;
use crate::files;
use crate::key::FileNumber;
use crate::maintenance::new_dir::NewDir;
use crate::maintenance::progress::MaintenanceProgress;
use crate::manifest::Manifest;
use crate::mutation::{self, Mutation};
use crate::table_store::{Way, copy_file, link_or_copy};

/// What a backup consists of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BackupInfo {
    /// SSTables and WAL segments.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that are shared with the database, by hard links.
    pub linked_bytes: u64,
    /// Those that were copied.
    pub copied_bytes: u64,
    /// The paths of the files of the database that are known to be damaged or unreadable. The
    /// backup has them as they are, or lacks them, and is no good one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
}

/// See [`Db::backup_with_progress`](crate::Db::backup_with_progress).
pub(crate) fn backup(
    engine: &Engine,
    dir: &Path,
    progress: &mut dyn FnMut(MaintenanceProgress),
) -> Result<BackupInfo> {
    let target = NewDir::claim(engine.options.disk.clone(), dir)?;
    let capture = engine.capture()?;
    mutation::linger(&[Mutation::BackupHoldsNoLog, Mutation::BackupHoldsNoFiles]);
    if mutation::is(Mutation::BackupManifestFirst) {
        let disk = engine.options.disk.clone();
        Manifest::create_with(disk, dir, capture.state.clone())?;
    }
    let runs = || capture.state.runs().chain(&capture.waiting);
    let in_runs: u64 = runs().map(|run| run.bytes()).sum();
    let in_log: u64 = capture.segments.iter().map(|(_, bytes)| bytes).sum();
    let mut tell = |info: &BackupInfo| {
        progress(MaintenanceProgress {
            bytes_done: info.bytes,
            bytes_total: info.bytes.max(in_runs + in_log),
        });
    };
    let mut info = BackupInfo::default();
    let unreadable = capture.unreadable();
    for file in runs().flat_map(|run| &run.files) {
        let (number, to) = (file.number, files::sstable(dir, file.number));
        let is_unreadable = unreadable.contains(&number);
        if is_unreadable || file.quarantine.is_some() {
            let path = engine.runs.name(number);
            info.damaged.push(path.display().to_string());
        }
        match add_sstable(engine, number, &to, &mut info) {
            // Nothing, or a part of it, was copied.
            Err(error) if is_unreadable && error.is_of_file() => {
                let _ = engine.disk().remove(&to);
            }
            added => added?,
        }
        tell(&info);
    }
    for &(number, bytes) in &capture.segments {
        let from = files::wal(engine.dir(), number);
        let to = files::wal(dir, number);
        copy_file(engine.disk(), &from, &to, bytes)?;
        info.files += 1;
        info.bytes += bytes;
        info.copied_bytes += bytes;
        tell(&info);
    }
    target.complete(capture.state.clone())?;
    Ok(info)
}

fn add_sstable(
    engine: &Engine,
    number: FileNumber,
    to: &Path,
    info: &mut BackupInfo,
) -> Result<()> {
    let (tables, disk) = (engine.runs.tables(), engine.disk());
    let from = tables.name(number.0);
    let table = tables.open(number.0).map_err(Error::io("open", &from))?;
    let bytes = table.len().map_err(Error::io("get the length of", &from))?;
    let way = match tables.local_file(number.0) {
        Some(from) => link_or_copy(disk, &from, to, bytes)?,
        None => {
            let copied = copy_open(&*table, disk, to, bytes);
            copied.map_err(Error::no_space_or_io("copy", to))?;
            Way::Copied
        }
    };
    match way {
        Way::Linked => info.linked_bytes += bytes,
        Way::Copied => info.copied_bytes += bytes,
    }
    info.files += 1;
    info.bytes += bytes;
    Ok(())
}
