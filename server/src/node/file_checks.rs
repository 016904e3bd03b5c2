//! Checks of the database's files beside the load, each of them once in a given time.
//!
//! ```text
//!   every minute: is a file due? ─► read it under a lease, 8 MiB in a second at most ─► record
//! ```

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

use ebb_jobs::JobError;
use ebb_scheduler::runtime::{LeaseOptions, LeasedThread, Runtime};
use ebb_storage::Db;

use super::Node;

/// The time after which the thread looks again for a file that is due for a check. It waits for
/// this time if no file was due, or if a check could not be made or recorded.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The most bytes of files that are read in a second: a small part of what a disk can do, and still 700 GB
/// a day.
const BYTES_PER_S: u64 = 8 << 20;

/// The shortest pause by which the thread keeps to [`BYTES_PER_S`]. With a pause after each block,
/// the thread would wake up thousands of times a second, and take a lease each time.
const PAUSE_MIN: Duration = Duration::from_millis(250);

/// The thread that checks files. Dropping this stops the thread and waits for its end.
pub(super) struct FileChecker {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FileChecker {
    fn start(
        db: Db,
        runtime: Arc<Runtime>,
        every: Duration,
        failed: impl Fn(&dyn fmt::Display) + Send + 'static,
    ) -> io::Result<Self> {
        let is_stopped = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&is_stopped);
        let thread = thread::Builder::new().name("ebb-file-check".to_owned());
        let thread = thread.spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let is_next_due = match check_next(&db, &runtime, every, &stopped) {
                    Ok(is_next_due) => is_next_due,
                    Err(error) => {
                        failed(&error);
                        false
                    }
                };
                // The wake-up of a stop may have ended a pause of the check.
                if !is_next_due && !stopped.load(Ordering::Relaxed) {
                    thread::park_timeout(LOOK_EVERY);
                }
            }
        })?;
        Ok(Self {
            is_stopped,
            thread: Some(thread),
        })
    }
}

impl Drop for FileChecker {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic in it was printed.
            let _ = thread.join();
        }
    }
}

impl Node {
    /// Starts a thread that checks the files of the database until the node shuts down: each file once in
    /// every period of length `every`, in the order of [`Db::next_file_check`], and slowly. The thread reads
    /// under a lease, so that it gets no more CPU time than jobs may use. Damaged files go into quarantine.
    /// If a check cannot be made or recorded, `failed` is called with the error, and the checks go on after a
    /// minute. A second call replaces the thread. Without a database this does nothing.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn check_files(
        &self,
        every: Duration,
        failed: impl Fn(&dyn fmt::Display) + Send + 'static,
    ) -> io::Result<()> {
        let Some(db) = self.db() else {
            return Ok(());
        };
        let runtime = Arc::clone(self.runtime());
        let checker = FileChecker::start(db.clone(), runtime, every, failed)?;
        let before = self.lock_checker().replace(checker);
        drop(before);
        Ok(())
    }
}

/// Checks a file that is due, if there is one. Returns true if the check is recorded, so that another file
/// may be due now. Returns false if no file was due, or if nothing was recorded, so that the check has to
/// be made again (for instance because `is_stopped` was set, or the node shuts down).
fn check_next(
    db: &Db,
    runtime: &Runtime,
    every: Duration,
    is_stopped: &AtomicBool,
) -> Result<bool, JobError> {
    let Some(mut check) = db.next_file_check(every)? else {
        return Ok(false);
    };
    // Returns `None` if the runtime shuts down. The lease ends when the thread leaves.
    let enter = || -> Option<LeasedThread> {
        let lease = runtime.lease("file-check", LeaseOptions::default());
        lease.ok()?.enter().ok()
    };
    let mut leased = enter();
    let (mut begun, mut read_bytes) = (Instant::now(), 0);
    check.read(&mut |bytes| {
        read_bytes += bytes;
        let share = leased.as_ref().map(LeasedThread::checkpoint);
        if !matches!(share, Some(Ok(()))) || is_stopped.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        let ahead = ahead(read_bytes, begun.elapsed());
        if ahead >= PAUSE_MIN {
            // A thread that pauses under a lease has a share that it does not use, and jobs would.
            leased = None;
            thread::park_timeout(ahead);
            leased = enter();
        }
        // No lost time is made up for: after a long wait for CPU time the disk would be at its limit.
        if ahead >= PAUSE_MIN || ahead.is_zero() {
            (begun, read_bytes) = (Instant::now(), 0);
        }
        ControlFlow::Continue(())
    });
    // Before the outcome is recorded: that takes locks and removes files, which a thread of low
    // priority must not do.
    drop(leased);
    Ok(check.finish()?)
}

