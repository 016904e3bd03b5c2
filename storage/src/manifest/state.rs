//! The state that the manifest records, and the effects of edits. No I/O.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::database_id::DatabaseId;
use crate::key::{FileNumber, KeyBounds, NUMBER_MAX, RunId, SeqNo, TableId};
use crate::mutation::{self, Mutation};
use crate::options::TableOptions;
use crate::runs::{FileMeta, Quarantine, RunMeta};
use crate::snapshots::{Bookmarks, Lifetime, SnapshotChanges, TableSpan};
use crate::sstable::SsTableOptions;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableMeta {
    pub(crate) id: TableId,
    pub(crate) keyspace: String,
    pub(crate) name: String,
    pub(crate) options: TableOptions,
    /// The sequence number up to which every write to this table is in its runs. The replay of the
    /// log, when the database is opened, skips these writes.
    pub(crate) flushed_seq: SeqNo,
    /// The runs, newest first.
    pub(crate) runs: Vec<RunMeta>,
    /// The commits between which the table exists. The manifest keeps a dropped table as long as a
    /// snapshot covers it.
    pub(crate) lifetime: Lifetime,
}

impl TableMeta {
    /// Returns a table of the keyspace `app` without runs, for tests.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn example(id: u32) -> Self {
        Self {
            id: TableId(id),
            keyspace: "app".into(),
            name: format!("t{id}"),
            options: TableOptions::default(),
            flushed_seq: SeqNo::ZERO,
            runs: Vec::new(),
            lifetime: Lifetime::default(),
        }
    }

    pub(crate) fn span(&self) -> TableSpan<'_> {
        TableSpan {
            keyspace: &self.keyspace,
            id: self.id,
            lifetime: self.lifetime,
        }
    }

    /// Returns the description of a contradiction: the keyspace of this table is not listed.
    pub(super) fn without_keyspace(&self) -> String {
        let Self { keyspace, name, .. } = self;
        let id = self.id.0;
        format!("table {id}, {keyspace}.{name}, is in no keyspace that is listed")
    }

    /// Returns the description of a contradiction: this table and the earlier table `other` have the same
    /// name, and neither was dropped.
    pub(super) fn of_one_name_with(&self, other: &Self) -> String {
        let Self { keyspace, name, .. } = self;
        let (first, second) = (other.id.0, self.id.0);
        format!("tables {first} and {second} both have the name {keyspace}.{name}")
    }
}

/// The whole state of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    pub(crate) keyspaces: Vec<String>,
    pub(crate) tables: BTreeMap<TableId, TableMeta>,
    pub(crate) bookmarks: Bookmarks,
    /// The first WAL segment that is needed; those with smaller numbers may have been removed.
    pub(crate) wal_floor: FileNumber,
    /// A file number above those of all SSTables that exist or ever existed.
    pub(crate) files_below: FileNumber,
    /// The largest id that a table ever had, those of removed tables included.
    pub(crate) last_table_id: TableId,
    /// The mark of a backup. The first opening for writing removes the mark, because the directory
    /// is a database of its own from then on. `None` in a directory that is no backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) backup: Option<BackupMark>,
}

/// The mark of a backup that was not opened for writing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackupMark {
    /// The database that was backed up.
    pub(crate) source: DatabaseId,
    /// The number after that of the last WAL segment of this backup; `wal_floor` if the backup has
    /// no segment. If segments with this or a larger number exist, an interrupted later backup into
    /// the same directory left them.
    pub(crate) wal_end: FileNumber,
}

