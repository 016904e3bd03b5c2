//! Changes of the schema's records in the database, in steps that a crash leaves done or undone, never
//! half. `survey` describes the places of the records.
//!
//! A table's record is stored in the table itself, so every snapshot that covers the table has the schema
//! of its time. This module handles names and bytes, without the meaning of records.
//!
//! Changes with several steps, and how the next opening treats an interruption between them:
//!
//! | change | steps | an interruption leaves | which the next opening |
//! | --- | --- | --- | --- |
//! | create a keyspace | record; engine's keyspace | a record alone | completes |
//! | drop a keyspace | record of state `dropping`, with a list of the tables; drop of the engine's keyspace; removal of the record | a record in this state | completes, if it lists every table |
//! | create a table | note of the creation; engine's table; record in it, and removal of the note | a note, perhaps with an empty table | undoes |
//!
//! All other changes are one commit: dropping a table is a commit of the engine, and changes of several
//! records are one batch. Every step waits for its fsync.

use ebb_model::key::{SCHEMA_KEY, entries_of_indexes};
use ebb_model::schema::{SchemaError, Unreadable};
use ebb_storage::{Db, ErrorKind, SsTableOptions, Table, TableOptions, WriteBatch, WriteOptions};

use super::damage::{MISSING, readable};
use super::error::{CatalogError, Result};
use super::operators::CQL_ROW;
use super::survey::{
    DROPPING, KEYSPACES_TABLE, PRESENT, StoredKeyspace, Survey, creation_key, dropping_record,
    is_cql_table, is_cut_creation, own_table,
};

/// The value of an entry in `ebb_system.creations`, which notes that a table is being created.
const CREATING: u8 = 1;

const SYNC: WriteOptions = WriteOptions { sync: true };

/// The schema's records in a database. Only one thread at a time may change them.
#[derive(Debug, Clone)]
pub(super) struct SchemaStore {
    db: Db,
    keyspaces: Table,
    creations: Table,
}

/// A table, and the changed record of its schema, to be stored.
#[derive(Debug)]
pub(super) struct ChangedTable {
    pub(super) table: Table,
    pub(super) record: Vec<u8>,
    /// The ranges of ids, with exclusive ends, that no index of the table has; empty if the change
    /// leaves the indexes unchanged. Index entries with these ids are removed.
    pub(super) ids_of_no_index: Vec<(u32, u32)>,
    /// Whether the change drops an index, which frees the space of its entries.
    pub(super) drops_index: bool,
}

impl SchemaStore {
    /// Reads the records of the schema of a database; `keyspaces` and `creations` are ebb's own tables for them.
    /// Completes or undoes changes that a crash interrupted.
    ///
    /// # Errors
    /// If the store failed for another reason than damage.
    pub(super) fn open(
        db: &Db,
        keyspaces: Table,
        creations: Table,
    ) -> Result<(Self, Vec<StoredKeyspace>)> {
        let store = Self {
            db: db.clone(),
            keyspaces,
            creations,
        };
        let survey = Survey::of(db)?;
        store.complete(&survey)?;
        Ok((store, survey.keyspaces))
    }

    fn complete(&self, survey: &Survey) -> Result<()> {
        for keyspace in survey.keyspaces.iter().filter(|of| of.record.is_ok()) {
            self.db.keyspace(&keyspace.name)?;
        }
        for name in &survey.dropping {
            self.finish_drop(name)?;
        }
        for (keyspace, table) in &survey.cut {
            self.drop_table(keyspace, table)?;
        }
        if survey.notes.is_empty() {
            return Ok(());
        }
        let mut batch = WriteBatch::new();
        for note in &survey.notes {
            batch.delete(&self.creations, note);
        }
        // The write may use reserved space: a full disk must not keep a database from being opened.
        Ok(self.db.write_freeing(batch, SYNC)?)
    }

    /// Creates a keyspace with its record.
    ///
    /// # Errors
    /// [`CatalogError::Foreign`] if the database has a keyspace of this name with tables in it; errors of
    /// the store.
    pub(super) fn create_keyspace(&self, name: &str, record: &[u8]) -> Result<()> {
        self.check_creation(name)?;
        if self.is_dropping(name)? {
            self.finish_drop(name)?;
        }
        self.write_keyspace(name, record, &[])?;
        self.db.keyspace(name)?;
        Ok(())
    }

