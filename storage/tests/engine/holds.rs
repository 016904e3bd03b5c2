//! Holds: what a snapshot shows of a table stays readable when the snapshot is deleted, as long as there
//! is time and space.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{DIR, damage_file, files, lose_power, manual, one_table};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Db, ErrorKind, HoldOptions, Keyspace, ManualClock, Options, Result, SnapshotTable, Table,
    TableOptions, repair,
};

const MARK_BYTES: u64 = 64 << 20;

struct Fixture {
    mem: MemDisk,
    clock: ManualClock,
    db: Db,
    app: Keyspace,
    table: Table,
}

fn open(mem: &MemDisk, clock: &ManualClock) -> Fixture {
    let options = Options {
        clock: Arc::new(clock.clone()),
        low_water_bytes: MARK_BYTES,
        ..manual(mem)
    };
    let (db, app, table) = one_table::open(options, TableOptions::default());
    Fixture {
        mem: mem.clone(),
        clock: clock.clone(),
        db,
        app,
        table,
    }
}

fn fixture() -> Fixture {
    open(&MemDisk::new(), &ManualClock::at_ms(1_000_000))
}

impl Fixture {
    fn hold(&self, snapshot: &str, name: &str, expires_in: Option<Duration>) {
        self.try_hold(snapshot, name, "users", expires_in).unwrap();
    }

    fn try_hold(
        &self,
        snapshot: &str,
        name: &str,
        table: &str,
        expires_in: Option<Duration>,
    ) -> Result<()> {
        let hold = HoldOptions {
            name: name.to_owned(),
            table: table.to_owned(),
            held_for: format!("a copy of {snapshot}"),
            expires_in,
        };
        self.app.hold_snapshot(snapshot, &hold)
    }

    fn held(&self, name: &str) -> SnapshotTable {
        self.app.held(name).unwrap().table("users").unwrap()
    }

    fn is_held(&self, name: &str) -> bool {
        match self.app.held(name) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound);
                false
            }
        }
    }

    /// Writes the key "k" again, so that nothing but a snapshot or a hold keeps the older value,
    /// flushes, and merges.
    fn overwrite(&self, value: &[u8]) {
        self.table.put(b"k", value).unwrap();
        self.db.flush().unwrap();
        self.db.compact().unwrap();
    }
}

#[test]
fn a_hold_shows_its_snapshot_after_its_deletion_merges_and_power_losses() {
    let mut f = fixture();
    f.overwrite(b"1");
    f.app.create_snapshot("monday").unwrap();
    let at = f.app.snapshot("monday").unwrap();
    let (seq, read_time_ms) = (at.seq(), at.read_time_ms());
    drop(at);
    f.overwrite(b"2");
    f.clock.advance_ms(5_000);
    f.hold("monday", "copied", None);
    f.db.sync().unwrap();
    f.app.delete_snapshot("monday").unwrap();
    for round in 0..3_u8 {
        f.overwrite(&[round]);
        let held = f.held("copied");
        assert_eq!(held.get(b"k").unwrap().unwrap(), "1");
        assert_eq!((held.seq(), held.read_time_ms()), (seq, read_time_ms));
        drop(held);
        let (mem, clock) = (f.mem.clone(), f.clock.clone());
        lose_power(&mem, f, u64::from(round));
        f = open(&mem, &clock);
    }
    f.db.verify().unwrap();
}

