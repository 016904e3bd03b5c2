//! What the manifest says, and how an edit changes it. No I/O.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::key::{FileNumber, RunId, SeqNo, TableId};
use crate::mutation::{self, Mutation};
use crate::options::TableOptions;
use crate::runs::RunMeta;
use crate::snapshots::Bookmarks;

/// A table as the manifest knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableMeta {
    pub(crate) id: TableId,
    pub(crate) keyspace: String,
    pub(crate) name: String,
    pub(crate) options: TableOptions,
    /// Everything of this table numbered up to here is in its runs; replay
    /// skips it.
    pub(crate) flushed_seq: SeqNo,
    /// Newest first.
    pub(crate) runs: Vec<RunMeta>,
    /// Dropped by its user, and here for the snapshots that cover it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) dropped: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// All that the manifest says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    pub(crate) keyspaces: Vec<String>,
    pub(crate) tables: BTreeMap<TableId, TableMeta>,
    pub(crate) bookmarks: Bookmarks,
    /// WAL segments from this number on are needed; those below may be gone.
    pub(crate) wal_floor: FileNumber,
    /// SSTables that there are, or ever were, have smaller numbers.
    pub(crate) files_below: FileNumber,
    /// The largest id that a table ever had, those that are gone included.
    pub(crate) last_table_id: TableId,
}

/// One change, applied whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Edit {
    /// Everything: the first record of a manifest.
    State(State),
    AddKeyspace {
        name: String,
    },
    /// A keyspace without tables, but for dropped ones, is gone.
    DropKeyspace {
        name: String,
    },
    AddTable(TableMeta),
    /// Tables were dropped. Those `kept` are covered by a snapshot and stay for
    /// it; the others are forgotten.
    DropTables {
        kept: Vec<TableId>,
        forgotten: Vec<TableId>,
        bookmarks: Option<Bookmarks>,
    },
    /// A memtable became runs (newest first, perhaps none).
    Flush {
        table: TableId,
        flushed_seq: SeqNo,
        runs: Vec<RunMeta>,
        bookmarks: Option<Bookmarks>,
    },
    /// Neighbouring runs became one (or none, when nothing in them was needed).
    Compact {
        table: TableId,
        inputs: Vec<RunId>,
        output: Option<RunMeta>,
        bookmarks: Option<Bookmarks>,
    },
    /// SSTables may get numbers up to this one, it not included.
    ReserveFiles {
        below: FileNumber,
    },
    /// The WAL is needed only from here on; what its older segments say of
    /// bookmarks is in here.
    TrimWal {
        floor: FileNumber,
        bookmarks: Option<Bookmarks>,
    },
}

impl Edit {
    /// Whether it says which keyspaces and tables there are.
    pub(super) fn is_of_catalog(&self) -> bool {
        match self {
            Self::AddKeyspace { .. }
            | Self::DropKeyspace { .. }
            | Self::AddTable(_)
            | Self::DropTables { .. } => true,
            Self::State(_)
            | Self::Flush { .. }
            | Self::Compact { .. }
            | Self::ReserveFiles { .. }
            | Self::TrimWal { .. } => false,
        }
    }
}

impl State {
    /// Applies an edit.
    ///
    /// # Errors
    /// What does not fit; the state is unchanged then.
    pub(crate) fn apply(&mut self, edit: Edit) -> Result<(), String> {
        match edit {
            Edit::State(state) => *self = state,
            Edit::AddKeyspace { name } => {
                if self.keyspaces.contains(&name) {
                    return Err(format!("keyspace {name:?} is added twice"));
                }
                self.keyspaces.push(name);
            }
            Edit::DropKeyspace { name } => {
                let live = |table: &TableMeta| table.keyspace == name && !table.dropped;
                if self.tables.values().any(live) || !self.keyspaces.contains(&name) {
                    return Err(format!("keyspace {name:?} has tables, or is not there"));
                }
                self.keyspaces.retain(|keyspace| *keyspace != name);
            }
            Edit::AddTable(table) => {
                let (id, last) = (table.id, self.last_table_id);
                if id <= last {
                    return Err(format!("table {} is added after table {}", id.0, last.0));
                }
                self.tables.insert(id, table);
                self.last_table_id = id;
            }
            Edit::DropTables {
                kept,
                forgotten,
                bookmarks,
            } => {
                let mut all = kept.iter().chain(&forgotten);
                if let Some(id) = all.find(|id| !self.tables.contains_key(id)) {
                    return Err(format!("there is no table {}", id.0));
                }
                for id in kept {
                    self.table(id)?.dropped = true;
                }
                for id in forgotten {
                    self.tables.remove(&id);
                }
                self.set_bookmarks(bookmarks);
            }
            Edit::Flush {
                table,
                flushed_seq,
                runs,
                bookmarks,
            } => {
                let meta = self.table(table)?;
                if flushed_seq < meta.flushed_seq {
                    return Err(format!(
                        "table {} is flushed backwards to {flushed_seq}",
                        table.0
                    ));
                }
                meta.flushed_seq = flushed_seq;
                meta.runs.splice(0..0, runs);
                self.set_bookmarks(bookmarks);
            }
            Edit::Compact {
                table,
                inputs,
                output,
                bookmarks,
            } => {
                let runs = &mut self.table(table)?.runs;
                let start = runs.iter().position(|run| Some(&run.id) == inputs.first());
                let range = start.map(|start| start..start + inputs.len());
                let fits = range
                    .clone()
                    .and_then(|range| runs.get(range))
                    .is_some_and(|found| found.iter().map(|run| run.id).eq(inputs.iter().copied()));
                let Some(range) = range.filter(|_| fits) else {
                    return Err(format!(
                        "runs {inputs:?} of table {} are not neighbours",
                        table.0
                    ));
                };
                runs.splice(range, output);
                self.set_bookmarks(bookmarks);
            }
            Edit::ReserveFiles { below } => {
                if below < self.files_below {
                    return Err(format!("the bound of files goes back to {}", below.0));
                }
                self.files_below = below;
            }
            Edit::TrimWal { floor, bookmarks } => {
                if floor < self.wal_floor {
                    return Err(format!("the WAL floor goes back to {}", floor.0));
                }
                self.wal_floor = floor;
                self.set_bookmarks(bookmarks);
            }
        }
        Ok(())
    }

