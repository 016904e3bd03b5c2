//! A damaged file costs the keys that it may hold, and nothing else: each read is right or
//! names the damage, and all other reads and writes go on.

#[path = "quarantine/beside_merges.rs"]
mod beside_merges;
#[path = "quarantine/rewritten.rs"]
mod rewritten;
#[path = "quarantine/space.rs"]
mod space;
#[path = "quarantine/unreadable.rs"]
mod unreadable;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::hooked_disk::{Call, HookedDisk};
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Compression, Db, DetachedOptions, DetachedTable, Entry, Error, FileSystem, FilterPrefix,
    LossReport, Maintenance, Options, QuarantinedFile, Range, RestoreStep, SortedWriter,
    SsTableOptions, Table, TableOptions,
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

/// Regression: after a merge read one flipped bit, no table could be written. After each further
/// opening, the database became read-only again at its first merge, and the damaged table could not
/// be dropped.
#[test]
fn a_bit_that_a_merge_meets_stops_no_write_to_any_table() {
    let (mem, _) = database(7);
    let db = Db::open(DIR, options(&mem)).unwrap();
    delete_snapshots(&db);
    drop(db);
    let path = files_of_users(&mem.fork()).remove(0);
    mem.flip_bit(&path, 100, 3).unwrap();
    let background = || Options {
        maintenance: Maintenance::Background,
        ..options(&mem)
    };
    for _ in 0..3 {
        let db = Db::open(DIR, background()).unwrap();
        let [users, other] = tables(&db);
        let mut written = 0_u32;
        until("a merge to meet the damage, and another one", || {
            for _ in 0..100 {
                let value = written.to_be_bytes().repeat(20);
                users.put(&key((written % 60) as u8), &value).unwrap();
                other.put(&written.to_be_bytes(), &value).unwrap();
                written += 1;
            }
            let has_merged = db.stats().compactions > 0;
            written >= 4000 && has_merged && !quarantine(&db).is_empty()
        });
        let stats = db.stats();
        assert_eq!(
            (stats.read_only_cause, stats.maintenance_failure),
            (None, None)
        );
        assert_eq!(paths(&quarantine(&db)), std::slice::from_ref(&path));
    }
    let db = Db::open(DIR, background()).unwrap();
    let keyspace = db.existing_keyspace("app").unwrap();
    keyspace.drop_table("users").unwrap();
    db.flush().unwrap();
    drop((keyspace, db));
    assert!(!mem.exists(&path).unwrap());
}

#[test]
fn a_copied_backup_gives_back_everything_and_a_linked_one_has_the_damage_too() {
    let (mem, model) = backed_up(3);
    let mut restored = 0;
    for path in files_of_users(&mem.fork()) {
        for byte in (0..mem.file_len(&path).unwrap()).step_by(211) {
            let fork = mem.fork();
            fork.flip_bit(&path, byte, 5).unwrap();
            let _place = FailedAt(format!("{byte} of {}", path.display()));
            let (mut rng, mut model) = (rng(byte), model.clone());
            let db = Db::open(DIR, options(&fork)).unwrap();
            let [users, other] = tables(&db);
            for _ in 0..6 {
                write(&mut rng, &users, &mut model.now, 25);
                db.flush().unwrap();
                db.compact().unwrap();
            }
            // The merges may have replaced the file, if they did not read the damaged part: they read no
            // filters.
            let is_there = !db.verify_all(|_| ()).unwrap().findings.is_empty();
            let report = db.restore("/linked").unwrap();
            let left: Vec<_> = report.left.into_iter().map(|file| file.path).collect();
            let damaged = is_there.then(|| path.clone());
            assert_eq!((report.restored, left), (vec![], Vec::from_iter(damaged)));
            let report = db.restore("/copied").unwrap();
            assert_eq!(report.restored.len(), usize::from(is_there));
            assert!(!is_there || !fork.exists(&path).unwrap(), "it is gone");
            assert_eq!((report.left, quarantine(&db)), (vec![], vec![]));
            assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
            restored += report.restored.len();
            assert_eq!(read(&db, &model, &[]).damaged, 0);
            if is_there {
                // The backup has its own bytes: the damage of the restored file, which has the highest
                // number, is not in the backup.
                let again = files(&fork, ".sst").pop().unwrap();
                fork.flip_bit(&again, byte, 5).unwrap();
                assert_eq!(db.restore("/copied").unwrap().restored.len(), 1);
                assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
            }
            db.compact().unwrap();
            drop((users, other, db));
            let db = Db::open(DIR, options(&fork)).unwrap();
            read(&db, &model, &[]);
            write(&mut rng, &tables(&db)[0], &mut model.now, 25);
            db.flush().unwrap();
            db.compact().unwrap();
            read(&db, &model, &[]);
            assert_other_is_whole(&tables(&db)[1]);
        }
    }
    assert!(restored > 20, "{restored}");
}

