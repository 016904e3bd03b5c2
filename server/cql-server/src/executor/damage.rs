//! Statements on a table with a damaged place on the disk.
//!
//! The tests flip one bit of a file, at places all over the files of a table in several runs. A
//! statement then returns the result of the intact database, or an error that names the file:
//!
//! | statements | fail |
//! | --- | --- |
//! | INSERT, UPDATE and DELETE without a condition | never |
//! | with IF, of counters, of a list by index | whenever the header or the row cannot be read |
//! | SELECT of a partition | whenever its header or one of its rows cannot be read |
//! | SELECT of all rows, COUNT | whenever one of them cannot be read |
//! | SELECT of one row | only if the header or the row cannot be read; newer timestamps may decide |
//! | SELECT by an index | only if an entry of the value cannot be read, or its row |
//!
//! The engine decides what can be read. An engine that failed every read would pass these checks,
//! so the tests also check that most places make few keys unreadable.

mod database;
mod script;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::slice;

use bytes::Bytes;
use ebb_cql::protocol::{ErrorResponse, QueryParameters};
use ebb_model::key::{EntryKey, PARTITIONS_START, SCHEMA_KEY};
use ebb_storage::Error;
use ebb_storage::simulation::MemDisk;

use self::database::{database, db_of, files_of, opened, rows_of};
use self::script::{MERGE_BEFORE, RESTORE_BEFORE, Script, Statement};
use super::harness::Server;
use crate::indexes::remove_stale;

/// The distance in bytes between the bits that the tests flip: about the size of a block. The whole
/// script runs for each bit, so a shorter distance takes long.
const STEP_BYTES: usize = 251;
/// The test requires that most of the damaged blocks make at most this many keys unreadable each. A
/// data block holds fewer keys.
const FEW_KEYS: usize = 20;

fn answer(server: &mut Server, text: &str) -> Result<String, ErrorResponse> {
    if text.starts_with("SELECT") || text.contains(" IF ") {
        return Ok(server.page(text, &[], None, None)?.text());
    }
    let prepared = server.prepare(text)?;
    let done = server.execute(&prepared, QueryParameters::default());
    done.map(|_| String::new())
}

/// The outcome of a statement: its rows as text, or its error message.
type Answer = Result<String, String>;

/// Merges all runs of the database, at a time after the grace period of deletions.
fn merge(server: &Server) {
    server.clock.advance_ms(10_000);
    let db = db_of(server);
    db.flush().unwrap();
    db.compact().unwrap();
}

/// Executes all parts of a script on the intact database, and returns the results of each part.
fn answers(server: &mut Server, script: &Script) -> Vec<Vec<Answer>> {
    let mut all = Vec::new();
    for (at, part) in script.parts().into_iter().enumerate() {
        if at == MERGE_BEFORE {
            merge(server);
        }
        let one = |statement: &Statement| {
            let answer = answer(server, &statement.text);
            answer.map_err(|error| error.message)
        };
        all.push(part.iter().map(one).collect());
    }
    all
}

/// The position of a flipped bit in a file of a table.
#[derive(Debug)]
struct Damage {
    table: &'static str,
    path: PathBuf,
    byte: u64,
}

impl Damage {
    fn flip(&self, disk: &MemDisk) {
        disk.flip_bit(&self.path, self.byte, 3).unwrap();
    }

    fn is_cause_of(&self, error: &ErrorResponse) -> bool {
        error.kind.code() == 0 && error.message.contains(&self.path.display().to_string())
    }

    /// Returns the offset of the damaged block in the file, and the number of those `keys` that are
    /// unreadable; `None` if all are readable.
    fn lost(&self, server: &Server, keys: &[Bytes]) -> Option<(u64, usize)> {
        let rows = rows_of(server, self.table);
        let errors: Vec<Error> = keys.iter().filter_map(|key| rows.get(key).err()).collect();
        match errors.first()? {
            Error::Corruption { path, offset, .. } if *path == self.path => {
                Some((*offset, errors.len()))
            }
            error => panic!("{self:?}: {error}"),
        }
    }
}

/// The numbers of statements that succeeded and failed, by the kind of statement.
type Counts = BTreeMap<&'static str, (u64, u64)>;

/// Executes statements, compares them with their expected results, and returns those that fail
/// because of the damage.
fn check<'s>(
    server: &mut Server,
    statements: impl IntoIterator<Item = (&'s Statement, &'s Answer)>,
    damage: &Damage,
    counts: &mut Counts,
) -> Vec<(&'s Statement, &'s Answer)> {
    let mut failed = Vec::new();
    for (statement, expected) in statements {
        let place = format!("{damage:?}: {}", statement.text);
        let is_readable = (statement.needs).are_readable(&rows_of(server, statement.table));
        assert!(is_readable || statement.table == damage.table, "{place}");
        let counts = counts.entry(statement.kind).or_default();
        match answer(server, &statement.text) {
            Err(error) if damage.is_cause_of(&error) => {
                assert!(!is_readable, "{place}: {error}");
                counts.1 += 1;
                failed.push((statement, expected));
            }
            found => {
                let found = found.map_err(|error| error.message);
                assert_eq!(found, *expected, "{place}");
                let may_stop_early = ["row", "index"].contains(&statement.kind);
                assert!(is_readable || may_stop_early, "{place}: it does not fail");
                counts.0 += 1;
            }
        }
    }
    failed
}

