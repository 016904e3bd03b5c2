//! The data files of the newest publication of a table: the search for a row in these files, and the
//! rows that are written again because their data file is removed.

use std::iter::Peekable;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use ebb_publish::commit::LiveFile;
use ebb_publish::data_file::Column;
use ebb_publish::rows::{LeftRows, Positions, RowFiles, RowKeys, RowsError};
use ebb_publish::target::Target;
use ebb_scheduler::runtime::TaskError;

use super::plan::TablePlan;
use super::row_keys::KeyForm;
use crate::inputs::{RewrittenRow, cells_of};

/// The state of a table's newest publication that the tasks of a job share: its data files, opened for
/// lookups of rows, and the list of those that this publication removes. The first task that needs one
/// of the two reads it.
#[derive(Default)]
pub(super) struct Previous {
    files: Mutex<Option<Arc<RowFiles>>>,
    leaving: Mutex<Option<Arc<[LeavingFile]>>>,
}

/// A data file that is removed, so that its rows are written again.
struct LeavingFile {
    /// The index of the data file in [`TablePlan::live`].
    place: usize,
    /// The key of the first row that is not deleted in the file.
    first_key: Vec<u8>,
    /// The first key of the next removed file that the same publication added. It is above all keys of
    /// this file. `None` for the last of these files.
    end: Option<Vec<u8>>,
}

/// Returns the value in `place`. The first caller makes this value with `make`.
fn shared<T: Clone>(
    place: &Mutex<Option<T>>,
    make: impl FnOnce() -> Result<T, TaskError>,
) -> Result<T, TaskError> {
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(made) = &*place {
        return Ok(made.clone());
    }
    Ok(place.insert(make()?).clone())
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
    /// Opens a lookup of the positions of rows in the data files of the newest publication, by the
    /// rows' keys.
    pub(super) fn positions(
        &self,
        target: &Target,
        table: &TablePlan,
    ) -> Result<Positions, TaskError> {
        let open = || {
            let keys = table.keys.clone();
            let key_of = move |values: &[Option<Vec<u8>>]| {
                keys.key_of(values).map_err(|error| error.to_string())
            };
            let keys = RowKeys::new(table.columns[..table.key_columns].to_vec(), key_of);
            let files = RowFiles::open(target, table.live.clone(), keys);
            files.map(Arc::new).map_err(of_rows)
        };
        Ok(Positions::new(shared(&self.files, open)?))
    }

    /// Opens a reader of those rows, in data files that the publication removes, whose keys lie from
    /// `lower` to before `upper` (without an upper bound if `None`). These rows have to be written
    /// again.
    pub(super) fn rewritten(
        &self,
        target: &Target,
        (number, table): (u32, &TablePlan),
        (lower, upper): (&[u8], Option<&[u8]>),
    ) -> Result<RewrittenRows, TaskError> {
        let leaving = shared(&self.leaving, || leaving(target, table))?;
        let is_around = |file: &&LeavingFile| {
            let is_behind = upper.is_some_and(|upper| file.first_key[..] >= *upper);
            let is_before = file.end.as_ref().is_some_and(|end| end[..] <= *lower);
            !is_behind && !is_before
        };
        let key_of = |values: &[Option<Vec<u8>>]| {
            let key = table.keys.key_of(&values[..table.key_columns]);
            key.map_err(|error| error.to_string())
        };
        let open = |file: &LeavingFile| -> Result<_, TaskError> {
            let live = &table.live[file.place];
            let mut rows = LeftRows::open(target, live, &table.columns).map_err(of_rows)?;
            if *lower > file.first_key[..] {
                // The rows before belong to other tasks.
                let skipped = rows.skip_below(target, live, lower, key_of);
                skipped.map_err(of_rows)?;
            }
            Ok(FileRows {
                rows,
                table: number,
                key_columns: table.key_columns,
                keys: table.keys.clone(),
                lower: lower.to_vec(),
                upper: upper.map(<[u8]>::to_vec),
            }
            .peekable())
        };
        let files = leaving.iter().filter(is_around).map(open);
        Ok(RewrittenRows {
            files: files.collect::<Result<_, _>>()?,
        })
    }
}

/// Returns the data files that are removed, with their first keys; without those whose rows are all
/// deleted. The data files of one publication were written by tasks with separate ranges of keys, so
/// each file ends before the next one begins.
fn leaving(target: &Target, table: &TablePlan) -> Result<Arc<[LeavingFile]>, TaskError> {
    let keys = &table.columns[..table.key_columns];
    let mut found = Vec::new();
    for &place in &table.rewrites.files {
        if let Some(first_key) = first_key(target, &table.live[place], keys, &table.keys)? {
            found.push((table.live[place].sequence_number, first_key, place));
        }
    }
    found.sort();
    let ends: Vec<_> = found
        .iter()
        .skip(1)
        .map(Some)
        .chain([None])
        .zip(&found)
        .map(|(next, (number, ..))| {
            let next = next.filter(|(of, ..)| of == number);
            next.map(|(_, first_key, _)| first_key.clone())
        })
        .collect();
    let files = found.into_iter().zip(ends);
    let files = files.map(|((_, first_key, place), end)| LeavingFile {
        place,
        first_key,
        end,
    });
    Ok(files.collect())
}

/// Returns the key of the first row that is not deleted in a data file; `None` if all rows are deleted.
fn first_key(
    target: &Target,
    live: &LiveFile,
    columns: &[Column],
    keys: &KeyForm,
) -> Result<Option<Vec<u8>>, TaskError> {
    let mut rows = LeftRows::open(target, live, columns).map_err(of_rows)?;
    if rows.next_row().map_err(of_rows)?.is_none() {
        return Ok(None);
    }
    let key = keys.key_of(rows.values());
    key.map(Some).map_err(TaskError::fatal)
}

/// An iterator over those rows of one data file that lie in a range of keys.
struct FileRows {
    rows: LeftRows,
    table: u32,
    key_columns: usize,
    keys: KeyForm,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

impl FileRows {
    fn step(&mut self) -> Result<Option<RewrittenRow>, TaskError> {
        while self.rows.next_row().map_err(of_rows)?.is_some() {
            let values = self.rows.values();
            let key = self.keys.key_of(&values[..self.key_columns]);
            let key = key.map_err(TaskError::fatal)?;
            if self.upper.as_ref().is_some_and(|upper| key >= *upper) {
                return Ok(None);
            }
            if key >= self.lower {
                return Ok(Some(RewrittenRow {
                    table: self.table,
                    key: key.into(),
                    cells: cells_of(values),
                }));
            }
        }
        Ok(None)
    }
}

impl Iterator for FileRows {
    type Item = Result<RewrittenRow, TaskError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// An iterator over the rows that a task writes again, by ascending keys.
#[derive(Default)]
pub(super) struct RewrittenRows {
    files: Vec<Peekable<FileRows>>,
}

impl RewrittenRows {
    /// Adds the rows of another Iceberg table.
    pub(super) fn append(&mut self, mut other: Self) {
        self.files.append(&mut other.files);
    }
}

impl Iterator for RewrittenRows {
    type Item = Result<RewrittenRow, TaskError>;

    fn next(&mut self) -> Option<Self::Item> {
        let heads = self.files.iter_mut().enumerate();
        let heads = heads.filter_map(|(at, rows)| {
            // An error comes first.
            let key: Option<Bytes> = match rows.peek()? {
                Ok(row) => Some(row.key.clone()),
                Err(_) => None,
            };
            Some((key, at))
        });
        let (_, at) = heads.min()?;
        self.files[at].next()
    }
}
