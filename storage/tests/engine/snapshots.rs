//! Named snapshots: their expiry, their cost, and the limit on their number.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{create_table_snapshot, for_seeds, manual, one_table, rng, until};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    CompactionOptions, CompactionPicker, Db, Error, ErrorKind, Event, Keyspace, Maintenance,
    ManualClock, Options, Pick, PinnedBytes, SnapshotOptions, SnapshotPins, SnapshotScope, Table,
    TableOptions, TableShape,
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
    let (db, keyspace, table) = one_table::open(options, TableOptions::default());
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

fn pins(db: &Db) -> SnapshotPins {
    let pins = db.snapshot_pins(Some("app"), &mut |_| ControlFlow::Continue(()));
    pins.unwrap().expect("the pass was not ended")
}

/// Returns the bytes that the snapshot `name` of the keyspace `app` pins, and no other snapshot
/// does.
fn alone(pins: &SnapshotPins, name: &str) -> PinnedBytes {
    pins.alone[&("app".to_string(), name.to_string())]
}

fn assert_expired<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    match outcome {
        Err(e @ Error::NotFound { .. }) => {
            assert_eq!(e.to_string(), "no unexpired snapshot named \"s\"");
        }
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
    assert_eq!(pins(&f.db).alone.len(), 1);
    assert_eq!(f.names(), ["stays"]);
    f.keyspace.delete_snapshot("stays").unwrap();
    f.db.flush().unwrap();
    f.db.compact().unwrap();
    assert_eq!(f.db.stats().snapshots, 0);
    let then = open.table("users").unwrap().get(b"a").unwrap().unwrap();
    assert_eq!(then, "1");
    drop(open);
    // The name is free.
    f.create("s", None);
    assert_eq!(f.reopen().names(), ["s"]);
}

/// Regression: a program could delete its snapshot by name only, and so deleted a later one of that name.
#[test]
fn a_deletion_at_a_commit_leaves_a_later_snapshot_of_the_same_name() {
    let f = fixture(Maintenance::Manual);
    let create = || {
        let options = SnapshotOptions::default();
        f.keyspace.create_snapshot_with("s", options).unwrap()
    };
    let first = create();
    f.keyspace.delete_snapshot("s").unwrap();
    let second = create();
    let refused = f.keyspace.delete_snapshot_at("s", first).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    let f = f.reopen();
    assert_eq!(f.keyspace.snapshot_seq("s").unwrap(), second);
    f.keyspace.delete_snapshot_at("s", second).unwrap();
    assert!(f.names().is_empty());
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
    let value = found.table("users").unwrap().get(b"a").unwrap().unwrap();
    assert_eq!(value, "1");
}

/// Regression: a table that only an expired snapshot kept was not removed when the snapshot's name
/// was taken. It stayed until another snapshot was deleted, or the database was opened again.
#[test]
fn an_expired_snapshot_whose_name_is_taken_keeps_no_dropped_table() {
    let f = fixture(Maintenance::Manual);
    f.create("s", Some(SECOND));
    f.keyspace.drop_table("users").unwrap();
    assert_eq!(f.db.stats().tables.len(), 1);
    f.clock.advance_ms(2000);
    f.create("s", None);
    assert_eq!(f.db.stats().tables.len(), 0);
}

