//! Restoring damaged files from a backup, beside the load. While that runs it is listed among the jobs, and its
//! end is in their history.

use std::ops::ControlFlow;
use std::path::Path;

use ebb_jobs::JobError;
use ebb_jobs::history::{JobRecord, RESTORE, RestorationReport, RestoreRequest, now_unix_ms};
use ebb_scheduler::runtime::{Lease, LeaseOptions, Outcome, SubmitError};
use ebb_storage::{Db, RestoreReport, RestoreStep};
use tracing::{info, warn};

use super::Node;
use super::leased_work::{Conditions, LeasedWork};
use super::pace::Pace;
use super::running_maintenance::RunningMaintenance;

impl Node {
    /// Restores damaged files from the backup in `dir`, as [`Db::restore_while`], on the calling thread, and
    /// reads at the rate of the request. The thread reads under a lease: the runtime counts it as the task of a
    /// job, so that it gets no more CPU time than jobs may use. It copies files outside of the lease.
    ///
    /// Calls `is_wanted` before each file, and after each block. If `is_wanted` returns false, if the restore is
    /// cancelled, or if the node shuts down, the work ends early; files that were restored by then stay
    /// restored. If the history cannot be written, the files are restored nevertheless.
    ///
    /// # Errors
    /// As [`Db::restore_while`]; when the node has no database; [`ebb_storage::Error::DiskFull`] when the
    /// disk is about to be full; [`JobError::RestoreCancelled`], or [`SubmitError::ShuttingDown`], for work that
    /// ended early.
    pub fn restore(
        &self,
        dir: &Path,
        request: &RestoreRequest,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<RestoreReport, JobError> {
        let db = self.database("a backup")?;
        let lease = self.runtime().lease(RESTORE, LeaseOptions::default())?;
        let started_unix_ms = now_unix_ms();
        let make = |id| JobRecord::of_restore(id, request, started_unix_ms);
        let (record, claim) = self.begin_maintenance(RESTORE, started_unix_ms, make);
        let is_recorded = claim.is_some();
        let running = RunningMaintenance::new(record, self.policy(), lease.clone());
        let _listed = self.registry.list(&running);
        drop(claim);
        let pace = request.options.rate_bytes_per_s.map(Pace::new);
        let restored = self.replace_files(db, dir, (&lease, pace), &running, is_wanted);
        // Also after an error, the files that were restored before are.
        self.reread_catalog();
        self.end_restore(&running, is_recorded, &restored);
        restored
    }

    fn replace_files(
        &self,
        db: &Db,
        dir: &Path,
        (lease, pace): (&Lease, Option<Pace>),
        running: &RunningMaintenance,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<RestoreReport, JobError> {
        let goes_on = || is_wanted() && !running.is_cancelled() && !self.is_closed();
        let conditions = &Conditions::new(db, &goes_on);
        let mut work = LeasedWork::new(lease, pace, conditions);
        // The thread leaves the lease with this function at the latest, before replaced files are removed.
        let restored = db.restore_while(dir, move |step| match step {
            RestoreStep::Read(now) => {
                running.advance(now)?;
                work.wait(now.bytes_done)
            }
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
        if let Some(shortage) = conditions.shortage() {
            return Err(shortage.into());
        }
        // A restore that is cancelled after its last file ends as cancelled, too.
        match restored? {
            Some(restored) if running.complete().is_continue() => Ok(restored),
            _ if running.is_cancelled() => Err(JobError::RestoreCancelled),
            _ => Err(JobError::from(SubmitError::ShuttingDown)),
        }
    }

    /// Logs how a restore ended. If the history has the record of its start (`is_recorded`), adds the end to
    /// the record.
    fn end_restore(
        &self,
        running: &RunningMaintenance,
        is_recorded: bool,
        restored: &Result<RestoreReport, JobError>,
    ) {
        let record = running.record();
        let id = &record.id;
        let report = match restored {
            Ok(restored) => RestorationReport::finished(restored.clone()),
            Err(JobError::RestoreCancelled | JobError::Submit(SubmitError::ShuttingDown)) => {
                RestorationReport::ended(Outcome::Cancelled)
            }
            Err(error) => RestorationReport::ended(Outcome::Failed {
                cause: error.to_string(),
            }),
        };
        running.note_outcome(&report.outcome);
        match restored {
            Ok(files) => {
                let (restored, left) = (files.restored.len(), files.left.len());
                info!(target: "jobs", restored, left, "restore {id} has read all files");
            }
            Err(error) => warn!(target: "jobs", "restore {id} ended: {error}"),
        }
        if is_recorded {
            self.end_maintenance(record, |history| history.end_restore(record, &report));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::num::NonZeroU64;
    use std::time::Duration;

    use ebb_jobs::history::{MaintenanceOptions, RecordState};
    use ebb_scheduler::runtime::JobStatus;
    use ebb_storage::{Compression, Options, SsTableOptions, TableOptions};

    use super::*;
    use crate::jobs::{Jobs, ReadJobs};
    use crate::node::{NodeOptions, Stop};

    fn request(rate_bytes_per_s: Option<NonZeroU64>) -> RestoreRequest {
        RestoreRequest {
            backup: "backup".to_string(),
            options: MaintenanceOptions {
                by: "a test".to_string(),
                rate_bytes_per_s,
            },
        }
    }

    /// Starts a node over a database with an SSTable, in the folder `data` of `dir`, and backs it up into the
    /// folder `backup`.
    fn node_with_backup(dir: &Path) -> Node {
        let data = dir.join("data");
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
        db.backup(dir.join("backup")).unwrap();
        node
    }

    #[test]
    fn a_restore_reads_under_a_lease_and_ends_when_its_client_goes() {
        let dir = tempfile::tempdir().unwrap();
        let (node, backup) = (node_with_backup(dir.path()), dir.path().join("backup"));
        let is_entered = |job: &JobStatus| job.is_lease && job.tasks_running > 0;
        let entered = RefCell::new(Vec::new());
        let report = node.restore(&backup, &request(None), &|| {
            let jobs = node.runtime().status().jobs;
            entered.borrow_mut().push(jobs.iter().any(is_entered));
            true
        });
        assert_eq!(report.unwrap(), RestoreReport::default());
        let entered = entered.into_inner();
        assert!(entered.contains(&true) && entered.contains(&false));
        assert!(!node.runtime().status().jobs.iter().any(is_entered));

        let looks = Cell::new(0);
        let slow = request(Some(NonZeroU64::MIN));
        let ended = node.restore(&backup, &slow, &|| {
            looks.set(looks.get() + 1);
            // The client goes while the work waits for its rate.
            looks.get() < 4
        });
        let is_stopped = matches!(ended, Err(JobError::Submit(SubmitError::ShuttingDown)));
        assert!(is_stopped, "{ended:?}");
        node.shutdown(Stop::Cancel);
        assert!(node.restore(&backup, &request(None), &|| true).is_err());
    }

    #[test]
    fn a_restore_is_listed_while_it_runs_and_can_be_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let (node, backup) = (node_with_backup(dir.path()), dir.path().join("backup"));
        let slow = request(Some(NonZeroU64::MIN));
        let was_cancelled = Cell::new(false);
        let cancelled = node.restore(&backup, &slow, &|| {
            if was_cancelled.get() {
                return true;
            }
            let job = node.show("last", Duration::ZERO).unwrap();
            assert!(job.is_running());
            let bytes = job.run.unwrap().progress.bytes.unwrap();
            // The first block was read. The callback comes between the sleeps of the pace, too.
            if bytes.bytes_done > 0 {
                assert!(bytes.bytes_total > bytes.bytes_done);
                was_cancelled.set(true);
                assert!(node.cancel("last").unwrap());
            }
            true
        });
        assert!(matches!(cancelled, Err(JobError::RestoreCancelled)));
        let job = node.show("last", Duration::ZERO).unwrap();
        assert!(!job.is_running());
        assert_eq!(job.record.state, RecordState::Cancelled);
        assert_eq!(job.record.restored_backup(), Some("backup"));
        node.restore(&backup, &request(None), &|| true).unwrap();
        let record = node.show("last", Duration::ZERO).unwrap().record;
        let report = record.restoration_report().unwrap();
        assert_eq!(report.restore, Some(RestoreReport::default()));
    }
}
