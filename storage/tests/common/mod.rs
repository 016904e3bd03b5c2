//! What the tests of the whole engine share: seeds, a random script of
//! operations, and the oracle that says what the database must hold.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod hooked_disk;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ebb_storage::vfs::{MemVfs, Vfs};
use ebb_storage::{
    Bounding, Compression, Db, Error, Maintenance, Options, Range, Result, SsTableOptions, Table,
    TableOptions, TieredPicker, WriteBatch,
};
use rand::{RngExt, SeedableRng};

pub type Rng = rand_chacha::ChaCha8Rng;
/// What a reader finds in a table.
pub type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// The directory that every test on a [`MemVfs`] uses.
pub const DIR: &str = "/db";

/// The tables of every random test, by keyspace and name.
pub const TABLES: [(&str, &str); 4] = [
    ("app", "mails"),
    ("app", "users"),
    ("log", "events"),
    ("log", "quiet"),
];

pub fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

/// A number from the environment.
pub fn env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

/// Runs a random test for each seed, for EBB_SEED alone, or for EBB_SEEDS seeds
/// from the first.
pub fn for_seeds(seeds: std::ops::Range<u64>, mut test: impl FnMut(u64)) {
    let seeds = match (env("EBB_SEED"), env("EBB_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => seeds.start..seeds.start + count,
        (None, None) => seeds,
    };
    for seed in seeds {
        let _replay = Replay(format!("EBB_SEED={seed}"));
        test(seed);
    }
}

/// Says how to replay when the test panics while it lives.
pub struct Replay(pub String);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay this with {}", self.0);
        }
    }
}

/// The time at which the clock of a random test starts, as its oracle does.
pub const START_MS: u64 = 0;

/// Options on a disk in memory under which the caller does all the work, so
/// that a run is the same every time.
pub fn manual(mem: &MemVfs) -> Options {
    Options {
        maintenance: Maintenance::Manual,
        vfs: Arc::new(mem.clone()),
        memtable_bytes: 16 << 10,
        file_bytes: 8 << 10,
        cache_bytes: 1 << 20,
        ..Options::default()
    }
}

/// [`manual`], with every number drawn.
pub fn random_options(rng: &mut Rng, mem: &MemVfs) -> Options {
    Options {
        memtable_bytes: 1 << rng.random_range(10..16),
        frozen_memtables_max: rng.random_range(1..4),
        wal_segment_bytes: 1 << rng.random_range(9..16),
        wal_bytes_max: 1 << rng.random_range(12..18),
        cache_bytes: if rng.random_bool(0.3) { 0 } else { 1 << 16 },
        file_bytes: 1 << rng.random_range(9..15),
        compaction: TieredPicker {
            size_ratio: [0.2, 1.0, 1.2, 3.0][rng.random_range(0..4)],
            bounding: [Bounding::Strict, Bounding::Preferred, Bounding::Off]
                [rng.random_range(0..3)],
        }
        .into(),
        ..manual(mem)
    }
}

pub fn random_table_options(rng: &mut Rng) -> TableOptions {
    TableOptions {
        sstable: SsTableOptions {
            block_bytes: 1 << rng.random_range(5..12),
            restart_interval: rng.random_range(1..17),
            filter_bits_per_key: [0, 10][rng.random_range(0..2)],
            compression: [Compression::None, Compression::Lz4][rng.random_range(0..2)],
        },
        merge_operator: Some("append".into()),
    }
}

/// The four tables, made where they are missing.
pub fn open_tables(db: &Db, options: &[TableOptions]) -> Result<Vec<Table>> {
    TABLES
        .iter()
        .zip(options)
        .map(|((keyspace, table), options)| db.keyspace(keyspace)?.table(table, options.clone()))
        .collect()
}

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

/// A key as the oracle knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// What was put, and from when on it is gone.
    put: Option<(Vec<u8>, u64)>,
    /// What was appended to it since.
    appended: Option<Vec<u8>>,
}

impl Cell {
    fn put(value: &[u8], expiry_ms: u64) -> Self {
        Self {
            put: Some((value.to_vec(), expiry_ms)),
            appended: None,
        }
    }

    fn at(&self, now_ms: u64) -> Option<Cow<'_, [u8]>> {
        let put = self.put.as_ref().filter(|(_, expiry)| now_ms < *expiry);
        match (put, &self.appended) {
            (None, None) => None,
            (Some((value, _)), None) => Some(value.into()),
            (None, Some(appended)) => Some(appended.into()),
            (Some((value, _)), Some(appended)) => Some([&value[..], appended].concat().into()),
        }
    }
}

