//! Values with timestamps of their own: merges purge what is garbage by these timestamps, and
//! no reader notices, whatever is written late, flushed, merged, reopened or held open.

#[path = "garbage/any_order.rs"]
mod any_order;
#[path = "garbage/damaged_files.rs"]
mod damaged_files;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::common::one_table::{merging, open};
use crate::common::{Rng, manual, rng};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    CompactionOptions, CompactionPicker, Db, ExpiryBounds, Group, Keyspace, ManualClock,
    MergeOperator, MergeOperators, Options, Pick, PurgeContext, Purged, Table, TableShape,
    TimestampBounds,
};

/// The age in seconds from which on a deletion may be purged: the longest delay of a write after
/// its timestamp, plus twice the skew.
const GRACE_S: i64 = 20;
/// The greatest number of seconds by which a timestamp is ahead of the time.
const SKEW_S: i64 = 2;

/// The column number under which a key stores the deletion of its whole row, or, at the head (the
/// first key) of a group, of the whole group.
const DELETION: u8 = 0;

/// A cell of a value, for one column: a write or a deletion with its timestamp. Of several cells of
/// one column the greatest stays, that is, the one with the greatest timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    timestamp: i64,
    kind: CellKind,
    /// The second at which the cell was deleted or expires; 0 for a cell that stays.
    local_s: i64,
    byte: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CellKind {
    Stays,
    Expires,
    Tombstone,
}

/// The cells of a value, by column number; [`DELETION`] is the deletion of the row or group.
type Cells = BTreeMap<u8, Cell>;

fn encode(cells: &Cells) -> Vec<u8> {
    let encode = |(place, cell): (&u8, &Cell)| {
        let mut bytes = vec![*place, cell.kind as u8, cell.byte];
        bytes.extend(cell.timestamp.to_le_bytes());
        bytes.extend(cell.local_s.to_le_bytes());
        bytes
    };
    cells.iter().flat_map(encode).collect()
}

fn decode(bytes: &[u8]) -> Result<Cells, String> {
    let (chunks, []) = bytes.as_chunks::<19>() else {
        return Err(format!("{} bytes", bytes.len()));
    };
    let decode = |bytes: &[u8; 19]| {
        let number = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let kinds = [CellKind::Stays, CellKind::Expires, CellKind::Tombstone];
        let cell = Cell {
            kind: kinds[usize::from(bytes[1])],
            byte: bytes[2],
            timestamp: number(3),
            local_s: number(11),
        };
        (bytes[0], cell)
    };
    Ok(chunks.iter().map(decode).collect())
}

/// Adds the cells of `more` to `cells`. Of two cells of one column, the one with the later
/// timestamp stays.
fn join(cells: &mut Cells, more: &Cells) {
    for (place, cell) in more {
        let there = cells.entry(*place).or_insert(*cell);
        *there = *cell.max(there);
    }
}

fn deleted_to(cells: &Cells) -> i64 {
    cells.get(&DELETION).map_or(i64::MIN, |d| d.timestamp)
}

/// A merge operator in which the greatest timestamp decides. The first byte of a key is its group;
/// keys that begin with "z" belong to no group. The key of that byte and "-" is the head of the
/// group: a deletion that it stores deletes the whole group.
#[derive(Debug, Clone, Copy)]
struct LastWrite {
    knows_timestamps: bool,
}

impl MergeOperator for LastWrite {
    fn name(&self) -> &str {
        "last write"
    }

