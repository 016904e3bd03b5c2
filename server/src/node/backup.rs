//! A backup of the database beside the load. While it is made it is listed among the jobs, and its end
//! is in their history.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ebb_jobs::history::{BACKUP, BackupReport, BackupRequest, History, JobRecord, now_unix_ms};
use ebb_jobs::{JobError, check_outside};
use ebb_scheduler::runtime::{LeaseOptions, SubmitError};
use ebb_storage::{Backup, BackupInfo, Db, MaintenanceProgress};
use tracing::{info, warn};

use super::Node;
use super::leased_work::{Conditions, LeasedWork};
use super::pace::Pace;
use super::running_maintenance::RunningMaintenance;

impl Node {
    /// Backs the database up, as [`Db::backup`], on the calling thread and at the rate of the request. The
    /// thread copies and checks files under a lease: the runtime counts it as the task of a job, so that it
    /// gets no more CPU time than jobs may use. Only the last segment of the log is copied outside of the
    /// lease.
    ///
    /// Calls `is_wanted` after each piece of a file, and while it waits. If it returns false, if the backup is
    /// cancelled, or if the node shuts down, the backup ends, and its files are removed. So it does, with an
    /// error, before the disk of the database is full.
    ///
    /// The history lists the backup as soon as the state of the database is captured. If the history cannot
    /// be written, the backup is made nevertheless.
    ///
    /// # Errors
    /// As [`Db::start_backup`]; when the node has no database, or `dir` lies in its directory;
    /// [`JobError::BackupCancelled`], or [`SubmitError::ShuttingDown`], for a backup that was removed.
    ///
    /// [`Db::start_backup`]: ebb_storage::Db::start_backup
    pub fn backup(
        &self,
        dir: &Path,
        request: &BackupRequest,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<BackupInfo, JobError> {
        let db = self.database("a backup")?;
        check_outside(db.dir(), dir)?;
        let lease = self.runtime().lease(BACKUP, LeaseOptions::default())?;
        let started_unix_ms = now_unix_ms();
        // Links, the end of the log and the manifest are made outside of the lease: they take locks of
        // files and directories that writers use, which a thread of low priority must not hold.
        let backup = db.start_backup(dir)?;
        let make = |id| JobRecord::of_backup(id, request, started_unix_ms);
        let (record, claim) = self.begin_maintenance(BACKUP, started_unix_ms, make);
        let is_recorded = claim.is_some();
        let running = RunningMaintenance::new(record, self.policy(), lease.clone());
        let _listed = self.registry.list(&running);
        drop(claim);
        let rate = request.options.rate_bytes_per_s;
        let goes_on = || is_wanted() && !running.is_cancelled() && !self.is_closed();
        let conditions = Conditions::new(db, &goes_on);
        let work = LeasedWork::new(&lease, rate.map(Pace::new), &conditions);
        let made = copy_and_check(backup, work, &running, &conditions);
        self.end_backup(&running, is_recorded, &made);
        made
    }

    /// Returns the time at which the last backup without damage captured the data, in milliseconds since
    /// 1970; `None` if no such backup is known. Ignores times in the future, which come from a clock that was
    /// ahead.
    pub fn last_backup_unix_ms(&self) -> Option<u64> {
        self.backup_times.last(now_unix_ms())
    }

    /// Logs how a backup ended, and keeps its time if it has no damage. If the history has the record of its
    /// start (`is_recorded`), adds the end to the record.
    fn end_backup(
        &self,
        running: &RunningMaintenance,
        is_recorded: bool,
        made: &Result<BackupInfo, JobError>,
    ) {
        let record = running.record();
        let id = &record.id;
        let report = match made {
            Ok(made) => BackupReport::finished(made.clone()),
            Err(JobError::BackupCancelled | JobError::Submit(SubmitError::ShuttingDown)) => {
                BackupReport::cancelled()
            }
            Err(error) => BackupReport::failed(error.to_string()),
        };
        running.note_outcome(&report.outcome);
        match made {
            Ok(made) if made.damaged.is_empty() => {
                info!(target: "jobs", bytes = made.bytes, "backup {id} succeeded");
            }
            Ok(made) => {
                let damaged = made.damaged.len();
                warn!(target: "jobs", damaged, "backup {id} has damaged or missing files");
            }
            Err(error) => warn!(target: "jobs", "backup {id} ended: {error}"),
        }
        if report.is_good() {
            self.backup_times.add(record.started_unix_ms, now_unix_ms());
        }
        if is_recorded {
            self.end_maintenance(record, |history| history.end_backup(record, &report));
        }
    }
}

/// Copies and checks the files of a backup.
fn copy_and_check(
    mut backup: Backup<'_>,
    mut work: LeasedWork<'_>,
    running: &RunningMaintenance,
    conditions: &Conditions<'_>,
) -> Result<BackupInfo, JobError> {
    // A client that has gone receives no error, so its backup needs none of its own.
    let stopped = || {
        if let Some(shortage) = conditions.shortage() {
            return JobError::from(shortage);
        }
        if running.is_cancelled() {
            return JobError::BackupCancelled;
        }
        JobError::from(SubmitError::ShuttingDown)
    };
    let advance = |now: MaintenanceProgress| -> ControlFlow<()> {
        running.advance(now)?;
        // After the last byte only the end of the backup is left, and a request to cancel is refused.
        if now.bytes_done >= now.bytes_total {
            running.complete()?;
        }
        ControlFlow::Continue(())
    };
    if work.enter().is_break() {
        return Err(stopped());
    }
    let copied = backup.copy(&mut |now| {
        work.wait(now.bytes_done)?;
        advance(now)
    })?;
    // The end of the log is copied and checked outside of the lease, see `Node::backup`.
    let mut pace = work.into_pace();
    if copied.is_break() {
        return Err(stopped());
    }
    let finished = backup.finish(&mut |now| {
        if let Some(pace) = &mut pace {
            pace.wait(now.bytes_done, || conditions.hold_while_waiting());
        }
        if !conditions.hold() {
            return ControlFlow::Break(());
        }
        advance(now)
    });
    finished?.ok_or_else(stopped)
}

/// The largest number of backups whose times a node keeps: the number of ended jobs that the history keeps.
const BACKUP_TIMES_MAX: usize = 1000;

/// The times at which backups without damage captured the data, in milliseconds since 1970.
///
/// A time in the future was recorded while the clock was ahead. It must not count as that of the last backup:
/// an alert about an old backup would wait until that time has passed. Nor must it hide the backups before
/// it. So the times of many backups are kept, up to [`BACKUP_TIMES_MAX`], and the clock at the moment of the
/// call decides which one counts.
pub(super) struct BackupTimes(Mutex<BTreeSet<u64>>);

impl BackupTimes {
    /// Reads the times of the backups without damage in the history of a database, the newest record first,
    /// up to a record that cannot be read. There are none without a database.
    pub(super) fn recorded(db: Option<&Db>) -> Self {
        let history = db.and_then(|db| History::existing(db).ok().flatten());
        let times = history.iter().flat_map(History::good_backups_unix_ms);
        Self(Mutex::new(times.map_while(Result::ok).collect()))
    }