/// The state of a database: its tables by [`TABLES`], and what each snapshot
/// sees of them.
///
/// Contents are shared until they change, so that a copy costs little.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Oracle {
    pub now_ms: u64,
    tables: [Rc<BTreeMap<Vec<u8>, Cell>>; TABLES.len()],
    pub snapshots: BTreeMap<(&'static str, String), Tables>,
}

/// The tables of a snapshot by name.
pub type Tables = BTreeMap<&'static str, Rc<Content>>;

/// What there is to find in a database at some time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub tables: [Rc<Content>; TABLES.len()],
    pub snapshots: BTreeMap<(&'static str, String), Tables>,
}

impl Oracle {
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Write(writes) => {
                for write in writes {
                    self.change(write.table, &write.change);
                }
            }
            Op::Truncate(table) => self.tables[*table] = Rc::default(),
            Op::Tick(ms) => self.now_ms += ms,
            Op::CreateSnapshot {
                keyspace,
                name,
                table,
            } => {
                let covered = (0..TABLES.len()).filter(|&i| {
                    let (ks, name) = TABLES[i];
                    ks == *keyspace && table.is_none_or(|table| table == name)
                });
                let tables = covered.map(|i| (TABLES[i].1, self.table(i)));
                let tables = tables.collect();
                self.snapshots.insert((keyspace, name.clone()), tables);
            }
            Op::DeleteSnapshot { keyspace, name } => {
                self.snapshots.remove(&(*keyspace, name.clone()));
            }
            Op::Flush | Op::Compact | Op::Sync => {}
        }
    }

    fn change(&mut self, table: usize, change: &Change) {
        let cells = Rc::make_mut(&mut self.tables[table]);
        match change {
            Change::Put(key, value) => {
                cells.insert(key.clone(), Cell::put(value, u64::MAX));
            }
            Change::PutFor(key, value, ms) => {
                cells.insert(key.clone(), Cell::put(value, self.now_ms + ms));
            }
            Change::Merge(key, operand) => {
                let cell = cells.entry(key.clone()).or_default();
                let appended = cell.appended.get_or_insert_default();
                appended.extend_from_slice(operand);
            }
            Change::Delete(key) => {
                cells.remove(key);
            }
            Change::DeleteRange(bounds) => cells.retain(|key, _| !lies_within(key, bounds)),
        }
    }

    /// What a table has now.
    pub fn table(&self, table: usize) -> Rc<Content> {
        let live = self.live_at(table, self.now_ms);
        Rc::new(
            live.map(|(key, value)| (key.clone(), value.into_owned()))
                .collect(),
        )
    }

    /// What a key has now.
    pub fn get(&self, table: usize, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.tables[table].get(key)?.at(self.now_ms)
    }

    fn live_at(
        &self,
        table: usize,
        now_ms: u64,
    ) -> impl Iterator<Item = (&Vec<u8>, Cow<'_, [u8]>)> {
        let cells = self.tables[table].iter();
        cells.filter_map(move |(key, cell)| Some((key, cell.at(now_ms)?)))
    }

    /// What all tables have now.
    pub fn contents(&self) -> [Rc<Content>; TABLES.len()] {
        std::array::from_fn(|table| self.table(table))
    }

    /// Whether this is what there is to find at a time.
    pub fn is_seen_as(&self, seen: &Seen, now_ms: u64) -> bool {
        let table = |i: usize| {
            let seen = seen.tables[i].iter();
            self.live_at(i, now_ms)
                .eq(seen.map(|(key, value)| (key, value.into())))
        };
        self.snapshots == seen.snapshots && (0..TABLES.len()).all(table)
    }

    /// What there is to find at a time.
    pub fn seen_at(&self, now_ms: u64) -> Seen {
        let then = Self {
            now_ms,
            ..self.clone()
        };
        Seen {
            tables: then.contents(),
            snapshots: then.snapshots,
        }
    }
}

