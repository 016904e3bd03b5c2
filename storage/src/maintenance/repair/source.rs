//! Reading of the damaged database: the files that are in use, and their contents.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use super::names::{TableName, TableNames};
use super::reading::Reading;
use super::replaced::Extent;
use super::report::Lost;
use super::{Versions, report};
use crate::commit::{Op, OpReader};
use crate::db::check_name;
use crate::error::{Error, Result};
use crate::key::{
    Boundaries, FileNumber, KeyRange, Kind, NUMBER_MAX, RangeTombstone, RangeTombstones, SeqNo,
    TableId,
};
use crate::log_store::LogStore;
use crate::maintenance::db_files::DbFiles;
use crate::maintenance::progress::MaintenanceProgress;
use crate::maintenance::verify::{finding, table_of};
use crate::manifest::{SalvagedManifest, State, TableMeta, salvage_manifest};
use crate::memtable::{Memtable, version_of};
use crate::mutation::{self, Mutation};
use crate::options::TableOptions;
use crate::read::MergeOperators;
use crate::runs::{FileMeta, RunMeta};
use crate::snapshots::Lifetime;
use crate::sstable::{FileId, KeyVersion, LostBlock, Salvage};
use crate::table_store::TableStore;
use crate::{files, wal};

/// The keyspace of tables whose names are lost.
const RECOVERED: &str = "recovered";

/// The largest id of a table in a database that opens: one more id is left for the next new table.
const TABLE_ID_MAX: TableId = TableId(u32::MAX - 1);

/// A source (a file or the log) of a table's versions, sorted by key, and the known facts about
/// them.
pub(super) type TableSource = (Extent, Versions);

/// A table with all files and parts of the log that have versions of it. If two of these sources
/// have the same version, the first one's is used.
pub(super) struct SourceTable {
    pub(super) meta: TableMeta,
    pub(super) sources: Vec<TableSource>,
    pub(super) tombstones: RangeTombstones,
}

/// The data that a repair found in the old directory.
pub(super) struct Source {
    /// The state with the keyspaces and the bookmarks (the snapshots with their commits). Its
    /// tables are not used: see `tables`.
    pub(super) state: State,
    pub(super) tables: Vec<SourceTable>,
    /// The largest sequence number of all versions and snapshots, lost ones included as far as
    /// their numbers are known.
    pub(super) last_seq: SeqNo,
    pub(super) lost: Vec<report::Lost>,
}

impl Source {
    /// Reads the manifest, the SSTables and the log, as far as they are readable.
    pub(super) fn read(
        log_store: &dyn LogStore,
        tables: &dyn TableStore,
        dir: &Path,
        files: &DbFiles,
        operators: &MergeOperators,
        (reading, progress): (&Rc<Reading>, &mut dyn FnMut(MaintenanceProgress)),
    ) -> Result<Self> {
        let mut manifest = salvage_manifest(log_store, dir, &files.manifests)?;
        // If files of the state before a torn last record are missing, that record took effect, and
        // then it is damage. Otherwise it is taken for a write that a crash cut off.
        let mut torn = manifest.torn.take();
        if manifest.damage.is_none() && lacks_files(&manifest, files) {
            manifest.damage = torn.take();
        }
        let mut reader = Reader {
            log_store,
            tables,
            dir,
            operators,
            exact: manifest.damage.is_none() && manifest.state.is_some(),
            state: State::default(),
            sources: BTreeMap::new(),
            unclaimed: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            logged: BTreeMap::new(),
            names: TableNames::default(),
            last_seq: SeqNo::ZERO,
            listed_to: TableId::default(),
            unknown_table: false,
            lost: Vec::new(),
            reading: reading.clone(),
            progress,
        };
        reader.take_manifest(manifest, files);
        if reader.exact {
            reader.files_of_runs()?;
        } else {
            reader.all_files(files)?;
        }
        // After the files: the log may name the table of a file that records none.
        reader.log(files)?;
        // A table is in the manifest before the log has writes to it. So an edit of the manifest is
        // lost: the torn record, if there is one.
        if reader.unknown_table && reader.exact {
            let damage = torn.unwrap_or_else(|| {
                Error::corruption(
                    &files::current(dir),
                    0,
                    "the log has tables that are not listed",
                )
            });
            let what = "; the names and options of new tables are lost";
            reader.lose(damage, None, what);
        }
        Ok(reader.finish())
    }
}

