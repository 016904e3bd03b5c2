//! The prepared statements of all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ebb_cql::protocol::{ErrorResponse, prepared_id};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::requests::StatementMemory;
use crate::call::Statement;
use crate::error::Result;
use crate::interrupt;

/// The MD5 digest that identifies a prepared statement.
pub(super) type Id = [u8; 16];

/// A parsed statement, in the cache or of one request.
pub(super) struct Entry<S> {
    pub statement: Arc<S>,
    /// The keyspace in use at PREPARE. `None` if the statement does not depend on it, or is not in
    /// the cache.
    pub keyspace: Option<Box<str>>,
    /// The memory that waiting requests have taken for the statement. The cache may drop the
    /// statement while they wait.
    pub waiting: StatementMemory,
}

impl<S> Entry<S> {
    fn new(statement: S, keyspace: Option<&str>) -> Arc<Self> {
        Arc::new(Self {
            statement: Arc::new(statement),
            keyspace: keyspace.map(Into::into),
            waiting: StatementMemory::default(),
        })
    }

    /// Returns the entry of a statement that only one request has, and no cache.
    pub(super) fn of_request(statement: S) -> Arc<Self> {
        Self::new(statement, None)
    }
}

/// A cache of statements by id, bounded in bytes. Statements that were not used lately are dropped
/// first, and half of the memory is for statements that were used more than once.
pub(super) struct Statements<S> {
    cache: Cache<Id, Arc<Entry<S>>, BySize>,
    /// The number of schema changes so far. A change is counted just before the statements that it
    /// makes outdated are dropped.
    schema_changes: AtomicU64,
    /// The largest statement that the cache keeps, in bytes.
    statement_bytes_max: u64,
}

#[derive(Clone)]
struct BySize;

/// The approximate overhead of the cache for each statement, in bytes.
const OVERHEAD_BYTES: usize = 256;

impl<S: Statement> Weighter<Id, Arc<Entry<S>>> for BySize {
    fn weight(&self, _: &Id, entry: &Arc<Entry<S>>) -> u64 {
        (entry.statement.size_bytes() + OVERHEAD_BYTES) as u64
    }
}

/// The assumed size of a statement in bytes. The cache divides its capacity by this size to find
/// how many keys it remembers, those of removed statements included.
const STATEMENT_BYTES_TYPICAL: usize = 2048;
/// The smallest capacity of a shard of the cache, which has a lock of its own. No statement is
/// larger than half a shard. With four shards for each core, the default of `quick_cache`, a
/// statement with some thousand markers did not fit on small servers, or on those with many cores.
const SHARD_BYTES_MIN: usize = 16 << 20;
/// The fraction of each shard of the cache of prepared statements that is for those used more than
/// once. The rest is for new ones: a client prepares all statements of a batch before it executes
/// them, so the first of them must still be there. The default of `quick_cache` leaves only 3% for
/// new ones.
const USED_SHARE: f64 = 0.5;
/// The most bytes of a statement's text in an error.
const SHOWN_BYTES_MAX: usize = 200;
/// The time after which a statement counts as outdated if its check after a schema change has not
/// ended.
const CHECK_TIME_MAX: Duration = Duration::from_millis(50);
/// The time of all checks after a schema change. Meanwhile no other change begins. Afterwards only
/// short statements are checked, and all others count as outdated.
const CHECKS_TIME_MAX: Duration = Duration::from_secs(1);

