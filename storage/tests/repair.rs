//! Repair: whatever was done to the files, what comes out opens, verifies, and
//! has nothing that was never written; what may be wrong is named.

mod common;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::*;
use ebb_storage::vfs::{MemVfs, Vfs};
use ebb_storage::{
    Bounding, Db, Error, Lost, ManualClock, Options, RepairReport, SsTableOptions, TableOptions,
    TieredPicker, repair, verify,
};

const TARGET: &str = "/repaired";

/// All that was ever written to a key of a table, oldest first.
type History = BTreeMap<(usize, Vec<u8>), Vec<Written>>;

/// A write of a value.
#[derive(Debug)]
enum Written {
    Put(Vec<u8>),
    Operand(Vec<u8>),
}

/// Whether a value is what some of these writes make: a put, or nothing, and
/// what was appended later, each at most once and in order. Some may be lost,
/// or come from before a deletion that is lost.
fn was_written(value: &[u8], writes: &[Written]) -> bool {
    // The lengths of the starts of the value that the writes so far make.
    let mut made = vec![false; value.len() + 1];
    let mut any = false;
    for write in writes {
        let starts = |at: usize, part: &[u8]| value[at..].starts_with(part);
        match write {
            Written::Put(part) => {
                if starts(0, part) {
                    made[part.len()] = true;
                    any = true;
                }
            }
            Written::Operand(part) => {
                for at in (0..=value.len()).rev() {
                    if made[at] && starts(at, part) {
                        made[at + part.len()] = true;
                    }
                }
                if starts(0, part) {
                    made[part.len()] = true;
                    any = true;
                }
            }
        }
    }
    any && made[value.len()]
}

struct Case {
    seed: u64,
    now_ms: u64,
    expected: Seen,
    history: History,
    /// The last segment of the log was cut, perhaps between two records, or is
    /// gone: that looks like a crash before they were written.
    is_log_cut: bool,
}

/// A database of several runs, with snapshots and a log, closed.
fn database(seed: u64, mem: &MemVfs, steps: usize) -> Case {
    let mut rng = rng(seed);
    let options = random_options(&mut rng, mem);
    let table_options: Vec<_> = TABLES
        .iter()
        .map(|_| random_table_options(&mut rng))
        .collect();
    let (script, _) = random_script(&mut rng, steps, 4);
    play(seed, options, &table_options, &script)
}

/// The database that a script makes, closed.
fn play(seed: u64, options: Options, table_options: &[TableOptions], script: &[Op]) -> Case {
    let clock = ManualClock::at_ms(START_MS);
    let options = Options {
        clock: Arc::new(clock.clone()),
        ..options
    };
    let db = Db::open(DIR, options).unwrap();
    let tables = open_tables(&db, table_options).unwrap();
    let mut state = Oracle::default();
    let mut history = History::new();
    for op in script {
        if let Op::Tick(ms) = op {
            clock.advance_ms(*ms);
        }
        apply(&db, &tables, op).unwrap();
        state.apply(op);
        if let Op::Write(writes) = op {
            for Write { table, change } in writes {
                let (key, written) = match change {
                    Change::Put(key, value) | Change::PutFor(key, value, _) => {
                        (key, Written::Put(value.clone()))
                    }
                    Change::Merge(key, operand) => (key, Written::Operand(operand.clone())),
                    Change::Delete(_) | Change::DeleteRange(_) => continue,
                };
                history
                    .entry((*table, key.clone()))
                    .or_default()
                    .push(written);
            }
        }
    }
    Case {
        seed,
        now_ms: state.now_ms,
        expected: state.seen_at(state.now_ms),
        history,
        is_log_cut: false,
    }
}

fn paths(mem: &MemVfs) -> Vec<PathBuf> {
    let mut paths = mem.list(DIR.as_ref()).unwrap();
    paths.retain(|path| !path.ends_with("LOCK"));
    paths.sort();
    paths
}

fn run(mem: &MemVfs) -> RepairReport {
    let report = repair(DIR, TARGET, &manual(mem), &mut |_| ()).unwrap();
    let verified = verify(TARGET, &manual(mem), &mut |_| ()).unwrap();
    assert_eq!(verified.findings, []);
    report
}

fn clear(mem: &MemVfs) {
    for path in mem.list(TARGET.as_ref()).unwrap_or_default() {
        mem.remove(&path).unwrap();
    }
}

