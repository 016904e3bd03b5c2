//! The damaged files of a database that is open.

use std::sync::Arc;

use crate::db::{Engine, TableCore};
use crate::error::{Error, Result};
use crate::runs::{FileMeta, Run, RunFile};
use crate::sstable::SsTable;

/// Flushes the memtables if only the log names some of the ingested runs. Afterwards the manifest
/// names these runs, too: they only waited for the flush of older memtables.
pub(super) fn flush_waiting_runs(engine: &Engine) -> Result<()> {
    let waits = |table: &Arc<TableCore>| table.version().waiting_runs().next().is_some();
    if engine.tables().iter().any(waits) {
        engine.flush_all()?;
    }
    Ok(())
}

/// Returns the files of a run that are in quarantine, that cannot be read, or whose `check` fails,
/// each with the reason.
///
/// # Errors
/// As [`damage_of`].
pub(super) fn damaged_files(
    run: &Run,
    check: impl Fn(&FileMeta, &SsTable) -> Result<()>,
) -> Result<Vec<(&FileMeta, String)>> {
    let mut damaged = Vec::new();
    for (meta, file) in run.meta().files.iter().zip(run.files()) {
        if let Some(reason) = damage_of(meta, file, &check)? {
            damaged.push((meta, reason));
        }
    }
    Ok(damaged)
}

/// Returns the reason if a file is in quarantine, cannot be read, or fails the `check`; `None` if it is
/// not damaged.
///
/// # Errors
/// The failure of the check, if its cause is not the file: a lack of file descriptors, for example.
pub(super) fn damage_of(
    meta: &FileMeta,
    file: &RunFile,
    check: impl FnOnce(&FileMeta, &SsTable) -> Result<()>,
) -> Result<Option<String>> {
    if let Some(known) = &meta.quarantine {
        return Ok(Some(known.detail.clone()));
    }
    let failed = match file.table() {
        Some(table) => check(meta, table).err(),
        None => file.error().cloned(),
    };
    match failed {
        None => Ok(None),
        Some(Error::Corruption { detail, .. }) => Ok(Some(detail)),
        Some(error) if error.is_of_file() => Ok(Some(error.to_string())),
        Some(error) => Err(error),
    }
}
