//! Reads of ascending keys of a table at a snapshot: by a range where the keys are dense, otherwise
//! by point gets.
//!
//! ```text
//!   wanted keys   a b   d e f       m         x
//!   read by       └─ range ─┘       └─ gets ──┘
//! ```
//!
//! A range returns an entry in about a tenth of the time of a point get. But it also passes the
//! entries between the wanted keys, and to open it takes as long as several point gets. The number
//! of these entries is not known before they are read, so a [`Follower`] opens a range, and closes
//! it when a key is too far ahead. After a range that did not pay, the [`Backoff`] delays the next
//! one.

use std::cmp::Ordering;
use std::ops::Bound;

use bytes::Bytes;
use ebb_scheduler::runtime::TaskError;
use ebb_storage::{Entry, Range, Search, SnapshotTable};

use crate::error::of_store;

/// The number of steps of a range that take about as long as a point get.
const STEPS_PER_GET: u64 = 10;

/// The most steps that a range takes to the next wanted key: a few less than [`STEPS_PER_GET`],
/// because more steps would save nothing. The limit also bounds the work of a read, which calls no
/// checkpoint: there may be any number of deleted keys between two wanted ones.
const STEPS_MAX: u32 = 8;

/// The number of point gets that take about as long as the opening of a range. The opening reads a
/// block of each run, without the block cache.
const GETS_PER_OPENING: u64 = 16;

/// The number of keys that are read by point gets before the first range, and after the first one
/// that does not pay. So a few changes are read without any range. Before the delay has grown,
/// ranges that do not pay add at most about a quarter to the time of the point gets. Over the first
/// 2,000 keys they add about 5%.
const DELAY_MIN: u32 = 64;

/// The longest delay, in keys. Ranges that do not pay then add less than 2% to the time of the
/// point gets.
const DELAY_MAX: u32 = 1024;

/// A reader of ascending keys of a table at a snapshot.
///
/// The first range is opened by [`get`](Self::get), and so has a version of the table that is not
/// older than the follower. Point gets have the newest version. A follower for the rows of a
/// partition must therefore be created after the partition's header was read: see
/// [the purge race](ebb_tables::read#the-purge-race). It must be dropped at the end of the
/// partition, also because an open range keeps the files that it reads.
#[derive(Debug)]
pub(super) struct Follower<'f> {
    table: &'f SnapshotTable,
    /// The exclusive upper bound of the keys; `None` for no bound.
    upper: Option<&'f [u8]>,
    backoff: &'f mut Backoff,
    open: Option<OpenRange>,
}

/// The delay of a follower's next range. It is kept for the next follower, because most partitions
/// may have only few changed rows.
///
/// After a range that did not pay, the next delay is twice as long. After one that did, it is half
/// as long, and the next range begins at once. If one range that paid made the delay the shortest
/// again, then among keys at varying distances, where only some ranges pay, the others would take
/// more time than these save.
#[derive(Debug)]
pub(super) struct Backoff {
    /// The number of keys that are still to be read by point gets before the next range is opened.
    left: u32,
    /// The delay after the next range that does not pay.
    next: u32,
}

/// A range that reads the wanted keys.
#[derive(Debug)]
struct OpenRange {
    range: Range,
    /// The last entry of the range, if its key is behind the last wanted key.
    ahead: Option<Entry>,
    /// The number of wanted keys that the range has read, including those without a value.
    reads: u64,
    /// The number of steps that the range has taken.
    steps: u64,
}

/// The result of the search for a key by a range.
enum Found {
    Value(Bytes),
    /// The key has no value.
    Nothing,
    /// The search ended before the key, because the key is too far ahead or the range failed.
    Unknown,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            left: DELAY_MIN,
            next: DELAY_MIN,
        }
    }
}

impl Backoff {
    /// Returns whether a range may be opened for the next key. If not, the key counts towards the
    /// delay.
    fn is_over(&mut self) -> bool {
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or_default();
        left.is_none()
    }

    /// Sets the delay after a range. `has_paid` is the result of [`OpenRange::has_paid`].
    fn begin(&mut self, has_paid: bool) {
        if has_paid {
            (self.left, self.next) = (0, (self.next / 2).max(DELAY_MIN));
        } else {
            (self.left, self.next) = (self.next, (2 * self.next).min(DELAY_MAX));
        }
    }
}

impl<'f> Follower<'f> {
    /// Creates a reader of keys below `upper` (`None` for no bound). Opens no range yet.
    pub(super) fn new(
        table: &'f SnapshotTable,
        upper: Option<&'f [u8]>,
        backoff: &'f mut Backoff,
    ) -> Self {
        Self {
            table,
            upper,
            backoff,
            open: None,
        }
    }

    /// Returns the value of a key, which must be greater than that of the call before.
    ///
    /// # Errors
    /// As [`SnapshotTable::get`]. If a range fails, the key is read by a point get, because the
    /// damage may lie before the key.
    pub(super) fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, TaskError> {
        debug_assert!(
            self.upper.is_none_or(|upper| key < upper),
            "a key behind the end of the keys"
        );
        if self.open.is_none() && self.backoff.is_over() {
            self.open = Some(OpenRange::at(self.table, key, self.upper));
        }
        if let Some(open) = &mut self.open {
            match open.find(key) {
                Found::Value(value) => return Ok(Some(value)),
                Found::Nothing => return Ok(None),
                Found::Unknown => self.close(),
            }
        }
        self.table.get(key).map_err(of_store)
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.backoff.begin(open.has_paid());
        }
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

impl OpenRange {
    /// Opens a range from `key` to `upper`, past the block cache as all scans of jobs.
    fn at(table: &SnapshotTable, key: &[u8], upper: Option<&[u8]>) -> Self {
        let upper = upper.map_or(Bound::Unbounded, Bound::Excluded);
        Self {
            range: table.scan::<&[u8], _>((Bound::Included(key), upper)),
            ahead: None,
            reads: 0,
            steps: 0,
        }
    }

    /// Returns whether the range took, by estimate, no more time than point gets of the keys that
    /// it has read.
    fn has_paid(&self) -> bool {
        self.reads * STEPS_PER_GET >= GETS_PER_OPENING * STEPS_PER_GET + self.steps
    }

    /// Searches for `key`, which must be greater than the key of the search before. After
    /// [`Found::Unknown`] the range must be dropped.
    fn find(&mut self, key: &[u8]) -> Found {
        let found = self.step_to(key);
        if !matches!(found, Found::Unknown) {
            self.reads += 1;
        }
        found
    }

    fn step_to(&mut self, key: &[u8]) -> Found {
        let reached = self.ahead.take_if(|(ahead, _)| ahead[..] <= *key);
        if let Some((reached, value)) = reached
            && reached[..] == *key
        {
            return Found::Value(value);
        }
        let mut steps = 0..STEPS_MAX;
        // The range has no entry between two keys that it passed one after the other. So once it
        // has passed a greater key, `key` has no value.
        while self.range.passed_key().is_none_or(|passed| passed < key) {
            if steps.next().is_none() {
                return Found::Unknown;
            }
            self.steps += 1;
            match self.range.next_within(1) {
                None => break,
                Some(Err(_)) => return Found::Unknown,
                Some(Ok(Search::Passed)) => {}
                Some(Ok(Search::Found((found, value)))) => match found[..].cmp(key) {
                    Ordering::Less => {}
                    Ordering::Equal => return Found::Value(value),
                    Ordering::Greater => self.ahead = Some((found, value)),
                },
            }
        }
        Found::Nothing
    }
}

#[cfg(test)]
mod tests;
