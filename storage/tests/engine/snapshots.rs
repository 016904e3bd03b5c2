//! Named snapshots as things of their own: when they expire, what they cost,
//! and how many there may be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{DIR, create_table_snapshot, for_seeds, manual, rng, until};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Db, Error, ErrorKind, Event, Keyspace, Maintenance, ManualClock, Options, SnapshotOptions,
    SnapshotScope, Table, TableOptions,
};
use rand::RngExt;

const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    mem: MemDisk,
    clock: ManualClock,
    db: Db,
    keyspace: Keyspace,
    table: Table,
}

fn fixture(maintenance: Maintenance) -> Fixture {
    open(MemDisk::new(), ManualClock::at_ms(1_000_000), maintenance)
}

fn open(mem: MemDisk, clock: ManualClock, maintenance: Maintenance) -> Fixture {
    let options = Options {
        maintenance,
        clock: Arc::new(clock.clone()),
        ..manual(&mem)
    };
    let db = Db::open(DIR, options).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let table = keyspace.table("t", TableOptions::default()).unwrap();
    Fixture {
        mem,
        clock,
        db,
        keyspace,
        table,
    }
}

impl Fixture {
    fn create(&self, name: &str, expires_in: Option<Duration>) {
        let options = SnapshotOptions {
            table: None,
            expires_in,
        };
        self.keyspace.create_snapshot_with(name, options).unwrap();
    }

    fn reopen(self) -> Self {
        let (mem, clock) = (self.mem.clone(), self.clock.clone());
        drop(self);
        open(mem, clock, Maintenance::Manual)
    }

    fn names(&self) -> Vec<String> {
        let infos = self.keyspace.snapshots().into_iter();
        infos.map(|info| info.name).collect()
    }
}

