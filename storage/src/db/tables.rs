//! Creating, finding and dropping tables.

use std::sync::Arc;

use super::catalog::check_name;
use super::{Catalog, Engine, TableCore};
use crate::error::{Error, Result};
use crate::key::SeqNo;
use crate::manifest::{Edit, TableMeta};
use crate::memtable::Memtable;
use crate::mutation::{self, Mutation};
use crate::options::TableOptions;
use crate::snapshots::Lifetime;
use crate::sstable::SsTableOptions;
use crate::version::TableVersion;

impl Engine {
    /// Creates the keyspace of this name if it is absent.
    pub(crate) fn open_or_create_keyspace(&self, name: &str) -> Result<()> {
        check_name("keyspace", name)?;
        if !self.catalog.read().unwrap().has_keyspace(name) {
            self.check_space(0)?;
        }
        let mut catalog = self.catalog.write().unwrap();
        if !catalog.has_keyspace(name) {
            self.commit_edit(Edit::AddKeyspace {
                name: name.to_string(),
            })?;
            catalog.add_keyspace(name);
        }
        Ok(())
    }

    /// Checks that there is a keyspace of this name.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub(crate) fn find_keyspace(&self, name: &str) -> Result<()> {
        if self.catalog.read().unwrap().has_keyspace(name) {
            Ok(())
        } else {
            Err(unknown_keyspace(name))
        }
    }

    /// Returns the table of this name; creates it if it is absent.
    ///
    /// # Errors
    /// `InvalidRequest` if the table exists with other options, if the name or an option is
    /// invalid, or if this process lacks the merge operator of a new table; `NotFound` if there is
    /// no such keyspace; the errors of a change of the manifest.
    pub(crate) fn open_or_create_table(
        &self,
        keyspace: &str,
        name: &str,
        options: TableOptions,
    ) -> Result<Arc<TableCore>> {
        check_name("table", name)?;
        options.sstable.validate()?;
        // An existing table can be opened on a full disk; only its creation takes space. The look at
        // the disk is not under the lock, so the table is looked up again below.
        if self.find_table(keyspace, name).is_err() {
            self.check_space(0)?;
        }
        let mut catalog = self.catalog.write().unwrap();
        if let Some(table) = catalog.table(keyspace, name) {
            let there = table.options();
            if *there != options {
                return Err(Error::InvalidRequest(format!(
                    "table {keyspace}.{name} was created with {there:?}, and these options differ: \
                     {options:?}; open the table as it is, or alter it"
                )));
            }
            return Ok(table);
        }
        self.create_absent_table(&mut catalog, (keyspace, name), options)
    }

    /// Creates the table of this name.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is in use; otherwise as `open_or_create_table`.
    pub(crate) fn create_table(
        &self,
        keyspace: &str,
        name: &str,
        options: TableOptions,
    ) -> Result<Arc<TableCore>> {
        check_name("table", name)?;
        options.sstable.validate()?;
        self.check_space(0)?;
        let mut catalog = self.catalog.write().unwrap();
        if catalog.table(keyspace, name).is_some() {
            return Err(Error::AlreadyExists {
                what: "table",
                name: format!("{keyspace}.{name}"),
            });
        }
        self.create_absent_table(&mut catalog, (keyspace, name), options)
    }

    /// Creates a table whose name the catalog does not have. The caller has checked the name and
    /// `options.sstable`.
    fn create_absent_table(
        &self,
        catalog: &mut Catalog,
        (keyspace, name): (&str, &str),
        options: TableOptions,
    ) -> Result<Arc<TableCore>> {
        // A table that exists opens without its operator, too: only values with operands need it.
        let operators = &self.options.merge_operators;
        if let Some(unknown) = options.merge_operator.as_deref()
            && operators.get(unknown).is_none()
        {
            return Err(Error::InvalidRequest(format!(
                "table {keyspace}.{name} names the merge operator {unknown:?}, and \
                 Options::merge_operators has {:?}: add it there",
                operators.names()
            )));
        }
        if !catalog.has_keyspace(keyspace) {
            return Err(unknown_keyspace(keyspace));
        }
        let id = catalog.next_table_id();
        // Snapshots up to this number do not contain the table. The opening of a later one waits for
        // the lock of the catalog, and finds the table.
        let last = self.queue.pause(|next| SeqNo(next.0 - 1));
        let lifetime = Lifetime::beginning_after(last);
        // Before any write can find the table: the log must name no table that the manifest lacks.
        self.commit_edit(Edit::AddTable(TableMeta {
            id,
            keyspace: keyspace.to_string(),
            name: name.to_string(),
            options: options.clone(),
            flushed_seq: SeqNo::ZERO,
            runs: Vec::new(),
            lifetime,
        }))?;
        let operator = options.merge_operator.as_deref();
        let operator = operator.and_then(|name| operators.get(name));
        let memtable = Memtable::new(self.chunks.clone()).with_operator(operator);
        let table = TableCore::new(
            self.id,
            id,
            (keyspace, name),
            lifetime,
            options,
            operators,
            TableVersion::new(memtable, Vec::new()),
        );
        catalog.add_table(table.clone());
        Ok(table)
    }

    /// Sets the options of the SSTables that are written for a table from now on.
    ///
    /// # Errors
    /// `NotFound` if there is no such table; `InvalidRequest` if the options are invalid, or change
    /// the filter prefix; the errors of a change of the manifest.
    #[expect(
        clippy::readonly_write_lock,
        reason = "nobody drops or alters the table meanwhile"
    )]
    pub(crate) fn alter_table(
        &self,
        keyspace: &str,
        name: &str,
        sstable: SsTableOptions,
    ) -> Result<()> {
        sstable.validate()?;
        let catalog = self.catalog.write().unwrap();
        let table = catalog.table(keyspace, name);
        let table = table.ok_or_else(|| unknown_table(keyspace, name))?;
        let there = table.options();
        if there.sstable == sstable {
            return Ok(());
        }
        // The prefix that readers look for is fixed for as long as a table is open.
        if there.sstable.filter_prefix != sstable.filter_prefix {
            return Err(Error::InvalidRequest(format!(
                "table {keyspace}.{name} was created with the filter prefix {:?}, and cannot get \
                 {:?}; create a table with it and copy what there is",
                there.sstable.filter_prefix, sstable.filter_prefix
            )));
        }
        self.commit_edit(Edit::AlterTable {
            table: table.id,
            sstable: sstable.clone(),
        })?;
        table.set_sstable_options(sstable);
        Ok(())
    }

    pub(crate) fn find_table(&self, keyspace: &str, name: &str) -> Result<Arc<TableCore>> {
        let found = self.catalog.read().unwrap().table(keyspace, name);
        found.ok_or_else(|| unknown_table(keyspace, name))
    }

    /// Drops a table. Later writes to the table are refused. Its data is removed once no snapshot
    /// covers the table and no reader uses it.
    ///
    /// Order of effects, each relying on the one before:
    ///
    /// 1. no commit that enters from now on writes to the table;
    /// 2. commits that entered before are finished;
    /// 3. the WAL is synced, so that no crash keeps the drop and loses an earlier
    ///    commit, or the deletion of a snapshot that would have kept the table;
    /// 4. the manifest records the drop, or no longer names the table;
    /// 5. its name is free.
    pub(crate) fn drop_table(&self, keyspace: &str, name: &str) -> Result<()> {
        // No snapshot is created or deleted meanwhile.
        let _snapshots = self.snapshot_ops.lock().unwrap();
        let found = self.catalog.read().unwrap().table(keyspace, name);
        if let Some(table) = found {
            // A hold serves comparisons with later snapshots, and a dropped table has none.
            self.release_holds_of(table.id)?;
        }
        let mut catalog = self.catalog.write().unwrap();
        let table = catalog.table(keyspace, name);
        let table = table.ok_or_else(|| unknown_table(keyspace, name))?;
        self.with_reserve(|| self.drop_tables(&mut catalog, std::slice::from_ref(&table)))?;
        // This thread must not hold the table when it is checked for readers.
        drop((catalog, table));
        self.release_retired();
        self.note_freed_memory();
        Ok(())
    }

    /// Drops a keyspace: its snapshots, then its tables, then its name. A crash
    /// may come in between.
    pub(crate) fn drop_keyspace(&self, name: &str) -> Result<()> {
        let _snapshots = self.snapshot_ops.lock().unwrap();
        if !self.catalog.read().unwrap().has_keyspace(name) {
            return Err(unknown_keyspace(name));
        }
        for bookmark in self.snapshots.bookmarks_where(|it| it.keyspace == name) {
            self.remove_bookmark(bookmark.record.id)?;
        }
        // No crash may keep the drop and lose the deletion of a snapshot: a new keyspace of this
        // name would have the snapshot. The drop of tables syncs the log, but there may be none.
        mutation::unless(Mutation::DropWithoutWalSync, || self.wal.sync_all())?;
        self.forget_uncovered_tables()?;
        let mut catalog = self.catalog.write().unwrap();
        let tables = catalog.tables_of(name);
        self.with_reserve(|| self.drop_tables(&mut catalog, &tables))?;
        self.with_reserve(|| {
            let name = name.to_string();
            self.commit_edit(Edit::DropKeyspace { name })
        })?;
        catalog.drop_keyspace(name);
        drop((catalog, tables));
        self.release_retired();
        self.note_freed_memory();
        Ok(())
    }

    /// Drops tables that are in the catalog, all or none.
    fn drop_tables(&self, catalog: &mut Catalog, tables: &[Arc<TableCore>]) -> Result<()> {
        if tables.is_empty() {
            return Ok(());
        }
        let last = self.queue.pause(|next| {
            let last = SeqNo(next.0 - 1);
            for table in tables {
                table.set_dropped(Some(last));
            }
            last
        });
        // Waiting writers look again, because no thread flushes a dropped table.
        self.write_stall.work_ended();
        self.queue.wait_visible(last);
        let snapshots = self.unrecorded_snapshots();
        let (kept, forgotten): (Vec<_>, Vec<_>) = tables.iter().partition(|table| {
            self.snapshots.covers(table.span()) && !mutation::is(Mutation::ForgetCoveredTables)
        });
        let forgotten: Vec<_> = forgotten.iter().map(|table| table.id).collect();
        let edit = Edit::DropTables {
            kept: kept.iter().map(|table| (table.id, last)).collect(),
            forgotten: forgotten.clone(),
            snapshots,
        };
        let synced = mutation::unless(Mutation::DropWithoutWalSync, || self.wal.sync_all());
        let done = synced.and_then(|()| self.commit_edit(edit));
        if let Err(e) = done {
            let take_back = |table: &Arc<TableCore>| table.set_dropped(None);
            self.queue.pause(|_| tables.iter().for_each(take_back));
            return Err(e);
        }
        for table in tables {
            catalog.drop_table(table);
        }
        for id in forgotten {
            catalog.forget_table(id);
        }
        Ok(())
    }

    /// Forgets the dropped tables that no snapshot covers any more. Called when the deletion of a
    /// snapshot has become visible, while the lock `snapshot_ops` is held.
    pub(super) fn forget_uncovered_tables(&self) -> Result<()> {
        let uncovered = |catalog: &Catalog| -> Vec<_> {
            let tables = catalog.dropped();
            let uncovered = tables.filter(|table| !self.snapshots.covers(table.span()));
            uncovered.map(|table| table.id).collect()
        };
        if uncovered(&self.catalog.read().unwrap()).is_empty() {
            return Ok(());
        }
        // A table is opened from a snapshot under this lock: it is covered or
        // it is open.
        let mut catalog = self.catalog.write().unwrap();
        let forgotten = uncovered(&catalog);
        self.with_reserve(|| {
            let snapshots = self.unrecorded_snapshots();
            self.wal.sync_all()?;
            self.commit_edit(Edit::DropTables {
                kept: Vec::new(),
                forgotten: forgotten.clone(),
                snapshots,
            })
        })?;
        for id in forgotten {
            catalog.forget_table(id);
        }
        drop(catalog);
        self.release_retired();
        Ok(())
    }
}

pub(super) fn unknown_keyspace(name: &str) -> Error {
    Error::not_found("keyspace", name)
}

fn unknown_table(keyspace: &str, name: &str) -> Error {
    Error::not_found("table", format!("{keyspace}.{name}"))
}
