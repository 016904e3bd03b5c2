//! Changes of the schema's records in the database, made so that a crash leaves each one done or
//! undone, never half. `survey` describes where the records lie.
//!
//! A table's record lies in the table, so every snapshot that covers the table has the
//! schema of its moment. This module knows names and bytes, and not what records mean.
//!
//! Changes in several steps, and what the next opening makes of a cut in between:
//!
//! | change | steps | a cut leaves | which is |
//! | --- | --- | --- | --- |
//! | create a keyspace | record; engine's keyspace | a record alone | completed |
//! | drop a keyspace | record says `dropping`, and lists the tables; engine's keyspace goes; record goes | a record that says so | completed, if it lists every table |
//! | create a table | note of the creation; engine's table; record in it, and the note goes | a note, perhaps with an empty table | undone |
//!
//! Everything else is one commit: dropping a table is the engine's, and what changes
//! several records writes them by one batch. Every step waits for its fsync.

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

/// The value of a note of a creation.
const CREATING: u8 = 1;

const SYNC: WriteOptions = WriteOptions { sync: true };

/// The schema's records in a database. One thread changes them at a time.
#[derive(Debug, Clone)]
pub(super) struct SchemaStore {
    db: Db,
    keyspaces: Table,
    creations: Table,
}

/// A table whose record is another one now.
#[derive(Debug)]
pub(super) struct ChangedTable {
    pub(super) table: Table,
    pub(super) record: Vec<u8>,
    /// Where its indexes are others, the numbers whose entries go: from the first to before the
    /// second.
    pub(super) ids_of_no_index: Vec<(u32, u32)>,
}

impl SchemaStore {
    /// Reads the records of a database; `keyspaces` and `creations` are ebb's own tables for
    /// them. What a crash cut in half is completed or undone.
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
        // A disk with little space must not keep a database from being opened.
        Ok(self.db.write_freeing(batch, SYNC)?)
    }

    /// Creates a keyspace with its record.
    ///
    /// # Errors
    /// [`CatalogError::Foreign`] where the database has a keyspace of this name with tables
    /// in it; as the store.
    pub(super) fn create_keyspace(&self, name: &str, record: &[u8]) -> Result<()> {
        // A drop that failed halfway is finished first. Damage here is that of other records: the
        // caller knows that this keyspace is not there.
        if let Ok(Some(value)) = readable(self.keyspaces.get(name.as_bytes()))?
            && value.first() == Some(&DROPPING)
        {
            self.finish_drop(name)?;
        }
        if let Ok(keyspace) = self.db.existing_keyspace(name) {
            let tables = keyspace.tables();
            if !tables.is_empty() {
                let keyspace = name.to_string();
                return Err(CatalogError::Foreign { keyspace, tables });
            }
        }
        self.write_keyspace(name, record, &[])?;
        self.db.keyspace(name)?;
        Ok(())
    }

    /// Writes a keyspace's record and those of tables in it by one commit, which removes the
    /// entries of indexes that are gone.
    pub(super) fn write_keyspace(
        &self,
        name: &str,
        record: &[u8],
        tables: &[ChangedTable],
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        let value = [&[PRESENT], record].concat();
        batch.put(&self.keyspaces, name.as_bytes(), &value);
        for changed in tables {
            batch.put(&changed.table, SCHEMA_KEY, &changed.record);
            for &(from, to) in &changed.ids_of_no_index {
                let entries = entries_of_indexes(from, to);
                if let Some(to) = entries.to {
                    batch.delete_range(&changed.table, entries.from..to);
                }
            }
        }
        Ok(self.db.write_with(batch, SYNC)?)
    }

    /// Drops a keyspace with its tables and snapshots, also on a full disk. Once `decided` was
    /// called it will be gone, at the next opening where not before.
    ///
    /// # Errors
    /// [`CatalogError::Foreign`] where it holds tables that CQL did not make: nothing is
    /// dropped.
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

    /// Sets the options for new files of a table. If the statement fails after this, the table
    /// keeps them until the database is opened again.
    ///
    /// # Errors
    /// When the table does not exist, or the store refuses the options.
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
    /// [`SchemaError::Unreadable`] if it has one of CQL that is not proved to be a creation that
    /// failed; errors of the store.
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
                // If this fails too, the next opening does it.
                let _ = engine_keyspace.drop_table(name);
                Err(error.into())
            }
        }
    }

    /// Drops a table, for good but for the snapshots that cover it.
    pub(super) fn drop_table(&self, keyspace: &str, name: &str) -> Result<()> {
        Ok(self.db.existing_keyspace(keyspace)?.drop_table(name)?)
    }

    /// Removes all rows of a table by one commit, also on a full disk.
    ///
    /// The record is written anew above the deletion, so that all older files go without
    /// being read, and without another write.
    pub(super) fn truncate(&self, table: &Table, record: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range::<&[u8], _>(table, ..);
        batch.put(table, SCHEMA_KEY, record);
        Ok(self.db.write_freeing(batch, SYNC)?)
    }
}

/// Removes the record of a keyspace that was dropped without the catalog; nothing where
/// CQL did not make it. (A record that stays makes an empty keyspace at the next opening.)
///
/// # Errors
/// As the store.
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