    fn add(&self, unix_ms: u64, now_unix_ms: u64) {
        let mut times = self.lock();
        times.insert(unix_ms);
        if times.len() <= BACKUP_TIMES_MAX {
            return;
        }
        // Keeps the latest time that is not in the future: it is the one that counts.
        let has_later = times.range(..=now_unix_ms).nth(1).is_some();
        if has_later {
            times.pop_first();
        } else {
            times.pop_last();
        }
    }

    /// Returns the latest time that is not in the future; `None` if there is no such time.
    fn last(&self, now_unix_ms: u64) -> Option<u64> {
        self.lock().range(..=now_unix_ms).next_back().copied()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::num::NonZeroU64;
    use std::time::Duration;

    use ebb_jobs::history::{MaintenanceOptions, RecordState};
    use ebb_scheduler::runtime::JobStatus;
    use ebb_storage::{Options, TableOptions};

    use super::*;
    use crate::jobs::{Jobs, ReadJobs};
    use crate::node::{NodeOptions, Stop};

    fn request(target: &str) -> BackupRequest {
        BackupRequest {
            target: target.to_string(),
            options: MaintenanceOptions {
                by: "a test".to_string(),
                rate_bytes_per_s: None,
            },
        }
    }

    /// Starts a node over a database with an SSTable and a log.
    fn node(data: &Path) -> Node {
        let node = Node::open(data, Options::default(), NodeOptions::for_tests()).unwrap();
        let app = node.db().unwrap().keyspace("app").unwrap();
        let table = app.table("t", TableOptions::default()).unwrap();
        table.put(b"k", b"v").unwrap();
        node.db().unwrap().flush().unwrap();
        table.put(b"in the log", b"v").unwrap();
        node
    }

    #[test]
    fn a_backup_copies_under_a_lease_and_is_removed_when_its_client_goes() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let node = node(&data);
        let is_entered = |job: &JobStatus| job.is_lease && job.tasks_running > 0;
        let entered = RefCell::new(Vec::new());
        let info = node.backup(&dir.path().join("whole"), &request("whole"), &|| {
            let is_entered = node.runtime().status().jobs.iter().any(is_entered);
            entered.borrow_mut().push(is_entered);
            true
        });
        assert_eq!(info.unwrap().damaged, []);
        // The last segment of the log comes last, without the lease.
        let entered = entered.into_inner();
        assert_eq!(
            (entered.first(), entered.last()),
            (Some(&true), Some(&false))
        );

        let target = dir.path().join("cut");
        let inside = node.backup(&data.join("copy"), &request("inside"), &|| true);
        let refused = inside.unwrap_err().to_string();
        assert!(
            refused.contains("in the directory of the database"),
            "{refused}"
        );

        let cut = node.backup(&target, &request("cut"), &|| false);
        let is_stopped = matches!(cut, Err(JobError::Submit(SubmitError::ShuttingDown)));
        assert!(is_stopped, "{cut:?}");
        assert!(!target.join("CURRENT").exists());
        assert!(!data.join(".backup-2").exists());
        node.shutdown(Stop::Cancel);
        let closed = node.backup(&target, &request("cut"), &|| true);
        assert!(closed.is_err());
    }

