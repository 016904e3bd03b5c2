//! Possible faults of the merge operator. Merges that purge too much or too early change no answer at once,
//! so the test must show that it detects them.

use ebb_storage::{Group, MergeOperator, PurgeContext, Purged, TimestampBounds};
use ebb_tables::CqlRow;

use super::flaw::Flaw;
use super::generate::GRACE_S;

/// The deliberate mistakes of a run; by default there are none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mistakes {
    pub model: Option<Flaw>,
    pub merges: Option<Fault>,
}

/// A deliberate mistake of the merge operator, which the test has to detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Purges the header of a partition but keeps the rows that the header deletes.
    OverlooksHeads,
    /// Purges deletions although older versions exist in runs that are not merged.
    OverlooksOthers,
    /// Purges deletions at once, although older writes may still arrive, and expired values
    /// although snapshots still see them.
    OverlooksGrace,
    /// Reports that no value has any timestamps.
    HasNoBounds,
    /// Reports a greatest timestamp of a value that is slightly too small.
    UnderstatesTimestamps,
    /// Reports that no key belongs to a group. In truth the keys of a partition form a group, whose
    /// first key, the header, may delete the rows.
    HasNoGroups,
}

impl Fault {
    pub const ALL: [Self; 6] = [
        Self::OverlooksHeads,
        Self::OverlooksOthers,
        Self::OverlooksGrace,
        Self::HasNoBounds,
        Self::UnderstatesTimestamps,
        Self::HasNoGroups,
    ];
}

/// The merge operator of CQL tables, with a deliberate mistake.
#[derive(Debug)]
pub struct Faulty(pub CqlRow, pub Fault);

impl MergeOperator for Faulty {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn merge(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        self.0.merge(key, older, newer)
    }

    fn timestamps(&self, key: &[u8], value: &[u8]) -> Option<TimestampBounds> {
        match self.1 {
            Fault::HasNoBounds => Some(TimestampBounds::NONE),
            Fault::UnderstatesTimestamps => {
                let bounds = self.0.timestamps(key, value)?;
                Some(TimestampBounds {
                    greatest: bounds.greatest.saturating_sub(1),
                    ..bounds
                })
            }
            _ => self.0.timestamps(key, value),
        }
    }

    fn group<'k>(&self, key: &'k [u8]) -> Option<Group<'k>> {
        match self.1 {
            Fault::HasNoGroups => None,
            _ => self.0.group(key),
        }
    }

    fn purge(
        &self,
        key: &[u8],
        value: &[u8],
        context: &PurgeContext<'_>,
    ) -> Result<Purged, String> {
        let mut context = *context;
        match self.1 {
            Fault::OverlooksHeads => context.head = None,
            Fault::OverlooksOthers => context.oldest_elsewhere = i64::MAX,
            Fault::OverlooksGrace => context.read_time_ms += GRACE_S as u64 * 2_000,
            Fault::HasNoBounds | Fault::UnderstatesTimestamps | Fault::HasNoGroups => {}
        }
        self.0.purge(key, value, &context)
    }
}
