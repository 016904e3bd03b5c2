//! The data files of the newest publication of a table: the search for a row in these files, and the
//! rows that are written again because their data file is removed.

use std::mem;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ebb_publish::rows::{LeftRows, Positions, RowFiles, RowKeys, RowsError};
use ebb_publish::target::Target;
use ebb_scheduler::runtime::TaskError;

use super::job::lock;
use super::plan::TablePlan;
use crate::inputs::{RewrittenRow, cells_of};

/// The data files of a table's newest publication, opened for lookups of rows. The tasks of a job
/// share them. The first task that needs them opens them.
#[derive(Default)]
pub(super) struct Previous {
    files: Mutex<Option<Arc<RowFiles>>>,
}

/// Returns the error of a task that cannot read a file of the newest publication.
pub(super) fn of_rows(error: RowsError) -> TaskError {
    match error {
        RowsError::Target(error) => TaskError::failed(error),
        // Every attempt would find the same.
        RowsError::File { .. } => TaskError::fatal(error),
    }
}

impl Previous {
    fn files(&self, target: &Target, table: &TablePlan) -> Result<Arc<RowFiles>, TaskError> {
        let mut files = lock(&self.files);
        if let Some(files) = &*files {
            return Ok(Arc::clone(files));
        }
        let keys = table.keys.clone();
        let key_of = move |values: &[Option<Vec<u8>>]| {
            keys.key_of(values).map_err(|error| error.to_string())
        };
        let keys = RowKeys::new(table.columns[..table.key_columns].to_vec(), key_of);
        let opened = RowFiles::open(target, table.live.clone(), keys);
        let opened = Arc::new(opened.map_err(of_rows)?);
        *files = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Opens a lookup of the positions of rows in the data files of the newest publication, by the
    /// rows' keys.
    pub(super) fn positions(
        &self,
        target: &Target,
        table: &TablePlan,
    ) -> Result<Positions, TaskError> {
        Ok(Positions::new(self.files(target, table)?))
    }
}

/// A data file that is removed, so that its rows are written again.
struct LeavingFile<'p> {
    /// The number and the plan of the file's table.
    of: (u32, &'p TablePlan),
    /// The index of the file in [`TablePlan::live`].
    place: usize,
    /// The key of the file's first row, which may be deleted.
    first_key: Vec<u8>,
    /// The key of the file's last row, which may be deleted.
    last_key: Vec<u8>,
}

/// A file that is removed, while its rows are read.
struct OpenFile<'p> {
    file: LeavingFile<'p>,
    /// The next row.
    head: RewrittenRow,
    /// The rows behind `head`.
    rows: LeftRows,
}

/// The range of keys of a task.
struct TaskKeys {
    lower: Bytes,
    /// The exclusive end of the range; `None` for no end.
    upper: Option<Bytes>,
}

/// An iterator over the rows that a task writes again, by ascending keys.
///
/// An open file takes some MiB of memory, and a task may write any number of files again. So a file
/// is opened when the rows reach its first key, and closed after its last row. The files that one
/// publication added to an Iceberg table have separate ranges of keys, so at most one of them is
/// open at a time.
pub(super) struct RewrittenRows<'p> {
    target: &'p Target,
    keys: TaskKeys,
    /// The files that are still to be opened, by descending first keys.
    ahead: Vec<LeavingFile<'p>>,
    open: Vec<OpenFile<'p>>,
}

impl TaskKeys {
    /// Returns the next row of `file` that lies in the range; `None` after the last one. `rows` are
    /// the rows of the file.
    ///
    /// # Errors
    /// If the file cannot be read, or if a row lies before the first key of the file or behind its
    /// last one.
    fn next_of(
        &self,
        rows: &mut LeftRows,
        file: &LeavingFile<'_>,
    ) -> Result<Option<RewrittenRow>, TaskError> {
        let (number, table) = file.of;
        while rows.next_row().map_err(of_rows)?.is_some() {
            let values = rows.values();
            let key = table.keys.key_of(&values[..table.key_columns]);
            let key = key.map_err(TaskError::fatal)?;
            // Each task opens only files whose first and last keys lie around its range. So a row
            // with another key could be missing in the new files.
            let is_within = file.first_key <= key && key <= file.last_key;
            if !is_within {
                let url = &table.live[file.place].file.file_path;
                return Err(TaskError::fatal(format!(
                    "{url}: a row has another key than when it was written"
                )));
            }
            if self
                .upper
                .as_ref()
                .is_some_and(|upper| key[..] >= upper[..])
            {
                return Ok(None);
            }
            if key[..] >= self.lower[..] {
                return Ok(Some(RewrittenRow {
                    table: number,
                    key: key.into(),
                    cells: cells_of(values),
                }));
            }
        }
        Ok(None)
    }
}

