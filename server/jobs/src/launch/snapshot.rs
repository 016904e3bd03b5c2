//! The snapshot that a job reads: one that was there, or one that goes with the job.

use std::time::Duration;

use ebb_storage::{Db, ErrorKind, Keyspace, SnapshotOptions};
use ebb_tables::lookup::{self, LookupError};

use crate::history::OwnSnapshot;
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

/// Deletes the snapshots that were made for a job which does not start again. One that
/// is not there is gone already.
pub fn delete_own_snapshots(db: &Db, own: &[OwnSnapshot]) {
    for snapshot in own {
        if let Ok(keyspace) = db.existing_keyspace(&snapshot.keyspace) {
            let _ = keyspace.delete_snapshot(&snapshot.name);
        }
    }
}