/// One change of the manifest's state, applied whole or not at all.
///
/// The field `snapshots` of an edit has the operations on snapshots that the edit relies on and that
/// the manifest did not have before; `None` if there are none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Edit {
    /// The whole state: the first record of a manifest.
    State(State),
    AddKeyspace {
        name: String,
    },
    /// Removes a keyspace whose tables, if it has any, are all dropped.
    DropKeyspace {
        name: String,
    },
    AddTable(TableMeta),
    /// Sets the format options of new files of a table.
    AlterTable {
        table: TableId,
        sstable: SsTableOptions,
    },
    /// Drops tables. The `kept` ones, each with the last commit before its drop, stay because a
    /// snapshot covers them; the `forgotten` ones are removed.
    DropTables {
        kept: Vec<(TableId, SeqNo)>,
        forgotten: Vec<TableId>,
        snapshots: Option<SnapshotChanges>,
    },
    /// Adds the runs that a flush wrote. A flush writes the oldest memtable of each of one or more
    /// tables.
    Flush {
        tables: Vec<FlushedTable>,
        snapshots: Option<SnapshotChanges>,
    },
    /// Replaces neighbouring runs, or the part of them before a key, by one run, or by no run if
    /// nothing in them was needed.
    Compact {
        table: TableId,
        inputs: Vec<RunId>,
        /// The key range that is still to be merged, after one part of a merge in parts. The inputs
        /// stay, but their keys before the start of this range no longer count. `None` if all keys
        /// were merged: then the inputs are removed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rest: Option<KeyBounds>,
        /// The run with the output of the earlier parts of this merge. This edit adds the output of
        /// this part to that run, which directly follows the inputs in the list of runs. `None` for
        /// the first part, and for a merge in one part.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        onto: Option<RunId>,
        output: Option<RunMeta>,
        snapshots: Option<SnapshotChanges>,
    },
    /// Records that a file of a run is damaged on the disk. The file stays in the run.
    Quarantine {
        table: TableId,
        file: FileNumber,
        quarantine: Quarantine,
    },
    /// Replaces the record of the damaged file `file` by `by`, the record of a copy of the same
    /// SSTable from a backup. The copy has another number, unless the file was missing. If the file
    /// was found to be whole after all, `by` is its own record without the damage, which ends the
    /// quarantine.
    Restore {
        table: TableId,
        file: FileNumber,
        by: FileMeta,
    },
    /// Replaces a file that is damaged or cannot be read by the files `by` (perhaps none), which have
    /// the readable part of it. A run that has no files left is removed.
    AcceptLoss {
        table: TableId,
        file: FileNumber,
        by: Vec<FileMeta>,
    },
    /// Reserves the numbers below `below`: new SSTables may get them without another edit.
    ReserveFiles {
        below: FileNumber,
    },
    /// Makes `floor` the first WAL segment that is needed. The manifest must then have all operations
    /// on snapshots in the older segments, so `snapshots` adds those that it lacked.
    TrimWal {
        floor: FileNumber,
        snapshots: Option<SnapshotChanges>,
    },
}

/// The flush of the oldest memtable of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlushedTable {
    pub(crate) table: TableId,
    pub(crate) flushed_seq: SeqNo,
    /// The runs, newest first, perhaps none.
    pub(crate) runs: Vec<RunMeta>,
}

impl State {
    /// Returns the range of the numbers that needed WAL segments may have. In a backup, the range
    /// ends after the last segment of the backup's log; otherwise it ends at [`NUMBER_MAX`], a
    /// number that no segment ever gets.
    pub(crate) fn wal_segments(&self) -> Range<FileNumber> {
        let end = self
            .backup
            .map_or(FileNumber(NUMBER_MAX), |mark| mark.wal_end);
        self.wal_floor..end
    }

