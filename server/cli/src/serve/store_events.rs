//! The log of background events in the store, such as flushes, merges and damaged files.

use std::path::Path;

use ebb_storage::{Db, Event};
use tracing::{debug, error, info, warn};

use super::log_levels::STORAGE;

/// Logs the events from now on, and the files that are damaged already. Events that need an operator
/// have the levels warn and error, flushes and merges the level debug.
pub(super) fn log(db: &Db) {
    db.on_event(|event| match *event {
        Event::Flushed {
            keyspace,
            table,
            bytes,
        } => debug!(target: STORAGE, bytes, "{keyspace}.{table}: flushed"),
        Event::Merged {
            keyspace,
            table,
            runs,
            replaced_bytes,
            written_bytes,
            took,
            is_part,
        } => debug!(
            target: STORAGE,
            runs,
            replaced_bytes,
            written_bytes,
            took_ms = took.as_millis() as u64,
            is_part,
            "{keyspace}.{table}: merged"
        ),
        Event::Quarantined {
            keyspace,
            table,
            path,
            offset,
            detail,
        } => warn_of_damage((keyspace, table), path, offset, detail),
        Event::WritesStopped { cause } => error!(
            target: STORAGE,
            "the server rejects all writes until it is restarted: {cause}"
        ),
        Event::SnapshotExpired { keyspace, name } => {
            info!(target: STORAGE, "snapshot {keyspace}@{name} has expired");
        }
        _ => {}
    });
    for table in db.stats().tables {
        for file in &table.quarantine {
            let name = (&*table.keyspace, &*table.name);
            warn_of_damage(name, &file.path, file.offset, &file.detail);
        }
    }
}

fn warn_of_damage((keyspace, table): (&str, &str), path: &Path, offset: u64, detail: &str) {
    warn!(
        target: STORAGE,
        "{keyspace}.{table}: {} is damaged at byte {offset} ({detail}); reads that need this file \
         fail; replace it from a backup with ebb restore",
        path.display()
    );
}
