//! The statements that are executed on a damaged table, and the data that they read.

use std::convert::Infallible;

use ebb_model::key::{DecodedKey, EntryKey, PARTITIONS_START, PartitionKey, ROW, header_key};
use ebb_model::schema::Indexed;
use ebb_storage::Table;

use super::database::{PARTITIONS, ROWS, VALUES};
use crate::executor::harness::Server;

/// The data that a statement reads.
pub(super) enum Needs {
    Nothing,
    /// A partition's header (its static columns and deletion) and one of the partition's rows: the
    /// keys of both.
    Row(Vec<u8>, Vec<u8>),
    /// The header of a partition and all its rows: the prefix of their keys.
    Partition(Vec<u8>),
    Table,
    /// The index entries of a value, the rows that they refer to, and the headers of these rows'
    /// partitions: the prefix of the entries' keys.
    Entries(Vec<u8>),
}

impl Needs {
    pub(super) fn are_readable(&self, rows: &Table) -> bool {
        let reads = |key: &[u8]| rows.get(key).is_ok();
        match self {
            Self::Nothing => true,
            Self::Row(header, row) => reads(header) && reads(row),
            Self::Partition(prefix) => {
                let [from, to] = [ROW, ROW + 1].map(|place| [&prefix[..], &[place]].concat());
                reads(&header_key(prefix)) && rows.range(from..to).all(|row| row.is_ok())
            }
            Self::Table => {
                let mut all = rows.range::<&[u8], _>(PARTITIONS_START..);
                all.all(|row| row.is_ok())
            }
            Self::Entries(prefix) => rows.prefix(prefix).all(|entry| {
                entry.is_ok_and(|(key, _)| {
                    let row_key = EntryKey::read(&key).unwrap().row_key;
                    let partition = DecodedKey::read(row_key).unwrap();
                    reads(row_key) && reads(&header_key(partition.prefix))
                })
            }),
        }
    }
}

pub(super) struct Statement {
    /// The kind of the statement. Successes and failures are counted by kind.
    pub(super) kind: &'static str,
    pub(super) table: &'static str,
    pub(super) text: String,
    /// The data that the statement reads. If a part of it is unreadable, the statement fails, unless
    /// it is a SELECT (of one row, or by an index) whose result does not depend on that part.
    pub(super) needs: Needs,
}

fn statement(kind: &'static str, table: &'static str, needs: Needs, text: String) -> Statement {
    Statement {
        kind,
        table,
        text,
        needs,
    }
}

pub(super) struct Script {
    reads: Vec<Statement>,
    writes: Vec<Statement>,
    /// The writes that read rows before they write.
    changes: Vec<Statement>,
}

/// The index of a part of the script (see [`Script::parts`]). The sorted runs of the database are
/// merged before this part.
pub(super) const MERGE_BEFORE: usize = 2;
/// The index of a part of the script. The damaged file is restored before this part.
pub(super) const RESTORE_BEFORE: usize = 4;

impl Script {
    /// Returns the parts in the order of their execution: reads, writes, reads, writes that read
    /// first, reads.
    pub(super) fn parts(&self) -> [&[Statement]; 5] {
        let Self {
            reads,
            writes,
            changes,
        } = self;
        [reads, writes, reads, changes, reads]
    }

    /// Creates the statements on the tables of a server. Each write has a row of its own in each
    /// partition, so that the result of a write does not depend on whether another one failed and
    /// was repeated after the restore.
    pub(super) fn new(server: &Server) -> Self {
        let state = server.executor.catalog().state();
        let schema = state.table("ks", "t").unwrap().schema();
        let partition = |k: i32| PartitionKey::new(&[&k.to_be_bytes()]).unwrap();
        let row = |k: i32, c: i32| {
            let row = schema.layout().row_key(&partition(k), &[&c.to_be_bytes()]);
            Needs::Row(partition(k).header_key(), row.unwrap())
        };
        // The table of counters has no clustering columns, so the key of its row ends after `ROW`.
        let counter = |k: i32| {
            let row = [&partition(k).prefix()[..], &[ROW]].concat();
            Needs::Row(partition(k).header_key(), row)
        };
        let (mut reads, mut writes, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        for k in 0..PARTITIONS {
            let needs = Needs::Partition(partition(k).prefix());
            let text = format!("SELECT * FROM t WHERE k = {k}");
            reads.push(statement("partition", "t", needs, text));
            // The row behind the last one is not there until the writes below insert it.
            for c in 0..=ROWS {
                let text = format!("SELECT s, v, l FROM t WHERE k = {k} AND c = {c}");
                reads.push(statement("row", "t", row(k, c), text));
            }
            let text = format!("SELECT hits FROM counters WHERE k = {k}");
            reads.push(statement("row", "counters", counter(k), text));

            // None of these reads what it changes, so they succeed beside a damaged file. No row lies
            // behind 20: that range deletion changes the result of no other statement.
            for text in [
                format!("INSERT INTO t (k, c, s, v) VALUES ({k}, {ROWS}, 8, 3)"),
                format!("UPDATE t SET l = l + [5] WHERE k = {k} AND c = 4"),
                format!("DELETE FROM t WHERE k = {k} AND c = 5"),
                format!("DELETE FROM t WHERE k = {k} AND c > 20"),
            ] {
                writes.push(statement("write", "t", Needs::Nothing, text));
            }
            let text = format!("INSERT INTO other (k, v) VALUES ({k}, 9)");
            writes.push(statement("write", "other", Needs::Nothing, text));

            // The value that round 0 wrote at clustering 0. In some partitions later rounds changed it,
            // so the condition holds in a part of them.
            let v = k % VALUES;
            let conditional = [
                format!("UPDATE t SET v = 4 WHERE k = {k} AND c = 0 IF v = {v}"),
                format!("INSERT INTO t (k, c, v) VALUES ({k}, 1, 4) IF NOT EXISTS"),
                format!("DELETE FROM t WHERE k = {k} AND c = 2 IF EXISTS"),
            ];
            for (c, text) in (0..).zip(conditional) {
                changes.push(statement("condition", "t", row(k, c), text));
            }
            let text = format!("UPDATE t SET l[0] = 7 WHERE k = {k} AND c = 3");
            changes.push(statement("list", "t", row(k, 3), text));
            let text = format!("UPDATE counters SET hits = hits + 5 WHERE k = {k}");
            changes.push(statement("counter", "counters", counter(k), text));
        }
        let mut indexed = schema.indexed_columns();
        let by_v = indexed.find(|it| &*it.index.name == "by_v").unwrap();
        for v in 0..VALUES {
            let unlimited = &mut |_: usize| Ok::<_, Infallible>(());
            let prefix = by_v.prefix_of(Indexed::Cell(&v.to_be_bytes()), unlimited);
            let prefix = prefix.unwrap();
            let text = format!("SELECT k, c FROM t WHERE v = {v}");
            reads.push(statement("index", "t", Needs::Entries(prefix), text));
        }
        for (table, text) in [
            ("t", "SELECT COUNT(*) FROM t"),
            ("t", "SELECT * FROM t"),
            ("counters", "SELECT COUNT(*) FROM counters"),
            ("other", "SELECT * FROM other"),
        ] {
            reads.push(statement("table", table, Needs::Table, text.to_owned()));
        }
        Self {
            reads,
            writes,
            changes,
        }
    }
}
