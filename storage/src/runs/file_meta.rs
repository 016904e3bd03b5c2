//! The manifest's record of a file in a run: everything that must be known of a file that cannot
//! be read any more.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::key::{FileNumber, KeyBounds, KeyRange, NUMBER_MAX, SeqNo};
use crate::read::{ExpiryBounds, TimestampBounds};
use crate::sstable::{FileId, SsTable};

/// The manifest's record of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileMeta {
    pub(crate) number: FileNumber,
    /// The random id of the file, which is part of all its checksums.
    pub(crate) id: FileId,
    pub(crate) bytes: u64,
    /// The number of versions and range tombstones in the file.
    pub(crate) entries: u64,
    /// The smallest sequence number of a version or range tombstone, as stored in the file. (To
    /// readers, everything in an ingested file has the number of the commit that ingested it.)
    pub(crate) smallest_seq: SeqNo,
    /// The largest sequence number of a version or range tombstone, as it is in the file.
    pub(crate) largest_seq: SeqNo,
    /// A key range that contains all versions in the file; `None` if the file has range tombstones
    /// only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keys: Option<KeyBounds>,
    /// A key range that contains the ranges of all range tombstones in the file; `None` if it has
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) range_tombstones: Option<KeyBounds>,
    /// The bounds of the timestamps in the file's values, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timestamps: Option<TimestampBounds>,
    /// The bounds of the times at which something in the file expires.
    #[serde(default, skip_serializing_if = "ExpiryBounds::is_never")]
    pub(crate) expiries: ExpiryBounds,
    /// The damage for which the file is in quarantine, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quarantine: Option<Quarantine>,
}

/// The damage of a file, which was confirmed by a second reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quarantine {
    /// The position of the damage in the file, in bytes.
    pub(crate) offset: u64,
    /// A description with the expected and the found data.
    pub(crate) detail: String,
}

impl Quarantine {
    /// Returns the damage in an error; `None` if the error is no damage.
    pub(crate) fn of(error: &Error) -> Option<Self> {
        match error {
            Error::Corruption { offset, detail, .. } => Some(Self {
                offset: *offset,
                detail: detail.clone(),
            }),
            _ => None,
        }
    }
}

impl FileMeta {
    /// Returns the record of an open file, which is taken to be undamaged.
    pub(crate) fn of(number: FileNumber, table: &SsTable) -> Self {
        let properties = table.properties();
        let keys = || KeyRange::spanning(&properties.smallest_key, &properties.largest_key);
        let tombstones = table.range_tombstones().and_then(|of_run| of_run.bounds());
        Self {
            number,
            id: table.id(),
            bytes: table.file_bytes(),
            entries: properties.entries_with_tombstones(),
            smallest_seq: properties.smallest_seq,
            largest_seq: properties.largest_seq,
            keys: (properties.entries > 0).then(|| KeyBounds::of(&keys())),
            range_tombstones: tombstones.as_ref().map(KeyBounds::of),
            timestamps: properties.timestamps,
            expiries: properties.expiries,
            quarantine: None,
        }
    }

    /// Returns the key ranges of the file's versions and of its range tombstones.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = &KeyRange> {
        let all = self.keys.iter().chain(&self.range_tombstones);
        all.map(KeyBounds::range)
    }

    /// Checks that an open file is the one of this record.
    ///
    /// # Errors
    /// `Corruption` if it is another file.
    pub(crate) fn check_file(&self, table: &SsTable) -> Result<(), Error> {
        let found = Self {
            quarantine: self.quarantine.clone(),
            ..Self::of(self.number, table)
        };
        if found == *self {
            return Ok(());
        }
        Err(Error::corruption(table.path(), 0, self.mismatch(&found)))
    }

    /// Returns the description of an error: the file `found` is not the one of this record.
    pub(crate) fn mismatch(&self, found: &Self) -> String {
        if found.id == self.id {
            return format!("it is another file: {found:?}, and {self:?} is expected");
        }
        // Then nothing else can be expected to be the same.
        let [found, expected] = [found, self].map(|file| String::from(file.id));
        format!("it is another file: its id is {found}, and {expected} is expected")
    }

    /// Returns an error if the engine cannot have written this record.
    pub(crate) fn check(&self) -> Result<(), String> {
        let number = self.number.0;
        let counts = [number, self.bytes, self.entries];
        if counts.iter().any(|&count| count >= NUMBER_MAX) {
            return Err(format!("file {number} is out of all bounds"));
        }
        if self.ranges().next().is_none() {
            return Err(format!("file {number} has nothing in it"));
        }
        if self.smallest_seq > self.largest_seq {
            return Err(format!("file {number} ends before it begins"));
        }
        Ok(())
    }

    /// Returns a record of a file that does not exist, for tests.
    #[cfg(test)]
    pub(crate) fn of_nothing(number: u64) -> Self {
        Self {
            number: FileNumber(number),
            id: FileId::random(),
            bytes: 1,
            entries: 1,
            smallest_seq: SeqNo(1),
            largest_seq: SeqNo(1),
            keys: Some(KeyBounds::of(&KeyRange::all())),
            range_tombstones: None,
            timestamps: None,
            expiries: ExpiryBounds::Never,
            quarantine: None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Regression: the error for a file with another id than recorded quoted both records in full.
    /// The record of a file in quarantine contains an earlier error, so each such error quoted the
    /// one before.
    #[test]
    fn a_mismatch_with_another_file_has_both_ids_alone() {
        let [expected, found] = [(); 2].map(|()| FileMeta::of_nothing(7));
        let mismatch = expected.mismatch(&found);
        let [expected, found] = [expected, found].map(|file| String::from(file.id));
        let text = format!("it is another file: its id is {found}, and {expected} is expected");
        assert_eq!(mismatch, text);
    }
}
