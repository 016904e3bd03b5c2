//! The layers of a table that a point read searches, one after the other.

use std::sync::Arc;

use crate::memtable::Memtable;
use crate::mutation::{self, Mutation};
use crate::runs::Run;

#[derive(Debug, Clone, Copy)]
pub(super) enum Layer<'v> {
    Memtable(&'v Arc<Memtable>),
    /// An ingested run that waits among the memtables, until the older ones are flushed.
    WaitingRun(&'v Arc<Run>),
    Run(&'v Arc<Run>),
}

impl Layer<'_> {
    /// Returns an upper bound of the timestamps of the layer's values; [`i64::MIN`] if they have
    /// none, [`i64::MAX`] if they are unknown.
    fn greatest_timestamp(self) -> i64 {
        match self {
            Self::Memtable(_) if mutation::is(Mutation::StopAboveMemtables) => i64::MIN,
            Self::Memtable(memtable) => memtable.greatest_timestamp(),
            Self::WaitingRun(run) | Self::Run(run) => run.greatest_timestamp(),
        }
    }

    /// Returns an upper bound of the timestamps in several layers (memtables and runs), the
    /// greatest of their bounds. Layers are in the order of commits, which timestamps need not
    /// follow, so any layer may have the greatest timestamp.
    pub(super) fn greatest_timestamp_of(layers: impl Iterator<Item = Self>) -> i64 {
        let first = mutation::replace(usize::MAX, Mutation::StopByTheNextSource, 1);
        let each = layers.take(first).map(Self::greatest_timestamp);
        let greatest = each.max().unwrap_or(i64::MIN);
        let below = greatest.saturating_sub(1);
        mutation::replace(greatest, Mutation::StopAtEqualTimestamps, below)
    }
}