/// Returns how long to pause after `read_bytes` were read within `elapsed`, so that the rate is
/// [`BYTES_PER_S`].
fn ahead(read_bytes: u64, elapsed: Duration) -> Duration {
    let due = Duration::from_secs_f64(read_bytes as f64 / BYTES_PER_S as f64);
    due.saturating_sub(elapsed)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ebb_scheduler::runtime::JobStatus;
    use ebb_storage::simulation::MemDisk;
    use ebb_storage::{ManualClock, Options, TableOptions};
    use ebb_test_support::wait::until;

    use super::*;
    use crate::node::{NodeOptions, Stop};

    const MONTH: Duration = Duration::from_secs(30 * 86_400);

    /// Returns a node over a database with one file, which is due for a check, and the disk of the
    /// database.
    fn node(dir: &Path) -> (MemDisk, Node) {
        let (mem, clock) = (MemDisk::new(), ManualClock::at_ms(1_000_000));
        let options = Options {
            disk: Arc::new(mem.clone()),
            clock: Arc::new(clock.clone()),
            ..Options::default()
        };
        let db = Db::open("/db", options).unwrap();
        let app = db.keyspace("app").unwrap();
        let table = app.table("t", TableOptions::default()).unwrap();
        table.put(b"k", b"v").unwrap();
        db.flush().unwrap();
        assert!(db.next_file_check(MONTH).unwrap().is_none());
        clock.advance_ms(2 * MONTH.as_millis() as u64);
        let options = NodeOptions {
            spill_dir: Some(dir.to_path_buf()),
            ..NodeOptions::for_tests()
        };
        (mem, Node::start(Some(db), options).unwrap())
    }

    #[test]
    fn a_file_that_is_due_is_checked_until_the_node_shuts_down() {
        let dir = tempfile::tempdir().unwrap();
        let (_mem, node) = node(dir.path());
        let oldest_ms = || node.db().unwrap().stats().oldest_file_check_ms;
        assert_eq!(oldest_ms(), Some(2 * MONTH.as_millis() as u64));
        node.check_files(MONTH, |error| panic!("{error}")).unwrap();
        until("the file to be checked", || oldest_ms() == Some(0));
        node.shutdown(Stop::Cancel);
        assert!(node.lock_checker().is_none());
    }

    #[test]
    fn a_file_is_read_under_a_lease_and_its_damage_goes_into_quarantine() {
        let dir = tempfile::tempdir().unwrap();
        let (mem, node) = node(dir.path());
        let db = node.db().unwrap();
        let path = db
            .next_file_check(MONTH)
            .unwrap()
            .unwrap()
            .path()
            .to_owned();
        mem.flip_bit(&path, 30, 3).unwrap();
        let stopped = AtomicBool::new(false);
        assert!(check_next(db, node.runtime(), MONTH, &stopped).unwrap());
        assert_eq!(db.health().damaged_tables, ["app.t"]);
        let is_lease = |job: &JobStatus| job.is_lease;
        assert!(!node.runtime().status().jobs.iter().any(is_lease));
        assert!(!check_next(db, node.runtime(), MONTH, &stopped).unwrap());
    }

    #[test]
    fn a_check_that_is_stopped_is_not_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let (_mem, node) = node(dir.path());
        let (db, stopped) = (node.db().unwrap(), AtomicBool::new(true));
        assert!(!check_next(db, node.runtime(), MONTH, &stopped).unwrap());
        assert!(db.next_file_check(MONTH).unwrap().is_some());
        node.shutdown(Stop::Cancel);
        let stopped = AtomicBool::new(false);
        assert!(!check_next(db, node.runtime(), MONTH, &stopped).unwrap());
        assert!(db.next_file_check(MONTH).unwrap().is_some());
    }

    #[test]
    fn reads_are_slowed_to_eight_mebibytes_in_a_second() {
        let ms = Duration::from_millis;
        for (bytes, elapsed_ms, ahead_ms) in [
            (0, 0, 0),
            (1 << 20, 0, 125),
            (1 << 20, 100, 25),
            (1 << 20, 125, 0),
            (1 << 20, 9_000, 0),
            (64 << 20, 1_000, 7_000),
        ] {
            let found = ahead(bytes, ms(elapsed_ms));
            assert_eq!(found, ms(ahead_ms), "{bytes} {elapsed_ms}");
        }
        // A small block counts, too.
        assert!(!ahead(1 << 10, Duration::ZERO).is_zero());
    }
}