fn assert_expired<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    match outcome {
        Err(e @ Error::NotFound { .. }) => assert!(e.to_string().contains("expired"), "{e}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_snapshot_is_gone_when_its_time_is_over_and_an_open_one_reads_on() {
    let f = fixture(Maintenance::Manual);
    f.table.put(b"a", b"1").unwrap();
    f.create("s", Some(SECOND));
    f.create("stays", None);
    f.table.put(b"a", b"2").unwrap();
    let f = f.reopen();
    assert_eq!(
        f.keyspace.snapshots()[0]
            .expires
            .unwrap()
            .duration_since(f.keyspace.snapshots()[0].created)
            .unwrap(),
        SECOND
    );
    f.clock.advance_ms(999);
    let open = f.keyspace.snapshot("s").unwrap();
    f.clock.advance_ms(1);
    assert_expired(f.keyspace.snapshot("s"));
    assert_expired(f.keyspace.set_snapshot_expiry("s", None));
    assert_expired(f.keyspace.snapshot_pinned_bytes("s"));
    assert_eq!(f.names(), ["stays"]);
    f.keyspace.delete_snapshot("stays").unwrap();
    f.db.flush().unwrap();
    f.db.compact().unwrap();
    assert_eq!(f.db.stats().snapshots, 0);
    let then = open.table("t").unwrap().get(b"a").unwrap().unwrap();
    assert_eq!(then, "1");
    drop(open);
    // The name is free.
    f.create("s", None);
    assert_eq!(f.reopen().names(), ["s"]);
}

#[test]
fn the_name_of_an_expired_snapshot_is_free_before_it_is_deleted() {
    let f = fixture(Maintenance::Manual);
    f.create("s", Some(SECOND));
    f.clock.advance_ms(2000);
    f.table.put(b"a", b"1").unwrap();
    f.create("s", None);
    assert_eq!(f.db.stats().snapshots, 1);
    let f = f.reopen();
    let found = f.keyspace.snapshot("s").unwrap();
    let value = found.table("t").unwrap().get(b"a").unwrap().unwrap();
    assert_eq!(value, "1");
}

/// Whether an expired snapshot could be deleted depended on whether a flush had
/// come by: it was while its record was there, and was not found after.
#[test]
fn an_expired_snapshot_is_not_there_to_be_deleted_before_a_flush_or_after() {
    let f = fixture(Maintenance::Manual);
    f.create("s", Some(SECOND));
    f.clock.advance_ms(1000);
    assert_expired(f.keyspace.delete_snapshot("s"));
    f.db.flush().unwrap();
    assert_eq!(f.db.stats().snapshots, 0);
    let gone = f.keyspace.delete_snapshot("s").unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

#[test]
fn a_renewed_snapshot_lives_on_over_a_restart() {
    let mut f = fixture(Maintenance::Manual);
    f.create("renewed", Some(SECOND));
    f.create("for-ever", Some(SECOND));
    f.create("dies", Some(4 * SECOND));
    for _ in 0..5 {
        f.clock.advance_ms(900);
        f.keyspace
            .set_snapshot_expiry("renewed", Some(SECOND))
            .unwrap();
        if f.names().contains(&"for-ever".to_string()) {
            f.keyspace.set_snapshot_expiry("for-ever", None).unwrap();
        }
        f.db.flush().unwrap();
        f = f.reopen();
    }
    assert_eq!(f.names(), ["renewed", "for-ever"]);
    f.clock.advance_ms(5000);
    f.db.flush().unwrap();
    assert_eq!(f.db.stats().snapshots, 1);
    assert_eq!(f.names(), ["for-ever"]);
}

#[test]
fn whoever_listens_hears_of_each_snapshot_that_expires_and_of_no_other() {
    let f = fixture(Maintenance::Manual);
    let (tell, told) = std::sync::mpsc::channel();
    f.db.on_event(move |event| {
        if let Event::SnapshotExpired { keyspace, name } = event {
            tell.send(format!("{keyspace}@{name}")).unwrap();
        }
    });
    for name in ["a", "b", "deleted", "renewed"] {
        f.create(name, Some(SECOND));
    }
    f.keyspace.delete_snapshot("deleted").unwrap();
    f.keyspace.set_snapshot_expiry("renewed", None).unwrap();
    f.clock.advance_ms(999);
    f.db.flush().unwrap();
    f.clock.advance_ms(1);
    assert_eq!(told.try_iter().count(), 0);
    // Its name is taken anew before it was deleted.
    f.create("a", None);
    assert!(told.try_iter().eq(["app@a"]));
    f.db.flush().unwrap();
    f.db.flush().unwrap();
    assert!(told.try_iter().eq(["app@b"]));
    assert_eq!(f.names(), ["renewed", "a"]);
}

#[test]
fn threads_delete_what_has_expired() {
    let f = fixture(Maintenance::Background);
    f.create("s", Some(10 * SECOND));
    f.create("renewed", Some(10 * SECOND));
    f.keyspace
        .set_snapshot_expiry("renewed", Some(SECOND / 100))
        .unwrap();
    f.clock.advance_ms(500);
    until("the snapshot to be deleted", || f.db.stats().snapshots == 1);
    assert_eq!(f.names(), ["s"]);
}

#[test]
fn a_snapshot_says_what_it_covers_and_reads() {
    let f = fixture(Maintenance::Manual);
    f.keyspace.table("u", TableOptions::default()).unwrap();
    for i in 0..40u8 {
        f.table.put(&[i], &[i; 100]).unwrap();
    }
    f.db.flush().unwrap();
    f.create("all", None);
    create_table_snapshot(&f.keyspace, "one", "t").unwrap();
    for i in 0..40u8 {
        f.table.put(&[i], &[i; 100]).unwrap();
    }
    f.db.flush().unwrap();
    let [all, one] = &f.keyspace.snapshots()[..] else {
        panic!("two snapshots");
    };
    assert_eq!(all.scope, SnapshotScope::Keyspace);
    assert_eq!(all.tables, ["t", "u"]);
    assert_eq!(one.scope, SnapshotScope::Table("t".into()));
    assert_eq!((all.expires, all.runs, one.runs), (None, 1, 1));
    let stats = f.db.stats();
    let runs = &stats.tables[0].runs;
    assert_eq!(runs.len(), 2);
    assert_eq!(all.approximate_bytes, runs[1].bytes);
    assert_eq!(one.approximate_bytes, runs[1].bytes);
}

/// Against all versions ever written: what a snapshot pins is what would go if it
/// alone were deleted.
#[test]
fn pinned_bytes_are_what_deleting_a_snapshot_frees() {
    let test = "pinned_bytes_are_what_deleting_a_snapshot_frees";
    for_seeds(test, 20, |seed| {
        let mut rng = rng(seed);
        let f = fixture(Maintenance::Manual);
        // Of each key the commits that wrote it, with the bytes.
        let mut history: BTreeMap<Vec<u8>, Vec<(u64, usize)>> = BTreeMap::new();
        let mut views = Vec::new();
        for n in 0..400 {
            let key = format!("k{}", rng.random_range(0..30)).into_bytes();
            match rng.random_range(0..100) {
                0..=4 => f.create(&format!("s{n}"), None),
                5..=6 => views.push(f.db.view()),
                7..=8 if !views.is_empty() => {
                    views.swap_remove(rng.random_range(0..views.len()));
                }
                9..=10 => {
                    let names = f.names();
                    if !names.is_empty() {
                        let name = &names[rng.random_range(0..names.len())];
                        f.keyspace.delete_snapshot(name).unwrap();
                    }
                }
                11..=13 => f.db.flush().unwrap(),
                14 => f.db.compact().unwrap(),
                15..=18 => {
                    // Hides what it covers, and is no version itself.
                    let end = match rng.random_bool(0.2) {
                        true => b"l".to_vec(),
                        false => format!("k{}", rng.random_range(0..30)).into_bytes(),
                    };
                    f.table.delete_range(&key[..]..&end[..]).unwrap();
                    let seq = f.db.view().seq().0;
                    for (_, versions) in history.range_mut(key.clone()..end.max(key)) {
                        versions.push((seq, 0));
                    }
                }
                19..=30 => {
                    f.table.delete(&key).unwrap();
                    let bytes = key.len();
                    let seq = f.db.view().seq().0;
                    history.entry(key).or_default().push((seq, bytes));
                }
                _ => {
                    let value = vec![7; rng.random_range(0..100)];
                    f.table.put(&key, &value).unwrap();
                    let bytes = key.len() + value.len();
                    let seq = f.db.view().seq().0;
                    history.entry(key).or_default().push((seq, bytes));
                }
            }
        }
        let snapshots = f.keyspace.snapshots();
        let boundaries = |without: &str| {
            let others = snapshots.iter().filter(|info| info.name != without);
            let mut all: Vec<_> = others.map(|info| info.seq.0).collect();
            all.extend(views.iter().map(|view| view.seq().0));
            all.push(u64::MAX);
            all
        };
        let newest = |versions: &[(u64, usize)], at: u64| {
            versions.iter().rev().find(|(seq, _)| *seq <= at).copied()
        };
        for info in &snapshots {
            let others = boundaries(&info.name);
            let pinned = history.values().filter_map(|versions| {
                let seen = newest(versions, info.seq.0)?;
                let shared = others.iter().any(|at| newest(versions, *at) == Some(seen));
                (!shared).then_some(seen.1 as u64)
            });
            // A tombstone with nothing below it may be gone already.
            let pinned: u64 = pinned.sum();
            let found = f.keyspace.snapshot_pinned_bytes(&info.name).unwrap();
            assert!(
                found <= pinned && pinned - found <= 4 * 30,
                "{}: {found}, expected {pinned}",
                info.name
            );
        }
    });
}

#[test]
fn counting_what_a_snapshot_pins_leaves_the_cache_alone() {
    let f = fixture(Maintenance::Manual);
    for round in 0..2 {
        for i in 0..200u8 {
            f.table.put(&[i], &[i; 50]).unwrap();
        }
        if round == 0 {
            f.create("s", None);
        }
        f.db.flush().unwrap();
    }
    let before = f.db.stats();
    assert_eq!(f.keyspace.snapshot_pinned_bytes("s").unwrap(), 200 * 51);
    let after = f.db.stats();
    assert_eq!(before.cache_bytes, after.cache_bytes);
    let reads = |stats: &ebb_storage::Stats| stats.cache_hits + stats.cache_misses;
    assert_eq!(reads(&before), reads(&after));
    // A snapshot of the same commit shares all of it.
    f.create("t", None);
    f.create("u", None);
    assert_eq!(f.keyspace.snapshot_pinned_bytes("t").unwrap(), 0);
}

/// Snapshots come by the hundred with a hundred alive: they cut nothing into tiny
/// files, and the runs that a read may touch stay few.
#[test]
fn hundreds_of_snapshots_leave_no_tiny_files_and_few_runs() {
    for maintenance in [Maintenance::Manual, Maintenance::Background] {
        let mem = MemDisk::new();
        let options = Options {
            maintenance,
            memtable_bytes: 64 << 10,
            file_bytes: 64 << 10,
            ..manual(&mem)
        };
        let db = Db::open(DIR, options).unwrap();
        let keyspace = db.keyspace("app").unwrap();
        let table = keyspace.table("t", TableOptions::default()).unwrap();
        let mut rng = rng(7);
        for n in 0..600u32 {
            for _ in 0..20 {
                let key = rng.random_range(0..2000u32).to_be_bytes();
                let value: [u8; 100] = rng.random();
                table.put(&key, &value).unwrap();
            }
            keyspace.create_snapshot(&format!("s{n}")).unwrap();
            if let Some(old) = n.checked_sub(100) {
                keyspace.delete_snapshot(&format!("s{old}")).unwrap();
            }
        }
        db.flush().unwrap();
        db.compact().unwrap();
        assert_eq!(keyspace.snapshots().len(), 100);
        let stats = db.stats();
        let table_stats = &stats.tables[0];
        assert!(table_stats.runs.len() <= 24, "{}", table_stats.runs.len());
        // Not those on the disk: a thread may hold replaced files for a moment.
        let files = table_stats.files as u64;
        let bytes = table_stats.file_bytes / files;
        assert!(bytes >= 8 << 10, "{files} files of {bytes} bytes");
    }
}
