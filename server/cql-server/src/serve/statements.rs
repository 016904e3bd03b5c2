//! The prepared statements of all connections.

use std::sync::Arc;

use ebb_cql::protocol::prepared_id;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::call::Statement;

/// The MD5 digest that identifies a prepared statement.
pub(super) type Id = [u8; 16];

pub(super) struct Entry<S> {
    pub statement: Arc<S>,
    /// The keyspace in use at PREPARE, if the statement depends on it.
    pub keyspace: Option<Box<str>>,
}

/// A cache of statements by id, bounded in bytes. The least recently used are dropped first.
pub(super) struct Statements<S> {
    cache: Cache<Id, Arc<Entry<S>>, BySize>,
}

#[derive(Clone)]
struct BySize;

/// The overhead of the cache for each statement, in bytes.
const OVERHEAD_BYTES: usize = 256;

impl<S: Statement> Weighter<Id, Arc<Entry<S>>> for BySize {
    fn weight(&self, _: &Id, entry: &Arc<Entry<S>>) -> u64 {
        (entry.statement.size_bytes() + OVERHEAD_BYTES) as u64
    }
}

/// The typical bytes of a statement. The cache derives its number of shards from them.
const STATEMENT_BYTES_TYPICAL: usize = 2048;

impl<S: Statement> Statements<S> {
    pub(super) fn new(bytes_max: usize) -> Self {
        let typical = bytes_max / STATEMENT_BYTES_TYPICAL;
        Self {
            cache: Cache::with_weighter(typical, bytes_max as u64, BySize),
        }
    }

    pub(super) fn get(&self, id: &[u8]) -> Option<Arc<Entry<S>>> {
        let id: &Id = id.try_into().ok()?;
        self.cache.get(id)
    }

    /// Returns the entry of a text, if it was prepared before.
    pub(super) fn find(&self, keyspace: Option<&str>, text: &str) -> Option<(Id, Arc<Entry<S>>)> {
        // A text with qualified names only has the id without a keyspace.
        [keyspace, None].into_iter().find_map(|keyspace| {
            let id = prepared_id(keyspace, text);
            let entry = self.cache.get(&id)?;
            (entry.keyspace.as_deref() == keyspace).then_some((id, entry))
        })
    }

    pub(super) fn insert(
        &self,
        keyspace: Option<&str>,
        text: &str,
        statement: S,
    ) -> (Id, Arc<Entry<S>>) {
        let keyspace = keyspace.filter(|_| statement.needs_keyspace());
        let id = prepared_id(keyspace, text);
        let entry = Arc::new(Entry {
            statement: Arc::new(statement),
            keyspace: keyspace.map(Into::into),
        });
        self.cache.insert(id, entry.clone());
        (id, entry)
    }
}
