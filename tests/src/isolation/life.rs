//! A database and its lives. A life is the time from when the database is opened until it is closed
//! or the power fails.

use std::sync::atomic::{AtomicU32, AtomicU64};

use ebb_storage::{
    Db, Durability, Maintenance, Options, Result, Table, TableOptions, TieredPicker, WriteBatch,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Sabotage;
use super::history::{History, KEYS};
use super::worker::{Done, Shared, Worker, name_of, read_all};
use crate::disk::{self, MemDisk};

/// The number of lives of one database. A life is the time from an opening until the database is
/// closed or loses power.
const LIVES: usize = 3;

/// The parameters of one database, which is opened several times. A life is the time from an
/// opening until the database is closed or the power fails.
pub(super) struct Config {
    pub(super) seed: u64,
    pub(super) threads: usize,
    pub(super) crashes: bool,
    pub(super) sabotage: Sabotage,
    /// Number of transactions from an opening of the database until it is closed or loses power.
    pub(super) transactions: usize,
}

/// Opens a database several times. Each time runs transactions, until the database is closed or the
/// power fails, and calls `check` with the number of this life, from 0 on, and its history. Ends
/// early after a life in which violations were noticed before the call of `check`.
pub(super) fn run_database(config: &Config, mut check: impl FnMut(usize, &History)) {
    let mut rng = ChaCha8Rng::seed_from_u64(config.seed);
    let mem = MemDisk::new();
    for life in 0..LIVES {
        let mut history = History::default();
        if let Err(e) = run_life(config, &mem, &mut rng, &mut history) {
            history.violations.push(format!("failed: {e}"));
        }
        check(life, &history);
        if !history.violations.is_empty() {
            return;
        }
    }
}

fn run_life(
    config: &Config,
    mem: &MemDisk,
    rng: &mut ChaCha8Rng,
    history: &mut History,
) -> Result<()> {
    let options = options(config, mem, rng);
    let manual = options.maintenance == Maintenance::Manual;
    let (db, tables) = open(options)?;
    clear(&db, &tables)?;
    if config.crashes {
        // A commit makes two calls, and flushes some more: the crash often falls within the life.
        let calls_max = 2 * config.transactions as u64;
        mem.crash_at(rng.random_range(1..=calls_max));
    }
    let shared = Shared {
        db: &db,
        tables: &tables,
        sabotage: config.sabotage,
        manual,
        events: AtomicU64::new(0),
        elements: AtomicU32::new(0),
        budget: AtomicU64::new(config.transactions as u64),
    };
    for done in work(&shared, config.threads, rng) {
        if done.stopped && !config.crashes {
            history.violations.push("a worker stopped".into());
        }
        history.transactions.extend(done.transactions);
        history.violations.extend(done.violations);
    }
    if config.crashes {
        // The power is cut first, so that closing saves nothing.
        disk::cut_power(mem);
    }
    drop(tables);
    drop(db);
    if config.crashes {
        mem.restart(rng.random());
    }
    let (_db, tables) = open(self::options(config, mem, rng))?;
    history.recovered = Some(read_all(&tables)?);
    Ok(())
}

fn work(shared: &Shared<'_>, threads: usize, rng: &mut ChaCha8Rng) -> Vec<Done> {
    let mut workers: Vec<_> = (0..threads as u32)
        .map(|thread| Worker::new(shared, ChaCha8Rng::from_rng(rng), thread))
        .collect();
    if threads == 1 {
        return workers.drain(..).map(Worker::run).collect();
    }
    std::thread::scope(|scope| {
        let workers = workers.drain(..);
        let threads: Vec<_> = workers.map(|worker| scope.spawn(|| worker.run())).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Done>| {
            thread.join().unwrap_or_else(|_| Done {
                violations: vec!["a worker panicked".into()],
                ..Done::default()
            })
        };
        threads.into_iter().map(join).collect()
    })
}

/// Draws the options for one opening. With one thread, the worker itself flushes and merges,
/// between the steps of the transactions: then a failed commit is known to have left nothing, and
/// the run is reproducible from its seed.
fn options(config: &Config, mem: &MemDisk, rng: &mut ChaCha8Rng) -> Options {
    let manual = config.threads == 1;
    let small = Options {
        memtable_bytes: 1 << rng.random_range(11..15),
        wal_segment_bytes: 1 << rng.random_range(11..14),
        wal_bytes_max: 1 << rng.random_range(14..18),
        ..Options::default()
    };
    Options {
        maintenance: if manual {
            Maintenance::Manual
        } else {
            Maintenance::Background
        },
        durability: if config.crashes || rng.random_bool(0.3) {
            Durability::Sync
        } else {
            Durability::Os
        },
        file_bytes: 1 << rng.random_range(10..14),
        cache_bytes: if rng.random_bool(0.3) { 0 } else { 1 << 16 },
        compaction: TieredPicker {
            size_ratio: [0.5, 1.2, 3.0][rng.random_range(0..3)],
            runs_before_merge: [2, 4, 8][rng.random_range(0..3)],
            ..TieredPicker::default()
        }
        .into(),
        ..disk::on(mem, if manual { Options::default() } else { small })
    }
}

fn open(options: Options) -> Result<(Db, [Table; 2])> {
    let db = Db::open("/db", options)?;
    let app = db.keyspace("app")?;
    let options = TableOptions {
        merge_operator: Some("append".into()),
        ..TableOptions::default()
    };
    let tables = [
        app.table("even", options.clone())?,
        app.table("odd", options)?,
    ];
    Ok((db, tables))
}

/// Deletes all keys, so that this opening does not start with the content of an earlier one.
fn clear(db: &Db, tables: &[Table; 2]) -> Result<()> {
    let mut batch = WriteBatch::new();
    for key in 0..KEYS {
        batch.delete(&tables[usize::from(key % 2)], name_of(key).as_bytes());
    }
    db.write(batch)
}
