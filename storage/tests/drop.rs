//! Tables dropped and made again under their names, and what snapshots of the
//! dropped ones still say.
//!
//! Replay a failed crash with `EBB_SEED=<seed>` and `EBB_CRASH=<call>`.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use common::{DIR, Replay, content, env, files, files_in_use, for_seeds, manual, rng};
use ebb_storage::vfs::MemVfs;
use ebb_storage::{
    Db, Durability, Error, Keyspace, Maintenance, ManualClock, Options, Table, TableOptions,
    WriteBatch,
};
use rand::RngExt;

fn open(mem: &MemVfs) -> (Db, Keyspace) {
    let db = Db::open(DIR, manual(mem)).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    (db, keyspace)
}

fn table(keyspace: &Keyspace, name: &str) -> Table {
    keyspace.table(name, TableOptions::default()).unwrap()
}

fn assert_dropped(outcome: Result<(), Error>) {
    match outcome {
        Err(e @ Error::NotFound { .. }) => {
            assert!(e.to_string().contains("was dropped"), "{e}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_dropped_table_takes_no_write_and_is_read_on_by_those_who_have_it() {
    let mem = MemVfs::new();
    let (db, keyspace) = open(&mem);
    let (old, other) = (table(&keyspace, "t"), table(&keyspace, "other"));
    old.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    old.put(b"b", b"2").unwrap();
    let (view, mut range) = (db.view(), old.range::<&[u8], _>(..));
    assert_eq!(range.next().unwrap().unwrap().0, "a");

    keyspace.drop_table("t").unwrap();
    assert_eq!(keyspace.tables(), ["other"]);
    assert_dropped(old.put(b"a", b"3"));
    assert_dropped(old.delete(b"a"));
    let mut batch = WriteBatch::new();
    batch.put(&other, b"a", b"3");
    batch.put(&old, b"a", b"3");
    assert_dropped(db.write(batch));
    assert_eq!(other.get(b"a").unwrap(), None);
    assert!(matches!(
        keyspace.drop_table("t"),
        Err(Error::NotFound { .. })
    ));

    let new = table(&keyspace, "t");
    new.put(b"a", b"new").unwrap();
    db.flush().unwrap();
    assert_eq!(range.next().unwrap().unwrap().0, "b");
    assert_eq!(old.get(b"a").unwrap().unwrap(), "1");
    assert_eq!(view.get(&old, b"b").unwrap().unwrap(), "2");
    assert_eq!(view.get(&new, b"a").unwrap(), None);
    assert_eq!(new.get(b"a").unwrap().unwrap(), "new");
    assert_eq!(files(&mem, ".sst").len(), files_in_use(&db) + 1);
    drop((old, range, view));
    db.flush().unwrap();
    assert_eq!(files(&mem, ".sst").len(), files_in_use(&db));
}

#[test]
fn each_snapshot_sees_the_table_of_its_time() {
    let mem = MemVfs::new();
    {
        let (db, keyspace) = open(&mem);
        for round in ["1", "2", "3"] {
            let t = table(&keyspace, "t");
            t.put(b"round", round.as_bytes()).unwrap();
            t.put(round.as_bytes(), b"").unwrap();
            keyspace.create_snapshot(round).unwrap();
            t.put(b"round", b"later").unwrap();
            if round == "2" {
                db.flush().unwrap();
            }
            keyspace.drop_table("t").unwrap();
        }
    }
    for _ in 0..2 {
        let (db, keyspace) = open(&mem);
        assert_eq!(keyspace.tables(), Vec::<String>::new());
        for round in ["1", "2", "3"] {
            let t = keyspace.snapshot(round).unwrap().table("t").unwrap();
            let found = content(t.range::<&[u8], _>(..)).unwrap();
            assert_eq!(found.len(), 2);
            assert_eq!(found[&b"round"[..]], round.as_bytes());
            assert_eq!(found[round.as_bytes()], b"");
        }
        db.flush().unwrap();
        db.compact().unwrap();
    }
    let (db, keyspace) = open(&mem);
    let open_one = keyspace.snapshot("1").unwrap();
    for round in ["1", "2", "3"] {
        keyspace.delete_snapshot(round).unwrap();
    }
    // What is open stays, also the tables that it did not look at yet.
    let t = open_one.table("t").unwrap();
    assert_eq!(t.get(b"round").unwrap().unwrap(), "1");
    assert_eq!(files(&mem, ".sst").len(), 1);
    drop((t, open_one));
    db.flush().unwrap();
    assert_eq!(files(&mem, ".sst").len(), 0);
    assert_eq!(db.stats().tables.len(), 0);
}

/// A table that is gone must not hold on to the log, and its writes in there
/// belong to nobody.
#[test]
fn the_log_of_a_forgotten_table_is_passed_over_and_goes() {
    let mem = MemVfs::new();
    let options = || Options {
        wal_segment_bytes: 1 << 10,
        ..manual(&mem)
    };
    {
        let db = Db::open(DIR, options()).unwrap();
        let keyspace = db.keyspace("app").unwrap();
        let (gone, stays) = (table(&keyspace, "gone"), table(&keyspace, "stays"));
        for i in 0..100u32 {
            let mut batch = WriteBatch::new();
            batch.put(&gone, &i.to_be_bytes(), &[1; 50]);
            batch.put(&stays, &i.to_be_bytes(), &[2; 50]);
            db.write(batch).unwrap();
        }
        keyspace.drop_table("gone").unwrap();
    }
    let db = Db::open(DIR, options()).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    assert_eq!(keyspace.tables(), ["stays"]);
    let again = table(&keyspace, "gone");
    assert_eq!(again.range::<&[u8], _>(..).count(), 0);
    assert_eq!(table(&keyspace, "stays").range::<&[u8], _>(..).count(), 100);
    db.flush().unwrap();
    assert!(db.stats().wal_segments <= 1, "{}", db.stats().wal_segments);
}

/// The log goes on naming a table that is gone, by its id: given again, the new
/// table would have the old one's writes.
#[test]
fn the_id_of_a_dropped_table_is_not_given_again() {
    let mem = MemVfs::new();
    {
        let (_db, keyspace) = open(&mem);
        table(&keyspace, "t").put(b"a", b"1").unwrap();
        keyspace.drop_table("t").unwrap();
    }
    for _ in 0..2 {
        let (_db, keyspace) = open(&mem);
        assert_eq!(table(&keyspace, "t").get(b"a").unwrap(), None);
    }
}

#[test]
fn a_dropped_keyspace_leaves_nothing() {
    let mem = MemVfs::new();
    let (db, keyspace) = open(&mem);
    let t = table(&keyspace, "t");
    t.put(b"a", b"1").unwrap();
    keyspace.create_snapshot("s").unwrap();
    db.flush().unwrap();
    keyspace.drop_table("t").unwrap();
    table(&keyspace, "u").put(b"a", b"1").unwrap();
    db.drop_keyspace("app").unwrap();
    assert!(matches!(
        db.drop_keyspace("app"),
        Err(Error::NotFound { .. })
    ));
    let refused = keyspace.table("t", TableOptions::default());
    assert!(matches!(refused, Err(Error::NotFound { .. })));
    let refused = keyspace.create_snapshot("s");
    assert!(matches!(refused, Err(Error::NotFound { .. })));
    drop((db, keyspace, t));
    let db = Db::open(DIR, manual(&mem)).unwrap();
    assert_eq!(db.keyspaces(), Vec::<String>::new());
    assert_eq!(files(&mem, ".sst").len(), 0);
}

/// Flushes and merges of a table that is dropped meanwhile end without harm. A
/// writer that waited for the flush of a full memtable waited for ever when the
/// table was dropped: nobody flushes one that is gone.
#[test]
fn tables_are_dropped_under_threads_that_write_flush_and_compact() {
    for_seeds(0..3, |seed| {
        let mem = MemVfs::new();
        let options = || Options {
            maintenance: Maintenance::Background,
            memtable_bytes: 4 << 10,
            wal_bytes_max: 64 << 10,
            ..manual(&mem)
        };
        let db = Db::open(DIR, options()).unwrap();
        let keyspace = db.keyspace("app").unwrap();
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let keyspace = keyspace.clone();
                scope.spawn(move || {
                    for i in 0..3000u32 {
                        let t = table(&keyspace, "t");
                        let key = [writer, (i % 200) as u8];
                        match t.put(&key, &i.to_be_bytes().repeat(20)) {
                            Ok(()) => {}
                            Err(e) => assert_dropped(Err(e)),
                        }
                    }
                });
            }
            let mut rng = rng(seed);
            for i in 0..60 {
                let name = format!("s{i}");
                if rng.random_bool(0.5) {
                    keyspace.create_snapshot(&name).unwrap();
                }
                let _ = keyspace.drop_table("t");
                for info in keyspace.snapshots() {
                    let snapshot = keyspace.snapshot(&info.name).unwrap();
                    for name in &info.tables {
                        let t = snapshot.table(name).unwrap();
                        content(t.range::<&[u8], _>(..)).unwrap();
                    }
                    if rng.random_bool(0.3) {
                        keyspace.delete_snapshot(&info.name).unwrap();
                    }
                }
            }
        });
        assert_eq!(db.stats().read_only_cause, None);
        for info in keyspace.snapshots() {
            keyspace.delete_snapshot(&info.name).unwrap();
        }
        let _ = keyspace.drop_table("t");
        drop((db, keyspace));
        let _db = Db::open(DIR, options()).unwrap();
        assert_eq!(files(&mem, ".sst").len(), 0);
    });
}

