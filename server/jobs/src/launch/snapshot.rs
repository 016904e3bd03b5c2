//! The snapshot that a job reads: an existing one, or one that is made for the job and deleted
//! after it.

use std::time::{Duration, UNIX_EPOCH};

use ebb_storage::{Db, ErrorKind, Keyspace, SeqNo, Snapshot, SnapshotOptions};
use ebb_tables::lookup::{self, LookupError};

use crate::error::JobError;
use crate::history::{History, HistoryError, OwnSnapshot, now_unix_ms};
use crate::request::TableInput;

/// The time after which a snapshot that was made for a job expires, in case the job could not
/// delete it. Until then the job can be started again. The job itself may run longer, because its
/// open snapshot stays readable.
const EXPIRES_IN: Duration = Duration::from_secs(7 * 24 * 3600);

/// The snapshot of an open input.
#[derive(Debug)]
pub struct JobSnapshot {
    name: String,
    /// The keyspace of the snapshot and the number of the commit that created it, if it was made for the job;
    /// else `None`. The name does not identify the snapshot: once the snapshot is deleted or has expired,
    /// another job or a user may give the name to another snapshot.
    own: Option<(Keyspace, SeqNo)>,
    /// Whether a snapshot that was made for the job outlives this value, because the record of the job
    /// names it for the next start.
    is_kept: bool,
}

impl JobSnapshot {
    /// Opens the snapshot that `input` names; else the snapshot `own`, which an earlier start of
    /// the job made; else a new snapshot of the table. The snapshot `own` is kept until
    /// [`Self::delete_at_end`] is called. Before that, an error such as that of a full disk must
    /// not delete it, because the record of the job names it for the next start.
    ///
    /// # Errors
    /// When the keyspace, the table or the snapshot does not exist. [`JobError::State`] when the
    /// snapshot `own` is gone, even if another snapshot has its name.
    pub(super) fn open(
        db: &Db,
        input: &TableInput,
        own: Option<&OwnSnapshot>,
    ) -> Result<(Self, Snapshot), JobError> {
        let keyspace = lookup::keyspace(db, &input.table.keyspace)?;
        if let Some(name) = &input.snapshot {
            let opened = lookup::open_snapshot(&keyspace, name)?;
            let named = Self {
                name: name.clone(),
                own: None,
                is_kept: true,
            };
            return Ok((named, opened));
        }
        let is_kept = own.is_some();
        let (name, seq) = match own {
            Some(own) => (own.name.clone(), own.seq.map(SeqNo)),
            None => {
                let (name, seq) = create(&keyspace, &input.table.table)?;
                (name, Some(seq))
            }
        };
        let opened = match keyspace.snapshot(&name) {
            Ok(opened) if seq.is_none_or(|seq| seq == opened.seq()) => opened,
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => return Err(gone(&keyspace, &name)),
        };
        let own = Some((keyspace, opened.seq()));
        Ok((Self { name, own, is_kept }, opened))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the record of the snapshot for the job's next start, which reads the same snapshot;
    /// `None` if the snapshot is not one that was made for the job. `input` is the position of the
    /// input that reads it.
    pub(super) fn own(&self, input: u32) -> Option<OwnSnapshot> {
        let (keyspace, seq) = self.own.as_ref()?;
        Some(OwnSnapshot {
            input,
            keyspace: keyspace.name().to_string(),
            name: self.name.clone(),
            seq: Some(seq.0),
        })
    }

    /// Makes the snapshot outlive this value, which otherwise deletes it when dropped.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Makes this value delete the snapshot when dropped, if the snapshot was made for the job.
    pub(super) fn delete_at_end(&mut self) {
        self.is_kept = false;
    }
}

impl Drop for JobSnapshot {
    fn drop(&mut self) {
        if let Some((keyspace, seq)) = self.own.as_ref().filter(|_| !self.is_kept) {
            // If the deletion fails, the snapshot is deleted when it expires.
            let _ = keyspace.delete_snapshot_at(&self.name, *seq);
        }
    }
}

/// Returns the error that a snapshot that was made for a job does not exist any more.
fn gone(keyspace: &Keyspace, name: &str) -> JobError {
    JobError::State(format!(
        "snapshot {name} of keyspace {}, which was made for the job, was deleted or has expired: retry \
         the job, which then reads a new snapshot",
        keyspace.name()
    ))
}

/// Creates a snapshot of a table. Returns its name, the first free one of `run-1`, `run-2` and so on, and the
/// number of the commit that created it.
fn create(keyspace: &Keyspace, table: &str) -> Result<(String, SeqNo), LookupError> {
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
    let seq = lookup::or_known(created, || lookup::unknown_table(keyspace, table))?;
    Ok((name, seq))
}

/// Deletes those snapshots of ended jobs that remain because the process was killed before it could
/// delete them. If the record of a job has no number of the snapshot's commit, the snapshot is deleted
/// only if it is older than the end of the job: a newer snapshot of the same name belongs to another
/// job or user.
///
/// # Errors
/// When the history cannot be read.
pub fn delete_left_snapshots(db: &Db, history: &History) -> Result<(), HistoryError> {
    let oldest_unix_ms = now_unix_ms().saturating_sub(EXPIRES_IN.as_millis() as u64);
    for job in history.newest(None) {
        let job = job?;
        let Some(ended_unix_ms) = job.ended_unix_ms else {
            continue;
        };
        // The snapshots of older jobs have expired. Jobs after one of these may be younger: their order is
        // that of their ids, which ascend even if the clock was set back.
        if job.started_unix_ms < oldest_unix_ms {
            continue;
        }
        let ended = UNIX_EPOCH + Duration::from_millis(ended_unix_ms);
        let is_left = |own: &OwnSnapshot| {
            if own.seq.is_some() {
                return true;
            }
            let keyspace = db.existing_keyspace(&own.keyspace);
            let found = keyspace.and_then(|keyspace| keyspace.snapshot_info(&own.name));
            found.is_ok_and(|snapshot| snapshot.created < ended)
        };
        let left = job.own_snapshots.into_iter().filter(is_left);
        delete_own_snapshots(db, &left.collect::<Vec<_>>());
    }
    Ok(())
}

/// Deletes the snapshots that were made for a job that does not start again. Skips those that are missing,
/// and those whose name another snapshot has now. But a snapshot without the number of its commit, from the
/// record of an earlier build, is deleted by its name alone.
pub fn delete_own_snapshots(db: &Db, own: &[OwnSnapshot]) {
    for snapshot in own {
        if let Ok(keyspace) = db.existing_keyspace(&snapshot.keyspace) {
            let _ = match snapshot.seq {
                Some(seq) => keyspace.delete_snapshot_at(&snapshot.name, SeqNo(seq)),
                None => keyspace.delete_snapshot(&snapshot.name),
            };
        }
    }
}
