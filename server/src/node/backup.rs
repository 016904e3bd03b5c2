//! A backup of the database beside the load.

use std::ops::ControlFlow;
use std::path::Path;

use ebb_jobs::JobError;
use ebb_scheduler::runtime::{LeaseOptions, SubmitError};
use ebb_storage::{BackupInfo, MaintenanceProgress};

use super::Node;

impl Node {
    /// Backs the database up, as [`Db::backup`], on the calling thread. It copies and checks
    /// SSTables under a lease, with no more CPU time than jobs may use. `step` is called after each
    /// block; if it breaks, or the node shuts down, the backup is removed.
    ///
    /// # Errors
    /// As [`Db::start_backup`]; when the node has no database; [`SubmitError::ShuttingDown`] for a
    /// backup that was removed.
    ///
    /// [`Db::backup`]: ebb_storage::Db::backup
    /// [`Db::start_backup`]: ebb_storage::Db::start_backup
    pub fn backup(
        &self,
        dir: &Path,
        step: &mut dyn FnMut(MaintenanceProgress) -> ControlFlow<()>,
    ) -> Result<BackupInfo, JobError> {
        let no = || JobError::NoDatabase("a backup".to_string());
        let db = self.db().ok_or_else(no)?;
        let lease = self.runtime().lease("backup", LeaseOptions::default())?;
        let stopped = || JobError::from(SubmitError::ShuttingDown);
        // Links, the log and the manifest are made outside of the lease: they take locks of files
        // and directories that writers use, which a thread of low priority must not hold.
        let mut backup = db.start_backup(dir)?;
        let thread = lease.enter().map_err(|_| stopped())?;
        let copied = backup.copy(&mut |now| match thread.checkpoint() {
            Ok(()) => step(now),
            Err(_) => ControlFlow::Break(()),
        })?;
        drop(thread);
        if copied.is_break() {
            return Err(stopped());
        }
        let finished = backup.finish(&mut |now| {
            if self.is_closed() {
                return ControlFlow::Break(());
            }
            step(now)
        });
        finished?.ok_or_else(stopped)
    }
}

#[cfg(test)]
mod tests {
    use ebb_scheduler::runtime::JobStatus;
    use ebb_storage::{Options, TableOptions};

    use super::*;
    use crate::node::{NodeOptions, Stop};

    #[test]
    fn a_backup_copies_under_a_lease_and_is_removed_when_its_client_goes() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let node = Node::open(&data, Options::default(), NodeOptions::for_tests()).unwrap();
        let app = node.db().unwrap().keyspace("app").unwrap();
        let table = app.table("t", TableOptions::default()).unwrap();
        table.put(b"k", b"v").unwrap();
        node.db().unwrap().flush().unwrap();
        table.put(b"in the log", b"v").unwrap();
        let is_entered = |job: &JobStatus| job.is_lease && job.tasks_running > 0;
        let mut entered = Vec::new();
        let info = node.backup(&dir.path().join("whole"), &mut |_| {
            entered.push(node.runtime().status().jobs.iter().any(is_entered));
            ControlFlow::Continue(())
        });
        assert_eq!(info.unwrap().damaged, []);
        // The log comes last, without the lease.
        assert_eq!(
            (entered.first(), entered.last()),
            (Some(&true), Some(&false))
        );

        let target = dir.path().join("cut");
        let cut = node.backup(&target, &mut |_| ControlFlow::Break(()));
        let is_stopped = matches!(cut, Err(JobError::Submit(SubmitError::ShuttingDown)));
        assert!(is_stopped, "{cut:?}");
        assert!(!target.join("CURRENT").exists());
        assert!(!data.join(".backup-2").exists());
        node.shutdown(Stop::Cancel);
        let closed = node.backup(&target, &mut |_| ControlFlow::Continue(()));
        assert!(closed.is_err());
    }
}
