//! The writes and guards of a transaction that is not committed yet.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;

use crate::api::{Table, Value, WriteBatch};
use crate::commit::{TableKey, TableRange, table_key};
use crate::error::{Error, Result};
use crate::key::{KeyRange, check_lengths};

/// The writes and guards of a transaction in one table.
#[derive(Debug)]
pub(super) struct OwnTable {
    pub(super) table: Table,
    /// The writes of the transaction to single keys, by key.
    pub(super) writes: BTreeMap<Bytes, Write>,
    guards: BTreeSet<Bytes>,
    guarded_ranges: Vec<KeyRange>,
    /// The deleted ranges, by their starts; no two overlap. All of `writes` are newer than these
    /// deletions: the deletion of a range removes the earlier writes in the range from `writes`.
    cleared: BTreeMap<Bytes, KeyRange>,
}

/// The writes of a transaction to one key: first a base (a value, a deletion, or neither of them),
/// then the merge operands that were written on top of it, perhaps none.
#[derive(Debug)]
pub(super) struct Write {
    base: Base,
    /// The operands, oldest first.
    operands: Vec<Bytes>,
}

#[derive(Debug)]
enum Base {
    /// The transaction has not set the key, nor deleted it alone. The operands are merged into the
    /// value in the transaction's view, or into no value if the transaction deleted a range with the
    /// key.
    Below,
    Put(Bytes),
    PutWithTtl(Bytes, Duration),
    Delete,
}

impl Write {
    fn on(base: Base) -> Self {
        Self {
            base,
            operands: Vec::new(),
        }
    }

    /// Returns the value of `key`. Calls `below`, which returns the value in the transaction's
    /// view, only if the result depends on that value.
    pub(super) fn resolve(
        &self,
        table: &Table,
        key: &[u8],
        below: impl FnOnce() -> Result<Option<Value>>,
    ) -> Result<Option<Value>> {
        let base = match &self.base {
            Base::Below => below()?,
            Base::Put(value) => Some(value.clone()),
            // The value expires some time after the commit, which is still to come.
            Base::PutWithTtl(value, ttl) => (!ttl.is_zero()).then(|| value.clone()),
            Base::Delete => None,
        };
        if self.operands.is_empty() {
            return Ok(base);
        }
        self.folded_onto(table, key, base).map(Some)
    }

    /// Folds the operands onto `base`. There must be at least one operand.
    fn folded_onto(&self, table: &Table, key: &[u8], base: Option<Value>) -> Result<Value> {
        let newest_first: Vec<_> = self.operands.iter().rev().cloned().collect();
        table.core.merger.fold(key, &newest_first, base)
    }
}

impl OwnTable {
    pub(super) fn new(table: Table) -> Self {
        Self {
            table,
            writes: BTreeMap::new(),
            guards: BTreeSet::new(),
            guarded_ranges: Vec::new(),
            cleared: BTreeMap::new(),
        }
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check(key, value)?;
        self.set(key, Base::Put(Bytes::copy_from_slice(value)));
        Ok(())
    }

    pub(super) fn put_with_ttl(&mut self, key: &[u8], value: &[u8], ttl: Duration) -> Result<()> {
        check(key, value)?;
        self.set(key, Base::PutWithTtl(Bytes::copy_from_slice(value), ttl));
        Ok(())
    }

    pub(super) fn delete(&mut self, key: &[u8]) -> Result<()> {
        check(key, b"")?;
        self.set(key, Base::Delete);
        Ok(())
    }

    pub(super) fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        check(key, operand)?;
        self.table.core.check_merges()?;
        let key = Bytes::copy_from_slice(key);
        let write = self.writes.entry(key);
        let write = write.or_insert_with(|| Write::on(Base::Below));
        write.operands.push(Bytes::copy_from_slice(operand));
        Ok(())
    }

    pub(super) fn delete_range(&mut self, mut range: KeyRange) {
        if range.is_empty() {
            return;
        }
        self.writes
            .extract_if(range.clone(), |_, _| true)
            .for_each(drop);
        // Ranges that overlap the new one follow each other, and the first of them may start before
        // it.
        let before = self.cleared.range::<Bytes, _>(..=&range.start).next_back();
        let first = before.map_or(&range.start, |(start, _)| start).clone();
        let near = self
            .cleared
            .range::<Bytes, _>(first..)
            .map(|(_, other)| other);
        let near = near.take_while(|other| other.start <= range.start || other.overlaps(&range));
        let overlapping: Vec<_> = near
            .filter(|other| other.overlaps(&range))
            .cloned()
            .collect();
        for other in overlapping {
            self.cleared.remove(&other.start);
            range = range.hull(&other);
        }
        self.cleared.insert(range.start.clone(), range);
    }

    /// Returns whether the transaction deleted a range that has this key.
    pub(super) fn has_cleared(&self, key: &[u8]) -> bool {
        let at_or_before = (Bound::Unbounded, Bound::Included(key));
        let nearest = self.cleared.range::<[u8], _>(at_or_before).next_back();
        nearest.is_some_and(|(_, range)| range.contains(key))
    }

    fn set(&mut self, key: &[u8], base: Base) {
        self.writes
            .insert(Bytes::copy_from_slice(key), Write::on(base));
    }

    /// Replaces the operands of a key by their fold, so that the next read does not fold them again.
    /// Operands that cannot be folded stay: a newer operand may hide the fault.
    pub(super) fn fold(&mut self, key: &[u8]) {
        if let Some(write) = self.writes.get_mut(key)
            && write.operands.len() > 1
            && let Ok(folded) = write.folded_onto(&self.table, key, None)
        {
            write.operands = vec![folded];
        }
    }

    pub(super) fn guard(&mut self, key: &[u8]) {
        if !self.guards.contains(key) {
            self.guards.insert(Bytes::copy_from_slice(key));
        }
    }

    pub(super) fn guard_range(&mut self, range: KeyRange) {
        if !range.is_empty() {
            self.guarded_ranges.push(range);
        }
    }

    pub(super) fn guards(&self) -> impl Iterator<Item = TableKey> {
        let id = self.table.core.id;
        self.guards.iter().map(move |key| table_key(id, key))
    }

    pub(super) fn guarded_ranges(&self) -> impl Iterator<Item = TableRange> {
        let id = self.table.core.id;
        let ranges = self.guarded_ranges.iter();
        ranges.map(move |range| TableRange::new(id, range))
    }

    pub(super) fn write_to(&self, batch: &mut WriteBatch) {
        for range in self.cleared.values() {
            batch.delete_range(&self.table, range.clone());
        }
        for (key, write) in &self.writes {
            match &write.base {
                Base::Below => {}
                Base::Put(value) => batch.put(&self.table, key, value),
                Base::PutWithTtl(value, ttl) => batch.put_with_ttl(&self.table, key, value, *ttl),
                Base::Delete => batch.delete(&self.table, key),
            }
            for operand in &write.operands {
                batch.merge(&self.table, key, operand);
            }
        }
    }
}

fn check(key: &[u8], value: &[u8]) -> Result<()> {
    check_lengths(key, value).map_err(Error::InvalidRequest)
}
