//! The numbers in the summary of a snapshot (specification, appendix F). No reader of rows needs them.

use crate::iceberg::manifest::{DataFile, ROWS};

/// The numbers of files, rows and bytes of some files of a table, for the summary of a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    data_files: i64,
    /// The number of rows in data files. As in the summaries of other engines, deleted rows count, too.
    records: i64,
    delete_files: i64,
    position_deletes: i64,
    bytes: i64,
}

impl Totals {
    pub(super) fn of<'f>(files: impl IntoIterator<Item = &'f DataFile>) -> Self {
        let mut totals = Self::default();
        for file in files {
            let (files, rows) = if file.content == ROWS {
                (&mut totals.data_files, &mut totals.records)
            } else {
                (&mut totals.delete_files, &mut totals.position_deletes)
            };
            *files += 1;
            *rows = rows.saturating_add(file.record_count);
            totals.bytes = totals.bytes.saturating_add(file.file_size_in_bytes);
        }
        totals
    }

    fn plus(self, other: Self) -> Self {
        Self {
            data_files: self.data_files + other.data_files,
            records: self.records.saturating_add(other.records),
            delete_files: self.delete_files + other.delete_files,
            position_deletes: self.position_deletes.saturating_add(other.position_deletes),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// The totals of files by what a new snapshot does with them: it keeps or removes files of the previous
/// snapshot, and adds new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) kept: Totals,
    pub(super) removed: Totals,
    pub(super) added: Totals,
}

impl Changes {
    /// Returns the value of `operation` in the summary. It is the kind of the change; engines that read changes
    /// choose snapshots by this value. `is_replaced` is true if this snapshot replaces all files of an earlier
    /// one.
    pub(super) fn operation(&self, is_replaced: bool) -> &'static str {
        let (removed, added) = (&self.removed, &self.added);
        let is_rewritten = is_replaced || removed.data_files > 0;
        let has_deletes = removed.delete_files > 0 || added.delete_files > 0;
        if is_rewritten || (has_deletes && added.data_files > 0) {
            "overwrite"
        } else if has_deletes {
            "delete"
        } else {
            "append"
        }
    }

    /// Returns the names and numbers of the summary's entries about files. As in the summaries of other
    /// engines, some entries are absent if their number is 0.
    pub(super) fn summary(&self) -> Vec<(&'static str, i64)> {
        let Self {
            kept,
            removed,
            added,
        } = self;
        let total = kept.plus(*added);
        // Other engines leave out what did not happen, too.
        let optional = [
            ("deleted-data-files", removed.data_files),
            ("deleted-records", removed.records),
            ("removed-files-size", removed.bytes),
            ("added-delete-files", added.delete_files),
            ("added-position-delete-files", added.delete_files),
            ("added-position-deletes", added.position_deletes),
            ("removed-delete-files", removed.delete_files),
            ("removed-position-delete-files", removed.delete_files),
            ("removed-position-deletes", removed.position_deletes),
        ];
        let always = [
            ("added-data-files", added.data_files),
            ("added-records", added.records),
            ("added-files-size", added.bytes),
            ("total-data-files", total.data_files),
            ("total-records", total.records),
            ("total-files-size", total.bytes),
            ("total-delete-files", total.delete_files),
            ("total-position-deletes", total.position_deletes),
            ("total-equality-deletes", 0),
        ];
        let happened = optional.into_iter().filter(|(_, number)| *number > 0);
        always.into_iter().chain(happened).collect()
    }
}