#[test]
fn damage_fails_only_the_statements_that_read_it() {
    let disk = database();
    let mut whole = opened(&disk.fork());
    let script = Script::new(&whole);
    let mut places: BTreeMap<(PathBuf, u64), usize> = BTreeMap::new();
    let mut counts = Counts::new();
    let keys = ["t", "counters"].map(|table| {
        let all = rows_of(&whole, table).range::<&[u8], _>(..);
        let keys: Vec<Bytes> = all.map(|entry| entry.unwrap().0).collect();
        (table, keys)
    });
    let expected = answers(&mut whole, &script);
    for (table, keys) in keys {
        for path in files_of(&disk, table) {
            for byte in (0..disk.file_len(&path).unwrap()).step_by(STEP_BYTES) {
                let (fork, path) = (disk.fork(), path.clone());
                let damage = Damage { table, path, byte };
                damage.flip(&fork);
                if let Some((offset, lost)) = damage.lost(&opened(&fork), &keys) {
                    places.insert((damage.path.clone(), offset), lost);
                }
                survives(&fork, &damage, &script, &expected, &mut counts);
            }
        }
    }
    let few = places.values().filter(|lost| **lost <= FEW_KEYS).count();
    assert!(places.len() > 30 && 2 * few > places.len(), "{places:?}");
    for (kind, (answered, failed)) in &counts {
        assert!(*answered > 0, "{kind}");
        assert_eq!(*failed > 0, *kind != "write", "{kind}");
    }
}

/// While damage keeps a row from being read, its index entry may be right, so the entry is kept.
#[test]
fn the_index_entries_of_unreadable_rows_stay() {
    let disk = database();
    let whole = opened(&disk.fork());
    let all = rows_of(&whole, "t").range::<&[u8], _>(SCHEMA_KEY..PARTITIONS_START);
    // The first key is that of the table's schema.
    let all: Vec<Vec<u8>> = all.map(|entry| entry.unwrap().0.to_vec()).skip(1).collect();
    remove_stale_of_t(&whole, &all);
    let rows = rows_of(&whole, "t");
    let is_right = |entry: &&Vec<u8>| rows.get(entry).unwrap().is_some();
    let right: Vec<&Vec<u8>> = all.iter().filter(is_right).collect();
    assert!(!right.is_empty() && right.len() < all.len());
    let mut unreadable = 0;
    for path in files_of(&disk, "t") {
        for byte in (0..disk.file_len(&path).unwrap()).step_by(STEP_BYTES) {
            let (fork, path) = (disk.fork(), path.clone());
            let table = "t";
            let damage = Damage { table, path, byte };
            damage.flip(&fork);
            let server = opened(&fork);
            // One by one: a check that fails ends a removal.
            for entry in &all {
                remove_stale_of_t(&server, slice::from_ref(entry));
            }
            let rows = rows_of(&server, table);
            for entry in &right {
                let row_key = EntryKey::read(entry).unwrap().row_key;
                unreadable += usize::from(rows.get(row_key).is_err());
                let is_removed = matches!(rows.get(entry), Ok(None));
                assert!(!is_removed, "{damage:?}: {entry:?}");
            }
        }
    }
    assert!(unreadable > 0);
}

/// Removes those of these index entries of the table `t` that are stale.
fn remove_stale_of_t(server: &Server, entries: &[Vec<u8>]) {
    let catalog = server.executor.catalog();
    let table = catalog.state().table("ks", "t").unwrap().clone();
    remove_stale(catalog, &table, entries);
}

/// Executes all parts of a script on a damaged database, and checks the result of each statement.
/// The damage is repaired before the last part.
fn survives(
    disk: &MemDisk,
    damage: &Damage,
    script: &Script,
    expected: &[Vec<Answer>],
    counts: &mut Counts,
) {
    let server = &mut opened(disk);
    let mut failed = Vec::new();
    for (at, (part, expected)) in script.parts().into_iter().zip(expected).enumerate() {
        if at == MERGE_BEFORE {
            merge(server);
        }
        if at == RESTORE_BEFORE {
            let db = db_of(server);
            assert!(db.restore("/copied").unwrap().left.is_empty(), "{damage:?}");
            let findings = db.verify_all(|_| ()).unwrap().findings;
            assert!(findings.is_empty(), "{damage:?}: {findings:?}");
            // The changes that failed succeed after the restore.
            assert!(check(server, failed, damage, counts).is_empty());
            merge(server);
        }
        failed = check(server, part.iter().zip(expected), damage, counts);
    }
    assert!(failed.is_empty(), "{damage:?}");
}
