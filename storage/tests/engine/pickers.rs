//! Pickers of one's own: what they may say, what becomes of nonsense, and leveled
//! compaction as an example of one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::common::{
    Content, DIR, content, files, files_in_use, for_seeds, manual, must_end, rng, until,
};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Action, CompactionOptions, CompactionPicker, Db, Durability, KeyRange, Keyspace, Maintenance,
    Options, Pick, Reason, RunId, RunShape, Table, TableOptions, TablePickers, TableShape,
    TableStats,
};
use rand::RngExt;

/// Leveled compaction, as LevelDB and RocksDB have it, over ebb's list of runs: on top
/// small runs, as flushes make them, and below them *levels* of one run each, each at
/// most a `fanout`-th of the next. A level that is too large gives a part of itself, a
/// file's range of keys, to the next.
#[derive(Debug)]
struct Leveled {
    /// More small runs than this are merged into the first level.
    fresh_max: usize,
    /// A run of so many bytes is a level.
    level_bytes_min: u64,
    fanout: u64,
    merges_of_parts: AtomicUsize,
    moves: AtomicUsize,
}

impl Leveled {
    fn new() -> Self {
        Self {
            fresh_max: 3,
            level_bytes_min: 4 << 10,
            fanout: 4,
            merges_of_parts: AtomicUsize::new(0),
            moves: AtomicUsize::new(0),
        }
    }

    /// Small runs join the first level, unless that has outgrown them: then they become
    /// a level of their own above it.
    fn merge_fresh(&self, fresh: &[RunShape], level: Option<&RunShape>) -> Pick {
        let bounds = fresh.iter().filter_map(RunShape::bounds);
        let keys = bounds.reduce(|a, b| a.hull(&b)).unwrap_or(KeyRange::all());
        let level = level.filter(|level| level.bytes <= self.level_bytes_min * self.fanout);
        Pick::merge(fresh.iter().chain(level), Reason::Count).within(keys)
    }

    fn push_down(&self, upper: &RunShape, lower: &RunShape) -> Option<Pick> {
        if upper.bytes * self.fanout <= lower.bytes {
            return None;
        }
        let merge = Pick::merge([upper, lower], Reason::Level);
        let cost = |keys: &KeyRange| lower.bytes_in(keys);
        let cheapest = upper.files.iter().min_by_key(|file| cost(&file.keys));
        let Some(keys) = cheapest.map(|file| file.keys.clone()) else {
            return Some(merge);
        };
        Some(if lower.overlaps(&keys) {
            self.merges_of_parts.fetch_add(1, Ordering::Relaxed);
            merge.within(keys)
        } else {
            self.moves.fetch_add(1, Ordering::Relaxed);
            merge.within(keys).to(Action::Move)
        })
    }
}

impl CompactionPicker for Leveled {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        if table.runs.iter().any(|run| run.is_busy) {
            return None;
        }
        let is_fresh = |run: &&RunShape| run.bytes < self.level_bytes_min;
        let fresh = table.runs.iter().take_while(is_fresh).count();
        let (fresh, levels) = table.runs.split_at(fresh);
        if fresh.len() > self.fresh_max {
            return Some(self.merge_fresh(fresh, levels.first()));
        }
        let mut pairs = levels.windows(2);
        pairs.find_map(|pair| self.push_down(&pair[0], &pair[1]))
    }
}

fn with_picker(mem: &MemDisk, picker: Arc<dyn CompactionPicker>) -> Options {
    Options {
        durability: Durability::Os,
        compaction: CompactionOptions {
            picker,
            ..CompactionOptions::default()
        },
        ..manual(mem)
    }
}

fn open(options: Options) -> (Db, Keyspace, Table) {
    let db = Db::open(DIR, options).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let table = keyspace.table("users", TableOptions::default()).unwrap();
    (db, keyspace, table)
}

fn stats(db: &Db) -> TableStats {
    db.stats().tables[0].clone()
}