    /// Checks that [`create_keyspace`](Self::create_keyspace) may create this keyspace. Writes nothing.
    ///
    /// # Errors
    /// See [`create_keyspace`](Self::create_keyspace).
    pub(super) fn check_creation(&self, name: &str) -> Result<()> {
        // An interrupted drop is completed first, and takes all tables with it.
        if self.is_dropping(name)? {
            return Ok(());
        }
        let Ok(keyspace) = self.db.existing_keyspace(name) else {
            return Ok(());
        };
        let tables = keyspace.tables();
        if tables.is_empty() {
            return Ok(());
        }
        let keyspace = name.to_string();
        Err(CatalogError::Foreign { keyspace, tables })
    }

    /// Returns whether the record of a keyspace states that the keyspace is being dropped. Returns false for a
    /// record that cannot be read: it is the record of another keyspace, or of one with tables that CQL did
    /// not create.
    fn is_dropping(&self, name: &str) -> Result<bool> {
        let found = readable(self.keyspaces.get(name.as_bytes()))?;
        Ok(found.is_ok_and(|value| value.is_some_and(|value| value.first() == Some(&DROPPING))))
    }

    /// Writes the records of a keyspace and of tables in it by one commit, which also removes the entries
    /// of dropped indexes. A drop of an index works on a full disk, too.
    pub(super) fn write_keyspace(
        &self,
        name: &str,
        record: &[u8],
        tables: &[ChangedTable],
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        self.put_keyspace(&mut batch, name, record);
        for changed in tables {
            batch.put(&changed.table, SCHEMA_KEY, &changed.record);
            for &(from, to) in &changed.ids_of_no_index {
                let entries = entries_of_indexes(from, to);
                if let Some(to) = entries.to {
                    batch.delete_range(&changed.table, entries.from..to);
                }
            }
        }
        if tables.iter().any(|changed| changed.drops_index) {
            return Ok(self.db.write_freeing(batch, SYNC)?);
        }
        Ok(self.db.write_with(batch, SYNC)?)
    }

    fn put_keyspace(&self, batch: &mut WriteBatch, name: &str, record: &[u8]) {
        let value = [&[PRESENT], record].concat();
        batch.put(&self.keyspaces, name.as_bytes(), &value);
    }

    /// Returns the table with the records of keyspaces.
    pub(super) fn keyspaces(&self) -> &Table {
        &self.keyspaces
    }

    /// Returns whether `is_right` accepts the record of a keyspace. Returns false if the record
    /// cannot be read, or states that the keyspace is being dropped.
    pub(super) fn has_keyspace(&self, name: &str, is_right: impl FnOnce(&[u8]) -> bool) -> bool {
        let Ok(Some(value)) = self.keyspaces.get(name.as_bytes()) else {
            return false;
        };
        value.strip_prefix(&[PRESENT]).is_some_and(is_right)
    }

    /// Writes the record of a keyspace, unless `record` is `None`, and the records of `tables` in it, all by
    /// one commit, also on a full disk. Does nothing if there is no record to write.
    pub(super) fn write_again(
        &self,
        keyspace: &str,
        record: Option<&[u8]>,
        tables: &[(Table, Vec<u8>)],
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        if let Some(record) = record {
            self.put_keyspace(&mut batch, keyspace, record);
        }
        for (table, record) in tables {
            batch.put(table, SCHEMA_KEY, record);
        }
        if batch.is_empty() {
            return Ok(());
        }
        Ok(self.db.write_freeing(batch, SYNC)?)
    }

    /// Drops a keyspace with its tables and snapshots, also on a full disk. Calls `decided` once the drop is
    /// recorded durably: if the drop is interrupted after that, the next opening completes it.
    ///
    /// # Errors
    /// [`CatalogError::Foreign`] if the keyspace contains tables that CQL did not create: nothing is
    /// dropped. Errors of the store.
    pub(super) fn drop_keyspace(&self, name: &str, decided: impl FnOnce()) -> Result<()> {
        let foreign = self.foreign_tables(name)?;
        if !foreign.is_empty() {
            let keyspace = name.to_string();
            return Err(CatalogError::Foreign {
                keyspace,
                tables: foreign,
            });
        }
        let mut batch = WriteBatch::new();
        let record = dropping_record(&self.db, name)?;
        batch.put(&self.keyspaces, name.as_bytes(), &record);
        self.db.write_freeing(batch, SYNC)?;
        decided();
        self.finish_drop(name)
    }

