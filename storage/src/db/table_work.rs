//! The work that is chosen for a table.

use std::ops::Range;

use crate::version::TableVersion;

/// A merge of some neighbouring runs of a table into one, or the removal of a run that no reader
/// needs.
#[derive(Debug)]
pub(super) struct TableWork {
    /// The positions, in the table's list, of the runs to merge or to drop; at least one.
    pub(super) runs: Range<usize>,
    /// Whether the runs are dropped unread, because no reader needs them. Otherwise they become one
    /// run.
    pub(super) drops: bool,
    /// Whether the work goes on with an unfinished merge: its output is appended to the output of
    /// the earlier parts, the run that follows `runs` in the table's list (the next older one).
    pub(super) has_output: bool,
}

impl TableWork {
    /// Returns the work of merging the runs at these positions into one run.
    pub(super) fn merge(runs: Range<usize>) -> Self {
        Self {
            runs,
            drops: false,
            has_output: false,
        }
    }

    /// Returns the positions of the runs that no other merge may take meanwhile: the inputs, and
    /// the output of the earlier parts.
    pub(super) fn claimed(&self) -> Range<usize> {
        self.runs.start..self.runs.end + usize::from(self.has_output)
    }

    /// Returns the number of bytes that the work reads; 0 if the runs are dropped unread.
    pub(super) fn bytes_read(&self, version: &TableVersion) -> u64 {
        if self.drops {
            return 0;
        }
        let runs = version.runs[self.runs.clone()].iter();
        runs.map(|run| run.meta().bytes()).sum()
    }
}
