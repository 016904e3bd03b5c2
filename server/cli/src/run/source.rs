//! The snapshot that a job reads.

use std::time::Duration;

use anyhow::Result;
use ebb_storage::{Db, ErrorKind, Keyspace, SnapshotOptions};

use crate::database;
use crate::names::TableName;

/// When a snapshot goes that a job made and could not delete: until then the job can
/// be started again. The job itself may take longer: what it has open stays readable.
const EXPIRES_IN: Duration = Duration::from_secs(7 * 24 * 3600);

/// A snapshot that was there, or one that goes with the job.
#[derive(Debug)]
pub(super) struct Source {
    name: String,
    /// Where it has to be deleted.
    own: Option<Keyspace>,
}

impl Source {
    /// The snapshot of this name, which goes with the job where `owned` says that
    /// an attempt at the same job made it; without a name, a new one of the table.
    pub(super) fn new(
        db: &Db,
        table: &TableName,
        given: Option<&str>,
        owned: bool,
    ) -> Result<Self> {
        let keyspace = database::keyspace(db, &table.keyspace)?;
        if let Some(name) = given {
            return Ok(Self {
                name: name.to_string(),
                own: owned.then_some(keyspace),
            });
        }
        let options = SnapshotOptions {
            table: Some(table.table.clone()),
            expires_in: Some(EXPIRES_IN),
        };
        // One that a job left, or that is of somebody else, has its name.
        let mut names = (1..).map(|n| format!("run-{n}"));
        let (name, created) = names
            .find_map(|name| {
                let created = keyspace.create_snapshot_with(&name, options.clone());
                let is_taken = matches!(&created, Err(e) if e.kind() == ErrorKind::AlreadyExists);
                (!is_taken).then_some((name, created))
            })
            .expect("numbers do not end");
        database::or_known(created, || database::unknown_table(&keyspace, &table.table))?;
        Ok(Self {
            name,
            own: Some(keyspace),
        })
    }

    /// Whether it goes with the job.
    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(keyspace) = &self.own {
            // If not now, it goes when it expires.
            let _ = keyspace.delete_snapshot(&self.name);
        }
    }
}
