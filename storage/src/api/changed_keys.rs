//! The keys of a table that changed between two of its snapshots.
//!
//! ```text
//!   versions numbered in between, and what expired ──► WrittenKeys ──┐
//!                                                                    ├─► ChangedKeys
//!   range tombstones ──► keys that the older snapshot has there ─────┘
//!                        DeletedKeys
//! ```
//!
//! [`ChangeWindow`] has the proof that no key is missing, and the rule for files that are left unread.

use std::cmp::Ordering;
use std::fmt::{self, Display, Formatter};
use std::iter::Peekable;
use std::sync::Arc;
use std::vec;

use bytes::Bytes;

use super::{Range, SnapshotTable};
use crate::error::{Error, Result};
use crate::key::{Cursor, KeyRange, SeqNo, is_before};
use crate::read::{Merge, Merger};
use crate::version::{ChangeWindow, Source, TableVersion};

/// The changes of a table between two of its snapshots.
#[derive(Debug)]
pub enum Changes {
    /// The keys whose values may differ.
    Keys(ChangedKeys),
    /// All keys may have changed, for this reason.
    Unknown(UnknownChanges),
}

/// The reason why the changes between two snapshots are not known key by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownChanges {
    /// The older snapshot is of another table. For example, the table was dropped and created again
    /// under the same name.
    OtherTable,
    /// The table was truncated between the two snapshots, or its range deletes between them together
    /// cover all possible keys.
    Truncated,
}

impl Display for UnknownChanges {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherTable => "the older snapshot is of another table",
            Self::Truncated => "the table was truncated after the older snapshot",
        })
    }
}

/// The keys of a table whose values may differ between two of its snapshots, ascending, each once.
///
/// An error (a damaged block, say) is yielded once; then the iterator ends. Until it is dropped,
/// the iterator keeps the files and memtables that it reads, both snapshots, and the database open.
#[derive(Debug)]
pub struct ChangedKeys {
    // In boxes, because the other variant of `Changes` is small.
    written: Box<Peekable<WrittenKeys>>,
    deleted: Box<Peekable<DeletedKeys>>,
    has_failed: bool,
    // The last field: the files are released before the database.
    _newer: SnapshotTable,
}

impl Changes {
    /// Returns the changes from `older` to `newer` of the keys in the range `keys`.
    ///
    /// # Errors
    /// As [`SnapshotTable::changed_keys`].
    pub(super) fn between(
        older: &SnapshotTable,
        newer: &SnapshotTable,
        keys: &KeyRange,
    ) -> Result<Self> {
        if (older.core.database, older.core.id) != (newer.core.database, newer.core.id) {
            return Ok(Self::Unknown(UnknownChanges::OtherTable));
        }
        if older.seq() > newer.seq() {
            return Err(Error::InvalidRequest(format!(
                "the changes of table {}.{} go from an older to a newer snapshot, and `older` is \
                 at commit {}, after the other one at commit {}: swap them",
                newer.core.keyspace,
                newer.core.name,
                older.seq(),
                newer.seq()
            )));
        }
        let window = ChangeWindow::between(older.view.point, newer.view.point);
        let version = newer.core.version();
        let deleted = window.deleted(&version);
        if deleted.cover(&KeyRange::all(), |_| true) {
            return Ok(Self::Unknown(UnknownChanges::Truncated));
        }
        let deleted = deleted.within(keys);
        let fragments = deleted.fragments().iter();
        let ranges: Vec<_> = fragments.map(|fragment| fragment.range.clone()).collect();
        let written = WrittenKeys::open(window, version, keys, newer.core.merger.clone())?;
        let deleted = DeletedKeys {
            open: None,
            ranges: ranges.into_iter(),
            older: older.clone(),
        };
        Ok(Self::Keys(ChangedKeys {
            written: Box::new(written.peekable()),
            deleted: Box::new(deleted.peekable()),
            has_failed: false,
            _newer: newer.clone(),
        }))
    }
}

impl Iterator for ChangedKeys {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let order = match (self.written.peek(), self.deleted.peek()) {
            (Some(Ok(written)), Some(Ok(deleted))) => written.cmp(deleted),
            (Some(Err(_)), _) | (_, None) => Ordering::Less,
            (None, _) | (_, Some(Err(_))) => Ordering::Greater,
        };
        let next = match order {
            Ordering::Less => self.written.next(),
            Ordering::Greater => self.deleted.next(),
            Ordering::Equal => {
                drop(self.deleted.next());
                self.written.next()
            }
        };
        self.has_failed = matches!(next, Some(Err(_)));
        next
    }
}

/// An iterator over the keys that may have changed between two snapshots: a version of the key was
/// written between the two, or a version expired between their times.
#[derive(Debug)]
struct WrittenKeys {
    window: ChangeWindow,
    merge: Merge<Source, false>,
    /// Whether a version in the runs may have expired between the snapshots.
    runs_expire: bool,
    merger: Arc<Merger>,
    /// The exclusive upper bound of the keys; `None` for no bound.
    end: Option<Bytes>,
    last: Option<Bytes>,
    // Keeps the files and memtables. The table holds a replaced version until no reader has it, so
    // a reader never frees one.
    _version: Arc<TableVersion>,
}

impl WrittenKeys {
    fn open(
        window: ChangeWindow,
        version: Arc<TableVersion>,
        keys: &KeyRange,
        merger: Arc<Merger>,
    ) -> Result<Self> {
        let mut changed = window.sources(&version, keys, &merger);
        for source in &mut changed.sources {
            source.seek(&keys.start, SeqNo::MAX)?;
        }
        Ok(Self {
            window,
            merge: Merge::new(changed.sources),
            runs_expire: changed.runs_expire,
            merger,
            end: keys.end.clone(),
            last: None,
            _version: version,
        })
    }

    fn step(&mut self) -> Result<Option<Bytes>> {
        loop {
            let front = self.merge.front();
            let Some(source) = front.filter(|source| is_before(source.key(), self.end.as_ref()))
            else {
                return Ok(None);
            };
            if let Some(error) = source.damage() {
                return Err(error.clone());
            }
            let may_expire = self.runs_expire || matches!(source, Source::Memtable(_));
            let is_next = self.last.as_deref() != Some(source.key())
                && self.window.is_change(source, may_expire, &self.merger);
            if is_next {
                self.last = Some(Bytes::copy_from_slice(source.key()));
            }
            self.merge.advance()?;
            if is_next {
                return Ok(self.last.clone());
            }
        }
    }
}

impl Iterator for WrittenKeys {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// An iterator over the keys of the older of two snapshots that lie in ranges that were deleted
/// between the two.
#[derive(Debug)]
struct DeletedKeys {
    open: Option<Range>,
    /// The deleted ranges whose keys are still to be read from `older`, ascending.
    ranges: vec::IntoIter<KeyRange>,
    older: SnapshotTable,
}

impl Iterator for DeletedKeys {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.open.as_mut().and_then(Iterator::next) {
                return Some(entry.map(|(key, _)| key));
            }
            let range = self.ranges.next()?;
            self.open = Some(self.older.scan(range));
        }
    }
}