/// Regression: whether an expired snapshot could be deleted depended on flushes. It could be until
/// a flush removed its record, and was not found afterwards.
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
fn a_listener_gets_each_snapshot_that_expires_and_no_other() {
    let f = fixture(Maintenance::Manual);
    let (sender, expired) = std::sync::mpsc::channel();
    f.db.on_event(move |event| {
        if let Event::SnapshotExpired { keyspace, name } = event {
            sender.send(format!("{keyspace}@{name}")).unwrap();
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
    assert_eq!(expired.try_iter().count(), 0);
    // Its name is taken anew before it was deleted.
    f.create("a", None);
    assert!(expired.try_iter().eq(["app@a"]));
    f.db.flush().unwrap();
    f.db.flush().unwrap();
    assert!(expired.try_iter().eq(["app@b"]));
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
fn a_snapshot_lists_the_tables_that_it_covers_and_reads() {
    let f = fixture(Maintenance::Manual);
    f.keyspace.table("visits", TableOptions::default()).unwrap();
    for i in 0..40u8 {
        f.table.put(&[i], &[i; 100]).unwrap();
    }
    f.db.flush().unwrap();
    f.create("all", None);
    create_table_snapshot(&f.keyspace, "one", "users").unwrap();
    for i in 0..40u8 {
        f.table.put(&[i], &[i; 100]).unwrap();
    }
    f.db.flush().unwrap();
    let [all, one] = &f.keyspace.snapshots()[..] else {
        panic!("two snapshots");
    };
    assert_eq!(all.scope, SnapshotScope::Keyspace);
    assert_eq!(all.tables, ["users", "visits"]);
    assert_eq!(one.scope, SnapshotScope::Table("users".into()));
    assert_eq!((all.expires, all.runs, one.runs), (None, 1, 1));
    let stats = f.db.stats();
    let runs = &stats.tables[0].runs;
    assert_eq!(runs.len(), 2);
    assert_eq!(all.approximate_bytes, runs[1].bytes);
    assert_eq!(one.approximate_bytes, runs[1].bytes);
}

/// Compares pinned bytes with a list of all versions ever written: a snapshot pins the bytes that
/// would be freed if it alone were deleted, and all snapshots together pin those that would be
/// freed if all were deleted.
#[test]
fn pinned_bytes_are_what_deleting_snapshots_frees() {
    let test = "pinned_bytes_are_what_deleting_snapshots_frees";
    for_seeds(test, 20, |seed| {
        let mut rng = rng(seed);
        let f = fixture(Maintenance::Manual);
        // Of each key the commits that wrote it, with the bytes, and whether that was a put.
        let mut history: BTreeMap<Vec<u8>, Vec<(u64, usize, bool)>> = BTreeMap::new();
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
                    // A range tombstone hides versions, and is no version itself.
                    let end = if rng.random_bool(0.2) {
                        b"l".to_vec()
                    } else {
                        format!("k{}", rng.random_range(0..30)).into_bytes()
                    };
                    f.table.delete_range(&key[..]..&end[..]).unwrap();
                    let seq = f.db.view().seq().0;
                    for (_, versions) in history.range_mut(key.clone()..end.max(key)) {
                        versions.push((seq, 0, false));
                    }
                }
                19..=30 => {
                    f.table.delete(&key).unwrap();
                    let bytes = key.len();
                    let seq = f.db.view().seq().0;
                    history.entry(key).or_default().push((seq, bytes, false));
                }
                _ => {
                    let value = vec![7; rng.random_range(0..100)];
                    f.table.put(&key, &value).unwrap();
                    let bytes = key.len() + value.len();
                    let seq = f.db.view().seq().0;
                    history.entry(key).or_default().push((seq, bytes, true));
                }
            }
        }
        let snapshots = f.keyspace.snapshots();
        // The bytes that readers at the matching snapshots, at views and at the end see,
        // without the tombstones that have nothing below them.
        let kept = |fits: &dyn Fn(&str) -> bool| -> usize {
            let fit = snapshots.iter().filter(|info| fits(&info.name));
            let mut readers: Vec<_> = fit.map(|info| info.seq.0).collect();
            readers.extend(views.iter().map(|view| view.seq().0));
            readers.push(u64::MAX);
            let of_key = |versions: &Vec<(u64, usize, bool)>| -> usize {
                let newest = |at: &u64| versions.iter().rposition(|(seq, ..)| seq <= at);
                let seen: BTreeSet<_> = readers.iter().filter_map(newest).collect();
                let seen = seen.iter().map(|at| &versions[*at]);
                let stays = seen.skip_while(|(.., is_put)| !is_put);
                stays.map(|(_, bytes, _)| bytes).sum()
            };
            history.values().map(of_key).sum()
        };
        let pinned = |fits: &dyn Fn(&str) -> bool| (kept(&|_| true) - kept(fits)) as u64;
        let found = pins(&f.db);
        assert_eq!(found.together.plain_bytes, pinned(&|_| false));
        for info in &snapshots {
            let bytes = alone(&found, &info.name).plain_bytes;
            assert_eq!(bytes, pinned(&|name| name != info.name), "{}", info.name);
        }
    });
}

/// A picker that merges a table into one run while `on` is true.
#[derive(Debug, Default)]
struct Everything {
    on: AtomicBool,
}

impl CompactionPicker for Everything {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let has_garbage = table.runs.iter().any(|run| run.garbage_bytes > 0);
        let is_on = self.on.load(Ordering::Relaxed);
        (is_on && (table.runs.len() > 1 || has_garbage)).then(|| Pick::merge(table.runs))
    }
}