const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum Step {
    Create(usize),
    Drop(usize),
    Put(Vec<(usize, u8, u32)>),
    Snapshot(u32),
    Delete(u32),
    /// Sets the time at which it expires, in milliseconds.
    Renew(u32, Option<u64>),
    Flush,
    Compact,
    Sync,
}

/// Rows by table.
type Tables = BTreeMap<String, BTreeMap<u8, u32>>;

/// What must be there: tables by name, and those of each snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    tables: Tables,
    snapshots: BTreeMap<String, (Option<u64>, Tables)>,
}

impl Model {
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Create(t) => drop(self.tables.entry(NAMES[*t].into()).or_default()),
            Step::Drop(t) => drop(self.tables.remove(NAMES[*t])),
            Step::Put(rows) => {
                for (t, key, value) in rows {
                    let table = self.tables.get_mut(NAMES[*t]).unwrap();
                    table.insert(*key, *value);
                }
            }
            Step::Snapshot(n) => {
                let state = (None, self.tables.clone());
                self.snapshots.insert(format!("s{n}"), state);
            }
            Step::Delete(n) => drop(self.snapshots.remove(&format!("s{n}"))),
            Step::Renew(n, expires) => {
                self.snapshots.get_mut(&format!("s{n}")).unwrap().0 = *expires;
            }
            Step::Flush | Step::Compact | Step::Sync => {}
        }
    }

    /// Whether both say the same. Creating a table is durable at once, before
    /// the commits that came before it, so an empty one may be there or not.
    fn agrees(&self, other: &Self) -> bool {
        let full = |model: &Self| {
            let tables = model.tables.clone().into_iter();
            tables
                .filter(|(_, rows)| !rows.is_empty())
                .collect::<Vec<_>>()
        };
        self.snapshots == other.snapshots && full(self) == full(other)
    }

    fn read(db: &Db) -> Self {
        let mut model = Self::default();
        let Ok(keyspace) = db.existing_keyspace("app") else {
            return model;
        };
        for name in keyspace.tables() {
            let rows = rows(
                keyspace
                    .existing_table(&name)
                    .unwrap()
                    .range::<&[u8], _>(..),
            );
            model.tables.insert(name, rows);
        }
        for info in keyspace.snapshots() {
            let snapshot = keyspace.snapshot(&info.name).unwrap();
            let mut tables = BTreeMap::new();
            for name in info.tables {
                let table = snapshot.table(&name).unwrap();
                tables.insert(name, rows(table.range::<&[u8], _>(..)));
            }
            let expires = info
                .expires
                .map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64);
            model.snapshots.insert(info.name, (expires, tables));
        }
        model
    }
}