/// A run of these keys, all with this value.
fn write_run(db: &Db, table: &Table, keys: std::ops::Range<u32>, value: u8) {
    for key in keys {
        table.put(&key.to_be_bytes(), &[value; 50]).unwrap();
    }
    db.flush().unwrap();
}

fn all(table: &Table) -> Content {
    content(table.range::<&[u8], _>(..)).unwrap()
}

/// Every pick of the leveled picker is of a part, and valid; it is carried out wider, and
/// nothing that is read changes.
#[test]
fn leveled_compaction_keeps_content() {
    let test = "leveled_compaction_keeps_content";
    for_seeds(test, 4, |seed| {
        let mut rng = rng(seed);
        let mem = MemDisk::new();
        let picker = Arc::new(Leveled::new());
        let (db, keyspace, table) = open(Options {
            memtable_bytes: 2 << 10,
            file_bytes: 1 << 10,
            ..with_picker(&mem, picker.clone())
        });
        let mut live: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut snapshots = Vec::new();
        for step in 0..4000_u32 {
            let key = rng.random_range(0..1000_u32).to_be_bytes();
            match rng.random_range(0..100) {
                0 if rng.random_bool(0.3) => {
                    let end = rng.random_range(0..1000_u32).to_be_bytes();
                    table.delete_range(key..end).unwrap();
                    if key < end {
                        live.retain(|k, _| k[..] < key[..] || k[..] >= end[..]);
                    }
                }
                1 if rng.random_bool(0.2) => {
                    let name = format!("s{step}");
                    keyspace.create_snapshot(&name).unwrap();
                    snapshots.push((name, live.clone()));
                }
                2..=10 => {
                    table.delete(&key).unwrap();
                    live.remove(&key[..]);
                }
                _ => {
                    let value = step.to_be_bytes().repeat(10);
                    table.put(&key, &value).unwrap();
                    live.insert(key.to_vec(), value);
                }
            }
        }
        db.flush().unwrap();
        db.compact().unwrap();
        assert_eq!(all(&table), live);
        for (name, then) in snapshots {
            let snapshot = keyspace.snapshot(&name).unwrap();
            let range = snapshot.table("users").unwrap().range::<&[u8], _>(..);
            assert_eq!(content(range).unwrap(), then, "{name}");
        }
        db.verify().unwrap();
        let stats = stats(&db);
        assert_eq!((stats.picks_refused, stats.pick_refused), (0, None));
        assert!(stats.runs.len() < 8, "{} runs", stats.runs.len());
        assert!(picker.merges_of_parts.load(Ordering::Relaxed) > 0);
        assert_eq!(files(&mem, ".sst").len(), files_in_use(&db));
    });
}

/// What is only ever appended is pushed down without overlapping anything.
#[test]
fn leveled_compaction_moves_what_overlaps_nothing() {
    let mem = MemDisk::new();
    let picker = Arc::new(Leveled::new());
    let (db, _keyspace, table) = open(Options {
        file_bytes: 2 << 10,
        ..with_picker(&mem, picker.clone())
    });
    for run in 0..100 {
        write_run(&db, &table, run * 40..(run + 1) * 40, run as u8);
        db.compact().unwrap();
    }
    assert!(picker.moves.load(Ordering::Relaxed) > 0);
    assert_eq!(all(&table).len(), 4000);
    assert_eq!(stats(&db).picks_refused, 0);
}

/// Says what it is told to, as long as it is.
struct Says<F>(F);

impl<F> std::fmt::Debug for Says<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Says")
    }
}

impl<F: Fn(&TableShape<'_>) -> Option<Pick> + Send + Sync> CompactionPicker for Says<F> {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        self.0(table)
    }
}