/// Checks the pinned bytes that are reported before five snapshots are deleted: they differ by at
/// most a tenth from the bytes that the deletions free. The values are compressed. The newer
/// versions are in the same run as the versions that they hide, or in another run.
#[test]
fn the_bytes_that_snapshots_pin_come_back() {
    for merged in [false, true] {
        let picker = Arc::new(Everything::default());
        let options = Options {
            memtable_bytes: 1 << 20,
            file_bytes: 256 << 10,
            compaction: CompactionOptions {
                picker: picker.clone(),
                ..CompactionOptions::default()
            },
            ..manual(&MemDisk::new())
        };
        let (db, app, table) = one_table::open(options, TableOptions::default());
        let mut rng = rng(3);
        for round in 0..6 {
            for key in (0..4000_u32).filter(|key| round == 0 || key % 5 < 2) {
                // About half of it can be compressed away.
                let value: [u8; 100] = rng.random();
                let value = [value, [b'v'; 100]].concat();
                let key = format!("key{key:08}");
                table.put(key.as_bytes(), &value).unwrap();
            }
            // No key is written twice between two snapshots.
            for key in (0..4000_u32).filter(|key| round == 1 && key % 5 == 2) {
                let key = format!("key{key:08}");
                table.delete(key.as_bytes()).unwrap();
            }
            if round < 5 {
                app.create_snapshot(&format!("s{round}")).unwrap();
            }
        }
        db.flush().unwrap();
        picker.on.store(merged, Ordering::Relaxed);
        db.compact().unwrap();
        let before = db.stats().tables[0].clone();
        assert_eq!(before.runs.len() == 1, merged);
        let shown = pins(&db);
        let [first, second] = ["s0", "s1"].map(|name| alone(&shown, name).file_bytes);
        assert!(first > 0 && second > 0, "{shown:?}");
        let ended = db.snapshot_pins(None, &mut |_| ControlFlow::Break(()));
        assert_eq!(ended.unwrap(), None);
        let off = before.kept_bytes.abs_diff(shown.together.file_bytes);
        // Twice the standard error of the estimate, and the tenth by which the count, too, may be off.
        let off_max = 2 * before.kept_error_bytes + shown.together.file_bytes / 10;
        assert!(off <= off_max, "{before:?}, {shown:?}");
        let freed = |name: &str| {
            let bytes = db.stats().tables[0].file_bytes;
            app.delete_snapshot(name).unwrap();
            picker.on.store(true, Ordering::Relaxed);
            db.compact().unwrap();
            bytes - db.stats().tables[0].file_bytes
        };
        let total: u64 = ["s0", "s1", "s2", "s3", "s4"].map(freed).iter().sum();
        let shown = shown.together.file_bytes;
        assert!(shown.abs_diff(total) * 10 <= total, "{shown} for {total}");
    }
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
    assert_eq!(alone(&pins(&f.db), "s").plain_bytes, 200 * 51);
    let after = f.db.stats();
    assert_eq!(before.cache_bytes, after.cache_bytes);
    let reads = |stats: &ebb_storage::Stats| stats.cache_hits + stats.cache_misses;
    assert_eq!(reads(&before), reads(&after));
    // A snapshot of the same commit shares all of it.
    f.create("t", None);
    f.create("u", None);
    let shared = pins(&f.db);
    assert_eq!(alone(&shared, "t"), PinnedBytes::default());
    assert_eq!(shared.together.plain_bytes, 200 * 51);
}

/// Hundreds of snapshots are created, and about a hundred exist at a time. Flushes and merges do
/// not cut runs into tiny files at each snapshot, and the runs that a read may touch stay few.
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
        let (db, keyspace, table) = one_table::open(options, TableOptions::default());
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

/// Regression: the statistics of each table listed all of its snapshots.
#[test]
fn statistics_take_as_much_room_with_many_snapshots_as_with_one() {
    let f = fixture(Maintenance::Manual);
    for n in 0..20 {
        let name = format!("t{n}");
        f.keyspace.table(&name, TableOptions::default()).unwrap();
    }
    let digits = |n: usize| n.to_string().len();
    let mut sizes = Vec::new();
    for snapshots in [1, 100, 300] {
        for n in f.names().len()..snapshots {
            f.create(&format!("s{n}"), None);
        }
        let stats = f.db.stats();
        let counts = stats.tables.iter().map(|table| table.bookmarks);
        assert_eq!(counts.collect::<Vec<_>>(), [snapshots; 21]);
        // Other counters grow by some digits in all.
        let counted = 21 * digits(snapshots);
        sizes.push(serde_json::to_vec(&stats).unwrap().len() - counted);
    }
    assert!(sizes[2].abs_diff(sizes[0]) < 100, "{sizes:?}");
}

#[test]
fn the_statistics_and_snapshots_of_one_table_are_those_among_all() {
    let f = fixture(Maintenance::Manual);
    let other = f.keyspace.table("other", TableOptions::default()).unwrap();
    for (round, table) in [&f.table, &other, &f.table].into_iter().enumerate() {
        table.put(b"a", &[7; 1000]).unwrap();
        f.create(&format!("s{round}"), None);
        create_table_snapshot(&f.keyspace, &format!("of{round}"), table.name()).unwrap();
        f.db.flush().unwrap();
    }
    let all = f.db.stats().tables;
    for table in [&f.table, &other] {
        let mut among = all.iter().filter(|stats| stats.name == table.name());
        let json = |stats: &ebb_storage::TableStats| serde_json::to_string(stats).unwrap();
        assert_eq!(json(&table.stats()), json(among.next().unwrap()));
        let infos = f.keyspace.snapshots().into_iter();
        let of_it = infos.filter(|info| info.tables.iter().any(|name| name == table.name()));
        let expected: Vec<_> = of_it.map(|info| (info.name, info.seq)).collect();
        assert_eq!(table.snapshots(), expected);
        assert_eq!(table.stats().bookmarks, expected.len());
    }
    let bytes: u64 = all.iter().map(|table| table.file_bytes).sum();
    assert!(bytes > 0);
    assert_eq!(f.db.file_bytes(), bytes);
}
