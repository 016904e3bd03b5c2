//! The work of a backup, a verification or a restore: it reads under a lease and at a rate, and ends while
//! it waits, too.
//!
//! ```text
//!   each piece of a file ─► the rate ─► the lease: enter, checkpoint ─► the next piece
//!                              └──────────┴─ every second or more often: cancelled? client gone? space left?
//! ```
//!
//! A wait may take hours: at a low rate, or while jobs have no CPU time. Meanwhile merges replace files that
//! the work still keeps, and writes take the rest of the disk.

use std::cell::RefCell;
use std::ops::ControlFlow;

use ebb_scheduler::runtime::{Lease, LeasedThread};
use ebb_storage::{Db, Error, SpaceWatch};

use super::pace::Pace;

/// The conditions under which a piece of work goes on.
pub(super) struct Conditions<'a> {
    /// Returns false once the work is cancelled, its client has gone or the node shuts down.
    is_wanted: &'a dyn Fn() -> bool,
    space: SpaceWatch,
    /// The error of the look that found too little free space.
    shortage: RefCell<Option<Error>>,
}

impl<'a> Conditions<'a> {
    /// Returns the conditions of work that begins now.
    pub(super) fn new(db: &Db, is_wanted: &'a dyn Fn() -> bool) -> Self {
        Self {
            is_wanted,
            space: db.watch_space(),
            shortage: RefCell::default(),
        }
    }

    /// Returns whether the work goes on. Does not look at the free space: while the work makes progress, the
    /// storage engine does that.
    pub(super) fn hold(&self) -> bool {
        self.shortage.borrow().is_none() && (self.is_wanted)()
    }

    /// Returns whether the work goes on, for work that waits. Looks at the free space.
    pub(super) fn hold_while_waiting(&self) -> bool {
        if !self.hold() {
            return false;
        }
        let shortage = self.space.check().err();
        let is_enough = shortage.is_none();
        *self.shortage.borrow_mut() = shortage;
        is_enough
    }

    /// Returns the error of work that ended because there was too little free space; `None` if it ended for
    /// another reason.
    pub(super) fn shortage(&self) -> Option<Error> {
        self.shortage.borrow().clone()
    }
}

/// The calling thread while it does a piece of work under a lease, with waits outside of the lease.
pub(super) struct LeasedWork<'a> {
    lease: &'a Lease,
    pace: Option<Pace>,
    conditions: &'a Conditions<'a>,
    /// The guard of the thread; `None` while it is outside of the lease.
    thread: Option<LeasedThread>,
}

impl<'a> LeasedWork<'a> {
    /// Returns the work of a thread that is outside of the lease.
    pub(super) fn new(
        lease: &'a Lease,
        pace: Option<Pace>,
        conditions: &'a Conditions<'a>,
    ) -> Self {
        Self {
            lease,
            pace,
            conditions,
            thread: None,
        }
    }

    /// Enters the lease, unless the thread is in it. Returns `Break` if the work has to end.
    pub(super) fn enter(&mut self) -> ControlFlow<()> {
        if self.thread.is_none() {
            let goes_on = || self.conditions.hold_while_waiting();
            self.thread = self.lease.enter_while(&goes_on).ok();
        }
        if self.thread.is_some() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }

    /// Leaves the lease, before the thread takes locks for which requests wait.
    pub(super) fn leave(&mut self) {
        self.thread = None;
    }

    /// Leaves the lease for good, and returns the pace of the rest of the work.
    pub(super) fn into_pace(self) -> Option<Pace> {
        self.pace
    }