fn rows(range: ebb_storage::Range) -> BTreeMap<u8, u32> {
    let row = |(key, value): (Vec<u8>, Vec<u8>)| {
        (key[0], u32::from_le_bytes(value[..4].try_into().unwrap()))
    };
    content(range).unwrap().into_iter().map(row).collect()
}

fn script(seed: u64, steps: usize) -> (Vec<Step>, Vec<Model>) {
    let mut rng = rng(seed);
    let mut states = vec![Model::default()];
    let mut script = Vec::new();
    for n in 0..steps as u32 {
        let mut state = states.last().unwrap().clone();
        let there: Vec<_> = (0..NAMES.len())
            .filter(|t| state.tables.contains_key(NAMES[*t]))
            .collect();
        let snapshots: BTreeSet<u32> = state
            .snapshots
            .keys()
            .map(|name| name[1..].parse().unwrap())
            .collect();
        let step = match rng.random_range(0..100) {
            0..=11 => Step::Create(rng.random_range(0..NAMES.len())),
            12..=21 if !there.is_empty() => Step::Drop(there[rng.random_range(0..there.len())]),
            22..=33 if snapshots.len() < 4 => Step::Snapshot(n),
            34..=43 if !snapshots.is_empty() => {
                let at = rng.random_range(0..snapshots.len());
                Step::Delete(*snapshots.iter().nth(at).unwrap())
            }
            44..=48 if !snapshots.is_empty() => {
                let at = rng.random_range(0..snapshots.len());
                let expires = rng.random_bool(0.7).then(|| 1000 + u64::from(n));
                Step::Renew(*snapshots.iter().nth(at).unwrap(), expires)
            }
            44..=48 => Step::Flush,
            49..=52 => Step::Flush,
            53..=55 => Step::Compact,
            56..=58 => Step::Sync,
            _ if there.is_empty() => Step::Create(rng.random_range(0..NAMES.len())),
            _ => {
                let row = |_| {
                    let table = there[rng.random_range(0..there.len())];
                    (table, rng.random_range(0..20), n)
                };
                Step::Put((0..3).map(row).collect())
            }
        };
        state.apply(&step);
        script.push(step);
        states.push(state);
    }
    (script, states)
}