impl Case {
    /// Holds the result against what was there. Tables whose names are lost are
    /// looked at by what they hold.
    fn check(&self, mem: &MemVfs, report: &RepairReport) -> Seen {
        let options = Options {
            create_if_missing: false,
            clock: Arc::new(ManualClock::at_ms(self.now_ms)),
            ..manual(mem)
        };
        let db = Db::open(TARGET, options).unwrap();
        // Without its operator a table does not read; that has to be said.
        let read = |keyspace: &str, name: &str| {
            let found = db
                .existing_keyspace(keyspace)
                .and_then(|keyspace| keyspace.existing_table(name));
            let found = found.and_then(|found| content(found.range::<&[u8], _>(..)));
            match found {
                Ok(found) => Some(found),
                Err(Error::NotFound { .. }) => Some(Content::new()),
                Err(Error::InvalidRequest(message)) => {
                    let full = format!("{keyspace}.{name}");
                    let told = report.lost.iter().any(|lost| {
                        lost.table.as_ref() == Some(&full) && lost.detail.contains("operator")
                    });
                    assert!(told, "{message}: {:?}", report.lost);
                    None
                }
                Err(error) => panic!("{keyspace}.{name}: {error}"),
            }
        };
        for (table, &(keyspace, name)) in TABLES.iter().enumerate() {
            let full = format!("{keyspace}.{name}");
            let Some(found) = read(keyspace, name) else {
                continue;
            };
            let expected = &self.expected.tables[table];
            for (key, value) in &found {
                let written = self.history.get(&(table, key.clone()));
                assert!(
                    written.is_some_and(|written| was_written(value, written)),
                    "{full} {key:?} has a value that was never written"
                );
            }
            for key in found.keys().chain(expected.keys()) {
                let same = found.get(key) == expected.get(key);
                let told = self.is_log_cut || report.lost.iter().any(|l| l.concerns(&full, key));
                assert!(same || told, "{full} {key:?} is wrong: {:?}", report.lost);
            }
        }
        let recovered = db.existing_keyspace("recovered");
        for name in recovered.iter().flat_map(|keyspace| keyspace.tables()) {
            for (key, value) in read("recovered", &name).unwrap_or_default() {
                let mut written = self.history.iter();
                assert!(written.any(|((_, k), writes)| *k == key && was_written(&value, writes)));
            }
        }
        // Snapshots that are said to be whole are.
        let has_operators = !report.lost.iter().any(|l| l.detail.contains("operator"));
        let found = (recovered.is_err() && has_operators).then(|| Seen::read(&db).unwrap());
        for ((keyspace, name), tables) in found.iter().flat_map(|found| &found.snapshots) {
            let incomplete = format!("{keyspace}: {name}");
            if !self.is_log_cut && !report.snapshots_incomplete.contains(&incomplete) {
                let expected = self.expected.snapshots.get(&(*keyspace, name.clone()));
                assert!(expected == Some(tables), "snapshot {incomplete}");
            }
        }
        // It goes on working, with numbers above all that it has.
        let table = db.keyspace("app").unwrap();
        let options = match table.existing_table("users") {
            Ok(table) => {
                table.put(b"later", b"x").unwrap();
                Some(table.get(b"later").unwrap().unwrap())
            }
            Err(_) => None,
        };
        assert!(options.is_none_or(|value| value == "x"));
        found.unwrap_or_default()
    }
}

#[test]
fn a_sound_database_is_repaired_to_itself() {
    for_seeds(0..10, |seed| {
        let mem = MemVfs::new();
        let case = database(seed, &mem, 250);
        let before: Vec<_> = paths(&mem)
            .iter()
            .map(|path| mem.read_all(path).unwrap())
            .collect();
        let report = run(&mem);
        assert_eq!(report.lost, []);
        assert_eq!(report.snapshots, case.expected.snapshots.len() as u64);
        let found = case.check(&mem, &report);
        assert!(
            found == case.expected,
            "{}",
            found.difference(&case.expected)
        );
        let after: Vec<_> = paths(&mem)
            .iter()
            .map(|path| mem.read_all(path).unwrap())
            .collect();
        assert!(after == before, "the source was changed");
    });
}

#[test]
fn every_flipped_bit_costs_what_is_named_and_no_more() {
    for_seeds(20..22, |seed| {
        let mem = MemVfs::new();
        let case = database(seed, &mem, 60);
        for path in paths(&mem) {
            let len = mem.file_len(&path).unwrap();
            for at in (seed % 7..len).step_by(7) {
                let _replay = Replay(format!("EBB_SEED={seed}, {} at {at}", path.display()));
                mem.flip_bit(&path, at, (at % 8) as u8).unwrap();
                let report = run(&mem);
                case.check(&mem, &report);
                assert!(
                    report.lost.iter().all(|lost| is_about(&lost.path, &path)),
                    "{:?}",
                    report.lost
                );
                clear(&mem);
                mem.flip_bit(&path, at, (at % 8) as u8).unwrap();
            }
        }
    });
}