    /// Waits until the work may go on after `bytes_done` bytes in all, and enters the lease. Returns `Break`
    /// if the work has to end, or if the lease was cancelled.
    pub(super) fn wait(&mut self, bytes_done: u64) -> ControlFlow<()> {
        let conditions = self.conditions;
        if let Some(pace) = &mut self.pace {
            pace.wait(bytes_done, || {
                // A thread that sleeps under the lease would keep its share from jobs.
                self.thread = None;
                conditions.hold_while_waiting()
            });
        }
        if !conditions.hold() {
            return ControlFlow::Break(());
        }
        self.enter()?;
        let goes_on = || conditions.hold_while_waiting();
        let thread = self.thread.as_ref();
        match thread.map(|thread| thread.checkpoint_while(&goes_on)) {
            Some(Ok(())) => ControlFlow::Continue(()),
            // The conditions no longer hold, the lease was cancelled, or the node shuts down.
            Some(Err(_)) | None => ControlFlow::Break(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::num::NonZeroU64;
    use std::path::Path;
    use std::sync::Arc;

    use ebb_jobs::JobError;
    use ebb_jobs::history::{BackupRequest, MaintenanceOptions, RestoreRequest};
    use ebb_storage::simulation::MemDisk;
    use ebb_storage::{Options, TableOptions};
    use ebb_tables::{GracePeriods, with_cql_tables};

    use super::*;
    use crate::node::{Node, NodeOptions};

    const MARK_BYTES: u64 = 64 << 20;
    /// A rate at which no work ends.
    const SLOW: Option<NonZeroU64> = Some(NonZeroU64::MIN);

    fn set_free(disk: &MemDisk, bytes: u64) {
        disk.set_capacity_bytes(Some(disk.used_bytes() + bytes));
    }

    /// Starts a node over a database with an SSTable and a backup.
    fn node(disk: &MemDisk, spills: &Path) -> Node {
        let options = Options {
            disk: Arc::new(disk.clone()),
            low_water_bytes: MARK_BYTES,
            ..with_cql_tables(Options::default(), &GracePeriods::default())
        };
        let db = Db::open("/db", options).unwrap();
        let app = db.keyspace("app").unwrap();
        let table = app.table("t", TableOptions::default()).unwrap();
        table.put(b"k", b"v").unwrap();
        db.flush().unwrap();
        db.backup("/whole").unwrap();
        let options = NodeOptions {
            spill_dir: Some(spills.to_path_buf()),
            ..NodeOptions::for_tests()
        };
        Node::start(Some(db), options).unwrap()
    }

    fn slow() -> MaintenanceOptions {
        MaintenanceOptions {
            by: "a test".to_string(),
            rate_bytes_per_s: SLOW,
        }
    }

    /// Regression: work that waited kept replaced files until all writes were refused for lack of space.
    #[test]
    fn work_that_waits_ends_before_the_disk_is_full() {
        type Work = fn(&Node, &dyn Fn() -> bool) -> Result<(), JobError>;
        let works: [(&str, Work); 3] = [
            ("backup", |node, is_wanted| {
                let request = BackupRequest {
                    target: "copy".to_string(),
                    options: slow(),
                };
                let made = node.backup(Path::new("/copy"), &request, is_wanted);
                made.map(drop)
            }),
            ("verify", |node, is_wanted| {
                node.verify(&slow(), is_wanted).map(drop)
            }),
            ("restore", |node, is_wanted| {
                let request = RestoreRequest {
                    backup: "whole".to_string(),
                    options: slow(),
                };
                let restored = node.restore(Path::new("/whole"), &request, is_wanted);
                restored.map(drop)
            }),
        ];
        let dir = tempfile::tempdir().unwrap();
        let disk = MemDisk::new();
        let node = node(&disk, dir.path());
        for (name, work) in works {
            set_free(&disk, 8 * MARK_BYTES);
            let looks = Cell::new(0);
            let ended = work(&node, &|| {
                looks.set(looks.get() + 1);
                assert!(looks.get() < 100, "{name} goes on");
                // Writes are still accepted.
                set_free(&disk, MARK_BYTES / 2 * 3);
                true
            });
            let is_full = matches!(ended, Err(JobError::Store(Error::DiskFull { .. })));
            assert!(is_full, "{name}: {ended:?}");
        }
    }
}