fn perform(db: &Db, step: &Step) -> Result<(), Error> {
    let keyspace = db.keyspace("app")?;
    let name = |t: &usize| NAMES[*t];
    match step {
        Step::Create(t) => keyspace.table(name(t), TableOptions::default()).map(drop),
        Step::Drop(t) => keyspace.drop_table(name(t)),
        Step::Put(rows) => {
            let mut batch = WriteBatch::new();
            for (t, key, value) in rows {
                let table = keyspace.existing_table(name(t))?;
                batch.put(&table, &[*key], &value.to_le_bytes().repeat(10));
            }
            db.write(batch)
        }
        Step::Snapshot(n) => keyspace.create_snapshot(&format!("s{n}")),
        Step::Delete(n) => keyspace.delete_snapshot(&format!("s{n}")),
        Step::Renew(n, expires) => {
            let name = format!("s{n}");
            keyspace.set_snapshot_expiry(&name, expires.map(Duration::from_millis))
        }
        Step::Flush => db.flush(),
        Step::Compact => db.compact(),
        Step::Sync => db.sync(),
    }
}

/// Power lost at every call, and again in the recovery: what is there is a
/// prefix of what was done, a drop is not undone and takes nothing with it that
/// a snapshot sees, and no file is left over.
#[test]
fn power_lost_at_any_call_leaves_tables_and_their_snapshots_as_they_were() {
    for_seeds(0..6, |seed| {
        let durability = [Durability::Sync, Durability::Os][seed as usize % 2];
        let (script, states) = script(seed, 60);
        let options = |mem: &MemVfs| Options {
            durability,
            memtable_bytes: 1500,
            file_bytes: 600,
            wal_segment_bytes: 700,
            wal_bytes_max: 4000,
            // It stands at 0: nothing expires.
            clock: Arc::new(ManualClock::default()),
            ..manual(mem)
        };
        let run = |mem: &MemVfs| {
            let mut done = 0;
            let mut durable = 0;
            if let Ok(db) = Db::open(DIR, options(mem)) {
                for (i, step) in script.iter().enumerate() {
                    if perform(&db, step).is_err() {
                        break;
                    }
                    done = i + 1;
                    let syncs = matches!(step, Step::Sync | Step::Drop(_));
                    if syncs || durability == Durability::Sync {
                        durable = done;
                    }
                }
            }
            (done, durable)
        };
        let mem = MemVfs::new();
        assert_eq!(run(&mem).0, script.len());
        let calls = mem.io_calls();
        let only = env("EBB_CRASH");
        for crash_at in only.map_or(1..=calls, |call| call..=call) {
            let _replay = Replay(format!("EBB_SEED={seed} EBB_CRASH={crash_at} of {calls}"));
            for again in [None, Some(1 + (crash_at * 7) % 50)] {
                let mem = MemVfs::new();
                mem.crash_at(crash_at);
                let (done, durable) = run(&mem);
                mem.restart(seed * 1000 + crash_at);
                if let Some(call) = again {
                    mem.crash_at(call);
                    drop(Db::open(DIR, options(&mem)));
                    mem.restart(crash_at + call);
                }
                let db = Db::open(DIR, options(&mem)).unwrap();
                let found = Model::read(&db);
                let possible = &states[durable..=(done + 1).min(script.len())];
                assert!(
                    possible.iter().any(|state| state.agrees(&found)),
                    "{done} done, {durable} durable, then {:?}: {found:?}",
                    script.get(done)
                );
                db.verify().unwrap();
                assert_eq!(files(&mem, ".sst").len(), files_in_use(&db), "orphans");
                let covered: usize = found.snapshots.len() + found.tables.len();
                assert!(covered > 0 || db.stats().tables.is_empty());
                drop(db);
                let db = Db::open(DIR, options(&mem)).unwrap();
                assert_eq!(Model::read(&db), found);
                for name in found.tables.keys() {
                    let keyspace = db.existing_keyspace("app").unwrap();
                    keyspace.drop_table(name).unwrap();
                    let new = table(&keyspace, name);
                    assert_eq!(new.range::<&[u8], _>(..).count(), 0);
                }
                assert_eq!(Model::read(&db).snapshots, found.snapshots);
                for name in found.snapshots.keys() {
                    let keyspace = db.existing_keyspace("app").unwrap();
                    keyspace.delete_snapshot(name).unwrap();
                }
                assert_eq!(files(&mem, ".sst").len(), 0);
            }
        }
    });
}