    /// Applies an edit.
    ///
    /// # Errors
    /// Describes what does not fit the state. The state is unchanged then.
    pub(crate) fn apply(&mut self, edit: Edit) -> Result<(), String> {
        self.check_edit(&edit)?;
        match edit {
            Edit::State(state) => *self = state,
            Edit::AddKeyspace { name } => self.keyspaces.push(name),
            Edit::DropKeyspace { name } => self.keyspaces.retain(|keyspace| *keyspace != name),
            // The id stays the last one when the table is removed.
            Edit::AddTable(table) => {
                self.last_table_id = table.id;
                self.tables.insert(table.id, table);
            }
            Edit::AlterTable { table, sstable } => self.table_mut(table).options.sstable = sstable,
            Edit::DropTables {
                kept,
                forgotten,
                snapshots,
            } => {
                for (id, last) in kept {
                    self.table_mut(id).lifetime.dropped_after = Some(last);
                }
                for id in forgotten {
                    self.tables.remove(&id);
                }
                self.note_snapshots(snapshots);
            }
            Edit::Flush { tables, snapshots } => {
                for flushed in tables {
                    let meta = self.table_mut(flushed.table);
                    meta.flushed_seq = flushed.flushed_seq;
                    // Before the others: they are newer than all runs of the table.
                    meta.runs.splice(0..0, flushed.runs);
                }
                self.note_snapshots(snapshots);
            }
            Edit::Compact {
                table,
                inputs,
                rest,
                onto,
                output,
                snapshots,
            } => {
                let runs = &mut self.table_mut(table).runs;
                let range = neighbours(runs, &inputs).expect("it was checked");
                let key = rest.map(|rest| rest.range().start.clone());
                // Each part of a merge adds to the run with the earlier parts, which stands behind the
                // inputs. The inputs keep the keys of the parts to come.
                let onto = onto.map(|_| runs.remove(range.end));
                let merged = RunMeta::merged(onto, output, key.as_ref());
                let left: Vec<_> = match &key {
                    Some(key) => runs[range.clone()]
                        .iter_mut()
                        .filter_map(|run| {
                            run.begin_at(key);
                            (!run.files.is_empty()).then(|| run.clone())
                        })
                        .collect(),
                    None => Vec::new(),
                };
                runs.splice(range, left.into_iter().chain(merged));
                self.note_snapshots(snapshots);
            }
            Edit::Quarantine {
                table,
                file,
                quarantine,
            } => {
                self.file_mut(table, file).quarantine = Some(quarantine);
            }
            Edit::Restore { table, file, by } => *self.file_mut(table, file) = by,
            Edit::AcceptLoss { table, file, by } => {
                let runs = &mut self.table_mut(table).runs;
                let has_file = |run: &RunMeta| run.numbers().any(|number| number == file);
                let at = runs.iter().position(has_file).expect("it was checked");
                runs[at].replace_file(file, by);
                // A state with a run without files is refused: see `State::check`.
                if runs[at].files.is_empty() {
                    runs.remove(at);
                }
            }
            Edit::ReserveFiles { below } => self.files_below = below,
            Edit::TrimWal { floor, snapshots } => {
                self.wal_floor = floor;
                self.note_snapshots(snapshots);
            }
        }
        Ok(())
    }

    /// Returns an error, which describes the contradiction, if the edit does not fit this state. Looks
    /// only at what the edit changes. [`check`](Self::check) finds the other contradictions: it reads
    /// the whole state, so a replay of the manifest calls it once, after all edits.
    pub(super) fn check_edit(&self, edit: &Edit) -> Result<(), String> {
        match edit {
            // It replaces this state, so there is nothing that it must fit.
            Edit::State(_) => {}
            Edit::AddKeyspace { name } => {
                if self.keyspaces.contains(name) {
                    return Err(format!("keyspace {name:?} is added twice"));
                }
            }
            Edit::DropKeyspace { name } => {
                let live =
                    |table: &TableMeta| table.keyspace == *name && !table.lifetime.is_dropped();
                if self.tables.values().any(live) || !self.keyspaces.contains(name) {
                    return Err(format!("keyspace {name:?} has tables, or is not there"));
                }
            }
            Edit::AddTable(table) => {
                // An id is never given twice: files and log records of removed tables have theirs.
                let (id, last) = (table.id, self.last_table_id);
                if id <= last {
                    return Err(format!("table {} is added after table {}", id.0, last.0));
                }
                if !self.keyspaces.contains(&table.keyspace) {
                    return Err(table.without_keyspace());
                }
                // A live table of the same name is found by `check` at the end of a replay: to look for
                // it here would take time in proportion to the tables, for each table that is added.
            }
            Edit::AlterTable { table, .. } => {
                self.table(*table)?;
            }
            Edit::DropTables {
                kept, forgotten, ..
            } => {
                let kept = kept.iter().map(|(id, _)| id);
                let mut all = kept.chain(forgotten);
                all.try_for_each(|id| self.table(*id).map(drop))?;
            }
            Edit::Flush { tables, .. } => {
                let mut seen = HashSet::new();
                for flushed in tables {
                    let id = flushed.table;
                    if flushed.flushed_seq < self.table(id)?.flushed_seq {
                        return Err(format!(
                            "table {} is flushed backwards to {}",
                            id.0, flushed.flushed_seq
                        ));
                    }
                    if !seen.insert(id) {
                        return Err(format!("table {} is flushed twice at once", id.0));
                    }
                }
            }
            Edit::Compact {
                table,
                inputs,
                rest,
                onto,
                output,
                ..
            } => {
                let all: Vec<_> = inputs.iter().chain(onto).copied().collect();
                let runs = &self.table(*table)?.runs;
                let found = neighbours(runs, &all).filter(|_| !inputs.is_empty());
                let Some(found) = found else {
                    return Err(format!(
                        "runs {all:?} of table {} are not neighbours",
                        table.0
                    ));
                };
                // A merge in parts proceeds by key. All inputs begin where the output of the earlier
                // parts ends, and a rest begins above that. A part that leaves a rest has an
                // output, because the end of the output records how far the merge is. The output
                // has no bounds yet: `RunMeta::merged` sets them.
                let (merged, before) = runs[found].split_at(inputs.len());
                let begins = merged[0].begins_at();
                let is_behind = |rest: &KeyBounds| {
                    let start = &rest.range().start;
                    !start.is_empty() && begins.is_none_or(|key| key < start) && output.is_some()
                };
                if merged.iter().any(|run| run.begins_at() != begins)
                    || before.iter().any(|run| run.ends_before() != begins)
                    || !rest.as_ref().is_none_or(is_behind)
                    || output.as_ref().is_some_and(|run| run.keys.is_some())
                {
                    return Err(format!(
                        "runs {all:?} of table {} are not one merge that goes on",
                        table.0
                    ));
                }
            }
            Edit::Quarantine { table, file, .. }
            | Edit::Restore { table, file, .. }
            | Edit::AcceptLoss { table, file, .. } => {
                self.file(*table, *file)?;
            }
            Edit::ReserveFiles { below } => {
                if *below < self.files_below {
                    return Err(format!("the bound of files goes back to {}", below.0));
                }
            }
            Edit::TrimWal { floor, .. } => {
                if *floor < self.wal_floor {
                    return Err(format!("the WAL floor goes back to {}", floor.0));
                }
            }
        }
        Ok(())
    }

