//! Reports calls to the disk that hang, and their return.

use std::time::Duration;

use super::Engine;
use super::events::Event;
use crate::disk::{StuckCall, StuckChange};

impl Engine {
    /// Returns the calls on files of the database that hung when they were last looked at, the longest first.
    /// Calls on other files are left out: a backup may be written to a slow disk.
    pub(super) fn stuck_calls(&self) -> Vec<StuckCall> {
        let mut calls = self.disk_watch.stuck();
        calls.retain(|call| call.path.starts_with(&self.dir));
        calls
    }

    /// Reports, as events, the calls to the disk that are found to hang since the last look, and
    /// those that hung and have returned since then. `now` is the time since a moment that is the
    /// same in all calls.
    pub(super) fn look_at_disk_calls(&self, now: Duration) {
        for change in self.disk_watch.look(now) {
            self.events.tell(match &change {
                StuckChange::Stuck(stuck) => Event::DiskCallStuck {
                    path: &stuck.path,
                    call: stuck.call,
                    lasts: stuck.lasts,
                },
                StuckChange::Returned(stuck) => Event::DiskCallReturned {
                    path: &stuck.path,
                    call: stuck.call,
                    took: stuck.lasts,
                },
            });
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::path::Path;
    use std::sync::{Arc, Mutex};
    use std::thread;

    use ebb_test_support::wait::until;

    use super::*;
    use crate::api::Keyspace;
    use crate::db::DbInner;
    use crate::disk::DiskCall;
    use crate::options::{Maintenance, Options, TableOptions};
    use crate::simulation::MemDisk;

    fn open(mem: &MemDisk) -> Arc<DbInner> {
        let options = Options {
            disk: Arc::new(mem.clone()),
            maintenance: Maintenance::Manual,
            ..Options::default()
        };
        DbInner::open(Path::new("/db"), options).unwrap()
    }

    #[test]
    fn a_disk_that_hangs_is_a_problem_until_its_call_returns() {
        let mem = MemDisk::new();
        let db = open(&mem);
        db.open_or_create_keyspace("app").unwrap();
        let table = Keyspace::new(db.clone(), "app").table("t", TableOptions::default());
        table.unwrap().put(b"k", b"v").unwrap();
        let events = Arc::<Mutex<Vec<String>>>::default();
        db.events.add({
            let events = events.clone();
            move |event| events.lock().unwrap().push(format!("{event:?}"))
        });
        let look = |s| db.look_at_disk_calls(Duration::from_secs(s));
        look(1);
        assert_eq!(db.health(), Default::default());

        let hang = mem.hang();
        thread::scope(|scope| {
            let sync = scope.spawn(|| db.wal.sync_all());
            let is_noted = || {
                look(2);
                db.disk_watch.has_calls()
            };
            until("the sync of the log to begin", is_noted);
            look(9);
            // A change of the catalog would hold this lock while it waits for the disk.
            let changing = db.catalog.write().unwrap();
            let health = db.health();
            drop(changing);
            let [stuck] = &health.stuck_calls[..] else {
                panic!("one call is stuck: {health:?}");
            };
            assert_eq!(stuck.path.extension(), Some("log".as_ref()));
            // The look at 2 s sees the call first. At 9 s the call has lasted longer than `STUCK_AFTER`.
            let seven_s = Duration::from_secs(7);
            assert_eq!((stuck.call, stuck.lasts), (DiskCall::Sync, seven_s));
            drop(hang);
            sync.join().unwrap().unwrap();
        });
        look(12);
        assert_eq!(db.health(), Default::default());
        let events = events.lock().unwrap();
        let of = |what: &str| {
            events
                .iter()
                .filter(|event| event.starts_with(what))
                .count()
        };
        assert_eq!(
            (of("DiskCallStuck"), of("DiskCallReturned")),
            (1, 1),
            "{events:?}"
        );
    }

    /// Regression: while the fsync of a backup on a slow disk took its time, the database reported that its own
    /// disk hung.
    #[test]
    fn a_hang_of_the_target_of_a_backup_is_no_hang_of_the_database() {
        let mem = MemDisk::new();
        let db = open(&mem);
        let look = |s| db.look_at_disk_calls(Duration::from_secs(s));
        db.disk().create_dir_all(Path::new("/backup")).unwrap();
        let mut file = db.disk().create(Path::new("/backup/000001.sst")).unwrap();
        let hang = mem.hang();
        thread::scope(|scope| {
            let write = scope.spawn(|| file.append(b"bytes"));
            let is_noted = || {
                look(2);
                db.disk_watch.has_calls()
            };
            until("the write to begin", is_noted);
            look(9);
            assert_eq!(db.disk_watch.stuck().len(), 1);
            assert_eq!(db.health(), Default::default());
            drop(hang);
            write.join().unwrap().unwrap();
        });
    }
}