    fn merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        let mut cells = decode(older)?;
        join(&mut cells, &decode(newer)?);
        let deleted_to = deleted_to(&cells);
        cells.retain(|place, cell| *place == DELETION || cell.timestamp > deleted_to);
        Ok(encode(&cells))
    }

    fn timestamps(&self, _: &[u8], value: &[u8]) -> Option<TimestampBounds> {
        let bounds = |cell: &Cell| TimestampBounds {
            least: cell.timestamp,
            greatest: cell.timestamp,
            greatest_local_time_s: match cell.kind {
                CellKind::Stays => i64::MAX,
                _ => cell.local_s,
            },
        };
        let cells = decode(value).ok().filter(|_| self.knows_timestamps)?;
        let all = cells.values().map(bounds);
        Some(all.fold(TimestampBounds::NONE, TimestampBounds::union))
    }

    fn expiries(&self, _: &[u8], value: &[u8]) -> ExpiryBounds {
        let Some(cells) = decode(value).ok().filter(|_| self.knows_timestamps) else {
            return ExpiryBounds::Unknown;
        };
        let expiring = cells.values().filter(|cell| cell.kind == CellKind::Expires);
        let each = expiring.map(|cell| ExpiryBounds::at_ms(cell.local_s as u64 * 1000));
        each.fold(ExpiryBounds::Never, ExpiryBounds::union)
    }

    fn group<'k>(&self, key: &'k [u8]) -> Option<Group<'k>> {
        (key[0] != b'z').then(|| Group {
            prefix: &key[..1],
            is_head: key[1] == b'-',
        })
    }

    fn purge(&self, _: &[u8], value: &[u8], context: &PurgeContext<'_>) -> Result<Purged, String> {
        let mut cells = decode(value)?;
        let head = context.head.map(decode).transpose()?;
        let deleted_to = head.as_ref().map_or(i64::MIN, deleted_to);
        let gc_before_s = (context.read_time_ms / 1000) as i64 - GRACE_S;
        let before = cells.len();
        cells.retain(|_, cell| {
            let has_ended = cell.kind != CellKind::Stays && cell.local_s < gc_before_s;
            let is_garbage = has_ended && cell.timestamp < context.oldest_elsewhere;
            cell.timestamp > deleted_to && !is_garbage
        });
        Ok(match cells.len() {
            0 => Purged::Gone,
            left if left == before => Purged::Kept,
            _ => Purged::Rewritten(encode(&cells)),
        })
    }
}

/// The positions of some neighbouring runs in a table's list of runs, newest first, and the length
/// of the list.
type Places = (Range<usize>, usize);

/// A picker that merges the runs at the positions that the test has put here, unless the number of
/// the table's runs has changed since. With `None` it merges nothing.
#[derive(Debug, Clone, Default)]
struct PlannedMerge(Arc<Mutex<Option<Places>>>);

impl CompactionPicker for PlannedMerge {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let (places, of) = self.0.lock().unwrap().clone()?;
        let picked = table.runs.get(places)?;
        if of != table.runs.len() || picked.iter().any(|run| run.is_busy) {
            return None;
        }
        Some(Pick::merge(picked))
    }
}

fn options(
    mem: &MemDisk,
    clock: &ManualClock,
    picker: Arc<dyn CompactionPicker>,
    operator: LastWrite,
) -> Options {
    Options {
        clock: Arc::new(clock.clone()),
        merge_operators: MergeOperators::none().with(operator),
        compaction: CompactionOptions {
            picker,
            ..CompactionOptions::default()
        },
        ..manual(mem)
    }
}

const KNOWS: LastWrite = LastWrite {
    knows_timestamps: true,
};

/// A database of one table in which the test chooses the merges.
struct Bench {
    clock: ManualClock,
    planned: PlannedMerge,
    mem: MemDisk,
    db: Db,
    keyspace: Keyspace,
    table: Table,
}

impl Bench {
    /// Creates a database whose clock is at second 100.
    fn new() -> Self {
        Self::with(KNOWS)
    }

    fn with(operator: LastWrite) -> Self {
        Self::in_parts(operator, u64::MAX)
    }

    fn in_parts(operator: LastWrite, part_bytes: u64) -> Self {
        let clock = ManualClock::at_ms(100_000);
        Self::opened(MemDisk::new(), clock, operator, part_bytes)
    }

    fn reopened(self, operator: LastWrite) -> Self {
        let (mem, clock) = (self.mem.clone(), self.clock.clone());
        drop(self);
        Self::opened(mem, clock, operator, u64::MAX)
    }

    fn opened(mem: MemDisk, clock: ManualClock, operator: LastWrite, part_bytes: u64) -> Self {
        let planned = PlannedMerge::default();
        let mut options = options(&mem, &clock, Arc::new(planned.clone()), operator);
        options.compaction.part_bytes = part_bytes;
        let (db, keyspace, table) = open(options, merging("last write"));
        Self {
            clock,
            planned,
            mem,
            db,
            keyspace,
            table,
        }
    }

    fn write(&self, key: &str, timestamp: i64) {
        let cell = Cell {
            timestamp,
            kind: CellKind::Stays,
            local_s: 0,
            byte: 7,
        };
        let value = encode(&[(1, cell)].into());
        self.table.merge(key.as_bytes(), &value).unwrap();
    }