    /// Returns the largest sequence number in the state: that of a run, of a flush, of the creation
    /// or drop of a table, or of an operation on snapshots.
    pub(crate) fn last_seq(&self) -> SeqNo {
        let tables = self.tables.values().flat_map(|table| {
            let runs = table.runs.iter().map(|run| run.largest_seq);
            runs.chain([table.flushed_seq, table.lifetime.last_seq()])
        });
        let bookmarks = self.bookmarks.list.iter().map(|bookmark| bookmark.seq);
        tables
            .chain(bookmarks)
            .chain([self.bookmarks.as_of])
            .max()
            .unwrap_or_default()
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = &RunMeta> {
        self.tables.values().flat_map(|table| &table.runs)
    }

    pub(crate) fn has_file(&self, table: TableId, number: FileNumber) -> bool {
        self.file(table, number).is_ok()
    }

    fn table(&self, id: TableId) -> Result<&TableMeta, String> {
        let found = self.tables.get(&id);
        found.ok_or_else(|| format!("there is no table {}", id.0))
    }

    fn file(&self, table: TableId, number: FileNumber) -> Result<&FileMeta, String> {
        let mut files = self.table(table)?.runs.iter().flat_map(|run| &run.files);
        let found = files.find(|file| file.number == number);
        found.ok_or_else(|| format!("table {} has no file {}", table.0, number.0))
    }

    /// Returns the table with this id.
    ///
    /// # Panics
    /// If the table does not exist.
    fn table_mut(&mut self, id: TableId) -> &mut TableMeta {
        self.tables.get_mut(&id).expect("it was checked")
    }

    /// Returns the file with this number of a table.
    ///
    /// # Panics
    /// If the table does not exist, or has no such file.
    fn file_mut(&mut self, table: TableId, number: FileNumber) -> &mut FileMeta {
        let runs = self.table_mut(table).runs.iter_mut();
        let mut files = runs.flat_map(|run| &mut run.files);
        let found = files.find(|file| file.number == number);
        found.expect("it was checked")
    }

    /// Applies those operations on snapshots in `changes` that are newer than the state. `changes` is
    /// `None` if the edit has no such operations.
    fn note_snapshots(&mut self, changes: Option<SnapshotChanges>) {
        let deaf = mutation::is(Mutation::KeepOldBookmarks) && self.bookmarks.as_of > SeqNo::ZERO;
        if let Some(changes) = changes.filter(|_| !deaf) {
            self.bookmarks.catch_up(changes);
        }
    }
}

/// Returns the positions of the runs with these ids; `None` if they are not neighbours in this
/// order.
fn neighbours(runs: &[RunMeta], ids: &[RunId]) -> Option<Range<usize>> {
    let start = runs.iter().position(|run| Some(&run.id) == ids.first())?;
    let range = start..start + ids.len();
    let found = runs.get(range.clone())?.iter().map(|run| run.id);
    found.eq(ids.iter().copied()).then_some(range)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::snapshots::{SnapshotOp, SnapshotRecord};

    /// Returns the state of a database without tables, with the keyspace of the tables in these tests.
    fn with_keyspace() -> State {
        State {
            keyspaces: vec!["app".into()],
            ..State::default()
        }
    }

    /// Regression: a compaction read the bookmarks (the list of snapshots) and waited for its
    /// fsync. Meanwhile a snapshot was created, and a flush recorded it, so that its WAL segment
    /// was removed. Then the compaction's edit brought the older list back, and after a restart the
    /// snapshot was gone (or a deleted one was back).
    #[test]
    fn an_edit_that_comes_late_does_not_bring_older_bookmarks_back() {
        let create = |seq| (SeqNo(seq), SnapshotOp::Create(SnapshotRecord::example(seq)));
        let delete = |seq, id| (SeqNo(seq), SnapshotOp::Delete(id));
        let trim = |floor, as_of, ops: &[_]| Edit::TrimWal {
            floor: FileNumber(floor),
            snapshots: Some(SnapshotChanges {
                as_of: SeqNo(as_of),
                ops: ops.to_vec(),
            }),
        };
        let found = |state: &State| {
            let seqs = state.bookmarks.list.iter().map(|bookmark| bookmark.seq.0);
            (state.bookmarks.as_of.0, seqs.collect::<Vec<_>>())
        };
        let mut state = State::default();
        state.apply(trim(2, 9, &[create(5), create(9)])).unwrap();
        state.apply(trim(2, 5, &[create(5)])).unwrap();
        assert_eq!(found(&state), (9, vec![5, 9]));
        let news = [create(9), delete(12, 5)];
        state.apply(trim(2, 12, &news)).unwrap();
        assert_eq!(found(&state), (12, vec![9]));
        state.apply(trim(2, 9, &[create(5), create(9)])).unwrap();
        assert_eq!(found(&state), (12, vec![9]));
    }

    /// Regression: a damaged edit for a part of a merge had bounds that made a key range end before it
    /// begins.
    #[test]
    fn a_part_that_no_merge_could_install_is_refused() {
        use crate::key::KeyRange;
        use bytes::Bytes;

        let key = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let run = |id: u64, keys| RunMeta {
            keys,
            ..RunMeta::example(id, &[id])
        };
        let mut state = with_keyspace();
        let table = TableMeta {
            flushed_seq: SeqNo(5),
            runs: vec![
                run(3, KeyBounds::between(key("m"), None)),
                run(2, KeyBounds::between(None, key("m"))),
                run(1, None),
            ],
            ..TableMeta::example(1)
        };
        state.apply(Edit::AddTable(table)).unwrap();
        let part = |inputs: &[u64], rest, onto: Option<u64>, output| Edit::Compact {
            table: TableId(1),
            inputs: inputs.iter().copied().map(RunId).collect(),
            rest,
            onto: onto.map(RunId),
            output,
            snapshots: None,
        };
        let rest = |text| KeyBounds::between(key(text), None);
        let from_the_first = KeyBounds::exactly(KeyRange::all());
        let before = state.clone();
        for (fault, bad) in [
            ("no inputs", part(&[], rest("p"), None, Some(run(9, None)))),
            (
                "`onto` is not the run behind the inputs",
                part(&[3], rest("p"), Some(1), Some(run(9, None))),
            ),
            (
                "the rest begins where the input begins",
                part(&[3], rest("m"), Some(2), Some(run(9, None))),
            ),
            (
                "a rest without an output",
                part(&[3], rest("p"), Some(2), None),
            ),
            (
                "an output that has bounds already",
                part(&[3], rest("p"), Some(2), Some(run(9, rest("z")))),
            ),
            (
                "a rest from the first key on",
                part(&[2, 1], Some(from_the_first), None, Some(run(9, None))),
            ),
            (
                "inputs that begin at different keys",
                part(&[3, 2], None, None, Some(run(9, None))),
            ),
        ] {
            assert!(state.apply(bad).is_err(), "{fault}");
            assert_eq!(state, before);
        }
        let good = part(&[3], rest("p"), Some(2), Some(run(9, None)));
        state.apply(good).unwrap();
        let runs = &state.tables[&TableId(1)].runs;
        assert_eq!(runs[0].begins_at(), key("p").as_ref());
        assert_eq!(runs[1].ends_before(), key("p").as_ref());
        assert_eq!((runs.len(), runs[1].files.len()), (3, 2));
    }

    /// An edit has no effect if a part of it does not fit.
    #[test]
    fn an_edit_that_does_not_fit_changes_nothing() {
        let table = |id| TableMeta {
            flushed_seq: SeqNo(5),
            ..TableMeta::example(id)
        };
        let mut state = with_keyspace();
        state.apply(Edit::AddTable(table(1))).unwrap();
        state.apply(Edit::AddTable(table(2))).unwrap();
        let before = state.clone();
        let flushed = |id, seq| FlushedTable {
            table: TableId(id),
            flushed_seq: SeqNo(seq),
            runs: Vec::new(),
        };
        for tables in [
            vec![flushed(1, 9), flushed(2, 4)],
            vec![flushed(1, 9), flushed(3, 9)],
            vec![flushed(1, 9), flushed(1, 10)],
        ] {
            let snapshots = None;
            state.apply(Edit::Flush { tables, snapshots }).unwrap_err();
            assert_eq!(state, before);
        }
        let forget = Edit::DropTables {
            kept: vec![(TableId(1), SeqNo(9))],
            forgotten: vec![TableId(3)],
            snapshots: None,
        };
        state.apply(forget).unwrap_err();
        let damaged = |table| Edit::Quarantine {
            table: TableId(table),
            file: FileNumber(7),
            quarantine: Quarantine {
                offset: 0,
                detail: "a bit".into(),
            },
        };
        let restore = Edit::Restore {
            table: TableId(1),
            file: FileNumber(7),
            by: FileMeta::of_nothing(8),
        };
        let accept_loss = Edit::AcceptLoss {
            table: TableId(1),
            file: FileNumber(7),
            by: Vec::new(),
        };
        for edit in [damaged(1), damaged(3), restore, accept_loss] {
            state.apply(edit).unwrap_err();
        }
        assert_eq!(state, before);
    }

    #[test]
    fn files_that_replace_a_lost_one_have_its_place_and_a_run_without_files_is_gone() {
        let run = RunMeta::example;
        let table = TableMeta {
            flushed_seq: SeqNo(5),
            runs: vec![run(9, &[5]), run(8, &[2, 3, 4])],
            ..TableMeta::example(1)
        };
        let mut state = with_keyspace();
        state.apply(Edit::AddTable(table)).unwrap();
        let mut accept_loss = |file, by: &[u64]| {
            let edit = Edit::AcceptLoss {
                table: TableId(1),
                file: FileNumber(file),
                by: by.iter().copied().map(FileMeta::of_nothing).collect(),
            };
            state.apply(edit).unwrap();
            let runs = state.tables[&TableId(1)].runs.iter();
            let files = |run: &RunMeta| run.numbers().map(|number| number.0).collect();
            runs.map(files).collect::<Vec<Vec<u64>>>()
        };
        assert_eq!(accept_loss(3, &[6, 7]), [vec![5], vec![2, 6, 7, 4]]);
        assert_eq!(accept_loss(2, &[]), [vec![5], vec![6, 7, 4]]);
        assert_eq!(accept_loss(5, &[]), [vec![6, 7, 4]]);
    }

    #[test]
    fn the_id_of_a_table_is_never_given_again() {
        let table = TableMeta::example;
        let mut state = with_keyspace();
        state.apply(Edit::AddTable(table(7))).unwrap();
        let forget = Edit::DropTables {
            kept: Vec::new(),
            forgotten: vec![TableId(7)],
            snapshots: None,
        };
        state.apply(forget.clone()).unwrap();
        assert_eq!(state.last_table_id, TableId(7));
        state.apply(forget).unwrap_err();
        state.apply(Edit::AddTable(table(7))).unwrap_err();
        state.apply(Edit::AddTable(table(8))).unwrap();
    }
}
