//! Reading of the log: the commits that are not in a run yet.

use std::io::ErrorKind;
use std::path::PathBuf;

use bytes::Bytes;

use super::super::report::Lost;
use super::sstables::Place;
use super::{Reader, TABLE_ID_MAX};
use crate::commit::{Op, OpReader};
use crate::error::{Error, Result};
use crate::key::{FileNumber, NUMBER_MAX, SeqNo, TableId};
use crate::log_store::read_all;
use crate::maintenance::db_files::DbFiles;
use crate::maintenance::verify::table_of;
use crate::memtable::Memtable;
use crate::options::TableOptions;
use crate::snapshots::SnapshotOp;
use crate::{files, wal};

impl Reader<'_> {
    /// Reads the entries of the log that are not in a run yet.
    pub(super) fn log(&mut self, files: &DbFiles) -> Result<()> {
        let numbers = self.state.wal_segments();
        let floor = numbers.start;
        let needed = files
            .segments
            .iter()
            .filter(|number| numbers.contains(*number));
        let needed: Vec<_> = needed.copied().collect();
        // The newest segment always stays. Only a database that repair made has no log before its first
        // write, which looks like a loss here; in a backup of it the range of numbers is empty.
        let gone = needed.is_empty() && !numbers.is_empty() && self.last_seq > SeqNo::ZERO;
        let mut expected = floor;
        let mut last = SeqNo::ZERO;
        // The last segment that was read: where it is, and where it should end.
        let mut before: Option<(PathBuf, u64, u64)> = None;
        for &number in &needed {
            if number > expected {
                before = None;
                // Beside a damaged manifest, a lost edit may have given up the segments before the
                // first one. Between two others they are most likely lost: segments are removed from
                // the oldest on, so only a loss of power can leave one below those that are gone.
                if self.exact || expected > floor {
                    self.missing_segments(expected, last);
                }
            }
            expected = number.next();
            let path = files::wal(self.dir, number);
            let bytes = match read_all(self.log_store, &path) {
                Ok(bytes) => Bytes::from(bytes),
                Err(error) if !error.is_of_file() => return Err(error),
                Err(error) => {
                    self.lose(error, None, "; its commits are lost");
                    // The next segment cannot show whether this one is cut off: it is lost anyway.
                    before = None;
                    continue;
                }
            };
            self.reading.expect(bytes.len() as u64);
            self.reading.add(bytes.len() as u64);
            self.reading.report(self.progress);
            wal::refuse_other_versions(&bytes, &path)?;
            let base = wal::base_lsn(&bytes);
            if let (Some((path, len, end)), Some(base)) = (before.take(), base)
                && base != end
            {
                let cut = Error::corruption(&path, len, "the segment is cut off here");
                self.lose(cut, None, &format!("; commits after {last} are lost"));
            }
            before = base.map(|base| {
                let records = bytes.len().saturating_sub(wal::SEGMENT_HEADER_BYTES);
                (
                    path.clone(),
                    bytes.len() as u64,
                    base.saturating_add(records as u64),
                )
            });
            if bytes.len() < wal::SEGMENT_HEADER_BYTES {
                let cut = Error::corruption(&path, 0, "the header of the segment is cut off");
                // Only the last segment may be one that a crash cut off before it had any commit.
                let what = if needed.last() == Some(&number) {
                    "; commits in it are lost, unless a crash cut it off before the first one"
                } else {
                    "; commits in it are lost"
                };
                self.lose(cut, None, what);
            }
            // Gathered apart, because `apply` borrows all of `self`.
            let (mut lost, mut failed) = (Vec::new(), None);
            wal::salvage_segment(
                &bytes,
                &mut last,
                |first, count, payload| {
                    let ops = operations(first, count, &payload)?;
                    // A failure here is no damage of the record, so it ends the repair below.
                    if failed.is_none() {
                        let mut ops = ops.into_iter();
                        failed = ops.try_for_each(|(seq, op)| self.apply(seq, op)).err();
                    }
                    Ok(())
                },
                |offset, bytes, detail| {
                    lost.push(Lost {
                        path: path.clone(),
                        offset,
                        bytes,
                        detail,
                        ..Lost::default()
                    });
                },
            );
            self.lost.extend(lost);
            if let Some(error) = failed {
                return Err(error);
            }
        }
        if gone && self.exact {
            self.missing_segments(floor, last);
        }
        self.last_seq = self.last_seq.max(last);
        Ok(())
    }

    fn missing_segments(&mut self, number: FileNumber, last: SeqNo) {
        let path = files::wal(self.dir, number);
        let missing = Error::corruption(&path, 0, "this WAL segment is missing");
        let unless = if self.exact {
            ""
        } else {
            ", unless the manifest had given it up"
        };
        self.lose(
            missing,
            None,
            &format!("; commits after {last} are lost{unless}"),
        );
    }

    /// Adds the effect of an operation in the log to the data that the repair saves.
    ///
    /// # Errors
    /// If an ingested file cannot be read for a reason that is no fault of the file.
    fn apply(&mut self, seq: SeqNo, op: Op<'_>) -> Result<()> {
        self.last_seq = self.last_seq.max(seq);
        let bookmarks = &mut self.state.bookmarks;
        match op {
            Op::Write {
                table,
                kind,
                key,
                value,
            } => {
                if let Some(memtable) = self.logged(table, seq) {
                    memtable.insert(key, seq, kind, value);
                }
            }
            Op::RangeDelete { table, range } => {
                if let Some(memtable) = self.logged(table, seq) {
                    memtable.delete_range(&range, seq);
                }
            }
            Op::Snapshot(op) if seq > bookmarks.as_of => {
                match &op {
                    // A snapshot of the same name was deleted before, even if the log has lost
                    // that.
                    SnapshotOp::Create(record) => bookmarks.list.retain(|bookmark| {
                        let before = &bookmark.record;
                        (&before.keyspace, &before.name) != (&record.keyspace, &record.name)
                    }),
                    // The creation may be lost. An id out of all bounds is damaged, and the new
                    // database would not open with it. (The decoder refuses such a creation, but
                    // no deletion.)
                    SnapshotOp::Delete(id) if *id < NUMBER_MAX => {
                        bookmarks.last_id = bookmarks.last_id.max(*id);
                    }
                    _ => {}
                }
                bookmarks.apply(seq, op);
            }
            Op::Ingest { table, run } => {
                let counts = self.logged(table, seq).is_some();
                let run = run.ingested_by(seq);
                for file in run.files.iter().filter(|_| counts) {
                    let opened = self.tables.open(file.number.0);
                    let is_gone = opened.is_err_and(|error| error.kind() == ErrorKind::NotFound);
                    // The file is gone if it was merged: the lost manifest had recorded that.
                    if self.exact || !is_gone {
                        self.unclaimed.remove(&file.number);
                        self.file(file.number, Some(Place::of(table, &run, file)))?;
                    }
                }
            }
            // The manifest has the operation already.
            Op::Snapshot(_) => {}
        }
        Ok(())
    }

    /// Returns the memtable that collects the entries of the log for `table`. `None` if the entry
    /// with the sequence number `seq` must be left out, because the table was dropped, or because
    /// the entry was flushed: a merge may have dropped it since.
    fn logged(&mut self, table: TableId, seq: SeqNo) -> Option<&Memtable> {
        if self.is_forgotten(table) {
            return None;
        }
        self.unknown_table |= !self.state.tables.contains_key(&table);
        self.table(table, TableOptions::default());
        let counts = seq > self.state.tables[&table].flushed_seq;
        counts.then(|| &**self.logged.entry(table).or_default())
    }
}

/// Decodes the operations of a commit, which announces `count` of them, numbered from `first` on. The
/// error describes what no valid commit contains.
fn operations(first: SeqNo, count: u32, payload: &[u8]) -> Result<Vec<(SeqNo, Op<'_>)>, String> {
    let ops: Vec<_> = OpReader::new(payload, first).collect::<Result<_, _>>()?;
    if ops.len() != count as usize {
        return Err(format!(
            "{} operations where {count} are announced",
            ops.len()
        ));
    }
    let tables = ops.iter().filter_map(|(_, op)| table_of(op));
    if let Some(table) = tables.max().filter(|table| *table > TABLE_ID_MAX) {
        return Err(format!("table id {} is out of all bounds", table.0));
    }
    Ok(ops)
}