/// Regression: a file that was deleted while the database had it open could still be read. So it
/// counted as undamaged, was not restored from the backup, and was missing at the next opening.
#[test]
fn a_file_that_is_removed_while_it_is_open_is_restored() {
    let (mem, model) = backed_up(3);
    let path = files_of_users(&mem.fork()).remove(0);
    let db = Db::open(DIR, options(&mem)).unwrap();
    mem.remove(&path).unwrap();
    assert_eq!(read(&db, &model, &[]).damaged, 0);
    let report = db.restore("/copied").unwrap();
    assert_eq!((report.restored.len(), report.left), (1, vec![]));
    assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
    drop(db);
    let db = Db::open(DIR, options(&mem)).unwrap();
    assert_eq!(read(&db, &model, &[]).damaged, 0);
}

/// Regression: a restore dropped every file from the system's cache, so that other reads had to wait for
/// the disk. It also took locks wherever its caller had lowered the priority of the thread.
#[test]
fn a_restore_leaves_undamaged_files_in_the_caches_and_changes_nothing_while_it_reads() {
    let (mem, model) = backed_up(3);
    let damaged = files_of_users(&mem.fork()).remove(0);
    mem.flip_bit(&damaged, 100, 3).unwrap();
    let undamaged: Vec<PathBuf> = files(&mem, ".sst")
        .into_iter()
        .filter(|path| *path != damaged)
        .collect();

    let (forgotten, is_reading) = (Arc::new(Mutex::new(Vec::new())), Arc::default());
    let (noted, reads): (_, Arc<AtomicBool>) = (Arc::clone(&forgotten), Arc::clone(&is_reading));
    let hook = move |call: Call, path: &Path| {
        match call {
            Call::ForgetCached => noted.lock().unwrap().push(path.to_path_buf()),
            Call::Create | Call::SyncDir | Call::Change => {
                assert!(
                    !reads.load(Ordering::Relaxed),
                    "{call:?} of {}",
                    path.display()
                );
            }
            Call::Open | Call::Read { .. } => {}
        }
        Ok(())
    };
    let options = on_disk(HookedDisk::new(&mem, hook), options(&mem));
    let db = Db::open(DIR, options).unwrap();
    forgotten.lock().unwrap().clear();
    let mut read_bytes = 0;
    let restored = db.restore_while("/copied", |step| {
        if let RestoreStep::Read(now) = step {
            assert!(now.bytes_done > read_bytes && now.bytes_total >= now.bytes_done);
            read_bytes = now.bytes_done;
        }
        is_reading.store(step != RestoreStep::Lock, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    is_reading.store(false, Ordering::Relaxed);
    let report = restored.unwrap().unwrap();
    assert_eq!((report.restored.len(), report.left), (1, vec![]));
    assert!(read_bytes > 0);
    let forgotten = forgotten.lock().unwrap();
    assert!(forgotten.contains(&damaged));
    assert!(!undamaged.iter().any(|path| forgotten.contains(path)));
    assert_eq!(read(&db, &model, &[]).damaged, 0);
}

/// Regression: a restore accepted an empty directory, such as the mount point of a disk that is not
/// mounted, as a backup.
#[test]
fn a_folder_without_files_is_refused_as_a_backup() {
    let (mem, _) = database(3);
    mem.create_dir_all("/empty".as_ref()).unwrap();
    let db = Db::open(DIR, options(&mem)).unwrap();
    let refused = db.restore("/empty").unwrap_err();
    assert!(matches!(refused, Error::InvalidRequest(_)), "{refused}");
}

#[test]
fn power_lost_at_any_call_leaves_a_file_in_quarantine_or_not_and_replaced_or_not() {
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
    back_up(&mem, &db);
    drop((users, db));
    let path = files_of_users(&mem.fork()).pop().unwrap();
    mem.flip_bit(&path, 100, 3).unwrap();

    let (mut quarantined, mut replaced) = (0, 0);
    let merge_and_restore = |mem: &MemDisk| {
        let db = Db::open(DIR, options(mem))?;
        db.compact()?;
        db.restore("/copied")
    };
    for_each_power_loss(&mem, merge_and_restore, |mem| {
        let db = Db::open(DIR, options(mem)).unwrap();
        read(&db, &model, std::slice::from_ref(&path));
        let known = paths(&quarantine(&db));
        assert!(known.iter().all(|damaged| *damaged == path), "{known:?}");
        quarantined += known.len();
        replaced += usize::from(!mem.exists(&path).unwrap());
        db.compact().unwrap();
        assert_eq!(db.restore("/copied").unwrap().left, []);
        assert_eq!(read(&db, &model, &[]).damaged, 0);
        assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
        assert!(!mem.exists(&path).unwrap());
    });
    assert!(
        quarantined > 10 && replaced > 1,
        "{quarantined}, {replaced}"
    );
}

/// Regression: a restore copied a missing file under a new number. If the power was lost before the
/// manifest named the copy, the next opening found a missing file and a file that the manifest does
/// not name, and refused this combination. The same happened if the restore first copied a damaged
/// file, and another file was missing.
#[test]
fn power_lost_while_a_missing_file_is_restored_never_keeps_the_database_from_opening() {
    let (mem, mut model) = database(4);
    let db = Db::open(DIR, options(&mem)).unwrap();
    delete_snapshots(&db);
    model.snapshots.clear();
    back_up(&mem, &db);
    drop(db);
    let users = files_of_users(&mem.fork());
    // Files of the newest run are looked at first.
    let (missing, damaged) = (&users[0], &users[users.len() - 1]);
    let bad = [missing.clone(), damaged.clone()];
    mem.remove(missing).unwrap();
    damage_file(&mem, damaged, false);

    let mut restored = 0;
    let restore = |mem: &MemDisk| Db::open(DIR, options(mem))?.restore("/copied");
    for_each_power_loss(&mem, restore, |mem| {
        let db = Db::open(DIR, options(mem)).unwrap();
        read(&db, &model, &bad);
        restored += usize::from(mem.exists(missing).unwrap());
        assert_eq!(db.restore("/copied").unwrap().left, []);
        assert_eq!(read(&db, &model, &[]).damaged, 0);
        assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
    });
    assert!(restored > 1, "{restored}");
}

/// Regression: a server that stopped could not end a running restore: its thread went on until the
/// process ended.
#[test]
fn a_restore_that_is_stopped_keeps_the_files_that_it_has_restored() {
    let (mem, model) = backed_up(4);
    let users = files_of_users(&mem.fork());
    let missing = &users[..2];
    missing.iter().for_each(|path| mem.remove(path).unwrap());
    let are_back = || {
        let back = missing.iter().filter(|path| mem.exists(path).unwrap());
        back.count()
    };

    let db = Db::open(DIR, options(&mem)).unwrap();
    let stopped = db.restore_while("/copied", |_| {
        if are_back() == 0 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    assert_eq!(stopped.unwrap(), None);
    assert_eq!(are_back(), 1);
    let report = db.restore("/copied").unwrap();
    assert_eq!((report.restored.len(), report.left), (1, vec![]));
    assert_eq!(read(&db, &model, &[]).damaged, 0);
    assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
}

/// Regression: a restore that was stopped while it read a file removed the files that merges had replaced
/// meanwhile, wherever its caller had lowered the priority of the thread.
#[test]
fn a_restore_that_is_stopped_while_it_reads_takes_its_locks_after_a_last_step() {
    let (mem, _) = backed_up(3);
    let db = Db::open(DIR, options(&mem)).unwrap();
    let mut steps = Vec::new();
    let stopped = db.restore_while("/copied", |step| {
        steps.push(step);
        if step == RestoreStep::Lock {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    assert_eq!(stopped.unwrap(), None);
    let last = &steps[steps.len() - 2..];
    assert!(
        matches!(last, [RestoreStep::Read(_), RestoreStep::Lock]),
        "{last:?}"
    );
}

/// The first read returns damaged bytes, but the bytes on the disk are undamaged (as after a memory
/// error). A merge reads the file again, so the file does not come into quarantine.
#[test]
fn what_reads_at_the_second_time_is_merged() {
    let (mem, model) = database(7);
    let path = files_of_users(&mem.fork()).remove(0);
    mem.flip_bit(&path, 100, 3).unwrap();
    let is_bad = Arc::new(AtomicBool::new(true));
    let (disk, damaged) = (mem.clone(), path.clone());
    let hook = move |call, path: &std::path::Path| {
        if call == Call::ForgetCached && path == damaged && is_bad.swap(false, Ordering::Relaxed) {
            disk.flip_bit(path, 100, 3)?;
        }
        Ok(())
    };
    let options = on_disk(HookedDisk::new(&mem, hook), options(&mem));
    let db = Db::open(DIR, options).unwrap();
    let [users, _] = tables(&db);
    assert!(read(&db, &model, std::slice::from_ref(&path)).damaged > 0);
    let before = db.stats().compactions;
    let keyspace = db.existing_keyspace("app").unwrap();
    for snapshot in model.snapshots.keys() {
        keyspace.delete_snapshot(snapshot).unwrap();
    }
    for number in 0..8 {
        users.put(&key(200 + number), b"above").unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
    }
    assert!(db.stats().compactions > before);
    assert_eq!(quarantine(&db), []);
    assert!(!mem.exists(&path).unwrap(), "it was merged");
    for (key, value) in &model.now {
        assert_eq!(users.get(key).unwrap().unwrap(), value[..]);
    }
}

#[test]
fn only_readers_that_come_to_the_damage_fail() {
    let mem = MemDisk::new();
    let (db, users) = one_run(&mem, 40);
    drop((users, db));
    let all = files(&mem, ".sst");
    let path = &all[all.len() / 2];
    mem.flip_bit(path, 60, 1).unwrap();

    let db = Db::open(DIR, options(&mem)).unwrap();
    let [users, _] = tables(&db);
    let is_bad = |number: &u8| users.get(&key(*number)).is_err();
    let bad: Vec<u8> = (0..KEYS).filter(is_bad).collect();
    let (first, last) = (bad[0], bad[bad.len() - 1]);
    assert!(first > 0 && last < KEYS - 1 && bad.len() < 20, "{bad:?}");
    assert!(bad.iter().copied().eq(first..=last), "{bad:?}");
    let read = |range: Range| {
        let entries: Vec<_> = range.collect();
        let right = entries.iter().filter(|entry| entry.is_ok()).count();
        (right, entries.len() - right)
    };
    let (before, behind) = (usize::from(first), usize::from(KEYS - 1 - last));
    assert_eq!(read(users.range(key(0)..=key(first - 1))), (before, 0));
    assert_eq!(read(users.range(key(last + 1)..)), (behind, 0));
    assert_eq!(read(users.range::<&[u8], _>(..)), (before, 1));
    assert_eq!(read(users.range(key(first)..)), (0, 1));
    let downwards = users.range(key(last + 1)..).rev();
    assert_eq!(downwards.filter(Result::is_ok).count(), behind);
    let downwards: Vec<_> = users.range::<&[u8], _>(..).rev().collect();
    assert_eq!(downwards.len(), behind + 1);
    assert!(downwards[behind].is_err());

    // What is newer decides.
    users.put(&key(first), b"new").unwrap();
    users.delete(&key(last)).unwrap();
    assert_eq!(users.get(&key(first)).unwrap().unwrap(), "new");
    assert_eq!(users.get(&key(last)).unwrap(), None);
    users.merge(&key(first + 1), b"operand").unwrap();
    users.get(&key(first + 1)).unwrap_err();
    users.delete_range(key(first)..key(last + 1)).unwrap();
    users.merge(&key(first + 1), b"operand").unwrap();
    assert_eq!(users.get(&key(first + 1)).unwrap().unwrap(), "operand");
}

/// A scan does not read a run if range tombstones that the scan sees delete all keys of the run in
/// the scan's range. So the scan does not reach damage in that run. A scan of a snapshot from
/// before the deletion reads the run, and fails.
#[test]
fn a_range_tombstone_over_damage_lets_scans_succeed_that_see_the_tombstone() {
    for is_whole in [true, false] {
        let _place = FailedAt(format!("whole: {is_whole}"));
        let mem = MemDisk::new();
        let (db, users) = one_run(&mem, 40);
        let before = content(users.range::<&[u8], _>(..)).unwrap();
        let keyspace = db.existing_keyspace("app").unwrap();
        keyspace.create_snapshot("s").unwrap();
        drop((users, keyspace, db));
        let all = files(&mem, ".sst");
        let damaged = std::slice::from_ref(&all[all.len() / 2]);
        damage_file(&mem, &damaged[0], is_whole);

        let db = Db::open(DIR, options(&mem)).unwrap();
        let [users, _] = tables(&db);
        let keyspace = db.existing_keyspace("app").unwrap();
        let then = keyspace.snapshot("s").unwrap().table("users").unwrap();
        let is_bad = |number: &u8| users.get(&key(*number)).is_err();
        let bad: Vec<u8> = (0..KEYS).filter(is_bad).collect();
        let bad_keys = || key(bad[0])..key(bad[bad.len() - 1] + 1);
        content(users.range(bad_keys())).unwrap_err();
        users.delete_range(bad_keys()).unwrap();
        assert_eq!(content(users.range(bad_keys())).unwrap(), Content::new());
        content(then.range(bad_keys())).unwrap_err();

        users.delete_range(key(0)..key(KEYS)).unwrap();
        // The tombstone is in a memtable, then in a run.
        for _ in 0..2 {
            let mut now = Answers::default();
            let (get, range) = (|key: &[u8]| users.get(key), |keys| users.range(keys));
            now.table(get, range, &Content::new(), damaged);
            assert_eq!(now.damaged, 0, "{now:?}");
            let mut old = Answers::default();
            let (get, range) = (|key: &[u8]| then.get(key), |keys| then.scan(keys));
            old.table(get, range, &before, damaged);
            assert!(old.damaged > 0 && old.right > 0, "{old:?}");
            db.flush().unwrap();
        }
    }
}

/// A file that does not open may hold versions that newer deletions hide. So merges keep such
/// deletions in the runs above (newer than) the file. Otherwise the hidden versions would come back
/// when the file is restored.
#[test]
fn what_is_above_a_file_that_does_not_open_is_kept_until_that_is_whole_again() {
    let mem = MemDisk::new();
    let (db, users) = one_run(&mem, 40);
    back_up(&mem, &db);
    drop((users, db));
    let all = files(&mem, ".sst");
    damage_file(&mem, &all[all.len() / 2], true);

    let db = Db::open(DIR, options(&mem)).unwrap();
    let [users, _] = tables(&db);
    let is_bad = |number: &u8| users.get(&key(*number)).is_err();
    let bad: Vec<u8> = (0..KEYS).filter(is_bad).collect();
    let [deleted, range, operand, left, ..] = bad[..] else {
        panic!("{bad:?}");
    };
    let check = |users: &Table| {
        assert_eq!(users.get(&key(deleted)).unwrap(), None);
        assert_eq!(users.get(&key(range)).unwrap(), None);
        users.get(&key(operand)).unwrap_err();
        users.get(&key(left)).unwrap_err();
    };
    users.delete(&key(deleted)).unwrap();
    users.delete_range(key(range)..key(range + 1)).unwrap();
    users.merge(&key(operand), b"more").unwrap();
    db.flush().unwrap();
    check(&users);
    for _ in 0..8 {
        // Neighbours above the file, which are merged.
        users.merge(&key(operand), b"+").unwrap();
        db.flush().unwrap();
    }
    let before = db.stats().compactions;
    db.compact().unwrap();
    assert!(db.stats().compactions > before);
    check(&users);

    assert_eq!(db.restore("/copied").unwrap().restored.len(), 1);
    for number in 0..KEYS {
        let expected = match number {
            _ if number == deleted || number == range => None,
            _ if number == operand => Some([&[number; 40][..], b"more++++++++"].concat()),
            _ => Some(vec![number; 40]),
        };
        let found = users.get(&key(number)).unwrap();
        assert_eq!(found.as_deref(), expected.as_deref(), "{number}");
    }
}

/// Regression: an ingested file was damaged before the manifest named it, while only its record in
/// the log did. Then the database did not open.
#[test]
fn a_damaged_file_that_only_the_log_names_is_in_quarantine_too() {
    let mem = MemDisk::new();
    let db = Db::open(DIR, options(&mem)).unwrap();
    let [users, _] = tables(&db);
    for number in 0..KEYS {
        users.put(&key(number), b"older").unwrap();
    }
    db.flush().unwrap();
    let writer = writer_options(&mem);
    let mut writer = SortedWriter::create("/out", "ingested", writer).unwrap();
    for number in 20..30 {
        writer.put(&key(number), b"ingested").unwrap();
    }
    let written = writer.finish().unwrap();
    // The manifest names an ingested run once the run and all older memtables are flushed. Under
    // `Maintenance::Manual` nothing is flushed here, so until then only the log names the run.
    users.put(&key(0), b"newer").unwrap();
    users.ingest(&written).unwrap();
    users.put(&key(25), b"newest").unwrap();
    db.backup("/linked").unwrap();
    // A backup consists of links to the files, which share the damage.
    copy_dir(&mem, "/linked", "/copied");
    drop((users, db));
    let path = files(&mem, ".sst").pop().unwrap();
    damage_file(&mem, &path, true);

    let fork = mem.fork();
    let db = Db::open(DIR, options(&fork)).unwrap();
    let report = db.restore("/copied").unwrap();
    assert_eq!((report.restored.len(), report.left), (1, vec![]));
    let value = tables(&db)[0].get(&key(21)).unwrap();
    assert_eq!(value.unwrap(), "ingested");
    drop(db);

    // The first opening finds the run in the log, and the flush below records it in the manifest.
    // The later ones find it there, the last one after a call of `compact` in between.
    for opening in 0..3 {
        let db = Db::open(DIR, options(&mem)).unwrap();
        let [users, _] = tables(&db);
        for number in 0..KEYS {
            match (number, users.get(&key(number))) {
                (0, value) => assert_eq!(value.unwrap().unwrap(), "newer"),
                (25, value) => assert_eq!(value.unwrap().unwrap(), "newest"),
                (20..30, value) => {
                    let error = value.unwrap_err();
                    assert!(matches!(&error, Error::Corruption { path: p, .. } if *p == path));
                }
                (_, value) => assert_eq!(value.unwrap().unwrap(), "older"),
            }
        }
        assert!(users.range(key(10)..key(25)).any(|entry| entry.is_err()));
        assert_eq!(users.range(key(30)..).filter(Result::is_ok).count(), 30);
        let known = quarantine(&db);
        assert_eq!(
            paths(&known),
            std::slice::from_ref(&path),
            "opening {opening}"
        );
        assert!(
            known[0].is_whole && known[0].from_key == key(20),
            "{known:?}"
        );
        db.flush().unwrap();
        db.compact().unwrap();
    }
}

/// Other processes read a pinned table through a [`DetachedTable`]. Its reads, too, return right
/// values or report the damage.
#[test]
fn a_pinned_table_with_a_damaged_file_is_right_or_damaged() {
    let (mem, model) = database(5);
    let files = files_of_users(&mem.fork());
    for path in &files {
        let fork = mem.fork();
        damage_file(&fork, path, true);
        let db = Db::open(DIR, options(&fork)).unwrap();
        let mut answers = Answers::default();
        for (name, content) in &model.snapshots {
            let snapshot = db.existing_keyspace("app").unwrap().snapshot(name).unwrap();
            let pin = snapshot.table("users").unwrap().pin().unwrap();
            let options = DetachedOptions {
                disk: Arc::new(fork.clone()),
                ..DetachedOptions::default()
            };
            let options = DetachedOptions {
                merge_operators: ebb_storage::MergeOperators::default(),
                ..options
            };
            let table = DetachedTable::open(pin.description(), options).unwrap();
            let (get, range) = (|key: &[u8]| table.get(key), |keys| table.scan(keys));
            answers.table(get, range, content, std::slice::from_ref(path));
        }
        assert!(answers.right > 0, "{answers:?}");
    }
}
