//! The snapshot that a job reads: one that was there, or one that goes with the job.

use std::time::{Duration, UNIX_EPOCH};

use ebb_storage::{Db, ErrorKind, Keyspace, SnapshotOptions};
use ebb_tables::lookup::{self, LookupError};

use crate::history::{History, HistoryError, OwnSnapshot, now_unix_ms};
use crate::request::TableInput;

/// When a snapshot goes that a job made and could not delete: until then the job can
/// be started again. The job itself may take longer: what it has open stays readable.
const EXPIRES_IN: Duration = Duration::from_secs(7 * 24 * 3600);

/// The snapshot of an open input.
#[derive(Debug)]
pub struct JobSnapshot {
    name: String,
    /// Where it has to be deleted.
    own: Option<Keyspace>,
}

impl JobSnapshot {
    /// The one that `input` names; else `own`, which an earlier start of the job made;
    /// else a new one of the table.
    pub(super) fn of(
        db: &Db,
        input: &TableInput,
        own: Option<&OwnSnapshot>,
    ) -> Result<Self, LookupError> {
        let keyspace = lookup::keyspace(db, &input.table.keyspace)?;
        if let Some(name) = &input.snapshot {
            return Ok(Self {
                name: name.clone(),
                own: None,
            });
        }
        let name = match own {
            Some(own) => own.name.clone(),
            None => create(&keyspace, &input.table.table)?,
        };
        Ok(Self {
            name,
            own: Some(keyspace),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As it is kept for the next start, if it goes with the job.
    pub(super) fn own(&self, input: u32) -> Option<OwnSnapshot> {
        let keyspace = self.own.as_ref()?;
        Some(OwnSnapshot {
            input,
            keyspace: keyspace.name().to_string(),
            name: self.name.clone(),
        })
    }

    /// From now on it stays when this is dropped.
    pub(super) fn keep(&mut self) {
        self.own = None;
    }
}

impl Drop for JobSnapshot {
    fn drop(&mut self) {
        if let Some(keyspace) = &self.own {
            // If not now, it goes when it expires.
            let _ = keyspace.delete_snapshot(&self.name);
        }
    }
}

/// A new snapshot of a table, under the first free name.
fn create(keyspace: &Keyspace, table: &str) -> Result<String, LookupError> {
    let options = SnapshotOptions {
        table: Some(table.to_string()),
        expires_in: Some(EXPIRES_IN),
    };
    // A name may be taken by a snapshot that a job left, or that a user created.
    let mut names = (1..).map(|n| format!("run-{n}"));
    let (name, created) = names
        .find_map(|name| {
            let created = keyspace.create_snapshot_with(&name, options.clone());
            let is_taken = matches!(&created, Err(e) if e.kind() == ErrorKind::AlreadyExists);
            (!is_taken).then_some((name, created))
        })
        .expect("numbers do not end");
    lookup::or_known(created, || lookup::unknown_table(keyspace, table))?;
    Ok(name)
}

/// Deletes the snapshots of jobs that have ended which a process left that was killed in
/// between. They are older than the end: one that is not got the name later.
///
/// # Errors
/// When the history cannot be read.
pub fn delete_left_snapshots(db: &Db, history: &History) -> Result<(), HistoryError> {
    let oldest_unix_ms = now_unix_ms().saturating_sub(EXPIRES_IN.as_millis() as u64);
    for job in history.newest(None) {
        let job = job?;
        // Those of older ones have expired.
        if job.started_unix_ms < oldest_unix_ms {
            break;
        }
        let Some(ended_unix_ms) = job.ended_unix_ms else {
            continue;
        };
        let ended = UNIX_EPOCH + Duration::from_millis(ended_unix_ms);
        let is_left = |own: &OwnSnapshot| {
            let keyspace = db.existing_keyspace(&own.keyspace);
            let found = keyspace.and_then(|keyspace| keyspace.snapshot_info(&own.name));
            found.is_ok_and(|snapshot| snapshot.created < ended)
        };
        let left = job.own_snapshots.into_iter().filter(is_left);
        delete_own_snapshots(db, &left.collect::<Vec<_>>());
    }
    Ok(())
}

/// Deletes the snapshots that were made for a job which does not start again. One that
/// is not there is gone already.
pub fn delete_own_snapshots(db: &Db, own: &[OwnSnapshot]) {
    for snapshot in own {
        if let Ok(keyspace) = db.existing_keyspace(&snapshot.keyspace) {
            let _ = keyspace.delete_snapshot(&snapshot.name);
        }
    }
}