fn says<F>(pick: F) -> Arc<dyn CompactionPicker>
where
    F: Fn(&TableShape<'_>) -> Option<Pick> + Send + Sync + 'static,
{
    Arc::new(Says(pick))
}

/// A picker of one's own could answer that runs are covered, which no reader needs
/// anything of. It was believed, and live rows were gone.
#[test]
fn a_drop_of_what_a_reader_needs_is_refused() {
    let mem = MemDisk::new();
    let drop_last = |table: &TableShape<'_>| {
        Some(Pick::merge(table.runs.last(), Reason::Space).to(Action::Drop))
    };
    let (db, keyspace, table) = open(with_picker(&mem, says(drop_last)));
    write_run(&db, &table, 0..10, 1);
    write_run(&db, &table, 5..15, 2);
    keyspace.create_snapshot("s").unwrap();
    table
        .delete_range(0_u32.to_be_bytes()..5_u32.to_be_bytes())
        .unwrap();
    db.flush().unwrap();
    let before = all(&table);
    db.compact().unwrap();
    assert_eq!(all(&table), before);
    assert_eq!(before.len(), 10);
    let snapshot = keyspace.snapshot("s").unwrap();
    let then = snapshot.table("users").unwrap().range::<&[u8], _>(..);
    assert_eq!(content(then).unwrap().len(), 15);
    let stats = stats(&db);
    assert_eq!(stats.runs.len(), 3);
    assert!(stats.picks_refused > 0);
    let why = stats.pick_refused.unwrap();
    assert!(why.contains("which a reader may need"), "{why}");
}

/// The answer of a picker was asserted: one that named a run that is not there, or one
/// that is busy, stopped the thread, and with it all writes.
#[test]
fn nonsense_is_refused_and_said_and_changes_nothing() {
    type Answer = fn(&TableShape<'_>) -> Pick;
    let nonsense: [(Answer, &str); 6] = [
        (|_| Pick::merge([], Reason::Count), "names no run"),
        (
            |table| Pick {
                runs: vec![RunId(u64::MAX)],
                ..Pick::merge(table.runs, Reason::Count)
            },
            "has no run 18446744073709551615",
        ),
        (
            |table| Pick::merge(table.runs.iter().chain(table.runs), Reason::Count),
            "twice",
        ),
        (
            |table| Pick::merge([&table.runs[0], &table.runs[2]], Reason::Count),
            "lies between",
        ),
        (
            |table| {
                let keys = KeyRange::new::<&[u8], _>(&[9_u8][..]..&[1_u8][..]);
                Pick::merge(table.runs, Reason::Count).within(keys)
            },
            "range of keys is empty",
        ),
        (|_| panic!("a picker that panics"), "panicked"),
    ];
    for maintenance in [Maintenance::Manual, Maintenance::Background] {
        for (answer, why) in nonsense {
            must_end(move || {
                let mem = MemDisk::new();
                let ready = |table: &TableShape<'_>| table.runs.len() >= 3;
                let picker = says(move |table| ready(table).then(|| answer(table)));
                let (db, _keyspace, table) = open(Options {
                    maintenance,
                    ..with_picker(&mem, picker)
                });
                for value in 0..60 {
                    write_run(&db, &table, 0..10, value);
                }
                db.compact().unwrap();
                assert_eq!(stats(&db).runs.len(), 60, "{why}");
                assert_eq!(table.get(&[0; 4]).unwrap().unwrap(), [59; 50][..]);
                let stats = db.stats();
                let said = stats.tables[0].pick_refused.clone().unwrap_or_default();
                assert!(said.contains(why), "{said:?} and expected {why:?}");
                assert_eq!((stats.compactions, stats.tables[0].pressure), (0, 0.0));
                assert_eq!(
                    (stats.read_only_cause, stats.maintenance_failure),
                    (None, None)
                );
            });
        }
    }
}

/// A run that gives nothing back when it is rewritten would be so for ever.
#[test]
fn a_picker_that_never_ends_is_stopped_at_merges_that_gain_nothing() {
    let mem = MemDisk::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let picker = {
        let asked = asked.clone();
        // In the end it gives up, so that the test ends when nobody stops it.
        let is_patient = move || asked.fetch_add(1, Ordering::Relaxed) < 500;
        says(move |table: &TableShape<'_>| {
            let last = table.runs.last().filter(|_| is_patient())?;
            Some(Pick::merge([last], Reason::Garbage))
        })
    };
    let (db, keyspace, table) = open(with_picker(&mem, picker));
    write_run(&db, &table, 0..100, 1);
    db.compact().unwrap();
    let first = db.stats();
    assert_eq!(first.compactions, 0, "nothing was gained");
    assert_eq!(first.compaction_bytes, first.tables[0].file_bytes);
    let why = first.tables[0].pick_refused.clone().unwrap();
    assert!(why.contains("gained nothing"), "{why}");
    // Newer runs change nothing in that.
    write_run(&db, &table, 0..100, 2);
    db.compact().unwrap();
    assert_eq!(db.stats().compaction_bytes, first.compaction_bytes);
    assert_eq!(files(&mem, ".sst").len(), files_in_use(&db));
    assert!(asked.load(Ordering::Relaxed) < 50);
    // Something to gain does.
    table.truncate().unwrap();
    keyspace.create_snapshot("s").unwrap();
    write_run(&db, &table, 0..50, 3);
    keyspace.delete_snapshot("s").unwrap();
    db.compact().unwrap();
    assert_eq!(all(&table).len(), 50);
}

