//! A damaged file costs the keys that it may hold, and nothing else: each read is right or
//! names the damage, and all other reads and writes go on.

#[path = "quarantine/beside_merges.rs"]
mod beside_merges;
#[path = "quarantine/found.rs"]
mod found;
#[path = "quarantine/merges.rs"]
mod merges;
#[path = "quarantine/reads.rs"]
mod reads;
#[path = "quarantine/restores.rs"]
mod restores;
#[path = "quarantine/rewritten.rs"]
mod rewritten;
#[path = "quarantine/space.rs"]
mod space;
#[path = "quarantine/unreadable.rs"]
mod unreadable;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;

use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Compression, Db, Entry, Error, FileSystem, FilterPrefix, LossReport, Options, QuarantinedFile,
    Range, SsTableOptions, Table, TableOptions,
};
use rand::RngExt;

const KEYS: u8 = 60;

/// The expected rows: those of the table now, and those of each snapshot.
#[derive(Debug, Clone, Default)]
struct Model {
    now: Content,
    snapshots: BTreeMap<String, Content>,
}

fn key(number: u8) -> Vec<u8> {
    format!("key{number:03}").into_bytes()
}

fn options(mem: &MemDisk) -> Options {
    Options {
        file_bytes: 1 << 10,
        // What is damaged on the disk is met, and not hidden by a cache.
        cache_bytes: 0,
        ..manual(mem)
    }
}

/// Lists the losses in the damaged files of the table `users`, accepts exactly these losses, and
/// rewrites the files. If merges change the list between the two steps, lists the losses again.
fn rewrite(db: &Db) -> ebb_storage::Result<LossReport> {
    loop {
        let accepted = db.list_lost("app", "users")?.token.unwrap_or_default();
        if let Some(done) = db.rewrite_damaged("app", "users", &accepted)? {
            return Ok(done);
        }
    }
}

fn table_options() -> TableOptions {
    TableOptions {
        sstable: SsTableOptions {
            block_bytes: 200,
            compression: Compression::None,
            // Ten keys have the same prefix.
            filter_prefix: Some(FilterPrefix::Bytes(5)),
            ..SsTableOptions::default()
        },
        merge_operator: Some("append".into()),
    }
}

fn tables(db: &Db) -> [Table; 2] {
    let keyspace = db.keyspace("app").unwrap();
    ["users", "other"].map(|name| keyspace.table(name, table_options()).unwrap())
}