/// The table and the run that a file belongs to, according to the manifest or the log.
#[derive(Debug, Clone)]
struct Place {
    table: TableId,
    /// The id of the file: another file may have come under its number.
    id: FileId,
    /// The smallest and the largest sequence number that the run of the file may have.
    span: (SeqNo, SeqNo),
    /// The one sequence number that all versions of the file have, if the file was ingested.
    ingested_at: Option<SeqNo>,
    /// The run's key range, if keys of its files outside of that range are no longer valid.
    keys: Option<KeyRange>,
}

impl Place {
    fn of(table: TableId, run: &RunMeta, file: &FileMeta) -> Self {
        Self {
            table,
            id: file.id,
            span: (run.smallest_seq, run.largest_seq),
            ingested_at: run.ingested_at,
            keys: run.keys.as_ref().map(|keys| keys.range().clone()),
        }
    }
}

struct Reader<'a> {
    reading: Rc<Reading>,
    progress: &'a mut dyn FnMut(MaintenanceProgress),
    log_store: &'a dyn LogStore,
    tables: &'a dyn TableStore,
    dir: &'a Path,
    operators: &'a MergeOperators,
    /// Whether the manifest is undamaged, so that its list of files is complete.
    exact: bool,
    state: State,
    /// The sources (files) of each table's versions, newest first, each with the number under which
    /// its file was written. An undamaged manifest lists them in order; without one they are sorted
    /// by this number.
    sources: BTreeMap<TableId, Vec<(u64, TableSource)>>,
    /// Files whose table is not known yet; the log may name it.
    unclaimed: BTreeMap<FileNumber, Lost>,
    tombstones: BTreeMap<TableId, Vec<RangeTombstone>>,
    /// The entries of each table that were found in the log.
    logged: BTreeMap<TableId, Arc<Memtable>>,
    /// The names of tables that the manifest does not list.
    names: TableNames,
    last_seq: SeqNo,
    /// The largest id that a table ever had, as the manifest records it.
    listed_to: TableId,
    /// Whether the log writes to a table that the manifest does not list.
    unknown_table: bool,
    lost: Vec<Lost>,
}

/// Returns whether the directory lacks a file of the manifest's runs, or the oldest segment of the
/// log that the manifest's state needs.
fn lacks_files(manifest: &SalvagedManifest, files: &DbFiles) -> bool {
    let Some(state) = &manifest.state else {
        return false;
    };
    let mut numbers = state.runs().flat_map(RunMeta::numbers);
    // A database that was never written to has no segment.
    let (needed, segments) = (state.wal_segments(), &files.segments);
    numbers.any(|number| files.sstables.binary_search(&number).is_err())
        || (needed.start > FileNumber::default() || segments.iter().any(|it| needed.contains(it)))
            && segments.binary_search(&needed.start).is_err()
}