/// Writers who saw many runs asked the picker themselves, and waited for a lock that was
/// held while it thought.
#[test]
fn nobody_waits_for_a_picker_that_thinks_long() {
    must_end(|| {
        let mem = MemDisk::new();
        let thinks = Arc::new(AtomicBool::new(true));
        let met = Arc::new(AtomicBool::new(false));
        let picker = {
            let (thinks, met) = (thinks.clone(), met.clone());
            says(move |_| {
                if thread::current().name() == Some("ebb-compact") {
                    met.store(true, Ordering::SeqCst);
                    until("the picker to be let go", || !thinks.load(Ordering::SeqCst));
                }
                None
            })
        };
        let (db, _keyspace, table) = open(Options {
            maintenance: Maintenance::Background,
            ..with_picker(&mem, picker)
        });
        for value in 0..60 {
            write_run(&db, &table, 0..2, value);
        }
        until("the picker to be asked", || met.load(Ordering::SeqCst));
        table.put(b"k", b"v").unwrap();
        assert_eq!((stats(&db).runs.len(), stats(&db).pressure), (60, 0.0));
        thinks.store(false, Ordering::SeqCst);
    });
}

#[test]
fn each_table_has_the_picker_that_the_opening_gives_it() {
    let mem = MemDisk::new();
    let never = || Says(|_: &TableShape<'_>| None);
    let always =
        says(|table| (table.runs.len() > 1).then(|| Pick::merge(table.runs, Reason::Count)));
    let runs = |db: &Db| {
        let stats = db.stats();
        let one = |table: &TableStats| (table.name.clone(), table.runs.len());
        stats.tables.iter().map(one).collect::<Vec<_>>()
    };
    let of = |table_pickers, picker: &Arc<dyn CompactionPicker>| Options {
        compaction: CompactionOptions {
            table_pickers,
            picker: picker.clone(),
            ..CompactionOptions::default()
        },
        ..manual(&mem)
    };
    let own = TablePickers::default().with("app", "b", never());
    let db = Db::open(DIR, of(own, &always)).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    for name in ["a", "b"] {
        let table = keyspace.table(name, TableOptions::default()).unwrap();
        for value in 0..3 {
            write_run(&db, &table, 0..10, value);
        }
    }
    db.compact().unwrap();
    assert_eq!(runs(&db), [("a".into(), 1), ("b".into(), 3)]);
    assert_eq!(db.stats().tables[1].picker, "Says");
    drop((db, keyspace));
    // Nothing of it is stored: the next opening says it anew.
    let db = Db::open(DIR, of(TablePickers::default(), &always)).unwrap();
    db.compact().unwrap();
    assert_eq!(runs(&db), [("a".into(), 1), ("b".into(), 1)]);
}