    /// Deletes the row `key`, or a whole group of rows if `key` is the head of the group, its first
    /// key. The grace period of the deletion begins at second 100, whatever its `timestamp`.
    fn delete(&self, key: &str, timestamp: i64) {
        let value = encode(&[(DELETION, deletion(timestamp, 100))].into());
        self.table.merge(key.as_bytes(), &value).unwrap();
    }

    fn flush(&self) {
        self.db.flush().unwrap();
    }

    /// Merges the runs at these positions in the list of runs, which is newest first.
    fn merge(&self, places: Range<usize>) {
        let runs = self.db.stats().tables[0].runs.len();
        *self.planned.0.lock().unwrap() = Some((places, runs));
        self.db.compact().unwrap();
        *self.planned.0.lock().unwrap() = None;
    }

    fn wait_for_grace(&self) {
        self.clock.advance_ms((GRACE_S as u64 + 1) * 1000);
    }

    fn versions(&self) -> u64 {
        self.db.stats().tables[0].versions
    }

    /// Returns the number of live cells in the keys that begin with `prefix`. Cells that will
    /// expire do not count.
    fn live(&self, prefix: &str) -> usize {
        let view = self.db.view();
        let range = view.prefix(&self.table, prefix.as_bytes());
        let all: Vec<_> = range.map(Result::unwrap).collect();
        live_cells(&all, i64::MAX).len()
    }
}

fn deletion(timestamp: i64, local_s: i64) -> Cell {
    Cell {
        timestamp,
        kind: CellKind::Tombstone,
        local_s,
        byte: 0,
    }
}

type Live = BTreeSet<(Vec<u8>, u8, u8)>;

/// Returns the cells that a reader at the time `now_s` sees, each as key, column number, and the
/// byte that the cell stores as its value.
fn live_cells<K: AsRef<[u8]>, V: AsRef<[u8]>>(all: &[(K, V)], now_s: i64) -> Live {
    let mut live = Live::new();
    let decoded = |value: &V| decode(value.as_ref()).unwrap();
    for (key, value) in all {
        let key = key.as_ref();
        let cells = decoded(value);
        let head = all
            .iter()
            .find(|(head, _)| *head.as_ref() == [key[0], b'-']);
        let deleted_to = head.map_or(i64::MIN, |(_, value)| self::deleted_to(&decoded(value)));
        let deleted_to = deleted_to.max(self::deleted_to(&cells));
        for (place, cell) in cells {
            let is_there = match cell.kind {
                CellKind::Stays => true,
                CellKind::Expires => cell.local_s > now_s,
                CellKind::Tombstone => false,
            };
            if is_there && cell.timestamp > deleted_to {
                live.insert((key.to_vec(), place, cell.byte));
            }
        }
    }
    live
}

#[test]
fn deletions_give_space_back_after_the_grace() {
    let bench = Bench::new();
    for row in 0..100 {
        bench.write(&format!("a{row}"), 90);
    }
    bench.write("b1", 90);
    bench.flush();
    bench.delete("a-", 95);
    bench.delete("b1", 95);
    bench.flush();
    bench.merge(0..2);
    // The deleted rows go at the first merge; their deletions stay until the grace is over.
    assert_eq!(bench.versions(), 2);
    bench.write("c1", 99);
    bench.flush();
    bench.merge(0..2);
    assert_eq!(bench.versions(), 3);
    bench.wait_for_grace();
    bench.write("c2", 130);
    bench.flush();
    bench.merge(0..2);
    assert_eq!(bench.versions(), 2);
    assert_eq!(bench.live("a") + bench.live("b"), 0);
    assert_eq!(bench.live("c"), 2);
    bench.db.verify().unwrap();
}

#[test]
fn flushes_and_merges_report_large_groups() {
    let bench = Bench::new();
    let (sender, groups) = std::sync::mpsc::channel();
    bench.db.on_large_group(100, move |group| {
        let prefix = String::from_utf8_lossy(group.prefix);
        let (table, bytes) = (group.table, group.bytes);
        drop(sender.send(format!("{}.{table} {prefix} {bytes}", group.keyspace)));
    });
    let reported = || groups.try_iter().collect::<Vec<_>>();
    // Each key has two bytes, and each value 19.
    for row in 0..4 {
        bench.write(&format!("a{row}"), 90);
        bench.write(&format!("b{row}"), 90);
    }
    bench.flush();
    bench.write("a4", 90);
    bench.write("a5", 90);
    bench.flush();
    assert!(reported().is_empty());
    bench.merge(0..2);
    assert_eq!(reported(), ["app.users a 126"]);
    for row in 0..5 {
        bench.write(&format!("c{row}"), 90);
        // These have no group.
        bench.write(&format!("z{row}"), 90);
    }
    bench.flush();
    assert_eq!(reported(), ["app.users c 105"]);
    bench.delete("a-", 95);
    bench.flush();
    bench.merge(0..3);
    assert_eq!(reported(), ["app.users c 105"]);
}