impl<'p> RewrittenRows<'p> {
    /// Returns the iterator of a task whose keys go from `lower` to before `upper` (without an end
    /// if `None`). It has no rows until tables are added.
    pub(super) fn new(target: &'p Target, lower: Bytes, upper: Option<Bytes>) -> Self {
        Self {
            target,
            keys: TaskKeys { lower, upper },
            ahead: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Adds the rows of the Iceberg table with the number `number`. `previous` is the newest
    /// publication of the table.
    pub(super) fn add(
        &mut self,
        (number, table): (u32, &'p TablePlan),
        previous: &Previous,
    ) -> Result<(), TaskError> {
        let files = previous.files(self.target, table)?;
        let TaskKeys { lower, upper } = &self.keys;
        for (place, first, last) in files.key_ranges() {
            let is_behind = upper.as_ref().is_some_and(|upper| *first >= upper[..]);
            let is_around = !is_behind && *last >= lower[..];
            if is_around && table.rewrites.files.binary_search(&place).is_ok() {
                self.ahead.push(LeavingFile {
                    of: (number, table),
                    place,
                    first_key: first.to_vec(),
                    last_key: last.to_vec(),
                });
            }
        }
        self.ahead.sort_by(|a, b| b.first_key.cmp(&a.first_key));
        Ok(())
    }

    /// Opens a file at its first row in the range of the task, if it has one.
    fn open_file(&mut self, file: LeavingFile<'p>) -> Result<(), TaskError> {
        let (_, table) = file.of;
        let live = &table.live[file.place];
        let mut rows = LeftRows::open(self.target, live, &table.columns).map_err(of_rows)?;
        let lower = &self.keys.lower[..];
        if *lower > file.first_key[..] {
            // The rows before belong to other tasks.
            let key_of = |values: &[Option<Vec<u8>>]| {
                let key = table.keys.key_of(&values[..table.key_columns]);
                key.map_err(|error| error.to_string())
            };
            let skipped = rows.skip_below(self.target, live, lower, key_of);
            skipped.map_err(of_rows)?;
        }
        if let Some(head) = self.keys.next_of(&mut rows, &file)? {
            self.open.push(OpenFile { file, head, rows });
        }
        Ok(())
    }

    /// Returns the index of the open file with the least key; `None` if no file is open.
    fn least(&self) -> Option<usize> {
        let heads = self.open.iter().enumerate();
        let least = heads.min_by(|(_, a), (_, b)| a.head.key.cmp(&b.head.key));
        least.map(|(at, _)| at)
    }

    /// Removes the next file from those that are still to be opened, if the rows have reached its
    /// first key. Returns that file.
    fn take_reached(&mut self) -> Option<LeavingFile<'p>> {
        let least = self.least().map(|at| &self.open[at].head.key);
        (self.ahead).pop_if(|file| least.is_none_or(|key| file.first_key[..] <= key[..]))
    }

    fn step(&mut self) -> Result<Option<RewrittenRow>, TaskError> {
        while let Some(file) = self.take_reached() {
            self.open_file(file)?;
        }
        let Some(at) = self.least() else {
            return Ok(None);
        };
        let OpenFile { file, head, rows } = &mut self.open[at];
        let row = match self.keys.next_of(rows, file)? {
            Some(next) => mem::replace(head, next),
            None => self.open.swap_remove(at).head,
        };
        Ok(Some(row))
    }
}

impl Iterator for RewrittenRows<'_> {
    type Item = Result<RewrittenRow, TaskError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

#[cfg(test)]
mod tests {
    use ebb_publish::commit::{LiveFile, Origin, data_file_name};
    use ebb_publish::data_file::{DataFileWriter, ROW_GROUP_BYTES_MAX};
    use ebb_publish::types::OnEmpty;

    use super::super::PublishRequest;
    use super::super::plan::{PreviousColumns, StoredColumns};
    use super::*;

    fn planned() -> TablePlan {
        let origin = Origin {
            database_id: "d".into(),
            table_id: "t".into(),
            snapshot: "monday".into(),
            sequence_number: 1,
            read_time_s: 1,
        };
        let (stored, before) = (StoredColumns::plain(true), PreviousColumns::default());
        let options = PublishRequest::default();
        TablePlan::new("app/t".into(), origin, stored, &before, &options).unwrap()
    }

    /// Writes a data file with a row for each key.
    fn write(target: &Target, plan: &TablePlan, sequence_number: i64, keys: &[String]) -> LiveFile {
        let unique = format!("{sequence_number}-{}", keys[0]);
        let name = data_file_name(&plan.name, 1, &unique);
        let (columns, on_empty) = (&plan.columns, OnEmpty::Refuse);
        let writer = DataFileWriter::new(Vec::new(), columns, on_empty, ROW_GROUP_BYTES_MAX);
        let mut writer = writer.unwrap();
        for key in keys {
            let cells = [Some(key.as_bytes()), Some(&b"value"[..])];
            let appended = writer.append_keyed(key.as_bytes(), cells, &mut |_| Ok(()));
            appended.unwrap();
        }
        let (bytes, file, index) = writer.finish_keyed(target.url(&name)).unwrap();
        assert!(target.create(&name, bytes.into()).unwrap());
        index.unwrap().store(target, &file).unwrap();
        LiveFile {
            file,
            sequence_number,
            deletes: Vec::new(),
        }
    }

    /// Regression: a task opened all files of its range at once, so its memory grew with the table.
    #[test]
    fn of_many_files_that_are_written_again_one_of_each_publication_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::folder(dir.path()).unwrap();
        let mut plan = planned();
        for publication in 0..2 {
            for file in 0..10 {
                let numbers = (0..20).map(|row| 2 * (20 * file + row) + publication);
                let keys: Vec<String> = numbers.map(|number| format!("{number:04}")).collect();
                let live = write(&target, &plan, publication, &keys);
                plan.live.push(live);
            }
        }
        // The first file of each publication, which lies below the range, and one more stay.
        plan.rewrites.files = (0..20)
            .filter(|place| ![0, 5, 10].contains(place))
            .collect();

        let (lower, upper) = (Bytes::from_static(b"0050"), Bytes::from_static(b"0350"));
        let mut rows = RewrittenRows::new(&target, lower, Some(upper));
        rows.add((7, &plan), &Previous::default()).unwrap();
        // Those of the first publication without the file that stays, and those of the second one.
        assert_eq!(rows.ahead.len(), 7 + 8);
        let mut found = Vec::new();
        while let Some(row) = rows.next() {
            let row = row.unwrap();
            assert!(rows.open.len() <= 2, "{} files are open", rows.open.len());
            assert_eq!(row.table, 7);
            found.push(String::from_utf8(row.key.to_vec()).unwrap());
        }
        let stays = |number: &i32| number % 2 == 0 && (200..240).contains(number);
        let expected = (50..350).filter(|number| !stays(number));
        let expected: Vec<String> = expected.map(|number| format!("{number:04}")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_row_beyond_the_last_key_of_its_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::folder(dir.path()).unwrap();
        let mut plan = planned();
        // Keys that do not compress, because a small file has no index.
        let numbers = (0..2_000_u64).map(|row| row * 0x9e37_79b9_7f4a);
        let keys: Vec<String> = numbers.map(|number| format!("{number:016x}")).collect();
        let live = write(&target, &plan, 1, &keys);
        plan.live.push(live);
        plan.rewrites.files = vec![0];
        // As if the key were another one once it is read: here it includes the value.
        plan.key_columns = 2;
        let mut rows = RewrittenRows::new(&target, Bytes::new(), None);
        rows.add((7, &plan), &Previous::default()).unwrap();
        let error = rows.find_map(Result::err).unwrap().to_string();
        assert!(error.starts_with(&plan.live[0].file.file_path), "{error}");
        assert!(error.contains("another key"), "{error}");
    }
}
