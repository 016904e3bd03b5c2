//! Users' own pickers: their picks, the refusal of invalid ones, and leveled compaction as an
//! example of a picker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::common::one_table::{self, rows};
use crate::common::{content, files, files_in_use, for_seeds, manual, must_end, rng, until};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    CompactionOptions, CompactionPicker, Db, Durability, Keyspace, Maintenance, Options, Pick,
    RunId, RunShape, Table, TableOptions, TableShape, TableStats,
};
use rand::RngExt;

/// Leveled compaction over ebb's list of runs. On top are the small runs that flushes make. Below
/// them are *levels* of one run each; a level has at most a `fanout`-th of the size of the next. A
/// level that is too large is merged into the next.
#[derive(Debug)]
struct Leveled {
    /// The greatest number of small runs that stay unmerged. If there are more, all of them are
    /// merged into the first level.
    fresh_max: usize,
    /// The size in bytes from which on a run counts as a level; smaller ones are small runs.
    level_bytes_min: u64,
    fanout: u64,
}

impl Leveled {
    /// Merges the small runs into the first level. If this level is larger than `fanout` times
    /// `level_bytes_min`, merges only the small runs, which then become a level of their own above
    /// it.
    fn merge_fresh(&self, fresh: &[RunShape], level: Option<&RunShape>) -> Pick {
        let level = level.filter(|level| level.bytes <= self.level_bytes_min * self.fanout);
        Pick::merge(fresh.iter().chain(level))
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
        let is_too_large = |pair: &&[RunShape]| pair[0].bytes * self.fanout > pair[1].bytes;
        levels.windows(2).find(is_too_large).map(Pick::merge)
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
    one_table::open(options, TableOptions::default())
}

fn stats(db: &Db) -> TableStats {
    db.stats().tables[0].clone()
}

/// Writes a run of these keys, all with this value.
fn write_run(db: &Db, table: &Table, keys: std::ops::Range<u32>, value: u8) {
    for key in keys {
        table.put(&key.to_be_bytes(), &[value; 50]).unwrap();
    }
    db.flush().unwrap();
}

/// Every pick of the leveled picker is valid, and nothing that is read changes.
#[test]
fn leveled_compaction_keeps_content() {
    let test = "leveled_compaction_keeps_content";
    for_seeds(test, 4, |seed| {
        let mut rng = rng(seed);
        let mem = MemDisk::new();
        let picker = Leveled {
            fresh_max: 3,
            level_bytes_min: 4 << 10,
            fanout: 4,
        };
        let (db, keyspace, table) = open(Options {
            memtable_bytes: 2 << 10,
            file_bytes: 1 << 10,
            ..with_picker(&mem, Arc::new(picker))
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
        assert_eq!(rows(&table), live);
        for (name, then) in snapshots {
            let snapshot = keyspace.snapshot(&name).unwrap();
            let range = snapshot.table("users").unwrap().range::<&[u8], _>(..);
            assert_eq!(content(range).unwrap(), then, "{name}");
        }
        db.verify().unwrap();
        let stats = stats(&db);
        assert_eq!((stats.picks_refused, stats.pick_refused), (0, None));
        // At most three small runs are left, and levels from 4, 16, 64 and 256 KiB on. For a fifth level,
        // from 1 MiB on, the 4000 writes are too few.
        assert!(stats.runs.len() < 8, "{} runs", stats.runs.len());
        assert_eq!(files(&mem, ".sst").len(), files_in_use(&db));
    });
}

/// A picker made of a function.
struct FnPicker<F>(F);

impl<F> std::fmt::Debug for FnPicker<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FnPicker")
    }
}

impl<F: Fn(&TableShape<'_>) -> Option<Pick> + Send + Sync> CompactionPicker for FnPicker<F> {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        self.0(table)
    }
}