    fn finish_drop(&self, name: &str) -> Result<()> {
        if let Err(error) = self.db.drop_keyspace(name)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error.into());
        }
        let mut batch = WriteBatch::new();
        batch.delete(&self.keyspaces, name.as_bytes());
        Ok(self.db.write_freeing(batch, SYNC)?)
    }

    fn foreign_tables(&self, keyspace: &str) -> Result<Vec<String>> {
        let Ok(keyspace) = self.db.existing_keyspace(keyspace) else {
            return Ok(Vec::new());
        };
        let mut foreign = Vec::new();
        for name in keyspace.tables() {
            if !is_cql_table(&keyspace.existing_table(&name)?) {
                foreign.push(name);
            }
        }
        Ok(foreign)
    }

    /// Sets the options for new files of a table, except for the filter prefix, which cannot change. If
    /// the ALTER statement fails after this call, the table keeps the new options until the database
    /// is opened again.
    ///
    /// # Errors
    /// If the table does not exist, or the store refuses the options.
    pub(super) fn alter_table(
        &self,
        keyspace: &str,
        name: &str,
        sstable: SsTableOptions,
    ) -> Result<()> {
        let keyspace = self.db.existing_keyspace(keyspace)?;
        let there = keyspace.existing_table(name)?.options();
        // The filter prefix cannot change after the creation of a table.
        let filter_prefix = there.sstable.filter_prefix;
        let sstable = SsTableOptions {
            filter_prefix,
            ..sstable
        };
        Ok(keyspace.alter_table(name, sstable)?)
    }

    /// Creates a table with its record and file options. The catalog must not have a table of this
    /// name.
    ///
    /// # Errors
    /// [`CatalogError::Foreign`] if the database has a table of this name that CQL did not create;
    /// [`SchemaError::Unreadable`] if it has a table of this name that CQL created, unless an interrupted
    /// creation provably left that table; errors of the store.
    pub(super) fn create_table(
        &self,
        keyspace: &str,
        name: &str,
        record: &[u8],
        sstable: SsTableOptions,
    ) -> Result<Table> {
        let engine_keyspace = self.db.existing_keyspace(keyspace)?;
        if let Ok(table) = engine_keyspace.existing_table(name) {
            if !is_cql_table(&table) {
                return Err(CatalogError::Foreign {
                    keyspace: keyspace.to_string(),
                    tables: vec![name.to_string()],
                });
            }
            if !is_cut_creation(&self.creations, &table)? {
                let unreadable = Unreadable::table(keyspace, name, MISSING);
                return Err(SchemaError::from(unreadable).into());
            }
            engine_keyspace.drop_table(name)?;
        }
        let note = creation_key(keyspace, name);
        let mut batch = WriteBatch::new();
        batch.put(&self.creations, note.as_bytes(), &[CREATING]);
        self.db.write_with(batch, SYNC)?;
        let options = TableOptions {
            sstable,
            merge_operator: Some(CQL_ROW.to_string()),
        };
        let table = engine_keyspace.table(name, options)?;
        let mut batch = WriteBatch::new();
        batch.put(&table, SCHEMA_KEY, record);
        batch.delete(&self.creations, note.as_bytes());
        match self.db.write_with(batch, SYNC) {
            Ok(()) => Ok(table),
            Err(error) => {
                // If this fails too, the next opening drops the table.
                let _ = engine_keyspace.drop_table(name);
                Err(error.into())
            }
        }
    }

    /// Drops a table. Only snapshots that cover the table keep its rows.
    pub(super) fn drop_table(&self, keyspace: &str, name: &str) -> Result<()> {
        Ok(self.db.existing_keyspace(keyspace)?.drop_table(name)?)
    }

    /// Removes all rows of a table by one commit, also on a full disk.
    ///
    /// `record` is the record of the table's schema. It is written again after the deletion, so nothing in older
    /// files is needed any more: they can be dropped without being read and without further writes.
    pub(super) fn truncate(&self, table: &Table, record: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range::<&[u8], _>(table, ..);
        batch.put(table, SCHEMA_KEY, record);
        Ok(self.db.write_freeing(batch, SYNC)?)
    }
}

/// Removes the record of a keyspace that was dropped without the catalog, because the next opening
/// would create an empty keyspace from the record. Has no effect if CQL did not create the
/// keyspace.
///
/// # Errors
/// Errors of the store.
pub fn forget_keyspace(db: &Db, name: &str) -> Result<()> {
    if let Some(records) = own_table(db, KEYSPACES_TABLE)? {
        let mut batch = WriteBatch::new();
        batch.delete(&records, name.as_bytes());
        db.write_freeing(batch, WriteOptions::default())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