/// Regression: each part of a merge measured its groups anew. A group that several parts wrote was
/// reported with its bytes in one part, or not at all.
#[test]
fn a_group_that_several_parts_of_a_merge_write_is_reported_once_and_whole() {
    // Each part of a merge has one key.
    let bench = Bench::in_parts(KNOWS, 1);
    let (sender, groups) = std::sync::mpsc::channel();
    bench.db.on_large_group(100, move |group| {
        let prefix = String::from_utf8_lossy(group.prefix);
        drop(sender.send(format!("{prefix} {}", group.bytes)));
    });
    let reported = || groups.try_iter().collect::<Vec<_>>();
    // Each key has two bytes, and each value 19.
    for rows in [0..3, 3..6] {
        for row in rows {
            bench.write(&format!("a{row}"), 90);
            bench.write(&format!("c{row}"), 90);
        }
        bench.write("b1", 90);
        bench.flush();
    }
    assert!(reported().is_empty());
    bench.merge(0..2);
    assert_eq!(reported(), ["a 126", "c 126"]);
    // Nothing is left of the first measurement. A merge of the one run alone would be refused,
    // because it gains nothing.
    bench.write("z1", 90);
    bench.flush();
    bench.merge(0..2);
    assert_eq!(reported(), ["a 126", "c 126"]);
}

#[test]
fn a_deletion_stays_beside_what_it_deletes_in_an_older_run() {
    for head in ["a1", "a-"] {
        let bench = Bench::new();
        bench.write("a1", 90);
        bench.flush();
        bench.delete(head, 95);
        bench.flush();
        bench.write("a2", 99);
        bench.flush();
        bench.wait_for_grace();
        bench.merge(0..2);
        assert_eq!(
            bench.live("a1"),
            usize::from(head == "a-"),
            "without the head"
        );
        assert_eq!(bench.live("a"), 1);
        bench.merge(0..2);
        assert_eq!(bench.live("a"), 1);
    }
}

/// The deletion is in the oldest run. The values that it deletes were committed after it, with older
/// timestamps.
#[test]
fn a_deletion_stays_beside_what_it_deletes_in_newer_runs_and_memtables() {
    for (head, flushed) in [("a1", true), ("a1", false), ("a-", true), ("a-", false)] {
        let bench = Bench::new();
        bench.delete(head, 95);
        bench.flush();
        bench.write("a1", 90);
        if flushed {
            bench.flush();
        }
        bench.wait_for_grace();
        let oldest = usize::from(flushed);
        bench.merge(oldest..oldest + 1);
        assert_eq!(bench.live("a"), 0, "{head}, flushed: {flushed}");
        bench.flush();
        bench.merge(0..2);
        assert_eq!(bench.versions(), 0, "nothing else needs the deletion");
    }
}

/// A write is committed, then a snapshot is created, and then the deletion of the written row is
/// committed. The snapshot sees only the write. For all other readers the deletion hides the write,
/// and must stay as long as the write does.
#[test]
fn a_deletion_stays_beside_what_it_deletes_in_another_stripe() {
    for head in ["a1", "a-"] {
        let bench = Bench::new();
        bench.write("a1", 90);
        bench.flush();
        bench.keyspace.create_snapshot("s").unwrap();
        bench.delete(head, 95);
        bench.flush();
        bench.wait_for_grace();
        bench.merge(0..2);
        assert_eq!(bench.versions(), 2);
        assert_eq!(bench.live("a"), 0, "{head}");
        let snapshot = bench.keyspace.snapshot("s").unwrap();
        let old = snapshot.table("users").unwrap();
        assert!(old.get(b"a1").unwrap().is_some());
    }
}