fn fn_picker<F>(pick: F) -> Arc<dyn CompactionPicker>
where
    F: Fn(&TableShape<'_>) -> Option<Pick> + Send + Sync + 'static,
{
    Arc::new(FnPicker(pick))
}

/// Regression: the engine checked the result of a picker by assertions: an unknown or busy run in
/// it made the thread panic, and all writes stopped.
#[test]
fn an_invalid_pick_is_refused_with_a_reason_and_changes_nothing() {
    type Answer = fn(&TableShape<'_>) -> Pick;
    let nonsense: [(Answer, &str); 5] = [
        (|_| Pick::merge([]), "names no run"),
        (
            |_| Pick {
                runs: vec![RunId(u64::MAX)],
            },
            "has no run 18446744073709551615",
        ),
        (
            |table| Pick::merge(table.runs.iter().chain(table.runs)),
            "twice",
        ),
        (
            |table| Pick::merge([&table.runs[0], &table.runs[2]]),
            "lies between",
        ),
        (|_| panic!("a picker that panics"), "panicked"),
    ];
    for maintenance in [Maintenance::Manual, Maintenance::Background] {
        for (answer, why) in nonsense {
            must_end(move || {
                let mem = MemDisk::new();
                let ready = |table: &TableShape<'_>| table.runs.len() >= 3;
                let picker = fn_picker(move |table| ready(table).then(|| answer(table)));
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
                let reason = stats.tables[0].pick_refused.clone().unwrap_or_default();
                assert!(reason.contains(why), "{reason:?} and expected {why:?}");
                assert_eq!((stats.compactions, stats.tables[0].pressure), (0, 0.0));
                assert_eq!(
                    (stats.read_only_cause, stats.maintenance_failure),
                    (None, None)
                );
            });
        }
    }
}

/// Regression: the total was the sum over the tables that exist, so it fell when one was dropped.
#[test]
fn the_total_of_refused_picks_keeps_those_of_dropped_tables() {
    let mem = MemDisk::new();
    let picker = fn_picker(|table| (!table.runs.is_empty()).then(|| Pick::merge([])));
    let (db, keyspace, table) = open(with_picker(&mem, picker));
    write_run(&db, &table, 0..10, 1);
    db.compact().unwrap();
    let before = db.stats();
    assert!(before.picks_refused > 0);
    assert_eq!(before.picks_refused, before.tables[0].picks_refused);
    drop(table);
    keyspace.drop_table("users").unwrap();
    let after = db.stats();
    assert!(after.tables.is_empty());
    assert_eq!(after.picks_refused, before.picks_refused);
}

/// A run whose rewriting gains nothing would be rewritten for ever.
#[test]
fn a_picker_that_never_ends_is_stopped_at_merges_that_gain_nothing() {
    let mem = MemDisk::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let picker = {
        let calls = calls.clone();
        // In the end it gives up, so that the test ends also if the engine never stops it.
        let is_patient = move || calls.fetch_add(1, Ordering::Relaxed) < 500;
        fn_picker(move |table: &TableShape<'_>| {
            let last = table.runs.last().filter(|_| is_patient())?;
            Some(Pick::merge([last]))
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
    assert!(calls.load(Ordering::Relaxed) < 50);
    // Something to gain does.
    table.truncate().unwrap();
    keyspace.create_snapshot("s").unwrap();
    write_run(&db, &table, 0..50, 3);
    keyspace.delete_snapshot("s").unwrap();
    db.compact().unwrap();
    assert_eq!(rows(&table).len(), 50);
}

/// Regression: writers who saw many runs called the picker themselves, and waited for a lock that
/// was held during the call.
#[test]
fn no_writer_waits_for_a_slow_picker() {
    must_end(|| {
        let mem = MemDisk::new();
        let thinks = Arc::new(AtomicBool::new(true));
        let met = Arc::new(AtomicBool::new(false));
        let picker = {
            let (thinks, met) = (thinks.clone(), met.clone());
            fn_picker(move |_| {
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
        until("the picker to be called", || met.load(Ordering::SeqCst));
        table.put(b"k", b"v").unwrap();
        assert_eq!((stats(&db).runs.len(), stats(&db).pressure), (60, 0.0));
        thinks.store(false, Ordering::SeqCst);
    });
}
