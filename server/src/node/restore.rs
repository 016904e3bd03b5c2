//! Restoring damaged files from a backup, beside the load.

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::path::Path;

use ebb_jobs::JobError;
use ebb_scheduler::runtime::{LeaseOptions, SubmitError};
use ebb_storage::{RestoreReport, RestoreStep};

use super::Node;
use super::leased_work::{Conditions, LeasedWork};
use super::pace::Pace;

impl Node {
    /// Restores damaged files from the backup in `dir`, as [`Db::restore_while`], on the calling thread, and
    /// reads at most `rate_bytes_per_s` bytes in a second. The thread reads under a lease: the runtime counts
    /// it as the task of a job, so that it gets no more CPU time than jobs may use. It copies files outside of
    /// the lease.
    ///
    /// Calls `is_wanted` before each file, and after each block. If `is_wanted` returns false, or if the node
    /// shuts down, the work ends early; files that were restored by then stay restored.
    ///
    /// # Errors
    /// As [`Db::restore_while`]; when the node has no database; [`ebb_storage::Error::DiskFull`] when the
    /// disk is about to be full; [`SubmitError::ShuttingDown`], for work that ended early.
    ///
    /// [`Db::restore_while`]: ebb_storage::Db::restore_while
    pub fn restore(
        &self,
        dir: &Path,
        rate_bytes_per_s: Option<NonZeroU64>,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<RestoreReport, JobError> {
        let db = self.database("a backup")?;
        let lease = self.runtime().lease("restore", LeaseOptions::default())?;
        let goes_on = || is_wanted() && !self.is_closed();
        let conditions = &Conditions::new(db, &goes_on);
        let mut work = LeasedWork::new(&lease, rate_bytes_per_s.map(Pace::new), conditions);
        // The thread leaves the lease with this function at the latest, before replaced files are removed.
        let restored = db.restore_while(dir, move |step| match step {
            RestoreStep::Read { bytes_done } => work.wait(bytes_done),
            RestoreStep::Lock => {
                // Requests wait for the locks, so the thread must not have the low priority of the lease.
                work.leave();
                if conditions.hold() {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            }
        });
        // Also after an error, the files that were restored before are.
        self.reread_catalog();
        if let Some(shortage) = conditions.shortage() {
            return Err(shortage.into());
        }
        restored?.ok_or_else(|| SubmitError::ShuttingDown.into())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use ebb_scheduler::runtime::JobStatus;
    use ebb_storage::{Compression, Options, SsTableOptions, TableOptions};

    use super::*;
    use crate::node::{NodeOptions, Stop};

    #[test]
    fn a_restore_reads_under_a_lease_and_ends_when_its_client_goes() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let node = Node::open(&data, Options::default(), NodeOptions::for_tests()).unwrap();
        let db = node.db().unwrap();
        let app = db.keyspace("app").unwrap();
        let sstable = SsTableOptions {
            compression: Compression::None,
            ..SsTableOptions::default()
        };
        let options = TableOptions {
            sstable,
            ..TableOptions::default()
        };
        let table = app.table("t", options).unwrap();
        for key in 0..100_u8 {
            table.put(&[key], &[7; 1000]).unwrap();
        }
        db.flush().unwrap();
        let backup = dir.path().join("backup");
        db.backup(&backup).unwrap();

        let is_entered = |job: &JobStatus| job.is_lease && job.tasks_running > 0;
        let entered = RefCell::new(Vec::new());
        let report = node.restore(&backup, None, &|| {
            let jobs = node.runtime().status().jobs;
            entered.borrow_mut().push(jobs.iter().any(is_entered));
            true
        });
        assert_eq!(report.unwrap(), RestoreReport::default());
        let entered = entered.into_inner();
        assert!(entered.contains(&true) && entered.contains(&false));
        assert!(!node.runtime().status().jobs.iter().any(is_entered));

        let looks = Cell::new(0);
        let slow = Some(NonZeroU64::MIN);
        let ended = node.restore(&backup, slow, &|| {
            looks.set(looks.get() + 1);
            // The client goes while the work waits for its rate.
            looks.get() < 4
        });
        let is_stopped = matches!(ended, Err(JobError::Submit(SubmitError::ShuttingDown)));
        assert!(is_stopped, "{ended:?}");
        node.shutdown(Stop::Cancel);
        assert!(node.restore(&backup, None, &|| true).is_err());
    }
}