/// A deletion is committed, then a snapshot is created, and then a write with an older timestamp is
/// committed. The snapshot sees only the deletion. For all other readers the deletion hides the
/// write.
#[test]
fn a_snapshot_keeps_a_deletion_beside_what_it_deletes_above() {
    for head in ["a1", "a-"] {
        let bench = Bench::new();
        bench.delete(head, 95);
        bench.flush();
        bench.wait_for_grace();
        // The read time of the snapshot is after the grace.
        bench.keyspace.create_snapshot("s").unwrap();
        bench.write("a1", 90);
        bench.flush();
        bench.merge(0..2);
        assert_eq!(bench.live("a"), 0, "{head}");
    }
}

#[test]
fn a_reader_from_before_the_end_of_the_grace_keeps_what_it_judges() {
    let bench = Bench::new();
    let cell = Cell {
        timestamp: 99,
        kind: CellKind::Expires,
        local_s: 110,
        byte: 7,
    };
    bench
        .table
        .merge(b"a1", &encode(&[(1, cell)].into()))
        .unwrap();
    let view = bench.db.view();
    bench.write("a2", 99);
    bench.flush();
    bench.clock.advance_ms((GRACE_S as u64 + 11) * 1000);
    bench.merge(0..1);
    assert!(view.get(&bench.table, b"a1").unwrap().is_some());
    drop(view);
    bench.clock.advance_ms(3_600_000);
    bench.merge(0..1);
    assert!(bench.table.get(b"a1").unwrap().is_none());
}

#[test]
fn a_row_goes_under_the_head_that_its_readers_see_and_under_no_later_one() {
    let bench = Bench::new();
    bench.delete("a-", 50);
    bench.write("a1", 90);
    bench.keyspace.create_snapshot("s").unwrap();
    bench.delete("a-", 95);
    bench.flush();
    bench.merge(0..1);
    let snapshot = bench.keyspace.snapshot("s").unwrap();
    let old = snapshot.table("users").unwrap();
    assert!(old.get(b"a1").unwrap().is_some());
    assert_eq!(bench.live("a"), 0);
}

/// The head (first key) of a group may have a deletion of all rows of the group. One merge purges
/// that deletion and the rows that it deletes, whether the merge has one part or many.
#[test]
fn a_group_goes_whole() {
    for part_bytes in [u64::MAX, 1] {
        let bench = Bench::in_parts(KNOWS, part_bytes);
        bench.delete("a-", 95);
        bench.write("a1", 90);
        bench.write("a1", 96);
        bench.write("a2", 90);
        bench.flush();
        bench.wait_for_grace();
        bench.merge(0..1);
        assert_eq!((bench.versions(), bench.live("a")), (1, 1));
    }
}

/// A damaged row of a group cannot be purged. If the deletion in the group's head were purged
/// first, nothing would hide the row any more.
#[test]
fn the_deletions_of_a_group_stay_when_a_value_in_it_cannot_be_read() {
    let bench = Bench::new();
    bench.delete("a-", 95);
    bench.write("a1", 90);
    bench.table.merge(b"a2", b"damaged").unwrap();
    bench.flush();
    bench.wait_for_grace();
    bench.merge(0..1);
    assert!(bench.table.get(b"a-").unwrap().is_some());
}

/// A flush makes one version of a key's deletion (by the store's own delete) and an operand after
/// it; this version also hides the key's versions in an older run. When this version is purged,
/// something else must still hide the older ones.
#[test]
fn what_a_purged_value_replaced_stays_hidden() {
    let bench = Bench::new();
    bench.write("z1", 95);
    bench.flush();
    bench.table.delete(b"z1").unwrap();
    bench.delete("z1", 90);
    bench.flush();
    bench.write("z2", 99);
    bench.flush();
    bench.wait_for_grace();
    bench.merge(0..2);
    assert_eq!(bench.live("z1"), 0);
    bench.merge(0..2);
    assert_eq!((bench.live("z1"), bench.versions()), (0, 1));
}

#[test]
fn a_deletion_stays_beside_a_run_of_which_nothing_is_known() {
    let bench = Bench::with(LastWrite {
        knows_timestamps: false,
    });
    bench.write("a1", 90);
    bench.flush();
    let bench = bench.reopened(KNOWS);
    bench.delete("a1", 95);
    bench.flush();
    bench.write("a2", 99);
    bench.flush();
    bench.wait_for_grace();
    bench.merge(0..2);
    assert_eq!(bench.live("a1"), 0);
    bench.merge(0..2);
    assert_eq!((bench.live("a1"), bench.versions()), (0, 1));
}