/// Losses are of the damaged file; without CURRENT, of the manifest.
fn is_about(lost: &Path, damaged: &Path) -> bool {
    lost == damaged || (damaged.ends_with("CURRENT") && lost.to_string_lossy().contains("MANIFEST"))
}

#[test]
fn files_that_are_cut_or_gone_cost_what_is_named() {
    for_seeds(30..38, |seed| {
        let names = paths(&{
            let mem = MemVfs::new();
            database(seed, &mem, 80);
            mem
        });
        let is_segment = |path: &&PathBuf| path.extension().is_some_and(|ext| ext == "log");
        let last_segment = names.iter().rfind(is_segment).cloned();
        for path in names {
            let _replay = Replay(format!("EBB_SEED={seed}, {}", path.display()));
            for eighth in 0..8 {
                let mem = MemVfs::new();
                let mut case = database(seed, &mem, 80);
                let len = mem.file_len(&path).unwrap();
                match eighth {
                    0 => mem.remove(&path).unwrap(),
                    _ => mem.cut(&path, len * eighth / 8).unwrap(),
                }
                case.is_log_cut = Some(&path) == last_segment.as_ref();
                let report = run(&mem);
                case.check(&mem, &report);
            }
        }
    });
}

#[test]
fn much_damage_at_once_is_survived() {
    use rand::RngExt;
    for_seeds(50..80, |seed| {
        let mem = MemVfs::new();
        let mut case = database(seed, &mem, 200);
        let mut rng = rng(seed ^ 0xda);
        let paths = paths(&mem);
        for _ in 0..rng.random_range(1..20) {
            let path = &paths[rng.random_range(0..paths.len())];
            let Ok(len) = mem.file_len(path) else {
                continue;
            };
            let (what, is_segment) = (rng.random_range(0..8), path.extension());
            case.is_log_cut |= what < 2 && is_segment.is_some_and(|ext| ext == "log");
            match what {
                0 => mem.remove(path).unwrap(),
                1 => mem.cut(path, rng.random_range(0..=len)).unwrap(),
                _ if len > 0 => mem
                    .flip_bit(path, rng.random_range(0..len), rng.random_range(0..8))
                    .unwrap(),
                _ => {}
            }
        }
        let outcome = repair(DIR, TARGET, &manual(&mem), &mut |_| ());
        match outcome {
            Ok(report) => {
                case.check(&mem, &report);
            }
            Err(error) => assert!(matches!(error, Error::NoDatabase { .. }), "{error}"),
        }
        assert_eq!(case.seed, seed);
    });
}

#[test]
fn a_damaged_block_costs_its_keys_only() {
    let mem = MemVfs::new();
    let keys: Vec<_> = (0..2000)
        .map(|i| format!("key{i:05}").into_bytes())
        .collect();
    {
        let options = Options {
            memtable_bytes: 1 << 20,
            file_bytes: 1 << 20,
            ..manual(&mem)
        };
        let db = Db::open(DIR, options).unwrap();
        let keyspace = db.keyspace("app").unwrap();
        let table = keyspace.table("users", Default::default()).unwrap();
        for key in &keys {
            table.put(key, &key.repeat(10)).unwrap();
        }
        db.flush().unwrap();
    }
    let path = paths(&mem)
        .into_iter()
        .find(|path| path.extension().is_some_and(|ext| ext == "sst"))
        .unwrap();
    mem.flip_bit(&path, mem.file_len(&path).unwrap() / 2, 3)
        .unwrap();
    let report = run(&mem);
    let [lost] = &report.lost[..] else {
        panic!("{:?}", report.lost)
    };
    assert_eq!(
        (&lost.path, lost.table.as_deref()),
        (&path, Some("app.users"))
    );
    let db = Db::open(TARGET, manual(&mem)).unwrap();
    let table = db.existing_keyspace("app").unwrap();
    let table = table.existing_table("users").unwrap();
    let missing: Vec<_> = keys
        .iter()
        .filter(|key| table.get(key).unwrap().is_none())
        .collect();
    assert!(!missing.is_empty() && missing.len() < 300);
    assert!(missing.iter().all(|key| lost.concerns("app.users", key)));
}

