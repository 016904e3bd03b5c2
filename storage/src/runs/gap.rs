//! Gaps: keys of a run that cannot be read, because their file does not open.

use super::FileMeta;
use crate::error::Error;
use crate::key::{KeyRange, SeqNo};
use crate::read::TimestampBounds;

/// Keys for which a run may have versions or range tombstones that cannot be read. A read that
/// needs them fails: it never returns the result of older runs instead.
#[derive(Debug, Clone)]
pub(crate) struct Gap {
    pub(super) range: KeyRange,
    /// The smallest sequence number of the data that cannot be read. Readers at smaller numbers see
    /// none of the data.
    pub(super) smallest_seq: SeqNo,
    /// The bounds of the timestamps in the file that does not open, if they are known.
    pub(super) timestamps: Option<TimestampBounds>,
    /// The error with which the file does not open.
    pub(super) error: Error,
}

impl Gap {
    /// Returns the gaps that a file leaves because it does not open: one for the key range of its
    /// versions, if it has any, and one for that of its range tombstones, if it has any. `error` is
    /// the error of the opening. `ingested_at` is the commit that ingested the file's run, if it was
    /// ingested.
    pub(super) fn of<'a>(
        file: &'a FileMeta,
        ingested_at: Option<SeqNo>,
        error: &'a Error,
    ) -> impl Iterator<Item = Self> + use<'a> {
        let error = match error {
            Error::Io { path, source, .. } => Error::Unreadable {
                path: path.clone(),
                source: source.clone(),
            },
            error => error.clone(),
        };
        file.ranges().map(move |range| Self {
            range: range.clone(),
            smallest_seq: ingested_at.unwrap_or(file.smallest_seq),
            timestamps: file.timestamps,
            error: error.clone(),
        })
    }

    /// Returns the part of the gap within `keys`, if there is one.
    pub(super) fn within(self, keys: Option<&KeyRange>) -> Option<Self> {
        let range = match keys {
            Some(keys) => self.range.intersection(keys),
            None => self.range,
        };
        (!range.is_empty()).then_some(Self { range, ..self })
    }

    /// Returns whether a reader of `key` at the number `seq` may need data in the gap, which cannot
    /// be read.
    pub(super) fn hides(&self, key: &[u8], seq: SeqNo) -> bool {
        self.smallest_seq <= seq && self.range.contains(key)
    }
}