impl<S: Statement> Statements<S> {
    pub(super) fn new(bytes_max: usize) -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(bytes_max / STATEMENT_BYTES_TYPICAL)
            .weight_capacity(bytes_max as u64)
            // A power of two, which the cache would round up to.
            .shards(1 << (bytes_max / SHARD_BYTES_MIN).max(1).ilog2())
            .hot_allocation(USED_SHARE)
            .build();
        let cache: Cache<Id, Arc<Entry<S>>, BySize> = Cache::with_options(
            options.expect("both capacities are set"),
            BySize,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        );
        Self {
            statement_bytes_max: cache.shard_capacity() / 2,
            schema_changes: AtomicU64::new(0),
            cache,
        }
    }

    pub(super) fn get(&self, id: &[u8]) -> Option<Arc<Entry<S>>> {
        let id: &Id = id.try_into().ok()?;
        self.cache.get(id)
    }

    /// Returns the id and the entry of a statement with this text; `None` if it is not prepared.
    /// `in_use` is the keyspace in use.
    pub(super) fn find(&self, in_use: Option<&str>, text: &str) -> Option<(Id, Arc<Entry<S>>)> {
        // A text with qualified names only has the id without a keyspace.
        [in_use, None].into_iter().find_map(|keyspace| {
            let id = prepared_id(keyspace, text);
            let entry = self.cache.get(&id)?;
            // A text with unqualified names, such as DROP TABLE t, can also be prepared while no
            // keyspace is in use. That entry is not for clients that use one.
            let fits = keyspace == in_use || !entry.statement.needs_keyspace();
            (fits && entry.keyspace.as_deref() == keyspace).then_some((id, entry))
        })
    }

    /// Returns the number of schema changes so far, for [`insert`](Self::insert).
    pub(super) fn schema_changes(&self) -> u64 {
        self.schema_changes.load(Ordering::SeqCst)
    }

    /// Keeps a statement in the cache, and returns its id and entry. `schema_changes` is the number
    /// of schema changes before the analysis of the statement.
    ///
    /// If the schema has changed since, the statement is checked again. It is dropped from the
    /// cache if it is not current or the check takes too long. Its client then gets UNPREPARED for
    /// its id, and prepares it again.
    ///
    /// # Errors
    /// Cassandra's error for a statement that is too large to be kept: its client would prepare it
    /// again for ever.
    pub(super) fn insert(
        &self,
        keyspace: Option<&str>,
        text: &str,
        statement: S,
        schema_changes: u64,
        is_current: impl Fn(&S) -> bool,
    ) -> Result<(Id, Arc<Entry<S>>)> {
        let keyspace = keyspace.filter(|_| statement.needs_keyspace());
        let id = prepared_id(keyspace, text);
        let entry = Entry::new(statement, keyspace);
        let bytes = BySize.weight(&id, &entry);
        if bytes > self.statement_bytes_max {
            return Err(too_large(bytes, self.statement_bytes_max, text));
        }
        self.cache.insert(id, entry.clone());
        // Read after the insertion: if the schema changes later, `drop_outdated` finds the statement in
        // the cache.
        if self.schema_changes() != schema_changes {
            self.drop_if_outdated(&id, &entry, CHECK_TIME_MAX, is_current);
        }
        Ok((id, entry))
    }

    /// Drops the statements that are not current after a schema change, and those for which
    /// `is_current` takes too long. Their clients get UNPREPARED, and prepare them again.
    pub(super) fn drop_outdated(&self, is_current: impl Fn(&S) -> bool) {
        // Before the statements are read, so that either this loop or `insert` checks each statement.
        self.schema_changes.fetch_add(1, Ordering::SeqCst);
        let end = Instant::now() + CHECKS_TIME_MAX;
        // No lock of the cache is held while a statement is checked, which may take long.
        for (id, entry) in self.cache.iter() {
            let left = end.saturating_duration_since(Instant::now());
            self.drop_if_outdated(&id, &entry, left.min(CHECK_TIME_MAX), &is_current);
        }
    }

    /// Drops a statement if it is not current or its check takes longer than `time_max`, unless
    /// another one with its id has replaced it.
    fn drop_if_outdated(
        &self,
        id: &Id,
        entry: &Arc<Entry<S>>,
        time_max: Duration,
        is_current: impl Fn(&S) -> bool,
    ) {
        let check = || Ok(is_current(&entry.statement));
        if interrupt::at_most(time_max, check) != Some(Ok(true)) {
            (self.cache).remove_if(id, |now| Arc::ptr_eq(now, entry));
        }
    }
}

fn too_large(bytes: u64, bytes_max: u64, text: &str) -> ErrorResponse {
    let shown = &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)];
    ErrorResponse::invalid(format!(
        "Prepared statement of size {bytes} bytes is larger than allowed maximum of {bytes_max} \
         bytes: {shown}..."
    ))
}