#[test]
fn an_interrupted_repair_does_not_open() {
    let mem = MemVfs::new();
    let case = database(5, &mem, 100);
    let before = mem.io_calls();
    run(&mem);
    let calls = mem.io_calls() - before;
    for call in (1..calls).step_by(3) {
        let mem = MemVfs::new();
        database(5, &mem, 100);
        mem.crash_at(call);
        let outcome = repair(DIR, TARGET, &manual(&mem), &mut |_| ());
        mem.restart(call);
        let options = Options {
            create_if_missing: false,
            clock: Arc::new(ManualClock::at_ms(case.now_ms)),
            ..manual(&mem)
        };
        match Db::open(TARGET, options) {
            Ok(db) => assert!(Seen::read(&db).unwrap() == case.expected),
            Err(error) => {
                assert!(outcome.is_err());
                let told = matches!(error, Error::NoDatabase { .. } | Error::Corruption { .. });
                assert!(told, "{error}");
            }
        }
    }
}

#[test]
fn the_source_must_be_a_database_that_nobody_has_open_and_the_target_empty() {
    let mem = MemVfs::new();
    let fails =
        |from: &str, to: &str| repair(from, to, &manual(&mem), &mut |_| ()).expect_err("refused");
    assert!(matches!(fails("/none", TARGET), Error::NoDatabase { .. }));
    let db = Db::open(DIR, manual(&mem)).unwrap();
    db.keyspace("app").unwrap();
    assert!(matches!(fails(DIR, TARGET), Error::Locked { .. }));
    drop(db);
    assert!(matches!(fails(DIR, DIR), Error::InvalidRequest(_)));
    run(&mem);
}

/// A merge folded operands 1 to 3 of a key into one; files that it was made from
/// were still there when the manifest was lost. Repair took the versions of all
/// files, those of the newest file first, and so folded in again what had other
/// numbers than the result. The log came even before the newest file: what it
/// still had of a value hid the whole one.
#[test]
fn what_a_merge_replaced_is_not_folded_in_again() {
    for (left, has_snapshot, gone) in (0..8).flat_map(|left| {
        [
            (left, false, false),
            (left, true, false),
            (left, true, true),
        ]
    }) {
        let mem = MemVfs::new();
        let options = Options {
            compaction: TieredPicker {
                bounding: Bounding::Off,
                ..TieredPicker::default()
            }
            .into(),
            ..manual(&mem)
        };
        let db = Db::open(DIR, options).unwrap();
        let keyspace = db.keyspace("app").unwrap();
        let options = TableOptions {
            merge_operator: Some("append".into()),
            ..TableOptions::default()
        };
        let table = keyspace.table("users", options).unwrap();
        let mut replaced = Vec::new();
        for part in ["a", "b", "c"] {
            table.merge(b"key", part.as_bytes()).unwrap();
            table.put(b"a", b"first").unwrap();
            table.put(b"z", b"last").unwrap();
            if has_snapshot && part == "a" {
                keyspace.create_snapshot("s").unwrap();
            }
            db.flush().unwrap();
            let newest = files(&mem, ".sst").pop().unwrap();
            replaced.push((mem.read_all(&newest).unwrap(), newest));
        }
        assert_eq!(files(&mem, ".sst").len(), 3);
        db.compact().unwrap();
        assert_eq!(files(&mem, ".sst").len(), 1);
        drop((db, keyspace, table));
        for (i, (bytes, path)) in replaced.iter().enumerate() {
            if left & (1 << i) != 0 {
                mem.create(path).unwrap().append(bytes).unwrap();
            }
        }
        for path in paths(&mem) {
            if path.to_string_lossy().contains("MANIFEST") {
                match gone {
                    true => mem.remove(&path).unwrap(),
                    false => mem.flip_bit(&path, 20, 1).unwrap(),
                }
            }
        }
        let report = run(&mem);
        assert!(!report.lost.is_empty());
        let db = Db::open(TARGET, manual(&mem)).unwrap();
        let keyspace = db.keyspaces().pop().unwrap();
        let keyspace = db.existing_keyspace(&keyspace).unwrap();
        let table = keyspace.existing_table(&keyspace.tables()[0]).unwrap();
        let found = content(table.range::<&[u8], _>(..)).unwrap();
        let expected = [("a", "first"), ("key", "abc"), ("z", "last")];
        let expected = expected.map(|(key, value)| (key.into(), value.into()));
        assert_eq!(found, expected.into(), "{left:03b} {has_snapshot} {gone}");
    }
}