    #[test]
    fn a_backup_is_listed_while_it_runs_and_can_be_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let node = node(&dir.path().join("data"));
        let mut slow = request("slow");
        slow.options.rate_bytes_per_s = Some(NonZeroU64::MIN);
        let (looks, was_cancelled) = (Cell::new(0), Cell::new(false));
        // The callback comes between the sleeps of the pace, too.
        let cancelled = node.backup(&dir.path().join("slow"), &slow, &|| {
            if was_cancelled.get() {
                return true;
            }
            looks.set(looks.get() + 1);
            assert!(looks.get() < 100, "it sleeps under the lease");
            let job = node.show("last", Duration::ZERO).unwrap();
            assert!(job.is_running());
            let progress = job.run.unwrap().progress;
            assert!(progress.status.is_lease && progress.bytes.is_some());
            // A thread that waits for its share of the CPU has entered the lease.
            if progress.status.tasks_running == 0 {
                was_cancelled.set(true);
                assert_eq!(node.unfinished().unwrap(), []);
                assert!(node.discard("last").is_err());
                assert!(node.cancel("last").unwrap());
            }
            true
        });
        assert!(matches!(cancelled, Err(JobError::BackupCancelled)));
        assert!(!dir.path().join("slow").join("CURRENT").exists());
        let job = node.show("last", Duration::ZERO).unwrap();
        assert!(!job.is_running());
        assert_eq!(job.record.state, RecordState::Cancelled);
        assert_eq!(job.record.backup_request(), Some(slow));
        let ended = node.cancel("last").unwrap_err().to_string();
        assert!(ended.contains("was cancelled"), "{ended}");
        assert_eq!(node.last_backup_unix_ms(), None);
    }

    #[test]
    fn a_backup_of_a_time_to_come_does_not_count_and_hides_no_other() {
        let times = BackupTimes::recorded(None);
        for (made, now, expected) in [
            (None, 100, None),
            // Regression: no alert about an old backup came until the time of this one.
            (Some(7_300), 100, None),
            (Some(90), 100, Some(90)),
            (Some(95), 100, Some(95)),
            (Some(92), 100, Some(95)),
            (Some(100), 100, Some(100)),
            // The clock is set back, and then to a time after the first backup.
            (None, 93, Some(92)),
            (None, 7_300, Some(7_300)),
        ] {
            made.into_iter().for_each(|made| times.add(made, now));
            assert_eq!(times.last(now), expected, "{made:?} at {now}");
        }
    }

    /// Regression: if all kept times, a thousand, lay in the future, the time of each new backup
    /// was dropped at once as the oldest one, so no backup counted.
    #[test]
    fn many_backups_of_a_time_to_come_leave_room_for_the_latest_one() {
        let (times, ahead) = (BackupTimes::recorded(None), 1_000_000);
        let future = ahead..ahead + BACKUP_TIMES_MAX as u64;
        future.for_each(|made| times.add(made, 2 * ahead));
        // The clock is set back.
        for made in [90, 95, 99] {
            times.add(made, made);
            assert_eq!(times.last(made), Some(made));
            assert_eq!(times.lock().len(), BACKUP_TIMES_MAX);
        }
        assert_eq!(times.last(ahead), Some(ahead));
    }

    #[test]
    fn a_restart_knows_the_last_good_backup_and_a_copy_does_not_have_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (data, target) = (dir.path().join("data"), dir.path().join("whole"));
        let node = node(&data);
        node.backup(&target, &request("whole"), &|| true).unwrap();
        let job = node.show("last", Duration::ZERO).unwrap();
        assert_eq!(job.record.state, RecordState::Succeeded);
        let report = job.record.backup_report().unwrap();
        assert!(report.is_good() && report.backup.unwrap().files > 0);
        let made = node.last_backup_unix_ms();
        assert_eq!(made, Some(job.record.started_unix_ms));
        // Regression: after a restart no backup was known if the clock was ahead at the last one.
        let history = History::open(node.db().unwrap()).unwrap();
        let in_year_2100 = 4_102_444_800_000;
        let ahead = history.begin_backup(&request("ahead"), in_year_2100);
        let good = BackupReport::finished(BackupInfo::default());
        history.end_backup(&ahead.unwrap(), &good).unwrap();
        drop((history, node));
        let open = |dir: &Path| Node::open(dir, Options::default(), NodeOptions::for_tests());
        let node = open(&data).unwrap();
        assert_eq!(node.last_backup_unix_ms(), made);
        let copy = open(&target).unwrap();
        assert_eq!(copy.jobs().unwrap(), []);
        assert_eq!(copy.last_backup_unix_ms(), None);
    }
}
