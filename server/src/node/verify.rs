//! Verification of the database beside the load.

use std::num::NonZeroU64;

use ebb_jobs::JobError;
use ebb_scheduler::runtime::{LeaseOptions, LeasedThread};
use ebb_storage::{MaintenanceProgress, VerifyReport};

use super::Node;
use super::pace::Pace;

impl Node {
    /// Verifies every file of the database, as [`Db::verify_all`], under a lease: on the calling
    /// thread, with no more CPU time than jobs may use. After each file it waits until the rate
    /// allows as many bytes, and for its share, and calls `progress`. When the node shuts down, it
    /// goes on without waiting, since it cannot stop half-way. Once `is_wanted` returns false, it
    /// goes on without the rate.
    ///
    /// # Errors
    /// As [`Db::verify_all`]; when the node has no database, or shuts down before the start.
    ///
    /// [`Db::verify_all`]: ebb_storage::Db::verify_all
    pub fn verify(
        &self,
        rate_bytes_per_s: Option<NonZeroU64>,
        is_wanted: &dyn Fn() -> bool,
        progress: &mut dyn FnMut(MaintenanceProgress),
    ) -> Result<VerifyReport, JobError> {
        let no = || JobError::NoDatabase("a verification".to_string());
        let db = self.db().ok_or_else(no)?;
        let lease = self.runtime().lease("verify", LeaseOptions::default())?;
        // The thread enters once the state is captured, and leaves, with this function, before it is
        // released: both take a lock of the log, which a thread of low priority must not hold.
        let mut thread = None;
        let mut pace = rate_bytes_per_s.map(Pace::new);
        Ok(db.verify_all(move |now| {
            if let Some(pace) = &mut pace {
                pace.wait(now.bytes_done, || {
                    // A thread that sleeps under the lease would keep its share from jobs.
                    thread = None;
                    is_wanted() && !self.is_closed()
                });
            }
            let thread = thread.get_or_insert_with(|| lease.enter().ok());
            // An error means that the node shuts down.
            let _ = thread.as_ref().map(LeasedThread::checkpoint);
            progress(now);
        })?)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ebb_scheduler::runtime::JobStatus;
    use ebb_storage::{Options, TableOptions};

    use super::*;
    use crate::node::{NodeOptions, Stop};

    /// The leases at present that have a thread in.
    fn entered(node: &Node) -> Vec<String> {
        let is_entered = |job: &JobStatus| job.is_lease && job.tasks_running > 0;
        let jobs = node.runtime().status().jobs.into_iter();
        jobs.filter(is_entered).map(|job| job.name).collect()
    }

    #[test]
    fn verification_runs_under_a_lease_until_the_node_shuts_down() {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::open(dir.path(), Options::default(), NodeOptions::for_tests()).unwrap();
        let app = node.db().unwrap().keyspace("app").unwrap();
        let table = app.table("t", TableOptions::default()).unwrap();
        table.put(b"k", b"v").unwrap();
        node.db().unwrap().flush().unwrap();
        let mut files = 0;
        let report = node.verify(None, &|| true, &mut |_| {
            assert_eq!(entered(&node), ["verify"]);
            files += 1;
        });
        let report = report.unwrap();
        assert!(files > 0 && report.findings.is_empty());
        assert_eq!(report.files, files);
        assert!(entered(&node).is_empty());

        let waits = Cell::new(0);
        let is_wanted = || {
            waits.set(waits.get() + 1);
            assert!(entered(&node).is_empty(), "it sleeps under the lease");
            false
        };
        let slow = Some(NonZeroU64::MIN);
        let report = node.verify(slow, &is_wanted, &mut |_| ()).unwrap();
        assert!(waits.get() > 1 && report.findings.is_empty());
        node.shutdown(Stop::Cancel);
        assert!(node.verify(None, &|| true, &mut |_| ()).is_err());
    }
}