/// Writes at random, to the table and the model alike.
fn write(rng: &mut Rng, table: &Table, model: &mut Content, operations: usize) {
    for _ in 0..operations {
        let at = rng.random_range(0..KEYS);
        let (key, value) = (key(at), format!("{}", rng.random::<u32>()).into_bytes());
        match rng.random_range(0..10) {
            0..5 => {
                table.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            5..8 => {
                table.merge(&key, &value).unwrap();
                model.entry(key).or_default().extend(value);
            }
            8 => {
                table.delete(&key).unwrap();
                model.remove(&key);
            }
            _ => {
                let end = self::key(at + rng.random_range(1..9));
                table.delete_range(key.clone()..end.clone()).unwrap();
                model.retain(|other, _| *other < key || *other >= end);
            }
        }
    }
}

/// Creates a database with snapshots, operands and range tombstones in runs of several files, all
/// flushed. Also returns the expected rows of its table "users". The table "other" has each key
/// with its own value.
fn database(seed: u64) -> (MemDisk, Model) {
    let (mem, mut rng, mut model) = (MemDisk::new(), rng(seed), Model::default());
    let db = Db::open(DIR, options(&mem)).unwrap();
    let [users, other] = tables(&db);
    for number in 0..KEYS {
        other.put(&key(number), &key(number)).unwrap();
    }
    let keyspace = db.existing_keyspace("app").unwrap();
    for round in 0..6 {
        write(&mut rng, &users, &mut model.now, 70);
        if round % 2 == 1 {
            let name = format!("s{round}");
            keyspace.create_snapshot(&name).unwrap();
            model.snapshots.insert(name, model.now.clone());
        }
        db.flush().unwrap();
        if round == 3 {
            db.compact().unwrap();
        }
    }
    (mem, model)
}

/// Creates a database like [`database`], but without snapshots, and with six small runs of "users"
/// that are not merged.
fn unmerged_database() -> (MemDisk, Model) {
    let (mem, mut model) = database(4);
    let db = Db::open(DIR, options(&mem)).unwrap();
    delete_snapshots(&db);
    model.snapshots.clear();
    let [users, _] = tables(&db);
    let mut rng = rng(4);
    for _ in 0..6 {
        write(&mut rng, &users, &mut model.now, 25);
        db.flush().unwrap();
    }
    (mem, model)
}

/// Makes a backup in `/linked`, which shares its bytes with the database, and a copy of that backup in
/// `/copied`.
fn back_up(mem: &MemDisk, db: &Db) {
    db.backup("/linked").unwrap();
    copy_dir(mem, "/linked", "/copied");
}

/// Does what [`database`] does, and then [`back_up`].
fn backed_up(seed: u64) -> (MemDisk, Model) {
    let (mem, model) = database(seed);
    back_up(&mem, &Db::open(DIR, options(&mem)).unwrap());
    (mem, model)
}

/// Creates a database whose table "users" has each key in one run of several files. The value of a key
/// consists of `value_bytes` bytes, each the key's number.
fn one_run(mem: &MemDisk, value_bytes: usize) -> (Db, Table) {
    let db = Db::open(DIR, options(mem)).unwrap();
    let [users, _] = tables(&db);
    for number in 0..KEYS {
        let value = vec![number; value_bytes];
        users.put(&key(number), &value).unwrap();
    }
    db.flush().unwrap();
    (db, users)
}

/// Does `work` on a fork of `mem` on which the power fails at a call, restarts the fork and runs `check`
/// on it: for the first call, the second, and so on, up to a fork on which the work succeeds.
fn for_each_power_loss<T: Debug>(
    mem: &MemDisk,
    work: impl Fn(&MemDisk) -> ebb_storage::Result<T>,
    mut check: impl FnMut(&MemDisk),
) {
    for call in 1.. {
        let _place = FailedAt(format!("call {call}"));
        let fork = mem.fork();
        fork.crash_at(call);
        let outcome = work(&fork);
        let has_power = fork.has_power();
        assert!(!has_power || outcome.is_ok(), "{outcome:?}");
        fork.restart(call);
        check(&fork);
        if has_power {
            break;
        }
    }
}

/// Counts of the reads: those that returned the expected result, and those that failed with an
/// error that names a damaged file.
#[derive(Debug, Default)]
struct Answers {
    right: u64,
    damaged: u64,
}

impl Answers {
    /// Checks that the error of a read names one of the files `damaged`, and counts the error.
    fn refused(&mut self, error: &Error, damaged: &[PathBuf]) {
        let is_it = matches!(error, Error::Corruption { path, .. } | Error::Unreadable { path, .. }
            if damaged.contains(path));
        assert!(is_it, "{error}");
        self.damaged += 1;
    }

    fn get(
        &mut self,
        found: Result<Option<ebb_storage::Value>, Error>,
        expected: Option<&Vec<u8>>,
        damaged: &[PathBuf],
    ) {
        match found {
            Ok(found) => {
                assert_eq!(found.as_deref(), expected.map(|value| &value[..]));
                self.right += 1;
            }
            Err(error) => self.refused(&error, damaged),
        }
    }

    /// Checks that a scan returns only expected entries, in order, and then either reaches the end
    /// of the range or fails with an error that names a damaged file.
    fn scan<'a>(
        &mut self,
        found: impl Iterator<Item = Result<Entry, Error>>,
        expected: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
        damaged: &[PathBuf],
    ) {
        let mut expected = expected.peekable();
        for entry in found {
            match entry {
                Ok((key, value)) => {
                    let (must_key, must) = expected.next().expect("no more than there are");
                    assert_eq!((&key[..], &value[..]), (&must_key[..], &must[..]));
                }
                Err(error) => return self.refused(&error, damaged),
            }
        }
        assert_eq!(expected.next(), None, "a scan ended early");
        self.right += 1;
    }

    fn table(
        &mut self,
        get: impl Fn(&[u8]) -> Result<Option<ebb_storage::Value>, Error>,
        range: impl Fn(std::ops::Range<Vec<u8>>) -> Range,
        expected: &Content,
        damaged: &[PathBuf],
    ) {
        for number in 0..KEYS + 9 {
            let key = key(number);
            self.get(get(&key), expected.get(&key), damaged);
        }
        let ranges = [(0, 200), (0, 20), (13, 31), (40, 200)];
        let of_one_prefix = [(10, 19), (25, 26), (30, 39), (50, 59)];
        for (from, to) in ranges.into_iter().chain(of_one_prefix) {
            let keys = key(from)..key(to);
            let must = || expected.range(keys.clone());
            self.scan(range(keys.clone()), must(), damaged);
            self.scan(range(keys.clone()).rev(), must().rev(), damaged);
        }
    }
}

