//! What a transaction did and nobody else sees yet.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::commit::{TableKey, WriteBatch, check_lengths, table_key};
use crate::error::{Error, Result};
use crate::table::Table;

/// What a transaction does to one table.
#[derive(Debug)]
pub(super) struct OwnTable {
    pub(super) table: Table,
    /// The last write of each key.
    pub(super) writes: BTreeMap<Bytes, Write>,
    guards: BTreeSet<Bytes>,
}

/// What it makes of a key.
#[derive(Debug, Clone)]
pub(super) enum Write {
    Put(Bytes),
    Delete,
}

impl OwnTable {
    pub(super) fn new(table: Table) -> Self {
        Self {
            table,
            writes: BTreeMap::new(),
            guards: BTreeSet::new(),
        }
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(key, value, Write::Put)
    }

    pub(super) fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.write(key, b"", |_| Write::Delete)
    }

    fn write(
        &mut self,
        key: &[u8],
        value: &[u8],
        write: impl FnOnce(Bytes) -> Write,
    ) -> Result<()> {
        check_lengths(key, value).map_err(Error::InvalidRequest)?;
        let value = Bytes::copy_from_slice(value);
        self.writes
            .insert(Bytes::copy_from_slice(key), write(value));
        Ok(())
    }

    pub(super) fn guard(&mut self, key: &[u8]) {
        if !self.guards.contains(key) {
            self.guards.insert(Bytes::copy_from_slice(key));
        }
    }

    pub(super) fn guards(&self) -> impl Iterator<Item = TableKey> {
        let id = self.table.core.id;
        self.guards.iter().map(move |key| table_key(id, key))
    }

    pub(super) fn write_to(&self, batch: &mut WriteBatch) {
        for (key, write) in &self.writes {
            match write {
                Write::Put(value) => batch.put(&self.table, key, value),
                Write::Delete => batch.delete(&self.table, key),
            }
        }
    }
}
