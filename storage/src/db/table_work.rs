//! The work that is chosen for a table.

use std::ops::Range;

use crate::version::TableVersion;

/// The work on some neighbouring runs of a table.
#[derive(Debug)]
pub(super) struct TableWork {
    /// The positions of the runs in the list; at least one.
    pub(super) runs: Range<usize>,
    /// Whether the runs are dropped unread, because no reader needs them. Otherwise they become one
    /// run.
    pub(super) drops: bool,
    /// Whether an unfinished merge goes on: the output is appended to its output so far, the run
    /// that follows `runs` in the table's list (the next older one).
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
    /// the output so far.
    pub(super) fn claimed(&self) -> Range<usize> {
        self.runs.start..self.runs.end + usize::from(self.has_output)
    }

    /// Returns the number of bytes that the work reads.
    pub(super) fn bytes_read(&self, version: &TableVersion) -> u64 {
        if self.drops {
            return 0;
        }
        let runs = version.runs[self.runs.clone()].iter();
        runs.map(|run| run.meta().bytes()).sum()
    }
}