#[test]
fn a_hold_of_the_same_name_is_replaced_and_no_list_of_snapshots_has_it() {
    let f = fixture();
    for (snapshot, value) in [("monday", "1"), ("tuesday", "2")] {
        f.table.put(b"k", value.as_bytes()).unwrap();
        f.app.create_snapshot(snapshot).unwrap();
    }
    f.hold("tuesday", "copied", None);
    f.hold("monday", "copied", None);
    assert_eq!(f.held("copied").get(b"k").unwrap().unwrap(), "1");
    assert_eq!(f.app.snapshot_names(), ["monday", "tuesday"]);
    let snapshots: Vec<_> = f
        .app
        .snapshots()
        .into_iter()
        .map(|it| it.held_for)
        .collect();
    assert_eq!(snapshots, [None, None]);
    let stats = f.db.stats();
    assert_eq!((stats.snapshots, stats.holds), (2, 1));
    let holds = f.app.holds();
    let holds: Vec<_> = holds
        .iter()
        .map(|hold| (&hold.name[..], hold.held_for.as_deref()))
        .collect();
    assert_eq!(holds, [("hold/copied", Some("a copy of monday"))]);

    let error = f.try_hold("monday", "copied", "other", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(f.is_held("copied"));
    f.app.release_hold("copied").unwrap();
    assert!(!f.is_held("copied"));
}

#[test]
fn a_hold_has_the_age_of_its_snapshot_also_without_it() {
    let f = fixture();
    let oldest_age_ms = || f.db.stats().snapshot_oldest_age_ms;
    assert_eq!(oldest_age_ms(), None);
    f.app.create_snapshot("monday").unwrap();
    f.clock.advance_ms(5_000);
    f.hold("monday", "copied", None);
    f.app.create_snapshot("tuesday").unwrap();
    f.app.delete_snapshot("monday").unwrap();
    f.clock.advance_ms(2_000);
    assert_eq!(oldest_age_ms(), Some(7_000));
    f.app.release_hold("copied").unwrap();
    assert_eq!(oldest_age_ms(), Some(2_000));
}

#[test]
fn a_hold_goes_at_its_time_and_with_its_table() {
    let f = fixture();
    f.app.create_snapshot("monday").unwrap();
    f.hold("monday", "short", Some(Duration::from_secs(1)));
    f.hold("monday", "long", None);
    f.clock.advance_ms(1_000);
    assert!(!f.is_held("short"));
    f.db.flush().unwrap();
    f.app.table("other", TableOptions::default()).unwrap();
    f.app.drop_table("other").unwrap();
    assert_eq!(f.app.holds().len(), 1);
    f.app.drop_table("users").unwrap();
    assert!(f.app.holds().is_empty());
    assert_eq!(f.app.snapshot_names(), ["monday"]);
    // The snapshot still shows the table.
    let error = f.try_hold("monday", "late", "users", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_hold_can_be_made_of_another_one_and_not_of_itself() {
    let f = fixture();
    f.overwrite(b"1");
    f.app.create_snapshot("monday").unwrap();
    f.hold("monday", "first", None);
    f.app.delete_snapshot("monday").unwrap();
    f.overwrite(b"2");
    let again = f.try_hold("hold/first", "first", "users", None);
    let error = again.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    f.hold("hold/first", "second", None);
    f.app.release_hold("first").unwrap();
    f.overwrite(b"3");
    assert_eq!(f.held("second").get(b"k").unwrap().unwrap(), "1");
}

/// A hold keeps the state of a snapshot for a reader that later compares it with a newer snapshot.
/// Once the loss is accepted, both states lack the lost rows, so the reader would see no
/// difference. Therefore the hold is released before.
#[test]
fn a_hold_goes_before_the_loss_of_a_damaged_file_is_accepted() {
    let f = fixture();
    f.overwrite(b"1");
    f.app.create_snapshot("monday").unwrap();
    f.hold("monday", "copied", None);
    f.db.flush().unwrap();
    let (mem, clock) = (f.mem.clone(), f.clock.clone());
    drop(f);
    let path = files(&mem, ".sst").remove(0);
    damage_file(&mem, &path, false);

    let f = open(&mem, &clock);
    assert!(f.is_held("copied"));
    let listed = f.db.list_lost("app", "users").unwrap();
    assert_eq!(listed.files.len(), 1);
    let refused = f.db.rewrite_damaged("app", "users", "").unwrap();
    assert_eq!(refused, None);
    assert!(f.is_held("copied"));
    let accepted = listed.token.unwrap();
    let report = f.db.rewrite_damaged("app", "users", &accepted).unwrap();
    let report = report.expect("the loss is the same");
    assert!(report.files[0].is_rewritten, "{report:?}");
    assert!(!f.is_held("copied"));
    lose_power(&mem, f, 1);
    let f = open(&mem, &clock);
    assert!(!f.is_held("copied"));
    assert_eq!(f.app.snapshot_names(), ["monday"]);
}

#[test]
fn a_repaired_database_has_the_snapshots_and_no_hold() {
    let f = fixture();
    f.overwrite(b"1");
    f.app.create_snapshot("monday").unwrap();
    f.hold("monday", "copied", None);
    let mem = f.mem.clone();
    drop(f);
    let report = repair(DIR, "/repaired", &manual(&mem), &mut |_| ()).unwrap();
    assert_eq!(report.snapshots, 1);
    let db = Db::open("/repaired", manual(&mem)).unwrap();
    let app = db.existing_keyspace("app").unwrap();
    assert_eq!(app.snapshot_names(), ["monday"]);
    assert!(app.holds().is_empty());
}

#[test]
fn a_hold_goes_before_a_write_is_refused_for_lack_of_space() {
    let f = fixture();
    f.app.create_snapshot("monday").unwrap();
    f.hold("monday", "copied", None);
    f.db.flush().unwrap();
    assert!(f.is_held("copied"));
    let free_bytes = 2 * MARK_BYTES - 1;
    f.mem
        .set_capacity_bytes(Some(f.mem.used_bytes() + free_bytes));
    // The first flush checks the free space, and the next flush lets the hold go.
    f.db.flush().unwrap();
    f.db.flush().unwrap();
    assert!(!f.is_held("copied"));
    f.table.put(b"k", b"1").unwrap();
    assert_eq!(f.app.snapshot_names(), ["monday"]);
    // Nothing has checked the free space since there is more.
    f.mem.set_capacity_bytes(None);
    f.hold("monday", "copied", None);
    f.db.flush().unwrap();
    assert!(f.is_held("copied"));
}
