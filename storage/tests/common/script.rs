//! A random script of operations, and a database that does them.

use std::time::Duration;

use ebb_storage::{Db, Result, Table, WriteBatch};
use rand::RngExt;

use super::{Bounds, Oracle, Rng, TABLES, random_bounds};

/// One write; `table` is a position in [`TABLES`].
#[derive(Debug, Clone)]
pub struct Write {
    pub table: usize,
    pub change: Change,
}

/// What a write does to its table.
#[derive(Debug, Clone)]
pub enum Change {
    Put(Vec<u8>, Vec<u8>),
    /// With a time to live in milliseconds.
    PutFor(Vec<u8>, Vec<u8>, u64),
    /// Of a table that appends.
    Merge(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Bounds),
}

/// What a test does to a database.
#[derive(Debug, Clone)]
pub enum Op {
    /// A batch; of one write often.
    Write(Vec<Write>),
    /// Of a position in [`TABLES`].
    Truncate(usize),
    /// Time passes, in milliseconds. The clock is the caller's to move.
    Tick(u64),
    CreateSnapshot {
        keyspace: &'static str,
        name: String,
        table: Option<&'static str>,
    },
    DeleteSnapshot {
        keyspace: &'static str,
        name: String,
    },
    Flush,
    Compact,
    Sync,
}

impl Op {
    /// Whether it takes a place in the order of commits.
    pub fn is_commit(&self) -> bool {
        !matches!(self, Op::Flush | Op::Compact | Op::Sync | Op::Tick(_))
    }
}

/// A key of a small pool, so that keys meet again.
pub fn random_key(rng: &mut Rng) -> Vec<u8> {
    match rng.random_range(0..20) {
        0 => Vec::new(),
        1 => vec![0xff; rng.random_range(1..4)],
        2 => format!("key{:02}/", rng.random_range(0..40)).into_bytes(),
        _ => format!("key{:02}", rng.random_range(0..60)).into_bytes(),
    }
}

fn random_value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.random_range(0..20) {
        0 => 0,
        1 => rng.random_range(1000..3000),
        _ => rng.random_range(1..150),
    };
    let (word, compresses) = (rng.random::<u64>(), rng.random_bool(0.5));
    let byte = |i: usize| {
        if compresses {
            word as u8
        } else {
            rng.random::<u8>() ^ i as u8
        }
    };
    (0..len).map(byte).collect()
}

fn random_write(rng: &mut Rng) -> Write {
    // The last table is a quiet one.
    let table = if rng.random_bool(0.02) {
        3
    } else {
        rng.random_range(0..3)
    };
    let key = random_key(rng);
    let change = match rng.random_range(0..100) {
        0..50 => Change::Put(key, random_value(rng)),
        50..62 => Change::PutFor(key, random_value(rng), rng.random_range(0..200)),
        62..80 => Change::Merge(key, random_value(rng)),
        80..97 => Change::Delete(key),
        _ => Change::DeleteRange(random_bounds(rng)),
    };
    Write { table, change }
}

/// The next operation for a database in the state of `oracle`.
pub fn random_op(rng: &mut Rng, oracle: &Oracle, snapshots_max: usize) -> Op {
    match rng.random_range(0..100) {
        0..=54 => Op::Write(vec![random_write(rng)]),
        55..=74 => Op::Write(
            (0..rng.random_range(2..9))
                .map(|_| random_write(rng))
                .collect(),
        ),
        75..=84 if oracle.snapshots.len() < snapshots_max => {
            let (keyspace, table) = TABLES[rng.random_range(0..TABLES.len())];
            let name = loop {
                let name = format!("s{}", rng.random_range(0..1000));
                if !oracle.snapshots.contains_key(&(keyspace, name.clone())) {
                    break name;
                }
            };
            let table = rng.random_bool(0.3).then_some(table);
            Op::CreateSnapshot {
                keyspace,
                name,
                table,
            }
        }
        75..=90 if !oracle.snapshots.is_empty() => {
            let at = rng.random_range(0..oracle.snapshots.len());
            let (keyspace, name) = oracle.snapshots.keys().nth(at).unwrap().clone();
            Op::DeleteSnapshot { keyspace, name }
        }
        91..=92 => Op::Flush,
        93..=94 => Op::Compact,
        95..=96 => Op::Sync,
        97..=98 => Op::Tick(rng.random_range(1..100)),
        99 if rng.random_bool(0.3) => Op::Truncate(rng.random_range(0..TABLES.len())),
        _ => Op::Write(vec![random_write(rng)]),
    }
}

/// A random run, and the state after each of its operations: `states[i]` is
/// that after the first `i`.
pub fn random_script(rng: &mut Rng, steps: usize, snapshots_max: usize) -> (Vec<Op>, Vec<Oracle>) {
    let mut states = vec![Oracle::default()];
    let mut script = Vec::new();
    for _ in 0..steps {
        let mut state = states.last().unwrap().clone();
        let op = random_op(rng, &state, snapshots_max);
        state.apply(&op);
        script.push(op);
        states.push(state);
    }
    (script, states)
}

/// Does an operation.
pub fn apply(db: &Db, tables: &[Table], op: &Op) -> Result<()> {
    match op {
        Op::Write(writes) => {
            let mut batch = WriteBatch::new();
            for write in writes {
                let table = &tables[write.table];
                match &write.change {
                    Change::Put(key, value) => batch.put(table, key, value),
                    Change::PutFor(key, value, ms) => {
                        batch.put_with_ttl(table, key, value, Duration::from_millis(*ms));
                    }
                    Change::Merge(key, operand) => batch.merge(table, key, operand),
                    Change::Delete(key) => batch.delete(table, key),
                    Change::DeleteRange(bounds) => {
                        batch.delete_range::<Vec<u8>, _>(table, bounds.clone());
                    }
                }
            }
            db.write(batch)
        }
        Op::Truncate(table) => tables[*table].truncate(),
        Op::Tick(_) => Ok(()),
        Op::CreateSnapshot {
            keyspace,
            name,
            table,
        } => {
            let keyspace = db.existing_keyspace(keyspace)?;
            match table {
                Some(table) => keyspace.create_table_snapshot(name, table),
                None => keyspace.create_snapshot(name),
            }
        }
        Op::DeleteSnapshot { keyspace, name } => {
            db.existing_keyspace(keyspace)?.delete_snapshot(name)
        }
        Op::Flush => db.flush(),
        Op::Compact => db.compact(),
        Op::Sync => db.sync(),
    }
}
