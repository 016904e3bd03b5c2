//! The log of background events in the store, such as flushes, merges and damaged files.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use ebb_storage::{Db, Event, SpaceUse};
use tracing::{debug, error, info, warn};

use super::line_bound::LineBound;
use super::log_levels::STORAGE;
use crate::interrupt::StopHandle;

/// The two ways in which an operator can deal with a damaged file.
const REMEDIES: &str = "replace it from a backup with ebb restore, or give up what is lost of it with \
                        ebb repair --online";

/// Logs the events from now on, and the files that were found damaged or unreadable before. Events that
/// need an operator have the levels warn and error, flushes and merges the level debug.
///
/// If `stop` is given, the server stops once writes have stopped for good: the cause goes into the
/// cell that this function returns, and then `stop` begins the shutdown. If `stop` is `None`, the
/// server stays up, and the cell stays empty.
pub(super) fn log(db: &Db, stop: Option<StopHandle>) -> Arc<OnceLock<String>> {
    let stopped = Arc::new(OnceLock::new());
    let found = Arc::clone(&stopped);
    let bounds = [LineBound::of_state(), LineBound::of_state()];
    // A limit with more lines than that of a state: several calls may hang at once, each on another file.
    let stuck_bound = LineBound::new();
    db.on_event(move |event| match *event {
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
        Event::LossAccepted {
            keyspace,
            table,
            path,
            entries_lost,
            kept_as,
        } => warn!(
            target: STORAGE,
            entries_lost,
            kept_as = kept_as.map(|path| path.display().to_string()),
            "{keyspace}.{table}: {} is rewritten without what could not be read of it: an operator \
             accepted the loss",
            path.display()
        ),
        Event::DiskFull { space_use, path } => log_full(&bounds, space_use, path),
        Event::DiskFreed { space_use } => {
            if let Some(left_out) = bound_of(&bounds, space_use).pass() {
                info!(target: STORAGE, left_out, "{space_use:?} find space on the disk again");
            }
        }
        Event::DiskCallStuck { path, call, lasts } => {
            if let Some(left_out) = stuck_bound.pass() {
                let (path, s) = (path.display(), lasts.as_secs());
                error!(
                    target: STORAGE,
                    left_out, "a disk hangs: the {call} of {path} has not returned for {s}s"
                );
            }
        }
        Event::DiskCallReturned { path, call, took } => {
            if let Some(left_out) = stuck_bound.pass() {
                let (path, s) = (path.display(), took.as_secs());
                warn!(target: STORAGE, left_out, "the {call} of {path} has returned after {s}s");
            }
        }
        // No bound on lines: while a run cannot be read, the time between two retries of it doubles, up to ten
        // minutes.
        Event::LeftOut {
            keyspace,
            table,
            cause,
            retry_after,
        } => warn!(
            target: STORAGE,
            "{keyspace}.{table}: a run cannot be read ({cause}); it is left out of merges for {}s, \
             all else is merged and written",
            retry_after.as_secs()
        ),
        Event::WritesStopped { cause } => {
            error!(
                target: STORAGE,
                "the server rejects all writes until its database is opened again: {cause}"
            );
            if let Some(stop) = &stop {
                // In this order: the thread that `stop` wakes reads the cause.
                found.get_or_init(|| cause.to_owned());
                stop.stop();
            }
        }
        Event::SnapshotExpired { keyspace, name } => {
            info!(target: STORAGE, "snapshot {keyspace}@{name} has expired");
        }
        // Later kinds of events: the enumeration is not exhaustive.
        _ => {}
    });
    for damage in db.manifest_damage() {
        warn!(
            target: STORAGE,
            "{damage}; nothing is lost, because the other copy has this part whole; check whether the disk \
             fails, unless the server was killed while it created the database"
        );
    }
    // After the events are on: a file that is found damaged meanwhile is logged twice, not never.
    for table in db.stats().tables {
        for file in &table.quarantine {
            let name = (&*table.keyspace, &*table.name);
            warn_of_damage(name, &file.path, file.offset, &file.detail);
        }
        for file in &table.unreadable {
            warn!(
                target: STORAGE,
                "{}.{}: {}; reads that need this file fail until it can be opened; put it back, \
                 {REMEDIES}",
                table.keyspace,
                table.name,
                file.detail
            );
        }
    }
    stopped
}

/// Returns the rate limit of log lines about a lack of space. Lines about writes have a limit of their own, so
/// that frequent lines about merges do not displace them.
fn bound_of(bounds: &[LineBound; 2], space_use: SpaceUse) -> &LineBound {
    let [of_writes, of_others] = bounds;
    match space_use {
        SpaceUse::Writes => of_writes,
        SpaceUse::Flushes | SpaceUse::Merges => of_others,
    }
}

fn log_full(bounds: &[LineBound; 2], space_use: SpaceUse, path: &Path) {
    let Some(left_out) = bound_of(bounds, space_use).pass() else {
        return;
    };
    let path = path.display();
    match space_use {
        SpaceUse::Writes => error!(
            target: STORAGE,
            left_out,
            "the disk is full at {path}: writes are rejected until there is space"
        ),
        SpaceUse::Flushes | SpaceUse::Merges => warn!(
            target: STORAGE,
            left_out,
            "the disk is full at {path}: {space_use:?} wait for space"
        ),
    }
}

fn warn_of_damage((keyspace, table): (&str, &str), path: &Path, offset: u64, detail: &str) {
    warn!(
        target: STORAGE,
        "{keyspace}.{table}: {} is damaged at byte {offset} ({detail}); reads that need this file \
         fail; {REMEDIES}",
        path.display()
    );
}