impl Reader<'_> {
    /// Adds damage to the list of losses. `what`, the consequence, is appended to its description.
    fn lose(&mut self, error: Error, table: Option<String>, what: &str) {
        let found = finding(error, self.dir);
        self.lost.push(Lost {
            path: found.path,
            offset: found.offset,
            table,
            detail: format!("{}{what}", found.detail),
            ..Lost::default()
        });
    }

    fn take_manifest(&mut self, manifest: SalvagedManifest, files: &DbFiles) {
        let had_state = manifest.state.is_some();
        self.state = manifest.state.unwrap_or_default();
        self.last_seq = self.state.last_seq();
        self.listed_to = self.state.last_table_id;
        if let Some(damage) = manifest.damage {
            let what = if had_state {
                "; the records of the manifest from there on are lost, and every SSTable is taken for \
                 one of the database: rows deleted before may be back"
            } else {
                "; the snapshots and the names of tables that only it had are lost, and every SSTable \
                 is taken for one of the database: rows deleted before may be back"
            };
            self.lose(damage, None, what);
        } else if !had_state && !files.sstables.is_empty() {
            let missing = Error::corruption(&files::current(self.dir), 0, "it is missing");
            let what = "; the names of tables are lost that no SSTable has";
            self.lose(missing, None, what);
        }
    }

    /// Reads the files of the manifest's runs.
    fn files_of_runs(&mut self) -> Result<()> {
        let tables: Vec<_> = self.state.tables.values().cloned().collect();
        for table in &tables {
            for run in &table.runs {
                for file in &run.files {
                    self.file(file.number, Some(Place::of(table.id, run, file)))?;
                }
            }
        }
        Ok(())
    }

    /// Reads every SSTable of the directory. Of equal versions, that in the output of a merge takes
    /// precedence over those in the merge's inputs.
    fn all_files(&mut self, files: &DbFiles) -> Result<()> {
        let mut named = BTreeMap::new();
        for table in self.state.tables.values() {
            for run in &table.runs {
                for file in &run.files {
                    named.insert(file.number, Place::of(table.id, run, file));
                }
            }
        }
        for number in &files.sstables {
            self.file(*number, named.get(number).cloned())?;
        }
        Ok(())
    }

    /// Reads the versions of an SSTable; `place` is the table and the run that the file belongs to,
    /// if known.
    fn file(&mut self, number: FileNumber, place: Option<Place>) -> Result<()> {
        let path = self.tables.name(number.0);
        let name = place.as_ref().map(|place| self.name(place.table));
        let file = self.tables.open(number.0);
        let bytes = file.as_ref().map_or(0, |file| file.len().unwrap_or(0));
        let opened = Salvage::open(file, &path, place.as_ref().map(|place| place.id));
        self.reading.add(bytes);
        self.reading.report(self.progress);
        let salvage = match opened {
            Ok(salvage) => salvage,
            // The file may be whole (a descriptor or a permission is lacking, or the format is newer):
            // nothing is lost, and the user can try again.
            Err(error) if !error.is_of_file() => return Err(error),
            Err(error) => {
                self.lose(error, name, "; every row of it is lost");
                return Ok(());
            }
        };
        let properties = salvage.properties.as_ref();
        let table = properties.map(|properties| TableId(properties.table_id));
        // Files that were written for ingesting have the id 0.
        let table = table.filter(|id| *id != TableId::default() && *id <= TABLE_ID_MAX);
        let Some(table) = place.as_ref().map(|place| place.table).or(table) else {
            // The log may name the file, and then the file is read again for its table.
            let unknown = Error::corruption(&path, 0, "nothing says which table it is of");
            self.lose(unknown, None, "; every row of it is lost");
            self.unclaimed
                .extend(self.lost.pop().map(|lost| (number, lost)));
            return Ok(());
        };
        // A table that was dropped and that no snapshot covers is not saved.
        if self.is_forgotten(table) {
            return Ok(());
        }
        if let Some(properties) = properties {
            let options = TableOptions {
                sstable: properties.options.clone(),
                merge_operator: properties
                    .origin
                    .as_ref()
                    .and_then(|origin| origin.merge_operator.clone()),
            };
            self.last_seq = self.last_seq.max(properties.largest_seq);
            self.table(table, options);
            if let Some(origin) = &properties.origin {
                self.names.note(table, &origin.keyspace, &origin.table);
                // The manifest does not list the table, and the file records when it was created.
                if self.names.lacks(table)
                    && let Some(meta) = self.state.tables.get_mut(&table)
                {
                    meta.lifetime = Lifetime::beginning_after(origin.created_after);
                }
            }
        } else {
            self.table(table, TableOptions::default());
        }
        let name = self.name(table);
        let extent = self.extent(&salvage, place.as_ref());
        let mut salvage = salvage;
        let keys = place.as_ref().and_then(|place| place.keys.clone());
        // Parts of a merge may have replaced some keys of the run. Damage to these keys is no loss.
        let is_a_loss = |lost: &LostBlock| {
            let keys = keys.as_ref();
            keys.is_none_or(|keys| keys.overlaps(&lost.keys()))
        };
        for lost in std::mem::take(&mut salvage.lost)
            .into_iter()
            .filter(is_a_loss)
        {
            self.lost.push(Lost {
                path: path.clone(),
                offset: lost.offset,
                bytes: lost.bytes,
                table: Some(name.clone()),
                from_key: lost.from_key,
                to_key: lost.to_key,
                detail: lost.detail,
            });
        }
        if let Some(tombstones) = &salvage.tombstones {
            let all = self.tombstones.entry(table).or_default();
            all.extend(tombstones.iter());
        }
        let recorded_number = salvage
            .properties
            .as_ref()
            .map_or(0, |properties| properties.file_number);
        let ingested_at = place.as_ref().and_then(|place| place.ingested_at);
        let reading = self.reading.clone();
        let blocks_read = move |bytes| reading.add(bytes);
        let counts = move |item: &Result<KeyVersion>| match (item, &keys) {
            (Ok((key, _)), Some(keys)) => keys.contains(key),
            _ => true,
        };
        let versions = salvage.versions(blocks_read).filter(counts);
        let versions = Box::new(versions.map(move |item| {
            item.map(|(key, mut version)| {
                // All versions of an ingested file have the number of the commit that ingested it.
                version.seq = ingested_at.unwrap_or(version.seq);
                (key, version)
            })
        }));
        // Numbers show the age of files. A file that was restored from a backup has a new number,
        // so the number that it was written under counts.
        let written_as = match recorded_number {
            // Written outside of the database, to be ingested.
            0 => number.0,
            _ if mutation::is(Mutation::StandByName) => number.0,
            written_as => written_as,
        };
        let sources = self.sources.entry(table).or_default();
        // A whole manifest lists the runs newest first. Without it, the age of the files is the
        // order.
        let at = if self.exact {
            sources.len()
        } else {
            sources.partition_point(|(newer, _)| *newer >= written_as)
        };
        sources.insert(at, (written_as, (extent, versions)));
        Ok(())
    }

    /// Returns the known contents of a file: its keys and sequence numbers, and its `origin`, the
    /// sequence numbers whose versions in older files it replaces. The file has all of these
    /// versions that are still needed. `place` is the run that the file belongs to, if known. If
    /// the manifest's list of files is complete, the file is assumed to replace nothing: no file in
    /// the list was replaced by another.
    fn extent(&self, salvage: &Salvage, place: Option<&Place>) -> Extent {
        let properties = salvage.properties.as_ref();
        let span = place.map(|place| place.span);
        let stands_for = properties.and_then(|properties| properties.origin.as_ref());
        let origin = stands_for.map(|origin| (origin.smallest_seq, origin.largest_seq));
        let has = properties.filter(|properties| properties.entries > 0);
        let has = has.map(|properties| {
            KeyRange::spanning(&properties.smallest_key, &properties.largest_key)
        });
        let between = mutation::is(Mutation::StandBetweenKeys);
        let keys = stands_for
            .filter(|_| !between)
            .map(|origin| match &origin.keys {
                Some(keys) => keys.range().clone(),
                None => KeyRange::all(),
            });
        let ingested_at = place.and_then(|place| place.ingested_at);
        let seqs = properties.map(|properties| (properties.smallest_seq, properties.largest_seq));
        let seqs = ingested_at.map(|seq| (seq, seq)).or(seqs).or(span);
        let lost = salvage.lost.iter();
        Extent {
            origin: origin.or(span).or(seqs).filter(|_| !self.exact),
            seqs: seqs.unwrap_or((SeqNo::ZERO, SeqNo::MAX)),
            keys: keys.or(has),
            lost: lost
                .map(|lost| (lost.from_key.clone(), lost.to_key.clone()))
                .collect(),
        }
    }

    /// Returns whether a table was dropped, and no snapshot covers it.
    fn is_forgotten(&self, id: TableId) -> bool {
        id <= self.listed_to && !self.state.tables.contains_key(&id)
    }

    /// Adds a table that the manifest does not list.
    fn table(&mut self, id: TableId, options: TableOptions) {
        let names = &mut self.names;
        self.state.tables.entry(id).or_insert_with(|| {
            names.lack(id);
            TableMeta {
                id,
                keyspace: RECOVERED.to_string(),
                name: format!("table_{}", id.0),
                options,
                flushed_seq: SeqNo::ZERO,
                runs: Vec::new(),
                lifetime: Lifetime::default(),
            }
        });
    }

    fn name(&self, id: TableId) -> String {
        match self.state.tables.get(&id) {
            Some(table) => format!("{}.{}", table.keyspace, table.name),
            None => format!("{RECOVERED}.table_{}", id.0),
        }
    }

    /// Reads the entries of the log that are not in a run yet.
    fn log(&mut self, files: &DbFiles) -> Result<()> {
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
            let bytes = match wal::read_all(self.log_store, &path) {
                Ok(bytes) => bytes,
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

    /// Adds the effect of an operation in the log.
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
            Op::SnapshotCreate(record) if seq > bookmarks.as_of => {
                // A snapshot of the same name was deleted before, even if the log has lost that.
                bookmarks.list.retain(|bookmark| {
                    let before = &bookmark.record;
                    (&before.keyspace, &before.name) != (&record.keyspace, &record.name)
                });
                bookmarks.add(seq, record);
            }
            Op::SnapshotDelete(id) if seq > bookmarks.as_of => {
                bookmarks.remove(seq, id);
                // Its creation may be lost. An id out of all bounds is damaged, and the new
                // database would not open with it.
                if id < NUMBER_MAX {
                    bookmarks.last_id = bookmarks.last_id.max(id);
                }
            }
            Op::SnapshotExpiry(expiry) if seq > bookmarks.as_of => {
                bookmarks.set_expiry(seq, expiry);
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
            Op::SnapshotCreate(_) | Op::SnapshotDelete(_) | Op::SnapshotExpiry(_) => {}
        }
        Ok(())
    }

    /// Returns the memtable for an entry of the log: a write to `table` with the sequence number
    /// `seq`. `None` if the entry must be left out: its table was dropped, or the entry was
    /// flushed, and a merge may have dropped it since.
    fn logged(&mut self, table: TableId, seq: SeqNo) -> Option<&Memtable> {
        if self.is_forgotten(table) {
            return None;
        }
        self.unknown_table |= !self.state.tables.contains_key(&table);
        self.table(table, TableOptions::default());
        let counts = seq > self.state.tables[&table].flushed_seq;
        counts.then(|| &**self.logged.entry(table).or_default())
    }

    fn finish(mut self) -> Source {
        self.lost
            .extend(std::mem::take(&mut self.unclaimed).into_values());
        // Holds go: their holders would not notice the losses.
        let bookmarks = &mut self.state.bookmarks.list;
        bookmarks.retain(|bookmark| bookmark.record.held_for.is_none());
        self.name_tables();
        // Readers stand at snapshots, or above all recovered versions.
        let bookmarks = self.state.bookmarks.list.iter().map(|b| b.point());
        let boundaries = Boundaries::new(bookmarks.collect(), 0);
        let mut tables = Vec::new();
        for (id, meta) in std::mem::take(&mut self.state.tables) {
            self.state.last_table_id = self.state.last_table_id.max(id);
            if !meta.lifetime.is_dropped() && !self.state.keyspaces.contains(&meta.keyspace) {
                self.state.keyspaces.push(meta.keyspace.clone());
            }
            let sources = self.sources.remove(&id).unwrap_or_default();
            let mut sources: Vec<_> = sources.into_iter().map(|(_, source)| source).collect();
            let mut tombstones = self.tombstones.remove(&id).unwrap_or_default();
            if let Some(memtable) = self.logged.remove(&id) {
                sources.push(all_of(&memtable));
                if let Some(logged) = memtable.range_tombstones() {
                    tombstones.extend(logged.iter());
                }
            }
            tables.push(SourceTable {
                meta,
                sources,
                tombstones: RangeTombstones::build(tombstones, Some(&boundaries)),
            });
        }
        Source {
            state: self.state,
            tables,
            last_seq: self.last_seq,
            lost: self.lost,
        }
    }

    /// Looks in the log for names of tables that neither the manifest nor an SSTable names. A table
    /// without SSTables counts as created before the first of its entries in the log, because
    /// nothing of it was flushed.
    fn names_in_log(&mut self) {
        for id in self.names.unknown() {
            let (Some(logged), Some(table)) =
                (self.logged.get(&id), self.state.tables.get_mut(&id))
            else {
                continue;
            };
            let puts = logged.iter().filter(|entry| entry.kind() == Kind::Put);
            let mut found =
                puts.filter_map(|entry| self.operators.table_of(entry.key(), entry.value()));
            let is_legal = |names: &(String, String)| {
                check_name("keyspace", &names.0).is_ok() && check_name("table", &names.1).is_ok()
            };
            let Some((operator, names)) = found.find(|(_, names)| is_legal(names)) else {
                continue;
            };
            self.names.note(id, &names.0, &names.1);
            table.options.merge_operator = Some(operator.to_string());
            let first = logged.iter().map(|entry| entry.seq()).min();
            if let Some(first) = first.filter(|_| !self.sources.contains_key(&id)) {
                let before = SeqNo(first.0.saturating_sub(1));
                table.lifetime = Lifetime::beginning_after(before);
            }
        }
    }

    /// Gives names to the tables that the manifest does not list: from the properties of their files,
    /// their entries in the log, and snapshots of a single table. A table that only a snapshot names
    /// becomes an empty table.
    fn name_tables(&mut self) {
        self.names_in_log();
        let bookmarks = self.state.bookmarks.list.iter();
        let of_one = bookmarks.filter_map(|bookmark| {
            let keyspace = bookmark.record.keyspace.clone();
            Some((keyspace, bookmark.record.table.clone()?))
        });
        for (keyspace, only) in of_one.collect::<Vec<_>>() {
            self.table(only.id, TableOptions::default());
            self.names.note(only.id, &keyspace, &only.name);
        }
        let tables = self.state.tables.values();
        let live = tables.filter(|table| !table.lifetime.is_dropped());
        let taken = live.map(|table| (table.keyspace.clone(), table.name.clone()));
        let taken = taken.collect();
        let assigned = std::mem::take(&mut self.names).assign(taken);
        for (id, (keyspace, name)) in assigned.named {
            let before = self.name(id);
            let after = format!("{keyspace}.{name}");
            let table = self.state.tables.get_mut(&id).expect("it has no name");
            (table.keyspace, table.name) = (keyspace, name);
            let lost = self.lost.iter_mut();
            for lost in lost.filter(|lost| lost.table.as_ref() == Some(&before)) {
                lost.table = Some(after.clone());
            }
        }
        for (id, known) in assigned.unnamed.into_iter().rev() {
            let has_entries = self.sources.contains_key(&id) || self.logged.contains_key(&id);
            let now = self.name(id);
            let is_same = |(keyspace, name): &TableName| format!("{keyspace}.{name}") == now;
            // An earlier repair gave a table the name that it has in its files and here again.
            if has_entries && !known.as_ref().is_some_and(is_same) {
                let lost = report::lost_name(self.dir, now, known, &self.lost);
                self.lost.push(lost);
            }
        }
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

fn all_of(memtable: &Memtable) -> TableSource {
    let versions: Vec<_> = memtable
        .iter()
        .map(|entry| Ok((Bytes::copy_from_slice(entry.key()), version_of(entry))))
        .collect();
    let extent = Extent {
        seqs: (SeqNo::ZERO, SeqNo::MAX),
        ..Extent::default()
    };
    (extent, Box::new(versions.into_iter()))
}
