//! Work of a node that is not a job, and can wait for the load: backup, verification,
//! export and bulk load.
//!
//! Each takes a lease of the runtime, so it runs beside the jobs, under the same policy and
//! out of the load's way, and the status lists it. A process that has the database to
//! itself calls the store directly instead, without pacing.
//!
//! | work | its threads | paced |
//! | --- | --- | --- |
//! | backup | the caller's; keeps its class, since it takes the manifest's lock | before it starts: files are linked in one go |
//! | verify | the caller's | from file to file, once the state is captured |
//! | scan | the caller's | from row to row |
//! | load | its own | from row to row; the commit at the end is not paced |

use std::io;
use std::ops::{ControlFlow, RangeBounds};
use std::path::Path;
use std::sync::Arc;

use ebb_jobs::{JobError, ScratchDir};
use ebb_scheduler::runtime::{Lease, LeaseOptions, LeasedThread, SubmitError};
use ebb_storage::{BackupInfo, Db, MaintenanceProgress, SnapshotTable, Table, VerifyReport};
use ebb_text::{Found, LoadControl, LoadError, LoadOptions, LoadReport, sort};

use super::Node;

impl Node {
    /// A share for work that is not a job, as
    /// [`Runtime::lease`](ebb_scheduler::runtime::Runtime::lease).
    ///
    /// # Errors
    /// When goal or CPU time is not a positive number, or the node is shutting down.
    pub fn lease(
        &self,
        name: impl Into<String>,
        options: LeaseOptions,
    ) -> Result<Lease, SubmitError> {
        self.runtime().lease(name, options)
    }

    /// Makes a directory that opens as the database, as [`Db::backup`], under a lease.
    ///
    /// # Errors
    /// As [`Db::backup`]; when the node has no database, or shuts down before it starts.
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupInfo, JobError> {
        let db = self.opened("backup")?;
        let options = LeaseOptions {
            keeps_class: true,
            ..LeaseOptions::default()
        };
        let lease = self.lease("backup", options)?;
        let _thread = lease.enter()?;
        Ok(db.backup(dir)?)
    }

    /// Verifies every file of the database, as [`Db::verify_all`], under a lease. Tells
    /// `progress` of each file. Between two files it waits for its share; when the lease is
    /// cancelled or the node shuts down, it goes on unpaced, since it cannot stop half-way.
    ///
    /// # Errors
    /// As [`Db::verify_all`]; when the node has no database, or shuts down.
    pub fn verify(
        &self,
        progress: &mut dyn FnMut(MaintenanceProgress),
    ) -> Result<VerifyReport, JobError> {
        let db = self.opened("verify")?;
        let lease = self.lease("verify", LeaseOptions::default())?;
        // Entered only with the state captured: that takes a lock of the log.
        let mut thread = None;
        Ok(db.verify_all(&mut |now| {
            let thread = thread.get_or_insert_with(|| lease.enter().ok());
            let _ = thread.as_ref().map(LeasedThread::checkpoint);
            progress(now);
        })?)
    }

    /// Hands the rows of a range of a snapshot's table to `take` in order of their keys,
    /// until it breaks off, under a lease. The reads go past the block cache.
    ///
    /// # Errors
    /// When the store cannot read; when the lease is cancelled, or the node shuts down.
    pub fn scan<K: AsRef<[u8]>, R: RangeBounds<K>>(
        &self,
        table: &SnapshotTable,
        range: R,
        mut take: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), JobError> {
        let lease = self.lease("scan", LeaseOptions::default())?;
        let thread = lease.enter()?;
        for row in table.scan(range) {
            let (key, value) = row?;
            thread.read(key.len() + value.len())?;
            if take(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Loads every row of the files into `table` by one commit, as
    /// [`text::load`](ebb_text::load), under a lease. Rows wait in the node's folder for
    /// spills.
    ///
    /// # Errors
    /// As [`text::load`](ebb_text::load): nothing was loaded then.
    /// [`LoadError::Cancelled`], too, when the lease is cancelled or the node shuts down.
    pub fn load(
        &self,
        table: &Table,
        found: &Found,
        options: &LoadOptions,
        control: &dyn LoadControl,
    ) -> Result<LoadReport, LoadError> {
        let own_threads = LeaseOptions {
            owns_threads: true,
            ..LeaseOptions::default()
        };
        let lease = self.lease("load", own_threads);
        let lease = lease.map_err(|_| LoadError::Cancelled)?;
        let options = LoadOptions {
            lease: Some(Arc::new(lease)),
            ..options.clone()
        };
        let path = self.site.spill_dir.clone();
        let refused = |source: io::Error| LoadError::Scratch { path, source };
        let scratch = ScratchDir::create_in(&self.site.spill_dir).map_err(refused)?;
        let sorted = sort(found, &options, scratch.path(), control)?;
        // Nothing is to be paced any more: a commit must not wait.
        drop(options);
        sorted.ingest(table)
    }

    fn opened(&self, what: &str) -> Result<&Db, JobError> {
        (self.db()).ok_or_else(|| JobError::senseless(format!("{what}: this node has no database")))
    }
}

#[cfg(test)]
mod tests;