/// Two files of versions, below one of range tombstones alone, and one of both.
fn deletions(mem: &MemVfs) -> Case {
    let key = |i: usize| format!("key{i:02}").into_bytes();
    let put = |table, i| Write {
        table,
        change: Change::Put(key(i), vec![i as u8; 20]),
    };
    let delete = |table, from, to| {
        let bounds = (Bound::Included(key(from)), Bound::Excluded(key(to)));
        let change = Change::DeleteRange(bounds);
        Op::Write(vec![Write { table, change }])
    };
    let snapshot = Op::CreateSnapshot {
        keyspace: "app",
        name: "before".into(),
        table: None,
    };
    let script = [
        Op::Write((0..30).flat_map(|i| [put(0, i), put(1, i)]).collect()),
        Op::Flush,
        snapshot,
        delete(0, 5, 9),
        Op::Truncate(1),
        Op::Flush,
        delete(0, 20, 22),
        Op::Write((6..8).map(|i| put(0, i)).collect()),
        Op::Flush,
    ];
    let sstable = SsTableOptions {
        block_bytes: 128,
        ..SsTableOptions::default()
    };
    let table_options = TABLES.map(|_| TableOptions {
        sstable: sstable.clone(),
        ..TableOptions::default()
    });
    play(0, manual(mem), &table_options, &script)
}

#[test]
fn every_flipped_bit_among_range_deletions_costs_what_is_named_and_no_more() {
    let mem = MemVfs::new();
    let case = deletions(&mem);
    let report = run(&mem);
    assert!(case.check(&mem, &report) == case.expected);
    clear(&mem);
    let tables = files(&mem, ".sst");
    assert_eq!(tables.len(), 5);
    let (mut hid, mut nothing) = (0, 0);
    for path in paths(&mem) {
        for at in 0..mem.file_len(&path).unwrap() {
            let _replay = Replay(format!("{} at {at}", path.display()));
            mem.flip_bit(&path, at, (at % 8) as u8).unwrap();
            let report = run(&mem);
            let found = case.check(&mem, &report);
            if tables.contains(&path) {
                assert!(report.lost.iter().all(|lost| lost.path == path));
                let deletions = |lost: &&Lost| lost.detail.contains("what they hid may show");
                let lost = report.lost.iter().find(deletions);
                hid += usize::from(lost.is_some());
                assert!(
                    lost.is_none_or(|lost| lost.concerns("app.mails", b"any")
                        != lost.concerns("app.users", b"any"))
                );
                nothing += usize::from(report.lost.is_empty());
                assert!(!report.lost.is_empty() || found == case.expected);
            }
            clear(&mem);
            mem.flip_bit(&path, at, (at % 8) as u8).unwrap();
        }
    }
    // The blocks of range tombstones are small; filter, index, properties and
    // footer are most of such a file, and each can be done without.
    assert!(hid > 20 && nothing > 5 * 200, "{hid} {nothing}");
}

#[test]
fn range_deletions_outlive_the_manifest() {
    let mem = MemVfs::new();
    let case = deletions(&mem);
    for path in paths(&mem) {
        if path.to_string_lossy().contains("MANIFEST") {
            mem.remove(&path).unwrap();
        }
    }
    let report = run(&mem);
    // The snapshots are in the log, and with them the names of their tables.
    let found = case.check(&mem, &report);
    assert!(
        found == case.expected,
        "{}",
        found.difference(&case.expected)
    );
}

/// A snapshot was deleted and another one created under its name. The record of
/// the deletion was damaged, and the new database had two of that name: it
/// showed the older one, and neither could be told from the other.
#[test]
fn a_snapshot_whose_deletion_is_lost_gives_way_to_the_next_of_its_name() {
    let mem = MemVfs::new();
    let db = Db::open(DIR, manual(&mem)).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let table = keyspace.table("users", TableOptions::default()).unwrap();
    table.put(b"key", b"old").unwrap();
    keyspace.create_snapshot("s").unwrap();
    table.put(b"key", b"new").unwrap();
    let segment = files(&mem, ".log").pop().unwrap();
    let at = mem.file_len(&segment).unwrap();
    keyspace.delete_snapshot("s").unwrap();
    let end = mem.file_len(&segment).unwrap();
    assert!(at < end);
    keyspace.create_snapshot("s").unwrap();
    drop((db, keyspace, table));
    mem.flip_bit(&segment, (at + end) / 2, 0).unwrap();

    let report = run(&mem);
    assert_eq!(report.lost.len(), 1);
    let db = Db::open(TARGET, manual(&mem)).unwrap();
    let keyspace = db.existing_keyspace("app").unwrap();
    assert_eq!(keyspace.snapshots().len(), 1);
    let snapshot = keyspace.snapshot("s").unwrap();
    let table = snapshot.table("users").unwrap();
    assert_eq!(table.get(b"key").unwrap().unwrap(), "new");
}
