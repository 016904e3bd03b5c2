//! Reading of the damaged database: the files that are in use, and their contents.

mod log;
mod sstables;

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use super::names::{TableName, TableNames};
use super::reading::Reading;
use super::replaced::Extent;
use super::report::Lost;
use super::{Versions, report};
use crate::db::check_name;
use crate::error::{Error, Result};
use crate::files;
use crate::key::{Boundaries, FileNumber, Kind, RangeTombstone, RangeTombstones, SeqNo, TableId};
use crate::log_store::LogStore;
use crate::maintenance::db_files::DbFiles;
use crate::maintenance::progress::MaintenanceProgress;
use crate::maintenance::verify::finding;
use crate::manifest::{SalvagedManifest, State, TableMeta, salvage_manifest};
use crate::memtable::{Memtable, version_of};
use crate::options::TableOptions;
use crate::read::MergeOperators;
use crate::runs::RunMeta;
use crate::snapshots::Lifetime;
use crate::table_store::TableStore;

/// The keyspace of tables whose names are lost.
const RECOVERED: &str = "recovered";

/// The largest id that a table may have if the database is to open: the next new table needs one
/// more id.
const TABLE_ID_MAX: TableId = TableId(u32::MAX - 1);

/// A source (a file or the log) of a table's versions: which versions the source is known to cover,
/// and an iterator over the versions, sorted by key.
pub(super) type TableSource = (Extent, Versions);

/// A table with its sources: the files, and the part of the log, that have versions of the table. If
/// two of the sources have the same version, that of the first source is used.
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
    /// The largest sequence number of all versions and snapshots. Lost ones count, too, if their
    /// numbers are known.
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
        reader.take_manifest(manifest);
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

    fn take_manifest(&mut self, manifest: SalvagedManifest) {
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
        }
    }

    /// Returns whether a table was dropped, and no snapshot covers it.
    fn is_forgotten(&self, id: TableId) -> bool {
        id <= self.listed_to && !self.state.tables.contains_key(&id)
    }

    /// Adds a table with the id `id` and a made-up name if the manifest does not list it, and it was
    /// not added yet.
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

    /// Looks in the log for the names of tables that neither the manifest nor an SSTable names: a
    /// merge operator may recognize the table of an entry. A named table without SSTables counts as
    /// created just before the first of its entries in the log, because nothing of it was flushed.
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
