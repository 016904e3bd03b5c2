//! Verification of the database beside the load. While it runs it is listed among the jobs, and its end
//! is in their history.

use ebb_jobs::JobError;
use ebb_jobs::history::{JobRecord, MaintenanceOptions, VERIFY, VerificationReport, now_unix_ms};
use ebb_scheduler::runtime::{Lease, LeaseOptions, SubmitError};
use ebb_storage::{Db, MaintenanceProgress, VerifyReport};
use tracing::{info, warn};

use super::Node;
use super::leased_work::{Conditions, LeasedWork};
use super::pace::Pace;
use super::running_maintenance::RunningMaintenance;

/// The most findings of a verification that are logged, a line each. Its report in the history has all.
const LOGGED_FINDINGS_MAX: usize = 10;

impl Node {
    /// Verifies every file of the database, as [`Db::verify_while`], on the calling thread and at the rate of
    /// the options. The thread reads under a lease: the runtime counts it as the task of a job, so that it
    /// gets no more CPU time than jobs may use. A file in quarantine that is whole after all leaves the
    /// quarantine.
    ///
    /// Calls `is_wanted` before each file in quarantine, and then after each block of a file. If
    /// `is_wanted` returns false, if the verification is cancelled, or if the node shuts down, the
    /// verification ends early. So it does, with an error, before the disk is full. Looks at all this while it
    /// waits, too.
    ///
    /// If the history cannot be written, the files are verified nevertheless.
    ///
    /// # Errors
    /// As [`Db::verify_while`]; when the node has no database; [`JobError::VerificationCancelled`], or
    /// [`SubmitError::ShuttingDown`], for a verification that ended early.
    pub fn verify(
        &self,
        options: &MaintenanceOptions,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<VerifyReport, JobError> {
        let db = self.database("a verification")?;
        let lease = self.runtime().lease(VERIFY, LeaseOptions::default())?;
        let started_unix_ms = now_unix_ms();
        let make = |id| JobRecord::of_verification(id, options, started_unix_ms);
        let (record, claim) = self.begin_maintenance("verification", started_unix_ms, make);
        let is_recorded = claim.is_some();
        let running = RunningMaintenance::new(record, self.policy(), lease.clone());
        let _listed = self.registry.list(&running);
        drop(claim);
        let pace = options.rate_bytes_per_s.map(Pace::new);
        let verified = self.read_files(db, &lease, &running, pace, is_wanted);
        // The verification may have ended quarantines, also one that ended early.
        self.reread_catalog();
        self.end_verification(&running, is_recorded, &verified);
        verified
    }

    fn read_files(
        &self,
        db: &Db,
        lease: &Lease,
        running: &RunningMaintenance,
        pace: Option<Pace>,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<VerifyReport, JobError> {
        let goes_on = || is_wanted() && !running.is_cancelled() && !self.is_closed();
        let conditions = Conditions::new(db, &goes_on);
        // The thread enters once the state is captured, and leaves, with this function, before it is
        // released: both take a lock of the log, which a thread of low priority must not hold.
        let mut work = LeasedWork::new(lease, pace, &conditions);
        let step = move |now: MaintenanceProgress| {
            work.wait(now.bytes_done)?;
            running.advance(now)
        };
        let verified = db.verify_while(|| conditions.hold(), step)?;
        if let Some(shortage) = conditions.shortage() {
            return Err(shortage.into());
        }
        // One that is cancelled after its last file ends as cancelled, too.
        match verified {
            Some(verified) if running.complete().is_continue() => Ok(verified),
            _ if running.is_cancelled() => Err(JobError::VerificationCancelled),
            _ => Err(JobError::from(SubmitError::ShuttingDown)),
        }
    }

    /// Logs how a verification ended. If the history has the record of its start (`is_recorded`), adds
    /// the end to the record.
    fn end_verification(
        &self,
        running: &RunningMaintenance,
        is_recorded: bool,
        verified: &Result<VerifyReport, JobError>,
    ) {
        let record = running.record();
        let id = &record.id;
        let report = match verified {
            Ok(verified) => VerificationReport::finished(verified.clone()),
            Err(JobError::VerificationCancelled | JobError::Submit(SubmitError::ShuttingDown)) => {
                VerificationReport::cancelled()
            }
            Err(error) => VerificationReport::failed(error.to_string()),
        };
        running.note_outcome(&report.outcome);
        match verified {
            Ok(verified) if verified.findings.is_empty() => {
                let (bytes, log_bytes_unchecked) = (verified.bytes, verified.wal_unchecked_bytes);
                info!(target: "jobs", bytes, log_bytes_unchecked, "verify {id} found nothing wrong");
            }
            Ok(verified) => {
                for found in verified.findings.iter().take(LOGGED_FINDINGS_MAX) {
                    let (path, offset, detail) =
                        (found.path.display(), found.offset, &found.detail);
                    warn!(target: "jobs", "verify {id}: {path} at offset {offset}: {detail}");
                }
                let findings = verified.findings.len();
                warn!(target: "jobs", findings, "verify {id} found damage");
            }
            Err(error) => warn!(target: "jobs", "verify {id} ended: {error}"),
        }
        if is_recorded {
            self.end_maintenance(record, |history| history.end_verification(record, &report));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io;
    use std::num::NonZeroU64;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use ebb_jobs::history::{RecordState, SYSTEM_KEYSPACE};
    use ebb_model::access::{Role, RoleError};
    use ebb_scheduler::runtime::JobStatus;
    use ebb_storage::simulation::{FaultOp, MemDisk};
    use ebb_storage::{Maintenance, Options, TableOptions};
    use ebb_tables::{GracePeriods, with_cql_tables};

    use super::*;
    use crate::jobs::{Jobs, ReadJobs};
    use crate::node::{NodeOptions, Stop};

    fn options(rate_bytes_per_s: Option<NonZeroU64>) -> MaintenanceOptions {
        MaintenanceOptions {
            by: "a test".to_string(),
            rate_bytes_per_s,
        }
    }

    /// Starts a node over a database with an SSTable.
    fn node(data: &Path) -> Node {
        let node = Node::open(data, Options::default(), NodeOptions::for_tests()).unwrap();
        let app = node.db().unwrap().keyspace("app").unwrap();
        let table = app.table("t", TableOptions::default()).unwrap();
        table.put(b"k", b"v").unwrap();
        node.db().unwrap().flush().unwrap();
        node
    }

    /// Returns the names of the leases under which threads work at present. A lease is a share of the CPU
    /// time of jobs.
    fn entered(node: &Node) -> Vec<String> {
        let is_entered = |job: &JobStatus| job.is_lease && job.tasks_running > 0;
        let jobs = node.runtime().status().jobs.into_iter();
        jobs.filter(is_entered).map(|job| job.name).collect()
    }

    #[test]
    fn verification_runs_under_a_lease_and_is_in_the_history() {
        let dir = tempfile::tempdir().unwrap();
        let node = node(dir.path());
        let looks = Cell::new(0);
        let report = node.verify(&options(None), &|| {
            // The thread enters after the first look.
            if looks.replace(looks.get() + 1) > 0 {
                assert_eq!(entered(&node), ["verify"]);
            }
            true
        });
        let report = report.unwrap();
        assert!(looks.get() > 1 && report.files > 0 && report.findings.is_empty());
        assert!(entered(&node).is_empty());
        let record = node.show("last", Duration::ZERO).unwrap().record;
        assert_eq!(record.state, RecordState::Succeeded);
        assert_eq!(record.maintenance_options(), Some(options(None)));
        let recorded = record.verification_report().unwrap();
        assert_eq!(recorded.verify, Some(report));
        node.shutdown(Stop::Cancel);
        assert!(node.verify(&options(None), &|| true).is_err());
    }

    /// Regression: a verification was listed as unfinished after its record was written, until it
    /// was listed as running.
    #[test]
    fn a_verification_that_is_being_started_is_not_unfinished() {
        let dir = tempfile::tempdir().unwrap();
        let node = node(dir.path());
        let options = options(None);
        let make = |id| JobRecord::of_verification(id, &options, 1);
        let (record, claim) = node.begin_maintenance("verification", 1, make);
        assert!(claim.is_some());
        assert_eq!(node.unfinished().unwrap(), []);
        assert!(node.show("last", Duration::ZERO).is_err());
        // The record alone is that of a verification whose process was killed.
        drop(claim);
        assert_eq!(node.unfinished().unwrap(), [record]);
    }

    /// Regression: if a lost record of the schema could not be written again, the error replaced the report.
    #[test]
    fn verification_returns_its_report_if_a_lost_record_cannot_be_written_again() {
        let disk = MemDisk::new();
        let options_of_store = Options {
            disk: Arc::new(disk.clone()),
            maintenance: Maintenance::Manual,
            ..with_cql_tables(Options::default(), &GracePeriods::default())
        };
        let db = Db::open("/db", options_of_store).unwrap();
        let node = Node::start(Some(db), NodeOptions::for_tests()).unwrap();
        let catalog = node.catalog().unwrap();
        let created = (catalog.roles()).change(|roles| {
            let roles = roles.with_new("ada", Role::default())?;
            Ok::<_, RoleError>(Some(roles))
        });
        assert!(created.unwrap().unwrap());
        let own = node
            .db()
            .unwrap()
            .existing_keyspace(SYSTEM_KEYSPACE)
            .unwrap();
        own.existing_table("roles").unwrap().delete(b"ada").unwrap();
        let is_armed = Cell::new(false);
        let report = node.verify(&options(None), &|| {
            // The record of the start is written by now.
            if !is_armed.replace(true) {
                disk.fail_next(FaultOp::Append, 1, io::ErrorKind::Other);
            }
            true
        });
        assert!(is_armed.get() && disk.armed_faults() == 0);
        assert!(report.unwrap().findings.is_empty());
        let refused = catalog.reread().unwrap_err().to_string();
        assert!(refused.contains("no more writes"), "{refused}");
    }

    #[test]
    fn verification_ends_when_its_client_goes() {
        let dir = tempfile::tempdir().unwrap();
        let node = node(dir.path());
        let slow = options(Some(NonZeroU64::MIN));
        let (looks, waits) = (Cell::new(0), Cell::new(0));
        let is_wanted = || {
            looks.set(looks.get() + 1);
            assert!(looks.get() < 100, "it sleeps under the lease");
            // A thread that waits for its share of the CPU has entered the lease.
            if entered(&node).is_empty() {
                waits.set(waits.get() + 1);
            }
            waits.get() < 2
        };
        let ended = node.verify(&slow, &is_wanted);
        let is_stopped = matches!(ended, Err(JobError::Submit(SubmitError::ShuttingDown)));
        assert!(is_stopped, "{ended:?}");
        let record = node.show("last", Duration::ZERO).unwrap().record;
        assert_eq!(record.state, RecordState::Cancelled);
    }

    #[test]
    fn verification_is_listed_while_it_runs_and_can_be_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let node = node(dir.path());
        let was_cancelled = Cell::new(false);
        // The callback comes between the sleeps of the pace, too.
        let cancelled = node.verify(&options(Some(NonZeroU64::MIN)), &|| {
            if !was_cancelled.replace(true) {
                let job = node.show("last", Duration::ZERO).unwrap();
                assert!(job.is_running());
                assert!(job.run.unwrap().progress.bytes.is_some());
                assert!(node.cancel("last").unwrap());
            }
            true
        });
        assert!(matches!(cancelled, Err(JobError::VerificationCancelled)));
        let job = node.show("last", Duration::ZERO).unwrap();
        assert!(!job.is_running());
        assert_eq!(job.record.state, RecordState::Cancelled);
        assert!(node.cancel("last").is_err(), "it has ended");
    }
}
