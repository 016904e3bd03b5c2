//! The damaged files of a database that is open.

use std::sync::Arc;

use crate::db::{Engine, TableCore};
use crate::error::{Error, Result};
use crate::runs::{FileMeta, Run};
use crate::sstable::SsTable;

/// Records in the manifest the ingested runs that only the log names so far, by flushing the
/// memtables: an ingested run waits for the flush of the memtables that are older.
pub(super) fn flush_waiting_runs(engine: &Engine) -> Result<()> {
    let waits = |table: &Arc<TableCore>| table.version().waiting_runs().next().is_some();
    if engine.tables().iter().any(waits) {
        engine.flush_all()?;
    }
    Ok(())
}

/// Returns the files of a run that are in quarantine, that cannot be read, or whose `check` fails,
/// each with the reason.
pub(super) fn damaged_files(
    run: &Run,
    check: impl Fn(&FileMeta, &SsTable) -> Result<()>,
) -> Result<Vec<(&FileMeta, String)>> {
    let mut damaged = Vec::new();
    for (meta, file) in run.meta().files.iter().zip(run.files()) {
        if let Some(known) = &meta.quarantine {
            damaged.push((meta, known.detail.clone()));
            continue;
        }
        let failed = match file.table() {
            Some(table) => check(meta, table).err(),
            None => file.error().cloned(),
        };
        match failed {
            None => {}
            Some(Error::Corruption { detail, .. }) => damaged.push((meta, detail)),
            Some(error) if error.is_of_file() => damaged.push((meta, error.to_string())),
            Some(error) => return Err(error),
        }
    }
    Ok(damaged)
}