/// Reads the table "users", and each snapshot of it, by key and by range. Each read must return
/// what `model` has, or fail with an error that names one of the files `damaged`. Also opens the
/// table "other", which has no damaged files.
fn read(db: &Db, model: &Model, damaged: &[PathBuf]) -> Answers {
    let mut answers = Answers::default();
    let [users, _] = tables(db);
    answers.table(
        |key| users.get(key),
        |keys| users.range(keys),
        &model.now,
        damaged,
    );
    let keyspace = db.existing_keyspace("app").unwrap();
    for (name, content) in &model.snapshots {
        let table = keyspace.snapshot(name).unwrap().table("users").unwrap();
        let (get, range) = (|key: &[u8]| table.get(key), |keys| table.scan(keys));
        answers.table(get, range, content, damaged);
    }
    answers
}

fn quarantine(db: &Db) -> Vec<QuarantinedFile> {
    let tables = db.stats().tables.into_iter();
    tables.flat_map(|table| table.quarantine).collect()
}

fn paths(quarantine: &[QuarantinedFile]) -> Vec<PathBuf> {
    quarantine.iter().map(|file| file.path.clone()).collect()
}

fn assert_other_is_whole(other: &Table) {
    for number in 0..KEYS {
        assert_eq!(other.get(&key(number)).unwrap().unwrap(), key(number)[..]);
    }
    assert_eq!(other.range::<&[u8], _>(..).count(), usize::from(KEYS));
}

fn delete_snapshots(db: &Db) {
    let keyspace = db.existing_keyspace("app").unwrap();
    for snapshot in keyspace.snapshots() {
        keyspace.delete_snapshot(&snapshot.name).unwrap();
    }
}

/// Returns the SSTables of "users": those that are left once the snapshots are deleted and "other"
/// is dropped. Changes `mem`, so callers pass a fork.
fn files_of_users(mem: &MemDisk) -> Vec<PathBuf> {
    let db = Db::open(DIR, options(mem)).unwrap();
    delete_snapshots(&db);
    let keyspace = db.existing_keyspace("app").unwrap();
    keyspace.drop_table("other").unwrap();
    drop(keyspace);
    drop(db);
    files(mem, ".sst")
}

/// Checks that each read of a database with the files `damaged` returns what `model` has, or
/// reports the damage. Checks this right after the opening, after writes and merges, and after
/// another opening. At the end it drops the damaged table, which must remove the first of the
/// files. Returns the counts of the first round of reads.
fn survives(mem: &MemDisk, model: &Model, damaged: &[PathBuf], seed: u64) -> Answers {
    let (mut rng, mut model) = (rng(seed), model.clone());
    let db = Db::open(DIR, options(mem)).unwrap();
    let answers = read(&db, &model, damaged);
    let [users, other] = tables(&db);
    for _ in 0..3 {
        write(&mut rng, &users, &mut model.now, 25);
        other.put(&key(1), &key(1)).unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
    }
    read(&db, &model, damaged);
    assert_other_is_whole(&other);
    let known = quarantine(&db);
    assert!(paths(&known).iter().all(|path| damaged.contains(path)));
    drop((users, other, db));

    let db = Db::open(DIR, options(mem)).unwrap();
    assert_eq!(quarantine(&db), known, "by another opening");
    let [users, other] = tables(&db);
    read(&db, &model, damaged);
    write(&mut rng, &users, &mut model.now, 25);
    db.flush().unwrap();
    db.compact().unwrap();
    read(&db, &model, damaged);
    assert_other_is_whole(&other);
    assert_eq!(db.stats().read_only_cause, None);
    let keyspace = db.existing_keyspace("app").unwrap();
    for name in model.snapshots.keys() {
        keyspace.delete_snapshot(name).unwrap();
    }
    drop(users);
    keyspace.drop_table("users").unwrap();
    db.flush().unwrap();
    assert!(!mem.exists(&damaged[0]).unwrap());
    assert_eq!(quarantine(&db), []);
    assert_other_is_whole(&other);
    answers
}

#[test]
fn one_flipped_bit_in_any_file_gives_right_answers_or_damage_and_never_an_older_value() {
    let mut all = Answers::default();
    let mut damages = 0;
    let test = "one_flipped_bit_in_any_file_gives_right_answers_or_damage_and_never_an_older_value";
    for_seeds(test, 3, |seed| {
        let (mem, model) = database(seed);
        let files = files_of_users(&mem.fork());
        assert!(files.len() > 1, "{files:?}");
        for path in &files {
            for byte in (0..mem.file_len(path).unwrap()).step_by(53) {
                let fork = mem.fork();
                let bit = (byte % 8) as u8;
                fork.flip_bit(path, byte, bit).unwrap();
                let _place = FailedAt(format!("bit {bit} of {byte} of {}", path.display()));
                let answers = survives(&fork, &model, std::slice::from_ref(path), byte);
                all.right += answers.right;
                all.damaged += answers.damaged;
                damages += 1;
            }
        }
    });
    println!("{damages} damages: {all:?}");
    assert!(all.damaged > 100 && all.right > all.damaged, "{all:?}");
}
