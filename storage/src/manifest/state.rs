//! What the manifest says, and how an edit changes it. No I/O.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::files::FileNumber;
use crate::key::SeqNo;
use crate::options::TableOptions;
use crate::retention::Bookmarks;
use crate::run::{RunId, RunMeta};
use crate::version::TableId;

/// A table as the manifest knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// All that the manifest says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) keyspaces: Vec<String>,
    pub(crate) tables: BTreeMap<TableId, TableMeta>,
    pub(crate) bookmarks: Bookmarks,
    /// WAL segments from this number on are needed; those below may be gone.
    pub(crate) wal_floor: FileNumber,
}

impl Default for FileNumber {
    fn default() -> Self {
        Self(1)
    }
}

/// One change, applied whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Edit {
    /// Everything: the first record of a manifest.
    State(State),
    AddKeyspace {
        name: String,
    },
    AddTable(TableMeta),
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
    /// The WAL is needed only from here on; what its older segments say of
    /// bookmarks is in here.
    TrimWal {
        floor: FileNumber,
        bookmarks: Option<Bookmarks>,
    },
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
            Edit::AddTable(table) => {
                let id = table.id;
                if self.tables.insert(id, table).is_some() {
                    return Err(format!("table {} is added twice", id.0));
                }
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
        if let Some(bookmarks) = bookmarks.filter(|new| new.as_of > self.bookmarks.as_of) {
            self.bookmarks = bookmarks;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::retention::{Bookmark, SnapshotRecord};

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
}
