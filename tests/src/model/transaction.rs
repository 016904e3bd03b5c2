//! Open transactions, and the conflicts between them.

use std::ops::Bound;
use std::sync::Arc;

use super::state::State;
use super::world::merged;
use crate::operation::{Bounds, Key, TableNo, Write};

/// An open transaction.
#[derive(Debug, Clone)]
pub(super) struct Transaction {
    /// The content that the transaction sees, including its own writes.
    pub(super) state: State,
    /// Number of commits in the model before the transaction began.
    pub(super) began: u64,
    pub(super) writes: Vec<Write>,
    pub(super) guards: Vec<Touched>,
}

/// A range of keys that a commit writes or a transaction guards.
#[derive(Debug, Clone)]
pub(super) struct Touched {
    table: TableNo,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    /// Whether the write is a merge. Two merges do not conflict.
    merges: bool,
}

impl Touched {
    pub(super) fn range(table: TableNo, bounds: Bounds) -> Self {
        let (from, to) = bounds.from_to();
        Self {
            table,
            from,
            to,
            merges: false,
        }
    }

    pub(super) fn key(table: TableNo, key: Key) -> Self {
        Self::range(table, Bounds(Bound::Included(key), Bound::Included(key)))
    }

    pub(super) fn by(write: &Write) -> Self {
        match write {
            Write::Put(table, key, _)
            | Write::Delete(table, key)
            | Write::PutWithTtl(table, key, ..) => Self::key(*table, *key),
            Write::Merge(table, key, _) => Self {
                merges: true,
                ..Self::key(*table, *key)
            },
            Write::DeleteRange(table, bounds) => Self::range(*table, *bounds),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }

    pub(super) fn clashes(&self, other: &Self) -> bool {
        let before = |from: &Vec<u8>, to: &Option<Vec<u8>>| to.as_ref().is_none_or(|to| from < to);
        self.table == other.table
            && !(self.merges && other.merges)
            && before(&self.from, &other.to)
            && before(&other.from, &self.to)
    }
}

impl Transaction {
    pub(super) fn write(&mut self, write: &Write) {
        let content = self.state.tables[write.table().index()].get_or_insert_default();
        let content = Arc::make_mut(content);
        match write {
            Write::Put(_, key, value) => drop(content.insert(key.bytes(), value.bytes().into())),
            // The TTL counts from the commit, so the value does not expire within the transaction.
            Write::PutWithTtl(_, key, value, ttl_ms) if *ttl_ms > 0 => {
                content.insert(key.bytes(), value.bytes().into());
            }
            Write::Merge(table, key, operand) => {
                let operand: Arc<[u8]> = operand.bytes().into();
                content
                    .entry(key.bytes())
                    .and_modify(|value| *value = merged(table.merge_operator(), value, &operand))
                    .or_insert(operand);
            }
            Write::PutWithTtl(_, key, ..) | Write::Delete(_, key) => {
                content.remove(&key.bytes());
            }
            Write::DeleteRange(_, bounds) => content.retain(|key, _| !bounds.contain(key)),
        }
        self.writes.push(*write);
    }
}