impl Seen {
    /// All that a database holds, read out. Tables that do not exist count as
    /// empty: a crash may come before they are made.
    pub fn read(db: &Db) -> Result<Self> {
        let mut found = Self::default();
        for (i, (keyspace, table)) in TABLES.iter().enumerate() {
            let table = db
                .existing_keyspace(keyspace)
                .and_then(|keyspace| keyspace.existing_table(table));
            match table {
                Ok(table) => found.tables[i] = Rc::new(content(table.range::<&[u8], _>(..))?),
                Err(Error::NotFound { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        for keyspace in ["app", "log"] {
            let Ok(handle) = db.existing_keyspace(keyspace) else {
                continue;
            };
            for info in handle.snapshots() {
                let snapshot = handle.snapshot(&info.name)?;
                let mut tables = BTreeMap::new();
                for name in &info.tables {
                    let (_, name) = TABLES.iter().find(|(_, t)| t == name).unwrap();
                    let range = snapshot.table(name)?.range::<&[u8], _>(..);
                    tables.insert(*name, Rc::new(content(range)?));
                }
                let before = found
                    .snapshots
                    .insert((keyspace, info.name.clone()), tables);
                assert!(before.is_none(), "two snapshots named {}", info.name);
            }
        }
        Ok(found)
    }

    /// Where two states differ, in few words.
    pub fn difference(&self, other: &Self) -> String {
        for (i, (a, b)) in self.tables.iter().zip(&other.tables).enumerate() {
            if a != b {
                return format!("table {:?}: {}", TABLES[i], content_difference(a, b));
            }
        }
        let names = |state: &Self| state.snapshots.keys().cloned().collect::<Vec<_>>();
        if names(self) != names(other) {
            return format!("snapshots {:?} and {:?}", names(self), names(other));
        }
        for (name, tables) in &self.snapshots {
            for (table, content) in tables {
                match other.snapshots[name].get(table) {
                    Some(same) if same == content => {}
                    Some(b) => {
                        let difference = content_difference(content, b);
                        return format!("snapshot {name:?} of {table}: {difference}");
                    }
                    None => return format!("snapshot {name:?} without {table}"),
                }
            }
        }
        "no difference".into()
    }
}

fn content_difference(a: &Content, b: &Content) -> String {
    let keys: Vec<_> = a.keys().chain(b.keys()).collect();
    let different = keys.into_iter().find(|key| a.get(*key) != b.get(*key));
    let short = |value: Option<&Vec<u8>>| {
        value.map(|value| {
            let start = &value[..value.len().min(8)];
            format!("{start:02x?} ({} bytes)", value.len())
        })
    };
    match different {
        Some(key) => format!(
            "{:?} is {:?} and {:?}",
            String::from_utf8_lossy(key),
            short(a.get(key)),
            short(b.get(key))
        ),
        None => "no difference".into(),
    }
}

/// Reads a range to its end; entries must ascend.
pub fn content(range: Range) -> Result<Content> {
    let mut content = Content::new();
    for entry in range {
        let (key, value) = entry?;
        if let Some((last, _)) = content.last_key_value() {
            assert!(last[..] < key[..], "{key:?} after {last:?}");
        }
        content.insert(key.to_vec(), value.to_vec());
    }
    Ok(content)
}

pub type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Random bounds; the lower may lie above the upper.
pub fn random_bounds(rng: &mut Rng) -> Bounds {
    let mut bound = || match rng.random_range(0..3) {
        0 => Bound::Included(random_key(rng)),
        1 => Bound::Excluded(random_key(rng)),
        _ => Bound::Unbounded,
    };
    (bound(), bound())
}

fn lies_within(key: &[u8], (lower, upper): &Bounds) -> bool {
    let above = match lower {
        Bound::Included(lower) => key >= &lower[..],
        Bound::Excluded(lower) => key > &lower[..],
        Bound::Unbounded => true,
    };
    let below = match upper {
        Bound::Included(upper) => key <= &upper[..],
        Bound::Excluded(upper) => key < &upper[..],
        Bound::Unbounded => true,
    };
    above && below
}

/// What of a content lies within bounds, ascending.
pub fn within(content: &Content, bounds: &Bounds) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entries = content.iter().filter(|(key, _)| lies_within(key, bounds));
    entries
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The files of the database with this ending, ascending.
pub fn files(mem: &MemVfs, ending: &str) -> Vec<PathBuf> {
    let mut files = mem.list(Path::new(DIR)).unwrap();
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files.sort();
    files
}

/// SSTables of all tables, by the database's own account.
pub fn files_in_use(db: &Db) -> usize {
    db.stats().tables.iter().map(|table| table.files).sum()
}

/// Cuts the power, lets go of the handles (which can then save nothing any
/// more), and starts the machine again.
pub fn lose_power<T>(mem: &MemVfs, handles: T, seed: u64) {
    mem.crash_at(1);
    mem.exists(Path::new(DIR)).unwrap_err();
    drop(handles);
    mem.restart(seed);
}