    /// The largest sequence number that is named anywhere.
    pub(crate) fn last_seq(&self) -> SeqNo {
        let tables = self.tables.values().flat_map(|table| {
            let runs = table.runs.iter().map(|run| run.largest_seq);
            runs.chain([table.flushed_seq])
        });
        let bookmarks = self.bookmarks.list.iter().map(|bookmark| bookmark.seq);
        tables
            .chain(bookmarks)
            .chain([self.bookmarks.as_of])
            .max()
            .unwrap_or_default()
    }

    /// All runs of all tables.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &RunMeta> {
        self.tables.values().flat_map(|table| &table.runs)
    }

    fn table(&mut self, id: TableId) -> Result<&mut TableMeta, String> {
        self.tables
            .get_mut(&id)
            .ok_or_else(|| format!("there is no table {}", id.0))
    }

    /// Takes over newer bookmarks. Flush and compaction each read them before
    /// their fsync, so the edit that comes later may bring the older ones.
    fn set_bookmarks(&mut self, bookmarks: Option<Bookmarks>) {
        let deaf = mutation::is(Mutation::KeepOldBookmarks) && self.bookmarks.as_of > SeqNo::ZERO;
        let is_news = |new: &Bookmarks| new.as_of > self.bookmarks.as_of && !deaf;
        if let Some(bookmarks) = bookmarks.filter(is_news) {
            self.bookmarks = bookmarks;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::snapshots::{Bookmark, SnapshotRecord};

    /// A compaction had read the bookmarks and waited for its fsync; meanwhile a
    /// snapshot was created, and a flush recorded it and let its WAL segment go.
    /// The compaction's edit then brought the older list back, and the snapshot
    /// was gone after a restart (a deleted one was back).
    #[test]
    fn an_edit_that_comes_late_does_not_bring_older_bookmarks_back() {
        let bookmark = |seq| Bookmark {
            seq: SeqNo(seq),
            record: SnapshotRecord {
                id: seq,
                keyspace: "app".into(),
                name: format!("s{seq}"),
                tables: Vec::new(),
                single_table: false,
                created_ms: 0,
                expires_ms: None,
            },
        };
        let bookmarks = |as_of, seqs: &[u64]| {
            Some(Bookmarks {
                as_of: SeqNo(as_of),
                last_id: as_of,
                list: seqs.iter().map(|&seq| bookmark(seq)).collect(),
            })
        };
        let trim = |floor, bookmarks| Edit::TrimWal {
            floor: FileNumber(floor),
            bookmarks,
        };
        let mut state = State::default();
        state.apply(trim(2, bookmarks(9, &[5, 9]))).unwrap();
        state.apply(trim(2, bookmarks(5, &[5]))).unwrap();
        assert_eq!(Some(state.bookmarks.clone()), bookmarks(9, &[5, 9]));
        state.apply(trim(2, bookmarks(12, &[9]))).unwrap();
        assert_eq!(Some(state.bookmarks), bookmarks(12, &[9]));
    }

    #[test]
    fn the_id_of_a_table_is_never_given_again() {
        let table = |id| TableMeta {
            id: TableId(id),
            keyspace: "app".into(),
            name: format!("t{id}"),
            options: TableOptions::default(),
            flushed_seq: SeqNo::ZERO,
            runs: Vec::new(),
            dropped: false,
        };
        let mut state = State::default();
        state.apply(Edit::AddTable(table(7))).unwrap();
        let forget = Edit::DropTables {
            kept: Vec::new(),
            forgotten: vec![TableId(7)],
            bookmarks: None,
        };
        state.apply(forget.clone()).unwrap();
        assert_eq!(state.last_table_id, TableId(7));
        state.apply(forget).unwrap_err();
        state.apply(Edit::AddTable(table(7))).unwrap_err();
        state.apply(Edit::AddTable(table(8))).unwrap();
    }
}
